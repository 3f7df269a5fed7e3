"""The code of docs/flax.md, and modules of Flax inside layers."""

import re
import shlex
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import zoo
from tests.inference.test_python_api import SMALL, write_base
from tests.plugins.plugin_files import unloading
from tests.support.building import call, close, random_values, tiny, with_values
from tests.support.untrained import untrained
from zoo.checks import Subject
from zoo.checks.check import PASS, few_optimisations, outcome_of
from zoo.cli.main import main
from zoo.config import plugins
from zoo.config.kinds import FEED_FORWARD_KINDS
from zoo.errors import ConfigError
from zoo.layers.feedforward import make_feed_forward
from zoo.layers.flax_module import from_flax
from zoo.models.functional import initialise, logical_axes, split, stack

PAGE = (Path(__file__).parents[2] / "docs" / "flax.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def linear(rngs):
    return nnx.Linear(3, 4, rngs=rngs)


def test_values_depend_on_the_seed_and_the_path():
    class Layer(nnx.Module):
        def __init__(self, *names):
            for name in names:
                setattr(self, name, from_flax(linear, {"kernel": ("embed", "mlp")}))

    one, both = (initialise(Layer(*names), 0) for names in (("b",), ("a", "b")))
    np.testing.assert_array_equal(one["b"]["kernel"], both["b"]["kernel"])
    assert (both["a"]["kernel"] != both["b"]["kernel"]).all()
    assert (initialise(Layer("b"), 1)["b"]["kernel"] != one["b"]["kernel"]).all()
    # They are those that Flax draws with the key of the path.
    assert np.abs(one["b"]["kernel"]).max() > 0
    assert np.std(one["b"]["kernel"]) == pytest.approx(3**-0.5, rel=0.5)
    np.testing.assert_array_equal(one["b"]["bias"], 0)
    assert logical_axes(Layer("b"))["b"] == {"kernel": ("embed", "mlp"), "bias": (None,)}


def test_layers_of_a_stack_have_values_of_their_own():
    layers = nnx.Module()
    layers.layers = stack(from_flax(linear), range(2))
    values = initialise(layers, 0)["layers"]
    assert values["kernel"].shape == (2, 3, 4)
    assert (values["kernel"][0] != values["kernel"][1]).all()


class Mixed(nnx.Module):
    def __init__(self, rngs):
        self.parts = nnx.List([linear(rngs)])


@pytest.mark.parametrize(
    ("make", "axes", "line"),
    [
        (lambda rngs: nnx.Dropout(0.1, rngs=rngs), {}, "flax.nnx.Dropout: rngs/count is a RngCount, .*context.dropout"),
        (lambda rngs: nnx.BatchNorm(4, rngs=rngs), {}, "flax.nnx.BatchNorm: mean is a BatchStat, .*plugin.statistic"),
        (lambda rngs: nnx.Linear(3, 4, param_dtype=jnp.bfloat16, rngs=rngs), {}, "bias is bfloat16; leave param_dtype"),
        (Mixed, {}, "parts/0/bias is in a list of modules"),
        (linear, {"kernel": ("embed",)}, r"axes of kernel: .* each of its 2 dimensions, got \('embed',\)"),
        (linear, {"weight": ("embed", "mlp")}, "axes of weight: its parameters are bias, kernel"),
    ],
    ids=["random", "average", "type", "list", "axes", "name"],
)
def test_other_modules_of_flax_are_refused(make, axes, line):
    with pytest.raises(ConfigError, match=line):
        from_flax(make, axes)


def test_the_variant_of_the_page(tmp_path):
    """It has its equation, and the properties that depend on how its values are made."""
    (text,) = (block for block in BLOCKS if "plugin.register" in block)
    (tmp_path / "my_flax_gate.py").write_text(text)
    with unloading(), few_optimisations():
        plugins.load_plugin(tmp_path / "my_flax_gate.py")
        layer = make_feed_forward(tiny({"model.ffn.kind": "flax_gate"}).model)
        values, x = random_values(layer, 1), np.random.default_rng(0).standard_normal((2, 8, 16)).astype(np.float32)
        up, gate, down = (jax.tree.map(np.float64, values[part]) for part in ("up", "gate", "down"))
        opened = 1 / (1 + np.exp(-(x @ gate["kernel"] + gate["bias"])))
        inner = opened * np.asarray(jax.nn.gelu(jnp.asarray(x @ up["kernel"] + up["bias"])))
        close(call(with_values(layer, values), x), inner @ down["kernel"] + down["bias"])
        subject = Subject.of(FEED_FORWARD_KINDS.by_name["flax_gate"])
        for name in ("shapes", "gradients", "scanned layers"):
            assert outcome_of(name, subject).state == PASS


@pytest.mark.promise(reason="commands of the documentation are run")
def test_the_sweep_of_the_page_is_planned(tmp_path, monkeypatch, capsys):
    (text,) = (block for block in BLOCKS if "plugin.register" in block)
    (command,) = re.findall(r"^    zoo (run .*)$", PAGE, re.MULTILINE)
    (tmp_path / "my_flax_gate.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with unloading():
        assert main(shlex.split(command)) == 0
    assert "flax_gate" in capsys.readouterr().out


@pytest.mark.promise(reason="examples of the documentation are run")
def test_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    config = zoo.load_config(write_base(tmp_path), SMALL | {"model.position.kind": "rope", "training.eval_batches": 1})
    untrained(Path("runs/first"), config)
    names, blocks = {}, [block for block in BLOCKS if "plugin.register" not in block]
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/flax.md", "exec"), names)
    np.testing.assert_allclose(
        names["scores"][0], names["model"].logits("the law will never be perfect"), rtol=1e-4, atol=1e-5
    )
    assert names["losses"][-1] < names["losses"][0]
    # The module that was trained is not the model's.
    for one, other in zip(
        jax.tree.leaves(split(names["model"].module)[1]), jax.tree.leaves(names["parameters"]), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert len(capsys.readouterr().out.splitlines()) == 2
