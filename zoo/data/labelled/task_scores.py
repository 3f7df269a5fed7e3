"""Scores that need all predictions at once, as defined by the benchmarks."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

# The tag of a word outside of entities.
OUTSIDE = "O"
# Prefixes of tags that seqeval does not know, and what it calls them.
_OTHER_NAMES = {"L-": "E-", "U-": "S-"}
_PREFIXES = frozenset(("B-", "I-", "E-", "S-", *_OTHER_NAMES))


def class_scores(predicted: np.ndarray, labels: np.ndarray, classes: int) -> dict[str, float]:
    """Returns scores of predicted classes, as in scikit-learn.

    F1 of a class is 2 tp / (2 tp + fp + fn), and 0 if it neither occurs nor is predicted.

    Args:
        predicted, labels: class numbers, [N].
        classes: C.

    Returns:
        {"macro_f1": the mean of F1 over the classes, "matthews": Matthews' correlation, for C
            classes after Gorodkin 2004, 0 if one side is constant (GLUE's CoLA)}, and for two
            classes "f1", that of the second (GLUE's MRPC and QQP).
    """
    from sklearn.metrics import f1_score, matthews_corrcoef

    f1 = f1_score(labels, predicted, labels=range(classes), average=None, zero_division=0)
    return {"macro_f1": float(f1.mean()), "matthews": float(matthews_corrcoef(labels, predicted))} | (
        {"f1": float(f1[1])} if classes == 2 else {}
    )


def class_loss(scores: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean of -log softmax(s)[label] in nats.

    Args:
        scores: s, [N, C].
        labels: class numbers, [N].
    """
    scores = scores.astype(np.float64)
    top = scores.max(axis=1, keepdims=True)
    normaliser = top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))
    return float((normaliser - np.take_along_axis(scores, labels[:, None], axis=1)[:, 0]).mean())


def correlations(predicted: np.ndarray, numbers: np.ndarray) -> dict[str, float]:
    """Returns {"pearson", "spearman"} of two lists of numbers (GLUE's STS-B).

    Both are NaN if one of the lists is constant.
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
    """Returns {"entity_precision", "entity_recall", "entity_f1"} over all entities.

    An entity is correct if its type and both ends are (Tjong Kim Sang & De Meulder 2003, section
    3), as counted by seqeval; a score without anything to divide by is 0. seqeval's default follows
    conlleval: an entity begins with B or S, after O, E or S, or where the type changes, even if its
    tag is I.

    Args:
        true, predicted: tags of the words of each sentence: B-, I-, E-, S- and a type, or O; L- and U-
            stand for E- and S- (BILOU).
    """
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

    # seqeval would warn about a division by zero, which the 0 shows.
    found = precision_recall_fscore_support(
        *([[_iobes(tag) for tag in tags] for tags in side] for side in (true, predicted)),
        average="micro",
        zero_division=0,
    )
    return dict(zip(("entity_precision", "entity_recall", "entity_f1"), map(float, found), strict=False))


def are_entity_tags(labels: Iterable[str]) -> bool:
    """Whether labels are tags of entities, as `entity_scores` counts: O, and others with prefixes."""
    labels = set(labels)
    return OUTSIDE in labels and all(tag[:2] in _PREFIXES for tag in labels - {OUTSIDE})


def _iobes(tag: str) -> str:
    return _OTHER_NAMES.get(tag[:2], tag[:2]) + tag[2:]


def normalise_answer(text: str) -> list[str]:
    """Returns an answer's words as SQuAD compares them.

    They are in lower case, without punctuation and articles.
    """
    letters = "".join(character for character in text.lower() if character not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", letters).split()


def answer_scores(answers: Sequence[str], accepted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Returns {"exact_match", "answer_f1"}, means over questions.

    A question's score is the best score of any accepted answer (Rajpurkar et al. 2016, section
    6.1). An exact match has the same words in the same order; F1 compares bags of words. For a
    question without an answer only the empty answer is correct, and an answer of only articles and
    punctuation counts as empty (Rajpurkar et al. 2018).

    Args:
        answers: one per question.
        accepted: accepted texts per question; none if there is no answer.
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
