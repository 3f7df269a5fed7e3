"""Random configs with two plug-ins are either built or rejected with a one-line error."""

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
def both_plugins(tmp_path_factory):
    """Loads a feed-forward plug-in and an attention plug-in."""
    folder = tmp_path_factory.mktemp("plugins")
    with pytest.MonkeyPatch.context() as patch, unloading():
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        with loaded(folder, POWER):
            plugins.load_plugin(Path(__file__).with_name("retention.py"))
            yield


@pytest.mark.parametrize(
    "examples", [40, pytest.param(500, marks=pytest.mark.slow(reason="five hundred models are made"))]
)
def test_random_configs_with_plugins_are_built_or_rejected(both_plugins, examples):
    outcomes, kinds = collections.Counter(), list(KINDS)

    for number, chosen in zip(range(examples), itertools.cycle(({kinds[0]}, {kinds[1]}, kinds)), strict=False):
        config = random_config(number)
        if config.model.architecture == "elmo":
            continue
        flat = tidied(flatten(configs.override(config, {path: KINDS[path] for path in chosen})))
        with errors_with_config(config, number=number, chosen=chosen):
            built = is_built(configs.from_flat(flat))
        for path in chosen:
            outcomes[path, built and flat.get(path) == KINDS[path]] += 1
    # Both outcomes must occur for each kind.
    assert all(outcomes[path, True] > examples / 80 for path in KINDS), outcomes
    assert all(outcomes[path, False] > examples / 100 for path in KINDS), outcomes


def test_random_configs_draw_plugin_fields(both_plugins):
    assert {"model.ffn.power", "model.attention.retained_weight", "model.attention.mean_kept"} <= set(configs.BY_PATH)
