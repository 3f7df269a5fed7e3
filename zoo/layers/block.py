"""Blocks: where a layer normalises and adds. Each class is the paper's equation."""

from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.attention import Attention
from zoo.layers.context import Context
from zoo.layers.feedforward import FeedForward
from zoo.layers.norm import NoNorm, make_norm
from zoo.layers.position import Position


class Block(nnx.Module):
    """The parts of a block; subclasses put them in order."""

    def __init__(self, config: ResolvedConfig):
        self.attention_norm, self.attention = make_norm(config), Attention(config)
        self.ffn_norm, self.ffn = make_norm(config), FeedForward(config)
        self.residual, self.rate = config.residual, config.dropout

    def add(self, x: Float[Array, "B T D"], y: Float[Array, "B T D"], context: Context, path: str) -> Float[Array, "B T D"]:
        """x + dropout(y), or dropout(y) alone when residual connections are off."""
        y = context.dropout(y, self.rate, path)
        return x + y if self.residual else y


class PreNormBlock(Block):
    """x = x + Attention(Norm(x)); x = x + FFN(Norm(x)) (Xiong et al. 2020, Table 1, right)."""

    final_norm = True

    def __call__(self, x: Float[Array, "B T D"], context: Context, position: Position) -> Float[Array, "B T D"]:
        """Applies attention and feed-forward."""
        x = self.add(x, self.attention(self.attention_norm(x), context, position), context, "attention")
        return self.add(x, self.ffn(self.ffn_norm(x)), context, "ffn")


class PostNormBlock(Block):
    """x = Norm(x + Attention(x)); x = Norm(x + FFN(x)) (Vaswani et al. 2017, section 3.1)."""

    final_norm = False

    def __call__(self, x: Float[Array, "B T D"], context: Context, position: Position) -> Float[Array, "B T D"]:
        """Applies attention and feed-forward."""
        x = self.attention_norm(self.add(x, self.attention(x, context, position), context, "attention"))
        return self.ffn_norm(self.add(x, self.ffn(x), context, "ffn"))


PLACEMENTS = {"pre": PreNormBlock, "post": PostNormBlock}


def make_block(config: ResolvedConfig) -> Block:
    """Builds the block that `norm.placement` names, from the `model` part of a config."""
    return PLACEMENTS[config.norm.placement](config)


def make_final_norm(config: ResolvedConfig) -> nnx.Module:
    """Builds the norm after the last block, which pre-norm needs and post-norm has already."""
    return make_norm(config) if PLACEMENTS[config.norm.placement].final_norm else NoNorm(config)
