"""A stand-in for the training process, with the same files and exit codes, and helpers that
tests of the laboratory share.

As a program, `fake_run.py --config FILE --workdir DIR` behaves as $FAKE_RUNS tells for the folder. It
is a JSON object {folder: [behaviour of the first attempt, of the second, ...]}; the last behaviour
repeats, and the default is to finish. $FAKE_LOSSES, {folder: loss}, sets the final losses, and
$FAKE_CURVES, {norm placement: [best rate, loss there, curvature]}, those over the learning rate, with
a noise of 0.002 that only the rate and the seed determine.
`fake_run.py zoo run ...` is the command line with these stand-ins in place of real runs.
"""

import contextlib
import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

STEPS = 40


def command(folder):
    return [sys.executable, str(Path(__file__)), "--config", str(folder / "config.json"), "--workdir", str(folder)]


def cost(resolved):
    from types import SimpleNamespace

    body = resolved.model.dim * resolved.model.num_layers
    return SimpleNamespace(
        parameters={"total": body, "embedding": 0, "body": body, "heads": 0}, flops_per_token=6.0 * body
    )


def experiment(**changes):
    """Two norms x two warm-ups x two seeds, with one contrast."""
    from zoo import config
    from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels

    return Experiment(
        **{
            "name": "norms",
            "question": "Which norm?",
            "base": config.override(
                config.default(),
                {
                    "training.steps": STEPS,
                    "data.source": f"text:{Path(__file__)}",
                    "data.sequence_length": 8,
                    "data.batch_size": 2,
                },
            ),
            "factors": {
                "norm": levels("model.norm.placement", "pre", "post"),
                "warm-up": levels("schedule.warmup_steps", 0, 10),
            },
            "seeds": (0, 1),
            "claim": Claim("X1", "pre is better", "nobody"),
            "contrasts": (
                Contrast(
                    "pre wins",
                    Side({"norm": "pre", "warm-up": "0"}),
                    Side({"norm": "post", "warm-up": "0"}),
                    "superiority",
                    0.1,
                    "pre ends below post",
                ),
            ),
            "size": "tiny",
            **changes,
        }
    )


def unrestricted(factors, **changes):
    """Returns an experiment with these factors in which all differences are allowed."""
    from zoo.lab.declarations import DIFFERENCES

    return experiment(**{"factors": factors, "contrasts": (), "allow": tuple(DIFFERENCES), **changes})


def plan_problems(declared):
    """Returns the lines that refuse an experiment's plan."""
    import pytest

    from zoo.errors import ConfigError
    from zoo.lab.planning.plan import make_plan

    with pytest.raises(ConfigError) as error:
        make_plan(declared)
    return error.value.problems


EXPERIMENT_FILE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fake_run

def get_experiment(size="tiny"):
    return fake_run.experiment(size=size)
"""


class Child:
    def __init__(self, folder):
        self.folder = folder
        self.config = json.loads((folder / "config.json").read_text())
        attempts = folder / "attempts"
        self.attempt = len(attempts.read_text()) if attempts.exists() else 0
        with open(attempts, "a") as file:
            file.write("x")
        checkpoint = folder / "checkpoint"
        self.step = int(checkpoint.read_text()) if checkpoint.exists() else 0

    def status(self, state, reason=None):
        temporary = self.folder / ".status"
        temporary.write_text(json.dumps({"state": state, "step": self.step, "steps": STEPS, "reason": reason}))
        os.replace(temporary, self.folder / "status.json")

    def train(self, until):
        with open(self.folder / "metrics.jsonl", "a") as file:
            while self.step < until:
                self.step += 10
                print(
                    json.dumps(
                        {
                            "step": self.step,
                            "tokens": self.step * 16,
                            "seconds": self.step / 10,
                            "train/loss": 4 - self.step / 100,
                            "train/tokens_per_second": 1234.5,
                        }
                    ),
                    file=file,
                    flush=True,
                )
            if self.step == STEPS:
                post, seed = self.config["model"]["norm"]["placement"] == "post", self.config["seed"]
                # Differences that are the same in every seed decide nothing.
                loss = 2.0 + seed / 100 + post * (1 + seed / 1000)
                loss = self.loss_on_curve(loss)
                loss = json.loads(os.environ.get("FAKE_LOSSES", "{}")).get(self.folder.name, loss)
                print(json.dumps({"step": self.step, "eval/loss": loss}), file=file, flush=True)
        (self.folder / "checkpoint").write_text(str(self.step))

    def loss_on_curve(self, default):
        curves = json.loads(os.environ.get("FAKE_CURVES", "{}"))
        placement, rate = self.config["model"]["norm"]["placement"], self.config["optimizer"]["learning_rate"]
        if placement not in curves:
            return default
        best, lowest, curvature = curves[placement]
        noise = random.Random(f"{self.config['seed']} {rate}").gauss(0, 0.002)
        return lowest + curvature * math.log(rate / best) ** 2 + noise

    def finish(self):
        self.train(STEPS)
        self.status("done")
        return 0

    def fail(self):
        self.status("failed", "the disk is full")
        return 1

    def fail_without_status(self):
        print("Traceback (most recent call last):\nValueError: boom\n")
        return 3

    def fail_without_output(self):
        return 9

    def diverge(self):
        self.train(20)
        self.status("diverged", "loss is not finite at step 20")
        return 4

    def preempt(self):
        self.train(20)
        self.status("preempted")
        return 75

    def kill(self):
        self.status("running")
        self.train(20)
        os.kill(os.getpid(), signal.SIGKILL)

    def succeed_without_status(self):
        self.status("running")
        return 0

    def wait(self):
        """Trains until SIGTERM, then saves."""
        terminated = []
        signal.signal(signal.SIGTERM, lambda *_: terminated.append(True))
        signal.signal(signal.SIGINT, lambda *_: (self.folder / "interrupted").write_text(""))
        self.train(20)
        self.status("running")
        deadline = time.monotonic() + 60
        while not terminated and time.monotonic() < deadline:
            time.sleep(0.02)
        if not terminated:
            return 1
        (self.folder / "checkpoint").write_text(str(self.step))
        self.status("preempted")
        return 75

    def ignore(self):
        """Ignores SIGTERM."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.status("running")
        time.sleep(60)
        return 1


def main(arguments):
    child = Child(Path(arguments[arguments.index("--workdir") + 1]))
    behaviours = behaviours_of(child.folder)
    return getattr(child, behaviours[min(child.attempt, len(behaviours) - 1)])()


def behaviours_of(folder):
    return json.loads(os.environ.get("FAKE_RUNS", "{}")).get(folder.name, ["finish"])


class Popen:
    """Stands in for `subprocess.Popen`: runs without signals run in this process, which is faster."""

    def __new__(cls, arguments, **options):
        inside = arguments[1] == str(Path(__file__)) and not SIGNALLED.intersection(behaviours_of(Path(arguments[-1])))
        return super().__new__(cls) if inside else subprocess.Popen(arguments, **options)

    def __init__(self, arguments, stdout, **options):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            self.returncode = main(arguments[2:])
        stdout.write(output.getvalue().encode())
        self.pid = os.getpid()

    def poll(self):
        return self.returncode

    wait = poll


# Behaviours that end by a signal or wait for one.
SIGNALLED = {"kill", "wait", "ignore"}


def zoo(arguments):
    from zoo.cli.main import main
    from zoo.lab.launch import process_pool
    from zoo.lab.planning import arm_resolution

    process_pool.train_command, arm_resolution.count_cost = command, cost
    process_pool.REUSE_PROCESSES = False
    return main(arguments)


if __name__ == "__main__":
    sys.exit(zoo(sys.argv[2:]) if sys.argv[1] == "zoo" else main(sys.argv[1:]))
