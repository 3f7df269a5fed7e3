"""Kinds of attention that keep a state in place of keys and values."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.description import Description, Paper
from zoo.config.kinds.kind import Kind

KIND = "model.attention.kind"


def _derive_state(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the sizes of a kind with a state."""
    attention = {name: flat[f"model.attention.{name}"] for name in ("num_heads", "head_dim", "value_dim")}
    mamba = flat[KIND] == "mamba2"
    width = 2 * flat["model.dim"] // attention["num_heads"] if mamba else attention["head_dim"]
    value_dim = width if attention["value_dim"] == AUTO else attention["value_dim"]
    found = {
        "value_dim": width,
        "key_heads": 1 if mamba else attention["num_heads"],
        "decay_rank": value_dim if flat[KIND] == "kimi_delta" else 16,
        "convolution_width": 4,
    }
    read = {"decay_rank": "ranked_decay", "convolution_width": "convolved"}
    traits = next(kind.traits for kind in STATE_KINDS if kind.name == flat[KIND])
    return {
        f"model.attention.{name}": value
        for name, value in found.items()
        if value != AUTO and (name not in read or read[name] in traits)
    }


def _causal_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    if architecture != "decoder":
        yield (
            f"{KIND}={flat[KIND]} reads a row from left to right; it needs model.architecture=decoder, got "
            f"{flat['model.architecture']}"
        )
    if flat["model.attention.convolution_width"] == 1:
        yield "model.attention.convolution_width=1 mixes no tokens; give at least 2, or 0 for no convolution"
    if flat["model.parametrization"] != "standard":
        yield (
            f"model.parametrization={flat['model.parametrization']} has no rule for the gates and the state of "
            f"{KIND}={flat[KIND]}; leave it standard"
        )


def _gated_convolution_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _causal_problems(flat, architecture)
    if flat["model.attention.convolution_width"] == 0:
        yield f"model.attention.convolution_width=0: a convolution is all that {KIND}={flat[KIND]} has; give at least 2"


def _state_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _causal_problems(flat, architecture)
    heads, key_heads, chunk = (flat[f"model.attention.{name}"] for name in ("num_heads", "key_heads", "chunk_tokens"))
    if key_heads != AUTO and heads % key_heads:
        yield f"model.attention.num_heads={heads} is not divisible by model.attention.key_heads={key_heads}"
    if chunk & (chunk - 1):
        yield f"model.attention.chunk_tokens={chunk} must be a power of two, such as 64"
    if flat["model.attention.head_dim"] == AUTO:
        yield (
            f"model.dim={flat['model.dim']} is not divisible by model.attention.num_heads={heads}; change one, or set "
            "model.attention.head_dim"
        )
    if flat[KIND] == "mamba2" and flat["model.attention.value_dim"] == 0:
        yield f"2 * model.dim={2 * flat['model.dim']} is less than model.attention.num_heads={heads}; use fewer heads"


def _derive_rwkv7(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the sizes of RWKV-7: ranks grow with the root of the width, in steps of 32."""
    ranks = {"decay_rank": 2.5, "rate_rank": 2.5, "value_rank": 1.7, "gate_rank": 5.0}
    root = flat["model.dim"] ** 0.5
    found = {f"model.attention.{name}": max(32, 32 * round(factor * root / 32)) for name, factor in ranks.items()}
    return {**_derive_state(flat), **found}


def _rwkv7_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _state_problems(flat, architecture)
    heads, key_heads, chunk = (flat[f"model.attention.{name}"] for name in ("num_heads", "key_heads", "chunk_tokens"))
    if key_heads not in (AUTO, heads):
        yield (
            f"model.attention.key_heads={key_heads}: the heads of {KIND}=rwkv7 share no keys; leave it at "
            f"model.attention.num_heads={heads}"
        )
    if chunk > 64:
        yield (
            f"model.attention.chunk_tokens={chunk}: {KIND}=rwkv7 divides by the decays of a chunk, which float32 "
            "holds up to 64 tokens; give at most 64"
        )


_STATE = frozenset({"state", "documents"})
_NORMED = _STATE | {"inner_norm"}

STATE_KINDS = (
    Kind(
        KIND,
        "linear",
        "sums of (elu(q) + 1) . (elu(k) + 1) v, divided by their weights (linear attention, Katharopoulos et al. 2020)",
        _STATE,
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_linear_attention:LinearAttention",
        description=Description(
            name="linear-attention",
            published=(
                "Arora et al. 2023 (Zoology): recall of earlier pairs of keys and values explains most of the "
                "difference between attention and models with a state of one size.",
            ),
            sources=(
                Paper(
                    "Arora et al. 2023",
                    "Zoology: Measuring and Improving Recall in Efficient Language Models",
                    "arXiv:2312.04927",
                ),
            ),
        ),
    ),
    Kind(
        KIND,
        "retnet",
        "linear attention with a constant decay of each head, normed and gated (Sun et al. 2023, RetNet)",
        _NORMED | {"positions"},
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_linear_attention:Retention",
        description=Description(
            published=(
                "Sun et al. 2023: lower perplexity than a Transformer from 2B parameters on, with a cache of one size.",
            )
        ),
    ),
    Kind(
        KIND,
        "gated_linear",
        "linear attention with a gate of each token that decays each element of the state (GLA, Yang et al. 2023)",
        _NORMED | {"ranked_decay"},
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_linear_attention:GatedLinearAttention",
        description=Description(name="gated-linear-attention", synonyms=("gla",)),
    ),
    Kind(
        KIND,
        "hgrn2",
        "linear attention whose forget gate of each element is also its key, 1 - f (HGRN-2, Qin et al. 2024)",
        _NORMED,
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_linear_attention:HGRN2",
        description=Description(
            details=("The paper has heads of 128 elements, and bounds of the gates that rise with the layer.",),
            synonyms=("hgrn-2",),
        ),
    ),
    Kind(
        KIND,
        "lightning",
        "linear attention with a constant decay of each head and layer, normed and gated (MiniMax 2025)",
        _NORMED,
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_linear_attention:LightningAttention",
        description=Description(
            name="lightning-attention",
            details=("MiniMax-01 has seven such layers before each layer of softmax attention.",),
        ),
    ),
    Kind(
        KIND,
        "delta",
        "linear attention whose state is corrected by the delta rule (DeltaNet, Schlag et al. 2021)",
        _NORMED | {"delta", "convolved"},
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_delta:DeltaNet",
        description=Description(name="deltanet"),
    ),
    Kind(
        KIND,
        "gated_delta",
        "delta rule with a decay of the whole state by each token (Gated DeltaNet, Yang et al. 2024a; Qwen3-Next)",
        _NORMED | {"delta", "convolved"},
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_delta:GatedDeltaNet",
        description=Description(
            name="gated-deltanet",
            details=(
                "Qwen3-Next has three such layers before each layer of full attention, with 32 heads of "
                "values, 16 of keys, and K = V = 128.",
            ),
            synonyms=("gdn",),
        ),
    ),
    Kind(
        KIND,
        "kimi_delta",
        "delta rule with a decay of each element of a key by each token (Kimi Delta Attention, Kimi Team 2025)",
        _NORMED | {"delta", "convolved", "ranked_decay"},
        (
            Field(
                "model.attention.gate_bias",
                True,
                bool,
                "the output gates have a bias; False: as in the published models (Kimi-Linear-48B-A3B)",
                added=True,
            ),
        ),
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.gated_delta:KimiDeltaAttention",
        description=Description(name="kimi-delta-attention", synonyms=("kda",)),
    ),
    Kind(
        KIND,
        "mamba2",
        "state space model with one decay of each head (Mamba-2, Dao & Gu 2024)",
        _NORMED | {"convolved"},
        derive=_derive_state,
        problems=_state_problems,
        code="zoo.layers.attention.mamba2:Mamba2",
        description=Description(
            details=(
                "Mamba-2 itself consists of such layers alone: a feed-forward layer after each is that of a "
                "hybrid. The paper has a state size of 128, heads of 64 and 2 D values in all.",
            ),
            synonyms=("ssd",),
        ),
    ),
    Kind(
        KIND,
        "rwkv7",
        "state that is erased along one vector of each token and written along another (RWKV-7, Peng et al. 2025)",
        _NORMED | {"ranked_decay", "reads_first"},
        (
            Field(
                "model.attention.rate_rank",
                AUTO,
                int,
                "rank of the matrices of rates, by which a token takes off what is stored",
                minimum=1,
                auto="2.5 * sqrt(dim), to a multiple of 32, at least 32",
                added=True,
            ),
            Field(
                "model.attention.value_rank",
                AUTO,
                int,
                "rank of the matrices of gates that mix the values with those of the first layer; 0: not mixed",
                minimum=0,
                auto="1.7 * sqrt(dim), likewise",
                added=True,
            ),
            Field(
                "model.attention.gate_rank",
                AUTO,
                int,
                "rank of the matrices of output gates",
                minimum=1,
                auto="5 * sqrt(dim), likewise",
                added=True,
            ),
        ),
        derive=_derive_rwkv7,
        problems=_rwkv7_problems,
        code="zoo.layers.attention.rwkv7:RWKV7",
        description=Description(
            details=(
                "The paper has heads of 64 elements, and a feed-forward layer with squared ReLU that also reads the "
                "token before; `model.ffn.kind=relu_squared` is its nearest.",
            ),
            synonyms=("goose", "rwkv-7"),
        ),
    ),
    Kind(
        KIND,
        "gated_convolution",
        "causal convolution of a few tokens between two gates (LFM2, Liquid AI 2025)",
        frozenset({"documents", "convolved"}),
        derive=lambda flat: {"model.attention.convolution_width": 3},
        problems=_gated_convolution_problems,
        code="zoo.layers.attention.gated_convolution:GatedConvolution",
        description=Description(
            details=("LFM2 has one layer of grouped-query attention for about two of these.",),
            synonyms=("lfm2-convolution",),
        ),
    ),
)
