"""Every system against the library that defined it: outputs and gradients with the same random
weights, on full and on padded rows.
"""

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.parity.harness import (
    gradient_differences,
    imported_gradients,
    make_batch,
    output_difference,
    resolved,
    run_ours,
)
from tests.parity.references import build, run_theirs
from tests.parity.systems import SYSTEMS

pytestmark = pytest.mark.parity


def compare(system):
    """Returns the largest differences of outputs and gradients over all kernels, and the reference."""
    worst_output = worst_gradient = 0.0
    for kernel in system.kernels:
        reference = build(system)
        padded = kernel == system.kernels[0]
        config = resolved(system, reference.hf)
        batch = make_batch(system, config, padded)
        theirs, weights, their_gradients = run_theirs(reference, batch, config)
        ours, gradients = run_ours(system, reference.hf, reference.tensors(), batch, weights, kernel, scan=not padded)
        worst_output = max(worst_output, output_difference(ours, theirs, batch))
        differences = gradient_differences(gradients, imported_gradients(system, reference.hf, their_gradients))
        worst_gradient = max(worst_gradient, *differences.values())
    return worst_output, worst_gradient, reference


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_outputs_and_gradients_match_the_reference(system):
    output, gradient, _ = compare(system)
    assert output <= system.tolerance
    assert gradient <= system.tolerance
