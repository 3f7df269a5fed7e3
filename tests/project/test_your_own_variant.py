"""The walk-through of docs/your_own_variant.md, command by command, with runs of a few steps."""

import inspect
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.decoding import making
from tests.plugins.plugin_files import unloading
from tests.project import page_hooks
from tests.project.test_guide import FEW_STEPS
from tests.support.building import ENCODER_DECODER, call, close, random_values, tiny, with_values
from zoo import plugin
from zoo.checks import PROPERTIES
from zoo.cli.main import main
from zoo.config import plugins
from zoo.config.kinds import OPTIMIZER_KINDS, SCHEDULE_KINDS, kind
from zoo.layers.attention import make_attention
from zoo.layers.context import Context
from zoo.layers.feedforward import make_feed_forward
from zoo.models import cost
from zoo.plugin.registrations import TABLES
from zoo.training.optimization.schedules import make_schedule

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your_own_variant.md").read_text()
FILES = dict(re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", PAGE, re.DOTALL))
RECIPES = (ROOT / "docs" / "recipes.md").read_text()
# Sweeps that are planned and not trained.
DRY = ("activations", "powers", "gate", "schedules")
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
    assert list(FILES) == [
        "my_variants.py", "squared.py", "my_power.py", "my_gate.py", "my_schedule.py", "my_table.py", "my_retention.py",
    ]  # fmt: skip
    assert len(COMMANDS) == 12


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


def test_table_of_properties_is_that_of_the_check():
    table = PAGE.partition("## 8. Check it")[2].partition("## ")[0]
    assert re.findall(r"^\| ([\w ]+) \|", table, re.MULTILINE) == ["property", *PROPERTIES]


# The rows of the table of hooks: (class or field, hook, names of its arguments).
HOOKS = [
    (classes, name, tuple(filter(None, map(str.strip, arguments.split(",")))))
    for classes, cell in page_hooks.rows(PAGE)
    for name, arguments in re.findall(r"`(\w+)\(([^`]*)\)`", cell)
]


def test_hooks_have_the_signatures_of_the_table():
    assert len(HOOKS) > 25
    for classes, name, arguments in HOOKS:
        for owner in classes:
            found = list(inspect.signature(getattr(getattr(plugin, owner), name)).parameters)
            assert [one for one in found if one != "self"] == list(arguments), (owner, name)
    assert "`problems(flat, architecture)`, `derive(flat)`" in PAGE
    assert list(inspect.signature(kind.no_problems).parameters) == ["flat", "architecture"]
    assert list(inspect.signature(kind.no_derivation).parameters) == ["flat"]
    assert list(inspect.signature(OPTIMIZER_KINDS.code_of("adamw")).parameters) == ["values", "traits"]
    assert list(inspect.signature(SCHEDULE_KINDS.code_of("cosine")).parameters) == ["step"]


def test_required_hooks_of_the_table_are_those_that_registration_demands():
    bold = {owner: set(names) for owner, names in page_hooks.required(PAGE).items()}
    for table in TABLES.values():
        if table.base is not None and table.required:
            named = {one for name in table.required for one in name.split(" or ")}
            assert bold[table.base.__name__] <= named | {"predict"}, table.base
            assert any(name.split(" or ")[0] in bold[table.base.__name__] for name in table.required)


def test_recipes_name_no_hook_that_the_table_lacks():
    """The recipes and the table list the same hooks, class by class."""
    listed = {}
    for classes, name, _ in HOOKS:
        for owner in classes:
            listed.setdefault(owner, set()).add(name)
    for title, owner in page_hooks.RECIPES.items():
        section = RECIPES.partition(f"\n## {title}\n")[2].partition("\n## ")[0].partition("* **Kind**")[0]
        own = set(re.findall(r"`(\w+)`", section)) & page_hooks.hooks_of(getattr(plugin, owner))
        known = set().union(*(listed.get(base.__name__, set()) for base in getattr(plugin, owner).__mro__))
        known |= listed.get("SoftmaxAttention", set()) if owner == "Attention" else set()
        assert own - {"value_dim", "key_dim"} <= known, title
        assert own, title


@pytest.fixture
def few_properties(monkeypatch):
    """Leaves out the properties that compile whole training steps; others tests run all of them."""
    few = ("shapes", "cached generation", "beams", "gradients", "loss terms", "reference")
    monkeypatch.setattr("zoo.checks.check.PROPERTIES", {name: PROPERTIES[name] for name in few})


@pytest.mark.promise(reason="the commands of a page train runs")
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("few_properties")
def test_page_commands_run_and_print_what_the_page_shows(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for words in map(shlex.split, COMMANDS):
        if words[0] == "describe" or any(f"runs/{name}/" in word for name in DRY for word in words):
            continue
        few = [flag for step in FEW_STEPS for flag in ("--set", step)] if words[0] == "run" else []
        # What these train is like what the others do.
        few += ["--dry-run"] if set(DRY) & set(words) else []
        # Two seeds are enough for an interval, and starting a process takes longer than its few steps.
        fewer = {"--seeds": "2" if "squared.py" in words else "1", "--jobs": "1"}
        words = [fewer.get(before, word) for before, word in zip(["", *words], words, strict=False)]
        with unloading():
            assert main([*words, *few]) == 0, words
    out = capsys.readouterr().out
    assert re.search(r"ffn=my_squared_relu ends .* ffn=relu \([0-9.]+ % interval", out)
    assert (folder / "figures" / "table_lengths.png").stat().st_size > 1000
    assert "model.attention.kind=retention: linear attention with a learned decay of each head" in out
    assert "6 properties hold (" in out
    assert out.count("runs would be trained, 1 at a time, in runs/") == len(DRY)
    energies = [
        json.loads(line)
        for line in (folder / "runs/retention/arm=retention-seed0/metrics.jsonl").read_text().splitlines()
    ]
    # An evaluation reports the term of an arm without a weight.
    assert any(line.get("eval/energy", 0) > 0 for line in energies)
    assert not any("train/energy" in line for line in energies)
    for name in ("squared", "tables", "retention"):
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
