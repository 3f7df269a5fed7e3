"""Interface for plug-ins: functions that register kinds, metrics and drawings, and base classes.

A plug-in is a Python file of the user. It registers kinds of norms, placements, positions,
attention, feed-forward layers, objectives, optimizers and schedules with their fields, metrics,
measures of finished runs, and figures of `zoo draw`:

    plugin.register(plugin.Kind("model.ffn.kind", "my_squared_relu", "max(0, x W1)^2 W2"), SquaredReLU)

docs/your_own_variant.md is a tutorial; docs/architecture.md says what each kind has to provide.
`zoo.config.plugins` loads plug-ins and stores their texts.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.analysis.measured_run import MeasuredRun
from zoo.config.field import AUTO, Field
from zoo.config.kinds import KIND_TABLES, Description, Kind, Paper
from zoo.config.plugins import load_plugin as load
from zoo.config.plugins import register as _register
from zoo.draw.drawing import Drawing
from zoo.errors import ConfigError, did_you_mean
from zoo.lab.measures import MEASURES, Measure
from zoo.lab.metrics import METRICS, Metric
from zoo.layers.attention import TokenMixer
from zoo.layers.attention.projections import Attention
from zoo.layers.attention.softmax_attention import SoftmaxAttention
from zoo.layers.block import Block, PostNormBlock, PreNormBlock
from zoo.layers.context import Context
from zoo.layers.feedforward import FeedForward, GatedFeedForward
from zoo.layers.flax_module import from_flax
from zoo.layers.norm import LayerNorm, Norm, RMSNorm
from zoo.layers.parameter import Linear, kernel_initializer, normal, ones, parameter, statistic, zeros
from zoo.layers.position import Position
from zoo.layers.short_convolution import DepthwiseConvolution, ShortConvolution
from zoo.models.head import LogitFactors, logits
from zoo.objectives import Objective
from zoo.objectives.causal import CausalObjective
from zoo.objectives.masked import MaskedObjective
from zoo.plugin.drawing_registration import DrawingRegistration
from zoo.plugin.registrations import KindRegistration, MetricRegistration
from zoo.training.optimization.schedules import ScheduleStep

__all__ = [
    "AUTO",
    "Attention",
    "Block",
    "CausalObjective",
    "Context",
    "DepthwiseConvolution",
    "Description",
    "Drawing",
    "FeedForward",
    "Field",
    "GatedFeedForward",
    "Kind",
    "LayerNorm",
    "Linear",
    "LogitFactors",
    "MaskedObjective",
    "Measure",
    "MeasuredRun",
    "Metric",
    "Norm",
    "Objective",
    "Paper",
    "Position",
    "PostNormBlock",
    "PreNormBlock",
    "RMSNorm",
    "ScheduleStep",
    "ShortConvolution",
    "SoftmaxAttention",
    "TokenMixer",
    "from_flax",
    "kernel_initializer",
    "load",
    "logits",
    "normal",
    "ones",
    "parameter",
    "register",
    "register_drawing",
    "register_measure",
    "register_metric",
    "statistic",
    "traits",
    "zeros",
]


def traits(path: str, name: str) -> frozenset[str]:
    """Returns the traits of a kind, for one that reads the same fields.

    Args:
        path: the field, e.g. "model.attention.kind".
        name: the kind, e.g. "softmax".

    Raises:
        ConfigError: there is no such kind.
    """
    table = KIND_TABLES.get(path)
    if table is None or name not in table.by_name:
        raise ConfigError(
            f"there is no kind {path}={name}{did_you_mean(name, table.by_name if table else KIND_TABLES)}"
        )
    return table.by_name[name].traits


def register(kind: Kind, implementation: Any) -> None:
    """Adds a kind to the choices of a field, with its own fields and the code that computes it.

    Args:
        kind: name, meaning, fields, and what it cannot be combined with.
        implementation: a subclass of the base class of its table (`Norm`, `Block`, `Position`,
            `TokenMixer`, `FeedForward`, `Objective`), or for optimizers and schedules a function.

    Raises:
        ConfigError: everything that is wrong with them.
    """
    _register(KindRegistration(replace(kind, code=implementation) if isinstance(kind, Kind) else kind))


def register_measure(name: str, measure: Measure, function: Callable[[MeasuredRun], dict[str, float]]) -> None:
    """Adds a measure of finished runs, the metric `measured/NAME`.

    Args:
        name: its name.
        measure: definition, direction, unit and what it needs of a run.
        function: MeasuredRun -> {"": value of the trained run, "@initial": that of its initial
            values, where `measure.initial`}.

    Raises:
        ConfigError: the name is taken.
    """
    _register(MetricRegistration("measure", name, measure, MEASURES, function))


def register_metric(name: str, metric: Metric, objective: str) -> None:
    """Declares a metric that an objective of the plug-in reports in evaluations, `eval/NAME`.

    Args:
        name: its key in `Objective.means`.
        metric: direction and unit.
        objective: the kind of objective that reports it, registered before.

    Raises:
        ConfigError: the name is taken, or the objective is not one of a plug-in.
    """
    _register(MetricRegistration("metric", name, metric, METRICS, objective=objective))


def register_drawing(name: str, drawing: Drawing) -> None:
    """Adds a figure, `zoo draw NAME`.

    Args:
        name: its name.
        drawing: what it shows, its options, and the function that draws it.

    Raises:
        ConfigError: the name or an option is taken.
    """
    _register(DrawingRegistration(name, drawing))
