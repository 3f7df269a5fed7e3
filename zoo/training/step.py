"""The train step and the evaluation step: one jitted function each, of explicit shardings, for
every objective.
"""

from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Int

from zoo.config import ResolvedConfig, traced_hyperparameters
from zoo.layers.context import DropoutKey
from zoo.models.functional import (
    Params,
    Stats,
    initialise,
    initialise_statistics,
    logical_axes,
    refresh,
    split,
    unrolled_ndim,
)
from zoo.nested import flatten
from zoo.objectives import Objective
from zoo.objectives.objective import Pass, sum_of_means
from zoo.training.checkpoints.warm_start import read_weights
from zoo.training.dynamics import DynamicsStep, Statistics, statistics
from zoo.training.freezing import held, only_trained, trained_parts
from zoo.training.mesh import batch_sharding, parameter_shardings, replicated
from zoo.training.optimizer import make_optimizer, make_schedule

State = dict[str, Any]
"""{step, params, stats, optimizer}: everything that an update reads and writes."""


@dataclass(frozen=True)
class Program:
    """The compiled parts of a run.

    Attributes:
        model: abstract; a function of its parameters and statistics.
        abstract_state: shapes, types and shardings of the state.
        initial_state: (seed) -> State.
        update: (State, batch, constants) -> (State, metrics), not compiled.
        train_step: the same, compiled; takes over the memory of the state that it is given.
        eval_step: (params, stats, batch, constants) -> (sums over the batch, the objective's
            outputs of each row).
        means: by name, which of these sums is divided by which.
        constants: (seed, config) -> arguments that stay the same for a whole run: its seed, its
            numbers (`zoo.config.hyperparameters`), the values of a teacher. Without a config the
            numbers are those of the config that the program was made of.
        put_batch: host batch -> batch on the devices.
        features: (params, stats, batch, constants) -> what the head of a task reads of each row;
            None unless it alone is trained.
        dynamics_step: (State, batch, constants) -> statistics of the update that `train_step` would
            make, for its `rows`; a program of its own that changes nothing, so that what it
            computes cannot change how the update is computed.
    """

    model: nnx.Module
    abstract_state: State
    initial_state: Any
    update: Any
    train_step: Any
    eval_step: Any
    means: dict[str, tuple[str, str]]
    constants: Any
    put_batch: Any
    features: Any = None
    dynamics_step: Any = None


def make_program(config: ResolvedConfig, model: nnx.Module, objective: Objective, mesh: Mesh) -> Program:
    """Builds the functions of a run; nothing is compiled before it is called.

    Seeds and numbers (`zoo.config.hyperparameters`) are arguments and not part of the programs, so
    that runs which differ in nothing else share a compilation.
    """
    graph, shapes, _ = split(model)
    unrolled = unrolled_ndim(model)
    optimizer = make_optimizer(config, unrolled)
    trained, frozen = trained_parts(config, model), config.training.trained_layers == 0
    shardings = parameter_shardings(mesh, logical_axes(model), shapes)
    whole, rows = replicated(mesh), batch_sharding(mesh)
    teacher = abstract_teacher(objective, mesh)
    numbers = traced_hyperparameters(flatten(config))
    fixed = {"seed": whole, "hyperparameters": dict.fromkeys(numbers, whole)} | dict.fromkeys(
        objective.constants, whole
    )
    fixed |= {"teacher": jax.tree.map(lambda leaf: leaf.sharding, teacher)} if teacher else {}

    @cache
    def its_weights() -> dict[str, Any]:
        return read_weights(Path(config.objective.distillation.teacher), teacher)[0]

    def constants(seed: int, of: ResolvedConfig | None = None) -> dict[str, Any]:
        own = numbers if of is None else traced_hyperparameters(flatten(of))
        arrays = {path: np.float32(value) for path, value in own.items()}
        values = jax.device_put({"seed": np.uint32(seed), "hyperparameters": arrays, **objective.constants}, whole)
        return values | ({"teacher": its_weights()} if teacher else {})

    def initial_state(seed: Int[Array, ""]) -> State:
        params, stats = initialise(model, seed), initialise_statistics(model, seed)
        return {"step": jnp.zeros((), jnp.int32), "params": params, "stats": stats, "optimizer": optimizer.init(params)}

    abstract = jax.eval_shape(initial_state, jax.ShapeDtypeStruct((), jnp.uint32))
    state_shardings = {
        "step": whole,
        "params": shardings,
        "stats": jax.tree.map(lambda _: whole, abstract["stats"]),
        "optimizer": optax.tree_utils.tree_map_params(
            optimizer,
            lambda _, sharding: sharding,
            abstract["optimizer"],
            shardings,
            transform_non_params=lambda _: whole,
        ),
    }
    abstract = jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), abstract, state_shardings)

    def gradient_of(state: State, batch: dict[str, Array], constants: dict[str, Array], recording: bool = False):
        """What `accumulate` returns of a whole batch; recording, the sums stand beside those that
        the layers left.
        """
        key = jax.random.fold_in(jax.random.key(constants["seed"]), state["step"]) if drops(config) else None
        weights = objective.weights(batch)
        constants = {**constants, **objective.drawn(constants["seed"], state["step"])}
        current = state["stats"] if frozen else refresh(model, state["stats"], constants["seed"], state["step"])

        def loss_of(params, stats, part, index):
            part_key = None if key is None else DropoutKey(jax.random.fold_in(key, index), constants["hyperparameters"])
            record = {} if recording else None
            losses, (sums, stats) = objective.sums(
                graph, held(params, trained), stats, part, constants, part_key, training=True, record=record
            )
            return sum_of_means(losses, weights), ((sums, record) if recording else sums, stats)

        return accumulate(loss_of, state["params"], current, batch, config.training.accumulation_steps)

    def updates_of(state: State, gradient: Params, constants: dict[str, Array]):
        optimizer = make_optimizer(config, unrolled, constants["hyperparameters"])
        updates, optimizer_state = optimizer.update(gradient, state["optimizer"], state["params"])
        return only_trained(updates, trained), optimizer_state

    def update(state: State, batch: dict[str, Array], constants: dict[str, Array]) -> tuple[State, dict[str, Array]]:
        loss, sums, stats, gradient = gradient_of(state, batch, constants)
        norm = optax.global_norm(gradient)
        updates, optimizer_state = updates_of(state, gradient, constants)
        new = {
            "step": state["step"] + 1,
            "params": optax.apply_updates(state["params"], updates),
            "stats": stats,
            "optimizer": optimizer_state,
        }
        finite = jnp.isfinite(loss) & jnp.isfinite(norm)
        # A diverged update is not applied, so that what is saved last can still be looked at.
        new = jax.tree.map(lambda after, before: jnp.where(finite, after, before), new, state)
        means = {name: sums[total] / jnp.maximum(sums[weight], 1) for name, (total, weight) in objective.means.items()}
        rate = make_schedule(config, constants["hyperparameters"])(state["step"])
        metrics = {
            **means,
            "gradient_norm": norm,
            "learning_rate": jnp.asarray(rate, jnp.float32),
            "tokens": sums["tokens"],
            "finite": finite,
        }
        return new, metrics

    def observed(state: State, batch: dict[str, Array], constants: dict[str, Array]) -> Statistics:
        _, (_, record), _, gradient = gradient_of(state, batch, constants, recording=True)
        return statistics(model, record, state["params"], gradient, updates_of(state, gradient, constants)[0])

    @partial(jax.jit, in_shardings=(shardings, whole, rows, fixed), out_shardings=whole)
    def eval_step(
        params: Params, stats: Stats, batch: dict[str, Array], constants: dict[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        sums = objective.sums(graph, params, stats, batch, constants)[1][0]
        outputs = {name: sums.pop(name) for name in objective.outputs}
        return sums, outputs

    @partial(jax.jit, in_shardings=(shardings, whole, rows, whole), out_shardings=whole)
    def features(params: Params, stats: Stats, batch: dict[str, Array], constants: dict[str, Array]) -> Array:
        return objective.features(nnx.merge(graph, params, stats), batch, constants, Pass(None, training=False))

    return Program(
        model=model,
        abstract_state=abstract,
        initial_state=jax.jit(lambda seed: initial_state(jnp.asarray(seed, jnp.uint32)), out_shardings=state_shardings),
        update=update,
        train_step=jax.jit(
            update,
            donate_argnums=0,
            in_shardings=(state_shardings, rows, fixed),
            out_shardings=(state_shardings, whole),
        ),
        eval_step=eval_step,
        means=objective.means,
        constants=constants,
        put_batch=lambda batch: jax.tree.map(lambda x: jax.make_array_from_process_local_data(rows, x), batch),
        features=features if frozen else None,
        dynamics_step=DynamicsStep(observed, in_shardings=(state_shardings, rows, fixed), out_shardings=whole),
    )


def abstract_teacher(objective: Objective, mesh: Mesh) -> dict[str, Any] | None:
    """Shapes, types and shardings of the values of an objective's teacher, {"params", "stats"}, or
    None where it has none.
    """
    if objective.teacher is None:
        return None
    _, shapes, stats = split(objective.teacher)
    shardings = parameter_shardings(mesh, logical_axes(objective.teacher), shapes)
    placed = jax.tree.map(
        lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes, shardings
    )
    whole = replicated(mesh)
    return {
        "params": placed,
        "stats": jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=whole), stats),
    }


def drops(config: ResolvedConfig) -> bool:
    """Whether anything is dropped in training, in any part of the model."""
    return any(rate > 0 for path, rate in flatten(config.model).items() if path.split(".")[-1] == "dropout")


def accumulate(sums_of, params: Params, stats: Stats, batch: dict[str, Array], parts: int):
    """Adds up loss, sums and gradients of `parts` of the batch, so that the update equals that of
    the whole batch.

    Args:
        sums_of: (params, stats, part of the batch, its number) -> (its share of the loss, (dict of
            sums, stats after it)).
        params: differentiated.
        stats: handed from each part to the next.
        batch: arrays with the rows first; part number i is every `parts`-th row from i on, which
            leaves a sharded batch in place.
        parts: number of parts.

    Returns:
        (the loss, dict of sums, stats after the last part, its gradient).
    """
    gradient_of = jax.value_and_grad(sums_of, has_aux=True)
    if parts == 1:
        (loss, (sums, stats)), gradient = gradient_of(params, stats, batch, 0)
        return loss, sums, stats, gradient
    split_batch = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(x.shape[0] // parts, parts, *x.shape[1:]), 1, 0), batch)

    def body(carry, part):
        (total, stats), (index, rows) = carry, part
        (loss, (sums, stats)), gradient = gradient_of(params, stats, rows, index)
        return (jax.tree.map(jnp.add, total, (loss, sums, gradient)), stats), None

    first = jax.tree.map(lambda x: x[0], split_batch)
    (loss, (sums, _)), gradient = jax.eval_shape(gradient_of, params, stats, first, 0)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (loss, sums, gradient))
    ((loss, sums, gradient), stats), _ = jax.lax.scan(body, (zero, stats), (jnp.arange(parts), split_batch))
    return loss, sums, stats, gradient
