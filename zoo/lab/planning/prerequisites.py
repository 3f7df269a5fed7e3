"""References of configs to prerequisite runs, and whether a run can start from its prerequisite.

A config refers to a prerequisite as `prerequisite:NAME` in place of a run's folder: in
`training.start_from` or in `data.tokenizer.path`. The plan replaces NAME by the folder of the
prerequisite run. The folder's name ends in that run's identity, so the identity of a run includes
the identities of its prerequisites. The launcher replaces the reference by the folder's path.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from zoo import config
from zoo.errors import did_you_mean
from zoo.lab.declarations import PREREQUISITE_PREFIX
from zoo.nested import flatten

# The former beginning of a reference; refused.
OLD_PREFIX = "prepared:"


def references(settings: Mapping[str, Any]) -> dict[str, str]:
    """Returns {path: name} of the fields of a config that refer to prerequisite runs."""
    return {
        path: value.removeprefix(PREREQUISITE_PREFIX)
        for path, value in flatten(settings).items()
        if isinstance(value, str) and value.startswith(PREREQUISITE_PREFIX)
    }


def resolve_references(settings: Mapping[str, Any], target: Callable[[str], str]) -> Any:
    """Returns the config with every reference replaced by `target(name)`."""
    changes = {path: target(name) for path, name in references(settings).items()}
    return config.resolve(config.override(settings, changes)) if changes else settings


def unknown_references(settings: Mapping[str, Any], names: Mapping[str, Any]) -> list[str]:
    """Returns a line for every reference to a run that is not in `names`, or in the old spelling."""
    old = [
        f"{path}={value}: write {PREREQUISITE_PREFIX}{value.removeprefix(OLD_PREFIX)}"
        for path, value in flatten(settings).items()
        if isinstance(value, str) and value.startswith(OLD_PREFIX)
    ]
    return old + [
        f"{path}={PREREQUISITE_PREFIX}{name}: no prerequisite run has this name{did_you_mean(name, names)}"
        for path, name in references(settings).items()
        if name not in names
    ]


def prerequisite_vocab_size(
    settings: Mapping[str, Any], prerequisites: Mapping[str, config.ResolvedConfig]
) -> int | None:
    """Returns the vocabulary size of the prerequisite whose tokenizer the config uses, or None."""
    source = prerequisites.get(references(settings).get("data.tokenizer.path", ""))
    return None if source is None else source.model.vocab_size


def incompatible_starts(
    resolved: config.ResolvedConfig, prerequisites: Mapping[str, config.ResolvedConfig]
) -> Iterator[str]:
    """Yields why a run cannot start from its prerequisite: another tokenizer or another body."""
    name = references(resolved).get("training.start_from")
    source = prerequisites.get(name)
    if source is None:
        return
    reference = f"{PREREQUISITE_PREFIX}{name}"
    ours, theirs = (flatten(side.data.tokenizer) for side in (resolved, source))
    same = ours == theirs and ours["kind"] in ("bytes", "byt5", "file")
    if ours["path"] != reference and not same:
        yield (
            f"training.start_from={reference} has a tokenizer of its own; set data.tokenizer.kind=file and "
            f"data.tokenizer.path={reference}"
        )
    # Imported here because they need JAX, and most mistakes in a plan are found without it.
    from zoo.models.architectures import make_model
    from zoo.models.functional import split
    from zoo.training.checkpoints.tree_differences import tree_differences
    from zoo.training.checkpoints.warm_start import replaceable_parts

    bodies = [split(make_model(side))[1] for side in (source, resolved)]
    own = replaceable_parts(resolved, ())
    for part in (*own.optional, *own.fresh):
        if part in own.fresh or tree_differences(*(body.get(part, {}) for body in bodies)):
            bodies = [{key: value for key, value in body.items() if key != part} for body in bodies]
    if lines := tree_differences(*bodies):
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        yield f"training.start_from={reference} has another body: {lines[0]}{more}"
