"""Blocks: placements of norms and residual connections. Each class is the paper's equation for one
sublayer f: attention, cross-attention, FFN.
"""

from collections.abc import Callable

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.config.kinds import FEED_FORWARD_KINDS
from zoo.layers.attention import SharedScores, make_attention
from zoo.layers.context import Context
from zoo.layers.feedforward import make_feed_forward
from zoo.layers.norm import NoNorm, Norm, make_norm
from zoo.layers.parameter import constant, ones, parameter, zeros
from zoo.layers.parametrization import depth_ratio
from zoo.layers.short_convolution import make_short_convolution

Hidden = Float[Array, "B T D"]
Residual = Float[Array, "B T D"] | Float[Array, "B T N D"]
"""The input and output of a block: one vector for each token, or N of them (`Block.expand`)."""
Sublayer = Callable[[Hidden], Hidden]


class Block(nnx.Module):
    """One layer: its sublayers in order, each through the equation `sublayer` of a subclass.

    Without `attention.input_norm` the norm before self-attention is the identity, as in the first
    layer of ModernBERT, whose embedding is normalised already (Warner et al. 2024, section 2.1.1).
    With `ffn.kind=none` there is no feed-forward sublayer.

    A subclass may carry several residual streams from layer to layer: `expand` makes them of the
    embedding, `sublayer` reads and writes them, `reduce` makes one vector of them, and
    `hidden_states` the output of the stack.

    Args:
        config: the `model` part, as this layer sees it.
        cross: the layer also reads a memory by cross-attention (Vaswani et al. 2017, section 3.1).
        sides: (layers of the encoder, layers of the decoder) of an encoder-decoder, else None;
            DeepNorm's constants depend on them.
    """

    final_norm = True
    """Whether a norm follows the last block."""
    norms_output = False
    """Whether each sublayer has a second norm, on its output."""
    outside = ""
    """What is added to the residual stream outside of sublayers, for diagrams."""

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        self.alpha, gain = self.constants(config, sides)
        has_ffn = config.ffn.kind in FEED_FORWARD_KINDS.having("hidden")
        self.parts = ("attention", *(("cross_attention",) if cross else ()), *(("ffn",) if has_ffn else ()))
        self.attention = make_attention(config, gain=gain)
        if cross:
            self.cross_attention = make_attention(config, cross=True, gain=gain)
        self.attention_convolution = make_short_convolution(config, "A", config.dim, "embed")
        if has_ffn:
            self.ffn = make_feed_forward(config, gain)
            self.ffn_convolution = make_short_convolution(config, "C", config.dim, "embed")
        for part in self.parts:
            if not (config.parallel == "shared_norm" and part == "ffn"):
                unnormed = part == "attention" and not config.attention.input_norm
                setattr(self, f"{part}_norm", NoNorm(config) if unnormed else make_norm(config, part))
            if self.norms_output:
                setattr(self, f"{part}_output_norm", make_norm(config, part))
        self.residual, self.rate, self.parallel = config.residual, config.dropout, config.parallel
        self.branch = config.residual_multiplier / depth_ratio(config)

    @staticmethod
    def constants(config: ResolvedConfig, sides: tuple[int, int] | None) -> tuple[float, float]:
        """Returns the factors on the residual stream and on the initial values of the value, output
        and FFN weights.
        """
        del config, sides
        return 1.0, 1.0

    @staticmethod
    def expand(x: Hidden, config: ResolvedConfig) -> Residual:
        """Returns what enters the first layer, from the embedded tokens; by default these."""
        del config
        return x

    @staticmethod
    def reduce(x: Residual, config: ResolvedConfig) -> Hidden:
        """Returns one vector for each token, from what leaves a layer; by default that itself.

        The last norm reads that of the last layer. Those of all layers are recorded.
        """
        del config
        return x

    @classmethod
    def hidden_states(cls, x: Residual, norm: Norm, config: ResolvedConfig, context: Context) -> Hidden:
        """Returns the hidden states after the stack, from what leaves its last layer: by default
        Norm(reduce(x)).

        Args:
            x: the residual stream, or streams.
            norm: the norm after the last block, which is the identity without `final_norm`.
            config: the `model` part.
            context: structure of the sequence.
        """
        return norm(cls.reduce(x, config), context)

    @classmethod
    def residual_flops(cls, config: ResolvedConfig, sublayers: int) -> int:
        """Returns the operations of products in the residual connections of one layer with so many
        sublayers, for one token that passes forward; by default none.
        """
        del config, sublayers
        return 0

    def sublayer(
        self, x: Residual, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Residual:
        """Applies f to x with the norms and the residual connection of this placement."""
        raise NotImplementedError

    def add(self, x: Hidden, y: Hidden, context: Context, part: str) -> Hidden:
        """Returns alpha * x + dropout(y), or dropout(y) alone without residual connections."""
        return self.combine(x, context.dropout(y, self.rate, part))

    def combine(self, x: Hidden, y: Hidden) -> Hidden:
        """Returns alpha * x + r * y, or y alone without residual connections.

        r is `residual_multiplier`, under CompleteP divided by L / `base_num_layers` (Dey et al. 2025,
        table 1).
        """
        if not self.residual:
            return y
        if self.branch != 1.0:
            y = y * jnp.asarray(self.branch, y.dtype)
        return (x if self.alpha == 1.0 else self.alpha * x) + y

    def __call__(
        self, x: Residual, context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Residual:
        """Applies the sublayers.

        Args:
            x: the residual stream, or streams.
            context: structure of the sequence.
            shared: the term that all layers add to the scores of self-attention.
        """
        functions: dict[str, Sublayer] = {
            "attention": lambda y: self.attention(self._convolved(y, "attention", context), context, shared),
            "ffn": lambda y: self.ffn(self._convolved(y, "ffn", context), context),
        }
        if "cross_attention" in self.parts:
            functions["cross_attention"] = lambda y: self.cross_attention(y, context)
        if self.parallel != "none":
            return self.parallel_sublayers(x, functions, context)
        for part in self.parts:
            norm, output_norm = getattr(self, f"{part}_norm"), getattr(self, f"{part}_output_norm", None)
            x = self.sublayer(x, functions[part], norm, output_norm, context, part)
        return x

    def _convolved(self, x: Hidden, part: str, context: Context) -> Hidden:
        convolution = getattr(self, f"{part}_convolution")
        return x if convolution is None else convolution(x, context, f"{part} convolution")

    def parallel_sublayers(self, x: Hidden, functions: dict[str, Sublayer], context: Context) -> Hidden:
        """Returns x + Attention(Norm(x)) + FFN(Norm(x)) (Wang & Komatsuzaki 2021, GPT-J: one norm
        for both; Black et al. 2022, GPT-NeoX-20B, section 2.1: one each).
        """
        normed = self.attention_norm(x, context)
        also = normed if self.parallel == "shared_norm" else self.ffn_norm(x, context)
        attended = context.dropout(functions["attention"](normed), self.rate, "attention")
        return self.combine(x, attended + context.dropout(functions["ffn"](also), self.rate, "ffn"))


class PreNormBlock(Block):
    """Pre-norm: x = x + f(Norm(x)) (Xiong et al. 2020, Table 1, right)."""

    def sublayer(
        self, x: Hidden, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Hidden:
        return self.add(x, f(norm(x, context)), context, part)


class PostNormBlock(Block):
    """Post-norm: x = Norm(x + f(x)) (Vaswani et al. 2017, section 3.1)."""

    final_norm = False

    def sublayer(
        self, x: Hidden, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Hidden:
        return norm(self.add(x, f(x), context, part), context)


class SandwichBlock(Block):
    """Sandwich norm: x = x + Norm(f(Norm(x))) (Ding et al. 2021, section 3.2; Gemma 2).

    Peri-LN (Kim et al. 2025, arXiv:2502.02732) is the same block; it also normalises the embedding
    (`embedding.norm`), which Gemma does not.
    """

    norms_output = True

    def sublayer(
        self, x: Hidden, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Hidden:
        return self.add(x, output_norm(f(norm(x, context)), context), context, part)


class ReorderedBlock(Block):
    """Reordered norm: x = x + Norm(f(x)) (Liu et al. 2021, Swin V2, section 3.2; OLMo 2)."""

    def sublayer(
        self, x: Hidden, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Hidden:
        return self.add(x, norm(f(x), context), context, part)


class PreScaledBlock(PreNormBlock):
    """LayerNorm scaling: x = x + f(Norm(x) / sqrt(l)) in layer l of a stack, counted from 1 (Sun et
    al. 2025, arXiv:2502.05795, eq. 6).

    The norm after the last block is not scaled. The paper uses it in place of smaller initial values
    of the output projections (`init.scale_residual`), not together with them.
    """

    def sublayer(
        self, x: Hidden, f: Sublayer, norm: Norm, output_norm: Norm | None, context: Context, part: str
    ) -> Hidden:
        factor = jnp.asarray((1.0 + context.layer_index) ** -0.5, x.dtype)
        return self.add(x, f(norm(x, context) * factor), context, part)


class LayerScaleBlock(PreNormBlock):
    """LayerScale: x = x + s * f(Norm(x)), with a learned vector s [D] of each sublayer that begins at
    `norm.layerscale_start` (Touvron et al. 2021, arXiv:2103.17239, eq. 4).

    Beginning at 0 it is ReZero (Bachlechner et al. 2020) with a number for each dimension.
    """

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        for part in self.parts:
            setattr(self, f"{part}_scale", parameter((config.dim,), (None,), constant(config.norm.layerscale_start)))

    def add(self, x: Hidden, y: Hidden, context: Context, part: str) -> Hidden:
        """Returns x + dropout(s * y)."""
        return super().add(x, y * getattr(self, f"{part}_scale")[...].astype(y.dtype), context, part)


class ShortcutBlock(PreNormBlock):
    """x = a x + b x0 before the sublayers of each block, which are pre-norm; x0 is what enters the
    first block (Jordan et al. 2024, modded-nanogpt; Karpathy 2025, nanochat).

    a and b are learned numbers of each block, 1 and 0 at first. The stream is multiplied by every a
    in turn, so the sources train a at a hundredth of the rate of b, by groups: `path:*/stream_scale`
    and `path:*/shortcut_scale`. Neither is decayed. The sources normalise x0 (`embedding.norm`).
    """

    outside = "x0 is added before each block"

    def __init__(self, config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None):
        super().__init__(config, cross, sides)
        self.stream_scale = parameter((1,), (None,), ones, "scalar")
        self.shortcut_scale = parameter((1,), (None,), zeros, "scalar")

    def __call__(
        self, x: Residual, context: Context, shared: Float[Array, "#B H T S"] | SharedScores | None = None
    ) -> Residual:
        """Applies the sublayers to a x + b x0; see `Block.__call__`."""
        a, b = (scale[...].astype(x.dtype) for scale in (self.stream_scale, self.shortcut_scale))
        return super().__call__(a * x + b * context.embedding, context, shared)


class DeepNormBlock(PostNormBlock):
    """DeepNorm: x = Norm(alpha x + f(x)), with the initial weights of values, outputs and FFN
    scaled by beta (Wang et al. 2022, figure 2).

    With N encoder layers and with M decoder layers, alpha and beta are (2N)^(1/4) and (8N)^(-1/4)
    for one stack alone, 0.81 (N^4 M)^(1/16) and 0.87 (N^4 M)^(-1/16) for the encoder of two,
    (3M)^(1/4) and (12M)^(-1/4) for its decoder.
    """

    @staticmethod
    def constants(config: ResolvedConfig, sides: tuple[int, int] | None) -> tuple[float, float]:
        """Returns (alpha, beta)."""
        if sides is None:
            return (2 * config.num_layers) ** 0.25, (8 * config.num_layers) ** -0.25
        N, M = sides
        if config.architecture == "encoder":
            return 0.81 * (N**4 * M) ** (1 / 16), 0.87 * (N**4 * M) ** (-1 / 16)
        return (3 * M) ** 0.25, (12 * M) ** -0.25
