"""The BERT family beyond logits on right-padded rows: every layer, the pooler, left padding,
Longformer's blocks.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from transformers.activations import ACT2FN

from tests.parity.harness import gradient_differences, imported_gradients, make_batch, output_difference, resolved
from tests.parity.references import build, run_theirs
from tests.parity.systems.encoders import ENCODERS
from tests.support.building import call, close, tiny
from zoo.interop import importer_of
from zoo.interop.model_weights import export_weights, import_weights
from zoo.interop.settings.importer import ACTIVATIONS
from zoo.interop.weights.mapping import TiedTensor
from zoo.layers.attention.kernels.banded import block_length
from zoo.layers.context import Context
from zoo.layers.feedforward import activation
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten

pytestmark = pytest.mark.parity
SYSTEMS = {system.name: system for system in ENCODERS}
TOLERANCE = 1e-5


def ours(system, reference, batch, function, **fields):
    """Runs function(zoo's model with the reference's weights, batch), compiled."""
    config = resolved(system, reference.hf, **fields)
    graph = split(make_model(config))[0]
    values = import_weights(system.reference, config, reference.tensors())[0]
    return call(lambda values, batch: function(nnx.merge(graph, values, {}), batch), values, batch)


def hidden_of(model, batch):
    return model(batch["tokens"], Context(batch["positions"], causal=False), batch.get("segments"))


def test_bert_hidden_states_pooler_and_next_sentence():
    system = SYSTEMS["bert"]
    reference = build(system)
    batch = make_batch(system, resolved(system, reference.hf), padded=True)
    filled = batch["positions"] >= 0
    with torch.no_grad():
        inputs = {"input_ids": torch.tensor(batch["tokens"]), "attention_mask": torch.tensor(filled).long(),
                  "token_type_ids": torch.tensor(batch["segments"])}  # fmt: skip
        out = reference.module(**inputs, output_hidden_states=True)
        pooled = reference.module.bert(**inputs).pooler_output
    tensors = reference.tensors()
    for depth in (1, 2):
        # A model of only the first layers outputs the hidden state after them.
        shallow = replace(system, settings=system.settings | {"num_hidden_layers": depth})
        config = resolved(shallow, reference.hf | {"num_hidden_layers": depth})
        shallow_tensors = {
            name: tensor for name, tensor in tensors.items() if ".layer." not in name or int(name.split(".")[3]) < depth
        }
        graph, values = split(make_model(config))[0], import_weights(system.reference, config, shallow_tensors)[0]
        hidden = call(lambda values, graph=graph: hidden_of(nnx.merge(graph, values, {}), batch), values)
        close(hidden[filled], out.hidden_states[depth].numpy()[filled], TOLERANCE)

    def heads(model, batch):
        hidden = hidden_of(model, batch)
        return model.pooled(hidden), model.next_sentence_logits(hidden)

    ours_pooled, ours_next = ours(system, reference, batch, heads)
    close(ours_pooled, pooled.numpy(), TOLERANCE)
    close(ours_next, out.seq_relationship_logits.numpy(), TOLERANCE)


def test_missing_segments_default_to_the_first():
    system = SYSTEMS["bert-untied"]
    reference = build(system)
    batch = make_batch(system, resolved(system, reference.hf), padded=False)
    del batch["segments"]
    with torch.no_grad():
        expected = reference.module(input_ids=torch.tensor(batch["tokens"])).logits.numpy()
    close(
        ours(system, reference, batch, lambda model, batch: model.logits(hidden_of(model, batch))), expected, TOLERANCE
    )


# `padding` is the padding token; `infers_positions` tells whether the class counts positions from the
# first filled slot by itself.
@pytest.mark.parametrize(("name", "padding", "infers_positions"), [
    ("bert-masked", 0, False), ("distilbert", 0, False), ("shaw-keys", 0, True), ("roformer", 0, True), ("roberta", 1, True),
    ("roberta", 3, True), ("longformer", 1, True), ("longformer-windows", 1, True),
])  # fmt: skip
def test_left_padding(name, padding, infers_positions):
    system = SYSTEMS[name]
    system = replace(system, settings=system.settings | {"pad_token_id": padding})
    reference = build(system)
    config = resolved(system, reference.hf)
    batch = make_batch(system, config, padded=True)
    empty = (batch["positions"] < 0).sum(axis=1)[1]
    batch = {key: np.stack([array[0], np.roll(array[1], empty)]) for key, array in batch.items()}
    filled = batch["positions"] >= 0
    batch["tokens"] = np.where(filled, batch["tokens"], padding)
    inputs = {"input_ids": torch.tensor(batch["tokens"]), "attention_mask": torch.tensor(filled).long()}
    if "segments" in batch:
        inputs["token_type_ids"] = torch.tensor(batch["segments"])
    if count := config.model.attention.global_tokens:
        inputs["global_attention_mask"] = torch.tensor(filled & (batch["positions"] < count)).long()
    logits = ours(system, reference, batch, lambda model, batch: model.logits(hidden_of(model, batch)))
    with torch.no_grad():
        theirs = reference.module(**inputs).logits.numpy()
        close(logits[0], theirs[0], TOLERANCE)
        difference = np.abs(logits - theirs)[filled].max() / np.abs(theirs).max()
        assert difference < TOLERANCE if infers_positions else difference > 0.01
        if name == "bert-masked":
            with_positions = reference.module(
                **inputs, position_ids=torch.tensor(batch["positions"]).clamp(min=0)
            ).logits.numpy()
            close(logits[filled], with_positions[filled], TOLERANCE)


# Windows are below and above the smallest block; rows are divisible neither by the window (the class
# pads them) nor by the block.
@pytest.mark.parametrize(("window", "length", "kernel"), [
    (12, 265, "einsum"), (140, 290, "rows"),
    pytest.param(12, 265, "xla", marks=pytest.mark.slow(reason="kernels are compared with each other without a library")),
])  # fmt: skip
def test_longformer_blocks(window, length, kernel):
    system = SYSTEMS["longformer-blocks"]
    system = replace(
        system, length=length, settings=system.settings | {"attention_window": window, "max_position_embeddings": 300}
    )
    reference = build(system)
    config = resolved(system, reference.hf)
    batch = make_batch(system, config, padded=True)
    theirs, weights, their_gradients = run_theirs(reference, batch, config)
    assert config.model.attention.window == window + 1
    assert 0 < block_length(length, config.model.attention.window, causal=False) < length
    config = resolved(system, reference.hf, attention__implementation=kernel)
    graph = split(make_model(config))[0]
    values = import_weights(system.reference, config, reference.tensors())[0]

    def functional(values, batch):
        context = Context(batch["positions"], causal=False, in_order=True)
        model = nnx.merge(graph, values, {})
        logits = model.logits(model(batch["tokens"], context, batch["segments"]))
        return (logits * weights["logits"]).sum(), logits

    (_, logits), gradients = call(
        jax.value_and_grad(functional, has_aux=True), jax.tree.map(jnp.asarray, values), batch
    )
    assert output_difference({"logits": logits}, theirs, batch) < TOLERANCE
    differences = gradient_differences(
        flatten(gradients, "/"), imported_gradients(system, reference.hf, their_gradients)
    )
    assert max(differences.values()) < 10 * TOLERANCE


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_match_transformers(name):
    x = np.linspace(-6, 6, 241, dtype=np.float32)
    config = tiny(ACTIVATIONS[name]).model
    close(call(lambda x: activation(config, x), x), ACT2FN[name](torch.tensor(x)).numpy(), 1e-6)


@pytest.mark.parametrize("system", ENCODERS, ids=lambda system: system.name)
def test_reference_class_loads_exported_weights(system):
    reference = build(system)
    config = resolved(system, reference.hf)
    batch = make_batch(system, config, padded=True)
    written = export_weights(system.reference, config, *import_weights(system.reference, config, reference.tensors()))
    written = {name: torch.tensor(tensor) for name, tensor in written.items()}
    with torch.no_grad():
        expected = reference.outputs(batch, config)["logits"]
        for parameter in reference.module.parameters():
            parameter.mul_(2 if parameter.requires_grad else 1)
        missing, unexpected = reference.module.load_state_dict(written, strict=False)
        reference.module.tie_weights()
        assert torch.equal(reference.outputs(batch, config)["logits"], expected)
    assert unexpected == []
    # Missing tensors are tied to exported ones, constant, or unused.
    tied_names = {
        rule.name for rule in importer_of(system.reference).rules(config.model) if isinstance(rule, TiedTensor)
    }
    unused = {"shaw-keys": ("position_embeddings",), "distilbert-sinusoidal": ("position_embeddings",), "roformer": ("embed_positions",),
              "longformer-local": ("_global",)}.get(system.name, ())  # fmt: skip
    assert [name for name in missing if name not in tied_names and not any(part in name for part in unused)] == []
