"""What a config costs before anything runs: parameters and floating-point operations, from shapes alone."""

import math
from dataclasses import dataclass

from flax import nnx

from zoo.config import ResolvedConfig
from zoo.models.architectures import make_model


@dataclass(frozen=True)
class Cost:
    """Size and price of a model.

    Attributes:
        parameters: numbers of parameters: "total", "embedding" (token and position tables), "heads" (an untied output
            matrix) and "body" (the rest). A shared parameter counts once.
        blocks: numbers of parameters by part, e.g. {"blocks/attention": ...}, adding up to the total.
        flops_per_token: floating-point operations of one training step per token, forward and backward.
    """

    parameters: dict[str, int]
    blocks: dict[str, int]
    flops_per_token: float


def mean_visible_keys(length: int, window: int) -> float:
    """Mean number of keys that a query of a causal sequence sees, itself included; `window` 0 is no limit."""
    window = min(window or length, length)
    return (window * (window + 1) / 2 + (length - window) * window) / length


def summary(config: ResolvedConfig) -> Cost:
    """Counts a resolved config, allocating nothing.

    FLOPs per token = 3 * (2 * N + 4 * H * K * S * L): a multiplication and an addition for each of the N weights that a token is
    multiplied with (matrices of the blocks and the output head; not the embedding look-up) and for the two attention products
    over the S keys that a token sees on average, once forward and twice backward (Kaplan et al. 2020, section 2.1, with causal
    attention counted as the half that it is). Norms, activations and softmax are left out. Recomputation is not counted.
    """
    model = make_model(config)
    counts = {"/".join(map(str, path)): math.prod(variable.get_value().shape)
              for path, variable in nnx.state(model, nnx.Param).flat_state()}
    blocks: dict[str, int] = {}
    for path, count in counts.items():
        parts = path.split("/")
        name = f"blocks/{parts[2]}" if parts[:2] == ["stack", "layers"] else parts[0]
        blocks[name] = blocks.get(name, 0) + count
    heads = blocks.get("head", 0)
    embedding = blocks["embedding"] + blocks.get("position", 0)
    total = sum(counts.values())
    multiplied = sum(count for path, count in counts.items() if path.endswith("/kernel")) + config.model.vocab_size * config.model.dim
    attention = config.model.attention
    keys = mean_visible_keys(config.data.sequence_length, attention.window)
    flops = 3 * (2 * multiplied + 4 * attention.num_heads * attention.head_dim * keys * config.model.num_layers)
    return Cost({"total": total, "embedding": embedding, "body": total - embedding - heads, "heads": heads}, blocks, flops)
