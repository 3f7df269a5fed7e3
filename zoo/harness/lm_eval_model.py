"""A run as a model of lm-evaluation-harness, and its tasks with equal choices sharing a point."""

from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.model import LM
from lm_eval.api.task import Task

from zoo.harness.text_requests import TextRequests

# Scores of choices that differ by less than this part of them are equal in float32.
TIE = 1e-6
# Accuracies of the harness, and the scores of the choices that each compares.
Scores = Callable[[np.ndarray, Sequence[str]], np.ndarray]
ACCURACIES: Mapping[str, Scores] = {
    "acc": lambda log_p, choices: log_p[: len(choices)],
    "acc_norm": lambda log_p, choices: log_p[: len(choices)] / [len(choice) for choice in choices],
    "acc_bytes": lambda log_p, choices: log_p[: len(choices)] / [len(choice.encode()) for choice in choices],
    "acc_mutual_info": lambda log_p, choices: log_p[: len(choices)] - log_p[len(choices) :],
}


class ZooLM(LM):
    """A run behind the interface of the harness.

    Args:
        texts: answers the requests.
    """

    def __init__(self, texts: TextRequests):
        super().__init__()
        self.texts = texts

    def loglikelihood(self, requests: list[Instance]) -> list[tuple[float, bool]]:
        """Returns (log p(continuation | context), whether it is greedy) of each request."""
        return self.texts.loglikelihood([request.args for request in requests])

    def loglikelihood_rolling(self, requests: list[Instance]) -> list[float]:
        """Returns log p(text) of each request."""
        return self.texts.loglikelihood_rolling([text for (text,) in (request.args for request in requests)])

    def generate_until(self, requests: list[Instance]) -> list[str]:
        """Returns the text after the context of each request."""
        return self.texts.generate_until([request.args for request in requests])


def share_ties(task: Task) -> None:
    """Makes a task of choices give 1/m of a point where m choices have the highest score and one of
    them is right.

    The harness takes the first of equal choices. In BLiMP the right one always comes first, so a model
    that gives all sentences the same probability would have every pair right.
    """
    if task.OUTPUT_TYPE != "multiple_choice":
        return
    judged = task.process_results

    def process_results(task: Task, doc: Any, results: Sequence[tuple[float, bool]]) -> dict[str, Any]:
        found = judged(doc, results)
        choices = task.doc_to_choice(doc)
        log_p = np.array([value for value, _ in results], np.float64)
        for metric in found.keys() & ACCURACIES.keys():
            best = highest(ACCURACIES[metric](log_p, choices))
            if len(best) > 1:
                points = [judged(doc, _with_highest(results, place))[metric] for place in best]
                found[metric] = float(np.mean(points))
        return found

    task.process_results = MethodType(process_results, task)


def highest(scores: np.ndarray) -> list[int]:
    """Returns the places of the highest scores, which are equal up to rounding."""
    top = float(scores.max())
    return np.flatnonzero(scores >= top - TIE * max(abs(top), 1e-30)).tolist()


def _with_highest(results: Sequence[tuple[float, bool]], place: int) -> list[tuple[float, bool]]:
    """Returns the results with one choice clearly ahead of the others."""
    return [(0.0 if number == place else value - 1e6, greedy) for number, (value, greedy) in enumerate(results)]
