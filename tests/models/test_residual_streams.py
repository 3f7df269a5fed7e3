"""Hyper-connections, a placement with several residual streams: everything that reads the stream
between layers supports them. tests/plugins/test_retention.py trains them on eight devices.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding import making
from tests.support.building import (
    ENCODER_DECODER,
    call,
    close,
    counting,
    quick_compilation,
    random_values,
    tiny,
    with_values,
)
from tests.support.small_runs import lines, small
from zoo.config import plugins
from zoo.config.fields import Field
from zoo.config.kinds import Kind
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.layers.block import PreNormBlock
from zoo.layers.parameter import ones, parameter
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.parameter_groups import group_sizes
from zoo.objectives import make_objective
from zoo.plugin.registrations import KindRegistration
from zoo.training.mesh import make_mesh
from zoo.training.startup import RunRequest
from zoo.training.step import make_program
from zoo.training.trainer import run, train_runs

N = 3
HYPER = {"model.norm.placement": "hyper", "model.norm.streams": N}


class HyperBlock(PreNormBlock):
    """Static hyper-connections: h = sum_n a_n x_n, and x_m = sum_n R_nm x_n + b_m f(Norm(h)), over N
    streams that begin as copies of the embedding (Zhu et al. 2024).

    At first R is the identity, b is 1, and a sublayer reads one stream, its number in the layer
    modulo N: if all read the mean, every stream would get the same gradient and they would stay
    equal for ever. The paper counts sublayers through all layers, and ends in the sum of the
    streams; here it is their mean, which a norm cannot tell from it but for its epsilon.
    """

    def __init__(self, config, cross=False, sides=None):
        super().__init__(config, cross, sides)
        n = config.norm.streams

        for number, part in enumerate(self.parts):
            setattr(self, f"{part}_read", parameter((n,), (None,), lambda key, shape, k=number: jnp.eye(n)[k % n]))
            setattr(self, f"{part}_mix", parameter((n, n), (None, None), lambda key, shape: jnp.eye(n), "scalar"))
            setattr(self, f"{part}_write", parameter((n,), (None,), ones))

    @staticmethod
    def expand(x, config):
        return jnp.repeat(x[:, :, None], config.norm.streams, axis=2)

    @staticmethod
    def reduce(x, config):
        return x.mean(axis=2)

    def sublayer(self, x, f, norm, output_norm, context, part):
        read, mix, write = (getattr(self, f"{part}_{name}")[...].astype(x.dtype) for name in ("read", "mix", "write"))
        y = context.dropout(f(norm(jnp.einsum("btnd,n->btd", x, read), context)), self.rate, part)
        return jnp.einsum("btnd,nm->btmd", x, mix) + y[:, :, None] * write[:, None]


def problems(flat, architecture):
    if not flat["model.residual"]:
        yield "model.norm.placement=hyper is a residual connection; it needs model.residual=true"


KIND = Kind(
    "model.norm.placement",
    "hyper",
    "N residual streams with learned connections (Zhu et al. 2024)",
    fields=(Field("model.norm.streams", 2, int, "N, number of residual streams", minimum=1),),
    problems=problems,
    code=HyperBlock,
)


REGISTRATION = KindRegistration(KIND)


@pytest.fixture(autouse=True, scope="module")
def hyper():
    """Registers the placement for all tests of this module."""
    plugins.register(REGISTRATION)
    yield
    REGISTRATION.remove()


def test_block_matches_its_equation():
    config = tiny(HYPER | {"model.num_layers": 2})
    model, tokens = make_model(config), np.arange(8)[None] % 13
    values = random_values(model, 1)
    record = {}

    def forward(tokens):
        context = counting(8, record=record, record_arrays=True)
        return with_values(model, values)(tokens, context), jax.tree.map(lambda leaf: leaf, record)

    found, recorded = call(forward, tokens)
    x = np.repeat(np.float64(recorded["states"])[:, :, None], N, axis=2)
    plain = make_model(tiny({"model.num_layers": 1}))
    stacked = values["stack"]["layers"]
    for layer in range(2):
        own = jax.tree.map(lambda leaf, layer=layer: leaf[layer], stacked)
        for part in ("attention", "ffn"):
            h = np.einsum("btnd,n->btd", x, own[f"{part}_read"]).astype(np.float32)
            y = sublayer_alone(plain, own, part, h)
            x = np.einsum("btnd,nm->btmd", x, own[f"{part}_mix"]) + y[:, :, None] * own[f"{part}_write"][:, None]
        stream, noted = x.mean(axis=2), recorded[f"layer {layer}"]
        close(noted["states"], stream, 1e-4)
        close(noted["residual"]["total"] / noted["residual"]["count"], np.square(stream).mean(), 1e-4)
    normed = call(lambda x: norm_alone(plain, values["final_norm"], x), x.mean(axis=2).astype(np.float32))
    close(found, normed, 1e-4)


def sublayer_alone(model, own, part, h):
    """Returns f(Norm(h)) of one sublayer with the given values."""
    from zoo.layers.attention import make_attention
    from zoo.layers.feedforward import make_feed_forward

    make = make_attention if part == "attention" else make_feed_forward
    config = tiny({"model.num_layers": 1}).model

    def forward(h):
        normed = norm_alone(model, own[f"{part}_norm"], h)
        return with_values(make(config), own[part])(normed, counting(8))

    return np.float64(call(forward, h))


def norm_alone(model, values, x):
    from zoo.layers.norm import make_norm

    return with_values(make_norm(model.config), values)(x)


def hidden(changes, values=None):
    """Returns (values, hidden states) of a tiny model with initial or given values."""
    from zoo.models.functional import initialise

    model = make_model(tiny(changes))
    values = initialise(model, 0) if values is None else values
    return values, call(
        lambda tokens: with_values(model, values)(tokens, counting(8)), np.arange(16).reshape(2, 8) % 13
    )


def test_initial_model_equals_pre_norm():
    """All streams are equal initially, so their mean is the stream of a pre-norm model."""
    close(hidden(HYPER)[1], hidden({})[1])


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
    ids=["scanned with remat", "scanned", "remat", "pattern"],
)
def test_scan_and_remat_do_not_change_gradients(changes, base):
    found, expected = loss_and_gradient(base | changes), loss_and_gradient(base)
    close(found[0], expected[0])
    jax.tree.map(close, found[1], expected[1])


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"model.scan_layers": True}, marks=pytest.mark.promise(reason="another model is decoded")),
        pytest.param(ENCODER_DECODER, marks=pytest.mark.promise(reason="another model is decoded")),
    ],
    ids=["", "scanned", "two sides"],
)
@pytest.mark.promise(reason="a model is decoded step by step; tests/decoding does so for every kind of layer")
def test_cached_decoding_equals_a_pass_over_all_tokens(changes):
    close(*making.stepwise_and_full_scores(HYPER | {"model.num_layers": 2} | changes, steps=4))


def test_stream_parameters_are_counted_and_grouped():
    groups = {
        "optimizer.groups": ("mixing",),
        "optimizer.group.mixing.select": "role:scalar",
        "optimizer.group.mixing.rate_factor": 0.1,
    }
    resolved, plain = tiny(HYPER | groups), tiny()
    more = cost.summary(resolved).parameters["total"] - cost.summary(plain).parameters["total"]
    assert more == 2 * 2 * (N * N + 2 * N)
    assert group_sizes(resolved)["mixing"] == 2 * 2 * N * N


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model.residual": False}, "needs model.residual=true"),
        ({"model.parallel": "own_norms"}, "model.parallel=own_norms is defined for pre-norm"),
        ({"model.norm.placement": "pre", "model.norm.streams": 3}, "model.norm.streams=3 has no effect"),
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


@pytest.mark.promise(reason="a model is trained")
def test_training_makes_the_streams_differ():
    _, after, losses = trained({"optimizer.learning_rate": 1e-2}, 10)
    assert losses[-1] < losses[0] - 0.5
    written = [after["stack"]["layers"][f"{part}_write"] for part in ("attention", "ffn")]
    # Only the mean of the streams is read after the last sublayer, so it writes equally to all of
    # them.
    for sublayer in np.stack(written, axis=1).reshape(-1, N)[:-1]:
        assert np.ptp(sublayer) > 1e-3


@pytest.mark.promise(reason="a model is trained")
def test_an_encoder_decoder_trains():
    """The loss reaches the encoder's streams through cross-attention, which reads their mean."""
    before, after, losses = trained(ENCODER_DECODER | {"optimizer.learning_rate": 1e-2}, 10, length=8)
    assert losses[-1] < losses[0] - 0.5
    for side, parts in (("encoder", 2), ("decoder", 3)):
        layers = after[side]["stack"]["layers"]
        mixes = [name for name in layers if name.endswith("_mix")]
        assert len(mixes) == parts
        for name in mixes:
            assert (layers[name] != before[side]["stack"]["layers"][name]).any(axis=(1, 2)).all(), (side, name)


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
        for name in ("attention_read", "ffn_mix", "attention_write"):
            moved = (after[name] != before[name]).reshape(2, -1).any(axis=1)
            assert list(moved) == [False, layers == 1], name


def quiet(line):
    del line


RUN = {
    "model__norm__placement": "hyper",
    "model__norm__streams": N,
    "model__num_layers": 2,
    "training__steps": 3,
    "training__dynamics_every": 1,
    "model__dropout": 0.1,
}


@pytest.mark.promise(reason="runs are trained")
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
