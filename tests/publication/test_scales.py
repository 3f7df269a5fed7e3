"""Effects of one experiment at several sizes: which belong together, whether an order holds, and the
page about them.
"""

import csv
import json

import numpy as np
import pytest
from scipy import stats

from publication.results_index import build
from publication.scales import base_names, effect_change, overall, plain_verdict, scaled_contrasts
from zoo.lab.statistics.paired import mean_difference

NOISE = (-0.01, 0.0, 0.01)
SIZES = {"micro": 60_000, "tiny": 230_000, "medium": 900_000}


def name_of(size):
    return "ffn" if size == "tiny" else f"ffn-{size}"


def archived(size, effect, width=0.025, outcome="holds"):
    """(result.json, rows of contrasts.csv, rows of runs.csv) of an experiment with one contrast."""
    arms = [{"name": arm, "overrides": {}, "parameters": SIZES[size], "mean": 2.0, "sd": 0.1} for arm in "ab"]
    result = {"name": name_of(size), "size": size, "claim": {"id": "F1"}, "arms": arms}
    sides = {"a": "a", "b": "b", "metric a": "eval/loss", "metric b": "eval/loss"}
    bounds = {"a - b": effect, "low": effect - width, "high": effect + width, "pairs": 3}
    judged = {"rule": "superiority: a below b", "outcome": outcome}
    contrasts = [{"contrast": "gates help", "claim": "", **sides, **bounds, **judged}]
    runs = [
        {"arm": arm, "seed": str(seed), "tokens": str(2 * SIZES[size]), "eval/loss": str(2 + (arm == "a") * value)}
        for seed, value in enumerate(effect + noise for noise in NOISE)
        for arm in "ab"
    ]
    return result, contrasts, runs


def scaled(*effects):
    (found,) = scaled_contrasts([archived(size, effect) for size, effect in zip(SIZES, effects, strict=False)])
    return found


@pytest.mark.parametrize(
    ("effects", "order", "trend", "verdict"),
    [
        ((-0.3, -0.2, -0.1), "holds", "shrinks", "supported"),
        ((-0.1, -0.2, -0.3), "holds", "grows", "supported"),
        ((0.1, 0.1, 0.1), "holds", "unclear", "supported"),
        ((-0.3, -0.2, 0.1), "turns", "shrinks", "not supported"),
        ((-0.3, 0.0, -0.3), "undecided", "unclear", "undecided"),
        # Sizes below the smallest one with an order do not count.
        ((0.0, -0.2, -0.2), "holds", "grows", "supported"),
        ((0.0, 0.0, -0.2), "no order", "grows", "undecided"),
        ((-0.2, -0.2), "too few sizes", "unclear", "undecided"),
        ((-0.2, 0.2), "turns", "shrinks", "not supported"),
    ],
)
def test_an_order_holds_if_all_larger_sizes_have_it(effects, order, trend, verdict):
    found = scaled(*effects)
    assert [effect.size for effect in found.effects] == list(SIZES)[: len(effects)]
    assert [effect.difference.mean for effect in found.effects] == pytest.approx(effects)
    assert (found.order, found.trend, overall([found])) == (order, trend, verdict)


def test_sizes_off_the_ladder_are_no_steps_of_it(monkeypatch):
    monkeypatch.setitem(SIZES, "rung2", SIZES["medium"])
    (found,) = scaled_contrasts([archived(size, -0.2) for size in SIZES])
    assert [effect.size for effect in found.effects] == ["micro", "tiny", "medium"]


def test_the_order_is_that_of_the_archived_intervals():
    # Wide intervals of looks and tuning leave no order where plain ones have a turn.
    found = scaled_contrasts([archived("micro", -0.03, 0.04), archived("tiny", 0.05), archived("medium", 0.1)])
    assert (found[0].order, found[0].plain_order) == ("holds", "turns")
    assert (overall(found), plain_verdict(found)) == ("supported", "not supported")


def test_sizes_at_which_nothing_can_be_judged_do_not_count():
    sizes = [archived(size, effect) for size, effect in (("micro", -0.3), ("tiny", -0.2))]
    turned = archived("medium", 0.1, outcome="not tuned")
    (found,) = scaled_contrasts([*sizes, turned])
    assert (found.order, found.plain_order) == ("too few sizes", "turns")
    assert (overall([found]), plain_verdict([found])) == ("undecided", "not supported")
    assert found.change.mean == pytest.approx(-0.1)
    silent = scaled_contrasts([sizes[0], archived("tiny", -0.2, outcome="not testable"), turned])
    assert (silent[0].order, overall(silent)) == ("not judged", "not testable")
    # Where fewer than two sizes count, the change is that over all of them.
    assert silent[0].change.mean == pytest.approx(-0.4)


def test_sizes_of_one_experiment_are_grouped():
    names = ("ffn", "ffn-micro", "muon-medium", "norm-kind")
    results = [{"name": name, "size": name.rpartition("-")[2] if "-m" in name else "tiny"} for name in names]
    # Muon has no result without a size; "kind" is no size.
    assert base_names(results) == {"ffn": "ffn", "ffn-micro": "ffn"}


def test_the_change_has_the_interval_of_welch():
    small, large = (0.1, 0.3, 0.2, 0.4), (0.6, 0.5, 0.9)
    found = effect_change(*(mean_difference(dict(enumerate(values))) for values in (small, large)), -1)
    welch = stats.ttest_ind(small, large, equal_var=False)
    bounds = welch.confidence_interval(0.95)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (np.mean(small) - np.mean(large), bounds.low, bounds.high)
    )
    assert found.p == pytest.approx(welch.pvalue)


def test_the_page_of_scales_is_written_with_the_index(tmp_path):
    for size, effect in zip(SIZES, (-0.3, -0.2, -0.1), strict=True):
        result, contrasts, runs = archived(size, effect)
        texts = {
            "question": "Which?",
            "metric": "eval/loss",
            "unit": " nats",
            "verdict": "supported",
            "paragraph": "P.",
        }
        lists = {"seeds": [0, 1, 2], "expected": [], "warnings": [], "tables": [], "pictures": []}
        claim = {"claim": {"id": "F1", "statement": "s", "source": "t"}}
        (folder := tmp_path / name_of(size)).mkdir()
        (folder / "result.json").write_text(json.dumps(result | texts | lists | claim))
        rows = {"contrasts.csv": contrasts, "runs.csv": [run | {"state": "done"} for run in runs]}
        for name, table in rows.items():
            with open(folder / name, "w", newline="") as file:
                writer = csv.DictWriter(file, table[0])
                writer.writeheader()
                writer.writerows(table)
    claims = [
        "id,experiment,statement,source,page,published,direction,limits",
        "F1,,s,t,,,,",
        "S1,,scale,u,,,,Two are few.",
    ]
    (tmp_path / "claims.csv").write_text("\n".join(claims))
    index = build(tmp_path).read_text()
    summary = "orders: 1 (holds 1, turns 0, undecided 0); effects: 1 (shrinks 1, grows 0, unclear 0)"
    assert (
        f"| S1 | scale | u | **supported** | {summary} | 3 sizes (1 experiment) |  | [scales](scales/README.md) |"
        in index
    )
    assert "[Effects at several sizes](scales/README.md)" in index
    # F1 has one row, from the largest size that decided, with the verdicts at the others.
    assert index.count("| F1 |") == 1
    assert "[ffn-medium](ffn-medium/README.md), [tiny](ffn/README.md), [micro](ffn-micro/README.md)" in index
    assert (tmp_path / "ffn-medium/README.md").exists()
    page = (tmp_path / "scales/README.md").read_text()
    assert "| [micro](../ffn-micro/README.md) | 60,000 | 120,000 | −0.300 | −0.325 to −0.275 | holds | 3 |" in page
    assert "| **holds** | shrinks: −0.200 (−0.223 to −0.177) |" in page
    assert "as many steps as before. Two are few.\n" in page
    with open(tmp_path / "scales/scales.csv") as file:
        assert [row["parameters"] for row in csv.DictReader(file)] == ["60000", "230000", "900000"]
    assert (tmp_path / "scales/effects_by_size.png").stat().st_size > 1000
    # A size that does not count is left out, and the others are named.
    path = tmp_path / "ffn-medium/contrasts.csv"
    path.write_text(path.read_text().replace("holds", "not tuned"))
    build(tmp_path)
    shown = (tmp_path / "scales/README.md").read_text()
    assert "| **too few sizes** | shrinks from micro to tiny: −0.100 (−0.123 to −0.077) |" in shown
