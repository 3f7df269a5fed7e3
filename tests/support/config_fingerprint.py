"""A fingerprint of everything that a config's results are computed from: configs with different
results have different fingerprints.
"""

import functools
import hashlib
import re
from functools import partial

import jax
import numpy as np

from zoo import config as configs
from zoo import data
from zoo.layers.context import DropoutKey
from zoo.models.architectures import make_model
from zoo.models.functional import refresh, split
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.update import uses_dropout

# The parts that a result is computed from, the cheapest first. A forward pass becomes a step in the
# same way for every model, and a step takes twice as long to trace.
FORWARD_ONLY = ("initial state", "forward", "data")
ALL_PARTS = ("data", "train step", "eval step", "initial state")


class Computation:
    """Everything that a config's results are computed from, in parts that are built on demand."""

    def __init__(self, config):
        self.config, self._digests = config, {}

    @functools.cached_property
    def inputs(self):
        """(objective, program, batches, constants)."""
        config, dataset, batches = self.config, data.load(self.config), []
        objective = make_objective(config, dataset.tokenizer)
        program = make_program(config, make_model(config), objective, make_mesh(config, jax.devices()[:1]))
        # Two batches of the first epoch and one of a later epoch.
        for start, number in ((0, 2), (1000, 1)):
            with dataset.training_batches(start) as endless:
                batches += [next(endless) for _ in range(number)]
        batches += dataset.evaluation_batches()
        return objective, program, batches, program.constants(config.seed)

    def digest(self, part) -> str:
        """Returns the hash of a part: of the arrays of the data, or of the equations and arrays of a
        traced program.
        """
        if part not in self._digests:
            objective, program, batches, constants = self.inputs
            state, equations, arrays = program.abstract_state, "", jax.tree.leaves((batches, constants))
            if part != "data":
                traced = {
                    "initial state": lambda: program.initial_state.trace(np.int32(0)),
                    "forward": lambda: jax.jit(partial(forward, self.config, objective)).trace(
                        state, batches[0], constants
                    ),
                    "train step": lambda: program.train_step.trace(state, batches[0], constants),
                    "eval step": lambda: program.eval_step.trace(
                        state["params"], state["stats"], batches[0], constants
                    ),
                }[part]()
                equations, arrays = live(traced.jaxpr)
            found = hashlib.sha256(re.sub(r"0x[0-9a-f]+", "", equations).encode())
            for array in arrays:
                found.update(np.ascontiguousarray(array).tobytes())
            self._digests[part] = found.hexdigest()
        return self._digests[part]


COMPUTATIONS = {}


def computation(config) -> Computation:
    """Returns the computation of a config, the same object for equal configs."""
    return COMPUTATIONS.setdefault(configs.identity(config), Computation(config))


def fingerprint(config, forward_only=False) -> str:
    """Returns the digests of a config's parts as one text; with `forward_only` of a forward pass."""
    return " ".join(computation(config).digest(part) for part in (FORWARD_ONLY if forward_only else ALL_PARTS))


def differ(one, other, forward_only=False) -> bool:
    """Returns whether two configs have different fingerprints; parts after the first that differs are
    not built.
    """
    return any(
        computation(one).digest(part) != computation(other).digest(part)
        for part in (FORWARD_ONLY if forward_only else ALL_PARTS)
    )


def forward(config, objective, state, batch, constants):
    """Returns loss, sums and statistics of a training step, before differentiation."""
    stats = refresh(make_model(config), state["stats"], constants["seed"], state["step"])
    key = DropoutKey(jax.random.key(constants["seed"]), constants["hyperparameters"]) if uses_dropout(config) else None
    return objective.sums(
        split(make_model(config))[0],
        state["params"],
        stats,
        batch,
        constants,
        ForwardMode(dropout_key=key, training=True),
    )


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
