"""Runs that others start from: how a config names them, and what it takes of them before any of
them is trained.

A config names a prepared run as `prepared:NAME` wherever it would name a run's folder: in
`training.start_from`, or in `data.tokenizer.path`. A plan makes of it `prepared:FOLDER`, where
FOLDER ends in the identity of that run, so that the identity of what starts from it holds the
identity of what it starts from; a launcher makes of that the folder's path.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from zoo import config
from zoo.errors import did_you_mean
from zoo.lab.results.schema import PREFIX
from zoo.nested import flatten


@dataclass(frozen=True)
class Prepared:
    """A run that others start from.

    Attributes:
        config: not resolved; its seed is that of the arms.
        once: it is made once, with the first seed, for the arms of all seeds; by default once per
            seed.
    """

    config: Mapping[str, Any]
    once: bool = False


def named(settings: Mapping[str, Any]) -> dict[str, str]:
    """{path: name} for the fields of a config that name prepared runs."""
    return {
        path: value.removeprefix(PREFIX)
        for path, value in flatten(settings).items()
        if isinstance(value, str) and value.startswith(PREFIX)
    }


def placed(settings: Mapping[str, Any], place: Callable[[str], str]) -> Any:
    """A config with `place(name)` instead of what names prepared runs."""
    changes = {path: place(name) for path, name in named(settings).items()}
    return config.resolve(config.override(settings, changes)) if changes else settings


def unknown(settings: Mapping[str, Any], names: Mapping[str, Any]) -> list[str]:
    """A line for every prepared run that a config names and that `names` lacks."""
    return [
        f"{path}={PREFIX}{name}: nothing of that name is prepared{did_you_mean(name, names)}"
        for path, name in named(settings).items()
        if name not in names
    ]


def vocabulary_of(settings: Mapping[str, Any], prepared: Mapping[str, config.ResolvedConfig]) -> int | None:
    """The ids of a config whose tokenizer is that of a prepared run: as many as that run's model
    has; else None.
    """
    there = prepared.get(named(settings).get("data.tokenizer.path", ""))
    return None if there is None else there.model.vocab_size


def misfits(resolved: config.ResolvedConfig, prepared: Mapping[str, config.ResolvedConfig]) -> Iterator[str]:
    """What would keep a run from starting with the parameters of a prepared one: another tokenizer,
    or another body.
    """
    name = named(resolved).get("training.start_from")
    there = prepared.get(name)
    if there is None:
        return
    ours, theirs = (flatten(side.data.tokenizer) for side in (resolved, there))
    same = ours == theirs and ours["kind"] in ("bytes", "byt5", "file")
    if ours["path"] != PREFIX + name and not same:
        yield (
            f"training.start_from={PREFIX}{name} has a tokenizer of its own; set data.tokenizer.kind=file and "
            f"data.tokenizer.path={PREFIX}{name}"
        )
    # Imported late, as the cost of an arm is: both need JAX.
    from zoo.models.architectures import make_model
    from zoo.models.functional import split
    from zoo.training.checkpoints.checkpoint import differences
    from zoo.training.checkpoints.warm_start import heads_of_its_own

    bodies = [split(make_model(side))[1] for side in (there, resolved)]
    own = heads_of_its_own(resolved, ())
    for part in (*own.optional, *own.fresh):
        if part in own.fresh or differences(*(body.get(part, {}) for body in bodies)):
            bodies = [{key: value for key, value in body.items() if key != part} for body in bodies]
    if lines := differences(*bodies):
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        yield f"training.start_from={PREFIX}{name} has another body: {lines[0]}{more}"
