"""The product of attention: p v with p = softmax(scale * q k^T + bias).

`scoring` has its parameters, `products`, `fused` and `banded` have the implementations, and
`kernel_choice` decides which of them computes a layer.
"""
