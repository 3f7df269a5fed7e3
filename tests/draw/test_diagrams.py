"""Diagrams of configs: the parts and their order."""

import re
from dataclasses import replace

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyBboxPatch

from tests.draw.small_configs import TINY, resolved
from tests.support.small_runs import small
from zoo.cli.main import main
from zoo.config import override, resolve
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.draw.diagrams import architecture_diagram, architecture_parts, block_steps
from zoo.draw.diagrams.architecture_parts import Addition, Parallel, Part, Repeat, columns, wrapped
from zoo.draw.diagrams.block_steps import Branch


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


def test_what_placements_add_outside_of_sublayers_is_named():
    (column,) = columns(resolved(model__norm__placement="x0_shortcut"))
    details = [line for part in architecture_parts.parts_of(column.steps) for line in part.details]
    assert "x0 is added before each block" in details
