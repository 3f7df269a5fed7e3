"""The glossary, and the words of papers and lectures that `zoo describe` finds in it."""

import re
from pathlib import Path

import pytest

from tests.support.pages import anchors
from zoo import config as configs
from zoo.cli import describe, glossary, main
from zoo.variants import VARIANTS

DOCS = Path(__file__).parents[2] / "docs"
PICTURES = (DOCS / "pictures.md").read_text(encoding="utf-8")
ENTRIES = list(dict.fromkeys(glossary.entries().values()))
# Words of five documents: a walk-through of LLaMA in two parts, a course's slides, a post on rotary
# embeddings, and a lecture on the models around BERT and T5.
WORDS = re.findall(
    r"\S+",
    """
    kv-cache cache logit logits head heads token tokens embedding embeddings softmax query key value attention
    self-attention cross-attention multi-head-attention scaled-dot-product mask causal-mask masked-self-attention
    attention-mask receptive-field sliding-window rolling-buffer gqa mqa mha tiling flash-attention quadratic-complexity
    encoder decoder encoder-decoder block depth residual-connection skip-connection residual-stream layernorm
    layer-normalization rmsnorm batchnorm batch-normalization running-average internal-covariate-shift pre-norm post-norm
    epsilon feed-forward ffn mlp relu gelu swiglu silu activation positional-encoding sinusoids absolute-position
    relative-position rope rotary rotary-embeddings alibi t5-bias bucket wavelength long-term-decay extrapolation
    length-extension permutation-equivariance context-window d_model d_k hidden-state hidden-size weight-tying
    parameters flops lstm elmo character-cnn bilm gpt bert roberta distilbert t5 byt5 mt5 llama mistral longformer
    transformer performer
    tokenizer wordpiece bpe byte-pair-encoding sentencepiece unigram byte-level subword vocabulary
    out-of-vocabulary unk cls [CLS] sep pad bos eos sentinel cased uncased segment segment-embeddings token-type
    next-sentence nsp mlm masked-language-modeling dynamic-masking static-masking 80/10/10 span-corruption denoising
    causal-language-modeling autoregressive language-model teacher-forcing pre-training fine-tuning transfer-learning
    frozen feature-based scalar-mix contextual-embedding word-embedding word2vec pooler pooling distillation teacher student
    soft-targets hard-label kl-divergence cross-entropy perplexity nats bits-per-byte entropy temperature label-smoothing
    warm-up warmup learning-rate schedule inverse-square-root adam adamw weight-decay dropout batch-size epoch
    gradient-clipping gradient-accumulation vanishing-gradient classification tagging question-answering sentiment
    translation bleu inference prefill prompt greedy sampling top-k top-p nucleus beam-search length-penalty ablation
    seed
    """,
)
VARIANT_NAMES = {variant.name for variant in VARIANTS}
# The page of a variant or a config names its papers, an entry of the glossary a page.
POINTER = re.compile(r"(?:19|20)\d\d|docs/\S+\.md")


@pytest.fixture(autouse=True)
def short_kernel_table(monkeypatch):
    """tests/variants/test_kernel_table.py compares the kernels of variants; all take seconds."""
    monkeypatch.setattr("zoo.variants.kernel_table.VARIANTS", VARIANTS[:1])
    monkeypatch.setattr("zoo.variants.kernel_table.SETTINGS", {})


def described(word, capsys):
    assert main.main(["describe", *word.split()]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def is_variant(word):
    """Whether the page of a variant is printed; it takes long, and other tests read it."""
    return not VARIANT_NAMES.isdisjoint({word, *map(describe.synonyms().get, (word, word.removesuffix("s")))})


@pytest.mark.parametrize("word", WORDS)
def test_words_of_the_sources_are_explained(word, capsys):
    if not is_variant(word):
        assert POINTER.search(described(word, capsys))


def test_an_entry_comes_before_the_fields_of_that_name(capsys):
    told = described("KV cache", capsys)
    assert told == described("kv_caches", capsys)
    names, meaning, see = told.splitlines()
    assert names == "kv-cache, cache, key-value cache"
    assert meaning.startswith("    The keys and values of all earlier tokens, kept while text is generated")
    assert see.startswith("    see docs/generation.md#how-it-works; docs/walkthroughs/llama_inference.md#")
    assert "zoo describe num_kv_heads" in see
    told = described("warm-up", capsys)
    assert told.index("over which the learning rate rises") < told.index("\n\nschedule.warmup_steps (0)\n")
    assert "docs/optimizers.md#schedules" in told


def test_the_listing_has_every_word(capsys):
    assert main.main(["describe"]) == 0
    listed = " ".join(capsys.readouterr().out.split())
    assert all(entry.names[0] in listed for entry in ENTRIES)


def test_a_misspelt_word_is_suggested(capsys):
    assert main.main(["describe", "perplexitty"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'did you mean "perplexity"' in line


def test_every_row_of_the_page_is_an_entry_and_hides_nothing():
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert text.count("\n| **") == len(ENTRIES)
    names = [glossary.normalised(name) for entry in ENTRIES for name in entry.names]
    # No word has two entries.
    assert sorted(names) == sorted(glossary.entries())
    others = VARIANT_NAMES | set(configs.shipped_names(configs.CONFIGS))
    others |= {word for word, meant in describe.synonyms().items() if meant not in configs.BY_PATH}
    assert not others & set(names)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.names[0])
def test_every_entry_leads_to_pages_and_commands_that_exist(entry, capsys):
    links = re.findall(r"\]\(([^)]+)\)", entry.see)
    assert links
    for link in links:
        page, _, anchor = link.partition("#")
        assert (DOCS / page).is_file(), link
        assert not anchor or anchor in anchors(DOCS / page), link
    for command in re.findall(r"`(zoo [^`]+)`", entry.see):
        _, name, *words = command.split()
        assert name in main.SUBCOMMANDS, command
        if name == "describe" and not is_variant(words[0]):
            described(" ".join(words), capsys)
        if name == "draw":
            assert re.search(rf"^\| \[?{words[0]}\b", PICTURES, re.MULTILINE), command
    assert len(entry.meaning) <= 330 or entry.names[0] == "verdict"
