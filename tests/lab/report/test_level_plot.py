"""The final metric against a numeric factor, from the tables of an archive."""

import pytest
from matplotlib.figure import Figure

from zoo.lab.report.archive import level_plot
from zoo.lab.report.archive.level_plot import level_curves, write_level_plots


def result(arms, **changes):
    entries = [{"name": name, "overrides": overrides} for name, overrides in arms.items()]
    return {"arms": entries, "metric": "eval/loss", "unit": " nats", "tuning": None, **changes}


def rates(*values, **others):
    return {
        f"width={width}, rate={value:g}": {"model.dim": width, "optimizer.learning_rate": value, **others}
        for width in (32, 64)
        for value in values
    }


def test_a_line_for_each_combination_of_the_other_factors():
    (curves,) = level_curves(result(rates(0.1, 0.001, 0.01)))
    assert curves.field == "optimizer.learning_rate"
    assert curves.lines["width=32"] == {value: f"width=32, rate={value:g}" for value in (0.1, 0.001, 0.01)}
    assert list(curves.lines) == ["width=32", "width=64"]


@pytest.mark.parametrize(
    "archived",
    [
        result(rates(0.1, 0.01)),
        result(rates(0.1, 0.01, 0.001), tuning={"field": "optimizer.learning_rate"}),
        result({f"kind={kind}": {"model.norm.kind": kind} for kind in ("rmsnorm", "layernorm", "none")}),
        result({f"tied={tied}": {"model.tie_embeddings": tied} for tied in (True, False)}),
        # A second field changes along with the first.
        result({f"width={w}": {"model.dim": w, "model.attention.num_heads": w // 16} for w in (16, 32, 64)}),
    ],
    ids=["two values", "tuned", "words", "switches", "two fields"],
)
def test_other_factors_have_no_plot(archived, tmp_path):
    assert not level_curves(archived)
    assert not write_level_plots(archived, [], tmp_path)


def test_means_over_seeds_on_a_logarithmic_axis(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(level_plot, "save", lambda figure, path: drawn.append(figure) or path)
    arms = {f"rate={value:g}": {"optimizer.learning_rate": value} for value in (0.1, 0.001, 0.01)}
    runs = [
        {"arm": arm, "eval/loss": str(place + seed)} for place, arm in enumerate(arms) for seed in (0, 1)
    ] + [{"arm": "rate=0.1", "eval/loss": ""}]  # fmt: skip
    (path,) = write_level_plots(result(arms), runs, tmp_path)
    assert path.name == "by_optimizer_learning_rate.png"
    (figure,) = drawn
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    line, *dots = axes.get_lines()
    assert list(zip(*line.get_data())) == [(0.001, 1.5), (0.01, 2.5), (0.1, 0.5)]
    assert [len(dot.get_xdata()) for dot in dots] == [2, 2, 2]
    assert axes.get_xscale() == "log"


def test_a_limit_that_0_turns_off_is_drawn_beyond_the_largest_value(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(level_plot, "save", lambda figure, path: drawn.append(figure) or path)
    arms = {f"labels={name}, start={start}": {"data.examples": value, "training.start_from": start}
            for start in ("a", "b") for name, value in (("32", 32), ("all", 0), ("128", 128))}  # fmt: skip
    (curves,) = level_curves(result(arms))
    assert curves.unlimited == "all"
    write_level_plots(
        result(arms), [{"arm": arm, "eval/loss": str(number)} for number, arm in enumerate(arms)], tmp_path
    )
    (axes,) = drawn[0].axes
    assert list(zip(*axes.get_lines()[0].get_data())) == [(32, 0), (128, 2), (512, 1)]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["32", "128", "all"]
    numbers = {f"window={value}": {"model.attention.window": value} for value in (0, 4, 8)}
    assert level_curves(result(numbers))[0].unlimited is None
