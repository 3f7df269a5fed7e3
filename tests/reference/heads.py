"""Options of attention that change queries, scores or the outputs of heads, in plain float64 numpy,
one head and one token at a time. Nothing here comes from `zoo`.
"""

import numpy as np


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def normed(config, params, attended):
    """Lin et al. 2025: the output of each head of a row, [T, H, V], over its root mean square,
    times a scale.
    """
    if not config.attention.output_norm:
        return attended
    out = np.zeros_like(attended)
    for t, h in np.ndindex(attended.shape[:2]):
        mean = (attended[t, h] ** 2).mean()
        out[t, h] = attended[t, h] / np.sqrt(mean + config.norm.epsilon) * params["output_norm"]["scale"][h]
    return out


def gated(config, params, attended, x):
    """Qiu et al. 2025: the outputs of the heads of a row, [T, H, V], times sigmoid(u W), one gate
    per element or per head; u is the layer's input x [T, D] or the heads' output.
    """
    if config.attention.gate == "none":
        return attended
    (T, H, V), matrix = attended.shape, params["output_gate"]["projection"]["kernel"]
    out = np.zeros_like(attended)
    for t in range(T):
        gates = sigmoid((attended[t].reshape(-1) if config.attention.gate_input == "attended" else x[t]) @ matrix)
        for h in range(H):
            out[t, h] = attended[t, h] * (gates[h] if config.attention.gate == "head" else gates[h * V : (h + 1) * V])
    return out


def exclusive(attended, v):
    """Zhai 2026: the output of each head, [T, H, V], minus its projection on the token's own value
    [T, G, V]; H / G neighbouring heads share a value.
    """
    out = np.zeros_like(attended)
    for t, h in np.ndindex(attended.shape[:2]):
        own = v[t, h * v.shape[1] // attended.shape[1]]
        out[t, h] = attended[t, h] - (attended[t, h] @ own) / (own @ own) * own
    return out


def lengthened(q, s, seen):
    """Nakanishi 2025: the query of each head times s_h ln(n), n the number of keys that it sees."""
    out = np.zeros_like(q)
    for t, h in np.ndindex(q.shape[:2]):
        keys = (seen if seen.ndim == 2 else seen[h])[t].sum()
        out[t, h] = q[t, h] * s[h] * np.log(max(keys, 1))
    return out


def forgotten(logits, positions):
    """Lin et al. 2025: [H, T, T], the sum of ln sigmoid(logits) [T, H] over the tokens after the key,
    up to the query; empty slots (-1) have no gate.
    """
    T, H = logits.shape
    gates = np.where(positions[:, None] >= 0, np.log(sigmoid(logits)), 0)
    out = np.zeros((H, T, T))
    for t in range(T):
        for s in range(t):
            out[:, t, s] = gates[s + 1 : t + 1].sum(axis=0)
    return out


def paired_values(v):
    """Ye et al. 2024, section 2.1, in the order of DiffLlama: value heads [S, G, K] to [S, G, 2 K];
    heads g and g + G/2 have the values of both, side by side.
    """
    half = v.shape[1] // 2
    return np.stack([np.concatenate([v[:, g % half], v[:, g % half + half]], axis=1) for g in range(2 * half)], axis=1)


def subtracted(config, params, attended, number):
    """Ye et al. 2024, eq. 1 to 3: pairs of heads of a row [T, H, 2 K] to [T, H, K], in the layer with
    this number, from 1. Each pair is one softmax minus lambda times another, over its root mean
    square, times 1 - lambda_0.
    """
    T, H, V = attended.shape
    out, first = np.zeros((T, H // 2, V)), config.attention.lambda_init
    if first == "auto":
        first = 0.8 - 0.6 * np.exp(-0.3 * (number - 1))
    weight = (
        np.exp(params["lambda_q1"] @ params["lambda_k1"]) - np.exp(params["lambda_q2"] @ params["lambda_k2"]) + first
    )
    for t, j in np.ndindex(out.shape[:2]):
        difference = attended[t, j] - weight * attended[t, j + H // 2]
        out[t, j] = (1 - first) * difference / np.sqrt((difference**2).mean() + config.norm.epsilon)
    return out.reshape(T, H, V // 2)


def talking(q, k, v, seen, scale, score, softcap, sinks, relative_keys, relative_values, P_l, P_w):
    """Shazeer et al. 2020, section 3, the code of `TalkingHeadsAttention`: J = Q K^T, L = J P_l,
    W = softmax(L), U = W P_w, O = U V, for a row; the arguments are those of
    `tests.reference.layers.attention`.
    """
    (T, H, _), (S, G, V) = q.shape, v.shape
    J, U, out = np.zeros((T, S, H)), np.zeros((T, S, H)), np.zeros((T, H, V))
    for t, s, h in np.ndindex(T, S, H):
        key = k[s, h * G // H] + (0 if relative_keys is None else relative_keys[t, s])
        J[t, s, h] = scale * q[t, h] @ key + (0 if score is None else score[h, t, s])
    J = softcap * np.tanh(J / softcap) if softcap else J
    L = J @ P_l
    for t, h in np.ndindex(T, H):
        there = seen[t] if seen.ndim == 2 else seen[h, t]
        exponents = np.where(there, L[t, :, h], -np.inf)
        with np.errstate(invalid="ignore"):
            weights = np.exp(exponents - exponents.max())
            total = weights.sum() + (0 if sinks is None else np.exp(sinks[h] - exponents.max()))
            U[t, :, :] += np.outer(weights / total, P_w[h])
    for t, h in np.ndindex(T, H):
        values = v[:, h * G // H] + (0 if relative_values is None else relative_values[t])
        out[t, h] = U[t, :, h] @ values
    return out


def expanded(config, params, x):
    """DeepSeek-AI 2024, eq. 9 to 17: queries and keys [T, H, K + R] and values [T, H, K] of a row x
    [T, D], before rotation. The last R elements of the keys are the same for all heads.
    """
    attention = config.attention
    H, K = attention.num_heads, attention.head_dim

    def projected(name, y):
        return y @ params[name]["kernel"] + params[name].get("bias", 0.0)

    def latent(name):
        y = projected(name, x)
        scale = params[f"{name}_norm"]["scale"] + (1 if config.norm.unit_offset else 0)
        return (
            y
            / np.sqrt((y**2).mean(axis=1, keepdims=True) + (config.attention.norm_epsilon or config.norm.epsilon))
            * scale
        )

    c, source = latent("latent"), latent("query_latent") if attention.query_latent_dim else x
    k, v = (projected(name, c).reshape(len(x), H, K) for name in ("key", "value"))
    if attention.rotary_dim:
        k = np.concatenate([k, np.stack([projected("rotary_key", x)] * H, axis=1)], axis=2)
    return projected("query", source).reshape(len(x), H, -1), k, v
