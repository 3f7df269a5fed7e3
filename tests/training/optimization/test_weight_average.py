"""Averages of the parameters: equations, evaluation, resuming, and export as a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.small_runs import curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo.cli import main as command
from zoo.errors import ConfigError, Preempted
from zoo.lab.metrics import higher_is_better, is_known_metric, written_metrics
from zoo.models.functional import ParameterTraits
from zoo.nested import flatten
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.optimization.weight_average import MOVING, TAIL, averaged, averages
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run


def walk(config):
    """Yields (number of the update, parameters after each update so far, state)."""
    optimizer = make_optimizer(config, ParameterTraits({"x": 1}, {"x": False}))
    params = {"x": jnp.asarray([1.0, -2.0])}
    state, seen, draw = optimizer.init(params), [], np.random.default_rng(0)
    for _ in range(12):
        updates, state = jax.jit(optimizer.update)({"x": jnp.asarray(draw.normal(size=2), jnp.float32)}, state, params)
        params = jax.tree.map(jnp.add, params, updates)
        seen.append(np.asarray(params["x"]))
        yield len(seen), np.stack(seen), {"optimizer": state}


@pytest.mark.parametrize("horizon", [2, 5, 1000])
def test_moving_average_weights_decay_exponentially(horizon):
    config = configs.resolve(small(optimizer__learning_rate=0.1, optimizer__ema_steps=horizon))
    for count, seen, state in walk(config):
        weights = (1 - 1 / horizon) ** np.arange(count)[::-1]
        expected = (weights[:, None] * seen).sum(0) / weights.sum()
        np.testing.assert_allclose(averaged(state, MOVING)["params"]["x"], expected, rtol=1e-5)


def test_tail_average_is_the_mean_over_the_last_updates():
    config = configs.resolve(small(optimizer__learning_rate=0.1, optimizer__tail_average=0.6))
    for count, seen, state in walk(config):
        # 0.6 of 12 updates are 7.
        assert averages(config, count) == ((TAIL,) if count > 5 else ())
        if count > 5:
            np.testing.assert_allclose(averaged(state, TAIL)["params"]["x"], seen[5:].mean(0), rtol=1e-5)


# The last 5 of 12 updates.
BOTH = {"optimizer__ema_steps": 4, "optimizer__tail_average": 0.4, "training__checkpoint_every": 0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with both averages and a run without."""
    folder = tmp_path_factory.mktemp("runs")
    made = small(**BOTH)
    run(made, folder / "with", lambda line: None)
    run(small(), folder / "without", lambda line: None)
    return folder


@pytest.mark.promise(reason="runs with and without averages are trained")
def test_averages_are_evaluated_and_do_not_change_training(trained):
    def of(name):
        return [
            {key: value for key, value in line.items() if not any(word in key for word in ("seconds", "ema", "tail"))}
            for line in map(dict, curves(trained / name))
        ]

    assert of("with") == of("without")
    scores = [line for line in lines(trained / "with") if "eval/loss" in line]
    # Before the first update there is nothing to average.
    assert scores.pop(0)["step"] == 0
    assert all(line["eval/ema/loss"] != line["eval/loss"] for line in scores)
    assert [line["step"] for line in scores if "eval/tail/loss" in line] == [8, 12]
    assert len({scores[-1][f"eval/{name}loss"] for name in ("", "ema/", "tail/")}) == 3
    assert not any("eval/ema/loss" in line or "eval/tail/loss" in line for line in lines(trained / "without"))
    assert set(written_metrics(flatten(configs.resolve(small(**BOTH))))) == {
        name for name in scores[-1] if name.startswith("eval/")
    }
    for metric in ("eval/ema/loss", "eval/tail/loss"):
        assert is_known_metric(metric)
        assert not higher_is_better(metric)


@pytest.mark.promise(reason="runs with and without averages are trained")
@pytest.mark.parametrize("name", ["ema", "tail"])
def test_run_made_from_an_average_has_the_score_of_the_average(trained, name, tmp_path):
    assert command.main(["average", str(trained / "with"), f"--{name}", "--out", str(tmp_path / "averaged")]) == 0
    found = load_trained(tmp_path / "averaged")
    program, config = found.program, found.config
    scored = [line for line in lines(trained / "with") if "eval/ema/loss" in line][-1][f"eval/{name}/loss"]
    from zoo.data import load
    from zoo.training.evaluation.held_out import evaluate

    batches = load(config).evaluation_batches(config.data.sequence_length, program.data_parallel_size)
    scores = evaluate(program, found.params, found.stats, batches, program.constants(0))
    assert scores["loss"] == pytest.approx(scored, rel=1e-6)


@pytest.mark.promise(reason="runs with and without averages are trained")
def test_missing_averages_are_refused(trained, capsys):
    for name, words, line in (
        ("without", ["--ema"], "has no moving average; train it with optimizer.ema_steps above 0"),
        ("without", ["--tail"], "has no average of its last updates; train it with optimizer.tail_average above 0"),
        ("with", ["--ema", "--last", "2"], "--ema and --last are 2 averages; give one of them"),
        ("mean", ["--ema"], "was averaged and not trained, and keeps no moving average; name the run that was"),
    ):
        if name == "mean":
            assert command.main(["average", str(trained / "with"), "--ema", "--out", str(trained / name)]) == 0
        assert command.main(["average", str(trained / name), *words, "--out", str(trained / "none")]) == 2
        assert line in capsys.readouterr().err
        assert not (trained / "none").exists()


@pytest.mark.promise(reason="runs with and without averages are trained")
@pytest.mark.parametrize("step", [1, 9])
def test_run_with_averages_resumes_bit_for_bit(trained, step, tmp_path, monkeypatch):
    made = small(**BOTH)
    with stop_requested_at(step, monkeypatch), pytest.raises(Preempted):
        run(made, tmp_path / "parts", lambda line: None)
    run(made, tmp_path / "parts", lambda line: None)
    assert curves(tmp_path / "parts") == curves(trained / "with")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"optimizer__ema_steps": 1}, "optimizer.ema_steps=1 averages nothing"),
        ({"optimizer__ema_steps": -3}, "optimizer.ema_steps=-3"),
        (
            {"optimizer__tail_average": 0.1},
            "optimizer.tail_average=0.1 of training.steps=12 is 1 update, which averages",
        ),
        ({"optimizer__tail_average": 1.5}, "optimizer.tail_average=1.5"),
    ],
)
def test_invalid_average_settings_are_refused(changes, line):
    with pytest.raises(ConfigError, match=line):
        configs.resolve(small(**changes))
