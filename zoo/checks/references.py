"""Agreement of a kind with the function that its author gives as `Kind.reference`."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from zoo.checks.outcome import NotApplicable, require_close
from zoo.checks.small_models import compiled, random_statistics, random_values, together, with_values
from zoo.checks.structure import LAYERS, first_layer_context
from zoo.checks.subject import Subject, T
from zoo.checks.visibility import LENGTHS
from zoo.config.kinds import OPTIMIZER_KINDS, SCHEDULE_KINDS
from zoo.models.functional import ParameterTraits
from zoo.nested import flatten
from zoo.training.optimization.schedules import ScheduleStep

TOLERANCE = 1e-4


def reference(subject: Subject) -> str:
    """The kind computes what the author's function computes in float64."""
    given, path = subject.kind.reference, subject.kind.path
    if given is None:
        raise NotApplicable("the kind gives no function; see Kind(reference=...)")
    compare: dict[str, Callable[[Subject], float]] = {
        **dict.fromkeys(LAYERS, _layer), "optimizer.kind": _optimizer, "schedule.kind": _schedule,
    }  # fmt: skip
    if path not in compare:
        raise NotApplicable(f"functions are compared for {', '.join(compare)}, not for {path}")
    return f"they agree to {compare[path](subject):.0e} of the largest value"


def _layer(subject: Subject) -> float:
    """Compares a layer on two rows, of which the second ends in padding."""
    whole = subject.config()
    config, layer = whole.model, LAYERS[subject.kind.path](whole.model)
    values, stats = random_values(layer, 1), random_statistics(layer, 2)
    x = np.random.default_rng(3).standard_normal((2, T, config.dim)).astype(np.float32)
    positions = np.where(np.arange(T) < LENGTHS[:, None], np.arange(T), -1)
    context = first_layer_context(whole, jnp.asarray(positions))
    found = compiled(lambda x: with_values(layer, values, stats)(x, context))(x)
    expected = subject.kind.reference(config, together(values, stats), np.float64(x), positions)
    filled = positions >= 0
    return require_close(found[filled], np.asarray(expected)[filled], TOLERANCE, "the layer differs from the function")


def _optimizer(subject: Subject) -> float:
    """Compares the directions after four gradients of one matrix and one vector."""
    flat, generator = flatten(subject.config()), np.random.default_rng(3)
    shapes = {"matrix": (6, 4), "vector": (4,)}
    gradients = [{name: generator.standard_normal(shape) for name, shape in shapes.items()} for _ in range(4)]
    params = {name: jnp.asarray(generator.standard_normal(shape), jnp.float32) for name, shape in shapes.items()}
    traits = ParameterTraits(jax.tree.map(jnp.ndim, params), {name: len(shape) == 2 for name, shape in shapes.items()})
    rule = OPTIMIZER_KINDS.code_of(subject.kind.name)(flat, traits)
    state, worst = rule.init(params), 0.0
    for number in range(len(gradients)):
        narrow = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), gradients[number])
        directions, state = rule.update(narrow, state, params)
        for name in shapes:
            expected = subject.kind.reference(flat, [each[name] for each in gradients[: number + 1]])
            what = f"direction {number + 1} of a {name} differs from the function"
            worst = max(worst, require_close(directions[name], expected, TOLERANCE, what))
    return worst


def _schedule(subject: Subject) -> float:
    """Compares the share of the peak rate at every update after a warm-up of two."""
    flat = flatten(subject.config({"schedule.warmup_steps": 2}))
    share, steps, warmup = SCHEDULE_KINDS.code_of(subject.kind.name), flat["training.steps"], 2
    worst = 0.0
    for update in range(warmup, steps + 1):
        arguments = (update, warmup, steps, np.float64(update - warmup), np.float64(steps - warmup), flat)
        found = share(ScheduleStep(jnp.int32(update), *arguments[1:3], jnp.float32(update - warmup),
                                   jnp.float32(steps - warmup), flat))  # fmt: skip
        expected = subject.kind.reference(ScheduleStep(*arguments))
        worst = max(worst, require_close(found, expected, TOLERANCE, f"the share at update {update} differs"))
    return worst
