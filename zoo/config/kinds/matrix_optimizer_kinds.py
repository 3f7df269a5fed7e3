"""Kinds of optimizer that treat a matrix as a matrix and not element by element."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.kind import Kind

KIND = "optimizer.kind"
# The kinds that orthogonalise the momentum, and those whose directions have a size of their own.
ORTHOGONAL, SIZED = ("muon", "normuon", "muonh"), ("muon", "normuon")


def _heads_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    if flat["optimizer.muon_heads"] == "split" and architecture == "elmo":
        yield "optimizer.muon_heads=split has no effect: model.architecture=elmo has no attention; leave it at fused"


MATRIX_KINDS = (
    Kind(
        KIND,
        "muon",
        "orthogonalised momentum for the matrices of hidden layers, Adam for all other parameters (Jordan 2024)",
        frozenset({"moments", "momentum", "epsilon", "matrices"}),
        fields=(
            Field(
                "optimizer.muon_momentum",
                0.95,
                float,
                "decay of the momentum of matrices",
                minimum=0,
                maximum=0.99999,
                when=(KIND, ORTHOGONAL),
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
                when=(KIND, SIZED),
            ),
            Field(
                "optimizer.muon_heads",
                "fused",
                str,
                "what is one matrix in the projections to queries, keys and values",
                {
                    "fused": "each projection as a whole, over all heads (Jordan 2024)",
                    "split": "the part of each head (Muon Split of GLM-5, arXiv 2602.15763)",
                },
                when=(KIND, ORTHOGONAL),
                added=True,
            ),
        ),
        problems=_heads_problems,
        code="zoo.training.optimization.muon:muon",
    ),
    Kind(
        KIND,
        "normuon",
        "muon, and every output's part of a direction divided by the root of its average square (Li et al. 2025)",
        frozenset({"moments", "momentum", "epsilon", "matrices"}),
        fields=(
            Field(
                "optimizer.normuon_beta2",
                0.95,
                float,
                "decay of the average square of each output's part",
                minimum=0,
                maximum=0.9999999,
                traced=True,
                added=True,
            ),
        ),
        problems=_heads_problems,
        code="zoo.training.optimization.muon:normuon",
    ),
    Kind(
        KIND,
        "muonh",
        "muon on a sphere: matrices of hidden layers keep the norm of their initial values and are not decayed; the "
        "rate is the angle of a step, about 0.01 (Wen et al. 2025)",
        frozenset({"moments", "momentum", "epsilon", "matrices"}),
        problems=_heads_problems,
        code="zoo.training.optimization.muon:muonh",
    ),
    Kind(
        KIND,
        "soap",
        "Adam in the eigenvectors of the averages of G G^T and G^T G of every matrix; published with beta1 and beta2 "
        "0.95 (Vyas et al. 2024)",
        frozenset({"moments", "epsilon", "initialises"}),
        fields=(
            Field(
                "optimizer.soap_beta",
                0.95,
                float,
                "decay of the averages of G G^T and G^T G",
                minimum=0,
                maximum=0.9999999,
                traced=True,
                added=True,
            ),
            Field(
                "optimizer.soap_refresh",
                10,
                int,
                "updates between refreshes of the eigenvectors",
                minimum=1,
                added=True,
            ),
            Field(
                "optimizer.soap_max_dim",
                10_000,
                int,
                "the longest side of a matrix that is rotated; longer ones stay as they are",
                minimum=1,
                added=True,
            ),
        ),
        code="zoo.training.optimization.soap:soap",
    ),
)
