"""Cost of a config before anything runs: parameters and floating-point operations, from shapes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from flax import nnx

from zoo.config import (
    AUTO,
    ResolvedConfig,
    evaluated_layers,
    generator_config,
    layer_kind,
    side,
    stored_layers,
    teacher_config,
)
from zoo.config.fields import SEQUENCE_TASKS, TASKS
from zoo.config.kinds import ATTENTION_KINDS, OBJECTIVE_KINDS, PLACEMENT_KINDS, POSITION_KINDS
from zoo.config.kinds.side_lengths import side_lengths
from zoo.layers.attention.key_values import window_span
from zoo.layers.parameter import vocabulary_rows
from zoo.models.architectures import make_model


@dataclass(frozen=True)
class Cost:
    """Size of a model and cost of its training.

    Attributes:
        parameters: numbers of parameters: "total", "embedding" (tables of tokens, positions,
            segments, characters), "heads" (parameters that turn hidden states into scores),
            "generator", where there is one, and "body" (the rest). A shared parameter counts once.
            With experts also "active": those that are applied to a token, k of the E experts.
        blocks: numbers of parameters by part, e.g. {"blocks/attention": ...}, adding up to the
            total.
        flops_per_token: floating-point operations of one training step per token of a row, forward
            and backward, with the forward pass of a teacher.
    """

    parameters: dict[str, int]
    blocks: dict[str, int]
    flops_per_token: float

    @property
    def unpadded(self) -> int:
        """Number of parameters without the rows that only pad the vocabulary."""
        return self.parameters["total"] - self.parameters.get("padding", 0)


HEADS = ("head", "pooler", "next_sentence", "classifier", "discriminator", "mix")
TABLES = ("embedding", "source_embedding", "position", "segments", "characters/embedding")
LAYER_TABLES = ("value_embedding",)


def mean_visible_keys(length: int, window: int, causal: bool = True, prefix: int = 0, dilation: int = 1) -> float:
    """Returns the mean number of keys that a query of a sequence sees, itself included.

    A window of 0 is no limit, any other holds every `dilation`-th key; all tokens of a prefix see
    each other.
    """
    if not causal:
        reach = (window - 1) // 2 if window else length
        return (
            sum(min(t // dilation, reach) + 1 + min((length - 1 - t) // dilation, reach) for t in range(length))
            / length
        )
    if dilation > 1:
        return sum(min(t // dilation + 1, window) for t in range(length)) / length
    window, prefix = min(window or length, length), min(prefix, length)
    return (window * (window + 1) / 2 + (length - window) * window + prefix * (prefix - 1) / 2) / length


def _part(path: str) -> str:
    """Returns the part of the model that a parameter belongs to, by its path."""
    parts = path.split("/")
    if "stack" in parts:
        place = parts.index("layers") + 1
        kinds = {"attention", "cross_attention", "ffn"}
        name = next(
            (name for name in parts[place:] if name in kinds or name.endswith(("_norm", "_convolution"))), parts[place]
        )
        return "/".join([*parts[: parts.index("stack")], "blocks", name])
    return "/".join(parts[:2]) if parts[0] in ("encoder", "decoder", "characters", "forward", "backward") else parts[0]


def _multiplied_vectors(path: str, row: "Row", config: ResolvedConfig) -> float:
    """Returns how many vectors of a row of the batch are multiplied with a matrix."""
    if path.startswith(("pooler", "next_sentence")) or (
        path.startswith("classifier") and config.objective.kind in SEQUENCE_TASKS
    ):
        return 1
    if "/global_query/" in path:
        return min(config.model.attention.global_tokens, row.targets)
    if path.startswith("characters/convolutions/"):
        width = config.model.elmo.filters[2 * int(path.split("/")[2])]
        return row.targets * (config.model.elmo.characters - width + 1)
    if path.startswith("encoder/") or "/cross_attention/key/" in path or "/cross_attention/value/" in path:
        return row.source
    if path.startswith(("head/", "generator/head/")):
        return row.predicted
    return row.targets


def _share_of_experts(path: str, model: ResolvedConfig) -> float:
    """Returns which share of the tokens a parameter is applied to: k / E for the matrices and biases
    of experts, else 1.

    Args:
        path: path of the parameter.
        model: the config below `model`.
    """
    if "/experts/" not in path or path.rpartition("/")[2] not in ("kernel", "bias"):
        return 1.0
    before, _, after = path.partition("stack/layers/")
    own = side(model, before.rstrip("/")) if before in ("encoder/", "decoder/") else model
    own = generator_config(model) if before == "generator/" else own
    experts = (layer_kind(own, after.split("/")[0]) if own.layers.pattern else own).ffn.experts
    return experts.per_token / experts.number


def _layers_that_use(stack: str, model: ResolvedConfig) -> float:
    """Returns how many layers of a stack apply the same matrix (`layers.distinct`), on average over
    the stored layers and, where loops are drawn, over their number.

    Args:
        stack: path of the model that the stack is part of: "encoder/", "decoder/", "generator/", or
            "" where there is one.
        model: the config below `model`.
    """
    if model.layers.pattern:
        return 1
    own = side(model, stack.rstrip("/")) if stack in ("encoder/", "decoder/") else model
    own = generator_config(model) if stack == "generator/" else own
    return own.num_layers / len(stored_layers(own))


@dataclass(frozen=True)
class Row:
    """Numbers of tokens of a row.

    Attributes:
        source: tokens that the encoder of an encoder-decoder reads.
        targets: tokens that the rest of the model reads.
        predicted: tokens that are predicted and scored.
    """

    source: int
    targets: int
    predicted: int


def _layer_product_flops(layer: ResolvedConfig, queries: float, keys: float) -> float:
    """Returns the operations of one attention layer's products for a row; `keys` is the mean number
    of keys that a query sees.
    """
    return ATTENTION_KINDS.code_of(layer.attention.kind).product_flops(layer, queries, keys)


def _attention_flops(model: ResolvedConfig, row: Row, prefix: int) -> float:
    """Returns the operations of all attention products for a row with a prefix of that length."""
    if model.architecture == "elmo":
        return 0.0
    total = 0.0
    if model.architecture == "encoder_decoder":
        encoder, decoder = side(model, "encoder"), side(model, "decoder")
        total += _self_attention_flops(encoder, row.source, causal=False)
        total += _self_attention_flops(decoder, row.targets, causal=True)
        return total + decoder.num_layers * _layer_product_flops(decoder, row.targets, row.source)
    if model.generator.num_layers not in (AUTO, 0):
        total += _self_attention_flops(generator_config(model), row.targets, causal=False)
    return total + _self_attention_flops(model, row.targets, model.architecture == "decoder", prefix)


def _self_attention_flops(model: ResolvedConfig, length: int, causal: bool, prefix: int = 0) -> float:
    """Returns the operations of the self-attention products of a stack, kind by kind."""
    pattern, total = tuple(model.layers.pattern), 0.0
    kinds = [pattern[layer % len(pattern)] if pattern else "" for layer in range(model.num_layers)]
    for name in set(kinds):
        layer = layer_kind(model, name) if name else model
        dilations = tuple(layer.attention.dilations) or (1,)
        window = layer.attention.window
        keys = sum(mean_visible_keys(length, window, causal, prefix, dilation) for dilation in dilations)
        keys /= len(dilations)
        if global_tokens := min(layer.attention.global_tokens, length):
            flops = _layer_product_flops(layer, length, min(keys + global_tokens, length))
            flops += _layer_product_flops(layer, global_tokens, length)
        else:
            flops = _layer_product_flops(layer, length, keys)
        if layer.attention.kind in ATTENTION_KINDS.having("scores"):
            flops += POSITION_KINDS.code_of(layer.position.kind).query_flops(layer) * length
        total += kinds.count(name) * flops
    return total


def _residual_flops(model: ResolvedConfig, row: Row) -> float:
    """Returns the operations of the residual connections of all layers for a row
    (`Block.residual_flops`).
    """
    if model.architecture == "elmo":
        return 0.0

    def of_stack(config: ResolvedConfig, tokens: int, sublayers: int = 2) -> float:
        of_layer = PLACEMENT_KINDS.code_of(config.norm.placement).residual_flops(config, sublayers)
        return config.num_layers * tokens * of_layer

    if model.architecture == "encoder_decoder":
        return of_stack(side(model, "encoder"), row.source) + of_stack(side(model, "decoder"), row.targets, 3)
    generator = generator_config(model) if model.generator.num_layers not in (AUTO, 0) else None
    return of_stack(model, row.targets) + (of_stack(generator, row.targets) if generator else 0.0)


def _predicted_tokens(config: ResolvedConfig, targets: int) -> int:
    """Returns how many tokens of a row the objective predicts, of those that the model reads."""
    objective, length = config.objective, config.data.sequence_length
    if config.model.architecture == "elmo" and objective.kind in OBJECTIVE_KINDS.having("tokens"):
        # In both directions.
        return 2 * length
    if objective.kind in OBJECTIVE_KINDS.having("masked") and objective.kind in OBJECTIVE_KINDS.having("fixed_share"):
        return max(1, round(objective.select_fraction * length))
    return length + 1 - objective.prefix_length if objective.kind in OBJECTIVE_KINDS.having("prefix") else targets


def cached_numbers(model: ResolvedConfig, tokens: int = 1) -> int:
    """Returns how many numbers the self-attention of all layers keeps in a decoder's cache, once it
    has read so many tokens (`TokenMixer.cached_numbers`); a layer with a window keeps those that it
    spans.

    Args:
        model: the config below `model`, as the decoder sees it.
        tokens: number of tokens that were read.
    """
    pattern, total = tuple(model.layers.pattern), 0
    for index in range(evaluated_layers(model)):
        layer = layer_kind(model, pattern[index % len(pattern)]) if pattern else model
        kept = min(tokens, window_span(layer.attention.window, tuple(layer.attention.dilations)) or tokens)
        total += ATTENTION_KINDS.code_of(layer.attention.kind).cached_numbers(layer) * kept
    return total


def state_bytes(model: ResolvedConfig) -> int:
    """Returns how many bytes the self-attention of all layers keeps of each sequence in a decoder's
    cache, whatever the number of its tokens (`TokenMixer.state_bytes`).

    Args:
        model: the config below `model`, as the decoder sees it.
    """
    pattern = tuple(model.layers.pattern) or ("",)
    layers = (pattern[index % len(pattern)] for index in range(evaluated_layers(model)))
    kinds = (layer_kind(model, name) if name else model for name in layers)
    return sum(ATTENTION_KINDS.code_of(kind.attention.kind).state_bytes(kind) for kind in kinds)


def cross_cached_numbers(model: ResolvedConfig) -> int:
    """Returns how many numbers the cross-attention of all layers keeps of each token of the encoder's
    output; 0 where the self-attention of its kind keeps none.

    Args:
        model: the config below `model`, as the decoder of an encoder-decoder sees it.
    """
    attention = model.attention
    if not (numbers := ATTENTION_KINDS.code_of(attention.kind).cached_numbers(model)):
        return 0
    return numbers * attention.cross_kv_heads // attention.num_kv_heads * model.num_layers


def summary(config: ResolvedConfig, every_token: bool = False) -> Cost:
    """Computes the cost of a resolved config without allocating arrays.

    FLOPs of a step = 3 * (2 * sum over weight matrices of (number of weights * number of tokens
    multiplied by it) + the attention products + those of several residual streams): 2 for multiply
    and add, 3 for one forward pass and a backward pass that costs twice as much.
    `TokenMixer.product_flops` counts the products of a layer: for softmax 4 * H * K * S per token,
    where S keys are seen on average, so causal attention counts as the half that it is;
    `Position.query_flops` counts those of relative vectors. For one decoder without them this is
    3 * (2 * N + 4 * H * K * S * L) per token. Embedding look-ups, norms, activations and softmax are
    left out. Recomputation is not counted. A teacher's forward pass is added.

    Args:
        config: the resolved config.
        every_token: the head scores every token that is read, whatever the objective predicts.

    Raises:
        ConfigError: the teacher is not a run or cannot teach this model.
    """
    model, length = config.model, config.data.sequence_length
    objective = config.objective
    source, targets = side_lengths(objective, length) if model.architecture == "encoder_decoder" else (0, length)
    prefix = objective.prefix_length if objective.kind in OBJECTIVE_KINDS.having("prefix") else 0
    predicted = _predicted_tokens(config, targets)
    # Where the divergence is over every token, the predicted ones are scored once more.
    distilled = objective.distillation
    all_distilled = bool(distilled.teacher and distilled.kl) and distilled.kl_tokens == "all"
    scored_again = predicted if all_distilled else 0
    row = Row(source, targets, targets if every_token or all_distilled else predicted)
    counts = {
        "/".join(map(str, path)): math.prod(variable.get_value().shape)
        for path, variable in nnx.state(make_model(config), nnx.Param).flat_state()
    }
    blocks: dict[str, int] = {}
    for path, count in counts.items():
        blocks[_part(path)] = blocks.get(_part(path), 0) + count

    weights = [(path, count) for path, count in counts.items() if path.endswith(("/kernel", "/taps"))]
    stacks = {path.partition("stack/")[0] for path in counts if "stack/" in path}
    layers = {stack: _layers_that_use(stack, model) for stack in stacks}
    matrices = sum(
        count
        * _multiplied_vectors(path, row, config)
        * _share_of_experts(path, model)
        * (layers[path.partition("stack/")[0]] if "stack/" in path else 1)
        for path, count in weights
    )
    # A sampled softmax scores the sampled ids and the target.
    scored = (
        objective.sampled_softmax + 1
        if objective.sampled_softmax
        else 0
        if objective.kind in TASKS or model.generator.num_layers == 0
        else vocabulary_rows(model)
    )
    if objective.kind in OBJECTIVE_KINDS.having("several_targets"):
        scored *= objective.future_tokens
    narrow = model.head.transform or model.generator.num_layers != AUTO or model.embedding.projection == "tokens"
    width = (narrow and model.embedding.dim) or model.dim
    matrices += scored * width * (_multiplied_vectors("head/weights", row, config) + scored_again)
    flops = (
        3
        * (2 * matrices + _attention_flops(model, row, prefix) + _residual_flops(model, row))
        / (source + targets if objective.kind == "translation" else length)
    )
    if objective.distillation.teacher:
        # Forward is a third of forward and backward.
        flops += summary(teacher_config(config), all_distilled).flops_per_token / 3
    return Cost(_parameters(config, counts), blocks, flops)


def _parameters(config: ResolvedConfig, counts: Mapping[str, int]) -> dict[str, int]:
    """Returns `Cost.parameters`, from the number of parameters at each path."""

    def within(path: str, parts: tuple[str, ...]) -> bool:
        place = path.removeprefix("encoder/").removeprefix("decoder/")
        return place.startswith(tuple(f"{part}/" for part in parts)) or place in parts

    total, own = sum(counts.values()), {path: n for path, n in counts.items() if not path.startswith("generator/")}
    heads = sum(count for path, count in own.items() if within(path, HEADS))
    embedding = sum(count for path, count in own.items() if within(path, TABLES) or path.endswith(LAYER_TABLES))
    body = sum(own.values()) - embedding - heads
    parts = {"total": total, "embedding": embedding, "body": body, "heads": heads}
    active = round(sum(count * _share_of_experts(path, config.model) for path, count in counts.items()))
    others = {"generator": total - sum(own.values()), "padding": _padding(config), "active": active % total}
    return parts | {name: count for name, count in others.items() if count}


def _padding(config: ResolvedConfig) -> int:
    """Returns the number of parameters in rows that pad the vocabulary (`model.vocab_multiple`)."""
    model = config.model
    if model.architecture == "elmo" or (rows := vocabulary_rows(model)) == model.vocab_size:
        return 0
    tables = (variable for _, variable in nnx.state(make_model(config), nnx.Param).flat_state())
    sizes = (math.prod(table.get_value().shape) for table in tables if "vocab" in table.get_metadata("axes"))
    return sum(sizes) // rows * (rows - model.vocab_size)
