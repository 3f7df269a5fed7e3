"""P8: the time of a step with T5's bias, RoPE and ALiBi, by length of a row."""

from collections.abc import Sequence

from claims.measured_claim import Judgement, MeasuredClaim, Plot
from claims.models import passes
from claims.turns import Row, Settings, take_turns, timing_columns

MODEL = {"model.dim": 128, "model.num_layers": 2, "model.attention.num_heads": 4}
POSITIONS = {"none": "none", "RoPE": "rope", "ALiBi": "alibi", "T5's bias": "relative_bias"}


def measure(settings: Settings) -> list[Row]:
    """Measures a forward and backward pass with each kind of position."""
    rows = []
    for length in (16, 32) if settings.smoke else (128, 256, 512, 1024, 2048):
        built = {name: passes({**MODEL, "model.position.kind": kind}, length) for name, kind in POSITIONS.items()}
        times = take_turns({name: run for name, (run, _) in built.items()}, settings)
        rows += [{"length": length, "positions": name, **timing_columns(times, name, "RoPE")} for name in POSITIONS]
    return rows


def judge(rows: Sequence[Row]) -> Judgement:
    """Compares T5's bias with the others at the longest length, and with itself at the shortest."""
    lengths = sorted({row["length"] for row in rows})
    at = {(row["length"], row["positions"]): row for row in rows}
    shortest, longest = at[lengths[0], "T5's bias"], at[lengths[-1], "T5's bias"]
    alibi = at[lengths[-1], "ALiBi"]
    slower = longest["ratio_low"] > 1 and longest["ms_low"] > alibi["ms_high"]
    grows = longest["ratio_low"] > shortest["ratio_high"]
    figures = (
        f"{longest['ratio']:.2f} of RoPE's time at {lengths[-1]:,} tokens, {shortest['ratio']:.2f} at {lengths[0]:,}"
    )
    return Judgement.of(
        slower and grows,
        figures,
        f"With T5's bias a pass takes {figures}; ALiBi takes {alibi['ratio']:.2f} of RoPE's time at {lengths[-1]:,}.",
    )


CLAIM = MeasuredClaim(
    id="P8",
    name="position_bias",
    title="T5's learned bias is slower than RoPE or ALiBi as the sequence grows",
    method=(
        "One row through a decoder of two layers, width 128 and four heads, forwards and backwards up to the hidden "
        "states, in float32. The bias of T5 is looked up by bucket for every pair of query and key, and its gradient "
        "is summed back into the buckets; ALiBi's needs no parameter, and RoPE adds nothing to the scores."
    ),
    rule=(
        "at the longest length the pass with T5's bias takes longer than with RoPE (lower quartile of the ratio above 1) "
        "and than with ALiBi (quartiles apart), and its ratio to RoPE is larger than at the shortest length (quartiles "
        "apart)."
    ),
    doubts=(
        "Press et al. (2021, Fig. 2) measured on GPUs, where a fused kernel without a bias is faster still; and an "
        "implementation that keeps the bias of all layers, or fuses its look-up, would have another ratio."
    ),
    measure=measure,
    judge=judge,
    columns={"length": "tokens", "positions": "positions", "ms": "ms a pass", "ratio": "ratio to RoPE"},
    plot=Plot("length", "ratio", ("positions",), "tokens of a row", "time of a pass, relative to RoPE"),
)
