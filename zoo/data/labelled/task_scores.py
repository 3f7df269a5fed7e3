"""Scores of predictions, as each field has them; those that need all predictions at once."""

import re
import string
from collections import Counter
from collections.abc import Sequence

import numpy as np


def class_scores(predicted: np.ndarray, labels: np.ndarray, classes: int) -> dict[str, float]:
    """Scores of predicted classes, as scikit-learn has them.

    F1 of a class is 2 tp / (2 tp + fp + fn), 0 where it neither is there nor is predicted.

    Args:
        predicted, labels: numbers of classes, [N].
        classes: C.

    Returns:
        {"macro_f1": the mean of F1 over the classes, "matthews": Matthews' correlation, for C
        classes as Gorodkin 2004 has it, 0 where one side is constant (GLUE's CoLA)}, and of two
        classes "f1", that of the second (GLUE's MRPC and QQP).
    """
    from sklearn.metrics import f1_score, matthews_corrcoef

    f1 = f1_score(labels, predicted, labels=range(classes), average=None, zero_division=0)
    return {"macro_f1": float(f1.mean()), "matthews": float(matthews_corrcoef(labels, predicted))} | (
        {"f1": float(f1[1])} if classes == 2 else {}
    )


def correlations(predicted: np.ndarray, numbers: np.ndarray) -> dict[str, float]:
    """{"pearson", "spearman"} of two lists of numbers (GLUE's STS-B); not a number where one of
    them is constant.
    """
    if len(numbers) < 2 or np.ptp(predicted) == 0 or np.ptp(numbers) == 0:
        return {"pearson": float("nan"), "spearman": float("nan")}
    from scipy import stats

    one, other = np.asarray(predicted, np.float64), np.asarray(numbers, np.float64)
    return {
        "pearson": float(stats.pearsonr(one, other).statistic),
        "spearman": float(stats.spearmanr(one, other).statistic),
    }


def entity_scores(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """{"entity_precision", "entity_recall", "entity_f1"} over all entities, of which one is right
    if its type and both ends are (Tjong Kim Sang & De Meulder 2003, section 3), as seqeval counts
    them; 0 where there is nothing to divide by.

    Its default is conlleval's reading: an entity begins with B or S, after O, E or S, or where the
    type changes, also when its tag is I.

    Args:
        true, predicted: tags of the words of each sentence: B-, I-, E-, S- and a type, or O.
    """
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

    # Its line of warning, that there is nothing to divide by, is what the zero says.
    found = precision_recall_fscore_support(
        [*map(list, true)], [*map(list, predicted)], average="micro", zero_division=0
    )
    return dict(zip(("entity_precision", "entity_recall", "entity_f1"), map(float, found), strict=False))


def normalise_answer(text: str) -> list[str]:
    """An answer's words as SQuAD compares them: in small letters, without punctuation and articles."""
    letters = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", letters).split()


def answer_scores(answers: Sequence[str], accepted: Sequence[Sequence[str]]) -> dict[str, float]:
    """{"exact_match", "answer_f1"}, the means over questions of the best score by any accepted
    answer (Rajpurkar et al. 2016, section 6.1).

    An exact match has the same words in the same order; F1 is that of the bags of words. Of a
    question without an answer only the empty one is right, and an answer of articles and
    punctuation alone counts as empty (Rajpurkar et al. 2018).

    Args:
        answers: one of each question.
        accepted: texts; none where there is no answer.
    """
    exact, f1 = [], []
    for answer, texts in zip(answers, accepted, strict=True):
        given, wanted = normalise_answer(answer), [normalise_answer(text) for text in texts] or [[]]
        exact.append(max(given == words for words in wanted))
        f1.append(max(_overlap(given, words) for words in wanted))
    return {"exact_match": float(np.mean(exact)), "answer_f1": float(np.mean(f1))}


def _overlap(one: list[str], other: list[str]) -> float:
    if not one or not other:
        return float(one == other)
    return 2 * (Counter(one) & Counter(other)).total() / (len(one) + len(other))
