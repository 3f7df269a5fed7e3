"""Floors are rows of the tables of losses, and lines of their charts."""

import re

import numpy as np
from matplotlib.axes import Axes

from zoo.files import read_json
from zoo.lab.report import figures
from zoo.lab.report.archive.experiment_page import _claim, experiment_page
from zoo.lab.report.archive.level_plot import write_level_plots
from zoo.lab.report.archive.sweep_tables import archive_results
from zoo.lab.report.figures import write_figures
from zoo.lab.report.panels import overview
from zoo.lab.report.plot_data import plot_data
from zoo.lab.report.result_tables import arms_note, arms_table, lengths_table
from zoo.lab.results.floor_lines import floors_sentence
from zoo.lab.results.sweep_record import sweep_record
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.verdict import judge

FLOORS = {
    "unigram": {"eval/loss": 3.3, "eval/loss@64": 3.31},
    "5-gram": {"eval/loss": 1.6, "eval/loss@64": 1.62, "eval/loss@256": 1.58},
}


def texts_of(page):
    return [re.sub("<[^>]*>", " ", row).split() for row in page.split("<tr>")]


def test_tables(writer):
    sweep = load_sweep(writer.sweep(lengths=True, floors=FLOORS))
    rows = [row for row in texts_of(arms_table(sweep)) if row[:1] == ["floor:"]]
    assert [(row[1], row[-4]) for row in rows] == [("unigram", "3.300"), ("5-gram", "1.600")]
    rows = [row for row in texts_of(lengths_table(sweep)) if row[:1] == ["floor:"]]
    assert rows == [
        ["floor:", "unigram", "3.310", "3.300", "–", "–", "–"],
        ["floor:", "5-gram", "1.620", "1.600", "1.580", "–", "–"],
    ]
    assert floors_sentence(sweep, "eval/loss") == "floors of eval/loss, nats: unigram 3.300, 5-gram 1.600 (counted)"
    assert "Floors: models without depth, counted." in arms_note(sweep)
    none = load_sweep(writer.sweep(folder="none"))
    assert floors_sentence(none, "eval/loss") == "floors: no floors"
    assert arms_note(none).endswith("predict. Floors: no floors.")
    assert sweep_record(sweep, judge(sweep))["floors"][1] == {"floor": "5-gram", "score": 1.6}


def test_floors_of_different_arms_are_named_with_them(writer):
    sweep = load_sweep(writer.sweep(floors=FLOORS))
    first = sweep.arms[0].name
    sweep.floors[first] = sweep.floors[first].__class__({"5-gram": {"eval/loss": 1.7}})
    assert floors_sentence(sweep, "eval/loss") == (
        "floors of eval/loss, nats: 5-gram (norm=pre+warm-up=0) 1.700, "
        "5-gram (norm=pre+warm-up=100, norm=post+warm-up=0 and 1 more) 1.600, unigram 3.300 (counted)"
    )


def test_charts(writer, tmp_path, monkeypatch):
    sweep = load_sweep(writer.sweep(lengths=True, floors=FLOORS))
    found = plot_data(sweep)
    assert found["floors"][found["metrics"].index("eval/loss")] == [
        {"name": "unigram", "y": 3.3, "hardest": False},
        {"name": "5-gram", "y": 1.6, "hardest": True},
    ]
    assert found["floors"][found["metrics"].index("train/loss")] == []
    (lengths,) = found["plots"]
    assert lengths["floors"][1] == {"name": "5-gram", "x": [64, 128, 256], "y": [1.62, 1.6, 1.58], "hardest": True}

    drawn = []
    monkeypatch.setattr(figures, "save", lambda figure, path: drawn.append((path.name, figure.axes[0])) or path)
    write_figures(sweep, tmp_path / "figures")
    axes: Axes = dict(drawn)["loss_by_step.png"]
    level = [line for line in axes.get_lines() if np.array_equal(np.unique(line.get_ydata()), [1.6])]
    assert len(level) == 1
    # The hardest floor is in the picture, though all arms end above it.
    assert axes.get_ylim()[0] < 1.6
    assert [text.get_text() for text in axes.texts] == ["unigram", "5-gram"]
    assert [text.get_text() for text in dict(drawn)["loss_by_length.png"].texts] == ["unigram", "5-gram"]


def test_archived_results_keep_them(writer, tmp_path):
    sweep = load_sweep(writer.sweep(lengths=True, floors=FLOORS, name="norms"))
    folder = archive_results(sweep, tmp_path / "archive")
    result = read_json(folder / "result.json")
    assert result["floors"][1] == {
        "name": "5-gram",
        "scores": {"eval/loss": 1.6, "eval/loss@64": 1.62, "eval/loss@256": 1.58},
    }
    assert "| floor: 5-gram |  |  | 1.600 | 1.620 | 1.580 | – | – |" in experiment_page(folder, result)
    del result["floors"]
    assert "floor" not in experiment_page(folder, result).replace("below", "")


def test_floors_are_drawn_over_the_levels_of_a_factor(tmp_path, monkeypatch):
    from zoo.lab.report.archive import level_plot

    arms = [{"name": f"width={width}", "overrides": {"model.dim": width}} for width in (16, 32, 64)]
    result = {"arms": arms, "metric": "eval/loss", "unit": " nats"}
    runs = [{"arm": arm["name"], "eval/loss": "2.0"} for arm in arms]
    drawn = []
    monkeypatch.setattr(level_plot, "save", lambda figure, path: drawn.append(figure.axes[0]) or path)
    write_level_plots(result | {"floors": [{"name": "5-gram", "scores": {"eval/loss": 1.6}}]}, runs, tmp_path)
    write_level_plots(result, runs, tmp_path)
    assert [[text.get_text() for text in axes.texts] for axes in drawn] == [["5-gram"], []]


def test_premises_are_shown_with_the_claim(writer):
    premises = {"floor": "unigram", "floor_reason": "of a reason", "control": {"norm": "pre"}}
    stated = {"id": "V1", "statement": "s", "source": "p"}
    sweep = load_sweep(writer.sweep(claim=stated | premises | {"premises_of": {"V2": {"hardware": "GPU"}}}))
    lines = ["Floor: unigram, because of a reason", "Control: norm=pre", "Hardware of V2: GPU"]
    page = overview(sweep, judge(sweep), None)
    assert all(line in page for line in lines)
    result = {"claim": sweep.claim}
    assert _claim(result, ())[0] == f"Claim V1: s (p). {'. '.join(lines)}."
    assert _claim({"claim": stated}, ())[0] == "Claim V1: s (p)."
