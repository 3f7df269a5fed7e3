"""Thousands of random configs: each is built or refused in plain lines, and those that are built
train.
"""

import collections
import itertools

import jax
import numpy as np
import pytest

from tests.support.building import quick_compilation
from tests.support.random_configs import drawable, errors_with_config, is_built, random_config
from tests.support.sample_data import pairs, questions, table, tagged
from zoo import config as configs
from zoo import data
from zoo.data import resolve_with_data
from zoo.errors import ConfigError, DataError
from zoo.models.architectures import make_model
from zoo.models.parameter_groups import group_sizes
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

pytestmark = [pytest.mark.slow(reason="thousands of random configs"), pytest.mark.timeout(3600)]


def changes_of(config):
    """Returns (path, choice) or (path, None) of each changed field, in the form of `drawable`."""
    flat = flatten(config)
    return {
        (path, value if field.choices else None)
        for path, field in configs.BY_PATH.items()
        if (value := flat[path]) != field.default
    }


@pytest.mark.parametrize(("tidy", "examples"), [(True, 1500), (False, 500)])
def test_a_random_config_is_built_or_refused(tidy, examples):
    outcomes, changed = collections.Counter(), set()
    for number in range(examples):
        config = random_config(number, tidy=tidy)
        with errors_with_config(config, number=number, tidy=tidy):
            built = is_built(config)
        outcomes[built] += 1
        if built:
            changed |= changes_of(config)
    # Neither outcome may be rare, or the test would hardly cover it.
    assert outcomes[True] > examples / 5
    assert outcomes[False] > examples / 20
    picked = drawable() if tidy else []
    for missing in set(picked) - changed:
        # Fields that are mostly refused are drawn more often.
        further = range(examples + picked.index(missing), examples + 60 * len(picked), len(picked))
        configs_with = (random_config(number - examples % len(picked), tidy=tidy) for number in further)
        assert any(missing in changes_of(config) and is_built(config) for config in configs_with), missing


def compiled(program, *arguments):
    """Compiles a program quickly and runs it."""
    return program.lower(*arguments).compile(compiler_options=quick_compilation())(*arguments)


# The data of objectives that do not read plain text.
READS = {
    "classification": lambda: {"data.source": table("train")},
    "regression": lambda: {"data.source": table("train"), "data.label_column": "number"},
    "translation": lambda: {"data.source": pairs()},
    "tagging": lambda: {"data.source": tagged()},
    "extraction": lambda: {"data.source": questions()},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(
        "\n\n".join(f"Line {i} tells of {i * i} sheep and {i % 7} wolves that never met." for i in range(40))
    )
    return {"data.source": f"text:{path}"}


TRAINED_CONFIGS = 80


def test_a_random_config_takes_a_step(text, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
    # One device, which takes the whole batch.
    fixed = {"mesh.data": -1, "mesh.fsdp": 1, "mesh.expert": 1, "mesh.tensor": 1}
    trained, objectives = collections.Counter(), collections.Counter()

    # Steps of 37 reach all parts of the config, because successive numbers pick adjacent fields.
    for number in itertools.count(step=37):
        config = random_config(number)
        if {"cudnn", "splash"} & {*flatten(config).values()}:  # They need a GPU and a TPU.
            continue
        with errors_with_config(config, number=number):
            try:
                resolved = resolve_with_data(
                    configs.override(config, fixed | READS.get(config.objective.kind, lambda: text)())
                )
                group_sizes(resolved)
                dataset = data.load(resolved)
            except (ConfigError, DataError):  # A fraction of a short text may be empty.
                continue
            objective = make_objective(resolved, dataset.tokenizer)
            program = make_program(resolved, make_model(resolved), objective, make_mesh(resolved, jax.devices()[:1]))
            with dataset.training_batches() as batches:
                batch, constants = next(batches), program.constants(resolved.seed)
            state = compiled(program.initial_state, np.uint32(resolved.seed))
            state, metrics = compiled(program.train_step, state, batch, constants)
            assert np.isfinite(metrics["loss"])
            assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state["params"]))
        trained[resolved.model.architecture] += 1
        objectives[resolved.objective.kind] += 1
        jax.clear_caches()
        if trained.total() == TRAINED_CONFIGS:
            break
    assert min(trained.values()) > 10
    assert len(trained) == 4
    assert set(objectives) == set(configs.BY_PATH["objective.kind"].choices)
