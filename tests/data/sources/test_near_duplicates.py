"""Splits that keep near-duplicates on one side, and how much of a held-out text is copied."""

import random

import numpy as np
import pytest

from tests.data.reading import texts_of
from zoo.data.sources import near_duplicates
from zoo.data.sources.documents import Documents
from zoo.data.sources.near_duplicates import clusters, held_out_clusters, text_blocks
from zoo.data.sources.overlap import verbatim_overlap
from zoo.data.sources.shingles import document_hashes, window_hashes
from zoo.errors import DataError


def words(number, count=120):
    draw = random.Random(number)
    return " ".join("".join(draw.choices("abcdefghij", k=draw.randint(2, 9))) for _ in range(count))


def sentences(number, count):
    return "".join(f"{words(f'{number} {place}', 12)}.\n" for place in range(count))


def versions(number):
    """Returns three texts that agree in all but their first words."""
    return [f"{words(f'{number} {version}', 10)} {words(number)}" for version in range(3)]


def labels_of(texts, **changes):
    index = Documents.of(texts, "texts").index
    return clusters(((True, text) for text in texts), index.digests, int(index.bytes.sum()), **changes).tolist()


def test_window_hashes_are_equal_for_equal_windows_alone():
    text = b"the same words, the same hashes: the same words, "
    hashes = window_hashes(text, 16)
    assert len(hashes) == len(text) - 15
    found = {}
    for start, value in enumerate(hashes.tolist()):
        assert found.setdefault(value, text[start : start + 16]) == text[start : start + 16]
    assert len(found) == len({text[start : start + 16] for start in range(len(hashes))}) < len(hashes)
    assert window_hashes(b"short", 16).shape == window_hashes(b"", 16).shape == (0,)


def test_windows_stay_within_a_document():
    pieces = [(True, "a" * 20), (True, "b" * 3), (True, "c" * 16), (False, "d" * 17)]
    (found,) = document_hashes(pieces, 16)
    assert found[1].tolist() == [0] * 5 + [2] + [2] * 2
    assert len(set(found[0].tolist())) == 3


def test_versions_of_a_text_are_one_cluster_and_other_texts_are_not():
    texts = [text for number in range(4) for text in versions(number)]
    labels = labels_of(texts)
    assert [labels[place] == labels[0] for place in range(12)] == [True] * 3 + [False] * 9
    assert len(set(labels)) == 4
    # A long text that contains a short one is its near-duplicate; a shared heading is not.
    long = words(0, 1000)
    assert len(set(labels_of([long, long[500:900]]))) == 1
    heading = "A heading that all of these documents begin with. "
    assert len(set(labels_of([heading + words(number, 400) for number in range(5)]))) == 5
    assert len(set(labels_of(["same", "other", "same"]))) == 2


def test_families_larger_than_the_neighbours_that_are_paired_are_one_cluster():
    family = [f"{words(number, 10)} {words('shared', 200)}" for number in range(3 * near_duplicates._NEIGHBOURS)]
    assert len(set(labels_of([*family, words("alone")]))) == 2


def test_clusters_do_not_depend_on_the_order_of_documents():
    texts = [text for number in range(6) for text in versions(number)]
    order = random.Random(0).sample(range(len(texts)), len(texts))
    straight, shuffled = labels_of(texts), labels_of([texts[place] for place in order])
    same = np.equal.outer(straight, straight)[np.ix_(order, order)]
    assert (same == np.equal.outer(shuffled, shuffled)).all()


def test_a_clustered_split_keeps_versions_on_one_side():
    texts = [text for number in range(40) for text in versions(number)]
    source = Documents.of(texts, "texts")
    sides = {}
    for clustered in (False, True):
        train, held_out = source.split(0.2, clustered)
        assert sorted(texts_of(train) + texts_of(held_out)) == sorted(texts)
        assert held_out.bytes / source.bytes == pytest.approx(0.2, abs=0.03)
        sides[clustered] = {texts.index(text) // 3 for text in texts_of(held_out)}, verbatim_overlap(train, held_out)
        split = [number for number in sides[clustered][0] if any(text in texts_of(train) for text in versions(number))]
        assert bool(split) is not clustered
    assert sides[False][1].windows > 0.5
    assert sides[True][1].windows == sides[True][1].lines == 0


def test_the_clusters_are_cached(monkeypatch):
    texts = [text for number in range(10) for text in versions(number)]
    first = Documents.of(texts, "texts").split(0.2, True)
    monkeypatch.setattr("zoo.data.sources.documents.clusters", None)
    again = Documents.of(texts, "texts").split(0.2, True)
    assert [part.fingerprint for part in again] == [part.fingerprint for part in first]


def test_one_long_text_is_clustered_by_blocks_of_lines():
    """The end of the text is held out, without the blocks that occur further up."""
    text = sentences("a", 900)
    copied = text[: len(text) // 50]
    ending = sentences("b", 40)
    plain, with_copy = (Documents.of([whole], "text") for whole in (text, text + copied + ending))
    train, held_out = plain.split(0.1, True)
    (end,) = texts_of(held_out)
    assert text.endswith(end)
    assert texts_of(train) == (text.removesuffix(end),)
    assert len(end) / len(text) == pytest.approx(0.1, abs=0.01)
    assert verbatim_overlap(*with_copy.split(0.1)).windows > 0.1
    train, held_out = with_copy.split(0.1, True)
    assert verbatim_overlap(train, held_out).windows < 0.01
    # One block may hold the end of the copy and the first of the new lines.
    assert ending[1500:] in "".join(texts_of(held_out))
    assert "".join(texts_of(train)).count(copied[:200]) == 2
    # What follows a gap is a document of its own.
    assert min(len(texts_of(train)), len(texts_of(held_out))) > 1
    assert train.characters + held_out.characters == with_copy.characters


def test_a_text_that_is_one_cluster_is_refused():
    with pytest.raises(DataError, match=r"data\.split: .* is one cluster of near-duplicates"):
        Documents.of([f"{words(0)}\n" * 50], "copies").split(0.1, True)


def test_blocks_are_whole_lines_and_together_the_text():
    text = sentences(0, 100)
    pieces = [(True, text[:1000]), (False, text[1000:]), (True, "alone"), (True, "x" * 500)]
    blocks = list(text_blocks(pieces, 200))
    assert "".join(blocks) == text + "alone" + "x" * 500
    assert "alone" in blocks
    assert "x" * 400 in blocks
    assert all(block.endswith("\n") and 200 <= len(block) < 400 for block in blocks[: blocks.index("alone") - 1])


def test_no_family_makes_up_the_held_out_text():
    sizes = [100, *[2] * 450]
    chosen = held_out_clusters(sizes, 100)
    assert 0 not in chosen
    assert sum(sizes[place] for place in chosen) == 100
    # Without enough small clusters, larger ones are taken.
    assert held_out_clusters([50, 50, 50, 50], 50) == {0}


def test_the_overlap_is_counted_by_windows_and_lines():
    copied, own = "x = " + "".join(map(str, range(100, 150))), "y = " + "".join(map(str, range(300, 350)))
    train = Documents.of([f"{words(1)}\n  {copied}\n"], "training")
    held_out = Documents.of([f"{copied}\n{own}\nshort\n{copied}\n"], "held out")
    found = verbatim_overlap(train, held_out)
    assert found.lines == pytest.approx(2 / 3)
    text = texts_of(held_out)[0].encode()
    windows = [text[start : start + 64] for start in range(len(text) - 63)]
    inside = [window in texts_of(train)[0].encode() for window in windows]
    assert found.windows == pytest.approx(sum(inside) / len(windows))
    assert sum(inside) > 100
