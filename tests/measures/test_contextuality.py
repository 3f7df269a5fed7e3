"""Contextuality of word vectors: exact values in the input table, and a comparison with plain loops in
the layers.
"""

import itertools
import json
import shutil

import numpy as np
import pytest

from tests.measures.shipped import drawing
from tests.support.building import by_default
from tests.support.small_runs import OBJECTIVES, small
from tests.support.untrained import untrained
from zoo.cli.main import main
from zoo.errors import DataError
from zoo.training.trained_run import load_trained

TEXTS = ["the dog saw the cat .", "a cat sat by the dog .", "no cat came ."]
SENSES = {"cat": {"first": ("the cat is", "a cat has"), "second": ("one more cat", "see that cat")}}


@pytest.fixture
def contextuality():
    return drawing("contextuality")


def run_folder(tmp_path, kind):
    config = small(**OBJECTIVES[kind], model__num_layers=2, data__sequence_length=128)
    return untrained(tmp_path / kind, config)


@pytest.mark.parametrize(
    "kind",
    by_default(
        ["causal", "bidirectional"],
        ["causal", "masked", "bidirectional", "span"],
        pytest.mark.promise(reason="another model is compiled"),
    ),
)
def test_contextuality_of_input_table_and_layers(tmp_path, contextuality, kind):
    layers = contextuality.measure_contextuality(run_folder(tmp_path, kind), TEXTS, senses=SENSES)
    table, *above = layers
    assert (table.name, table.self_similarity, table.senses, set(table.by_word.values())) == (
        "input table",
        1.0,
        0.0,
        {0.0},
    )
    assert table.shuffled == (0.0, 0.0)
    assert table.anisotropy < 1 - 1e-4
    for layer in above:
        assert layer.self_similarity < 1 - 1e-4, layer
        assert layer.senses != 0
    assert len(above) == (2 if kind == "bidirectional" else 3)
    assert above[-1].name == "layer 1"


def test_decoder_vectors_depend_only_on_preceding_words(tmp_path, contextuality):
    vectors = _vectors(contextuality, run_folder(tmp_path, "causal"), ["the cat is", "the cat sat down", "see cat"])
    np.testing.assert_allclose(vectors[:, 1], vectors[:, 4], rtol=0, atol=1e-5)
    assert np.abs(vectors[2:, 1] - vectors[2:, 8]).max() > 1e-2


def _vectors(contextuality, run, texts):
    loaded = load_trained(run)
    names, words, vectors = contextuality.read_word_vectors(loaded, loaded.tokenizer, texts)
    assert [word.word for word in words] == " ".join(texts).split()
    assert len(names) == len(vectors)
    return vectors


def test_word_vectors_are_means_of_pieces_for_any_batch_size(tmp_path, contextuality, monkeypatch):
    run = run_folder(tmp_path, "masked")
    vectors = _vectors(contextuality, run, ["ab cde", "ab"])
    loaded = load_trained(run)
    table = np.asarray(loaded.params["embedding"], np.float64)
    np.testing.assert_allclose(vectors[0, 1], table[[ord(letter) for letter in "cde"]].mean(axis=0), rtol=1e-6)
    monkeypatch.setattr(contextuality, "BATCH_SIZE", 1)
    np.testing.assert_allclose(_vectors(contextuality, run, ["ab cde", "ab"]), vectors, rtol=0, atol=1e-5)


def plain_cosine(x, y):
    return float(x @ y / np.sqrt(x @ x) / np.sqrt(y @ y))


def test_similarity_matches_plain_loops(contextuality):
    ids = [(1,), (2, 3), (1,), (4,), (2, 3), (1,)]
    sentences = [0, 0, 1, 1, 1, 1]
    words = [
        contextuality.WordOccurrence(sentence, str(id), id, ()) for sentence, id in zip(sentences, ids, strict=True)
    ]
    vectors = np.random.default_rng(3).standard_normal((2, 6, 5))
    own, others = contextuality.similarity(words, vectors)
    for layer in range(2):
        x = vectors[layer]
        # Occurrences 2 and 5 are in the same sentence, so they are not compared.
        expected = np.mean([np.mean([plain_cosine(x[0], x[2]), plain_cosine(x[0], x[5])]), plain_cosine(x[1], x[4])])
        np.testing.assert_allclose(own[layer], expected)
        different = [plain_cosine(x[a], x[b]) for a, b in itertools.product(range(6), repeat=2) if ids[a] != ids[b]]
        assert abs(others[layer] - np.mean(different)) < 4 * np.std(different) / np.sqrt(contextuality.PAIRS / 2)
    with pytest.raises(DataError, match="too few"):
        contextuality.similarity(words[:2], vectors[:, :2])


def test_sense_separation_matches_plain_loops(contextuality):
    x, labels = np.random.default_rng(4).standard_normal((1, 7, 3)), [0, 0, 0, 1, 1, 1, 1]
    cosines = np.array([[[plain_cosine(a, b) for b in x[0]] for a in x[0]]])
    within = [cosines[0, a, b] for a, b in itertools.combinations(range(7), 2) if labels[a] == labels[b]]
    across = [cosines[0, a, b] for a, b in itertools.combinations(range(7), 2) if labels[a] != labels[b]]
    found = contextuality.sense_differences(cosines, np.array([labels]))
    np.testing.assert_allclose(found[0, 0], np.mean(within) - np.mean(across))
    by_word, shuffled = contextuality.sense_separation(
        {"x": x, "same": np.ones((1, 4, 2))}, {"x": labels, "same": [0, 0, 1, 1]}
    )
    assert by_word["same"] == [0.0]
    np.testing.assert_allclose(by_word["x"], found[0])
    # On average, random senses have no separation.
    assert abs(shuffled.mean()) < 4 * shuffled.std() / np.sqrt(contextuality.SHUFFLES)


def test_sense_sentences_are_well_formed(contextuality):
    assert len(contextuality.SENSES) >= 6
    for word, each in contextuality.SENSES.items():
        assert len(each) == 2
        for group in each.values():
            assert len(group) >= 3
            assert all(text.split().count(word) == 1 and text.count(word) == 1 for text in group), word
            # A decoder needs context before the word.
            assert all(text.split().index(word) >= 4 for text in group), word


def test_layers_of_the_same_name_share_an_x_position(contextuality):
    def layers(*names):
        return [contextuality.LayerContextuality(name, 0.5, 0.1, 0.2, {}, (0.0, 0.1), 0.5) for name in names]

    page = contextuality.page(
        {"elmo": layers("input table", "layer 0"), "bert": layers("input table", "first input", "layer 0", "layer 1")}
    )
    left_axes = page.axes[0]
    assert [text.get_text() for text in left_axes.get_xticklabels()] == [
        "input\ntable",
        "first\ninput",
        "layer\n0",
        "layer\n1",
    ]
    assert [list(line.get_xdata()) for line in left_axes.lines] == [[0, 2], [0, 1, 2, 3]]


def test_contextuality_command(tmp_path, contextuality, capsys, monkeypatch):
    run = run_folder(tmp_path, "causal")
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS))
    out, table = tmp_path / "out", tmp_path / "table.json"
    command, options = ["draw", "contextuality", str(run)], ["--text", str(tmp_path / "texts.txt"), "--out", str(out)]
    twin = tmp_path / "twin" / run.name
    shutil.copytree(run, twin)
    drawn = []
    monkeypatch.setattr(
        contextuality, "page", lambda found, page=contextuality.page: drawn.append(list(found)) or page(found)
    )
    assert main([*command, str(twin), *options, "--format", "png", "--table", str(table)]) == 0
    assert drawn == [[str(run), str(twin)]]
    assert capsys.readouterr().out == f"{out / 'contextuality.png'}\n"
    found = json.loads(table.read_text())[str(run)]
    assert [layer["name"] for layer in found] == ["input table", "first input", "layer 0", "layer 1"]
    assert found[0]["self_similarity"] == 1
    assert (out / "contextuality.png").stat().st_size > 5000
    assert main([*command, *options, "--format", "svg", "--table", str(table.with_suffix(".md"))]) == 0
    assert "| input table | 1 |" in table.with_suffix(".md").read_text()
    capsys.readouterr()
    for bad, line in (
        (["--text", str(tmp_path / "none")], "none"),
        (["--table", str(tmp_path / "x.bmp")], "tables are written as .md or .json"),
        (["--step", "7"], "7"),
    ):
        assert main([*command, *options, *bad]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert line in error
    assert main(["draw", "contextuality", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err
