"""Every field of the config changes what is computed, or is refused, or is on the short list of what changes only where and how.

A knob that does nothing is the worst defect of a laboratory of ablations. What is compared is the traced program of a training step
(its equations, constants and shapes), that of the initial state, and the batches: all that a result comes from.
"""

import hashlib
import re

import jax
import numpy as np
import pytest

from zoo import config as configs
from zoo import data
from zoo.errors import ConfigError
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.run import resolve_with_vocabulary
from zoo.training.step import make_program

# Fields that are read elsewhere than in the program and the data, with the test that shows their effect.
READ_BY_THE_LOOP = {
    "training.log_every": "tests/training/test_run.py::test_how_often_it_reports_is_no_other_run",
    "training.eval_every": "tests/training/test_run.py::test_what_a_run_leaves_behind",
    "training.checkpoint_every": "tests/training/test_run.py::test_what_a_run_leaves_behind",
    "training.keep_checkpoints": "tests/training/test_checkpoint.py::test_newest_and_best_are_kept",
    "training.steps": "tests/training/test_run.py::test_what_a_run_leaves_behind",
    "training.eval_lengths": "tests/training/test_mesh.py::test_eight_devices_give_the_curve_of_one",
    "mesh.data": "tests/training/test_mesh.py::test_a_mesh_that_does_not_fit_is_refused_by_name",
    "mesh.fsdp": "tests/training/test_mesh.py::test_eight_devices_give_the_curve_of_one",
    "mesh.tensor": "tests/training/test_mesh.py::test_eight_devices_give_the_curve_of_one",
}
# One choice so far: nothing to change to.
SINGLE = {field.path for field in configs.FIELDS if field.choices and len(field.choices) == 1}

BASE = {"model.dim": 16, "model.num_layers": 2, "data.sequence_length": 16, "data.batch_size": 4, "training.steps": 20,
        "data.document_separator": "\n\n"}
# The value to compare with, where the default will not do for a short text.
BEFORE = {"data.tokenizer.vocab_size": 270}
# What else must be set for a field to be read at all.
NEEDS = {
    "model.position.theta": {"model.position.kind": "rope"},
    "model.position.fraction": {"model.position.kind": "rope"},
    "model.position.layout": {"model.position.kind": "rope"},
    "model.ffn.match_parameters": {"model.ffn.kind": "swiglu"},
    "data.tokenizer.vocab_size": {"data.tokenizer.kind": "bpe"},
    "schedule.final_fraction": {"schedule.kind": "cosine"},
    "schedule.decay_fraction": {"schedule.kind": "wsd"},
}
OTHER = {
    "model.vocab_size": 300, "model.position.max_length": 32, "model.attention.num_kv_heads": 2, "model.attention.head_dim": 8,
    "model.attention.scale": 0.7, "model.attention.kernel": "xla", "model.ffn.hidden_dim": 40, "model.init.embedding_std": 0.5,
    "objective.chunk_tokens": 16, "data.document_separator": "e", "data.validation_fraction": 0.3, "model.position.fraction": 0.5,
    "data.tokenizer.vocab_size": 280, "data.tokenizer.kind": "characters", "training.accumulation_steps": 2,
    "training.eval_batches": 1, "schedule.warmup_steps": 5,
    "data.sequence_length": 8, "optimizer.clip_norm": 1e-3, "model.attention.window": 3,
}


def constants_of(closed):
    """Every array that a traced program and the programs inside it hold."""
    yield from closed.consts
    for equation in closed.jaxpr.eqns:
        for value in jax.tree.leaves(equation.params, is_leaf=lambda node: hasattr(node, "consts")):
            if hasattr(value, "consts"):
                yield from constants_of(value)


def fingerprint(config) -> str:
    """Hash of everything that a result of this config is computed from."""
    dataset = data.load(config)
    objective = make_objective(config, dataset.tokenizer)
    program = make_program(config, objective, make_mesh(config, jax.devices()[:1]))
    with dataset.training_batches() as endless:
        batches = [next(endless) for _ in range(2)]
    batches += dataset.evaluation_batches()
    constants = program.constants(config.seed)
    state = program.abstract_state
    programs = [
        program.initial_state.trace(np.int32(0)),
        program.train_step.trace(state, batches[0], constants),
        program.eval_step.trace(state["params"], state["stats"], batches[0], constants),
    ]
    digest = hashlib.sha256()
    inside = [constant for traced in programs for constant in constants_of(traced.jaxpr)]
    for array in [*jax.tree.leaves(batches), *inside, *jax.tree.leaves(constants)]:
        digest.update(np.ascontiguousarray(array).tobytes())
    for traced in programs:
        digest.update(re.sub(r"0x[0-9a-f]+", "", str(traced.jaxpr)).encode())
    return digest.hexdigest()


def other_value(field):
    """A valid value that is not the default's."""
    if field.path in OTHER:
        return OTHER[field.path]
    if field.choices:
        return next(name for name in reversed(field.choices) if name != field.default)
    if field.kind is bool:
        return not field.default
    if field.kind is int:
        return BASE.get(field.path, field.default) * 2 or 3
    return field.default * 0.5 or 0.25


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(f"Line {i} tells of {i * i} sheep and {i % 7} wolves that never met." for i in range(60)))
    return path


@pytest.fixture
def resolve(text):
    return lambda changes: resolve_with_vocabulary(configs.override(configs.default(), {"data.source": f"text:{text}"} | BASE | changes))


TESTED = [field for field in configs.FIELDS if field.path not in {*READ_BY_THE_LOOP, *SINGLE, "data.source"}]


@pytest.mark.parametrize("field", TESTED, ids=lambda field: field.path)
def test_a_field_changes_the_result(field, resolve):
    needs = NEEDS.get(field.path, {})
    changed = resolve({**needs, field.path: other_value(field)})
    before = resolve({**needs, field.path: BEFORE.get(field.path, field.default)} if field.path not in BASE else needs)
    assert configs.flatten(changed)[field.path] != configs.flatten(before)[field.path]
    assert fingerprint(changed) != fingerprint(before)


def test_the_fingerprint_itself_is_stable(resolve):
    assert fingerprint(resolve({})) == fingerprint(resolve({}))


@pytest.mark.parametrize("field", [field for field in configs.FIELDS if field.when], ids=lambda field: field.path)
def test_a_field_that_nothing_reads_is_refused(field, resolve):
    path, values = field.when
    elsewhere = next(name for name in configs.BY_PATH[path].choices if name not in values)
    with pytest.raises(ConfigError, match="no effect"):
        resolve({path: elsewhere, field.path: other_value(field)})


def test_the_lists_name_fields_that_exist():
    assert set(READ_BY_THE_LOOP) | set(NEEDS) | set(OTHER) <= set(configs.BY_PATH)
    assert set(configs.NOT_RESULT_RELEVANT) <= set(READ_BY_THE_LOOP)
