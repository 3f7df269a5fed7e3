"""A token mixer other than attention: the mean of the last tokens, with its own cache entry."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float

from tests.decoding import making
from tests.fields.every_field import other_value
from tests.support.building import ENCODER_DECODER, call, close, counting, random_values, tiny, with_values
from zoo import config as configs
from zoo.config.fields.attention_fields import ATTENTION_FIELDS
from zoo.config.kinds import ATTENTION_KINDS, FEED_FORWARD_KINDS, Kind
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.layers.attention import TokenMixer, make_attention
from zoo.layers.context import Context
from zoo.layers.feedforward import GatedFeedForward
from zoo.layers.parameter import Linear, kernel_initializer
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

W = 3
CHANGES = {"model.attention.kind": "mean", "model.attention.window": W}


class LastValues(NamedTuple):
    """The values of the last W tokens of each row, the newest last."""

    values: Float[Array, "B W D"]

    def take(self, rows):
        return LastValues(self.values[rows])


class MeanOfLast(TokenMixer):
    """y_t = mean(v_(t-W+1) .. v_t) W_o, over existing tokens."""

    def __init__(self, config, cross=False, gain=1.0):
        super().__init__(config, cross, gain)
        initializer = kernel_initializer(config, gain)
        self.value = Linear(config.dim, config.dim, ("embed", "heads"), False, initializer)
        self.output = Linear(config.dim, config.dim, ("heads", "embed"), False, initializer)
        self.window = config.attention.window

    def __call__(self, x, context, shared=None):
        v, cache = self.value(x), context.cache
        v = jnp.where(context.positions[..., None] >= 0, v, 0)
        if cache is not None and self.part in cache.entries:
            before = cache.entries[self.part].values
            kept = jnp.concatenate([before[:, 1:], v], axis=1)
            cache.entries[self.part] = LastValues(kept)
            total = kept.sum(axis=1, keepdims=True)
        else:
            padded = jnp.pad(v, [(0, 0), (self.window - 1, 0), (0, 0)])
            total = sum(padded[:, lag : lag + v.shape[1]] for lag in range(self.window))
            if cache is not None:
                # The token at position p of a row has index p + W - 1 here.
                places = cache.newest[:, None] + jnp.arange(self.window)
                cache.entries[self.part] = LastValues(jnp.take_along_axis(padded, places[..., None], axis=1))
        count = jnp.clip(context.positions + 1, 1, self.window)
        return self.output(total / count[..., None])

    @staticmethod
    def product_flops(layer, queries, keys):
        return layer.dim * queries * keys


@pytest.fixture
def nothing(monkeypatch):
    """A kind of attention without traits."""
    monkeypatch.setitem(ATTENTION_KINDS.by_name, "nothing", Kind("model.attention.kind", "nothing", "reads no field"))


@pytest.fixture
def mean(monkeypatch):
    """Registers the kind."""
    kind = Kind("model.attention.kind", "mean", "of the last tokens", frozenset({"window"}), code=MeanOfLast)
    monkeypatch.setitem(ATTENTION_KINDS.by_name, "mean", kind)
    making._model.cache_clear()
    yield
    making._model.cache_clear()


def test_mixer_matches_its_equation(mean):
    layer = make_attention(tiny(CHANGES).model)
    values, x = random_values(layer, 1), np.random.default_rng(2).standard_normal((2, 8, 16)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, -1, -1, -1]])
    out = call(lambda x: with_values(layer, values)(x, Context(jnp.asarray(positions), in_order=True)), x)
    v = np.float64(x) @ values["value"]["kernel"]
    for b, t in np.argwhere(positions >= 0):
        expected = v[b, max(0, t - W + 1) : t + 1].mean(axis=0) @ np.float64(values["output"]["kernel"])
        close(out[b, t], expected)


@pytest.mark.parametrize("scanned", [False, True])
def test_cached_decoding_equals_a_pass_over_all_tokens(mean, scanned):
    changes = CHANGES | {"model.scan_layers": scanned, "model.num_layers": 2 if scanned else 1}
    close(*making.stepwise_and_full_scores(changes, steps=6))


@pytest.mark.promise(reason="a model is decoded step by step; tests/decoding does so for every kind of layer")
def test_cache_rows_can_be_selected(mean):
    """Beam search selects rows, also in stacks with attention layers."""
    kinds = {
        "model.layers.pattern": ("soft", "mean"), "model.num_layers": 2, "model.layers.kinds.mean.attention.window": W,
        "model.layers.kinds.soft.attention.kind": "softmax", "model.layers.kinds.mean.attention.kind": "mean",
    }  # fmt: skip
    decoder = making.generator(kinds)
    making._generator.cache_clear()
    found, again = (decoder.beam_search(making.PROMPTS, 4, beams=3, cache=cache) for cache in (True, False))
    np.testing.assert_array_equal(found.tokens, again.tokens)
    close(found.scores, again.scores)


def test_mixer_is_trained_and_its_cost_counted(mean):
    changes = CHANGES | {
        "model.dim": 16, "model.num_layers": 2, "model.scan_layers": True,
        "data.sequence_length": 16, "data.batch_size": 2, "objective.chunk_tokens": 0,
    }  # fmt: skip
    config = configs.resolve(configs.override(configs.default(), changes))
    objective = make_objective(config, ByteTokenizer())
    program = make_program(config, make_model(config), objective, make_mesh(config, jax.devices()[:1]))
    state = program.initial_state(0)
    before = np.array(state["params"]["stack"]["layers"]["attention"]["value"]["kernel"])
    batch = {"tokens": np.random.default_rng(0).integers(0, 256, (2, 17), np.int32)}
    state, metrics = program.train_step(state, program.put_batch(batch), program.constants(0))
    after = np.array(state["params"]["stack"]["layers"]["attention"]["value"]["kernel"])
    assert bool(metrics["finite"])
    assert (before != after).any(axis=(1, 2)).all()
    D, F, L, V = 16, 64, 2, 257
    counted = cost.summary(config)
    assert counted.blocks["blocks/attention"] == L * 2 * D * D
    keys = cost.mean_visible_keys(16, W)
    assert counted.flops_per_token == pytest.approx(3 * (2 * (L * (2 * D * D + 2 * D * F) + V * D) + L * D * keys))


def test_no_attention_statistics_are_recorded_without_attention_weights(mean):
    model = make_model(tiny(CHANGES | {"model.num_layers": 1}))
    values, record = random_values(model, 1), {}

    def run(tokens):
        with_values(model, values)(tokens, counting(8, record=record, record_arrays=True))
        return jax.tree.map(lambda x: x, record)

    found = jax.eval_shape(run, jnp.zeros((2, 8), jnp.int32))
    assert set(found["layer 0"]) == {"residual", "states"}


# Fields that an option needs besides the kind of attention.
BESIDE = {"gate_input": {"gate": "head"}, "dilations": {"window": 3}, "global_projections": {"global_tokens": 1},
          "qk_norm_scale": {"qk_norm": "head"}}  # fmt: skip
# The norm before attention belongs to the block for every kind of attention.
OWN_FIELDS = [
    name for field in ATTENTION_FIELDS[1:] if (name := field.path.removeprefix("model.attention.")) != "input_norm"
]
AROUND = {"model": {}, "model.encoder": ENCODER_DECODER, "model.layers.kinds.a": {"model.layers.pattern": ("a",)}}


@pytest.mark.parametrize("scope", list(AROUND))
@pytest.mark.parametrize("name", OWN_FIELDS)
def test_kind_without_traits_refuses_every_attention_option(nothing, name, scope):
    around = AROUND[scope] | {f"{scope}.attention.kind": "nothing"}
    if name == "cross_kv_heads":
        if scope != "model":
            return
        around |= ENCODER_DECODER
    else:
        tiny(around)
    options = BESIDE.get(name, {}) | {name: other_value(configs.BY_PATH[f"model.attention.{name}"])}
    with pytest.raises(ConfigError) as refused:
        tiny(around | {f"{scope}.attention.{option}": value for option, value in options.items()})
    assert any(
        f"attention.{name}=" in line and "model.attention.kind" in line and "nothing" in line
        for line in refused.value.problems
    )


UNREAD = {
    "model.attention.dilations": (2,), "model.attention.global_tokens": 1, "model.attention.softcap": 3.0,
    "model.attention.sinks": True, "model.attention.dropout": 0.1, "data.isolate_documents": True,
    "model.position.kind": "rope",
}  # fmt: skip
UNREAD_HEADS = {
    "model.attention.num_heads": 2, "model.attention.num_kv_heads": 2, "model.attention.num_query_heads": 2,
    "model.attention.head_dim": 8, "model.attention.qk_norm": "head", "model.attention.scale": 0.5,
    "model.attention.bias": False, "model.attention.implementation": "einsum",
}  # fmt: skip


def test_fields_that_a_kind_does_not_read_are_refused(mean):
    with pytest.raises(ConfigError) as refused:
        tiny(CHANGES | UNREAD | {"model.attention.num_heads": 4})
    for path in UNREAD:
        assert any(f"kind=mean cannot be combined with {path}=" in line for line in refused.value.problems), path
    untouched = {path: "auto" for path in UNREAD_HEADS if path.endswith(("kv_heads", "query_heads", "dim", "scale"))}
    for path, value in UNREAD_HEADS.items():
        with pytest.raises(ConfigError, match=f"{path}=.* has no effect: it is read only when model.attention.kind is"):
            tiny({"model.attention.num_heads": 4} | untouched | {path: value, **CHANGES})
    for bias in ("alibi", "relative_bias", "shaw"):
        with pytest.raises(ConfigError, match=f"kind=mean cannot be combined with model.position.kind={bias}; leave"):
            tiny(CHANGES | {"model.position.kind": bias})
    with pytest.raises(ConfigError, match=r"kind=mean cannot be combined with objective\.kind=prefix"):
        tiny(CHANGES | {"objective.kind": "prefix"})


def test_window_is_refused_for_a_kind_without_windows(mean, monkeypatch):
    kind = Kind("model.attention.kind", "mean", "of the last tokens")
    monkeypatch.setitem(ATTENTION_KINDS.by_name, "mean", kind)
    with pytest.raises(
        ConfigError, match=r"kind=mean cannot be combined with model.attention.window=3; leave it out, or"
    ):
        tiny(CHANGES)


def test_decoder_without_cross_attention_is_refused(mean):
    with pytest.raises(
        ConfigError, match=r"kind=mean cannot read an encoder's output; set model\.decoder\.attention\.kind=s"
    ):
        tiny(ENCODER_DECODER | {"model.decoder.attention.kind": "mean"})
    with pytest.raises(ConfigError, match="kind=mean cannot read an encoder's output"):
        tiny(ENCODER_DECODER | {"model.attention.kind": "mean"})
    resolved = tiny(ENCODER_DECODER | {"model.attention.kind": "mean", "model.decoder.attention.kind": "softmax"})
    assert resolved.model.decoder.attention.head_dim == 4
    assert resolved.model.attention.head_dim == "auto"
    assert configs.resolve(resolved) == resolved
    make_model(resolved)


def test_gated_kinds_have_gated_classes():
    table = FEED_FORWARD_KINDS
    assert {kind for kind in table.by_name if issubclass(table.code_of(kind), GatedFeedForward)} == set(configs.GATED)
