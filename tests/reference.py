"""What the project's results are compared with: plain float64 numpy, written from the papers' equations.

Nothing here comes from `zoo`. Parameters are the nested dict of a model, its layers stacked along the first dimension.
"""

import numpy as np
from scipy.special import erf


def layer_norm(x, scale, bias, epsilon):
    """Ba et al. 2016, eq. 4, with epsilon inside the root."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * scale + bias


def rms_norm(x, scale, epsilon):
    """Zhang & Sennrich 2019, eq. 4, with epsilon inside the root."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * scale


def sinusoid(position, dim):
    """Vaswani et al. 2017, section 3.5: the vector of one position."""
    vector = np.zeros(dim)
    for i in range(dim // 2):
        angle = position / 10000 ** (2 * i / dim)
        vector[2 * i], vector[2 * i + 1] = np.sin(angle), np.cos(angle)
    return vector


def rotate(vector, position, theta, rotated, layout):
    """Su et al. 2021, section 3.2: a pair of dimensions is a complex number, multiplied by e^(i p theta_k)."""
    turned = np.array(vector, np.float64)
    for pair in range(rotated // 2):
        a, b = (pair, pair + rotated // 2) if layout == "half" else (2 * pair, 2 * pair + 1)
        number = (turned[a] + 1j * turned[b]) * np.exp(1j * position * theta ** (-2 * pair / rotated))
        turned[a], turned[b] = number.real, number.imag
    return turned


# Press et al. 2021: section 3 (4 and 8 heads), and what the authors' code gives for 6 and 12.
ALIBI_SLOPES = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
    8: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256],
    12: [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
}


def visible(positions, documents=None, window=0):
    """[T, S]: does token t of one row see token s? An empty slot (-1) sees nothing and is not seen."""
    T = len(positions)
    seen = np.zeros((T, T), bool)
    for t in range(T):
        for s in range(T):
            distance = positions[t] - positions[s]
            seen[t, s] = positions[s] >= 0 and distance >= 0
            seen[t, s] &= not window or distance < window
            seen[t, s] &= documents is None or documents[t] == documents[s]
    return seen


def attention(q, k, v, seen, scale, score=None):
    """Vaswani et al. 2017, eq. 1, for one row: q [T, H, K], k and v [S, G, K], seen [T, S], score [H, T, S].

    H / G neighbouring query heads share a key/value head (Ainslie et al. 2023, figure 2). A query that sees nothing gives NaN.
    """
    T, H, K = q.shape
    S, G, _ = k.shape
    out = np.zeros((T, H, K))
    for h in range(H):
        g = h // (H // G)
        for t in range(T):
            logits = np.full(S, -np.inf)
            for s in range(S):
                if seen[t, s]:
                    logits[s] = scale * np.dot(q[t, h], k[s, g]) + (0 if score is None else score[h, t, s])
            with np.errstate(invalid="ignore"):
                weights = np.exp(logits - logits.max())
            out[t, h] = (weights / weights.sum()) @ v[:, g]
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


def feed_forward(config, params, x):
    """Shazeer 2020, eq. 1, 2 and 6, biases where there are any."""
    name = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "silu", "geglu": "gelu", "reglu": "relu"}[config.ffn.kind]
    if name == "gelu" and config.ffn.gelu_approximation == "tanh":
        name = "gelu_tanh"
    hidden = linear(params["up"], x)
    hidden = activation(name, linear(params["gate"], x)) * hidden if config.ffn.kind.endswith("glu") else activation(name, hidden)
    return linear(params["down"], hidden)


def self_attention(config, params, x, positions, documents=None):
    """A whole attention layer for one row: x [T, D]."""
    T, H, G, K = len(x), config.attention.num_heads, config.attention.num_kv_heads, config.attention.head_dim
    q, k, v = (linear(params[name], x).reshape(T, -1, K) for name in ("query", "key", "value"))
    assert q.shape[1] == H
    assert k.shape[1] == v.shape[1] == G
    score = None
    if config.position.kind == "rope":
        theta, layout = config.position.theta, config.position.layout
        rotated = round(K * config.position.fraction)
        for heads in (q, k):
            for t in range(T):
                for h in range(heads.shape[1]):
                    heads[t, h] = rotate(heads[t, h], positions[t], theta, rotated, layout)
    elif config.position.kind == "alibi":
        distance = np.subtract.outer(np.asarray(positions, float), np.asarray(positions, float))
        score = -np.array(ALIBI_SLOPES[H])[:, None, None] * distance
    seen = visible(positions, documents, config.attention.window)
    return linear(params["output"], attention(q, k, v, seen, config.attention.scale, score).reshape(T, H * K))


def norm(config, params, x):
    """The norm that a config names."""
    if config.norm.kind == "layernorm":
        return layer_norm(x, params["scale"], params.get("bias", 0.0), config.norm.epsilon)
    return rms_norm(x, params["scale"], config.norm.epsilon) if config.norm.kind == "rmsnorm" else x


def block(config, params, x, positions, documents=None):
    """One block for one row: Vaswani et al. 2017, section 3.1 (post), or Xiong et al. 2020, Table 1 (pre)."""
    keep = 1.0 if config.residual else 0.0
    attend = lambda y: self_attention(config, params["attention"], y, positions, documents)  # noqa: E731
    transform = lambda y: feed_forward(config, params["ffn"], y)  # noqa: E731
    first = lambda y: norm(config, params.get("attention_norm"), y)  # noqa: E731
    second = lambda y: norm(config, params.get("ffn_norm"), y)  # noqa: E731
    if config.norm.placement == "pre":
        x = keep * x + attend(first(x))
        return keep * x + transform(second(x))
    x = first(keep * x + attend(x))
    return second(keep * x + transform(x))


def layer(params, index):
    """The parameters of one layer of a stack."""
    return {name: layer(value, index) if isinstance(value, dict) else value[index] for name, value in params.items()}


def logits(config, params, tokens, positions, documents=None):
    """A whole decoder for one row of tokens: [T] -> [T, V]."""
    x = params["embedding"][tokens]
    if config.position.kind == "learned":
        x = x + params["position"]["table"][positions]
    elif config.position.kind == "sinusoidal":
        x = x + np.stack([sinusoid(position, config.dim) for position in positions])
    for index in range(config.num_layers):
        x = block(config, layer(params["stack"]["layers"], index), x, positions, documents)
    if config.norm.placement == "pre" and config.norm.kind != "none":
        x = norm(config, params["final_norm"], x)
    return x @ (params["embedding"] if config.tie_embeddings else params["head"]).T
