"""A fingerprint of everything that a config's results are computed from: configs with different
results have different fingerprints.
"""

import functools
import hashlib
import json
import re

import jax
import numpy as np

from zoo import config as configs
from zoo import data
from zoo.layers.context import DropoutKey
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, initialise_statistics, parameter_traits, refresh, split
from zoo.models.parameter_groups import group_labels
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode
from zoo.training.mesh import make_mesh
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.step import RunConstants, make_program
from zoo.training.update import UpdateStep, uses_dropout

# The parts that a result is computed from, the cheapest first: arrays, shapes, and traced programs.
# A forward pass becomes a step in the same way for every model, and the updates of an optimizer
# become one in the same way for every optimizer, so a field of either is not traced any further.
OF_MODEL = ("shapes", "data", "forward", "initial values")
# Fields that only training reads, or only evaluation.
OF_A_MODE = ("model.layers.loop_draws", "model.layers.eval_loops")
OF_OPTIMIZER = ("data", "updates")
OF_ALL = ("data", "forward", "train step", "eval step", "initial state")
# `zoo.data.load` does not read these fields.
NOT_DATA = re.compile(r"(optimizer|schedule|mesh|model\.(attention|convolution|ffn|init|layers|norm|position))\.")


def parts_of(path) -> tuple[str, ...]:
    """Returns the parts of a computation that a field of this path can change."""
    if path in OF_A_MODE:
        return "train step", "eval step"
    if path.startswith("model."):
        return OF_MODEL
    return OF_OPTIMIZER if path.startswith(("optimizer.", "schedule.")) else OF_ALL


@functools.lru_cache(maxsize=32)
def load(settings):
    """Returns (data set, two batches of the first epoch, one of a later epoch, and all batches of
    the evaluation) of a config that is written as JSON.
    """
    dataset, batches = data.load(configs.from_flat(json.loads(settings))), []
    for start, number in ((0, 2), (1000, 1)):
        with dataset.training_batches(start) as endless:
            batches += [next(endless) for _ in range(number)]
    return dataset, batches + list(dataset.evaluation_batches())


class Computation:
    """Everything that a config's results are computed from, in parts that are built on demand."""

    def __init__(self, config):
        self.config, self._digests = config, {}

    @functools.cached_property
    def mesh(self):
        return make_mesh(self.config, jax.devices()[:1])

    @functools.cached_property
    def model(self):
        return make_model(self.config)

    @functools.cached_property
    def objective_and_batches(self):
        read = {path: value for path, value in flatten(self.config).items() if not NOT_DATA.match(path)}
        dataset, batches = load(json.dumps(read, default=list))
        return make_objective(self.config, dataset.tokenizer), batches

    @functools.cached_property
    def constants(self):
        """Arguments of the program that stay the same for a whole run."""
        return RunConstants(self.config, self.objective_and_batches[0], self.mesh)(self.config.seed)

    @functools.cached_property
    def inputs(self):
        """(objective, program, batches, constants)."""
        objective, batches = self.objective_and_batches
        return objective, make_program(self.config, self.model, objective, self.mesh), batches, self.constants

    def digest(self, part) -> str:
        """Returns the hash of a part: of arrays, of the equations and arrays of a traced program, or
        of the paths, shapes and types of a model's variables.
        """
        if part not in self._digests:
            text, arrays = getattr(self, "_" + part.replace(" ", "_"))()
            found = hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", text).encode())
            for array in arrays:
                found.update(np.ascontiguousarray(array).tobytes())
            self._digests[part] = found.hexdigest()
        return self._digests[part]

    def _data(self):
        return "", jax.tree.leaves((self.objective_and_batches[1], self.constants))

    def _shapes(self):
        return str(split(self.model)[1:]), []

    def _forward(self):
        """Loss, sums and statistics of a training step, before differentiation."""
        graph, params, stats = split(self.model)
        objective, batches = self.objective_and_batches

        def forward(params, stats, step, batch, constants):
            stats = refresh(self.model, stats, constants["seed"], step)
            constants = constants | objective.per_step_constants(constants["seed"], step)
            dropout = uses_dropout(self.config)
            key = DropoutKey(jax.random.key(constants["seed"]), constants["hyperparameters"]) if dropout else None
            return objective.sums(graph, params, stats, batch, constants, ForwardMode(dropout_key=key, training=True))

        return live(jax.jit(forward).trace(params, stats, np.int32(0), batches[0], self.constants).jaxpr)

    def _initial_values(self):
        return live(
            jax.jit(lambda seed: (initialise(self.model, seed), initialise_statistics(self.model, seed)))
            .trace(np.int32(0))
            .jaxpr
        )

    def _updates(self):
        """Updates of the parameters, and the optimizer's state before and after them."""
        params, objective = split(self.model)[1], self.objective_and_batches[0]
        optimizer = make_optimizer(
            self.config, parameter_traits(self.model), labels=group_labels(self.config, self.model)
        )
        step = UpdateStep(self.config, self.model, objective)

        def updates(params, gradient, constants):
            state = {"params": params, "optimizer": optimizer.init(params)}
            return state["optimizer"], step._optimizer_updates(state, gradient, constants)

        return live(jax.jit(updates).trace(params, params, self.constants).jaxpr)

    def _initial_state(self):
        return live(self.inputs[1].initial_state.trace(np.int32(0)).jaxpr)

    def _train_step(self):
        _, program, batches, constants = self.inputs
        return live(program.train_step.trace(program.abstract_state, batches[0], constants).jaxpr)

    def _eval_step(self):
        _, program, batches, constants = self.inputs
        state = program.abstract_state
        return live(program.eval_step.trace(state["params"], state["stats"], batches[0], constants).jaxpr)


COMPUTATIONS = {}


def computation(config) -> Computation:
    """Returns the computation of a config, the same object for equal configs."""
    return COMPUTATIONS.setdefault(configs.identity(config), Computation(config))


def fingerprint(config, parts=OF_ALL) -> str:
    """Returns the digests of parts of a config's computation as one text."""
    return " ".join(computation(config).digest(part) for part in parts)


def differ(one, other, parts=OF_ALL) -> bool:
    """Returns whether two configs differ in any of these parts; parts after the first that differs are
    not built.
    """
    return any(computation(one).digest(part) != computation(other).digest(part) for part in parts)


def equal_ones(by_name, parts=OF_ALL) -> list[list[str]]:
    """Returns the groups of names whose configs are equal in all of these parts; what already differs
    is not compared any further.
    """
    groups = [list(by_name)]
    for part in parts:
        by_digest = {}
        for number, group in enumerate(groups):
            for name in group:
                by_digest.setdefault((number, computation(by_name[name]).digest(part)), []).append(name)
        groups = [group for group in by_digest.values() if len(group) > 1]
    return groups


def live(closed):
    """Returns (text, constants) of the equations that the results of a traced program depend on,
    without unused computations.
    """
    jaxpr = closed.jaxpr
    used, kept = {id(variable) for variable in jaxpr.outvars}, []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not used.isdisjoint(map(id, equation.outvars)):
            kept.append(equation)
            used |= set(map(id, equation.invars))
    constants = [value for variable, value in zip(jaxpr.constvars, closed.consts, strict=True) if id(variable) in used]
    inner = [constant for equation in kept for program in programs_of(equation) for constant in constants_of(program)]
    return str(jaxpr.replace(eqns=kept[::-1])), constants + inner


def programs_of(equation):
    """Returns the traced programs that an equation holds, with their constants."""
    return [
        value
        for value in jax.tree.leaves(equation.params, is_leaf=lambda node: hasattr(node, "consts"))
        if hasattr(value, "consts")
    ]


def constants_of(closed):
    """Yields every array that a traced program and the programs inside it hold."""
    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for program in programs_of(equation):
            yield from constants_of(program)
