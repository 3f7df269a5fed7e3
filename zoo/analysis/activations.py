"""What a model holds while it reads a few sentences: the states between its layers, attention
scores and probabilities.

Everything of a batch at once, in memory that grows with L B H T^2: for pictures and for small
texts, not for training.
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
from zoo.data.tokenizers.base import Located, Tokenizer
from zoo.errors import ConfigError, DataError
from zoo.layers.context import Context
from zoo.models.functional import Params, Stats, split
from zoo.models.language_model import embed
from zoo.objectives.objective import past_the_table

Maps = tuple[Float[np.ndarray, "B H T S"] | None, ...]


class Rows(NamedTuple):
    """Texts as a model reads them.

    Attributes:
        tokens: int32 [B, T]; -1 for empty slots, at the end.
        located: the tokens of each text alone, and where in it they stand.
        first: number of tokens before the text's own in every row.
    """

    tokens: Int[np.ndarray, "B T"]
    located: tuple[Located, ...]
    first: int


@dataclass(frozen=True)
class Inside:
    """What one stack of layers held, in float32.

    Attributes:
        states: [L + 1, B, T, D]: what the first layer reads, then each layer's output; what stands
            before a norm at the end.
        scores: by "attention" and "cross_attention", for each layer [B, H, T, S], of all keys,
            visible or not, and before anything caps them; None of a layer that computes none
            (Performers).
        probabilities: likewise, what the values are multiplied with.
    """

    states: Float[np.ndarray, "layers B T D"]
    scores: dict[str, Maps]
    probabilities: dict[str, Maps]


def rows_of(texts: Sequence[str], tokenizer: Tokenizer, opens: bool = True, closes: bool = True) -> Rows:
    """Each text as a row: the token that opens a document, the text, and where the tokenizer has
    one what ends a sentence.

    Args:
        texts: at least one.
        tokenizer: of the model that reads them.
        opens, closes: whether those tokens stand there.

    Raises:
        DataError: the tokenizer cannot encode a text, or makes no token of it.
    """
    located = tuple(tokenizer.located(texts))
    if empty := [text for text, found in zip(texts, located, strict=True) if not len(found.ids)]:
        raise DataError(f"the tokenizer makes no token of {empty[0]!r}")
    before = [tokenizer.document_id] if opens else []
    after = [tokenizer.separator_id] if closes and tokenizer.separator_id < tokenizer.vocab_size else []
    rows = [[*before, *found.ids.tolist(), *after] for found in located]
    tokens = np.full((len(rows), max(map(len, rows))), -1, np.int32)
    for row, ids in zip(tokens, rows, strict=True):
        row[: len(ids)] = ids
    return Rows(tokens, located, len(before))


def look_inside(
    config: ResolvedConfig,
    model: nnx.Module,
    params: Params,
    stats: Stats,
    tokens: Int[np.ndarray, "B T"],
    targets: Int[np.ndarray, "B T"] | None = None,
    maps: bool = True,
) -> dict[str, Inside]:
    """Reads rows as in evaluation, and returns what each stack held: {"": ...}, or {"encoder": ...,
    "decoder": ...}.

    Args:
        config: resolved.
        model, params, stats: the model, abstract, and its values.
        tokens: what the model reads, or the encoder of two sides; -1 for empty slots.
        targets: what the decoder of two sides reads.
        maps: scores and probabilities too; else the states alone.

    Raises:
        ConfigError: a model without such layers (ELMo; `elmo_states` reads it), or rows past its
            table of positions.
    """
    if config.model.architecture == "elmo":
        raise ConfigError("model.architecture=elmo has no attention and no residual stream")
    both = config.model.architecture == "encoder_decoder"
    read = {"encoder": tokens, "decoder": targets} if both else {"": tokens}
    for side, rows in read.items():
        owner = getattr(model, side) if side else model
        if problem := past_the_table(config.model, owner, rows.shape[1]):
            raise ConfigError(f"a text of {rows.shape[1]} tokens is too long: {problem}")
    # A decoder that was trained to go on from a prefix reads a whole text as one.
    prefix = tokens.shape[1] if config.objective.kind == "prefix" and not both else 0
    found = _called(_Reading(config.model.architecture, prefix, maps), model, params, stats, read)
    return {side: Inside(*found[side]) for side in read}


@dataclass(frozen=True)
class _Reading:
    """A model reads rows by side, for what its stacks held."""

    architecture: str
    prefix: int
    maps: bool

    def __call__(self, model: nnx.Module, rows: dict[str, Array]) -> dict[str, Any]:
        record: dict[str, Any] = {}

        def context(rows: Array, **more: Any) -> Context:
            positions = jnp.where(rows >= 0, jnp.arange(rows.shape[1]), -1)
            return Context(positions, in_order=True, record=record, whole=True, **more)

        ids = {side: jnp.maximum(each, 0) for side, each in rows.items()}
        if self.architecture == "encoder_decoder":
            model(ids["encoder"], ids["decoder"], context(rows["encoder"]), context(rows["decoder"]))
        else:
            model(ids[""], context(rows[""], causal=self.architecture == "decoder", prefix=self.prefix))
        return {side: _of_stack(record[side] if side else record, self.maps) for side in rows}


def _of_stack(record: dict[str, Any], with_maps: bool) -> tuple[Array, dict[str, tuple], dict[str, tuple]]:
    """What a stack recorded, as `Inside` has it."""
    layers = [record[f"layer {number}"] for number in range(sum(name.startswith("layer ") for name in record))]
    states = jnp.stack([record["states"], *(layer["states"] for layer in layers)])

    def maps(kind: str) -> dict[str, tuple]:
        found = {
            part: tuple(layer[f"{part} maps"][kind] if f"{part} maps" in layer else None for layer in layers)
            for part in ("attention", "cross_attention")
            if with_maps
        }
        return {part: each for part, each in found.items() if any(one is not None for one in each)}

    return states, maps("scores"), maps("probabilities")


def elmo_states(
    model: nnx.Module, params: Params, stats: Stats, characters: Int[np.ndarray, "B T C"], filled: np.ndarray
) -> Float[np.ndarray, "layers B T E"]:
    """The layers of an ELMo, token vectors first, both directions side by side
    (`ELMo.representations`), each row from zero states.
    """
    return _called(_representations, model, params, stats, (characters, filled))


def _representations(model: nnx.Module, rows: tuple[Array, Array]) -> Array:
    return model.representations(*rows)


def table_vectors(
    config: ResolvedConfig,
    model: nnx.Module,
    params: Params,
    stats: Stats,
    ids: Int[np.ndarray, " N"],
    spelt: np.ndarray | None = None,
) -> Float[np.ndarray, "N E"]:
    """What the input table says of each id, alone: its embedding, or of an ELMo [x; x] from its
    characters.

    Args:
        config, model, params, stats: as for `look_inside`; of two sides it is the encoder's table.
        ids: which.
        spelt: [V, C], the characters of all ids, for an ELMo.
    """
    if config.model.architecture == "elmo":
        return _called(_spelt, model, params, stats, spelt[ids])
    return _called(_LookUp(config), model, params, stats, ids)


def _spelt(model: nnx.Module, characters: Array) -> Array:
    x = model.characters(characters[None])[0]
    return jnp.concatenate([x, x], axis=-1)


@dataclass(frozen=True)
class _LookUp:
    config: ResolvedConfig

    def __call__(self, model: nnx.Module, ids: Array) -> Array:
        source = getattr(model, "source_embedding", None)
        return embed((model.embedding if source is None else source)[...], ids, self.config.model)


@partial(jax.jit, static_argnums=(0, 1))
def _compiled(use: Callable, graph: nnx.GraphDef, params: Params, stats: Stats, *arguments: Any) -> Any:
    return use(nnx.merge(graph, params, stats), *arguments)


def _called(use: Callable, model: nnx.Module, params: Params, stats: Stats, *arguments: Any) -> Any:
    """`use(copy of the model, *arguments)`, in float32 on the host; compiled once for each `use`
    that is equal and shape of arguments.
    """
    found = _compiled(use, split(model)[0], params, stats, *arguments)
    return jax.tree.map(lambda leaf: np.asarray(leaf.astype(jnp.float32)), found)
