"""Prints plans for eight simulated devices as JSON, with the figures of a compilation of the whole
program. It is a script because JAX fixes the number of devices when it starts.
"""

import json
import sys

import jax

from zoo import config as configs
from zoo.cli.plan_resources import as_json, as_lines
from zoo.nested import unflatten
from zoo.resources.abstract_run import abstract_program, lowered_step
from zoo.resources.compiled_program import CompiledProgram
from zoo.resources.resource_plan import config_for, make_plan


def plan_and_compilation(fields: dict, device: str | None) -> dict:
    config = configs.resolve(unflatten(fields))
    plan = make_plan(config, device)
    found = {"plan": as_json(plan), "lines": as_lines(plan)}
    if device is None:
        compiled = lowered_step(config_for(config, None), abstract_program(config)).compile()
        wire = {}
        for each in CompiledProgram(compiled.as_text()).collectives():
            wire[each.kind] = wire.get(each.kind, 0) + each.wire_bytes
        sizes = compiled.memory_analysis()
        found |= {"wire": wire, "memory": sizes.argument_size_in_bytes + sizes.temp_size_in_bytes}
    return found


if __name__ == "__main__":
    assert len(jax.devices()) == 8
    print(json.dumps([plan_and_compilation(fields, device) for fields, device in json.loads(sys.argv[1])]))
