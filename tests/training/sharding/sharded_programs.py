"""Compiles train steps for eight simulated devices and prints their operations and traffic as JSON.
It runs as a script, because JAX fixes the number of devices at start.
"""

import json
import sys

import jax

from zoo import config as configs
from zoo.nested import unflatten
from zoo.resources.abstract_run import abstract_program, lowered_step
from zoo.resources.compiled_program import CompiledProgram

IN_HASTE = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def measure(fields: dict, devices: int) -> dict:
    """Returns a device's operations, bytes sent by kind of collective, and temporary memory in a
    step.
    """
    config = configs.resolve(unflatten(fields))
    program = abstract_program(config, jax.devices()[:devices])
    compiled = lowered_step(config, program).compile(compiler_options=IN_HASTE)
    found = CompiledProgram(compiled.as_text())
    collectives = found.collectives()
    return {
        "flops": sum(product.flops * product.count for product in found.products()),
        "wire": {
            place: sum(each.wire_bytes for each in collectives if each.in_loop == (place == "loop"))
            for place in ("loop", "outside")
        },
        "by_kind": {
            kind: sum(each.wire_bytes for each in collectives if each.kind == kind)
            for kind in {each.kind for each in collectives}
        },
        "kinds_in_loops": sorted({each.kind for each in collectives if each.in_loop and each.wire_bytes > 1e4}),
        "head_gradients": sum(each.count for each in collectives if "nd,nv->dv" in each.op_name),
        "temporaries": compiled.memory_analysis().temp_size_in_bytes,
    }


if __name__ == "__main__":
    print(json.dumps([measure(fields, devices) for fields, devices in json.loads(sys.argv[1])]))
