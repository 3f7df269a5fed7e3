"""Inputs that influence an output of a whole model, measured by runs and by gradients.

The influence through one attention layer is measured for every mask and kernel in
tests/layers/test_visibility.py; here the rest of a model must add nothing to it: embeddings,
positions, norms, blocks, the stack and its patterns, and the other side of an encoder-decoder.
"""

import itertools
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import ENCODER_DECODER, by_default, random_values, tiny, with_values
from tests.support.visibility import (
    CONSECUTIVE,
    ON_ANY_DEVICE,
    SITUATIONS,
    WAYS,
    WITH_HOLES,
    Situation,
    T,
    check,
    either_way,
    of_model,
    through,
)
from zoo.config.kinds import PLACEMENT_KINDS, POSITION_KINDS
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.objectives.causal import positions_and_documents

POSITIONS = tuple(POSITION_KINDS.by_name)
DOCUMENT = 0
# Rows with three documents, with the end of one and a second, and with a part of one document.
PACKED = np.array([[0, 5, 0, 5, 5, 0, 5, 5, 5, 5, 5, 5], [5] * 9 + [0, 5, 5], [5] * T])


# One layer shows the effect of each part of a model; two layers, which compile more slowly, show
# that visibility composes.
ONE = {"model.num_layers": 1}


ROWS = ["causal documents with empty slots, window 3", "bidirectional, with holes, window 5"]


def repeated(situation, layers=2):
    """Returns the visibility through equal layers."""
    return through(*[situation.visible()] * layers)


@either_way
@pytest.mark.parametrize(
    ("name", "kind"),
    by_default(
        [*zip(ROWS * len(POSITIONS), POSITIONS)],
        [*itertools.product(ROWS, POSITIONS)],
        pytest.mark.promise(reason="the same schemes with another mask"),
    ),
)
def test_no_position_scheme_shows_more_than_the_mask(name, kind, way):
    check(of_model(SITUATIONS[name], way, ONE | {"model.position.kind": kind}), SITUATIONS[name])


@either_way
@pytest.mark.parametrize("fields", [
    {}, {"model.parallel": "own_norms", "model.attention.num_kv_heads": 2},
    {"model.norm.kind": "batchnorm", "model.attention.softcap": 5.0, "model.attention.sinks": True},
    *(pytest.param(fields, marks=pytest.mark.promise(reason="other blocks")) for fields in (
        *({"model.norm.placement": placement} for placement in PLACEMENT_KINDS.by_name if placement != "pre"),
        {"model.parallel": "shared_norm"}, {"model.residual": False, "model.attention.qk_norm": "full"},
        {"model.norm.kind": "none", "model.embedding.scale": "sqrt_dim"}, {"model.remat": "full"})),
], ids=str)  # fmt: skip
def test_no_block_shows_more_than_its_attention(fields, way):
    # Skips lead from the first half of the layers to the second.
    size = ONE if fields.get("model.norm.placement") != "unet" else {"model.num_layers": 2}
    check(of_model(SITUATIONS["causal documents"], way, size | fields), SITUATIONS["causal documents"])


@either_way
@pytest.mark.parametrize(("kernel", "scan"), [("rows", False), ("einsum", True)])
def test_documents_found_by_their_separators_are_isolated(kernel, scan, way):
    positions, documents = (np.array(x) for x in positions_and_documents(jnp.asarray(PACKED), True, DOCUMENT))
    expected = SITUATIONS["causal documents, window 3"]
    np.testing.assert_array_equal(positions, expected.positions)
    found = of_model(
        replace(expected, positions=positions, documents=documents),
        way,
        {"model.attention.implementation": kernel, "model.scan_layers": scan, "model.position.kind": "alibi"},
    )
    check(found, expected, repeated(expected))


@either_way
def test_documents_see_each_other_unless_isolated(way):
    positions, documents = positions_and_documents(jnp.asarray(PACKED), False, DOCUMENT)
    assert documents is None
    np.testing.assert_array_equal(positions, CONSECUTIVE)
    check(of_model(SITUATIONS["causal"], way, ONE), SITUATIONS["causal"], np.tri(T, dtype=bool)[None].repeat(2, axis=0))


@either_way
@pytest.mark.parametrize("name", ["bidirectional, with holes", "bidirectional documents"])
def test_encoder_tokens_see_both_sides(name, way):
    check(
        of_model(SITUATIONS[name], way, ONE | {"model.embedding.norm": True, "model.embedding.segments": 2}),
        SITUATIONS[name],
    )


@either_way
@pytest.mark.parametrize(("projections", "layers"), [(False, 1), (True, 2)])
def test_encoder_global_tokens_see_and_are_seen_by_all(projections, layers, way):
    situation = Situation(
        WITH_HOLES,
        causal=False,
        in_order=True,
        fields={"window": 3, "global_tokens": 1, "global_projections": projections},
    )
    seen = repeated(situation, layers)
    # Through a global token two layers see all filled slots.
    assert (seen[0, 8].sum() == T - 3) == (layers == 2)
    check(of_model(situation, way, {"model.num_layers": layers}), situation, seen)


@either_way
@pytest.mark.parametrize(
    "scan", by_default([True], [False, True], pytest.mark.promise(reason="the same stack, unrolled"))
)
def test_local_and_global_layers_compose(scan, way):
    pattern = {
        "model.layers.pattern": ("local", "wider"),
        "model.layers.kinds.local.attention.window": 2,
        "model.layers.kinds.wider.attention.window": 5,
        "model.num_layers": 3,
        "model.scan_layers": scan,
    }
    local, wider = (Situation(CONSECUTIVE, fields={"window": window}).visible() for window in (2, 5))
    check(of_model(SITUATIONS["causal"], way, pattern), SITUATIONS["causal"], through(local, wider, local))


# Encoder-decoders

SOURCE = np.array([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, -1, -1, -1]])
S, TARGETS = 7, 5


@either_way
@pytest.mark.parametrize(("fields", "windows"), [
    *(pytest.param({"model.attention.implementation": kernel}, (0, 0), marks=() if kernel == "rows" else pytest.mark.promise(reason="the same masks in another kernel")) for kernel in ON_ANY_DEVICE),
    ({"model.position.kind": "relative_bias"}, (3, 3)), ({"model.scan_layers": True, "model.decoder.num_layers": 2}, (5, 2)),
], ids=str)  # fmt: skip
def test_decoder_tokens_see_their_past_and_all_source_tokens(fields, windows, way):
    encoder_window, decoder_window = windows
    sides = {
        "model.encoder.attention.window": encoder_window,
        "model.decoder.attention.window": decoder_window,
        "model.num_layers": 1,
    }
    config = tiny(ENCODER_DECODER | {"model.vocab_size": 2 * (S + TARGETS), "model.dim": 8} | sides | fields)
    model = make_model(config)
    values = random_values(model, 1)
    # Every token of either side has its own embedding.
    source, targets = jnp.split(jnp.arange(2 * (S + TARGETS)).reshape(2, -1), [S], axis=1)
    source_context, context = (
        Context(jnp.asarray(SOURCE), causal=False, in_order=True),
        Context(jnp.arange(TARGETS)[None], in_order=True),
    )

    def outputs(embedding):
        held = with_values(model, values | {"embedding": embedding.reshape(-1, 8)})
        return jnp.concatenate(
            [held.encode(source, source_context).hidden, held(source, targets, source_context, context)], axis=1
        )

    found = WAYS[way](outputs, np.asarray(values["embedding"]).reshape(2, S + TARGETS, 8))
    own = reference.visible(np.arange(TARGETS), window=decoder_window).astype(int)
    own = np.linalg.matrix_power(own, config.model.get("decoder", {}).get("num_layers", 1)) > 0
    for b, positions in enumerate(SOURCE):
        of_encoder, of_decoder, filled = found[b, :S, b], found[b, S:, b], positions >= 0
        seen = reference.visible(positions, window=encoder_window, causal=False)
        np.testing.assert_array_equal(of_encoder[filled, :S], seen[filled])
        assert not of_encoder[:, S:].any()
        np.testing.assert_array_equal(of_decoder[:, :S], np.tile(filled, (TARGETS, 1)))
        np.testing.assert_array_equal(of_decoder[:, S:], own)
        assert not found[b, :, 1 - b].any()
