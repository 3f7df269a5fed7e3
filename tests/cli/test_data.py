"""`zoo data show` prints the batches that the model is trained on."""

import itertools
import json

import numpy as np
import pytest

from zoo import config as configs
from zoo import data
from zoo.cli.main import main
from zoo.data.pipeline.show import BatchFormatter, histogram
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer

STORIES = "<end>".join(
    f"Once there was a fox number {number}. It ran far. It slept well! Did it wake? No." for number in range(30)
)


@pytest.fixture
def flags(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "stories.txt").write_text(STORIES)
    return [f"--config.data.source=text:{tmp_path}/stories.txt", "--config.data.document_separator=<end>"]


PAIRS = ["configs/bert.py:tiny", "--config.data.row_format=segment_pairs"]


def show(capsys, *arguments):
    assert main(["data", "show", *arguments]) == 0
    return capsys.readouterr().out


def test_pairs_show_their_segments_masks_targets_and_label(flags, capsys):
    text = show(capsys, *PAIRS, *flags, "--rows", "4")
    assert "30 documents" in text
    assert text.count("\nrow ") == 4
    assert text.count("segment 0: [CLS]") == 4
    assert text.count("segment 1, which follows:") + text.count("segment 1, which does not follow:") == 4
    assert "[MASK→" in text
    assert "tokens of a row" in text
    text = show(capsys, PAIRS[0], "--config.data.row_format=swapped_pairs", *flags, "--rows", "8")
    assert text.count("segment 1, which follows:") + text.count("segment 1, which comes before it:") == 8


def test_text_from_the_command_line(flags, capsys):
    pair = ["--text", "a fox", "--second", "ran"]
    record = json.loads(show(capsys, *PAIRS, *flags, *pair, "--json"))
    assert record["tokens"] == ["[CLS]", *"a fox", "[SEP]", *"ran", "[SEP]"]
    assert record["segments"] == [0] * 7 + [1] * 4
    assert record["ids"][1:6] == list(b"a fox")
    text = show(capsys, *PAIRS, *flags, *pair)
    assert "a row       11 tokens" in text
    table, _, hidden = text.partition("\nas in training, draw 0")
    assert table.splitlines()[-1].split() == ["10", "[SEP]", "258", "segment", "1"]
    assert "→" in hidden
    record = json.loads(show(capsys, "configs/gpt2.py:tiny", *flags, "--text", "a fox", "--json"))
    assert record["tokens"] == ["[BOS]", *"a fox"]
    assert main(["data", "show", PAIRS[0], "--second", "ran"]) == 2
    assert "--second needs --text" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_a_text_is_hidden_as_in_training(flags, capsys, name):
    spans = ["--config.objective.mean_span_length=1"] if name == "t5" else []
    config = [f"configs/{name}.py:smoke", *flags, *spans, "--text", "my teddy bear is so cute"]
    read = [json.loads(show(capsys, *config, "--step", str(draw), "--json"))["read"] for draw in (0, 0, 1)]
    assert read[0] == read[1] != read[2]
    ids = list(b"my teddy bear is so cute")
    text = show(capsys, *config)
    assert "as in training, draw 0" in text
    if name == "bert":
        chosen = dict(zip(read[0]["masked_positions"], read[0]["targets"], strict=True))
        # [CLS] comes first.
        assert all(ids[place - 1] == target for place, target in chosen.items())
        assert "→" in text
    else:
        kept = [id for id in (*read[0]["source"], *read[0]["targets"]) if id < 256]
        assert sorted(kept) == sorted(ids)
        assert "writes: <0>" in text


def test_a_text_is_hidden_by_the_counts_of_the_training_tokens(flags, capsys):
    """Of the letters of the stories "Q" occurs nowhere and "e" often."""
    config = ["configs/bert.py:smoke", *flags, "--config.objective.rare_token_exponent=2", "--text", "eeeeeeQ"]
    hidden = json.loads(show(capsys, *config, "--json"))["read"]
    assert hidden["targets"] == list(b"Q")


def test_json_shows_the_exact_batch(flags, capsys):
    record = json.loads(show(capsys, *PAIRS, *flags, "--rows", "2", "--step", "3", "--json"))
    config = configs.resolve(configs.override(configs.load(PAIRS[0]), configs.parse_overrides([*PAIRS[1:], *flags])))
    dataset = data.load(config)
    with dataset.training_batches(3) as batches:
        batch = next(batches)
    for number, row in enumerate(record["rows"]):
        assert {name: array[number].tolist() for name, array in batch.items()} == row
    assert record["data"] == dataset.summary()
    assert 0 < record["padding"] < 1
    assert record["rows_per_epoch"] == dataset.batching.row_count([dataset.parts[0].train_stream])


def test_copied_text_is_counted(flags, capsys, tmp_path):
    lines = [f"{number} of these lines is a line of its own, and of {number**4} sheep.\n" for number in range(60)]
    (tmp_path / "stories.txt").write_text("".join(lines))
    (tmp_path / "dev.txt").write_text(lines[7] + lines[8].replace("sheep", "wolves"))
    named = [*flags[:1], f"--config.data.held_out=text:{tmp_path}/dev.txt"]
    overlap = json.loads(show(capsys, "configs/gpt2.py:smoke", *named, "--json"))["overlap"]
    assert overlap["lines"] == 0.5
    assert 0 < overlap["windows"] < 1
    text = show(capsys, "configs/gpt2.py:smoke", *named)
    assert f"copied      {overlap['windows']:.1%} of the held-out windows of 64 bytes and 50.0% of the lines" in text
    assert "held out    1 documents" in text


@pytest.mark.parametrize(
    ("name", "line"), [("t5", "writes: <0>"), ("gpt2", "tokens: "), ("elmo", "tokens: "), ("transformer", "tokens: ")]
)
def test_every_objective_is_shown(flags, capsys, name, line):
    assert line in show(capsys, f"configs/{name}.py:smoke", *flags, "--rows", "1", "--held-out")


def test_predicted_tokens_are_shown_at_their_positions():
    tokenizer = ByteTokenizer()
    batch = {
        "tokens": np.array([[256, 72, 257, 257, -1]]),
        "masked_positions": np.array([[2, 3, 0]]),
        "targets": np.array([[105, 10, -1]]),
    }
    ((name, tokens),) = BatchFormatter(tokenizer, ends_rows=True).row(batch, 0)
    assert name == "tokens"
    assert [str(token) for token in tokens] == ["[CLS]", "H", "[MASK→i]", "[MASK→⏎]"]


def test_histogram_counts_everything_once():
    for lengths in ([5], [5, 5, 5], [0, 1, 2], list(range(100)), [1, 1000]):
        bins = histogram(np.array(lengths))
        assert sum(count for _, _, count in bins) == len(lengths)
        assert all(high + 1 == low for (_, high, _), (low, _, _) in itertools.pairwise(bins))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "-1"], "--rows: expected 0 or more"),
        (["--step", "-1"], "--step: expected 0 or more"),
        (["--rows", "2", "--text", "a"], "--rows has no effect with --text"),
        (["--step", "2", "--held-out"], "--step has no effect with --held-out"),
        (["--step", "2", "--held-out", "--text", "a"], "--step has no effect with --held-out"),
        (["--config.data.row_format=segments"], "data.row_format='segments' is not one of"),
        (
            ["--config.data.row_format=sentence_pairs", "--config.model.embedding.segments=1"],
            "model.embedding.segments=1: data.row_format",
        ),
        (
            ["--config.data.row_format=doc_sentences", "--config.data.isolate_documents=true"],
            "data.isolate_documents=true is for packed rows",
        ),
        (
            ["--config.data.row_format=packed"],
            "objective.next_sentence=true needs pairs, and data.row_format is packed",
        ),
        (
            ["--config.data.row_format=segment_pairs", "--config.data.sequence_length=7"],
            "data.sequence_length=7 is too short",
        ),
    ],
)
def test_bad_flags(capsys, arguments, message):
    assert main(["data", "show", "configs/bert.py:smoke", *arguments]) == 2
    assert message in capsys.readouterr().err
