"""Tags of words and spans of answers: their alignment with tokens, windows of long contexts, and
scores of predictions.
"""

import json

import numpy as np
import pytest

from tests.data.labelled.test_examples import config
from tests.support.sample_data import vocabulary
from zoo import data
from zoo.data.labelled.example_rows import window_starts
from zoo.data.labelled.examples import TaggedWords
from zoo.data.labelled.question_windows import Extraction, best_span
from zoo.data.labelled.sequence_tasks import EncodedExamples
from zoo.data.labelled.task_scores import answer_scores, entity_scores, normalise_answer
from zoo.data.labelled.word_tags import Tagging, first_token_of_words
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError, DataError

SENTENCE = ("Un", "naïve", "", "sheep", "x-y")
CONLL = "-DOCSTART- O\n\nEU B-org\nsays I-org\nno O\n\n\ufeff\nOslo B-place\n\nEU O\nOslo O"


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), read_pretrained(vocabulary())], ids=["bytes", "wordpiece"])
def test_token_offsets_match_the_text(tokenizer):
    text = " ".join(SENTENCE)
    (located,) = tokenizer.encode_with_offsets([text])
    assert located.ids.tolist() == tokenizer.encode(text).tolist()
    pieces = [text[start:stop] for start, stop in zip(located.starts, located.stops, strict=True)]
    if tokenizer.kind == "bytes":
        # Both bytes of a letter have the offsets of that letter.
        assert "".join(pieces) == text.replace("ï", "ïï")
    else:
        assert "".join(pieces) == text.replace(" ", "")
    first = first_token_of_words(SENTENCE, located.starts, located.stops)
    assert [text[located.starts[place]] if place >= 0 else None for place in first] == ["U", "n", None, "s", "x"]


def test_a_token_may_include_the_space_before_its_word():
    # Byte-level BPE splits the words into "ab", " c", "d" and " ef".
    assert first_token_of_words(("ab", "cd", "ef"), np.array([0, 2, 4, 5]), np.array([2, 4, 5, 8])).tolist() == [
        0,
        1,
        3,
    ]


def test_conll_sentences_become_rows_with_labels(tmp_path):
    (tmp_path / "a.conll").write_text(CONLL)
    resolved = config(
        f"conll:{tmp_path / 'a.conll'}",
        "tagging",
        data__held_out=f"conll:{tmp_path / 'a.conll'}",
        data__sequence_length=8,
    )
    dataset = data.load(resolved)
    assert dataset.labels == ("B-org", "B-place", "I-org", "O")
    assert [example.words for example in dataset.examples.train] == [("EU", "says", "no"), ("Oslo",), ("EU", "Oslo")]
    encoded = dataset.encoded("train")
    # [CLS] E U _ s a y [SEP]: "no" is cut off, and the last sentence's Oslo has room for its first
    # letters.
    assert encoded.arrays["labels"][:2].tolist() == [[-1, 0, -1, -1, 2, -1, -1, -1], [-1, 1, -1, -1, -1, -1, -1, -1]]
    assert encoded.cut == {"words cut off or unseen": 1}
    perfect = dataset.measure({"predicted": np.maximum(encoded.arrays["labels"], 0)})
    assert perfect == {"word_accuracy": 1.0, "entity_precision": 1.0, "entity_recall": 1.0, "entity_f1": 1.0}
    nothing = dataset.measure({"predicted": np.full((3, 8), 3)})
    assert nothing == {"word_accuracy": 0.5, "entity_precision": 0.0, "entity_recall": 0.0, "entity_f1": 0.0}


def test_bad_conll_columns_are_reported(tmp_path):
    (tmp_path / "a.conll").write_text("EU B-org\nsays\n\nno O\n")
    source = f"conll:{tmp_path / 'a.conll'}"
    with pytest.raises(DataError, match="line 2: 1 columns, and the first line has 2"):
        config(source, "tagging")
    with pytest.raises(ConfigError, match=r"the file has 2 columns \(0 to 1\), but words=0, tags=5"):
        config(source, "tagging", data__conll__tags=5)


@pytest.mark.parametrize(
    ("true", "predicted", "num_correct", "num_true", "num_predicted"),
    [
        ("B-a I-a O B-a", "B-a I-a O B-a", 2, 2, 2),
        # I after O begins an entity, as B does.
        ("B-a I-a O O", "I-a I-a O O", 1, 1, 1),
        ("O B-a I-a O", "O I-a I-a I-a", 0, 1, 1),
        # A change of type begins an entity, and so does B after I.
        ("B-a I-b I-b O", "I-a B-b I-b O", 2, 2, 2),
        ("B-a B-a O O", "B-a I-a O O", 0, 2, 1),
        # IOBES: S is an entity of one word, and the word after E begins another entity.
        ("S-a B-b I-b E-b", "B-a B-b I-b I-b", 2, 2, 2),
        ("B-b E-b I-b O", "B-b I-b I-b O", 0, 2, 1),
        # BILOU: L is the last word, and U the only one.
        ("B-a L-a B-a L-a O", "O O B-a L-a O", 1, 2, 1),
        ("B-a L-a B-a L-a O", "B-a L-a O O O", 1, 2, 1),
        ("U-a U-a O", "U-a O O", 1, 2, 1),
        ("O O", "O O", 0, 0, 0),
        ("O B-a", "O O", 0, 1, 0),
    ],
)
def test_entities_are_counted_as_by_conlleval(true, predicted, num_correct, num_true, num_predicted):
    scores = entity_scores([true.split()], [predicted.split()])
    assert scores == {
        "entity_precision": pytest.approx(num_correct / max(num_predicted, 1)),
        "entity_recall": pytest.approx(num_correct / max(num_true, 1)),
        "entity_f1": pytest.approx(2 * num_correct / max(num_true + num_predicted, 1)),
    }


@pytest.mark.parametrize("prefix", ["", "N-"])
def test_tags_without_a_prefix_of_entities_form_none(prefix):
    noun, verb = prefix + "noun", prefix + "verb"
    tagging = Tagging(("O", noun, verb))
    scores = tagging.measure(
        {"predicted": np.array([[1, 2]])},
        [TaggedWords(("a", "b"), (noun, noun))],
        EncodedExamples({}, {}, [np.array([0, 1])]),
    )
    assert scores == {"word_accuracy": 0.5}


def test_entity_scores_by_hand():
    true, predicted = [["B-a", "I-a", "O"], ["B-b", "O"]], [["B-a", "O", "O"], ["B-b", "B-a"]]
    # Of two true entities one is found, and three are predicted.
    assert entity_scores(true, predicted) == {
        "entity_precision": pytest.approx(1 / 3),
        "entity_recall": 0.5,
        "entity_f1": pytest.approx(2 / 5),
    }


def test_answers_are_compared_as_squad_does():
    assert normalise_answer("The U.S.A., a  land") == ["usa", "land"]
    assert answer_scores(["The cat!"], [["cat", "a dog"]]) == {"exact_match": 1.0, "answer_f1": 1.0}
    # Precision 2 / 3 and recall 2 / 2.
    assert answer_scores(["big black cat", ""], [["black cat"], ["x"]]) == {
        "exact_match": 0.0,
        "answer_f1": pytest.approx(0.8 / 2),
    }
    # For a question without an answer only the empty text is correct.
    assert answer_scores(["", "cat"], [[], []]) == {"exact_match": 0.5, "answer_f1": 0.5}


@pytest.mark.parametrize(
    ("tokens", "room", "stride", "starts"),
    [(10, 10, 3, [0]), (11, 10, 3, [0, 3]), (20, 6, 4, [0, 4, 8, 12, 16]), (9, 3, 100, [0, 3, 6]), (0, 5, 2, [0])],
)
def test_windows_cover_every_token(tokens, room, stride, starts):
    assert window_starts(tokens, room, stride) == starts
    assert set(range(tokens)) <= {place for start in starts for place in range(start, start + room)}


def test_the_best_valid_span():
    starts, ends = np.array([0.0, 5.0, 1.0, 4.0]), np.array([9.0, 0.0, 2.0, 3.0])
    # The best start lies after the best end. Without the first token, spans of at most two tokens
    # leave 0 to 1 and 2 to 2, and longer ones allow 0 to 2.
    assert best_span(starts, ends, 30) == (9.0, 0, 0)
    assert best_span(starts[1:], ends[1:], 2) == (7.0, 0, 1)
    assert best_span(starts[1:], ends[1:], 3) == (8.0, 0, 2)


def question_config(tmp_path, answers):
    context = "The quick brown fox jumps over the lazy dog near the old river bank."
    qas = [
        {
            "id": str(i),
            "question": "who?",
            "answers": [{"text": answer, "answer_start": context.index(answer)}] if answer else [],
        }
        for i, answer in enumerate(answers)
    ]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    return config(
        f"squad:{path}", "extraction", data__held_out=f"squad:{path}", data__sequence_length=32, data__stride=8
    )


def true_scores(arrays):
    """Returns scores of 1 at the true positions, or at [CLS] in rows without an answer."""
    places = np.arange(arrays["tokens"].shape[1])[None]
    return {f"{side}_scores": np.where(places == arrays[f"{side}s"][:, None], 1.0, 0.0) for side in ("start", "end")}


def test_the_best_span_of_all_rows_is_the_answer(tmp_path):
    dataset = data.load(question_config(tmp_path, ["brown fox", "dog near", "bank"]))
    encoded = dataset.encoded("validation")
    # A row holds 25 of the 68 bytes of the context, and rows start 8 bytes apart.
    assert len(encoded.extra) == 3 * 7
    assert dataset.task.answers(true_scores(encoded.arrays), dataset.examples.held_out, encoded) == [
        ("brown fox", 10, 19),
        ("dog near", 40, 48),
        ("bank", 63, 67),
    ]
    assert dataset.measure(true_scores(encoded.arrays)) == {"exact_match": 1.0, "answer_f1": 1.0}
    short = Extraction(8, 4, False)
    assert short.answers(true_scores(encoded.arrays), dataset.examples.held_out, encoded)[2].text == "bank"
    assert short.answers(true_scores(encoded.arrays), dataset.examples.held_out, encoded)[0].text != "brown fox"


def test_answers_longer_than_a_row_and_unanswerable_questions(tmp_path):
    dataset = data.load(question_config(tmp_path, ["The quick brown fox jumps over the lazy dog", None, "fox"]))
    encoded = dataset.encoded("validation")
    assert encoded.cut == {"questions cut": 0, "answers in no row": 1}
    first = [row for row, window in enumerate(encoded.extra) if window.example < 2]
    assert (encoded.arrays["starts"][first] == 0).all()
    assert dataset.task.unanswerable
    assert dataset.summary()["unanswerable"]
    # [CLS] has the best score in every row of the second question, and in those rows of the third
    # that do not hold its answer.
    assert dataset.task.answers(true_scores(encoded.arrays), dataset.examples.held_out, encoded)[1:] == [
        ("", None, None),
        ("fox", 16, 19),
    ]


def test_no_answer_counts_by_its_smallest_score_where_questions_may_have_none(tmp_path):
    """As in the evaluation of SQuAD 2 in BERT's run_squad.py."""
    dataset = data.load(question_config(tmp_path, ["fox"]))
    encoded = dataset.encoded("validation")
    outputs = true_scores(encoded.arrays)
    # [CLS] is far ahead in the last row alone.
    outputs["start_scores"][-1, 0] = outputs["end_scores"][-1, 0] = 9.0
    examples = dataset.examples.held_out
    assert Extraction(8, 4, True).answers(outputs, examples, encoded)[0].text == "fox"
    outputs["start_scores"][:, 0] = outputs["end_scores"][:, 0] = 9.0
    assert Extraction(8, 4, True).answers(outputs, examples, encoded)[0].text == ""
    assert Extraction(8, 4, False).answers(outputs, examples, encoded)[0].text == "fox"


def test_a_question_takes_half_of_a_row_at_most(tmp_path):
    settings = question_config(tmp_path, ["fox"])
    path = tmp_path / "a.json"
    path.write_text(path.read_text().replace("who?", "w" * 40))
    dataset = data.load(settings)
    encoded = dataset.encoded("validation")
    assert encoded.cut["questions cut"] == 1
    asked = (encoded.arrays["tokens"] == ord("w")) & (encoded.arrays["segments"] == 0)
    # 32 tokens less the first and two separators.
    assert (asked.sum(axis=1) == (32 - 3) // 2).all()


def test_answers_are_stripped_of_white_space(tmp_path):
    dataset = data.load(question_config(tmp_path, ["fox jumps"]))
    encoded = dataset.encoded("validation")
    outputs = true_scores(encoded.arrays)
    # Moves both ends outwards by one byte, onto the spaces.
    outputs = {
        "start_scores": np.roll(outputs["start_scores"], -1, 1),
        "end_scores": np.roll(outputs["end_scores"], 1, 1),
    }
    assert dataset.task.answers(outputs, dataset.examples.held_out, encoded) == [("fox jumps", 16, 25)]


def test_answers_at_wrong_offsets_are_refused(tmp_path):
    resolved = question_config(tmp_path, ["fox"])
    path = tmp_path / "a.json"
    path.write_text(path.read_text().replace('"answer_start": 16', '"answer_start": 17'))
    with pytest.raises(DataError, match=r'question 0: the answer "fox" does not stand at character 17'):
        data.load(resolved)
    path.write_text('{"version": 1}')
    with pytest.raises(DataError, match="not in the format of SQuAD"):
        data.load(resolved)
