"""Combinations of valid values that cannot be built: each is refused, in one line that names what
is in the way.
"""

import pytest

from zoo import config as configs
from zoo.errors import ConfigError

ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
TWO = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
ELMO = {"model.architecture": "elmo", "objective.kind": "bidirectional"}
ROPE = {"model.position.kind": "rope"}
TWICE = ROPE | {"model.position.scaling.factor": 2.0}
BIAS = {"model.position.kind": "relative_bias"}
TAUGHT = {"objective.distillation.teacher": "run"}
PERFORMER = {"model.attention.kind": "performer"}
LONG = ENCODER | {"model.attention.window": 5, "model.attention.global_tokens": 1}
SHARED = "model.layers.distinct"
NARROW = "model.embedding.dim"
ISOLATED = {"data.isolate_documents": True}


def kind(name, **fields):
    return {f"model.layers.kinds.{name}.{path.replace('__', '.')}": value for path, value in fields.items()}


def refused(changes):
    with pytest.raises(ConfigError) as caught:
        configs.resolve(configs.override(configs.default(), changes))
    return caught.value.problems


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        # Scopes
        ({"training.eval_context": 128}, ["training.eval_context=128 leaves nothing of data.sequence_length=128"]),
        ({"model.encoder.num_layers": 2}, ["model.encoder is read only", "encoder_decoder", "it is decoder"]),
        (
            TWO | {"model.layers.pattern": ("a",)} | kind("a", residual=True),
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
            {"model.layers.pattern": ("a",)} | kind("a", position__kind="sinusoidal"),
            ["kinds.a.position.kind=sinusoidal", "embedding"],
        ),
        (
            BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__kind="none"),
            ["share one table", "model.position.shared=false"],
        ),
        (
            BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__buckets=16),
            ["kinds.a.position.buckets=16 has no effect", "one table"],
        ),
        (
            BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__max_distance=64),
            ["max_distance=64 has no effect", "one table"],
        ),
        (
            BIAS | {"model.layers.pattern": ("a",)} | kind("a", position__shared=False),
            ["shared=False has no effect", "model.position.shared"],
        ),
        (
            BIAS | {"model.layers.pattern": ("a",)} | kind("a", attention__num_heads=2),
            ["kinds.a.attention.num_heads=2", "of 4 heads"],
        ),
        (
            BIAS | {"model.position.shared": False, "model.layers.pattern": ("a",)} | kind("a", position__shared=True),
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
            ["kinds.a.position.layout='half' has no effect", "sinusoidal positions are added to the embedding"],
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
            TWO | {"model.decoder.norm.bias": False, "model.norm.kind": "rmsnorm"},
            ["model.decoder.norm.bias=False has no effect", "rmsnorm"],
        ),
        # Heads and positions
        ({"model.attention.num_query_heads": 3}, ["num_heads=4", "num_query_heads=3"]),
        (TWO | {"model.attention.cross_kv_heads": 3}, ["num_heads=4", "cross_kv_heads=3"]),
        ({"model.attention.cross_kv_heads": 2}, ["cross_kv_heads=2 has no effect", "encoder_decoder"]),
        (TWO | {"model.encoder.attention.cross_kv_heads": 2}, ["model.encoder.attention.cross_kv_heads has no effect"]),
        (TWO | {"mesh.tensor": 2, "model.attention.cross_kv_heads": 1}, ["cross_kv_heads=1", "mesh.tensor=2"]),
        ({"mesh.tensor": 2, "model.attention.num_query_heads": 1}, ["num_query_heads=1", "mesh.tensor=2"]),
        ({"model.attention.dilations": (1, 2)}, ["dilations=1,2 has no effect without model.attention.window"]),
        (
            {"model.attention.dilations": (1, 1), "model.attention.window": 3},
            ["dilations=1,1 has no effect", "leave it empty"],
        ),
        ({"model.attention.dilations": (1, 1, 2), "model.attention.window": 3}, ["3 entries", "num_heads=4"]),
        ({"model.attention.dilations": (0,), "model.attention.window": 3}, ["dilations=0 must be at least 1"]),
        (TWO | {"model.attention.dilations": (2,)}, ["dilations=2", "model.encoder or model.decoder"]),
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
            TWO | {"data.position_offsets": (0, 8)},
            ["data.position_offsets=0,8 has no effect", "causal or multi_token or masked"],
        ),
        (
            {"model.layers.pattern": ("a",)} | kind("a", attention__num_heads=3),
            ["model.layers.kinds.a: model.dim=256", "num_heads=3"],
        ),
        (
            TWO | {"model.decoder.attention.num_kv_heads": 3},
            ["model.decoder: model.attention.num_heads=4", "num_kv_heads=3"],
        ),
        (TWO | {"model.dim": 60, "model.encoder.position.kind": "rope"}, ["model.encoder: RoPE", "not an even number"]),
        (
            TWO | {"model.dim": 5, "model.attention.num_heads": 1, "model.encoder.position.kind": "sinusoidal"},
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
            TWICE | {"model.position.scaling.kind": "yarn", "model.position.scaling.low": 40.0},
            ["low=40", "below", "high=32"],
        ),
        (
            TWICE | {"model.position.scaling.kind": "llama3", "model.position.scaling.high": 0.5},
            ["low=1", "below", "high=0.5"],
        ),
        (
            TWICE | {"model.position.scaling.kind": "yarn", "model.position.theta": 0.5},
            ["yarn", "theta above 1", "0.5"],
        ),
        (
            ROPE | {"model.position.scaling.factor": 2.0},
            ["scaling.factor=2.0 has no effect", "linear or dynamic or yarn or llama3"],
        ),
        (ROPE | {"model.position.scaling.kind": "linear"}, ["scaling.kind=linear has no effect", "factor=1"]),
        (
            TWICE | {"model.position.scaling.kind": "linear", "model.position.scaling.original_length": 5},
            ["original_length=5 has no effect"],
        ),
        (BIAS | {"model.position.buckets": 34}, ["buckets=34", "divisible by 4"]),
        (BIAS | {"model.position.max_distance": 16}, ["max_distance=16", "above 16", "buckets=32"]),
        (BIAS | ENCODER | {"model.position.max_distance": 8}, ["max_distance=8", "above 8"]),
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
        (TWO | {"model.parallel": "own_norms"}, ["does not support cross-attention"]),
        (
            TWO | {"model.decoder.parallel": "own_norms"},
            ["model.decoder: model.parallel", "does not support cross-attention"],
        ),
        ({"model.norm.placement": "deepnorm", "model.residual": False}, ["deepnorm", "model.residual=true"]),
        (
            {"model.norm.placement": "deepnorm", "model.init.scale_residual": True},
            ["deepnorm", "model.init.scale_residual=false"],
        ),
        ({"model.norm.placement": "x0_shortcut", "model.residual": False}, ["x0_shortcut", "model.residual=true"]),
        ({"model.norm.placement": "layerscale", "model.residual": False}, ["layerscale", "model.residual=true"]),
        *(
            ({"model.init.zero_outputs": True} | fields, ["model.init.zero_outputs", *words])
            for fields, words in (
                ({"model.norm.placement": "sandwich"}, ["sandwich", "set it to false"]),
                ({"model.norm.placement": "reordered"}, ["reordered", "set it to false"]),
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
        (
            {"model.attention.kind": "value_embedding", "model.attention.value_gate_channels": 999},
            ["value_gate_channels=999", "model.dim"],
        ),
        ({"model.norm.unit_offset": True}, ["unit_offset=True has no effect", "rmsnorm"]),
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
        # Windows and global tokens
        (ENCODER | {"model.attention.window": 4}, ["window=4", "odd"]),
        (TWO | {"model.encoder.attention.window": 4}, ["model.encoder: model.attention.window=4", "odd"]),
        (TWO | {"model.attention.window": 5}, ["mean different things", "model.encoder or model.decoder"]),
        (
            ENCODER | {"model.attention.global_projections": True},
            ["global_projections=true", "global_tokens of at least 1"],
        ),
        (
            {"model.attention.global_tokens": 1, "model.attention.window": 4},
            ["global_tokens=1", "early tokens", "encoder"],
        ),
        (
            TWO | {"model.decoder.attention.window": 4, "model.decoder.attention.global_tokens": 1},
            ["model.decoder: ", "early tokens"],
        ),
        (
            ENCODER | {"model.attention.global_tokens": 1},
            ["global_tokens=1", "no effect without model.attention.window"],
        ),
        (LONG | ISOLATED, ["global_tokens=1", "data.isolate_documents=true"]),
        (LONG | {"model.position.kind": "shaw"}, ["global_tokens", "shaw"]),
        # Teachers, and layers of another run
        (
            {"objective.distillation.cosine": 1.0},
            ["cosine=1 has no effect without objective.distillation.teacher", "at 0"],
        ),
        (TAUGHT | {"objective.distillation.kl": 0.0}, ["teacher=run has no effect", "both 0", "leave it empty"]),
        (
            TAUGHT
            | {
                "objective.distillation.kl": 0.0,
                "objective.distillation.cosine": 1.0,
                "objective.distillation.temperature": 4.0,
            },
            ["temperature=4 has no effect", "kl=0", "at 2"],
        ),
        (
            TAUGHT | {"objective.distillation.hard": 0.0, "objective.z_loss": 1e-4},
            ["z_loss=0.0001 has no effect", "hard=0"],
        ),
        (
            TAUGHT | {"objective.distillation.hard": 0.0, "objective.label_smoothing": 0.1},
            ["label_smoothing=0.1 has no effect", "hard=0"],
        ),
        (
            TAUGHT
            | ENCODER
            | {
                "data.row_format": "segment_pairs",
                "data.sequence_length": 32,
                "objective.next_sentence": True,
                "model.head.pooler": True,
                "model.head.next_sentence": True,
            },
            ["next_sentence=true", "tokens alone"],
        ),
        ({"training.start_layers": (0, 2)}, ["start_layers=0,2 has no effect without training.start_from"]),
        (
            {"training.start_layers": (0, 2), "training.start_from": "run"},
            ["start_layers=0,2 names 2 layers", "model.num_layers is 4"],
        ),
        # Performer
        (PERFORMER | {"model.attention.window": 4}, ["performer", "model.attention.window=4"]),
        (PERFORMER | {"model.attention.softcap": 4.0}, ["performer", "model.attention.softcap=4.0"]),
        (PERFORMER | {"model.attention.sinks": True}, ["performer", "model.attention.sinks=True"]),
        (PERFORMER | {"model.attention.dropout": 0.1}, ["performer", "model.attention.dropout=0.1"]),
        (PERFORMER | {"model.position.kind": "alibi"}, ["performer", "model.position.kind=alibi"]),
        (PERFORMER | BIAS, ["performer", "model.position.kind=relative_bias"]),
        (PERFORMER | {"model.position.kind": "shaw"}, ["performer", "model.position.kind=shaw"]),
        (PERFORMER | ISOLATED, ["performer", "data.isolate_documents=True"]),
        (
            PERFORMER | {"model.attention.implementation": "einsum"},
            ["model.attention.implementation=einsum has no effect", "softmax"],
        ),
        ({"model.attention.features": 8}, ["model.attention.features=8 has no effect", "performer"]),
        # What a kernel cannot do
        ({"model.attention.implementation": "rows", "model.attention.dropout": 0.1}, ["rows", "dropout=0.1", "einsum"]),
        (
            {"model.attention.implementation": "rows", "model.position.kind": "shaw"},
            ["rows", "model.position.relative_values=true", "einsum"],
        ),
        ({"model.attention.implementation": "xla", "model.attention.softcap": 5.0}, ["xla", "softcap=5", "einsum"]),
        ({"model.attention.implementation": "xla", "model.attention.sinks": True}, ["xla", "sinks=true", "einsum"]),
        (
            {
                "model.attention.implementation": "cudnn",
                "model.dtype": "bfloat16",
                "model.position.kind": "shaw",
                "model.position.relative_values": False,
            },
            ["cudnn", "model.position.kind=shaw", "einsum"],
        ),
        (
            TWO
            | {
                "model.decoder.attention.implementation": "cudnn",
                "model.dtype": "bfloat16",
                "model.attention.dropout": 0.1,
            },
            ["model.decoder: ", "cudnn", "model.attention.dropout=0.1"],
        ),
        # Objectives
        (
            {"objective.kind": "masked"},
            ["masked trains model.architecture=encoder", "decoder is trained by objective.kind=causal"],
        ),
        (
            {"model.architecture": "encoder"},
            ["causal trains model.architecture=decoder", "encoder is trained by objective.kind=masked"],
        ),
        (
            ENCODER | {"objective.mask_token_fraction": 0.9, "objective.random_token_fraction": 0.2},
            ["mask_token_fraction=0.9", "random_token_fraction=0.2", "than 1"],
        ),
        ({"objective.select_fraction": 0.3}, ["select_fraction=0.3 has no effect", "masked"]),
        (TWO | {"objective.prefix_length": 128}, ["prefix_length=128", "leaves nothing", "sequence_length=128"]),
        (
            TWO | {"model.position.max_length": 99, "objective.prefix_length": 100},
            ["max_length=99", "100 tokens of the encoder"],
        ),
        (
            TWO | {"model.position.max_length": 64, "objective.prefix_length": 30},
            ["max_length=64", "99 tokens of the decoder"],
        ),
        (TWO | {"model.decoder.position.max_length": 64}, ["max_length=64", "65 tokens of the decoder"]),
        (TWO | ISOLATED, ["objective.kind=prefix", "isolate_documents"]),
        (ELMO | ISOLATED, ["objective.kind=bidirectional", "isolate_documents"]),
        # The masked objective needs an id more than the tokenizer has.
        (ENCODER | {"model.vocab_size": 257}, ["model.vocab_size=257", "258 ids, [MASK] included"]),
        # ELMo
        (ELMO | {"model.elmo.filters": (1, 8, 2)}, ["model.elmo.filters=(1, 8, 2)", "pairs"]),
        (ELMO | {"model.elmo.filters": ()}, ["model.elmo.filters is empty"]),
        (
            ELMO | {"model.elmo.filters": (9, 8), "model.elmo.characters": 8},
            ["(9, 8)", "above model.elmo.characters=8"],
        ),
        (ELMO | {"model.norm.kind": "rmsnorm"}, ["model.norm.kind=rmsnorm has no effect", "model.architecture=elmo"]),
        ({"model.elmo.highways": 1}, ["model.elmo.highways=1 has no effect", "elmo"]),
        # Embeddings of another width
        ({NARROW: 8}, ["model.embedding.dim=8", "model.tie_embeddings=true", "model.head.transform=true"]),
        ({NARROW: 256 // 2} | TWO, ["model.embedding.dim=128", "model.tie_embeddings=false"]),
        (
            {NARROW: 7, "model.tie_embeddings": False, "model.position.kind": "sinusoidal"},
            ["model.embedding.dim=7 must be even"],
        ),
        # Layers that share their weights
        ({SHARED: 3}, ["model.layers.distinct=3 does not divide model.num_layers=4"]),
        (TWO | {SHARED: 4, "model.decoder.num_layers": 6}, [f"{SHARED}=4 does not divide model.num_layers=6"]),
        ({SHARED: 1, "model.norm.kind": "batchnorm"}, [f"{SHARED}=1", "model.norm.kind=batchnorm"]),
        (TWO | {SHARED: 1, "model.encoder.norm.kind": "batchnorm"}, [f"{SHARED}=1", "model.norm.kind=batchnorm"]),
        (
            {SHARED: 1, "model.layers.pattern": ("a",)} | kind("a", attention__window=4),
            [f"{SHARED}=1", "model.layers.pattern=a"],
        ),
        (
            {SHARED: 2, "training.start_from": "run", "training.start_layers": (0, 1, 2, 3)},
            [f"{SHARED}=2", "training.start_layers=0,1,2,3"],
        ),
        # Training
        ({"model.norm.kind": "batchnorm", "training.accumulation_steps": 2}, ["accumulation_steps=2", "batchnorm"]),
        (
            TWO | {"model.encoder.norm.kind": "batchnorm", "training.accumulation_steps": 2},
            ["accumulation_steps=2", "batchnorm"],
        ),
        (
            TWO | {"mesh.tensor": 4, "model.decoder.attention.num_heads": 2},
            ["model.decoder.attention.num_heads=2", "mesh.tensor=4"],
        ),
        (
            {"model.layers.pattern": ("a",), "mesh.tensor": 2} | kind("a", attention__num_kv_heads=1),
            ["kinds.a.attention.num_kv_heads=1"],
        ),
    ],
    ids=lambda value: ",".join(f"{path}={level}" for path, level in value.items()) if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused_in_one_line(changes, words):
    lines = refused(changes)
    assert len(lines) == 1, lines
    assert all(word in lines[0] for word in words), lines[0]
    assert "\n" not in lines[0]


@pytest.mark.parametrize(
    "changes",
    [
        # The nearest neighbours of what is refused.
        ENCODER | {"model.attention.window": 5},
        LONG | {"model.attention.global_projections": True},
        TWO | {"model.encoder.attention.window": 5, "model.decoder.attention.window": 4},
        TWO | {"model.encoder.attention.window": 5, "model.encoder.attention.global_tokens": 1},
        TWO | {"model.encoder.parallel": "own_norms"},
        TWO | {"model.decoder.attention.implementation": "xla"},
        TWO | {"model.position.max_length": 65},
        BIAS | {"model.position.max_distance": 17},
        BIAS | ENCODER | {"model.position.max_distance": 9},
        BIAS | {"model.position.shared": False, "model.layers.pattern": ("a",)} | kind("a", position__kind="none"),
        {"model.layers.pattern": ("a",)} | kind("a", position__kind="relative_bias", position__shared=False),
        BIAS
        | {"model.position.shared": False, "model.layers.pattern": ("a",)}
        | kind("a", position__buckets=16, attention__num_heads=2),
        BIAS
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
        TWO | {SHARED: 2, "model.decoder.num_layers": 6},
        {SHARED: 4},
        {NARROW: 256},
        TWO | {NARROW: 8, "model.head.transform": True},
    ],
    ids=str,
)
def test_what_is_next_to_it_can_be(changes):
    assert configs.resolve(configs.override(configs.default(), changes))


def test_a_problem_of_the_whole_model_is_not_told_again_for_its_parts():
    parts = (
        {"model.layers.pattern": ("a", "b"), "model.attention.num_heads": 3}
        | kind("a", residual=True)
        | kind("b", attention__window=4)
    )
    (line,) = refused(parts)
    assert line.startswith("model.dim=256 is not divisible")
