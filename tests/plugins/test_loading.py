"""Loading and unloading of plug-ins, and errors of invalid ones."""

import copy

import pytest

from tests.plugins.plugin_files import POWER, loaded, unloading
from tests.support.small_runs import small
from zoo import config as configs
from zoo.cli.main import main
from zoo.config import plugins
from zoo.config.fields import FIELDS
from zoo.config.hyperparameters import LOSS_TERMS
from zoo.config.kinds import KIND_TABLES
from zoo.errors import ConfigError
from zoo.lab.measures import MEASURES
from zoo.lab.metrics import METRICS
from zoo.models import cost

IMPORTS = "from zoo import plugin\nfrom zoo.plugin import Field, Kind\n"
VALID_PLUGIN = IMPORTS + (
    "plugin.register(Kind('model.ffn.kind', 'mine', 'x', frozenset({'relu'})), plugin.FeedForward)\n"
)

# A norm over the batch, for which the parts of a batch (`training.accumulation_steps`) are refused.
ROW_NORM = '''
from zoo import plugin


class RowNorm(plugin.Norm):
    """x - mean over the rows of the batch."""

    def __call__(self, x, context=None):
        return x - x.mean(axis=(0, 1))


plugin.register(plugin.Kind("model.norm.kind", "row_norm", "x - mean over the batch", frozenset({"batch"})), RowNorm)
'''


def tables():
    """Returns a copy of every table that plug-ins add to."""
    from zoo.analysis.measured_run import FUNCTIONS
    from zoo.draw.drawing import DRAWINGS
    from zoo.variants import VARIANTS

    choices = {path: list(table.by_name) for path, table in KIND_TABLES.items()}
    others = [
        list(LOSS_TERMS),
        list(MEASURES),
        list(METRICS),
        list(FUNCTIONS),
        list(DRAWINGS),
        [one.name for one in VARIANTS],
    ]
    return copy.deepcopy((choices, [field.path for field in FIELDS], list(configs.BY_PATH), others))


def test_a_registered_kind_adds_a_choice_and_its_fields(tmp_path):
    before = tables()
    with loaded(tmp_path, POWER) as path:
        assert tables() != before
        resolved = configs.resolve(small(model__ffn__kind="relu_power", model__ffn__power="3"))
        assert resolved.model.ffn.power == 3
        assert resolved.plugins == plugins.references()
        assert resolved.plugins[0].startswith(f"{path.name}:")
        assert configs.resolve(resolved) == resolved
        paths = list(configs.BY_PATH)
        assert paths.index("model.ffn.power") == 1 + max(
            place for place, other in enumerate(before[2]) if other.startswith("model.ffn.")
        )
        cost_summary = cost.summary(resolved)
        assert cost_summary.parameters == cost.summary(configs.resolve(small(model__ffn__kind="relu"))).parameters
    assert tables() == before
    with pytest.raises(ConfigError, match="'relu_power' is not one of relu"):
        configs.resolve(small(model__ffn__kind="relu_power"))


def test_plugin_fields_are_validated(tmp_path):
    with loaded(tmp_path, POWER):
        with pytest.raises(ConfigError, match=r"model.ffn.power=0 must be at least 1"):
            configs.resolve(small(model__ffn__kind="relu_power", model__ffn__power=0))
        with pytest.raises(
            ConfigError, match=r"model.ffn.power=3 has no effect: it is read only when model.ffn.kind is"
        ):
            configs.resolve(small(model__ffn__power=3))
        with pytest.raises(ConfigError, match=r'unknown field model.ffn.powr \(did you mean "model.ffn.power"\?\)'):
            small(model__ffn__kind="relu_power", model__ffn__powr=3)
        # Changing the kind resets its field to the default, as for built-in kinds.
        chosen = configs.override(small(model__ffn__kind="relu_power", model__ffn__power=3), {"model.ffn.kind": "gelu"})
        assert configs.resolve(chosen).model.ffn.power == 2


def test_a_config_can_name_a_plugin_file(tmp_path):
    (tmp_path / "mine.py").write_text(POWER)
    named = configs.override(configs.default(), {"plugins": str(tmp_path / "mine.py"), "model.ffn.kind": "relu_power"})
    assert configs.resolve(named).plugins == plugins.references() != ()
    (tmp_path / "config_file.py").write_text(
        "from zoo import config\ndef get_config():\n    made = config.default()\n"
        f"    made.plugins = ({str(tmp_path / 'mine.py')!r},)\n    made.model.ffn.kind = 'relu_power'\n    return made\n"
    )
    plugins.unload(plugins.loaded()[0])
    assert configs.resolve(configs.load(str(tmp_path / "config_file.py"))).plugins == plugins.references() != ()


def test_loading_a_plugin_twice_has_no_effect(tmp_path):
    text = VALID_PLUGIN + f"plugin.load({str(tmp_path / 'mine.py')!r})\n"
    with loaded(tmp_path, text) as path:
        assert plugins.load_plugin(path).registrations == []
        assert len(plugins.loaded()) == 1


def test_the_identity_of_a_run_depends_on_plugin_texts(tmp_path):
    without = configs.identity(configs.resolve(small()))
    identities = {without}
    for text in (POWER, POWER + "# changed\n"):
        with loaded(tmp_path, text):
            identities.add(configs.identity(configs.resolve(small())))
    assert len(identities) == 3
    assert configs.identity(configs.resolve(small())) == without


def test_a_kind_describes_its_page(tmp_path, capsys):
    description = (
        "plugin.Description(name='mine-squared', paper='Doe 2026, eq. 2', details=('It is small.',), "
        "published=('Doe 2026, table 1: better.',), synonyms=('msq',), "
        "sources=(plugin.Paper('Doe 2026', 'A Layer', 'arXiv:2601.00001'),))"
    )
    with loaded(
        tmp_path, VALID_PLUGIN.replace("frozenset({'relu'})", f"frozenset({{'relu'}}), description={description}")
    ):
        assert main(["describe", "MSQ"]) == 0
        page = capsys.readouterr().out
        assert page.startswith("# mine-squared\n")
        assert "It is small." in page
        assert "- Doe 2026, table 1: better." in page
        assert "- Doe 2026, eq. 2: A Layer, [arXiv:2601.00001](https://arxiv.org/abs/2601.00001)" in page
    assert main(["describe", "msq"]) == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, r"plug-in .*mine.py does not exist"),
        ("", r"mine.py registers nothing; see zoo.plugin.register"),
        ("def f(", r"mine.py, line 1, fails: SyntaxError"),
        ("import sys\nsys.exit(0)\n", r"mine.py, line 2, fails: SystemExit: 0"),
        ("x = 1\ny = x / 0\n", r"mine.py, line 2, fails: ZeroDivisionError: division by zero"),
        (IMPORTS + "plugin.register('relu', 1)", r"register expects a Kind, got 'relu'"),
        (
            IMPORTS + "plugin.register(Kind('model.fn.kind', 'mine', 'x'), plugin.FeedForward)",
            r'model.fn.kind=mine: a kind is a choice of .*\(did you mean "model.ffn.kind"\?\)',
        ),
        (
            IMPORTS + "plugin.register(Kind('model.ffn.kind', 'relu', 'x'), plugin.FeedForward)",
            r"model.ffn.kind=relu exists already",
        ),
        (
            IMPORTS + "plugin.register(Kind('model.ffn.kind', 'Mine', 'x'), plugin.FeedForward)",
            r"Mine: a name consists of lower-case letters",
        ),
        (
            IMPORTS + "plugin.register(Kind('model.ffn.kind', 'window', 'x'), plugin.FeedForward)",
            r"zoo describe window is the page of another variant",
        ),
        (
            VALID_PLUGIN.replace("frozenset({'relu'})", "description=plugin.Description(name='a page')"),
            r"the name of its page, 'a page', consists of lower-case letters, digits and hyphens",
        ),
        (IMPORTS + "plugin.register(Kind('model.ffn.kind', 'mine', ''), plugin.FeedForward)", r"its meaning is empty"),
        (
            IMPORTS + "plugin.register(Kind('model.ffn.kind', 'mine', 'x'), plugin.Norm)",
            r"must be a subclass of FeedForward, got <class",
        ),
        (
            IMPORTS + "plugin.register(Kind('model.ffn.kind', 'mine', 'x'), plugin.GatedFeedForward)",
            r"GatedFeedForward does not define nonlinearity",
        ),
        (
            IMPORTS + "plugin.register(Kind('model.norm.kind', 'mine', 'x'), plugin.Norm)",
            r"Norm does not define __call__",
        ),
        (
            IMPORTS
            + "plugin.register(Kind('model.ffn.kind', 'mine', 'x', fields=(Field('model.ffn.a', 1.0, float, 'a', "
            "traced=True),)), plugin.FeedForward)",
            r"model.ffn.a cannot be traced",
        ),
        (
            IMPORTS + "plugin.register(Kind('schedule.kind', 'mine', 'x'), 3)",
            r"schedule.kind=mine: its implementation is not a function but 3",
        ),
        (
            IMPORTS + "plugin.register(Kind('optimizer.kind', 'mine', 'x'), 3)",
            r"optimizer.kind=mine: its implementation is not a function but 3",
        ),
        (
            IMPORTS
            + "plugin.register(Kind('model.ffn.kind', 'mine', 'x', fields=(Field('model.norm.a', 1, int, 'a'),)), "
            "plugin.FeedForward)",
            r"its field 'model.norm.a' must be called model.ffn.NAME",
        ),
        (
            IMPORTS
            + "plugin.register(Kind('model.ffn.kind', 'mine', 'x', fields=(Field('model.ffn.bias', 1, int, 'a'),)), "
            "plugin.FeedForward)",
            r"the field model.ffn.bias exists already",
        ),
        (
            IMPORTS
            + "plugin.register(Kind('model.ffn.kind', 'mine', 'x', fields=(Field('model.ffn.a', 'b', int, 'a'),)), "
            "plugin.FeedForward)",
            r"its default is refused: model.ffn.a='b': expected a whole number",
        ),
        (
            IMPORTS + "plugin.register(Kind('model.ffn.kind', 'mine', 'x', loss_terms={'a': 'model.ffn.b'}), "
            "plugin.FeedForward)",
            r"the term 'a' of the loss has its weight at model.ffn.b, which is no field",
        ),
        (
            IMPORTS + "plugin.register(Kind('model.norm.kind', 'mine', 'x', {'normalises', 'bacth'}), plugin.RMSNorm)",
            r'model.norm.kind=mine: unknown trait .bacth. \(did you mean "batch"\?\)$',
        ),
        (
            IMPORTS + "plugin.register(Kind('model.norm.kind', 'mine', 'x', {'gated'}), plugin.RMSNorm)",
            r"model.norm.kind=mine: unknown trait 'gated'; it is one of normalises, epsilon, bias, batch, unit_offset$",
        ),
        (
            IMPORTS + "class Mine(plugin.Position):\n    def embed(self, x, positions):\n        return x\n"
            "    def rotate(self, q, k, q_positions, k_positions):\n        return q, k\n"
            "plugin.register(Kind('model.position.kind', 'mine', 'x', frozenset({'embedded'})), Mine)",
            r"Mine defines embed and rotate; a scheme adds to the embedding, or it acts inside attention",
        ),
        (
            IMPORTS + "plugin.register(Kind('objective.kind', 'mine', 'x'), plugin.CausalObjective)",
            r'objective.kind=mine: give its kind the traits "tokens" and "text"',
        ),
        (
            IMPORTS + "class Mine(plugin.PreNormBlock):\n    expand = staticmethod(lambda x, config: x)\n"
            "plugin.register(Kind('model.norm.placement', 'mine', 'x'), Mine)",
            r"Mine must define expand and reduce, or neither",
        ),
        (
            IMPORTS + "t = plugin.traits('objective.kind', 'causal') - {'decoder'}\n"
            "plugin.register(Kind('objective.kind', 'mine', 'x', t), plugin.CausalObjective)",
            r"give its kind the traits of the architectures that it trains: decoder, encoder",
        ),
        (
            IMPORTS + "class Mine(plugin.Objective):\n    def targets(self, batch):\n        return batch['tokens']\n"
            "plugin.register(Kind('objective.kind', 'mine', 'x', plugin.traits('objective.kind', 'causal')), Mine)",
            r"Mine defines neither predict nor score",
        ),
        (IMPORTS + "plugin.register_metric('loss', plugin.Metric(False), 'causal')", r"metric loss exists already"),
        (
            IMPORTS + "plugin.register_metric('x', plugin.Metric(False), 'casual')",
            r'metric x: .casual. is no kind of objective .did you mean "causal"',
        ),
        (VALID_PLUGIN + VALID_PLUGIN, r"model.ffn.kind=mine exists already"),
    ],
)
def test_invalid_plugins_are_rejected(tmp_path, text, line):
    before = tables()
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ConfigError, match=line):
        plugins.load_plugin(tmp_path / "mine.py")
    assert tables() == before
    assert plugins.loaded() == ()


def test_a_misspelt_trait_is_refused_that_would_switch_off_a_refusal(tmp_path, capsys):
    found = {}
    for trait in ("batch", "bacth"):
        (path := tmp_path / f"norm_{trait}.py").write_text(ROW_NORM.replace('"batch"', f'"{trait}"'))
        config = "configs/gpt2.py:tiny,model.norm.kind=row_norm,training.accumulation_steps=2"
        with unloading():
            assert main(["config", "validate", config, "--plugin", str(path)]) == 2
        found[trait] = capsys.readouterr().err.strip()
    assert "training.accumulation_steps=2 would change what model.norm.kind=row_norm normalises over" in found["batch"]
    assert found["bacth"].count("\n") == 0
    assert """model.norm.kind=row_norm: unknown trait 'bacth' (did you mean "batch"?)""" in found["bacth"]


@pytest.mark.parametrize(
    ("path", "made", "traits"),
    [
        ("model.norm.kind", "plugin.RMSNorm", {"normalises", "epsilon"}),
        ("model.attention.kind", "plugin.SoftmaxAttention", {"heads"}),
        ("model.attention.kind", "type('Mine', (plugin.SoftmaxAttention,), {'publishes': ('value',)})", {"heads", "reads_first"}),
        ("model.convolution.kind", "type('Mine', (plugin.DepthwiseConvolution,), {'places': None})", {"width"}),
        ("model.convolution.kind", "type('Mine', (plugin.ShortConvolution,), {'places': None, 'mix_reading': None})", set()),
        ("model.ffn.kind", "type('Mine', (plugin.GatedFeedForward,), {'nonlinearity': None})", {"gated", "hidden"}),
        ("model.position.kind", "type('Mine', (plugin.Position,), {'embed': None})", {"embedded"}),
        ("model.position.kind", "type('Mine', (plugin.Position,), {'value_bias': None})", {"value_bias"}),
    ],
)  # fmt: skip
def test_traits_that_a_class_shows_need_not_be_declared(tmp_path, path, made, traits):
    with loaded(tmp_path, IMPORTS + f"plugin.register(Kind({path!r}, 'mine', 'x'), {made})"):
        assert KIND_TABLES[path].by_name["mine"].traits == traits


@pytest.mark.parametrize(("base", "name"), [("CausalObjective", "causal"), ("MaskedObjective", "masked")])
def test_built_in_objectives_can_be_registered_again(tmp_path, base, name):
    text = f"plugin.register(Kind('objective.kind', 'mine', 'x', plugin.traits('objective.kind', {name!r})), plugin.{base})"
    architecture = "encoder" if name == "masked" else "decoder"
    with loaded(tmp_path, IMPORTS + text):
        assert configs.resolve(small(objective__kind="mine", model__architecture=architecture)).objective.kind == "mine"


def test_all_problems_are_reported_at_once(tmp_path):
    (tmp_path / "mine.py").write_text(
        VALID_PLUGIN + "plugin.register(Kind('model.ffn.kind', 'relu', ''), 1)\n"
        "plugin.register(Kind('model.norm.kind', 'B', 'x', plugin.traits('model.norm.kind', 'rmsnorm')), plugin.RMSNorm)\n"
    )
    with pytest.raises(ConfigError) as error:
        plugins.load_plugin(tmp_path / "mine.py")
    assert len(error.value.problems) == 4
    assert all(problem.startswith(f"plug-in {tmp_path / 'mine.py'}: ") for problem in error.value.problems)


def test_two_plugins_of_one_name_are_rejected(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").write_text(POWER.replace("minimum=1", "minimum=2"))
    with loaded(tmp_path, POWER), pytest.raises(ConfigError, match=r"has another text than (?s:.*)\+.*minimum=2"):
        plugins.load_plugin(tmp_path / "other" / "mine.py")
