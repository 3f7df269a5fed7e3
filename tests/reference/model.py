"""Blocks, stacks and whole models in float64 numpy, from the papers' equations.

A config is the `model` part of a resolved one. Parameters are the nested dict of a model, its layers
stacked along the first dimension; running statistics stand among them, under their names.
"""

from dataclasses import replace

import numpy as np

from tests.reference import positions as schemes
from tests.reference import streams
from tests.reference.convolutions import convolved_rows
from tests.reference.layers import activation, activation_name, attention_layer, feed_forward, linear, norm
from tests.reference.rows import Rows, overlaid


def deepnorm_alpha(config, sides):
    """Wang et al. 2022, figure 2: the factor on the residual stream for N encoder and M decoder
    layers.
    """
    if sides is None:
        return (2 * config.num_layers) ** (1 / 4)
    N, M = sides
    return 0.81 * (N**4 * M) ** (1 / 16) if config.architecture == "encoder" else (3 * M) ** (1 / 4)


def block(config, params, x, rows, table=None, sides=None, number=1, first=None):
    """One block: Vaswani et al. 2017, section 3.1 (post; cross-attention between the two sublayers
    where there is a memory), Xiong et al. 2020, Table 1 (pre), Ding et al. 2021 (sandwich), Liu et
    al. 2021 (reordered), Wang et al. 2022 (deepnorm), Xie et al. 2023 (two streams), Loshchilov et
    al. 2024 (interpolated); parallel: Wang & Komatsuzaki 2021 (shared norm) and Black et al. 2022
    (own norms). The `number` of the layer counts from 1 (Sun et al. 2025, eq. 6); `first` is what
    entered the first block. What is added is multiplied by r (Granite).
    """
    keep, placement, r = 1.0 if config.residual else 0.0, config.norm.placement, config.residual_multiplier

    def before(place, name, y):
        return convolved_rows(config, place, y, rows, params.get(f"{name}_convolution"))

    sublayers = {
        "attention": lambda y: attention_layer(
            config, params["attention"], before("A", "attention", y), rows, table=table, number=number
        )
    }
    if "cross_attention" in params:
        sublayers["cross_attention"] = lambda y: attention_layer(
            config, params["cross_attention"], y, rows, cross=True, number=number
        )
    if config.ffn.kind != "none":
        sublayers["ffn"] = lambda y: feed_forward(config, params["ffn"], before("C", "ffn", y), rows)

    def normed(name, y):
        if name in ("attention", "attention_key", "attention_value") and not config.attention.input_norm:
            return y
        return norm(config, params.get(f"{name}_norm"), y, rows)

    if config.parallel == "shared_norm":
        same = normed("attention", x)
        return keep * x + r * (sublayers["attention"](same) + sublayers["ffn"](same))
    if config.parallel == "own_norms":
        return keep * x + r * (sublayers["attention"](normed("attention", x)) + sublayers["ffn"](normed("ffn", x)))
    if placement == "x0_shortcut":
        x = params["stream_scale"] * x + params["shortcut_scale"] * (x if first is None else first)
    if placement in ("denseformer", "unet"):
        plain = overlaid(config, {"norm": {"placement": "pre"}})
        return streams.around_block(
            config, params, x, lambda y: block(plain, params, y, rows, table, sides, number), number
        )
    if placement == "mudd":

        def attention(*inputs):
            query, *others = (
                normed(f"attention{name}", y) for name, y in zip(("", "_key", "_value"), inputs, strict=True)
            )
            return r * attention_layer(
                config, params["attention"], query, rows, table=table, number=number, inputs=others
            )

        return streams.dynamic_dense(params, x, attention, lambda h: r * sublayers["ffn"](normed("ffn", h)), number)
    for place, (name, f) in enumerate(sublayers.items()):
        if placement in streams.HYPER:
            order = (number - 1) * len(sublayers) + place
            x = streams.sublayer(
                config, params[f"{name}_streams"], x, lambda y, f=f, name=name: f(normed(name, y)), order
            )
        elif placement == "depth_attention":
            order = (number - 1) * len(sublayers) + place
            x = streams.depth_attention(
                params, x, lambda y, f=f, name=name: r * f(normed(name, y)), f"{name}_query", order
            )
        elif placement in ("pre", "x0_shortcut"):
            x = keep * x + r * f(normed(name, x))
        elif placement == "pre_scaled":
            x = keep * x + r * f(normed(name, x) / np.sqrt(number))
        elif placement == "layerscale":
            # Touvron et al. 2021, eq. 4.
            x = keep * x + r * params[f"{name}_scale"] * f(normed(name, x))
        elif placement == "post":
            x = normed(name, keep * x + r * f(x))
        elif placement == "resi_dual":
            y = r * f(x[:, :, 0])
            x = np.stack([normed(name, x[:, :, 0] + y), x[:, :, 1] + y], axis=2)
        elif placement == "sandwich":
            x = keep * x + r * normed(f"{name}_output", f(normed(name, x)))
        elif placement == "reordered":
            x = keep * x + r * normed(name, f(x))
        elif placement == "interpolated":
            # Loshchilov et al. 2024, section 2.2, with the stored steps of section 2.5.
            step = config.norm.step_start * np.sqrt(x.shape[-1]) * np.abs(params[f"{name}_step"])
            x = normed(name, x + step * (normed(f"{name}_output", f(x)) - x))
        else:
            assert placement == "deepnorm"
            x = normed(name, deepnorm_alpha(config, sides) * x + r * f(x))
    return x


def layer(params, index):
    """The parameters of one layer of a stack."""
    return {name: layer(value, index) if isinstance(value, dict) else value[index] for name, value in params.items()}


def looped_layers(config):
    """The number of layers that are looped over."""
    return config.layers.distinct - config.layers.prelude - config.layers.coda


def stored_layers(config):
    """The numbers of the stored layers in the order in which they are applied."""
    stored, depth = config.layers.distinct or config.num_layers, config.num_layers
    if config.layers.sharing == "sequence":
        return [number for number in range(stored) for _ in range(depth // stored)]
    before, after = range(config.layers.prelude), range(stored - config.layers.coda, stored)
    core = list(range(stored))[config.layers.prelude : stored - config.layers.coda]
    order = list(before)
    while len(order) + len(after) < depth:
        order += core
    return [*order, *after]


def tower(config, params, x, rows, segments=None, sides=None):
    """The stack between the token embedding and the head, [B, T, D] to [B, T, D]."""
    position = config.position
    if config.embedding.projection == "tokens":
        x = linear(params["embedding_projection"], x)
    if position.kind == "learned":
        x = x + params["position"]["table"][np.maximum(rows.positions, 0) + position.offset]
    elif position.kind == "sinusoidal":
        x = x + np.array(
            [
                [schemes.sinusoid(p + position.offset, x.shape[-1], position.layout, position.endpoint) for p in row]
                for row in rows.positions
            ]
        )
    if "segments" in params:
        x = x + params["segments"][np.zeros_like(rows.positions) if segments is None else segments]
    if config.embedding.norm:
        x = norm(config, params.get("embedding_norm"), x, rows)
    if config.embedding.dim and config.embedding.projection == "sum":
        x = linear(params["embedding_projection"], x)
    table = params["position"]["table"] if position.kind == "relative_bias" and position.shared else None
    layers, pattern, seen = params["stack"]["layers"], tuple(config.layers.pattern), {}
    first, x, entered = x, streams.expand(config, x), None
    for index, stored in enumerate(stored_layers(config)):
        place = {"number": index + 1, "first": first}
        turn = index - config.layers.prelude
        if (
            config.layers.reinjection
            and not turn % looped_layers(config)
            and index < config.num_layers - config.layers.coda
        ):
            entered = entered if turn else x
            x = x + entered if turn > 0 else x
        if pattern:
            kind = pattern[index % len(pattern)]
            number = seen[kind] = seen.get(kind, -1) + 1
            x = block(
                overlaid(config, config.layers.kinds[kind]),
                layer(layers[kind], number),
                x,
                replace(rows, kind=kind),
                table,
                sides,
                **place,
            )
        else:
            x = block(config, layer(layers, stored), x, rows, table, sides, **place)
        # A query of an empty slot sees nothing and is NaN, which times 0 would spread to all tokens.
        filled = rows.positions >= 0
        x = np.where(filled.reshape(*filled.shape, *[1] * (x.ndim - 2)), x, 0)
    y = streams.reduce(config, x)
    if config.norm.placement not in ("post", "deepnorm", "interpolated"):
        y = norm(config, params.get("final_norm"), y, rows)
    return x[:, :, 0] + y if config.norm.placement == "resi_dual" else y


def embed(config, params, tokens, table="embedding"):
    """Rows of the table, with `embedding.scale` times sqrt(width) (Vaswani et al. 2017, 3.4)."""
    rows = params[table][tokens]
    return config.embedding.multiplier * rows * (np.sqrt(rows.shape[-1]) if config.embedding.scale == "sqrt_dim" else 1)


def head(config, params, hidden, rows=None):
    """From hidden states to scores: Devlin et al. 2019's transform, T5's 1 / sqrt(D), nGPT's
    factors, a bias, Gemma 2's cap.
    """
    own = params.get("head", {})
    if config.head.transform:
        hidden = norm(config, own.get("norm"), activation(activation_name(config), linear(own["dense"], hidden)), rows)
    elif config.embedding.projection == "tokens":
        # Zhang et al. 2022, in OPT's code: the matrix that leads out of the narrow embedding's model.
        hidden = linear(own["dense"], hidden)
    if config.head.scale == "rsqrt_dim":
        hidden = hidden / np.sqrt(hidden.shape[-1])
    hidden = hidden * config.head.multiplier
    scores = hidden @ (params["embedding"] if config.tie_embeddings else own["weights"]).T
    if config.head.logit_scale:
        # Loshchilov et al. 2024, section 2.1.
        scores = scores * np.sqrt(config.dim) * own["logit_scale"]
    scores = scores + own.get("bias", 0.0)
    return config.head.softcap * np.tanh(scores / config.head.softcap) if config.head.softcap else scores


def hidden_states(config, params, tokens, rows, segments=None):
    """A decoder or an encoder up to the head: [B, T] to [B, T, D]."""
    rows = replace(rows, causal=config.architecture == "decoder", tokens=tokens, values={}, keys={})
    return tower(config, params, embed(config, params, tokens), rows, segments)


def batch_logits(config, params, tokens, rows, segments=None):
    """A whole decoder or encoder: [B, T] to [B, T, V]."""
    return head(config, params, hidden_states(config, params, tokens, rows, segments), rows)


def logits(config, params, tokens, positions, documents=None, prefix=0):
    """A whole decoder or encoder for one row of tokens: [T] to [T, V]."""
    documents = None if documents is None else np.asarray(documents)[None]
    return batch_logits(
        config, params, np.asarray(tokens)[None], Rows(np.asarray(positions)[None], documents, prefix=prefix)
    )[0]


def encoder_decoder_logits(config, params, source, targets, source_rows, rows):
    """Vaswani et al. 2017, figure 1: an encoder, and a decoder that reads its output; [B, S] and
    [B, T] to [B, T, V].

    Each side is the whole config with its own overrides.
    """
    sides = {}
    for name in ("encoder", "decoder"):
        sides[name] = overlaid(config, {**config.get(name, {}), "architecture": name})
    depths = sides["encoder"].num_layers, sides["decoder"].num_layers
    source_rows = replace(source_rows, causal=False, tokens=source, values={}, keys={})
    rows = replace(rows, causal=True, tokens=targets, values={}, keys={})
    table = "embedding" if config.embedding.shared else "source_embedding"
    memory = tower(sides["encoder"], params["encoder"], embed(config, params, source, table), source_rows, sides=depths)
    rows = replace(rows, memory=memory, memory_positions=source_rows.positions)
    hidden = tower(sides["decoder"], params["decoder"], embed(config, params, targets), rows, sides=depths)
    return head(config, params, hidden, rows)
