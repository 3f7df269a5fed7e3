"""Measure of claim N6, for `experiments/batch_norm_domain.py`: the loss of a run on code, minus its
loss on the text that it was trained on.
"""

from collections.abc import Mapping
from typing import Any

import ml_collections

from zoo import data, plugin
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.rows.token_streams import cached_streams
from zoo.data.sources.source import read_documents
from zoo.training.evaluation.held_out import evaluate


def code_gap(measured: plugin.MeasuredRun) -> dict[str, float]:
    """Returns the loss on held-out code of Python's standard library, minus that on held-out text of
    the run's own source, in nats.

    Both are the losses of `training.eval_batches` batches, with the run's own tokenizer and, with
    BatchNorm, its running statistics.
    """
    run = measured.trained
    settings = ml_collections.ConfigDict({**run.config.data, "source": "stdlib"})
    code = read_documents(settings).split(run.config.data.validation_fraction)[1]
    batching, multiple = data.Batching(run.config, run.tokenizer), run.program.data_parallel_size
    streams = cached_streams(run.tokenizer, {"validation": code}, batching.with_sentences)
    constants = run.program.constants(run.config.seed)
    losses = [
        evaluate(run.program, run.params, run.stats, batches, constants)["loss"]
        for batches in (
            batching.evaluation([streams["validation"]], multiple_of=multiple),
            data.load(run.config).evaluation_batches(multiple_of=multiple),
        )
    ]
    return {"": losses[0] - losses[1]}


def why_not(flat: Mapping[str, Any]) -> str:
    """Returns why a run with this flat resolved config lacks the measure; empty if it has it."""
    if flat["objective.kind"] in OBJECTIVE_KINDS.having("examples"):
        return f"it is a loss of running text, and objective.kind={flat['objective.kind']} has none"
    if flat["data.source"] == "stdlib" or any(entry.endswith("*stdlib") for entry in flat["data.mixture"]):
        return "code is what this run learns from; set data.source to other text, such as stdlib:docstrings"
    return ""


plugin.register_measure(
    "code_gap",
    plugin.Measure(
        "loss on held-out code of Python's standard library, minus that on held-out text of the run's own source",
        False,
        "nats",
        initial=False,
        why_not=why_not,
    ),
    code_gap,
)
