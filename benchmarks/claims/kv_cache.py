"""A2 and A7: what a cache of keys and values holds, and what a token takes with and without one."""

import time
from collections.abc import Callable, Sequence

import jax
import numpy as np

from claims.measured_claim import Judgement, MeasuredClaim, Plot
from claims.models import resolved
from claims.turns import Row, Settings, take_turns, timing_columns
from zoo.decoding import Generator
from zoo.decoding.decode_loop import prefill, sample
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens
from zoo.decoding.stop_strings import StoppingCriteria, stop_table
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, initialise_statistics

HEADS = {"multi-head": 8, "grouped-query": 2, "multi-query": 1}
FLAT = 1.5


def generating(shape: dict, batch: int, context: int, new_tokens: int, cached: bool) -> tuple[Callable[[], float], int]:
    """Returns a function that generates tokens after `context` others and returns the seconds of a
    token, the prompts left out; and the bytes of the keys and values.
    """
    config = resolved({"model.position.kind": "rope", **shape})
    model = make_model(config)
    generator = Generator(model, initialise(model, 0), initialise_statistics(model, 0))
    decoder = IncrementalDecoder(
        generator.graph, False, config.model.num_layers, context + new_tokens, config.model.vocab_size, cached
    )
    prompts = PaddedTokens(np.ones((batch, context), np.int32), np.full(batch, context, np.int32))
    rest = StoppingCriteria(stop_table(config.model.vocab_size), np.int32(new_tokens)), None, jax.random.key(0)

    def run() -> float:
        state, logits = jax.block_until_ready(prefill(decoder, generator.weights, prompts))
        began = time.perf_counter()
        jax.block_until_ready(sample(decoder, generator.weights, state, logits, *rest, buffer_size=new_tokens))
        return (time.perf_counter() - began) / (new_tokens - 1)

    if not cached:
        return run, 0
    state, _ = jax.eval_shape(lambda: prefill(decoder, generator.weights, prompts))
    return run, sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state.layers))


def measure_heads(settings: Settings) -> list[Row]:
    """Measures a token by batch, context and number of key-value heads."""
    rows = []
    shape = {"model.dim": 32, "model.num_layers": 1} if settings.smoke else {"model.dim": 512, "model.num_layers": 4}
    for batch in (1,) if settings.smoke else (1, 16):
        for context in (16, 32) if settings.smoke else (128, 512, 2048):
            built = {}
            for name, groups in HEADS.items():
                heads = {"model.attention.num_heads": 8, "model.attention.num_kv_heads": groups}
                built[name] = generating(shape | heads, batch, context, 4 if settings.smoke else 17, cached=True)
            times = take_turns({name: run for name, (run, _) in built.items()}, settings)
            for name, (_, size) in built.items():
                timing = timing_columns(times, name, "multi-head")
                speed = {"tokens/s": 1000 * batch / timing["ms"]}
                labels = {"batch": batch, "context": context, "heads": name, "kv heads": HEADS[name]}
                rows.append(labels | {"cache bytes": size} | speed | timing)
    return rows


def judge_heads(rows: Sequence[Row]) -> Judgement:
    """Compares bytes exactly, and speed at the largest batch and context."""
    at = {(row["batch"], row["context"], row["heads"]): row for row in rows}
    exact = all(
        0
        < row["cache bytes"] * HEADS["multi-head"]
        == at[row["batch"], row["context"], "multi-head"]["cache bytes"] * row["kv heads"]
        for row in rows
    )
    largest = max((row["batch"], row["context"]) for row in rows)
    grouped, single = at[*largest, "grouped-query"], at[*largest, "multi-query"]
    faster = grouped["ratio_high"] < 1 and single["ratio_high"] < 1
    where = f"batch {largest[0]} and context {largest[1]:,}"
    figures = f"{grouped['ratio']:.2f} (grouped-query) and {single['ratio']:.2f} (multi-query) of the time at {where}"
    return Judgement.of(
        exact and faster,
        f"cache {'exactly' if exact else 'not exactly'} h/g smaller; {figures}",
        f"The cache holds {'exactly' if exact else 'not exactly'} g/h of the bytes of multi-head attention in every row "
        f"of the table. A token takes {figures}.",
    )


def measure_contexts(settings: Settings) -> list[Row]:
    """Measures a token by context, with a cache and without."""
    rows, first = [], {}
    small = {"model.dim": 32, "model.num_layers": 1, "model.attention.num_heads": 4}
    shape = small if settings.smoke else {"model.dim": 256, "model.num_layers": 4, "model.attention.num_heads": 4}
    for context in (16, 32) if settings.smoke else (64, 128, 256, 512, 1024, 2048):
        built = {
            name: generating(shape, 1, context, 4 if settings.smoke else 9, cached)[0]
            for name, cached in (("cache", True), ("recomputation", False))
        }
        times = take_turns(built, settings)
        for name in built:
            timing = timing_columns(times, name, "recomputation")
            growth = timing["ms"] / first.setdefault(name, timing["ms"])
            rows.append({"context": context, "by": name, **timing, "growth": growth})
    return rows


def judge_contexts(rows: Sequence[Row]) -> Judgement:
    """Compares by how much the time of a token grows."""
    contexts = sorted({row["context"] for row in rows})
    longest = {row["by"]: row for row in rows if row["context"] == contexts[-1]}
    cached, again = longest["cache"]["growth"], longest["recomputation"]["growth"]
    ratio = contexts[-1] // contexts[0]
    return Judgement.of(
        cached <= FLAT and again >= ratio / 2,
        f"time of a token over a context {ratio} times as long: {cached:.2f} with a cache, {again:.1f} without",
        f"From a context of {contexts[0]:,} tokens to one of {contexts[-1]:,}, the time of a token is multiplied by "
        f"{cached:.2f} with a cache and by {again:.1f} without.",
    )


SHARED_HEADS = MeasuredClaim(
    id="A2",
    name="cache_heads",
    title="sharing key-value heads shrinks the cache by h/g and speeds decoding",
    method=(
        "Greedy generation of 16 tokens from a decoder with random weights (four layers, width 512, eight heads, RoPE, "
        "float32) after contexts of several lengths; reading the context is left out of the time. Eight, two and one "
        "key-value heads; everything else is the same."
    ),
    rule=(
        "the bytes of keys and values are exactly g/h of those of multi-head attention everywhere, and at the largest "
        "batch and context a token takes less time with two heads and with one (upper quartiles of the ratio below 1)."
    ),
    doubts=(
        "with fewer key-value heads the projections are smaller too, so that not all of the time is saved by the cache; "
        "and on accelerators, where reading memory limits decoding, the difference should be larger than here."
    ),
    measure=measure_heads,
    judge=judge_heads,
    columns={
        "batch": "batch", "context": "context", "heads": "attention", "kv heads": "key-value heads",
        "cache bytes": "bytes of the cache", "tokens/s": "tokens per second", "ratio": "time, ratio to multi-head",
    },
    plot=Plot("context", "ms", ("heads",), "tokens of context", "ms a token of all rows", panels="batch"),
)  # fmt: skip

CONTEXTS = MeasuredClaim(
    id="A7",
    name="cache_contexts",
    title="a cache makes the time of a token flat in the context, where recomputation grows",
    method=(
        "Greedy generation of eight tokens from a decoder with random weights (four layers, width 256, four heads, RoPE, "
        "float32), one row, after contexts of several lengths; reading the context is left out of the time. Without a "
        "cache, each token reads all earlier ones again."
    ),
    rule=(
        f"over the range of contexts, the time of a token grows by at most a factor of {FLAT} with a cache, and without "
        "one by at least half of the factor by which the context grows."
    ),
    doubts=(
        "attention over the cache takes time linear in the context, which shows once the context is long compared with "
        "the width of the model, so that another range of contexts gives another factor."
    ),
    measure=measure_contexts,
    judge=judge_contexts,
    columns={"context": "context", "by": "computed by", "ms": "ms a token", "growth": "growth", "ratio": "ratio to recomputation"},
    plot=Plot("context", "ms", ("by",), "tokens of context", "ms a token"),
)  # fmt: skip
