"""A tuned sweep of two arms with fake training runs, for tests of tuning (its fixtures are in
tests/lab/planning/conftest.py).
"""

import json
from pathlib import Path

from zoo import config
from zoo.lab.experiment import Tune, levels

fake = config.import_file(Path(__file__).parents[1] / "lab" / "fake_run.py", "helper")
RATE = "optimizer.learning_rate"
GRID = (0.001, 0.003, 0.01)
PRE, POST = "norm=pre,warm-up=0", "norm=post,warm-up=0"
# {norm placement: (best rate, loss there, curvature)}.
CURVES = {"pre": (0.004, 2.0, 0.2), "post": (0.0021, 2.4, 0.1)}
FLAGS = ("--tune", f"{RATE}=0.01,0.001,3e-3", "--tune-seeds", "2", "--jobs", "4")
# Three values with one seed, and four with two, of which one is done.
RUNS_OF_AN_ARM = 3 + 4 * 2 - 1


def experiment(**changes):
    return fake.experiment(
        **{
            "factors": {
                "norm": levels("model.norm.placement", "pre", "post"),
                "warm-up": levels("schedule.warmup_steps", 0),
            },
            "tune": Tune(RATE, GRID),
            **changes,
        }
    )


def rate_of(folder):
    path = Path("runs/norms") / folder.replace(",", "+") / "config.json"
    return json.loads(path.read_text())["optimizer"]["learning_rate"]
