"""Ways to run a stack that change no result, its gradients, and its terms of the loss."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from zoo.checks.batches import batch_of
from zoo.checks.outcome import Fails, NotApplicable, largest_difference, path_name, require_close, require_close_trees
from zoo.checks.small_models import compiled
from zoo.checks.subject import Subject, once
from zoo.config import ResolvedConfig, traced_hyperparameters
from zoo.models.functional import Params, split
from zoo.nested import flatten
from zoo.objectives import Objective
from zoo.objectives.objective import ForwardMode, sum_of_means

# Measured on the kinds of zoo: losses differ by at most 1e-7 of themselves, gradients by at most
# 1.6e-6 of the largest of their array.
TOLERANCE = 2e-5
# Gradients of arrays without effect, such as the bias of keys, are rounding.
FLOOR = 1e-6
# Differences between bfloat16 and float32 that rounding explains. A model whose numbers amplify
# rounding may differ as much as it does in float32 when its parameters change by that rounding.
NARROW = {"the loss": 0.02, "the gradient": 0.15}
ROUNDING, SHAKES = 2.0**-9, 3
TERM_WEIGHT = 0.5


class Losses(NamedTuple):
    """The training loss of a batch.

    Attributes:
        total: the loss that is minimised.
        sums: sums behind the metrics.
        gradient: of the parameters, nested.
    """

    total: float
    sums: Mapping[str, float]
    gradient: Mapping[str, Any]


def term_weights(subject: Subject, weight: float = TERM_WEIGHT) -> dict[str, float]:
    """Returns the fields that give the kind's terms of the loss a weight."""
    return dict.fromkeys(subject.kind.loss_terms.values(), weight)


def loss_function(subject: Subject, config: ResolvedConfig):
    """Returns a function from weights of fields, {path: value}, to the `Losses` of a model of random
    values, or of the values that are its second argument.
    """
    model, values, stats = subject.model(config)
    objective, graph, batch = subject.objective(config), split(model)[0], batch_of(config)
    hyperparameters, arrays = traced_hyperparameters(flatten(config)), _arrays(objective)

    def losses(values, batch, hyperparameters):
        constants = {"seed": jnp.uint32(0), "hyperparameters": hyperparameters, **arrays}
        constants |= objective.per_step_constants(constants["seed"], jnp.int32(0))
        terms, (sums, _) = objective.sums(graph, values, stats, batch, constants, ForwardMode(training=True))
        return sum_of_means(terms, objective.all_normalizers(batch)), sums

    program = compiled(jax.value_and_grad(losses, has_aux=True))

    def found(changes: Mapping[str, float], values: Params = values) -> Losses:
        numbers = {path: np.float32(value) for path, value in {**hyperparameters, **changes}.items()}
        (total, sums), gradient = program(values, batch, numbers)
        return Losses(float(total), {name: float(np.sum(value)) for name, value in sums.items()}, gradient)

    return found


@once
def _plain(subject: Subject):
    return loss_function(subject, subject.config(term_weights(subject)))


@once
def plain_losses(subject: Subject) -> Losses:
    """Returns the losses of layers that run one after the other and recompute nothing."""
    return _plain(subject)({})


def _require_same(subject: Subject, changes: Mapping[str, Any]) -> str:
    config = subject.applicable(term_weights(subject) | changes)
    expected, found = plain_losses(subject), loss_function(subject, config)({})
    require_close(found.total, expected.total, TOLERANCE, "the loss differs")
    worst = require_close_trees(found.gradient, expected.gradient, TOLERANCE, "the gradient differs", FLOOR)
    return f"loss and gradients agree, to {worst:.0e} of the largest"


def scan(subject: Subject) -> str:
    """Layers in one scanned program compute what they compute one after the other."""
    subject.require_model("a scan over layers")
    return _require_same(subject, {"model.scan_layers": True})


def remat(subject: Subject) -> str:
    """Layers that are recomputed in the backward pass give the same gradients."""
    subject.require_model("recomputation of layers")
    return _require_same(subject, {"model.remat": "full"})


def gradients(subject: Subject) -> str:
    """The loss has a gradient with respect to every parameter."""
    if subject.kind.path in ("optimizer.kind", "schedule.kind"):
        raise NotApplicable(f"the gradient does not depend on {subject.kind.path}")
    found = jax.tree_util.tree_leaves_with_path(plain_losses(subject).gradient)
    if wrong := [path_name(path) for path, leaf in found if not np.isfinite(leaf).all()]:
        raise Fails(f"the gradient is not finite in {', '.join(wrong)}")
    if unreached := [path_name(path) for path, leaf in found if not np.any(leaf)]:
        raise Fails(f"the gradient is 0 in {', '.join(unreached)}")
    return f"all {len(found)} arrays of parameters have one"


def narrow_types(subject: Subject) -> str:
    """Activations in bfloat16 give the loss of float32 up to their rounding."""
    if subject.kind.path in ("optimizer.kind", "schedule.kind"):
        raise NotApplicable(f"the type of activations does not reach {subject.kind.path}")
    config = subject.applicable(term_weights(subject) | {"model.dtype": "bfloat16"})
    expected, found = plain_losses(subject), loss_function(subject, config)({})
    for path, narrow in jax.tree_util.tree_leaves_with_path(found.gradient):
        if not np.isfinite(narrow).all():
            raise Fails(f"the gradient is not finite in {path_name(path)}")
    shares, shaken = _shares(found, expected), dict.fromkeys(NARROW, 0.0)
    if any(share > NARROW[what] for what, share in shares.items()):
        shaken = _shaken(subject, expected)
    lines = []
    for what, share in shares.items():
        if share > max(NARROW[what], shaken[what]):
            raise Fails(f"{what} differs from that in float32 by {100 * share:.1f} %")
        amplified = f" ({100 * shaken[what]:.2g} % in float32 where parameters change by the rounding of bfloat16)"
        lines.append(f"{what} differs by {100 * share:.2g} %{amplified * (share > NARROW[what])}")
    return ", ".join(lines)


def _shares(found: Losses, expected: Losses) -> dict[str, float]:
    """Returns how far losses and gradients are apart, in shares of the expected ones."""
    pairs = zip(jax.tree.leaves(found.gradient), jax.tree.leaves(expected.gradient), strict=True)
    distance = sum(float(np.sum((one - other) ** 2)) for one, other in pairs)
    square = sum(float(np.sum(leaf**2)) for leaf in jax.tree.leaves(expected.gradient))
    return {
        "the loss": largest_difference(found.total, expected.total),
        "the gradient": float(np.sqrt(distance / max(square, 1e-30))),
    }


def _shaken(subject: Subject, expected: Losses) -> dict[str, float]:
    """Returns the largest of these shares in float32 over models whose parameters differ by random
    numbers of the size of bfloat16's rounding.
    """
    _, values, _ = subject.model(subject.config(term_weights(subject)))
    found = []
    for seed in range(SHAKES):
        draw = np.random.default_rng(seed).standard_normal
        noise = jax.tree.map(lambda leaf, draw=draw: draw(leaf.shape).astype(np.float32), values)
        moved = jax.tree.map(lambda leaf, own: leaf * (1 + ROUNDING * own), values, noise)
        found.append(_shares(_plain(subject)({}, moved), expected))
    return {what: max(one[what] for one in found) for what in NARROW}


def loss_terms(subject: Subject) -> str:
    """Each declared term is added with its weight, reported without it, and evaluated without one."""
    terms = subject.kind.loss_terms
    if not terms:
        raise NotApplicable("the kind declares no term of the loss")
    lines = []
    for name, path in terms.items():
        one, more = plain_losses(subject), _plain(subject)({path: 4 * TERM_WEIGHT})
        reported = one.sums[name] / one.sums["rows"]
        if not np.isfinite(reported) or not reported:
            raise Fails(f"{name}: its value is {reported:g}; layers add it by context.add_loss")
        require_close(more.sums[name], one.sums[name], TOLERANCE, f"{name}: what is reported changes with the weight,")
        added = 3 * TERM_WEIGHT * reported
        slack = 1e-6 * abs(one.total) / abs(added)
        require_close(more.total - one.total, added, 1e-3 + slack, f"{name}: what the weight adds is not its multiple,")
        if not _has_gradient(one, more):
            raise Fails(f"{name}: it has no gradient")
        lines.append(f"{name} = {reported:.3g}")
    config = subject.config(term_weights(subject, 0.0))
    model, values, stats = subject.model(config)
    objective, graph = subject.objective(config), split(model)[0]
    constants = {"hyperparameters": traced_hyperparameters(flatten(config)), **_arrays(objective)}
    sums = jax.eval_shape(
        lambda values, batch: objective.sums(graph, values, stats, batch, constants, ForwardMode())[1][0],
        values, batch_of(config),
    )  # fmt: skip
    if missing := [name for name in terms if name not in sums]:
        raise Fails(f"{', '.join(missing)}: an evaluation without a weight does not report it")
    return f"{', '.join(lines)}, added with their weights and reported without"


def _arrays(objective: Objective) -> dict[str, Array]:
    return {name: jnp.asarray(array) for name, array in objective.constants.items()}


def _has_gradient(one: Losses, other: Losses) -> bool:
    """Returns whether two weights of a term give different gradients."""
    pairs = zip(jax.tree.leaves(one.gradient), jax.tree.leaves(other.gradient), strict=True)
    return any(np.abs(a - b).max(initial=0) > 1e-5 * np.abs(a).max(initial=0) for a, b in pairs)
