"""The page of open claims: which experiments could decide them next, and what they cost."""

import pytest

from publication.claims_table import read_claims
from publication.open_claims import open_claims, other_open_claims
from publication.open_claims_page import write_open_claims
from publication.sizes import results_by_claim
from tests.support.archives import CLAIM_COLUMNS, archived
from zoo import config
from zoo.lab.sizes import decoder
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


def test_a_rung_that_an_experiment_refuses_is_passed_over(folder):
    file = folder / "experiments/a1.py"
    refusal = '    if size == "rung1":\n        raise ConfigError("rung1 is too small")\n    return Experiment('
    file.write_text(
        "from zoo.errors import ConfigError\n" + file.read_text().replace("    return Experiment(", refusal)
    )
    assert [(one.claim, one.size) for one in found(folder, [])] == [("A1", "rung2"), ("A2", "rung1"), ("A3", "rung1")]
    undecided = archived(folder, "A1", "model.norm.kind", "undecided", size="rung2")
    assert [one.size for one in found(folder, [undecided]) if one.claim == "A1"] == ["rung3"]
    others = other_open_claims(folder / "experiments", read_claims(folder), results_by_claim([]))
    assert "A1" not in [one.claim for one in others]


def test_runs_and_flops_are_those_of_the_plan(folder):
    one = found(folder, [])[0]
    # In each of two arms: three rates with one seed, four with three of which one run is there, five
    # final runs.
    assert one.cost.runs == 2 * (3 + 4 * 3 - 1 + 5)
    assert one.cost.flops == pytest.approx(one.cost.runs * run_flops(decoder("rung1")), rel=0.01)


def test_each_of_two_claims_has_the_statement_of_its_rule(folder):
    second = (
        'Contrast("x", Side({"norm": "layernorm"}), Side({"norm": "rmsnorm"}), "superiority", 0.0, "higher", claim="A6"'
    )
    text = (folder / "experiments/a3.py").read_text().replace('"A3"', '"A3, A6"')
    text = text.replace('"so"', f'"lower", claim="A3"), {second}')
    (folder / "experiments/a3.py").write_text(text)
    statements = {one.claim: one.statement for one in found(folder, [])}
    assert (statements["A3"], statements["A6"]) == ("lower", "higher")


def test_the_page_has_a_command_for_each_claim(folder):
    results = results_by_claim([archived(folder, "A2", "model.norm.kind", "undecided")])
    page = write_open_claims(folder / "experiments", read_claims(folder), results, [], folder)
    rows = [line for line in page.read_text().splitlines() if line.startswith("| A")]
    assert rows[0].startswith(
        "| A1 statement of A1 | no result of this experiment | `zoo run experiments/a1.py:rung1 --seeds 5 --population` | 38 |"
    )
    assert "[undecided](a2-rung1/README.md) at rung1, 5 seeds, tuned by a fit" in rows[1]
    assert "experiments/a2.py:rung2" in rows[1]
    assert rows[2].startswith("| A3 a statement |")
    # It fits nothing, and has a table of its own.
    assert rows[3].startswith(
        "| A5 a statement | no result of this experiment | `zoo run experiments/a5.py:rung1 --seeds 5` | 10 |"
    )
    assert page.read_text().index("## Without a rung or without a fit") < page.read_text().index(rows[3])


def test_minutes_are_those_at_the_speed_of_archived_populations(folder):
    result = archived(folder, "A1", "model.norm.kind", "supported").result
    result |= {"command": ["zoo", "run", "--population"], "device": {"count": 1, "kind": "GPU"}}
    with open(folder / "a1-rung1/runs.csv", "w") as file:
        rows = [f"{arm},{seed},1e6,{5 if arm == 'x' else 10}" for arm in "xy" for seed in range(5)]
        file.write("\n".join(["arm,seed,tokens,seconds", *rows]))
    results = results_by_claim([archived(folder, "A2", "model.norm.kind", "undecided")])
    page = write_open_claims(folder / "experiments", read_claims(folder), results, [result], folder)
    # 5 million tokens in 5 and in 10 seconds: the median of 1.0 and 0.5 million per second.
    text = " ".join(page.read_text().split())
    assert "on 1 x GPU" in text
    assert "0.8 million tokens per second at rung1 (from 0.5 to 1.0, 2 arms)" in text
    minutes = {
        line[2:4]: float(line.split("|")[-2]) for line in page.read_text().splitlines() if line.startswith("| A")
    }
    tokens = 1250 * 32 * 128
    assert minutes["A1"] == pytest.approx(38 * tokens / 0.75e6 / 60, abs=0.1)
    # Nothing tells how fast rung2 is, so it has the FLOPs per second of rung1.
    rung1 = run_flops(decoder("rung1")) / tokens
    assert minutes["A2"] == pytest.approx(38 * run_flops(decoder("rung2")) / rung1 / 0.75e6 / 60, rel=0.01)
    assert minutes["A5"] == pytest.approx(10 * tokens / 0.75e6 / 60, abs=0.1)


def test_experiments_without_rungs_are_listed_at_their_next_size(folder):
    (folder / "experiments/o1.py").write_text(WITHOUT_RUNGS.format(name="o1", claim="O1"))
    (folder / "experiments/o2.py").write_text(WITHOUT_RUNGS.format(name="o2", claim="O2"))
    # A verdict at the size of the archive closes O2, whatever was tuned: its file fits nothing.
    results = results_by_claim([archived(folder, "O2", "schedule.kind", "supported", size="full")])
    *_, one = other_open_claims(folder / "experiments", read_claims(folder), results)
    assert (one.claim, one.size, one.seen) == ("O1", "full", None)
    # Five models that are trained first, and two arms that start from them.
    assert one.cost.runs == 5 + 2 * 5
    one_step = run_flops(config.override(config.default(), {"training.steps": 1}))
    assert one.cost.flops == pytest.approx((5 * 100 + 10 * 7) * one_step)


def run_flops(unresolved):
    resolved = config.resolve(unresolved)
    tokens = resolved.training.steps * resolved.data.batch_size * resolved.data.sequence_length
    return summary(resolved).flops_per_token * tokens
