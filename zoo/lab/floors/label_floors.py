"""Floors of tasks with labels: the scores of a constant answer, and of words without their order.

They are counted on the training examples of a run, and scored on all of its held-out examples. Words
are maximal sequences of letters, digits and underscores, in lower case, whatever the tokenizer of
the run. A bag of words is their tf-idf with logarithmic term frequencies; classes are predicted by
multinomial naive Bayes (additive smoothing of 0.1), numbers by ridge regression, both
scikit-learn's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoo.data.labelled.examples import Example, LabelledText, TaggedWords
from zoo.data.labelled.task_scores import are_entity_tags, class_loss, class_scores, correlations, entity_scores
from zoo.data.rows.packed_rows import PADDING
from zoo.lab.floors.ngrams import WittenBell
from zoo.lab.floors.record import BAG_OF_WORDS, MAJORITY_CLASS, MAJORITY_TAG, MEAN, TAG_BY_WORD

_WORD = r"(?u)\b\w+\b"

Scores = dict[str, dict[str, float]]


def label_floors(kind: str, task: Any, train: Sequence[Example], held_out: Sequence[Example]) -> Scores:
    """Returns {floor: {metric without "eval/": score}}; empty for a task without floors.

    Args:
        kind: `objective.kind`.
        task: the task, with its labels.
        train, held_out: the examples.
    """
    if kind == "classification":
        return _classification(task, train, held_out)
    if kind == "regression":
        return _regression(task, train, held_out)
    return _tagging(task.labels, train, held_out) if kind == "tagging" else {}


def _classification(task: Any, train: Sequence[LabelledText], held_out: Sequence[LabelledText]) -> Scores:
    """Returns the scores of the classes' frequencies and of naive Bayes on a bag of words."""
    from sklearn.naive_bayes import MultinomialNB

    labels, true = task.targets(train), task.targets(held_out)
    classes = len(task.labels)
    # One example more of each class, so that a class of the held-out part has a finite loss.
    frequencies = np.log((np.bincount(labels, minlength=classes) + 1) / (len(labels) + classes))
    found = {MAJORITY_CLASS: _class_scores(np.tile(frequencies, (len(true), 1)), true)}
    words = _word_weights(task, train, held_out)
    if words is not None and len(present := np.unique(labels)) > 1:
        model = MultinomialNB(alpha=0.1).fit(words[0], labels)
        scores = np.tile(frequencies, (len(true), 1))
        scores[:, present] = model.predict_log_proba(words[1])
        found[BAG_OF_WORDS] = _class_scores(scores, true)
    return found


def _class_scores(scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    predicted = scores.argmax(axis=1)
    accuracy = float((predicted == labels).mean())
    return {"loss": class_loss(scores, labels), "accuracy": accuracy} | class_scores(predicted, labels, scores.shape[1])


def _regression(task: Any, train: Sequence[LabelledText], held_out: Sequence[LabelledText]) -> Scores:
    """Returns the scores of the mean training label and of ridge regression on a bag of words."""
    from sklearn.linear_model import Ridge

    numbers, true = (task.targets(part).astype(np.float64) for part in (train, held_out))
    found = {MEAN: {"loss": float(((true - numbers.mean()) ** 2).mean())}}
    if (words := _word_weights(task, train, held_out)) is not None:
        predicted = Ridge().fit(words[0], numbers).predict(words[1])
        scores = correlations(predicted, true) | {"loss": float(((true - predicted) ** 2).mean())}
        found[BAG_OF_WORDS] = {name: value for name, value in scores.items() if np.isfinite(value)}
    return found


def _word_weights(task: Any, train: Sequence[LabelledText], held_out: Sequence[LabelledText]) -> Any:
    """Returns the weights of words of both parts as sparse matrices; None if there are no words.

    The words of the second text of a pair are counted apart from those of the first.
    """
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    parts = [[task.texts(example) for example in examples] for examples in (train, held_out)]
    columns = []
    for place in range(len(parts[0][0])):
        counter = TfidfVectorizer(token_pattern=_WORD, sublinear_tf=True)
        try:
            known = counter.fit_transform([texts[place] for texts in parts[0]])
        except ValueError:  # There are no words.
            continue
        columns.append((known, counter.transform([texts[place] for texts in parts[1]])))
    return [hstack(each).tocsr() for each in zip(*columns, strict=True)] if columns else None


def _tagging(labels: Sequence[str], train: Sequence[TaggedWords], held_out: Sequence[TaggedWords]) -> Scores:
    """Returns the scores of the most frequent tag, and of the most frequent tag of each word.

    The loss is that of the tags' frequencies, after each word and interpolated with those of all
    words, as an n-gram model of a context of one token has them.
    """
    number = {label: place for place, label in enumerate(labels)}
    words: Mapping[str, int] = {
        word: place for place, word in enumerate(dict.fromkeys(word for one in train for word in one.words))
    }
    # A word that training lacks is no context.
    pairs = [
        np.array(
            [
                (words[word] + len(labels) if word in words else PADDING, number[tag])
                for one in part
                for word, tag in zip(one.words, one.tags, strict=True)
            ]
        )
        for part in (train, held_out)
    ]
    losses = WittenBell(pairs[0], len(labels), longest=1).losses(pairs[1])
    counts = np.zeros((len(words) + 1, len(labels)))
    np.add.at(counts, (pairs[0][:, 0] - len(labels), pairs[0][:, 1]), 1)
    total = counts.sum(axis=0)
    # The last row stands for words that training lacks; ties go to the more frequent tag.
    counts[-1] = total
    by_word = (counts + total / (total.sum() + 1)).argmax(axis=1)
    of_word = np.where(pairs[1][:, 0] == PADDING, len(words), pairs[1][:, 0] - len(labels))
    guesses = {MAJORITY_TAG: np.full(len(of_word), total.argmax()), TAG_BY_WORD: by_word[of_word]}
    ends = np.cumsum([len(one.words) for one in held_out])[:-1]
    return {
        name: {"loss": loss} | _tag_scores(labels, np.split(guess, ends), held_out)
        for (name, guess), loss in zip(guesses.items(), losses, strict=True)
    }


def _tag_scores(
    labels: Sequence[str], guesses: Sequence[np.ndarray], held_out: Sequence[TaggedWords]
) -> dict[str, float]:
    true, given = [list(one.tags) for one in held_out], [[labels[place] for place in guess] for guess in guesses]
    right = [one == other for a, b in zip(true, given, strict=True) for one, other in zip(a, b, strict=True)]
    scores = {"accuracy": float(np.mean(right)), "word_accuracy": float(np.mean(right))}
    return scores | (entity_scores(true, given) if are_entity_tags(labels) else {})
