"""The block and the last norm of the placement that a config names."""

from zoo.config import ResolvedConfig
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.layers.block import Block
from zoo.layers.norm import NoNorm, Norm, make_norm


def make_block(config: ResolvedConfig, cross: bool = False, sides: tuple[int, int] | None = None) -> Block:
    """Builds the block that `norm.placement` names; see `Block` for the arguments."""
    return PLACEMENT_KINDS.code_of(config.norm.placement)(config, cross, sides)


def make_final_norm(config: ResolvedConfig) -> Norm:
    """Builds the norm after the last block; post-norm needs none."""
    return make_norm(config) if PLACEMENT_KINDS.code_of(config.norm.placement).final_norm else NoNorm(config)
