"""Predictions of models with a head for a task, for texts that are not part of a data set."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array

from zoo.config.fields import SEQUENCE_TASKS
from zoo.data.labelled.example_rows import RowDelimiters
from zoo.data.labelled.examples import LabelledText, Question, TaggedWords
from zoo.data.labelled.labelled_dataset import TASK_CLASSES
from zoo.data.labelled.question_windows import UNANSWERABLE
from zoo.data.labelled.sequence_tasks import mean_of_windows
from zoo.data.rows.packed_rows import PADDING
from zoo.errors import ConfigError
from zoo.files import read_object_or_empty
from zoo.models.functional import Params, split
from zoo.objectives.objective import EVALUATION, beyond_position_table
from zoo.training.trained_run import TrainedRun

# Largest number of tokens of a row of a model with more positions.
LONGEST = 4096


class Prediction(NamedTuple):
    """A model's prediction for one example.

    Attributes:
        value: the label, the number, the answer, or for tagging [(word, tag), ...].
        probabilities: by label, for classification; empty otherwise.
        start, end: for extraction, offsets in the context of the answer's first character and of
            the one after its last; None if the answer is empty, and otherwise.
    """

    value: str | float | list[tuple[str, str]]
    probabilities: Mapping[str, float] = MappingProxyType({})
    start: int | None = None
    end: int | None = None


class TaskPredictor:
    """The task of a run, with its labels.

    Args:
        run: the run.
        folder: its folder; meta.json holds the names of the labels.

    Attributes:
        labels: names of the classes; empty for regression and extraction.

    Raises:
        ConfigError: the run has no task.
    """

    def __init__(self, run: TrainedRun, folder: Path):
        kind = run.config.objective.kind
        if kind not in TASK_CLASSES:
            raise ConfigError(f"objective.kind={kind} has no head for a task: nothing to predict but tokens")
        data = _data_record(folder)
        self.run, self.kind, self.labels = run, kind, tuple(map(str, data.get("labels") or ()))
        self._unanswerable = data.get(UNANSWERABLE) is True
        if kind in ("classification", "tagging") and not self.labels:
            names = run.config.model.head.classes
            self.labels = tuple(f"label {number}" for number in range(names))

    def scores(self, examples: Sequence[Any]) -> tuple[np.ndarray, Any]:
        """Returns (scores of the head [N, (T,) C], the encoded rows) of examples."""
        run = self.run
        encoded = self.task.encode(examples, run.tokenizer, self._delimiters, self._length)
        arrays = {name: encoded.arrays[name] for name in ("tokens", "segments") if name in encoded.arrays}
        # Rows of texts that fill less than a row are read at their own length, as in training.
        width = max(1, int((arrays["tokens"] != PADDING).sum(axis=1).max()))
        batch = {name: array[:, :width] for name, array in arrays.items()}
        objective = run.objective
        return np.asarray(_head_scores(objective, split(run.model)[0], run.params, run.stats, batch)), encoded

    @property
    def _delimiters(self) -> RowDelimiters:
        """The ids around texts: of training, or for an import those of its published tokenizer."""
        frame = self.run.text_frame
        if frame is None:
            return RowDelimiters.of(self.run.tokenizer, self.run.config.model.vocab_size)
        return RowDelimiters(frame.before, frame.after, frame.between)

    @property
    def separates_pairs(self) -> bool:
        """Whether something stands between two texts."""
        return bool(self._delimiters.between)

    @property
    def _length(self) -> int:
        """Largest number of tokens of a row: that of training, of an import the published one."""
        run, own = self.run, self.run.config.data.sequence_length
        if run.trained_length is None:
            return own
        length = max(own, int(min(run.trained_length, LONGEST)))
        return own if beyond_position_table(run.config.model, run.model, length) else length

    @property
    def task(self) -> Any:
        """The rows of its examples."""
        config = self.run.config
        if self.kind == "extraction":
            return TASK_CLASSES[self.kind](config.data.stride, config.objective.longest_answer, self._unanswerable)
        if self.kind in SEQUENCE_TASKS:
            return TASK_CLASSES[self.kind].of(config, self.labels)
        return TASK_CLASSES[self.kind](self.labels)

    def row_scores(self, texts: Sequence[LabelledText]) -> np.ndarray:
        """Returns the scores [N, C] of texts or pairs, each the mean over its windows."""
        return mean_of_windows(*self.scores(texts))


def predict_examples(predictor: TaskPredictor, examples: Sequence[str | tuple[str, str]]) -> list[Prediction]:
    """Returns the prediction for each example; see `LoadedModel.predict`."""
    if not examples:
        return []
    pairs = [isinstance(example, tuple | list) for example in examples]
    if any(pairs) != all(pairs):
        raise ConfigError("some examples are pairs of texts and some are single texts")
    if any(pairs) and not predictor.separates_pairs:
        raise ConfigError(
            "the import recorded no tokens between the texts of a pair, so pairs cannot be read; import the checkpoint "
            "again"
        )
    return _PREDICT[predictor.kind](predictor, [tuple(e) if pair else (e, None) for e, pair in zip(examples, pairs)])


def _classes(predictor: TaskPredictor, examples: Sequence[tuple[str, str | None]]) -> list[Prediction]:
    texts = [LabelledText(text, second, predictor.labels[0]) for text, second in examples]
    found = []
    for row in _softmax(predictor.row_scores(texts)):
        probabilities = dict(zip(predictor.labels, row.tolist(), strict=True))
        found.append(Prediction(max(probabilities, key=probabilities.get), probabilities))
    return found


def _numbers(predictor: TaskPredictor, examples: Sequence[tuple[str, str | None]]) -> list[Prediction]:
    scores = predictor.row_scores([LabelledText(text, second, 0.0) for text, second in examples])
    return [Prediction(float(row[0])) for row in scores]


def _tags(predictor: TaskPredictor, examples: Sequence[tuple[str, str | None]]) -> list[Prediction]:
    _refuse_pairs(predictor, examples)
    sentences = [tuple(text.split()) for text, _ in examples]
    tagged = [TaggedWords(words, (predictor.labels[0],) * len(words)) for words in sentences]
    scores, encoded = predictor.scores(tagged)
    tags = predictor.task.predicted(scores.argmax(axis=-1), tagged, encoded)
    return [Prediction(list(zip(words, found, strict=True))) for words, found in zip(sentences, tags, strict=True)]


def _answers(predictor: TaskPredictor, examples: Sequence[tuple[str, str | None]]) -> list[Prediction]:
    if any(question is None for _, question in examples):
        raise ConfigError("objective.kind=extraction answers questions: give pairs (context, question)")
    asked = [Question(context, question, ()) for context, question in examples]
    scores, encoded = predictor.scores(asked)
    outputs = {"start_scores": scores[..., 0], "end_scores": scores[..., 1]}
    answers = predictor.task.answers(outputs, asked, encoded)
    return [Prediction(answer.text, start=answer.start, end=answer.end) for answer in answers]


_PREDICT = {"classification": _classes, "regression": _numbers, "tagging": _tags, "extraction": _answers}


def _refuse_pairs(predictor: TaskPredictor, examples: Sequence[tuple[str, str | None]]) -> None:
    if any(second is not None for _, second in examples):
        raise ConfigError(f"objective.kind={predictor.kind} reads single texts")


def _data_record(folder: Path) -> dict[str, Any]:
    """Returns what a run's meta.json says of its data; empty without it."""
    found = read_object_or_empty(folder / "meta.json").get("data")
    return found if isinstance(found, dict) else {}


def _softmax(scores: np.ndarray) -> np.ndarray:
    shifted = np.exp((scores - scores.max(axis=-1, keepdims=True)).astype(np.float64))
    return shifted / shifted.sum(axis=-1, keepdims=True)


@partial(jax.jit, static_argnums=(0, 1))
def _head_scores(objective: Any, graph: nnx.GraphDef, params: Params, stats: Any, batch: dict[str, Array]) -> Array:
    return objective.scores(nnx.merge(graph, params, stats), batch, objective.constants, EVALUATION)
