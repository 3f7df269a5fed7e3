"""Cached generation with a trained model: requests in, tokens out."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from zoo.config import ResolvedConfig, evaluated_layers, layer_kind, side
from zoo.decoding.beam_search import search
from zoo.decoding.decode_loop import prefill, sample
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, unstack_layers
from zoo.decoding.sampling import Sampling
from zoo.decoding.stop_strings import StoppingCriteria, stop_table
from zoo.errors import ConfigError
from zoo.models.functional import Params, Stats, split

MIN_BUCKET = 16
MAX_NEW_TOKENS = 1 << 24
Prompts = Sequence[Sequence[int]]


class Generated(NamedTuple):
    """The generated tokens of each prompt.

    Attributes:
        tokens: [B, N], -1 after the end of a row; of beam search [B, beams, N], best first.
        lengths: number of new tokens of each row, including the one that stopped it: [B] or [B,
            beams].
        scores: [B, beams], log p / length^alpha; None for sampled tokens.
    """

    tokens: Int[np.ndarray, "*rows N"]
    lengths: Int[np.ndarray, "*rows"]
    scores: Float[np.ndarray, "B beams"] | None = None


class Generator:
    """A model that continues texts, or translates them.

    Compiled programs depend on buffer lengths, which are powers of two: a stream of requests of all
    lengths compiles a handful of programs. Temperature, top-k, top-p, stop tokens and the number of
    new tokens are run-time arguments.

    Args:
        model: abstract, a decoder or an encoder-decoder.
        params, stats: its values. Layers are unstacked and matrices cast once, here, which takes up
            to as much memory again.
        max_context: largest number of tokens that are read at once without a cache; of a longer
            text, the last ones are read. Default: the positions decide.
        bidirectional_prompt: a decoder's prompt tokens see each other, as in training with prefix
            language modelling.

    Raises:
        ConfigError: the model does not generate token by token.
    """

    def __init__(
        self,
        model: nnx.Module,
        params: Params,
        stats: Stats,
        max_context: int | None = None,
        bidirectional_prompt: bool = False,
    ):
        config: ResolvedConfig = model.config
        if config.architecture not in ("decoder", "encoder_decoder"):
            raise ConfigError(f"model.architecture={config.architecture} does not continue a text token by token")
        self.has_encoder = config.architecture == "encoder_decoder"
        self.config = side(config, "decoder") if self.has_encoder else config
        self.encoder = side(config, "encoder") if self.has_encoder else None
        # Lengths of the tables of positions, None without one.
        self.max_positions = (model.decoder if self.has_encoder else model).position.max_length
        self.max_source_positions = model.encoder.position.max_length if self.has_encoder else None
        self.graph, self.max_context, self.bidirectional_prompt = split(model)[0], max_context, bidirectional_prompt
        self.weights = unstack_layers(params, stats, config.dtype)

    def why_uncacheable(self) -> str | None:
        """Returns why this model cannot use a cache, or None if it can."""
        if rotary_scalings(self.config, "dynamic"):
            return "model.position.scaling.kind=dynamic rotates all keys anew as the text grows, so none can be cached"
        return None

    def positions_read(self, prompt_tokens: int, max_new_tokens: int) -> int:
        """Returns how many positions a prompt and new tokens take; the last token is not read."""
        return prompt_tokens + max_new_tokens - 1

    def generate(
        self,
        prompts: Prompts,
        max_new_tokens: int,
        sampling: Sampling | None = None,
        key: Key[Array, ""] | None = None,
        stop: Int[np.ndarray, "V Q"] | None = None,
        sources: Prompts | None = None,
        vocab_size: int | None = None,
        cache: bool = True,
    ) -> Generated:
        """Continues prompts.

        Args:
            prompts: token ids, of any lengths; for an encoder-decoder, the first tokens of the
                decoder.
            max_new_tokens: largest number of new tokens per prompt.
            sampling: how tokens are chosen; default: the most probable one.
            key: for the random choices; those of row b depend on it and on b.
            stop: result of `stop_table`; default: nothing stops a row.
            sources: what an encoder-decoder reads.
            vocab_size: only ids below it are generated; default: all of the model's.
            cache: keep keys and values (or FAVOR+'s sums) of the tokens so far. Without it every
                token reads all earlier ones again, which also works for what cannot be cached:
                dynamic RoPE scaling, and texts longer than a table of positions.

        Raises:
            ConfigError: an impossible request.
        """
        sampling = (sampling or Sampling(temperature=0.0)).checked()
        decoder, criteria, prompts, sources = self._request(prompts, max_new_tokens, stop, sources, vocab_size, cache)
        key = jax.random.key(0) if key is None else key
        chosen = _as_arrays(sampling) if sampling.temperature > 0 else None
        with _explain_out_of_memory(decoder, prompts):
            state, logits = prefill(decoder, self.weights, prompts, sources)
            tokens, lengths, _ = sample(
                decoder, self.weights, state, logits, criteria, chosen, key, buffer_size=padded_length(max_new_tokens)
            )
            tokens, lengths = jax.device_get((tokens, lengths))
        return Generated(tokens[:, :max_new_tokens], lengths)

    def beam_search(
        self,
        prompts: Prompts,
        max_new_tokens: int,
        beams: int = 4,
        length_penalty: float = 1.0,
        stop: Int[np.ndarray, "V Q"] | None = None,
        sources: Prompts | None = None,
        vocab_size: int | None = None,
        cache: bool = True,
    ) -> Generated:
        """Searches the most probable continuations; see `zoo.decoding.beam_search.search`.

        Args:
            prompts, max_new_tokens, stop, sources, vocab_size, cache: as for `generate`.
            beams: number of hypotheses that are kept and returned for each prompt.
            length_penalty: alpha; above 0 favours longer texts.

        Raises:
            ConfigError: an impossible request.
        """
        if beams < 1:
            raise ConfigError(f"beams={beams} must be at least 1")
        if not np.isfinite(length_penalty):
            raise ConfigError(f"length_penalty={length_penalty} must be a number")
        decoder, criteria, prompts, sources = self._request(prompts, max_new_tokens, stop, sources, vocab_size, cache)
        alpha, size = np.float32(length_penalty), padded_length(max_new_tokens)
        with _explain_out_of_memory(decoder, prompts, beams):
            state, logits = prefill(decoder, self.weights, prompts, sources)
            found = search(decoder, self.weights, state, logits, criteria, alpha, beams=beams, buffer_size=size)
            tokens, lengths, totals = jax.device_get(found)
        return Generated(tokens[:, :, :max_new_tokens], lengths, totals)

    def _request(
        self, prompts: Prompts, max_new_tokens: int, stop, sources: Prompts | None, vocab_size: int | None, cache: bool
    ) -> tuple[Any, ...]:
        """Checks a request and returns the arguments of the compiled programs."""
        if cache and (why := self.why_uncacheable()) is not None:
            raise ConfigError(f"{why}; generate without a cache (zoo generate --no-cache)")
        if self.bidirectional_prompt and not cache:
            raise ConfigError(
                "a decoder trained with objective.kind=prefix reads a prompt as a whole once: it cannot generate "
                "without a cache, nor past the end of learned positions"
            )
        if max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens={max_new_tokens} must be at least 1")
        if self.has_encoder != (sources is not None):
            raise ConfigError("an encoder-decoder needs sources" if self.has_encoder else "a decoder reads no sources")
        size = self.config.vocab_size if vocab_size is None else vocab_size
        if not 1 <= size <= self.config.vocab_size:
            raise ConfigError(f"vocab_size={size} must be from 1 to the model's {self.config.vocab_size}")
        if max_new_tokens > MAX_NEW_TOKENS:
            raise ConfigError(
                f"max_new_tokens={max_new_tokens} must be at most {MAX_NEW_TOKENS}: positions are counted in float32, "
                "exactly up to there"
            )
        max_length = self.max_positions
        if not cache:
            max_length = min((limit for limit in (max_length, self.max_context) if limit is not None), default=None)
            prompts = prompts if max_length is None else [row[-max_length:] for row in prompts]
        prompts = self._rows("prompt", prompts, self.config, max_length)
        longest = int(prompts.lengths.max())
        self._check_longrope(prompts.lengths, max_new_tokens, cache)
        if cache and max_length is not None and longest + max_new_tokens - 1 > max_length:
            fits = f"after a prompt of {longest} tokens at most {max_length - longest + 1} new ones fit"
            raise ConfigError(
                f"learned positions end at {max_length}: {fits}; generate fewer, or without a cache, where the oldest "
                "tokens are dropped (zoo generate --no-cache)"
            )
        if sources is not None:
            sources = self._rows("source", sources, self.encoder, self.max_source_positions)
            if len(sources.lengths) != len(prompts.lengths):
                raise ConfigError(
                    f"{len(prompts.lengths)} prompts and {len(sources.lengths)} sources; each prompt needs one"
                )
        slots = padded_length(longest + max_new_tokens, None if cache else max_length)
        stop = stop_table(size) if stop is None else stop
        if len(stop) != size:
            raise ConfigError(f"the table of stops is for {len(stop)} token ids, and {size} may be chosen")
        decoder = IncrementalDecoder(
            self.graph, self.has_encoder, evaluated_layers(self.config), slots, size, cache, self.bidirectional_prompt
        )
        return decoder, StoppingCriteria(stop, np.int32(max_new_tokens)), prompts, sources

    def _check_longrope(self, lengths: np.ndarray, max_new_tokens: int, cache: bool) -> None:
        """Refuses texts that grow past the length at which LongRoPE turns all keys by other angles."""
        for scaling in rotary_scalings(self.config, "longrope"):
            limit, last = scaling.original_length, int(lengths.max()) + max_new_tokens
            if int(lengths.min()) > limit or last <= limit:
                continue
            passes = (
                f"model.position.scaling.kind=longrope rotates all keys anew where a text grows past {limit} tokens"
            )
            if cache:
                raise ConfigError(
                    f"{passes}, so none can be cached; generate at most {max(limit - int(lengths.max()), 0)} new ones, "
                    "or without a cache (zoo generate --no-cache)"
                )
            if len(set(lengths.tolist())) > 1:
                raise ConfigError(f"{passes}, and follows the longest row of a batch; give one prompt at a time")

    def _rows(self, name: str, rows: Prompts, config: ResolvedConfig, max_length: int | None) -> PaddedTokens:
        """Pads rows of token ids to a power of two or the length of the position table."""
        lengths = np.array([len(row) for row in rows], np.int32)
        if not len(lengths) or not lengths.min():
            raise ConfigError(
                f"there is no {name}" if not len(lengths) else f"{name} {int(lengths.argmin())} has no token"
            )
        longest = int(lengths.max())
        if max_length is not None and longest > max_length:
            raise ConfigError(
                f"learned positions end at {max_length}: a {name} of {longest} tokens is too long"
                + ("; without a cache its last tokens are read (zoo generate --no-cache)" if name == "prompt" else "")
            )
        kinds = [
            kind
            for kind in ("dynamic", "longrope")
            for scaling in rotary_scalings(config, kind)
            if kind == "dynamic" or lengths.min() <= scaling.original_length < longest
        ]
        if kinds and len(set(lengths.tolist())) > 1:
            raise ConfigError(
                f"model.position.scaling.kind={kinds[0]} follows the longest row of a batch; give one {name} at a time"
            )
        tokens = np.zeros((len(lengths), padded_length(longest, max_length)), np.int32)
        for row, ids in zip(tokens, rows, strict=True):
            row[: len(ids)] = ids
        if tokens.min() < 0 or tokens.max() >= config.vocab_size:
            raise ConfigError(f"a {name} has a token id outside 0 .. {config.vocab_size - 1}")
        return PaddedTokens(tokens, lengths)


@contextmanager
def _explain_out_of_memory(decoder: IncrementalDecoder, prompts: PaddedTokens, beams: int = 1) -> Iterator[None]:
    """Turns the device's out-of-memory error into one that says which request was too large."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        rows = len(prompts.lengths) * beams
        raise ConfigError(
            f"the device's memory does not hold {rows} texts of {decoder.slots} tokens; ask for fewer new "
            "tokens, prompts or beams"
        ) from error


def padded_length(length: int, max_length: int | None = None) -> int:
    """Returns the next power of two of at least 16, limited to `max_length`."""
    size = max(MIN_BUCKET, 1 << (length - 1).bit_length())
    return size if max_length is None else min(size, max_length)


def rotary_scalings(config: ResolvedConfig, kind: str) -> list[ResolvedConfig]:
    """Returns the fields `position.scaling` of the kinds of layers whose RoPE is scaled by `kind`."""
    kinds: Iterable[ResolvedConfig] = [layer_kind(config, name) for name in dict.fromkeys(config.layers.pattern)] or [
        config
    ]
    positions = [layers.position for layers in kinds]
    return [each.scaling for each in positions if each.kind == "rope" and each.scaling.kind == kind]


def _as_arrays(sampling: Sampling) -> Sampling:
    """Returns the numbers as arrays of fixed types, which do not change the compiled program."""
    return Sampling(
        np.float32(sampling.temperature), np.int32(min(sampling.top_k, 2**31 - 1)), np.float32(sampling.top_p)
    )
