"""Floors of whole configs: what is counted, what is scored, and what is kept."""

import json
import math
import zlib
from collections import Counter

import numpy as np
import pytest

from tests.support.small_tokenizers import saved
from zoo import config, data
from zoo.lab.floors import run_floors as module
from zoo.lab.floors.ngrams import WittenBell
from zoo.lab.floors.record import RunFloors, floors_record, parse_floors, read_floors
from zoo.lab.floors.run_floors import run_floors

WORDS = ("over", "under", "between", "again", "never", "always")


@pytest.fixture
def floors(tmp_path, monkeypatch):
    """Returns the floors of a config of a small text, with changes, and its data set."""
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    text = " ".join(WORDS[zlib.crc32(bytes([n % 256, n // 256])) % len(WORDS)] for n in range(1500))
    (tmp_path / "text.txt").write_text("\n\n".join(text[at : at + 40] for at in range(0, len(text), 40)))

    def compute(say=lambda line: None, **changes):
        base = {
            "data.source": f"text:{tmp_path / 'text.txt'}",
            "data.document_separator": "\n\n",
            "data.sequence_length": 16,
            "data.batch_size": 4,
            "data.validation_fraction": 0.3,
            "training.steps": 10,
            "training.eval_batches": 5,
        }
        changes = {path.replace("__", "."): value for path, value in changes.items()}
        resolved = config.resolve(config.override(config.default(), base | changes))
        dataset = data.load(resolved)
        return run_floors(resolved, dataset, say), dataset, resolved

    return compute


def read_rows(dataset, steps):
    batches = dataset.training_batches()
    return np.concatenate([batches.batch(step)["tokens"] for step in range(steps)])


def held_out_rows(dataset, length=None):
    return np.concatenate([batch["tokens"] for batch in dataset.evaluation_batches(length)])


def test_a_decoder_has_the_floors_of_its_own_rows(floors):
    found, dataset, _ = floors(training__eval_lengths=(8,))
    rows, vocab_size = read_rows(dataset, 10), dataset.tokenizer.vocab_size
    assert rows.shape == (40, 17)
    losses = WittenBell(rows, vocab_size).losses(held_out_rows(dataset))
    best = int(np.argmin(losses))
    assert best >= 2
    assert list(found.scores) == ["unigram", "bigram", f"{best + 1}-gram"]
    assert [found.scores[name]["eval/loss"] for name in found.scores] == [losses[0], losses[1], losses[best]]
    short = WittenBell(rows, vocab_size).losses(held_out_rows(dataset, 8))
    assert found.scores["bigram"]["eval/loss@8"] == short[1] != losses[1]
    # All tokens are bytes but those that open documents.
    targets = held_out_rows(dataset)[:, 1:]
    share = (targets[targets >= 0] < 256).mean()
    bigram = found.scores["bigram"]
    assert bigram["eval/perplexity"] == pytest.approx(math.exp(losses[1]))
    assert bigram["eval/bits_per_byte"] == pytest.approx(losses[1] / math.log(2) / share)
    assert found.note == "counted on 640 training tokens"


def test_floors_per_byte_count_the_bytes_of_the_documents(floors, tmp_path):
    path = str(saved(tmp_path / "tokenizer", "wordpiece"))
    found, dataset, _ = floors(data__tokenizer__kind="file", data__tokenizer__path=path, training__eval_batches=0)
    assert not dataset.tokenizer.lossless
    targets = held_out_rows(dataset)[:, 1:]
    (text,) = dataset.held_out_texts
    size = text.documents.bytes / (targets >= 0).sum()
    for scores in found.scores.values():
        assert scores["eval/bits_per_byte"] == pytest.approx(scores["eval/loss"] / math.log(2) / size)


def test_rows_that_a_run_reads_again_are_counted_once(floors):
    _, dataset, _ = floors()
    rows = dataset.batching.row_count([part.train_stream for part in dataset.parts])
    once, twice = (floors(training__steps=steps)[0] for steps in (math.ceil(rows / 4), 5 * rows))
    assert once.scores == twice.scores
    assert floors(training__steps=10)[0].scores != once.scores


def test_rows_of_a_mixture_are_counted_once_whatever_their_weights(floors, tmp_path):
    (tmp_path / "small.txt").write_text("\n\n".join(f"a small text, line {n}" for n in range(60)))
    entries = f"0.8*text:{tmp_path / 'small.txt'}", f"0.2*text:{tmp_path / 'text.txt'}"
    _, dataset, _ = floors(data__source="mixture", data__mixture=entries)
    streams = [part.train_stream for part in dataset.parts]
    rows = dataset.batching.row_count(streams)
    everything = dataset.batching.rows(streams, 16).gather(np.arange(rows), np.zeros(rows, np.int64), 0)["tokens"]
    distinct = len({row.tobytes() for row in everything})
    counted, read = (
        {row.tobytes() for step in range(rows // 4) for row in batches.batch(step)["tokens"]}
        for batches in (module._batches_of_rows(dataset), dataset.training_batches())
    )
    assert len(counted) >= 0.95 * distinct
    assert len(read) < 0.7 * distinct


def test_long_trainings_are_counted_in_part(floors, monkeypatch):
    lines = []
    monkeypatch.setattr(module, "MOST_TOKENS", 320)
    monkeypatch.setattr(module, "_LONG", 300)
    found, dataset, _ = floors(lines.append)
    assert found.note == "counted on 320 training tokens, the first of its training"
    assert lines == ["counting n-grams on 320 training tokens, whose loss is the floor of every arm"]
    losses = WittenBell(read_rows(dataset, 5), dataset.tokenizer.vocab_size).losses(held_out_rows(dataset))
    assert found.scores["unigram"]["eval/loss"] == losses[0]


def test_only_what_the_evaluation_scores_counts(floors):
    context, dataset, _ = floors(training__eval_context=9)
    rows = held_out_rows(dataset)
    scored = np.broadcast_to(np.arange(17) >= 9, rows.shape)
    losses = WittenBell(read_rows(dataset, 10), dataset.tokenizer.vocab_size).losses(rows, scored)
    assert context.scores["bigram"]["eval/loss"] == losses[1]


def test_documents_that_are_kept_apart_are_no_context(floors):
    found, dataset, _ = floors(data__isolate_documents=True)
    size, opening = dataset.tokenizer.vocab_size, dataset.tokenizer.bos_id
    rows, held_out = read_rows(dataset, 10), held_out_rows(dataset)
    apart = WittenBell(rows, size, opening=opening).losses(held_out)
    assert min(apart) != min(WittenBell(rows, size).losses(held_out))
    assert list(found.scores.values())[-1]["eval/loss"] == min(apart)


def test_a_masked_model_has_the_unigram_of_its_hidden_tokens(floors):
    found, dataset, _ = floors(model__architecture="encoder", objective__kind="masked")
    batches = dataset.training_batches()
    hidden = np.concatenate([batches.batch(step)["targets"].ravel() for step in range(10)])
    counts, size = Counter(hidden[hidden >= 0].tolist()), dataset.tokenizer.vocab_size
    targets = np.concatenate([batch["targets"].ravel() for batch in dataset.evaluation_batches()])
    p = [
        (counts[target] + len(counts) / size) / (counts.total() + len(counts))
        for target in targets[targets >= 0].tolist()
    ]
    assert list(found.scores) == ["unigram"]
    assert found.scores["unigram"]["eval/loss"] == pytest.approx(-np.log(p).mean())


def test_other_objectives(floors):
    prefix, dataset, _ = floors(
        model__architecture="encoder_decoder", objective__kind="prefix", objective__prefix_length=8
    )
    rows = held_out_rows(dataset)
    scored = np.broadcast_to(np.arange(17) >= 8, rows.shape)
    losses = WittenBell(read_rows(dataset, 10), dataset.tokenizer.vocab_size).losses(rows, scored)
    assert prefix.scores["unigram"]["eval/loss"] == losses[0]
    spans, *_ = floors(model__architecture="encoder_decoder", objective__kind="span")
    assert {"unigram", "bigram"} <= set(spans.scores)
    replaced, *_ = floors(model__architecture="encoder", objective__kind="replaced_tokens")
    assert replaced == RunFloors(note="no floor is defined for objective.kind=replaced_tokens")


def test_a_synthetic_task_has_best_guesses_and_an_entropy(floors):
    source = "synthetic:recall,length=4,symbols=12,documents=200"
    found, *_ = floors(data__source=source, data__document_separator="")
    assert found.scores["constant answer"] == {"measured/probe_recall": 0.1}
    # Four digits: counts 1 1 1 1, 2 1 1, 2 2, 3 1 and 4 of 5040, 4320, 270, 360 and 10 in 10,000.
    guess = (5040 * 1 + (4320 + 270) * 2 + 360 * 3 + 10 * 4) / 4e4
    assert found.scores["context-only answer"] == {"measured/probe_recall": pytest.approx(guess)}
    assert found.best == {"eval/bits_per_byte": pytest.approx(2.402, abs=1e-3)}
    assert found.scores["unigram"]["eval/bits_per_byte"] > found.best["eval/bits_per_byte"]


def test_the_tasks_of_a_mixture_have_their_guesses(floors):
    entries = "0.5*stdlib", "0.2*synthetic:recall,length=1", "0.2*synthetic:recall,length=2", "0.1*synthetic:parity"
    found, *_ = floors(data__source="mixture", data__mixture=entries, data__document_separator="")
    assert found.scores["constant answer"] == pytest.approx(
        {"measured/probe_recall": 0.1, "measured/probe_parity": 0.5}
    )
    assert found.scores["context-only answer"] == pytest.approx({"measured/probe_recall": (1 + 0.55) / 2})
    assert "eval/bits_per_byte" not in found.best


def test_floors_are_cached_by_what_they_depend_on(floors, monkeypatch):
    first, dataset, resolved = floors()
    monkeypatch.setattr(module, "WittenBell", None)
    assert run_floors(resolved, dataset) == first
    same = config.resolve(config.override(resolved, {"model.dim": 32, "optimizer.learning_rate": 1e-4}))
    assert run_floors(same, dataset) == first
    for changes in ({"seed": 1}, {"training.steps": 11}, {"training.eval_batches": 4}):
        with pytest.raises(TypeError):
            run_floors(config.resolve(config.override(resolved, changes)), dataset)


def test_without_a_tokenizer_there_is_nothing_to_count_yet(floors):
    _, _, resolved = floors()
    assert run_floors(resolved, None).waits


LABELLED = [
    *(("the cat sat here", "animal") for _ in range(9)),
    *(("a dog ran there", "animal") for _ in range(3)),
    *(("the sum of numbers", "number") for _ in range(8)),
]


def labelled(tmp_path, kind, rows, **changes):
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    resolved = config.override(
        config.default(),
        {
            "model.architecture": "encoder",
            "objective.kind": kind,
            "data.source": f"jsonl:{tmp_path / 'train.jsonl'}",
            "data.held_out": f"jsonl:{tmp_path / 'train.jsonl'}",
            "data.label_column": "label",
            **changes,
        },
    )
    return run_floors(config.resolve(resolved, vocab_size=300), None)


def test_classes_have_the_majority_and_a_bag_of_words(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    found = labelled(tmp_path, "classification", [{"text": text, "label": label} for text, label in LABELLED])
    majority, words = found.scores["majority class"], found.scores["bag of words"]
    assert majority["eval/accuracy"] == 0.6
    assert majority["eval/matthews"] == 0
    # One more of each class is counted: 13 and 9 of 22.
    assert majority["eval/loss"] == pytest.approx(-(12 * math.log(13 / 22) + 8 * math.log(9 / 22)) / 20)
    assert words["eval/accuracy"] == 1
    assert words["eval/loss"] < 0.2
    assert found.note == "counted on 20 training examples"
    few = labelled(
        tmp_path, "classification", [{"text": text, "label": label} for text, label in LABELLED], **{"data.examples": 8}
    )
    assert few.note == "counted on 8 training examples"
    assert few.scores["majority class"]["eval/loss"] != majority["eval/loss"]


def test_numbers_have_their_mean_and_a_bag_of_words(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    rows = [{"text": f"{'good ' * n}bad", "label": float(n)} for n in range(6)]
    found = labelled(tmp_path, "regression", rows)
    assert found.scores["mean of the labels"] == {"eval/loss": pytest.approx(np.var(range(6)))}
    assert found.scores["bag of words"]["eval/loss"] < np.var(range(6))
    assert found.scores["bag of words"]["eval/pearson"] > 0.5


def test_tags_have_the_majority_and_the_tag_of_each_word(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "read_task", lambda resolved: fake_tags())
    resolved = config.resolve(
        config.override(
            config.default(),
            {"model.architecture": "encoder", "objective.kind": "tagging", "data.source": "stdlib:tagging"},
        ),
        vocab_size=300,
    )
    found = run_floors(resolved, None)
    # In the held-out sentence, "runs" was seen as O and as B-V, and "new" never.
    assert found.scores["majority tag"]["eval/accuracy"] == 0.5
    assert found.scores["tag by word"]["eval/accuracy"] == 0.75
    assert found.scores["tag by word"]["eval/word_accuracy"] == 0.75
    assert found.scores["majority tag"]["eval/entity_f1"] == 0
    assert found.scores["tag by word"]["eval/entity_f1"] == pytest.approx(2 / 3)
    # Of 8 tags 5 are O, 2 B-N and 1 B-V; three words follow "the", two "runs".
    tags = {"O": (5 + 1) / 11, "B-N": (2 + 1) / 11, "B-V": (1 + 1) / 11}
    p = [(3 + tags["O"]) / 4, (1 + tags["B-N"]) / 2, (1 + 2 * tags["O"]) / 4, tags["B-V"]]
    assert found.scores["tag by word"]["eval/loss"] == pytest.approx(-np.log(p).mean())


def fake_tags():
    from types import SimpleNamespace

    from zoo.data.labelled.examples import ExampleSplit, TaggedWords

    train = (
        TaggedWords(("the", "cat", "runs"), ("O", "B-N", "O")),
        TaggedWords(("the", "dog", "runs"), ("O", "B-N", "B-V")),
        TaggedWords(("the", "end"), ("O", "O")),
    )
    held_out = (TaggedWords(("the", "cat"), ("O", "B-N")), TaggedWords(("runs", "new"), ("O", "B-V")))
    return ExampleSplit(train, held_out, (), "tags", Counter()), SimpleNamespace(labels=("B-N", "B-V", "O"))


def test_a_record_is_read_back(tmp_path):
    found = RunFloors({"unigram": {"eval/loss": 3.5}}, {"eval/bits_per_byte": 1.0}, "counted")
    assert parse_floors(floors_record(found)) == found
    assert parse_floors({"scores": {"unigram": {"eval/loss": "3"}}, "best": {}, "note": ""}) is None
    assert found.of("eval/ema/loss") == {"unigram": 3.5}
    assert found.of("eval/loss@64") == found.of("measured/spikes") == {}
    problems = []
    assert read_floors(tmp_path, problems) is None
    assert not problems
    (tmp_path / "floors.json").write_text(json.dumps({"arms": {"a": floors_record(found)}}))
    assert read_floors(tmp_path, problems) == {"a": found}
    (tmp_path / "floors.json").write_text("{}")
    assert read_floors(tmp_path, problems) is None
    assert "not the floors of arms" in problems[0]
