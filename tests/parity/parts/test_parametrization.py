"""Logits and gradients of CompleteP's multipliers against Granite, a LLaMA with factors on scores,
residual branches and logits.
"""

import dataclasses

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers

from tests.parity.harness import (
    gradient_differences,
    imported_gradients,
    make_batch,
    output_difference,
    resolved,
    run_ours,
)
from tests.parity.layers import largest
from tests.parity.references import Transformers, run_theirs
from tests.parity.systems import System
from tests.parity.systems.decoders import LLAMA

pytestmark = pytest.mark.parity

M, D, K0, K = 4, 2, 2, 8
OURS = {
    "model.parametrization": "completep",
    "model.base_dim": 8,
    "model.base_head_dim": K0,
    "model.base_num_layers": 1,
    "model.attention.scale": "auto",
}
FACTORS = {"attention_multiplier": K0**0.5 / K, "residual_multiplier": 1 / D, "logits_scaling": M}
GRANITE = System("granite", "muP's multipliers", "LlamaForCausalLM", LLAMA, OURS)


def differences(tied):
    """Returns the relative differences (outputs, gradients) of a tiny model."""
    settings = LLAMA | {"tie_word_embeddings": tied}
    theirs = Transformers(dataclasses.replace(GRANITE, reference="GraniteForCausalLM", settings=settings | FACTORS))
    llama = dataclasses.replace(GRANITE, settings=settings)
    hf = Transformers(llama).hf
    batch = make_batch(llama, resolved(llama, hf), padded=False)
    outputs, weights, gradients = run_theirs(theirs, batch, resolved(llama, hf))
    ours, our_gradients = run_ours(llama, hf, theirs.tensors(), batch, weights, "einsum", False)
    found = gradient_differences(our_gradients, imported_gradients(llama, hf, gradients))
    return output_difference(ours, outputs, batch), max(found.values())


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(map(differences, (True, False))), f"transformers {transformers.__version__}"


@pytest.mark.parametrize("tied", [True, False])
def test_logits_and_gradients_match_granite(tied):
    assert max(differences(tied)) < GRANITE.tolerance
