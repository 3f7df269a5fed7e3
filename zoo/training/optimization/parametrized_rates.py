"""Learning rate, decay and epsilon of each parameter under muP and CompleteP."""

import optax
from jax.tree_util import KeyPath, tree_map_with_path
from jaxtyping import Array

from zoo.config.kinds import OPTIMIZER_KINDS
from zoo.models.functional import ParameterTraits, Params
from zoo.nested import flatten
from zoo.training.optimization.per_parameter import path_name
from zoo.training.optimization.schedules import Values


def parametrized(
    rule: optax.GradientTransformation, static: Values, traits: ParameterTraits
) -> optax.GradientTransformation:
    """Returns an update rule with the rates and epsilons of `zoo.layers.parametrization`.

    With the widths m and depths d there, the rule sees m d g inside the layers and m g outside, which
    divides its epsilon by as much and changes nothing else: directions of these rules do not depend
    on the scale of all gradients. Directions of hidden matrices are then divided by m. Decay that is
    added after that is r d W for every parameter, as if the rate were r / m and the decay m d.

    Args:
        rule: the update rule, with the trait "per_element".
        static: fields by path as they hold for these parameters.
        traits: of all parameters.
    """
    width = static["model.dim"] / static["model.base_dim"]
    scales_depth = static["model.parametrization"] == "completep"
    depth = static["model.num_layers"] / static["model.base_num_layers"] if scales_depth else 1.0
    dimensions, hidden = flatten(traits.ndim, "/"), flatten(traits.is_hidden_matrix, "/")

    def scaled_gradient(path: KeyPath, gradient: Array) -> Array:
        in_layers = gradient.ndim > dimensions[path_name(path)]
        return gradient * (width * depth if in_layers else width)

    def scaled_direction(path: KeyPath, direction: Array) -> Array:
        return direction / width if hidden[path_name(path)] else direction

    reads_epsilon = static["optimizer.kind"] in OPTIMIZER_KINDS.having("epsilon")

    def update(gradient: Params, state: optax.OptState, params: Params | None = None) -> tuple[Params, optax.OptState]:
        if reads_epsilon:
            gradient = tree_map_with_path(scaled_gradient, gradient)
        directions, state = rule.update(gradient, state, params)
        return tree_map_with_path(scaled_direction, directions), state

    return optax.GradientTransformation(rule.init, update)
