"""Sweeps at several sizes: what `zoo law` reads, estimates, prints, draws and refuses."""

import json
import math
import shutil

import numpy as np
import pytest
from matplotlib.image import imread

from tests.lab.ladders import ARM, BASE, GAINS, LAW, STEPS, size_of, write_sweep
from zoo.cli.main import main
from zoo.cli.sweeps import law as command
from zoo.lab.results.ladder import Ladder, SizedArm, read_ladder
from zoo.lab.results.scaling import scaling
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.statistics.power_law import PowerLaw


@pytest.fixture
def folders(writer):
    return [write_sweep(writer, place) for place in range(3)]


def law(capsys, *words):
    capsys.readouterr()
    code = main(["law", *map(str, words)])
    return code, *capsys.readouterr()


def test_three_sizes_have_laws_slopes_and_times_the_compute(folders):
    found = scaling(read_ladder([load_sweep(folder) for folder in reversed(folders)]))
    baseline, arm = found.arms
    assert [size.rsplit("/")[-1] for size in found.ladder.sizes] == ["rung1", "rung2", "rung3"]
    compute = [one.compute for one in found.ladder.of(BASE)]
    assert compute == [math.prod(size_of(steps)[::2]) for steps in STEPS]
    assert found.target == compute[-1]
    # With three sizes the law passes through the means.
    means = [np.mean(list(one.losses.values())) for one in found.ladder.of(BASE)]
    assert [baseline.law.loss_at(each).value for each in compute] == pytest.approx(means, abs=1e-6)
    assert baseline.loss.low < LAW.loss(256) < baseline.loss.high
    assert (baseline.slope, baseline.factor) == (None, None)
    assert arm.slope.slope.value == pytest.approx(0.04 / math.log10(256), abs=0.004)
    assert (arm.slope.trend, arm.slope.first.value < arm.slope.last.value < 0) == ("shrinks", True)
    own = PowerLaw(LAW.asymptote, LAW.loss(256) - LAW.asymptote, LAW.exponent)
    assert arm.factor.factor.low < own.ratio(GAINS[-1]) < arm.factor.factor.high
    assert list(found.notes) == ["with 3 sizes the law passes through the means, so that nothing tests its form"]


def test_the_table_and_the_record_agree(folders, capsys, tmp_path):
    code, out, err = law(capsys, *folders, "--target", "10x", "--figure", tmp_path / "laws.png")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "eval/loss against training compute, with 95 % intervals"
    assert [line.split(":")[0].rsplit("/")[-1] for line in lines[1:4]] == ["rung1", "rung2", "rung3"]
    assert imread(tmp_path / "laws.png")[..., :3].std() > 0.01
    code, record, _ = law(capsys, *folders, "--target", "10x", "--json")
    record = json.loads(record)
    assert record["target"] == 10 * record["sizes"][-1]["compute"]
    assert any(note.startswith("extrapolated: the target lies 10 times beyond") for note in record["notes"])
    base, arm = record["arms"]
    assert base["times_the_compute"] is None
    assert arm["times_the_compute"]["text"] in out
    assert f"{base['loss']['value']:.2f}" in next(line for line in lines if line.startswith(BASE))
    assert arm["slope"]["effect"] == "shrinks"
    assert base["law"]["exponent"]["low"] < LAW.exponent < base["law"]["exponent"]["high"]


def test_options_change_the_estimates(folders, capsys):
    def arms(*words):
        code, out, err = law(capsys, *folders, "--json", *words)
        assert code == 0, err
        return {arm["arm"]: arm for arm in json.loads(out)["arms"]}

    plain, known = arms(), arms("--asymptote", "0.8")
    assert known[BASE]["law"]["asymptote"] == {"value": 0.8, "low": None, "high": None}
    width = [each[BASE]["law"]["exponent"]["high"] - each[BASE]["law"]["exponent"]["low"] for each in (plain, known)]
    assert width[1] < width[0] / 2
    turned = arms("--baseline", ARM)
    assert turned[BASE]["slope"]["per_tenfold"]["value"] == pytest.approx(-plain[ARM]["slope"]["per_tenfold"]["value"])
    assert turned[BASE]["times_the_compute"]["value"] < 1 < plain[ARM]["times_the_compute"]["value"]
    assert arms("--target", "100x", "--extrapolate")[BASE]["loss"]["value"] < plain[BASE]["loss"]["value"]


def test_two_sizes_have_a_slope_and_no_law(folders, capsys):
    code, out, _ = law(capsys, *folders[:2])
    assert code == 0
    assert "note: a law of 3 parameters needs 3 sizes, not 2" in out
    baseline, arm = (line.split() for line in out.splitlines() if line.startswith("optimizer="))
    assert baseline == [BASE, "–", "–", "–", "baseline"]
    assert arm[1:4] == ["–", "–", "–"]
    record = json.loads(law(capsys, *folders[:2], "--json")[1])["arms"][1]
    assert (record["law"], record["loss"], record["times_the_compute"]["basis"]) == (None, None, "two sizes")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "one size tells nothing about others"),
        (("rung2", "--target", "far"), "--target far: expected operations, such as 1e18, or a multiple, such as 10x"),
        (("rung2", "--target", "0x"), "--target 0x: expected operations"),
        (("rung2", "--target", "17x"), "lies 17 times beyond the sizes"),
        (("rung2", "--baseline", "sgd"), "--baseline sgd: no arm has this name"),
        (("rung2", "--asymptote", "9"), "an asymptote of 9 does not lie between 0 and the lowest loss"),
        (("rung2", "--figure", "laws.txt"), "laws.txt"),
        (("rung1",), "the baseline has the same compute and parameters in both"),
        (("news",), "was trained on text:news.txt"),
        (("other",), "has none of the arms"),
        (("score",), "judges eval/bits_per_byte"),
        (("nothing",), "there is no such folder"),
    ],
)
def test_what_cannot_be_fitted_is_one_line(writer, folders, capsys, words, part):
    if words and words[0] in ("news", "other", "score"):
        changes = {
            "news": {"corpus": {"experiment": "rung2", "source": "text:news.txt"}},
            "other": {"arms": ("a=1", "a=2")},
            "score": {"metric": "eval/bits_per_byte"},
        }[words[0]]
        write_sweep(writer, 1, name=words[0], **changes)
    names = [
        str(writer.root / word) if not word.startswith("-") and not place else word for place, word in enumerate(words)
    ]
    code, out, err = law(capsys, folders[0], *names)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert part in err


def test_a_score_has_no_law(writer, capsys):
    found = [write_sweep(writer, place, metric="eval/accuracy") for place in range(2)]
    assert "eval/accuracy is no loss of evaluation" in law(capsys, *found)[2]


def test_an_arm_with_more_operations_is_worth_less_compute(writer, folders):
    factor = scaling(read_ladder([load_sweep(folder) for folder in folders])).arms[1].factor.factor.value
    for folder in folders:
        for path in folder.glob(f"{ARM}-*/meta.json"):
            meta = json.loads(path.read_text())
            path.write_text(json.dumps(meta | {"flops_per_token": meta["flops_per_token"] * 1.25}))
    found = scaling(read_ladder([load_sweep(folder) for folder in folders]))
    assert found.arms[1].factor.factor.value == pytest.approx(factor / 1.25)


def test_seeds_and_sizes_that_are_missing_are_named(folders, capsys):
    for path in (folders[0] / f"{ARM}-1", *folders[2].glob(f"{ARM}-*")):
        shutil.rmtree(path)
    code, out, _ = law(capsys, *folders)
    assert code == 0
    assert f"note: {ARM} has no finished run in {folders[2]}" in out
    assert f"note: {ARM} has 2 of 3 seeds in {folders[0]}" in out
    for path in folders[1].glob(f"{BASE}-*"):
        shutil.rmtree(path)
    code, _, err = law(capsys, *folders)
    assert (code, err.splitlines()) == (2, [f"error: {folders[1]}: no finished run of the baseline {BASE}"])


def test_tokens_that_do_not_follow_parameters_allow_no_law_of_compute(writer, capsys):
    found = [write_sweep(writer, place, tokens_per_parameter=3.0**-place) for place in range(3)]
    code, out, _ = law(capsys, *found)
    assert code == 0
    assert "note: tokens for each parameter differ between the sizes" in out
    assert "needs 6 pairs of parameters and tokens, not 3" in out
    arm = next(line for line in out.splitlines() if line.startswith(ARM))
    assert arm.split()[1:4] == ["–", "–", "–"]
    assert arm.split()[-1] == "–"


def test_losses_that_rise_have_no_law(writer, capsys):
    found = [write_sweep(writer, place, name=f"size{place}") for place in range(3)]
    for place, folder in enumerate(found):
        for path in folder.glob("*/metrics.jsonl"):
            row = {
                "step": STEPS[place],
                "tokens": size_of(STEPS[place])[0],
                "eval/loss": 1.0 + place + 0.1 * len(path.parts),
            }
            path.write_text(json.dumps(row) + "\n")
    code, out, _ = law(capsys, *found)
    assert code == 0
    assert f"note: {BASE}: its losses do not fall with compute, so that it has no law" in out
    assert f"note: the losses of {BASE} do not fall with compute, so that nothing is worth a multiple of it" in out


def test_longer_rows_are_a_caveat_and_single_seeds_have_no_interval(writer, capsys):
    found = [write_sweep(writer, place, seeds=(0,)) for place in range(3)]
    for path in found[2].glob("*/config.json"):
        config = json.loads(path.read_text())
        path.write_text(json.dumps(config | {"data": config["data"] | {"sequence_length": 256}}))
    code, out, _ = law(capsys, *found)
    assert code == 0
    assert "note: rows have 128, 256 tokens at different sizes" in out
    assert "a size with one seed tells no noise" in out
    assert " to " not in next(line for line in out.splitlines() if line.startswith(ARM))


def test_intervals_of_tuned_arms_say_what_they_leave_out(writer, folders, capsys):
    tuned = write_sweep(writer, 2, name="tuned", tuning={"field": "optimizer.learning_rate", "values": [0.1, 0.2]})
    said = "note: arms were tuned, and the intervals leave out what tuning does not settle"
    assert said in law(capsys, *folders[:2], tuned)[1]
    assert said not in law(capsys, *folders)[1]


def test_sizes_with_other_tokens_for_each_parameter_have_the_law_of_both(capsys):
    def arm(n, d, gain):
        loss = 1.69 + 406.4 * n**-0.34 + 410.7 * d**-0.28 + gain
        return SizedArm(6 * n * d, n, d, {seed: loss + 0.001 * each for seed, each in enumerate((-1, 0, 1))}, 3)

    points = sorted(((n, n * r) for n in (1e8, 4e8, 1.6e9) for r in (5, 20, 80)), key=math.prod)
    arms = {name: tuple(arm(n, d, gain) for n, d in points) for name, gain in ((BASE, 0.0), (ARM, -0.02))}
    ladder = Ladder("eval/loss", " nats", tuple(map(str, points)), BASE, arms, {BASE: BASE, ARM: ARM}, ())
    largest = 6 * math.prod(points[-1])
    found = scaling(ladder, 4 * largest)
    baseline, other = found.arms
    assert (baseline.law, other.factor) == (None, None)
    assert baseline.size_token_law.values["alpha"] == pytest.approx(0.34, rel=1e-3)
    # Parameters and tokens are twice those of the largest size.
    n, d = (2 * each for each in points[-1])
    assert baseline.loss.value == pytest.approx(1.69 + 406.4 * n**-0.34 + 410.7 * d**-0.28, abs=1e-3)
    assert other.slope.slope.value == pytest.approx(0, abs=1e-9)
    command._print(found)
    line = next(row for row in capsys.readouterr().out.splitlines() if row.startswith(BASE))
    assert "N: 0.340 (" in line
    assert ", D: 0.2800 (" in line
    assert command._arm_record(baseline)["size_token_law"]["beta"] == pytest.approx(0.28, rel=1e-3)
