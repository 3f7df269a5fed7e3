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
    places = {"none": "", "canon": convolution.places, "primer": "B", "token_shift": "AC", "kv_shift": ""}[
        convolution.kind
    ]
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


def shifted(config, x, y, positions, documents, params):
    """Lin et al. 2025: keys or values y [T, G K] of one row of tokens x [T, D]; each head takes a
    share of the token right before it in its document, zeros where there is none.
    """
    G, out = config.attention.num_kv_heads, np.zeros_like(y)
    for t in range(len(y)):
        known = t > 0 and positions[t - 1] >= 0 and positions[t - 1] == positions[t] - 1
        same = known and (documents is None or documents[t - 1] == documents[t])
        last = y[t - 1] if same else np.zeros(y.shape[1])
        for g in range(G):
            head = slice(g * y.shape[1] // G, (g + 1) * y.shape[1] // G)
            share = 1 / (1 + np.exp(-x[t] @ params["shares"]["kernel"][:, g]))
            out[t, head] = share * last[head] + (1 - share) * y[t, head]
    return out


def convolved_rows(config, place, x, rows, params):
    """`convolved` for all rows, [B, T, C]."""
    return np.stack(
        [
            convolved(config, place, x[b], places, None if rows.documents is None else rows.documents[b], params)
            for b, places in enumerate(rows.positions)
        ]
    )
