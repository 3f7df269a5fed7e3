"""Training and evaluation with a plug-in objective that has a hyperparameter and a metric."""

import numpy as np
import pytest

from tests.plugins.plugin_files import FOCAL, loaded, unloading
from tests.support.small_runs import curves, lines, small
from zoo import config as configs
from zoo.cli.main import main
from zoo.errors import ConfigError
from zoo.lab.metrics import higher_is_better, is_known_metric, written_metrics
from zoo.nested import flatten
from zoo.training.startup import RunRequest
from zoo.training.trainer import run, train_runs

# A high rate, so that four steps suffice for gamma to change the loss by more than rounding.
RUN = {"objective__kind": "focal", "training__steps": 4, "optimizer__learning_rate": 0.05}


def quiet(line):
    del line


@pytest.fixture(autouse=True, scope="module")
def focal(tmp_path_factory):
    """Loads the plug-in for all tests of this module."""
    folder = tmp_path_factory.mktemp("focal")
    with pytest.MonkeyPatch.context() as patch, unloading():
        patch.setenv("ZOO_CACHE", str(folder / "cache"))
        with loaded(folder, FOCAL):
            yield folder


@pytest.fixture(scope="module")
def trained(focal):
    """Returns the folder of a run that was trained with the objective."""
    run(small(**RUN), focal / "run", quiet)
    return focal / "run"


def losses(folder):
    return [line["train/loss"] for line in lines(folder) if "train/loss" in line]


def test_evaluation_reports_cross_entropy_and_the_plugin_metric(trained):
    (last,) = [line for line in lines(trained) if line["step"] == 4 and "eval/loss" in line]
    assert 0 < last["eval/confidence"] < 1
    assert last["eval/loss"] > -np.log(last["eval/confidence"])
    assert set(written_metrics(flatten(configs.resolve(small(**RUN, model__vocab_size=257))))) >= {
        "eval/loss",
        "eval/confidence",
    }
    assert is_known_metric("eval/confidence@256")
    assert higher_is_better("eval/confidence")


def test_gamma_zero_equals_the_causal_objective(focal):
    for name, changes in (
        ("zero", RUN | {"objective__focal_gamma": 0.0}),
        ("causal", RUN | {"objective__kind": "causal"}),
    ):
        run(small(**changes), focal / name, quiet)
    np.testing.assert_allclose(losses(focal / "zero"), losses(focal / "causal"), rtol=1e-5)


def test_gamma_is_traced_across_a_population(trained, tmp_path):
    other = RUN | {"objective__focal_gamma": 5.0}
    requests = [RunRequest(small(**one), tmp_path / name, quiet) for name, one in (("0", RUN), ("1", other))]
    for outcome in train_runs(requests, "map"):
        assert not isinstance(outcome, Exception), outcome
    np.testing.assert_allclose(losses(tmp_path / "0"), losses(trained), rtol=1e-5)
    assert abs(losses(tmp_path / "1")[-1] - losses(trained)[-1]) > 1e-5
    assert curves(tmp_path / "0") != curves(tmp_path / "1")


def test_generate_and_describe_accept_a_plugin_objective(trained, capsys):
    assert main(["generate", str(trained), "--prompt", "a", "--max-new-tokens", "3"]) == 0
    assert main(["describe", "focal"]) == 0
    assert "Lin et al. 2017, eq. 4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"objective__kind": "causal", "objective__focal_gamma": 1.0},
            "focal_gamma=1.0 has no effect: it is read only",
        ),
        ({"objective__kind": "focal", "objective__select_fraction": 0.3}, "select_fraction=0.3 has no effect"),
        ({"objective__kind": "focal", "objective__distillation__teacher": "x"}, "teacher=x has no effect"),
        (
            {"objective__kind": "focal", "model__architecture": "encoder"},
            "trains model.architecture=decoder; encoder is",
        ),
    ],
)
def test_fields_without_effect_on_the_objective_are_rejected(changes, line):
    with pytest.raises(ConfigError, match=line):
        configs.resolve(small(**changes))
