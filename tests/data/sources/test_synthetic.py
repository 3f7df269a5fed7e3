"""Synthetic texts: their form, and their stated best loss against a search over all documents."""

import itertools
import math
import re
from collections import Counter, defaultdict

import numpy as np
import pytest

from tests.data.reading import texts_of
from tests.data.sources.test_records import open_documents
from zoo.data.sources.synthetic import parse
from zoo.errors import ConfigError


def stated_best_loss(documents):
    return float(re.search(r"best possible: ([\d.]+) bits per byte", documents.description)[1])


def best_loss_by_search(texts):
    """Bits per byte of the best prediction of each byte from those before it, over all documents."""
    follows = defaultdict(Counter)
    for text in texts:
        for place, byte in enumerate(text):
            follows[text[:place]][byte] += 1
    bits = 0.0
    for counts in follows.values():
        total = sum(counts.values())
        bits -= sum(count * math.log2(count / total) for count in counts.values())
    return bits / sum(map(len, texts))


def in_base(number, base, digits):
    return "".join(str(number // base**place % base) for place in reversed(range(digits)))


SUMS = [
    rf"{in_base(one, 3, 2)}\+{in_base(other, 3, 2)}={in_base(one + other, 3, 3)}"
    for one in range(9)
    for other in range(9)
]
SWAPS = {"a": "213", "b": "321", "c": "132"}
SWAPPED = [
    f"{first}{second}={SWAPS[second][int(SWAPS[first][0]) - 1]}" for first, second in itertools.product(SWAPS, SWAPS)
]
SMALL = {
    "copy,length=3,symbols=3": (27, r"([abc]{3})=\1\n"),
    "reverse,length=2,symbols=4": (16, r"([abcd])([abcd])=\2\1\n"),
    "induction,length=3,symbols=4": (
        24 * 2,
        r"(?=[abcd]*([abcd]{2})[abcd]*\1\n)([abcd])(?!\2)([abcd])(?!\2|\3)[abcd]\1\n",
    ),
    "needle,length=2,symbols=3": (9 * 3 * 10, r"(?=.*#(\d).*\?\1\n)(?=.{6}$)[abc]*#\d[abc]*\?\d\n"),
    "parity,length=4": (16, "(?=0*(?:10*10*)*=0|0*10*(?:10*10*)*=1)[01]{4}=[01]\n"),
    "permutations,length=2,symbols=3": (9, rf"(?:{'|'.join(SWAPPED)})\n"),
    "addition,length=2,symbols=3": (81, rf"(?:{'|'.join(SUMS)})\n"),
    "recall,length=2,symbols=3": (6 * 100 * 2, r"(?=.*([abc]\d).*\?\1\n)(?:[abc]\d){2}\?[abc]\d\n"),
    "multi_query_recall,length=2,symbols=3": (6 * 100 * 2, r"(?=(.).(?!\1))([abc]\d)([abc]\d)\?(?:\2\3|\3\2)\n"),
}


@pytest.mark.parametrize("task", SMALL)
def test_stated_best_loss_matches_a_search_over_all_documents(task):
    count, pattern = SMALL[task]
    documents = open_documents(f"synthetic:{task},documents=40000")
    counts = Counter(texts_of(documents))
    assert all(re.fullmatch(pattern, text) for text in counts)
    # Every possible document occurs, and all are equally likely.
    assert len(counts) == count
    mean = 40000 / count
    assert sum((number - mean) ** 2 / mean for number in counts.values()) < count + 5 * math.sqrt(2 * count)
    assert stated_best_loss(documents) == pytest.approx(best_loss_by_search(list(counts)), abs=1e-6)


@pytest.mark.parametrize("task", SMALL)
def test_best_answers_without_reading_match_a_search_over_all_documents(task):
    documents = parse(task)
    texts = set(texts_of(open_documents(f"synthetic:{task},documents=40000")))
    size = documents.task.answer(documents.length)
    answers = Counter(text[-1 - size : -1] for text in texts)
    assert documents.constant == pytest.approx(max(answers.values()) / len(texts))
    given = defaultdict(Counter)
    for text in texts:
        given[text[: documents.length] if "induction" in task else text.partition("?")[0]][text[-1 - size : -1]] += 1
    best = sum(max(counts.values()) for counts in given.values()) / len(texts)
    hidden = any(name in task for name in ("recall", "induction"))
    assert documents.context_only == (pytest.approx(best) if hidden else None)


def test_the_most_frequent_digit_of_many_pairs():
    documents = parse("recall,length=16,symbols=52")
    texts = list(documents.texts(20000, "digits"))
    counts = [Counter(text.partition("?")[0][1::2]) for text in texts]
    shares = np.array([max(count.values()) / 16 for count in counts])
    assert abs(documents.context_only - shares.mean()) < 4 * shares.std() / math.sqrt(len(texts))


def test_documents_of_the_default_size():
    (first, *_) = texts = texts_of(open_documents("synthetic:recall"))
    assert len(texts) == 20000
    assert len(first) == 2 * 8 + 4
    assert all(len({*text[:16:2]}) == 8 for text in texts)
    assert stated_best_loss(open_documents("synthetic:copy")) == pytest.approx(16 * math.log2(26) / 34, abs=1e-6)
    assert len(set(texts_of(open_documents("synthetic:copy,documents=5000")))) == 5000


def test_synthetic_texts_are_the_same_everywhere():
    # Recorded once, because NumPy keeps its streams of random bits stable.
    fingerprints = {
        task: open_documents(f"synthetic:{task},documents=5000;length=4").fingerprint[:16]
        for task in ("copy", "reverse", "recall")
    }
    assert fingerprints == {"copy": "cdf6a4843df6a6a4", "reverse": "782fe76b1bdc4bf9", "recall": "e3b480bae95b1f6e"}
    fewer, more = (texts_of(open_documents(f"synthetic:copy,documents={count}")) for count in (10, 5000))
    assert more[:10] == fewer


def test_bad_arguments_are_reported_in_one_line_each():
    for source, problem in (
        (
            "synthetic",
            r'unknown task ""; one of copy, reverse, recall, multi_query_recall, induction, needle, parity, permutations, '
            "addition",
        ),
        ("synthetic:copi", r'unknown task "copi" \(did you mean "copy"\?\)'),
        ("synthetic:copy,lenght=3", r'has no argument "lenght" \(did you mean "length"\?\)'),
        ("synthetic:copy,length=0", 'length of "copy" must be a whole number from 1 to 10000, got "0"'),
        ("synthetic:copy,length=x", 'got "x"'),
        ("synthetic:copy,length", 'got ""'),
        ("synthetic:copy,symbols=63", "from 2 to 62"),
        ("synthetic:induction,length=1", 'length of "induction" must be a whole number from 2'),
        ("synthetic:induction,length=27", "needs as many different symbols, and there are symbols=26"),
        ("synthetic:parity,symbols=3", "from 2 to 2"),
        ("synthetic:permutations,symbols=2", "from 3 to 5"),
        ("synthetic:recall,length=27", "needs as many different keys, and there are symbols=26"),
    ):
        with pytest.raises(ConfigError, match=problem) as error:
            open_documents(source)
        assert len(error.value.problems) == 1
