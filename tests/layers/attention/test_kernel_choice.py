"""The kernel that computes a layer on a device, and the reason if it is not the fused one."""

from dataclasses import replace

import numpy as np
import pytest

from zoo.config import ATTENTION_SUPPORT
from zoo.errors import ConfigError
from zoo.layers.attention.kernels.kernel_choice import KernelChoice, RowSize, choose_kernel, row_shape, window_block
from zoo.layers.context import Context
from zoo.layers.platform import Platform

FEATURES = (
    "score", "documents", "prefix", "dropout", "softcap", "sinks", "value", "padding", "dilations", "value_width",
    "centred_window", "query_score", "row_score", "weights", "any_order",
)  # fmt: skip
BY_ARRAY = ("score", "documents", "prefix", "padding", "centred_window", "any_order")
BY_SPLASH = ("documents", "prefix", "padding", "centred_window", "softcap", "sinks", "value_width")
TPU = {"name": "tpu", "capability": None}
TO_SOME = {
    **{feature: ({feature: feature}, "einsum", feature) for feature in FEATURES if feature not in BY_ARRAY},
    **{feature: ({feature: feature}, "cudnn", "") for feature in BY_ARRAY},
    "nothing": ({}, "cudnn", ""),
    "float32": ({"dtype": "float32"}, "einsum", "float32 activations"),
    "all": ({"dtype": "float32", "sinks": "sinks", "head_dim": 20}, "einsum", "float32 activations; head_dim=20, no "
            "multiple of 8 up to 256; sinks"),
    "20": ({"head_dim": 20}, "einsum", "head_dim=20, no multiple of 8 up to 256"),
    "264": ({"head_dim": 264}, "einsum", "head_dim=264, no multiple of 8 up to 256"),
    "256 on Hopper": ({"head_dim": 256}, "cudnn", ""),
    "136 on Ampere": ({"head_dim": 136, "capability": (8, 9)}, "einsum", "head_dim=136, above 128 on this GPU"),
    "136 on Blackwell": ({"head_dim": 136, "capability": (10, 0)}, "einsum", "head_dim=136, above 128 on this GPU"),
    "128 on Ampere": ({"head_dim": 128, "capability": (8, 0)}, "cudnn", ""),
    "128 on Blackwell": ({"head_dim": 128, "capability": (12, 0)}, "cudnn", ""),
    "Turing": ({"capability": (7, 5)}, "einsum", "compute capability 7.5, below 8.0"),
    "AMD": ({"capability": None}, "einsum", "no NVIDIA GPU"),
    "eight": ({"devices": 8}, "cudnn", ""),
    **{f"{feature} on a TPU": (TPU | {feature: feature}, "splash", "") for feature in BY_SPLASH},
    **{f"{feature} on a TPU": (TPU | {feature: feature}, "einsum", feature)
       for feature in FEATURES if feature not in BY_SPLASH},
    "eight TPUs": (TPU | {"devices": 8}, "splash", ""),
    "float32 and odd heads on a TPU": (TPU | {"dtype": "float32", "head_dim": 20}, "splash", ""),
    "short rows on a TPU": (TPU | {"tokens": 127}, "einsum", "rows of 127 tokens, fewer than the 128 of a block"),
    "a row of a block on a TPU": (TPU | {"tokens": 128}, "splash", ""),
    "a bias of rows on a TPU": (TPU | {"score": "a bias", "row_score": "of rows"}, "einsum", "a bias"),
    "splash named for short rows": (TPU | {"implementation": "splash", "tokens": 7}, "splash", ""),
    "splash named elsewhere": ({"implementation": "splash"}, "splash", "no TPU"),
    "cpu": ({"name": "cpu"}, "rows", "no GPU or TPU"),
    "cpu, a lot": ({"name": "cpu", "score": "x", "documents": "x", "softcap": "x", "sinks": "x", "padding": "x",
                    "dtype": "float32", "head_dim": 20, "value_width": "x", "centred_window": "x"}, "rows", "no GPU or TPU"),
    "cpu, dropout": ({"name": "cpu", "dropout": "x"}, "einsum", "no GPU or TPU"),
    "cpu, value": ({"name": "cpu", "value": "x"}, "einsum", "no GPU or TPU"),
    "cpu, long rows": ({"name": "cpu", "scores": 2**17}, "rows", "no GPU or TPU"),
    "cpu, short rows": ({"name": "cpu", "scores": 2**17 - 1}, "einsum", "no GPU or TPU"),
    "cpu, short rows of an earlier run": ({"name": "cpu", "scores": 1, "rows_from": 0}, "rows", "no GPU or TPU"),
    "short rows by name": ({"name": "cpu", "scores": 1, "implementation": "rows"}, "rows",
                           "model.attention.implementation=rows"),
    "cpus": ({"name": "cpu", "devices": 2}, "einsum", "no GPU or TPU"),
    "named": ({"implementation": "xla"}, "xla", "model.attention.implementation=xla"),
    "named fused": ({"implementation": "cudnn"}, "cudnn", ""),
    "named fused elsewhere": ({"implementation": "cudnn", "name": "cpu", "head_dim": 256}, "cudnn", "no GPU"),
}  # fmt: skip


def chosen(changes, block=0, cudnn_block=0):
    """The choice on a Hopper for heads of 64 in bfloat16, or with changes of that."""
    platform = {"name": "gpu", "devices": 1, "capability": (9, 0), "rows_from": 2**17}
    given = {"implementation": "auto", "dtype": "bfloat16", "head_dim": 64, "tokens": 512, "scores": 2**20}
    asked = dict.fromkeys(FEATURES, "")
    for name, value in changes.items():
        next((fields for fields in (platform, given) if name in fields), asked)[name] = value
    rows = RowSize(given.pop("tokens"), given.pop("scores"), block, cudnn_block)
    return choose_kernel(**given, platform=Platform(**platform), asked=asked, rows=rows)


@pytest.mark.parametrize("case", TO_SOME)
def test_auto_takes_a_faster_kernel_only_where_it_can_do_what_is_asked(case):
    changes, kernel, reason = TO_SOME[case]
    assert chosen(changes) == KernelChoice(kernel, 0, reason)


def test_a_window_is_cut_into_blocks_but_for_the_fused_kernel():
    assert [chosen(changes, 64).name for changes in ({}, {"sinks": "sinks"}, {"implementation": "xla"})] == [
        "cudnn", "banded einsum", "banded xla"
    ]  # fmt: skip
    assert chosen({"implementation": "cudnn"}, 64).block == chosen(TPU, 64, 64).block == 0
    # Where the mask is an array, blocks keep it linear in the length.
    assert [chosen(changes, 64, 64).name for changes in ({}, {"implementation": "cudnn"})] == ["banded cudnn"] * 2


def test_the_shape_of_a_row_is_that_of_what_a_kernel_is_given():
    rows = Context(np.zeros((1, 512), np.int32), in_order=True)
    assert row_shape(rows, 0) == (512, 512)
    assert row_shape(replace(rows, key_positions=np.zeros((1, 40), np.int32)), 0) == (512, 40)
    assert row_shape(rows, 64, global_tokens=3) == (64, 131)
    assert row_shape(replace(rows, causal=False), 64) == (64, 192)


def test_only_rows_in_order_without_a_prefix_are_cut():
    rows, short = (Context(np.zeros((1, length), np.int32), in_order=True) for length in (512, 64))
    cut = (rows, replace(rows, in_order=False), replace(rows, prefix=3), short)
    assert [window_block(each, 9) for each in cut] == [64, 0, 0, 0]


def test_heads_too_wide_for_a_gpu_are_refused_where_the_kernel_is_named():
    with pytest.raises(ConfigError, match=r"implementation=cudnn cannot have .*head_dim=256, above 128"):
        chosen({"implementation": "cudnn", "head_dim": 256, "capability": (8, 0)})


def test_features_without_a_field_are_refused_when_a_kernel_is_named():
    for kernel, features in (
        ("cudnn", ("row_score", "query_score", "value_width")),
        ("splash", ("row_score", "query_score", "any_order")),
    ):
        for feature in features:
            with pytest.raises(ConfigError, match=f"implementation={kernel} does not support this; use einsum"):
                chosen({"implementation": kernel, feature: "this"})


def test_the_features_asked_of_a_kernel_are_those_of_the_table():
    assert ATTENTION_SUPPORT["einsum"].features == set(FEATURES)
    assert all(support.features <= set(FEATURES) for support in ATTENTION_SUPPORT.values())
