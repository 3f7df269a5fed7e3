"""`model.vocab_multiple`: padding rows of embedding tables do not change losses or gradients."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.support.building import by_default, call, close, tiny
from zoo import config as configs
from zoo.interop.model_weights import with_rows_of, without_padding
from zoo.layers.context import Context
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, initialise_statistics, split
from zoo.models.head import LogitFactors, logits
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.cross_entropy import LossTerms, distilled_cross_entropy
from zoo.objectives.objective import ForwardMode
from zoo.resources.abstract_run import PlaceholderTokenizer
from zoo.training.mesh import undivided_dimensions

V, P = 13, 16
PADDED = {"model.vocab_multiple": 8}
CASES = {
    "tied": {},
    "own head": {
        "model.tie_embeddings": False, "model.head.bias": True, "model.head.softcap": 2.0, "objective.z_loss": 0.1,
        "objective.label_smoothing": 0.2, "objective.chunk_tokens": 4,
    },
    "both sides": {
        "model.architecture": "encoder_decoder", "objective.kind": "prefix", "objective.prefix_length": 3,
        "model.embedding.shared": False,
    },
}  # fmt: skip


def measured(config, tokens):
    """Returns (parameters, loss, reports, gradients) of a training step from the initial values."""
    model, objective = make_model(config), make_objective(config, PlaceholderTokenizer(V))
    constants = {name: jnp.asarray(table) for name, table in objective.constants.items()}
    params = initialise(model, 3)

    def loss(params):
        record = {}
        mode = ForwardMode(training=True, record=record)
        losses, (sums, _) = objective.sums(
            split(model)[0], params, initialise_statistics(model, 3), {"tokens": tokens}, constants, mode
        )
        return losses["loss"], (sums["loss"], record["logits"])

    (total, reports), gradients = call(jax.value_and_grad(loss, has_aux=True), params)
    return jax.tree.map(np.asarray, params), total, reports, gradients


@pytest.mark.parametrize(
    "name", by_default(["tied"], CASES, pytest.mark.promise(reason="gradients of other models are compiled"))
)
def test_losses_and_gradients_equal_those_without_padding(name):
    tokens = np.random.default_rng(0).integers(0, V, (2, 9), np.int32)
    shallow = CASES[name] | {"model.num_layers": 1}
    plain, padded = tiny(shallow), tiny(shallow | PADDED)
    params, *results, gradients = measured(plain, tokens)
    its_params, *its_results, its_gradients = measured(padded, tokens)
    jax.tree.map(lambda one, other: close(one, other, 2e-6), its_results, results)
    tables = 0
    for own, its in ((params, its_params), (gradients, its_gradients)):
        own, its = flatten(own, "/"), flatten(its, "/")
        assert own.keys() == its.keys()
        for path, values in own.items():
            rows = its[path]
            if rows.shape != values.shape:
                assert (len(values), len(rows)) == (V, P)
                assert not rows[V:].any()
                tables += 1
            np.testing.assert_allclose(rows[: len(values)] if values.ndim else rows, values, rtol=0, atol=1e-5)
    assert tables == 2 * {"tied": 1, "own head": 3, "both sides": 2}[name]
    counted = [cost.summary(config).parameters for config in (plain, padded)]
    assert counted[1].pop("padding") == counted[1]["total"] - counted[0]["total"] > 0
    assert "padding" not in counted[0]


def test_padding_ids_are_never_predicted():
    model = make_model(tiny(PADDED | {"model.head.bias": True, "model.head.softcap": 1.0}))
    params = initialise(model, 0)
    # Even if the padding rows are not 0.
    params["head"]["bias"] = jnp.full(P, 1.0).at[V:].set(1e9)
    tokens = jnp.ones((1, 4), jnp.int32)

    def probabilities(params):
        merged = nnx.merge(split(model)[0], params, initialise_statistics(model, 0))
        context = Context(jnp.arange(4)[None], in_order=True)
        return jax.nn.softmax(merged.logits(merged(tokens, context), context))

    found = call(probabilities, params)
    assert found.shape == (1, 4, P)
    assert (found[..., V:] == 0).all()
    close(found.sum(axis=-1), np.ones((1, 4)))


@pytest.mark.parametrize("ids", [0, V])
def test_teacher_can_have_another_padding(ids):
    draw = np.random.default_rng(1)
    hidden, head, its = (draw.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (V, 4), (V, 4)))
    targets, weights = draw.integers(0, V, (2, 3)), np.ones((2, 3), np.float32)
    terms = LossTerms(0.1, 0.1, hard=0.5, kl=0.5, temperature=2.0)
    more = np.full((P - V, 4), 3, np.float32)

    def of(own, teacher):
        return distilled_cross_entropy(own, teacher, targets, weights, 2, terms)

    expected = call(lambda: of(LogitFactors(hidden, head, None, 0.0), LogitFactors(hidden, its, None, 0.0)))
    own = LogitFactors(hidden, np.concatenate([head, more]), None, 0.0, V)
    teacher = LogitFactors(hidden, np.concatenate([its, more]) if ids else its, None, 0.0, ids)
    close(call(lambda: of(own, teacher)), expected, 1e-6)
    assert np.isfinite(call(jax.grad(lambda h: of(own._replace(hidden=h), teacher)[0]), hidden)).all()


def test_padding_rows_are_cut_and_added_between_models():
    padded = tiny(PADDED | CASES["own head"])
    plain = without_padding(padded)
    assert plain == tiny(CASES["own head"])
    values = jax.tree.map(np.asarray, initialise(make_model(padded), 0))
    cut = with_rows_of(plain, values)
    assert cut["embedding"].shape == (V, 16)
    again = with_rows_of(padded, cut)
    jax.tree.map(np.testing.assert_array_equal, again, values)


def test_run_without_padding_keeps_the_identity_without_the_field():
    one = configs.result_relevant(tiny())
    assert one["model.vocab_multiple"] == 1
    assert configs.identity(tiny()) != configs.identity(tiny(PADDED))
    one.pop("model.vocab_multiple")
    assert configs.identity(configs.from_flat(one)) == configs.identity(tiny())


def test_error_for_an_indivisible_vocabulary_names_the_remedy():
    mesh = SimpleNamespace(shape={"data": 1, "fsdp": 1, "expert": 1, "tensor": 8})
    (line,) = undivided_dimensions(tiny(), mesh)
    assert "model.vocab_size=13 is not divisible by mesh.tensor=8" in line
    assert "model.vocab_multiple=8 would pad it to 16 rows" in line
    assert not undivided_dimensions(tiny(PADDED), mesh)


def test_the_hidden_width_that_is_divided_is_the_one_that_is_built():
    mesh, matched = (
        SimpleNamespace(shape={"data": 1, "fsdp": 1, "expert": 1, "tensor": 4}),
        {"model.ffn.kind": "swiglu"},
    )
    matched |= {"model.ffn.match_parameters": True, "model.ffn.hidden_dim": 20}
    (line,) = undivided_dimensions(tiny(PADDED | matched), mesh)
    assert line.startswith("the hidden width of model.ffn, 13, is not divisible by mesh.tensor=4: ")
    assert line.endswith("model.ffn.multiple_of=4 would round it up")
    assert not undivided_dimensions(tiny(PADDED | matched | {"model.ffn.multiple_of": 4}), mesh)


def test_padding_logits_have_probability_0():
    hidden, head = np.ones((1, 2, 4), np.float32), np.ones((P, 4), np.float32)
    found = call(lambda: logits(LogitFactors(hidden, head, None, 0.0, V)))
    assert (found[..., :V] == 4).all()
    assert (np.exp(found[..., V:]) == 0).all()
