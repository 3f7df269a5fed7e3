"""The authors' small ELMo models, when imported, give the states that the authors' implementations
computed.
"""

import functools
import hashlib
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.parity.harness import relative_difference
from tests.support.building import call, compiled, random_values, with_values
from tests.support.checkpoints_of_others import zoo
from tests.support.comparisons import compared
from zoo import data
from zoo.config import default, finetuned, override, resolve
from zoo.data import resolve_with_data
from zoo.data.labelled.labelled_dataset import HELD_OUT
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.interop.families.bilm import read_config, read_hdf5, read_weights
from zoo.models.architectures import make_model
from zoo.models.elmo import ELMo
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode
from zoo.training.checkpoints import warm_start
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trained_run import load_trained

pytest.importorskip("h5py")
pytestmark = pytest.mark.parity

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("ZOO_TEST_DATA", ROOT.parent / "shared" / "data")) / "checkpoints"
BEGIN, END = 257, 258
CASES = [("elmo_allennlp", "sentences.json"), ("elmo_bilm_tf/model", "lm_embeddings_sentences.json")]


def published_folder(name):
    """Returns the folder of a published model, with its weights and the states computed from them."""
    if not (FOLDER / name / "lm_weights.hdf5").is_file():
        pytest.skip(f"no {FOLDER / name}/lm_weights.hdf5; set ZOO_TEST_DATA to a folder that holds checkpoints/{name}")
    return FOLDER / name


def model_of(folder):
    """Returns the published model; its softmax was never published, so the head is random."""
    options = json.loads((folder / "options.json").read_text())
    settings = resolve(override(default(), read_config(options) | {"model.vocab_size": 300})).model
    values = read_weights(read_hdf5(folder / "lm_weights.hdf5"), settings)
    return with_values(ELMo(settings), values | {"head": random_values(ELMo(settings))["head"]})


@functools.cache
def character_ids(word):
    """Returns the 50 character ids of a word: begin of word, its bytes or a sentence marker, end of
    word, padding.
    """
    inside = [word] if isinstance(word, int) else [byte + 1 for byte in word.encode()[:48]]
    ids = [259, *inside, 260]
    return ids + [261] * (50 - len(ids))


def states(folder, sentences, model=None):
    """Returns zoo's and the published states of three streams of sentences, [words, 2 D] each; `model`
    replaces that of the folder.

    There are ten batches of three sentences, and both directions carry their state from one batch
    to the next.
    """
    streams = json.loads((folder / sentences).read_text())
    expected = [read_hdf5(folder / f"lm_embeddings_{stream}.hdf5") for stream in range(len(streams))]
    model = model or model_of(folder)
    width = 2 + max(len(sentence.split()) for stream in streams for sentence in stream)
    run, carry, ours, theirs = compiled(model.read), model.empty_carry(len(streams)), [], []
    for number in range(10):
        rows = [[BEGIN, *stream[number].split(), END] for stream in streams]
        characters, filled = np.zeros((len(rows), width, 50), np.int32), np.zeros((len(rows), width), bool)
        for row, words in enumerate(rows):
            characters[row, : len(words)], filled[row, : len(words)] = [character_ids(word) for word in words], True
        layers, carry = run(characters, filled, carry)
        for row, words in enumerate(rows):
            ours.append(layers[-1, row, 1 : len(words) - 1])
            theirs.append(np.concatenate(expected[row][str(number)], axis=-1))
            assert len(theirs[-1]) == len(words) - 2
    return np.concatenate(ours), np.concatenate(theirs)


def measure():
    """Measures the line of `docs/parity.md`."""
    folders = [FOLDER / name for name, _ in CASES]
    if not all((folder / "lm_weights.hdf5").is_file() for folder in folders):
        return None
    digests = [hashlib.sha256((folder / "lm_weights.hdf5").read_bytes()).hexdigest()[:8] for folder in folders]
    worst = max(relative_difference(*states(folder, case[1])) for folder, case in zip(folders, CASES, strict=True))
    return worst, None, f"lm_weights.hdf5 of SHA-256 {' and '.join(f'{digest}...' for digest in digests)}"


@pytest.mark.parametrize(("name", "sentences"), CASES)
def test_states_match_the_published_ones(name, sentences):
    ours, theirs = states(published_folder(name), sentences)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=3e-6)
    options = json.loads((published_folder(name) / "options.json").read_text())
    config = resolve(override(default(), read_config(options) | {"model.vocab_size": 300}))
    compared(ours, theirs, 3e-6, config=config, against="states that the authors' bilm computed")


def test_imported_run_matches_the_published_states(tmp_path):
    """The weights come from a run made by `zoo import`."""
    folder = published_folder("elmo_bilm_tf/model")
    code, out, errors = zoo(
        "import", f"elmo:{folder / 'options.json'}+{folder / 'lm_weights.hdf5'}", "--out", tmp_path / "run"
    )
    assert (code, errors) == (0, [])
    assert "the head has its initial values" in out
    trained = load_trained(tmp_path / "run")
    model = with_values(trained.model, trained.params, trained.stats)
    ours, theirs = states(folder, "lm_embeddings_sentences.json", model)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=3e-6)
    assert np.abs(np.asarray(trained.params["head"]["weights"])).max() > 0
    about = json.loads((tmp_path / "run" / "meta.json").read_text())["imported"]
    assert (about["class"], sorted(about["files"])) == ("ELMo", ["lm_weights.hdf5", "options.json"])


def test_task_features_match_the_published_states(tmp_path):
    """Words from a file pass through the body of an imported run; the layer mix gives all weight to
    the last layer.
    """
    folder = published_folder("elmo_allennlp")
    code, _, errors = zoo(
        "import", f"elmo:{folder / 'options.json'}+{folder / 'lm_weights.hdf5'}", "--out", tmp_path / "run"
    )
    assert (code, errors) == (0, [])
    sentences = [stream[0].split() for stream in json.loads((folder / "sentences.json").read_text())]
    (tmp_path / "words.conll").write_text(
        "\n\n".join("\n".join(f"{word} {'AB'[number % 2]}" for number, word in enumerate(words)) for words in sentences)
    )
    source = f"conll:{tmp_path / 'words.conll'}"
    fine_tuned = finetuned(
        f"from={tmp_path / 'run'}", {"objective.kind": "tagging", "data.source": source, "data.held_out": source}
    )
    resolved = resolve_with_data(fine_tuned)
    assert (resolved.data.tokenizer.kind, resolved.training.trained_layers) == ("words", 0)
    dataset = data.load(resolved)
    objective = make_objective(resolved, dataset.tokenizer)
    program = make_program(resolved, make_model(resolved), objective, make_mesh(resolved, jax.devices()[:1]))
    restored, _ = warm_start.read_weights(
        tmp_path / "run", program.abstract_state, replaceable=warm_start.replaceable_parts(resolved, dataset.labels)
    )
    values = random_values(make_model(resolved)) | restored["params"]
    values["mix"] = {"weights": np.array([-100, -100, 0], np.float32), "gamma": np.ones((), np.float32)}
    (batch,) = dataset.evaluation_batches()
    model, mode, constants = (with_values(make_model(resolved), values), ForwardMode(), program.constants(0))
    states = call(lambda batch: model.mix(objective.features(model, batch, constants, mode)), batch)
    for row, sentence in enumerate(dataset.batches(HELD_OUT).order):
        words, expected = sentences[sentence], read_hdf5(folder / f"lm_embeddings_{sentence}.hdf5")["0"]
        np.testing.assert_allclose(
            states[row, 1 : len(words) + 1], np.concatenate(expected, axis=-1), rtol=0, atol=3e-6
        )
        assert (batch["labels"][row] >= 0).sum() == len(words)


class PublishedVocabulary:
    """A tokenizer of the published vocabulary; the words that begin and end a sentence are special
    tokens.
    """

    def __init__(self, words):
        self.pieces, self.vocab_size = [word.encode() for word in words], len(words)
        self.bos_id, self.separator_id = words.index("<S>"), words.index("</S>")

    token_characters = Tokenizer.token_characters


def test_token_vectors():
    folder = published_folder("elmo_allennlp")
    words = [word for word in (folder / "vocab_test.txt").read_text().split("\n") if word]
    expected = read_hdf5(folder / "elmo_token_embeddings.hdf5")["embedding"]
    characters = PublishedVocabulary(words).token_characters(50)
    np.testing.assert_array_equal(
        characters, [character_ids({"<S>": BEGIN, "</S>": END}.get(word, word)) for word in words]
    )
    np.testing.assert_allclose(call(model_of(folder).characters, characters), expected, rtol=0, atol=1e-5)
