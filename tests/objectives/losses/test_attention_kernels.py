"""The attention kernels that a run reports, against those that are called when a step is traced."""

import jax
import jax.numpy as jnp
import pytest

from tests.support.added_kinds import registered_kinds
from tests.support.building import by_default, tiny
from zoo import plugin
from zoo.errors import ConfigError
from zoo.layers.attention import softmax_attention
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.context import DropoutKey
from zoo.layers.platform import Platform
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.objectives import make_objective
from zoo.objectives.attention_kernels import LayerKernel, attention_kernels, kernel_lines
from zoo.objectives.objective import ForwardMode
from zoo.resources.abstract_run import PlaceholderTokenizer, abstract_batch
from zoo.training.update import uses_dropout


@pytest.fixture(autouse=True, scope="module")
def fastest_kernel():
    """The choice of a kernel is tested here, so it is zoo's own."""


HOPPER, AMPERE, TPU, CPU, CPUS = (
    Platform("gpu", 1, (9, 0)),
    Platform("gpu", 8, (8, 0)),
    Platform("tpu", 8),
    Platform("cpu", rows_from=0),
    Platform("cpu", 2),
)
# Below this number the rows of some cases are short, and those of others long.
BY_LENGTH = Platform("cpu", rows_from=2**10)
PLATFORMS = {"Hopper": HOPPER, "Ampere": AMPERE, "CPU": CPU, "CPU by length": BY_LENGTH, "CPUs": CPUS, "TPU": TPU}

HALF = {"model.dtype": "bfloat16", "model.attention.head_dim": 8}
ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
BOTH = {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "objective.prefix_length": 3}
TASK = {"objective.kind": "classification", "model.head.classes": 3, "data.row_format": "packed"}
LOCAL = {
    "model.layers.pattern": ("local", "global"),
    "model.layers.kinds.local.attention.window": 3,
    "model.layers.kinds.global.attention.window": 0,
}
LONG = {"data.sequence_length": 256}
T5 = {"model.position.kind": "relative_bias", "model.position.max_distance": 32}

CASES = {
    "float32": {"model.attention.head_dim": 8},
    "float32, narrow heads": {},
    "half": HALF,
    "window": HALF | {"model.attention.window": 3},
    "banded": LONG | {"model.attention.window": 9},
    "banded, half": HALF | LONG | {"model.attention.window": 9},
    "pattern": HALF | LOCAL | LONG,
    "pattern of heads": HALF | LOCAL | {"model.layers.kinds.local.attention.sinks": True},
    "one layer of a pattern": HALF | LOCAL | {"model.num_layers": 1},
    "wide heads": HALF | {"model.attention.head_dim": 136},
    "odd heads": HALF | {"model.attention.head_dim": 12},
    "alibi": HALF | {"model.position.kind": "alibi"},
    "alibi, window": HALF | {"model.position.kind": "alibi", "model.attention.window": 3},
    "alibi, banded": HALF | LONG | {"model.position.kind": "alibi", "model.attention.window": 9},
    "alibi, documents": HALF | {"model.position.kind": "alibi", "data.isolate_documents": True},
    "T5": HALF | {"model.position.kind": "relative_bias", "model.position.max_distance": 32},
    "T5 by layer": HALF
    | {"model.position.kind": "relative_bias", "model.position.max_distance": 32, "model.position.shared": False},
    "T5, encoder": HALF | ENCODER | T5,
    "T5, shorter rows": HALF | ENCODER | T5 | {"data.row_format": "doc_sentences"},
    "Shaw": HALF | {"model.position.kind": "shaw"},
    "Shaw's keys": HALF | {"model.position.kind": "shaw", "model.position.relative_values": False},
    "forgetting": HALF | {"model.attention.kind": "forgetting"},
    "documents": HALF | {"data.isolate_documents": True},
    "documents, banded": HALF | LONG | {"data.isolate_documents": True, "model.attention.window": 9},
    "offsets": HALF | {"data.position_offsets": (0, 2), "model.position.kind": "learned"},
    "dropout": HALF | {"model.attention.dropout": 0.1},
    "dropout elsewhere": HALF | {"model.dropout": 0.1},
    "soft-cap": HALF | {"model.attention.softcap": 5.0},
    "sinks": HALF | {"model.attention.sinks": True},
    "dilations": HALF | {"model.attention.window": 3, "model.attention.dilations": (1, 2)},
    "prefix": HALF | {"objective.kind": "prefix", "objective.prefix_length": 3},
    "named": HALF | {"model.attention.implementation": "xla", "model.attention.window": 9} | LONG,
    "encoder": HALF | ENCODER,
    "encoder, float32": ENCODER | {"model.attention.head_dim": 8},
    "encoder, shorter rows": HALF | ENCODER | {"data.row_format": "doc_sentences"},
    "encoder, window": HALF | ENCODER | {"model.attention.window": 3},
    "encoder, offsets": HALF | ENCODER | {"data.position_offsets": (0, 2), "model.position.kind": "learned"},
    "encoder, documents": HALF | ENCODER | {"data.isolate_documents": True},
    "encoder, global": HALF | ENCODER | LONG | {"model.attention.window": 9, "model.attention.global_tokens": 1},
    "both sides": HALF | BOTH,
    "both sides, a window": HALF | BOTH | LONG | {"model.decoder.attention.window": 9, "objective.prefix_length": 20},
    "both sides, T5": HALF | BOTH | {"model.position.kind": "relative_bias", "model.position.max_distance": 32},
    "spans": HALF | BOTH | {"objective.kind": "span", "objective.sentinels": 4, "model.vocab_size": 20},
    "denoising": HALF | BOTH | {"objective.kind": "denoising"},
    "translation, T5": HALF | BOTH | {"objective.kind": "translation"} | T5,
    "both sides, dropout": HALF | BOTH | {"model.attention.dropout": 0.1},
    "translation": HALF | BOTH | {"objective.kind": "translation"},
    "task": HALF | ENCODER | TASK,
    "task of a decoder": HALF | TASK,
    "frozen task": HALF | TASK | {"model.attention.dropout": 0.1, "training.trained_layers": 0},
    "task, dropout": HALF | TASK | {"model.attention.dropout": 0.1},
}  # fmt: skip


def resolved(name, more=None):
    changes = CASES[name] | (more or {})
    if changes.get("objective.kind") != "prefix":
        changes.pop("objective.prefix_length", None)
    return tiny(changes)


def batch_of(config):
    B, T = config.data.batch_size, config.data.sequence_length
    if config.objective.kind == "classification":
        return {"tokens": jnp.ones((B, T), jnp.int32), "labels": jnp.zeros(B, jnp.int32)}
    if config.objective.kind == "translation":
        return {name: jnp.ones((B, T), jnp.int32) for name in ("source", "targets")}
    return abstract_batch(config)


def traced(config, platform, monkeypatch):
    """{layers: kernel} of the calls when a training step is traced as for a platform."""
    found, now = {}, []

    def noted(name, kernel):
        def attend(q, k, v, context, scoring):
            if now:
                layers, banded = now[-1]
                found.setdefault(layers, set()).add(f"banded {name}" if banded else name)
            # No machine has all kernels; all have the same shapes.
            return KERNELS["einsum"](q, k, v, context, scoring)

        return attend

    def banded(*arguments):
        now[-1] = now[-1][0], True
        return original_banded(*arguments)

    def softmax(self, q, k, v, context, shared):
        scope = context.scope.removeprefix("model").removeprefix(".layers.kinds").removeprefix(".")
        layers = "cross-attention" if self.cross else scope or "all layers"
        now.append((f"kind {layers}" if "kinds" in context.scope else layers, False))
        out = original_softmax(self, q, k, v, context, shared)
        now.pop()
        return out

    original_banded, original_softmax = softmax_attention.banded_attention, SoftmaxAttention._softmax
    model, objective = make_model(config), make_objective(config, PlaceholderTokenizer(13))
    graph, params, stats = split(model)
    constants = {name: jnp.asarray(table) for name, table in objective.constants.items()}
    with monkeypatch.context() as patch:
        patch.setattr(softmax_attention, "KERNELS", {name: noted(name, kernel) for name, kernel in KERNELS.items()})
        patch.setattr(softmax_attention, "banded_attention", banded)
        patch.setattr(SoftmaxAttention, "_softmax", softmax)
        patch.setattr(Platform, "here", classmethod(lambda cls: platform))

        def step(params, stats, batch):
            key = DropoutKey(jax.random.key(0)) if uses_dropout(config) else None
            mode = ForwardMode(dropout_key=key, training=True)
            return objective.sums(graph, params, stats, batch, constants, mode)[0]

        jax.eval_shape(step, params, stats, batch_of(config))
    assert all(len(kernels) == 1 for kernels in found.values())
    return {layers: kernel for layers, (kernel,) in found.items()}


EVERY = [(name, platform) for name in CASES for platform in PLATFORMS]
# Every config on the platform that has every kernel, and one of each reason on the others.
OFTEN = [
    ("translation", "CPU by length"),
    ("pattern", "CPU by length"),
    *(
        case
        for case in EVERY
        if case[1] == "Hopper"
        or case[0] in ("float32", "half", "banded", "dropout")
        or (case[1] == "TPU" and CASES[case[0]].get("data.sequence_length"))
    ),
]


@pytest.mark.parametrize(
    ("name", "platform"),
    [
        *by_default(
            OFTEN,
            [case for case in EVERY if case in OFTEN or case[1] == "CPU"],
            pytest.mark.promise(reason="every config on the platform that every machine has"),
        ),
        *(
            pytest.param(*case, marks=pytest.mark.slow(reason="each reason is shown on every platform by default"))
            for case in EVERY
            if case not in OFTEN and case[1] != "CPU"
        ),
    ],
)
def test_reported_kernel_is_the_traced_kernel(name, platform, monkeypatch):
    config, platform = resolved(name), PLATFORMS[platform]
    found = attention_kernels(config, platform)
    assert {each.layers: each.kernel for each in found} == traced(config, platform, monkeypatch)
    assert all(bool(each.reason) != each.kernel.endswith(("cudnn", "splash")) for each in found)


BIAS_OF_ROWS = "a bias on the scores that differs between rows or blocks"
OF_QUERIES = "a bias on the scores that depends on the queries"


@pytest.mark.parametrize(("name", "reasons"), [
    ("float32", ["float32 activations"]),
    ("float32, narrow heads", ["float32 activations; head_dim=4, no multiple of 8 up to 256"]),
    ("half", [""]),
    ("window", [""]),
    ("banded, half", [""]),
    ("wide heads", [""]),
    ("odd heads", ["head_dim=12, no multiple of 8 up to 256"]),
    ("alibi", [""]),
    ("alibi, window", [""]),
    ("alibi, banded", [BIAS_OF_ROWS]),
    ("alibi, documents", [BIAS_OF_ROWS]),
    ("T5", [""]),
    ("T5 by layer", [""]),
    ("T5, encoder", [""]),
    ("T5, shorter rows", [BIAS_OF_ROWS]),
    ("Shaw", [f"{OF_QUERIES}; a bias on the values"]),
    ("Shaw's keys", [OF_QUERIES]),
    ("forgetting", [BIAS_OF_ROWS]),
    ("documents", [""]),
    ("documents, banded", [""]),
    ("offsets", [""]),
    ("dropout", ["dropout on the probabilities"]),
    ("dropout elsewhere", [""]),
    ("soft-cap", ["a soft-cap on the scores"]),
    ("sinks", ["sinks"]),
    ("dilations", ["dilated windows"]),
    ("prefix", [""]),
    ("pattern of heads", ["sinks", ""]),
    ("encoder", [""]),
    ("encoder, float32", ["float32 activations"]),
    ("encoder, shorter rows", [""]),
    ("encoder, window", [""]),
    ("encoder, offsets", [""]),
    ("encoder, documents", [""]),
    ("encoder, global", [""]),
    ("both sides", ["", "", ""]),
    ("both sides, T5", ["", "", ""]),
    ("spans", ["", "", ""]),
    ("translation", ["", "", ""]),
    ("translation, T5", [BIAS_OF_ROWS, BIAS_OF_ROWS, ""]),
    ("both sides, dropout", ["dropout on the probabilities"] * 3),
    ("task", [""]),
    ("task of a decoder", [""]),
    ("frozen task", [""]),
])  # fmt: skip
def test_the_reason_is_what_a_layer_needs(name, reasons):
    assert [each.reason for each in attention_kernels(resolved(name), HOPPER)] == reasons


@pytest.mark.parametrize(("name", "kernel", "reason"), [
    ("float32", "splash", ""),
    ("half", "splash", ""),
    ("banded", "splash", ""),
    ("pattern of heads", "splash", ""),
    ("odd heads", "splash", ""),
    ("documents, banded", "splash", ""),
    ("soft-cap", "splash", ""),
    ("prefix", "splash", ""),
    ("encoder, offsets", "splash", ""),
    ("encoder, documents", "splash", ""),
    ("encoder, global", "splash", ""),
    ("denoising", "splash", ""),
    ("alibi", "einsum", "a bias on the scores"),
    ("alibi, banded", "banded einsum", "a bias on the scores"),
    ("Shaw", "einsum", "a bias on the scores; a bias on the values"),
    ("offsets", "einsum", "tokens that are not in the order of their positions"),
    ("dropout", "einsum", "dropout on the probabilities"),
    ("dilations", "banded einsum", "dilated windows"),
])  # fmt: skip
def test_kernels_of_a_tpu(name, kernel, reason):
    found = attention_kernels(resolved(name, {"data.sequence_length": 512}), TPU)
    assert {(each.kernel, each.reason) for each in found} == {(kernel, reason)}


def test_short_rows_are_not_fused_on_a_tpu():
    (found,) = attention_kernels(resolved("half"), TPU)
    assert found == LayerKernel("all layers", "einsum", "rows of 8 tokens, fewer than the 128 of a block")


def test_other_mixers_are_reported_by_their_kind():
    found = attention_kernels(tiny({"model.attention.kind": "performer"}), HOPPER)
    assert found == [LayerKernel("all layers", "performer", "model.attention.kind=performer")]
    elmo = {"model.architecture": "elmo", "objective.kind": "bidirectional", "model.ffn.hidden_dim": "auto"}
    assert attention_kernels(tiny(elmo), CPU) == []


def test_there_is_a_line_for_each_distinct_kernel():
    assert kernel_lines(attention_kernels(resolved("both sides"), HOPPER)) == [
        "cudnn (encoder; decoder; cross-attention)"
    ]
    assert kernel_lines(attention_kernels(resolved("translation, T5"), HOPPER)) == [
        f"einsum (encoder; decoder), not fused: {BIAS_OF_ROWS}",
        "cudnn (cross-attention)",
    ]
    assert kernel_lines(attention_kernels(resolved("pattern"), CPU)) == [
        "banded rows (kind local), not fused: no GPU or TPU",
        "rows (kind global), not fused: no GPU or TPU",
    ]


class TokenBias(plugin.SoftmaxAttention):
    """score_h(t, s) + x_s . w_h."""

    def __init__(self, config, cross=False, gain=1.0):
        super().__init__(config, cross, gain)
        self.added = plugin.Linear(config.dim, config.attention.num_heads, ("embed", "heads"), False, plugin.zeros)

    def __call__(self, x, context, shared=None):
        own = jnp.repeat(self.added(x).swapaxes(1, 2)[:, :, None], x.shape[1], axis=2)
        return super().__call__(x, context, own if shared is None else own + shared)


class HeadBias(plugin.SoftmaxAttention):
    """score_h(t, s) + h / (1 + t), the same in all rows."""

    def __call__(self, x, context, shared=None):
        heads, queries = jnp.arange(self.config.num_heads), jnp.arange(x.shape[1])
        own = jnp.broadcast_to(heads[:, None, None] / (1 + queries[:, None]), (len(heads), x.shape[1], x.shape[1]))[
            None
        ]
        return super().__call__(x, context, own if shared is None else own + shared)


class FixedSink(plugin.SoftmaxAttention):
    """A sink of 1 in every head."""

    @property
    def sink_scores(self):
        return jnp.ones(self.config.num_heads)


class QueryPosition(plugin.Position):
    """score_h(t, s) + |q_t|^2 / (1 + |t - s|), without a word about the queries."""

    def score_bias(self, q, q_positions, k_positions):
        distance = jnp.abs(q_positions[:, None, :, None] - k_positions[:, None, None, :])
        return jnp.square(q).sum(axis=-1).swapaxes(1, 2)[..., None] / (1 + distance)


OWN = [
    *(
        (
            plugin.Kind("model.attention.kind", name, name, plugin.traits("model.attention.kind", "softmax")),
            implementation,
        )
        for name, implementation in {"own_rows": TokenBias, "own_heads": HeadBias, "own_sink": FixedSink}.items()
    ),
    (
        plugin.Kind("model.position.kind", "own_queries", "own", plugin.traits("model.position.kind", "alibi")),
        QueryPosition,
    ),
]


@pytest.mark.parametrize(
    ("field", "name", "reason"),
    [("attention", "own_rows", BIAS_OF_ROWS), ("attention", "own_heads", ""), ("attention", "own_sink", "sinks"),
     ("position", "own_queries", BIAS_OF_ROWS)],
)  # fmt: skip
def test_kernels_of_plug_ins_follow_from_what_is_traced(field, name, reason, monkeypatch):
    """A class need not say what it adds to the scores."""
    with registered_kinds(*OWN):
        changes = HALF | {f"model.{field}.kind": name}
        (found,) = attention_kernels(tiny(changes), HOPPER)
        assert (found.kernel, found.reason) == ("einsum" if reason else "cudnn", reason)
        assert traced(tiny(changes), HOPPER, monkeypatch) == {"all layers": found.kernel}
        named = tiny(changes | {"model.attention.implementation": "cudnn"})
        if reason == BIAS_OF_ROWS:
            with pytest.raises(ConfigError, match="cudnn does not support a bias on the scores that differs"):
                attention_kernels(named, HOPPER)
        elif not reason:
            assert attention_kernels(named, HOPPER)[0].kernel == "cudnn"


def test_only_long_rows_are_computed_one_by_one_on_a_cpu():
    """Two heads: 2 x 256 x 256 scores of a whole row, 2 x 64 x 128 of a block of the window."""
    kernels = [each.kernel for each in attention_kernels(resolved("pattern"), Platform("cpu"))]
    assert kernels == ["banded einsum", "rows"]
