"""muP and CompleteP: initial values, multipliers, and refused combinations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import TINY, by_default, call, tiny
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.layers.placement import make_block
from zoo.models.architectures import make_model
from zoo.models.functional import initialise
from zoo.nested import flatten

WIDER = {"model.parametrization": "mup", "model.base_dim": 4}
DEEPER = WIDER | {"model.parametrization": "completep", "model.base_num_layers": 1}


def values(changes):
    model = make_model(tiny(changes))
    return flatten(call(lambda seed: initialise(model, seed), 0), "/")


@pytest.mark.parametrize("tied", [True, False])
def test_initial_hidden_matrices_shrink_with_width_and_tables_do_not(tied):
    """With tied embeddings, rescaling the output matrix would wrongly rescale the embedding too."""
    own = {"model.tie_embeddings": tied}
    standard, wide = values(own), values(WIDER | own)
    for path in standard:
        hidden = path.startswith("stack") and path.endswith("kernel")
        np.testing.assert_allclose(wide[path], standard[path] * (0.5 if hidden else 1), rtol=1e-6, err_msg=path)


@pytest.mark.parametrize(
    "kernel",
    by_default(
        ["xavier_uniform"],
        ["xavier_uniform", "xavier_normal", "lecun_normal", "he_normal"],
        pytest.mark.promise(reason="other initialisers"),
    ),
)
def test_fan_initialisers_are_scaled_once_and_tables_keep_the_base_scale(kernel):
    own = {"model.init.kernel": kernel, "model.tie_embeddings": False, "model.ffn.hidden_dim": "auto"}
    base = values(own | {"model.dim": 4, "model.attention.num_heads": 1})
    wide = values(own | WIDER | {"model.dim": 64, "model.attention.num_heads": 16})
    for path in ("embedding", "head/weights"):
        assert wide[path].std() == pytest.approx(base[path].std(), rel=0.35), path
    ratio = wide["stack/layers/ffn/up/kernel"].std() / base["stack/layers/ffn/up/kernel"].std()
    assert ratio == pytest.approx(64**-0.5 * 4**0.5, rel=0.3)


def test_logits_are_divided_by_width_and_embeddings_keep_the_base_scale():
    def prediction(changes):
        config = tiny(changes | {"model.head.scale": "rsqrt_dim"})
        head = make_model(config).head
        return head(jnp.ones((1, 1, 16)), jnp.ones((13, 16))).hidden

    np.testing.assert_allclose(prediction(WIDER), prediction({}) * 2 / 4)

    from zoo.models.language_model import embed

    def embedded(changes):
        return embed(
            jnp.ones((13, 16)), jnp.zeros((1, 1), int), tiny(changes | {"model.embedding.scale": "sqrt_dim"}).model
        )

    np.testing.assert_allclose(embedded(WIDER), embedded({}) / 2)


def test_score_scale_depends_on_head_width_not_on_head_count():
    def scale(**changes):
        return tiny(WIDER | {f"model.{name}": value for name, value in changes.items()}).model.attention.scale

    assert scale() == 4**-0.5  # More heads of equal width.
    assert scale(base_head_dim=1) == 1 / 4
    assert scale(base_head_dim=4) == 4**-0.5


def test_completep_divides_sublayer_outputs_by_depth():
    x, y = jnp.ones((1, 2, 16)), jnp.full((1, 2, 16), 6.0)
    for changes, expected in ((WIDER, 7.0), (DEEPER, 4.0), (DEEPER | {"model.parallel": "shared_norm"}, 4.0)):
        block = make_block(tiny(changes).model)
        np.testing.assert_array_equal(block.combine(x, y), jnp.full_like(x, expected))


def test_base_size_equals_the_standard_parametrization():
    same = {"model.parametrization": "completep", "model.base_dim": 16, "model.base_num_layers": 2}
    one, other = (jax.tree.leaves(values(changes)) for changes in ({}, same))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_standard_run_keeps_the_identity_without_the_new_fields():
    plain = tiny().to_dict()
    for name in ("parametrization", "base_dim", "base_head_dim", "base_num_layers"):
        del plain["model"][name]
    assert configs.identity(tiny()) == configs.identity(plain)
    assert configs.identity(tiny()) != configs.identity(tiny(WIDER))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model.parametrization": "mup"}, "needs model.base_dim"),
        (WIDER | {"model.parametrization": "completep"}, "needs model.base_num_layers"),
        (WIDER | {"model.embedding.dim": 8, "model.tie_embeddings": False}, "model.embedding.dim=8; leave it at 0"),
        (DEEPER | {"model.layers.distinct": 1}, "leave model.layers.distinct at 0"),
        ({"model.base_dim": 8}, "model.base_dim=8 has no effect"),
        (WIDER | {"optimizer.kind": "sgd"}, "has no rates for optimizer.kind=sgd"),
        (
            WIDER
            | {"optimizer.groups": ("a",), "optimizer.group.a.select": "role:matrix", "optimizer.group.a.kind": "muon"},
            "has no rates for optimizer.group.a.kind=muon",
        ),
        (
            WIDER | {"optimizer.weight_decay": 0.1, "optimizer.weight_decay_form": "coupled"},
            "no rule for optimizer.weight_decay_form=coupled",
        ),
        (WIDER | {"model.head.transform": True}, "no rule for the matrices of model.head.transform=true"),
        (DEEPER | {"model.norm.placement": "post"}, "defined for model.norm.placement=pre"),
        (DEEPER | {"model.residual": False}, "model.residual=false has none"),
        (DEEPER | {"model.init.scale_residual": True}, "model.init.scale_residual=true both shrink"),
        (
            DEEPER | {"model.architecture": "encoder_decoder", "objective.kind": "prefix"},
            "defined for one stack of layers",
        ),
    ],
)
def test_settings_without_a_scaling_rule_are_refused_by_name(changes, line):
    with pytest.raises(ConfigError) as refusal:
        configs.resolve(configs.override(configs.default(), TINY | changes))
    assert any(line in problem for problem in refusal.value.problems), refusal.value.problems
