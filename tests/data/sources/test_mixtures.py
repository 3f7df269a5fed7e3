"""Mixtures of sources: shares, epochs, resuming and bad entries."""

import itertools
import json
import shutil

import numpy as np
import pytest

import zoo.data
from tests.support.small_runs import curves, small
from zoo import config as configs
from zoo.data.rows.packed_rows import MixedRows
from zoo.errors import ConfigError, DataError
from zoo.training.checkpoints import checkpoint
from zoo.training.trainer import run

LETTERS = "ab"


@pytest.fixture
def parts(tmp_path):
    """Two texts, of 340 and 1700 bytes, whose letters tell them apart; no row is like another."""
    paths = [tmp_path / f"{letter}.txt" for letter in LETTERS]
    for path, letter, lines in zip(paths, LETTERS, (20, 100), strict=True):
        path.write_text("".join(f"{letter}{number:04d}{letter * 11}\n" for number in range(lines)))
    return paths


def entries(parts, *weights):
    return tuple(f"{weight}*text:{path}" for weight, path in zip(weights, parts, strict=True))


def dataset(mixture, **changes):
    settings = {"data.source": "mixture", "data.mixture": mixture, "data.sequence_length": 16, "data.batch_size": 8}
    return zoo.data.load(
        configs.resolve(configs.override(configs.default(), settings | {f"data.{k}": v for k, v in changes.items()}))
    )


def rows(mixed, count, start_step=0):
    """The first `count` training rows, as texts."""
    with mixed.training_batches(start_step) as batches:
        tokens = itertools.islice((row for batch in batches for row in batch["tokens"]), count)
        return [bytes(token for token in row[:-1].tolist() if 0 <= token < 256).decode() for row in tokens]


def source_of(row):
    (letter,) = {character for character in row if character in LETTERS}
    return letter


@pytest.mark.parametrize("weights", [(1, 1), (0.9, 0.1), (3, 5), (1e-9, 1)])
def test_shares_are_exact(parts, weights):
    period = [source_of(row) for row in rows(dataset(entries(parts, *weights)), MixedRows.PERIOD)]
    wanted = weights[0] / sum(weights) * MixedRows.PERIOD
    # A source is never left out.
    assert period.count("a") == max(1, round(wanted))
    half = period[: MixedRows.PERIOD // 2].count("a")
    assert abs(half - wanted / 2) <= 1


@pytest.mark.parametrize("exponent", [0.0, 0.3, 1.0])
def test_an_exponent_samples_by_size(parts, exponent):
    """n^alpha / sum of n^alpha (Xue et al. 2021, section 3.2), and weights still count."""
    mixed = dataset(entries(parts, 2, 1), mixture_exponent=exponent)
    sizes = [len(part.train_stream) for part in mixed.parts]
    shares = [2 * sizes[0] ** exponent, sizes[1] ** exponent]
    period = [source_of(row) for row in rows(mixed, MixedRows.PERIOD)]
    assert period.count("a") == round(shares[0] / sum(shares) * MixedRows.PERIOD)
    assert f"{shares[0] / sum(shares):.1%} text" in mixed.description


def test_epochs_of_each_part_are_permutations_of_its_rows(parts):
    mixed = dataset(entries(parts, 1, 1))
    found = rows(mixed, 240)
    a = [row for row in found if source_of(row) == "a"]
    size = (len(mixed.parts[0].train_stream) - 1) // 16
    epochs = [a[start : start + size] for start in range(0, 3 * size, size)]
    assert len(set(epochs[0])) == size
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    assert epochs[0] != epochs[1] != epochs[2]


def test_a_mixture_of_one_is_that_source(parts):
    one = dataset(entries(parts[1:], 0.3))
    alone = dataset((), source=f"text:{parts[1]}")
    assert rows(one, 40) == rows(alone, 40)
    assert one.description == alone.description


def test_rows_depend_on_start_step_and_seed(parts):
    mixed = dataset(entries(parts, 1, 2))
    assert rows(mixed, 40, start_step=3) == rows(mixed, 64)[24:]
    other = zoo.data.load(
        configs.resolve(
            configs.override(
                configs.default(),
                {
                    "data.source": "mixture",
                    "data.mixture": entries(parts, 1, 2),
                    "data.sequence_length": 16,
                    "data.batch_size": 8,
                    "seed": 1,
                },
            )
        )
    )
    assert rows(other, 40) != rows(mixed, 40)
    # The order of sources is the same for every seed.
    assert [source_of(row) for row in rows(other, 40)] == [source_of(row) for row in rows(mixed, 40)]


def test_validation_holds_every_part_once_whatever_the_weights(parts):
    def held_out(*weights):
        mixed = dataset(entries(parts, *weights))
        batches = mixed.evaluation_batches(limit_batches=0)
        return np.concatenate([batch["tokens"] for batch in batches]), mixed

    one, mixed = held_out(1, 1)
    other, _ = held_out(5, 1)
    assert np.array_equal(one, other)
    targets = sum(max(len(text.stream) - 1, 0) for text in mixed.held_out_texts)
    assert (one[:, 1:] >= 0).sum() == targets


def test_a_document_that_one_source_holds_out_and_another_trains_on_is_counted(tmp_path):
    def lines(name, numbers):
        texts = (json.dumps({"text": f"document {number} " + "word " * 9}) for number in numbers)
        (tmp_path / name).write_text("".join(f"{text}\n" for text in texts))
        return f"1*jsonl:{tmp_path}/{name}"

    one, some, other = lines("one", range(90)), lines("some", range(0, 90, 3)), lines("other", range(100, 190))
    assert "warnings" not in dataset((one, other)).summary()
    mixed = dataset((one, some))
    trained = {digest for part in mixed.parts for digest in part.train.index.digests}
    held_out = [digest for text in mixed.held_out_texts for digest in text.documents.index.digests]
    shared = sum(digest in trained for digest in held_out)
    assert 0 < shared < len(held_out)
    (line,) = mixed.summary()["warnings"]
    assert line.startswith(f"{shared} of {len(held_out)} held-out documents are also training documents")


def test_a_file_of_two_sources_is_named_where_its_end_is_held_out(parts, tmp_path):
    """The ends of few documents are cut off, so that no held-out document is a training document."""
    (folder := tmp_path / "both").mkdir()
    for part in parts:
        shutil.copy(part, folder)
    mixed = (f"1*text:{parts[0]}", f"1*text:{folder}")
    (line,) = dataset(mixed).summary()["warnings"]
    assert line.startswith("data.mixture has 1 text in two sources, each of which is divided by itself")
    (tmp_path / "held_out.txt").write_text("another text")
    assert "warnings" not in dataset(mixed, held_out=f"text:{tmp_path}/held_out.txt").summary()
    assert "warnings" not in dataset(entries(parts, 1, 1)).summary()


def test_parts_of_which_most_documents_are_copies_are_named_where_a_share_is_held_out(tmp_path):
    few = ("1*synthetic:permutations;length=1;documents=300", "1*synthetic:permutations;length=8;documents=300")
    (line,) = dataset(few).summary()["warnings"]
    assert "(length 1," in line
    assert "of the 300 documents 10 are different" in line
    (tmp_path / "held_out.txt").write_text("abc=1\n")
    assert "warnings" not in dataset(few, held_out=f"text:{tmp_path}/held_out.txt").summary()


def test_bad_entries_are_reported_in_one_line_each(parts):
    bad = (
        "text:a.txt",
        "0*stdlib",
        "-1*stdlib",
        "nan*stdlib",
        "x*stdlib",
        "1*nothing:x",
        f"1*text:{parts[0]}x",
        "1*mixture",
    )
    with pytest.raises(ConfigError) as error:
        dataset(bad)
    problems = error.value.problems
    assert len(problems) == len(bad)
    assert all(problem.startswith("data.mixture: ") and "\n" not in problem for problem in problems)
    assert all(entry in problem for entry, problem in zip(bad[:5], problems, strict=False))
    with pytest.raises(ConfigError, match=r"data.mixture: empty; data.source=mixture needs"):
        dataset(())
    with pytest.raises(ConfigError, match=r"data.mixture=.* has no effect"):
        dataset(entries(parts, 1, 1), source="stdlib")


def test_a_source_that_is_too_short_is_reported(parts):
    parts[0].write_text("a" * 10)
    with pytest.raises(DataError, match=r"there are 10 tokens, and one row takes data.sequence_length"):
        rows(dataset(entries(parts, 1, 1), sequence_length=128), 1)


def test_fields_for_one_source_of_a_mixture_are_read(parts, tmp_path):
    path = tmp_path / "c.jsonl"
    path.write_text("".join(f'{{"body": "record {number}"}}\n' for number in range(30)))
    mixed = dataset((*entries(parts[:1], 1), f"2*jsonl:{path}"), column="body")
    assert [part.source.count for part in mixed.parts] == [1, 30]
    assert "66.7% jsonl:" in mixed.description


@pytest.mark.promise(reason="runs are trained")
@pytest.mark.usefixtures("shared_programs")
def test_a_run_resumes_exactly_and_refuses_changed_text(parts, tmp_path, monkeypatch):
    config = small(
        data__source="mixture",
        data__mixture=entries(parts, 1, 2),
        model__num_layers=1,
        model__dim=16,
        training__steps=8,
    )
    run(config, tmp_path / "straight", quiet)
    polls, original = itertools.count(1), checkpoint.Checkpoints.poll

    def poll(self):
        original(self)
        if next(polls) == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint.Checkpoints, "poll", poll)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "stopped", quiet)
    text = parts[0].read_text()
    parts[0].write_text(text.replace("a0003", "a9999"))
    with pytest.raises(ConfigError, match=r"the text of data.source has changed since the run"):
        run(config, tmp_path / "stopped", quiet)
    parts[0].write_text(text)
    run(config, tmp_path / "stopped", quiet)
    assert curves(tmp_path / "stopped") == curves(tmp_path / "straight")


def quiet(line):
    pass
