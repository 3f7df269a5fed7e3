"""The attention kernels of variants on each platform."""

import pytest

from zoo.cli.main import main
from zoo.variants.kernel_table import SETTINGS, kernels_by_platform


@pytest.mark.parametrize(
    ("changes", "kernels"),
    [
        ({}, {"TPU": "splash", "GPU": "cudnn", "CPU": "rows"}),
        ({"model.attention.softcap": 30.0},
         {"TPU": "splash", "GPU": "einsum (a soft-cap on the scores)", "CPU": "rows"}),
        ({"model.position.kind": "alibi"},
         {"TPU": "einsum (a bias on the scores)", "GPU": "cudnn", "CPU": "rows"}),
        (SETTINGS["documents and a window"], {"TPU": "splash", "GPU": "banded cudnn", "CPU": "banded rows"}),
        (SETTINGS["rows that begin at other positions"],
         {"TPU": "einsum (tokens that are not in the order of their positions)", "GPU": "cudnn", "CPU": "rows"}),
        (SETTINGS["rows of 64 tokens"],
         {"TPU": "einsum (rows of 64 tokens, fewer than the 128 of a block)", "GPU": "cudnn", "CPU": "einsum"}),
        ({"model.attention.kind": "performer"}, {}),
    ],
)  # fmt: skip
def test_platforms_take_the_fused_kernel_or_name_why_not(changes, kernels):
    assert kernels_by_platform(changes) == kernels


def test_the_field_is_described_with_the_kernels_of_variants(capsys, monkeypatch):
    from zoo.variants import kernel_table

    few = [variant for variant in kernel_table.VARIANTS if variant.name in ("rope", "alibi", "alibi-scaled")]
    monkeypatch.setattr(kernel_table, "VARIANTS", few)
    monkeypatch.setattr(kernel_table, "SETTINGS", {"heads of 20": SETTINGS["heads of 20"]})
    for name in ("splash", "model.attention.implementation", "flash-attention"):
        assert main(["describe", name]) == 0
        printed = capsys.readouterr().out
        assert "    TPU einsum (a bias on the scores); GPU cudnn; CPU rows\n        alibi, alibi-scaled\n" in printed
        assert "TPU splash; GPU einsum (head_dim=20, no multiple of 8 up to 256); CPU rows\n        heads" in printed
    assert main(["describe", "model.attention.softcap"]) == 0
    assert "TPU" not in capsys.readouterr().out
