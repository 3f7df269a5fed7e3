"""Sweeps from Python train what is not done, and return what the arms differ in."""

import pytest

import zoo
from zoo.errors import ConfigError
from zoo.files import read_json

SMALL = """
from zoo import config

def get_config():
    return config.override(config.default(), {
        "training.steps": 40, "data.source": "text:SOURCE", "data.sequence_length": 8, "data.batch_size": 2,
    })
"""


@pytest.fixture
def small(command_line, tmp_path):
    """A folder with a config, in which training is faked."""
    (tmp_path / "text.txt").write_text("a text of some words, over and over. " * 400)
    (tmp_path / "small.py").write_text(SMALL.replace("SOURCE", str(tmp_path / "text.txt")))
    return tmp_path


def test_a_sweep_is_planned_trained_once_and_compared(small, capsys):
    arguments = {
        "source": "small.py",
        "vary": {"model.norm.placement": ["pre", "post"]},
        "seeds": 2,
        "changes": {"optimizer.learning_rate": 0.01},
    }
    planned = zoo.plan(**arguments)
    assert planned[["arm", "placement", "steps", "runs", "done"]].to_numpy().tolist() == [
        ["placement=pre", "pre", 40, 2, 0],
        ["placement=post", "post", 40, 2, 0],
    ]
    assert not (small / "runs").exists()
    frame = zoo.sweep(**arguments, verbose=False)
    assert capsys.readouterr().out == ""
    # The stand-in for training ends one nat higher with post-norm, and 0.001 more with each seed.
    assert frame[["arm", "baseline", "pairs"]].to_numpy().tolist() == [["placement=post", "placement=pre", 2]]
    assert frame["difference"].tolist() == pytest.approx([1.0005])
    assert frame.attrs["failed"] == []
    assert (small / frame.attrs["report"]).is_file()
    record = read_json(small / "runs/small-placement/experiment.json")
    assert record["command"] == [
        *("zoo", "run", "--config=small.py", "--vary", "model.norm.placement=pre,post", "--seeds", "0,1,"),
        *("--set", "optimizer.learning_rate=0.01"),
    ]
    # What is done is returned and not trained again.
    assert zoo.plan(**arguments)["done"].tolist() == [2, 2]
    assert zoo.sweep(**arguments, verbose=False).equals(frame)
    attempts = [path.read_text() for path in (small / "runs/small-placement").glob("*/attempts")]
    assert attempts == ["x"] * 4
    # Another seed is trained, beside those that are there.
    more = zoo.sweep(**arguments | {"seeds": 3}, verbose=False)
    assert more["pairs"].tolist() == [3]


def test_an_experiment_file_and_named_arms(small):
    frame = zoo.sweep("norms.py", folder="elsewhere", verbose=False)
    assert frame["arm"].tolist()[0] == "norm=pre+warm-up=10"
    assert zoo.verdict("elsewhere").overall != "no claim"
    arms = {"plain": {}, "late": {"model.norm.placement": "post"}}
    assert zoo.plan("small.py", arms=arms, seeds=[5])["arm"].tolist() == ["arm=plain", "arm=late"]
    with pytest.raises(ConfigError, match=r"unknown field model\.norm\.placment"):
        zoo.plan("small.py", vary={"model.norm.placment": ["pre", "post"]})
    with pytest.raises(TypeError, match="unknown argument jbos"):
        zoo.plan("small.py", vary={"model.norm.placement": ["pre", "post"]}, jbos=3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"source": "norms.py", "name": "mine", "metric": "eval/accuracy"}, "name and metric: .*norms.py declares its own"),
        ({"vary": {"model.norm.placement": ["pre", "post"]}, "changes": {"model.norm.placement": "post"}},
         'model.norm.placement cannot be set: factor "placement" varies it'),
        ({"vary": {"model.norm.placement": ["pre", "post"]}, "changes": {"seed": 3}}, "seed cannot be set for all runs"),
    ],
)  # fmt: skip
def test_arguments_that_would_be_overwritten_are_refused(small, arguments, words):
    with pytest.raises(ConfigError, match=words):
        zoo.plan(**{"source": "small.py"} | arguments)


def test_what_may_differ_is_named_as_on_the_command_line(small):
    vary = {"model.num_layers": [1, 2]}
    with pytest.raises(ConfigError, match="parameters"):
        zoo.plan("small.py", vary=vary, allow="rows")
    assert len(zoo.plan("small.py", vary=vary, allow="rows, parameters,flops")) == 2
