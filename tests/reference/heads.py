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
