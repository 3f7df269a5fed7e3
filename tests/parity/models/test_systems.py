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
from tests.parity.systems import OF_FIVE, SYSTEMS
from tests.support.comparisons import note

pytestmark = pytest.mark.parity


# Classes that only transformers 5 has are compared by tests/transformers5.
HERE = [system for system in SYSTEMS if system not in OF_FIVE]
# The first of the systems that share import rules; the others differ from it in settings.
FIRST = {str(system.imported_as): system.name for system in reversed(SYSTEMS)}.values()
# One system of each kind.
REPRESENTATIVE = ("gpt2", "llama", "bert", "bart", "t5", "elmo", "performer", "longformer", "control-baseline")


def compare(system, kernels=None, differentiated=None):
    """Returns the largest differences of outputs and gradients, and the reference.

    Args:
        system: the system.
        kernels: those that compute its outputs; all of them by default.
        differentiated: the kernels whose gradients are compared too; by default those that compute
            the outputs.
    """
    kernels = system.kernels if kernels is None else kernels
    differentiated = kernels if differentiated is None else differentiated
    worst_output = worst_gradient = 0.0
    for kernel in kernels:
        reference = build(system)
        first = kernel == system.kernels[0]
        config = resolved(system, reference.hf)
        batch = make_batch(system, config, padded=first and system.padded)
        theirs, weights, their_gradients = run_theirs(reference, batch, config)
        ours, gradients = run_ours(
            system, reference.hf, reference.tensors(), batch, weights, kernel, not first, kernel in differentiated
        )
        worst_output = max(worst_output, output_difference(ours, theirs, batch))
        if gradients:
            differences = gradient_differences(gradients, imported_gradients(system, reference.hf, their_gradients))
            worst_gradient = max(worst_gradient, *differences.values())
    return worst_output, worst_gradient, reference


@pytest.mark.parametrize("system", HERE, ids=lambda system: system.name)
def test_outputs_and_gradients_match_the_reference(system):
    """Gradients are those of the same functions, so each set of import rules shows them once, with the
    first kernel.
    """
    kernels = system.kernels if system.name in REPRESENTATIVE else system.kernels[:1]
    differentiated = system.kernels[:1] if system.name in FIRST or system.library != "transformers" else ()
    output, gradient, reference = compare(system, kernels, differentiated)
    library = "" if system.library.startswith("torch") else f" of {system.library}"
    config = resolved(system, reference.hf)
    note(max(output, gradient), system.tolerance, config, against=system.reference + library)


@pytest.mark.slow(reason="kernels, and scanned and unrolled layers, are compared with each other without a library")
@pytest.mark.parametrize("system", HERE, ids=lambda system: system.name)
def test_gradients_match_with_every_kernel(system):
    output, gradient, _ = compare(system)
    assert output <= system.tolerance
    assert gradient <= system.tolerance
