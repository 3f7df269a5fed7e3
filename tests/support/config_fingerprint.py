"""A fingerprint of everything that a result of a config is computed from: two configs with different
results have different ones.
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

# What a result is computed from, what costs little first. How a forward pass becomes a step is the
# same for every model, and takes twice as long to trace.
FORWARD_ONLY = ("initial state", "forward", "data")
ALL_PARTS = ("data", "train step", "eval step", "initial state")


class Computation:
    """Everything that a result of a config is computed from, in parts that are made when they are
    asked for.
    """

    def __init__(self, config):
        self.config, self._digests = config, {}

    @functools.cached_property
    def inputs(self):
        """(objective, program, batches, constants)."""
        config, dataset, batches = self.config, data.load(self.config), []
        objective = make_objective(config, dataset.tokenizer)
        program = make_program(config, make_model(config), objective, make_mesh(config, jax.devices()[:1]))
        # Two of the first epoch, one of a later one.
        for start, number in ((0, 2), (1000, 1)):
            with dataset.training_batches(start) as endless:
                batches += [next(endless) for _ in range(number)]
        batches += dataset.evaluation_batches()
        return objective, program, batches, program.constants(config.seed)

    def digest(self, part) -> str:
        """Hash of a part: of the arrays of the data, else of the equations of a traced program and the
        arrays that it holds.
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
    """The computation of a config, the same one for the same config."""
    return COMPUTATIONS.setdefault(configs.identity(config), Computation(config))


def fingerprint(config, forward_only=False) -> str:
    """All parts of a config's computation as one text; with `forward_only` those of a forward pass."""
    return " ".join(computation(config).digest(part) for part in (FORWARD_ONLY if forward_only else ALL_PARTS))


def differ(one, other, forward_only=False) -> bool:
    """Whether two configs have different fingerprints; further parts than the first that differs are
    not made.
    """
    return any(
        computation(one).digest(part) != computation(other).digest(part)
        for part in (FORWARD_ONLY if forward_only else ALL_PARTS)
    )


def forward(config, objective, state, batch, constants):
    """Loss, sums and statistics of a step in training, before anything is differentiated."""
    stats = refresh(make_model(config), state["stats"], constants["seed"], state["step"])
    key = DropoutKey(jax.random.key(constants["seed"]), constants["hyperparameters"]) if uses_dropout(config) else None
    return objective.sums(
        split(make_model(config))[0], state["params"], stats, batch, constants, ForwardMode(key, training=True)
    )


def live(closed):
    """(text, constants) of what the results of a traced program depend on: what is computed and
    never used changes nothing.
    """
    jaxpr = closed.jaxpr
    used, kept = {id(variable) for variable in jaxpr.outvars}, []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not used.isdisjoint(map(id, equation.outvars)):
            kept.append(equation)
            used |= set(map(id, equation.invars))
    constants = [value for variable, value in zip(jaxpr.constvars, closed.consts, strict=True) if id(variable) in used]
    inside = [constant for equation in kept for program in programs_of(equation) for constant in constants_of(program)]
    return str(jaxpr.replace(eqns=kept[::-1])), constants + inside


def programs_of(equation):
    """The traced programs that an equation holds, with their constants."""
    return [
        value
        for value in jax.tree.leaves(equation.params, is_leaf=lambda node: hasattr(node, "consts"))
        if hasattr(value, "consts")
    ]


def constants_of(closed):
    """Every array that a traced program and the programs inside it hold."""
    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for program in programs_of(equation):
            yield from constants_of(program)
