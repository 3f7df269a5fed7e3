"""Scores of predictions, on cases that are counted by hand."""

import numpy as np
import pytest

from zoo.data.labelled.task_scores import class_scores, correlations


def test_two_classes_by_hand():
    labels, predicted = np.array([1, 1, 1, 0, 0, 0, 0, 0]), np.array([1, 1, 0, 1, 0, 0, 0, 0])
    # True positives, false negatives and false positives: 2, 1, 1 of class 1 and 4, 1, 1 of class 0.
    scores = class_scores(predicted, labels, 2)
    assert scores["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert scores["macro_f1"] == pytest.approx((4 / 6 + 8 / 10) / 2)
    assert scores["matthews"] == pytest.approx((2 * 4 - 1 * 1) / (3 * 3 * 5 * 5) ** 0.5)


def test_scores_of_many_classes_by_hand():
    labels, predicted = np.array([0, 1, 2, 2]), np.array([0, 2, 2, 1])
    scores = class_scores(predicted, labels, 4)
    assert scores["macro_f1"] == pytest.approx((1 + 0 + 2 / 4 + 0) / 4)
    # Gorodkin's (c s - sum p t) / sqrt((s^2 - sum p^2)(s^2 - sum t^2)) with c = 2 correct of s = 4
    # and t = p = (1, 1, 2).
    assert scores["matthews"] == pytest.approx((2 * 4 - 6) / (16 - 6))
    assert "f1" not in scores


def test_constant_predictions_have_no_correlation():
    assert class_scores(np.zeros(4, int), np.array([0, 0, 1, 1]), 2) == {
        "macro_f1": pytest.approx((4 / 6 + 0) / 2),
        "matthews": 0.0,
        "f1": 0.0,
    }
    assert np.isnan(list(correlations(np.ones(3), np.array([1.0, 2.0, 3.0])).values())).all()
    assert np.isnan(list(correlations(np.array([1.0, 2.0]), np.array([3.0, 3.0])).values())).all()


def test_correlations_by_hand():
    # Ranks 1 2 3 4 and 1 3 2 4: 1 - 6 * 2 / (4 * 15).
    scores = correlations(np.array([0.0, 1.0, 2.0, 30.0]), np.array([1.0, 3.0, 2.0, 4.0]))
    assert scores["spearman"] == pytest.approx(0.8)
    x, y = np.array([0, 1, 2, 30]) - 8.25, np.array([1, 3, 2, 4]) - 2.5
    assert scores["pearson"] == pytest.approx((x * y).sum() / ((x**2).sum() * (y**2).sum()) ** 0.5)
