"""Windows of long texts in classification and regression: the rows of a text, and its scores as the
mean over them.
"""

import jax
import numpy as np
import pytest
from flax import nnx

from zoo import config as configs
from zoo import data
from zoo.data import resolve_with_data
from zoo.data.labelled.examples import LabelledText
from zoo.data.labelled.sequence_tasks import Classification, Regression
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.objectives import make_objective
from zoo.objectives.objective import EVALUATION
from zoo.training.evaluation.held_out import evaluate
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

OPENING = 256  # The byte tokenizer has no separator, so the id that opens documents separates texts.


def labelled_texts(folder, texts, **fields):
    """Returns config and data set of texts with the labels 0 and 1 in turn; the training and held-out
    texts are the same.
    """
    path = folder / "texts.csv"
    path.write_text("text,second,label\n" + "".join(f"{text},{number % 2}\n" for number, text in enumerate(texts)))
    given = {
        "model.architecture": "encoder",
        "model.dim": 8,
        "model.num_layers": 1,
        "model.attention.num_heads": 2,
        "objective.kind": "classification",
        "data.source": f"csv:{path}",
        "data.held_out": f"csv:{path}",
        "data.sequence_length": 8,
        "data.batch_size": 2,
        "data.tokenizer.kind": "bytes",
    } | {name.replace("__", "."): value for name, value in fields.items()}
    config = resolve_with_data(configs.override(configs.default(), given))
    return config, data.load(config)


def test_long_texts_become_overlapping_windows(tmp_path):
    _, dataset = labelled_texts(tmp_path, ["abc,", "abcdefghijk,"], data__stride=4)
    encoded = dataset.encoded("train")
    # A row holds six letters, and rows of a text start four letters apart.
    assert encoded.arrays["tokens"].tolist() == [
        [OPENING, *b"abc", OPENING, -1, -1, -1],
        [OPENING, *b"abcdef", OPENING],
        [OPENING, *b"efghij", OPENING],
        [OPENING, *b"ijk", OPENING, -1, -1, -1],
    ]
    assert encoded.arrays["labels"].tolist() == [0, 1, 1, 1]
    assert encoded.extra.tolist() == [0, 1, 1, 1]
    assert encoded.cut["texts read in several windows"] == 1
    with dataset.training_batches() as endless:
        labels_seen = np.concatenate([next(endless)["labels"] for _ in range(2)])
    assert sorted(labels_seen.tolist()) == [0, 1, 1, 1]


def test_windows_slide_over_the_longer_text_of_a_pair(tmp_path):
    columns = {"data__second_column": "second", "data__stride": 1, "data__sequence_length": 9}
    _, dataset = labelled_texts(tmp_path, ["ab,wxyz", "abcde,x", "abcde,vwxyz"], **columns)
    encoded = dataset.encoded("train")
    rows = [bytes(row[(row >= 0) & (row != OPENING)].astype(np.uint8)).decode() for row in encoded.arrays["tokens"]]
    # The shorter text of the last pair is cut to three tokens, half the room.
    assert rows == ["abwxyz", "abcdex", "abcvwx", "bcdvwx", "cdevwx"]
    assert encoded.arrays["segments"][0].tolist() == [0] * 4 + [1] * 5
    assert encoded.cut["shorter texts of pairs cut to half a row"] == 1


@pytest.mark.promise(reason="programs of texts of several lengths are compiled")
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_scores_of_a_text_are_the_mean_over_its_windows(tmp_path, kind):
    texts = ["abcd,", "abcdefghijklmnop,", "zyxw,", "zyxwvutsrq,"]

    config, dataset = labelled_texts(tmp_path, texts, objective__kind=kind)
    model, objective = make_model(config), make_objective(config, dataset.tokenizer)
    program = make_program(config, model, objective, make_mesh(config, jax.devices()[:1]))
    state, constants = program.initial_state(0), program.constants(0)
    params, stats = jax.tree.map(lambda x: 20 * x, state["params"]), state["stats"]
    merged = nnx.merge(split(model)[0], params, stats)

    def scored(texts, **fields):
        _, dataset = labelled_texts(tmp_path, texts, objective__kind=kind, **fields)
        return evaluate(program, params, stats, dataset.evaluation_batches(), constants, measure=dataset.measure)

    def window_scores(text):
        batch = {"tokens": np.array([[OPENING, *text.encode(), OPENING]], np.int32)}
        return np.asarray(objective.scores(merged, batch, objective.constants, EVALUATION))[0]

    # A stride changes nothing if every text fits in one row.
    short = [text[:6].strip(",") + "," for text in texts]
    assert scored(short, data__stride=2) == scored(short)
    scores = scored(texts, data__stride=4)
    windows = [["abcd"], ["abcdef", "efghij", "ijklmn", "mnop"], ["zyxw"], ["zyxwvu", "vutsrq"]]
    means = np.array([np.mean([window_scores(window) for window in each], axis=0) for each in windows])
    labels = np.array([0, 1, 0, 1])
    if kind == "classification":
        surprisal = -np.asarray(jax.nn.log_softmax(means))[np.arange(4), labels]
        assert scores["loss"] == pytest.approx(surprisal.mean(), rel=1e-4)
        assert scores["accuracy"] == (means.argmax(axis=1) == labels).mean()
    else:
        means = means[:, 0]
        assert scores["loss"] == pytest.approx(((means - labels) ** 2).mean(), rel=1e-4)
        assert scores["pearson"] == pytest.approx(np.corrcoef(means, labels)[0, 1], rel=1e-3)
    assert scored(texts)["loss"] != pytest.approx(scores["loss"], rel=1e-4)


def test_each_text_counts_once_whatever_its_number_of_windows():
    examples = [LabelledText("", None, label) for label in ("a", "a", "b")]
    encoded = type("Encoded", (), {"extra": np.array([0, 1, 1, 1, 2])})
    scores = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0], [0.0, 2.5], [1.0, 0.5]])
    # The mean of the second text is [1, 1.5] and its label "a", so one of three texts is correct.
    found = Classification(("a", "b"), 2).measure({"scores": scores}, examples, encoded)
    assert found["accuracy"] == pytest.approx(1 / 3)
    numbers = [example._replace(label=number) for example, number in zip(examples, (1.0, 2.0, 3.0), strict=True)]
    found = Regression((), 2).measure({"predicted": np.array([1.0, 0.0, 3.0, 6.0, 5.0])}, numbers, encoded)
    assert found["loss"] == pytest.approx((0 + 1 + 4) / 3)
