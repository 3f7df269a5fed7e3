"""The mixture of experts, a kind of feed-forward layer."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind

KIND, EXPERTS = "model.ffn.kind", "model.ffn.experts"
NAME = "moe"
TRAINING_ONLY = ("capacity_factor", "balance_weight", "sequence_balance_weight", "z_weight", "jitter", "noise")
# Of the biases of the choice (Wang et al. 2024, section 4.1).
PUBLISHED_BIAS_RATE = 0.001
LOSS_TERMS = {
    "expert_balance": f"{EXPERTS}.balance_weight",
    "sequence_balance": f"{EXPERTS}.sequence_balance_weight",
    "router_z": f"{EXPERTS}.z_weight",
}


def _field(
    name: str, default: Any, kind: type, meaning: str, choices: Mapping[str, str] | None = None, **options: Any
) -> Field:
    return Field(f"{EXPERTS}.{name}", default, kind, meaning, choices, added=True, **options)


_FIELDS = (
    _field("number", 8, int, "E, number of experts of a layer", minimum=2, synonyms=("num-experts",)),
    _field("per_token", 2, int, "k, number of experts that each token is sent to", minimum=1, synonyms=("top-k",)),
    _field(
        "choice",
        "tokens",
        str,
        "who chooses",
        {
            "tokens": "each token chooses k experts",
            "experts": "each expert chooses the k T / E tokens of a row with the largest scores, in encoders "
            "(Zhou et al. 2022)",
        },
    ),
    _field(
        "scores",
        "softmax",
        str,
        "scores of the experts, from the logits of the router",
        {"softmax": "over all experts", "sigmoid": "of each expert by itself (DeepSeek V3)"},
    ),
    _field("renormalise", True, bool, "weights of a token's experts are divided by their sum", synonyms=("norm-topk",)),
    _field("scale", 1.0, float, "factor on these weights (DeepSeek V3: 2.5)", above=0),
    _field("groups", 1, int, "number of groups of experts; E is a multiple of it (DeepSeek V3: 8)", minimum=1),
    _field(
        "chosen_groups", 1, int, "number of groups that a token's experts may be in (DeepSeek V3: 4 of 8)", minimum=1
    ),
    _field(
        "group_score",
        "top2",
        str,
        "how good a group is",
        {
            "top2": "the sum of its two largest scores with their biases (DeepSeek V3)",
            "max": "the largest of them (DeepSeek V2)",
        },
    ),
    _field("router_bias", False, bool, "the router has a bias, which is learned like its matrix (gpt-oss)"),
    _field(
        "shared_dim", 0, int, "width of the hidden layer of a shared expert that sees all tokens; 0 for none", minimum=0
    ),
    _field("shared_gate", False, bool, "the shared expert is weighted by sigmoid(x v) (Qwen 1.5 MoE)"),
    _field(
        "capacity_factor",
        0.0,
        float,
        "c: in training, an expert takes the first c k T / E tokens of a row that are sent to it, rounded up; 0: all",
        minimum=0,
    ),
    _field("balance_weight", 0.0, float, "weight of the balancing loss over all tokens (Fedus et al. 2021)", minimum=0),
    _field(
        "sequence_balance_weight", 0.0, float, "weight of the balancing loss within each row (DeepSeek V3)", minimum=0
    ),
    _field("z_weight", 0.0, float, "weight of the router's z-loss (Zoph et al. 2022, ST-MoE)", minimum=0),
    _field(
        "bias_rate",
        0.0,
        float,
        "step of the biases by which the choice, and nothing else, is balanced (Wang et al. 2024: 0.001); 0: no biases",
        minimum=0,
    ),
    _field(
        "jitter", 0.0, float, "in training, inputs of the router are multiplied by 1 - j to 1 + j", minimum=0, maximum=1
    ),
    _field("noise", 0.0, float, "in training, standard deviation of noise that is added to the logits", minimum=0),
)


def _problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    """Yields what a mixture of experts cannot be combined with."""
    own = {field.path.removeprefix(f"{EXPERTS}."): flat[field.path] for field in _FIELDS}
    number, chosen, groups, kept = own["number"], own["per_token"], own["groups"], own["chosen_groups"]
    if flat[f"{EXPERTS}.kind"] == NAME:
        yield f"{EXPERTS}.kind={NAME}: an expert is no mixture of experts; choose a kind that has none, e.g. swiglu"
    if flat[f"{EXPERTS}.kind"] == "none":
        yield f"{EXPERTS}.kind=none: an expert has hidden units; choose a kind that has them, e.g. swiglu"
    if chosen > number:
        yield f"{EXPERTS}.per_token={chosen}: a layer has only {number} experts ({EXPERTS}.number)"
    if number % groups:
        yield f"{EXPERTS}.groups={groups} does not divide {EXPERTS}.number={number}"
    elif kept > groups:
        yield f"{EXPERTS}.chosen_groups={kept}: there are only {groups} groups ({EXPERTS}.groups)"
    elif groups > 1 and kept * number // groups < chosen:
        yield (
            f"{EXPERTS}.chosen_groups={kept}: {kept * number // groups} experts are in so many groups, and "
            f"{EXPERTS}.per_token is {chosen}"
        )
    if own["group_score"] != "top2" and (groups == 1 or number == groups):
        groups_are = "all experts are one group" if groups == 1 else "a group is one expert"
        yield f"{EXPERTS}.group_score={own['group_score']} has no effect: {groups_are}; leave it at top2"
    if own["shared_gate"] and not own["shared_dim"]:
        yield f"{EXPERTS}.shared_gate=true needs a shared expert; set {EXPERTS}.shared_dim"
    if own["renormalise"] and chosen == 1 and own["choice"] == "tokens":
        yield (
            f"{EXPERTS}.renormalise=true with {EXPERTS}.per_token=1: the weight of the one expert is always 1, so the "
            "router has no gradient of the loss; set renormalise to false"
        )
    if own["choice"] == "experts":
        yield from _expert_choice_problems(own, architecture)
    if flat["data.isolate_documents"] and (own["choice"] == "experts" or own["capacity_factor"]):
        path = f"{EXPERTS}.{'choice' if own['choice'] == 'experts' else 'capacity_factor'}"
        yield (
            f"{path}={flat[path]} cannot be combined with data.isolate_documents=true: an expert takes some of the "
            "tokens of a row, so that one document would change what is left for another"
        )
    yield from _without_effect(own)
    if flat["model.ffn.hidden_scale"]:
        yield f"model.ffn.hidden_scale=true has no factors for each expert of {KIND}={NAME}; set it to false"
    if flat["model.convolution.kind"] != "none" and "D" in flat["model.convolution.places"]:
        yield (
            "model.convolution.places: place D is inside the feed-forward layer, and the tokens of an expert are no "
            f"neighbours with {KIND}={NAME}; choose places without D"
        )


def _without_effect(own: Mapping[str, Any]) -> Iterator[str]:
    """Yields settings of training that change no result."""
    number, chosen, factor = own["number"], own["per_token"], own["capacity_factor"]
    if own["choice"] == "experts":
        return
    if chosen == number:
        # Not the rate of biases: published checkpoints have them, whatever k is.
        for name in ("balance_weight", "sequence_balance_weight", "capacity_factor"):
            if own[name]:
                yield f"{EXPERTS}.{name}={own[name]} has no effect: each token is sent to all experts; set it to 0"
    elif factor * chosen >= number:
        yield (
            f"{EXPERTS}.capacity_factor={factor} has no effect: an expert may take all tokens of a row; use less "
            f"than {number / chosen:g}, or 0"
        )


def _expert_choice_problems(own: Mapping[str, Any], architecture: str) -> Iterator[str]:
    """Yields what experts that choose their tokens cannot be combined with."""
    choice = f"{EXPERTS}.choice=experts"
    if architecture != "encoder":
        yield (
            f"{choice}: whether an expert takes a token depends on the scores of later tokens of the row, which a "
            "causal model must not read; use tokens, or an encoder"
        )
    unused = {"renormalise": False, "groups": 1, "capacity_factor": 0, "bias_rate": 0, "balance_weight": 0,
              "sequence_balance_weight": 0, "group_score": "top2"}  # fmt: skip
    for name, neutral in unused.items():
        if own[name] != neutral:
            why = "a token may have no expert" if name == "renormalise" else "all experts have as many tokens"
            yield f"{choice} has no {EXPERTS}.{name}: {why}; set it to {str(neutral).lower()}"


MIXTURE = Kind(
    KIND,
    NAME,
    "sum over k of E experts of g_i E_i(x), chosen by a router for each token (Shazeer et al. 2017; Fedus et al. 2021)",
    frozenset({"hidden", "experts"}),
    fields=_FIELDS,
    problems=_problems,
    loss_terms=LOSS_TERMS,
    code="zoo.layers.experts:MixtureOfExperts",
    description=Description(
        name="mixture-of-experts",
        synonyms=("experts", "mixture of experts", "sparse"),
        published=(
            (
                "Fedus et al. 2021, abstract: up to seven times fewer steps than T5-Base and T5-Large at the same "
                "computational resources."
            ),
        ),
    ),
)
