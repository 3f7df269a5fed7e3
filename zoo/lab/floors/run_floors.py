"""Floors of a run: what models without depth score on its held-out rows, counted on its training rows.

| objective | floors |
| --- | --- |
| causal, prefix | unigram, bigram and the best interpolated n-gram of up to 5 tokens of context |
| spans, denoising, translation | the same of the targets alone; the most frequent target text |
| masked, masked diffusion | the unigram of the hidden tokens |
| classification, regression, tagging | a constant answer, and a model of words without their order |
| causal, on a synthetic task | also a constant answer, and the best one to a hidden question |

Other objectives have none. The rows are those of the run's own batches, so tokens, cuts between rows
and the contexts that a row's first tokens lack are the same as for the model. Each training row is
counted once, however often a run reads it. Beyond `MOST_TOKENS` tokens the first of them are
counted. Results are kept in the cache folder.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data import LabelledDataset, TextDataset, TranslationDataset
from zoo.data.labelled.examples import subsample
from zoo.data.labelled.labelled_dataset import read_task
from zoo.data.pipeline.batches import TrainingBatches
from zoo.data.rows.packed_rows import BYTES, PADDING, Arrays
from zoo.data.sources.synthetic import SyntheticDocuments
from zoo.errors import DataError
from zoo.files import cache_directory, read_object_or_empty, write_json
from zoo.lab.floors.label_floors import label_floors
from zoo.lab.floors.ngrams import LONGEST_CONTEXT, WittenBell
from zoo.lab.floors.record import (
    ANSWER,
    BIGRAM,
    CONTEXT_ONLY,
    PART,
    TARGET,
    UNIGRAM,
    WAITING,
    RunFloors,
    floors_record,
    parse_floors,
)
from zoo.lab.measures import tasks_in
from zoo.nested import flatten

# The n-gram of `LONGEST_CONTEXT` takes about 80 bytes of memory for each token counted.
MOST_TOKENS = 1 << 22
# Part of the names of cached results: another way of counting needs another number.
_VERSION = 3
# Tokens from which the count takes more than a few seconds.
_LONG = 1 << 20

Dataset = TextDataset | LabelledDataset | TranslationDataset


def run_floors(config: Any, dataset: Dataset | None, say: Callable[[str], None] = lambda line: None) -> RunFloors:
    """Returns the floors of a run.

    Args:
        config: resolved.
        dataset: its data set; None where its tokenizer does not exist yet.
        say: is called with a line if the count takes long.

    Raises:
        ConfigError, DataError: as `zoo.data.load`.
    """
    if config.objective.kind in TASKS:
        examples, task = read_task(config)
        return _cached(config, examples.fingerprint, lambda: _of_labels(config, examples, task))
    if dataset is None:
        return RunFloors(note=WAITING)
    if not (reader := _target_reader(config)):
        return RunFloors(note=f"no floor is defined for objective.kind={config.objective.kind}")
    summary = dataset.summary()
    content = f"{summary['fingerprint']} {summary['tokenizer']['fingerprint']}"
    return _cached(config, content, lambda: _of_tokens(config, dataset, reader, say))


def _cached(config: Any, content: str, count: Callable[[], RunFloors]) -> RunFloors:
    """Returns what `count` does, from the cache if it was counted before.

    Args:
        config: the fields of data, objective and evaluation, the steps and the seed.
        content: identifies the text.
        count: counts.
    """
    read = {
        path: value
        for path, value in flatten(config).items()
        if path.startswith(("data.", "objective.", "training.eval_")) or path in ("training.steps", "seed")
    }
    if config.objective.kind in TASKS:
        # The words of examples depend on no tokenizer, whose path may be that of a run.
        read = {path: value for path, value in read.items() if not path.startswith("data.tokenizer.")}
    key = json.dumps([_VERSION, MOST_TOKENS, content, read], sort_keys=True, default=list)
    path = cache_directory() / "floors" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
    if (found := parse_floors(read_object_or_empty(path))) is not None:
        return found
    found = count()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, floors_record(found))
    return found


def _of_labels(config: Any, examples: Any, task: Any) -> RunFloors:
    count, kind = config.data.examples, config.objective.kind
    train = subsample(examples.train, count) if count else examples.train
    scores = label_floors(kind, task, train, examples.held_out)
    note = f"counted on {len(train):,} training examples" if scores else f"no floor is defined for {kind}"
    return RunFloors(
        {floor: {f"eval/{name}": value for name, value in found.items()} for floor, found in scores.items()}, note=note
    )


# (batch, whether it is of the held-out part) -> (tokens [B, L], which of them are scored [B, L]).
# The first column holds no target.
_Reader = Callable[[Arrays, bool], tuple[np.ndarray, np.ndarray]]


def _target_reader(config: Any) -> _Reader | None:
    """Returns what reads the targets of a batch as rows; None for an objective without floors."""
    kind = config.objective.kind
    if kind in OBJECTIVE_KINDS.having("replaced"):
        return None
    if kind in OBJECTIVE_KINDS.having("causal") or kind in OBJECTIVE_KINDS.having("prefix"):
        prefix = kind in OBJECTIVE_KINDS.having("prefix")
        first = max(1, config.objective.prefix_length if prefix else config.training.eval_context)
        return lambda batch, held_out: (
            batch["tokens"],
            np.broadcast_to(
                np.arange(batch["tokens"].shape[1]) >= (first if held_out or prefix else 1), batch["tokens"].shape
            ),
        )
    if kind in OBJECTIVE_KINDS.having("masked"):
        return lambda batch, held_out: _targets(batch["targets"].reshape(-1, 1))
    if any(kind in OBJECTIVE_KINDS.having(trait) for trait in ("spans", "denoising")) or kind == "translation":
        return lambda batch, held_out: _targets(batch["targets"])
    return None


def _targets(targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows of targets after a column without a token: nothing precedes the first target."""
    rows = np.concatenate([np.full((len(targets), 1), PADDING, targets.dtype), targets], axis=1)
    return rows, rows != PADDING


def _of_tokens(config: Any, dataset: Dataset, reader: _Reader, say: Callable[[str], None]) -> RunFloors:
    if isinstance(dataset, TextDataset):
        dataset = dataset.for_config(config)
    tokens, limit = config.data.batch_size * config.data.sequence_length * config.training.steps, MOST_TOKENS
    if isinstance(dataset, TextDataset):
        rows = dataset.batching.row_count([part.train_stream for part in dataset.parts])
        tokens = min(tokens, rows * config.data.sequence_length)
    if min(tokens, limit) > _LONG:
        say(f"counting n-grams on {min(tokens, limit):,} training tokens, whose loss is the floor of every arm")
    training = _training_rows(config, dataset, reader, min(tokens, limit))
    masked = config.objective.kind in OBJECTIVE_KINDS.having("masked")
    opening = dataset.tokenizer.bos_id if config.data.isolate_documents else None
    size = dataset.tokenizer.vocab_size + (
        config.objective.sentinels if config.objective.kind in OBJECTIVE_KINDS.having("spans") else 0
    )
    model = WittenBell(training, size, 0 if masked else LONGEST_CONTEXT, opening)
    losses = {}
    for length in (None, *_other_lengths(config, dataset)):
        batches = list(_held_out(dataset, length))
        read = [reader(batch, True) for batch in batches]
        parts = _padded(read)
        if parts[1].any():
            losses[f"@{length}" if length else ""] = model.losses(*parts), _bytes_per_token(dataset, batches, read)
    counted = int((training[:, 1:] != PADDING).sum())
    part = f", {PART}" if tokens > limit else ""
    found = RunFloors(_named(losses), note=f"counted on {counted:,} training tokens{part}")
    return _with_answers(config, dataset, found)


def _training_rows(config: Any, dataset: Dataset, reader: _Reader, most: int) -> np.ndarray:
    """Returns the targets of the first batches as rows, each once, until they have `most` tokens."""
    batches, found, seen = _batches_of_rows(dataset), [], 0
    steps = config.training.steps
    if isinstance(dataset, TranslationDataset):
        steps = min(steps, dataset.training.per_epoch)
    read = config.data.batch_size * config.data.sequence_length
    for step in range(steps):
        if seen >= most:
            break
        batch = batches.batch(step)
        found.append(reader(batch, False))
        # Of hidden tokens, all that the model reads count towards the limit.
        seen += int((batch["tokens"][:, 1:] != PADDING).sum()) if "tokens" in batch else read
    return _padded(found)[0]


def _batches_of_rows(dataset: Dataset) -> TrainingBatches:
    """Returns batches that read every training row once before one is read again: those of training,
    but for a mixture, in which they take sources in proportion to their rows and not to their weights.
    """
    if not isinstance(dataset, TextDataset) or len(dataset.parts) == 1:
        return dataset.training_batches()
    streams = [part.train_stream for part in dataset.parts]
    return dataset.batching.training(streams, [dataset.batching.row_count([stream]) for stream in streams])


def _held_out(dataset: Dataset, length: int | None) -> Iterable[Arrays]:
    return dataset.evaluation_batches(length) if length else dataset.evaluation_batches()


def _other_lengths(config: Any, dataset: Dataset) -> list[int]:
    """Returns the other lengths at which a run is evaluated, as far as the text has rows of them."""
    found = []
    for length in config.training.eval_lengths if isinstance(dataset, TextDataset) else ():
        try:
            next(iter(dataset.evaluation_batches(length)))
        except DataError:
            continue
        found.append(length)
    return found


def _padded(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Concatenates rows, and which of their tokens count, of different lengths."""
    width = max(rows.shape[1] for rows, _ in parts)
    sides = []
    for place, fill in ((0, PADDING), (1, False)):
        arrays = [part[place] for part in parts]
        sides.append(
            np.concatenate(
                [np.pad(array, [(0, 0), (0, width - array.shape[1])], constant_values=fill) for array in arrays]
            )
        )
    return sides[0], sides[1]


def _bytes_per_token(
    dataset: Dataset, batches: Sequence[Arrays], read: Sequence[tuple[np.ndarray, np.ndarray]]
) -> float:
    """Returns the bytes of the documents per scored token; 0 where they are not known.

    Args:
        dataset: the data.
        batches: of the evaluation.
        read: rows of each batch, and which of their tokens are scored.
    """
    table, total, count = dataset.tokenizer.token_bytes(), 0, 0
    for batch, (rows, scored) in zip(batches, read, strict=True):
        chosen = rows[scored & (rows != PADDING)]
        count += len(chosen)
        if BYTES not in batch:
            total += int(table[chosen[chosen < len(table)]].sum())
        else:  # Of every token of a row, or of its targets.
            total += int((batch[BYTES][scored] if batch[BYTES].shape == scored.shape else batch[BYTES]).sum())
    return total / max(count, 1)


def _named(losses: Mapping[str, tuple[list[float], float]]) -> dict[str, dict[str, float]]:
    """Returns {floor: {metric: score}} of losses by length of context; the best context is that of the
    length of training.
    """
    lengths = losses[""][0]
    names = {UNIGRAM: 0, BIGRAM: 1} if len(lengths) > 1 else {UNIGRAM: 0}
    best = int(np.argmin(lengths))
    if best > 1:
        names[f"{best + 1}-gram"] = best
    found: dict[str, dict[str, float]] = {name: {} for name in names}
    for suffix, (values, size) in losses.items():
        for name, context in names.items():
            loss = values[context]
            found[name] |= {f"eval/loss{suffix}": loss, f"eval/perplexity{suffix}": math.exp(min(loss, 700))}
            if size:
                found[name][f"eval/bits_per_byte{suffix}"] = loss / math.log(2) / size
    return found


def _with_answers(config: Any, dataset: Dataset, found: RunFloors) -> RunFloors:
    """Adds the most frequent target text of pairs, and what is known of synthetic tasks."""
    scores, best = dict(found.scores), {}
    if isinstance(dataset, TranslationDataset):
        (text, _), *_ = Counter(dataset.train.targets).most_common(1)
        share = sum(target == text for target in dataset.validation.targets) / len(dataset.validation)
        scores[TARGET] = {"eval/exact_match": share}
    if config.objective.kind in OBJECTIVE_KINDS.having("causal"):
        tasks = tasks_in(config.data.source, config.data.mixture)
        scores |= _answers_without_reading(tasks)
        if config.data.source.startswith("synthetic:"):
            best["eval/bits_per_byte"] = tasks[0].bits_per_byte
    return RunFloors(scores, best, found.note)


def _answers_without_reading(tasks: Sequence[SyntheticDocuments]) -> dict[str, dict[str, float]]:
    """Returns the floors of the shares of right answers, the means over the entries of a task."""
    found: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(task.name for task in tasks):
        entries = [task for task in tasks if task.name == name]
        shares = {ANSWER: [task.constant for task in entries], CONTEXT_ONLY: [task.context_only for task in entries]}
        for floor, values in shares.items():
            if None not in values:
                found.setdefault(floor, {})[f"measured/probe_{name}"] = float(np.mean(values))
    return found
