"""Combinations of scopes, positions and blocks that cannot be built: each is refused in one line that
names the conflicting fields.
"""

import pytest

from tests.fields.refused_configs import (
    DISTINCT_LAYERS,
    EMBEDDING_DIM,
    ENCODER,
    ENCODER_DECODER,
    LONGFORMER,
    PERFORMER,
    RELATIVE_BIAS,
    ROPE,
    SCALED_ROPE,
    case_id,
    check_refused,
    kind,
    refused,
)
from zoo import config as configs


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        # Scopes
        ({"training.eval_context": 128}, ["training.eval_context=128 leaves nothing of data.sequence_length=128"]),
        ({"model.encoder.num_layers": 2}, ["model.encoder is read only", "encoder_decoder", "it is decoder"]),
        (
            ENCODER_DECODER | {"model.layers.pattern": ("a",)} | kind("a", residual=True),
            ["model.layers.pattern is not for", "model.decoder"],
        ),
        (
            {"model.layers.pattern": ("a", "b")} | kind("a", residual=True),
            ["names 'b'", "model.layers.kinds.b", "no field"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", residual=True) | kind("b", residual=True),
            ["kinds.b has no effect", "pattern=a"],
        ),
        (kind("b", residual=True), ["kinds.b has no effect", "pattern=empty"]),
        (
            {"model.norm.unit_offset": True, "model.norm.scale": False},
            ["unit_offset=true has no effect", "no norm has a scale that it changes"],
        ),
        (
            {"model.norm.unit_offset": True, "model.norm.scale": False, "model.attention.kind": "retnet"},
            ["unit_offset=true has no effect"],
        ),
        (
            {
                "model.parametrization": "mup",
                "model.base_dim": 32,
                "model.base_head_dim": 8,
                "model.attention.scale": 0.5,
            },
            ["model.base_head_dim=8 has no effect"],
        ),
        (
            {"model.parametrization": "mup", "model.base_dim": 32, "model.base_head_dim": 8}
            | {"model.attention.qk_norm": "cosine"},
            ["model.base_head_dim=8 has no effect"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", position__kind="sinusoidal"),
            ["kinds.a.position.kind=sinusoidal", "embedding"],
        ),
        (
            RELATIVE_BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__kind="none"),
            ["share one table", "model.position.shared=false"],
        ),
        (
            RELATIVE_BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__buckets=16),
            ["kinds.a.position.buckets=16 has no effect", "one table"],
        ),
        (
            RELATIVE_BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__max_distance=64),
            ["max_distance=64 has no effect", "one table"],
        ),
        (
            RELATIVE_BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__shared=False),
            ["shared=False has no effect", "model.position.shared"],
        ),
        (
            RELATIVE_BIAS | {"model.layers.pattern": ("a",)} | kind("a", attention__num_heads=2),
            ["kinds.a.attention.num_heads=2", "of 4 heads"],
        ),
        (
            RELATIVE_BIAS
            | {"model.position.shared": False, "model.layers.pattern": ("a",)}
            | kind("a", position__shared=True),
            ["tables of its own"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", position__offset=2),
            ["kinds.a.position.offset=2 has no effect", "learned"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", position__max_length=256),
            ["kinds.a.position.max_length=256 has no effect"],
        ),
        (
            {"model.position.kind": "sinusoidal", "model.layers.pattern": ("a",)} | kind("a", position__layout="half"),
            ["kinds.a.position.layout=half has no effect", "sinusoidal positions are added to the embedding"],
        ),
        (
            {"model.position.kind": "sinusoidal", "model.layers.pattern": ("a",)} | kind("a", position__endpoint=True),
            ["kinds.a.position.endpoint=True has no effect", "set model.position.endpoint"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", position__kind="relative_bias"),
            ["tables of its own", "kinds.a.position.shared=false"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", position__theta=5.0),
            ["kinds.a.position.theta=5.0 has no effect", "there it is learn"],
        ),
        (
            ENCODER_DECODER | {"model.decoder.norm.bias": False, "model.norm.kind": "rmsnorm"},
            ["model.decoder.norm.bias=False has no effect", "rmsnorm"],
        ),
        # Heads and positions
        ({"model.attention.num_query_heads": 3}, ["num_heads=4", "num_query_heads=3"]),
        (ENCODER_DECODER | {"model.attention.cross_kv_heads": 3}, ["num_heads=4", "cross_kv_heads=3"]),
        ({"model.attention.cross_kv_heads": 2}, ["cross_kv_heads=2 has no effect", "encoder_decoder"]),
        (
            ENCODER_DECODER | {"model.encoder.attention.cross_kv_heads": 2},
            ["model.encoder.attention.cross_kv_heads has no effect"],
        ),
        (
            ENCODER_DECODER | {"mesh.tensor": 2, "model.attention.cross_kv_heads": 1},
            ["cross_kv_heads=1", "mesh.tensor=2"],
        ),
        ({"mesh.tensor": 2, "model.attention.num_query_heads": 1}, ["num_query_heads=1", "mesh.tensor=2"]),
        ({"model.attention.dilations": (1, 2)}, ["dilations=1,2 has no effect without model.attention.window"]),
        (
            {"model.attention.dilations": (1, 1), "model.attention.window": 3},
            ["dilations=1,1 has no effect", "leave it empty"],
        ),
        ({"model.attention.dilations": (1, 1, 2), "model.attention.window": 3}, ["3 entries", "num_heads=4"]),
        ({"model.attention.dilations": (0,), "model.attention.window": 3}, ["dilations=0 must be at least 1"]),
        (ENCODER_DECODER | {"model.attention.dilations": (2,)}, ["dilations=2", "model.encoder or model.decoder"]),
        *(
            (
                {
                    "model.attention.dilations": (2,),
                    "model.attention.window": 3,
                    "model.attention.implementation": kernel,
                },
                [f"implementation={kernel} does not support model.attention.dilations=2"],
            )
            for kernel in ("rows", "xla")
        ),
        ({"data.position_offsets": (0, 0)}, ["data.position_offsets=0,0 has no effect"]),
        (
            {"data.position_offsets": (0, 8), "model.position.max_length": 130},
            ["max_length=130", "data.position_offsets=8"],
        ),
        (
            {"data.position_offsets": (0, 8), "data.isolate_documents": True},
            ["data.position_offsets=0,8", "isolate_documents"],
        ),
        (
            ENCODER | {"data.position_offsets": (8,), "model.attention.window": 3, "model.attention.global_tokens": 1},
            ["data.position_offsets=8", "global_tokens"],
        ),
        (
            ENCODER_DECODER | {"data.position_offsets": (0, 8)},
            ["data.position_offsets=0,8 has no effect", "causal or multi_token or masked"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", attention__num_heads=3),
            ["model.layers.kinds.a: model.dim=256", "num_heads=3"],
        ),
        (
            ENCODER_DECODER | {"model.decoder.attention.num_kv_heads": 3},
            ["model.decoder: model.attention.num_heads=4", "num_kv_heads=3"],
        ),
        (
            ENCODER_DECODER | {"model.dim": 60, "model.encoder.position.kind": "rope"},
            ["model.encoder: RoPE", "not an even number"],
        ),
        (
            ENCODER_DECODER
            | {"model.dim": 5, "model.attention.num_heads": 1, "model.encoder.position.kind": "sinusoidal"},
            ["model.encoder: sinusoidal"],
        ),
        (
            {
                "model.position.kind": "sinusoidal",
                "model.position.endpoint": True,
                "model.dim": 2,
                "model.attention.num_heads": 1,
            },
            ["model.position.endpoint=true", "model.dim=2", "at least 4"],
        ),
        (
            ROPE | {"model.position.scaling.kind": "dynamic", "model.attention.head_dim": 2},
            ["dynamic", "more than two", "got 2"],
        ),
        (
            SCALED_ROPE | {"model.position.scaling.kind": "yarn", "model.position.scaling.low": 40.0},
            ["low=40", "below", "high=32"],
        ),
        (
            SCALED_ROPE | {"model.position.scaling.kind": "llama3", "model.position.scaling.high": 0.5},
            ["low=1", "below", "high=0.5"],
        ),
        (
            SCALED_ROPE | {"model.position.scaling.kind": "yarn", "model.position.theta": 0.5},
            ["yarn", "theta above 1", "0.5"],
        ),
        (
            ROPE | {"model.position.scaling.factor": 2.0},
            ["scaling.factor=2.0 has no effect", "linear or dynamic or yarn or llama3"],
        ),
        (ROPE | {"model.position.scaling.kind": "linear"}, ["scaling.kind=linear has no effect", "factor=1"]),
        (
            SCALED_ROPE | {"model.position.scaling.kind": "linear", "model.position.scaling.original_length": 5},
            ["original_length=5 has no effect"],
        ),
        (RELATIVE_BIAS | {"model.position.buckets": 34}, ["buckets=34", "divisible by 4"]),
        (RELATIVE_BIAS | {"model.position.max_distance": 16}, ["max_distance=16", "above 16", "buckets=32"]),
        (RELATIVE_BIAS | ENCODER | {"model.position.max_distance": 8}, ["max_distance=8", "above 8"]),
        (
            {"model.position.offset": 2, "model.position.kind": "alibi"},
            ["position.offset=2 has no effect", "learned or sinusoidal"],
        ),
        # Blocks
        (
            {"model.parallel": "own_norms", "model.norm.placement": "post"},
            ["parallel=own_norms", "pre-norm", "post", "layernorm"],
        ),
        (
            {"model.parallel": "shared_norm", "model.norm.kind": "none"},
            ["parallel=shared_norm", "pre-norm", "placement is pre", "kind is none"],
        ),
        (ENCODER_DECODER | {"model.parallel": "own_norms"}, ["does not support cross-attention"]),
        (
            ENCODER_DECODER | {"model.decoder.parallel": "own_norms"},
            ["model.decoder: model.parallel", "does not support cross-attention"],
        ),
        ({"model.norm.placement": "deepnorm", "model.residual": False}, ["deepnorm", "model.residual=true"]),
        (
            {"model.norm.placement": "deepnorm", "model.init.scale_residual": True},
            ["deepnorm", "model.init.scale_residual=false"],
        ),
        ({"model.norm.placement": "x0_shortcut", "model.residual": False}, ["x0_shortcut", "model.residual=true"]),
        ({"model.norm.placement": "layerscale", "model.residual": False}, ["layerscale", "model.residual=true"]),
        ({"model.norm.placement": "interpolated", "model.residual": False}, ["interpolated", "model.residual=true"]),
        (
            {"model.norm.placement": "interpolated", "model.residual_multiplier": 0.5},
            ["model.residual_multiplier=0.5 has no effect", "interpolated", "model.norm.step_start"],
        ),
        *(
            (
                fields | {"model.parametrization": "mup", "model.base_dim": 8},
                ["mup has no rule for", *fields, "leave it"],
            )
            for fields in (
                {"model.norm.placement": "interpolated"},
                {"model.norm.kind": "unit"},
                {"model.attention.qk_norm": "unit"},
                {"model.ffn.hidden_scale": True},
                {"model.head.logit_scale": True},
                {"optimizer.constraint": "unit_norm"},
            )
        ),
        *(
            ({"model.init.zero_outputs": True} | fields, ["model.init.zero_outputs", *words])
            for fields, words in (
                ({"model.norm.placement": "sandwich"}, ["sandwich", "set it to false"]),
                ({"model.norm.placement": "reordered"}, ["reordered", "set it to false"]),
                ({"model.norm.placement": "interpolated"}, ["interpolated", "set it to false"]),
                ({"model.norm.placement": "deepnorm"}, ["deepnorm", "own initial values"]),
                ({"model.norm.placement": "layerscale", "model.norm.layerscale_start": 0.0}, ["ever learn"]),
                ({"model.init.scale_residual": True}, ["model.init.scale_residual=true has no effect"]),
                ({"model.residual": False}, ["model.residual"]),
            )
        ),
        ({"model.parallel": "own_norms", "model.norm.placement": "pre_scaled"}, ["pre-norm", "pre_scaled"]),
        *(
            (
                {"model.layers.pattern": ("a", "b"), "model.layers.kinds.b.attention.kind": "value_residual"} | first,
                [f"model.layers.kinds.b.attention.{field}", "first layer", "must be the same"],
            )
            for first, field in (
                ({"model.layers.kinds.a.attention.window": 3}, "kind=value_residual"),
                (
                    {
                        "model.layers.kinds.a.attention.kind": "value_residual",
                        "model.layers.kinds.a.attention.num_kv_heads": 1,
                    },
                    "num_kv_heads=4",
                ),
            )
        ),
        *(
            (
                ENCODER
                | {
                    "model.attention.kind": kind,
                    "model.attention.window": 3,
                    "model.attention.global_tokens": 1,
                    "model.attention.global_projections": True,
                },
                [kind, "global_projections"],
            )
            for kind in ("value_residual", "value_embedding")
        ),
        *(
            (
                ROPE | {"model.position.scaling.kind": kind, "data.isolate_documents": True, **more},
                [f"scaling.kind={kind} reads one length of all rows", "data.isolate_documents=true"],
            )
            for kind, more in (("dynamic", {}), ("longrope", {"model.position.scaling.factor": 2.0}))
        ),
        (
            {"model.attention.kind": "value_embedding", "model.parametrization": "mup", "model.base_dim": 16},
            ["model.parametrization=mup has no rule for a gate", "value_gate_channels=12 channels", "set it to 0"],
        ),
        (
            {"model.attention.kind": "value_embedding", "model.attention.value_gate_channels": 999},
            ["value_gate_channels=999", "model.dim"],
        ),
        ({"model.residual": False, "model.residual_multiplier": 0.5}, ["needs model.residual=true"]),
        ({"model.embedding.projection": "tokens"}, ["projection=tokens has no effect", "model.embedding.dim=0"]),
        (
            ROPE
            | {
                "model.position.scaling.kind": "longrope",
                "model.position.scaling.factor": 2.0,
                "model.position.scaling.short_factors": (1.0,),
                "model.position.scaling.long_factors": (1.0,) * 32,
            },
            ["short_factors has 1 numbers", "one for each of the 32 pairs"],
        ),
        ({"model.norm.kind": "dyt", "model.norm.unit_offset": True}, ["unit_offset=True has no effect", "rmsnorm"]),
        ({"model.embedding.norm": True, "model.norm.kind": "none"}, ["model.embedding.norm=True has no effect"]),
        (
            {"model.embedding.shared": False},
            ["model.embedding.shared=False has no effect", "encoder_decoder", "is decoder"],
        ),
        ({"model.embedding.segments": 2}, ["model.embedding.segments=2 has no effect", "encoder"]),
        ({"model.head.pooler": True}, ["model.head.pooler=True has no effect", "encoder"]),
        (
            ENCODER | {"model.head.next_sentence": True},
            ["next_sentence=True has no effect", "model.head.pooler is True"],
        ),
    ],
    ids=case_id,
)
def test_impossible_combinations_are_refused_in_one_line(changes, words):
    check_refused(changes, words)


@pytest.mark.parametrize(
    "changes",
    [
        ENCODER | {"model.attention.window": 5},
        LONGFORMER | {"model.attention.global_projections": True},
        ENCODER_DECODER | {"model.encoder.attention.window": 5, "model.decoder.attention.window": 4},
        ENCODER_DECODER | {"model.encoder.attention.window": 5, "model.encoder.attention.global_tokens": 1},
        ENCODER_DECODER | {"model.encoder.parallel": "own_norms"},
        ENCODER_DECODER | {"model.decoder.attention.implementation": "xla"},
        ENCODER_DECODER | {"model.position.max_length": 65},
        RELATIVE_BIAS | {"model.position.max_distance": 17},
        RELATIVE_BIAS | ENCODER | {"model.position.max_distance": 9},
        RELATIVE_BIAS
        | {"model.position.shared": False, "model.layers.pattern": ("a",)}
        | kind("a", position__kind="none"),
        {"model.layers.pattern": ("a",)} | kind("a", position__kind="relative_bias", position__shared=False),
        RELATIVE_BIAS
        | {"model.position.shared": False, "model.layers.pattern": ("a",)}
        | kind("a", position__buckets=16, attention__num_heads=2),
        RELATIVE_BIAS
        | {"model.layers.pattern": ("a",)}
        | kind("a", position__shared=True, position__buckets=32, attention__num_kv_heads=2),
        {"model.position.kind": "sinusoidal", "model.layers.pattern": ("a",)}
        | kind("a", position__kind="rope", position__layout="half"),
        {
            "model.attention.implementation": "rows",
            "model.position.kind": "shaw",
            "model.position.relative_values": False,
        },
        PERFORMER | ROPE | {"model.attention.features": 8},
        ENCODER | {"model.head.pooler": True, "model.head.next_sentence": True, "model.vocab_size": 258},
        {"model.norm.placement": "deepnorm"},
        ENCODER_DECODER | {DISTINCT_LAYERS: 2, "model.decoder.num_layers": 6},
        {DISTINCT_LAYERS: 4},
        {DISTINCT_LAYERS: 3, "model.layers.sharing": "cycle", "model.layers.prelude": 1, "model.layers.coda": 1},
        {DISTINCT_LAYERS: 2, "model.layers.sharing": "cycle", "model.layers.loop_draws": "poisson"},
        {EMBEDDING_DIM: 256},
        ENCODER_DECODER | {EMBEDDING_DIM: 8, "model.head.transform": True},
    ],
    ids=str,
)
def test_nearest_valid_combinations_resolve(changes):
    assert configs.resolve(configs.override(configs.default(), changes))


def test_a_problem_of_the_whole_model_is_not_reported_again_for_its_parts():
    parts = (
        {"model.layers.pattern": ("a", "b"), "model.attention.num_heads": 3}
        | kind("a", residual=True)
        | kind("b", attention__window=4)
    )
    (line,) = refused(parts)
    assert line.startswith("model.dim=256 is not divisible")


@pytest.mark.parametrize(
    "changes",
    [
        {"model.attention.qk_norm": "head"},
        {"model.attention.kind": "latent"},
        {"model.layers.pattern": ("a", "b")} | kind("a", attention__qk_norm="head") | kind("b", residual=True),
        {"model.attention.qk_norm": "head", "model.layers.pattern": ("a", "b")}
        | kind("a", residual=True)
        | kind("b", attention__qk_norm="none"),
    ],
    ids=case_id,
)
def test_scales_of_some_layers_may_be_stored_as_their_difference_from_one(changes):
    plain = {"model.norm.unit_offset": True, "model.norm.scale": False}
    configs.resolve(configs.override(configs.default(), plain | changes), 257)
