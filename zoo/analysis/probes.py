"""Probes: how often a trained run answers the documents of a synthetic task right.

A probe scores the tasks that a run was trained on, alone or as entries of a mixture, on documents
that are generated anew. An answer counts if every symbol of it has the highest score of all tokens,
which is when greedy decoding would write it. Of a document with several questions the first counts:
the last digit of multi-query recall can be found by elimination, from the digits answered before.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Int

from zoo.config import ResolvedConfig
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.sources.synthetic import PROBE_DOCUMENTS, SyntheticDocuments
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.errors import ConfigError
from zoo.models.functional import Params, Stats, split
from zoo.models.head import logits
from zoo.objectives.objective import EVALUATION
from zoo.training.trained_run import TrainedRun

AT_ONCE, BINS = 128, 4


@dataclass(frozen=True)
class ProbeResult:
    """Accuracy of a run on the documents of one task.

    Attributes:
        accuracy: share of the documents whose first answer is right as a whole.
        chance: the accuracy of answers drawn at random.
        context_only: that of the best answers to documents without their question; None for a task
            whose question is all that comes before the answer.
        documents: number of documents.
        by_distance: (shortest distance, longest, share of right answers, documents) of each quarter
            of the distances between the symbol that is the answer and the place where it is asked
            for, in characters; empty for a task without such a symbol.
        by_question: share of right answers to each question after right answers to those before it, in
            order; empty for a task with one.
    """

    accuracy: float
    chance: float
    context_only: float | None
    documents: int
    by_distance: tuple[tuple[int, int, float, int], ...]
    by_question: tuple[float, ...]


def probe(
    run: TrainedRun,
    task: SyntheticDocuments,
    values: tuple[Params, Stats] | None = None,
    documents: int = PROBE_DOCUMENTS,
) -> ProbeResult:
    """Scores a run on new documents of a task, each read from its beginning as a row of its own.

    Args:
        run: a decoder that predicts each token from those before it.
        task: the documents.
        values: parameters and statistics; by default those of the run.
        documents: number of documents.

    Raises:
        ConfigError: the run is no such decoder, an answer does not begin with a token of its own, or
            documents are longer than its rows.
    """
    check(run.config, task)
    texts = list(task.texts(documents, f"probe {task.name}"))
    rows, answers = _rows(run.tokenizer, texts, task)
    graph, (params, stats) = split(run.model)[0], values or (run.params, run.stats)
    # The tokens that are the answer of some document.
    places = slice(int(answers.any(axis=(0, 1)).argmax()), None)

    @jax.jit
    def right(
        params: Params, stats: Stats, tokens: Int[Array, "B S"], answers: Bool[Array, "B Q S"]
    ) -> Bool[Array, "B Q"]:
        prediction = run.objective.predict(nnx.merge(graph, params, stats), {"tokens": tokens}, {}, EVALUATION)
        scores = logits(prediction)[:, places.start - 1 : tokens.shape[1] - 1, : run.tokenizer.vocab_size]
        found = jnp.argmax(scores, axis=-1) == tokens[:, places]
        return (found[:, None] | ~answers[:, :, places]).all(axis=2)

    # The last batch is filled up, so that all have one program.
    filled = np.arange(len(rows) + (-len(rows) % AT_ONCE if len(rows) > AT_ONCE else 0)) % len(rows)
    parts = [filled[i : i + AT_ONCE] for i in range(0, len(filled), AT_ONCE)]
    found = np.concatenate([np.asarray(right(params, stats, rows[part], answers[part])) for part in parts])[: len(rows)]
    first, shares = found[:, 0], tuple(map(float, found.mean(axis=0)))
    return ProbeResult(
        shares[0],
        task.chance,
        task.context_only,
        len(rows),
        _by_distance(task, texts, first),
        shares if len(shares) > 1 else (),
    )


def check(config: ResolvedConfig, task: SyntheticDocuments) -> None:
    """Raises a ConfigError, with every reason for which a run cannot answer documents of a task."""
    problems = []
    if config.objective.kind not in OBJECTIVE_KINDS.having("causal"):
        problems.append(f"objective.kind={config.objective.kind} does not write an answer after what it has read")
    if task.size > config.data.sequence_length:
        problems.append(
            f"documents of {task.name} with length={task.length} have {task.size} tokens, and "
            f"data.sequence_length={config.data.sequence_length}"
        )
    if problems:
        raise ConfigError(problems)


def _rows(
    tokenizer: Tokenizer, texts: Sequence[str], task: SyntheticDocuments
) -> tuple[Int[np.ndarray, "N S"], Bool[np.ndarray, "N Q S"]]:
    """Returns the documents as tokens, and which of them are the answer to each question.

    The token that opens a document comes first and fills up shorter rows; the line feed is left out.
    """
    size = task.task.answer(task.length)
    encoded = [tokenizer.encode(text[:-1]) for text in texts]
    rows = np.full((len(texts), 1 + max(map(len, encoded))), tokenizer.bos_id, np.int32)
    answers = np.zeros((len(texts), len(task.answer_ends), rows.shape[1]), bool)
    for row, answer, ids, text in zip(rows, answers, encoded, texts, strict=True):
        row[1 : 1 + len(ids)] = ids
        for question, trailing in enumerate(task.task.trailing(task.length)):
            end = len(text) - 1 - trailing
            before, through = (tokenizer.encode(text[:stop]) for stop in (end - size, end))
            if not (np.array_equal(ids[: len(before)], before) and np.array_equal(ids[: len(through)], through)):
                raise ConfigError(
                    f"the answers of {task.name} are not whole tokens of the run's tokenizer; train it with "
                    "data.tokenizer.kind=bytes or characters"
                )
            answer[question, 1 + len(before) : 1 + len(through)] = True
    return rows, answers


def _by_distance(
    task: SyntheticDocuments, texts: Iterable[str], right: Bool[np.ndarray, " N"]
) -> tuple[tuple[int, int, float, int], ...]:
    if (place := task.task.place) is None:
        return ()
    end = task.answer_ends[0]
    distances = np.array([end - 1 - place(text[:end]) for text in texts])
    edges = np.quantile(distances, np.linspace(0, 1, BINS + 1)).round().astype(int)
    found = []
    for low, high in zip([edges[0], *(edges[1:-1] + 1)], edges[1:], strict=True):
        within = (distances >= low) & (distances <= high)
        if within.any():
            found.append((int(low), int(high), float(right[within].mean()), int(within.sum())))
    return tuple(found)
