"""Whole runs in a folder: the files that they write, how they end, and that they resume bit for
bit.
"""

import gzip
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_runs import OBJECTIVES, curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo.cli import train
from zoo.errors import ConfigError, DataError, Diverged, ZooError
from zoo.files import read_json, write_json
from zoo.training.checkpoints import checkpoint as checkpoint_module
from zoo.training.records.record_faults import config_edit
from zoo.training.records.run_folder import RunFolder
from zoo.training.trainer import run

ROOT = Path(__file__).parents[2]


def quiet(line):
    del line


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """An uninterrupted run for comparison."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    run(small(model__dropout=0.1), folder, quiet)
    return folder


def test_what_a_run_leaves_behind(straight):
    status, meta, config = (read_json(straight / name) for name in ("status.json", "meta.json", "config.json"))
    assert status["state"] == "done"
    assert status["step"] == 12
    assert len(status["parameters_sha256"]) == 64
    assert meta["identity"] == configs.identity(configs.resolve(config))
    assert meta["data"]["fingerprint"]
    assert meta["attention_kernels"] == [
        {"layers": "all layers", "kernel": "einsum", "reason": "model.attention.implementation=einsum"}
    ]
    # The config names the kernel, so no rule chose it.
    assert meta["short_rows_by_einsum"] is False
    assert "peak_memory" not in status
    assert meta["versions"]["jax"]
    assert meta["parameters"]["total"] == sum(meta["parameters"][part] for part in ("embedding", "body", "heads"))
    trained = [line for line in lines(straight) if "train/loss" in line]
    evaluated = [line for line in lines(straight) if "eval/loss" in line]
    assert [line["step"] for line in trained] == list(range(1, 13))
    assert [line["step"] for line in evaluated] == [0, 4, 8, 12]
    assert [line["tokens"] for line in trained] == [128 * step for step in range(1, 13)]
    assert (straight / "tokenizer.json").is_file()
    assert sorted(int(path.name) for path in (straight / "checkpoints").iterdir()) in ([9, 12], [4, 9, 12], [8, 9, 12])


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """(folder, refusals, signal handlers before and after) of the run of `straight` in a folder with a
    colon in its name; a second run is started in the folder meanwhile.
    """
    folder, refusals = tmp_path_factory.mktemp("again") / "a:b", []

    def start_another(line):
        if line == "compiling ...":
            with pytest.raises(ConfigError) as caught:
                run(small(model__dropout=0.1), folder, quiet)
            refusals.append(str(caught.value))

    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]

    before = handlers()
    run(small(model__dropout=0.1), folder, start_another)
    return folder, refusals, (before, handlers())


def test_same_config_gives_the_same_run(straight, again):
    assert curves(again[0]) == curves(straight)
    assert read_json(again[0] / "status.json") == read_json(straight / "status.json")


def test_finished_run_is_not_trained_again(straight):
    before = (straight / "metrics.jsonl").read_bytes()
    printed = []
    assert run(small(model__dropout=0.1), straight, printed.append)["state"] == "done"
    assert "done already" in printed[0]
    assert (straight / "metrics.jsonl").read_bytes() == before


def start(folder: Path, *moments: str) -> subprocess.Popen:
    """Starts the run of `straight` in a process that stops itself by SIGSTOP at each of the moments,
    and writes the moment's name beside the folder.
    """
    program = """
import os, signal, sys
from pathlib import Path
from tests.support.small_runs import small
from zoo.training.checkpoints import checkpoint
from zoo.training.trainer import run
folder, moments = Path(sys.argv[1]), set(sys.argv[2:])
def reach(moment):
    if moment in moments:
        moments.remove(moment)
        folder.with_suffix(".moment").write_text(moment)
        os.kill(os.getpid(), signal.SIGSTOP)
def save(self, step, *rest):
    reach(f"before save {step}")
    original(self, step, *rest)
    reach(f"during save {step}")
def write_manifest(self, step):
    reach(f"before manifest {step}")
    original_manifest(self, step)
def show(line):
    print(line, flush=True)
    reach(line.partition("/")[0])
original, checkpoint.Checkpoints.save = checkpoint.Checkpoints.save, save
original_manifest, checkpoint.Checkpoints._write_manifest = checkpoint.Checkpoints._write_manifest, write_manifest
run(small(model__dropout=0.1), folder, show)
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), *moments], stdout=subprocess.PIPE, text=True, env=environment
    )


MOMENTS = ("before save 6", "during save 6", "before manifest 6", "step 7")


@pytest.fixture(scope="module")
def killed(straight, tmp_path_factory):
    """The folder of one run as a kill at each of the moments leaves it: no thread of a stopped process
    writes while its folder is copied. At the last moment the process is killed.
    """
    top, folders = tmp_path_factory.mktemp("killed"), {}
    process = start(top / "run", *MOMENTS)
    for _ in MOMENTS:
        assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
        moment = (top / "run.moment").read_text()
        folders[moment] = shutil.copytree(top / "run", top / moment)
        process.send_signal(signal.SIGCONT if len(folders) < len(MOMENTS) else signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    return folders | {moment: top / "run"}


@pytest.mark.promise(reason="another process trains")
@pytest.mark.faults
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_run_resumes_bit_for_bit(straight, killed, moment):
    folder = killed[moment]
    assert read_json(folder / "status.json")["state"] == "running"
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 99, "tok')
    run(small(model__dropout=0.1), folder, quiet)
    assert curves(folder) == curves(straight)
    assert (
        read_json(folder / "status.json")["parameters_sha256"]
        == read_json(straight / "status.json")["parameters_sha256"]
    )


@pytest.mark.slow(reason="a few random moments add little to the four above; `make test-faults` makes 200 kills")
@pytest.mark.faults
def test_kills_at_random_moments_do_not_change_the_result(straight, tmp_path):
    """The number of kills is $ZOO_TEST_KILLS, which `make test-faults` sets to 200."""
    moments, kills, number = random.Random(0), int(os.environ.get("ZOO_TEST_KILLS", "2")), 0
    while kills:
        folder, done = tmp_path / str(number), False
        while kills and not done:
            process = start(folder)
            process.stdout.readline()
            try:
                process.wait(moments.uniform(0, 4))
                done = True
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills -= 1
        run(small(model__dropout=0.1), folder, quiet)
        assert curves(folder) == curves(straight)
        sha256 = [read_json(one / "status.json")["parameters_sha256"] for one in (folder, straight)]
        assert sha256[0] == sha256[1]
        number += 1


# Statistics of both kinds: running averages, and random features that are redrawn. Masks of dropout
# do not depend on the objective.
WITH_STATISTICS = OBJECTIVES["masked"] | {
    "model__dropout": 0.1,
    "model__norm__kind": "batchnorm",
    "model__norm__momentum": 0.9,
    "model__attention__kind": "performer",
    "model__attention__redraw_every": 4,
}
RESUMED = ("replaced_tokens", "span", "bidirectional")
SAME_STATE_AS_ABOVE = ("masked_diffusion", "prefix", "denoising", "pairs")
COMPILED = pytest.mark.promise(reason="a model of its own is compiled")
SAME_STATE = pytest.mark.slow(
    reason="differs from the others in its batches alone, which tests/data/pipeline/test_batching.py resumes"
)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(WITH_STATISTICS, id="masked, with statistics"),
        *(pytest.param(OBJECTIVES[name], id=name, marks=COMPILED) for name in RESUMED),
        *(pytest.param(OBJECTIVES[name], id=name, marks=SAME_STATE) for name in SAME_STATE_AS_ABOVE),
    ],
)
def test_every_objective_resumes_bit_for_bit(kind, tmp_path, monkeypatch):
    if pairs := "data__row_format" in kind:
        # With batches of eight of the 27 training pairs, every third or fourth batch crosses the
        # end of an epoch.
        (tmp_path / "pairs.txt").write_text("|".join(f"No {number}. Yes." for number in range(30)))
        kind |= {"data__source": f"text:{tmp_path}/pairs.txt", "data__document_separator": "|"}
    config = small(
        **kind,
        model__num_layers=1,
        training__steps=8,
        training__eval_lengths="32,16,32",
        **({} if "bidirectional" in kind.values() else {"model__position__max_length": 33}),
    )
    run(config, tmp_path / "straight", quiet)

    polls, original = itertools.count(1), checkpoint_module.Checkpoints.poll

    def poll(self):
        original(self)
        if next(polls) == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.Checkpoints, "poll", poll)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "stopped", quiet)
    printed = []
    run(config, tmp_path / "stopped", printed.append)
    assert any("continuing from step 3 of 8" in line for line in printed)
    assert curves(tmp_path / "stopped") == curves(tmp_path / "straight")
    one, other = (read_json(tmp_path / name / "status.json")["parameters_sha256"] for name in ("stopped", "straight"))
    assert one == other
    last = lines(tmp_path / "straight")[-1]
    assert last["tokens"] == 8 * 8 * 16 or pairs
    assert last["eval/loss@16"] == last["eval/loss"] != last["eval/loss@32"] > 0
    trained = [line["train/loss"] for line in lines(tmp_path / "straight") if "train/loss" in line]
    assert trained[-1] < trained[0]


@pytest.mark.promise(reason="a model of its own is compiled")
def test_unsupported_evaluation_length_is_skipped_with_a_line(tmp_path):
    printed = []
    config = small(**OBJECTIVES["prefix"], model__num_layers=1, training__steps=1, training__eval_lengths="6,8,40")
    run(config, tmp_path / "run", printed.append)
    because = "not fused: model.attention.implementation=einsum"
    assert f"attention  einsum (encoder; decoder; cross-attention), {because}" in printed
    assert "not evaluated at length 6: objective.prefix_length=6 leaves nothing of it to predict" in printed
    assert "not evaluated at length 40: the decoder's learned positions end at 16" in printed
    last = lines(tmp_path / "run")[-1]
    assert last["eval/loss@8"] > 0
    assert not {"eval/loss@6", "eval/loss@40"} & set(last)


@pytest.mark.faults
def test_stop_signal_saves_and_exits_with_75(straight, tmp_path, monkeypatch, capsys):
    folder, config = tmp_path / "run", tmp_path / "config.json"
    write_json(config, configs.to_plain(configs.resolve(small(model__dropout=0.1, training__checkpoint_every=0))))
    with stop_requested_at(1, monkeypatch):
        assert train.main([f"--config={config}", f"--workdir={folder}"]) == 75
    assert "the same command continues" in capsys.readouterr().err
    status = read_json(folder / "status.json")
    assert (status["state"], status["step"]) == ("preempted", 2)
    run(configs.load(str(config)), folder, quiet)
    assert curves(folder) == curves(straight)


@pytest.mark.promise(reason="another process trains")
@pytest.mark.faults
def test_terminated_process_saves_and_exits_with_75(straight, tmp_path):
    folder = tmp_path / "run"
    config = tmp_path / "config.json"
    write_json(config, configs.to_plain(configs.resolve(small(model__dropout=0.1, training__checkpoint_every=0))))
    process = subprocess.Popen(
        [sys.executable, "train.py", f"--config={config}", f"--workdir={folder}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("step 1/"):
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("the run was over before the signal came")
    assert process.returncode == 75, errors
    assert "the same command continues" in errors
    status = read_json(folder / "status.json")
    assert status["state"] == "preempted"
    run(configs.load(str(config)), folder, quiet)
    assert curves(folder) == curves(straight)


def test_run_restores_the_signal_handlers(again):
    before, after = again[2]
    assert before == after


def test_resuming_with_another_config_is_refused_with_the_difference(straight):
    before = {path: path.read_bytes() for path in straight.glob("*.json*")}
    with pytest.raises(ConfigError) as caught:
        run(small(model__dropout=0.2, optimizer__learning_rate=1.0), straight, quiet)
    assert [line.split(" with ")[1].split(";")[0] for line in caught.value.problems] == [
        "model.dropout=0.1, not 0.2",
        "optimizer.learning_rate=0.003, not 1.0",
    ]
    assert before == {path: path.read_bytes() for path in straight.glob("*.json*")}


def test_reporting_intervals_do_not_change_the_run(straight, tmp_path):
    config = small(
        model__dropout=0.1, training__log_every=3, training__checkpoint_every=0, training__keep_checkpoints=1
    )
    run(config, tmp_path / "run", quiet)
    assert (
        read_json(tmp_path / "run" / "status.json")["parameters_sha256"]
        == read_json(straight / "status.json")["parameters_sha256"]
    )


def test_workdir_in_use_is_refused_with_its_owner(again):
    (refusal,) = again[1]
    assert f"in use by process {os.getpid()}" in refusal


def test_divergence_ends_the_run_with_a_reason(tmp_path):
    with pytest.raises(Diverged, match="not applied"):
        run(small(model__dropout=0.1, optimizer__learning_rate=1e30), tmp_path, quiet)
    status = read_json(tmp_path / "status.json")
    assert status["state"] == "diverged"
    assert "gradient norm" in status["reason"]
    last = lines(tmp_path)[-1]
    assert last["nonfinite"]
    assert any(last[name] is None for name in last["nonfinite"])


def test_resumed_run_keeps_the_record_of_its_start(straight, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(straight, folder)
    meta = read_json(folder / "meta.json")
    write_json(folder / "meta.json", meta | {"commit": "the first"})
    shutil.rmtree(folder / "checkpoints" / "12")
    write_json(folder / "status.json", read_json(folder / "status.json") | {"state": "running"})
    run(small(model__dropout=0.1), folder, quiet)
    after = read_json(folder / "meta.json")
    assert after["commit"] == "the first"
    assert [(entry["step"], entry["commit"]) for entry in after["resumed"]] == [(9, meta["commit"])]
    assert curves(folder) == curves(straight)


def test_run_resumes_with_records_emptied_by_a_crash(straight, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(straight, folder)
    for name in ("status.json", "meta.json"):
        (folder / name).write_text("")
    with (folder / "metrics.jsonl").open("a") as file:
        file.write("5\n{}\n")
    shutil.rmtree(folder / "checkpoints" / "12")
    assert run(small(model__dropout=0.1), folder, quiet)["state"] == "done"
    assert curves(folder) == curves(straight)


def test_run_with_only_damaged_checkpoints_is_not_restarted(straight, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(straight, folder)
    (folder / "status.json").unlink()
    before = (folder / "metrics.jsonl").read_bytes()
    for manifest in folder.glob("checkpoints/*/manifest.json"):
        manifest.write_text("x")
    for _ in range(2):
        with pytest.raises(DataError, match="no sound checkpoint"):
            run(small(model__dropout=0.1), folder, quiet)
        assert (folder / "metrics.jsonl").read_bytes() == before


def test_sweep_folder_as_workdir_is_refused(tmp_path):
    (tmp_path / "experiment.json").write_text("{}")
    with pytest.raises(ConfigError, match="folder of a sweep"):
        run(small(), tmp_path, quiet)


def test_workdir_name_may_contain_a_colon(again):
    assert ":" in again[0].name
    assert run(small(model__dropout=0.1), again[0], quiet)["state"] == "done"


def test_kernel_of_another_platform_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cudnn runs on gpu only, and this is a cpu"):
        run(small(model__attention__implementation="cudnn", model__dtype="bfloat16"), tmp_path, quiet)


def test_a_run_goes_on_where_its_text_was_moved_or_compressed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = b"some words that repeat, " * 300
    Path("text.txt").write_bytes(content)
    fields = {"model__dropout": 0.1, "training__steps": 2}
    run(small(data__source="text:text.txt", **fields), tmp_path / "run", quiet)
    write_json(tmp_path / "run" / "status.json", read_json(tmp_path / "run" / "status.json") | {"state": "running"})
    Path("moved").mkdir()
    Path("moved/text.gz").write_bytes(gzip.compress(content))
    Path("text.txt").unlink()
    run(small(data__source="text:moved/text.gz", **fields), tmp_path / "run", quiet)
    assert read_json(tmp_path / "run" / "config.json")["data"]["source"] == "text:moved/text.gz"
    assert config_edit(RunFolder(tmp_path / "run")) is None
    Path("other.txt").write_bytes(content + b"and")
    with pytest.raises(ConfigError, match=r"holds a run with data.source='text:moved/text.gz', not 'text:other.txt'"):
        run(small(data__source="text:other.txt", **fields), tmp_path / "run", quiet)


def test_resuming_with_changed_text_is_refused(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("some words that repeat, " * 300)
    config = small(data__source=f"text:{text}", model__dropout=0.1)
    folder = tmp_path / "run"
    run(config, folder, quiet)
    status = read_json(folder / "status.json") | {"state": "running"}
    write_json(folder / "status.json", status)
    text.write_text("other words that repeat, " * 300)
    with pytest.raises(ConfigError, match=r"the text of data.source has changed"):
        run(config, folder, quiet)


def test_failure_is_recorded_with_its_reason(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module.Checkpoints, "save", broken)
    with pytest.raises(ZooError, match=r"cannot be written: No space left"):
        run(small(model__dropout=0.1), tmp_path, quiet)
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["state"] == "failed"
    assert "No space left" in status["reason"]
