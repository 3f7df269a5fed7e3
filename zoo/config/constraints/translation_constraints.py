"""Checks the fields of translation."""

from collections.abc import Iterator
from typing import Any

from zoo.config.fields import BY_PATH

# Fields that other sources read and pairs of texts do not.
_IGNORED = ("data.column", "data.document_separator", "data.mixture", "data.isolate_documents", "training.eval_lengths")


def check_translation(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of the data and scores of objective.kind=translation."""
    for path in _IGNORED:
        if flat[path] != BY_PATH[path].default:
            yield f"{path} has no effect with objective.kind=translation, which reads pairs of texts; leave it out"
    kind = str(flat["data.source"]).partition(":")[0]
    columns = [path for path in ("data.source_column", "data.target_column") if flat[path] != BY_PATH[path].default]
    if kind == "parallel":
        yield from (
            f"{path} has no effect with data.source={flat['data.source']}, where each file is one side; leave it out"
            for path in columns
        )
    elif flat["data.source_column"] == flat["data.target_column"]:
        yield (
            f"data.source_column and data.target_column are both {flat['data.source_column']!r}: nothing is left "
            "to translate"
        )
    every, evaluated = flat["training.translate_every"], flat["training.eval_every"]
    if every and (not evaluated or every % evaluated):
        yield (
            f"training.translate_every={every} must be a multiple of training.eval_every={evaluated}: translations are "
            "scored at evaluations"
        )
