"""Multi-token prediction: which next tokens are targets, with which weights, and what is reported."""

import numpy as np
import pytest

from tests.objectives.making import OPENS, Made, surprisal
from tests.support.building import tiny
from tests.support.comparisons import compared
from zoo.data.pipeline.evaluation_fingerprint import evaluation_fingerprint
from zoo.errors import ConfigError
from zoo.models import cost

MULTI = {"objective.kind": "multi_token", "objective.future_tokens": 3, "objective.future_decay": 0.25}
# Documents end in the middle of rows; the second row ends in padding.
ROWS = np.array([[OPENS, 1, 2, 3, OPENS, 5, 6, OPENS, 8], [4, 5, OPENS, 1, 2, 3, 4, -1, -1]])


def targets_of(row, k):
    """Returns the token k places after each input token if it is in the same document, else -1."""
    documents, found = np.cumsum(row == OPENS), []
    for t in range(len(row) - 1):
        there = t + k < len(row) and (k == 1 or documents[t + k] == documents[t])
        found.append(row[t + k] if there else -1)
    return np.array(found)


@pytest.fixture(scope="module")
def made():
    return Made(MULTI)


def test_terms_are_the_surprisals_of_the_document_s_next_tokens(made):
    losses, sums = made.terms(ROWS, training=True)
    normalizers = made.objective.normalizers({"tokens": ROWS})
    names = ("loss", "future_2", "future_3")
    assert set(losses) == set(normalizers) == set(names)
    scores = [made.logits_alone(np.maximum(row[:-1], 0)) for row in ROWS]
    for k, (name, weight) in enumerate(zip(names, (16 / 21, 4 / 21, 1 / 21), strict=True), 1):
        targets = [targets_of(row, k) for row in ROWS]
        expected = sum(surprisal(*pair).sum() for pair in zip(scores, targets, strict=True))
        compared(losses[name], weight * expected, config=made.config, parts="objective")
        assert normalizers[name] == sum((row >= 0).sum() for row in targets) > 0
        if k == 1:
            np.testing.assert_allclose(sums["loss"], expected, rtol=1e-5)


def test_evaluation_scores_only_the_next_token(made):
    losses, sums = made.terms(ROWS)
    plain, plain_sums = Made().terms(ROWS)
    assert losses == plain
    assert sums == plain_sums
    one, other = (evaluation_fingerprint(tiny(fields)) for fields in (MULTI, {}))
    assert one == other


def test_flops_count_the_head_for_every_target():
    multi, plain = (cost.summary(tiny(fields)).flops_per_token for fields in (MULTI, {}))
    D, V = 16, 13
    assert multi - plain == pytest.approx(2 * 6 * D * V)


def test_more_targets_than_row_tokens_are_refused():
    with pytest.raises(ConfigError, match=r"objective.future_tokens=9.*data.sequence_length=8"):
        tiny(MULTI | {"objective.future_tokens": 9})
