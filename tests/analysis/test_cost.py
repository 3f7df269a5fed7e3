"""Parameter counts against published ones, and FLOPs against explicit counts and those of XLA."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import by_default, counting, quick_compilation, tiny, with_values
from zoo import config as configs
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.data.rows.corruption import make_corruption
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.files import write_json
from zoo.interop.model_weights import without_padding
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import initialise
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

ROOT = Path(__file__).parents[2]

# Exact counts of the reference implementations (GPT-2: Radford et al. 2019; LLaMA: Touvron et al.
# 2023a, 2023b), as built from their published configs by Hugging Face transformers.
PUBLISHED = {
    "gpt2.py:small": 124_439_808,
    "gpt2.py:medium": 354_823_168,
    "gpt2.py:large": 774_030_080,
    "gpt2.py:xl": 1_557_611_200,
    "llama.py:7b": 6_738_415_616,
    "llama.py:13b": 13_015_864_320,
    "llama.py:33b": 32_528_943_616,
    "llama.py:65b": 65_285_660_672,
    "llama.py:v2-7b": 6_738_415_616,
    "llama.py:v2-13b": 13_015_864_320,
    "llama.py:v2-34b": 33_743_970_304,
    "llama.py:v2-70b": 68_976_648_192,
}


@pytest.mark.parametrize("spec", PUBLISHED)
def test_published_parameter_counts(spec):
    counted = cost.summary(without_padding(configs.resolve(configs.load(str(ROOT / "configs" / spec)))))
    assert counted.parameters["total"] == PUBLISHED[spec] == sum(counted.blocks.values())
    assert sum(counted.parameters[part] for part in ("embedding", "body", "heads")) == PUBLISHED[spec]


def test_a_separate_source_embedding_counts_as_embedding():
    encoder_decoder = {
        "model.architecture": "encoder_decoder",
        "objective.kind": "prefix",
        "model.position.kind": "none",
    }
    counted = [
        cost.summary(
            configs.resolve(configs.override(configs.default(), encoder_decoder | {"model.embedding.shared": shared}))
        ).parameters
        for shared in (True, False)
    ]
    assert [parameters["embedding"] for parameters in counted] == [257 * 256, 2 * 257 * 256]
    assert counted[0]["body"] == counted[1]["body"]


def test_mean_visible_keys():
    for length, window in [(1, 0), (7, 0), (7, 3), (7, 7), (7, 50), (8, 1)]:
        visible = [min(i + 1, window or length) for i in range(length)]
        assert cost.mean_visible_keys(length, window) == pytest.approx(np.mean(visible))
    for causal, window, dilation in [(True, 3, 2), (True, 50, 3), (False, 3, 2), (False, 5, 4)]:
        visible_keys = reference.visible(np.arange(11), window=window, causal=causal, dilation=dilation)
        assert cost.mean_visible_keys(11, window, causal, dilation=dilation) == pytest.approx(
            visible_keys.sum(axis=1).mean()
        )


def test_a_cache_keeps_what_a_dilated_window_spans():
    def kept(**changes):
        changes = {path.replace("__", "."): value for path, value in changes.items()}
        return cost.cached_numbers(tiny({"model.num_layers": 1, **changes}).model, 100)

    token = kept() / 100
    assert kept(model__attention__window=8) == 8 * token
    assert kept(model__attention__window=8, model__attention__dilations=(1, 4)) == 29 * token
    assert kept(model__attention__window=90, model__attention__dilations=(1, 4)) == 100 * token


@pytest.mark.parametrize("values", [True, False])
def test_products_with_relative_vectors_are_counted(values):
    def flops(**position):
        config = tiny({f"model.position.{name}": value for name, value in position.items()})
        return config.model, cost.summary(config)

    shaw = {"kind": "shaw", "clip": 5, "relative_values": values}
    (model, with_vectors), (_, without) = flops(**shaw), flops(kind="none")
    attention, tables = model.attention, 2 if values else 1
    products = 2 * tables * 11 * attention.num_heads * attention.head_dim * model.num_layers
    assert with_vectors.flops_per_token - without.flops_per_token == pytest.approx(3 * products)


WIDE = {
    "model.dim": 128,
    "model.num_layers": 2,
    "model.attention.implementation": "einsum",
    "data.sequence_length": 16,
    "objective.chunk_tokens": 0,
}
MODELS = {
    "decoder": WIDE,
    "encoder": WIDE | {"model.architecture": "encoder", "objective.kind": "masked", "model.head.transform": True},
    "encoder-decoder": WIDE | {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "objective.prefix_length": 6,
                               "model.decoder.num_layers": 1, "model.encoder.ffn.hidden_dim": 256},
    "narrow embedding, shared layers": WIDE | {
        "model.architecture": "encoder", "objective.kind": "masked", "model.head.transform": True, "model.embedding.dim": 32,
        "model.num_layers": 4, "model.layers.distinct": 2},
    "shared queries": WIDE | {"model.attention.num_query_heads": 1},
    "kinds of layers": WIDE | {"model.layers.pattern": ("wide", "narrow"), "model.layers.kinds.wide.ffn.hidden_dim": 700,
                               "model.layers.kinds.narrow.attention.num_kv_heads": 1},
}  # fmt: skip


@pytest.mark.parametrize(
    "name", by_default(["encoder-decoder"], MODELS, pytest.mark.promise(reason="a step of another model is compiled"))
)
def test_flops_match_xla(name):
    config = configs.resolve(configs.override(configs.default(), MODELS[name]))
    objective = make_objective(config, ByteTokenizer())
    program = make_program(config, make_model(config), objective, make_mesh(config, jax.devices()[:1]))
    rows = np.zeros((16, 17), np.int32)
    masking = make_corruption(config, ByteTokenizer())
    batch = {"tokens": rows} if masking is None else masking.evaluation_batch({"tokens": rows[:, 1:]}, np.arange(16))
    constants = program.constants(0)
    compiled = program.train_step.lower(program.abstract_state, batch, constants).compile()
    counted = compiled.cost_analysis()["flops"] / (16 * 16)
    # XLA also counts the masked half of attention and elementwise work, but matrix products dominate.
    assert cost.summary(config).flops_per_token == pytest.approx(counted, rel=0.15)


# Operations of a compiled pass for each one that is counted: fusions compute some of them twice, and
# sums over earlier outputs have a place for those to come.
COMPILED = {"hyper": 1.06, "mhc": 1.07, "hyper_static": 2.1, "depth_attention": 3.1, "denseformer": 2.2, "mudd": 1.6}


@pytest.mark.promise(reason="models are compiled")
def test_operations_of_streams_and_earlier_outputs_are_those_of_the_program():
    length, programs, counted = 16, {}, {}
    for placement in ("pre", *COMPILED):
        config = tiny(
            {
                "model.dim": 128,
                "model.num_layers": 2,
                "model.ffn.hidden_dim": 16,
                "model.norm.placement": placement,
                "data.sequence_length": length,
                "model.scan_layers": False,
                **({"model.norm.streams": 4} if placement in PLACEMENT_KINDS.having("streams") else {}),
            }
        )
        model = make_model(config)
        values = jax.eval_shape(functools.partial(initialise, model, 0))
        lowered = jax.jit(
            lambda values, tokens, model=model: with_values(model, values)(tokens, counting(length)),
            compiler_options=quick_compilation(),
        ).lower(values, jax.ShapeDtypeStruct((1, length), jnp.int32))
        programs[placement] = lowered.compile().cost_analysis()["flops"] / length
        # A third of a step's operations are those of the forward pass.
        counted[placement] = cost.summary(config).flops_per_token / 3
    ratios = {
        placement: (programs[placement] - programs["pre"]) / (counted[placement] - counted["pre"])
        for placement in COMPILED
    }
    assert ratios == pytest.approx(COMPILED, rel=0.3)


def test_divergence_over_all_tokens_scores_each_token_of_both_models(tmp_path):
    masked = {"model.architecture": "encoder", "objective.kind": "masked", "model.head.transform": True}
    sizes = {"model.dim": 16, "model.num_layers": 1, "data.sequence_length": 40}
    plain = configs.resolve(configs.override(configs.default(), masked | sizes))
    write_json(tmp_path / "config.json", configs.to_plain(plain))
    flops = {}
    for tokens in ("predicted", "all"):
        fields = {"teacher": str(tmp_path), "kl_tokens": tokens}
        student = {f"objective.distillation.{name}": value for name, value in fields.items()}
        flops[tokens] = cost.summary(configs.resolve(configs.override(plain, student))).flops_per_token
    # Six of 40 tokens are predicted. The student maps and scores all 40, and the six once more for the
    # cross-entropy; the teacher, without a backward pass, all 40.
    vocabulary, transform = 258 * 16, 16 * 16
    student = 6 * (vocabulary * 40 + transform * 34)
    assert flops["all"] - flops["predicted"] == pytest.approx((student + 2 * (vocabulary + transform) * 34) / 40)


def test_cost_of_gated_norms():
    plain, gated = (cost.summary(tiny({"model.norm.kind": kind})) for kind in ("rmsnorm", "gated_rmsnorm"))
    # Two norms in each of two layers, and the last one, with two matrices of 16 x 16 each.
    more = (2 * 2 + 1) * 2 * 16 * 16
    assert gated.parameters["body"] - plain.parameters["body"] == more
    assert gated.flops_per_token - plain.flops_per_token == pytest.approx(6 * more)


def test_cost_of_value_embeddings():
    plain, with_value_embeddings = (
        cost.summary(tiny(fields))
        for fields in (
            {"model.attention.num_kv_heads": 2},
            {
                "model.attention.num_kv_heads": 2,
                "model.attention.kind": "value_embedding",
                "model.attention.value_gate_channels": 5,
            },
        )
    )
    L, V, G, K, c = 2, 13, 2, 4, 5
    assert with_value_embeddings.parameters["embedding"] - plain.parameters["embedding"] == L * V * G * K
    assert with_value_embeddings.parameters["body"] - plain.parameters["body"] == L * c * G
    assert with_value_embeddings.flops_per_token - plain.flops_per_token == pytest.approx(6 * L * c * G)
    padded = {"model.attention.kind": "value_embedding", "model.vocab_multiple": 16}
    assert cost.summary(tiny(padded)).parameters["padding"] == 3 * (16 + L * 16)
