"""Programs that a process keeps from one run to the next."""

import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig, program_key
from zoo.nested import flatten
from zoo.objectives import Objective
from zoo.training.startup import Loaded
from zoo.training.step import Program, make_program

# The least recently used program is dropped first.
MAX_PROGRAMS = 8


class ProgramCache:
    """Gives runs that differ in nothing that is compiled the same program."""

    def __init__(self):
        self._programs: OrderedDict[Any, Program] = OrderedDict()

    def program(self, config: ResolvedConfig, loaded: Loaded) -> Program:
        """Returns the program of a run, made now or for an earlier run."""
        if loaded.objective.teacher is not None:
            # It holds the teacher's weights, which are read again for each run.
            return _make(config, loaded)
        key = program_key(flatten(config)), _digest(loaded.objective), loaded.mesh, loaded.rows_from
        program = self._programs.pop(key, None)
        if program is None:
            program = _make(config, loaded)
        self._programs[key] = program
        while len(self._programs) > MAX_PROGRAMS:
            self._programs.popitem(last=False)
        return program


def _make(config: ResolvedConfig, loaded: Loaded) -> Program:
    return make_program(config, loaded.model, loaded.objective, loaded.mesh, loaded.rows_from)


def _digest(objective: Objective) -> str:
    """Returns a hash of the arrays of an objective, which depend on the tokenizer."""
    found = hashlib.sha256()
    for name, array in sorted(objective.constants.items()):
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
