"""The parts of an architecture, from tokens to predictions, as its config describes them."""

import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from zoo.config import AUTO, ResolvedConfig, layer_kind, side
from zoo.config.kinds import ATTENTION_KINDS, FEED_FORWARD_KINDS, PLACEMENT_KINDS, POSITION_KINDS
from zoo.config.kinds.objective_kinds import is_prefix_decoder
from zoo.draw.diagrams.block_steps import NORM, SUBLAYER, Branch, sublayer_steps
from zoo.layers.feedforward import hidden_dim
from zoo.layers.position import Position
from zoo.nested import flatten

LINE = 46
"""Characters of a line in a box."""


class Part(NamedTuple):
    """A box.

    Attributes:
        role: what it is, which gives its colour.
        title: its name.
        details: what it does.
        sizes: numbers, which say how large it is.
        inputs: for attention, the steps between what it reads and its queries, keys and values.
        cached: decoding keeps its keys and values.
        memory: it reads the encoder's output.
    """

    role: str
    title: str
    details: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    inputs: tuple[tuple[str, ...], ...] = ()
    cached: bool = False
    memory: bool = False

    @property
    def kind(self) -> tuple[str, ...]:
        """Role, title and details: equal for parts that differ at most in their size."""
        return (self.role, self.title, *self.details)


class Addition(NamedTuple):
    """A vector that is added to every token."""

    part: Part


class Parallel(NamedTuple):
    """Branches that read the same input, and whose results are added."""

    branches: tuple[tuple[Part, ...], ...]


class Repeat(NamedTuple):
    """A block that is repeated."""

    count: str
    steps: tuple[Any, ...]


class Column(NamedTuple):
    """Steps from the input, at the bottom, to the output."""

    name: str
    source: str
    steps: tuple[Any, ...]


def columns(config: ResolvedConfig) -> tuple[Column, ...]:
    """Returns the stack of an architecture, or encoder and decoder, from `config.model`."""
    model = config.model
    if model.architecture == "elmo":
        return (_elmo(model),)
    if model.architecture != "encoder_decoder":
        prefix = is_prefix_decoder(flatten(config), model.architecture)
        return (Column(model.architecture, "tokens", (*_stack(model, False, prefix), *_head(model))),)
    encoder, decoder = side(model, "encoder"), side(model, "decoder")
    return (
        Column("encoder", "source tokens", tuple(_stack(encoder, False))),
        Column("decoder", "target tokens, shifted right", (*_stack(decoder, True), *_head(model))),
    )


def parts_of(steps: tuple[Any, ...]) -> Iterator[Part]:
    """Yields every part of nested steps, from bottom to top."""
    for step in steps:
        if isinstance(step, Part):
            yield step
        elif isinstance(step, Addition):
            yield step.part
        elif isinstance(step, Parallel):
            yield from parts_of(tuple(part for branch in step.branches for part in branch))
        else:
            yield from parts_of(step.steps)


def kinds_of(described: tuple[Column, ...]) -> set:
    """Returns the kinds of an architecture's parts, and the steps of their inputs."""
    every = [part for column in described for part in parts_of(column.steps)]
    return {part.kind for part in every} | {step for part in every for steps in part.inputs for step in steps[1:]}


def _stack(model: ResolvedConfig, cross: bool, prefix: bool = False) -> Iterator[Any]:
    """Yields the steps from tokens to the last norm."""
    scaled = ("times √E" if model.embedding.dim else "times √D",) if model.embedding.scale == "sqrt_dim" else ()
    if model.embedding.multiplier != 1:
        scaled += (f"times {model.embedding.multiplier:.4g}",)
    own = () if model.embedding.shared else ("one for each side",)
    width = _number(model.embedding.dim or model.dim)
    size = f"{_number(model.vocab_size)} × {width}"
    yield Part("embedding", "Token embedding", (*scaled, *own), (size,))
    projection = Part("embedding", "Linear", sizes=(f"{width} → {_number(model.dim)}",))
    if model.embedding.dim and model.embedding.projection == "tokens":
        yield projection
    if hook := _position_hook(model, "embed"):
        yield Addition(hook)
    if model.architecture == "encoder" and model.embedding.segments:
        yield Addition(Part("position", "Segments", sizes=(str(model.embedding.segments),)))
    if model.embedding.norm:
        yield _norm(model)
    if model.embedding.dim and model.embedding.projection == "sum":
        yield projection
    pattern = tuple(model.layers.pattern)
    kinds = {name: layer_kind(model, name) for name in dict.fromkeys(pattern)} or {"": model}
    looped = ", in a loop" * (model.layers.sharing == "cycle")
    count = f"{model.num_layers} ×" + f" ({model.layers.distinct} distinct{looped})" * bool(model.layers.distinct)
    if len(kinds) > 1:
        count += f" ({_counted(pattern)}, in turn)"
    yield Repeat(count, tuple(_block(model, kinds, cross, prefix)))
    if PLACEMENT_KINDS.code_of(model.norm.placement).final_norm and model.norm.kind != "none":
        yield _norm(model)


def _counted(pattern: tuple[str, ...]) -> str:
    names = dict.fromkeys(pattern)
    return ", ".join(f"{pattern.count(name)} {name}" if pattern.count(name) > 1 else name for name in names)


def _block(model: ResolvedConfig, kinds: dict[str, ResolvedConfig], cross: bool, prefix: bool) -> Iterator[Any]:
    """Yields the steps of one block."""
    attention = _merged(kinds, lambda each: _attention(each, False, prefix))
    ffn = _merged(kinds, _feed_forward)
    first = next(iter(kinds.values()))
    unnormed = not any(each.attention.input_norm for each in kinds.values())
    if model.parallel != "none":
        norm = () if model.norm.kind == "none" else (_norm(model),)
        if model.parallel == "shared_norm":
            yield Branch((*norm, Parallel(((attention,), (ffn,)))), first.residual)
        else:
            yield Branch((Parallel(((*(() if unnormed else norm), attention), (*norm, ffn))),), first.residual)
        return
    steps = sublayer_steps(first)
    has_ffn = any(each.ffn.kind in FEED_FORWARD_KINDS.having("hidden") for each in kinds.values())
    for part in (attention, *((_attention(first, True),) if cross else ()), *((ffn,) if has_ffn else ())):
        yield from _filled(steps, {NORM: _placed_norm(kinds), SUBLAYER: part}, unnormed and part is attention)


def _filled(steps: tuple[Any, ...], parts: dict[str, Part], unnormed: bool) -> Iterator[Any]:
    """Yields the steps with their parts; `unnormed` leaves out the norm before the sublayer."""
    for index, step in enumerate(steps):
        if isinstance(step, Branch):
            yield step._replace(steps=tuple(_filled(step.steps, parts, unnormed)))
        elif not (unnormed and step == NORM and SUBLAYER in steps[index:]):
            yield parts[step]


def _merged(kinds: dict[str, ResolvedConfig], make: Callable[[ResolvedConfig], Part]) -> Part:
    """Returns one part for all kinds of layers, with the lines in which they differ named."""
    made = {name: make(config) for name, config in kinds.items()}
    first = next(iter(made.values()))
    if len(set(made.values())) == 1:
        return first

    def lines(field: str) -> tuple[str, ...]:
        every = [getattr(part, field) for part in made.values()]
        common = tuple(line for line in every[0] if all(line in each for each in every))
        more = {name: [line for line in getattr(part, field) if line not in common] for name, part in made.items()}
        return common + tuple(f"{name}: {', '.join(each)}" for name, each in more.items() if each)

    titles = tuple(dict.fromkeys(part.title for part in made.values()))
    # The inputs drawn are those of the kind with the most steps; those of others are named.
    shown, part = max(made.items(), key=lambda item: sum(map(len, item[1].inputs)))
    others = tuple(f"{name}: {_inputs_text(each)}" for name, each in made.items() if each.inputs != part.inputs)
    drawn = (f"inputs shown: those of {shown}",) if others else ()
    return first._replace(
        title=" / ".join(titles), details=lines("details"), sizes=lines("sizes") + drawn + others, inputs=part.inputs
    )


def _inputs_text(part: Part) -> str:
    """Returns the inputs of a part in words: those of queries and of keys, or that it has none."""
    return "; ".join(" → ".join(steps) for steps in part.inputs) or "no queries, keys and values"


def _convolved(model: ResolvedConfig) -> tuple[str, ...]:
    """Returns a line about short convolutions over the row, or none."""
    kind = model.convolution.kind
    return () if kind == "none" else (f"short convolutions ({kind.replace('_', ' ')}) in the block",)


def _norm(model: ResolvedConfig) -> Part:
    names = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm", "batchnorm": "BatchNorm", "centering": "Centering"}
    return Part("norm", names.get(model.norm.kind, model.norm.kind))


def _placed_norm(kinds: dict[str, ResolvedConfig]) -> Part:
    """Returns the norm of a block, whose steps are those of the first kind of layers, with the
    placement of each kind where they differ, and what a placement adds outside of its sublayers.
    """
    placements = {name: each.norm.placement for name, each in kinds.items()}
    named = len(set(placements.values())) > 1
    details = tuple(f"{name}: {placement}" for name, placement in placements.items() if named)
    outside = dict.fromkeys(PLACEMENT_KINDS.code_of(each).outside for each in placements.values())
    return _norm(next(iter(kinds.values())))._replace(details=(*details, *filter(None, outside)))


def _attention(model: ResolvedConfig, cross: bool, prefix: bool = False) -> Part:
    attention = model.attention
    mixer = ATTENTION_KINDS.code_of(attention.kind)
    if (counts := mixer.head_counts(model, cross)) is None:
        return Part("attention", attention.kind.replace("_", " "), _convolved(model))
    heads, groups = attention.num_heads, counts.keys
    sharing = "Multi-head" if groups == heads else "Multi-query" if groups == 1 else "Grouped-query"
    more = {
        "scores capped": attention.softcap,
        "sinks": attention.sinks,
        "values normalised": attention.value_norm,
        "output norm": attention.output_norm,
        "output gate": attention.gate != "none",
        "input not normalised": not attention.input_norm and not cross,
        "own value removed": attention.exclusive and not cross,
        "scores grow with length": attention.ssmax,
        f"queries, keys and values clipped at {attention.clip:.4g}": attention.clip,
    }
    details = ["sees the whole source" if cross else _visibility(model, prefix), *_and(more)]
    details += () if cross else _convolved(model)
    sizes = [f"{heads} heads of {attention.head_dim}"]
    if source := mixer.key_value_source(model):
        sizes.append(f"keys and values from {source}")
    if groups != heads:
        sizes[0] += f", {heads // groups} share a key" + " and value" * (counts.values == groups)
    named = {"none": (), "cosine": ("unit length",), "unit": ("unit length",), "head_layernorm": ("LayerNorm",)}
    normed = named.get(attention.qk_norm, ("RMSNorm",))
    rotated = () if cross else _rotation(model)
    if not cross:
        if scored := _position_hook(model, "score_bias"):
            details.append(f"{scored.title} added to the scores")
        if model.position.kind == "rope" and model.position.theta != 10_000:
            sizes.append(f"RoPE with base {model.position.theta:,.0f}")
    chips = {
        "Q": (f"Q, {counts.queries} heads", *normed, *rotated),
        "K": (f"K, {groups} heads", *normed, *rotated),
        "V": (f"V, {counts.values} heads",),
    }
    inputs = tuple(_headed(chips[name]) for name in ("KVQ" if cross else "QKV"))
    performer = "" if attention.kind == "softmax" else f" ({attention.kind})"
    title = f"{sharing} {'cross-attention' if cross else mixer.layer_name}{performer}"
    if attention.kind in ATTENTION_KINDS.having("state"):
        title = f"{attention.kind.replace('_', ' ')} {mixer.layer_name}"
    return Part("attention", title, tuple(details), tuple(sizes), inputs, model.architecture == "decoder", cross)


def _and(more: dict[str, Any]) -> tuple[str, ...]:
    """Returns one line with the names of the options that are on, or no line."""
    return (", ".join(name for name, on in more.items() if on),) if any(more.values()) else ()


def _headed(steps: tuple[str, ...]) -> tuple[str, ...]:
    return (steps[0].removesuffix("s") if steps[0].split()[1] == "1" else steps[0], *steps[1:])


def _visibility(model: ResolvedConfig, prefix: bool) -> str:
    attention = model.attention
    seen = "causal" if model.architecture == "decoder" else "bidirectional"
    seen += " after a prefix that all see" if prefix else ""
    if attention.window:
        seen += f", window of {_number(attention.window)}"
        if attention.dilations:
            seen += f", dilated by {', '.join(map(str, attention.dilations))}"
        if attention.global_tokens:
            seen += f", {attention.global_tokens} global token{'s' * (attention.global_tokens > 1)}"
    return seen


def _rotation(model: ResolvedConfig) -> tuple[str, ...]:
    if POSITION_KINDS.code_of(model.position.kind).rotate is Position.rotate:
        return ()
    if model.position.kind != "rope":
        return (model.position.kind,)
    return ("RoPE",) if model.position.fraction == 1 else (f"RoPE on {100 * model.position.fraction:.3g} %",)


def _position_hook(model: ResolvedConfig, hook: str) -> Part | None:
    """Returns what a scheme adds to the embedding or to the scores, or None."""
    kind = model.position.kind
    if getattr(POSITION_KINDS.code_of(kind), hook) is getattr(Position, hook):
        return None
    names = {
        "learned": "Learned positions", "sinusoidal": "Sinusoids", "alibi": "ALiBi",
        "relative_bias": "learned bias by distance", "shaw": "relative vectors",
    }  # fmt: skip
    length = model.position.max_length
    narrow = model.embedding.dim if model.embedding.projection == "sum" else 0
    width = _number(narrow or model.dim)
    sizes = (f"{_number(length)} × {width}",) if kind == "learned" and length != AUTO else ()
    return Part("position", names.get(kind, kind), sizes=sizes)


def _feed_forward(model: ResolvedConfig) -> Part:
    kind = model.ffn.kind
    names = {
        "relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "swiglu": "SwiGLU", "geglu": "GeGLU", "reglu": "ReGLU",
        "relu_squared": "squared ReLU", "leaky_relu_squared": "squared leaky ReLU", "swiglu_clamped": "clamped SwiGLU",
        "xielu": "xIELU", "moe": "experts",
    }  # fmt: skip
    if kind not in FEED_FORWARD_KINDS.having("hidden"):
        return Part("ffn", "No feed-forward layer")
    # The equation, without the explanation and the citation that follow it.
    equation = re.split(r", also |, swish|: | \([A-Z]| \(gpt", FEED_FORWARD_KINDS.by_name[kind].meaning)[0]
    width, inner = _number(model.dim), _number(hidden_dim(model))
    sizes = f"{width} → {inner} → {width}"
    if kind in FEED_FORWARD_KINDS.having("experts"):
        experts = model.ffn.experts
        equation = f"{experts.per_token} of {experts.number} experts, {names.get(experts.kind, experts.kind)}"
        shared = f", shared {_number(experts.shared_dim)}" * bool(experts.shared_dim)
        sizes = f"{experts.number} × ({sizes}){shared}"
    return Part("ffn", f"Feed-forward, {names.get(kind, kind)}", (equation,), (sizes,))


def _head(model: ResolvedConfig) -> Iterator[Part]:
    head = model.head
    if model.generator.num_layers != AUTO:
        yield Part("head", "Linear, activation, linear", ("was the token replaced?",), (f"{_number(model.dim)} × 1",))
        return
    if head.classes != AUTO:
        if head.pooler:
            yield Part("head", "Pooler", (f"dense layer and {head.pooler_activation}",))
        pooled = () if head.pooling == AUTO else (f"of the {head.pooling} token{'s' * (head.pooling == 'mean')}",)
        yield Part("head", "Linear", pooled, (f"{_number(model.dim)} × {head.classes}",))
        return
    back = model.embedding.projection == "tokens"
    width = _number(((head.transform or back) and model.embedding.dim) or model.dim)
    if head.transform or back:
        title = "Linear, activation, norm" if head.transform else "Linear"
        yield Part("head", title, (), (f"{_number(model.dim)} × {width}",))
    tied = "the token embedding, transposed" if model.tie_embeddings else "a matrix of its own"
    more = {"with a bias": head.bias, "divided by √D": head.scale != "none", "logits capped": head.softcap,
            f"times {head.multiplier:.4g}": head.multiplier != 1}  # fmt: skip
    yield Part("head", "Linear", (tied, *_and(more)), (f"{width} × {_number(model.vocab_size)}",))
    yield Part("softmax", "Softmax")


def _elmo(model: ResolvedConfig) -> Column:
    elmo = model.elmo
    widths = tuple(elmo.filters)[::2]
    steps = [
        Part("embedding", "Character embedding", sizes=(f"{elmo.characters} characters × {elmo.character_dim}",)),
        Part(
            "ffn",
            "Convolutions, maximum over time",
            (f"widths {', '.join(map(str, widths))}",),
            (f"{_number(sum(tuple(elmo.filters)[1::2]))} filters",),
        ),
    ]
    if elmo.highways:
        steps.append(Part("ffn", f"Highway layers, {elmo.highways}", ("and a projection",)))
    from_second = ("added to its input from the second layer on",) if model.residual else ()
    lstm = Part(
        "attention",
        "LSTM",
        ("forward and backward, with weights of their own", *from_second),
        (f"cells of {_number(elmo.cell_dim)}, projected to {_number(model.dim)}",),
    )
    steps.append(Repeat(f"{model.num_layers} ×", (Branch((lstm,), model.residual),)))
    if model.head.classes == AUTO:
        size = f"{_number(model.dim)} × {_number(model.vocab_size)}"
        steps += [Part("head", "Linear", ("one for both directions",), (size,)), Part("softmax", "Softmax")]
    else:
        steps += [Part("head", "Weighted mean of all layers"), *_head(model)]
    return Column("ELMo", "characters of each token", tuple(steps))


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def wrapped(lines: tuple[str, ...], length: int = LINE) -> list[str]:
    """Returns lines that fit into a box."""
    return [short for line in lines for short in textwrap.wrap(line, length, break_on_hyphens=False)]
