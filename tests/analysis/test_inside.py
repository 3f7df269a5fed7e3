"""Recorded activations against numpy, for every kind of layer stack, scanned and unrolled."""

import jax
import numpy as np
import pytest

from tests.support.building import ENCODER, ENCODER_DECODER, as_float64, close, random_statistics, random_values, tiny
from zoo.analysis.activations import _compiled, record_activations
from zoo.errors import ConfigError
from zoo.models.architectures import make_model

pytestmark = pytest.mark.usefixtures("einsum_kernel")

TOKENS = np.array([[1, 5, 2, 7, 3], [4, 6, 6, -1, -1]], np.int32)
TARGETS = np.array([[1, 2, 3], [1, 9, -1]], np.int32)


def record(changes, tokens=TOKENS, targets=None):
    config = tiny(changes)
    model = make_model(config)
    values = random_values(model)
    return record_activations(config, model, values, random_statistics(model), tokens, targets), values, config


def test_recording_compiles_once_per_shape():
    config = tiny({})
    model = make_model(config)

    def read(seed, tokens):
        record_activations(config, model, random_values(model, seed), random_statistics(model), tokens)
        return _compiled._cache_size()

    before = read(1, TOKENS)
    assert read(2, TOKENS[::-1]) == before
    assert read(2, TOKENS[:, :3]) == before + 1


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def test_decoder_activations_match_numpy():
    found, values, _ = record(
        {"model.position.kind": "alibi", "model.attention.num_kv_heads": 2, "model.attention.bias": True}
    )
    found, v = found[""], as_float64(values)
    close(found.states[0, 0], v["embedding"][TOKENS[0]])
    for layer in range(2):
        layer_values = jax.tree.map(lambda leaf, layer=layer: leaf[layer], v["stack"]["layers"])
        x = found.states[layer].astype(np.float64)
        centred = x - x.mean(-1, keepdims=True)
        norm, attention = layer_values["attention_norm"], layer_values["attention"]
        y = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * norm["scale"] + norm["bias"]
        q, k = (y @ attention[name]["kernel"] + attention[name]["bias"] for name in ("query", "key"))
        q, k = (
            q.reshape(2, 5, 4, 4).transpose(0, 2, 1, 3),
            k.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3).repeat(2, axis=1),
        )
        slopes = np.array([2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8])[:, None, None]
        scores = q @ k.transpose(0, 1, 3, 2) / 2 - slopes * np.abs(np.arange(5)[:, None] - np.arange(5))
        close(found.scores["attention"][layer][0], scores[0])
        visible = np.tri(5, dtype=bool) & (TOKENS[:, None, None] >= 0)
        close(found.probabilities["attention"][layer][0], softmax(np.where(visible, scores, -1e30))[0])
        close(found.probabilities["attention"][layer][1, :, :3], softmax(np.where(visible, scores, -1e30))[1, :, :3])


@pytest.mark.parametrize("changes", [
    {"model.layers.pattern": ("local", "full"), "model.layers.kinds.local.attention.window": 2,
     "model.layers.kinds.full.attention.window": 0, "model.num_layers": 4},
    *(pytest.param(changes, marks=pytest.mark.promise(reason="two more models are compiled")) for changes in (
        {"model.layers.pattern": ("wide", "few"), "model.layers.kinds.wide.attention.num_heads": 4,
         "model.layers.kinds.few.attention.num_heads": 2, "model.num_layers": 3},
        {**ENCODER_DECODER, "model.encoder.num_layers": 3},
        {}, ENCODER, {"model.position.kind": "rope", "model.norm.placement": "post"})),
], ids=["windows", "heads", "two sides", "decoder", "encoder", "post-norm"])  # fmt: skip
def test_scanned_and_unrolled_layers_have_equal_activations(changes):
    targets = (
        TARGETS if "model.architecture" in changes and changes["model.architecture"] == "encoder_decoder" else None
    )
    unrolled = record({**changes, "model.scan_layers": False}, targets=targets)[0]
    scanned = record({**changes, "model.scan_layers": True}, targets=targets)[0]
    jax.tree.map(lambda one, other: close(one, other), as_dicts(unrolled), as_dicts(scanned))
    for side, found in unrolled.items():
        queries = TARGETS if side == "decoder" else TOKENS
        assert len(found.probabilities["attention"]) == len(found.states) - 1
        for part, maps in found.probabilities.items():
            keys = TOKENS if part == "cross_attention" else queries
            for each in maps:
                assert each.shape[2:] == (queries.shape[1], keys.shape[1])
                filled = queries >= 0
                np.testing.assert_allclose(each.sum(-1).transpose(0, 2, 1)[filled], 1, rtol=0, atol=1e-5)
                assert np.abs(each.transpose(0, 2, 1, 3)[filled].sum(1) * (keys < 0)[np.nonzero(filled)[0]]).max() == 0
    assert ("cross_attention" in next(reversed(unrolled.values())).probabilities) == (targets is not None)


def as_dicts(found):
    return {side: vars(each) for side, each in found.items()}


def test_the_last_state_is_the_output_of_the_model():
    found, values, config = record({"model.norm.placement": "post"})
    from tests.support.building import call, counting, with_values

    model = make_model(config)
    hidden = call(lambda values, tokens: with_values(model, values)(tokens, counting(5)), values, TOKENS[:1])
    close(found[""].states[-1, 0], hidden[0])


def test_recording_without_attention_maps():
    found = record({})[0][""]
    config = tiny()
    model = make_model(config)
    states_only = record_activations(config, model, random_values(model), {}, TOKENS, maps=False)[""]
    assert states_only.probabilities == states_only.scores == {}
    np.testing.assert_array_equal(states_only.states, found.states)


def test_performer_and_global_query_activations():
    found = record({"model.attention.kind": "performer", "model.attention.features": 8})[0][""]
    assert found.probabilities == {}
    assert np.isfinite(found.states[:, 0]).all()
    found = record(
        ENCODER
        | {"model.attention.window": 3, "model.attention.global_tokens": 1, "model.attention.global_projections": True}
    )
    probabilities = found[0][""].probabilities["attention"][0]
    assert np.isnan(probabilities[:, :, 0]).all()
    assert np.isfinite(probabilities[0, :, 1:]).all()


def test_too_long_inputs_are_rejected():
    with pytest.raises(ConfigError, match="positions end at 8"):
        record({}, tokens=np.ones((1, 9), np.int32))
