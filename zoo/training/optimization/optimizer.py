"""Builds the optimizer: clipping, then the update rule, weight decay and learning rate of each group
of parameters, then the constraint on all and averages of them.
"""

import jax
import jax.numpy as jnp
import optax

from zoo.config import GROUPS, REST, ResolvedConfig
from zoo.config.kinds import OPTIMIZER_KINDS
from zoo.config.kinds.schedule_kinds import tail_start
from zoo.config.scopes import scopes_in, values_in
from zoo.models.functional import ParameterTraits, Params
from zoo.nested import flatten
from zoo.training.optimization import schedule_free
from zoo.training.optimization.constraint import UNIT_NORM, unit_norm
from zoo.training.optimization.lamb import trust_ratio
from zoo.training.optimization.momentum import with_static_zeros
from zoo.training.optimization.muon import on_spheres
from zoo.training.optimization.parametrized_rates import parametrized
from zoo.training.optimization.schedules import Schedule, Values, field_values, schedule_of
from zoo.training.optimization.weight_average import MOVING, TAIL, tail_average, weight_average
from zoo.training.optimization.weight_decay import COUPLED, decay_share, weight_decay


def make_optimizer(
    config: ResolvedConfig, traits: ParameterTraits, hyperparameters: Values | None = None, labels: Params | None = None
) -> optax.GradientTransformation:
    """Builds clipping, and after it the update rule, weight decay and learning rate of each group.

    The global norm is that of all parameters. Without groups there is one rule for everything.

    Args:
        config: the whole resolved config.
        traits: weight decay applies to parameters with two or more dimensions within one layer, scales
            of norms excepted, and in a group that sets its own weight decay to all.
        hyperparameters: values that replace the config's, traced in a compiled program. The layout of
            the state does not depend on them.
        labels: name of every parameter's group (`zoo.models.parameter_groups`); needed only where
            `optimizer.groups` names any.
    """
    static = flatten(config)
    values = field_values(static, hyperparameters)
    schedule = schedule_of(values)
    matrices = traits.decays
    stages = []
    if static["optimizer.clip_norm"]:
        stages.append(("clip", optax.clip_by_global_norm(values["optimizer.clip_norm"])))
    last = []
    if static["optimizer.ema_steps"]:
        last.append((MOVING, weight_average(values["optimizer.ema_steps"])))
    if static["optimizer.tail_average"]:
        last.append((TAIL, tail_average(tail_start(static))))
    if static["optimizer.groups"]:
        rules, scopes = {}, scopes_in(static)
        for name in (*static["optimizer.groups"], REST):
            scope = f"{GROUPS}.{name}"
            decayed = None if "optimizer.weight_decay" in scopes.get(scope, {}) else matrices
            own = values_in(scope, static), values_in(scope, values)
            rules[name] = optax.named_chain(*_rule(*own, traits, schedule, decayed))
        steps = [("groups", optax.partition(rules, labels))]
    else:
        steps = _rule(static, values, traits, schedule, matrices)
    if static["optimizer.kind"] == schedule_free.STAGE:
        wrapped = schedule_free.schedule_free(optax.named_chain(*steps), schedule, values["optimizer.beta1"])
        steps = [(schedule_free.STAGE, wrapped)]
    if static["optimizer.constraint"] == UNIT_NORM:
        steps.append(("constraint", unit_norm(traits)))
    return optax.named_chain(*stages, *steps, *last)


def _rule(
    static: Values, values: Values, traits: ParameterTraits, schedule: Schedule, decayed: Params | None
) -> list[tuple[str, optax.GradientTransformation]]:
    """Returns the named stages after clipping, for all parameters or for a group.

    Args:
        static: fields by path as they hold for these parameters; a 0 removes a stage.
        values: the same, with the traced numbers of a compiled program.
        traits: of all parameters.
        schedule: the learning rate of the optimizer.
        decayed: which parameters weight decay applies to; None for all.
    """
    values = with_static_zeros(static, values)
    rule = OPTIMIZER_KINDS.code_of(static["optimizer.kind"])(values, traits)
    if static["model.parametrization"] != "standard":
        rule = parametrized(rule, static, traits)
    stages = [(static["optimizer.kind"], rule)]
    on_sphere = static["optimizer.kind"] == "muonh"
    if on_sphere:
        everything = jax.tree.map(lambda _: True, traits.ndim) if decayed is None else decayed
        decayed = jax.tree.map(lambda decays, hidden: decays and not hidden, everything, traits.is_hidden_matrix)
    if static["optimizer.weight_decay"]:
        form = static["optimizer.weight_decay_form"]
        place = 0 if form == COUPLED else 1
        stages.insert(place, ("decay", weight_decay(form, values, decayed, decay_share(static, schedule, values))))
    if static["optimizer.kind"] == "lamb":
        stages.append(("trust", trust_ratio(traits)))
    factor = values.get("optimizer.rate_factor")
    rate = schedule if factor is None else lambda count: factor * schedule(count)
    if static["optimizer.kind"] in OPTIMIZER_KINDS.having("initialises"):
        rate = _after_the_first(rate)
    stages.append(("rate", optax.scale_by_learning_rate(rate)))
    if on_sphere:
        stages.append(("sphere", on_spheres(values, traits)))
    return stages


def _after_the_first(rate: Schedule) -> Schedule:
    """Returns a learning rate that is 0 at the first update."""
    return lambda count: jnp.where(count == 0, 0, rate(count))
