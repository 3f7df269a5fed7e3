"""Kinds of attention."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field, as_given
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind, KindTable
from zoo.config.kinds.parallel_kinds import PARALLEL_HEADS
from zoo.config.kinds.state_kinds import KIND, STATE_KINDS

# Widths that a kind may compute from fields of its own (`Kind.widths`).
KEYS, ROTATED = "keys", "rotated"


def width_fields(kind: str, width: str) -> tuple[str, ...]:
    """Returns the paths of the fields whose sum is a width of a head: of its queries and keys
    (`KEYS`), or of their part that RoPE rotates (`ROTATED`).
    """
    return ATTENTION_KINDS.by_name[kind].widths.get(width, ("model.attention.head_dim",))


def _derive_performer(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    head_dim = flat["model.attention.head_dim"]
    return {} if head_dim == AUTO else {"model.attention.features": max(1, int(head_dim * math.log(head_dim)))}


def _plus_one_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["model.attention.sinks"]:
        yield (
            "model.attention.kind=softmax_plus_one is a sink of score 0; model.attention.sinks=true learns that score "
            "with model.attention.kind=softmax"
        )


def _sigmoid_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["model.attention.sinks"]:
        yield (
            "model.attention.kind=sigmoid has no sum over the keys in which model.attention.sinks=true could take "
            "part; leave it out"
        )


def _forgetting_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    if architecture != "decoder":
        yield (
            "model.attention.kind=forgetting forgets from left to right; it needs model.architecture=decoder, got "
            f"{flat['model.architecture']}"
        )


def _value_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["model.attention.global_projections"]:
        yield (
            f"{KIND}={flat[KIND]} mixes the values of all tokens, and model.attention.global_projections makes others "
            "for global tokens; set it to false"
        )


def _value_embedding_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _value_problems(flat, architecture)
    if (channels := flat["model.attention.value_gate_channels"]) > flat["model.dim"]:
        yield f"model.attention.value_gate_channels={channels} is more than model.dim={flat['model.dim']}"
    if channels and flat["model.parametrization"] != "standard":
        yield (
            f"model.parametrization={flat['model.parametrization']} has no rule for a gate that reads "
            f"model.attention.value_gate_channels={channels} channels at every width; set it to 0, for no gate"
        )


def _differential_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    shown = f"{KIND}=differential"
    for name in ("num_kv_heads", "cross_kv_heads"):
        count = flat[path := f"model.attention.{name}"]
        if count != AUTO and count % 2 and not (name == "cross_kv_heads" and architecture == "encoder"):
            yield f"{shown} pairs heads; {path}={count} must be even"
    refused = {
        "model.attention.exclusive": (True, "pairs of heads, which have two values"),
        "model.attention.output_norm": (True, "pairs of heads, whose output it normalises itself"),
        "model.attention.gate": ("head", "pairs of heads; set elementwise"),
    }
    for path, (value, reason) in refused.items():
        if flat[path] == value:
            yield f"{path}={as_given(value)} acts on single heads, and {shown} has {reason}"
    if flat["model.position.kind"] == "shaw" and flat["model.position.relative_values"]:
        yield (
            f"model.position.kind=shaw adds vectors to the values of single heads, and {shown} has pairs of heads; set "
            "model.position.relative_values=false"
        )


def _talking_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if dilations := flat["model.attention.dilations"]:
        yield (
            f"model.attention.dilations={as_given(dilations)} shows other keys to each head, and {KIND}=talking_heads "
            "mixes the weights of heads; leave it empty"
        )


def _derive_latent(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    head_dim, rotated = flat["model.attention.head_dim"], flat["model.position.kind"] == "rope"
    widths = {} if head_dim == AUTO else {"latent_dim": 4 * head_dim, "rotary_dim": head_dim // 2 if rotated else 0}
    return {f"model.attention.{name}": width for name, width in widths.items()}


def _latent_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    shown, heads = f"{KIND}=latent", flat["model.attention.num_heads"]
    for name in ("num_kv_heads", "num_query_heads"):
        if (count := flat[f"model.attention.{name}"]) not in (AUTO, heads):
            yield (
                f"model.attention.{name}={count} shares heads, and {shown} computes those of each head from one "
                "latent vector; leave it out"
            )
    if flat["model.attention.qk_norm"] != "none":
        yield (
            f"model.attention.qk_norm={flat['model.attention.qk_norm']} cannot be combined with {shown}, which "
            "normalises its latent vectors instead; leave it none"
        )
    if flat["model.attention.clip"]:
        yield (
            f"model.attention.clip={flat['model.attention.clip']:g} cannot be combined with {shown}, whose keys are "
            "projected from a latent vector; leave it 0"
        )
    if flat["model.attention.value_norm"]:
        yield (
            f"model.attention.value_norm=true cannot be combined with {shown}, which weighs latent vectors and not "
            "values when it decodes; leave it false"
        )
    if flat["model.attention.global_projections"]:
        yield f"model.attention.global_projections=true cannot be combined with {shown}; set it to false"
    if flat["model.position.kind"] == "shaw":
        yield f"model.position.kind=shaw adds vectors to the keys of heads, which {shown} does not keep; use another"
    if flat["model.parametrization"] != "standard":
        yield (
            f"model.parametrization={flat['model.parametrization']} takes all widths to grow with model.dim, and those "
            f"of the latent vectors of {shown} do not; leave it standard"
        )
    convolution = flat["model.convolution.kind"]
    if convolution in ("primer", "kv_shift") or (convolution == "canon" and "B" in flat["model.convolution.places"]):
        yield (
            f"model.convolution.kind={convolution} acts on the keys and values of heads, which {shown} does not "
            f"keep; {'leave B out of model.convolution.places' if convolution == 'canon' else 'use another'}"
        )


_SOFTMAX = frozenset(
    {
        "heads", "cross", "positions", "window", "documents", "prefix", "scores", "kernels", "distribution",
        "shared_keys", "own_inputs",
    }
)  # fmt: skip

HEADS_RESULT = (
    "Vaswani et al. 2017, table 3, row A, BLEU on the English-German development set at equal cost: 1 head 24.9, 4 "
    "heads 25.5, 8 and 16 heads 25.8, 32 heads 25.4."
)
SINK_RESULT = (
    "Xiao et al. 2023, table 3, models of 160M parameters that read 1,024 tokens of long texts, perplexity with 0, 1 "
    "and 4 first tokens kept beside the latest ones: softmax 27.87, 18.49, 18.05; softmax+1 29,214, 19.90, 18.01; a "
    "learned sink token 1,235, 18.01, 18.02."
)
UNSHARED_RESULTS = (
    (
        "Marin 2026 (issue 8227), mixture of experts of width 768, one run each: macro loss on Paloma 3.0208 "
        "with shared key and value heads, 2.9985 with one for each query head."
    ),
    (
        "Marin 2026 (issue 4371): sharing a key and value head among 4 query heads costs about 0.004 bits per "
        "byte at the best rate."
    ),
    (
        "Parameter-golf 2026 (pull request 2000), three seeds: 8 instead of 4 key and value heads lower the "
        "loss by 0.002 bits per byte."
    ),
)


ATTENTION_KINDS = KindTable(
    KIND,
    traits={
        "heads": "it projects tokens to the queries, keys and values of heads",
        "cross": "it can read an encoder's output",
        "positions": "it rotates queries and keys by their positions",
        "window": "it can be limited to a window of tokens",
        "documents": "it can keep packed documents apart",
        "prefix": "it can show the keys of a prefix to all tokens",
        "scores": "it forms the score of each query and key, to which position biases, sinks and caps belong",
        "kernels": "its product is one of the implementations of softmax attention",
        "zero_sink": "it has a sink of score 0",
        "distribution": "the weights of a query add up to 1",
        "weights": "its weights are no softmax of the scores of one head, which few kernels compute",
        "state": "it is a linear recurrence, which keeps a matrix for each head in place of keys and values",
        "delta": "what it stores for a key is replaced by the delta rule",
        "convolved": "it has short convolutions of its own",
        "ranked_decay": "its decays are computed by matrices of a low rank",
        "inner_norm": "it has an RMSNorm or LayerNorm of its own, of latent vectors or of what its heads have read",
        "shared_keys": "layers of it can read the keys and values of an earlier one",
        "own_inputs": "its queries, keys and values can each be projected from an input of their own",
        "reads_first": "it reads what the first layer publishes, in the same shape, so the first layer is of this kind",
    },
    kinds=(
        Kind(
            KIND,
            "softmax",
            "softmax of the scaled scores (Vaswani et al. 2017, section 3.2.1)",
            _SOFTMAX,
            code="zoo.layers.attention.softmax_attention:SoftmaxAttention",
            description=Description(
                name="multi-head",
                details=(
                    "A cache holds k and v of every token: 2 H K numbers in each layer, 2 G K where heads share them.",
                ),
                published=(HEADS_RESULT, *UNSHARED_RESULTS),
                synonyms=("mha", "multi-head-attention"),
                claims=("A7", "A8"),
                picture="heads",
            ),
        ),
        Kind(
            KIND,
            "softmax_plus_one",
            "exp(score) / (1 + sum of exp(score)): a head may attend to nothing (Miller 2023)",
            _SOFTMAX - {"distribution"} | {"zero_sink"},
            problems=_plus_one_problems,
            code="zoo.layers.attention.sigmoid_attention:SoftmaxPlusOneAttention",
            description=Description(published=(SINK_RESULT,)),
        ),
        Kind(
            KIND,
            "sigmoid",
            "sigmoid(score + b), b = -ln n, without a sum over the keys (Ramapuram et al. 2024)",
            _SOFTMAX - {"cross", "distribution"} | {"weights"},
            fields=(
                Field(
                    "model.attention.sigmoid_bias",
                    AUTO,
                    float,
                    "b, a constant that is added to every score",
                    auto="-ln(data.sequence_length)",
                    added=True,
                ),
            ),
            problems=_sigmoid_problems,
            derive=lambda flat: {"model.attention.sigmoid_bias": -math.log(flat["data.sequence_length"])},
            code="zoo.layers.attention.sigmoid_attention:SigmoidAttention",
            description=Description(
                name="sigmoid-attention",
                published=(
                    "Ramapuram et al. 2024: normalised properly, it is as good as softmax for language, images "
                    "and speech; their kernel is 17 % faster at inference than FlashAttention-2 on an H100.",
                ),
            ),
        ),
        Kind(
            KIND,
            "forgetting",
            "softmax of scores plus the sum of ln f over the tokens from key to query, f a learned gate of each token "
            "(Lin et al. 2025)",
            _SOFTMAX - {"cross", "prefix"},
            fields=(
                Field(
                    "model.attention.forget_bias",
                    0.0,
                    float,
                    "initial bias of the forget gates; f = sigmoid(bias) at first, so a larger one forgets less",
                    added=True,
                ),
            ),
            problems=_forgetting_problems,
            code="zoo.layers.attention.forgetting_attention:ForgettingAttention",
            description=Description(
                published=(
                    "Lin et al. 2025: better than a Transformer with RoPE in language modelling with long "
                    "contexts, on longer rows than in training and on tasks with short contexts; as good on tasks "
                    "with long ones.",
                ),
                synonyms=("fox",),
            ),
        ),
        Kind(
            KIND,
            "differential",
            "softmax minus lambda times a second softmax, for pairs of heads that share their values (Ye et al. 2024, "
            "Differential Transformer)",
            _SOFTMAX | {"weights"},
            fields=(
                Field(
                    "model.attention.lambda_init",
                    AUTO,
                    float,
                    "lambda_0, about which lambda begins; the output of a pair of heads is multiplied by 1 - lambda_0",
                    minimum=0,
                    maximum=0.99,
                    auto="0.8 - 0.6 exp(-0.3 l) in layer l, counted from 0",
                    added=True,
                ),
            ),
            problems=_differential_problems,
            code="zoo.layers.attention.differential_attention:DifferentialAttention",
            description=Description(
                published=(
                    "Ye et al. 2024: reaches the loss of a Transformer with about 65 % of its parameters or "
                    "tokens; better at finding facts in long texts. The authors recommend at least eight pairs of "
                    "heads.",
                ),
                synonyms=("diff-attention",),
            ),
        ),
        Kind(
            KIND,
            "talking_heads",
            "scores of the heads mixed before the softmax, and weights after it (talking heads, Shazeer et al. 2020)",
            _SOFTMAX - {"distribution"} | {"weights"},
            problems=_talking_problems,
            code="zoo.layers.attention.talking_heads_attention:TalkingHeadsAttention",
            description=Description(
                details=("It adds 2 H^2 parameters to each layer; a cache is that of multi-head attention.",),
                published=(
                    "Shazeer et al. 2020: lower perplexity in masked language modelling (T5, BERT, ALBERT), and better "
                    "results after fine-tuning.",
                ),
            ),
        ),
        Kind(
            KIND,
            "latent",
            "softmax attention to keys and values that are computed from one small vector for each token "
            "(multi-head latent attention, DeepSeek-V2)",
            _SOFTMAX - {"cross", "shared_keys", "own_inputs"} | {"inner_norm"},
            fields=(
                Field(
                    "model.attention.latent_dim",
                    AUTO,
                    int,
                    "width of the vector from which the keys and values of a token are computed",
                    minimum=1,
                    auto="4 * head_dim",
                    added=True,
                ),
                Field(
                    "model.attention.rotary_dim",
                    AUTO,
                    int,
                    "R, additional width of queries and keys, which RoPE rotates, if there is RoPE (Kimi Linear has "
                    "none); all heads share this part of a key",
                    minimum=0,
                    auto="head_dim / 2 with RoPE, otherwise 0",
                    added=True,
                ),
                Field(
                    "model.attention.query_latent_dim",
                    0,
                    int,
                    "width of the vector from which the queries of a token are computed; 0: from the layer's input",
                    minimum=0,
                    added=True,
                ),
            ),
            derive=_derive_latent,
            widths={
                KEYS: ("model.attention.head_dim", "model.attention.rotary_dim"),
                ROTATED: ("model.attention.rotary_dim",),
            },
            problems=_latent_problems,
            code="zoo.layers.attention.latent_attention:LatentAttention",
            description=Description(
                needs={"model.position.kind": "rope"},
                details=(
                    "A cache holds r + R numbers for each token and layer, multi-head attention 2 H K. With the "
                    "sizes of DeepSeek-V2 (128 heads of 128, r = 512, R = 64) these are 576 and 32,768: as few as "
                    "of grouped-query attention with 2.25 groups. The number of parameters and the time of "
                    "training depend on r: with r = 4 K the matrices W_k and W_v have 4 H K^2 elements each "
                    "instead of D H K.",
                ),
                published=(
                    "DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.4: stronger than multi-head attention, with the "
                    "cache of grouped-query attention with 2.25 groups. An author, answering a question about "
                    "dense models (DeepSeek-V2, issue 26): better than multi-head attention at 7B parameters too, "
                    "where more layers make up for fewer parameters.",
                ),
                synonyms=("mla", "latent-attention"),
                picture="heads",
            ),
        ),
        Kind(
            KIND,
            "value_residual",
            "softmax attention to values (1 - m) v + m v_1, v_1 those of the first layer (Zhou et al. 2024, ResFormer)",
            _SOFTMAX - {"shared_keys"} | {"reads_first"},
            (
                Field(
                    "model.attention.value_mix",
                    0.5,
                    float,
                    "m, share of the first layer's values",
                    above=0,
                    maximum=1,
                    added=True,
                ),
                Field(
                    "model.attention.value_mix_learned",
                    False,
                    bool,
                    "m is a number that each layer learns, and begins at `value_mix`",
                    added=True,
                ),
            ),
            problems=_value_problems,
            code="zoo.layers.attention.value_mixing:ValueResidualAttention",
            description=Description(
                published=(
                    (
                        "Zhou et al. 2024: reaches the loss of a Transformer with 16.11 % fewer parameters or 20.3 % "
                        "fewer tokens; a submission of the same paper in February 2025 has 13.3 % and 15.4 %."
                    ),
                    (
                        "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, "
                        "validation loss: 3.3274 without, 3.3151 with m = 1/2. Runs differ by 0.0014 (standard "
                        "deviation)."
                    ),
                )
            ),
        ),
        Kind(
            KIND,
            "value_embedding",
            "softmax attention to values v + gate * E[token], with a table E in every such layer (nanochat)",
            _SOFTMAX - {"shared_keys"},
            (
                Field(
                    "model.attention.value_gate_channels",
                    12,
                    int,
                    "number of channels of a token's input that its gate reads; 0: no gate",
                    minimum=0,
                    added=True,
                ),
            ),
            problems=_value_embedding_problems,
            code="zoo.layers.attention.value_mixing:ValueEmbeddingAttention",
            description=Description(
                published=(
                    "Karpathy 2026 (nanochat's experiment log): better at equal steps, FLOPs and time, best in "
                    "every other layer; the gate helps. Sharing tables or making them smaller loses the gain.",
                )
            ),
        ),
        Kind(
            KIND,
            "performer",
            "softmax attention approximated by positive orthogonal random features, linear in T (FAVOR+, Choromanski "
            "et al. 2021)",
            frozenset({"heads", "cross", "positions"}),
            fields=(
                Field(
                    "model.attention.features",
                    AUTO,
                    int,
                    "number of random features of a head",
                    minimum=1,
                    auto="K * ln(K)",
                ),
                Field(
                    "model.attention.redraw_every",
                    1000,
                    int,
                    "steps between new random features; 0 keeps the first",
                    minimum=0,
                ),
            ),
            derive=_derive_performer,
            code="zoo.layers.attention.performer_attention:PerformerAttention",
            description=Description(
                source="zoo.layers.attention.favor:performer_attention",
                details=(
                    "phi(x)_j = exp(w_j . x - |x|^2 / 2), with M random vectors w_j in orthogonal blocks: its "
                    "expected product is exp(q . k). q and k are multiplied by K^(-1/4) first.",
                ),
            ),
        ),
        *STATE_KINDS,
        PARALLEL_HEADS,
    ),
    needs={
        "model.attention.window": "window",
        "model.attention.dilations": "scores",
        "model.attention.global_tokens": "scores",
        "model.attention.global_projections": "scores",
        "model.attention.softcap": "scores",
        "model.attention.sinks": "scores",
        "model.attention.dropout": "scores",
        "model.attention.gate_input": "heads",
        "model.attention.qk_norm_scale": "heads",
        "model.attention.output_bias": "heads",
        "model.attention.exclusive": "scores",
        "model.attention.ssmax": "scores",
        "model.attention.keys_from": "shared_keys",
        "data.isolate_documents": "documents",
    },
    part="attention",
)
