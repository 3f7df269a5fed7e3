"""The text of a plug-in is stored with runs and sweeps, compared when they are resumed, and executed
only if the user names or trusts it.
"""

import json
import shutil

import pytest

from tests.plugins.plugin_files import MEASURED, POWER, unloading
from tests.support.edited_config import begun_with
from tests.support.small_runs import SMALL
from zoo import config as configs
from zoo.cli.evaluate import main as evaluate
from zoo.cli.main import main as zoo
from zoo.cli.train import main as train
from zoo.config import plugins
from zoo.errors import ConfigError
from zoo.lab.results.sweep_results import load_sweep

FLAGS = [f"--config.{path}={value}" for path, value in (SMALL | {"training.steps": 2}).items()]
CONFIG = ["--config=configs/gpt2.py:smoke", "--config.model.attention.implementation=einsum", *FLAGS]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns the folder of a finished run with a plug-in."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "mine.py").write_text(POWER)
    with pytest.MonkeyPatch.context() as patch, unloading():
        patch.setattr("zoo.config.plugins.cache_directory", lambda: folder / "cache")
        arguments = [*CONFIG, "--config.model.ffn.kind=relu_power", f"--workdir={folder / 'run'}"]
        assert train([*arguments, "--plugin", str(folder / "mine.py")]) == 0
    return folder / "run"


@pytest.fixture
def copied(run, tmp_path, monkeypatch):
    """Returns a copy of the run, which trusts no plug-in yet."""
    shutil.copytree(run, tmp_path / "run")
    return tmp_path / "run"


def test_a_run_stores_its_plugins(run):
    assert (run / "plugins" / "mine.py").read_text() == POWER
    (named,) = json.loads((run / "config.json").read_text())["plugins"]
    (recorded,) = json.loads((run / "meta.json").read_text())["plugins"]
    assert recorded["name"] == "mine.py"
    assert named == f"mine.py:{recorded['sha256'][:16]}"


def test_untrusted_plugins_are_not_executed(copied, capsys):
    marker = copied.parent / "executed"
    text = POWER + f"open({str(marker)!r}, 'w').close()\n"
    (copied / "plugins" / "mine.py").write_text(text)
    content = json.loads((copied / "config.json").read_text())
    reference = plugins.Plugin("mine.py", text, copied).reference
    begun_with(copied, content | {"plugins": [reference]})
    for command in (
        [evaluate, str(copied)],
        [train, f"--config={copied / 'config.json'}", f"--workdir={copied.parent / 'other'}"],
        [train, *CONFIG, f"--workdir={copied}"],
        [zoo, "generate", str(copied), "--prompt", "a"],
        [zoo, "config", "show", str(copied)],
    ):
        function, *arguments = command
        assert function(arguments) == 2
        err = capsys.readouterr().err
        assert "plugins/mine.py, which would be executed on this machine: read it, then add --trust-plugin" in err
        assert len(err.splitlines()) == 1
    assert not marker.exists()
    assert zoo(["config", "show", str(copied), "--trust-plugin"]) == 0
    assert marker.exists()


def test_plugin_paths_in_a_run_config_are_not_executed(copied, tmp_path, capsys):
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')")
    content = json.loads((copied / "config.json").read_text())
    for value in (
        [str(tmp_path / "evil.py")],
        str(tmp_path / "evil.py"),
        [3],
        {"a": 1},
        ["../../evil.py:0123456789abcdef"],
    ):
        (copied / "config.json").write_text(json.dumps(content | {"plugins": value}))
        for arguments in (["config", "show", str(copied), "--trust-plugin"], ["config", "show", str(copied)]):
            assert zoo(arguments) == 2
            assert "executed" not in capsys.readouterr().err.replace("would be executed", "")


def test_naming_a_plugin_once_trusts_it(copied, capsys):
    (copied.parent / "mine.py").write_text(POWER)
    assert zoo(["describe", "relu-power", "--plugin", str(copied.parent / "mine.py")]) == 0
    assert "y = max(0, x W_up)^p W_down" in capsys.readouterr().out
    with unloading():
        plugins.unload(plugins.loaded()[0])
        assert zoo(["config", "show", str(copied)]) == 0


def test_a_changed_plugin_is_rejected_with_a_diff(copied, capsys):
    changed = copied.parent / "mine.py"
    changed.write_text(POWER.replace("jax.nn.relu(x) **", "jax.nn.gelu(x) **"))
    arguments = [*CONFIG, "--config.model.ffn.kind=relu_power", f"--workdir={copied}", "--plugin", str(changed)]
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    assert train(arguments) == 2
    err = capsys.readouterr().err
    assert "was made with another text of the plug-in mine.py" in err
    assert "-        return jax.nn.relu(x) ** self.config.ffn.power" in err
    assert "+        return jax.nn.gelu(x) ** self.config.ffn.power" in err
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before


def test_modified_or_missing_stored_plugins_are_rejected(copied, capsys):
    (copied / "plugins" / "mine.py").write_text(POWER + "# changed\n")
    assert evaluate([str(copied), "--trust-plugin"]) == 2
    assert "plugins/mine.py was changed after the run had started" in capsys.readouterr().err
    (copied / "plugins" / "mine.py").unlink()
    assert evaluate([str(copied), "--trust-plugin"]) == 2
    assert "is missing; name it with --plugin" in capsys.readouterr().err


def test_a_run_resumes_only_with_its_plugins(copied, capsys):
    # The config names neither the plug-in nor its kind, so it does not match the run.
    assert train([*CONFIG, f"--workdir={copied}", "--trust-plugin"]) == 2
    assert "holds a run with plugins=('mine.py:" in capsys.readouterr().err.replace("\n", " ")


def test_a_run_without_plugins_does_not_resume_with_one(copied, capsys):
    content = json.loads((copied / "config.json").read_text())
    begun_with(copied, json.loads(json.dumps(content | {"plugins": []}).replace("relu_power", "relu")))
    (copied.parent / "mine.py").write_text(POWER)
    assert train([*CONFIG, f"--workdir={copied}", "--plugin", str(copied.parent / "mine.py")]) == 2
    assert "holds a run with plugins=(), not ('mine.py:" in capsys.readouterr().err


def test_evaluation_uses_the_stored_plugin(copied, capsys):
    assert evaluate([str(copied), "--trust-plugin", "--json", "--batches", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["lengths"]


def test_averaged_checkpoints_keep_their_plugins(copied, capsys):
    assert zoo(["average", str(copied), "--last", "1", "--out", str(copied.parent / "mean"), "--trust-plugin"]) == 0
    assert (copied.parent / "mean" / "plugins" / "mine.py").read_text() == POWER
    assert evaluate([str(copied.parent / "mean"), "--json", "--batches", "1"]) == 0


def test_a_sweep_record_with_a_plugin_measure_needs_the_plugin(tmp_path):
    (tmp_path / "mine.py").write_text(MEASURED)
    loaded = plugins.load_plugin(tmp_path / "mine.py")
    plugins.store(tmp_path, [loaded.reference])
    record = {
        "name": "x",
        "metric": "measured/always_the_same",
        "arms": [{"name": "a"}],
        "runs": [],
        "seeds": [0],
        "contrasts": [],
    }
    (tmp_path / "experiment.json").write_text(json.dumps(record | {"plugins": [loaded.reference]}))
    assert load_sweep(tmp_path).metric == "measured/always_the_same"
    plugins.unload(loaded)
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(ConfigError, match="add --trust-plugin"):
        load_sweep(tmp_path)
    # If all metrics are known, no plug-in is executed.
    (tmp_path / "experiment.json").write_text(
        json.dumps(record | {"metric": "eval/loss", "plugins": [loaded.reference]})
    )
    load_sweep(tmp_path)
    assert plugins.loaded() == ()


def test_resolving_needs_the_loaded_plugin(tmp_path):
    with pytest.raises(
        ConfigError, match=r"plugins='mine.py:0123456789abcdef' is not loaded; name its file with --plug"
    ):
        configs.resolve({"plugins": ("mine.py:0123456789abcdef",)})
