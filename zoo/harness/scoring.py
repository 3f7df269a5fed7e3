"""Log-probabilities of continuations, each after its context.

What several requests share is computed once: rows whose tokens begin another row are read from that
row, and continuations of one context are read after a single pass over the context where this takes
less time.
"""

import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from zoo.config import evaluated_layers
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.decoding.decode_loop import prefill
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, State, UnstackedWeights, select_rows
from zoo.decoding.generator import Generator, padded_length, rotary_scalings
from zoo.errors import ConfigError
from zoo.layers.context import Context
from zoo.models.functional import Params, Stats, split
from zoo.training.trained_run import TrainedRun

ROWS = 32
"""Rows that are read at once."""
# A step of the cached decoder, which reads one token of each row, takes about the time in which this
# many tokens of a row are read at once.
TOKENS_PER_STEP = 8
# Scores that are held at once: rows x tokens x vocabulary.
_SCORES_AT_ONCE = 1 << 27


class Continuation(NamedTuple):
    """Tokens to score after those before them.

    Attributes:
        context: at least one token; of an encoder-decoder, those with which its decoder begins.
        tokens: at least one token.
        source: what the encoder of an encoder-decoder reads; empty without one.
    """

    context: tuple[int, ...]
    tokens: tuple[int, ...]
    source: tuple[int, ...] = ()

    @property
    def read(self) -> tuple[int, ...]:
        """The tokens that the decoder reads: all but the last one."""
        return (*self.context, *self.tokens[:-1])


class Score(NamedTuple):
    """A scored continuation.

    Attributes:
        log_probability: sum of log p(token | tokens before it), in nats.
        greedy: whether each token is the most probable one, the first of equals.
    """

    log_probability: float
    greedy: bool


class ContinuationScorer:
    """Scores continuations with a decoder or an encoder-decoder that generates token by token.

    Probabilities are over all ids of the model. A decoder of prefix language modelling reads the
    context as a whole, as in training.

    Args:
        run: the run.
        rows: largest number of rows that are read at once.
        share_contexts: read equal contexts once where that takes less time; always and never by
            True and False.

    Raises:
        ConfigError: such a decoder whose keys cannot be kept.
    """

    def __init__(self, run: TrainedRun, rows: int = ROWS, share_contexts: bool | None = None):
        self.run, self.rows, self.share_contexts = run, rows, share_contexts
        both = run.config.model.architecture == "encoder_decoder"
        self._prefix = not both and run.config.objective.kind in OBJECTIVE_KINDS.having("prefix")
        # Their rows are not read as a causal decoder's.
        self._always_shares = both or self._prefix
        # Angles that follow the length of a row are not those of its first tokens.
        model = run.config.model
        self._by_length = not both and bool(rotary_scalings(model, "dynamic") + rotary_scalings(model, "longrope"))
        if self._prefix and self._by_length:
            raise ConfigError(
                "objective.kind=prefix with a RoPE that follows the length of a row (dynamic, longrope): the tasks of "
                "the harness need a model that can keep its keys"
            )

    @cached_property
    def generator(self) -> Generator:
        """The model for cached decoding; its weights are unstacked when it is first used."""
        run = self.run
        return Generator(run.model, run.params, run.stats, bidirectional_prompt=self._prefix)

    def score(self, requests: Sequence[Continuation]) -> list[Score]:
        """Returns the score of each continuation, in their order."""
        distinct = list(dict.fromkeys(requests))
        shared, alone = self._divided(distinct)
        found: dict[Continuation, Score] = {}
        for part in self._batches_of_groups(shared):
            found |= self._score_after_contexts(part)
        for part in self._batches_of_rows(alone):
            found |= self._score_rows(part)
        return [found[request] for request in requests]

    def _divided(self, requests: Sequence[Continuation]) -> tuple[list[list[Continuation]], list[list[Continuation]]]:
        """Returns the requests that are read after a shared context, by context, and the others, by
        the row that holds them.
        """
        groups: dict[tuple[tuple[int, ...], ...], list[Continuation]] = {}
        for request in requests:
            groups.setdefault((request.source, request.context), []).append(request)
        if self._always_shares:
            return list(groups.values()), []
        if self._by_length:
            return [], [[request] for request in requests]
        shared = [group for group in groups.values() if self._sharing_pays(group)]
        left = [request for group in groups.values() if not self._sharing_pays(group) for request in group]
        return shared, rows_of(left)

    def _sharing_pays(self, group: Sequence[Continuation]) -> bool:
        if self.share_contexts is not None:
            return self.share_contexts
        rows = len(rows_of(group))
        steps = max(len(request.tokens) for request in group) - 1
        return (rows - 1) * len(group[0].context) > TOKENS_PER_STEP * rows * steps

    def _batches_of_groups(self, groups: list[list[Continuation]]) -> Iterable[list[list[Continuation]]]:
        def size(group: list[Continuation]) -> tuple[int, ...]:
            first, steps = group[0], power_of_two(max(len(request.tokens) for request in group))
            return len(group), padded_length(len(first.context)), padded_length(len(first.source) or 1), steps

        for (count, *_), same in itertools.groupby(sorted(groups, key=size, reverse=True), key=size):
            yield from _cut(list(same), max(1, self.rows // count))

    def _batches_of_rows(self, rows: list[list[Continuation]]) -> Iterable[list[list[Continuation]]]:
        def size(row: list[Continuation]) -> tuple[int, int]:
            scored = sum(len(request.tokens) for request in row)
            return max(len(request.read) for request in row), scored

        left, vocabulary = sorted(rows, key=size, reverse=True), self.run.config.model.vocab_size
        while left:
            longest = max(padded_length(size(row)[1]) for row in left[: self.rows])
            count = max(1, min(self.rows, _SCORES_AT_ONCE // (longest * vocabulary)))
            yield left[: 1 if self._by_length else count]
            left = left[1 if self._by_length else count :]

    def _score_rows(self, rows: list[list[Continuation]]) -> dict[Continuation, Score]:
        """Scores the requests of rows that are read at once."""
        run, count = self.run, len(rows)
        tokens = _padded([max((one.read for one in row), key=len) for row in rows], run.model.position.max_length)
        scored = [[(request, n) for request in row for n in range(len(request.tokens))] for row in rows]
        shape = len(tokens.tokens), power_of_two(max(map(len, scored)))
        places, targets = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        for row, entries in enumerate(scored):
            places[row, : len(entries)] = [len(request.context) - 1 + n for request, n in entries]
            targets[row, : len(entries)] = [request.tokens[n] for request, n in entries]
        values = _row_scores(split(run.model)[0], run.params, run.stats, tokens, places, targets)
        log_p, greedy = (np.asarray(each)[:count] for each in values)
        found = {}
        for row, requests in enumerate(rows):
            start = 0
            for request in requests:
                own = slice(start, start := start + len(request.tokens))
                found[request] = _score(log_p[row, own], greedy[row, own])
        return found

    def _score_after_contexts(self, groups: list[list[Continuation]]) -> dict[Continuation, Score]:
        """Scores groups of as many continuations each, reading the context of each group once."""
        generator, members = self.generator, len(groups[0])
        contexts = _padded([group[0].context for group in groups], generator.max_positions)
        sources = None
        if generator.has_encoder:
            sources = _padded([group[0].source for group in groups], generator.max_source_positions)
        longest = power_of_two(max(len(one.tokens) for group in groups for one in group))
        targets = np.zeros((len(contexts.tokens) * members, longest), np.int32)
        for row, request in enumerate(itertools.chain(*groups)):
            targets[row, : len(request.tokens)] = request.tokens
        cached = generator.why_uncacheable() is None
        needed = int(contexts.lengths.max()) + longest
        decoder = IncrementalDecoder(
            generator.graph, generator.has_encoder, evaluated_layers(generator.config),
            padded_length(needed, None if cached else generator.max_positions), generator.config.vocab_size, cached,
            generator.bidirectional_prompt,
        )  # fmt: skip
        state, scores = prefill(decoder, generator.weights, contexts, sources)
        log_p, greedy = map(np.asarray, _scores_after(decoder, generator.weights, state, scores, targets))
        return {
            request: _score(log_p[row, : len(request.tokens)], greedy[row, : len(request.tokens)])
            for row, request in enumerate(itertools.chain(*groups))
        }


def rows_of(requests: Iterable[Continuation]) -> list[list[Continuation]]:
    """Divides requests of a causal decoder by the row that is read for them.

    A row stands for every request whose tokens are the first ones of that row: what follows a token
    changes nothing that a causal decoder computes for it.
    """
    rows: list[list[Continuation]] = []
    # Sorted backwards, a row comes just before the rows that are its beginning.
    for request in sorted(requests, key=lambda request: request.read, reverse=True):
        if rows and rows[-1][0].read[: len(request.read)] == request.read:
            rows[-1].append(request)
        else:
            rows.append([request])
    return rows


def power_of_two(number: int) -> int:
    """Returns the smallest power of two that is no smaller."""
    return 1 << (number - 1).bit_length()


def _cut(items: list[Any], size: int) -> Iterable[list[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _padded(rows: Sequence[Sequence[int]], max_length: int | None) -> PaddedTokens:
    """Pads rows, and their number, to powers of two, so that few programs are compiled."""
    count = power_of_two(len(rows))
    lengths = np.ones(count, np.int32)
    lengths[: len(rows)] = [len(row) for row in rows]
    tokens = np.zeros((count, padded_length(int(lengths.max()), max_length)), np.int32)
    for row, ids in zip(tokens, rows):
        row[: len(ids)] = ids
    return PaddedTokens(tokens, lengths)


def _score(log_p: Float[np.ndarray, " N"], greedy: Bool[np.ndarray, " N"]) -> Score:
    return Score(float(log_p.astype(np.float64).sum()), bool(greedy.all()))


def _of_targets(
    scores: Float[Array, "*rows V"], targets: Int[Array, "*rows"]
) -> tuple[Float[Array, "*rows"], Bool[Array, "*rows"]]:
    """Returns log p of each target, and whether it has the highest score."""
    log_p = jax.nn.log_softmax(scores.astype(jnp.float32), axis=-1)
    return jnp.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0], jnp.argmax(scores, axis=-1) == targets


@partial(jax.jit, static_argnames="graph")
def _row_scores(
    graph: nnx.GraphDef,
    params: Params,
    stats: Stats,
    rows: PaddedTokens,
    places: Int[Array, "B N"],
    targets: Int[Array, "B N"],
) -> tuple[Float[Array, "B N"], Bool[Array, "B N"]]:
    """Returns log p and greediness of each target after the token at its place."""
    model = nnx.merge(graph, params, stats)
    context = Context(rows.positions, causal=True, in_order=True)
    hidden = jnp.take_along_axis(model(rows.tokens, context), places[:, :, None], axis=1)
    return _of_targets(model.logits(hidden, context), targets)


@partial(jax.jit, static_argnames="decoder")
def _scores_after(
    decoder: IncrementalDecoder,
    weights: UnstackedWeights,
    state: State,
    scores: Float[Array, "G V"],
    targets: Int[Array, "R N"],
) -> tuple[Float[Array, "R N"], Bool[Array, "R N"]]:
    """Returns log p and greediness of each target after its context and the targets before it; of R
    rows, R / G neighbours continue each context.
    """
    rows = jnp.repeat(jnp.arange(scores.shape[0]), targets.shape[0] // scores.shape[0])

    def read(
        carry: tuple[State, Array], following: Int[Array, " R"]
    ) -> tuple[tuple[State, Array], tuple[Array, Array]]:
        state, scores = carry
        return decoder.step(weights, state, following), _of_targets(scores, following)

    carry = select_rows(state, rows), scores[rows]
    (_, last), (log_p, greedy) = jax.lax.scan(read, carry, targets.T[:-1])
    log_p_last, greedy_last = _of_targets(last, targets[:, -1])
    return jnp.concatenate([log_p.T, log_p_last[:, None]], axis=1), jnp.concatenate(
        [greedy.T, greedy_last[:, None]], axis=1
    )
