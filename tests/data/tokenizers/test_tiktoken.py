"""Files of tiktoken: compared with its rule of merging, and with transformers."""

import base64
import itertools
import json
import sys
import types

import pytest

from tests.support.small_tokenizers import CORPUS, byte_level
from zoo.data.tokenizers import tiktoken_files
from zoo.data.tokenizers.byte_pair import byte_of_symbol
from zoo.data.tokenizers.tiktoken_files import CL100K, GPT2, O200K, PUBLISHED, QWEN, tiktoken_model
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, read_pretrained
from zoo.errors import ConfigError, DataError

TEXTS = (*CORPUS[:4], "The  café's 日本 12345\n\n x", "<|im_start|> theTHE\t🎉", "  \r\n", "")


def ranks():
    """Bytes by rank: all 256, then those that byte-level BPE merges, in the order of its merges."""
    to_bytes = byte_of_symbol()
    vocabulary = json.loads(byte_level().to_str())["model"]["vocab"]
    learned = [bytes(to_bytes[symbol] for symbol in token) for token in sorted(vocabulary, key=vocabulary.get)[1:]]
    ordered = [*(bytes([byte]) for byte in range(256)), *(token for token in learned if len(token) > 1)]
    return {token: rank for rank, token in enumerate(ordered)}


def written(folder, name="tokenizer.model", content=None, **settings):
    folder.mkdir()
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in (content or ranks()).items()]
    (folder / name).write_text("".join(lines))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def merged(part, rank_of):
    """Merges, again and again, the first two neighbours whose bytes together have the lowest rank."""
    tokens = [bytes([byte]) for byte in part]
    while True:
        pairs = [(rank_of[one + other], place) for place, (one, other) in enumerate(itertools.pairwise(tokens))
                 if one + other in rank_of]  # fmt: skip
        if not pairs:
            return [rank_of[token] for token in tokens]
        _, place = min(pairs)
        tokens[place : place + 2] = [tokens[place] + tokens[place + 1]]


def expected(text, pattern):
    from tokenizers import Regex, pre_tokenizers

    parts = pre_tokenizers.Split(Regex(pattern), behavior="isolated").pre_tokenize_str(text)
    return [id for part, _ in parts for id in merged(part.encode(), ranks())]


@pytest.mark.parametrize("pattern", [GPT2, CL100K, QWEN, O200K])
def test_ids_are_those_of_the_rule(pattern):
    model = tiktoken_model(ranks(), pattern, {"<|endoftext|>": 999}, ["<|endoftext|>"])
    for text in TEXTS:
        assert model.encode(text).ids == expected(text, pattern), text
        assert model.decode(model.encode(text).ids) == text
    assert model.token_to_id("<|endoftext|>") == 999


@pytest.mark.parametrize("name", ["tokenizer.model", "own.tiktoken"])
def test_a_file_with_settings_is_read_and_keeps_every_byte(tmp_path, name):
    size = len(ranks())
    added = {
        str(size + place): {"content": token, "special": True}
        for place, token in enumerate(("<|begin|>", "<|im_start|>"))
    }
    folder = written(tmp_path / "a", name, bos_token="<|begin|>", added_tokens_decoder=added)
    tokenizer = read_pretrained(folder)
    assert (tokenizer.bos_id, tokenizer.vocab_size, tokenizer.lossless) == (size, size + 2, True)
    for text in TEXTS:
        assert tokenizer.encode(text).tolist() == expected(text, CL100K), text
    tokenizer.save(tmp_path / "run")
    assert (
        load_tokenizer(tmp_path / "run").fingerprint
        == tokenizer.fingerprint
        == read_pretrained(folder / name).fingerprint
    )


def test_a_published_vocabulary_is_known_by_its_number_of_ranks(tmp_path, monkeypatch):
    known = PUBLISHED[128000]
    special = {"<|begin_of_text|>": 900, "<|end_of_text|>": 901}
    monkeypatch.setitem(tiktoken_files.PUBLISHED, len(ranks()), known._replace(special=special))
    tokenizer = read_pretrained(written(tmp_path / "a"))
    assert (tokenizer.bos_id, tokenizer.vocab_size) == (900, 902)
    assert tokenizer.special_ids == {900, 901}
    assert 900 not in tokenizer.encode("<|begin_of_text|>")
    ids = known.special.values()
    assert (len(ids), min(ids), max(ids), known.special["<|reserved_special_token_4|>"]) == (
        256,
        128000,
        128255,
        128008,
    )
    assert all(min(vocabulary.special.values()) >= min(size, 50256) for size, vocabulary in PUBLISHED.items())


def test_a_special_token_with_the_id_of_a_rank_is_refused(tmp_path):
    added = {"104": {"content": "<bos>", "special": True}}
    folder = written(tmp_path / "tokenizer", bos_token="<bos>", added_tokens_decoder=added)
    with pytest.raises(DataError, match="<bos> has the id 104, which is the rank of a token of text"):
        read_pretrained(folder)


def test_an_unknown_vocabulary_is_named_as_what_it_is(tmp_path):
    with pytest.raises(ConfigError, match=r"a tiktoken file of \d+ ranks, which is none of gpt2 .*bos_token"):
        read_pretrained(written(tmp_path / "a"))
    damaged = written(tmp_path / "b", bos_token="<s>")
    with (damaged / "tokenizer.model").open("a") as file:
        file.write("no token\n")
    with pytest.raises(DataError, match=r"line \d+ is no token in base64 with its rank"):
        read_pretrained(damaged)
    with pytest.raises(DataError, match="two tokens have the same rank"):
        read_pretrained(written(tmp_path / "c", content={b"a": 0, b"b": 0}, bos_token="<s>"))


@pytest.mark.parity
@pytest.mark.parametrize("pattern", [GPT2, CL100K, QWEN, O200K])
def test_ids_are_those_of_transformers(tmp_path, monkeypatch, pattern):
    conversion = pytest.importorskip("transformers.convert_slow_tokenizer")
    folder = written(tmp_path / "a")
    # Its reader of these lines is in a package of its own.
    load = types.ModuleType("tiktoken.load")
    load.load_tiktoken_bpe = lambda path: ranks()
    monkeypatch.setitem(sys.modules, "tiktoken", types.ModuleType("tiktoken"))
    monkeypatch.setitem(sys.modules, "tiktoken.load", load)
    path = str(folder / "tokenizer.model")
    theirs = conversion.TikTokenConverter(path, pattern, additional_special_tokens=["<|s|>"]).converted()
    ours = tiktoken_model(ranks(), pattern, {"<|s|>": len(ranks())}, ["<|s|>"])
    for text in TEXTS:
        assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False).ids, text
