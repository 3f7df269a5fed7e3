"""`zoo config sizes`: the tables of the papers, sizes that differ between parts, and what has none."""

import io
import json

import jax
import jax.numpy as jnp
import pytest
from rich.console import Console

from zoo import config as configs
from zoo.cli import console, main, size_table
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, unstack_layers
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, split
from zoo.models.model_sizes import model_sizes


def sizes(capsys, *arguments):
    assert main.main(["config", "sizes", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


# D, H, L, rate and tokens of Touvron et al. 2023a, Table 2; context and grouped-query attention of
# Touvron et al. 2023b, Table 1.
LLAMA = {
    "7b": (4096, 32, 32, 3e-4, 1.0e12, 2048, 32),
    "13b": (5120, 40, 40, 3e-4, 1.0e12, 2048, 40),
    "33b": (6656, 52, 60, 1.5e-4, 1.4e12, 2048, 52),
    "65b": (8192, 64, 80, 1.5e-4, 1.4e12, 2048, 64),
    "v2-7b": (4096, 32, 32, 3e-4, 2.0e12, 4096, 32),
    "v2-13b": (5120, 40, 40, 3e-4, 2.0e12, 4096, 40),
    "v2-34b": (8192, 64, 48, 1.5e-4, 2.0e12, 4096, 8),
    "v2-70b": (8192, 64, 80, 1.5e-4, 2.0e12, 4096, 8),
}


def test_the_sizes_of_llama_are_those_of_the_papers(capsys):
    found = sizes(capsys, "llama", "mistral")
    assert list(found) == [*(f"llama:{size}" for size in LLAMA), "mistral:7b"]
    for size, (dim, heads, layers, rate, tokens, length, groups) in LLAMA.items():
        row = found[f"llama:{size}"]
        assert (row["dim"], row["heads"], row["layers"], row["learning_rate"]) == (dim, heads, layers, rate)
        assert (row["sequence_length"], row["kv_heads"], row["head_dim"]) == (length, groups, 128)
        assert row["tokens"] == pytest.approx(tokens, rel=0.05)
        # Keys and values of all layers in bfloat16.
        assert row["cached_bytes"] == 2 * layers * groups * 128 * 2
    # A window does not change what is kept of a token.
    assert found["mistral:7b"]["cached_bytes"] == 2 * 32 * 8 * 128 * 2
    # Rows that pad the vocabulary are not part of the published count.
    assert sizes(capsys, "gpt2")["gpt2:small"]["parameters"] == 124_439_808


def test_sizes_that_differ_between_parts(capsys):
    kinds = "gemma3:smoke,model.layers.kinds.local.attention.num_kv_heads=4"
    found = sizes(capsys, kinds, "elmo:smoke", "bert:smoke", "byt5")
    assert found[kinds]["kv_heads"] == {"local": 4, "global": 1}
    assert found[kinds]["layers"] == 2
    assert found["byt5:small"]["layers"] == {"encoder": 12, "decoder": 4}
    assert found["byt5:small"]["hidden_dim"] == 3584
    assert [found["elmo:smoke"][name] for name in ("layers", "heads", "hidden_dim")] == [2, None, None]
    assert found["elmo:smoke"]["cached_bytes"] is found["bert:smoke"]["cached_bytes"] is None
    texts = size_table.cells(found["byt5:small"])
    assert (texts["L"], texts["cache/token"]) == ("12+4", "6 KiB+6 KiB")
    assert (size_table.cells(found[kinds])["G"], size_table.cells(found["elmo:smoke"])["H"]) == ("4/1", "–")


def test_cached_bytes_of_both_sides_are_those_of_the_cache():
    config = configs.resolve(
        configs.override(
            configs.load("t5:smoke"),
            {"model.attention.cross_kv_heads": 2, "model.decoder.num_layers": 3, "model.dtype": "bfloat16"},
        )
    )
    module = make_model(config)
    vocabulary, read, written = config.model.vocab_size, 9, 5
    decoder = IncrementalDecoder(split(module)[0], True, 3, written, vocabulary, True)

    def cache():
        weights = unstack_layers(initialise(module, 0), {}, "bfloat16")
        prompts, sources = (PaddedTokens(jnp.zeros((1, n), int), jnp.array([n])) for n in (written, read))
        return decoder.prefill(weights, prompts, sources)[0].layers

    held = {"attention": 0, "cross_attention": 0}
    for layer in jax.eval_shape(cache):
        for part, entry in layer.items():
            held[part] += sum(2 * leaf.size for leaf in jax.tree.leaves(entry))
    counted = model_sizes(config).cached_bytes
    assert counted == {"encoder": held["cross_attention"] // read, "decoder": held["attention"] // written}
    assert counted["encoder"] * 2 == counted["decoder"]


def test_what_has_no_sizes_is_one_line(capsys, tmp_path):
    own = tmp_path / "own.py"
    own.write_text("from zoo import config\ndef get_config():\n    return config.default()\n")
    for family, hint in (
        ("distill", "distill has no sizes; name one config, as distill:from=runs/bert"),
        ("finetune/tagging", "finetune/tagging has no sizes; name one config, as finetune/tagging:tiny"),
        (str(own), f"has no sizes; zoo config show {own} describes it"),
        ("lama", 'did you mean "llama"'),
        ("llama:8b", "size '8b' is not one of 7b"),
        ("llama:7b,model.attention.num_heads=3", "error: llama:7b,model.attention.num_heads=3: model.dim=4096"),
    ):
        assert main.main(["config", "sizes", "gpt2", family]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert hint in line


def test_a_narrow_terminal_keeps_width_and_parameters(monkeypatch):
    row = dict.fromkeys(size_table.COLUMNS, "1,234,567")
    for width, kept in ((200, list(size_table.COLUMNS)), (40, ["D", "parameters"])):
        terminal = Console(width=width, file=io.StringIO())
        monkeypatch.setattr(console, "make_console", lambda terminal=terminal: terminal)
        size_table.print_table({"llama:v2-70b": row})
        header, line, *_ = terminal.file.getvalue().splitlines()
        assert header.split() == ["size", *kept]
        assert line.split() == ["llama:v2-70b", *["1,234,567"] * len(kept)]
