"""Hyper-connections, placements with several residual streams: everything that reads the stream
between layers supports them. tests/plugins/test_retention.py trains them on eight devices.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.decoding import making
from tests.reference import streams
from tests.support.building import (
    ENCODER_DECODER,
    as_float64,
    call,
    close,
    counting,
    quick_compilation,
    random_values,
    tiny,
    with_values,
)
from tests.support.small_runs import lines, small
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.layers.residual_streams import sinkhorn
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.parameter_groups import group_sizes
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.startup import RunRequest
from zoo.training.step import make_program
from zoo.training.trainer import run, train_runs

N = 3
HYPER = {"model.norm.placement": "hyper_static", "model.norm.streams": N}
MUDD = {"model.norm.placement": "mudd", "model.norm.streams": 4}


def test_recorded_states_are_the_mean_of_the_streams():
    config = tiny(HYPER | {"model.num_layers": 2})
    model, tokens = make_model(config), np.arange(8)[None] % 13
    values = random_values(model, 1)
    record = {}

    def forward(tokens):
        context = counting(8, record=record, record_arrays=True)
        return with_values(model, values)(tokens, context), jax.tree.map(lambda leaf: leaf, record)

    found, recorded = call(forward, tokens)
    rows, wide = reference.counting(1, 8), as_float64(values)
    close(found, reference.hidden_states(config.model, wide, tokens, rows), 1e-5)
    x = streams.expand(config.model, np.float64(recorded["states"]))
    for layer in range(2):
        x = reference.block(config.model, reference.layer(wide["stack"]["layers"], layer), x, rows, number=layer + 1)
        noted = recorded[f"layer {layer}"]
        close(noted["states"], x.mean(axis=2), 1e-5)
        close(noted["residual"]["total"] / noted["residual"]["count"], np.square(x.mean(axis=2)).mean(), 1e-5)


def hidden(changes, values=None):
    """Returns (values, hidden states) of a tiny model with initial or given values."""
    from zoo.models.functional import initialise

    model = make_model(tiny(changes))
    values = initialise(model, 0) if values is None else values
    return values, call(
        lambda tokens: with_values(model, values)(tokens, counting(8)), np.arange(16).reshape(2, 8) % 13
    )


@pytest.mark.parametrize("number", [2, N, 4])
@pytest.mark.parametrize("placement", PLACEMENT_KINDS.having("streams"))
def test_initial_model_equals_pre_norm_to_the_bit(placement, number):
    """Streams are equal at first, and no sum of them is rounded, whatever their number."""
    own = {"model.norm.placement": placement, "model.norm.streams": number, "model.num_layers": 2}
    np.testing.assert_array_equal(hidden(own)[1], hidden({"model.num_layers": 2})[1])


@pytest.mark.parametrize("placement", ["denseformer", "mudd"])
def test_sums_over_blocks_begin_as_pre_norm(placement):
    own = {"model.norm.placement": placement, "model.num_layers": 3}
    np.testing.assert_array_equal(hidden(own)[1], hidden({"model.num_layers": 3})[1])


def test_attention_over_depth_begins_as_pre_norm():
    """A mean of outputs is their sum, but for the epsilon of the norm that reads it."""
    fields = {"model.num_layers": 3, "model.norm.epsilon": 1e-15}
    close(hidden(fields | {"model.norm.placement": "depth_attention"})[1], hidden(fields)[1])


def test_doubly_stochastic_matrices_are_and_get_no_infinite_gradient():
    logits = np.random.default_rng(0).standard_normal((5, 4, 4)).astype(np.float32)
    found = np.asarray(sinkhorn(logits))
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=-2), 1, atol=1e-4)
    # A column so small that its exponentials are 0 in float32.
    far = np.array([[200, 0, 0], [0, 200, -200], [0, 0, -200]], np.float32)
    gradient = jax.grad(lambda x: jnp.square(sinkhorn(x)[0]).sum())(far)
    assert np.isfinite(gradient).all()
    assert np.isfinite(sinkhorn(far)).all()


def loss_and_gradient(changes):
    # With rotary positions, because without them the bias of the keys has no effect.
    model = make_model(tiny(HYPER | {"model.num_layers": 3, "model.position.kind": "rope"} | changes))
    tokens = np.arange(16).reshape(2, 8) % 13

    def loss(values):
        return jnp.square(with_values(model, values)(tokens, counting(8)) - 1).mean()

    return call(jax.value_and_grad(loss), random_values(model, 2))


PATTERN = {
    "model.layers.pattern": ("near", "far"),
    "model.layers.kinds.near.attention.window": 3,
    "model.layers.kinds.far.attention.window": 0,
}


@pytest.mark.parametrize(
    ("changes", "base"),
    [
        *(
            pytest.param(
                {"model.scan_layers": True, "model.remat": "full"},
                {"model.norm.placement": placement, "model.norm.streams": 4},
                marks=pytest.mark.promise(reason="gradients of two stacks are compiled"),
            )
            for placement in PLACEMENT_KINDS.having("depth")
        ),
        pytest.param(
            {"model.scan_layers": True, "model.remat": "full"},
            {},
            marks=pytest.mark.promise(reason="gradients of two stacks are compiled"),
        ),
        pytest.param(
            {"model.scan_layers": True},
            {},
            marks=pytest.mark.slow(reason="scanned with rematerialisation is the hardest of the four"),
        ),
        pytest.param(
            {"model.remat": "full"},
            {},
            marks=pytest.mark.slow(reason="scanned with rematerialisation is the hardest of the four"),
        ),
        pytest.param(
            {"model.scan_layers": True},
            PATTERN,
            marks=pytest.mark.slow(reason="scanned with rematerialisation is the hardest of the four"),
        ),
    ],
    ids=[*PLACEMENT_KINDS.having("depth"), "scanned with remat", "scanned", "remat", "pattern"],
)
def test_scan_and_remat_do_not_change_gradients(changes, base):
    found, expected = loss_and_gradient(base | changes), loss_and_gradient(base)
    close(found[0], expected[0])
    # Recomputed sums are rounded otherwise where a processor has no AVX-512: 1.0e-5 in MUDD.
    jax.tree.map(lambda one, other: close(one, other, 3e-5), found[1], expected[1])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        *(
            pytest.param(
                {"model.norm.placement": placement, "model.norm.streams": 4},
                marks=pytest.mark.promise(reason="another model is decoded"),
            )
            for placement in (*PLACEMENT_KINDS.having("depth"), "resi_dual")
        ),
        pytest.param({"model.scan_layers": True}, marks=pytest.mark.promise(reason="another model is decoded")),
        pytest.param(ENCODER_DECODER, marks=pytest.mark.promise(reason="another model is decoded")),
    ],
    ids=["", *PLACEMENT_KINDS.having("depth"), "resi_dual", "scanned", "two sides"],
)
@pytest.mark.promise(reason="a model is decoded step by step; tests/decoding does so for every kind of layer")
def test_cached_decoding_equals_a_pass_over_all_tokens(changes):
    close(*making.stepwise_and_full_scores(HYPER | {"model.num_layers": 2} | changes, steps=4))


def test_stream_parameters_are_counted_and_grouped():
    groups = {
        "optimizer.groups": ("mixing",),
        "optimizer.group.mixing.select": "path:*_streams/*",
        "optimizer.group.mixing.rate_factor": 0.1,
    }
    resolved, plain = tiny(HYPER | groups), tiny()
    more = cost.summary(resolved).parameters["total"] - cost.summary(plain).parameters["total"]
    assert more == 2 * 2 * (N * N + 2 * N)
    assert group_sizes(resolved)["mixing"] == 2 * 2 * (N * N + 2 * N)
    flops = cost.summary(resolved).flops_per_token - cost.summary(plain).flops_per_token
    assert flops == 3 * 2 * 2 * 2 * resolved.model.dim * N * (N + 2)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model.residual": False}, "needs model.residual=true"),
        ({"model.parallel": "own_norms"}, "model.parallel=own_norms is defined for pre-norm"),
        ({"model.norm.placement": "pre", "model.norm.streams": 3}, "model.norm.streams=3 has no effect"),
        (MUDD | ENCODER_DECODER, "use model.architecture=decoder or encoder"),
        (MUDD | {"model.attention.kind": "linear"}, "model.attention.kind=linear computes them from one input"),
        (MUDD | {"model.convolution.kind": "canon"}, "leave A out"),
    ],
)
def test_unsupported_combinations_are_refused(changes, line):
    with pytest.raises(ConfigError, match=line):
        tiny(HYPER | changes)


def program_of(changes):
    config = tiny(HYPER | {"model.vocab_size": 258, "data.tokenizer.kind": "bytes"} | changes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jax, "jit", partial(jax.jit, compiler_options=quick_compilation()))
        return make_program(
            config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
        )


def trained(changes, steps, length=9):
    """Returns (initial values, values after some steps on one batch, losses)."""
    program = program_of(changes)
    state, losses = program.initial_state(0), []
    before = jax.device_get(state["params"])
    batch = program.put_batch({"tokens": np.random.default_rng(0).integers(0, 60, (2, length)).astype(np.int32)})
    for _ in range(steps):
        state, metrics = program.train_step(state, batch, program.constants(0))
        losses.append(float(metrics["loss"]))
    return before, jax.device_get(state["params"]), losses


@pytest.mark.parametrize("placement", PLACEMENT_KINDS.having("streams"))
@pytest.mark.promise(reason="models are trained")
def test_training_makes_all_streams_differ(placement):
    """Two streams that are read and written alike at first get equal gradients and never differ."""
    changes = {"model.norm.placement": placement, "model.norm.streams": 4, "optimizer.learning_rate": 1e-2}
    _, after, losses = trained(changes, 10)
    assert losses[-1] < losses[0] - 0.5
    layers = after["stack"]["layers"]
    if placement == "mhc":
        # Streams are equal before the first sublayer, so only later ones can tell how they are mixed.
        assert all(abs(factor) > 1e-3 for factor in layers["ffn_streams"]["scale"][0])
        return
    # Only the mean of the streams is read after the last sublayer, so it writes equally to all of
    # them.
    written = layers["attention_streams"]["write"][0]
    assert (np.abs(written[:, None] - written[None]) + np.eye(4)).min() > 1e-4


@pytest.mark.promise(reason="a model is trained")
def test_an_encoder_decoder_trains():
    """The loss reaches the encoder's streams through cross-attention, which reads their mean."""
    before, after, losses = trained(ENCODER_DECODER | {"optimizer.learning_rate": 1e-2}, 10, length=8)
    assert losses[-1] < losses[0] - 0.5
    for side, parts in (("encoder", 2), ("decoder", 3)):
        layers = after[side]["stack"]["layers"]
        around = [name for name in layers if name.endswith("_streams")]
        assert len(around) == parts
        for name in around:
            moved = layers[name]["mix"] != before[side]["stack"]["layers"][name]["mix"]
            assert moved.any(axis=1).all(), (side, name)


TASK = {
    "data.source": "stdlib",
    "model.architecture": "encoder",
    "objective.kind": "classification",
    "model.head.classes": 3,
    "training.eval_batches": "auto",
}


@pytest.mark.slow(reason="tests/training/test_features.py trains frozen bodies without streams")
def test_frozen_body_gives_one_vector_and_frozen_connections():
    batch = {"tokens": np.arange(16, dtype=np.int32).reshape(2, 8), "labels": np.array([0, 2], np.int32)}
    for layers in (0, 1):
        program = program_of(TASK | {"training.trained_layers": layers})
        state, constants, rows = program.initial_state(0), program.constants(0), program.put_batch(batch)
        if layers == 0:
            assert program.features(state["params"], state["stats"], rows, constants).shape == (2, 16)
        before = jax.device_get(state["params"]["stack"]["layers"])
        after = jax.device_get(program.train_step(state, rows, constants)[0]["params"]["stack"]["layers"])
        for part, name in (("attention", "read"), ("ffn", "mix"), ("attention", "write")):
            one, other = (values[f"{part}_streams"][name] for values in (after, before))
            assert list((one != other).any(axis=1)) == [False, layers == 1], name


def quiet(line):
    del line


RUN = {
    "model__norm__placement": "hyper_static",
    "model__norm__streams": N,
    "model__num_layers": 2,
    "training__steps": 3,
    "training__dynamics_every": 1,
    "model__dropout": 0.1,
}


@pytest.mark.slow(reason="tests/training records dynamics and trains populations of models without streams")
def test_population_trains_streams_and_records_dynamics(tmp_path):
    members = [RUN, RUN | {"seed": 1, "optimizer__learning_rate": 1e-2}]
    requests = [RunRequest(small(**one), tmp_path / str(index), quiet) for index, one in enumerate(members)]
    for outcome in train_runs(requests, "map"):
        assert not isinstance(outcome, Exception), outcome
    run(small(**RUN), tmp_path / "alone", quiet)
    one, other = (
        [line["train/loss"] for line in lines(tmp_path / name) if "train/loss" in line] for name in ["0", "alone"]
    )
    np.testing.assert_allclose(one, other, rtol=1e-5)
    assert "residual_rms" in (tmp_path / "alone" / "dynamics.jsonl").read_text()
