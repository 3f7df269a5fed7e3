"""The shapes of a model's parameters, in the letters of the equations."""

from flax import nnx

from zoo.config import ResolvedConfig
from zoo.config.kinds import ATTENTION_KINDS
from zoo.layers.parameter import Statistic
from zoo.models.architectures import make_model


def _letters(config: ResolvedConfig) -> dict[int | str, str]:
    """Returns {size: letter of the dimension} of the small model."""
    model, attention = config.model, config.model.attention
    if model.architecture == "elmo":
        return {model.vocab_size: "V", 4 * model.elmo.cell_dim: "4 M", model.elmo.cell_dim: "M", model.dim: "D"}
    letters = {config.data.sequence_length: "T", model.ffn.hidden_dim: "F", model.vocab_size: "V", model.dim: "D"}
    if attention.kind not in ATTENTION_KINDS.having("heads", "state"):
        return letters
    H, K = attention.num_heads, attention.head_dim
    G = attention.num_kv_heads if attention.kind in ATTENTION_KINDS.having("heads") else attention.key_heads
    letters |= ATTENTION_KINDS.code_of(attention.kind).letters(model)
    # The number of features of kinds that have features, else `auto`.
    return letters | {K: "K", H: "H", G * K: "G K", H * K: "H K", attention.features: "M"}


def variables(config: ResolvedConfig) -> dict[str, str]:
    """Returns {path within a layer: shape in letters} of all parameters, and marks statistics."""
    letters, found = _letters(config), {}
    attention, of_values = config.model.attention, {}
    if attention.kind == "value_embedding":
        # Without shared heads G is H; these belong to the heads of keys and values.
        G, K = attention.num_kv_heads, attention.head_dim
        of_values = {G: "G", G * K: "G K", attention.value_gate_channels: "c"}
    for path, variable in nnx.state(make_model(config), (nnx.Param, Statistic)).flat_state():
        shape, parts = variable.get_value().shape, [str(part) for part in path]
        if variable.get_metadata("axes")[:1] == ("layers",):
            shape = shape[1:]
            place = parts.index("layers")
            kind = variable.get_metadata("layer_kind")
            parts = [
                *parts[:place],
                "layers",
                *([] if kind is None else [kind]),
                *parts[place + (1 if kind is None else 2) :],
            ]
        mark = ", a statistic" if isinstance(variable, Statistic) else ""
        named = letters | of_values if {"value_embedding", "value_gate"} & set(parts) else letters
        found["/".join(parts).replace("stack/layers", "layers")] = (
            f"[{', '.join(named.get(size, str(size)) for size in shape)}]{mark}"
        )
    return found
