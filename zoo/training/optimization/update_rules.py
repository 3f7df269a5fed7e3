"""Update rules by name: what turns gradients into directions."""

from collections.abc import Callable

import optax

from zoo.models.functional import ParameterTraits
from zoo.training.optimization.muon import muon
from zoo.training.optimization.schedules import Values


def adamw(values: Values, traits: ParameterTraits) -> optax.GradientTransformation:
    """Returns Adam (Kingma & Ba 2015); its decay is decoupled (Loshchilov & Hutter 2019)."""
    del traits
    return optax.scale_by_adam(*(values[f"optimizer.{name}"] for name in ("beta1", "beta2", "epsilon")))


OPTIMIZERS: dict[str, Callable[[Values, ParameterTraits], optax.GradientTransformation]] = {
    "adamw": adamw,
    "muon": muon,
}
"""Update rules by `optimizer.kind`: functions of the values of all fields, as they hold for a group of
parameters, and of the traits of all parameters. Decay and rate are applied after what they return."""
