"""Rules that map this library's parameters to the named tensors of another one, in both directions.

A rule says which tensor holds which parameters and how they are arranged in it. All arrangements
are bijections that only move numbers, so reading and writing again is bit-exact, and gradients
follow the same rules as values. Only numpy is used.
"""

import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zoo.config import ResolvedConfig, layer_kind, stored_layers
from zoo.config.kinds import NORM_KINDS
from zoo.errors import ConfigError, DataError
from zoo.nested import flatten, unflatten

Parts = tuple[np.ndarray, ...]
# Ends of the names of tensors beside or in place of weights, and the formats that have them.
QUANTISED = {
    "_blocks": "MXFP4", "_scales": "MXFP4", ".weight_scale_inv": "FP8", ".weight_scale": "FP8",
    ".qweight": "GPTQ or AWQ", ".qzeros": "GPTQ or AWQ", ".scales": "GPTQ or AWQ", ".SCB": "8 bits",
    ".absmax": "4 bits",
}  # fmt: skip


@dataclass(frozen=True)
class Transform:
    """A bijection between a tensor and the parameters in it; `join(split(x))` is x.

    Attributes:
        split: from a tensor to its parts.
        join: from the parts to the tensor.
    """

    split: Callable[[np.ndarray], Parts]
    join: Callable[[Parts], np.ndarray]

    def then(self, other: "Transform") -> "Transform":
        """Composes this transform with `other`, of one part, applied to each of its parts."""
        return Transform(
            lambda x: tuple(other.split(part)[0] for part in self.split(x)),
            lambda parts: self.join(tuple(other.join((part,)) for part in parts)),
        )


IDENTITY = Transform(lambda x: (x,), lambda parts: parts[0])
TRANSPOSED = Transform(lambda x: (x.T,), lambda parts: parts[0].T)
REVERSED = Transform(lambda x: (x[::-1],), lambda parts: parts[0][::-1])
# The weights of a causal torch.nn.Conv1d with one group per channel, [C, 1, W], the token itself last.
TAPS = Transform(lambda x: (x[:, 0, ::-1].T,), lambda parts: parts[0].T[:, None, ::-1])


def fused(sizes: Sequence[int], groups: int = 1, axis: int = 0) -> Transform:
    """Several matrices in one tensor, e.g. query, key and value.

    Along `axis` the tensor holds `groups` blocks, and each block holds `sizes[i] / groups` rows of
    part i, one part after the other. GPT-2 has one group: all queries, all keys, all values.
    GPT-NeoX and BLOOM have one per head.

    Args:
        sizes: length of every part along `axis`.
        groups: number of blocks, which divides every size.
        axis: the shared dimension; 0 for [out, in] matrices and biases, -1 for [in, out].
    """
    widths = [size // groups for size in sizes]
    if any(width * groups != size for width, size in zip(widths, sizes, strict=True)):
        raise ValueError(f"sizes {tuple(sizes)} do not divide into {groups} groups")

    def split(x: np.ndarray) -> Parts:
        x = np.moveaxis(x, axis, 0)
        blocks = x.reshape(groups, sum(widths), *x.shape[1:])
        parts = np.split(blocks, np.cumsum(widths)[:-1], axis=1)
        return tuple(np.moveaxis(part.reshape(-1, *x.shape[1:]), 0, axis) for part in parts)

    def join(parts: Parts) -> np.ndarray:
        moved = [np.moveaxis(part, axis, 0) for part in parts]
        blocks = [part.reshape(groups, width, *part.shape[1:]) for part, width in zip(moved, widths, strict=True)]
        x = np.concatenate(blocks, axis=1)
        return np.moveaxis(x.reshape(-1, *x.shape[2:]), 0, axis)

    return Transform(split, join)


@dataclass(frozen=True)
class Rule:
    """One tensor (per layer) and the parameters that it holds.

    Attributes:
        name: name of the tensor; `{layer}` is replaced by the number of the layer, counted from 0 over
            the whole depth.
        paths: parameters, e.g. "stack/layers/attention/query/kernel".
        transform: their arrangement in the tensor, without the leading dimension of layers.
        layers: numbers of the layers over which the parameters are stacked, in order; None without
            a dimension of layers.
        rows: number of tensors that are the rows of one; `{row}` in the name is replaced by the number
            of the row. 0 for a single tensor.
    """

    name: str
    paths: tuple[str, ...]
    transform: Transform = IDENTITY
    layers: tuple[int, ...] | None = None
    rows: int = 0

    def names(self) -> list[str]:
        """Returns the names of all tensors, layer by layer."""
        return [name for names in self.names_by_layer() for name in names]

    def names_by_layer(self) -> list[list[str]]:
        """Returns the names of the tensor of each layer, or of its rows."""
        return [
            [self.name.format(layer=layer, row=row) for row in range(self.rows or 1)] for layer in self.layers or (0,)
        ]


@dataclass(frozen=True)
class TiedTensor:
    """A tensor that must equal another one if a checkpoint has it, e.g. a tied head.

    It is read, not written.
    """

    name: str
    tied_to: str


@dataclass(frozen=True)
class IgnoredTensors:
    """Tensors that are not parameters, e.g. constant masks; `pattern` matches the whole name.

    They are not written.
    """

    pattern: str


@dataclass(frozen=True)
class ZeroParameters:
    """Parameters that the other model lacks: 0 when read; when written, they must still be.

    Attributes:
        paths, layers: as of a `Rule`.
    """

    paths: tuple[str, ...]
    layers: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ConstantTensor:
    """A tensor of a number that the other library stores and that is fixed here.

    It is written; a checkpoint may lack it, and must not have another number.

    Attributes:
        name, layers: as of a `Rule`.
        value: the number, a scalar in float32.
    """

    name: str
    value: np.ndarray
    layers: tuple[int, ...] | None = None

    def tensors(self) -> dict[str, np.ndarray]:
        """Returns the tensors by name, one per layer."""
        names = [self.name] if self.layers is None else [self.name.format(layer=layer) for layer in self.layers]
        return dict.fromkeys(names, self.value)


Rules = Sequence[Rule | TiedTensor | IgnoredTensors | ZeroParameters | ConstantTensor]


def linear(path: str, name: str, bias: bool = True, transposed: bool = True) -> list[Rule]:
    """Returns the rules of a dense layer.

    Its parameters `path`/{kernel [in, out], bias} are in `name`.{weight, bias}.

    Args:
        path, name: here and in the other library.
        bias: whether there is one.
        transposed: the weight is [out, in], as in torch.nn.Linear; else [in, out].
    """
    rules = [Rule(f"{name}.weight", (f"{path}/kernel",), TRANSPOSED if transposed else IDENTITY)]
    return rules + [Rule(f"{name}.bias", (f"{path}/bias",))] * bias


def fused_linear(paths: Sequence[str], name: str, sizes: Sequence[int], bias: bool = True, groups: int = 1,
                 transposed: bool = True) -> list[Rule]:  # fmt: skip
    """Returns the rules of several dense layers with the same input, in one tensor.

    See `fused` for `sizes` and `groups`, `linear` for the rest.
    """
    weight = fused(sizes, groups).then(TRANSPOSED) if transposed else fused(sizes, groups, axis=-1)
    rules = [Rule(f"{name}.weight", tuple(f"{path}/kernel" for path in paths), weight)]
    return rules + [Rule(f"{name}.bias", tuple(f"{path}/bias" for path in paths), fused(sizes, groups))] * bias


def convolutions(paths: Sequence[str], name: str, sizes: Sequence[int], bias: bool = False) -> list[Rule]:
    """Returns the rules of several causal depthwise convolutions of the same width, side by side in
    one torch.nn.Conv1d.

    Args:
        paths, name: here, each with {taps [W, C], bias}, and in the other library.
        sizes: number of channels of each.
        bias: whether there is one.
    """
    rules = [Rule(f"{name}.weight", tuple(f"{path}/taps" for path in paths), fused(sizes).then(TAPS))]
    return rules + [Rule(f"{name}.bias", tuple(f"{path}/bias" for path in paths), fused(sizes))] * bias


def norm(path: str, name: str, config: ResolvedConfig) -> list[Rule]:
    """Returns the rules of a norm, `path`/{scale, bias}, in `name`.{weight, bias}.

    A norm without parameters has none.
    """
    kind = config.norm.kind
    scaled, shifted = kind in NORM_KINDS.having("normalises"), kind in NORM_KINDS.having("bias")
    rules = [Rule(f"{name}.weight", (f"{path}/scale",))] * (config.norm.scale and scaled)
    return rules + [Rule(f"{name}.bias", (f"{path}/bias",))] * (config.norm.bias and shifted)


def output_head(config: ResolvedConfig, table: str) -> Rule | TiedTensor:
    """Returns the rule of `lm_head.weight`, the matrix of the scores, which may be tied to the tensor
    `table` of the embedding.
    """
    if config.tie_embeddings:
        return TiedTensor("lm_head.weight", table)
    return Rule("lm_head.weight", ("head/weights",))


def within(path: str, rules: Sequence[Rule]) -> list[Rule]:
    """Returns rules with all parameters inside the module `path`."""
    return [replace(rule, paths=tuple(f"{path}/{own}" for own in rule.paths)) for rule in rules]


def layers(config: ResolvedConfig, rules_of: Callable[[ResolvedConfig], Rules], at: str = "stack/layers") -> list[Rule]:
    """Returns the rules of all layers from those of one; each kind of layer has its own stack.

    Args:
        config: the `model` part of a resolved config, or one side of it.
        rules_of: from the config as a layer sees it to that layer's rules; names contain `{layer}`,
            paths begin within the layer.
        at: path of the stack's layers.
    """
    pattern, depth = config.layers.pattern, range(config.num_layers)
    groups = {(at, None): stored_layers(config)}
    if pattern:
        groups = {
            (f"{at}/{kind}", kind): tuple(layer for layer in depth if pattern[layer % len(pattern)] == kind)
            for kind in pattern
        }

    def placed(rule: Any, prefix: str, numbers: tuple[int, ...]) -> Any:
        if isinstance(rule, ConstantTensor):
            return replace(rule, layers=numbers)
        return replace(rule, paths=tuple(f"{prefix}/{path}" for path in rule.paths), layers=numbers)

    return [
        placed(rule, prefix, numbers)
        for (prefix, kind), numbers in groups.items()
        if numbers
        for rule in rules_of(config if kind is None else layer_kind(config, kind))
    ]


def from_zoo(rules: Rules, params: dict[str, Any], consume: bool = False) -> dict[str, np.ndarray]:
    """Writes parameters, or their gradients, as the other library's tensors.

    Args:
        rules: rules of the model that has these parameters.
        params: nested dict of arrays; every one must have a rule.
        consume: remove the parameters from `params` and free each as soon as its tensors are made,
            so that at most one copy of all is in memory, plus a second one of a single parameter of
            all layers.
    """
    leaves = {path: np.asarray(leaf) for path, leaf in flatten(params, "/").items()}
    check_complete(rules, leaves)
    if consume:
        params.clear()
    # A tensor without dimensions keeps its shape.
    return {name: np.asarray(tensor, order="C") for name, tensor in _written(rules, leaves)}


def check_complete(rules: Rules, leaves: Mapping[str, Any]) -> None:
    """Checks that rules and parameters correspond one to one.

    Raises:
        ValueError: they do not, so a family file is wrong.
    """
    ruled = [path for rule in rules if isinstance(rule, Rule | ZeroParameters) for path in rule.paths]
    wrong = sorted({path for path in ruled if ruled.count(path) > 1} | set(ruled) ^ set(leaves))
    if wrong:
        raise ValueError(f"rules and parameters are not one to one at {', '.join(wrong)}")


def _written(rules: Rules, leaves: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the tensors by name; parameters are removed from `leaves` once they are used."""
    for path in (path for rule in rules if isinstance(rule, ZeroParameters) for path in rule.paths):
        if leaves.pop(path).any():
            raise ConfigError(
                f"parameter {path} is not 0, and the class has no such parameter; export it as another class (--class)"
            )
    for rule in rules:
        if isinstance(rule, Rule):
            taken = [leaves.pop(path) for path in rule.paths]
            for index, names in enumerate(rule.names_by_layer()):
                tensor = rule.transform.join(tuple(part if rule.layers is None else part[index] for part in taken))
                yield from zip(names, tensor if rule.rows else (tensor,), strict=True)
        elif isinstance(rule, ConstantTensor):
            yield from rule.tensors().items()


def tensor_shapes(rules: Rules, abstract: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Returns the names and shapes of a checkpoint's tensors, from the shapes of the parameters.

    Args:
        rules: the model's rules.
        abstract: nested dict of objects with a shape.
    """
    # Views of a single number, which have a shape and use no memory. A transform may copy, so it sees
    # one layer.
    leaves = {path: np.broadcast_to(np.zeros((), np.int8), leaf.shape) for path, leaf in flatten(abstract, "/").items()}
    check_complete(rules, leaves)
    shapes: dict[str, tuple[int, ...]] = {}
    for rule in rules:
        if isinstance(rule, Rule):
            parts = (leaves[path] if rule.layers is None else leaves[path][0] for path in rule.paths)
            shape = rule.transform.join(tuple(parts)).shape
            shapes |= dict.fromkeys(rule.names(), shape[1:] if rule.rows else shape)
        elif isinstance(rule, ConstantTensor):
            shapes |= {name: tensor.shape for name, tensor in rule.tensors().items()}
    return shapes


def to_zoo(rules: Rules, tensors: Mapping[str, Any], abstract: Mapping[str, Any]) -> dict[str, Any]:
    """Reads parameters, or their gradients, from the other library's tensors.

    Args:
        rules: the model's rules.
        tensors: the checkpoint's arrays by name, read one at a time. Of tensors that are tied, any one
            is enough.
        abstract: the model's parameters as a nested dict of objects with a shape.

    Returns:
        nested dict of numpy arrays, in the tensors' type.

    Raises:
        DataError: naming all tensors that are missing, unexpected, of a wrong shape, or not equal
            to the tensor that they are tied to.
    """
    shapes = tensor_shapes(rules, abstract)
    # safetensors' `save_model` keeps one name of a shared tensor: the first in the alphabet.
    copies = {
        rule.tied_to: tensors[rule.name]
        for rule in rules
        if isinstance(rule, TiedTensor) and rule.name in tensors and rule.tied_to not in tensors
    }
    tensors = ChainMap(copies, tensors)
    if problems := tensor_problems(rules, tensors, shapes):
        raise DataError(_quantised(tensors, shapes) or _other_names(tensors, shapes) or problems)
    sizes, leaves = {path: leaf.shape for path, leaf in flatten(abstract, "/").items()}, {}
    for rule in rules:
        if isinstance(rule, ZeroParameters):
            leaves |= {path: np.zeros(sizes[path], np.float32) for path in rule.paths}
        if not isinstance(rule, Rule):
            continue
        for index, names in enumerate(rule.names_by_layer()):
            read = [np.asarray(tensors[name]) for name in names]
            tensor = np.stack(read) if rule.rows else read[0]
            for path, part in zip(rule.paths, rule.transform.split(tensor), strict=True):
                if rule.layers is None:
                    leaves[path] = np.array(part, order="C")
                    continue
                if index == 0:
                    leaves[path] = np.empty(sizes[path], tensor.dtype)
                leaves[path][index] = part
    return unflatten(leaves, "/")


def _quantised(tensors: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Returns one line if tensors that the model lacks are parts of quantised weights; else empty."""
    found = [
        (name, QUANTISED[end]) for name in tensors if name not in shapes for end in QUANTISED if name.endswith(end)
    ]
    if not found:
        return ""
    name, kind = found[0]
    return (
        f"{len(found)} tensors are parts of weights in {kind}, such as {name}; dequantise the weights with the library "
        "that has written them, and save them as plain numbers"
    )


def _other_names(tensors: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Returns one line if no tensor has a name that the model's have; empty otherwise."""
    if not tensors or any(name in tensors for name in shapes):
        return ""
    return (
        f"none of the {len(tensors)} tensors has a name of this class, such as {next(iter(shapes))}; rename the "
        "tensors, or give the --class that they are of"
    )


def tensor_problems(rules: Rules, tensors: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Returns the problems of a checkpoint, one line per tensor, or per kind that all layers lack.

    Args:
        rules: the model's rules.
        tensors: objects with a shape, by name.
        shapes: result of `tensor_shapes`.

    Only tensors with a rule of values, tied and constant ones, are read.
    """
    problems = []
    for rule in rules:
        names = rule.names() if isinstance(rule, Rule) else []
        missing = [name for name in names if name not in tensors]
        if missing and len(missing) == len(names) > 1:
            problems.append(f"tensor {rule.name} is missing in all {len(names)} layers: {missing[0]}, ...")
        else:
            problems += [f"tensor {name} is missing" for name in missing]
        for name in names:
            if name in tensors and tuple(tensors[name].shape) != shapes[name]:
                problems.append(f"tensor {name} has shape {tuple(tensors[name].shape)}, expected {shapes[name]}")
    for rule in rules:
        if isinstance(rule, TiedTensor) and rule.name in tensors and rule.tied_to in tensors:
            one, other = np.asarray(tensors[rule.name]), np.asarray(tensors[rule.tied_to])
            if one.shape != other.shape or not np.array_equal(one, other):
                problems.append(f"tensor {rule.name} is not equal to {rule.tied_to}, which it is tied to")
    constants = {
        name: value for rule in rules if isinstance(rule, ConstantTensor) for name, value in rule.tensors().items()
    }
    problems += [
        f"tensor {name} is {np.asarray(tensors[name]).tolist()}, and the model has {value:g} there"
        for name, value in constants.items()
        # Files hold such numbers in bfloat16 too.
        if name in tensors and not np.allclose(np.asarray(tensors[name], np.float32), value, rtol=1e-2, atol=0)
    ]
    copies = {rule.name for rule in rules if isinstance(rule, TiedTensor)}
    skipped = [re.compile(rule.pattern) for rule in rules if isinstance(rule, IgnoredTensors)]
    problems += [
        f"tensor {name} has no place in the model"
        for name in tensors
        if name not in shapes and name not in copies and not any(pattern.fullmatch(name) for pattern in skipped)
    ]
    return problems
