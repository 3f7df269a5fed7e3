"""Every kind of layer, objective and optimizer, in a train step compiled for TPUs; some for GPUs."""

import functools

import jax
import numpy as np
import pytest

from tests.resources.test_target_devices import has_compiler_for
from tests.support.building import TINY, TINY_ELMO
from zoo import config as configs
from zoo.config.kinds import KIND_TABLES
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.resources.abstract_run import PlaceholderTokenizer, abstract_batch, abstract_program, lowered_step
from zoo.resources.compiled_program import CompiledProgram
from zoo.resources.resource_plan import config_for, make_plan
from zoo.resources.target_devices import compile_for, target_devices
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.variants.variant import BASELINES, of_kind

SIZES = TINY | {
    "model.dim": 64, "model.ffn.hidden_dim": 128, "data.sequence_length": 64, "data.batch_size": 8,
    "model.dtype": "bfloat16", "model.scan_layers": True, "mesh.fsdp": 2,
}  # fmt: skip
BASES = {
    "decoder": SIZES,
    "encoder": SIZES | {"model.architecture": "encoder", "objective.kind": "masked"},
    "encoder_decoder": SIZES | {"model.architecture": "encoder_decoder", "objective.kind": "prefix"},
    "elmo": {path: value for path, value in SIZES.items() if path != "model.scan_layers"} | TINY_ELMO,
}
TABLES = (
    "objective.kind", "model.attention.kind", "model.norm.placement", "model.position.kind", "model.norm.kind",
    "model.ffn.kind", "model.convolution.kind", "optimizer.kind", "schedule.kind",
)  # fmt: skip
PARTS = 8
B, T = SIZES["data.batch_size"], SIZES["data.sequence_length"]
# Batches whose shape depends on the data, at one size: (shape, type).
OTHER_BATCHES = {
    "classification": {"tokens": (B, T), "labels": (B,)},
    "regression": {"tokens": (B, T), "labels": (B,)},
    "tagging": {"tokens": (B, T), "labels": (B, T)},
    "extraction": {"tokens": (B, T), "starts": (B,), "ends": (B,), "context": (B, 2)},
}


def resolved(chosen):
    base = BASES[chosen.get("model.architecture", "decoder")]
    if chosen.get("model.ffn.kind") == "none":
        base = {path: value for path, value in base.items() if path != "model.ffn.hidden_dim"}
    if chosen.get("model.attention.kind") in configs.BY_PATH["model.attention.chunk_tokens"].when[1]:
        # Rows of several chunks, from which a state goes to the next.
        base = base | {"model.attention.chunk_tokens": 16}
    return configs.resolve(configs.override(configs.default(), base | chosen))


def is_allowed(chosen):
    try:
        resolved(chosen)
    except ConfigError:
        return False
    return True


@functools.cache
def combinations():
    """Returns the fewest configs found that have every kind: each kind joins the first that lacks a
    choice of its table and that can be combined with it.
    """
    found = []
    for path in TABLES:
        taken = []
        for name, kind in KIND_TABLES[path].by_name.items():
            variant = of_kind(kind) if kind.description else None
            chosen = {path: name} | (dict(variant.changes) if variant else {})
            if path == "objective.kind":
                chosen = {"model.architecture": "decoder"} | BASELINES[variant.baseline] | chosen
            for number, other in enumerate(found):
                fits = all(other.get(field, value) == value for field, value in chosen.items())
                if number not in taken and fits and is_allowed(other | chosen):
                    break
            else:
                number, other = len(found), {}
                found.append({})
            found[number] = other | chosen
            taken.append(number)
    return found


def step_for(config, kind, devices):
    """Returns the text of the train step that is compiled for a kind of devices."""
    targets = target_devices(kind, devices)
    objective = make_objective(config, PlaceholderTokenizer(config.model.vocab_size))
    program = make_program(config, make_model(config), objective, make_mesh(config, targets))
    shapes = OTHER_BATCHES.get(config.objective.kind)
    of_type = np.float32 if config.objective.kind == "regression" else np.int32
    batch = (
        abstract_batch(config)
        if shapes is None
        else {
            name: jax.ShapeDtypeStruct(shape, of_type if name == "labels" else np.int32)
            for name, shape in shapes.items()
        }
    )
    lowered = program.train_step.lower(program.abstract_state, batch, program.constants.abstract())
    return compile_for(targets[0].platform, lowered).as_text()


def failures(chosen, kind):
    """Yields why configs do not compile for four devices of a kind."""
    for each in chosen:
        try:
            sent = CompiledProgram(step_for(resolved(each), kind, 4)).collectives()
        except Exception as error:
            yield f"{each}: {type(error).__name__}: {str(error)[:500]}"
            continue
        if not any(collective.wire_bytes for collective in sent):
            yield f"{each}: devices send each other nothing"


def test_every_kind_is_part_of_a_combination():
    for path in TABLES:
        flat = [configs.to_plain(resolved(each)) for each in combinations()]
        section, *names = path.split(".")
        assert {functools.reduce(dict.__getitem__, names, one[section]) for one in flat} >= {*KIND_TABLES[path].by_name}


@pytest.mark.aot(reason="every kind is compiled for TPUs")
@has_compiler_for("v5e")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_kind_compiles_for_tpus(part):
    assert list(failures(combinations()[part::PARTS], "v5e")) == []


DEEP = {"model.num_layers": 6, "data.batch_size": 16}
PLANNED = {
    "unrolled": DEEP | {"model.scan_layers": False},
    "scanned": DEEP,
    "in parts": DEEP | {"training.microbatch_size": 4},
    "recomputed": DEEP | {"model.remat": "full"},
    "both sides": {"model.architecture": "encoder_decoder", "objective.kind": "prefix"},
}


@pytest.mark.aot(reason="plans are compared with the compiler's own sizes")
@has_compiler_for("v5e")
@pytest.mark.parametrize("name", PLANNED)
def test_plans_name_the_memory_of_the_compiled_program(name):
    """One device of the process stands for one TPU; deep unrolled stacks are extended."""
    config = config_for(resolved(PLANNED[name] | {"mesh.fsdp": 1}), "v5e")
    program = abstract_program(config, target_devices("v5e", 1))
    peak = compile_for("tpu", lowered_step(config, program)).memory_analysis().peak_memory_in_bytes
    plan = make_plan(config, "v5e")
    assert plan.simulated == ""
    assert plan.memory == pytest.approx(peak, rel=0.15 if name == "unrolled" else 1e-6)


@pytest.mark.aot(reason="a sample of the kinds is compiled for GPUs")
@has_compiler_for("h100")
def test_a_sample_compiles_for_gpus():
    assert list(failures(combinations()[:3], "h100")) == []
