"""Statistics of training: each against a reference written out, on every kind of stack, and that
recording changes nothing.
"""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import TINY_ELMO, quick_compilation, random_values, tiny
from tests.support.small_runs import OBJECTIVES, small
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.files import read_json
from zoo.layers.attention.attention_record import attention_entropy
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training import dynamics
from zoo.training.dynamics import DynamicsFile, SpikeDetector
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trainer import run

TOKENS = np.random.default_rng(1).integers(0, 257, (4, 9), np.int32)
# Weight decay and clipping are part of an update, and so is the warm-up. With a large epsilon Adam's
# first update is nearly proportional to the gradient, and not to its sign.
BASE = {
    "optimizer.epsilon": 1e-3,
    "optimizer.weight_decay": 0.5,
    "optimizer.clip_norm": 0.01,
    "optimizer.learning_rate": 0.1,
    "schedule.warmup_steps": 4,
    "model.vocab_size": 257,
    "data.batch_size": 4,
    "data.tokenizer.kind": "bytes",
    "model.ffn.kind": "relu",
}


class Observed:
    """A program, a state of random values, and what the program says of an update from it."""

    def __init__(self, changes=None, batch=None, change=lambda params: None):
        config = tiny(BASE | (changes or {}))
        self.model, self.objective = make_model(config), make_objective(config, ByteTokenizer())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jax, "jit", partial(jax.jit, compiler_options=quick_compilation()))
            self.program = make_program(config, self.model, self.objective, make_mesh(config, jax.devices()[:1]))
        params = random_values(self.model)
        change(params)
        self.before = jax.tree.map(np.array, params)
        self.state, self.constants = self.program.initial_state(0) | {"params": params}, self.program.constants(0)
        self.batch = self.program.put_batch({"tokens": TOKENS} if batch is None else batch)
        step = self.program.dynamics_step
        self.rows = step.fetch(step(self.state, self.batch, self.constants))


def dying(params):
    """In layer 1, every third unit can never fire; those of layer 0 are as they are."""
    bias = params["stack"]["layers"]["ffn"]["up"]["bias"]
    params["stack"]["layers"]["ffn"]["up"]["bias"] = bias.at[1, ::3].set(-1e4)


@pytest.fixture(scope="module")
def observed():
    return Observed(change=dying)


def reference(values, tokens, xp):
    """Loss of the GPT with ReLU that `BASE` describes and what is to be noted of it, in plain
    products; `xp` is numpy or jax.numpy.
    """

    def normed(x, v):
        x = x - x.mean(-1, keepdims=True)
        return x / xp.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * v["scale"] + v["bias"]

    def linear(x, v):
        return x @ v["kernel"] + v["bias"]

    def softmax(scores):
        weights = xp.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    B, T = inputs.shape
    x = values["embedding"][inputs] + values["position"]["table"][:T]
    residual, entropies, dead = [x], [], []
    for layer in range(2):
        v = jax.tree.map(lambda leaf, layer=layer: leaf[layer], values["stack"]["layers"])
        y = normed(x, v["attention_norm"])
        q, k, value = (
            linear(y, v["attention"][name]).reshape(B, T, 4, 4).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        p = softmax(xp.where(np.tri(T, dtype=bool), q @ k.transpose(0, 1, 3, 2) / 2, -1e30))
        entropies.append(-(p * xp.log(xp.where(p > 0, p, 1))).sum(-1).mean((0, 2)))
        x = x + linear((p @ value).transpose(0, 2, 1, 3).reshape(B, T, 16), v["attention"]["output"])
        hidden = xp.maximum(linear(normed(x, v["ffn_norm"]), v["ffn"]["up"]), 0)
        dead.append((hidden.max((0, 1)) <= 0).mean())
        x = x + linear(hidden, v["ffn"]["down"])
        residual.append(x)
    logits = normed(x, values["final_norm"]) @ values["embedding"].T
    chosen = softmax(logits)[np.arange(B)[:, None], np.arange(T)[None], targets]
    return -xp.log(chosen).mean(), {
        "residual": [xp.sqrt((x**2).mean()) for x in residual],
        "entropies": entropies,
        "dead": dead,
        "logits": xp.sqrt(((logits - logits.mean(-1, keepdims=True)) ** 2).mean()),
    }


def test_activations_are_those_of_plain_products(observed):
    values = jax.tree.map(lambda leaf: leaf.astype(np.float64), observed.before)
    expected = reference(values, TOKENS, np)[1]
    found = observed.rows
    assert list(found["residual_rms"]) == ["embedding", "layer 0", "layer 1"]
    np.testing.assert_allclose(list(found["residual_rms"].values()), expected["residual"], rtol=1e-5)
    assert list(found["attention_entropy"]) == [f"layer {layer} head {head}" for layer in range(2) for head in range(4)]
    np.testing.assert_allclose(
        list(found["attention_entropy"].values()), np.concatenate(expected["entropies"]), rtol=1e-4
    )
    assert found["dead_units"] == {
        "layer 0": pytest.approx(expected["dead"][0]),
        "layer 1": pytest.approx(expected["dead"][1]),
    }
    assert expected["dead"][1] >= 1 / 3
    assert found["logit_scale"] == {"head": pytest.approx(expected["logits"], rel=1e-5)}


def blocks_by_hand(values):
    """The norm of each block's values."""

    def norm(*trees):
        return np.sqrt(sum(np.square(np.asarray(leaf, np.float64)).sum() for leaf in jax.tree.leaves(trees)))

    found = {"embedding": norm(values["embedding"]), "positions": norm(values["position"])}
    for layer in range(2):
        v = jax.tree.map(lambda leaf, layer=layer: leaf[layer], values["stack"]["layers"])
        found |= {
            f"layer {layer} attention": norm(v["attention"]),
            f"layer {layer} feed-forward": norm(v["ffn"]),
            f"layer {layer} norms": norm(v["attention_norm"], v["ffn_norm"]),
        }
    return found | {"final norm": norm(values["final_norm"])}


def test_gradients_are_those_of_plain_products(observed):
    gradient = jax.jit(jax.grad(lambda values: reference(values, TOKENS, jnp)[0]))(observed.before)
    expected = blocks_by_hand(gradient)
    assert list(observed.rows["gradient_norm"]) == list(expected)
    np.testing.assert_allclose(list(observed.rows["gradient_norm"].values()), list(expected.values()), rtol=1e-3)


def test_update_ratios_are_those_of_the_step_that_is_done(observed):
    one = observed
    after, metrics = one.program.train_step(one.state, one.batch, one.constants)
    expected = blocks_by_hand(
        jax.tree.map(lambda new, old: np.asarray(new, np.float64) - old, after["params"], one.before)
    )
    weights = blocks_by_hand(one.before)
    for label, value in one.rows["update_ratio"].items():
        assert value == pytest.approx(expected[label] / weights[label], rel=1e-3), label
    # The gradient is that before clipping.
    whole = np.sqrt(sum(value**2 for value in one.rows["gradient_norm"].values()))
    assert whole == pytest.approx(float(metrics["gradient_norm"]), rel=1e-5)


def same(one, other):
    assert one.keys() == other.keys()
    for name, rows in one.items():
        assert list(rows) == list(other[name])
        np.testing.assert_allclose(list(rows.values()), list(other[name].values()), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"model.scan_layers": True, "model.remat": "full", "training.accumulation_steps": 2},
            marks=pytest.mark.promise(reason="a model of its own is compiled"),
        ),
        *(
            pytest.param(alone, marks=pytest.mark.slow(reason="one of the changes above, or a kernel, alone"))
            for alone in (
                {"model.scan_layers": True},
                {"model.remat": "full"},
                {"training.accumulation_steps": 2},
                {"model.attention.implementation": "rows"},
            )
        ),
    ],
    ids=str,
)
def test_how_a_step_is_computed_changes_no_statistic(observed, changes):
    same(Observed(changes, change=dying).rows, observed.rows)


@pytest.mark.promise(reason="a model of its own is compiled")
def test_kinds_of_layers_scanned_or_unrolled():
    kinds = {
        "model.num_layers": 3,
        "model.layers.pattern": ("local", "wide"),
        "model.layers.kinds.local.attention.window": 3,
        "model.layers.kinds.wide.attention.num_heads": 2,
        "model.layers.kinds.wide.ffn.kind": "swiglu",
    }
    one = Observed(kinds).rows
    same(Observed(kinds | {"model.scan_layers": True}).rows, one)
    assert list(one["dead_units"]) == ["layer 0", "layer 2"]
    assert [label for label in one["attention_entropy"] if label.startswith("layer 1")] == [
        "layer 1 head 0",
        "layer 1 head 1",
    ]
    assert "layer 2 attention" in one["gradient_norm"]
    # A query of a window of 3 has 3 keys at most.
    assert max(value for label, value in one["attention_entropy"].items() if "layer 1" not in label) < np.log(3)


@pytest.mark.promise(reason="a model of its own is compiled")
def test_padding_does_not_count():
    tokens = np.where(np.arange(8) < 5, TOKENS[:, :8], -1)
    batch = {"tokens": tokens, "masked_positions": np.array([[1, 3]] * 4), "targets": TOKENS[:, [1, 3]]}
    encoder = {
        "model.architecture": "encoder",
        "objective.kind": "masked",
        "data.row_format": "doc_sentences",
        "model.vocab_size": 259,
    }
    wide, narrow = (Observed(encoder, batch | {"tokens": tokens[:, :width]}).rows for width in (8, 5))
    same(wide, narrow)


@pytest.mark.promise(reason="a model of its own is compiled")
def test_an_encoder_and_a_decoder():
    rows = Observed(
        {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "objective.prefix_length": 4}
    ).rows
    layers = [f"{side} {part}" for side in ("encoder", "decoder") for part in ("embedding", "layer 0", "layer 1")]
    assert list(rows["residual_rms"]) == layers
    assert "decoder layer 1 cross-attention head 3" in rows["attention_entropy"]
    assert 0 < rows["attention_entropy"]["decoder layer 1 cross-attention head 3"] < np.log(4)
    labels = list(rows["gradient_norm"])
    assert labels[0] == "embedding"
    assert labels.index("encoder layer 1 feed-forward") < labels.index("decoder layer 0 attention")
    assert "decoder layer 0 cross-attention" in labels
    assert all(np.isfinite(list(values.values())).all() for name, values in rows.items() if name != "update_ratio")


@pytest.mark.promise(reason="a model of its own is compiled")
def test_elmo_records_only_the_statistics_that_it_has():
    rows = Observed(TINY_ELMO | {"model.ffn.kind": "gelu"}).rows
    assert rows.keys() == {"logit_scale", "update_ratio", "gradient_norm"}
    assert list(rows["gradient_norm"]) == [
        "characters",
        *(f"{side} layer {i}" for side in ("forward", "backward") for i in (0, 1)),
        "head",
    ]


def test_no_scores_of_all_queries_are_made():
    q, k = (jax.ShapeDtypeStruct((16, 4096, heads, 8), jnp.float32) for heads in (4, 2))
    context = Context(jax.ShapeDtypeStruct((1, 4096), jnp.int32), in_order=True)
    program = jax.make_jaxpr(
        lambda q, k, positions: attention_entropy(q, k, Context(positions, in_order=True), Scoring(0.3))
    )(q, k, context.positions)
    assert max(variable.aval.size for equation in program.eqns for variable in equation.outvars) <= q.size


def test_a_loss_that_jumps_is_reported():
    generator = np.random.default_rng(0)
    losses = 2 + 0.1 * generator.standard_normal(400)
    losses[[100, 250, 300]] = 9, 9, 2.7
    spikes, found = SpikeDetector(), {}
    for step, loss in enumerate(losses):
        if (value := spikes.add(loss)) is not None:
            found[step] = value
    before = losses[122:250]
    # Not before there are 128 to compare with; the third is under 6 deviations of losses that hold
    # the second.
    assert found == {250: pytest.approx((9 - before.mean()) / before.std())}
    assert [value for value in map(SpikeDetector([1.0] * 128).add, (1.0, 5.0))] == [None, None]


def test_the_file_is_valid_json_for_values_that_are_not_finite(tmp_path):
    file = DynamicsFile(tmp_path / "dynamics.jsonl", 0, 2)
    file.write(2, 1.0, {"update_ratio": {"a": float("nan"), "b": 2.0}})
    file.write(3, float("nan"), {})
    file.close()
    assert [json.loads(line) for line in (tmp_path / "dynamics.jsonl").read_text().splitlines()] == [
        {"step": 2, "update_ratio": {"a": None, "b": 2.0}}
    ]
    assert [step for step in range(1, 8) if file.due(step)] == [1, 2, 4, 6]


# Whole runs

CONFIG = {"model__dropout": 0.1, "training__dynamics_every": 5, "training__checkpoint_every": 6}


def records(folder):
    return [json.loads(line) for line in (folder / "dynamics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamics, "SPIKE_WINDOW", 4)
        patch.setattr(dynamics, "SPIKE_SIGMAS", -100.0)
        run(small(**CONFIG), folder, lambda line: None)
    return folder


def test_parameters_are_the_same_bit_for_bit(recorded, tmp_path):
    run(small(**CONFIG | {"training__dynamics_every": 0}), tmp_path / "run", lambda line: None)
    one, other = (read_json(folder / "status.json")["parameters_sha256"] for folder in (recorded, tmp_path / "run"))
    assert one == other
    assert not (tmp_path / "run" / "dynamics.jsonl").exists()
    assert [line["step"] for line in records(recorded) if "residual_rms" in line] == [1, 5, 10]
    assert [line["step"] for line in records(recorded) if "spikes" in line] == list(range(5, 13))


class Killed(BaseException):
    """The end of a process, as far as its files go."""


def test_a_run_that_goes_on_records_each_step_once(recorded, tmp_path, monkeypatch):
    monkeypatch.setattr(dynamics, "SPIKE_WINDOW", 4)
    monkeypatch.setattr(dynamics, "SPIKE_SIGMAS", -100.0)

    def until_ten(line):
        if line.startswith("step 10/"):
            raise Killed

    with pytest.raises(Killed):
        run(small(**CONFIG), tmp_path, until_ten)
    assert records(tmp_path)[-1]["step"] == 10
    with (tmp_path / "dynamics.jsonl").open("a") as file:
        file.write('{"step": 11, "sp')
    run(small(**CONFIG), tmp_path, lambda line: None)
    assert records(tmp_path) == records(recorded)


WATCHED_ABOVE = pytest.mark.slow(reason="statistics differ with the architecture, not with the objective")


@pytest.mark.usefixtures("fast_compilation")
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("masked", marks=pytest.mark.promise(reason="a model of its own is compiled")),
        *(pytest.param(kind, marks=WATCHED_ABOVE) for kind in OBJECTIVES if kind != "masked"),
    ],
)
def test_every_objective_can_be_watched(kind, tmp_path):
    run(
        small(**OBJECTIVES[kind] | {"training__dynamics_every": 2, "training__steps": 2, "training__eval_every": 0}),
        tmp_path,
        lambda line: None,
    )
    found = records(tmp_path)
    assert [line["step"] for line in found] == [1, 2]
    assert all({"gradient_norm", "update_ratio", "logit_scale"} <= line.keys() for line in found)
    assert all(value > 0 for line in found for value in line["gradient_norm"].values())
