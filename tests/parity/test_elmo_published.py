"""The authors' own small ELMo models: their files, read, give the states that their implementations gave."""

import functools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.building import call, compiled, random_values, with_values
from zoo.config import default, override, resolve
from zoo.interop.elmo import config_of, read_hdf5, read_weights
from zoo.models.elmo import ELMo

pytest.importorskip("h5py")
pytestmark = pytest.mark.parity

ROOT = Path(__file__).parents[2]
BEGIN, END = 257, 258


@pytest.fixture
def published():
    """Finds the folder of a published model: its weights, and the states that were computed with them."""
    folder = Path(os.environ.get("ZOO_TEST_DATA", ROOT.parent / "shared" / "data")) / "checkpoints"

    def find(name):
        if not (folder / name / "lm_weights.hdf5").is_file():
            pytest.skip(f"no {folder / name}/lm_weights.hdf5; set ZOO_TEST_DATA to a folder that holds checkpoints/{name}")
        return folder / name

    return find


def model_of(folder):
    """The published model; its softmax was never published and is not read here."""
    options = json.loads((folder / "options.json").read_text())
    settings = resolve(override(default(), config_of(options) | {"model.vocab_size": 300})).model
    values = read_weights(read_hdf5(folder / "lm_weights.hdf5"), settings)
    return with_values(ELMo(settings), values | {"head": random_values(ELMo(settings))["head"]})


@functools.cache
def spelled(word):
    """A word's 50 ids: its bytes, or the mark of a sentence's begin or end, between those of a word's, filled up."""
    inside = [word] if isinstance(word, int) else [byte + 1 for byte in word.encode()[:48]]
    ids = [259, *inside, 260]
    return ids + [261] * (50 - len(ids))


@pytest.mark.parametrize(("name", "sentences"), [
    ("elmo_allennlp", "sentences.json"), ("elmo_bilm_tf/model", "lm_embeddings_sentences.json")])
def test_three_streams_of_sentences(published, name, sentences):
    # Ten batches of three sentences; from one to the next both directions go on with the state they stopped in.
    folder = published(name)
    streams = json.loads((folder / sentences).read_text())
    expected = [read_hdf5(folder / f"lm_embeddings_{stream}.hdf5") for stream in range(len(streams))]
    model = model_of(folder)
    width = 2 + max(len(sentence.split()) for stream in streams for sentence in stream)
    read, carry = compiled(model.read), model.empty_carry(len(streams))
    compared = 0
    for number in range(10):
        rows = [[BEGIN, *stream[number].split(), END] for stream in streams]
        characters, filled = np.zeros((len(rows), width, 50), np.int32), np.zeros((len(rows), width), bool)
        for row, words in enumerate(rows):
            characters[row, : len(words)], filled[row, : len(words)] = [spelled(word) for word in words], True
        layers, carry = read(characters, filled, carry)
        for row, words in enumerate(rows):
            states = np.concatenate(expected[row][str(number)], axis=-1)
            np.testing.assert_allclose(layers[-1, row, 1 : len(words) - 1], states, rtol=0, atol=3e-6)
            compared += len(states)
    assert compared == sum(len(sentence.split()) for stream in streams for sentence in stream[:10])


def test_token_vectors(published):
    folder = published("elmo_allennlp")
    words = (folder / "vocab_test.txt").read_text().split("\n")
    expected = read_hdf5(folder / "elmo_token_embeddings.hdf5")["embedding"]
    marks = {"<S>": BEGIN, "</S>": END}
    characters = np.array([spelled(marks.get(word, word)) for word in words if word])
    np.testing.assert_allclose(call(model_of(folder).characters, characters), expected, rtol=0, atol=1e-5)
