"""Scores of predictions, as each field has them; those that need all predictions at once."""

import re
import string
from collections import Counter
from collections.abc import Sequence

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


def entities_of(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(type, first word, last word) of the entities that tags mark: B-, I-, E-, S- and a type, or O.

    As conlleval and seqeval's default have it: one begins with B or S, after O, E or S, or where the type changes, also when its tag is I.
    """
    found, begin, before = set(), None, ("O", "")
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        starts = prefix not in ("O", "") and (prefix in ("B", "S") or before[0] in ("O", "", "E", "S") or kind != before[1])
        if begin is not None and (starts or prefix in ("O", "")):
            found.add((before[1], begin, place - 1))
            begin = None
        begin = place if starts else begin
        before = prefix, kind
    return found


def entity_scores(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """{"entity_precision", "entity_recall", "entity_f1"} over all entities, of which one is right if its type and both ends are
    (Tjong Kim Sang & De Meulder 2003, section 3); 0 where there is nothing to divide by.

    Args:
        true, predicted: tags of the words of each sentence.
    """
    right = there = given = 0
    for one, other in zip(true, predicted, strict=True):
        real, guessed = entities_of(one), entities_of(other)
        right, there, given = right + len(real & guessed), there + len(real), given + len(guessed)
    return {"entity_precision": right / max(given, 1), "entity_recall": right / max(there, 1),
            "entity_f1": 2 * right / max(there + given, 1)}


def plain_answer(text: str) -> list[str]:
    """An answer's words as SQuAD compares them: in small letters, without punctuation and articles."""
    letters = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", letters).split()


def answer_scores(answers: Sequence[str], accepted: Sequence[Sequence[str]]) -> dict[str, float]:
    """{"exact_match", "answer_f1"}, the means over questions of the best score by any accepted answer (Rajpurkar et al. 2016, section 6.1).

    An exact match has the same words in the same order; F1 is that of the bags of words. Of a question without an answer only the empty
    one is right, and an answer of articles and punctuation alone counts as empty (Rajpurkar et al. 2018).

    Args:
        answers: one of each question.
        accepted: texts; none where there is no answer.
    """
    exact, f1 = [], []
    for answer, texts in zip(answers, accepted, strict=True):
        given, wanted = plain_answer(answer), [plain_answer(text) for text in texts] or [[]]
        exact.append(max(given == words for words in wanted))
        f1.append(max(_overlap(given, words) for words in wanted))
    return {"exact_match": float(np.mean(exact)), "answer_f1": float(np.mean(f1))}


def _overlap(one: list[str], other: list[str]) -> float:
    if not one or not other:
        return float(one == other)
    return 2 * (Counter(one) & Counter(other)).total() / (len(one) + len(other))
