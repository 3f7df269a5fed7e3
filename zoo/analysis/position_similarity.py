"""Cosine similarity of a run's learned position vectors, trained and at initial values."""

import numpy as np

from zoo.config import side
from zoo.errors import ConfigError
from zoo.training.trained_run import TrainedRun, trained_and_initial


def cosine_matrix(table: np.ndarray) -> np.ndarray:
    """Returns the cosine of every two rows, [P, P]."""
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)
    return unit @ unit.T


def mean_by_distance(similar: np.ndarray) -> np.ndarray:
    """Returns the mean over pairs of positions at each distance, [P] from [P, P]."""
    return np.array([np.diagonal(similar, distance).mean() for distance in range(len(similar))])


def cosines_of_run(run: TrainedRun, length: int = 0) -> dict[str, dict[str, np.ndarray]]:
    """Returns {side: {TRAINED or INITIAL: cosines}} of the first `length` positions (0: all).

    Raises:
        ConfigError: the run's positions are not learned.
    """
    model, found = run.config.model, {}
    for where in ("encoder", "decoder") if model.architecture == "encoder_decoder" else ("",):
        config = side(model, where) if where else model
        if config.position.kind != "learned" or model.architecture == "elmo":
            continue
        for which, (params, _) in trained_and_initial(run).items():
            table = np.asarray((params[where] if where else params)["position"]["table"], np.float64)[
                config.position.offset :
            ]
            found.setdefault(where, {})[which] = cosine_matrix(table[: length or None])
    if not found:
        raise ConfigError(f"model.position.kind={model.position.kind} has no table of learned positions")
    return found
