"""Updates of a small model that must not depend on how they are computed."""

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zoo.checks.batches import batch_of
from zoo.checks.outcome import Fails, NotApplicable, path_name, require_close, require_close_trees
from zoo.checks.small_models import quick_compilation, random_values
from zoo.checks.stack_execution import term_weights
from zoo.checks.subject import Subject, once
from zoo.config import ResolvedConfig, is_traced
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.executor import make_executor
from zoo.training.mesh import batch_sharding, make_mesh, replicated_sharding
from zoo.training.population.batch_streams import StackedBatches
from zoo.training.state import shardings_of
from zoo.training.step import Program, make_program

DEVICES, PARTS = 8, 4
MESH = {"mesh.fsdp": 2, "mesh.tensor": 2}
# With a large epsilon Adam's update is proportional to the gradient, like SGD's, so that rounding of
# small gradients does not decide its sign.
PROPORTIONAL = {"optimizer.epsilon": 1.0, "optimizer.learning_rate": 0.5}
# Two updates amplify rounding: measured up to 4e-5. The moments of the optimizer show the gradient of
# every array at its own scale.
TOLERANCE, OF_MOMENTS = 2e-4, 2e-3
# A model without norms amplifies it more: differences of this many times what the rounding of its
# parameters makes count as rounding, up to a bound, and the line of the check says so.
OF_ROUNDING, LARGEST = 10, 1e-2
ROUNDING, SHAKES = 2.0**-24, 2


Updated = tuple[Any, list[dict[str, float]]]
"""State after two updates, and the metrics of each."""


def settings_of(subject: Subject) -> dict[str, Any]:
    """Returns the fields of the runs: terms of the loss have a weight, updates are proportional."""
    return term_weights(subject) | ({} if subject.kind.path == "optimizer.kind" else PROPORTIONAL)


def tolerance_of(subject: Subject) -> float:
    """Returns what rounding may change: updates of an optimizer may amplify it."""
    return 1e-3 if subject.kind.path == "optimizer.kind" else TOLERANCE


def program_of(subject: Subject, config: ResolvedConfig, devices: int = 1) -> Program:
    """Returns the program of one of the subject's configs on the first devices of the process."""
    mesh = make_mesh(config, jax.devices()[:devices])
    return make_program(config, make_model(config), subject.objective(config), mesh)


def _batch(subject: Subject, config: ResolvedConfig) -> dict[str, Any]:
    return batch_of(config, last_empty=not subject.kind.loss_terms)


def quick_step(program: Program) -> Callable[..., Any]:
    """Returns the train step of a program, which compiles faster and leaves the state as it is."""
    arguments = shardings_of(program.abstract_state), batch_sharding(program.mesh), program.constants.shardings
    return jax.jit(
        partial(program.update, mesh=program.mesh),
        in_shardings=arguments,
        out_shardings=(arguments[0], replicated_sharding(program.mesh)),
        compiler_options=quick_compilation(),
    )


def first_state(subject: Subject, program: Program, seed: int = 0) -> Any:
    """Returns a state with random values everywhere, on the devices of a program."""
    made = subject.once("initial state", lambda: jax.device_get(program.initial_state(0)))
    return placed(program, made | {"params": random_values(program.model, 1 + seed)})


def placed(program: Program, state: Any) -> Any:
    """Returns a state on the devices of a program."""
    return jax.device_put(state, shardings_of(program.abstract_state))


def updated(
    program: Program, step: Callable[..., Any], state: Any, constants: Any, batch: Mapping[str, Any]
) -> Updated:
    """Returns (state after two updates, on the host; metrics of each update)."""
    metrics = []
    for _ in range(2):
        state, found = step(state, program.put_batch(batch), constants)
        metrics.append({name: float(value) for name, value in jax.device_get(found).items()})
    return jax.device_get(state), metrics


def require_same_update(found: Updated, expected: Updated, tolerance: float, parameters: bool = True) -> float:
    """Returns the largest difference of two results of `updated`.

    Args:
        found, expected: the results.
        tolerance: in shares of the largest value of each array.
        parameters: also compare parameters and statistics.

    Raises:
        Fails: metrics or values differ.
    """
    for number, (one, other) in enumerate(zip(found[1], expected[1], strict=True)):
        if not (one["finite"] and other["finite"]):
            raise Fails(f"update {number + 1} is not finite")
        for name in other.keys() - {"finite", "learning_rate"}:
            require_close(one[name], other[name], 5 * tolerance, f"{name} of update {number + 1} differs")
    if not parameters:
        return tolerance
    worst = require_close_trees(found[0]["params"], expected[0]["params"], tolerance, "a parameter differs", 1e-7)
    require_close_trees(found[0]["optimizer"], expected[0]["optimizer"], OF_MOMENTS, "a gradient differs", 1e-6)
    statistics = require_close_trees(found[0]["stats"], expected[0]["stats"], 1e-3, "a statistic differs", 1e-7)
    return max(worst, statistics)


@once
def _single(subject: Subject) -> tuple[Program, Callable[..., Any], Updated]:
    """Returns the program of a run alone, its compiled step, and the first two updates."""
    config = subject.config(settings_of(subject))
    program = program_of(subject, config)
    step, state = quick_step(program), first_state(subject, program)
    return program, step, updated(program, step, state, program.constants(0), _batch(subject, config))


@once
def _amplified(subject: Subject) -> float:
    """Returns the tolerance of a model that amplifies rounding, from its two updates of parameters
    that differ by random numbers of the size of float32's rounding.
    """
    program, step, expected = _single(subject)
    config, worst = subject.config(settings_of(subject)), 0.0
    batch, constants = _batch(subject, config), program.constants(0)
    for seed in range(SHAKES):
        state, draw = jax.device_get(first_state(subject, program)), np.random.default_rng(seed).standard_normal
        moved = jax.tree.map(
            lambda leaf, draw=draw: (leaf * (1 + ROUNDING * draw(leaf.shape))).astype(leaf.dtype), state["params"]
        )
        found = updated(program, step, placed(program, state | {"params": moved}), constants, batch)
        worst = max(worst, require_close_trees(found[0]["params"], expected[0]["params"], np.inf, "", 1.0))
    return min(OF_ROUNDING * worst, LARGEST)


def _require_same(subject: Subject, found: Updated, expected: Updated, parameters: bool = True) -> str:
    """Does `require_same_update` with the tolerance of the subject, or with what rounding of its
    parameters makes if that is more; returns the difference in words.
    """
    tolerance = tolerance_of(subject)
    try:
        return f"to {require_same_update(found, expected, tolerance, parameters):.0e} of the largest"
    except Fails:
        if (amplified := _amplified(subject)) <= tolerance:
            raise
        worst = require_same_update(found, expected, amplified, parameters)
        return (
            f"to {worst:.0e} of the largest, more than {tolerance:.0e}, as rounding of the parameters alone makes "
            f"{amplified / OF_ROUNDING:.0e} or more"
        )


def _same_as_single(subject: Subject, program: Program, step: Callable[..., Any]) -> str:
    config = subject.config(settings_of(subject))
    *_, expected = _single(subject)
    found = updated(program, step, first_state(subject, program), program.constants(0), _batch(subject, config))
    whole = subject.kind.path != "optimizer.kind"
    return f"two updates agree, {_require_same(subject, found, expected, whole)}"


def accumulation(subject: Subject, parts: int = PARTS) -> str:
    """An update in parts equals that of the whole batch, also where rows have few tokens."""
    config = subject.applicable(settings_of(subject) | {"training.accumulation_steps": parts})
    if split(make_model(config))[2]:
        raise NotApplicable("the model has statistics, which an update passes from part to part")
    program = program_of(subject, config)
    step = quick_step(program)
    try:
        return _same_as_single(subject, program, step)
    except Fails as error:
        raise Fails(f"{error}{_explained_by_terms(subject, program, step)}") from None


def _explained_by_terms(subject: Subject, program: Program, step: Callable[..., Any]) -> str:
    """Returns what a failure of an accumulated update is due to if the kind's terms of the loss are
    the cause, because updates agree where these have no weight; else "".
    """
    terms = subject.kind.loss_terms
    if not terms:
        return ""
    config = subject.config(settings_of(subject) | term_weights(subject, 0.0))
    results = []
    for each, its_step in ((program, step), _single(subject)[:2]):
        state, constants = first_state(subject, each), each.constants(0, config)
        state, metrics = updated(each, its_step, state, constants, _batch(subject, config))
        results.append((state, [{name: one[name] for name in one.keys() - terms.keys()} for one in metrics]))
    try:
        worst = require_same_update(*results, tolerance_of(subject))
    except Fails:
        return ""
    return (
        f"; such a term is no mean over the rows of a batch, so in {PARTS} parts it is the mean of theirs; without its "
        f"weight two updates agree, to {worst:.0e} of the largest"
    )


def devices(subject: Subject) -> str:
    """Eight devices, which divide rows and matrices, make the update of one."""
    if len(jax.devices()) < DEVICES:
        raise NotApplicable(f"this process has {len(jax.devices())} devices; zoo check simulates {DEVICES}")
    program = program_of(subject, subject.applicable(settings_of(subject) | MESH), DEVICES)
    return _same_as_single(subject, program, quick_step(program))


def population(subject: Subject) -> str:
    """Runs that are trained together, with other seeds and other numbers, each equal a run alone."""
    program, step, first = _single(subject)
    other = subject.config(settings_of(subject) | _other_numbers(subject))
    batch = _batch(subject, other)
    constants = [program.constants(0), program.constants(1, other)]
    together = make_executor(program, constants, "map")
    states = together.combine([first_state(subject, program, seed) for seed in (0, 1)])
    metrics = []
    for _ in range(2):
        arrays = {name: np.asarray(rows)[None] for name, rows in batch.items()}
        states, found = together.step(states, StackedBatches(arrays, (0, 0)), [True, True])
        metrics.append(together.fetch_metrics(found))
    # Alone, a run has the program of its own config, which should be the same.
    own = program_of(subject, other)
    same = _text(own, batch, constants[1]) == _text(program, batch, constants[1])
    second = updated(own, step if same else quick_step(own), first_state(subject, own, 1), constants[1], batch)
    for member, alone in enumerate((first, second)):
        found = jax.device_get(together.state_of(states, member)), [each[member] for each in metrics]
        try:
            _require_same(subject, found, alone)
        except Fails as error:
            raise Fails(f"member {member}: {error}") from None
    changed = ", ".join(["seed", *_other_numbers(subject)])
    return f"two members with another {changed} make the updates of their runs alone"


def _other_numbers(subject: Subject) -> dict[str, float]:
    """Returns other values of the kind's fields that members of a population may differ in."""
    flat, found = flatten(subject.config(settings_of(subject))), {}
    for field in subject.kind.fields:
        value = flat[field.path]
        if is_traced(field.path) and isinstance(value, int | float) and value:
            top = field.maximum if field.maximum is not None else 2 * abs(value)
            found[field.path] = type(value)(value + (top - value) / 2) or value
    return found


def resume(subject: Subject) -> str:
    """A run that continues from its checkpoint, in a program that is built again, has the bits of one
    that was not interrupted.
    """
    program, step, (state, _) = _single(subject)
    config = subject.config(settings_of(subject))
    again, batch = program_of(subject, config), _batch(subject, config)
    constants = program.constants(0)
    with tempfile.TemporaryDirectory(prefix="zoo-check-") as folder:
        checkpoints = Checkpoints(Path(folder), 1, lambda line: None)
        checkpoints.save(int(state["step"]), placed(program, state), {}, None)
        checkpoints.close()
        restored, _ = checkpoints.restore(int(state["step"]), again.abstract_state)
        checkpoints.close()
    expected, _ = updated(program, step, placed(program, state), constants, batch)
    # Equal programs need not be compiled twice.
    one, other = (_text(program, batch, constants), _text(again, batch, constants))
    found, _ = updated(program, step if one == other else quick_step(again), restored, constants, batch)
    pairs = zip(jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(found), strict=True)
    for (path, before), after in pairs:
        if np.asarray(before).tobytes() != np.asarray(after).tobytes():
            built = "" if one == other else "; the program that is built again is another one"
            raise Fails(f"after a restart {path_name(path)} has other bits{built}")
    return "two updates after a restart have the bits of those without"


def _text(program: Program, batch: Mapping[str, Any], constants: Any) -> str:
    """Returns the lowered program of an update."""
    return quick_step(program).lower(program.abstract_state, batch, constants).as_text()
