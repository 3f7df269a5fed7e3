"""Operations and communication of a compiled program, read from the text of its HLO.

XLA's own cost analysis counts the body of a loop once. Here every instruction counts as often as
its loops run, so a scanned stack of layers, accumulated gradients and a chunked loss have their full
cost.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from zoo.layers.activation_sharding import FURTHER_ROUNDS

BYTES_OF_TYPE = {
    "pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4, "f32": 4,
    "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")

TPU_KERNEL = "tpu_custom_call"

_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_CONDITION = re.compile(r"condition=%?([\w.\-]+)")
_BODY = re.compile(r"body=%?([\w.\-]+)")
_DIRECTION = re.compile(r"direction=(LT|LE)")
_INDEX = re.compile(r"index=(\d+)")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_NUMBER = re.compile(r"(\.\d+)+$")
_OP_NAME = re.compile(r'op_name="([^"]*)"')
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")


@dataclass(frozen=True)
class Instruction:
    """One line of HLO.

    Attributes:
        name: its name.
        opcode: e.g. "dot", "all-gather", "while".
        shapes: (element type, dimensions) of every array of the result.
        operands: names of its operands.
        attributes: the rest of the line.
        constant: its value, if it is a constant integer; else None.
    """

    name: str
    opcode: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    operands: tuple[str, ...]
    attributes: str
    constant: int | None = None

    @property
    def result_bytes(self) -> int:
        """Bytes of the result on one device."""
        return sum(BYTES_OF_TYPE.get(kind, 4) * math.prod(dims) for kind, dims in self.shapes)

    @property
    def op_name(self) -> str:
        """The JAX operation that it was made of, with its path; empty if unknown."""
        found = _OP_NAME.search(self.attributes)
        return found[1] if found else ""


@dataclass(frozen=True)
class Collective:
    """A collective operation of one device.

    Attributes:
        kind: one of `COLLECTIVES`.
        result_bytes: bytes of its result on one device.
        group_size: number of devices that take part.
        count: how often it runs in one call of the program.
        op_name: the JAX operation that it belongs to.
        in_loop: whether it is part of a loop's body.
    """

    kind: str
    result_bytes: int
    group_size: int
    count: int
    op_name: str
    in_loop: bool

    @property
    def wire_bytes(self) -> float:
        """Bytes that a device sends in all its executions, with the ring algorithms: (n - 1) / n of
        the whole array for a gather, a scatter and an exchange, twice that for a reduction on all
        devices (Thakur et al. 2005, sections 4.1 to 4.5).
        """
        n = self.group_size
        whole = self.result_bytes * (n if self.kind == "reduce-scatter" else 1)
        factor = {"all-reduce": 2.0, "collective-permute": n / max(n - 1, 1)}.get(self.kind, 1.0)
        return self.count * factor * whole * (n - 1) / n


@dataclass(frozen=True)
class Product:
    """A matrix product of one device.

    Attributes:
        flops: floating-point operations of one execution, 2 per multiplication.
        dims: dimensions of its result.
        count: how often it runs in one call of the program.
        op_name: the JAX operation that it belongs to.
        in_loop: whether it is part of a loop's body.
    """

    flops: int
    dims: tuple[int, ...]
    count: int
    op_name: str
    in_loop: bool


class CompiledProgram:
    """The instructions of a compiled program, by computation.

    Args:
        text: `jax.stages.Compiled.as_text()`, after the partition over devices: every shape is that
            of one device.
    """

    def __init__(self, text: str):
        self._computations: dict[str, list[Instruction]] = {}
        self._entry = ""
        current: list[Instruction] = []
        for line in text.splitlines():
            if line.startswith(("%", "ENTRY")) and line.rstrip().endswith("{"):
                name = line.removeprefix("ENTRY").split()[0].lstrip("%")
                if line.startswith("ENTRY"):
                    self._entry = name
                current = self._computations.setdefault(name, [])
            elif " = " in line and (instruction := _parse(line)) is not None:
                current.append(instruction)

    def executions(self) -> Iterator[tuple[Instruction, int, bool]]:
        """Yields (instruction, how often it runs, whether in a loop). A loop whose number of turns
        is unknown (`turns`) counts once; of the branches of a condition, each counts. The rounds of an
        exchange that only unequal loads of experts need do not count.
        """
        yield from self._walk(self._entry, 1, False)

    def _walk(self, name: str, count: int, in_loop: bool) -> Iterator[tuple[Instruction, int, bool]]:
        for instruction in self._computations.get(name, ()):
            yield instruction, count, in_loop
            is_loop = instruction.opcode == "while"
            if is_loop and FURTHER_ROUNDS in instruction.op_name:
                continue
            turns = (self.turns(name, instruction) or 1) if is_loop else 1
            called = _CALLED.findall(instruction.attributes)
            for names in _BRANCHES.findall(instruction.attributes):
                called += [part.strip().lstrip("%") for part in names.split(",")]
            for other in called:
                yield from self._walk(other, count * turns, in_loop or is_loop)

    def turns(self, name: str, loop: Instruction) -> int | None:
        """Returns how often the body of a loop runs; None if that is unknown.

        XLA's back ends for CPUs and GPUs write it beside the loop. That for TPUs does not; there the
        condition compares a counter, to which the body adds a constant, with another. Loops that
        overlap products with permutations are unrolled, and count by two.

        Args:
            name: of the computation that the loop is in.
            loop: a "while".
        """
        if found := _TRIPS.search(loop.attributes):
            return int(found[1])
        condition = _CONDITION.search(loop.attributes)
        body = {each.name: each for each in self._computations.get(condition[1], ())} if condition else {}
        test = next((each for each in body.values() if each.opcode == "compare"), None)
        direction = _DIRECTION.search(test.attributes) if test else None
        if not direction or len(body) > 4:
            return None
        counter, limit = (body.get(operand) for operand in test.operands)
        place = _INDEX.search(counter.attributes) if counter and counter.opcode == "get-tuple-element" else None
        if place is None or limit is None or limit.constant is None:
            return None
        distance = limit.constant - self._initial(name, loop, int(place[1])) + (direction[1] == "LE")
        return -(-distance // self._step(loop, int(place[1])))

    def _step(self, loop: Instruction, place: int) -> int:
        """Returns what the body of a loop adds to its counter, 1 if that is unknown."""
        found = _BODY.search(loop.attributes)
        listed = self._computations.get(found[1], []) if found else []
        body = {each.name: each for each in listed}
        result = listed[-1] if listed else None
        following = body.get(result.operands[place]) if result and result.opcode == "tuple" else None
        if following is None or following.opcode != "add":
            return 1
        added = (body[operand].constant for operand in following.operands if operand in body)
        return next((constant for constant in added if constant is not None and constant > 0), 1)

    def _initial(self, name: str, loop: Instruction, place: int) -> int:
        """Returns the value that the counter of a loop begins with, 0 if it is not a constant."""
        around = {each.name: each for each in self._computations[name]}
        carried = around.get(loop.operands[0])
        first = around.get(carried.operands[place]) if carried and carried.opcode == "tuple" else None
        while first is not None and first.opcode == "copy":
            first = around.get(first.operands[0])
        return first.constant or 0 if first else 0

    def custom_calls(self) -> dict[str, int]:
        """Returns how often each kernel that XLA did not make itself runs in one call of the program,
        by its name, e.g. "__cudnn$fmhaSoftmax". Those of TPUs are called by one name, and have their
        own in that of the instruction, e.g. "splash_mha_fwd_residuals.1".
        """
        counts: Counter[str] = Counter()
        for instruction, count, _ in self.executions():
            if instruction.opcode == "custom-call" and (found := _TARGET.search(instruction.attributes)):
                name = _NUMBER.sub("", instruction.name) if found[1] == TPU_KERNEL else found[1]
                counts[name] += count
        return dict(sorted(counts.items()))

    def collectives(self) -> list[Collective]:
        """Returns the collective operations, in the order of execution. The asynchronous form of
        one counts once.
        """
        found, pieces, scatters = [], self._pieces(), self._fused_scatters()
        for instruction, count, in_loop in self.executions():
            kind = instruction.opcode.removesuffix("-start")
            if kind not in COLLECTIVES or instruction.name in pieces:
                continue
            shapes = instruction.shapes
            if instruction.opcode.endswith("-start") and kind != "all-reduce":
                # (operands, results), and in a permutation two numbers for its synchronisation.
                shapes = tuple(shape for shape in shapes if shape != ("u32", ()))
                shapes = shapes[len(shapes) // 2 :]
            size = sum(BYTES_OF_TYPE.get(element, 4) * math.prod(dims) for element, dims in shapes)
            group = _group_size(instruction.attributes)
            if instruction.name in scatters:
                kind, size = "reduce-scatter", size // group
            found.append(Collective(kind, size, group, count, instruction.op_name, in_loop))
        return found

    def _pieces(self) -> set[str]:
        """Returns the collectives that are a part of one that is listed elsewhere.

        The back end for TPUs writes an asynchronous collective where it starts, in each fusion beside
        which it goes on, and where it ends, with the same channel.
        """
        bodies = self._computations.values()
        starts = {
            operand
            for body in bodies
            for each in body
            if each.opcode == "custom-call" and 'custom_call_target="AsyncCollectiveStart"' in each.attributes
            for operand in each.operands
        }
        collectives = {each.name: _channel(each) for body in bodies for each in body if each.opcode in COLLECTIVES}
        started = {collectives[name] for name in starts & collectives.keys()}
        return {name for name, channel in collectives.items() if channel in started and name not in starts}

    def _fused_scatters(self) -> set[str]:
        """Returns the reductions on all devices of which each device keeps its part only: the back end
        for TPUs fuses both.
        """
        return {
            each.name
            for name, body in self._computations.items()
            if name.startswith("all-reduce-scatter")
            for each in body
            if each.opcode == "all-reduce"
        }

    def loop_arrays(self) -> list[tuple[int, str]]:
        """Returns (bytes, shape) of the arrays that loops carry, largest first, equal ones together:
        what a scanned stack keeps for its backward pass is among them. Loops inside of loops are
        left out.
        """
        sizes: dict[str, int] = {}
        for instruction, _, in_loop in self.executions():
            if instruction.opcode != "while" or in_loop:
                continue
            for (element, dims), count in Counter(instruction.shapes).items():
                size = count * BYTES_OF_TYPE.get(element, 4) * math.prod(dims)
                name = f"{count} x " * (count > 1) + f"{element}[{','.join(map(str, dims))}]"
                sizes[name] = max(sizes.get(name, 0), size)
        return sorted(((size, name) for name, size in sizes.items()), reverse=True)

    def products(self) -> list[Product]:
        """Returns the matrix products, in the order of execution."""
        shapes = {
            name: {instruction.name: instruction.shapes for instruction in body}
            for name, body in self._computations.items()
        }
        owner = {id(instruction): name for name, body in self._computations.items() for instruction in body}
        found = []
        for instruction, count, in_loop in self.executions():
            if instruction.opcode != "dot":
                continue
            left = shapes[owner[id(instruction)]][instruction.operands[0]][0][1]
            dims = instruction.shapes[0][1]
            contracted = _CONTRACTED.search(instruction.attributes)
            depth = math.prod(left[int(axis)] for axis in contracted[1].split(",") if axis)
            found.append(Product(2 * math.prod(dims) * depth, dims, count, instruction.op_name, in_loop))
        return found


def _parse(line: str) -> Instruction | None:
    """Parses a line `[ROOT] %name = shape opcode(operands), attributes`."""
    name, _, rest = line.strip().removeprefix("ROOT ").partition(" = ")
    end = _closing(rest) + 1 if rest.startswith("(") else rest.find(" ")
    shape, rest = rest[:end], rest[end:].lstrip()
    opcode, bracket, rest = rest.partition("(")
    if not bracket or end <= 0:
        return None
    end = _closing("(" + rest) - 1
    operands = re.findall(r"%([\w.\-]+)", rest[:end])
    shapes = tuple((kind, tuple(int(size) for size in dims.split(",") if size)) for kind, dims in _ARRAY.findall(shape))
    constant = int(rest[:end]) if opcode.strip() == "constant" and re.fullmatch(r"-?\d+", rest[:end]) else None
    return Instruction(name.lstrip("%"), opcode.strip(), shapes, tuple(operands), rest[end:], constant)


def _closing(text: str) -> int:
    """Returns the index of the bracket that closes the one at index 0."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return index
    return len(text)


def _channel(collective: Instruction) -> str:
    found = re.search(r"channel_id=(\d+)", collective.attributes)
    return found[1] if found else collective.name


def _group_size(attributes: str) -> int:
    """Returns the number of devices in a group, from any of XLA's three notations:
    `{{0,1},{2,3}}`, `[2,2]<=[4]`, and `mesh['a'=2,'b'=2] {'b'}`.
    """
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", attributes)
    if listed:
        return listed[1].count(",") + 1
    iota = re.search(r"replica_groups=\[(\d+),(\d+)\]", attributes)
    if iota:
        return int(iota[2])
    mesh = re.search(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^{]*\))? ?\{([^}]*)\}", attributes)
    if mesh:
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", mesh[1]))
        return math.prod(int(sizes[axis]) for axis in re.findall(r"'(\w+)'", mesh[2]))
    pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", attributes)
    return pairs[1].count("{") if pairs else 1
