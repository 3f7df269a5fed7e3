"""Kinds of optimizer."""

from zoo.config.field import Field
from zoo.config.kinds.kind import Kind, KindTable

KIND = "optimizer.kind"

# Traits: "moments" (it averages gradients with `beta1` and their squares with `beta2`), "epsilon" (it
# divides by a root), "matrices" (it has a rule of its own for the matrices of hidden layers).
OPTIMIZER_KINDS = KindTable(
    KIND,
    (
        Kind(
            KIND,
            "adamw",
            "Adam with decoupled weight decay (Loshchilov & Hutter 2019)",
            frozenset({"moments", "epsilon"}),
        ),
        Kind(
            KIND,
            "muon",
            "orthogonalised momentum for the matrices of hidden layers, Adam for all other parameters (Jordan 2024)",
            frozenset({"moments", "epsilon", "matrices"}),
            fields=(
                Field(
                    "optimizer.muon_momentum",
                    0.95,
                    float,
                    "decay of the momentum of matrices",
                    minimum=0,
                    maximum=0.99999,
                    traced=True,
                ),
                Field(
                    "optimizer.muon_scale",
                    "rms",
                    str,
                    "size of the orthogonalised direction of a matrix of I inputs and O outputs",
                    {
                        "rms": "0.2 sqrt(max(I, O)): about that of Adam, whose rates can be kept (Liu et al. 2025)",
                        "spectral": "sqrt(max(1, O/I)) (Jordan 2024); rates about 0.02",
                    },
                ),
            ),
        ),
    ),
)
