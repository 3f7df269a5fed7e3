"""Which query heads share keys and values, and names of the files."""

from pathlib import Path

from tests.draw.small_configs import TINY, hybrid, resolved
from tests.support.small_runs import small
from zoo.cli.main import main
from zoo.config import override, resolve
from zoo.draw.diagrams import architecture_parts, head_sharing
from zoo.draw.diagrams.architecture_parts import columns


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


def test_files_of_long_configs_have_names_of_their_own(tmp_path, capsys):
    fields = ["position.kind=rope", "norm.kind=rmsnorm", "ffn.kind=swiglu", "attention.bias=False", "ffn.bias=False"]
    base = ",".join(["gpt2:tiny", *(f"model.{field}" for field in fields)])
    for theta in (500, 50000):
        spec = f"{base},model.position.theta={theta}"
        assert main(["draw", "heads", spec, spec, "--format", "png", "--out", str(tmp_path)]) == 0
    names = capsys.readouterr().out.split()
    assert len(set(names)) == len(list(tmp_path.iterdir())) == 2
    assert all(len(Path(name).name) < 200 for name in names)


def test_elmo_without_heads_is_a_one_line_error(capsys):
    assert main(["draw", "heads", "configs/elmo.py:tiny"]) == 2
    assert "model.architecture=elmo has no attention heads" in capsys.readouterr().err
