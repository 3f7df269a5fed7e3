"""The page of open claims: which experiments could decide them next, and what they cost."""

import pytest

from publication.claims_table import read_claims
from publication.larger_sizes import larger_sizes
from publication.open_claims import open_claims, write_open_claims
from publication.sizes import results_by_claim
from tests.support.archives import CLAIM_COLUMNS, archived
from zoo import config
from zoo.models.cost import summary

EXPERIMENT = """
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, {tuning}sized_name

def get_experiment(size="tiny"):
    return Experiment(
        name=sized_name("{name}", size), question="?", base=decoder(size),
        factors={{"norm": levels("model.norm.kind", "layernorm", "rmsnorm")}},
        {tune}
        claim=Claim("{claim}", "a statement", "s"), size=size,
        contrasts=(Contrast("lower", Side({{"norm": "rmsnorm"}}), Side({{"norm": "layernorm"}}), "superiority", 0.0, "so"),),
    )
"""


WITHOUT_RUNGS = """
from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size, levels

SIZES = {{"tiny": {{"training.steps": 10}}, "full": {{"training.steps": 100}}}}

def get_experiment(size="tiny"):
    trained = config.override(config.default(), choose_size(size, SIZES))
    return Experiment(
        name="{name}" if size == "tiny" else f"{name}-{{size}}", question="?",
        base=config.override(trained, {{"training.start_from": "prerequisite:lm", "training.steps": 7}}),
        prerequisites={{"lm": Prerequisite(trained)}},
        factors={{"schedule": levels("schedule.kind", "constant", "cosine")}},
        claim=Claim("{claim}", "a statement", "s"), size=size,
        contrasts=(Contrast("lower", Side({{"schedule": "cosine"}}), Side({{"schedule": "constant"}}), "superiority", 0.0, "so"),),
    )
"""


@pytest.fixture
def folder(tmp_path):
    """Experiment files about A1 to A5, A4 a check and A5 without a setting to fit, and claims.csv."""
    (tmp_path / "experiments").mkdir()
    for claim in ("A1", "A2", "A3", "A4", "A5"):
        tuned = claim != "A5"
        text = EXPERIMENT.format(
            name=claim.lower(), claim=claim, tuning="rates, " * tuned, tune="tune=rates(size)," * tuned
        )
        (tmp_path / f"experiments/{claim.lower()}.py").write_text(text)
    rows = [f"{claim},,statement of {claim},s,,,{way}," for claim, way in (("A1", ""), ("A2", ""), ("A4", "check"))]
    (tmp_path / "claims.csv").write_text("\n".join([CLAIM_COLUMNS, *rows]) + "\n")
    return tmp_path


def found(folder, results):
    return open_claims(folder / "experiments", read_claims(folder), results_by_claim(results))


def test_the_next_size_is_the_one_after_the_last_that_was_fitted(folder):
    assert [(one.claim, one.size) for one in found(folder, [])] == [("A1", "rung1"), ("A2", "rung1"), ("A3", "rung1")]
    decided = archived(folder, "A1", "model.norm.kind", "supported")
    undecided = archived(folder, "A2", "model.norm.kind", "undecided")
    coarse = archived(folder, "A3", "model.norm.kind", "supported", size="tiny", tuned="grid")
    open_now = found(folder, [decided, undecided, coarse])
    assert [(one.claim, one.size, one.seen.verdict) for one in open_now] == [
        ("A2", "rung2", "undecided"),
        ("A3", "rung1", "supported"),
    ]


def test_runs_and_tokens_are_those_of_the_plan(folder):
    one = found(folder, [])[0]
    # In each of two arms: three rates with one seed, four with three of which one run is there, five
    # final runs.
    assert one.runs == 2 * (3 + 4 * 3 - 1 + 5)
    assert one.tokens == 1250 * 32 * 128


def test_the_page_has_a_command_for_each_claim(folder):
    undecided = archived(folder, "A2", "model.norm.kind", "undecided")
    results = [undecided]
    page = write_open_claims(folder / "experiments", read_claims(folder), results_by_claim(results), [], folder)
    rows = [line for line in page.read_text().splitlines() if line.startswith("| A")]
    assert rows[0] == (
        "| A1 statement of A1 | no result | `zoo run experiments/a1.py:rung1 --seeds 5 --population` | 38 | 195 |"
    )
    assert "[undecided](a2-rung1/README.md) at rung1, 5 seeds, tuned by a fit" in rows[1]
    assert "experiments/a2.py:rung2" in rows[1]
    assert rows[2].startswith("| A3 a statement |")


def test_minutes_are_those_at_the_speed_of_archived_populations(folder):
    result = archived(folder, "A1", "model.norm.kind", "supported").result
    result |= {"command": ["zoo", "run", "--population"], "device": {"count": 1, "kind": "GPU"}}
    with open(folder / "a1-rung1/runs.csv", "w") as file:
        rows = [f"{arm},{seed},1e6,{5 if arm == 'x' else 10}" for arm in "xy" for seed in range(5)]
        file.write("\n".join(["arm,seed,tokens,seconds", *rows]))
    undecided = archived(folder, "A2", "model.norm.kind", "undecided")
    results = results_by_claim([undecided])
    page = write_open_claims(folder / "experiments", read_claims(folder), results, [result], folder)
    # 5 million tokens in 5 and in 10 seconds: the median of 1.0 and 0.5 million per second.
    text = " ".join(page.read_text().split())
    assert "on 1 x GPU" in text
    assert "0.8 (from 0.5 to 1.0) at rung1, by 2 arms" in text
    rows = [line for line in page.read_text().splitlines() if line.startswith("| A")]
    minutes = 38 * 1250 * 32 * 128 / 0.75e6 / 60
    assert rows[0].endswith(f"| 38 | 195 | {minutes:.1f} |")
    # Nothing tells how fast rung2 is.
    assert "a2.py:rung2" in rows[1]
    assert rows[1].endswith("|  |")


def test_experiments_without_rungs_are_listed_at_their_next_size(folder):
    (folder / "experiments/o1.py").write_text(WITHOUT_RUNGS.format(name="o1", claim="O1"))
    (folder / "experiments/o2.py").write_text(WITHOUT_RUNGS.format(name="o2", claim="O2"))
    # A verdict at the size of the archive closes O2, whatever was tuned: its file fits nothing.
    decided = archived(folder, "O2", "schedule.kind", "supported", size="full")
    results = results_by_claim([decided])
    (one,) = larger_sizes(folder / "experiments", read_claims(folder), results, seeds=5)
    assert (one.claim, one.size, one.seen) == ("O1", "full", None)
    # Five models that are trained first, and two arms that start from them.
    assert one.runs == 5 + 2 * 5
    resolved = config.resolve(config.default())
    flops_per_step = summary(resolved).flops_per_token * resolved.data.batch_size * resolved.data.sequence_length
    assert one.flops == pytest.approx((5 * 100 + 10 * 7) * flops_per_step)
    page = write_open_claims(folder / "experiments", read_claims(folder), results, [], folder)
    row = next(line for line in page.read_text().splitlines() if line.startswith("| O1"))
    assert row == (
        f"| O1 a statement | no result | `zoo run experiments/o1.py:full --seeds 5` | 15 | {one.flops / 1e15:,.1f} |"
    )
