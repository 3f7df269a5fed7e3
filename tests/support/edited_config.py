"""A run as if it had been begun with another config."""

import json

from zoo import config as configs
from zoo.nested import flatten


def begun_with(run, config):
    """Writes a config into a run's folder, and its identity into the record of the start."""
    (run / "config.json").write_text(json.dumps(config))
    meta = json.loads((run / "meta.json").read_text()) | {"identity": configs.identity(flatten(config))}
    (run / "meta.json").write_text(json.dumps(meta))
