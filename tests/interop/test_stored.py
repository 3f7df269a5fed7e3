"""Outputs and gradients of every system against stored ones of the reference library, with the same
random weights.
"""

import numpy as np
import pytest

from tests.parity.harness import cotangents, make_batch, output_difference, random_tensor, resolved, run_ours
from tests.parity.systems import FIVE, SYSTEMS
from tests.support.stored_outputs import FOLDER, digest, read
from zoo.interop import importer_of
from zoo.interop.model_weights import export_weights, import_weights
from zoo.interop.weights.mapping import ConstantTensor, from_zoo
from zoo.nested import unflatten

by_name = pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
# One system of each architecture.
REPRESENTATIVE = {"gpt2", "bert", "t5", "elmo"}
COMPARED_ELSEWHERE = pytest.mark.slow(
    reason="CI compares them with the library itself (tests/parity/models/test_systems.py)"
)


def by_default(system):
    """Returns whether a system is compared by default: the library of some is not that of CI."""
    return system.name in REPRESENTATIVE or system.library == FIVE


one_of_each_architecture = pytest.mark.parametrize(
    "system",
    [
        pytest.param(system, id=system.name, marks=() if by_default(system) else COMPARED_ELSEWHERE)
        for system in SYSTEMS
    ],
)


def stored_tensors(about):
    return {name: random_tensor(name, tuple(shape)) for name, shape in about["tensors"].items()}


def test_stored_outputs_match_the_list_of_systems():
    assert {path.stem for path in FOLDER.iterdir()} == {system.name for system in SYSTEMS}


def test_stored_outputs_are_of_the_library_that_has_the_class():
    libraries = {system.name: read(system.name)[0]["library"] for system in SYSTEMS}
    of_five = {name for name, library in libraries.items() if library.startswith("transformers 5.")}
    assert of_five == {system.name for system in SYSTEMS if system.library == FIVE}


@one_of_each_architecture
def test_outputs_and_gradients_match_the_stored_ones(system):
    about, outputs, gradients, batch = read(system.name)
    config = resolved(system, about["config"])
    for name, array in make_batch(system, config, padded=system.padded).items():
        np.testing.assert_array_equal(array, batch[name])
    weights = cotangents(outputs, batch)
    ours, our_gradients = run_ours(
        system, about["config"], stored_tensors(about), batch, weights, system.kernels[0], scan=False
    )
    assert output_difference(ours, outputs, batch) <= system.tolerance
    # A wrong gradient changes its norm or its product with a random direction. The floor on the scale
    # is explained in `gradient_differences`.
    rules = [
        rule for rule in importer_of(system.imported_as).rules(config.model) if not isinstance(rule, ConstantTensor)
    ]
    found = digest(from_zoo(rules, unflatten(our_gradients, "/")))
    scale = np.maximum(gradients["norms"], 1e-2 * gradients["norms"].max())
    for name in ("norms", "products"):
        assert np.abs((found[name] - gradients[name]) / scale).max() <= system.tolerance


@by_name
def test_weight_round_trip_is_bit_identical(system):
    about = read(system.name)[0]
    config, tensors = resolved(system, about["config"]), stored_tensors(about)
    params, stats = import_weights(system.imported_as, config, tensors)
    written = export_weights(system.imported_as, config, params, stats)
    rules = importer_of(system.imported_as).rules(config.model)
    constants = {name for rule in rules if isinstance(rule, ConstantTensor) for name in rule.tensors()}
    assert set(written) == set(tensors) | constants
    for name in tensors:
        assert written[name].dtype == tensors[name].dtype
        np.testing.assert_array_equal(written[name], tensors[name])
