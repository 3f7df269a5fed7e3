"""Kinds of position encodings."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.attention_kinds import ROTATED, width_fields
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind, KindTable
from zoo.config.kinds.objective_kinds import OBJECTIVE_KINDS, is_prefix_decoder
from zoo.config.kinds.side_lengths import side_lengths

KIND = "model.position.kind"
SCALED = ("model.position.scaling.kind", ("linear", "dynamic", "yarn", "llama3", "longrope"))
SCALED_BY_LENGTH = ("model.position.scaling.kind", ("dynamic", "yarn", "llama3", "longrope"))
FACTORS = ("model.position.scaling.short_factors", "model.position.scaling.long_factors")

_LEARNED: tuple[Field, ...] = (
    Field(
        "model.position.max_length",
        AUTO,
        int,
        "rows of the learned table; no sequence can be longer",
        minimum=1,
        auto="data.sequence_length, or the longer side of an encoder-decoder",
    ),
)

_SINUSOIDAL: tuple[Field, ...] = (
    Field(
        "model.position.endpoint",
        False,
        bool,
        "sinusoids' frequencies end at 1/10000: powers i/(D/2 - 1) in place of 2i/D (fairseq)",
    ),
)

_ROPE: tuple[Field, ...] = (
    Field("model.position.theta", 10000.0, float, "base of RoPE's wavelengths", above=0),
    Field(
        "model.position.fraction", 1.0, float, "share of each head's dimensions that RoPE rotates", above=0, maximum=1
    ),
    Field(
        "model.position.kept_frequencies",
        1.0,
        float,
        "p of p-RoPE: share of RoPE's frequencies that are kept, the highest ones; the others are set to 0",
        above=0,
        maximum=1,
        added=True,
    ),
    Field(
        "model.position.scaling.kind",
        "none",
        str,
        "how RoPE is stretched over longer sequences than it was trained with",
        {
            "none": "not at all",
            "linear": "positions divided by `factor` (Chen et al. 2023)",
            "dynamic": "theta grows with the length of the sequence beyond `original_length` (dynamic NTK)",
            "yarn": "short wavelengths kept, long ones divided by `factor`, scores sharpened (Peng et al. 2023)",
            "llama3": "short wavelengths kept, long ones divided by `factor`, a ramp between (LLaMA 3.1)",
            "longrope": "each frequency divided by a factor of its own, another one beyond `original_length`, scores "
            "sharpened (LongRoPE, Ding et al. 2024; Phi-3)",
        },
    ),
    Field(
        "model.position.scaling.factor", 1.0, float, "how many times longer sequences become", minimum=1, when=SCALED
    ),
    Field(
        "model.position.scaling.original_length",
        2048,
        int,
        "sequence length that RoPE was trained with, in tokens",
        minimum=1,
        when=SCALED_BY_LENGTH,
    ),
    Field(
        "model.position.scaling.low",
        AUTO,
        float,
        "pairs with fewer rotations over `original_length` than this are fully interpolated (divided by `factor`)",
        above=0,
        auto="1",
        when=("model.position.scaling.kind", ("yarn", "llama3")),
    ),
    Field(
        "model.position.scaling.high",
        AUTO,
        float,
        "pairs with more rotations over `original_length` than this are not interpolated",
        above=0,
        auto="32 for yarn, 4 for llama3",
        when=("model.position.scaling.kind", ("yarn", "llama3")),
    ),
    *(
        Field(
            path,
            (),
            tuple,
            f"what the frequency of each pair is divided by, in rows {rows}; empty: 1 for all",
            above=0,
            items=float,
            when=("model.position.scaling.kind", ("longrope",)),
            added=True,
        )
        for path, rows in zip(FACTORS, ("of up to `original_length` tokens", "that are longer"), strict=True)
    ),
    Field(
        "model.position.scaling.truncate",
        True,
        bool,
        "the ramp of YaRN begins and ends at whole numbers of pairs, as in the authors' code; False: where the "
        "rotations are exactly `high` and `low` (gpt-oss)",
        when=("model.position.scaling.kind", ("yarn",)),
        added=True,
    ),
    Field(
        "model.position.scaling.sharpening",
        0.0,
        float,
        "factor of YaRN on rotated queries and keys; 0: 0.1 ln(`factor`) + 1 (DeepSeek V3: 1, with a factor on the "
        "scores of all elements)",
        minimum=0,
        when=("model.position.scaling.kind", ("yarn",)),
        added=True,
    ),
)

_BUCKETS: tuple[Field, ...] = (
    Field("model.position.buckets", 32, int, "number of buckets of distance", minimum=4),
    Field(
        "model.position.max_distance", 128, int, "from this distance on, all distances share the last bucket", minimum=2
    ),
    Field("model.position.shared", True, bool, "one table for all layers (T5); False: one per layer (umT5)"),
)

_ALIBI: tuple[Field, ...] = (
    Field(
        "model.position.scaled",
        False,
        bool,
        "ALiBi's penalty is multiplied by the factor on the scores (`attention.scale`), as they are (Falcon-RW)",
        added=True,
    ),
)

_SHAW: tuple[Field, ...] = (
    Field("model.position.clip", 16, int, "k, the distance at which relative positions are clipped", minimum=0),
    Field("model.position.relative_values", True, bool, "values get relative vectors too; False: keys only"),
)


def _derive_learned(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    # A side of an encoder-decoder can be longer than a short row.
    objective = {
        path.removeprefix("objective."): value for path, value in flat.items() if path.startswith("objective.")
    }
    length, kind = flat["data.sequence_length"], objective["kind"]
    shorter = kind in OBJECTIVE_KINDS.having("prefix") or (kind in OBJECTIVE_KINDS.having("spans") and length < 2)
    sides = () if shorter else side_lengths(objective, length)
    last = max(flat["data.position_offsets"], default=0)
    return {"model.position.max_length": max([length + last, *sides])}


def _learned_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    length, last = flat["data.sequence_length"], max(flat["data.position_offsets"], default=0)
    # Both sides of an encoder-decoder are checked with their objective, which says how long they are.
    if flat["model.architecture"] != "encoder_decoder" and flat["model.position.max_length"] < length + last:
        yield (
            f"model.position.max_length={flat['model.position.max_length']} is shorter than "
            f"data.sequence_length={length}"
            f"{f' from data.position_offsets={last} on' if last else ''}: learned positions cannot go past their table"
        )


def _derive_sinusoidal(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    del flat
    return {"model.position.layout": "interleaved"}


def _derive_rope(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    limits = {"yarn": (1.0, 32.0), "llama3": (1.0, 4.0)}.get(flat["model.position.scaling.kind"])
    scaling = "model.position.scaling"
    return {"model.position.layout": "half"} | (
        {f"{scaling}.low": limits[0], f"{scaling}.high": limits[1]} if limits else {}
    )


def _sinusoidal_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    narrow = flat["model.embedding.dim"] and flat["model.embedding.projection"] == "sum"
    path = "model.embedding.dim" if narrow else "model.dim"
    dim = flat[path]
    if dim % 2:
        yield f"sinusoidal positions pair sines with cosines: {path}={dim} must be even"
    if flat["model.position.endpoint"] and dim < 4:
        yield f"model.position.endpoint=true needs a first and a last wavelength: {path}={dim} must be at least 4"


def _rope_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    (path,) = width_fields(flat["model.attention.kind"], ROTATED)
    width = flat[path]
    if width == AUTO:
        return
    rotated = width * flat["model.position.fraction"]
    if abs(rotated - round(rotated)) > 1e-6 or round(rotated) % 2 or round(rotated) == 0:
        yield (
            f"RoPE rotates pairs: {path}={width} times model.position.fraction="
            f"{flat['model.position.fraction']:g} is {rotated:g}, not an even number"
        )
    kept = flat["model.position.kept_frequencies"]
    pairs = round(rotated) // 2 * kept
    if abs(pairs - round(pairs)) > 1e-6 or round(pairs) == 0:
        yield (
            f"model.position.kept_frequencies={kept:g} of {round(rotated) // 2} frequencies is {pairs:g}, not a whole "
            "number of at least 1"
        )
    scaling = flat["model.position.scaling.kind"]
    if scaling == "dynamic" and round(rotated) <= 2:
        yield (
            "model.position.scaling.kind=dynamic needs more than two rotated dimensions of a head, "
            f"got {round(rotated)}"
        )
    for path in FACTORS if scaling == "longrope" else ():
        if flat[path] and len(flat[path]) != round(rotated) // 2:
            yield (
                f"{path} has {len(flat[path])} numbers; model.position.scaling.kind=longrope needs one for each of the "
                f"{round(rotated) // 2} pairs that RoPE rotates"
            )
    if scaling in ("dynamic", "longrope") and flat["data.isolate_documents"]:
        yield (
            f"model.position.scaling.kind={scaling} reads one length of all rows, so that with "
            "data.isolate_documents=true documents would depend on the longest one; leave out one of them"
        )
    if scaling == "longrope" and flat["model.position.scaling.original_length"] < 2:
        yield "model.position.scaling.original_length=1: model.position.scaling.kind=longrope needs at least 2"
    unstretched = scaling == "longrope" and all(set(flat[path]) <= {1.0} for path in FACTORS)
    if (scaling in ("linear", "yarn", "llama3") or unstretched) and flat["model.position.scaling.factor"] == 1:
        yield (
            f"model.position.scaling.kind={scaling} has no effect with model.position.scaling.factor=1; set the factor"
        )
    if scaling in ("yarn", "llama3"):
        low, high = flat["model.position.scaling.low"], flat["model.position.scaling.high"]
        if low >= high:
            yield f"model.position.scaling.low={low:g} must be below model.position.scaling.high={high:g}"
        if scaling == "yarn" and flat["model.position.theta"] <= 1:
            yield (
                "model.position.scaling.kind=yarn needs model.position.theta above 1, "
                f"got {flat['model.position.theta']:g}"
            )


def _relative_bias_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    # For both sides together the decoder's limit is the tighter one.
    buckets = flat["model.position.buckets"] // (2 if architecture == "encoder" else 1)
    if flat["model.position.buckets"] % 4:
        yield (
            f"model.position.buckets={flat['model.position.buckets']} must be divisible by 4: two directions, near "
            "and far"
        )
    if flat["model.position.max_distance"] <= buckets // 2:
        yield (
            f"model.position.max_distance={flat['model.position.max_distance']} must be above {buckets // 2}: with "
            f"model.position.buckets={flat['model.position.buckets']} the distances up to there have a bucket each"
        )
    if is_prefix_decoder(flat, architecture):
        yield (
            f"objective.kind={flat['objective.kind']} lets early tokens of a row see later ones, for which "
            "model.position.kind=relative_bias has no buckets in a decoder; use another, or "
            "model.architecture=encoder_decoder"
        )


def _shaw_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["model.attention.global_tokens"]:
        yield "model.attention.global_tokens cannot be combined with model.position.kind=shaw"


CLIPPED_RESULT = (
    "The same, table 2, distances clipped at k: k = 0 12.5, k = 1 25.5, k = 2 25.8, k = 16 25.8. Vectors for keys "
    "alone are as good as for keys and values (25.8), for values alone 25.3."
)
_GENERALISATION_RESULT = (
    "Kazemnejad et al. 2023, decoders on reasoning and arithmetic longer than those of training: without positions "
    "they generalise better than with absolute positions, T5's bias, ALiBi or RoPE."
)
_LENGTHS_RESULT = (
    "Press et al. 2021, perplexity on WikiText-103, trained on 512 tokens and evaluated on 512, 1,012 and 3,512: "
    "sinusoidal 20.05, 43.54, 178.97; RoPE 20.07, 21.37, 35.54; T5's bias 19.65, 18.79, 22.91; ALiBi 19.73, 18.73, "
    "18.40."
)


POSITION_KINDS = KindTable(
    KIND,
    traits={
        "embedded": "it adds a vector to the token embeddings; others act inside attention, where layers may differ",
        "pairs": "it pairs dimensions, whose layout can be set",
        "score_bias": "it adds to the scores",
        "value_bias": "it adds to the values that attention reads",
    },
    kinds=(
        Kind(
            KIND,
            "none",
            "no positions: only the causal mask gives an order (NoPE)",
            code="zoo.layers.position.base:Position",
            description=Description(
                name="nope",
                equation=(
                    "x_t = E[token_t]: in a decoder only the causal mask conveys order; an encoder is equivariant "
                    "to permutations."
                ),
                paper="Haviv et al. 2022; Kazemnejad et al. 2023",
                details=("Switched off: the table of positions and everything else that depends on positions.",),
                published=(
                    (
                        "Shaw et al. 2018, table 2: an encoder-decoder without any positions reaches 12.5 BLEU "
                        "instead of 25.8."
                    ),
                    _GENERALISATION_RESULT,
                    (
                        "Allen-Zhu 2025, synthetic tasks: with Canon layers a model without positions is as good as "
                        "one with RoPE."
                    ),
                ),
                claims=("P1",),
            ),
        ),
        Kind(
            KIND,
            "learned",
            "a learned vector per position, added to the embedding (Gehring et al. 2017; GPT)",
            frozenset({"embedded"}),
            fields=_LEARNED,
            problems=_learned_problems,
            derive=_derive_learned,
            code="zoo.layers.position.absolute:Learned",
            description=Description(
                published=(
                    "Vaswani et al. 2017, table 3, row E: BLEU 25.7, with sinusoids 25.8; perplexity 4.92 with both.",
                )
            ),
        ),
        Kind(
            KIND,
            "sinusoidal",
            "a fixed sine/cosine vector, added to the embedding (Vaswani et al. 2017, section 3.5)",
            frozenset({"embedded", "pairs"}),
            fields=_SINUSOIDAL,
            problems=_sinusoidal_problems,
            derive=_derive_sinusoidal,
            code="zoo.layers.position.absolute:Sinusoidal",
            description=Description(
                published=(
                    (
                        "Vaswani et al. 2017, table 3, row E: BLEU 25.8, with learned vectors 25.7; perplexity 4.92 "
                        "with both."
                    ),
                    _LENGTHS_RESULT,
                ),
                synonyms=("sinusoid",),
                claims=("P4",),
                picture="positions",
            ),
        ),
        Kind(
            KIND,
            "rope",
            "queries and keys rotated by position, in every layer (Su et al. 2021)",
            frozenset({"pairs"}),
            fields=_ROPE,
            problems=_rope_problems,
            derive=_derive_rope,
            code="zoo.layers.position.rope:Rope",
            description=Description(
                details=(
                    "frequency_i = theta^(-2i/K), i = 0 .. K/2 - 1, with theta = 10,000 by default; pair i is the "
                    "dimensions i and i + K/2 of a head. Its wavelength is 2 pi / frequency_i tokens.",
                    "What falls with distance is an upper bound on the score (Su et al. 2021, section 3.4.3), not "
                    "the score. A rotation keeps norms, so that random queries and keys of variance 1 score sqrt(K) "
                    "in root mean square at every distance: 11.3 for K = 128, next to each other and 2,000 tokens "
                    "apart. And a key, turned back by a distance, is a query that scores this key highest at that "
                    "distance. Whether far tokens matter less is learned (Barbero et al. 2024).",
                ),
                published=(
                    (
                        "Su et al. 2021, table 1: BLEU on WMT14 English-German 27.5, the Transformer with sinusoids "
                        "27.3."
                    ),
                    _LENGTHS_RESULT,
                    _GENERALISATION_RESULT,
                ),
                synonyms=("rotary", "rotary-embedding", "rotary-position-embedding"),
                claims=("P5", "P6", "P9", "P12"),
                picture="positions",
            ),
        ),
        Kind(
            KIND,
            "alibi",
            "a penalty on the score, linear in distance, per head (Press et al. 2021)",
            frozenset({"score_bias"}),
            _ALIBI,
            code="zoo.layers.position.relative:Alibi",
            description=Description(
                details=(
                    "slope_h = 2^(-8 (h + 1) / H) for H a power of two: 1/2, 1/4 ... 1/256 for 8 heads. For "
                    "another H, with n the next lower power of two: the n slopes of n heads, then the first, "
                    "third, fifth ... of the slopes of 2 n heads.",
                ),
                published=(_LENGTHS_RESULT, _GENERALISATION_RESULT),
                picture="positions",
            ),
        ),
        Kind(
            KIND,
            "relative_bias",
            "a learned number per head and bucket of distance, added to the score (Raffel et al. 2020; T5)",
            frozenset({"score_bias"}),
            fields=_BUCKETS,
            problems=_relative_bias_problems,
            code="zoo.layers.position.relative:RelativeBias",
            description=Description(
                details=(
                    "With n buckets and d = t - s >= 0, in a decoder: bucket = d for d < n/2; beyond that n/2 + "
                    "floor(n/2 * log(d / (n/2)) / log(max_distance / (n/2))), at most n - 1. In an encoder both "
                    "directions have n/2 buckets by the same rule, those of keys after the query behind the "
                    "others. T5 has n = 32 and max_distance = 128.",
                ),
                published=(_LENGTHS_RESULT, _GENERALISATION_RESULT),
                synonyms=("t5-bias",),
                claims=("P8",),
                picture="positions",
            ),
        ),
        Kind(
            KIND,
            "shaw",
            "a learned vector per clipped distance, added to keys and values (Shaw et al. 2018)",
            frozenset({"score_bias", "value_bias"}),
            fields=_SHAW,
            problems=_shaw_problems,
            code="zoo.layers.position.relative:ShawPosition",
            description=Description(
                published=(
                    (
                        "Shaw et al. 2018, table 1, BLEU with sinusoids and with relative positions: English-German "
                        "26.5, 26.8 (base) and 27.9, 29.2 (big)."
                    ),
                    CLIPPED_RESULT,
                ),
                picture="positions",
            ),
        ),
    ),
    part="position",
)
