"""`zoo config` on models whose parts have settings of their own, and `zoo describe`."""

import json
from pathlib import Path

import pytest

from zoo import config as configs
from zoo.cli import describe, glossary, main
from zoo.layers.platform import Platform
from zoo.variants import VARIANTS

ROOT = Path(__file__).parents[2]
GEMMA = str(ROOT / "configs" / "gemma3.py:smoke")
BYT5 = str(ROOT / "configs" / "byt5.py:smoke")


def marked(text):
    """{path: (mark, value)} of the lines of `zoo config show`."""
    lines = [line for line in text.splitlines() if line[:2] in ("* ", "= ", "  ") and "." in line[2:].split(" ")[0]]
    return {line[2:].split()[0]: (line[0], line[2:].split()[1]) for line in lines}


def test_show_lists_fields_set_by_parts(capsys):
    assert main.main(["config", "show", GEMMA]) == 0
    shown = marked(capsys.readouterr().out)
    assert shown["model.layers.pattern"] == ("*", "local,global")
    assert shown["model.layers.kinds.local.attention.window"] == ("*", "4")
    # A value that a kind sets is marked even where it equals the default.
    assert shown["model.layers.kinds.global.attention.window"] == ("*", "0")
    assert shown["model.attention.window"] == (" ", "0")
    assert main.main(["config", "show", BYT5, "--config.model.decoder.attention.num_heads=2"]) == 0
    shown = marked(capsys.readouterr().out)
    assert shown["model.decoder.num_layers"] == ("*", "1")
    assert shown["model.decoder.attention.head_dim"] == ("=", "16")


GROUP = ["--config.optimizer.groups=tables", "--config.optimizer.group.tables.select=role:embedding"]


def test_show_counts_the_parameters_of_groups(capsys):
    grouped = [*GROUP, "--config.optimizer.group.tables.rate_factor=0.5"]
    assert main.main(["config", "show", GEMMA, *grouped]) == 0
    text = capsys.readouterr().out
    assert marked(text)["optimizer.group.tables.rate_factor"] == ("*", "0.5")
    counts = {
        line.split()[-2]: int(line.split()[-1].replace(",", ""))
        for line in text.splitlines()
        if line.startswith("  in ")
    }
    assert counts["tables"] == counts["embedding"]
    assert counts["tables"] + counts["rest"] == counts["embedding"] + counts["body"] + counts["heads"]
    assert main.main(["config", "show", GEMMA, *grouped, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"] == {name: counts[name] for name in ("tables", "rest")}
    assert main.main(["config", "show", GEMMA]) == 0
    assert "in group" not in capsys.readouterr().out


KERNELS = [
    {"layers": f"kind {kind}", "kernel": "einsum", "reason": "no GPU or TPU"} for kind in ("local", "global")
]  # fmt: skip


def test_show_names_the_attention_kernels_of_this_platform(capsys, monkeypatch):
    monkeypatch.setattr(Platform, "here", classmethod(lambda cls: Platform("cpu")))
    assert main.main(["config", "show", GEMMA]) == 0
    assert "\nattention einsum (kind local; kind global), not fused: no GPU or TPU\n" in capsys.readouterr().out
    assert main.main(["config", "show", GEMMA, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attention_kernels"] == KERNELS
    monkeypatch.setattr(Platform, "here", classmethod(lambda cls: Platform("gpu", 1, (9, 0))))
    assert main.main(["config", "show", GEMMA, "--config.model.dtype=float32"]) == 0
    assert "not fused: float32 activations" in capsys.readouterr().out


def test_show_counts_the_parameters_that_a_token_uses(capsys):
    experts = ["--config.model.ffn.kind=moe", "--config.model.ffn.experts.number=4"]
    counted = []
    for number in (1, 2):
        words = [
            *experts,
            f"--config.model.ffn.experts.per_token={number}",
            "--config.model.ffn.experts.renormalise=False",
        ]
        assert main.main(["config", "show", GEMMA, *words]) == 0
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  in active"))
        assert main.main(["config", "show", GEMMA, *words, "--json"]) == 0
        counted.append(json.loads(capsys.readouterr().out)["parameters"])
        assert int(line.split()[-1].replace(",", "")) == counted[-1]["active"]
    one, two = counted
    # All of a dense model's, and an expert more for each expert that a token is sent to.
    assert one["total"] == two["total"] > two["active"]
    assert 3 * (two["active"] - one["active"]) == one["total"] - one["active"]


def test_a_group_without_parameters_is_not_valid(capsys):
    empty = [*GROUP, "--config.optimizer.group.tables.rate_factor=0.5", "--config.optimizer.group.tables.select=path:x"]
    assert main.main(["config", "validate", BYT5, *empty]) == 2
    assert "optimizer.group.tables.select=path:x: no parameter is left" in capsys.readouterr().err


def test_show_as_json_is_a_loadable_config(capsys):
    assert main.main(["config", "show", GEMMA, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["config"]["model"]["layers"]["pattern"] == ["local", "global"]
    assert configs.resolve(shown["config"]) == configs.resolve(configs.load(GEMMA))


@pytest.mark.parametrize(
    ("one", "other", "line"),
    [
        (BYT5, f"{BYT5},model.decoder.num_layers=2", ["model.decoder.num_layers", "1", "->", "2"]),
        (BYT5, f"{BYT5},model.encoder.num_layers=1", ["model.encoder.num_layers", "unset", "->", "1"]),
        (
            f"{GEMMA},model.layers.kinds.local.residual=false",
            GEMMA,
            ["model.layers.kinds.local.residual", "false", "->", "unset"],
        ),
    ],
)
def test_diff_shows_fields_set_on_one_side_only(one, other, line, capsys):
    assert main.main(["config", "diff", one, other]) == 0
    assert capsys.readouterr().out.split() == line


def test_validate_suggests_fields_of_parts(capsys):
    assert main.main(["config", "validate", BYT5, "--config.model.decoder.num_layer=2"]) == 2
    errors = capsys.readouterr().err
    assert 'unknown field model.decoder.num_layer (did you mean "model.decoder.num_layers"?)' in errors
    assert main.main(["config", "validate", GEMMA, "--config.model.layers.pattern=global,local"]) == 0


def test_describe_shows_the_condition_of_a_field(capsys):
    assert main.main(["describe", "next_sentence"]) == 0
    assert "read only when model.head.pooler is true" in capsys.readouterr().out


def test_every_variant_is_listed_with_the_fields_that_choose_it(capsys):
    assert main.main(["describe", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == [variant.name for variant in VARIANTS]
    assert all(configs.field_at(path) for each in listed for path in each["fields"])
    assert main.main(["describe"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line[:2] == ["rmsnorm", "norm.kind=rmsnorm"]]
    assert main.main(["describe", "rope", "--json"]) == 2


@pytest.mark.parametrize("word", describe.synonyms())
def test_describe_accepts_synonyms(word, capsys, monkeypatch):
    # The table of kernels has a test of its own, and takes seconds with all variants.
    monkeypatch.setattr("zoo.variants.kernel_table.VARIANTS", VARIANTS[:1])
    assert main.main(["describe", word.upper().replace("-", "_")]) == 0
    meant = describe.synonyms()[word]
    entry = glossary.explained(word) if meant in configs.BY_PATH else None
    begins = "\n".join([*entry.lines, "", ""]) if entry else ""
    assert capsys.readouterr().out.startswith((f"# {meant}\n", f"{begins}{meant} ("))
    # A synonym must not hide a variant or a field.
    assert word not in {variant.name for variant in VARIANTS} | set(configs.BY_PATH)


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (["FoX"], "# forgetting"),
        (["gated", "attention"], "# output-gate"),
        (["Sliding Window"], "# window"),
        (["grouped", "query"], "# grouped-query"),
        (["L2"], "optimizer.weight_decay_form ("),
        (["label", "column"], "data.label_column ("),
        (["label-column"], "data.label_column ("),
        (["Layer Normalization"], "# layernorm"),
        (["segment embeddings"], "# segments"),
    ],
)
def test_describe_accepts_several_words_in_any_case(words, begins, capsys):
    assert main.main(["describe", *words]) == 0
    assert capsys.readouterr().out.startswith(begins)


def test_a_page_in_a_terminal_is_wrapped_and_shows_addresses():
    page = (
        "# rope\n\nOne two three four five.\n\n    kept = as it is, however long\n\n"
        "- Su et al. 2021: RoFormer, [arXiv:2104.09864](https://arxiv.org/abs/2104.09864)\n- [llama](../llama.py)\n"
    )
    assert describe.in_terminal(page, 20).splitlines() == [
        "\x1b[1mrope\x1b[0m",
        "",
        "One two three four",
        "five.",
        "",
        "    kept = as it is, however long",
        "",
        "- Su et al. 2021:",
        "  RoFormer,",
        "  https://arxiv.org/abs/2104.09864",
        "- llama",
    ]


def test_describe_suggests_a_name_for_several_words(capsys):
    assert main.main(["describe", "gropued", "query"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "grouped-query" in line


def test_diff_as_json(capsys):
    assert main.main(["config", "diff", "gpt2:tiny", "llama:tiny", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model.norm.kind"] == ["layernorm", "rmsnorm"]
