"""RWKV-7's time mixing in plain float64 numpy, one token and one head at a time (Peng et al. 2025,
section 4), with the state [V, K] of the paper.

Nothing here comes from `zoo`.
"""

import numpy as np

from tests.reference.recurrences import sigmoid


def low_rank(params, x, activation=lambda y: y):
    return activation(x @ params["down"]["kernel"]) @ params["up"]["kernel"] + params.get("bias", 0.0)


def previous(x, positions, documents, t):
    """The token before, or zeros where it is none of the same document."""
    if t == 0 or positions[t - 1] < 0 or positions[t - 1] != positions[t] - 1:
        return np.zeros_like(x[t])
    if documents is not None and documents[t - 1] != documents[t]:
        return np.zeros_like(x[t])
    return x[t - 1]


def rwkv7_row(config, params, x, positions, documents, first_values):
    """One row of tokens, [T, D] to [T, D]. `first_values` has the values of the first layer by token,
    and takes them in that layer.
    """
    H, K, V = (getattr(config.attention, name) for name in ("num_heads", "head_dim", "value_dim"))
    epsilon = config.attention.norm_epsilon or config.norm.epsilon
    states, out = np.zeros((H, V, K)), np.zeros_like(x)
    for t in range(len(x)):
        if positions[t] < 0:
            continue
        if t and documents is not None and documents[t] != documents[t - 1]:
            states = np.zeros_like(states)
        before = previous(x, positions, documents, t)
        read = {
            name: (1 - params[f"{name}_mix"]) * x[t] + params[f"{name}_mix"] * before
            for name in ("receptance", "decay", "key", "value", "rate", "gate")
        }
        r, k, v = (read[name] @ params[name]["kernel"] for name in ("receptance", "key", "value"))
        if config.attention.value_rank:
            share = sigmoid(low_rank(params["value_gate"], read["value"]))
            v = (1 - share) * v + share * first_values.setdefault(t, v)
        w = np.exp(-np.exp(-0.5) * sigmoid(low_rank(params["decay"], read["decay"], np.tanh)))
        a = sigmoid(low_rank(params["rate"], read["rate"]))
        g = low_rank(params["gate"], read["gate"], sigmoid)
        removal, replacement = k * params["erased_scale"], k * ((1 - params["rate_share"]) + params["rate_share"] * a)
        heads = []
        for h in range(H):
            keys, values = slice(h * K, (h + 1) * K), slice(h * V, (h + 1) * V)
            unit = removal[keys] / np.linalg.norm(removal[keys])
            transition = np.diag(w[keys]) - np.outer(unit, a[keys] * unit)
            states[h] = states[h] @ transition + np.outer(v[values], replacement[keys])
            y = states[h] @ r[keys]
            y = (y - y.mean()) / np.sqrt(y.var() + K * epsilon)
            y = y * params["scale"][values] + params["bias"][values]
            heads.append(y + (r[keys] * params["bonus"][keys] * replacement[keys]).sum() * v[values])
        out[t] = (np.concatenate(heads) * g) @ params["output"]["kernel"]
    return out


def rwkv7_layer(config, params, x, rows):
    """The time mixing of a layer, [B, T, D] to [B, T, D]."""
    documents = [None] * len(x) if rows.documents is None else rows.documents
    return np.stack(
        [
            rwkv7_row(config, params, x[b], rows.positions[b], documents[b], rows.values.setdefault(b, {}))
            for b in range(len(x))
        ]
    )
