"""Router maps of a text, and the agreement of two runs in their routing."""

import shutil

import numpy as np
import pytest

from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo.analysis.expert_agreement import agreement
from zoo.cli.main import main
from zoo.draw import router_maps
from zoo.errors import ConfigError

TEXT = "a river bank"
MIXTURE = {"model__ffn__kind": "moe", "model__ffn__experts__number": 4, "model__num_layers": 2}


def taken(generator, tokens=400, experts=6, per_token=2):
    scores = generator.random((tokens, experts))
    return scores >= np.sort(scores, axis=1)[:, -per_token, None]


def test_runs_whose_experts_are_renamed_agree():
    one = taken(np.random.default_rng(1))
    order = np.array([3, 0, 5, 1, 4, 2])
    found = agreement(one, one[:, order])
    assert found.share == 1
    np.testing.assert_array_equal(order[found.experts], np.arange(6))
    half = one.copy()
    half[:200] = taken(np.random.default_rng(2))[:200]
    half = half[:, order]
    expected = 0.5 + 0.5 * (one[:200] & half[:200][:, found.experts]).sum() / one[:200].sum()
    assert agreement(one, half).share == pytest.approx(expected)


def test_unrelated_runs_agree_as_shuffled_tokens_do():
    found = agreement(*(taken(np.random.default_rng(seed)) for seed in (1, 2)))
    # k / E, and a little more for the best of all permutations.
    assert 1 / 3 < found.by_chance < 0.45
    assert found.share == pytest.approx(found.by_chance, abs=0.04)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("runs") / "run", small(**MIXTURE))


def test_a_map_shows_the_experts_of_each_token_and_layer(run):
    found = router_maps.read_text(run, TEXT)
    gates = router_maps.gates_by_layer(found, run)[""]
    assert list(gates) == ["layer 0", "layer 1"]
    for weights in gates.values():
        assert weights.shape == (len(found.labels[""]), 4)
        assert ((weights > 0).sum(axis=1) == 2).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-6)
    (axes,) = router_maps.map_page(run, TEXT, "latest").axes
    np.testing.assert_array_equal(axes.images[0].get_array()[1], gates["layer 1"].argmax(axis=1))
    first = np.argsort(-gates["layer 0"][0])[:2]
    assert axes.texts[0].get_text() == "\n".join(map(str, first))


def test_a_map_shows_all_experts_of_a_token(tmp_path):
    many = {"model__ffn__experts__number": 12, "model__ffn__experts__per_token": 8, "model__num_layers": 1}
    folder = untrained(tmp_path / "many", small(**MIXTURE | many))
    weights = router_maps.gates_by_layer(router_maps.read_text(folder, TEXT), folder)[""]["layer 0"][0]
    (axes,) = router_maps.map_page(folder, TEXT, "latest").axes
    lines = axes.texts[0].get_text().split("\n")
    assert len(lines) == router_maps.MAX_LINES
    assert [int(number) for line in lines for number in line.split()] == list(np.argsort(-weights)[:8])


def test_agreement_is_drawn_by_layer(run, tmp_path):
    shutil.copytree(run, tmp_path / "same")
    axes = router_maps.agreement_page((run, tmp_path / "same"), TEXT, "latest").axes[0]
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [1, 1])
    assert max(axes.lines[1].get_ydata()) < 1


def test_runs_that_cannot_agree_are_not_compared(run, tmp_path):
    other = untrained(tmp_path / "other", small(**MIXTURE | {"model__ffn__experts__per_token": 3}))
    with pytest.raises(ConfigError, match="send tokens to other numbers of experts"):
        router_maps.agreement_page((run, other), TEXT, "latest")
    assert main(["draw", "experts", str(run), "--step", "7", "--out", str(tmp_path / "loads.png")]) == 2


def test_a_side_that_reads_one_token_has_no_agreement(tmp_path):
    sides = {"model__architecture": "encoder_decoder", "objective__kind": "span"}
    runs = [untrained(tmp_path / str(seed), small(**MIXTURE | sides, seed=seed)) for seed in (0, 1)]
    (axes,) = router_maps.agreement_page(tuple(runs), TEXT, "latest").axes
    assert axes.get_title() == "encoder agreement of routing"


def test_a_run_without_experts_is_refused(tmp_path):
    dense = untrained(tmp_path / "dense", small(model__num_layers=1))
    with pytest.raises(ConfigError, match=r"dense has no experts that tokens choose"):
        router_maps.map_page(dense, TEXT, "latest")
