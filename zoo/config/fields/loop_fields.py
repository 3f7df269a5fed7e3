"""Fields of layers that share their weights, and of loops over them."""

from zoo.config.field import Field

_LOOPED = ("model.layers.sharing", ("cycle",))

LOOP_FIELDS: tuple[Field, ...] = (
    Field(
        "model.layers.distinct",
        0,
        int,
        "n, number of layers with weights of their own, which the L layers share (ALBERT: 1); 0: all L",
        minimum=0,
        added=True,
    ),
    Field(
        "model.layers.sharing",
        "sequence",
        str,
        "which layers have the same weights, where `distinct` is set (Takase & Kiyono 2021)",
        {
            "sequence": "neighbours: each stored layer is applied L / n times in a row",
            "cycle": "the stored layers are applied in turn, again and again, between `prelude` and `coda`",
        },
        added=True,
        synonyms=("looped", "recurrent-depth"),
    ),
    Field(
        "model.layers.prelude",
        0,
        int,
        "P, number of the first layers that are applied once, before the loop; they are among the n",
        minimum=0,
        when=_LOOPED,
        added=True,
    ),
    Field(
        "model.layers.coda",
        0,
        int,
        "C, number of the last layers that are applied once, after the loop; they are among the n",
        minimum=0,
        when=_LOOPED,
        added=True,
    ),
    Field(
        "model.layers.reinjection",
        False,
        bool,
        "each loop after the first reads x + e, the last loop's output and what entered the first (Yang et al. 2024c)",
        when=_LOOPED,
        added=True,
        synonyms=("input-injection",),
    ),
    Field(
        "model.layers.loop_draws",
        "none",
        str,
        "number of loops of an update; r = (L - P - C) / (n - P - C) is its mean",
        {
            "none": "always r",
            "uniform": "drawn for each update, every number from 1 to 2 r - 1 as likely",
            "poisson": "drawn for each update, 1 + Poisson(exp(N(log(r - 1) - 1/8, 1/2))), at most 3 r (Geiping et al. "
            "2025)",
        },
        when=_LOOPED,
        added=True,
    ),
    Field(
        "model.layers.eval_loops",
        0,
        int,
        "number of loops in evaluation and generation; 0: r",
        minimum=0,
        maximum=10_000,
        when=_LOOPED,
        added=True,
    ),
)
