"""The table of claims judged with fitted settings, and what such experiments leave open."""

import json
import math
from dataclasses import replace

import numpy as np
from scipy import stats

from publication.fitted_limits import fitted_limits_text
from publication.results_index import build
from publication.sizes import ClaimResult, SizedResult
from tests.support.archives import CLAIMS, copy_result, write_claims, write_measured
from zoo.lab.report.archive.result_record import FITTED
from zoo.lab.statistics.sequential import detectable_effect
from zoo.lab.statistics.tuning_curve import curve_record, fit_tuning_curve


def test_claims_with_fitted_settings_have_a_table_of_their_own(output):
    sides = {"metric a": "eval/loss", "metric b": "eval/loss", "a - b": -0.03, "low": -0.05, "high": -0.01, "pairs": 4}
    row = {
        "contrast": "a below b",
        "claim": "",
        "a": "0",
        "b": "1",
        **sides,
        "rule": "superiority: a below b",
        "outcome": "holds",
    }
    arm = json.loads((output / "one/result.json").read_text())["arms"][0]
    for size, tuned, verdict in (("small", "fitted", "not testable"), ("large", "grid", "supported")):
        copy_result(output, f"one-{size}", [row], size=size, tuned=tuned, verdict=verdict, claims={"A1": verdict})
    text = "<!-- text: {} -->\n\n<!-- end of text -->\n"
    page, outer = output / "page.md", output.parent / "outer.md"
    for path in (page, outer):
        path.write_text(text.format("fitted") + text.format("further fitted"))
    write_claims(output, CLAIMS)
    build(output, pages=[outer])
    nothing = "No claim has been judged with settings fitted in each arm at rung1 or larger."
    assert nothing in page.read_text()
    fitted = {"tuned": "fitted", "verdict": "undecided", "claims": {"A1": "undecided"}}
    # The decoder of this size reads 2 tokens for each of its parameters.
    copy_result(output, "one-medium", [row], size="medium", arms=[arm | {"parameters": 100}], **fitted)
    build(output, pages=[outer])
    assert nothing in page.read_text()
    one_more = "With fitted settings at other sizes 1 further experiment gave 1 verdict: 1 undecided."
    assert one_more in " ".join(page.read_text().split())
    assert "(findings.md#judged-with-fitted-settings-at-other-sizes)" in page.read_text()
    assert f"({output.name}/findings.md#judged-with" in outer.read_text()
    listed = "further fitted -->\n\n* A1 a | b: **undecided** at [medium](one-medium/README.md); a below b: −0.030 (−0.050 to −0.010)\n"
    assert listed in page.read_text()
    sizes = [arm | {"parameters": number} for number in (230_000, 1_240_000)]
    copy_result(output, "one-rung1", [row], size="rung1", arms=sizes, **fitted)
    build(output, pages=[outer])
    judged = "**1 claim could be judged with settings fitted in each arm at rung1 or larger**: 1 undecided."
    assert judged in page.read_text()
    assert "other sizes" not in page.read_text()
    assert (
        "| a below b: −0.030 (−0.050 to −0.010) | a below b | [rung1, 4 seeds, tuned by a fit](one-rung1/README.md) |"
        in page.read_text()
    )
    assert "These models have 0.2 to 1.2 million parameters" in page.read_text()
    # A difference of 0.02 from the pairs' interval, and 80 % power.
    half, n = 0.02, 4
    smallest = detectable_effect(n) * math.sqrt(n) * half / stats.t.ppf(0.975, n - 1)
    shown = " ".join(page.read_text().split())
    assert (
        f"With 80 % power such a contrast finds a difference of {smallest:.3f} nats at rung1 with 4 seeds (1 contrast)."
        in shown
    )
    assert "of 90 % under those of equivalence and non-inferiority" in shown
    assert f"({output.name}/one-rung1/README.md)" in outer.read_text()
    there = {"corpus": {"experiment": "one-rung1", "source": "text:news.txt"}, "arms": sizes, **fitted}
    copy_result(output, "one-rung1-on-news", [row], size="rung1", **there)
    build(output)
    assert judged in page.read_text()
    assert "On a second text: A1 (undecided)." in page.read_text()
    title = "There is no such experiment.\n\nOn a second text:\n\n"
    item = "* A1 a | b: **undecided** at [rung1](one-rung1-on-news/README.md), on news; a below b: −0.030"
    assert title + item in page.read_text()


def test_what_fitted_experiments_leave_open_is_counted(output):
    sides = {"metric a": "eval/loss", "metric b": "eval/loss", "a - b": -0.03, "low": -0.05, "high": -0.01, "pairs": 4}
    row = {"contrast": "a below b", "claim": "", "a": "0", "b": "1", **sides, "rule": "superiority", "outcome": "holds"}
    arm = json.loads((output / "one/result.json").read_text())["arms"][0]
    page = output / "page.md"
    page.write_text("<!-- text: fitted limits -->\n\n<!-- end of text -->\n")
    write_claims(output, CLAIMS)
    build(output)
    assert "There is no such experiment." in page.read_text()
    # The minimum of the losses is inside of the values, and the lowest loss is that of the largest.
    random = np.random.default_rng(1)
    losses = {
        round(0.001 * 1.5**step, 6): {seed: 1 + 0.01 * (step - 2.7) ** 2 + 0.001 * random.normal() for seed in range(3)}
        for step in range(4)
    }
    tuning = {"field": "optimizer.learning_rate", "values": [0.001], "seeds": [0, 1, 2], "chosen": {"0": 0.003}, "factor": "rate",
              "curves": {"0": curve_record(fit_tuning_curve(losses))}, "scores": {"0": losses}}  # fmt: skip
    fitted = {"tuned": "fitted", "verdict": "undecided", "claims": {"A1": "undecided"}, "size": "rung1"}
    copy_result(
        output,
        "one-rung1",
        [row],
        arms=[arm | {"name": "0", "parameters": 100, "overrides": {tuning["field"]: 0.003}}],
        tuning=tuning,
        **fitted,
    )
    build(output)
    shown = " ".join(page.read_text().split())
    assert "read fewer: A1 (every arm: 5.1)." in shown
    assert (
        "Repeating all of them on another text (`zoo run FILE:SIZE --corpus SOURCE`) takes 12 runs that read" in shown
    )
    assert "the best mean of an arm is that of the smallest or largest fitted value in A1" in shown
    assert "Versions of the text" not in shown
    there = {"corpus": {"experiment": "one-rung1", "source": "text:news.txt"}, "arms": [arm | {"parameters": 100}]}
    copy_result(output, "one-rung1-on-news", [row], **there, **fitted)
    build(output)
    shown = " ".join(page.read_text().split())
    asked = (
        "A1 was asked on a second text at such a size ([one-rung1-on-news](one-rung1-on-news/README.md): undecided)."
    )
    assert f"* **A second text.** {asked} * **Tokens" in shown


def test_versions_of_the_text_and_curves_that_are_rejected_are_named(tmp_path):
    def result(python, line):
        losses = {
            rate: {seed: 1 + line(step) + 1e-4 * (seed * step % 3) for seed in range(3)}
            for step, rate in enumerate(1.5**step for step in range(5))
        }
        curve = replace(fit_tuning_curve(losses), problem="")
        tuning = {"field": "optimizer.learning_rate", "curves": {"a": curve_record(curve)}, "scores": {"a": losses}}
        record = {"name": python, "size": "rung1", "sources": ["stdlib"], "versions": {"python": python}, "arms": [],
                  "metric": "eval/loss", "unit": " nats", "tuning": tuning, "tuned": FITTED}  # fmt: skip
        (tmp_path / python).mkdir()
        (tmp_path / python / "runs.csv").write_text("arm,seed\n")
        return [ClaimResult(python, SizedResult(python, "supported", record, []), [])]

    found = {"A1": result("3.11", lambda step: (step - 2) ** 2), "A2": result("3.12", lambda step: 0.1 * abs(step - 2))}
    text = " ".join(fitted_limits_text(found, tmp_path).split())
    assert "A1 read the library of Python 3.11; A2 read the library of Python 3.12. Files" in text
    assert (
        "* **Curves.** Of the fitted curves, the F test rejects the curve of an arm in A2; the pages name the arms."
        in text
    )
    assert "Versions" not in fitted_limits_text({"A1": found["A1"]}, tmp_path)


def test_a_claim_with_other_parts_names_their_verdicts_beside_the_fitted_one(output):
    sides = {"metric a": "eval/loss", "metric b": "eval/loss", "a - b": -0.03, "low": -0.05, "high": -0.01, "pairs": 4}
    row = {"contrast": "a below b", "claim": "", "a": "x", "b": "y", **sides, "rule": "superiority", "outcome": "holds"}
    page = output / "page.md"
    write_measured(output, {"claim": "A1", "verdict": "undecided", "effect": "0.9 of the time", "device": "1 x cpu"})
    page.write_text("<!-- text: fitted -->\n\n<!-- end of text -->\n")
    write_claims(output, CLAIMS)
    fitted = {"tuned": "fitted", "verdict": "supported", "claims": {"A1": "supported"}, "size": "rung1"}
    copy_result(output, "two-rung1", [row], **fitted)
    build(output)
    text = page.read_text()
    assert "at rung1 or larger**, A1 in one of its parts: 1 supported." in " ".join(text.split())
    assert (
        "**supported** in this part; [one](one/README.md): supported; [speed](measured/speed/README.md): undecided |"
        in text
    )


def test_experiments_at_other_sizes_are_counted_once_and_their_verdicts_each(output):
    page = output / "page.md"
    page.write_text("<!-- text: fitted -->\n\n<!-- end of text -->\n")
    write_claims(output, CLAIMS)
    contrast = {"contrast": "a below b", "metric a": "eval/loss", "metric b": "eval/loss", "a - b": -0.03, "low": -0.05,
                "high": -0.01, "pairs": 4, "a": "x", "b": "y", "rule": "superiority: a below b", "outcome": "holds"}  # fmt: skip
    rows = [contrast | {"claim": claim} for claim in ("A2", "A5")]
    both = {"claim": {"id": "A2, A5", "statement": "s", "source": "t"}, "verdict": "undecided"}
    copy_result(output, "two", rows, tuned="fitted", claims={"A2": "supported", "A5": "undecided"}, **both)
    build(output)
    shown = " ".join(page.read_text().split())
    assert "at other sizes 1 further experiment gave 2 verdicts: 1 supported, 1 undecided." in shown


def test_supported_claims_are_counted_by_how_their_arms_were_tuned(output):
    page = output / "page.md"
    page.write_text("<!-- text: silence -->\n\n<!-- end of text -->\n")
    write_claims(output, CLAIMS)
    write_measured(output, {"claim": "A4", "verdict": "supported", "effect": "0.9 of the time", "device": "1 x cpu"})
    fitted = {"tuned": "fitted", "verdict": "supported", "claims": {"A2": "supported"}}
    copy_result(output, "two", claim={"id": "A2", "statement": "s", "source": "t"}, **fitted)
    build(output)
    kinds = "1 with settings fitted in each arm, 1 without fitted settings, 1 by measurements of time or memory"
    assert f"3 are supported ({kinds}), 0 not" in " ".join(page.read_text().split())
