"""Decoding token by token with a cache against one pass over all tokens."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float

from zoo.checks.outcome import Fails, NotApplicable, largest_difference
from zoo.checks.small_models import compiled, with_values
from zoo.checks.subject import Subject, once
from zoo.config import ResolvedConfig, evaluated_layers
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, UnstackedWeights, select_rows, unstack_layers
from zoo.layers.context import Context
from zoo.models.functional import Params, Stats, split

# Sources of an encoder-decoder, whose rows end at different places.
SOURCES = [[5, 6], [1, 2, 3, 4, 5, 6, 7], [9, 9, 1]]
PROMPTS, STEPS, SLOTS = (3, 9, 1), 8, 32
# Beams choose among the rows: one is continued twice and one is dropped.
CHOSEN = (1, 0, 1)
TOLERANCE = 1e-4
Scores = Float[np.ndarray, "B N V"]


def padded_rows(lists: Sequence[Sequence[int]], width: int | None = None, filler: int = 12) -> PaddedTokens:
    """Pads rows of tokens with a token that the model must never read."""
    lengths = np.array([len(row) for row in lists], np.int32)
    tokens = np.full((len(lists), width or max(lengths)), filler, np.int32)
    for row, ids in zip(tokens, lists, strict=True):
        row[: len(ids)] = ids
    return PaddedTokens(jnp.asarray(tokens), jnp.asarray(lengths))


def stepwise_and_full_scores(
    values: tuple[nnx.Module, Params, Stats],
    prompts: Sequence[int] = PROMPTS,
    steps: int = STEPS,
    slots: int = SLOTS,
    cached: bool = True,
    chosen: Sequence[int] | None = None,
) -> tuple[Scores, Scores]:
    """Computes the scores of the next token, from the last token of each prompt on, in two ways: step
    by step, and in one pass over all tokens.

    Args:
        values: abstract model, parameters and statistics; tokens are drawn from 13 ids.
        prompts: length of each row's prompt.
        steps: number of tokens after the prompts.
        slots: number of slots in the cache.
        cached: whether the steps use the cache.
        chosen: rows that continue after half of the steps, as a beam search chooses them; None for
            each row itself.

    Returns:
        Two arrays [B, 1 + steps, V].
    """
    model, params, stats = values
    config, B = model.config, len(prompts)
    has_encoder, ids = config.architecture == "encoder_decoder", min(13, config.vocab_size)
    tokens = np.random.default_rng(7).integers(0, ids, (B, max(prompts) + steps)).astype(np.int32)
    lengths = np.array(prompts)
    last = lengths[:, None] - 1 + np.arange(1 + steps)
    following = np.take_along_axis(tokens, last[:, 1:], axis=1)
    prompt_rows = padded_rows(
        [row[:n] for row, n in zip(tokens.tolist(), prompts, strict=True)], 1 << (max(prompts) - 1).bit_length()
    )
    sources = padded_rows(SOURCES[:B], 8) if has_encoder else None
    decoder = IncrementalDecoder(split(model)[0], has_encoder, _depth(config), slots, config.vocab_size, cached)
    half = steps // 2 if chosen is not None else steps
    rows = np.tile(np.arange(B), (steps, 1))
    if chosen is not None:
        rows[half] = chosen

    def stepwise(params, stats, prompt_rows, sources, following, rows):
        weights = UnstackedWeights(*unstack_layers(params, stats, config.dtype))
        state, first = decoder.prefill(weights, prompt_rows, sources)

        def step(state, now):
            token, chosen_rows = now
            state = state if chosen is None else select_rows(state, chosen_rows)
            return decoder.step(weights, state, token)

        _, scores = jax.lax.scan(step, state, (following, rows))
        return jnp.concatenate([first[None], scores]).swapaxes(0, 1)

    def full_pass(params, stats, tokens, sources):
        module = with_values(model, params, stats)
        context = Context(jnp.arange(tokens.shape[1])[None], in_order=True)
        if not has_encoder:
            hidden = module(tokens, context)
        else:
            hidden = module(sources.tokens, tokens, Context(sources.positions, causal=False, in_order=True), context)
        return module.logits(hidden, context)

    whole = tokens if chosen is None else _with_rows_after(tokens, lengths, half, chosen)
    found = compiled(stepwise)(params, stats, prompt_rows, sources, jnp.asarray(following.T), jnp.asarray(rows))
    scores = compiled(full_pass)(params, stats, jnp.asarray(whole), sources)
    expected = np.take_along_axis(scores[:B], last[:, :, None], axis=1)
    if chosen is not None:
        after = np.take_along_axis(scores[B:], last[list(chosen)][:, :, None], axis=1)
        expected = np.concatenate([expected[:, : half + 1], after[:, half + 1 :]], axis=1)
    return found, expected


def _with_rows_after(tokens: np.ndarray, lengths: np.ndarray, half: int, chosen: Sequence[int]) -> np.ndarray:
    """Returns the rows, and below them what they have become after the choice: the text of the chosen
    row until then, and their own tokens after it.
    """
    after = tokens[list(chosen)].copy()
    for row, of in enumerate(chosen):
        start, own = lengths[of] + half, tokens[row, lengths[row] + half :]
        free = after.shape[1] - start
        after[row, start : start + len(own)] = own[:free]
    return np.concatenate([tokens, after])


def _depth(config: ResolvedConfig) -> int:
    return (
        config.decoder.num_layers
        if "decoder" in config and "num_layers" in config.decoder
        else evaluated_layers(config)
    )


@once
def _scores(subject: Subject) -> tuple[Scores, Scores]:
    subject.require_model("cached generation")
    if subject.architecture == "encoder":
        raise NotApplicable("an encoder generates nothing")
    chosen = CHOSEN if subject.architecture == "decoder" else None
    return stepwise_and_full_scores(subject.model(subject.config()), chosen=chosen)


def cache(subject: Subject) -> str:
    """The cache gives the scores of a pass over all tokens, for prompts of different lengths."""
    found, expected = (scores[:, : STEPS // 2 + 1] for scores in _scores(subject))
    for step in range(found.shape[1]):
        if (difference := largest_difference(found[:, step], expected[:, step])) > TOLERANCE:
            what = "the prompt's last token" if not step else f"token {step} after the prompts"
            raise Fails(f"the scores at {what} differ from a pass over all tokens by {difference:.1e} of the largest")
    return f"prompts of {', '.join(map(str, PROMPTS))} tokens: scores as without a cache, within {TOLERANCE:.0e}"


def beams(subject: Subject) -> str:
    """The cache follows the rows that a beam search chooses."""
    found, expected = (scores[:, STEPS // 2 + 1 :] for scores in _scores(subject))
    if subject.architecture != "decoder":
        raise NotApplicable("the kind needs an encoder-decoder, and rows of a decoder are chosen")
    if (difference := largest_difference(found, expected)) > TOLERANCE:
        raise Fails(
            f"after rows {', '.join(map(str, CHOSEN))} were chosen, scores differ from a pass over all tokens by "
            f"{difference:.1e} of the largest; see `take` of the cache entry"
        )
    return f"rows {', '.join(map(str, CHOSEN))} of 0, 1, 2 are continued as by a beam search"
