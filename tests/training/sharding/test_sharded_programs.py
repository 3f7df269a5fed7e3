"""Operations and traffic of eight devices in a step, read from the compiled program, against counts
by hand.

Without constraints on the activations, XLA computes the attention of the whole batch on every device
and sums its activations over all of them; the loss is the same, so no curve shows it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.chosen_cases import cases_of, chosen_cases

D, LAYERS, T, B, V, FFN = 64, 2, 64, 64, 512, 256
MODEL = {
    "model.dim": D, "model.num_layers": LAYERS, "model.attention.num_heads": 8, "model.vocab_size": V,
    "data.batch_size": B, "data.sequence_length": T, "data.tokenizer.kind": "bytes",
    "model.position.kind": "rope", "model.scan_layers": True,
    "objective.chunk_tokens": 128, "model.attention.implementation": "einsum",
}  # fmt: skip
ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
ENCODER_DECODER = {"model.architecture": "encoder_decoder", "objective.kind": "denoising"}
UNROLLED, REMAT = {"model.scan_layers": False}, {"model.remat": "full"}
MESHES = {"data": (8, 1, 1), "fsdp": (1, 8, 1), "fsdp and tensor": (1, 4, 2), "tensor": (1, 1, 8)}
PARTS = 4


def fields(mesh, *changes):
    data, fsdp, tensor = mesh
    merged = MODEL | {"mesh.data": data, "mesh.fsdp": fsdp, "mesh.tensor": tensor}
    for change in changes:
        merged |= change
    return merged


CASES = {
    **{f"decoder, {name}": fields(mesh) for name, mesh in MESHES.items()},
    "encoder, fsdp and tensor": fields((1, 4, 2), ENCODER),
    "encoder-decoder, fsdp": fields((1, 8, 1), ENCODER_DECODER),
    "unrolled, fsdp": fields((1, 8, 1), UNROLLED),
    "remat, fsdp and tensor": fields((1, 4, 2), REMAT),
    "accumulation, data": fields((8, 1, 1), {"training.accumulation_steps": PARTS}),
    "accumulation, data and fsdp": fields((2, 4, 1), {"training.accumulation_steps": PARTS}),
    "all three": fields((2, 2, 2)),
}


# Every axis, architecture and way of computing a step that sends other bytes; the rest combine these.
FEW = ("decoder, data", "decoder, fsdp", "decoder, fsdp and tensor", "encoder-decoder, fsdp", "remat, fsdp and tensor",
       "accumulation, data", "all three")  # fmt: skip


E, K, HIDDEN = 16, 2, 32
EXPERTS = fields((1, 1, 1), {"mesh.expert": 8, "model.ffn.kind": "moe", "model.ffn.hidden_dim": HIDDEN, "model.ffn.bias": False,
                             "model.ffn.experts.number": E, "model.ffn.experts.per_token": K})  # fmt: skip


@pytest.fixture(scope="module")
def measured(request):
    """Case -> (on eight devices, on one), of the chosen cases and those that a test names."""
    names = list(dict.fromkeys([*chosen_cases(request), "decoder, data", "decoder, fsdp", "accumulation, data"]))
    cases = {name: CASES[name] for name in names}
    alone = {name: {path: 1 if path.startswith("mesh.") else value for path, value in case.items()}
             for name, case in cases.items()}  # fmt: skip
    distinct = {json.dumps(case): case for case in alone.values()}
    asked = [(case, 8) for case in cases.values()] + [(case, 1) for case in distinct.values()] + [(EXPERTS, 8)]
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    script = Path(__file__).with_name("sharded_programs.py")
    done = subprocess.run([sys.executable, script, json.dumps(asked)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    single = dict(zip(distinct, found[len(cases) : -1], strict=True))
    return {
        "experts": (found[-1], None),
        **{name: (many, single[json.dumps(alone[name])])
           for name, many in zip(cases, found[: len(cases)], strict=True)},
    }  # fmt: skip


def count_by_hand(case):
    """Returns the bytes that a device sends in a step, in float32, with ring algorithms. XLA's CPU
    backend all-reduces gradients where a GPU would reduce-scatter them.
    """
    data, fsdp, tensor = (case[f"mesh.{axis}"] for axis in ("data", "fsdp", "tensor"))
    parts = case.get("training.accumulation_steps", 1)
    cross = case.get("model.architecture") == "encoder_decoder"
    attention, ffn = 4 * D * D, 2 * D * FFN
    weights = 4 * LAYERS * (attention + ffn + (attention + attention + ffn if cross else 0)) / tensor
    table = 4 * V * D / tensor
    tokens = B * (T + 1 if cross else T) / (data * fsdp)
    activations = 4 * D * tokens

    def part(n):
        return (n - 1) / n

    # Weights are gathered for the forward and, where layers are scanned, again for the backward pass;
    # unrolled and accumulating steps keep them.
    gathers = 2 if case["model.scan_layers"] else 1
    wire = part(fsdp) * (gathers * weights * (parts if case["model.scan_layers"] else 1) + table)
    # Gradients: those of the layers once for each part along fsdp, once in a step along data.
    wire += 2 * part(fsdp) * (weights + table) * parts + 2 * part(data) * (weights + table) / fsdp
    # Look-ups exchange widths for rows, and their gradients rows for widths, on each side.
    wire += 2 * part(fsdp) * activations * (2 if cross else 1)
    # Tensor parallelism (Shoeybi et al. 2019, section 3): two sums in a layer's forward pass; in the
    # backward pass one for the FFN and one for each of query, key and value.
    sums = 2 + 4 + (1 if case.get("model.remat") == "full" else 0)
    predicted = round(0.15 * T) / T if case.get("model.architecture") == "encoder" else 1
    wire += 2 * part(tensor) * activations * (sums * LAYERS + 1 + predicted)
    return wire


@pytest.mark.promise(reason="programs for eight devices are compiled")
@pytest.mark.parametrize("name", cases_of(CASES, FEW, "axes and ways of computing a step are combined once more"))
def test_operations_and_bytes_sent_match_the_count_by_hand(measured, name):
    many, alone = measured[name]
    assert many["flops"] * 8 == pytest.approx(alone["flops"], rel=0.01)
    sent, counted = sum(many["wire"].values()), count_by_hand(CASES[name])
    assert counted / 1.3 < sent < counted * 1.3, (sent / counted, many["wire"])
    if CASES[name]["mesh.tensor"] == 1:
        assert many["temporaries"] * 8 < alone["temporaries"] * 2.5


@pytest.mark.promise(reason="programs for eight devices are compiled")
def test_tokens_travel_to_their_experts_and_gradients_of_experts_do_not(measured):
    sent = measured["experts"][0]["by_kind"]
    # Outputs and gradients of tokens, there and back, with a quarter more rows than equal loads need;
    # numbers of rows; once in each layer.
    assignments = B * T * K // 8
    assert sent["all-to-all"] == LAYERS * 7 / 8 * (4 * 8 * -(-assignments * 5 // 4 // 8) * 4 * D + 4 * E)
    # Of everything but the experts the gradients are added, as along the data axis; those of the
    # look-up and of the tied head apart. Biases and norms are the rest.
    others = 4 * (LAYERS * (4 * D * D + D * E) + 2 * V * D)
    assert sent["all-reduce"] == pytest.approx(2 * 7 / 8 * others, rel=0.02)
    assert set(sent) == {"all-to-all", "all-reduce"}


@pytest.mark.promise(reason="programs for eight devices are compiled")
def test_gradients_are_reduced_once_per_step(measured):
    assert all(
        many["head_gradients"] == 0 or name.startswith("decoder, tensor") for name, (many, _) in measured.items()
    )
    # Along the data axis nothing is sent before the last part of the batch.
    assert measured["accumulation, data"][0]["wire"]["loop"] == 0
    assert measured["accumulation, data"][0]["wire"]["outside"] < 1.1 * sum(
        measured["decoder, data"][0]["wire"].values()
    )
    # Inside the layer loop only weights are gathered and only their gradients are summed.
    assert set(measured["decoder, fsdp"][0]["kinds_in_loops"]) <= {"all-gather", "all-reduce", "reduce-scatter"}
