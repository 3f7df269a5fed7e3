"""Registration by plug-ins: checks of kinds and metrics, and the tables that they are added to."""

import re
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

from zoo.analysis.measured_run import FUNCTIONS, MeasuredRun
from zoo.config.field import Field
from zoo.config.field_values import checked_value
from zoo.config.fields import BY_PATH, FIELDS, OBJECTIVES_OF
from zoo.config.hyperparameters import LOSS_TERMS
from zoo.config.kinds import ACTIVATIONS, KIND_TABLES, OBJECTIVE_KINDS, Kind, code_of
from zoo.config.kinds.kind import NAME
from zoo.config.plugins import is_reserved
from zoo.config.shipped import MEASURES as SHIPPED_MEASURES
from zoo.errors import did_you_mean
from zoo.lab.measures import MEASURES, Measure
from zoo.lab.metrics import METRICS, METRICS_OF, Metric
from zoo.layers.attention import TokenMixer
from zoo.layers.attention.parallel_heads import ParallelHeads
from zoo.layers.attention.projections import Attention
from zoo.layers.block import Block
from zoo.layers.feedforward import FeedForward, GatedFeedForward, NoFeedForward
from zoo.layers.norm import BatchNorm, LayerNorm, NoNorm, Norm, RMSNorm
from zoo.layers.position import Position
from zoo.layers.short_convolution import DepthwiseConvolution, ShortConvolution
from zoo.objectives import Objective
from zoo.variants.table import VARIANTS
from zoo.variants.variant import has_page, of_kind

PAGE_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


@dataclass(frozen=True)
class _Table:
    """Demands on the code of the kinds of a field.

    Attributes:
        base: the base class; None if they are functions.
        required: methods that the base class leaves to it; of "a or b", one.
    """

    base: type | None = None
    required: tuple[str, ...] = ()


TABLES: dict[str, _Table] = {
    "model.norm.kind": _Table(Norm, ("__call__",)),
    "model.norm.placement": _Table(Block, ("sublayer",)),
    "model.position.kind": _Table(Position),
    "model.attention.kind": _Table(TokenMixer, ("__call__", "product_flops")),
    "model.convolution.kind": _Table(ShortConvolution, ("places", "mix or mix_reading")),
    "model.ffn.kind": _Table(FeedForward),
    "objective.kind": _Table(Objective, ("targets",)),
    "optimizer.kind": _Table(),
    "schedule.kind": _Table(),
}


@dataclass(frozen=True)
class KindRegistration:
    """A kind that is added to the table of its field; see `zoo.config.plugins.Registration`."""

    kind: Kind

    def problems(self) -> Iterator[str]:
        kind = self.kind
        if not isinstance(kind, Kind):
            yield f"register expects a Kind, got {kind!r}"
            return
        label = f"{kind.path}={kind.name}"
        if kind.path not in TABLES:
            yield f"{label}: a kind is a choice of {', '.join(TABLES)}{did_you_mean(kind.path, TABLES)}"
            return
        yield from KIND_TABLES[kind.path].refusals(kind)
        new = kind.name not in KIND_TABLES[kind.path].by_name
        if new and has_page(kind) and any(variant.name == self._page for variant in VARIANTS):
            yield f"{label}: zoo describe {self._page} is the page of another variant; choose another name"
        if has_page(kind) and (name := kind.description.name) and not PAGE_NAME.fullmatch(name):
            yield f"{label}: the name of its page, {name!r}, consists of lower-case letters, digits and hyphens"
        yield from self._implementation_problems(label)
        for field in kind.fields:
            yield from _field_problems(field, kind)
        for name, path in kind.loss_terms.items():
            yield from _loss_term_problems(name, path, kind)

    def _implementation_problems(self, label: str) -> Iterator[str]:
        table, made = TABLES[self.kind.path], code_of(self.kind)
        if table.base is None:
            if not callable(made):
                yield f"{label}: its implementation is not a function but {made!r}"
        elif not (isinstance(made, type) and issubclass(made, table.base)):
            yield f"{label}: its implementation must be a subclass of {table.base.__name__}, got {made!r}"
        else:
            for name in table.required:
                if all(getattr(made, one) is getattr(table.base, one) for one in name.split(" or ")):
                    yield f"{label}: {made.__name__} does not define {name}"
            if issubclass(made, Block) and (made.expand is Block.expand) != (made.reduce is Block.reduce):
                yield f"{label}: {made.__name__} must define expand and reduce, or neither"
            if issubclass(made, Objective):
                yield from _objective_problems(label, made, self.kind)
            if issubclass(made, FeedForward) and not _has_activation(made, self.kind):
                yield f"{label}: {made.__name__} does not define nonlinearity"
            if issubclass(made, Position) and {"embed"} < (hooks := _hooks(made)):
                yield (
                    f"{label}: {made.__name__} defines {' and '.join(sorted(hooks))}; a scheme adds to the embedding, "
                    "or it acts inside attention"
                )

    @property
    def _page(self) -> str:
        return of_kind(self.kind).name

    def add(self) -> None:
        kind = self.kind
        KIND_TABLES[kind.path].add(replace(kind, traits=kind.traits | derived_traits(kind)))
        for field in kind.fields:
            FIELDS.add(field)
        LOSS_TERMS.update(kind.loss_terms)
        if has_page(kind):
            VARIANTS.append(of_kind(kind))

    def remove(self) -> None:
        kind = self.kind
        KIND_TABLES[kind.path].remove(kind.name)
        for field in kind.fields:
            FIELDS.remove(field.path)
        for name in kind.loss_terms:
            del LOSS_TERMS[name]
        if has_page(kind):
            VARIANTS[:] = [variant for variant in VARIANTS if variant.name != self._page]


def _objective_problems(label: str, made: type[Objective], kind: Kind) -> Iterator[str]:
    """Yields what an objective and its kind lack."""
    if made.predict is Objective.predict and made.score is Objective.score:
        yield f"{label}: {made.__name__} defines neither predict nor score"
    if not {"tokens", "text"} <= kind.traits:
        yield (
            f'{label}: give its kind the traits "tokens" and "text" (see plugin.traits); an objective of a plug-in '
            "predicts tokens of running text"
        )
    if not kind.traits & OBJECTIVES_OF.keys():
        yield f"{label}: give its kind the traits of the architectures that it trains: {', '.join(OBJECTIVES_OF)}"


# The traits that a class has because of what it is, by the table of its kinds. Those that a base class
# cannot promise for its subclasses, such as windows, are declared with each kind.
DERIVED: dict[str, dict[str, Callable[[type], bool]]] = {
    "model.norm.kind": {
        "normalises": lambda made: not issubclass(made, NoNorm),
        "epsilon": lambda made: issubclass(made, LayerNorm | RMSNorm | BatchNorm),
        "batch": lambda made: issubclass(made, BatchNorm),
    },
    "model.norm.placement": {"by_kind": lambda made: made.final_norm and not _has_streams(made)},
    "model.position.kind": {
        "embedded": lambda made: "embed" in _hooks(made),
        "score_bias": lambda made: "score_bias" in _hooks(made),
        "value_bias": lambda made: "value_bias" in _hooks(made),
    },
    "model.attention.kind": {
        "heads": lambda made: issubclass(made, Attention | ParallelHeads),
        "reads_first": lambda made: bool(getattr(made, "publishes", ())),
    },
    "model.convolution.kind": {"width": lambda made: issubclass(made, DepthwiseConvolution)},
    "model.ffn.kind": {
        "hidden": lambda made: not issubclass(made, NoFeedForward),
        "gated": lambda made: issubclass(made, GatedFeedForward),
    },
}


def derived_traits(kind: Kind) -> frozenset[str]:
    """Returns the traits that the class of a kind shows by itself, which its kind need not declare."""
    made = code_of(kind)
    return frozenset(trait for trait, holds in DERIVED.get(kind.path, {}).items() if holds(made))


def _has_streams(made: type[Block]) -> bool:
    """Returns whether a block says what enters a stack or what leaves it, which a stack asks only the
    class of the whole model.
    """
    names = ("expand", "reduce", "hidden_states")
    own = made.__mro__[: made.__mro__.index(Block)]
    return any(name in vars(base) for base in own for name in names)


def _hooks(made: type[Position]) -> set[str]:
    """Returns the names of the hooks that a position scheme defines."""
    names = ("embed", "rotate", "score_bias", "value_bias")
    return {name for name in names if getattr(made, name) is not getattr(Position, name)}


def _has_activation(made: type[FeedForward], kind: Kind) -> bool:
    """Returns whether a feed-forward layer says what it computes, or its kind has an activation."""
    methods = ("__call__", "activated", "nonlinearity")
    if any(getattr(made, name) is not getattr(FeedForward, name) for name in methods):
        return True
    return made.hidden not in (FeedForward.hidden, GatedFeedForward.hidden) or bool(kind.traits & {*ACTIVATIONS})


def _field_problems(field: Field, kind: Kind) -> Iterator[str]:
    """Yields what is wrong with a field of a kind."""
    parent = kind.path.rpartition(".")[0] + "."
    name = field.path.removeprefix(parent)
    if not field.path.startswith(parent) or not NAME.fullmatch(name):
        yield f"{kind.path}={kind.name}: its field {field.path!r} must be called {parent}NAME"
    elif field.path in BY_PATH:
        yield f"{kind.path}={kind.name}: the field {field.path} exists already; choose another name"
    if field.kind not in (int, float, bool, str, tuple):
        yield f"{field.path}: its type must be int, float, bool, str or tuple, not {field.kind!r}"
    elif problem := checked_value(field, field.default)[1]:
        yield f"its default is refused: {problem}"
    if not field.meaning.strip():
        yield f"{field.path}: its meaning is empty; say in one line what it does"


def _loss_term_problems(name: str, path: str, kind: Kind) -> Iterator[str]:
    """Yields what is wrong with a term of the loss and the field of its weight."""
    if name in LOSS_TERMS:
        yield f"{kind.path}={kind.name}: the term {name!r} of the loss exists already; choose another name"
    field = next((one for one in kind.fields if one.path == path), None) or BY_PATH.get(path)
    if field is None:
        yield f"{kind.path}={kind.name}: the term {name!r} of the loss has its weight at {path}, which is no field"
    elif field.kind is not float or field.minimum != 0 or not path.startswith("model."):
        yield f"{path} is the weight of a term of the loss: a float below model. with minimum=0"


@dataclass(frozen=True)
class MetricRegistration:
    """A metric of a plug-in, or a measure with the function that computes it."""

    what: str
    name: str
    entry: Any
    table: MutableMapping[str, Any]
    function: Callable[[MeasuredRun], dict[str, float]] | None = None
    objective: str = ""

    def problems(self) -> Iterator[str]:
        if not NAME.fullmatch(self.name):
            yield f"{self.what} {self.name!r}: a name consists of lower-case letters, digits and _"
        elif self.name in {**MEASURES, **METRICS, **LOSS_TERMS} or is_reserved(SHIPPED_MEASURES, self.name):
            yield f"{self.what} {self.name} exists already; choose another name"
        expected = Measure if self.what == "measure" else Metric
        if not isinstance(self.entry, expected):
            yield f"{self.what} {self.name}: expected a {expected.__name__}, got {self.entry!r}"
        if self.what == "metric" and self.objective not in OBJECTIVE_KINDS.by_name:
            near = did_you_mean(self.objective, OBJECTIVE_KINDS.by_name)
            yield f"metric {self.name}: {self.objective!r} is no kind of objective{near}"
        if self.what == "measure" and not callable(self.function):
            yield f"measure {self.name}: expected a function, got {self.function!r}"

    def add(self) -> None:
        self.table[self.name] = self.entry
        if self.function is not None:
            FUNCTIONS[self.name] = self.function
        if self.objective:
            METRICS_OF.setdefault(self.objective, []).append(self.name)

    def remove(self) -> None:
        del self.table[self.name]
        FUNCTIONS.pop(self.name, None)
        if self.objective:
            METRICS_OF[self.objective].remove(self.name)
