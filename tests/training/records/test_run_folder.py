"""The folder of a run: it is read once; with missing records there is one clear line, and no other
record is lost or falsified.
"""

import contextlib
import dataclasses
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.small_runs import curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo.errors import ConfigError, Preempted
from zoo.files import read_json, write_json
from zoo.interop.exporting import load_exportable
from zoo.lab.results.run_records import load_run
from zoo.nested import flatten, unflatten
from zoo.training import startup, trainer
from zoo.training.checkpoints.warm_start import check_start_from, check_teacher, read_weights
from zoo.training.records import record_faults
from zoo.training.records.extension import Extension, record_extension
from zoo.training.records.run_folder import RunFolder
from zoo.training.startup import RunRequest, check
from zoo.training.trained_run import read_settings
from zoo.training.trainer import run

PACKAGE = str(Path(trainer.__file__).parents[1])


def quiet(line):
    del line


class Reads:
    """Counts how often the files of a folder are opened for reading, and its checkpoints listed by
    zoo.
    """

    def __init__(self):
        self.folder, self.counts = None, Counter()
        # It cannot be removed, but counts only where a folder is set.
        sys.addaudithook(self._count)

    def _count(self, event, arguments):
        if self.folder is None or event not in ("open", "os.listdir", "os.scandir"):
            return
        if not isinstance(arguments[0], str | os.PathLike):
            return
        path = Path(arguments[0])
        if event == "open" and path.parent == self.folder and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            self.counts[path.name] += 1
        elif event != "open" and path == self.folder / "checkpoints":
            caller = sys._getframe(1)
            while "pathlib" in caller.f_code.co_filename:
                caller = caller.f_back
            self.counts["checkpoints"] += caller.f_code.co_filename.startswith(PACKAGE)

    @contextlib.contextmanager
    def of_start(self, folder):
        """Counts until the training of a run in `folder` begins."""
        train_started = trainer._train_started

        def train(*arguments):
            self.folder = None
            train_started(*arguments)

        self.folder, self.counts = folder, Counter()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trainer, "_train_started", train)
            yield
        self.folder = None


@pytest.fixture(scope="module")
def reads():
    return Reads()


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, reads):
    """A run of 12 steps, stopped after step 4."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch, stop_requested_at(4, patch), reads.of_start(folder):
        with pytest.raises(Preempted):
            run(small(), folder, quiet)
        # The lock looks for a config.json, and the checkpoints' folder is made before it is listed.
        assert reads.counts == {"config.json": 1, "checkpoints": 1}
    return folder


@pytest.fixture
def folder(stopped, tmp_path):
    return shutil.copytree(stopped, tmp_path / "run")


def test_resumed_run_reads_each_record_once(folder, reads):
    """config.json is read once more before the folder is locked, to refuse other folders, and once as
    it was written, for its identity; metrics.jsonl once for gaps and once to be continued; checkpoints
    are listed again where one is restored.
    """
    with reads.of_start(folder):
        assert run(small(), folder, quiet)["state"] == "done"
    once = dict.fromkeys(("meta.json", "status.json"), 1)
    assert reads.counts == once | {"config.json": 3, "metrics.jsonl": 2, "checkpoints": 2}


def test_finished_run_reads_only_its_records(tmp_path, reads):
    write_json(tmp_path / "config.json", configs.to_plain(configs.resolve(small())))
    write_json(tmp_path / "status.json", {"state": "done", "step": 12, "steps": 12, "reason": None})
    with reads.of_start(tmp_path):
        assert run(small(), tmp_path, quiet)["state"] == "done"
    # There is no meta.json with an identity to compare config.json with.
    assert reads.counts == {"config.json": 3, "status.json": 1}


def test_folder_is_read_under_its_lock(tmp_path, monkeypatch):
    """Another process may have trained the run until it released the lock."""
    first, folder, lock = tmp_path / "first", tmp_path / "run", startup.lock_run_folder
    (first / "checkpoints").mkdir(parents=True)
    for name in ("config.json", "tokenizer.json"):
        (first / name).touch()
    config = small(training__start_from=str(first))

    def lock_trained_run(workdir):
        locked = lock(workdir)
        (workdir / "checkpoints" / "12").mkdir(parents=True)
        write_json(workdir / "config.json", configs.to_plain(configs.resolve(config)))
        write_json(workdir / "status.json", {"state": "done", "step": 12, "steps": 12, "reason": None})
        return locked

    monkeypatch.setattr(startup, "lock_run_folder", lock_trained_run)
    with contextlib.ExitStack() as stack:
        checked = check(RunRequest(config, folder, quiet), "single", stack)
    assert checked.folder.steps == [12]
    assert checked.final_status["step"] == 12


@pytest.mark.parametrize("field", ["training__start_from", "objective__distillation__teacher"])
def test_no_folder_is_made_for_a_run_whose_related_run_is_missing(field, tmp_path):
    with contextlib.ExitStack() as stack, pytest.raises(ConfigError, match="is not a run: there is no"):
        check(RunRequest(small(**{field: str(tmp_path / "none")}), tmp_path / "run", quiet), "single", stack)
    assert not (tmp_path / "run").exists()


def test_folder_stays_as_it_was_read(tmp_path):
    (tmp_path / "checkpoints" / "3").mkdir(parents=True)
    for number in range(2):
        write_json(tmp_path / "status.json", {"state": "running", "step": number})
        write_json(tmp_path / "meta.json", {"identity": number})
        (tmp_path / "metrics.jsonl").write_text('{"step": 5, "train/loss": 1.0}\n' * (number + 1))
        if number == 0:
            read = RunFolder(tmp_path)
            assert (read.steps, read.meta, read.state.step, read.curves.rows) == (
                [3],
                {"identity": 0},
                5,
                [{"step": 5.0, "train/loss": 1.0}],
            )
    (tmp_path / "checkpoints" / "4").mkdir()
    assert (read.newest, read.status["step"], read.meta["identity"], read.curves.disordered_lines) == (3, 0, 0, 0)
    again = RunFolder(tmp_path)
    assert (again.newest, again.status["step"], again.meta["identity"], again.curves.disordered_lines) == (4, 1, 1, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        read.path = tmp_path


@pytest.mark.parametrize(
    ("content", "strict", "tolerant"),
    [
        ("", None, "meta.json: not readable as JSON (it is empty)"),
        (
            "[]",
            "is damaged (a JSON object is expected, found list); restore it",
            "a JSON object is expected, found list",
        ),
        ('{"resumed": 3}', 'is damaged ("resumed" is of type int, not list); restore it', None),
    ],
)
def test_damaged_record_is_refused_or_listed(content, strict, tolerant, tmp_path):
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(ConfigError) if strict else contextlib.nullcontext() as caught:
        assert RunFolder(tmp_path).meta == {}
    assert strict is None or strict in str(caught.value)
    read = RunFolder(tmp_path, strict=False)
    assert read.meta == ({} if tolerant else {"resumed": 3})
    assert (tolerant or "") in "".join(read.problems)
    assert bool(tolerant) == bool(read.problems)


def refused(folder, **changes):
    """Returns the single problem of resuming in a folder, and asserts that nothing in the folder
    changes.
    """
    before = {path: path.read_bytes() for path in folder.rglob("*.json*") if path.is_file()}
    with pytest.raises(ConfigError) as caught:
        run(small(**changes), folder, quiet)
    assert before == {path: path.read_bytes() for path in folder.rglob("*.json*") if path.is_file()}
    (problem,) = caught.value.problems
    return problem


def test_lost_config_is_restored_if_the_identity_is_known(folder, stopped):
    (folder / "config.json").unlink()
    assert "by its meta.json it is another run" in refused(folder, model__dropout=0.5)
    printed = []
    assert run(small(), folder, printed.append)["state"] == "done"
    assert any("config.json was gone; by the identity in meta.json this is the same run" in line for line in printed)
    assert read_json(folder / "config.json") == read_json(stopped / "config.json")


def test_run_without_config_and_identity_is_not_resumed(folder):
    (folder / "config.json").unlink()
    (folder / "meta.json").unlink()
    assert "nothing else tells whether this is the same run; restore config.json" in refused(folder)


def test_lost_metrics_are_refused_until_the_user_agrees(folder):
    (folder / "metrics.jsonl").unlink()
    problem = refused(folder)
    assert "has a checkpoint of step 4, but its metrics.jsonl is gone; restore it" in problem
    assert f"create an empty {folder / 'metrics.jsonl'}" in problem
    (folder / "metrics.jsonl").touch()
    run(small(), folder, quiet)
    assert lines(folder)[0]["step"] == 4


def killed(folder, step):
    """Turns the folder into that of a run killed at a step, with metrics up to it."""
    write_json(folder / "status.json", {"state": "running", "step": 0, "steps": 12, "reason": None})
    text = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    more = [f'{{"step": {number}, "train/loss": 1.0}}\n' for number in range(5, step + 1)]
    (folder / "metrics.jsonl").write_text("".join([*text, *more]))


@pytest.mark.parametrize("how", ["stopped", "resumed", "killed after the second save"])
def test_run_with_lost_checkpoints_is_not_restarted(how, folder):
    shutil.rmtree(folder / "checkpoints")
    if how == "resumed":
        write_json(folder / "status.json", {"state": "running", "step": 3, "steps": 12, "reason": None})
    elif how == "killed after the second save":
        killed(folder, 7)
    problem = refused(folder)
    assert f"was trained to step {7 if 'second' in how else 4}, but its checkpoints are gone; restore" in problem
    assert f"remove or rename {folder} to start again from step 0" in problem


def test_run_killed_before_its_first_checkpoint_restarts(folder, tmp_path):
    """Until the second checkpoint is due, the first one may be unfinished."""
    shutil.rmtree(folder / "checkpoints")
    killed(folder, 6)
    run(small(), folder, quiet)
    run(small(), tmp_path / "straight", quiet)
    assert curves(folder) == curves(tmp_path / "straight")


def test_finished_run_reports_missing_records(tmp_path):

    resolved = configs.resolve(small())
    write_json(tmp_path / "config.json", configs.to_plain(resolved))
    write_json(tmp_path / "status.json", {"state": "done", "step": 12, "steps": 12, "reason": None})
    printed = []
    with contextlib.ExitStack() as stack:
        check(RunRequest(small(), tmp_path, printed.append), "single", stack)
    unknown = "nothing tells whether its config, data, start and software are those that it began with"
    assert [line.split(" is done")[1] for line in printed] == [
        f", but its meta.json is gone or empty: {unknown}",
        ", but its metrics.jsonl is gone",
        ", but its checkpoints are gone",
        " already: 12 steps",
    ]


def edited(folder, **changes):
    """Changes fields in the config.json of a run."""
    flat = flatten(read_json(folder / "config.json"))
    write_json(
        folder / "config.json", unflatten(flat | {path.replace("__", "."): new for path, new in changes.items()})
    )


def test_edited_config_is_refused_wherever_the_run_is_read(folder, tmp_path):
    edited(folder, optimizer__learning_rate=0.5)
    was = f"{folder / 'config.json'} was edited after the run had begun: its identity is"
    assert was in refused(folder, optimizer__learning_rate=0.5)
    # With the config of before, too: the folder says something else than what was trained.
    assert was in refused(folder)
    for read in (
        lambda: read_settings(folder),
        lambda: load_exportable(folder),
        lambda: check_start_from(configs.resolve(small(training__start_from=str(folder)))),
        lambda: check_teacher(configs.resolve(small(objective__distillation__teacher=str(folder)))),
    ):
        with pytest.raises(ConfigError, match="was edited after the run had begun"):
            read()
    assert was in load_run(folder).faults[0]


def test_edits_that_change_no_result_are_none(folder):
    edited(folder, training__eval_every=3, mesh__data=1, optimizer__clip_norm=0)
    assert type(read_json(folder / "config.json")["optimizer"]["clip_norm"]) is int
    assert record_faults.config_edit(RunFolder(folder)) is None
    assert not load_run(folder).faults


def test_interrupted_extension_is_no_edit_and_shorter_config_is_one(folder):
    meta, longer = read_json(folder / "meta.json"), configs.identity(configs.resolve(small(training__steps=20)))
    write_json(folder / "meta.json", meta | {"identity": longer})
    assert "was edited" in record_faults.config_edit(RunFolder(folder))
    extension = Extension(12, 20, 4)
    record_extension(folder, meta, configs.resolve(small(training__steps=20)), extension)
    assert record_faults.config_edit(RunFolder(folder)) is None


def resumed(folder, **changes):
    """Returns the warnings of a resumed run, without its folder."""
    printed = []
    assert run(small(**changes), folder, printed.append)["state"] == "done"
    return [line.partition(f"warning: {folder} ")[2] for line in printed if line.startswith("warning: ")]


def test_lost_meta_and_lost_rows_have_a_line_each(folder):
    (folder / "meta.json").write_text("")
    rows = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in rows if '"step": 2,' not in line]
    assert len(kept) < len(rows)
    (folder / "metrics.jsonl").write_text("".join(kept))
    first, second = resumed(folder)
    assert first.startswith("goes on from step 4, but its meta.json is gone or empty: nothing tells whether")
    assert second == "goes on from step 4, but its metrics.jsonl has no training rows between steps 1 and 3"
    assert read_json(folder / "meta.json")["written_again"] == 4
    assert load_run(folder).faults == (
        "meta.json was lost, and written again at step 4",
        "its metrics.jsonl has no training rows between steps 1 and 3",
    )


def test_emptied_metrics_have_a_line(folder):
    (folder / "metrics.jsonl").write_text("")
    assert resumed(folder) == ["goes on from step 4, but its metrics.jsonl has no rows"]
    shutil.rmtree(folder / "checkpoints" / "12")
    printed = []
    run(small(), folder, printed.append)
    newest = RunFolder(folder).newest
    wanted = f"{folder} is done with 12 steps, but its newest checkpoint is that of step {newest}; restore"
    assert any(line.startswith(f"warning: {wanted}") for line in printed)
    with pytest.raises(ConfigError, match=wanted):
        read_weights(folder, {})


@pytest.mark.parametrize(
    ("steps", "steady", "gaps"),
    [
        ([0, 1, 10, 20, 30], True, []),
        ([0, 1, 10, 30, 40], True, [(10, 30)]),
        ([0, 1, 10, 30, 40], False, [(10, 30)]),
        # The interval fell from 20 to 10 when the run was resumed.
        ([0, 1, 20, 40, 50, 60], False, []),
        ([0, 1, 20, 40, 50, 60], True, [(1, 20), (20, 40)]),
        ([0, 30, 40, 50], True, [(0, 30)]),
    ],
)
def test_gaps_are_distances_beyond_the_interval(steps, steady, gaps):
    assert list(record_faults._gaps(steps, 10, steady)) == gaps


def test_masks_of_an_older_version_have_a_line(tmp_path):
    (tmp_path / "checkpoints" / "4").mkdir(parents=True)
    config = small(model__dropout=0.1)
    for meta, expected in (
        ({"executor": "single"}, True),
        ({"dropout_masks": "rows"}, False),
        ({"executor": "single", "resumed": [{"step": 2, "dropout_masks": "rows"}]}, False),
    ):
        write_json(tmp_path / "meta.json", meta)
        line = record_faults.other_masks(RunFolder(tmp_path), config)
        assert (line is not None) == expected
        assert not expected or "from step 4 on each row has masks of its own" in line
        assert record_faults.other_masks(RunFolder(tmp_path), small()) is None


def test_norms_of_an_older_version_have_a_line(tmp_path):
    (tmp_path / "checkpoints" / "4").mkdir(parents=True)
    mamba2 = {"model__attention__kind": "mamba2", "model__position__kind": "none"}
    config, one_group = (small(**mamba2, model__attention__key_heads=groups) for groups in (2, 1))
    for meta, expected in (({"executor": "single"}, True), ({"mamba2_norms": "groups"}, False), ({}, False)):
        write_json(tmp_path / "meta.json", meta)
        line = record_faults.other_norms(RunFolder(tmp_path), config)
        assert (line is not None) == expected
        assert not expected or "is another function of the same parameters: train it again" in line
        assert record_faults.other_norms(RunFolder(tmp_path), one_group) is None
