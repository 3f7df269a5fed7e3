"""The search for the value of a field that gives a size."""

import pytest

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.size_matching import find_matching_value


@pytest.mark.parametrize("start", [255, 256, 257, 20])
def test_a_size_that_grows_in_steps_is_matched(start):
    # Gated layers take two thirds of a width, so that some neighbours are equally large.
    def size(width):
        return 400 + 30 * round(2 * width / 3)

    value = find_matching_value(start, size(128), size)
    assert abs(size(value) / size(128) - 1) <= 0.01


def test_a_size_that_does_not_change_is_refused():
    with pytest.raises(ConfigError, match=r"does not come within 1%"):
        find_matching_value(10, 100.0, lambda width: 50.0)


@pytest.mark.parametrize(
    ("match", "allow", "divisor"), [("total_parameters", "flops", 4), ("active_flops", "parameters", 2)]
)
def test_a_mixture_is_matched_by_all_of_its_parameters_or_by_those_that_a_token_uses(match, allow, divisor):
    experts = {"model.ffn.kind": "moe", "model.ffn.experts.number": 4, "model.ffn.experts.kind": "gelu"}
    declared = Experiment(
        name="matched",
        question="Which feed-forward layer?",
        base=config.override(config.default(), {"model.ffn.hidden_dim": 512, "model.ffn.bias": False}),
        factors={"ffn": {"dense": {}, "mixture": experts}},
        allow=(allow,),
        match=f"{match}:model.ffn.hidden_dim",
    )
    plan = make_plan(declared)
    dense, mixture = plan.arms
    # The mixture has four experts, and each token is routed to two of them.
    assert mixture.config.model.ffn.hidden_dim == pytest.approx(512 / divisor, rel=0.03)
    sizes = [(arm.parameters["total"], arm.flops_per_token)[allow == "parameters"] for arm in (dense, mixture)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.01)
    assert mixture.parameters["active"] < mixture.parameters["total"]
    # The width that matching chose is a difference like those that the experiment names.
    (line,) = plan.differences
    assert "model.ffn.hidden_dim" in line.partition(" fields: ")[2].split(", ")
