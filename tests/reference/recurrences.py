"""Mixers with a state in plain float64 numpy, one token and one head at a time.

Nothing here comes from `zoo`.
"""

import numpy as np

KINDS = (
    "linear", "retnet", "gated_linear", "hgrn2", "lightning", "delta", "gated_delta", "kimi_delta", "mamba2",
    "gated_convolution",
)  # fmt: skip
NUMBER = ("num_heads", "key_heads", "head_dim", "value_dim")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms(x, scale, epsilon):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * scale


def short(params, x, positions, documents, activation=silu):
    """A causal depthwise convolution within documents, with its bias and activation."""
    if params is None:
        return x
    taps, out = params["taps"], np.zeros_like(x)
    for t in range(len(x)):
        for lag, tap in enumerate(taps):
            known = t >= lag and positions[t - lag] >= 0 and positions[t - lag] == positions[t] - lag
            if known and (documents is None or documents[t - lag] == documents[t]):
                out[t] += tap * x[t - lag]
    return activation(out + params.get("bias", 0.0))


def decays(config, params, x, number):
    """a of one token in the layer of this number, from 1, [H, K]."""
    H, G, K, _ = (config.attention[name] for name in NUMBER)
    kind = config.attention.kind
    if kind == "retnet":
        return np.repeat(1 - 2.0 ** (-5 - np.arange(H)), K).reshape(H, K)
    if kind == "lightning":
        # MiniMax 2025: the slopes of ALiBi, which fall to almost 0 from the first to the last layer.
        depth = 1 - (number - 1) / (config.num_layers - 1 + 1e-5) + 1e-5
        return np.repeat([np.exp(-depth * 2 ** (-8 * (h + 1) / H)) for h in range(H)], K).reshape(H, K)
    if kind == "hgrn2":
        return np.repeat(sigmoid(x @ params["key"]["kernel"]).reshape(G, K), H // G, axis=0)
    if kind == "gated_linear":
        scores = x @ params["decay_down"]["kernel"] @ params["decay_up"]["kernel"] + params["decay_bias"]
        return sigmoid(scores).reshape(H, K) ** (1 / 16)
    if kind in ("gated_delta", "mamba2", "kimi_delta"):
        rate = np.exp(params["step"]["log_rate"])[:, None]
        if kind == "kimi_delta":
            scores = x @ params["decay_down"]["kernel"] @ params["decay_up"]["kernel"]
        else:
            scores = x @ params["decay_gate" if kind == "gated_delta" else "step_size"]["kernel"]
        step = np.log1p(np.exp(scores + params["step"]["bias"])).reshape(H, -1)
        return np.broadcast_to(np.exp(-rate * step), (H, K))
    return np.ones((H, K))


def rates(config, params, x):
    """b of one token, [H]."""
    kind = config.attention.kind
    if kind == "mamba2":
        return np.log1p(np.exp(x @ params["step_size"]["kernel"] + params["step"]["bias"]))
    if "delta" in kind:
        return sigmoid(x @ params["rate_gate"]["kernel"]) * (2 if config.attention.negative_eigenvalues else 1)
    return np.ones(config.attention.num_heads)


def features(config, q, k):
    kind = config.attention.kind
    if kind == "linear":
        return np.where(q > 0, q + 1, np.exp(q)), np.where(k > 0, k + 1, np.exp(k))
    if kind in ("mamba2", "lightning"):
        return q, k
    if kind == "hgrn2":
        q, k = silu(q), 1 - sigmoid(k)
    if "delta" in kind:
        q, k = (y / np.sqrt((y**2).sum(axis=-1, keepdims=True) + 1e-6) for y in (q, k))
    return q / np.sqrt(config.attention.head_dim), k


def output(config, params, y, x, v):
    """What the heads give to W_o, [T, H V], of what they have read, [T, H, V]."""
    kind, T = config.attention.kind, len(x)
    epsilon = config.attention.norm_epsilon or config.norm.epsilon
    if kind == "linear":
        return y.reshape(T, -1)
    if kind == "mamba2":
        gated = (y + params["skip"][:, None] * v).reshape(T, -1) * silu(x @ params["gate"]["kernel"])
        # Each group of heads has a norm of its own.
        parts = zip(
            *(np.split(each, config.attention.key_heads, axis=-1) for each in (gated, params["scale"])), strict=True
        )
        return np.concatenate([rms(*part, epsilon) for part in parts], axis=-1)
    if kind in ("hgrn2", "lightning"):
        normed = rms(y.reshape(T, -1), params["scale"], epsilon)
        return normed if kind == "hgrn2" else normed * sigmoid(x @ params["gate"]["kernel"])
    y = rms(y, params["scale"], epsilon)
    if kind == "kimi_delta":
        scores = x @ params["gate_down"]["kernel"] @ params["gate_up"]["kernel"]
        if config.attention.gate_bias:
            scores = scores + params["gate_up"]["bias"]
        y = y * sigmoid(scores).reshape(y.shape)
    elif kind != "delta":
        y = y * silu(x @ params["gate"]["kernel"]).reshape(y.shape)
    return y.reshape(T, -1)


def recurrent_row(config, params, x, positions, documents, number=1):
    """One row of tokens, [T, D] to [T, D], in the layer of this number, from 1."""
    if config.attention.kind == "gated_convolution":
        gated = (x @ params["input_gate"]["kernel"]) * (x @ params["value"]["kernel"])
        mixed = short(params["convolution"], gated, positions, documents, lambda y: y)
        return ((x @ params["output_gate"]["kernel"]) * mixed) @ params["output"]["kernel"]
    H, G, K, V = (config.attention[name] for name in NUMBER)
    q, k, v = (
        short(params.get(f"{name}_convolution"), x @ params[name]["kernel"], positions, documents).reshape(
            len(x), n, -1
        )
        for name, n in (("query", G), ("key", G), ("value", H))
    )
    # The activation of the short convolutions stays without them.
    if config.attention.kind == "lightning" or config.attention.convolution_width == 0:
        q, k, v = silu(q), silu(k), silu(v)
    q, k = features(config, q, k)
    y, state, weights = np.zeros((len(x), H, V)), np.zeros((H, K, V)), np.zeros((H, K))
    for t in range(len(x)):
        if positions[t] < 0:
            continue
        if t and documents is not None and documents[t] != documents[t - 1]:
            state, weights = np.zeros_like(state), np.zeros_like(weights)
        a, b = decays(config, params, x[t], number), rates(config, params, x[t])
        for h in range(H):
            key, query = k[t, h * G // H], q[t, h * G // H]
            state[h] *= a[h][:, None]
            stored = key @ state[h] if "delta" in config.attention.kind else 0
            state[h] += b[h] * np.outer(key, v[t, h] - stored)
            weights[h] += key
            y[t, h] = query @ state[h]
            if config.attention.kind == "linear":
                y[t, h] /= query @ weights[h]
    given = output(config, params, y, x, v)
    return given @ params["output"]["kernel"] if "output" in params else given


def recurrent_layer(config, params, x, rows, number=1):
    """A mixer with a state, [B, T, D] to [B, T, D]."""
    return np.stack(
        [
            recurrent_row(config, params, x[b], places, None if rows.documents is None else rows.documents[b], number)
            for b, places in enumerate(rows.positions)
        ]
    )
