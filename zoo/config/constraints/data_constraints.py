"""Checks sources of labelled examples and of pairs of texts, and where rows begin."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from zoo.config.fields import AUTO, BY_PATH, TASKS, chosen
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.errors import shown

# Which objectives a source has examples for; None: for all, and running text.
_COLUMNS = ("classification", "regression", "translation")
EXAMPLES_OF: dict[str, tuple[str, ...] | None] = {
    "stdlib": None,
    "csv": _COLUMNS,
    "tsv": _COLUMNS,
    "conll": ("tagging",),
    "squad": ("extraction",),
    "jsonl": None,
    "parquet": None,
    "hf": None,
    "tfds": None,
    "parallel": ("translation",),
}
# Kinds of tokenizers that are made of the training text, so that its tokens depend on it.
TRAINED_TOKENIZERS = ("characters", "words", "bpe", "wordpiece", "unigram")


def check_examples(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of sources of examples and of what is held out of them."""
    objective, source = flat["objective.kind"], flat["data.source"].partition(":")[0]
    if objective not in TASKS:
        for path in ("data.second_column", "data.label_column"):
            if flat[path] != BY_PATH[path].default:
                yield (
                    f"{path}={shown(flat[path])} has no effect: objective.kind={objective} reads text without labels; "
                    "leave it out"
                )
    if objective not in OBJECTIVE_KINDS.having("examples"):
        yield from _check_held_out_text(flat, source)
        if objectives := EXAMPLES_OF.get(source):
            yield (
                f"data.source={flat['data.source']} holds examples, not running text, for objective.kind="
                f"{' or '.join(objectives)}"
            )
        return
    able = [name for name, objectives in EXAMPLES_OF.items() if objectives is None or objective in objectives]
    if source not in able:
        needed = "pairs of texts" if objective == "translation" else "labelled examples"
        yield (
            f"objective.kind={objective} needs {needed}, and data.source is {flat['data.source']}; "
            f"one of {', '.join(able)}"
        )
    yield from _check_held_out(flat, source)


def _check_held_out_text(flat: dict[str, Any], source: str) -> Iterator[str]:
    """Yields the problems of a held-out text of its own."""
    if not (named := flat["data.held_out"]):
        return
    held_out, given = named.partition(":")[0], f"data.held_out={named}"
    if held_out == "mixture":
        yield f"{given} must be one source, because a score of several texts depends on their weights"
    elif held_out == "split" and source not in ("hf", "tfds"):
        yield f"{given} is a split of an hf or tfds data set, and data.source is {flat['data.source']}; name a source"
    elif EXAMPLES_OF.get(held_out):
        yield f"{given} holds examples, not running text, for objective.kind={' or '.join(EXAMPLES_OF[held_out])}"
    if named == flat["data.source"] or (held_out == "split" and named == f"split:{flat['data.hub.split']}"):
        yield f"{given} is the training text too, so the score would be that of memory; name another text"
    for path in ("data.validation_fraction", "data.split"):
        if flat[path] != BY_PATH[path].default:
            yield (
                f"{path}={shown(flat[path])} has no effect: the held-out text is given; leave it at "
                f"{shown(BY_PATH[path].default)}"
            )


def _check_held_out(flat: dict[str, Any], source: str) -> Iterator[str]:
    held_out = flat["data.held_out"].partition(":")[0]
    if held_out and held_out != source and not (held_out == "split" and source in ("hf", "tfds")):
        yield (
            f"data.held_out={flat['data.held_out']} must be of the same kind as data.source={flat['data.source']}"
            + (", or split:NAME" if source in ("hf", "tfds") else "")
        )
    if held_out and source == "stdlib":
        yield (
            f"data.held_out={flat['data.held_out']} has no effect: data.source={flat['data.source']} has its own "
            "held-out part"
        )
    fraction, default = flat["data.validation_fraction"], BY_PATH["data.validation_fraction"].default
    if fraction != default and (held_out or source == "stdlib"):
        yield (
            f"data.validation_fraction={fraction:g} has no effect: the held-out examples are given; leave it at "
            f"{default:g}"
        )


def check_stored_tokens(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of tokens that another program has made, and of an unknown tokenizer."""
    kind, kinds = flat["data.tokenizer.kind"], chosen(flat, "data.source")
    if kind == "unknown":
        yield from _check_unknown(flat, kinds)
    if "tokens" not in kinds:
        return
    if kind in TRAINED_TOKENIZERS:
        yield (
            f"data.tokenizer.kind={kind} is made of a text, and tokens: has none; name the tokenizer of the tokens by "
            "data.tokenizer.kind=file and data.tokenizer.path, or take data.tokenizer.kind=unknown"
        )
    if (rows := flat["data.row_format"]) != "packed":
        yield f"data.row_format={rows} divides a text into sentences, and tokens: has none; use packed"
    if flat["data.split"] == "clustered" and not flat["data.held_out"]:
        yield "data.split=clustered compares texts, and tokens: has none; use documents, or name data.held_out"


def _check_unknown(flat: dict[str, Any], kinds: Sequence[str]) -> Iterator[str]:
    shown, objective = "data.tokenizer.kind=unknown", flat["objective.kind"]
    if others := [kind for kind in kinds if kind not in ("tokens", "mixture")]:
        yield f"{shown} reads stored tokens alone (data.source=tokens:PATH), not {', '.join(dict.fromkeys(others))}"
    if not flat["data.tokenizer.ids"]:
        yield f"{shown} needs data.tokenizer.ids, the number of ids of the tokenizer that made the tokens"
    if flat["objective.whole_words"]:
        yield f"{shown} does not tell which tokens form a word; leave objective.whole_words at False"
    if flat["model.architecture"] == "elmo":
        yield f"{shown} does not tell the characters of tokens, which model.architecture=elmo reads"
    if flat["data.tokenizer.document_id"] != AUTO:
        return
    needing = [f"objective.kind={objective}"] if objective not in OBJECTIVE_KINDS.having("whole_rows") else []
    needing += ["data.isolate_documents=True"] if flat["data.isolate_documents"] else []
    for field in needing:
        yield f"{field} needs the token between documents: set data.tokenizer.document_id, which {shown} does not know"


def check_stages(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of a warm-up of the sequence length or of the batch size."""
    for path, last in (("data.length_stages", "data.sequence_length"), ("data.batch_stages", "data.batch_size")):
        if not (stages := flat[path]):
            continue
        shown, full, name = f"{path}={','.join(map(str, stages))}", flat[last], last.rpartition("_")[2]
        if len(stages) % 2:
            yield f"{shown} must be pairs: a {name}, its number of updates, the next {name}, its number of updates, ..."
            continue
        values, updates = [*stages[::2], full], sum(stages[1::2])
        if any(value >= larger for value, larger in itertools.pairwise(values)):
            yield f"{shown} must grow, up to less than {last}={full}"
        if updates >= (steps := flat["training.steps"]):
            yield f"{shown} takes {updates} updates and leaves none of training.steps={steps} at {last}={full}"
        yield from (_check_lengths if name == "length" else _check_sizes)(flat, shown, values)


def _check_lengths(flat: dict[str, Any], shown: str, lengths: Sequence[int]) -> Iterator[str]:
    if any(lengths[-1] % length for length in lengths):
        yield f"{shown}: rows of {lengths[-1]} tokens must be cut into whole ones; use lengths that divide it"
    if (tokens := flat["objective.future_tokens"]) > min(lengths) and flat["objective.kind"] == "multi_token":
        yield f"{shown}: objective.future_tokens={tokens} lie beyond rows of {min(lengths)} tokens"


def _check_sizes(flat: dict[str, Any], shown: str, sizes: Sequence[int]) -> Iterator[str]:
    if flat["training.microbatch_size"]:
        yield (
            f"{shown} cannot be combined with training.microbatch_size={flat['training.microbatch_size']}; set "
            "training.accumulation_steps, which cuts every batch into as many parts"
        )
        return
    expert = flat["mesh.expert"]
    parts = flat["training.accumulation_steps"] * max(flat["mesh.fsdp"], 1) * max(flat["mesh.data"], 1) * expert
    if any(size % parts for size in sizes[:-1]):
        yield (
            f"{shown}: every number of rows must be divisible by {parts}, training.accumulation_steps x mesh.data x "
            f"mesh.fsdp{' x mesh.expert' * (expert > 1)}"
        )


def check_offsets(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of rows that do not begin at position 0."""
    offsets = flat["data.position_offsets"]
    if not offsets:
        return
    shown = f"data.position_offsets={','.join(map(str, offsets))}"
    if max(offsets) == 0:
        yield f"{shown} has no effect: rows begin at 0 anyway; leave it empty"
    if flat["data.isolate_documents"]:
        yield (
            f"{shown} is where rows begin, and with data.isolate_documents=true every document counts from 0; "
            "leave out one of them"
        )
    if flat["model.attention.global_tokens"]:
        yield f"{shown} would leave rows without their first tokens, the model.attention.global_tokens"
    if flat["objective.distillation.teacher"]:
        yield f"{shown} also moves the teacher's positions; it cannot be combined with objective.distillation.teacher"
