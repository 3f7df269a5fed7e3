"""All properties of a kind, one after the other."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import jax

from zoo.checks import cached_decoding, references, stack_execution, structure, training_steps, visibility
from zoo.checks.outcome import NotApplicable
from zoo.checks.subject import Subject
from zoo.config.check_records import FAIL, PASS
from zoo.config.kinds import Kind
from zoo.errors import line_of, one_line

PROPERTIES: dict[str, Callable[[Subject], str]] = {
    "shapes": structure.shapes,
    "causality": visibility.causality,
    "padding": visibility.padding,
    "packed documents": visibility.documents,
    "cached generation": cached_decoding.cache,
    "beams": cached_decoding.beams,
    "gradients": stack_execution.gradients,
    "scanned layers": stack_execution.scan,
    "recomputation": stack_execution.remat,
    "bfloat16": stack_execution.narrow_types,
    "loss terms": stack_execution.loss_terms,
    "accumulation": training_steps.accumulation,
    "population": training_steps.population,
    "resume": training_steps.resume,
    "8 devices": training_steps.devices,
    "reference": references.reference,
}
NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a property.

    Attributes:
        property: its name.
        state: "pass", "FAIL" or "not applicable".
        reason: what was compared, what was found, or why nothing can be.
    """

    property: str
    state: str
    reason: str

    def record(self) -> dict[str, str]:
        """Returns the outcome as plain JSON."""
        return asdict(self)


@contextlib.contextmanager
def few_optimisations() -> Iterator[None]:
    """Compiles fast, to slower programs: the models are so small that compiling takes the time."""
    name = "jax_disable_most_optimizations"
    before = jax.config.read(name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def outcome_of(name: str, subject: Subject, file: str = "") -> Outcome:
    """Returns the outcome of one property; an error of the kind's code is a failure.

    Args:
        name: one of `PROPERTIES`.
        subject: the kind.
        file: the plug-in's file, whose line is named in errors.
    """
    try:
        return Outcome(name, PASS, PROPERTIES[name](subject))
    except NotApplicable as error:
        return Outcome(name, NOT_APPLICABLE, str(error))
    except AssertionError as error:
        return Outcome(name, FAIL, str(error) or "an assertion fails")
    except Exception as error:  # The code of a plug-in may raise anything.
        where = line_of(error, file) if file else ""
        return Outcome(name, FAIL, f"{type(error).__name__}{where}: {one_line(error)}")


def check_kind(
    kind: Kind,
    settings: Mapping[str, Any] | None = None,
    file: str = "",
    show: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Runs every property on a kind.

    Args:
        kind: the kind, as its table holds it.
        settings: further fields, e.g. {"model.attention.window": 4}.
        file: see `outcome_of`.
        show: called with each outcome when it is known.

    Raises:
        ConfigError: no model accepts the kind with these settings.
    """
    subject, found = Subject.of(kind, settings), []
    with few_optimisations():
        for name in PROPERTIES:
            found.append(outcome_of(name, subject, file))
            show(found[-1])
    return found
