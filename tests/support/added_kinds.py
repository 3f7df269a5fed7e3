"""An optimizer and a schedule as a user may add them, registered for the duration of a test."""

import contextlib
from dataclasses import replace

import jax.numpy as jnp
import optax

from zoo.config import plugins
from zoo.plugin import Field, Kind
from zoo.plugin.registrations import KindRegistration


def _sgd_problems(flat, architecture):
    del architecture
    if flat["optimizer.nesterov"] and not flat["optimizer.momentum"]:
        yield "optimizer.nesterov=true needs optimizer.momentum above 0"


# Without traits, so it reads neither the betas nor epsilon.
HEAVY_BALL = Kind(
    "optimizer.kind",
    "heavy_ball",
    "gradient descent with momentum",
    fields=(
        Field("optimizer.momentum", 0.9, float, "decay of the direction", minimum=0, maximum=0.999, traced=True),
        Field("optimizer.nesterov", False, bool, "Nesterov's momentum"),
        Field("optimizer.damping", "auto", float, "taken off the gradient", auto="0.25 with Nesterov's momentum, or 0"),
    ),
    problems=_sgd_problems,
    derive=lambda flat: {"optimizer.damping": 0.25 if flat["optimizer.nesterov"] else 0.0},
)


def heavy_ball(values, traits):
    """m <- momentum * m + (1 - damping) * gradient, applied once more with Nesterov's momentum."""
    del traits
    momentum = optax.trace(values["optimizer.momentum"], nesterov=values["optimizer.nesterov"])
    return optax.chain(optax.scale(1 - values["optimizer.damping"]), momentum)


def _halving_problems(flat, architecture):
    del architecture
    if flat["schedule.stairs"] > flat["training.steps"]:
        yield f"schedule.stairs={flat['schedule.stairs']} is more than training.steps={flat['training.steps']}"


HALVING = Kind(
    "schedule.kind",
    "halving",
    "halved again and again, but never below `final_fraction`",
    frozenset({"final_fraction"}),
    (
        Field("schedule.halvings", 3.0, float, "how often", above=0, traced=True),
        Field("schedule.stairs", 0, int, "number of stairs; 0: smooth", minimum=0),
    ),
    problems=_halving_problems,
)


def halving(step):
    """2^(-halvings * progress), at least `final_fraction`."""
    progress = step.since / step.remaining
    if stairs := step.values["schedule.stairs"]:
        progress = jnp.floor(progress * stairs) / stairs
    return jnp.maximum(2 ** (-step.values["schedule.halvings"] * progress), step.values["schedule.final_fraction"])


@contextlib.contextmanager
def registered_kinds(*pairs):
    """Registers kinds together with their implementations, as a plug-in does."""
    with contextlib.ExitStack() as stack:
        for kind, implementation in pairs:
            registration = KindRegistration(replace(kind, code=implementation))
            plugins.register(registration)
            stack.callback(registration.remove)
        yield


def both_kinds_registered():
    """Registers `HEAVY_BALL` and `HALVING`."""
    return registered_kinds((HEAVY_BALL, heavy_ball), (HALVING, halving))
