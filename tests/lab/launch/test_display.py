"""The display of a sweep on a terminal and in a log file, on a fake clock."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from zoo import config
from zoo.lab.launch.display import LiveDisplay, PlainDisplay, format_duration, format_quantity, print_plan
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.training.records.run_folder import FolderState

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    return make_plan(fake.experiment())


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def write(folder, run, **row):
    (folder / run.folder).mkdir(exist_ok=True)
    with open(folder / run.folder / "metrics.jsonl", "a") as file:
        print(json.dumps(row), file=file)


def display_of(kind, plan, tmp_path, **console):
    time = Clock()
    screen = Console(file=io.StringIO(), width=120, **console)
    progress = SweepProgress(tmp_path, plan.runs, plan.runs, 1, "eval/loss")
    return kind(screen, progress, time), time, screen.file


def display_run(display, time, tmp_path, run):
    """Displays one run from its start to its end, refreshed as often as by the pool."""

    def wait(seconds):
        for _ in range(int(seconds * 10)):
            time.now += 0.1
            display.refresh()

    with display:
        display.started([run], 0)
        wait(16)
        write(tmp_path, run, step=10, **{"train/loss": 3.25, "train/tokens_per_second": 1234.5})
        wait(16)
        write(tmp_path, run, step=20, **{"train/loss": None, "nonfinite": ["train/loss"]})
        wait(16)
        write(tmp_path, run, step=40, **{"train/loss": 2.0})
        wait(16)
        write(tmp_path, run, step=40, **{"eval/loss": 1.98})
        display.ended(run, FolderState("done", 40))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0, "0:00"), (59.6, "1:00"), (61, "1:01"), (3661, "1:01:01"), (90000, "25:00:00")],
)
def test_format_duration(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (532, "532"),
        (1000, "1.00 k"),
        (12345, "12.3 k"),
        (999999, "1.00 M"),
        (1.25e6, "1.25 M"),
        (2e9, "2.00 G"),
        (3.5e14, "350 T"),
    ],
)
def test_format_quantity(value, text):
    assert format_quantity(value) == text


def test_plan_with_states(plan):
    screen = Console(file=io.StringIO(), width=160)
    states = {run.folder: FolderState("new") for run in plan.runs}
    states["norm=pre+warm-up=10-seed0"] = FolderState("unfinished", 1250)
    states["norm=post+warm-up=0-seed0"] = FolderState("done", 40)
    states["norm=post+warm-up=0-seed1"] = FolderState("done", 40)
    states["norm=post+warm-up=10-seed0"] = FolderState("failed", 3)
    print_plan(screen, plan, states)
    text = screen.file.getvalue()
    lines = text.splitlines()
    assert lines[0] == "norms (tiny): Which norm?"
    assert "Claim X1: pre is better (nobody)" in text
    assert "expected: pre ends below post" in text
    rows = [line.split("  ") for line in lines if line.startswith(("pre ", "post "))]
    assert [[cell.strip() for cell in row if cell.strip()] for row in rows] == [
        ["pre", "0", "1.02 k", "0", "1.02 k", "6.14 k", "640", "0.62", "40", "adamw 0.001, constant", "2 new"],
        [
            "pre",
            "10",
            "1.02 k",
            "0",
            "1.02 k",
            "6.14 k",
            "640",
            "0.62",
            "40",
            "adamw 0.001, constant, warm-up 10",
            "1 unfinished at step 1,250, 1 new",
        ],
        ["post", "0", "1.02 k", "0", "1.02 k", "6.14 k", "640", "0.62", "40", "adamw 0.001, constant", "2 done"],
        [
            "post",
            "10",
            "1.02 k",
            "0",
            "1.02 k",
            "6.14 k",
            "640",
            "0.62",
            "40",
            "adamw 0.001, constant, warm-up 10",
            "1 failed at step 3, 1 new",
        ],
    ]
    assert lines[lines.index("") + 6] == "data of every arm: " + f"text:{fake.__file__}, batches of 2 rows x 8 tokens"
    assert "warning" not in text


def test_a_plan_shows_the_parameters_that_a_token_uses_where_an_arm_has_others(plan):
    def cost(resolved):
        found = fake.cost(resolved)
        if resolved.model.norm.placement == "post":
            found.parameters["active"] = 512
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arm_resolution, "count_cost", cost)
        sparse = make_plan(fake.experiment(allow=("parameters", "flops")))
    shown = []
    for each in (plan, sparse):
        screen = Console(file=io.StringIO(), width=200)
        print_plan(screen, each, {run.folder: FolderState("new") for run in each.runs})
        shown.append(screen.file.getvalue())
    assert "active" not in shown[0]
    assert "active" in shown[1]
    rows = [line for line in shown[1].splitlines() if line.startswith(("pre ", "post "))]
    assert ["512" in line.split() for line in rows] == [False, False, True, True]


def test_names_with_markup_are_shown_as_they_are(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    plan = make_plan(
        fake.experiment(
            factors={"[bold]x": {"[red]a": {"model.dim": 64}, "[/]": {"model.dim": 32}}},
            contrasts=(),
            question="[blink]why[/]?",
            allow=("parameters", "flops"),
        )
    )
    screen = Console(file=io.StringIO(), width=140)
    print_plan(screen, plan, {run.folder: FolderState("new") for run in plan.runs})
    text = screen.file.getvalue()
    assert all(
        part in text for part in ("[bold]x", "[red]a", "[/]", "[blink]why[/]?", 'warning: factor "[bold]x" changes')
    )


def test_plain_display(plan, tmp_path):
    display, time, file = display_of(PlainDisplay, plan, tmp_path)
    display_run(display, time, tmp_path, plan.runs[0])
    text = file.getvalue()
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "start    norm=pre+warm-up=0 seed 0"
    assert lines[1].strip().startswith("norm=pre+warm-up=0 seed 0: loading and compiling (0:1")
    assert "         norm=pre+warm-up=0 seed 0: step 10/40, loss 3.2500, 1,230 tokens/s" in lines
    assert any("step 20/40, loss not finite" in line and line.endswith("left") for line in lines)
    assert any(line.endswith("step 40/40, loss 2.0000, evaluating and saving") for line in lines)
    assert lines[-2] == "done     norm=pre+warm-up=0 seed 0: eval/loss 1.9800 (1:04)"
    assert lines[-1].strip().startswith("runs 1/8, 1:04 elapsed, about ")
    # The run and the sweep have a line each about every fifteen seconds, so that a log file stays
    # short.
    assert 8 <= len(lines) <= 13


def test_live_display(plan, tmp_path):
    display, time, file = display_of(LiveDisplay, plan, tmp_path, force_terminal=True)
    display_run(display, time, tmp_path, plan.runs[0])
    text = file.getvalue()
    assert "loading and compiling (0:10)" in text
    assert "step 10/40, loss 3.2500, 1,230 tokens/s" in text
    assert "evaluating and saving" in text
    assert "runs 0/8" in text
    assert "━" in text
    # The line of a finished run stays above the live picture, which is erased.
    assert "done     norm=pre+warm-up=0 seed 0: eval/loss 1.9800 (1:04)" in re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "\x1b[?25h" in text[-40:]


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_retries_failures_and_interruptions(plan, tmp_path, kind):
    display, _, file = display_of(kind, plan, tmp_path, force_terminal=kind is LiveDisplay, color_system=None)
    first, second, third = plan.runs[:3]
    with display:
        display.started([first], 20)
        display.retried(first, FolderState("unfinished", 20, "killed by SIGKILL"))
        display.started([first], 20)
        display.ended(first, FolderState("failed", 20, "ValueError: [boom]"))
        display.started([second], 0)
        display.ended(second, FolderState("done", 40))
        display.started([third], 0)
        display.stopping()
        display.ended(third, FolderState("diverged", 5, "loss is not finite."))
        display.started([plan.runs[3]], 0)
        display.ended(plan.runs[3], FolderState("unfinished", 7, "saved"))
    text = file.getvalue()
    assert "retry    norm=pre+warm-up=0 seed 0: killed by SIGKILL" in text
    assert "failed   norm=pre+warm-up=0 seed 0: step 20, ValueError: [boom] (0:00)" in text
    assert "done     norm=pre+warm-up=10 seed 0: eval/loss not written (0:00)" in text
    assert "stopping: 1 active run will save first; a second signal kills" in text
    assert "diverged norm=post+warm-up=0 seed 0: step 5, loss is not finite (0:00)" in text
    assert "stopped  norm=post+warm-up=10 seed 0: step 7, saved (0:00)" in text
    assert "runs 3/8" in text
    assert "runs 4/8" not in text
    if kind is PlainDisplay:
        assert text.startswith("start    norm=pre+warm-up=0 seed 0, continues from about step 20\n")


@pytest.mark.parametrize("kind", [PlainDisplay, LiveDisplay])
def test_the_runs_of_a_program_share_a_line(plan, tmp_path, kind):
    display, clock, screen = display_of(kind, plan, tmp_path, force_terminal=kind is LiveDisplay, color_system=None)
    runs = plan.runs[:4]
    with display:
        display.started(runs, 0)
        clock.now += 16
        display.refresh()
        for number, run in enumerate(runs):
            write(tmp_path, run, step=40, **{"eval/loss": 2.0 + number / 10})
        ends = [FolderState("done", 40)] * 3 + [FolderState("diverged", 20, "loss is not finite")]
        display.ended_together(list(zip(runs, ends, strict=True)))
    lines = [line.strip() for line in screen.getvalue().splitlines() if "seed" in line]
    name = "runs as one program (norm=pre+warm-up=0 seed 0 and"
    assert any(f"done     3 {name} 2 more): eval/loss 2.0000 to 2.2000 (0:16)" in line for line in lines)
    assert any(f"diverged {runs[3].name}: step 20, loss is not finite" in line for line in lines)
    assert any(f"4 {name} 3 more)" in line and "loading and compiling" in line for line in lines)
    # No line names a single one of the members that are done.
    assert not any(runs[1].name in line for line in lines)
