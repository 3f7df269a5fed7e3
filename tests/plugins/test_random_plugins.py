"""Random configs with two plug-ins: each is built, or refused in plain lines."""

import collections
import itertools
from pathlib import Path

import pytest

from tests.plugins.plugin_files import POWER, loaded, unloading
from tests.support.random_configs import errors_with_config, is_built, random_config, tidied
from zoo import config as configs
from zoo.config import plugins
from zoo.nested import flatten

KINDS = {"model.attention.kind": "retention", "model.ffn.kind": "relu_power"}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A feed-forward layer and an attention of plug-ins."""
    folder = tmp_path_factory.mktemp("plugins")
    with pytest.MonkeyPatch.context() as patch, unloading():
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        with loaded(folder, POWER):
            plugins.load_plugin(Path(__file__).with_name("retention.py"))
            yield


@pytest.mark.parametrize("examples", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_a_random_config_with_plugins_is_built_or_refused(both, examples):
    seen, kinds = collections.Counter(), list(KINDS)

    for number, chosen in zip(range(examples), itertools.cycle(({kinds[0]}, {kinds[1]}, kinds)), strict=False):
        config = random_config(number)
        if config.model.architecture == "elmo":
            continue
        flat = tidied(flatten(configs.override(config, {path: KINDS[path] for path in chosen})))
        with errors_with_config(config, number=number, chosen=chosen):
            built = is_built(configs.from_flat(flat))
        for path in chosen:
            seen[path, built and flat.get(path) == KINDS[path]] += 1
    # Each kind must be built and refused at times.
    assert all(seen[path, True] > examples / 80 for path in KINDS), seen
    assert all(seen[path, False] > examples / 100 for path in KINDS), seen


def test_fields_of_plugins_are_among_those_that_are_drawn(both):
    assert {"model.ffn.power", "model.attention.retained_weight", "model.attention.mean_kept"} <= set(configs.BY_PATH)
