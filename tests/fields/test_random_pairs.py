"""Random pairs of variants: a pair trains and both variants matter, or it is refused by name."""

import itertools
import random

import numpy as np
import pytest

from tests.fields.every_field import resolve
from tests.support.building import quick_compilation
from tests.support.config_fingerprint import computation, differ
from zoo.config.kinds import OPTIMIZER_KINDS
from zoo.errors import ConfigError
from zoo.variants import VARIANTS

NAMES = (
    *("dynamic-tanh", "layernorm-scaling", "layerscale", "x0-shortcut", "zero-outputs", "sandwich", "p-rope"),
    *("output-gate", "head-gate", "attended-gate", "exclusive", "ssmax", "cosine", "softmax-plus-one"),
    *(
        "sigmoid-attention",
        "forgetting",
        "differential",
        "latent",
        "value-residual",
        "learned-value-residual",
        "value-embedding",
    ),
    *("canon", "primer", "token-shift", "relu-squared", "leaky-relu-squared", "swiglu-clamped", "xielu", "multi-token"),
)
CHANGES = (
    {variant.name: dict(variant.changes) for variant in VARIANTS if variant.name in NAMES}
    | {name: {"optimizer.kind": name} for name in OPTIMIZER_KINDS.by_name if name != "adamw"}
    | {
        "cautious-decay": {"optimizer.weight_decay": 0.1, "optimizer.weight_decay_form": "cautious"},
        "decaying-decay": {
            "optimizer.weight_decay": 0.1,
            "optimizer.weight_decay_schedule": "rate",
            "schedule.kind": "wsd",
        },
        "ema": {"optimizer.ema_steps": 3},
        "mup": {"model.parametrization": "mup", "model.base_dim": 8},
        "completep": {"model.parametrization": "completep", "model.base_dim": 8, "model.base_num_layers": 1},
    }
)
# Two choices of one field cannot be combined.
PAIRS = [
    pair
    for pair in itertools.combinations(CHANGES, 2)
    if all(CHANGES[pair[0]][path] == CHANGES[pair[1]][path] for path in CHANGES[pair[0]].keys() & CHANGES[pair[1]])
]
DRAWN = random.Random(2026).sample(PAIRS, 10)
SIZES = {"model.num_layers": 2, "model.attention.num_heads": 2, "model.ffn.hidden_dim": 24}
STEPS = 4


def resolved_pair(pair):
    """Returns (resolved config of a pair of variants, or None if it is refused; problems)."""
    try:
        return resolve(SIZES | CHANGES[pair[0]] | CHANGES[pair[1]]), []
    except ConfigError as error:
        return None, error.problems


def losses(config):
    """Returns the losses of a few steps on one batch."""
    _, program, batches, constants = computation(config).inputs
    options = quick_compilation()
    state = program.initial_state.lower(np.uint32(0)).compile(compiler_options=options)(np.uint32(0))
    step = program.train_step.lower(state, batches[0], constants).compile(compiler_options=options)
    found = []
    for _ in range(STEPS):
        state, metrics = step(state, batches[0], constants)
        found.append(metrics["loss"].item())
    assert np.isfinite(found).all()
    return found


def names_both(pair, problems):
    """Returns whether the problems name fields of both variants."""
    return all(any(path in line for line in problems for path in CHANGES[name]) for name in pair)


@pytest.mark.slow(reason="every pair of variants is resolved")
def test_refused_pairs_are_reported_with_fields_of_both_variants():
    refused = {pair: problems for pair in PAIRS if (problems := resolved_pair(pair)[1])}
    assert all(names_both(*item) for item in refused.items()), refused
    assert ("sandwich", "zero-outputs") in refused
    assert len(refused) < len(PAIRS) / 20


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(pytest.param(*pair, marks=pytest.mark.promise(reason="both variants are trained")) for pair in DRAWN[:2]),
        *(pytest.param(*pair, marks=pytest.mark.slow(reason="more of the same random pairs")) for pair in DRAWN[2:]),
    ],
)
def test_a_random_pair_trains_and_both_variants_matter_or_is_refused(one, other):
    pair = (one, other)
    config, problems = resolved_pair(pair)
    if problems:
        assert names_both(pair, problems)
        return
    found = losses(config)
    assert found[-1] < found[0]
    for name in pair:
        assert differ(config, resolve(SIZES | CHANGES[name]))
