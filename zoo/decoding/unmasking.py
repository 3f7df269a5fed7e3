"""Generation by masked diffusion: new tokens begin as [MASK] and are filled in one by one."""

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Key

from zoo.decoding.generator import Generated, Prompts, padded_length
from zoo.decoding.sampling import Sampling, argmax_token, sample_tokens
from zoo.errors import ConfigError
from zoo.layers.context import Context
from zoo.models.functional import Params, Stats, split


class UnmaskingGenerator:
    """Draws x_t from p(x_t | prompt and the new tokens so far) at the places t of the new tokens, in a
    random order.

    This is a draw from the model whose mean loss over all orders is the training loss of
    `zoo.objectives.masked` (Ou et al. 2024, arXiv:2406.03736). N new tokens take N passes
    over the whole text, and nothing can be cached, since each new token changes all hidden states.
    The text always has N new tokens: training predicts no token that ends a document.

    Args:
        model: abstract, an encoder.
        params, stats: its values.
        mask_id: id of [MASK].
        allowed: [V], the ids that may be drawn.
        suffix: ids after the new tokens, as at the end of a training row.

    Attributes:
        has_encoder: whether prompts and new tokens are read by different parts of the model: never.
        max_positions: length of the table of positions; None without one.
    """

    has_encoder = False

    def __init__(
        self,
        model: nnx.Module,
        params: Params,
        stats: Stats,
        mask_id: int,
        allowed: Bool[np.ndarray, " V"],
        suffix: Sequence[int] = (),
    ):
        self.graph, self.values = split(model)[0], (params, stats)
        self.mask_id, self.allowed, self.suffix = mask_id, jnp.asarray(allowed), list(suffix)
        self.max_positions = model.position.max_length

    def positions_read(self, prompt_tokens: int, max_new_tokens: int) -> int:
        """Returns how many positions a prompt and new tokens take; all of them are read."""
        return prompt_tokens + max_new_tokens + len(self.suffix)

    def generate(
        self,
        prompts: Prompts,
        max_new_tokens: int,
        sampling: Sampling,
        key: Key[Array, ""],
        stop: Int[np.ndarray, "V Q"] | None = None,
        sources: Prompts | None = None,
        vocab_size: int | None = None,
        cache: bool = True,
    ) -> Generated:
        """Continues prompts by `max_new_tokens` tokens each.

        Args:
            prompts: token ids, of any lengths.
            max_new_tokens: number of new tokens.
            sampling: how tokens are chosen.
            key: for the order of the places and for the tokens; those of row b depend on it and on b.
            stop, sources, vocab_size: arguments of `Generator.generate`, not used: a text is cut
                after it is complete, and `allowed` says which ids are drawn.
            cache: must be left at True.

        Raises:
            ConfigError: an impossible request.
        """
        del stop, sources, vocab_size
        sampling = sampling.checked()
        if not cache:
            raise ConfigError("--no-cache has no effect: masked diffusion reads the whole text for every new token")
        if max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens={max_new_tokens} must be at least 1")
        rows = [[*prompt, *[self.mask_id] * max_new_tokens, *self.suffix] for prompt in prompts]
        longest = max(map(len, rows))
        if self.max_positions is not None and longest > self.max_positions:
            raise ConfigError(
                f"learned positions end at {self.max_positions}: prompt and new tokens are {longest} tokens; generate "
                "fewer"
            )
        tokens = np.full((len(rows), padded_length(longest, self.max_positions)), -1, np.int32)
        for row, ids in zip(tokens, rows, strict=True):
            row[: len(ids)] = ids
        starts = np.array([len(prompt) for prompt in prompts], np.int32)
        new = (starts[:, None] <= np.arange(tokens.shape[1])) & (tokens == self.mask_id)
        chosen = None if sampling.temperature == 0 else sampling
        filled = jax.device_get(_fill(self.graph, self.values, tokens, new, self.allowed, chosen, key))
        made = [row[start : start + max_new_tokens] for row, start in zip(filled, starts, strict=True)]
        return Generated(np.stack(made), np.full(len(rows), max_new_tokens, np.int32))

    def beam_search(self, **request: object) -> Generated:
        """Raises ConfigError: the text has no order in which hypotheses could grow."""
        del request
        raise ConfigError("--beams: masked diffusion fills in its tokens in random order; leave it out to sample")


@partial(jax.jit, static_argnames="graph")
def _fill(
    graph: nnx.GraphDef,
    values: tuple[Params, Stats],
    tokens: Int[Array, "B T"],
    new: Bool[Array, "B T"],
    allowed: Bool[Array, " V"],
    sampling: Sampling | None,
    key: Key[Array, ""],
) -> Int[Array, "B T"]:
    """Returns the rows with the `new` tokens filled in, as many in each row; without `sampling` the
    most probable ones.
    """
    model = nnx.merge(graph, *values)
    rows, length = tokens.shape
    index = jnp.arange(length)
    positions = jnp.where(tokens >= 0, index, -1)
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(rows))
    draws = jax.vmap(lambda key: jax.random.uniform(jax.random.fold_in(key, 0), (length,)))(keys)
    order = jnp.argsort(jnp.where(new, draws, 2.0), axis=1)

    def scores(tokens: Int[Array, "B T"], places: Int[Array, " B"]) -> Float[Array, "B V"]:
        hidden = model(jnp.maximum(tokens, 0), Context(positions, causal=False))
        chosen = jnp.take_along_axis(hidden, places[:, None, None], axis=1)
        # A norm in the head that counts tokens sees the chosen ones alone.
        found = model.logits(chosen, Context(places[:, None], causal=False))[:, 0]
        return jnp.where(allowed, found[:, : len(allowed)], -jnp.inf)

    def step(number: Int[Array, ""], tokens: Int[Array, "B T"]) -> Int[Array, "B T"]:
        places = order[:, number]
        logits = scores(tokens, places)
        row_keys = jax.vmap(lambda key: jax.random.fold_in(key, 1 + number))(keys)
        drawn = argmax_token(logits) if sampling is None else sample_tokens(logits, row_keys, sampling)
        return tokens.at[jnp.arange(rows), places].set(drawn)

    return jax.lax.fori_loop(0, new[0].sum(), step, tokens)
