"""Follows the recipes of docs/recipes.md in files outside the package: each adds a kind that
is trained, decoded from, counted and described.
"""

import re
from pathlib import Path

import pytest

from tests.plugins.plugin_files import FOCAL, POWER, loaded, unloading
from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo.cli.main import main
from zoo.models import cost
from zoo.plugin.registrations import TABLES
from zoo.training.trainer import run

RECIPES = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()

NORM = '''
import jax.numpy as jnp
from zoo import plugin


class MaxNorm(plugin.Norm):
    """MaxNorm(x) = x / (max |x| + epsilon) * scale + bias, over the D values of a token."""

    def __call__(self, x, context=None):
        y = x / (jnp.abs(x).max(axis=-1, keepdims=True) + self.epsilon)
        y = y if self.scale is None else y * self.effective_scale
        return (y if self.bias is None else y + self.effective_bias).astype(x.dtype)


plugin.register(
    plugin.Kind("model.norm.kind", "maxnorm", "divide by the largest value", plugin.traits("model.norm.kind", "layernorm")),
    MaxNorm,
)
'''

PLACEMENT = '''
import jax.numpy as jnp
from zoo import plugin


class ReZeroBlock(plugin.Block):
    """ReZero: x = x + g f(x), with a learned number g that begins at 0 (Bachlechner et al. 2020)."""

    def __init__(self, config, cross=False, sides=None):
        super().__init__(config, cross, sides)
        for part in self.parts:
            setattr(self, f"{part}_gate", plugin.parameter((1,), (None,), plugin.zeros, "scalar"))

    def sublayer(self, x, f, norm, output_norm, context, part):
        return self.add(x, f(norm(x, context)) * getattr(self, f"{part}_gate")[...].astype(x.dtype), context, part)


plugin.register(plugin.Kind("model.norm.placement", "rezero", "x + g f(norm(x)) (Bachlechner et al. 2020)"), ReZeroBlock)
'''

POSITION = '''
import jax.numpy as jnp
from zoo import plugin


class LogBias(plugin.Position):
    """A penalty on the score, -slope * log(1 + distance), with a learned slope of each head (Chi et al. 2022)."""

    def __init__(self, config):
        self.slopes = plugin.parameter((config.attention.num_heads,), (None,), plugin.ones, "scalar")

    def score_bias(self, q, q_positions, k_positions):
        distance = jnp.abs(q_positions[:, :, None] - k_positions[:, None, :])[:, None]
        return -self.slopes[...][:, None, None] * jnp.log1p(distance.astype(jnp.float32))


plugin.register(
    plugin.Kind(
        "model.position.kind", "log_bias", "a learned slope times log(1 + distance)", frozenset({"score_bias"})
    ),
    LogBias,
)
'''

MIXER = '''
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from zoo import plugin


class Last(NamedTuple):
    """The last token of each row."""

    x: Array

    def take(self, rows):
        return Last(self.x[rows])


class TokenShift(plugin.TokenMixer):
    """y_t = (m * x_t + (1 - m) * x_(t-1)) W, with a learned share m of each dimension (Peng et al. 2023)."""

    def __init__(self, config, cross=False, gain=1.0):
        super().__init__(config, cross, gain)
        self.share = plugin.parameter((config.dim,), (None,), lambda key, shape: jnp.full(shape, 0.5))
        initializer = plugin.kernel_initializer(config, gain)
        self.output = plugin.Linear(config.dim, config.dim, ("heads", "embed"), False, initializer)

    def __call__(self, x, context, shared=None):
        cache = context.cache
        if cache is not None and self.part in cache.entries:
            before = cache.entries[self.part].x
            cache.entries[self.part] = Last(x)
        else:
            before = jnp.pad(x, [(0, 0), (1, 0), (0, 0)])[:, :-1]
            if cache is not None:
                cache.entries[self.part] = Last(jnp.take_along_axis(x, cache.newest[:, None, None], axis=1))
        share = self.share[...].astype(x.dtype)
        return self.output(share * x + (1 - share) * before)

    @staticmethod
    def product_flops(layer, queries, keys):
        return 0.0


plugin.register(plugin.Kind("model.attention.kind", "mixed_shift", "this token and the one before"), TokenShift)
'''

CONVOLUTION = '''
from zoo import plugin


class Smear(plugin.ShortConvolution):
    """y_t = x_t + g * x_(t-1), with a learned g of each channel that begins at 0, before attention."""

    def __init__(self, config, channels, axis):
        self.share = plugin.parameter((channels,), (axis,), plugin.zeros)

    @staticmethod
    def places(config):
        return "A"

    def mix(self, x, earlier):
        return x + self.share[...].astype(x.dtype) * earlier[0]


plugin.register(plugin.Kind("model.convolution.kind", "smear", "x_t + g x_(t-1), before attention"), Smear)
'''

OPTIMIZER = '''
import jax
import jax.numpy as jnp
import optax
from zoo import plugin


def sign_momentum(values, traits):
    """Returns the sign of the averaged gradient (Bernstein et al. 2018, algorithm 2)."""
    return optax.chain(optax.trace(values["optimizer.memory"]), optax.stateless(lambda g, p: jax.tree.map(jnp.sign, g)))


plugin.register(
    plugin.Kind(
        "optimizer.kind",
        "signum",
        "sign of the momentum (Bernstein et al. 2018)",
        fields=(plugin.Field("optimizer.memory", 0.9, float, "decay of the momentum", minimum=0, maximum=0.999, traced=True),),
    ),
    sign_momentum,
)
'''

SCHEDULE = '''
import jax.numpy as jnp
from zoo import plugin


def power(step):
    """Returns (1 - k/K)^p at update k of the K after the warm-up."""
    return jnp.maximum(0, 1 - step.since / step.remaining) ** step.values["schedule.exponent"]


plugin.register(
    plugin.Kind(
        "schedule.kind",
        "decay_power",
        "peak * (1 - share of the steps done)^p",
        fields=(plugin.Field("schedule.exponent", 2.0, float, "p", above=0, traced=True),),
    ),
    power,
)
'''

# For each recipe: the file, its kind, and the output of `zoo describe`.
ADDED = {
    "norm": (NORM, {"model.norm.kind": "maxnorm"}, "MaxNorm(x) = x / (max |x| + epsilon)"),
    "placement": (PLACEMENT, {"model.norm.placement": "rezero"}, "x = x + g f(x)"),
    "position scheme": (POSITION, {"model.position.kind": "log_bias"}, "-slope * log(1 + distance)"),
    "feed-forward layer": (POWER, {"model.ffn.kind": "relu_power"}, "y = max(0, x W_up)^p W_down"),
    "attention kind": (MIXER, {"model.attention.kind": "mixed_shift"}, "y_t = (m * x_t + (1 - m) * x_(t-1)) W"),
    "convolution": (CONVOLUTION, {"model.convolution.kind": "smear"}, "y_t = x_t + g * x_(t-1)"),
    "objective": (FOCAL, {"objective.kind": "focal"}, "-(1 - p)^gamma log p"),
    "optimizer": (OPTIMIZER, {"optimizer.kind": "signum"}, "sign of the momentum"),
    "schedule": (SCHEDULE, {"schedule.kind": "decay_power"}, "peak * (1 - share of the steps done)^p"),
}


@pytest.fixture(autouse=True)
def isolated_plugins(tmp_path, monkeypatch):
    """Trusts and loads plug-ins for the duration of one test."""
    monkeypatch.setattr("zoo.config.plugins.cache_directory", lambda: tmp_path / "cache")
    with unloading():
        yield


def test_every_recipe_has_a_test_case():
    assert {path for _, kind, _ in ADDED.values() for path in kind} == set(TABLES)
    titles = {title.lower() for title in re.findall(r"^## (.+)$", RECIPES, re.MULTILINE)}
    assert set(ADDED) <= titles
    others = {"attention option", "config", "data source", "figure", "importer", "measure", "parameter"}
    assert titles - set(ADDED) == others


@pytest.mark.parametrize("recipe", ADDED)
def test_recipe_adds_a_working_kind(recipe, tmp_path, capsys):
    text, kind, described = ADDED[recipe]
    with loaded(tmp_path, text) as path:
        changes = {path.replace(".", "__"): value for path, value in kind.items()}
        if "model.attention.kind" not in kind:
            changes["model__attention__implementation"] = "einsum"
        config = small(**changes, training__steps=6, training__eval_every=0, training__checkpoint_every=0)
        counted = cost.summary(configs.resolve(config))
        assert sum(counted.blocks.values()) == counted.parameters["total"] > 0
        run(config, tmp_path / "run", lambda line: None)
        losses = [line["train/loss"] for line in lines(tmp_path / "run") if "train/loss" in line]
        assert len(losses) == 6
        assert losses[-1] < losses[0]
        assert (tmp_path / "run" / "plugins" / path.name).read_text() == text
        if recipe not in ("objective", "optimizer", "schedule"):
            assert main(["generate", str(tmp_path / "run"), "--prompt", "ab", "--max-new-tokens", "3"]) == 0
        (name,) = kind.values()
        capsys.readouterr()
        assert main(["describe", name]) == 0
        assert described in capsys.readouterr().out
