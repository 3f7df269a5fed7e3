"""`zoo run` with a plug-in, with a stand-in for training: what a sweep stores, and how it resumes."""

import json
from functools import partial

import pytest

from tests.plugins.plugin_files import POWER, unloading
from zoo.config import check_records, plugins
from zoo.config.plugins import load_plugin


@pytest.fixture
def zoo(tmp_path, monkeypatch, command_line):
    """`zoo run --config=small.py` in a folder with a plug-in; no plug-in stays loaded."""
    for module in ("plugins", "check_records"):
        monkeypatch.setattr(f"zoo.config.{module}.cache_directory", lambda: tmp_path / "cache")
    (tmp_path / "mine.py").write_text(POWER)
    (tmp_path / "small.py").write_text(
        "from zoo import config\ndef get_config(argument='x'):\n    return config.override(config.default(), "
        f"{{'training.steps': 40, 'data.batch_size': 2, 'data.source': 'text:{tmp_path / 'mine.py'}'}})\n"
    )

    def call(*words):
        with unloading():
            return command_line("run", *words)

    vary = ("--config=small.py", "--vary", "model.ffn.kind=relu,relu_power", "--seeds", "1", "--name", "sweep")
    return partial(call, *vary)


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_sweep_stores_its_plugins(zoo, tmp_path):
    code, out, err = zoo("--plugin", "mine.py")
    assert (code, err) == (0, "")
    assert "runs 2/2" in out
    sweep = tmp_path / "runs" / "sweep"
    record = json.loads((sweep / "experiment.json").read_text())
    (reference,) = record["plugins"]
    assert record["command"][:5] == ["zoo", "run", "--config=small.py", "--plugin", "mine.py"]
    assert (sweep / "plugins" / "mine.py").read_text() == POWER
    for run in record["runs"]:
        assert (sweep / run["folder"] / "plugins" / "mine.py").read_text() == POWER
        # The plug-in was loaded for the arm with the built-in kind too.
        assert json.loads((sweep / run["folder"] / "config.json").read_text())["plugins"] == [reference]
    # What the report shows without executing the text.
    assert "plug-in: model.ffn.kind=relu_power (mine.py): this text is unchecked; zoo check --plugin mine.py" in out
    page = (sweep / "report.html").read_text()
    for shown in (
        "<h3>model.ffn.kind=relu_power</h3><pre>y = max(0, x W_up)^p W_down (So et al. 2021, with p = 2).</pre>",
        "<li>fields: model.ffn.power (2): p, the exponent of the activation</li>",
        "<li>parameters: the same as the default&#x27;s</li><li>cache: 2 G K numbers per token and layer</li>",
        "<li>this text was not checked when it was run</li>",
        "<p>A feed-forward layer.</p>",
        "return jax.nn.relu(x) ** self.config.ffn.power",
    ):
        assert shown in page
    outcomes = [
        {"property": "shapes", "state": "pass", "reason": "x"},
        {"property": "beams", "state": "FAIL", "reason": "y"},
    ]
    with unloading():
        plugin = load_plugin("mine.py")
        check_records.keep(plugin, plugins.kinds_of(plugin)[0], {}, outcomes)
    code, out, _ = zoo("--plugin", "mine.py")
    assert code == 0
    assert "2 of 2 runs were done already" in out
    assert "plug-in: model.ffn.kind=relu_power (mine.py): checked, 1 property holds, 1 fails (beams)" in out
    page = (sweep / "report.html").read_text()
    assert "<li>checked: 1 property holds, 1 fails (beams)</li><li>beams fails: y</li>" in page


def test_a_dry_run_writes_nothing(zoo, tmp_path):
    before = files(tmp_path)
    code, out, _ = zoo("--plugin", "mine.py", "--dry-run")
    assert code == 0
    assert "2 of 2 runs would be trained" in out
    # Naming the file makes its text trusted, which is recorded in the cache.
    assert {path for path in files(tmp_path) if "cache" not in path.parts} == set(before)


def test_a_sweep_is_not_resumed_with_a_changed_plugin(zoo, tmp_path):
    assert zoo("--plugin", "mine.py")[0] == 0
    (tmp_path / "mine.py").write_text(POWER.replace("(x) **", "(x) * 2 **"))
    before = files(tmp_path / "runs")
    for words in ((), ("--seeds", "2"), ("--dry-run",)):
        code, _, err = zoo("--plugin", "mine.py", *words)
        assert code == 2
        assert "-        return jax.nn.relu(x) ** self.config.ffn.power" in err
        assert "+        return jax.nn.relu(x) * 2 ** self.config.ffn.power" in err
        assert "use another --output, or --fresh" in err
    assert files(tmp_path / "runs") == before
    code, out, _ = zoo("--plugin", "mine.py", "--fresh")
    assert code == 0
    assert "2/2" in out


def test_a_sweep_is_not_resumed_without_its_plugins(zoo, tmp_path):
    assert zoo("--plugin", "mine.py")[0] == 0
    code, _, err = zoo()
    assert code == 2
    assert "'relu_power' is not one of relu, gelu" in err


@pytest.mark.parametrize(
    "words", [("--plugin",), ("--plugin", "none.py"), ("--plugin", "mine.py", "--plugin", "none.py")]
)
def test_bad_plugin_flags_are_reported_in_one_line(zoo, words):
    code, _, err = zoo(*words)
    assert code == 2
    assert len(err.splitlines()) == 1
