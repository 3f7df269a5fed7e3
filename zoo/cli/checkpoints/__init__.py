"""Commands that read or write checkpoints: `zoo average`, `zoo import`, `zoo export`."""
