"""Trainers of tokenizers, whose time grows with the square of a word's length, get no very long words,
and can be interrupted.
"""

import _thread
import random
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers import byte_pair, trained
from zoo.data.tokenizers.tokenizer import interruptible, training_chunks
from zoo.data.tokenizers.tokenizer_registry import tokenizer_class

LETTERS = 50_000


def long_word():
    generator = random.Random(0)
    return "".join(generator.choice("abcdefgh") for _ in range(LETTERS))


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "unigram"])
def test_a_very_long_word_reaches_no_trainer(tmp_path, monkeypatch, kind):
    longest = []

    def recorded(training):
        for chunk in training_chunks(training):
            longest.append(max(map(len, chunk.split()), default=0))
            yield chunk

    for module in (byte_pair, trained):
        monkeypatch.setattr(module, "training_chunks", recorded)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    text = f"the cat sat on a mat {long_word()} and more words of text"
    documents = Documents.of([text], "a long word")
    settings = SimpleNamespace(
        kind=kind, vocab_size={"bpe": 300, "wordpiece": 60, "unigram": 290}[kind], lowercase=True, split_digits=False
    )
    tokenizer = tokenizer_class(kind).build(settings, documents, documents)
    assert 0 < max(longest) <= 1 << 13
    assert tokenizer.decode(tokenizer.encode("the cat")) == "the cat"


def test_only_long_stretches_are_cut():
    short, spaces = "a b\n" * 9000, " " * 40_000
    for text in (short, "x" * 40_000, f"{short}{'ab' * 30_000}{spaces}\n{short}"):
        chunks = [*training_chunks(Documents.of([f"t{text}"], "text"))]
        assert "".join(chunks) == f"t{text}"
        assert max(max((len(word) for word in chunk.split()), default=0) for chunk in chunks) <= 1 << 13
    whole = [*training_chunks(Documents.of([f"t {'word-' * 1500} end"], "text"))]
    assert whole == [f"t {'word-' * 1500} end"]


@pytest.fixture
def interrupts():
    """A job in the background of a shell ignores interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_training_can_be_interrupted_and_passes_errors_on(interrupts):
    released = threading.Event()
    threading.Timer(0.3, _thread.interrupt_main).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interruptible(lambda: released.wait(30))
    released.set()
    assert time.monotonic() - begun < 20

    def fail():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        interruptible(fail)
