"""What data sets of text answer where those with labels have more to say."""

from typing import Any


class UnlabelledDataset:
    """Text: its losses are means over tokens, and no example has a label."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of classes: text has none."""
        return ()

    def measure(self, outputs: Any, length: int | None = None) -> dict[str, float]:
        """No scores of predictions: of text all are means over tokens."""
        return {}
