"""Residual streams in float64 numpy: hyper-connections of Zhu et al. 2024 and of Xie et al. 2025."""

import numpy as np

HYPER = ("hyper_static", "hyper", "mhc")
EPSILON = 1e-6
SINKHORN_STEPS = 20


def expand(config, x):
    """What enters the first block, from the embedding [B, T, D]."""
    return np.repeat(x[:, :, None], config.norm.streams, axis=2) if config.norm.placement in HYPER else x


def reduce(config, x):
    """The output of the stack, [B, T, D]: the mean of the streams."""
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
