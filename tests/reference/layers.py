"""Layers: norms, attention and feed-forwards in float64 numpy, from the papers' equations.

A config is the `model` part of a resolved one. Parameters are nested dicts.
"""

from functools import partial
from types import SimpleNamespace

import numpy as np
from ml_collections import FrozenConfigDict
from scipy.special import erf

from tests.reference import positions as schemes
from tests.reference.convolutions import convolved, convolved_rows, shifted
from tests.reference.heads import (
    exclusive,
    expanded,
    forgotten,
    gated,
    lengthened,
    normed,
    paired_values,
    subtracted,
    talking,
)
from tests.reference.recurrences import KINDS, recurrent_layer
from tests.reference.rows import overlaid, visible
from tests.reference.rwkv7 import rwkv7_layer


def layer_norm(x, scale=1.0, bias=0.0, epsilon=0.0):
    """Ba et al. 2016, eq. 4, with epsilon inside the root."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


def rms_norm(x, scale=1.0, epsilon=0.0):
    """Zhang & Sennrich 2019, eq. 4, with epsilon inside the root."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * scale


def batch_moments(x, positions):
    """Ioffe & Szegedy 2015, algorithm 1: per dimension mean, variance, and m / (m - 1) times it
    (section 3.1), over m filled slots.
    """
    tokens = [x[b, t] for b in range(len(x)) for t in range(x.shape[1]) if positions[b, t] >= 0]
    m = len(tokens)
    mean = sum(tokens) / m
    variance = sum((token - mean) ** 2 for token in tokens) / m
    return mean, variance, variance * m / (m - 1)


def norm(config, params, x, rows=None):
    """The norm that a config names. `norm.scale` and `norm.bias` are the factor and the shift, and
    nothing else.
    """
    kind, epsilon, params = config.norm.kind, config.norm.epsilon, params or {}
    if kind == "none":
        return x
    scale, bias = params.get("scale", 0.0 if config.norm.unit_offset else 1.0), params.get("bias", 0.0)
    if kind == "layernorm":
        return layer_norm(x, 1 + scale if config.norm.unit_offset else scale, bias, epsilon)
    if kind == "rmsnorm":
        return rms_norm(x, 1 + scale if config.norm.unit_offset else scale, epsilon)
    if kind == "unit":
        # Loshchilov et al. 2024, section 2.1, times a scale.
        return x / np.sqrt((x**2).sum(axis=-1, keepdims=True)) * scale
    if kind == "gated_rmsnorm":
        # Qiu et al. 2026.
        y = rms_norm(x, 1 + scale if config.norm.unit_offset else scale, epsilon)
        h = y @ params["down"]["kernel"]
        return y / (1 + np.exp(-(h / (1 + np.exp(-h))) @ params["up"]["kernel"]))
    if kind == "scalenorm":
        # Nguyen & Salazar 2019, with epsilon as in RMSNorm.
        D = x.shape[-1]
        return params.get("scale", D**0.5) * x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + D * epsilon)
    if kind == "dyt":
        # Zhu et al. 2025, section 4.
        return np.tanh(params["alpha"] * x) * scale + bias
    if kind == "derf":
        # Chen et al. 2025.
        return erf(params["alpha"] * x + params["shift"]) * scale + bias
    if kind == "centering":
        return (x - x.mean(axis=-1, keepdims=True)) * scale + bias
    assert kind == "batchnorm"
    if rows.training:
        mean, variance, unbiased = batch_moments(x, rows.positions)
        rows.moments.append((mean, unbiased))
    else:
        mean, variance = params["mean"], params["variance"]
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


def attention(
    q,
    k,
    v,
    seen,
    scale,
    score=None,
    softcap=0.0,
    sinks=None,
    relative_keys=None,
    relative_values=None,
    sigmoid_bias=None,
    mixed=None,
):
    """Vaswani et al. 2017, eq. 1, for one row: q [T, H, K], k [S, G, K], v [S, G, V], seen [T, S]
    or [H, T, S], score [H, T, S].

    H / G neighbouring query heads share a key/value head (Ainslie et al. 2023, figure 2). Shaw et
    al. 2018, eq. 3 and 4, add `relative_keys` and `relative_values` [T, S, K] to keys and values. A
    soft cap c makes a score c tanh(score / c); a sink is one more score of a head, of a key whose
    value is zero. A query that sees nothing gives NaN, with a sink zero. With a `sigmoid_bias` b a
    weight is sigmoid(score + b) (Ramapuram et al. 2024). With `mixed` (P_l, P_w) heads exchange scores
    and weights.
    """
    (T, H, _), (_, G, V) = q.shape, v.shape
    out = np.zeros((T, H, V))
    if mixed is not None:
        return talking(q, k, v, seen, scale, score, softcap, sinks, relative_keys, relative_values, *mixed)
    for h in range(H):
        g = h // (H // G)
        for t in range(T):
            keys = k[:, g] + (0 if relative_keys is None else relative_keys[t])
            values = v[:, g] + (0 if relative_values is None else relative_values[t])
            logits = scale * keys @ q[t, h] + (0 if score is None else score[h, t])
            if softcap:
                logits = softcap * np.tanh(logits / softcap)
            logits = np.where(seen[t] if seen.ndim == 2 else seen[h, t], logits, -np.inf)
            if sinks is not None:
                logits, values = np.append(logits, sinks[h]), np.concatenate([values, np.zeros((1, V))])
            if sigmoid_bias is not None:
                with np.errstate(over="ignore"):
                    out[t, h] = (1 / (1 + np.exp(-logits - sigmoid_bias))) @ values
                continue
            with np.errstate(invalid="ignore"):
                weights = np.exp(logits - logits.max())
                out[t, h] = (weights / weights.sum()) @ values
    return out


def linear(params, x):
    """x W + b."""
    return x @ params["kernel"] + params.get("bias", 0.0)


def activation(name, x):
    """The nonlinearities of Hendrycks & Gimpel 2016 (section 2) and Ramachandran et al. 2017."""
    if name == "relu":
        return np.where(x > 0, x, 0)
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "gelu":
        return x * 0.5 * (1 + erf(x / np.sqrt(2)))
    if name == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    raise ValueError(name)


def activation_name(config):
    """Returns the name of the nonlinearity of `ffn.kind`."""
    name = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "silu", "geglu": "gelu", "reglu": "relu"}[
        config.ffn.kind
    ]
    return "gelu_tanh" if name == "gelu" and config.ffn.gelu_approximation == "tanh" else name


def feed_forward(config, params, x, rows=None):
    """Shazeer 2020, eq. 1, 2 and 6, biases where there are any; Allen-Zhu 2025, Canon-D."""

    def projected(name):
        y, taps = linear(params[name], x), params.get(f"{name}_convolution")
        y = y if taps is None else convolved_rows(config, "D", y, rows, taps)
        if f"{name}_scale" in params:
            # Loshchilov et al. 2024, section 2.4; a layer without gates has v alone.
            y = y * params[f"{name}_scale"] * (1 if name == "up" and "gate" in params else np.sqrt(x.shape[-1]))
        return y

    if config.ffn.kind == "moe":
        return mixture_of_experts(config, params, x)
    kind, hidden = config.ffn.kind, projected("up")
    if kind in ("relu_squared", "leaky_relu_squared"):
        below = hidden * (config.ffn.negative_slope if kind.startswith("leaky") else 0)
        return linear(params["down"], np.where(hidden > 0, hidden, below) ** 2)
    if kind == "swiglu_clamped":
        # OpenAI 2025 (gpt-oss), section 2.
        gate, limit = np.minimum(projected("gate"), config.ffn.clamp), config.ffn.clamp
        return linear(params["down"], (np.clip(hidden, -limit, limit) + 1) * gate / (1 + np.exp(-1.702 * gate)))
    if kind == "xielu":
        # Huang & Schlag 2024, with the constraint on the numbers that their section 3 describes.
        positive, negative = np.log1p(np.exp(params["positive"])), 0.5 + np.log1p(np.exp(params["negative"]))
        above, below = positive * hidden**2, negative * (np.exp(np.minimum(hidden, 0)) - 1 - hidden)
        return linear(params["down"], np.where(hidden > 0, above, below) + hidden / 2)
    name = activation_name(config)
    hidden = (
        activation(name, projected("gate")) * hidden if config.ffn.kind.endswith("glu") else activation(name, hidden)
    )
    return linear(params["down"], hidden)


def chosen_experts(experts, logits, bias):
    """DeepSeek-AI 2024 (V3), eq. 12 to 16 and section 2.1.2, token by token: the weight of every
    expert, 0 for those that are not chosen, and the scores [N, E]. Groups may count by their best
    expert alone (DeepSeek-AI 2024, V2, section 2.2.2).
    """
    scores = 1 / (1 + np.exp(-logits)) if experts.scores == "sigmoid" else np.exp(logits)
    if experts.scores == "softmax":
        scores /= scores.sum(1, keepdims=True)
    weights = np.zeros_like(scores)
    for n, own in enumerate(scores):
        ranked = own + bias
        members = ranked.reshape(experts.groups, -1)
        counted = {"top2": 2, "max": 1}[experts.group_score]
        best = np.sort(members, axis=1)[:, -counted:].sum(1)
        kept = np.argsort(-best, kind="stable")[: experts.chosen_groups]
        allowed = [e for e in range(len(own)) if e // members.shape[1] in kept]
        chosen = sorted(allowed, key=lambda e, ranked=ranked: -ranked[e])[: experts.per_token]
        total = own[chosen].sum() if experts.renormalise else 1
        weights[n, chosen] = experts.scale * own[chosen] / total
    return weights, scores


def mixture_of_experts(config, params, x):
    """Shazeer et al. 2017, eq. 1, by the outputs of all experts for all tokens [..., D]."""
    shape, x = x.shape, x.reshape(-1, x.shape[-1])
    own = vars(config.ffn) if isinstance(config.ffn, SimpleNamespace) else dict(config.ffn)
    expert = SimpleNamespace(ffn=SimpleNamespace(**own | {"kind": config.ffn.experts.kind}))
    weights, _ = chosen_experts(config.ffn.experts, linear(params["router"], x), params.get("choice_bias", 0.0))
    outputs = []
    for e in range(weights.shape[1]):
        own = {
            name: {part: value[e] for part, value in values.items()} if isinstance(values, dict) else values
            for name, values in params["experts"].items()
        }
        outputs.append(feed_forward(expert, own, x))
    y = np.einsum("ne,end->nd", weights, np.stack(outputs))
    if "shared" in params:
        gate = 1 / (1 + np.exp(-linear(params["shared_gate"], x))) if "shared_gate" in params else 1
        y = y + gate * feed_forward(expert, params["shared"], x)
    return y.reshape(shape)


def head_norm(config, params, heads):
    """RMSNorm of queries or keys [T, H, K]: each head by itself, or all heads as one vector. Or
    Liu et al. 2022: unit vectors, for queries times exp(a) of each head, at most 100.
    """
    if config.attention.qk_norm == "unit":
        return heads / np.sqrt((heads**2).sum(axis=-1, keepdims=True))
    if config.attention.qk_norm == "cosine":
        unit = heads / np.sqrt((heads**2).sum(axis=-1, keepdims=True))
        return unit * np.minimum(np.exp(params.get("log_factor", np.zeros(1))), 100)[:, None]
    K, count, kind = heads.shape[2], heads.shape[1], config.attention.qk_norm
    shape = {"head": (K,), "full": (count * K,), "head_layernorm": (count, K)}[kind]
    scale = params["scale"] + (1 if config.norm.unit_offset else 0) if params else np.ones(shape)
    if kind == "head_layernorm":
        # Of each head by itself, with a row of the scale [H, K].
        each = [layer_norm(heads[:, h], scale[h], 0.0, config.norm.epsilon) for h in range(heads.shape[1])]
        return np.stack(each, axis=1)
    if kind == "head":
        return np.stack([rms_norm(heads[:, h], scale, config.norm.epsilon) for h in range(heads.shape[1])], axis=1)
    return rms_norm(heads.reshape(len(heads), -1), scale, config.norm.epsilon).reshape(heads.shape)


def clipped(config, x):
    """Groeneveld et al. 2024, OLMo's code: values below -c are -c, above c they are c."""
    c = config.attention.clip
    return np.where(x > c, c, np.where(x < -c, -c, x)) if c else x


def attention_row(
    config,
    params,
    x,
    source,
    queries,
    keys,
    seen,
    length,
    cross,
    table,
    prefix="",
    documents=None,
    mix=lambda v: v,
    kept=None,
    inputs=None,
):
    """Attention of one row before the output matrix: x [T, D] at positions `queries` reads `source`
    [S, D] at positions `keys`. `length` is that of the longest row; `table` is the bias table that
    all layers share; `prefix` "global_" selects the projections of global tokens; `mix` transforms
    the values. Rotated keys and values are those in `kept`, or if that is empty they are put there
    (Brandon et al. 2024, section 3.1). With `inputs` keys and values are projected from these two, and
    not from `source`.
    """
    for_keys, for_values = inputs or (source, source)
    H, K, position = config.attention.num_heads, config.attention.head_dim, config.position

    def mixed(name, y):
        if not cross and config.convolution.kind == "kv_shift" and name != "query":
            given = for_keys if name == "key" else for_values
            return shifted(config, given, y, queries, documents, params[f"{name}_convolution"])
        return y if cross else convolved(config, "B", y, queries, documents, params.get(f"{name}_convolution"))

    first = 0  # The first dimension of a head that rotates.
    if config.attention.kind == "latent":
        (q, k, v), first = expanded(config, params, x), K
    else:
        q, *own = (
            clipped(config, mixed(name, linear(params[prefix + name], y))).reshape(len(y), -1, K)
            for name, y in (("query", x), *([] if kept else [("key", for_keys), ("value", for_values)]))
        )
        k, v = own or (kept["key"], kept["value"])
        if config.attention.value_norm and not kept:
            # transformers' code of Gemma 3n: of each head, without a scale.
            v = np.stack([rms_norm(v[:, g], 1.0, config.norm.epsilon) for g in range(v.shape[1])], axis=1)
    assert q.shape[1] == config.attention.num_query_heads
    sides = config.attention.cross_kv_heads
    assert k.shape[1] == v.shape[1] == (sides if cross and sides != "auto" else config.attention.num_kv_heads)
    if config.attention.qk_norm != "none":
        q = head_norm(config, params.get("query_norm", {}), q)
        k = k if kept else head_norm(config, params.get("key_norm", {}), k)
    q, v = np.stack([q[:, h * q.shape[1] // H] for h in range(H)], axis=1), mix(v)
    if config.attention.kind == "differential" and not kept:
        v = paired_values(v)
    kind, added = "none" if cross else position.kind, {}
    if kind == "rope":
        frequencies, factor = schemes.rope(position, q.shape[2] - first, length)
        for heads, places in ((q, queries), *([] if kept else [(k, keys)])):
            for t, h in np.ndindex(heads.shape[:2]):
                heads[t, h, first:] = schemes.rotate(
                    heads[t, h, first:], places[t], frequencies, position.layout, factor
                )
    if config.attention.qk_norm == "unit":
        # Loshchilov et al. 2024, section 2.3; the vector of a key head is also that of its queries.
        s = np.sqrt(x.shape[1]) * params["dimension_scale"]["stored"].reshape(-1, K)
        q = np.stack([q[:, h] * s[h * len(s) // H] for h in range(H)], axis=1)
        k = k if kept else np.stack([k[:, g] * s[g] for g in range(len(s))], axis=1)
    if config.attention.ssmax:
        q = lengthened(q, params["length_factor"]["s"], seen)
    if kept == {}:
        kept.update(key=k, value=v)
    score = np.zeros((H, len(x), len(source)))
    for t, query in enumerate(queries):
        for s, key in enumerate(keys):
            if kind == "alibi":
                factor = config.attention.scale if position.scaled else 1.0
                score[:, t, s] = [factor * schemes.alibi(h, H, query, key) for h in range(H)]
            elif kind == "relative_bias":
                number = schemes.bucket(
                    int(query), int(key), position.buckets, position.max_distance, config.architecture == "encoder"
                )
                score[:, t, s] = (table if position.shared else params["position"]["table"])[number]
    if config.attention.kind == "forgetting":
        score += forgotten(linear({**params["forget"], "bias": params["forget_bias"]}, x), queries)
    if kind == "shaw":
        rows = np.array([[schemes.clipped(query, key, position.clip) for key in keys] for query in queries])
        added = {"relative_keys": params["position"]["keys"][rows]}
        if position.relative_values:
            added["relative_values"] = params["position"]["values"][rows]
    if config.attention.kind == "sigmoid":
        added["sigmoid_bias"] = config.attention.sigmoid_bias
    if config.attention.kind == "talking_heads":
        added["mixed"] = params["mixed_scores"], params["mixed_weights"]
    sinks = np.zeros(H) if config.attention.kind == "softmax_plus_one" else params.get("sinks")
    out = attention(q, k, v, seen, config.attention.scale, score, config.attention.softcap, sinks, **added)
    return exclusive(out, v) if config.attention.exclusive and not cross else out


def mixed_values(config, params, x, rows, b, v):
    """Values [T, G, K] of row b: Zhou et al. 2024, ResFormer (with those of the first layer), and
    nanochat's tables, with a gate that begins at 1.
    """
    if config.attention.kind == "value_residual":
        m = params["mix"] if config.attention.value_mix_learned else config.attention.value_mix
        return (1 - m) * v + m * rows.values.setdefault(b, v)
    if config.attention.kind == "value_embedding":
        added = params["value_embedding"][rows.tokens[b]].reshape(v.shape)
        if channels := config.attention.value_gate_channels:
            added = added * (2 / (1 + np.exp(-x[:, :channels] @ params["value_gate"]["kernel"])))[:, :, None]
        return v + added
    return v


def parallel_heads(config, params, x, rows, table, number):
    """Dong et al. 2024, eq. 3, and the sum of Falcon-H1."""
    given, attention = config.to_dict(), config.attention
    states = {"kind": attention.state_kind, "num_heads": attention.state_heads, "head_dim": attention.state_dim}
    a, s = (
        attention_layer(
            FrozenConfigDict({**given, "attention": {**given["attention"], **part}}),
            params[name],
            x,
            rows,
            table=table,
            number=number,
        )
        for name, part in (("softmax", {"kind": "softmax"}), ("state", states))
    )
    if attention.mixing == "sum":
        return a + s
    scaled = (rms_norm(y, params[f"{name}_scale"], config.norm.epsilon) for name, y in (("softmax", a), ("state", s)))
    return linear(params["output"], sum(scaled))


def attention_layer(config, params, x, rows, cross=False, table=None, number=1, inputs=None):
    """An attention layer, [B, T, D] to [B, T, D]; with `cross` it reads the memory, without
    position terms. The `number` of the layer counts from 1. `inputs`: what keys and values are
    projected from, if not x.
    """
    if config.attention.kind in KINDS:
        return recurrent_layer(config, params, x, rows, number)
    if config.attention.kind == "rwkv7":
        return rwkv7_layer(config, params, x, rows)
    if config.attention.kind == "parallel_heads":
        return parallel_heads(config, params, x, rows, table, number)
    config, out = overlaid(config), []
    for b, places in enumerate(rows.positions):
        if cross:
            source, keys = rows.memory[b], rows.memory_positions[b]
            seen = visible(np.zeros(len(places), int), causal=False, keys=keys)
            attended = attention_row(config, params, x[b], source, places, keys, seen, 0, True, None)
        else:
            window, first, length = config.attention.window, config.attention.global_tokens, rows.positions.max() + 1
            documents = None if rows.documents is None else rows.documents[b]
            turns = config.attention.dilations or (1,)
            seen = np.stack(
                [
                    visible(
                        places,
                        documents,
                        window,
                        rows.causal,
                        first,
                        prefix=rows.prefix,
                        dilation=turns[h % len(turns)],
                    )
                    for h in range(config.attention.num_heads)
                ]
            )
            mix = partial(mixed_values, config, params, x[b], rows, b)
            source, mine = config.attention.keys_from, rows.keys.setdefault((rows.kind, b), {})
            if not source:
                mine.clear()
            attended = attention_row(
                config, params, x[b], x[b], places, places, seen, length, False, table, documents=documents, mix=mix,
                kept=rows.keys[source, b] if source else mine, inputs=None if inputs is None else [y[b] for y in inputs],
            )  # fmt: skip
            if config.attention.global_projections:
                other = attention_row(config, params, x[b], x[b], places, places, seen, length, False, table, "global_")
                attended[(places >= 0) & (places < first)] = other[(places >= 0) & (places < first)]
        if config.attention.kind == "differential":
            attended = subtracted(config, params, attended, number)
        attended = normed(config, params, attended)
        attended = gated(config, params, attended, x[b]).reshape(len(places), -1)
        out.append(linear(params["output"], attended) if "output" in params else attended)
    return np.stack(out)
