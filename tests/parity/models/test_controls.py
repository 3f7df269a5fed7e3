"""Controls against PyTorch's modules, beyond outputs and gradients: running averages, and parameter
counts at full size.
"""

import numpy as np
import pytest
from flax import nnx

pytest.importorskip("torch")

from tests.parity.harness import make_batch, resolved
from tests.parity.references import build
from tests.parity.references_torch import ELMo, Transformer, number_of_parameters
from tests.parity.systems import SYSTEMS
from tests.parity.systems.controls import NORMS, PLAIN
from tests.parity.table import ROOT
from tests.support.building import call, close
from zoo.config import load, resolve
from zoo.interop.model_weights import import_weights
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import split, statistics_of
from zoo.nested import flatten

pytestmark = pytest.mark.parity
BY_NAME = {system.name: system for system in SYSTEMS}
CONFIGS = {
    published.source: published.count
    for system in SYSTEMS
    if system.name.startswith("control-")
    for published in system.published
}


def test_running_averages_match_batchnorm1d():
    system = BY_NAME["control-batchnorm"]
    reference = build(system)
    for part in reference.module.modules():
        if hasattr(part, "momentum"):
            # zoo's momentum is the weight of the old average, PyTorch's that of the new value.
            part.momentum = 1 - 0.8
    config = resolved(system, reference.hf, norm__momentum=0.8)
    batch = make_batch(system, config, padded=True)
    graph = split(make_model(config))[0]
    values, stats = import_weights(system.imported_as, config, reference.tensors())

    def run(values, stats):
        model = nnx.merge(graph, values, stats)
        model(batch["tokens"], Context(batch["positions"], training=True))
        return statistics_of(model)

    found = flatten(call(run, values, stats), "/")
    reference.outputs(batch, config)
    expected = flatten(import_weights(system.imported_as, config, reference.tensors())[1], "/")
    assert set(found) == set(expected)
    for path in expected:
        close(found[path], expected[path])
        assert np.abs(found[path] - flatten(stats, "/")[path]).max() > 0.01


@pytest.mark.parametrize("source", CONFIGS)
def test_parameter_counts_match_the_torch_module(source):
    config = resolve(load(f"{ROOT}/{source}")).model
    settings = PLAIN | {
        "vocab": config.vocab_size, "dim": config.dim, "layers": config.num_layers, "heads": config.attention.num_heads,
        "hidden": config.ffn.hidden_dim, "length": config.position.max_length,
        "norm": {ours: theirs for theirs, ours in NORMS.items()}[config.norm.kind],
        "positions": config.position.kind, "residual": config.residual}  # fmt: skip
    assert number_of_parameters(Transformer, settings) == CONFIGS[source]


def test_elmo_parameter_count_matches_the_torch_module():
    config = resolve(load(f"{ROOT}/configs/elmo.py:original")).model
    settings = {
        "vocab": config.vocab_size,
        "dim": config.dim,
        "layers": config.num_layers,
        "cell": config.elmo.cell_dim,
        "character_dim": config.elmo.character_dim,
        "filters": config.elmo.filters,
        "highways": config.elmo.highways,
    }
    head = (config.dim + 1) * config.vocab_size
    assert number_of_parameters(ELMo, settings) == 93_600_848 + head
