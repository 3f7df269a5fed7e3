"""Measure of claim V59, for `experiments/bit_parity.py`: the share of right answers about strings of
bits that are longer than all those of the training.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoo import plugin
from zoo.analysis.probes import probe
from zoo.data.sources.synthetic import SyntheticDocuments
from zoo.lab.measures import tasks_in, why_unavailable

# Lengths, as multiples of the longest one of the training.
FACTORS = (1.25, 1.5, 2)


def longer(source: str, mixture: Sequence[str]) -> tuple[SyntheticDocuments, ...]:
    """Returns documents of parity of 1.25, 1.5 and 2 times the longest length of some data, rounded
    up; none if the data have no parity.
    """
    trained = [task for task in tasks_in(source, mixture) if task.name == "parity"]
    longest = max(trained, key=lambda task: task.length, default=None)
    if longest is None:
        return ()
    return tuple(dataclasses.replace(longest, length=int(np.ceil(longest.length * factor))) for factor in FACTORS)


def longer_parity(measured: plugin.MeasuredRun) -> dict[str, float]:
    """Returns the share of new documents whose answer is right, the mean over the longer lengths."""
    run = measured.trained
    tasks = longer(run.config.data.source, run.config.data.mixture)
    return {"": float(np.mean([probe(run, task).accuracy for task in tasks]))}


def why_not(flat: Mapping[str, Any]) -> str:
    """Returns why a run with this flat resolved config lacks the measure; empty if it has it."""
    if reason := why_unavailable("measured/probe_parity", flat):
        return reason
    longest, rows = longer(flat["data.source"], flat["data.mixture"])[-1], flat["data.sequence_length"]
    if longest.size <= rows:
        return ""
    return f"documents of {longest.length} bits have {longest.size} tokens, and data.sequence_length={rows}"


plugin.register_measure(
    "longer_parity",
    plugin.Measure(
        "share of 1,024 new documents of synthetic:parity whose answer is right, the mean over 1.25, 1.5 and 2 times "
        "the longest length of the training",
        True,
        initial=False,
        why_not=why_not,
    ),
    longer_parity,
)
