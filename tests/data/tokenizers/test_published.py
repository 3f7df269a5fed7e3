"""Tokenizers of published files: their expected ids, decoding, and files that cannot be read."""

import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo import config as configs
from zoo import data
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer, load_tokenizer, read_pretrained
from zoo.errors import ConfigError, DataError

SHARED = Path(os.environ.get("ZOO_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
CAUSAL, MASKED = SimpleNamespace(kind="causal"), SimpleNamespace(kind="masked")
SEPARATOR = "\n__ggml_vocab_test__\n"


def published(name):
    if not (folder := SHARED / "tokenizers" / name).is_dir():
        pytest.skip(f"needs {folder}; $ZOO_TEST_DATA says where the data is")
    return read_pretrained(folder)


@pytest.mark.parametrize(("name", "cases"), [("bert-base-uncased", "bert-bge"), ("gpt2", "gpt-2")])
def test_ids_match_the_expected_ids(name, cases):
    tokenizer = published(name)
    folder = SHARED / "tokenizers" / "expected_ids"
    texts = (folder / f"{cases}.inp").read_text(encoding="utf-8").split(SEPARATOR)
    expected = [[int(id) for id in line.split()] for line in (folder / f"{cases}.out").read_text().split("\n")]
    assert len(texts) == len(expected) == 47
    for text, ids in zip(texts, expected, strict=True):
        assert tokenizer.encode(text).tolist() == ids, text


def test_gpt2_keeps_every_byte():
    tokenizer, text = published("gpt2"), "Grüße, 你好\n\n  two  spaces\tand <|endoftext|> spelled out 🎉"
    ids = tokenizer.encode(text)
    assert tokenizer.lossless
    assert tokenizer.bos_id == 50256
    assert tokenizer.bos_id not in ids
    assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes()[ids].sum() == len(text.encode())
    assert tokenizer.vocab_size == tokenizer.mask_id == 50257
    assert (tokenizer.model_vocab_size(CAUSAL), tokenizer.model_vocab_size(MASKED)) == (50257, 50258)


def test_bert_has_its_own_mask_token_and_no_byte_counts():
    tokenizer = published("bert-base-uncased")
    ids = tokenizer.encode("Hello, [MASK] world")
    assert not tokenizer.lossless
    assert tokenizer.token_bytes().sum() == 0
    assert (tokenizer.bos_id, tokenizer.mask_id) == (101, 103)
    assert 103 not in ids
    assert tokenizer.model_vocab_size(MASKED) == tokenizer.vocab_size == 30522
    assert (
        tokenizer.decode([101, *tokenizer.encode("Hello world"), 102, 101, *tokenizer.encode("Again")], "|")
        == "|hello world|again"
    )
    with pytest.raises(ValueError, match="ids must lie in"):
        tokenizer.decode([30522])


SENTENCES = [
    "Hello, world",
    "",
    "   two  spaces ",
    "Grüße aus Köln: 12,5 %",
    "naïve ﬁancé ½",
    "def f(x):\n\treturn x",
    "你好 🎉",
]


@pytest.mark.parametrize(("name", "opens", "size"), [("t5-base", 1, 32000), ("mistral_v1", 1, 32000)])
def test_sentencepiece_models(name, opens, size, tmp_path):
    tokenizer = published(name)
    assert (tokenizer.bos_id, tokenizer.vocab_size, tokenizer.token_bytes().sum()) == (opens, size, 0)
    tokenizer.save(tmp_path)
    reloaded = load_tokenizer(tmp_path)
    assert reloaded.fingerprint == tokenizer.fingerprint
    for text in SENTENCES:
        ids = tokenizer.encode(text)
        assert reloaded.encode(text).tolist() == ids.tolist()
        assert not set(ids.tolist()) & (tokenizer.special_ids - {2})
    assert (
        tokenizer.decode([opens, *tokenizer.encode("Hello, world"), opens, *tokenizer.encode("Again")], "|")
        == "|Hello, world|Again"
    )


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("t5-base", "T5TokenizerFast"),
        ("mistral_v1", "LlamaTokenizerFast"),
        ("bert-base-uncased", "BertTokenizerFast"),
        ("gpt2", "GPT2TokenizerFast"),
    ],
)
def test_ids_are_those_of_transformers(name, reader):
    transformers = pytest.importorskip("transformers")
    tokenizer, theirs = published(name), getattr(transformers, reader).from_pretrained(SHARED / "tokenizers" / name)
    for text in [*SENTENCES, *Path(__file__).read_text().splitlines()[:40]]:
        if "<|" in text:
            continue  # Transformers reads a special token that a text spells out.
        assert tokenizer.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"], text


@pytest.fixture
def words(tmp_path):
    """A folder with a small vocabulary in BERT's format."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "sheep", "wolf", "##s", "and", "met", "never", "."]
    (tmp_path / "words").mkdir()
    (tmp_path / "words" / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return tmp_path / "words"


def test_case_is_kept_where_the_file_says_so(words):
    assert read_pretrained(words).encode("The Sheep").tolist() == [5, 6]
    (words / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    os.utime(words / "vocab.txt", ns=(1, 1))
    assert read_pretrained(words).encode("The sheep").tolist() == [1, 6]


def test_saved_tokenizers_load_unchanged(words, tmp_path):
    tokenizer = read_pretrained(words)
    tokenizer.save(tmp_path / "run")
    for reloaded in (
        load_tokenizer(tmp_path / "run"),
        read_pretrained(tmp_path / "run"),
        read_pretrained(tmp_path / "run" / "tokenizer.json"),
    ):
        assert isinstance(reloaded, PretrainedTokenizer)
        assert reloaded.fingerprint == tokenizer.fingerprint
        assert reloaded.encode("the sheeps and [MASK]").tolist() == tokenizer.encode("the sheeps and [MASK]").tolist()
        assert (reloaded.bos_id, reloaded.mask_id, reloaded.special_ids) == (2, 4, frozenset(range(5)))


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_data_sets_use_a_tokenizer_file(words, tmp_path, monkeypatch, objective):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    with gzip.open(tmp_path / "text.txt.gz", "wt") as file:
        file.write("The sheep and the wolfs never met.\n\n" * 60)
    changes = {
        "data.source": f"text:{tmp_path / 'text.txt.gz'}",
        "data.document_separator": "\n\n",
        "data.sequence_length": 8,
        "data.batch_size": 4,
        "data.tokenizer.kind": "file",
        "data.tokenizer.path": str(words),
        "objective.kind": objective,
    }
    changes |= {"model.architecture": "encoder"} if objective == "masked" else {}
    config = configs.override(configs.default(), changes)
    resolved = configs.resolve(config)
    assert resolved.model.vocab_size == configs.AUTO
    resolved = configs.resolve(config, data.vocabulary_size(resolved))
    assert resolved.model.vocab_size == 13
    dataset = data.load(resolved)
    assert dataset.parts[0].train_stream.tokens[:9].tolist() == [2, 5, 6, 9, 5, 7, 8, 11, 10]
    with dataset.training_batches() as batches:
        tokens = next(batches)["tokens"]
    assert (4 in tokens) == (objective == "masked")
    assert tokens.max() < 13


@pytest.mark.parametrize(("make", "problem"), [
    (lambda folder: folder / "nothing", "no such file"),
    (lambda folder: folder, "no readable tokenizer"),
    (lambda folder: written(folder / "spiece.model", "x"), "not a SentencePiece model"),
    (lambda folder: written(folder / "words.bin", "x"), "unknown kind of file"),
    (lambda folder: written(folder / "vocab.json", "{}"), "has no merges.txt"),
    (lambda folder: written(folder / "tokenizer.json", "{"), "not a tokenizer file"),
    (lambda folder: written(folder / "tokenizer.json", json.dumps({"model": 1})), "not a tokenizer file"),
    (lambda folder: written(folder / "vocab.txt", "a\nb\n"), "no token that could open a document"),
    (lambda folder: written(folder / "vocab.txt", ""), "not a tokenizer file|no token"),
    (lambda folder: "", "needs data.tokenizer.path"),
])  # fmt: skip
def test_unreadable_files_are_refused(tmp_path, make, problem):
    with pytest.raises((ConfigError, DataError), match=problem) as refused:
        read_pretrained(make(tmp_path))
    assert all("\n" not in line for line in refused.value.problems)


def written(path, text):
    path.write_text(text)
    return path


def test_the_path_has_no_effect_with_other_kinds():
    with pytest.raises(ConfigError, match="no effect"):
        configs.resolve(configs.override(configs.default(), {"data.tokenizer.path": "x"}))
