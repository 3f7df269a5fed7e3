"""Activations of a model that reads a few sentences: states, scores and probabilities.

The activations of all layers are held together, which takes memory of order L B H T^2: this is for
figures and small texts, not for training.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets
from zoo.errors import ConfigError, DataError
from zoo.layers.context import Context
from zoo.models.functional import Params, Stats, split
from zoo.models.language_model import embed
from zoo.objectives.objective import beyond_position_table

Maps = tuple[Float[np.ndarray, "B H T S"] | None, ...]


class EncodedTexts(NamedTuple):
    """Texts as token ids, one text per row.

    Attributes:
        tokens: int32 [B, T]; padding, at the end of a row, is -1.
        offsets: the tokens of each text alone, with their positions in the text.
        first: number of special tokens before the text's own in every row.
    """

    tokens: Int[np.ndarray, "B T"]
    offsets: tuple[TokenOffsets, ...]
    first: int


@dataclass(frozen=True)
class StackActivations:
    """The activations of one stack of layers, in float32.

    Attributes:
        states: [L + 1, B, T, D], the input of the first layer, then the output of each layer; a
            final norm is not applied.
        scores: for "attention" and "cross_attention", the scores of each layer [B, H, T, S], for
            all keys, masked or not, and before any soft cap; None for a layer that computes no
            scores (Performer).
        probabilities: likewise, the weights of the values.
        experts: of each layer whose tokens choose experts, the weights of all experts [B, T, E], 0
            for those that a token does not take; None for other layers.
    """

    states: Float[np.ndarray, "layers B T D"]
    scores: dict[str, Maps]
    probabilities: dict[str, Maps]
    experts: tuple[Float[np.ndarray, "B T E"] | None, ...] = ()


def encode_texts(texts: Sequence[str], tokenizer: Tokenizer, frame: TextFrame) -> EncodedTexts:
    """Encodes each text as a row: the text, with special tokens around it.

    Args:
        texts: at least one.
        tokenizer: that of the model which reads the rows.
        frame: the special tokens (`TrainedRun.frame`).

    Raises:
        DataError: the tokenizer cannot encode a text, or makes no tokens from it.
    """
    offsets = tuple(tokenizer.encode_with_offsets(texts))
    if empty := [text for text, found in zip(texts, offsets, strict=True) if not len(found.ids)]:
        raise DataError(f"the tokenizer makes no tokens from {empty[0]!r}")
    rows = [[*frame.before, *found.ids.tolist(), *frame.after] for found in offsets]
    tokens = np.full((len(rows), max(map(len, rows))), -1, np.int32)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    return EncodedTexts(tokens, offsets, len(frame.before))


def record_activations(
    config: ResolvedConfig,
    model: nnx.Module,
    params: Params,
    stats: Stats,
    tokens: Int[np.ndarray, "B T"],
    targets: Int[np.ndarray, "B T"] | None = None,
    maps: bool = True,
) -> dict[str, StackActivations]:
    """Runs the model as in evaluation and returns the activations of each stack.

    Args:
        config: resolved.
        model, params, stats: the abstract model and its values.
        tokens: input of the model, or of the encoder of an encoder-decoder; padding is -1.
        targets: input of the decoder of an encoder-decoder.
        maps: record scores and probabilities too; otherwise only the states.

    Returns:
        {"": activations}, or {"encoder": ..., "decoder": ...}.

    Raises:
        ConfigError: the model has no such layers (ELMo; use `elmo_layer_states`), or the rows are
            longer than its table of positions.
    """
    if config.model.architecture == "elmo":
        raise ConfigError("model.architecture=elmo has no attention and no residual stream")
    both = config.model.architecture == "encoder_decoder"
    inputs = {"encoder": tokens, "decoder": targets} if both else {"": tokens}
    for side, rows in inputs.items():
        owner = getattr(model, side) if side else model
        if problem := beyond_position_table(config.model, owner, rows.shape[1]):
            raise ConfigError(f"a text of {rows.shape[1]} tokens is too long: {problem}")
    # A prefix decoder sees the whole text as its prefix.
    prefix = tokens.shape[1] if config.objective.kind in OBJECTIVE_KINDS.having("prefix") and not both else 0
    found = _apply(_Recorder(config.model.architecture, prefix, maps), model, params, stats, inputs)
    return {side: StackActivations(*found[side]) for side in inputs}


@dataclass(frozen=True)
class _Recorder:
    """Runs the model on the rows of each side and returns what its stacks recorded."""

    architecture: str
    prefix: int
    maps: bool

    def __call__(self, model: nnx.Module, rows: dict[str, Array]) -> dict[str, Any]:
        record: dict[str, Any] = {}

        def context(rows: Array, **more: Any) -> Context:
            positions = jnp.where(rows >= 0, jnp.arange(rows.shape[1]), -1)
            return Context(positions, in_order=True, record=record, record_arrays=True, **more)

        ids = {side: jnp.maximum(each, 0) for side, each in rows.items()}
        if self.architecture == "encoder_decoder":
            model(ids["encoder"], ids["decoder"], context(rows["encoder"]), context(rows["decoder"]))
        else:
            model(ids[""], context(rows[""], causal=self.architecture == "decoder", prefix=self.prefix))
        return {side: _stack_record(record[side] if side else record, self.maps) for side in rows}


def _stack_record(record: dict[str, Any], with_maps: bool) -> tuple[Array, dict[str, tuple], dict[str, tuple], tuple]:
    """Returns the record of one stack as the fields of `StackActivations`."""
    layers = [record[f"layer {number}"] for number in range(sum(name.startswith("layer ") for name in record))]
    states = jnp.stack([record["states"], *(layer["states"] for layer in layers)])

    def maps(kind: str) -> dict[str, tuple]:
        found = {
            part: tuple(layer[f"{part} maps"][kind] if f"{part} maps" in layer else None for layer in layers)
            for part in ("attention", "cross_attention")
            if with_maps
        }
        return {part: each for part, each in found.items() if any(one is not None for one in each)}

    return states, maps("scores"), maps("probabilities"), tuple(layer.get("expert gates") for layer in layers)


def elmo_layer_states(
    model: nnx.Module, params: Params, stats: Stats, characters: Int[np.ndarray, "B T C"], filled: np.ndarray
) -> Float[np.ndarray, "layers B T E"]:
    """Returns the layers of an ELMo, token vectors first, with both directions concatenated.

    Every row starts from zero LSTM states; see `ELMo.representations`.
    """
    return _apply(_representations, model, params, stats, (characters, filled))


def _representations(model: nnx.Module, rows: tuple[Array, Array]) -> Array:
    return model.representations(*rows)


def input_vectors(
    config: ResolvedConfig,
    model: nnx.Module,
    params: Params,
    stats: Stats,
    ids: Int[np.ndarray, " N"],
    spellings: np.ndarray | None = None,
) -> Float[np.ndarray, "N E"]:
    """Returns the input vector of each token id without any context.

    This is its embedding (that of the encoder in an encoder-decoder), or for an ELMo [x; x] with x
    computed from its characters.

    Args:
        config, model, params, stats: as for `record_activations`.
        ids: the token ids.
        spellings: [V, C], the characters of every id, for an ELMo.
    """
    if config.model.architecture == "elmo":
        return _apply(_character_vectors, model, params, stats, spellings[ids])
    return _apply(_Lookup(config), model, params, stats, ids)


def _character_vectors(model: nnx.Module, characters: Array) -> Array:
    x = model.characters(characters[None])[0]
    return jnp.concatenate([x, x], axis=-1)


@dataclass(frozen=True)
class _Lookup:
    config: ResolvedConfig

    def __call__(self, model: nnx.Module, ids: Array) -> Array:
        source = getattr(model, "source_embedding", None)
        return embed((model.embedding if source is None else source)[...], ids, self.config.model)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(function: Callable, graph: nnx.GraphDef, params: Params, stats: Stats, *arguments: Any) -> Any:
    return function(nnx.merge(graph, params, stats), *arguments)


def _apply(function: Callable, model: nnx.Module, params: Params, stats: Stats, *arguments: Any) -> Any:
    """Returns `function(copy of the model, *arguments)` in float32 on the host.

    Compiled once for equal functions and shapes of the arguments.
    """
    found = _compiled(function, split(model)[0], params, stats, *arguments)
    return jax.tree.map(lambda leaf: np.asarray(leaf.astype(jnp.float32)), found)
