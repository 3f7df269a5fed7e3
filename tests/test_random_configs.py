"""Thousands of random configs: each is built, or refused in plain lines; none crashes, and those that are built train."""

import collections

import pytest
from hypothesis import HealthCheck, given, settings

from tests.random_configs import random_configs
from zoo import config as configs
from zoo.analysis import cost
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import logical_axes, split

pytestmark = pytest.mark.slow
RANDOM = settings(deadline=None, derandomize=True, database=None,
                  suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large])


def outcome(config):
    """The resolved config, or None where it is refused in plain lines."""
    try:
        resolved = configs.resolve(config)
    except ConfigError as error:
        problems = error.problems
    else:
        assert configs.resolve(resolved) == resolved
        return resolved
    assert problems
    assert all("\n" not in problem and 10 < len(problem) < 400 for problem in problems), problems
    return None


@pytest.mark.parametrize(("tidy", "examples"), [(True, 1500), (False, 500)])
def test_a_random_config_is_built_or_refused(tidy, examples):
    seen = collections.Counter()

    @settings(RANDOM, max_examples=examples)
    @given(random_configs(tidy=tidy))
    def check(config):
        resolved = outcome(config)
        seen[resolved is not None] += 1
        if resolved is None:
            return
        model = make_model(resolved)
        params = split(model)[1]
        assert set(params) == set(logical_axes(model))
        counted = cost.summary(resolved)
        assert counted.flops_per_token > 0
        assert sum(counted.blocks.values()) == counted.parameters["total"]

    check()
    # Neither must be rare: a test of refusals alone would show nothing of what is built.
    assert seen[True] > examples / 5
    assert seen[False] > examples / 20
