"""The multipliers of CompleteP against Granite, a LLaMA with factors on scores, residual branches and
logits: logits and gradients.
"""

import dataclasses

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


@pytest.mark.parametrize("tied", [True, False])
def test_logits_and_gradients_equal_those_of_granite(tied):
    settings = LLAMA | {"tie_word_embeddings": tied}
    llama = System("granite", "muP's multipliers", "LlamaForCausalLM", settings, OURS)
    theirs = Transformers(dataclasses.replace(llama, reference="GraniteForCausalLM", settings=settings | FACTORS))
    hf = Transformers(llama).hf
    batch = make_batch(llama, resolved(llama, hf), padded=False)
    outputs, weights, gradients = run_theirs(theirs, batch, resolved(llama, hf))
    ours, our_gradients = run_ours(llama, hf, theirs.tensors(), batch, weights, "einsum", False)
    assert output_difference(ours, outputs, batch) < llama.tolerance
    differences = gradient_differences(our_gradients, imported_gradients(llama, hf, gradients))
    assert max(differences.values()) < llama.tolerance, differences
