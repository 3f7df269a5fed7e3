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
