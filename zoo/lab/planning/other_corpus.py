"""The same experiment on another text: a sweep of its own, with the same arms, rules and claim."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from zoo import config
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment
from zoo.nested import flatten

# Fields that choose a text together with `data.source`; those of the first text are left out.
_OF_A_TEXT = (
    *("data.mixture", "data.mixture_exponent", "data.held_out", "data.column", "data.document_separator"),
    *(f"data.hub.{name}" for name in ("revision", "subset", "split", "streaming", "folder")),
)
_LONGEST_LABEL = 40


def corpus_label(source: str) -> str:
    """Returns a short name of a source: "shakespeare" for `text:corpora/shakespeare.txt.gz`."""
    path = PurePath(source.partition(":")[2].partition(",")[0] or source)
    named = [part for part in path.parts if "*" not in part and part.strip("/")] or [source]
    label = named[-1].partition(".")[0] or named[-1]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", label).strip("-")[:_LONGEST_LABEL] or "text"


def on_corpus(
    experiment: Experiment, source: str, fields: Mapping[str, Any] | None = None, name: str = ""
) -> Experiment:
    """Returns the experiment on another text, with the text in its name.

    Args:
        experiment: on its own text.
        source: as `data.source`.
        fields: other fields that the source needs, e.g. {"data.hub.revision": ...}.
        name: of the new experiment; by default NAME-on-LABEL.

    Raises:
        ConfigError: the experiment is not about running text, varies it, or trains other runs first;
            the text is its own.
    """
    flat = flatten(experiment.base)
    if problems := [f"--corpus {source}: {problem}" for problem in _problems(experiment, flat, source)]:
        raise ConfigError(problems)
    defaults = {path: config.BY_PATH[path].default for path in _OF_A_TEXT if path in config.BY_PATH}
    return replace(
        experiment,
        name=name or f"{experiment.name}-on-{corpus_label(source)}",
        base=config.override(experiment.base, defaults | {"data.source": source} | dict(fields or {})),
        corpus={"experiment": experiment.name, "source": source},
    )


def _problems(experiment: Experiment, flat: Mapping[str, Any], source: str) -> Iterator[str]:
    levels = [level for levels in experiment.factors.values() for level in levels.values()]
    kinds = {flat["objective.kind"], *(level["objective.kind"] for level in levels if "objective.kind" in level)}
    if other := sorted(kind for kind in kinds if kind not in OBJECTIVE_KINDS.having("text")):
        yield f"{experiment.name} has objective.kind={', '.join(other)}, which reads no running text"
    if str(flat["data.source"]).startswith("synthetic:"):
        yield f"{experiment.name} is about a text made by rule ({flat['data.source']}), which no other can replace"
    if varied := sorted({path for level in levels for path in level if path in ("data.source", *_OF_A_TEXT)}):
        yield f"{experiment.name} varies its text itself ({', '.join(varied)})"
    if experiment.prerequisites:
        names = ", ".join(experiment.prerequisites)
        yield f"{experiment.name} starts from runs that are trained on their own text ({names})"
    if source == flat["data.source"]:
        yield f"that is the text of {experiment.name} already"
