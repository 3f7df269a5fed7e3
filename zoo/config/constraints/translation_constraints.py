"""What pairs of texts cannot be asked for, each in one line."""

from collections.abc import Iterator
from typing import Any

from zoo.config.fields import BY_PATH

# What other data sources read, and pairs do not.
_UNREAD = ("data.column", "data.document_separator", "data.mixture", "data.isolate_documents", "training.eval_lengths")


def impossible_pairs(flat: dict[str, Any]) -> Iterator[str]:
    """Checks the fields of a flat config with objective.kind=translation that concern its data and
    its scores.
    """
    for path in _UNREAD:
        if flat[path] != BY_PATH[path].default:
            yield f"{path} has no effect with objective.kind=translation, which reads pairs of texts; leave it out"
    kind = str(flat["data.source"]).partition(":")[0]
    columns = [path for path in ("data.source_column", "data.target_column") if flat[path] != BY_PATH[path].default]
    if kind == "parallel":
        yield from (
            f"{path} has no effect with data.source={flat['data.source']}, whose files are one side each; leave it out"
            for path in columns
        )
    elif flat["data.source_column"] == flat["data.target_column"]:
        yield f"data.source_column and data.target_column are both {flat['data.source_column']!r}: nothing is left to translate"
    every, evaluated = flat["training.translate_every"], flat["training.eval_every"]
    if every and (not evaluated or every % evaluated):
        yield (
            f"training.translate_every={every} must be a multiple of training.eval_every={evaluated}: translations are scored where the "
            "loss is"
        )
