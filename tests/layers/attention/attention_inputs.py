"""Rows, and queries, keys and values, for tests of attention and its kernels."""

import numpy as np

B, T, H, K = 2, 8, 4, 6
COUNTING = np.tile(np.arange(T), (B, 1))
PACKED = np.array([[0, 1, 2, 0, 1, 2, 0, 1], [0, 1, 2, 3, 4, 5, 6, 0]])
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1]])
PADDED = np.array([[-1, -1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, -1, -1, -1]])
MEMORY = np.array([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1]])


def normal(*shape, seed=9):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def heads(seed, kv_heads, dtype=np.float32, length=T, keys=None):
    generator = np.random.default_rng(seed)
    shapes = (length, H), (keys or length, kv_heads), (keys or length, kv_heads)
    return [generator.standard_normal((B, tokens, n, K)).astype(dtype) for tokens, n in shapes]
