"""Tokenizers trained on the source: their size, their pieces, and unknown text."""

from types import SimpleNamespace

import pytest
import sentencepiece
import tokenizers

from zoo import config as configs
from zoo import data
from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer_registry import TOKENIZERS, load_tokenizer
from zoo.data.tokenizers.trained import _RECIPE
from zoo.errors import DataError

WORDS = (
    "the",
    "sheep",
    "and",
    "the",
    "wolves",
    "of",
    "Köln",
    "met",
    "never",
    "again",
    "in",
    "counting",
    "houses",
    "while",
    "reading",
    "longer",
    "stories",
    "about",
    "walking",
    "winters",
)


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text(
        "\n\n".join(" ".join(WORDS[(3 * i + j * j) % len(WORDS)] for j in range(30)) + f" {i}." for i in range(300))
    )
    return path


def dataset(source, kind, size, lowercase=True, **changes):
    config = configs.override(
        configs.default(),
        {
            "data.source": f"text:{source}",
            "data.document_separator": "\n\n",
            "data.tokenizer.kind": kind,
            "data.tokenizer.vocab_size": size,
            "data.tokenizer.lowercase": lowercase,
            **changes,
        },
    )
    resolved = configs.resolve(config)
    resolved = configs.resolve(config, data.vocabulary_size(resolved))
    return data.load(resolved), resolved.model.vocab_size


@pytest.mark.parametrize(("kind", "size"), [("wordpiece", 260), ("unigram", 300)])
def test_trained_tokenizers_have_the_requested_size_and_reload_unchanged(source, tmp_path, kind, size):
    loaded, vocab_size = dataset(source, kind, size)
    tokenizer = loaded.tokenizer
    assert tokenizer.vocab_size == vocab_size == size
    text = "The sheep met wolves in Köln counting walkings."
    ids = tokenizer.encode(text)
    tokenizer.save(tmp_path / "saved")
    reloaded = load_tokenizer(tmp_path / "saved")
    assert type(reloaded) is type(tokenizer)
    assert reloaded.fingerprint == tokenizer.fingerprint
    assert reloaded.encode(text).tolist() == ids.tolist()
    assert not set(ids.tolist()) & tokenizer.special_ids
    # The cache returns an equal one; another setting of case gives another.
    assert dataset(source, kind, size)[0].tokenizer.fingerprint == tokenizer.fingerprint
    assert dataset(source, kind, size, lowercase=False)[0].tokenizer.fingerprint != tokenizer.fingerprint


def test_wordpiece_takes_the_longest_pieces(source):
    tokenizer = dataset(source, "wordpiece", 260)[0].tokenizer
    assert tokenizer.decode(tokenizer.encode("The sheep met the wolves")) == "the sheep met the wolves"
    assert len(tokenizer.encode("the sheep met the wolves")) == 5
    assert len(tokenizer.encode("againg")) == 2
    assert tokenizer.encode("again!").tolist()[1] == 1  # [UNK]
    cased = dataset(source, "wordpiece", 260, lowercase=False)[0].tokenizer
    assert cased.decode(cased.encode("Köln the")) == "Köln the"
    assert tokenizer.decode(tokenizer.encode("Köln")) == "koln"


def test_wordpiece_masks_with_its_own_token(source):
    encoder = {"model.architecture": "encoder", "objective.kind": "masked", "data.sequence_length": 16}
    loaded, vocab_size = dataset(source, "wordpiece", 260, **encoder)
    assert vocab_size == 260
    assert (loaded.tokenizer.bos_id, loaded.tokenizer.mask_id) == (2, 4)
    with loaded.training_batches() as batches:
        tokens = next(batches)["tokens"]
    assert (tokens == 4).any()
    assert tokens.max() < 260
    assert dataset(source, "unigram", 300, **encoder)[1] == 301


def test_unigram_falls_back_to_bytes(source):
    tokenizer = dataset(source, "unigram", 300)[0].tokenizer
    for text in ("the sheep met never again", "emoji 🎉 and 你好"):
        assert tokenizer.decode(tokenizer.encode(text)).strip() == text
    assert len(tokenizer.encode("🎉")) > 4
    unknown = 2
    assert unknown not in tokenizer.encode("emoji 🎉 and 你好")


def test_unreachable_vocabulary_sizes_are_refused(source):
    for kind in ("wordpiece", "unigram"):
        with pytest.raises(DataError, match=f"4000 asked for, but {kind}"):
            dataset(source, kind, 4000)


# Digits of two scripts inside, before and after words, which pieces without `split_digits` join.
NUMBERS = "in 2023 room 1234b of a1990s 12,345.67 and ١٩٩٠ again"


@pytest.fixture
def numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "numbers.txt"
    joined = [WORDS[i % 20] + WORDS[i // 20] for i in range(200)]
    path.write_text("\n\n".join(f"{NUMBERS} {' '.join(WORDS)} {word} {i}8" for i, word in enumerate(joined)))
    return path


def pieces_of(tokenizer, text):
    """Returns what each token of a text spells, without the marks of its place in a word."""
    if tokenizer.kind == "bpe":
        return [tokenizer.pieces[id].decode(errors="replace") for id in tokenizer.encode(text).tolist()]
    written = {id: name for name, id in tokenizer._model.get_vocab().items()}
    return [written[id].removeprefix("##").replace("▁", " ") for id in tokenizer.encode(text).tolist()]


@pytest.mark.parametrize(("kind", "size"), [("bpe", 340), ("wordpiece", 260), ("unigram", 325)])
def test_split_digits_makes_every_digit_a_token(numbers, tmp_path, kind, size):
    plain, split = (
        dataset(numbers, kind, size, **{"data.tokenizer.split_digits": on})[0].tokenizer for on in (False, True)
    )
    assert plain.vocab_size == split.vocab_size == size
    # Another text than the one of training, too.
    for text in (NUMBERS, "the wolves 98765 of 8houses"):
        found = pieces_of(split, text)
        assert [piece for piece in found if any(map(str.isdecimal, piece))] == [c for c in text if c.isdecimal()]
        assert split.decode(split.encode(text)) == plain.decode(plain.encode(text))
    assert any(sum(map(str.isdecimal, piece)) > 1 for piece in pieces_of(plain, NUMBERS))
    split.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").encode(NUMBERS).tolist() == split.encode(NUMBERS).tolist()


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_tokenizers_without_split_digits_keep_their_place_in_the_cache(kind, monkeypatch):
    names, trained = [], TOKENIZERS[kind]
    monkeypatch.setattr(trained, "load_or_train", classmethod(lambda cls, key, train: names.append(key)))
    training = Documents.of(["1234"], "a text")
    for split in (False, True):
        trained.build(SimpleNamespace(vocab_size=300, lowercase=True, split_digits=split), training, training)
    plain, split = names
    own = f" {sentencepiece.__version__} {_RECIPE}" if kind != "bpe" else ""
    case = " True" if kind != "bpe" else ""
    assert plain == f"300{case} {training.fingerprint} {tokenizers.__version__}{own}"
    assert split != plain
