"""The known metrics and their directions; tasks write known metrics only."""

import json

import numpy as np
import pytest

from tests.lab.report.lab_reports import write_report
from zoo import config
from zoo.data.labelled.task_scores import answer_scores, class_scores, correlations, entity_scores
from zoo.decoding.translate import sacrebleu_metrics
from zoo.lab.metrics import (
    METRICS,
    base_name,
    higher_is_better,
    is_known_metric,
    is_per_token,
    unit_suffix,
    written_metrics,
)
from zoo.lab.report.html_page import plot_data
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.verdict import judge
from zoo.nested import flatten

TASKS = {
    "classification": class_scores(np.array([0, 1]), np.array([0, 1]), 2),
    "regression": correlations(np.arange(3.0), np.arange(3.0)),
    "tagging": {"word_accuracy": 1.0} | entity_scores([["B-x"]], [["B-x"]]),
    "extraction": answer_scores(["a"], [["a"]]),
}
# Metrics whose larger values are better, listed here independently of the table in zoo.
SCORES = {
    "accuracy",
    "word_accuracy",
    "next_accuracy",
    "replaced_accuracy",
    "generator_accuracy",
    "macro_f1",
    "f1",
    "matthews",
    "pearson",
    "spearman",
    "entity_precision",
    "entity_recall",
    "entity_f1",
    "exact_match",
    "answer_f1",
    "bleu",
    "chrf",
}


def test_the_direction_of_every_metric():
    assert {name for name in METRICS if higher_is_better(f"eval/{name}")} == SCORES
    assert {name for name in METRICS if not higher_is_better(f"eval/{name}")} == {
        "loss",
        "next_loss",
        "generator_loss",
        "perplexity",
        "bits_per_byte",
    }
    assert higher_is_better("eval/accuracy@256")
    assert not higher_is_better("train/tokens_per_second")
    assert base_name("eval/accuracy@256") == "accuracy"
    assert is_known_metric("eval/loss@256")
    assert not is_known_metric("train/loss")
    assert (
        unit_suffix("eval/loss@256"),
        unit_suffix("eval/bits_per_byte"),
        unit_suffix("eval/accuracy"),
        unit_suffix("train/x"),
    ) == (" nats", " bits", "", "")
    assert is_per_token("eval/perplexity@8")
    assert not is_per_token("eval/bits_per_byte")


@pytest.mark.parametrize("kind", TASKS)
def test_tasks_write_the_known_metrics_that_plans_expect(kind):
    flat = flatten(config.default()) | {"objective.kind": kind, "model.head.classes": 2}
    extra = {"classification": {"accuracy"}, "tagging": {"accuracy"}}.get(kind, set())
    assert set(written_metrics(flat)) == {f"eval/{name}" for name in {"loss", *extra, *TASKS[kind]}}
    assert all(is_known_metric(name) for name in written_metrics(flat))


def test_f1_is_for_two_classes_only():
    flat = flatten(config.default()) | {"objective.kind": "classification", "model.head.classes": 3}
    assert "eval/f1" not in written_metrics(flat)
    assert "f1" not in class_scores(np.array([0, 1]), np.array([0, 1]), 3)


def test_metrics_of_translation():
    pytest.importorskip("sacrebleu")
    assert sacrebleu_metrics()
    flat = flatten(config.default()) | {"objective.kind": "translation"}
    assert {"eval/loss", "eval/perplexity", "eval/bits_per_byte", "eval/bleu", "eval/chrf", "eval/exact_match"} == set(
        written_metrics(flat)
    )


@pytest.mark.parametrize(
    ("metric", "best", "rule", "outcome", "side"),
    [
        ("eval/spearman", "post-0", "a above b", "holds", "Right"),
        ("eval/bleu", "post-0", "a above b", "holds", "Right"),
        ("eval/entity_f1", "post-0", "a above b", "holds", "Right"),
        ("eval/loss", "pre-100", "a below b", "refuted", "Left"),
    ],
)
def test_reports_follow_the_direction_of_the_metric(writer, metric, best, rule, outcome, side):
    a, b = "norm=post,warm-up=0", "norm=pre,warm-up=0"
    folder = writer.sweep(
        metric=metric,
        contrasts=[
            {
                "name": "c",
                "a": {"arm": a, "metric": metric},
                "b": {"arm": b, "metric": metric},
                "rule": "superiority",
                "margin": 0.0,
                "expected": "",
            }
        ],
    )
    for path in folder.glob("*/metrics.jsonl"):
        path.write_text(path.read_text().replace('"eval/loss"', json.dumps(metric)))
    sweep = load_sweep(folder)
    assert judge(sweep).outcomes[0].outcome == outcome
    assert plot_data(sweep)["metrics"][0] == metric
    page = write_report(folder).read_text()
    assert f"superiority: {rule}" in page
    assert f"{side} of zero is better than the baseline" in page
    assert ("highest seen" in page) == (side == "Right")
    without_contrasts = load_sweep(folder.parent / "sweep")
    verdict = judge(
        type(without_contrasts)(
            without_contrasts.folder,
            without_contrasts.name,
            metric,
            without_contrasts.arms,
            without_contrasts.runs,
            without_contrasts.seeds,
        )
    ).paragraph
    assert ", reached by " + "+warm-up=".join(f"norm={best}".rsplit("-", 1)) in verdict


def test_regression_losses_are_not_in_nats(writer):
    folder = writer.sweep()
    assert "within 0.1 nats" in judge(load_sweep(folder)).paragraph
    for path in folder.glob("*/config.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"objective": {"kind": "regression"}}))
    assert "nats" not in judge(load_sweep(folder)).paragraph
    assert "nats" not in write_report(folder).read_text().split("<main>")[1].split("<script")[0]
