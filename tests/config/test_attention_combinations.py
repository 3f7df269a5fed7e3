"""Combinations of attention, its windows and its implementations that cannot be built."""

import pytest

from tests.fields.refused_configs import (
    ENCODER,
    ENCODER_DECODER,
    ISOLATED,
    LONGFORMER,
    PERFORMER,
    RELATIVE_BIAS,
    case_id,
    check_refused,
)

KEYS, OF_READER = "model.attention.keys_from", "model.layers.kinds.reader.attention"
READER = {
    "model.layers.pattern": ("own", "reader"),
    "model.layers.kinds.own.residual": True,
    f"{OF_READER}.keys_from": "own",
}
NO_POSITIONS = {"model.position.kind": "none"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        # Windows and global tokens
        (ENCODER | {"model.attention.window": 4}, ["window=4", "odd"]),
        (ENCODER_DECODER | {"model.encoder.attention.window": 4}, ["model.encoder: model.attention.window=4", "odd"]),
        (ENCODER_DECODER | {"model.attention.window": 5}, ["mean different things", "model.encoder or model.decoder"]),
        (
            ENCODER | {"model.attention.global_projections": True},
            ["global_projections=true", "global_tokens of at least 1"],
        ),
        (
            {"model.attention.global_tokens": 1, "model.attention.window": 4},
            ["global_tokens=1", "early tokens", "encoder"],
        ),
        (
            ENCODER_DECODER | {"model.decoder.attention.window": 4, "model.decoder.attention.global_tokens": 1},
            ["model.decoder: ", "early tokens"],
        ),
        (
            ENCODER | {"model.attention.global_tokens": 1},
            ["global_tokens=1", "no effect without model.attention.window"],
        ),
        (LONGFORMER | ISOLATED, ["global_tokens=1", "data.isolate_documents=true"]),
        (LONGFORMER | {"model.position.kind": "shaw"}, ["global_tokens", "shaw"]),
        # Performer
        (PERFORMER | {"model.attention.window": 4}, ["performer", "model.attention.window=4"]),
        (PERFORMER | {"model.attention.softcap": 4.0}, ["performer", "model.attention.softcap=4.0"]),
        (PERFORMER | {"model.attention.sinks": True}, ["performer", "model.attention.sinks=True"]),
        (PERFORMER | {"model.attention.dropout": 0.1}, ["performer", "model.attention.dropout=0.1"]),
        (PERFORMER | {"model.position.kind": "alibi"}, ["performer", "model.position.kind=alibi"]),
        (PERFORMER | RELATIVE_BIAS, ["performer", "model.position.kind=relative_bias"]),
        (PERFORMER | {"model.position.kind": "shaw"}, ["performer", "model.position.kind=shaw"]),
        (PERFORMER | ISOLATED, ["performer", "data.isolate_documents=True"]),
        (
            PERFORMER | {"model.attention.implementation": "einsum"},
            ["model.attention.implementation=einsum has no effect", "softmax"],
        ),
        ({"model.attention.features": 8}, ["model.attention.features=8 has no effect", "performer"]),
        # Keys and values of earlier layers
        ({KEYS: "own"}, [f"{KEYS}='own'", "model.layers.pattern, which is empty"]),
        (
            ENCODER_DECODER | {"model.decoder.attention.keys_from": "own"},
            ["model.decoder.attention.keys_from='own'", "model.layers.pattern, which is empty"],
        ),
        (
            READER | {f"{OF_READER}.keys_from": "owner"},
            ["keys_from='owner' is no kind of layers", "it has own, reader"],
        ),
        (READER | {f"{OF_READER}.keys_from": "reader"}, ["kind reader read keys and values too"]),
        (READER | {"model.layers.pattern": ("reader", "own")}, ["has reader before own", "put own first"]),
        (
            READER | {f"{OF_READER}.window": 4},
            ["model.attention.window is 4 in layers of kind reader and 0", "kind own", "the same"],
        ),
        (
            READER | {"model.position.kind": "rope", "model.layers.kinds.reader.position.theta": 50.0},
            ["model.position.theta is 50.0 in layers of kind reader"],
        ),
        (READER | {f"{OF_READER}.num_kv_heads": 2}, ["model.attention.num_kv_heads is 2", "kind own"]),
        (
            LONGFORMER | READER | {"model.attention.global_projections": True},
            ["keys_from='own'", "global_projections=true"],
        ),
        (READER | {"model.convolution.kind": "kv_shift"}, ["shifts keys and values", "reader.convolution.kind=none"]),
        *(
            (READER | NO_POSITIONS | {"model.attention.kind": kind}, [f"{kind} cannot be combined with {KEYS}=own"])
            for kind in ("performer", "latent", "value_residual", "value_embedding", "gated_delta", "gated_convolution")
        ),
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
            ENCODER_DECODER
            | {
                "model.decoder.attention.implementation": "cudnn",
                "model.dtype": "bfloat16",
                "model.attention.dropout": 0.1,
            },
            ["model.decoder: ", "cudnn", "model.attention.dropout=0.1"],
        ),
    ],
    ids=case_id,
)
def test_impossible_combinations_are_refused_in_one_line(changes, words):
    check_refused(changes, words)
