"""`zoo check`: its lines, exit codes and record, and where the record of a plug-in is shown."""

import json

import pytest

from tests.plugins.plugin_files import MEASURED, POWER, unloading
from zoo.checks import references, structure
from zoo.cli import main
from zoo.config import check_records, plugins
from zoo.config.plugins import load_plugin

REFERENCE = '''
import numpy as np


def reference(config, values, x, positions):
    """The same layer with the power 2."""
    up, down = values["up"], values["down"]
    return np.maximum(0, x @ up["kernel"] + up["bias"]) ** 2 @ down["kernel"] + down["bias"]

'''
COMPARED = POWER.replace("plugin.register(\n", f"{REFERENCE}plugin.register(\n").replace(
    '        "max(0, x W1)^p W2 (So et al. 2021)",\n',
    '        "max(0, x W1)^p W2 (So et al. 2021)",\n        reference=reference,\n',
)
WRONG = COMPARED.replace("** self.config.ffn.power", "** 3")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a cache of its own; of the properties only those that compile little are run."""
    for module in ("plugins", "check_records"):
        monkeypatch.setattr(f"zoo.config.{module}.cache_directory", lambda: tmp_path / "cache")
    few = {"shapes": structure.shapes, "reference": references.reference}
    monkeypatch.setattr("zoo.checks.check.PROPERTIES", few)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(COMPARED)
    return tmp_path


@pytest.fixture
def zoo(capsys):
    """Calls the command line: call(words ...) returns (exit code, stdout, stderr)."""

    def call(*words):
        with unloading():
            code = main.main(list(words))
        return code, *capsys.readouterr()

    return call


def test_a_line_for_each_property_and_a_summary(zoo):
    code, out, err = zoo("check", "--plugin", "mine.py")
    assert (code, err) == (0, "")
    title, shapes, reference, total = out.splitlines()
    assert title == "model.ffn.kind=relu_power: max(0, x W1)^p W2 (So et al. 2021)"
    assert shapes.split()[:2] == ["shapes", "pass"]
    assert "[2, 12, 16] to [2, 12, 16] in float32 and bfloat16" in shapes
    assert reference.split()[:4] == ["reference", "pass", "they", "agree"]
    assert total.startswith("2 properties hold (")


def test_a_failure_is_the_exit_code_1(zoo, folder):
    (folder / "mine.py").write_text(WRONG)
    code, out, _ = zoo("check", "--plugin", "mine.py", "relu_power")
    assert code == 1
    assert "reference           FAIL            the layer differs from the function by" in out
    assert "1 property holds, 1 fails (reference)" in out


def test_an_error_of_the_plugin_is_a_failure_with_its_line(zoo, folder):
    (folder / "mine.py").write_text(POWER.replace("return jax", "return jaxx"))
    code, out, _ = zoo("check", "--plugin", "mine.py")
    assert code == 1
    assert "shapes              FAIL            NameError, line 12,: name 'jaxx' is not defined" in out


def test_json_of_a_built_in_kind(zoo):
    for word in ("ffn=relu", "feed-forward=relu", "model.ffn.kind=relu"):
        code, out, _ = zoo("check", word, "--json")
        assert code == 0
        (shapes, reference) = json.loads(out)["kinds"]["model.ffn.kind=relu"]
        assert (shapes["property"], shapes["state"]) == ("shapes", "pass")
        assert reference == {
            "property": "reference",
            "state": "not applicable",
            "reason": "the kind gives no function; see Kind(reference=...)",
        }


def test_settings_reach_the_models(zoo):
    assert "[2, 12, 32] to [2, 12, 32]" in zoo("check", "ffn=relu", "--set", "model.dim=32")[1]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "nothing to check; name a kind, or a plug-in that registers one: zoo check --plugin FILE"),
        (("--plugin", "none.py"), "plug-in none.py does not exist"),
        (("--plugin", "broken.py"), "plug-in broken.py, line 1, fails: SyntaxError"),
        (("--plugin", "measured.py"), "measured.py registers no kind, so there is nothing to check"),
        (("reluu",), "there is no kind 'reluu' (did you mean \"relu\"?)"),
        (("norms=rmsnorm",), "'norms=rmsnorm': 'norms' has no kinds (did you mean \"norm\"?)"),
        (("norm=rmsnor",), 'there is no model.norm.kind=rmsnor (did you mean "rmsnorm"?)'),
        (("none",), "is a kind of several fields: model.norm.kind=none"),
        (("relu", "--set", "model.dim"), "--set model.dim: expected PATH=VALUE"),
        (("relu", "--set", "model.dims=3"), "model.dims"),
        (("relu", "--set", "model.attention.num_heads=5"), "is not divisible by"),
    ],
)
def test_bad_words_are_refused_in_one_line(zoo, folder, words, line):
    (folder / "broken.py").write_text("1 +")
    (folder / "measured.py").write_text(MEASURED)
    code, out, err = zoo("check", *words)
    assert (code, out) == (2, "")
    assert line in err
    assert len(err.splitlines()) == 1


def test_the_record_belongs_to_the_text(zoo, folder):
    (plain,) = about("mine.py")
    assert plain == "model.ffn.kind=relu_power (mine.py): this text is unchecked; zoo check --plugin mine.py relu_power"
    zoo("check", "--plugin", "mine.py")
    assert about("mine.py") == ["model.ffn.kind=relu_power (mine.py): checked, 2 properties hold"]
    (folder / "mine.py").write_text(f"{COMPARED}# changed\n")
    assert about("mine.py") == [plain]


def about(file):
    with unloading():
        return check_records.lines_about(load_plugin(file))


def test_describe_prints_check_terms_and_text(zoo):
    out = zoo("describe", "relu_power", "--plugin", "mine.py")[1]
    assert "this text is unchecked; zoo check --plugin mine.py relu_power" in out
    assert '\n    class PowerReLU(plugin.FeedForward):\n        """y = max(0, x W_up)^p W_down' in out
    zoo("check", "--plugin", "mine.py")
    out = zoo("describe", "relu_power", "--plugin", "mine.py")[1]
    assert "model.ffn.kind=relu_power (mine.py): checked, 2 properties hold\n    shapes             pass: " in out


def test_a_record_goes_with_the_text_and_is_read_beside_it(zoo, folder, monkeypatch):
    zoo("check", "--plugin", "mine.py")
    run = folder / "run"
    run.mkdir()
    with unloading():
        plugin = load_plugin("mine.py")
        plugins.store(run, [plugin.reference])
        check_records.store(run, [plugin.reference])
    # Another machine has another cache.
    monkeypatch.setattr("zoo.config.check_records.cache_directory", lambda: folder / "other")
    assert "unchecked" in about("mine.py")[0]
    assert about(run / "plugins" / "mine.py") == ["model.ffn.kind=relu_power (mine.py): checked, 2 properties hold"]
    (run / "plugins" / "mine.py").write_text(WRONG)
    assert "unchecked" in about(run / "plugins" / "mine.py")[0]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"sha256": "SHA", "kinds": {"model.ffn.kind=relu_power": 3}}'])
def test_a_damaged_record_counts_as_none(folder, content):
    with unloading():
        plugin = load_plugin("mine.py")
        path = folder / "cache" / "checked_plugins" / f"{plugin.sha256}.json"
        path.parent.mkdir(parents=True)
        path.write_text(content.replace("SHA", plugin.sha256))
        assert "unchecked" in check_records.lines_about(plugin)[0]
