"""Arms of equal size: the search for the value of a field that gives it, and what is refused."""

import re
from pathlib import Path

import pytest

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment, Match, levels
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.size_matching import find_matching_value

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
GATED = {"ffn": levels("model.ffn.kind", "gelu", "swiglu")}


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


def test_arms_are_matched_by_a_field():
    base = config.override(config.default(), {"model.ffn.hidden_dim": 512})
    for match, size in (
        (Match("parameters", "model.ffn.hidden_dim"), lambda arm: arm.parameters["total"]),
        (Match("flops", "model.ffn.hidden_dim"), lambda arm: arm.flops_per_token),
    ):
        first, second = make_plan(fake.unrestricted(GATED, base=base, allow=(), match=match)).arms
        assert first.overrides == {"model.ffn.kind": "gelu"}
        # SwiGLU has three matrices where GELU has two.
        assert second.overrides == {
            "model.ffn.kind": "swiglu",
            "model.ffn.hidden_dim": pytest.approx(512 * 2 / 3, rel=0.02),
        }
        assert second.config.model.ffn.hidden_dim == second.overrides["model.ffn.hidden_dim"]
        assert size(second) == pytest.approx(size(first), rel=0.01)


def test_impossible_matches_report_the_nearest_values():
    base = config.override(config.default(), {"model.num_layers": 2, "model.ffn.hidden_dim": 512})
    line, *_ = fake.plan_problems(
        fake.unrestricted(GATED, base=base, allow=(), match=Match("parameters", "model.num_layers"))
    )
    assert re.search(
        r"arm ffn=swiglu: match: model.num_layers does not come within 1%: 1 gives -\d+\.\d% and 2 gives \+\d+\.\d%",
        line,
    )


@pytest.mark.parametrize(
    ("match", "text"),
    [
        (Match("params", "model.num_layers"), "match: 'params' is not one of parameters, flops"),
        (
            Match("flops", "model.ffn.hiden_dim"),
            'match: unknown field model.ffn.hiden_dim (did you mean "model.ffn.hidden_dim"?)',
        ),
        (Match("flops", "model.ffn.kind"), "match: model.ffn.kind is not an integer field"),
        (Match("flops", "model.num_layers"), 'match: model.num_layers is varied by the factor "layers"'),
    ],
)
def test_bad_matches_are_refused(match, text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        fake.unrestricted({"layers": levels("model.num_layers", 1, 2)}, match=match)
