"""Probes: accuracy against greedy decoding, accuracy by distance, and the requirements for a run."""

import json
import re

import numpy as np
import pytest

from tests.support.small_runs import small
from zoo import config
from zoo.analysis.probes import _rows, probe
from zoo.analysis.run_measures import measure_run
from zoo.cli.main import main
from zoo.data.sources.synthetic import SYNTHETIC_TASKS, parse
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.inference.loaded_model import load
from zoo.lab.measures import MEASURES, why_unavailable
from zoo.nested import flatten
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

SOURCE = "synthetic:recall,documents=400,length=2,symbols=3"
RECALL = {"data__source": SOURCE, "data__tokenizer__kind": "characters"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learned little more than that answers are digits."""
    folder = tmp_path_factory.mktemp("probe") / "run"
    run(
        small(**RECALL, training__steps=40, training__eval_every=0, training__checkpoint_every=0),
        folder,
        lambda line: None,
    )
    return folder


@pytest.mark.promise(reason="a run is trained")
def test_probe_accuracy_matches_greedy_decoding(trained):
    task, model = parse(SOURCE.partition(":")[2]), load(trained)
    texts = list(task.texts(150, "probe recall"))
    generated = model.generate([text[:-2] for text in texts], max_new_tokens=1)
    correct = [found.text == text[-2] for found, text in zip(generated, texts, strict=True)]
    assert 0 < np.mean(correct) < 1
    found = probe(load_trained(trained), task, documents=150)
    assert found.accuracy == np.mean(correct)
    assert (found.chance, found.context_only) == (0.1, pytest.approx(0.55))
    # The digit is 5 or 3 tokens before the answer, as in q7a3?q7 and q7a3?a3.
    assert sum(count for *_, count in found.by_distance) == 150
    assert (found.by_distance[0][0], found.by_distance[-1][1]) == (3, 5)
    for low, high, share, count in found.by_distance:
        within = [low <= 6 - (text.index(text[-3]) + 1) <= high for text in texts]
        assert count == sum(within)
        assert share == np.mean(np.array(correct)[within])


@pytest.mark.promise(reason="a run is trained")
def test_the_first_question_of_several_counts(tmp_path, capsys):
    source = "synthetic:multi_query_recall,documents=400,length=2,symbols=3"
    changes = {"data__source": source, "data__tokenizer__kind": "characters", "training__checkpoint_every": 0}
    run(small(**changes, training__steps=40, training__eval_every=0), tmp_path / "run", lambda line: None)
    task, model = parse(source.partition(":")[2]), load(tmp_path / "run")
    texts = list(task.texts(150, "probe multi_query_recall"))
    shares = []
    for end in task.answer_ends:
        generated = model.generate([text[: end - 1] for text in texts], max_new_tokens=1)
        shares.append(np.mean([found.text == text[end - 1] for found, text in zip(generated, texts, strict=True)]))
    found = probe(load_trained(tmp_path / "run"), task, documents=150)
    assert found.by_question == pytest.approx(shares)
    assert found.accuracy == found.by_question[0] != found.by_question[1]
    assert main(["probe", str(tmp_path / "run"), "--documents", "150"]) == 0
    assert f"  question 2 of 2: {shares[1]:.1%}" in capsys.readouterr().out


@pytest.mark.promise(reason="a run is trained")
def test_probe_measure_and_command(trained, capsys):
    values = measure_run(trained, ["probe_recall"])
    assert main(["probe", str(trained), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert values == {"measured/probe_recall": record["accuracy"]}
    assert (record["task"], record["length"], record["documents"]) == ("recall", 2, 1024)
    assert main(["probe", str(trained), "--task", "recall,length=1,symbols=3", "--documents", "5"]) == 0
    assert re.search(
        r"recall, length 1: [\d.]+% of 5 answers \(chance 10.0%, context only 100.0%\)", capsys.readouterr().out
    )
    assert main(["probe", str(trained), "--task", "copy,length=30"]) == 2
    assert "62 tokens, and data.sequence_length=16" in capsys.readouterr().err


def flat(**changes):
    return flatten(config.resolve(small(**changes)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "learns to answer synthetic:recall from its data, and data.source="),
        ({"data__source": "synthetic:copy"}, "set it to synthetic:recall, or to a mixture with it"),
        ({"data__source": SOURCE, "data__tokenizer__kind": "bpe"}, ""),
        ({"data__source": SOURCE, "data__tokenizer__kind": "wordpiece"}, "own where data.tokenizer.kind is wordpiece"),
        ({"data__source": SOURCE, "data__sequence_length": 4}, "have 8 tokens, and data.sequence_length=4"),
        ({"data__source": SOURCE, "model__architecture": "encoder", "objective__kind": "masked"}, "objective.kind=causal"),
        (RECALL, ""),
        ({"data__source": "mixture", "data__mixture": ("0.5*stdlib", f"0.5*{SOURCE}")}, ""),
        (RECALL | {"objective__kind": "multi_token"}, ""),
    ],
)  # fmt: skip
def test_why_probes_are_unavailable(changes, words):
    reason = why_unavailable("measured/probe_recall", flat(**changes))
    assert words in reason if words else not reason


def test_answers_that_follow_a_character_of_their_class_need_single_characters():
    induction = {"data__source": "synthetic:induction,length=4", "data__tokenizer__kind": "bpe"}
    assert "data.tokenizer.kind is bpe" in why_unavailable("measured/probe_induction", flat(**induction))
    assert {name for name in SYNTHETIC_TASKS if not parse(name).answer_is_apart} == {"induction"}


class Pairs(ByteTokenizer):
    """Bytes, of which two digits are one token; the two that an "=" precedes too with `across`."""

    def __init__(self, across=False):
        super().__init__()
        self.pattern = re.compile(r"=\d|\d\d|." if across else r"\d\d|.")

    def encode(self, text):
        return np.array([int.from_bytes(part.encode()) for part in self.pattern.findall(text)], np.int32)


def test_answers_of_several_characters_are_whole_tokens():
    task = parse("addition,length=2")
    rows, answers = _rows(Pairs(), ["12+30=042\n", "99+99=198\n"], task)
    opens, two = Pairs().bos_id, lambda text: int.from_bytes(text.encode())
    assert rows.tolist() == [
        [opens, two("12"), ord("+"), two("30"), ord("="), two("04"), ord("2")],
        [opens, two("99"), ord("+"), two("99"), ord("="), two("19"), ord("8")],
    ]
    assert answers.tolist() == [[[False] * 5 + [True] * 2]] * 2
    rows, answers = _rows(Pairs(), ["12+3=0\n", "1+3=0\n"], parse("recall,length=1"))
    assert [(row[-1] == opens, answer[0, -1]) for row, answer in zip(rows, answers, strict=True)] == [(False, True)] * 2
    with pytest.raises(ConfigError, match="answers of addition are not whole tokens of the run's tokenizer"):
        _rows(Pairs(across=True), ["12+30=042\n"], task)


def test_every_task_has_a_probe():
    assert {measure.task for measure in MEASURES.values() if measure.task} == set(SYNTHETIC_TASKS)
    for name in SYNTHETIC_TASKS:
        task = parse(name)
        size = task.task.answer(task.length)
        for text in task.texts(20, "probe"):
            assert text[task.answer_ends[-1] :] == "\n"
            # Without what follows its first answer, a document is one of a task with one question.
            asked = text[: task.answer_ends[0]]
            if task.task.place is not None:
                place = task.task.place(asked)
                assert place < len(asked) - 1
                assert asked[place] == asked[-size:]


def test_every_pair_of_several_is_asked_for():
    task = parse("multi_query_recall,length=3")
    assert task.answer_ends == (9, 11, 13)
    for text in task.texts(20, "probe"):
        pairs = dict(zip(text[:6:2], text[1:6:2], strict=True))
        assert [pairs[text[end - 2]] for end in task.answer_ends] == [text[end - 1] for end in task.answer_ends]
    rows, answers = _rows(ByteTokenizer(), ["a1b2?b2a1\n"], parse("multi_query_recall,length=2"))
    assert [[chr(token) for token in rows[0, which]] for which in answers[0]] == [["2"], ["1"]]


@pytest.mark.promise(reason="a run is trained")
def test_probes_of_untrained_tasks_are_rejected(trained):
    with pytest.raises(ConfigError, match="has no synthetic:copy"):
        measure_run(trained, ["probe_copy"])
