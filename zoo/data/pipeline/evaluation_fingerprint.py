"""Describes from a config alone what its evaluation scores, so arms can be compared before they run.

Two runs may report a metric of the same name for different things: the loss of every token or of
the 15 % that were hidden, of whole documents or of pairs of sentences. A list of fields to compare
would miss one, so the config's own pipeline cuts and corrupts a small built-in text, and what comes
out is hashed.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from zoo import config as configs
from zoo.config.constraints.data_constraints import TRAINED_TOKENIZERS
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.pipeline.batching import Batching
from zoo.data.rows.packed_rows import Arrays
from zoo.data.rows.token_streams import Stream
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.nested import flatten
from zoo.terminal import escape_line

# Rows and batches of the small text; the number of rows that a config scores is compared separately.
_ROWS_PER_BATCH, _BATCHES = 4, 3
# Fields of `data` that choose no held-out text: they shape rows, which are hashed, or concern only
# training or the head of a task.
_NOT_TEXT = frozenset(
    f"data.{name}"
    for name in (
        "sequence_length",
        "batch_size",
        "row_format",
        "short_row_fraction",
        "position_offsets",
        "isolate_documents",
        "training_fraction",
        "examples",
        "mixture_exponent",
        "batch_stages",
        "length_stages",
        "buckets",
        "stride",
        "label_column",
        "labels",
        "conll.tags",
        "hub.streaming",
    )
)
_ALL = "all of them"
# Fields that choose the texts of a source, by its kind; all read `data.bad_text`.
_HUB = tuple(f"data.hub.{name}" for name in ("revision", "subset", "split", "folder"))
_READ_BY = {
    "text": ("data.document_separator",),
    "jsonl": ("data.column",),
    "parquet": ("data.column",),
    "hf": ("data.column", *_HUB),
    "tfds": ("data.column", *_HUB),
    "tokens": ("data.token_dtype",),
}
# Labels of another term than the loss of tokens; no model reads them.
_OTHER_LABELS = ("next",)


@dataclass(frozen=True)
class EvaluationFingerprint:
    """The inputs from which an evaluation's metrics are computed.

    Attributes:
        text: the held-out text or examples.
        tokenizer: what counts as a token.
        sample: how many rows are scored.
        row_format: how the text is cut into rows.
        hidden: what stands in place of hidden tokens; empty where none are.
        rows: hash of the rows as a model reads them.
        length: T, tokens in a row.
        scored: which targets count, in words.
        targets: hash of the targets that count.
        context: what a target is predicted from.
        per_example: whether the targets are labels of examples and not tokens.
    """

    text: str
    tokenizer: str
    sample: str
    row_format: str
    hidden: str
    rows: str
    length: int
    scored: str
    targets: str
    context: str
    per_example: bool

    @property
    def description(self) -> str:
        """Returns what is scored, in one line."""
        return f"{self.scored}, {self._context_with_length}; {self._rows}; {self.text}"

    def differences(self, other: "EvaluationFingerprint", per_token: bool) -> dict[str, tuple[str, str]]:
        """Returns both sides of each difference, by "text", "tokenizer", "rows", "targets" and
        "context"; empty if equal values of a metric mean the same.

        Args:
            other: the other evaluation.
            per_token: whether the metric is a mean over tokens, so tokenizers must agree.
        """
        found = {"text": (self.text, other.text)}
        if self.per_example and other.per_example:
            # Labels do not depend on how a model reads the text, which is part of the arm.
            found["targets"] = (self.scored, other.scored)
            found["context"] = (self._context_with_length, other._context_with_length)
        elif self.tokenizer != other.tokenizer:
            found["rows"] = (self._rows, other._rows)
            if per_token:
                found["tokenizer"] = (self.tokenizer, other.tokenizer)
            elif _ALL not in (self.sample, other.sample):
                # Equally many rows of other tokens are not the same text.
                found["rows"] = (f"{self._rows} of {self.tokenizer}", f"{other._rows} of {other.tokenizer}")
            found["targets"] = (self.scored, other.scored)
            found["context"] = (self.context, other.context)
        else:
            found["rows"] = _distinguished(self._rows, other._rows, self.rows, other.rows)
            same_rows = self.rows == other.rows
            digests = (self.targets, other.targets) if same_rows else ("", "")
            found["targets"] = _distinguished(self.scored, other.scored, *digests)
            found["context"] = (self._context_with_length, other._context_with_length)
        return {what: sides for what, sides in found.items() if sides[0] != sides[1]}

    @property
    def _rows(self) -> str:
        return f"{self.row_format}{f' (hidden tokens: {self.hidden})' if self.hidden else ''}, {self.sample}"

    @property
    def _context_with_length(self) -> str:
        return f"{self.context} in rows of {self.length:,}"


def _distinguished(one: str, other: str, digest: str, other_digest: str) -> tuple[str, str]:
    """Returns two descriptions, with their hashes if only these differ."""
    if one == other and digest != other_digest:
        return f"{one} ({digest[:8]})", f"{other} ({other_digest[:8]})"
    return one, other


def evaluation_fingerprint(config: Mapping[str, Any], length: int | None = None) -> EvaluationFingerprint:
    """Returns what an evaluation of this config scores.

    Reads no data, and needs neither JAX nor a device.

    Args:
        config: the resolved config.
        length: tokens in a row; by default `data.sequence_length`, else one of
            `training.eval_lengths`.
    """
    flat = flatten(config)
    read = {
        path: value
        for path, value in flat.items()
        if path.startswith(("data.", "objective.", "training.eval_", "model.generator."))
        or path in ("seed", "model.architecture")
    }
    return _fingerprint(json.dumps(read, sort_keys=True, default=list), length or flat["data.sequence_length"])


# Arms of a sweep mostly agree in all that is read here.
@lru_cache(maxsize=256)
def _fingerprint(read: str, length: int) -> EvaluationFingerprint:
    flat = json.loads(read)
    kind = flat["objective.kind"]
    if kind in OBJECTIVE_KINDS.having("text"):
        return _of_text(flat, length)
    task = kind in TASKS
    scored = f"the {kind} labels of the examples" if task else "every token of the target texts"
    # The labels, and the windows of long texts that have them.
    chosen = {path: flat[path] for path in ("data.label_column", "data.labels", "data.conll.tags", "data.stride")}
    if task and kind not in OBJECTIVE_KINDS.having("windows"):
        del chosen["data.stride"]
    if task and (shown := _settings({path: value for path, value in chosen.items() if value != _plain_default(path)})):
        scored += f" ({shown})"
    limit = flat["training.eval_batches"]
    return EvaluationFingerprint(
        text=_text(flat),
        tokenizer=_tokenizer(flat),
        sample=f"{limit:,} batches of {flat['data.batch_size']:,}" if limit else _ALL,
        row_format="examples",
        hidden="",
        rows="",
        length=length,
        scored=scored,
        targets="",
        context="from the example" if task else "from the source text and the target tokens before it",
        per_example=task,
    )


def _of_text(flat: Mapping[str, Any], length: int) -> EvaluationFingerprint:
    limit = flat["training.eval_batches"]
    batches = list(_stand_in_batches(flat, length))
    scored = [_scored_targets(flat, batch) for batch in batches]
    read = [{name: array for name, array in batch.items() if name not in _OTHER_LABELS} for batch in batches]
    share = sum((targets >= 0).sum() for targets in scored) / sum(map(_num_tokens, batches))
    rows = max(1, flat["data.batch_size"] * flat["data.sequence_length"] // length) * limit
    return EvaluationFingerprint(
        text=_text(flat),
        tokenizer=_tokenizer(flat),
        sample=f"{rows:,} of them" if limit else _ALL,
        row_format=f"{flat['data.row_format'].replace('_', ' ')} rows",
        hidden=_hidden(flat),
        rows=_digest(array for batch in read for array in batch.values()),
        length=length,
        scored="every token" if share > 0.99 else f"{100 * share:.0f} % of the tokens",
        targets=_digest(targets[targets >= 0] for targets in scored),
        context=_context(flat),
        per_example=False,
    )


def _context(flat: Mapping[str, Any]) -> str:
    kind = flat["objective.kind"]
    # "hidden tokens, from all others (Devlin et al. 2019)" without its source.
    words = OBJECTIVE_KINDS.by_name[kind].meaning.partition(" (")[0]
    found = "from the tokens before it" if _from_the_left(kind) else f"as objective.kind={kind}: {words}"
    if kind in OBJECTIVE_KINDS.having("replaced"):
        layers, share = flat["model.generator.num_layers"], flat["model.generator.width_fraction"]
        found += f", by one of {layers} layers and {share:g} of the width" if layers else ", at random"
    if flat["data.isolate_documents"]:
        found += ", in its document"
    if offsets := flat["data.position_offsets"]:
        found += f", at positions from {', '.join(map(str, offsets))}"
    return found


def _from_the_left(kind: str) -> bool:
    """Returns whether each target is predicted from the tokens before it, and from no others."""
    return kind in OBJECTIVE_KINDS.having("causal") or kind in OBJECTIVE_KINDS.having("prefix")


def _hidden(flat: Mapping[str, Any]) -> str:
    if flat["objective.kind"] not in OBJECTIVE_KINDS.having("masking"):
        return ""
    if flat["objective.kind"] in OBJECTIVE_KINDS.having("any_share"):
        return "any share of a row, all [MASK]"
    if flat["training.eval_masks"] == "all":
        return "all [MASK]"
    shares = (100 * flat[f"objective.{part}_token_fraction"] for part in ("mask", "random"))
    return "{:.0f} % [MASK], {:.0f} % random".format(*shares)


def _text(flat: Mapping[str, Any]) -> str:
    """Returns the held-out text in words; equal if and only if all settings that choose it are."""
    if (named := _given_text(flat)) and not named.startswith("split:"):
        chosen = {path: flat[path] for path in ("data.bad_text", *_READ_BY.get(named.partition(":")[0], ()))}
        other = {path: value for path, value in chosen.items() if value != _plain_default(path)}
        return f"{named}, held out{f'; {_settings(other)}' if other else ''}"
    chosen = _text_fields(flat)
    source, fraction = chosen.pop("data.source"), chosen.pop("data.validation_fraction")
    other = {path: value for path, value in chosen.items() if value != _plain_default(path)}
    shown = f"; {_settings(other)}" if other else ""
    return f"{100 * fraction:.3g} % of {source}, held out{shown}"


def _text_fields(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that choose texts, for training and for the evaluation."""
    return {
        path: value
        for path, value in flat.items()
        if path.startswith("data.") and not path.startswith("data.tokenizer.") and path not in _NOT_TEXT
    }


def _given_text(flat: Mapping[str, Any]) -> str:
    """Returns `data.held_out` if it names running text; arms may then be trained on other texts."""
    return flat["data.held_out"] if flat["objective.kind"] in OBJECTIVE_KINDS.having("text") else ""


def _tokenizer(flat: Mapping[str, Any]) -> str:
    """Returns the tokenizer in words, with what it is trained on where `_text` does not say that."""
    settings = {
        path.removeprefix("data.tokenizer."): value
        for path, value in flat.items()
        if path.startswith("data.tokenizer.") and value != _plain_default(path)
    }
    kind = settings.pop("kind", configs.BY_PATH["data.tokenizer.kind"].default)
    if _given_text(flat) and kind in TRAINED_TOKENIZERS:
        settings |= {
            path: value
            for path, value in _text_fields(flat).items()
            if value != _plain_default(path) and path != "data.held_out"
        }
    return f"{kind} ({_settings(settings)})" if settings else kind


def _plain_default(path: str) -> Any:
    default = configs.BY_PATH[path].default
    return list(default) if isinstance(default, tuple) else default


def _settings(values: Mapping[str, Any]) -> str:
    # A separator of documents may be a line end.
    return ", ".join(f"{path}={escape_line(str(value))}" for path, value in values.items())


def _stand_in_batches(flat: Mapping[str, Any], length: int) -> Iterator[Arrays]:
    """Yields evaluation batches of the built-in text, made by the pipeline of the config."""
    changed = {"data.sequence_length": length, "data.batch_size": _ROWS_PER_BATCH}
    batching = Batching(configs.from_flat(flat | changed), ByteTokenizer())
    stream = _stand_in_stream(_BATCHES * _ROWS_PER_BATCH * (length + 1))
    yield from batching.evaluation([stream], length, limit_batches=_BATCHES)


def _stand_in_stream(size: int) -> Stream:
    """Returns bytes of documents of one to 40 sentences, at least `size` tokens."""
    tokens, starts, opening = [], [], ByteTokenizer().bos_id
    while len(tokens) < size or len(starts) < 100:
        tokens.append(opening)
        for sentence in range(1 + 13 * len(starts) % 40):
            starts.append(len(tokens))
            words = (f"{len(starts) * (word + 3) ** 2 % 997:x}" for word in range(2 + sentence % 9))
            tokens.extend(f"{' '.join(words)}. ".encode())
    return Stream(np.array(tokens, np.uint16), np.array(starts, np.int64))


def _scored_targets(flat: Mapping[str, Any], batch: Arrays) -> np.ndarray:
    """Returns the targets that an evaluation counts, -1 where there is none."""
    if flat["objective.kind"] in OBJECTIVE_KINDS.having("replaced"):
        # Every token is scored; the chosen ones have their originals among the targets.
        originals, (rows, entries) = batch["tokens"].copy(), np.nonzero(batch["targets"] >= 0)
        originals[rows, batch["masked_positions"][rows, entries]] = batch["targets"][rows, entries]
        return originals
    if "targets" in batch:
        return batch["targets"]
    prefix = flat["objective.kind"] in OBJECTIVE_KINDS.having("prefix")
    unscored = flat["objective.prefix_length"] if prefix else flat["training.eval_context"]
    return batch["tokens"][:, max(1, unscored) :]


def _num_tokens(batch: Arrays) -> int:
    """Returns the number of tokens in which targets could be; rows of plain text share one."""
    if "source" in batch:
        return int((batch["source"] >= 0).sum())
    return int((batch["tokens"][:, int("targets" not in batch) :] >= 0).sum())


def _digest(arrays: Iterator[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, np.int64).data)
    return digest.hexdigest()
