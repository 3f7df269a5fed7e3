"""ELMo in plain float64 numpy, one token after the other, written from the papers' equations.
Nothing here comes from `zoo`.
"""

import numpy as np


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def clip(x, limit):
    """Clips x to [-limit, limit]; a limit of 0 does not clip."""
    return np.minimum(np.maximum(x, -limit), limit) if limit else x


def lstm(params, x, h, c, cell_clip, projection_clip):
    """The LSTMP of Sak et al. 2014, without peepholes, clipped: x [T, D] -> (outputs [T, D], h, c).
    Gates in the order i, f, g, o.
    """
    outputs = []
    for token in x:
        z = token @ params["input"]["kernel"] + params["input"]["bias"] + h @ params["recurrent"]["kernel"]
        i, f, g, o = np.split(z, 4)
        c = clip(sigmoid(f) * c + sigmoid(i) * np.tanh(g), cell_clip)
        h = clip((sigmoid(o) * np.tanh(c)) @ params["projection"]["kernel"], projection_clip)
        outputs.append(h)
    return np.array(outputs).reshape(len(x), len(h)), h, c


def token_vector(params, characters):
    """Kim et al. 2016, sections 2.2 and 2.3, and a projection: [C] ids, 0 for nothing -> [D]."""
    embedded = np.array(
        [params["embedding"][id - 1] if id else np.zeros(params["embedding"].shape[1]) for id in characters]
    )
    pooled = []
    for name in sorted(params["convolutions"], key=int):
        kernel, bias = params["convolutions"][name]["kernel"], params["convolutions"][name]["bias"]
        width = len(kernel)
        windows = [
            np.einsum("we,wef->f", embedded[p : p + width], kernel) + bias for p in range(len(characters) - width + 1)
        ]
        pooled.append(np.maximum(np.max(windows, axis=0), 0))
    x = np.concatenate(pooled)
    for name in sorted(params.get("highways", {}), key=int):
        gate, transform = params["highways"][name]["gate"], params["highways"][name]["transform"]
        g = sigmoid(x @ gate["kernel"] + gate["bias"])
        x = g * x + (1 - g) * np.maximum(x @ transform["kernel"] + transform["bias"], 0)
    return x @ params["projection"]["kernel"] + params["projection"]["bias"]


def elmo(config, params, characters, filled, state, memory):
    """Peters et al. 2018, section 3.1 and 3.4, for one row.

    Args:
        config: the `model` part.
        params: nested dict of float64 arrays.
        characters: [T, C]; filled: [T]. Empty slots are skipped, and their outputs are zeros.
        state: [2, L, D]; memory: [2, L, M]; before the row.

    Returns:
        (layers [L + 1, T, 2, D], state, memory).
    """
    places = np.flatnonzero(filled)
    tokens = np.array([token_vector(params["characters"], characters[t]) for t in places]).reshape(
        len(places), config.dim
    )
    layers = np.zeros((config.num_layers + 1, len(filled), 2, config.dim))
    state, memory = np.array(state, np.float64), np.array(memory, np.float64)
    for side, name in enumerate(("forward", "backward")):
        step = -1 if name == "backward" else 1
        x = tokens[::step]
        layers[0, places, side] = tokens
        for layer in range(config.num_layers):
            own = {
                part: {leaf: value[layer] for leaf, value in leaves.items()}
                for part, leaves in params[name]["layers"].items()
            }
            y, state[side, layer], memory[side, layer] = lstm(
                own, x, state[side, layer], memory[side, layer], config.elmo.cell_clip, config.elmo.projection_clip
            )
            x = y + x if config.residual and layer else y
            layers[layer + 1, places, side] = x[::step]
    return layers, state, memory
