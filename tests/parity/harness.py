"""zoo's side of a comparison: weights determined by their names, rows of tokens, outputs and
gradients. Needs no torch.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from tests.parity.systems import System
from tests.support.building import compiled
from zoo.config import AUTO, ResolvedConfig
from zoo.interop import importer_of, resolve_like
from zoo.interop.model_weights import import_weights
from zoo.interop.weights.mapping import to_zoo
from zoo.layers.characters import NUM_CHARACTERS
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten

Arrays = dict[str, np.ndarray]
# Lower ids are special tokens in some classes.
FIRST_TOKEN = 4


def random_tensor(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns a random value for a tensor, determined by its name and shape. No tensor keeps its
    initial value, so that an omitted tensor is noticed.

    Matrices keep activations near 1, scales of norms are around 1, biases are not close to 0, and
    variances are positive.
    """
    drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if name.endswith("running_var"):
        drawn = 0.5 + drawn**2
    elif len(shape) < 2:
        drawn = 1 + 0.3 * drawn if name.endswith("weight") else 0.3 * drawn
    if name.endswith("e_score_correction_bias"):
        # The class of DeepSeek V3 masks experts with 0, which is below all scores only then.
        drawn = np.abs(drawn)
    if "act_fn.alpha" in name:
        # The class keeps the numbers of xIELU in bfloat16.
        drawn = np.round(16 * drawn) / 16
    elif len(shape) > 1 and "emb" not in name and "wte" not in name and "wpe" not in name:
        drawn = drawn * (shape[-1] * shape[-2]) ** -0.25
    return drawn.astype(np.float32)


def resolved(system: System, hf: Mapping[str, Any], **more: Any) -> ResolvedConfig:
    """The config of a system.

    Args:
        system: the system.
        hf: the reference's config as a dict.
        **more: fields below `model`, with "__" for ".".
    """
    fields = {"data.tokenizer.kind": "characters", "data.sequence_length": system.length, "data.batch_size": 2}
    changes = {"model." + path.replace("__", "."): value for path, value in more.items()}
    return resolve_like(system.imported_as, hf, fields | dict(system.overrides) | changes)


def make_batch(system: System, config: ResolvedConfig, padded: bool) -> Arrays:
    """Makes two rows of random tokens. With `padded` the second row has empty slots, at the start in a
    decoder and at the end in an encoder.

    Returns:
        tokens and positions [2, T], where -1 marks an empty slot; also segments for an encoder with
        segments, and source and source_positions [2, S] for an encoder-decoder. Tokens of an ELMo
        are character ids, [2, T, C].
    """
    generator = np.random.default_rng(zlib.crc32(system.name.encode()))
    model, length = config.model, system.length

    def row(length: int, in_front: bool) -> tuple[np.ndarray, np.ndarray]:
        positions = np.stack([np.arange(length)] * 2)
        empty = length // 3 if padded else 0
        positions[1] = np.r_[[-1] * empty, : length - empty] if in_front else np.r_[: length - empty, [-1] * empty]
        if model.architecture == "elmo":
            characters = generator.integers(1, NUM_CHARACTERS + 1, (2, length, model.elmo.characters))
            return np.where(positions[..., None] < 0, 0, characters), positions
        return np.where(positions < 0, 0, generator.integers(FIRST_TOKEN, model.vocab_size, (2, length))), positions

    both = model.architecture == "encoder_decoder"
    batch = dict(
        zip(
            ("tokens", "positions"),
            row(length * 2 // 3 if both else length, model.architecture == "decoder"),
            strict=True,
        )
    )
    if both:
        batch |= dict(zip(("source", "source_positions"), row(length, False), strict=True))
    if model.embedding.segments:
        batch["segments"] = generator.integers(0, model.embedding.segments, batch["tokens"].shape)
    return batch


def cotangents(outputs: Mapping[str, np.ndarray], batch: Arrays) -> Arrays:
    """Returns the weights of a random linear functional of the outputs; empty slots have weight 0."""
    weights = {}
    for name, output in outputs.items():
        drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(output.shape)
        if output.ndim == 3:
            drawn = drawn * (batch["positions"] >= 0)[..., None]
        weights[name] = drawn.astype(np.float32)
    return weights


def _outputs(
    module: nnx.Module, config: ResolvedConfig, batch: Mapping[str, Any], full: bool, training: bool
) -> dict[str, Any]:
    model = config.model
    if model.architecture == "elmo":
        states = module(batch["tokens"], batch["positions"] >= 0)
        return {name: module.logits(state) for name, state in zip(("forward", "backward"), states, strict=True)}
    context = Context(batch["positions"], causal=model.architecture != "encoder", in_order=full, training=training)
    if model.architecture == "encoder_decoder":
        source = Context(batch["source_positions"], causal=False, in_order=full)
        hidden = module(batch["source"], batch["tokens"], source, context)
    elif "segments" in batch:
        hidden = module(batch["tokens"], context, batch["segments"])
    else:
        hidden = module(batch["tokens"], context)
    if model.generator.num_layers != AUTO:
        return {"logits": module.replaced_logits(hidden)[..., None]}
    outputs = {"logits": module.logits(hidden, context)}
    if model.architecture == "encoder" and model.head.next_sentence:
        outputs["next_sentence"] = module.next_sentence_logits(hidden)
    return outputs


def run_ours(
    system: System,
    hf: Mapping[str, Any],
    tensors: Mapping[str, np.ndarray],
    batch: Arrays,
    weights: Arrays,
    kernel: str,
    scan: bool,
    with_gradients: bool = True,
) -> tuple[Arrays, Arrays]:
    """Computes outputs and gradients of zoo's model.

    Args:
        system: the system.
        hf: the reference's config as a dict.
        tensors: the reference's weights by name.
        batch: from `make_batch`.
        weights: from `cotangents`.
        kernel: the attention kernel.
        scan: whether the layers are scanned.
        with_gradients: whether gradients are computed.

    Returns:
        (outputs by name, gradients of the weighted sum of the outputs by zoo's paths, if any).
    """
    plain = resolved(system, hf).model
    fields = {} if plain.architecture == "elmo" else {"scan_layers": scan}
    if fields and plain.attention.kind == "softmax":
        fields["attention__implementation"] = kernel
    config = resolved(system, hf, **fields)
    graph = split(make_model(config))[0]
    values, stats = (jax.tree.map(jnp.asarray, tree) for tree in import_weights(system.imported_as, config, tensors))
    full = all((positions >= 0).all() for name, positions in batch.items() if "positions" in name)

    def functional(values, stats, batch, weights):
        outputs = _outputs(nnx.merge(graph, values, stats), config, batch, full, system.training)
        return sum((outputs[name] * weights[name]).sum() for name in weights), outputs

    arrays = {name: jnp.asarray(array, jnp.int32) for name, array in batch.items()}
    if not with_gradients:
        return compiled(functional)(values, stats, arrays, weights)[1], {}
    (_, outputs), gradients = compiled(jax.value_and_grad(functional, has_aux=True))(values, stats, arrays, weights)
    return outputs, flatten(gradients, "/")


def imported_gradients(system: System, hf: Mapping[str, Any], gradients: Mapping[str, np.ndarray]) -> Arrays:
    """Returns the reference's gradients by zoo's paths. The import rules only rearrange numbers, so
    they apply to gradients too.
    """
    config = resolved(system, hf)
    return flatten(
        to_zoo(importer_of(system.imported_as).rules(config.model), gradients, split(make_model(config))[1]), "/"
    )


def output_difference(ours: Arrays, theirs: Arrays, batch: Arrays) -> float:
    """Returns the largest difference of the outputs over filled slots, relative to the largest
    magnitude.
    """
    assert set(ours) == set(theirs)
    filled = batch["positions"] >= 0
    worst = 0.0
    for name in theirs:
        assert ours[name].shape == theirs[name].shape, name
        one, other = (x[name][filled] if x[name].ndim == 3 else x[name] for x in (ours, theirs))
        worst = max(worst, relative_difference(one, other))
    return worst


def gradient_differences(ours: Arrays, theirs: Arrays) -> dict[str, float]:
    """Returns the largest difference of every gradient, relative to its largest magnitude.

    The denominator is at least a hundredth of the largest of all gradients, because some gradients
    are 0 up to rounding, e.g. that of a bias that is added to all keys.
    """
    assert set(ours) == set(theirs)
    floor = 1e-2 * max(np.abs(gradient).max() for gradient in theirs.values())
    return {path: relative_difference(ours[path], theirs[path], floor) for path in theirs}


def relative_difference(one: np.ndarray, other: np.ndarray, floor: float = 0.0) -> float:
    """Returns the largest difference of two arrays, relative to the largest magnitude of the second or
    to `floor`, whichever is larger.
    """
    one, other = one.astype(np.float64), other.astype(np.float64)
    difference = np.abs(one - other).max() / max(np.abs(other).max(), floor, 1e-30)
    return float("inf") if np.isnan(difference) else float(difference)
