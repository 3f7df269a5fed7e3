"""Scores of predictions, as each field has them; those that need all predictions at once."""

import numpy as np


def class_scores(predicted: np.ndarray, labels: np.ndarray, classes: int) -> dict[str, float]:
    """Scores of predicted classes, from their counts.

    F1 of a class is 2 tp / (2 tp + fp + fn), 0 where it neither is there nor is predicted.

    Args:
        predicted, labels: numbers of classes, [N].
        classes: C.

    Returns:
        {"macro_f1": the mean of F1 over the classes, "matthews": Matthews' correlation, for C classes as Gorodkin 2004 has it, 0 where one
        side is constant (GLUE's CoLA)}, and of two classes "f1", that of the second (GLUE's MRPC and QQP).
    """
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (labels, predicted), 1)
    right, true, guessed = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    f1 = 2 * right / np.maximum(true + guessed, 1)
    total = len(labels)
    spread = float(total**2 - (true.astype(float) ** 2).sum()), float(total**2 - (guessed.astype(float) ** 2).sum())
    covariance = float(right.sum()) * total - float((true * guessed).sum())
    matthews = covariance / (spread[0] * spread[1]) ** 0.5 if min(spread) > 0 else 0.0
    return {"macro_f1": float(f1.mean()), "matthews": matthews} | ({"f1": float(f1[1])} if classes == 2 else {})


def correlations(predicted: np.ndarray, numbers: np.ndarray) -> dict[str, float]:
    """{"pearson", "spearman"} of two lists of numbers (GLUE's STS-B); not a number where one of them is constant."""
    if len(numbers) < 2 or np.ptp(predicted) == 0 or np.ptp(numbers) == 0:
        return {"pearson": float("nan"), "spearman": float("nan")}
    from scipy import stats

    one, other = np.asarray(predicted, np.float64), np.asarray(numbers, np.float64)
    return {"pearson": float(stats.pearsonr(one, other).statistic), "spearman": float(stats.spearmanr(one, other).statistic)}
