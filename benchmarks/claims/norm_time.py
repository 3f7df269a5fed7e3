"""N5: the time of LayerNorm and of RMSNorm, alone and in a training step."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from claims.measured_claim import Judgement, MeasuredClaim, Plot
from claims.models import training_step
from claims.turns import Row, Settings, take_turns, timing_columns
from zoo.layers.norm import layer_norm, rms_norm

KINDS = {"LayerNorm": "layernorm", "RMSNorm": "rmsnorm"}
ALONE, STEP = "norm alone", "training step"


def norm_alone(kind: str, tokens: int, dim: int) -> Callable[[], None]:
    """Returns a function that computes a norm and its gradients, and waits for them."""
    x, scale, bias = jax.random.normal(jax.random.key(0), (tokens, dim)), jnp.ones(dim), jnp.zeros(dim)

    @jax.jit
    def gradients(x, scale, bias):
        def loss(x, scale, bias):
            y = layer_norm(x, scale, bias, 1e-5) if kind == "layernorm" else rms_norm(x, scale, 1e-5)
            return jnp.sum(jnp.sin(y))

        return jax.grad(loss, argnums=(0, 1, 2) if kind == "layernorm" else (0, 1))(x, scale, bias)

    return lambda: jax.block_until_ready(gradients(x, scale, bias)) and None


def measure(settings: Settings) -> list[Row]:
    """Measures both norms alone by width, and in training steps of two sizes."""
    rows = []
    for dim in (16, 32) if settings.smoke else (128, 512, 2048):
        times = take_turns({name: norm_alone(kind, 4096, dim) for name, kind in KINDS.items()}, settings)
        rows += [
            {"what": ALONE, "width": dim, "norm": name, **timing_columns(times, name, "LayerNorm")} for name in KINDS
        ]
    for dim in (16,) if settings.smoke else (64, 256):
        shape = {"model.dim": dim, "model.attention.num_heads": dim // 16, "data.tokenizer.kind": "bytes"}
        steps = {
            name: training_step({"model.norm.kind": kind, "model.num_layers": 4, **shape}, 64, 1024)[0]
            for name, kind in KINDS.items()
        }
        times = take_turns(steps, settings)
        rows += [
            {"what": STEP, "width": dim, "norm": name, **timing_columns(times, name, "LayerNorm")} for name in KINDS
        ]
    return rows


def judge(rows: Sequence[Row]) -> Judgement:
    """Compares RMSNorm with LayerNorm, alone and in a step."""
    found = {what: [row for row in rows if row["what"] == what and row["norm"] == "RMSNorm"] for what in (ALONE, STEP)}
    figures = {
        what: ", ".join(f"{row['ratio']:.2f} at width {row['width']:,}" for row in some) for what, some in found.items()
    }
    saved = [row for row in found[STEP] if row["ratio_high"] < 1]
    every = [row for row in rows if row["norm"] == "RMSNorm"]
    return Judgement.of(
        all(row["ratio_high"] < 1 for row in every),
        f"alone {figures[ALONE]}; step {figures[STEP]}",
        f"Of LayerNorm's time, RMSNorm alone takes {figures[ALONE]}, and a training step with it {figures[STEP]} "
        f"({len(saved)} of {len(found[STEP])} steps are told apart by the quartiles).",
        refuted=any(row["ratio_low"] > 1 for row in every),
    )


CLAIM = MeasuredClaim(
    id="N5",
    name="norm_time",
    title="RMSNorm takes less time than LayerNorm",
    method=(
        "A norm of 4,096 vectors alone, forwards and backwards, and a whole training step of a decoder of four layers "
        "with 16 rows of 64 tokens, in float32. Whether the losses are alike is judged by an experiment."
    ),
    rule=(
        "RMSNorm takes less time at every width, alone and in a training step (upper quartiles of the ratio below 1)."
    ),
    doubts=(
        "XLA fuses both norms with what surrounds them, so that the norm alone says little about a model; and in wide "
        "models, whose products dominate, the difference in a step vanishes."
    ),
    measure=measure,
    judge=judge,
    columns={"what": "what", "width": "width", "norm": "norm", "ms": "ms", "ratio": "ratio to LayerNorm"},
    plot=Plot("width", "ratio", ("norm",), "width", "time, relative to LayerNorm", panels="what"),
)
