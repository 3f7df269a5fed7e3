"""Kinds of optimizer."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.kind import Kind, KindTable
from zoo.config.kinds.matrix_optimizer_kinds import MATRIX_KINDS, ORTHOGONAL

KIND = "optimizer.kind"
# The decay of the first moment, by kind; `beta1` of the others.
MOMENTUM = {"sgd": "optimizer.sgd_momentum", "lion": "optimizer.lion_beta2"} | dict.fromkeys(
    ORTHOGONAL, "optimizer.muon_momentum"
)


def _sgd_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["optimizer.sgd_nesterov"] and not flat["optimizer.sgd_momentum"]:
        yield "optimizer.sgd_nesterov=true has no effect with optimizer.sgd_momentum=0"
    if flat["optimizer.weight_decay_form"] == "coupled" and not flat["optimizer.sgd_momentum"]:
        yield "optimizer.weight_decay_form=coupled is the same as decoupled with optimizer.sgd_momentum=0; leave it out"


def _schedule_free_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if (schedule := flat["schedule.kind"]) != "constant":
        yield (
            f"optimizer.kind=schedule_free averages instead of decaying the rate; schedule.kind={schedule} must be "
            "constant, which keeps the warm-up"
        )
    if flat["training.trained_layers"] != AUTO:
        yield (
            "optimizer.kind=schedule_free cannot be combined with training.trained_layers="
            f"{flat['training.trained_layers']}: all averaged parameters have to be trained"
        )


def _lamb_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if (form := flat["optimizer.weight_decay_form"]) in ("independent", "cautious"):
        yield (
            f"optimizer.kind=lamb has the decay inside of the length that it gives to a direction; "
            f"optimizer.weight_decay_form={form} must be decoupled or coupled"
        )


OPTIMIZER_KINDS = KindTable(
    KIND,
    traits={
        "moments": "it averages gradients with `beta1` and their squares with `beta2`",
        "momentum": "the decay of its first moment may follow a schedule",
        "epsilon": "it divides by a root, to which epsilon is added",
        "matrices": "it has a rule of its own for the matrices of hidden layers",
        "initialises": "its first update only initialises its state: no parameter moves, not even by weight decay",
        "per_element": "every element of its direction is about 1, for gradients and parameters of any size; the rates "
        "of muP for Adam hold",
    },
    kinds=(
        Kind(
            KIND,
            "adamw",
            "Adam with decoupled weight decay (Loshchilov & Hutter 2019)",
            frozenset({"moments", "momentum", "epsilon", "per_element"}),
            code="zoo.training.optimization.update_rules:adamw",
        ),
        *MATRIX_KINDS,
        Kind(
            KIND,
            "sgd",
            "gradient descent with momentum (Sutskever et al. 2013)",
            frozenset({"momentum"}),
            fields=(
                Field(
                    "optimizer.sgd_momentum",
                    0.9,
                    float,
                    "decay of the sum of gradients",
                    minimum=0,
                    maximum=0.99999,
                    traced=True,
                ),
                Field("optimizer.sgd_nesterov", False, bool, "Nesterov's momentum"),
            ),
            problems=_sgd_problems,
            code="zoo.training.optimization.update_rules:sgd",
        ),
        Kind(
            KIND,
            "nadamw",
            "AdamW whose first moment looks ahead by one step, as Nesterov's momentum does (Dozat 2016)",
            frozenset({"moments", "momentum", "epsilon", "per_element"}),
            code="zoo.training.optimization.update_rules:nadamw",
        ),
        Kind(
            KIND,
            "lion",
            "the sign of the momentum; rates 3 to 10 times below AdamW's, decay as much higher (Chen et al. 2023)",
            frozenset({"momentum", "per_element"}),
            fields=(
                Field(
                    "optimizer.lion_beta1",
                    0.9,
                    float,
                    "share of the momentum in the direction; the rest is the gradient",
                    minimum=0,
                    maximum=0.99999,
                    traced=True,
                ),
                Field(
                    "optimizer.lion_beta2",
                    0.99,
                    float,
                    "decay of the momentum",
                    minimum=0,
                    maximum=0.9999999,
                    traced=True,
                ),
            ),
            code="zoo.training.optimization.update_rules:lion",
        ),
        Kind(
            KIND,
            "adagrad",
            "gradients divided by the root of the sum of all squared gradients (Duchi et al. 2011)",
            fields=(
                Field(
                    "optimizer.adagrad_initial", 0.1, float, "initial value of the sum of squared gradients", minimum=0
                ),
            ),
            code="zoo.training.optimization.update_rules:adagrad",
        ),
        Kind(
            KIND,
            "adafactor",
            "second moments of matrices by row and column, no momentum (Shazeer & Stern 2018)",
            fields=(
                Field(
                    "optimizer.adafactor_decay",
                    0.8,
                    float,
                    "exponent c of the decay of the second moment, 1 - t^-c",
                    above=0,
                    maximum=1,
                    traced=True,
                ),
                Field(
                    "optimizer.adafactor_clip",
                    1.0,
                    float,
                    "largest root mean square of the direction of a parameter",
                    above=0,
                    traced=True,
                ),
                Field(
                    "optimizer.adafactor_scaled",
                    True,
                    bool,
                    "directions are scaled by the root mean square of the parameter, at least 0.001: rates about 0.01",
                ),
                Field(
                    "optimizer.adafactor_min_factored",
                    128,
                    int,
                    "smaller side of the smallest matrix whose second moments are kept by row and column",
                    minimum=1,
                ),
            ),
            code="zoo.training.optimization.adafactor:adafactor",
        ),
        Kind(
            KIND,
            "ademamix",
            "AdamW with a second, slow average of the gradients (Pagliardini et al. 2024)",
            frozenset({"moments", "epsilon", "per_element"}),
            fields=(
                Field(
                    "optimizer.ademamix_beta3",
                    0.9999,
                    float,
                    "decay of the slow average",
                    above=0,
                    maximum=0.9999999,
                    traced=True,
                ),
                Field("optimizer.ademamix_alpha", 5.0, float, "weight of the slow average", above=0, traced=True),
                Field(
                    "optimizer.ademamix_warmup",
                    AUTO,
                    int,
                    "updates over which weight and decay of the slow average rise",
                    minimum=0,
                    auto="training.steps",
                ),
            ),
            derive=lambda flat: {"optimizer.ademamix_warmup": flat["training.steps"]},
            code="zoo.training.optimization.update_rules:ademamix",
        ),
        Kind(
            KIND,
            "adopt",
            "gradients divided by the root of the second moment of earlier ones, then averaged; published with beta2 "
            "0.9999 and epsilon 1e-6 (Taniguchi et al. 2024)",
            frozenset({"moments", "epsilon", "per_element"}),
            code="zoo.training.optimization.update_rules:adopt",
        ),
        Kind(
            KIND,
            "stable_adamw",
            "AdamW whose directions are divided by the root mean square of gradient / sqrt(second moment) where that "
            "is above 1 (Wortsman et al. 2023)",
            frozenset({"moments", "momentum", "epsilon", "per_element"}),
            code="zoo.training.optimization.update_rules:stable_adamw",
        ),
        Kind(
            KIND,
            "schedule_free",
            "AdamW without a schedule: gradients are taken between the steps and their average, which is evaluated; "
            "`beta1` is the share of the average (Defazio et al. 2024)",
            frozenset({"moments", "epsilon", "per_element"}),
            problems=_schedule_free_problems,
            code="zoo.training.optimization.update_rules:schedule_free",
        ),
        Kind(
            KIND,
            "lamb",
            "AdamW whose direction, decay included, is scaled to the norm of the matrix, for large batches; the rate "
            "is the relative size of a step, about 0.002 (You et al. 2020)",
            frozenset({"moments", "momentum", "epsilon"}),
            problems=_lamb_problems,
            code="zoo.training.optimization.lamb:lamb",
        ),
    ),
)
