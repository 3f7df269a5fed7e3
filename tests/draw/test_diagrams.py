"""Diagrams of configs: the parts and their order, masks, head sharing and positions."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from tests.support.building import random_values
from tests.support.small_runs import OBJECTIVES, small
from zoo.analysis.activations import record_activations
from zoo.cli.main import main
from zoo.config import load, override, resolve
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.draw import position_tables, rope_pictures
from zoo.draw.diagrams import architecture_diagram, architecture_parts, attention_masks, block_steps, head_sharing
from zoo.draw.diagrams.architecture_parts import Addition, Parallel, Part, Repeat, columns, wrapped
from zoo.draw.diagrams.block_steps import Branch
from zoo.models.architectures import make_model

TINY = {"model__dim": 16, "model__num_layers": 2, "model__attention__num_heads": 4}


def resolved(kind="causal", **changes):
    return resolve(small(**OBJECTIVES[kind], **TINY, **changes))


def outline(steps):
    """Yields the roles of nested steps, with a branch as a tuple."""
    for step in steps:
        if isinstance(step, Part):
            yield step.role
        elif isinstance(step, Addition):
            yield "+" + step.part.role
        elif isinstance(step, Parallel):
            yield [tuple(outline(branch)) for branch in step.branches]
        else:
            yield ("+" if isinstance(step, Branch) and step.residual else "", *outline(step.steps))


@pytest.mark.parametrize(("placement", "steps"), [
    ("pre", [("+", "norm", "f")]),
    ("post", [("+", "f"), "norm"]),
    ("deepnorm", [("+", "f"), "norm"]),
    ("sandwich", [("+", "norm", "f", "norm")]),
    ("reordered", [("+", "f", "norm")]),
    ("interpolated", [("+", "f", "norm"), "norm"]),
    ("resi_dual", [("+", "f"), "norm"]),
])  # fmt: skip
def test_sublayer_steps_follow_the_placement(placement, steps):
    model = resolved(model__norm__placement=placement).model
    found = block_steps.sublayer_steps(model)

    def named(steps):
        return [
            ("+", *named(step.steps)) if isinstance(step, Branch) else step.replace("sublayer", "f") for step in steps
        ]

    assert named(found) == steps
    labels = {"deepnorm": "× α", "interpolated": "a (f − x)", "resi_dual": "two streams"}
    assert [step.label for step in found if isinstance(step, Branch)] == [labels.get(placement, "")]


@pytest.mark.parametrize(("placement", "label"), [("hyper", "streams"), ("mudd", "earlier outputs")])
def test_several_vectors_of_a_token_are_named(placement, label):
    model = resolved(model__norm__placement=placement, model__norm__streams=4).model
    assert block_steps.sublayer_steps(model) == (Branch(("norm", "sublayer"), label=label),)


def test_unknown_placements_are_drawn_as_one_sublayer(monkeypatch):
    class Streams(PLACEMENT_KINDS.code_of("pre")):
        def sublayer(self, x, f, norm, output_norm, context, part):
            return x * 2 + f(x)

    monkeypatch.setitem(PLACEMENT_KINDS.by_name, "pre", replace(PLACEMENT_KINDS.by_name["pre"], code=Streams))
    assert block_steps.sublayer_steps(resolved().model) == (Branch(("sublayer",), residual=False),)


def test_decoder_diagram():
    (column,) = columns(resolved(model__position__kind="rope", model__attention__num_kv_heads=2))
    assert list(outline(column.steps)) == [
        "embedding", ("", ("+", "norm", "attention"), ("+", "norm", "ffn")), "norm", "head", "softmax"
    ]  # fmt: skip
    repeat = next(step for step in column.steps if isinstance(step, Repeat))
    attention = repeat.steps[0].steps[1]
    assert repeat.count == "2 ×"
    assert attention.title == "Grouped-query self-attention"
    assert attention.inputs == (("Q, 4 heads", "RoPE"), ("K, 2 heads", "RoPE"), ("V, 2 heads",))
    assert attention.cached


def test_prefix_decoder_diagram():
    (column,) = columns(resolved("prefix decoder"))
    repeat = next(step for step in column.steps if isinstance(step, Repeat))
    assert repeat.steps[0].steps[1].details == ("causal after a prefix that all see",)


def test_parallel_sublayers_without_residual():
    (column,) = columns(resolved(model__parallel="shared_norm", model__residual=False))
    assert list(outline(column.steps))[:3] == [
        "embedding", "+position", ("", ("", "norm", [("attention",), ("ffn",)]))
    ]  # fmt: skip


def test_encoder_decoder_diagram():
    encoder, decoder = columns(resolved("span", model__norm__placement="post"))
    assert list(outline(encoder.steps))[-1] == ("", ("+", "attention"), "norm", ("+", "ffn"), "norm")
    assert list(outline(decoder.steps))[2][3] == ("+", "attention")
    cross = decoder.steps[2].steps[2].steps[0]
    assert cross.memory
    assert [steps[0][0] for steps in cross.inputs] == ["K", "V", "Q"]


def test_layer_kinds_share_a_block():
    changes = {"model.layers.pattern": ("near", "near", "far"), "model.layers.kinds.near.attention.window": 4}
    changes["model.layers.kinds.far.attention.window"] = 0
    (column,) = columns(resolve(override(small(**TINY), changes)))
    repeat = next(step for step in column.steps if isinstance(step, Repeat))
    assert repeat.count == "2 × (2 near, far, in turn)"
    assert repeat.steps[0].steps[1].details == ("near: causal, window of 4", "far: causal")


def test_norms_name_their_placements_where_kinds_differ():
    changes = {"model.layers.pattern": ("in", "out"), "model.layers.kinds.in.residual": True}
    changes["model.layers.kinds.out.norm.placement"] = "reordered"
    (column,) = columns(resolve(override(small(**TINY), changes)))
    repeat = next(step for step in column.steps if isinstance(step, Repeat))
    assert repeat.steps[0].steps[0].details == ("in: pre", "out: reordered")


def test_omitted_norms_are_not_drawn():
    (column,) = columns(resolve(override(small(**TINY), {"model.attention.input_norm": False})))
    attention, feed_forward = list(outline(column.steps))[2][1:3]
    assert (attention, feed_forward) == (("+", "attention"), ("+", "norm", "ffn"))


def test_diagrams_mark_different_parts_but_not_sizes():
    one = resolved()
    other = resolved(model__position__kind="rope", model__norm__kind="rmsnorm", model__ffn__hidden_dim=20)
    drawn = architecture_diagram.page([one, other], ["one", "other"])
    boxes = [patch for patch in drawn.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    marked = [box.get_label() for box in boxes if box.get_linewidth() > 1]
    assert sorted(marked) == ["input"] + ["norm"] * 6 + ["position"] * 3
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert {"one", "other", "16 → 20 → 16", "RMSNorm", "Learned positions"} <= set(texts)
    same = architecture_diagram.page([one, one], ["one", "other"])
    assert not [box.get_label() for box in same.axes[0].patches if box.get_linewidth() > 1.5]
    assert "differs from the other one" not in " ".join(text.get_text() for text in same.axes[0].texts)


def test_text_fits_into_boxes_and_boxes_fit_into_the_page():
    drawn = architecture_diagram.page([resolved("span")], ["a name"])
    (axes,), renderer = drawn.axes, FigureCanvasAgg(drawn).get_renderer()
    page = drawn.bbox.padded(0.5)
    for artist in (*axes.texts, *axes.patches):
        extent = artist.get_window_extent(renderer)
        assert page.contains(extent.x0, extent.y0), artist
        assert page.contains(extent.x1, extent.y1), artist
    widest = max(
        box.get_width() for box in axes.patches if isinstance(box, FancyBboxPatch) and box.get_label() == "ffn"
    )
    texts = [text.get_window_extent(renderer).width for text in axes.texts]
    assert max(texts) < widest * drawn.dpi


def test_lines_do_not_break_at_hyphens():
    assert wrapped(("a learning rate with warm-up", "both"), 26) == ["a learning rate with", "warm-up", "both"]


def test_figure_files_are_named_after_their_configs(tmp_path, capsys):
    specs = ["configs/gpt2.py:tiny", "configs/llama.py:tiny,model.dim=64"]
    assert main(["draw", "architecture", *specs, "--out", str(tmp_path / "figures"), "--format", "svg,pdf"]) == 0
    name = "architecture-gpt2-tiny-llama-tiny-model.dim=64"
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [f"{name}.pdf", f"{name}.svg"]
    drawn = (tmp_path / "figures" / f"{name}.svg").read_text(encoding="utf-8")
    assert ">Feed-forward, SwiGLU</text>" in drawn
    assert "sans-serif" in drawn
    # Every class that is used is defined, and vice versa.
    assert set(re.findall(r'class="(\w+)"', drawn)) == set(re.findall(r"\.(\w+)\{", drawn))
    capsys.readouterr()
    for wrong, line in ((["configs/gpt2.py:huge"], "size 'huge'"), ([specs[0]] * 3, "one config or two, not 3")):
        assert main(["draw", "architecture", *wrong]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert line in error


def test_masks_of_windows_documents_and_prefixes():
    query, key = np.mgrid[:40, :40]
    (plain,) = attention_masks.masks(resolved(model__attention__window=5), 32)
    small_query, small_key = np.mgrid[:32, :32]
    np.testing.assert_array_equal(plain.visible, (small_key <= small_query) & (small_query - small_key < 5))
    assert (plain.title, plain.notes) == ("self-attention, all layers", "causal, window of 5")

    changes = {"model__attention__window": 3, "model__attention__dilations": (1, 2), "data__isolate_documents": True}
    one, two = attention_masks.masks(resolved(model__position__kind="none", **changes), 40)
    document = np.searchsorted(two.documents, np.arange(40), side="right")
    near = (key <= query) & (query - key < 6) & ((query - key) % 2 == 0) & (document[query] == document[key])
    np.testing.assert_array_equal(two.visible, near)
    assert one.notes == "causal, window of 3, dilation 1 (heads 0, 2)"

    (prefix,) = attention_masks.masks(resolved("prefix decoder"), 32)
    np.testing.assert_array_equal(prefix.visible, (small_key <= small_query) | (small_key < 6))


def test_masks_of_long_rows_are_subsampled():
    (mask,) = attention_masks.masks(resolved(model__attention__window=100), 320)
    query, key = 10 * np.mgrid[:32, :32]
    np.testing.assert_array_equal(mask.visible, (key <= query) & (query - key < 100))
    assert mask.places[-1] == 310
    for window, trained, length in ((100, 320, 320), (100, 64, 200), (100, 4096, 800), (3, 96, 32), (0, 96, 96)):
        config = resolved(model__attention__window=window, data__sequence_length=trained)
        assert attention_masks.row_length(config) == length
    drawn = attention_masks.page(resolved(data__sequence_length=96), "a config")
    assert "a row of 96 tokens, one in 3 shown" in drawn.get_suptitle()
    mask, reach = drawn.axes
    assert [tick.get_text() for tick in mask.get_xticklabels()] == ["0", "24", "48", "72"]
    assert reach.get_legend().get_texts()[0].get_text() == "last token of 96"


def test_masks_of_an_encoder_decoder():
    encoder, decoder, cross = attention_masks.masks(resolved("span"), 8)
    assert encoder.visible.all()
    assert cross.visible.all()
    np.testing.assert_array_equal(decoder.visible, np.tri(8, dtype=bool))


def test_receptive_fields_grow_by_a_window_per_layer():
    (field,) = attention_masks.receptive_fields(resolved(model__attention__window=5, data__sequence_length=64))
    np.testing.assert_array_equal(field.tokens, [1, 5, 9])
    # The windows give what following the mask gives.
    config = resolved(model__attention__window=5)
    context = attention_masks.row_context(config, True, 0, 64, 1)
    (seen,) = attention_masks.visible_by_dilation(config.model, context).values()
    np.testing.assert_array_equal(attention_masks.reach_by_layer({"": seen}, ("", ""), -1), field.tokens)
    (whole,) = attention_masks.receptive_fields(resolved(data__sequence_length=64))
    np.testing.assert_array_equal(whole.tokens, [1, 64, 64])
    near, far = np.eye(6, dtype=bool) | np.eye(6, k=-1, dtype=bool), np.tri(6, dtype=bool)
    np.testing.assert_array_equal(
        attention_masks.reach_by_layer({"near": near, "far": far}, ("near", "near", "far"), 5), [1, 2, 3, 6]
    )
    np.testing.assert_array_equal(
        attention_masks.reach_by_layer({"near": near, "far": far}, ("far", "near", "near"), 3), [1, 4, 4, 4]
    )


def test_windows_reach_beyond_the_row():
    # L (w - 1) + 1 tokens: Mistral's windows reach 131,041, and its row is full after 3 of 32 layers.
    (field,) = attention_masks.receptive_fields(resolve(load("mistral")))
    assert field.formula == "32 × (4,096 − 1) + 1 = 131,041"
    np.testing.assert_array_equal(field.endless, 1 + 4095 * np.arange(33))
    np.testing.assert_array_equal(field.tokens[:5], [1, 4096, 8191, 8192, 8192])
    drawn = attention_masks.page(resolved(model__attention__window=5, data__sequence_length=8), "a config")
    assert [text.get_text() for text in drawn.axes[-1].get_legend().get_texts()] == [
        "last token of 8", "of a longer row:\n2 × (5 − 1) + 1 = 9"
    ]  # fmt: skip

    changes = {"model.layers.pattern": ("near", "near", "far"), "model.num_layers": 4, "model.attention.window": 0}
    changes["model.layers.kinds.near.attention.window"] = 4

    def layers(far):
        return resolve(override(small(**TINY), changes | {"model.layers.kinds.far.attention.window": far}))

    (field,) = attention_masks.receptive_fields(layers(9))
    assert field.formula == "3 × (4 − 1) + 1 × (9 − 1) + 1 = 18"
    assert field.endless.tolist() == [1, 4, 7, 15, 18]
    # One layer that sees the whole row, or gaps in a window, have no such number.
    for config in (
        layers(0),
        resolved(model__position__kind="none", model__attention__window=4, model__attention__dilations=(1, 2)),
        resolved(),
    ):
        (field,) = attention_masks.receptive_fields(config)
        assert (len(field.endless), field.formula) == (0, "")
    # In an encoder a window has as many keys on both sides.
    (field,) = attention_masks.receptive_fields(resolved("masked", model__attention__window=7))
    assert field.endless.tolist() == [1, 7, 13]


def test_mask_page_and_bad_arguments(tmp_path, capsys):
    drawn = attention_masks.page(resolved("span"), "a config")
    assert [axes.get_title().splitlines()[0] for axes in drawn.axes] == [
        "encoder self-attention, all layers",
        "decoder self-attention, all layers",
        "cross-attention",
        "receptive field: tokens of a row",
    ]
    assert drawn.get_suptitle().startswith("a config")
    for arguments, line in (
        (["configs/elmo.py:tiny"], "model.architecture=elmo has no attention"),
        (["configs/gpt2.py:tiny", "--length", "-1"], "--length -1 must be at least 1"),
    ):
        assert main(["draw", "mask", *arguments, "--out", str(tmp_path / "out")]) == 2
        assert line in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_head_sharing():
    (grouped,) = head_sharing.sharings(resolved(model__attention__num_kv_heads=2, model__attention__num_query_heads=1))
    assert grouped.scheme == "grouped-query (GQA)"
    assert grouped.readers(grouped.groups) == [[0, 1], [2, 3]]
    assert grouped.readers(grouped.queries) == [[0, 1, 2, 3]]
    # Keys and values have 2 heads of 4 dimensions in 2 layers, in float32.
    assert grouped.cached_bytes == 2 * 2 * 4 * 2 * 4
    both = head_sharing.sharings(resolved("span", model__attention__cross_kv_heads=1))
    assert [(each.title, each.groups, each.cached_bytes > 0) for each in both] == [
        ("encoder self-attention", 4, False), ("decoder self-attention", 4, True), ("cross-attention", 1, True)
    ]  # fmt: skip


def test_arms_that_differ_in_shared_heads_are_told_apart():
    configs = [resolved(model__attention__num_kv_heads=count) for count in (4, 2, 1)]
    drawn = head_sharing.page(configs, ["one", "two", "three"])
    bold = [text.get_text() for text in drawn.axes[0].texts if text.get_weight() == "bold"]
    assert bold == [
        "one", "self-attention, multi-head (MHA)",
        "two", "self-attention, grouped-query (GQA)",
        "three", "self-attention, multi-query (MQA)",
    ]  # fmt: skip


def test_layer_kinds_with_equal_sharing_are_drawn_once():
    changes = {
        "model.layers.pattern": ("a", "b", "c"),
        "model.num_layers": 3,
        "model.layers.kinds.a.attention.window": 4,
        "model.layers.kinds.b.attention.num_kv_heads": 1,
        "model.layers.kinds.c.attention.window": 8,
    }
    config = resolve(override(small(**TINY), changes))
    found = head_sharing.sharings(config)
    assert [(each.title, each.groups) for each in found] == [("a and c self-attention", 4), ("b self-attention", 1)]
    drawn = head_sharing.page([config], ["a name"])
    roles = [patch.get_label() for patch in drawn.axes[0].patches]
    assert [roles.count(role) for role in ("attention", "ffn", "softmax")] == [8, 5, 5]


def hybrid(kind, **fields):
    """A decoder whose first layer is of another kind, and whose second has attention with RoPE."""
    changes = {
        "model.layers.pattern": ("s", "f"),
        "model.position.kind": "rope",
        "model.layers.kinds.s.position.kind": "none",
        "model.layers.kinds.f.attention.window": 0,
        "model.layers.kinds.s.attention.kind": kind,
        **{f"model.layers.kinds.s.attention.{name}": value for name, value in fields.items()},
    }
    return resolve(override(small(**TINY), changes))


def test_mixers_without_queries_and_keys_are_not_drawn_as_heads():
    config = hybrid("gated_convolution")
    assert [each.title for each in head_sharing.sharings(config)] == ["f self-attention"]
    (column,) = columns(config)
    parts = [part for part in architecture_parts.parts_of(column.steps) if part.role == "attention"]
    assert [part.title for part in parts] == ["gated convolution / Multi-head self-attention"]
    assert parts[0].inputs == (("Q, 4 heads", "RoPE"), ("K, 4 heads", "RoPE"), ("V, 4 heads",))
    assert {"inputs shown: those of f", "s: no queries, keys and values"} <= set(parts[0].sizes)


def test_heads_of_a_recurrence_have_values_of_their_own():
    state, full = head_sharing.sharings(hybrid("gated_delta", key_heads=2))
    assert [(each.title, each.groups, each.values) for each in (state, full)] == [
        ("s recurrence", 2, 4), ("f self-attention", 4, 4)
    ]  # fmt: skip
    assert state.scheme == "a state for each head, 2 heads share a key"
    (column,) = columns(hybrid("gated_delta", key_heads=2))
    (part,) = (part for part in architecture_parts.parts_of(column.steps) if part.role == "attention")
    assert part.title == "gated delta recurrence / Multi-head self-attention"
    assert any(line.endswith("V, 4 heads") and "K, 2 heads" in line for line in part.sizes if line.startswith("s: "))


@pytest.mark.parametrize(("config", "reach"), [
    (hybrid("gated_convolution", convolution_width=3), [1, 3, 16]),
    (resolved(model__attention__kind="parallel_heads", model__attention__window=4), [1, 16, 16]),
    (resolved(model__attention__window=4), [1, 4, 7]),
], ids=["convolution", "parallel heads", "window"])  # fmt: skip
def test_receptive_fields_are_those_of_the_model(config, reach):
    """The last token's states after each layer, with each earlier token changed in turn."""
    (field,) = attention_masks.receptive_fields(config)
    assert field.tokens.tolist() == reach
    model = make_model(config)
    values = random_values(model, 3)
    rows = np.tile(np.arange(16), (17, 1)).astype(np.int32)
    rows[np.arange(16), np.arange(16)] += 50
    states = record_activations(config, model, values, {}, rows, maps=False)[""].states[:, :, -1]
    changed = (np.abs(states[:, :16] - states[:, 16:]).max(axis=-1) > 0).sum(axis=1)
    assert changed.tolist() == reach
    if config.model.layers.pattern:
        band = attention_masks.masks(config, 16)[0]
        assert band.visible.sum(axis=1).tolist() == [min(3, query + 1) for query in range(16)]
    elif config.model.attention.kind == "parallel_heads":
        (grid,) = attention_masks.masks(config, 16)
        assert grid.visible.sum(axis=1).max() == 4


def test_short_convolutions_are_named_where_they_are_not_followed():
    config = resolved(model__attention__window=4, model__convolution__kind="canon")
    (field,) = attention_masks.receptive_fields(config)
    assert field.name == "last token, without short convolutions,"
    (column,) = columns(config)
    details = [line for part in architecture_parts.parts_of(column.steps) for line in part.details]
    assert "short convolutions (canon) in the block" in details


def test_what_placements_add_outside_of_sublayers_is_named():
    (column,) = columns(resolved(model__norm__placement="x0_shortcut"))
    details = [line for part in architecture_parts.parts_of(column.steps) for line in part.details]
    assert "x0 is added before each block" in details


def test_files_of_long_configs_have_names_of_their_own(tmp_path, capsys):
    fields = ["position.kind=rope", "norm.kind=rmsnorm", "ffn.kind=swiglu", "attention.bias=False", "ffn.bias=False"]
    base = ",".join(["gpt2:tiny", *(f"model.{field}" for field in fields)])
    for theta in (500, 50000):
        spec = f"{base},model.position.theta={theta}"
        assert main(["draw", "heads", spec, spec, "--format", "png", "--out", str(tmp_path)]) == 0
    names = capsys.readouterr().out.split()
    assert len(set(names)) == len(list(tmp_path.iterdir())) == 2
    assert all(len(Path(name).name) < 200 for name in names)


def test_rope_of_a_hybrid_is_that_of_its_attention(tmp_path, capsys, monkeypatch):
    drawn = []
    for page in ("angles_page", "bound_page"):
        draw = getattr(rope_pictures, page)
        monkeypatch.setattr(
            rope_pictures, page, lambda *given, draw=draw, **more: drawn.append(draw(*given, **more)) or drawn[-1]
        )
    for what in ("rope", "rope-bound"):
        assert main(["draw", what, "lfm2:tiny", "--out", str(tmp_path)]) == 0
    assert [page.get_suptitle() for page in drawn] == ["full: RoPE with base 1,000,000"] * 2
    assert main(["draw", "rope", "gpt2:tiny", "--out", str(tmp_path)]) == 2
    assert "rotates nothing" in capsys.readouterr().err


def test_elmo_without_heads_is_a_one_line_error(capsys):
    assert main(["draw", "heads", "configs/elmo.py:tiny"]) == 2
    assert "model.architecture=elmo has no attention heads" in capsys.readouterr().err


def test_slopes_are_those_that_are_added():
    scaled = resolved(model__position__kind="alibi", model__position__scaled=True)
    panels = position_tables.page(scaled, "").axes
    drawn = [bar.get_height() for bar in panels[0].patches]
    np.testing.assert_allclose(drawn, 2.0 ** -np.arange(2, 10, 2) * scaled.model.attention.scale, rtol=1e-6)


def test_sinusoids_have_the_width_at_which_they_are_added():
    narrow = resolved(
        "masked", model__embedding__dim=8, model__position__kind="sinusoidal", model__head__transform=True
    )
    table = position_tables.page(narrow, "").axes[0].images[0].get_array()
    assert table.shape[1] == 8


def test_all_panels_of_a_rope_show_rows_of_one_length():
    fields = {"kind": "rope", "scaling__kind": "dynamic", "scaling__factor": 4.0, "scaling__original_length": 16}
    model = resolved(**{f"model__position__{name}": value for name, value in fields.items()}).model
    angles = rope_pictures.angles_by_pair(model, length=128)
    np.testing.assert_allclose(np.angle(rope_pictures.pair_rotations(model, 128))[1], angles[1], rtol=1e-6)
    assert not np.allclose(angles[1], rope_pictures.angles_by_pair(model)[1], rtol=1e-3)


def test_rope_wavelengths_and_relative_buckets():
    rope = resolved(model__position__kind="rope", model__position__theta=100.0, model__attention__head_dim=8)
    np.testing.assert_allclose(
        position_tables.wavelengths(rope.model, 16), 2 * np.pi * 100.0 ** (np.arange(4) / 4), rtol=1e-6
    )
    t5 = resolved(model__position__kind="relative_bias", model__position__buckets=8, model__position__max_distance=16)
    distances = np.array([3, 0, -1, -3, -4, -16, -40])
    np.testing.assert_array_equal(position_tables.buckets_by_distance(t5.model, distances), [0, 0, 1, 3, 4, 7, 7])


@pytest.mark.parametrize(("kind", "titles"), [
    ("alibi", ["encoder: ALiBi: slope of each head", "decoder: ALiBi: slope of each head"]),
    ("sinusoidal", ["sinusoids, interleaved"]),
])  # fmt: skip
def test_encoder_and_decoder_positions_are_drawn_if_they_differ(kind, titles):
    drawn = position_tables.page(resolved("span", model__position__kind=kind), "a name", 12)
    assert [axes.get_title() for axes in drawn.axes if axes.get_title()][::2] == titles
    image = next(image for axes in drawn.axes for image in axes.images)
    if kind == "alibi":
        np.testing.assert_allclose(image.get_array()[0], -0.25 * np.abs(np.arange(-11, 12)))
    else:
        assert image.get_array().shape == (12, 16)


def test_positions_that_are_not_fixed_are_a_one_line_error(capsys):
    for config, line in (
        ("configs/gpt2.py:tiny", "kind=learned has nothing fixed to draw; zoo draw learned-positions RUN"),
        ("configs/elmo.py:tiny", "has no positions to draw"),
    ):
        assert main(["draw", "positions", config]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert line in error
