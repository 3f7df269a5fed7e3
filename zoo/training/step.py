"""The program of a run: its jitted functions, one per task, with explicit shardings.

One program serves every objective: `make_program` builds the initial state, the train step and the
evaluation step from a model, an objective and a mesh.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, traced_hyperparameters
from zoo.layers.activation_sharding import activation_sharding
from zoo.layers.platform import ROWS_FROM, Platform
from zoo.models.functional import Params, Stats, split
from zoo.nested import flatten
from zoo.objectives import Objective
from zoo.objectives.objective import ForwardMode
from zoo.training.checkpoints.warm_start import read_weights
from zoo.training.dynamics import DynamicsStep
from zoo.training.mesh import batch_sharding, data_parallel_size, replicated_sharding
from zoo.training.state import State, abstract_state, abstract_weights, initial_state, shardings_of
from zoo.training.update import Batch, Constants, Metrics, UpdateStep


class RunConstants:
    """Makes the arguments of a program that stay the same for a whole run.

    Seeds and traced hyperparameters (`zoo.config.hyperparameters`) are arguments and not part of
    the program, so that runs which differ in nothing else share a compilation.

    Args:
        config: the resolved config that the program is made of.
        objective: its arrays are constants.
        mesh: where the constants are placed.

    Attributes:
        shardings: shardings of what a call returns.
    """

    def __init__(self, config: ResolvedConfig, objective: Objective, mesh: Mesh):
        self._hyperparameters, self._arrays = traced_hyperparameters(flatten(config)), objective.constants
        self._replicated = replicated = replicated_sharding(mesh)
        self.shardings: dict[str, Any] = {
            "seed": replicated,
            "hyperparameters": dict.fromkeys(self._hyperparameters, replicated),
            **dict.fromkeys(self._arrays, replicated),
        }
        self._load_teacher = self._teacher = None
        if objective.teacher is not None:
            self._teacher = teacher = abstract_weights(objective.teacher, mesh)
            self.shardings["teacher"] = shardings_of(teacher)
            folder = Path(config.objective.distillation.teacher)
            self._load_teacher = cache(lambda: read_weights(folder, teacher)[0])

    def abstract(self) -> Constants:
        """Returns shapes and types of the constants, without reading a teacher."""
        shapes: Constants = {
            "seed": jax.ShapeDtypeStruct((), np.uint32),
            "hyperparameters": {path: jax.ShapeDtypeStruct((), np.float32) for path in self._hyperparameters},
            **{name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in self._arrays.items()},
        }
        return shapes | ({} if self._teacher is None else {"teacher": self._teacher})

    def __call__(self, seed: int, config: ResolvedConfig | None = None) -> Constants:
        """Returns {"seed", "hyperparameters", arrays of the objective, "teacher" if there is one}.

        Args:
            seed: the run's seed.
            config: the config with the hyperparameters; by default the program's.
        """
        values = self._hyperparameters if config is None else traced_hyperparameters(flatten(config))
        hyperparameters = {path: np.float32(value) for path, value in values.items()}
        constants = jax.device_put(
            {"seed": np.uint32(seed), "hyperparameters": hyperparameters, **self._arrays}, self._replicated
        )
        return constants | ({"teacher": self._load_teacher()} if self._load_teacher else {})


Evaluated = tuple[Metrics, dict[str, Array]]
"""(Sums over a batch, the objective's outputs for each row.)"""


@dataclass(frozen=True, kw_only=True)
class Program:
    """The compiled functions of a run.

    Attributes:
        model: the abstract model; every function takes its parameters and statistics as arguments.
        objective: what is predicted and scored.
        mesh: the devices.
        abstract_state: shapes, types and shardings of the state.
        initial_state: seed -> state before the first update.
        update: (state, batch, constants, mesh) -> (state, metrics), not compiled.
        train_step: (state, batch, constants) -> (state, metrics), compiled; the memory of the state
            that it is given is reused.
        evaluate: (params, stats, batch, constants, mesh) -> (sums over the batch, the objective's
            outputs for each row), not compiled.
        eval_step: (params, stats, batch, constants) -> what `evaluate` returns, compiled.
        constants: (seed, config) -> arguments that stay the same for a whole run.
        put_batch: moves a batch to the devices; with several processes, each passes only its own
            rows.
        features: (params, stats, batch, constants) -> the frozen body's output, which is the input
            of the task head; None unless only the head is trained.
        dynamics_step: (state, batch, constants) -> statistics of the update that `train_step` would
            make. A program of its own, so that it cannot change how the update is computed.
    """

    model: nnx.Module
    objective: Objective
    mesh: Mesh
    abstract_state: State
    initial_state: Callable[[int], State]
    update: Callable[[State, Batch, Constants, Mesh], tuple[State, Metrics]]
    train_step: Callable[[State, Batch, Constants], tuple[State, Metrics]]
    evaluate: Callable[[Params, Stats, Batch, Constants, Mesh], Evaluated]
    eval_step: Callable[[Params, Stats, Batch, Constants], Evaluated]
    constants: RunConstants
    put_batch: Callable[[Mapping[str, np.ndarray]], Batch]
    features: Callable[[Params, Stats, Batch, Constants], Float[Array, "B ... D"]] | None
    dynamics_step: DynamicsStep

    @property
    def data_parallel_size(self) -> int:
        """Number of shards of the rows of a batch; the batch size must be a multiple of it."""
        return data_parallel_size(self.mesh)


def make_program(
    config: ResolvedConfig, model: nnx.Module, objective: Objective, mesh: Mesh, rows_from: int = ROWS_FROM
) -> Program:
    """Builds the functions of a run; nothing is compiled before it is called.

    Args:
        config: the resolved config.
        model: the abstract model.
        objective: the objective of this model.
        mesh: the devices.
        rows_from: see `Platform`.
    """
    step = UpdateStep(config, model, objective, rows_from)
    optimizer = step.optimizer()
    abstract, constants = abstract_state(config, model, optimizer, mesh), RunConstants(config, objective, mesh)
    state, rows, replicated = shardings_of(abstract), batch_sharding(mesh), replicated_sharding(mesh)
    arguments = (state, rows, constants.shardings)
    evaluate = make_evaluate(model, objective, rows_from)

    def initialise_from(seed: int) -> State:
        return initial_state(config, model, optimizer, jnp.asarray(seed, jnp.uint32))

    return Program(
        model=model,
        objective=objective,
        mesh=mesh,
        abstract_state=abstract,
        initial_state=jax.jit(initialise_from, out_shardings=state, compiler_options=fast_compilation(mesh)),
        update=step.update,
        train_step=jax.jit(
            partial(step.update, mesh=mesh), donate_argnums=0, in_shardings=arguments, out_shardings=(state, replicated)
        ),
        evaluate=evaluate,
        eval_step=jax.jit(
            partial(evaluate, mesh=mesh),
            in_shardings=(state["params"], replicated, rows, constants.shardings),
            out_shardings=replicated,
        ),
        constants=constants,
        put_batch=lambda batch: jax.tree.map(lambda x: jax.make_array_from_process_local_data(rows, x), batch),
        features=make_features_step(model, objective, mesh, (state["params"], replicated, rows, replicated), rows_from)
        if config.training.trained_layers == 0
        else None,
        dynamics_step=DynamicsStep(partial(step.dynamics, mesh=mesh), in_shardings=arguments, out_shardings=replicated),
    )


def fast_compilation(mesh: Mesh) -> dict[str, int] | None:
    """Returns compiler options for a program that runs once.

    On a CPU, XLA takes far longer to compile the initial values than to compute them; at this level
    of optimisation it takes about half as long. With XLA's default flags the values were the same
    bit for bit; with others they may differ by rounding. JAX_DISABLE_MOST_OPTIMIZATIONS sets a lower
    level, which stays.
    """
    if mesh.devices.flat[0].platform != "cpu" or jax.config.read("jax_disable_most_optimizations"):
        return None
    return {"xla_backend_optimization_level": 1}


def make_evaluate(
    model: nnx.Module, objective: Objective, rows_from: int
) -> Callable[[Params, Stats, Batch, Constants, Mesh], Evaluated]:
    """Returns `Program.evaluate`."""
    graph = split(model)[0]

    def evaluate(params: Params, stats: Stats, batch: Batch, constants: Constants, mesh: Mesh) -> Evaluated:
        mode = ForwardMode(sharding=activation_sharding(mesh), platform=Platform.of(mesh, rows_from))
        sums = objective.sums(graph, params, stats, batch, constants, mode)[1][0]
        outputs = {name: sums.pop(name) for name in objective.outputs}
        return sums, outputs

    return evaluate


def make_features_step(
    model: nnx.Module, objective: Objective, mesh: Mesh, in_shardings: tuple[Any, ...], rows_from: int
) -> Callable[[Params, Stats, Batch, Constants], Float[Array, "B ... D"]]:
    """Returns `Program.features`; its results are replicated."""
    graph, replicated = split(model)[0], in_shardings[1]
    mode = ForwardMode(sharding=activation_sharding(mesh), platform=Platform.of(mesh, rows_from))

    def features(params: Params, stats: Stats, batch: Batch, constants: Constants) -> Array:
        return objective.features(nnx.merge(graph, params, stats), batch, constants, mode)

    return jax.jit(features, in_shardings=in_shardings, out_shardings=replicated)
