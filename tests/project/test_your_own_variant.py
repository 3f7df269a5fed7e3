"""The walk-through of docs/your_own_variant.md, command by command, with runs of a few steps."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.decoding import making
from tests.plugins.plugin_files import unloading
from tests.project.test_guide import FEW_STEPS
from tests.support.building import ENCODER_DECODER, call, close, random_values, tiny, with_values
from zoo.cli.main import main
from zoo.config import plugins
from zoo.layers.attention import make_attention
from zoo.layers.context import Context
from zoo.layers.feedforward import make_feed_forward
from zoo.models import cost
from zoo.training.optimization.schedules import make_schedule

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your_own_variant.md").read_text()
FILES = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = [line.removeprefix("    zoo ") for line in PAGE.splitlines() if line.startswith("    zoo ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the page's files, and its own list of trusted plug-ins."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "configs").symlink_to(ROOT / "configs")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


def test_page_contains_the_expected_files_and_commands():
    assert list(FILES) == ["my_variants.py", "squared.py", "my_power.py", "my_gate.py", "my_schedule.py", "my_table.py"]
    assert len(COMMANDS) == 9


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("describe")])
def test_describe_shows_each_variant_of_the_page(folder, monkeypatch, capsys, command):
    monkeypatch.chdir(folder)
    with unloading():
        assert main(shlex.split(command)) == 0
    out = capsys.readouterr().out
    assert "y = max(0, x W_up)^2 W_down (So et al. 2021)." in out
    assert "It holds the same parameters as the baseline" in out


@pytest.fixture
def registered(folder):
    """Registers all variants of the page."""
    with unloading():
        for name in FILES:
            if name.startswith("my_"):
                plugins.load_plugin(folder / name)
        making._model.cache_clear()
        yield
    making._model.cache_clear()


def test_feed_forward_layers_match_their_equations(registered):
    x = np.random.default_rng(0).standard_normal((2, 8, 16)).astype(np.float32)
    for changes, power in (({}, 2), ({"model.ffn.power": 3.0}, 3)):
        kind = {"model.ffn.kind": "relu_power" if changes else "my_squared_relu"}
        layer = make_feed_forward(tiny(kind | changes).model)
        values = random_values(layer, 1)
        up, down = ({name: np.float64(value) for name, value in values[part].items()} for part in ("up", "down"))
        hidden = np.maximum(np.float64(x) @ up["kernel"] + up["bias"], 0) ** power
        close(call(with_values(layer, values), x), hidden @ down["kernel"] + down["bias"])


def test_gate_matches_its_equation(registered):
    config, x = tiny({"model.attention.kind": "gated"}), np.random.default_rng(1).standard_normal((2, 8, 16))
    gated = make_attention(config.model)
    plain = make_attention(tiny({}).model)
    values, context = random_values(gated, 2), Context(np.arange(8)[None], in_order=True)
    # An identity output projection exposes the gated values.
    values["output"] = {"kernel": np.eye(16, dtype=np.float32), "bias": np.zeros(16, np.float32)}
    shared = {name: value for name, value in values.items() if name != "gate"}
    x = x.astype(np.float32)
    read = call(lambda x: with_values(plain, shared)(x, context), x)
    gate = 1 / (1 + np.exp(-np.float64(x) @ np.float64(values["gate"]["kernel"])))
    close(call(lambda x: with_values(gated, values)(x, context), x), read * gate)


def test_gate_adds_one_matrix_per_layer(registered):
    gated, plain = (cost.summary(tiny({"model.attention.kind": kind})) for kind in ("gated", "softmax"))
    D, heads_times_width, layers = 16, 16, 2
    added = layers * D * heads_times_width
    assert gated.blocks == plain.blocks | {"blocks/attention": plain.blocks["blocks/attention"] + added}
    assert gated.flops_per_token == pytest.approx(plain.flops_per_token + 6 * added)


@pytest.mark.parametrize("changes", [{}, {"model.scan_layers": True}, ENCODER_DECODER], ids=["", "scanned", "cross"])
def test_gate_gives_equal_outputs_in_cached_decoding(registered, changes):
    close(*making.stepwise_and_full_scores({"model.attention.kind": "gated", "model.num_layers": 2} | changes, steps=4))


def test_schedule_ends_at_zero(registered):
    config = tiny({"schedule.kind": "sqrt", "schedule.warmup_steps": 2, "training.steps": 10})
    rates = [float(make_schedule(config)(np.int32(step))) / config.optimizer.learning_rate for step in range(10)]
    np.testing.assert_allclose(rates, [0.5, 1.0, *np.sqrt(1 - np.arange(1, 9) / 8)], rtol=1e-6, atol=1e-7)


@pytest.mark.promise(reason="the commands of a page train runs")
@pytest.mark.timeout(1200)
def test_page_commands_run_and_print_what_the_page_shows(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for words in map(shlex.split, COMMANDS):
        if words[0] == "describe":
            continue
        few = [flag for step in FEW_STEPS for flag in ("--set", step)] if words[0] == "run" else []
        # Two seeds are enough for an interval, and starting a run takes longer than its few steps.
        seeds = "2" if "squared.py" in words else "1"
        fewer = [seeds if before == "--seeds" else word for before, word in zip(["", *words], words, strict=False)]
        with unloading():
            assert main([*fewer, *few]) == 0, words
    out = capsys.readouterr().out
    assert re.search(r"ffn=my_squared_relu ends .* ffn=relu \([0-9.]+ % interval", out)
    assert (folder / "figures" / "table_lengths.png").stat().st_size > 1000
    for name in ("activations", "squared", "powers", "gate", "schedules", "tables"):
        sweep = folder / "runs" / name
        assert (sweep / "report.html").stat().st_size > 1000
        (plugin,) = json.loads((sweep / "experiment.json").read_text())["plugins"]
        stored = plugin.partition(":")[0]
        assert (sweep / "plugins" / stored).read_text() == FILES[stored]
        for run in json.loads((sweep / "experiment.json").read_text())["runs"]:
            assert (sweep / run["folder"] / "plugins" / stored).read_text() == FILES[stored]
            assert json.loads((sweep / run["folder"] / "status.json").read_text())["state"] == "done"
    for run in json.loads((folder / "runs" / "tables" / "experiment.json").read_text())["runs"]:
        measured = json.loads((folder / "runs" / "tables" / run["folder"] / "measured.json").read_text())
        assert measured["length_spread"]["values"]["measured/length_spread"] > 0
