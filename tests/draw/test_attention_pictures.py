"""Attention maps and query lines of synthetic activations."""

from pathlib import Path

import numpy as np
import pytest

from zoo.analysis.activations import StackActivations
from zoo.cli.main import main
from zoo.draw import attention_maps, query_lines, run_activations
from zoo.errors import ConfigError
from zoo.training.trained_run import INITIAL, TRAINED

LABELS = ["[begin]", "the", "law", "and", "its", "end", "[end]"]


def activations(heads=2, labels=LABELS):
    """Returns activations of two layers. In the trained run each head attends to token 2 with weight
    0.75 and to the query itself with 0.25; at initial values attention is uniform.
    """
    count = len(labels)
    sharp = np.broadcast_to(0.75 * np.eye(count)[2] + 0.25 * np.eye(count), (1, heads, count, count))
    maps = {TRAINED: sharp, INITIAL: np.full((1, heads, count, count), 1 / count)}
    stacks = {which: {"": StackActivations(None, {}, {"attention": (each, each)})} for which, each in maps.items()}
    source = run_activations.describe_source(Path("runs/small"), 1200, "the law and its end")
    return run_activations.RunActivations(None, {"": labels}, stacks, source)


@pytest.mark.parametrize(("token", "index"), [
    ("its", 4), ("", 5), ("andits", 4), ("[begin]", 0), ("it", None), ("sits", None)
])  # fmt: skip
def test_find_token(token, index):
    assert query_lines.find_token(LABELS, token) == index


def test_find_token_prefers_the_last_match():
    assert query_lines.find_token(["[begin]", "i", "t", "s", "a", "i", "t"], "it") == 6
    assert query_lines.find_token(["[end]"], "") is None


def test_query_lines():
    drawn = dict(query_lines.pages(activations(), "its", "1", "0,1"))
    assert list(drawn) == ["layer1"]
    trained, initial = drawn["layer1"].axes
    lines = [line for line in trained.lines if line.get_label() == "_line"]
    assert [tuple(line.get_xdata()) for line in lines] == [(4, 2), (4, 4)] * 2
    assert [line.get_linewidth() for line in lines[:2]] == pytest.approx([0.5 + 3 * 0.75, 0.5 + 3 * 0.25])
    assert len({line.get_color() for line in lines}) == 2
    assert sum(line.get_label() == "_line" for line in initial.lines) == 2 * len(LABELS)
    bold = [text.get_text() for text in trained.texts if text.get_weight() == "bold"]
    assert bold == ["law", "its"]
    assert drawn["layer1"].get_suptitle() == (
        "runs/small, step 1,200\n“the law and its end”\nattention layer 1: what “its” (token 4) attends to"
    )


def test_attention_maps_have_labels_and_titles():
    trained_only = attention_maps.pages(activations(heads=8), "0")["attention-layer0"]
    panels = [axes for axes in trained_only.axes if axes.images and axes.get_title()]
    assert [axes.get_title() for axes in panels] == [f"head {head}" for head in range(8)]
    drawn = attention_maps.pages(activations(heads=8), "0", initial=True)["attention-layer0"]
    assert drawn.get_suptitle().startswith("runs/small, step 1,200\n“the law and its end”\nattention layer 0")
    panels = [axes for axes in drawn.axes if axes.images and axes.get_title()]
    assert [axes.get_title() for axes in panels[:3]] == [
        "head 0\ntrained",
        "head 0\nat initial values",
        "head 1\ntrained",
    ]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == LABELS
    assert [label.get_text() for label in panels[-1].get_xticklabels()] == LABELS
    assert not panels[0].get_xticklabels()
    # Labels of neighbouring tokens must not overlap.
    height = panels[0].get_position().height * drawn.get_figheight() / len(LABELS)
    assert height > panels[0].get_yticklabels()[0].get_fontsize() / 72


def test_long_texts_are_cut_in_titles():
    text = run_activations.describe_source(Path("run"), 3, "x" * 200, "short").split("\n")
    assert text == ["run, step 3", "“" + "x" * 89 + "…”", "“short”"]


def test_query_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_activations, "read_text", lambda *_: activations())
    arguments = ["runs/small", "--layers", "0", "--format", "svg", "--out", str(tmp_path)]
    assert main(["draw", "query", *arguments, "--token", "its"]) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "query-layer0.svg")]
    assert main(["draw", "query", *arguments, "--token", "is"]) == 2
    assert "--token 'is': the text has no such token (did you mean \"its\"?)" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="--heads 2: expected numbers from 0 to 1"):
        list(query_lines.pages(activations(), "its", "", "2"))
