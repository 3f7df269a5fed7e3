"""Chooses a layer's implementation of attention, and says why it is not the fused one."""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from zoo.config import ATTENTION_SUPPORT, AUTO
from zoo.errors import ConfigError
from zoo.layers.attention.kernels.banded import block_length
from zoo.layers.context import Context
from zoo.layers.platform import ROWS_FROM, Platform

FUSED = {"gpu": "cudnn", "tpu": "splash"}
"""The fused kernel of each platform that has one."""


class Mask(Enum):
    """The form in which the fused kernel gets a mask: none, because all keys are visible; its own
    causal mask, with or without a window; the lengths of rows that end in padding; or an array.
    """

    NONE, CAUSAL, LENGTHS, ARRAY = "none", "causal", "lengths", "array"


def fused_mask(context: Context, window: int, global_tokens: int = 0) -> Mask:
    """Returns the form in which the fused kernel gets the mask of rows, with a window or 0."""
    if context.prefix or context.documents is not None or global_tokens:
        return Mask.ARRAY
    if context.causal:
        return Mask.CAUSAL if context.in_order else Mask.ARRAY
    if window:
        return Mask.ARRAY
    return Mask.NONE if context.no_padding else Mask.LENGTHS if context.keys_end_in_padding else Mask.ARRAY


def window_block(context: Context, window: int) -> int:
    """Returns the size of the blocks into which a window of `window` tokens cuts rows, or 0
    (`zoo.layers.attention.kernels.banded`).
    """
    cut = context.in_order and not context.prefix
    return block_length(context.positions.shape[1], window, context.causal) if cut else 0


def row_shape(context: Context, block: int, global_tokens: int = 0) -> tuple[int, int]:
    """Returns (queries, keys) of the rows that a kernel is given: with `block`, those of a block and
    its neighbours (`zoo.layers.attention.kernels.banded`).
    """
    if block:
        return block, global_tokens + (2 if context.causal else 3) * block
    return context.positions.shape[1], context.effective_key_positions.shape[1]


def places_are_positions(context: Context, window: int) -> bool:
    """Returns whether the mask of rows follows from the places of their tokens, but for documents and
    padding.

    Args:
        context: the rows.
        window: keys that a query sees; 0 for all.
    """
    if not (context.causal or window):
        return True
    prefix_of_documents = context.prefix > 0 and context.documents is not None
    return context.in_order and context.key_positions is None and not prefix_of_documents


class RowSize(NamedTuple):
    """The sizes on which the choice of a kernel depends.

    Attributes:
        tokens: tokens of a row, or of the keys if they are fewer.
        scores: number of scores of a row, or of a block as one: heads x queries x keys.
        block: tokens of a block if the row can be cut into blocks. Splash attention skips what is
            outside of a window by itself.
        cudnn_block: the same for cuDNN's attention, which skips it unless its mask is an array.
    """

    tokens: int
    scores: int = ROWS_FROM
    block: int = 0
    cudnn_block: int = 0


class KernelChoice(NamedTuple):
    """The implementation that computes a layer.

    Attributes:
        kernel: its name.
        block: tokens of a block where it computes a window in blocks (`banded_attention`), or 0.
        reason: why it is not the fused one; empty for that.
    """

    kernel: str
    block: int = 0
    reason: str = ""

    @property
    def name(self) -> str:
        """The name, with "banded" before it where it computes a window in blocks."""
        return f"banded {self.kernel}" if self.block else self.kernel


UNNAMED = ("value_width", "query_score", "row_score", "any_order")
"""Features of `ATTENTION_SUPPORT` that no field asks for."""
_PARTS_OF_SCORE = ("query_score", "row_score")


def choose_kernel(
    implementation: str, platform: Platform, dtype: str, head_dim: int, asked: Mapping[str, str], rows: RowSize
) -> KernelChoice:
    """Resolves `attention.implementation=auto` to the fastest kernel that supports what is needed.

    Args:
        implementation: value of the field.
        platform: the devices; `rows` is chosen only on a single CPU, from `Platform.rows_from`
            scores on.
        dtype, head_dim: type and head width of the queries.
        asked: by feature of `ATTENTION_SUPPORT`, what needs it, in words; empty if nothing does.
        rows: what the kernel would be given.

    Raises:
        ConfigError: the kernel that the config names lacks a feature that no field names, which
            `resolve` therefore could not check (`UNNAMED`), or does not support heads of this width
            on this GPU.
    """
    blocks = {"cudnn": rows.cudnn_block, "splash": 0}
    if implementation != AUTO:
        features = ATTENTION_SUPPORT[implementation].features
        for feature in UNNAMED:
            if asked.get(feature) and feature not in features:
                raise ConfigError(
                    f"model.attention.implementation={implementation} does not support {asked[feature]}; use einsum"
                )
        unable = list(_lacks_device(implementation, platform))
        if not unable and (why := _too_wide(implementation, platform, head_dim)):
            raise ConfigError(f"model.attention.implementation={implementation} cannot have model.attention.{why}")
        named = [] if implementation in FUSED.values() else [f"model.attention.implementation={implementation}"]
        return KernelChoice(implementation, blocks.get(implementation, rows.block), "; ".join(named + unable))
    missing = [f"no {' or '.join(map(str.upper, FUSED))}"]
    if (fused := FUSED.get(platform.name)) is not None:
        missing = [*_lacks_device(fused, platform)] or [*_lacks(fused, platform, dtype, head_dim, asked)]
        if rows.tokens < (least := ATTENTION_SUPPORT[fused].least_tokens):
            missing.append(f"rows of {rows.tokens} tokens, fewer than the {least} of a block")
        if not missing:
            return KernelChoice(fused, blocks[fused])
    large = platform.name == "cpu" and platform.devices == 1 and rows.scores >= platform.rows_from
    kernel = "rows" if large and not any(_lacks("rows", platform, dtype, head_dim, asked)) else "einsum"
    return KernelChoice(kernel, rows.block, "; ".join(missing))


def _lacks_device(kernel: str, platform: Platform) -> Iterator[str]:
    """Yields why a kernel does not run on a platform at all."""
    support, capability = ATTENTION_SUPPORT[kernel], platform.capability
    if platform.name not in support.platforms:
        yield f"no {' or '.join(support.platforms).upper()}"
    elif support.capability > (capability or (0, 0)):
        least = "{}.{}".format(*support.capability)
        yield f"compute capability {'{}.{}'.format(*capability)}, below {least}" if capability else "no NVIDIA GPU"


def _lacks(kernel: str, platform: Platform, dtype: str, head_dim: int, asked: Mapping[str, str]) -> Iterator[str]:
    """Yields what a layer needs and a kernel cannot do, on a platform on which it runs."""
    support = ATTENTION_SUPPORT[kernel]
    if dtype not in support.dtypes:
        yield f"{dtype} activations"
    if head_dim not in (widths := support.head_dims):
        yield f"head_dim={head_dim}, no multiple of {widths.step} up to {widths[-1]}"
    elif why := _too_wide(kernel, platform, head_dim):
        yield why
    missing = [feature for feature, why in asked.items() if why and feature not in support.features]
    yield from (asked[feature] for feature in missing if "score" not in missing or feature not in _PARTS_OF_SCORE)


def _too_wide(kernel: str, platform: Platform, head_dim: int) -> str:
    """Returns why heads are too wide for a kernel on this GPU; empty if they are not."""
    support, major = ATTENTION_SUPPORT[kernel], (platform.capability or (0, 0))[0]
    if head_dim <= support.widest_head or major in support.wide_heads_on:
        return ""
    return f"head_dim={head_dim}, above {support.widest_head} on this GPU"
