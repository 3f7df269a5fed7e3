"""Measure of claim P13, for `experiments/position_vectors.py`: how much more similar the learned
vectors of near positions are than those of far ones.
"""

import numpy as np
from jaxtyping import Float

from zoo import plugin
from zoo.analysis.position_similarity import cosines_of_run, mean_by_distance
from zoo.training.trained_run import INITIAL, TRAINED

NEAR = 4


def locality(similar: Float[np.ndarray, "T T"]) -> float:
    """Returns the mean over distances 1 to `NEAR` of the mean cosine at that distance, minus the mean
    cosine of all pairs at least T / 2 apart.
    """
    one, other = np.triu_indices(len(similar), len(similar) // 2)
    return float(mean_by_distance(similar)[1 : NEAR + 1].mean() - similar[one, other].mean())


def position_locality(measured: plugin.MeasuredRun) -> dict[str, float]:
    """Returns the locality of the T positions of a row, trained and at initial values.

    Raises:
        ConfigError: the run's positions are not learned.
    """
    run = measured.trained
    cosines = cosines_of_run(run, run.config.data.sequence_length)[""]
    return {"": locality(cosines[TRAINED]), "@initial": locality(cosines[INITIAL])}


plugin.register_measure(
    "position_locality",
    plugin.Measure(
        "mean cosine similarity of position vectors 1 to 4 apart, minus that of position vectors at least half a row "
        "apart",
        False,
        needs={"model.position.kind": "learned"},
    ),
    position_locality,
)
