"""Every field that a part of a model may set for itself changes that part, or is refused: kinds of
layers, an encoder-decoder's sides, and groups of parameters.

The tests compare the initial state and the forward pass in training; a step is made from them in
the same way for every model.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.fields.every_field import ENCODER, ENCODER_DECODER, NEEDS, needed_with, other_value, resolve
from tests.support.config_fingerprint import OF_MODEL, OF_OPTIMIZER, differ, fingerprint
from zoo import config as configs
from zoo.config.scopes import GROUPS, KINDS, SIDES, overridable, scoped
from zoo.errors import ConfigError
from zoo.models.functional import ParameterTraits
from zoo.training.optimization.optimizer import make_optimizer

PATTERN = {
    "model.layers.pattern": ("one", "two"),
    "model.num_layers": 2,
    f"{KINDS}.one.residual": True,
    f"{KINDS}.two.residual": True,
}
BASES = {f"{KINDS}.one": PATTERN, "model.encoder": ENCODER_DECODER, "model.decoder": ENCODER_DECODER}
BUCKETS = ("model.position.buckets", "model.position.max_distance", "model.position.shared")
EMBEDDED = ("model.position.max_length", "model.position.offset", "model.position.endpoint")
GLOBAL = ("model.attention.global_tokens", "model.attention.global_projections")
CROSS = "model.attention.cross_kv_heads"
# It names a kind of layers, and the patterns here have none that it could be.
KEYS = "model.attention.keys_from"
# Only a decoder has an order to forget in, or to convolve in.
FORGETTING = "model.attention.forget_bias"
# Kinds of attention that cannot read an encoder's output.
WITHOUT_CROSS = tuple(
    f"model.attention.{name}"
    for name in ("sigmoid_bias", "latent_dim", "rotary_dim", "query_latent_dim", "norm_epsilon")
)
TAPS = ("model.convolution.width", "model.convolution.places")
# Of kinds of attention with a state, which read a row from left to right and no encoder's output.
STATES = tuple(
    f"model.attention.{name}"
    for name in (
        *("value_dim", "key_heads", "convolution_width", "decay_rank", "rate_rank", "value_rank", "gate_rank"),
        *("negative_eigenvalues", "gate_bias", "chunk_tokens", "state_kind", "state_heads", "state_dim", "mixing"),
    )
)
# Each expert would choose tokens by what comes after them.
CHOICE = "model.ffn.experts.choice"
# Refused fields, by part and by whether the part itself (True) or the whole model makes the choice
# that a field belongs to.
REFUSED = {
    # Positions added to the embedding belong to no layer, and kinds of layers have their own tables
    # or share one. An encoder-decoder has no kinds of layers, so they have no cross-attention.
    (f"{KINDS}.one", True): {*EMBEDDED, "model.position.shared", CROSS, KEYS},
    (f"{KINDS}.one", False): {*EMBEDDED, *BUCKETS, CROSS, KEYS},
    ("model.encoder", True): {CROSS, KEYS, FORGETTING, *STATES, "model.convolution.kind", *TAPS},
    # A window of the whole model would mean different things on the two sides.
    ("model.encoder", False): {
        *GLOBAL,
        CROSS,
        KEYS,
        "model.attention.dilations",
        FORGETTING,
        *STATES,
        *WITHOUT_CROSS,
        *TAPS,
    },
    # Early tokens of a decoder must not see later ones; parallel blocks have no place for
    # cross-attention, and neither of these kinds of attention supports it.
    ("model.decoder", True): {"model.parallel", KEYS, *GLOBAL, FORGETTING, *STATES, CHOICE, *WITHOUT_CROSS},
    ("model.decoder", False): {
        "model.parallel",
        KEYS,
        *GLOBAL,
        "model.attention.dilations",
        FORGETTING,
        *STATES,
        CHOICE,
        *WITHOUT_CROSS,
        *TAPS,
    },
}


def changed_and_before(scope, field, inside):
    """Returns the config in which a part has another value of a field, and the config without it.

    Args:
        scope: the part.
        field: of the whole model.
        inside: what the field needs is set for the part alone; else for the whole model.
    """

    def placed(changes):
        fixed = ENCODER if scope in SIDES else ()
        return {
            scoped(scope, path) if inside and path in overridable(scope) else path: value
            for path, value in changes.items()
            if path not in fixed
        }

    own_table = inside and scope not in SIDES and field.path in BUCKETS[:2]
    before = BASES[scope] | placed(NEEDS.get(field.path, {}) | ({"model.position.shared": False} if own_table else {}))
    other = {
        scoped(scope, path): value for path, value in {**needed_with(field), field.path: other_value(field)}.items()
    }
    return resolve(before | other), resolve(before)


CASES = [(scope, path, inside) for scope in BASES for path in overridable(scope) for inside in (True, False)
         if inside or path in NEEDS]  # fmt: skip


def marks_of(scope, path, inside):
    """Returns the group of a case: refusals take no time, and kinds of layers stand for the sides."""
    if scope not in SIDES and inside:
        return ()
    if scope in SIDES and path not in REFUSED[scope, inside]:
        if not inside:
            return pytest.mark.slow(reason="kinds of layers show that a part reads a choice of the whole model")
        (other,) = set(SIDES) - {scope}
        if path not in REFUSED[other, True] and scope != SIDES[overridable(scope).index(path) % 2]:
            return pytest.mark.slow(reason="the other side, which is read by the same code, has another value")
    return pytest.mark.promise(
        reason="scopes are read by the same code in the sides, and where the model makes a choice"
    )


@pytest.mark.parametrize(("scope", "path", "inside"), [pytest.param(*case, marks=marks_of(*case)) for case in CASES])
def test_a_field_of_a_part_changes_the_result(scope, path, inside):
    field = configs.BY_PATH[path]
    if path in REFUSED[scope, inside]:
        with pytest.raises(ConfigError) as refusal:
            changed_and_before(scope, field, inside)
        # The problem names the field or one that it needs.
        named = [path.rsplit(".", 1)[-1], *(need.removeprefix("model.") for need in NEEDS.get(path, {}))]
        assert any(name in problem for problem in refusal.value.problems for name in named), refusal.value.problems
        return
    changed, before = changed_and_before(scope, field, inside)
    assert differ(changed, before, OF_MODEL)


@pytest.mark.parametrize(
    "changes",
    [
        # Values that a part would have anyway: the fingerprint is of the computation and not of the
        # config.
        PATTERN | {f"{KINDS}.one.attention.num_heads": 4, f"{KINDS}.two.ffn.kind": "gelu"},
        pytest.param(
            ENCODER_DECODER | {"model.encoder.num_layers": 1, "model.decoder.norm.placement": "pre"},
            marks=pytest.mark.promise(reason="scopes of sides are read by the same code"),
        ),
    ],
    ids=["kinds", "sides"],
)
def test_setting_a_part_like_the_rest_changes_nothing(changes):
    before = {path: value for path, value in changes.items() if path in configs.BY_PATH or path.endswith("residual")}
    assert before != changes
    assert fingerprint(resolve(changes), OF_MODEL) == fingerprint(resolve(before), OF_MODEL)


GROUP = {
    "optimizer.groups": ("a",),
    f"{GROUPS}.a.select": "role:embedding",
    f"{GROUPS}.a.rate_factor": 0.25,
    f"{GROUPS}.a.weight_decay": 0.1,
}
# tests/training/test_population.py shows that hyperparameters are read, not only passed.
IN_GROUP = {
    "select": "axes:mlp",
    "rate_factor": 0.5,
    "beta1": 0.5,
    "beta2": 0.9,
    "epsilon": 1e-3,
    "momentum_warmup": 5,
    "momentum_cooldown": 5,
    "momentum_start": 0.5,
    "weight_decay": 0.0,
    "weight_decay_form": "cautious",
}
MATRICES = GROUP | {f"{GROUPS}.a.select": "axes:mlp,axes:heads"}
IN_MUON = {"kind": "adamw", "muon_momentum": 0.8, "muon_scale": "spectral", "muon_heads": "split"}
IN_OTHER_KINDS = {
    "sgd": {"sgd_momentum": 0.5, "sgd_nesterov": True},
    "lion": {"lion_beta1": 0.5, "lion_beta2": 0.5},
    "adagrad": {"adagrad_initial": 0.5},
    "adafactor": {
        "adafactor_decay": 0.5,
        "adafactor_clip": 0.5,
        "adafactor_scaled": False,
        "adafactor_min_factored": 2,
    },
    "ademamix": {"ademamix_beta3": 0.99, "ademamix_alpha": 2.0, "ademamix_warmup": 5},
    "normuon": {"normuon_beta2": 0.5},
    "soap": {"soap_beta": 0.5, "soap_refresh": 2, "soap_max_dim": 3},
}


@pytest.mark.parametrize("name", IN_GROUP)
def test_a_field_of_a_group_changes_the_result(name):
    base = GROUP | ({f"{GROUPS}.a.momentum_warmup": 3} if name == "momentum_start" else {})
    assert differ(resolve(base | {f"{GROUPS}.a.{name}": IN_GROUP[name]}), resolve(base), OF_OPTIMIZER)


@pytest.mark.parametrize("name", IN_MUON)
def test_a_field_of_a_group_of_matrices_changes_the_result(name):
    muon = MATRICES | {f"{GROUPS}.a.kind": "muon"}
    assert differ(resolve(muon | {f"{GROUPS}.a.{name}": IN_MUON[name]}), resolve(muon), OF_OPTIMIZER)


def updated(changes):
    """Returns parameters after twelve updates, those of "a" by the rule of group a."""
    labels = {"a": "a", "rest": "rest"}
    traits = ParameterTraits(dict.fromkeys(labels, 2), dict.fromkeys(labels, True))
    optimizer = make_optimizer(resolve(changes), traits, labels=labels)
    params = dict.fromkeys(labels, jnp.linspace(-1.0, 2.0, 12).reshape(3, 4))
    state, step = optimizer.init(params), jax.jit(optimizer.update)
    for scale in (1.0, -2.0, 3.0, 0.5) * 3:
        updates, state = step(jax.tree.map(lambda leaf, g=scale: g * leaf + 0.5, params), state, params)
        params = jax.tree.map(jnp.add, params, updates)
    return params


@pytest.mark.parametrize("kind", IN_OTHER_KINDS)
def test_fields_of_a_group_of_another_kind_change_its_parameters(kind):
    changes = GROUP | {f"{GROUPS}.a.kind": kind, f"{GROUPS}.a.weight_decay": 0.0}
    before = updated(changes)
    for name, value in IN_OTHER_KINDS[kind].items():
        after = updated(changes | {f"{GROUPS}.a.{name}": value})
        assert not np.array_equal(after["a"], before["a"]), name
        np.testing.assert_array_equal(after["rest"], before["rest"])


def test_every_field_of_a_group_is_tested():
    assert overridable(f"{GROUPS}.a") == [f"optimizer.{name}" for name in configs.fields.group_fields()]
    others = {name for own in IN_OTHER_KINDS.values() for name in own}
    assert {*IN_GROUP, *IN_MUON, *others} == set(configs.fields.group_fields())


def test_the_lists_name_fields_that_a_part_may_set():
    for (scope, _), paths in REFUSED.items():
        assert paths <= set(overridable(scope))
