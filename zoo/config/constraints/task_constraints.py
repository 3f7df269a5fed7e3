"""Checks the heads of tasks and the fields that only tasks read; what concerns one task alone is in
`zoo.config.kinds.objective_kinds`.
"""

from collections.abc import Iterator
from typing import Any

from zoo.config.fields import AUTO, SEQUENCE_TASKS, TASKS


def check_task(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of a task; nothing for other objectives."""
    if flat["objective.kind"] in TASKS:
        yield from _check_head(flat)
        yield from _check_data(flat)
        yield from _check_training(flat)


def _check_head(flat: dict[str, Any]) -> Iterator[str]:
    objective = flat["objective.kind"]
    if flat["model.head.next_sentence"]:
        yield (
            f"model.head.next_sentence=True has no effect: objective.kind={objective} has its own head; "
            "leave it at False"
        )
    if objective not in SEQUENCE_TASKS and flat["model.head.pooler"]:
        yield (
            f"model.head.pooler=True has no effect: objective.kind={objective} reads no single vector of a row; "
            "leave it at False"
        )
    if flat["model.architecture"] == "decoder" and flat["model.head.pooling"] == "first":
        yield (
            "model.head.pooling=first selects the first token, which in a decoder sees no other token; set last or mean"
        )
    if flat["model.embedding.segments"] == 1 and flat["data.second_column"]:
        yield (
            "model.embedding.segments=1: pairs have two segments; set it to 2, or to 0 to distinguish them by "
            "[SEP] alone"
        )


def _check_data(flat: dict[str, Any]) -> Iterator[str]:
    length = flat["data.sequence_length"]
    if length < 8:
        yield f"data.sequence_length={length} is too short for objective.kind={flat['objective.kind']}; at least 8"
    if flat["data.conll.words"] == flat["data.conll.tags"]:
        yield f"data.conll.words={flat['data.conll.words']} is the column of the tags; choose another"


def _check_training(flat: dict[str, Any]) -> Iterator[str]:
    trained, layers = flat["training.trained_layers"], flat["model.num_layers"]
    if flat["training.eval_batches"] != 0:
        yield (
            f"training.eval_batches={flat['training.eval_batches']} must be 0: "
            f"objective.kind={flat['objective.kind']} is scored on every example once"
        )
    if trained != AUTO and trained > layers:
        yield f"training.trained_layers={trained}: there are {layers} layers; auto trains everything"
    if flat["model.layers.sharing"] == "cycle":
        yield from _check_trained_loop(flat)
        return
    uses = layers // (flat["model.layers.distinct"] or layers)
    if trained != AUTO and uses and trained % uses:
        yield (
            f"training.trained_layers={trained}: {uses} consecutive layers have the same weights "
            f"(model.layers.distinct={flat['model.layers.distinct']}); use a multiple of {uses}"
        )


def _check_trained_loop(flat: dict[str, Any]) -> Iterator[str]:
    """Yields a line if only some of the uses of looped layers would be trained."""
    trained, coda = flat["training.trained_layers"], flat["model.layers.coda"]
    if trained != AUTO and trained > coda:
        yield (
            f"training.trained_layers={trained}: the last layers but model.layers.coda={coda} have the weights of "
            f"earlier ones (model.layers.sharing=cycle); use {coda} at most, or auto"
        )
