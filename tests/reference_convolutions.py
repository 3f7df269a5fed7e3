"""Short convolutions over the tokens in plain float64 numpy, one token at a time.

Nothing here comes from `zoo`.
"""

import numpy as np


def convolved(config, place, x, positions, documents, params):
    """x [T, C] of one row after the convolution at a place of the block: Allen-Zhu 2025 (canon), So et
    al. 2021 (primer), Peng 2021 (token_shift), or x itself.

    Only the tokens right before it in its document mix with a token.
    """
    convolution = config.convolution
    places = {"none": "", "canon": convolution.places, "primer": "B", "token_shift": "AC"}[convolution.kind]
    if place not in places:
        return x
    out = np.zeros_like(x)
    for t in range(len(x)):

        def back(lag, t=t):
            known = t >= lag and positions[t - lag] >= 0 and positions[t - lag] == positions[t] - lag
            same = known and (documents is None or documents[t - lag] == documents[t])
            return x[t - lag] if same else np.zeros(x.shape[1])

        if convolution.kind == "token_shift":
            half = x.shape[1] // 2
            out[t] = np.concatenate([back(1)[:half], x[t, half:]])
        else:
            taps = params["taps"]
            out[t] = taps[0] * x[t] + sum(taps[lag] * back(lag) for lag in range(1, len(taps)))
            out[t] += x[t] if convolution.kind == "canon" else 0
    return out


def convolved_rows(config, place, x, rows, params):
    """The same for all rows, [B, T, C]."""
    return np.stack(
        [
            convolved(config, place, x[b], places, None if rows.documents is None else rows.documents[b], params)
            for b, places in enumerate(rows.positions)
        ]
    )
