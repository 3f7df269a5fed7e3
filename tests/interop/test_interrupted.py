"""Interrupted or failed imports and exports leave no output folder, and the same command then works
again.
"""

import fcntl
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.checkpoints_of_others import imported, zoo
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.interop import exporting
from zoo.interop.output_folder import atomic_folder

pytestmark = pytest.mark.faults

ROOT = Path(__file__).parents[2]
# Writes one file, reports it, and waits to be killed.
WRITER = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from zoo.errors import reported
    from zoo.interop.output_folder import atomic_folder

    @reported
    def main():
        with atomic_folder(Path(sys.argv[1])) as folder:
            (folder / "config.json").write_text("{}")
            print("written", flush=True)
            time.sleep(600)

    sys.exit(main())
""")


@pytest.fixture
def gpt2(tmp_path):
    """A GPT-2 checkpoint and the run imported from it."""
    run = imported(tmp_path, "gpt2", words=99)
    return tmp_path / "source", run


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=lambda x: str(int(x))
)
def test_interrupted_writing_leaves_no_output_folder(number, code, tmp_path):
    out = tmp_path / "out"
    # Background jobs of a shell ignore SIGINT, and subprocesses would inherit that.
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert writer.stdout.readline() == "written\n"
        assert [path.name for path in tmp_path.iterdir()] == [f".out.{writer.pid}.tmp"]
        writer.send_signal(number)
        _, errors = writer.communicate(timeout=60)
    finally:
        writer.kill()
        writer.wait()
    assert writer.returncode == code
    assert "Traceback" not in errors
    # After a SIGKILL, only the next call can clean up; until then a temporary folder remains.
    assert len(list(tmp_path.iterdir())) == (number == signal.SIGKILL)
    with atomic_folder(out) as folder:
        (folder / "x").write_text("x")
    assert [path.name for path in out.iterdir()] == ["x"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_only_abandoned_temporary_folders_are_removed(tmp_path):
    names = [".out.1.tmp", ".out.2.tmp", ".out2.1.tmp", ".out.x.tmp", "out.1.tmp"]
    for name in names:
        (tmp_path / name).mkdir()
    held = os.open(tmp_path / names[0], os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with atomic_folder(tmp_path / "out"):
        pass
    os.close(held)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted({"out", *names} - {".out.2.tmp"})


@pytest.mark.slow(reason="another process is started for each command, only to fail in it")
@pytest.mark.parametrize("command", ["import", "export"])
def test_exceeding_the_file_size_limit(command, gpt2, tmp_path):
    """Uses a subprocess, because the limit applies to a process and Orbax's threads end with it."""
    source, run = gpt2
    arguments = [
        sys.executable,
        "-m",
        "zoo.cli.main",
        command,
        f"hf:{source}" if command == "import" else run,
        "--out",
        tmp_path / "out",
    ]
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"error: --out {tmp_path / 'out'} cannot be written: File too large (" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "source"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(OSError(28, "No space left on device", "x"), 1), (OSError(30, "Read-only file system"), 2)],
    ids=str,
)
def test_write_errors_are_reported(error, code, gpt2, tmp_path, monkeypatch):
    def fail(*arguments):
        raise error

    source, run = gpt2
    monkeypatch.setattr(Tokenizer, "save", fail)
    monkeypatch.setattr(exporting, "write_tensors", fail)
    for command in (["import", f"hf:{source}"], ["export", run]):
        found, out, (line,) = zoo(*command, "--out", tmp_path / "out")
        assert (found, out) == (code, "")
        assert line.startswith(f"error: --out {tmp_path / 'out'} cannot be written: {error.strerror}")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "source"]


def test_other_errors_are_not_reported_as_write_errors(tmp_path):
    for error in (ValueError("a mistake"), FileNotFoundError(2, "No such file", "x")):
        with pytest.raises(type(error)), atomic_folder(tmp_path / "out"):
            raise error
    assert list(tmp_path.iterdir()) == []


def test_output_may_be_a_symlink(gpt2, tmp_path):
    source, _ = gpt2
    (tmp_path / "large").mkdir()
    for name, place in (("new", "large/new"), ("empty", "large")):
        (tmp_path / name).symlink_to(tmp_path / place)
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "new")[0] == 0
    assert (tmp_path / "large" / "new" / "status.json").is_file()
    assert zoo("eval", tmp_path / "new", "--batches", "1", "--lengths", "8", "--text", ROOT / "README.md")[0] == 0
    code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "empty")
    assert (code, errors) == (2, [f"error: --out {tmp_path / 'empty'} is there already and not an empty folder"])


def test_export_into_the_run_itself_is_rejected(gpt2, monkeypatch):
    _, run = gpt2
    before = sorted(run.rglob("*"))
    monkeypatch.chdir(run.parent)
    for out in (run / "out", run / "checkpoints" / "out", Path("run/../run/out")):
        code, _, errors = zoo("export", run, "--out", out)
        assert (code, errors) == (2, [f"error: --out {out} is inside the run; what lies there is the run's own"])
    assert sorted(run.rglob("*")) == before


def test_commands_reject_a_checkpoint_that_is_not_imported(gpt2, tmp_path):
    source, _ = gpt2
    message = f"error: {source} is a checkpoint of another library"
    assert zoo("generate", source, "--prompt", "w1")[::2] == (
        2,
        [f"{message}; zoo import hf:{source} --out DIR makes a run of it"],
    )
    assert zoo("export", source, "--out", tmp_path / "out")[::2] == (2, [f"{message} already, not a run"])


def test_a_missing_shard_is_reported(gpt2, tmp_path):
    source, _ = gpt2
    (source / "model.safetensors").rename(source / "model-00001-of-00002.safetensors")
    (source / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'
    )
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "out") == (
        3,
        "",
        [f"error: {source}/model.safetensors.index.json names model-00002-of-00002.safetensors, which is not there"],
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "source"]
