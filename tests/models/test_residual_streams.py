"""A placement with several residual streams, hyper-connections: everything that looks at the stream
between layers works on them. tests/plugins/test_retention.py trains them on eight devices.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.building import ENCODER_DECODER, call, close, counting, random_values, tiny, with_values
from tests.decoding import making
from tests.small_runs import lines, small
from zoo.config import plugins
from zoo.config.fields import Field
from zoo.config.kinds import Kind
from zoo.errors import ConfigError
from zoo.layers.block import PreNormBlock
from zoo.layers.parameter import parameter
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.parameter_groups import group_sizes
from zoo.plugin.registrations import KindRegistration
from zoo.training.startup import RunRequest
from zoo.training.trainer import run, train_runs

N = 3
HYPER = {"model.norm.placement": "hyper", "model.norm.streams": N}


class HyperBlock(PreNormBlock):
    """Static hyper-connections: h = sum_n a_n x_n, and x_m = sum_n R_nm x_n + b_m f(Norm(h)), over N
    streams that begin as copies of the embedding and end in their mean (Zhu et al. 2024, section 2.2).
    """

    def __init__(self, config, cross=False, sides=None):
        super().__init__(config, cross, sides)
        n = config.norm.streams

        def mixing(key, shape):
            return jnp.eye(n)

        for part in self.parts:
            setattr(self, f"{part}_read", parameter((n,), (None,), lambda key, shape: jnp.full(shape, 1 / n)))
            setattr(self, f"{part}_mix", parameter((n, n), (None, None), mixing, "scalar"))
            setattr(self, f"{part}_write", parameter((n,), (None,), lambda key, shape: jnp.ones(shape)))

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
)


REGISTRATION = KindRegistration(KIND, HyperBlock)


@pytest.fixture(autouse=True, scope="module")
def hyper():
    """The placement is a choice for all tests here."""
    plugins.register(REGISTRATION)
    yield
    REGISTRATION.remove()


def test_it_computes_what_it_says():
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
        close(recorded[f"layer {layer}"]["states"], x.mean(axis=2), 1e-4)
    normed = call(lambda x: norm_alone(plain, values["final_norm"], x), x.mean(axis=2).astype(np.float32))
    close(found, normed, 1e-4)


def sublayer_alone(model, own, part, h):
    """f(Norm(h)) of a plain block's part with these values."""
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
    """(values, hidden states) of a tiny model at its initial values, or at the given ones."""
    from zoo.models.functional import initialise

    model = make_model(tiny(changes))
    values = initialise(model, 0) if values is None else values
    return values, call(
        lambda tokens: with_values(model, values)(tokens, counting(8)), np.arange(16).reshape(2, 8) % 13
    )


def test_it_begins_as_pre_norm():
    """All streams are equal at first, so that their mean is the stream of a pre-norm model."""
    close(hidden(HYPER)[1], hidden({})[1])


@pytest.mark.parametrize("changes", [{"model.scan_layers": True}, {"model.remat": "full"}], ids=["scanned", "remat"])
def test_how_layers_run_changes_nothing(changes):
    model = make_model(tiny(HYPER | {"model.num_layers": 3}))
    values = random_values(model, 2)
    expected = hidden(HYPER | {"model.num_layers": 3}, values)[1]
    close(hidden(HYPER | {"model.num_layers": 3} | changes, values)[1], expected)


@pytest.mark.parametrize(
    "changes", [{}, {"model.scan_layers": True}, ENCODER_DECODER], ids=["", "scanned", "two sides"]
)
def test_decoding_from_the_cache_says_what_the_whole_text_says(changes):
    close(*making.both_ways(HYPER | {"model.num_layers": 2} | changes, steps=4))


def test_parameters_are_counted_and_grouped():
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
def test_what_it_cannot_be_combined_with_is_refused(changes, line):
    with pytest.raises(ConfigError, match=line):
        tiny(HYPER | changes)


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


@pytest.mark.promise
def test_a_population_trains_them_and_dynamics_are_recorded(tmp_path):
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
