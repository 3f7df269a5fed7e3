"""Residual streams in float64 numpy: hyper-connections of Zhu et al. 2024 and of Xie et al. 2025, and
connections over depth.
"""

import math

import numpy as np

HYPER = ("hyper_static", "hyper", "mhc")
DEPTH = ("depth_attention", "denseformer", "unet", "mudd")
EPSILON = 1e-6
SINKHORN_STEPS = 20


def expand(config, x):
    """What enters the first block, from the embedding [B, T, D]."""
    if config.norm.placement in DEPTH:
        return begin_depth(config, x)
    if config.norm.placement == "resi_dual":
        return np.stack([x, x], axis=2)
    return np.repeat(x[:, :, None], config.norm.streams, axis=2) if config.norm.placement in HYPER else x


def reduce(config, x):
    """What the last norm reads, [B, T, D]: the mean of the streams, or one of them."""
    if config.norm.placement in DEPTH:
        return x[:, :, 3 if config.norm.placement == "mudd" else 0]
    if config.norm.placement == "resi_dual":
        return x[:, :, 1]
    return x.mean(axis=2) if config.norm.placement in HYPER else x


def sublayer(config, params, x, f, number):
    """One sublayer f around streams [B, T, N, D]; `number` counts sublayers of the stack from 0."""
    n = config.norm.streams
    weigh = doubly_stochastic if config.norm.placement == "mhc" else hyper
    read, mix, write = weigh(params, x, n, number, dynamic=config.norm.placement == "hyper")
    y = config.residual_multiplier * f((read[..., None] * x).sum(axis=2))
    # mix[m, n] leads from stream n to the new stream m.
    return np.einsum("btmn,btnd->btmd", mix, x) + write[..., None] * y[:, :, None]


def hyper(params, x, n, number, dynamic):
    """Zhu et al. 2024, eq. 2 and eq. 10 to 13, in the transposed order of `mix` there."""
    read = np.broadcast_to(np.roll(params["read"], number % n), x.shape[:3])
    mix = np.broadcast_to(params["mix"].reshape(n, n), (*x.shape[:3], n))
    write = np.broadcast_to(params["write"], x.shape[:3])
    if dynamic:
        rms = np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON)
        added = np.tanh(np.einsum("btnd,do->btno", x / rms, params["projection"]))
        first, second = params["scale"]
        read, mix, write = read + first * added[..., 0], mix + first * added[..., 1:-1], write + second * added[..., -1]
    return read, mix.swapaxes(-1, -2), write


def doubly_stochastic(params, x, n, number, dynamic):
    """Xie et al. 2025, eq. 7 to 9, with 2 / N on the weights for reading."""
    del number, dynamic
    flat = x.reshape(*x.shape[:2], -1)
    rms = np.sqrt((flat**2).mean(axis=-1, keepdims=True) + EPSILON)
    read, write, mix = np.split((flat / rms) @ params["projection"], [n, 2 * n], axis=-1)
    a, b, c = params["scale"]
    matrix = np.exp(c * mix + params["mix"]).reshape(*x.shape[:2], n, n)
    for _ in range(SINKHORN_STEPS):
        matrix = matrix / matrix.sum(axis=-2, keepdims=True)
        matrix = matrix / matrix.sum(axis=-1, keepdims=True)
    return 2 / n * sigmoid(a * read + params["read"]), matrix, 2 * sigmoid(b * write + params["write"])


def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def begin_depth(config, x):
    """The vectors that enter the first block: what is read, and the outputs that are known, else 0."""
    B, T, D = x.shape
    if config.norm.placement == "mudd":
        return np.concatenate([np.repeat(x[:, :, None], 5, axis=2), np.zeros((B, T, config.num_layers, D))], axis=2)
    kept = {"depth_attention": 2 * config.num_layers + 1, "denseformer": config.num_layers + 1}
    kept = kept.get(config.norm.placement, config.num_layers // 2)
    vectors = np.zeros((B, T, 1 + kept, D))
    vectors[:, :, 0] = x
    if config.norm.placement != "unet":
        vectors[:, :, 1] = x
    return vectors


def depth_attention(params, x, f, query, number):
    """Kimi Team 2026: output number + 1 is kept, and the next input is read over all of them."""
    x = x.copy()
    x[:, :, 2 + number] = f(x[:, :, 0])
    values = x[:, :, 1 : 3 + number]
    scores = (values / np.sqrt((values**2).mean(axis=-1, keepdims=True) + EPSILON)) @ params[query]
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    x[:, :, 0] = ((weights / weights.sum(axis=-1, keepdims=True))[..., None] * values).sum(axis=2)
    return x


def around_block(config, params, x, block, number):
    """DenseFormer's averages after a block, and U-net skips before it; `number` counts from 1."""
    x, L = x.copy(), config.num_layers
    if config.norm.placement == "denseformer":
        x[:, :, 1 + number] = block(x[:, :, 0])
        weights = params["depth_weights"]
        x[:, :, 0] = sum(weights[number - j] * x[:, :, 1 + j] for j in range(number + 1))
        return x
    if number > L - L // 2:
        x[:, :, 0] += params["skip_scale"] * x[:, :, 1 + L - number]
    x[:, :, 0] = block(x[:, :, 0])
    if number <= L // 2:
        x[:, :, number] = x[:, :, 0]
    return x


def dynamic_dense(params, x, attention, feed_forward, number):
    """MUDD (Xiao et al. 2025, eq. 5 to 8): attention reads three sums of the outputs so far and is
    added to a fourth; `number` counts blocks from 1. A block's output is followed by the sums for the
    next one, whose weights are stored from the newest output to the oldest.
    """
    h = x[:, :, 3] + attention(x[:, :, 0], x[:, :, 1], x[:, :, 2])
    output = h + feed_forward(h)
    known = np.concatenate([x[:, :, 4 : 4 + number], output[:, :, None]], axis=2)
    rms = np.sqrt((output**2).mean(axis=-1, keepdims=True) + EPSILON)
    inner = (output / rms) @ params["depth_inner"]
    erf = np.vectorize(math.erf)(inner / math.sqrt(2))
    weights = inner * (1 + erf) / 2 @ params["depth_outer"] + params["depth_weights"]
    newest_first = weights.reshape(*output.shape[:2], 4, -1)[..., : number + 1]
    read = np.einsum("btcj,btjd->btcd", newest_first[..., ::-1], known)
    return np.concatenate([read, known, x[:, :, 5 + number :]], axis=2)
