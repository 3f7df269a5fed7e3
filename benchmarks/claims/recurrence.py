"""O11: a recurrent language model and attention, by length of a row."""

from collections.abc import Sequence

from claims.measured_claim import Judgement, MeasuredClaim, Plot
from claims.models import training_step
from claims.turns import Row, Settings, take_turns, timing_columns

WIDTH = {"model.dim": 128, "model.num_layers": 2, "data.tokenizer.kind": "bytes"}
ATTENTION = WIDTH | {"model.attention.num_heads": 4, "model.position.kind": "rope"}
MODELS = {
    "recurrent": WIDTH
    | {
        "model.architecture": "elmo",
        "objective.kind": "bidirectional",
        "model.elmo.characters": 3,
        "model.elmo.character_dim": 8,
        "model.elmo.filters": (1, 32),
        "model.elmo.highways": 1,
        "model.elmo.cell_dim": 128,
    },
    "encoder": ATTENTION | {"model.architecture": "encoder", "objective.kind": "masked", "model.ffn.hidden_dim": 992},
    "decoder": ATTENTION | {"model.ffn.hidden_dim": 960},
}


def measure(settings: Settings) -> list[Row]:
    """Measures a training step of each model, with as many tokens at every length."""
    lengths, tokens = ((8, 16), 32) if settings.smoke else ((32, 64, 128, 256, 512, 1024), 4096)
    rows, first = [], {}
    for length in lengths:
        built = {model: training_step(fields, length, tokens) for model, fields in MODELS.items()}
        times = take_turns({model: step for model, (step, _) in built.items()}, settings)
        for model, (_, flops) in built.items():
            timing = timing_columns(times, model, "recurrent")
            now = timing["ms"], flops
            growth, work = (x / y for x, y in zip(now, first.setdefault(model, now), strict=True))
            rows.append(
                {"length": length, "rows": tokens // length, "model": model, **timing, "growth": growth, "work": work}
            )
    return rows


def judge(rows: Sequence[Row]) -> Judgement:
    """Compares by how much the time of a token grows."""
    longest = max(row["length"] for row in rows)
    growth = {row["model"]: row["growth"] for row in rows if row["length"] == longest}
    figures = ", ".join(f"{model} {factor:.2f}" for model, factor in growth.items())
    recurrent, *others = growth.values()
    return Judgement.of(
        recurrent > max(others),
        f"growth of the time of a token: {figures}",
        f"From the shortest rows to the longest, the time of a token is multiplied by: {figures}.",
    )


CLAIM = MeasuredClaim(
    id="O11",
    name="recurrence",
    title="a recurrent language model scales worse with length than attention",
    method=(
        "A training step of ELMo's two LSTMs, of an encoder and of a decoder, all of two layers and width 128, on ever "
        "longer and fewer rows, so that each step has 4,096 tokens. The FLOPs of a token at the shortest length are "
        "within 1 % of each other. A recurrence does the same arithmetic for a token at any length, but in as many "
        "steps as a row has tokens; attention does more arithmetic for each token, all of it at once."
    ),
    rule=(
        "from the shortest length to the longest, the time of a token grows by a larger factor in the recurrent model "
        "than in either of the others."
    ),
    doubts=(
        "a processor with two cores is hardly parallel hardware. On an accelerator the steps of a recurrence cannot run "
        "at once, while attention's extra arithmetic can, so that the order may be reversed there."
    ),
    measure=measure,
    judge=judge,
    columns={
        "length": "tokens of a row", "rows": "rows", "model": "model", "ms": "ms a step", "growth": "time of a token, growth",
        "work": "FLOPs of a token, growth",
    },
    plot=Plot("length", "ms", ("model",), "tokens of a row", "ms for a step of 4,096 tokens"),
    accelerator=True,
)  # fmt: skip
