"""A3: time and memory of full attention and of a window, by length of a row."""

from collections.abc import Sequence

from claims.measured_claim import Judgement, MeasuredClaim, Plot
from claims.models import passes
from claims.turns import Row, Settings, take_turns, timing_columns

MODEL = {"model.dim": 128, "model.num_layers": 2, "model.attention.num_heads": 4, "model.position.kind": "rope"}
# Doubling a row multiplies O(T w) by 2 and O(T^2) by 4.
LINEAR = 2.5


def measure(settings: Settings) -> list[Row]:
    """Measures a forward and backward pass of each window, and the memory of its program."""
    rows, before = [], {}
    windows = {"full": 0, "8": 8} if settings.smoke else {"full": 0, "128": 128, "512": 512}
    for length in (16, 32) if settings.smoke else (512, 1024, 2048, 4096):
        built = {name: passes({**MODEL, "model.attention.window": size}, length) for name, size in windows.items()}
        times = take_turns({name: run for name, (run, _) in built.items()}, settings)
        for name, (_, memory) in built.items():
            timing = timing_columns(times, name, "full")
            now = timing["ms"], memory
            time_growth, memory_growth = (x / y for x, y in zip(now, before.get(name, now), strict=True))
            before[name] = now
            rows.append(
                {"length": length, "window": name, **timing, "MiB": memory / 2**20}
                | {"time growth": time_growth, "memory growth": memory_growth}
            )
    return rows


def judge(rows: Sequence[Row]) -> Judgement:
    """Compares the smallest window with full attention at the longest length."""
    longest = max(row["length"] for row in rows)
    last = {row["window"]: row for row in rows if row["length"] == longest}
    full, window = last["full"], next(row for name, row in last.items() if name != "full")
    linear = (
        max(window["time growth"], window["memory growth"]) <= LINEAR < min(full["time growth"], full["memory growth"])
    )
    cheaper = window["ratio_high"] < 1 and window["MiB"] < full["MiB"]
    return Judgement.of(
        linear and cheaper,
        f"cost alone: {window['ratio']:.2f} of the time and {window['MiB'] / full['MiB']:.2f} of the memory at "
        f"{longest:,} tokens",
        f"Doubling the row to {longest:,} tokens multiplies the time with a window of {window['window']} by "
        f"{window['time growth']:.2f} and its memory by {window['memory growth']:.2f}; with full attention by "
        f"{full['time growth']:.2f} and {full['memory growth']:.2f}. The window takes {window['ratio']:.2f} of the time "
        f"and {window['MiB'] / full['MiB']:.2f} of the memory of full attention.",
    )


CLAIM = MeasuredClaim(
    id="A3",
    name="windows",
    title="sliding windows turn quadratic time and memory into linear",
    method=(
        "One row through a decoder of two layers, width 128 and four heads, forwards and backwards up to the hidden "
        "states, in float32, with full attention and with windows; and what the compiled program needs beside its "
        "inputs and outputs. This is the half of the claim about cost; what a window costs in loss is a question for "
        "training runs."
    ),
    rule=(
        f"with the smallest window, the last doubling of the row multiplies time and memory by at most {LINEAR} (linear "
        "is 2), with full attention by more; and at the longest length the window takes less time (upper quartile of "
        "the ratio below 1) and less memory."
    ),
    doubts=(
        "full attention here is computed in chunks of queries on a CPU, so that its memory grows more slowly than the "
        "square; and the linear maps, which are linear in the length in any case, dilute both growths."
    ),
    measure=measure,
    judge=judge,
    columns={
        "length": "tokens", "window": "window", "ms": "ms a pass", "ratio": "ratio to full", "MiB": "MiB",
        "time growth": "time, growth", "memory growth": "memory, growth",
    },
    plot=Plot("length", "ms", ("window",), "tokens of a row", "ms a pass"),
)  # fmt: skip
