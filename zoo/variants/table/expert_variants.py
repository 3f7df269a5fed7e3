"""Variants of mixtures of experts: who chooses, by which scores, and with which weights."""

from typing import Any

from zoo.variants.variant import Variant

PART = "feed-forward layer"
ROUTING, MIXTURE = "zoo.layers.routing:route", "zoo.layers.experts:MixtureOfExperts"
MOE: dict[str, Any] = {"model.ffn.kind": "moe"}
GROUPS = MOE | {"model.ffn.experts.groups": 4, "model.ffn.experts.chosen_groups": 2}

EXPERT_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "token-choice",
        PART,
        {"model.ffn.experts.choice": "tokens"},
        needs=MOE,
        source=ROUTING,
        equation="Each token takes the k experts with the largest s_i + b_i; b is 0 without `experts.bias_rate`.",
        paper="Shazeer et al. 2017, section 2.1",
        details=("Experts may have unequal loads, which the balancing losses and the biases b counteract.",),
    ),
    Variant(
        "expert-choice",
        PART,
        {"model.ffn.experts.choice": "experts"},
        baseline="encoder",
        needs=MOE | {"model.ffn.experts.renormalise": False},
        source=MIXTURE,
        equation=(
            "y_t = sum_i s_i(t) f_i(x_t) over the experts i that take token t: each of N = `experts.number` takes the "
            "k T / N tokens of a row with the largest s_i(t)."
        ),
        paper="Zhou et al. 2022, section 3.2",
        details=(
            "All experts have the same load, and a token has any number of them, also none. Whether an expert takes a "
            "token depends on later tokens, so a causal model is refused.",
        ),
    ),
    Variant(
        "softmax-scores",
        PART,
        {"model.ffn.experts.scores": "softmax"},
        needs=MOE,
        source="zoo.layers.routing:router_scores",
        equation="s = softmax(x W_r) over the experts, W_r [D, N], N = `experts.number`.",
        paper="Shazeer et al. 2017, eq. 2; Fedus et al. 2021, eq. 1",
        details=("An expert's score falls when that of another rises.",),
    ),
    Variant(
        "sigmoid-scores",
        PART,
        {"model.ffn.experts.scores": "sigmoid"},
        needs=MOE,
        source="zoo.layers.routing:router_scores",
        equation="s_i = sigmoid((x W_r)_i), W_r [D, N], N = `experts.number`, of each expert by itself.",
        paper="DeepSeek-AI 2024b, eq. 15 (DeepSeek-V3)",
        details=(
            "Scores do not compete; with `experts.renormalise` the weights of the chosen experts still sum to 1.",
        ),
    ),
    Variant(
        "raw-gates",
        PART,
        {"model.ffn.experts.renormalise": False},
        needs=MOE,
        source=ROUTING,
        equation="y = sum_i s_i f_i(x) over the chosen i, with weights that do not sum to 1.",
        paper="Fedus et al. 2021, section 2.1; Muennighoff et al. 2024 (OLMoE)",
        details=("Switched off: the division of the weights by their sum (Mixtral, Qwen 3, DeepSeek V3).",),
    ),
    Variant(
        "expert-groups",
        PART,
        {"model.ffn.experts.group_score": "top2"},
        needs=GROUPS,
        source=ROUTING,
        equation=(
            "u_g = the sum of the two largest s_i + b_i of group g; experts are chosen from the "
            "`experts.chosen_groups` of `experts.groups` groups with the largest u_g."
        ),
        paper="DeepSeek-AI 2024b, section 2.1.2 (DeepSeek-V3)",
        details=(
            "With a group on each node, a token travels to few nodes. Experts of other groups have minus infinity.",
        ),
    ),
    Variant(
        "expert-groups-max",
        PART,
        {"model.ffn.experts.group_score": "max"},
        needs=GROUPS,
        source=ROUTING,
        equation=(
            "u_g = max_i s_i over the experts i of group g; experts are chosen from the `experts.chosen_groups` of "
            "`experts.groups` groups with the largest u_g."
        ),
        paper="DeepSeek-AI 2024, section 2.2.2",
        details=("With a group on each device, a token travels to few devices.",),
    ),
    Variant(
        "router-bias",
        PART,
        {"model.ffn.experts.router_bias": True},
        needs=MOE,
        source=MIXTURE,
        equation="s = softmax(x W_r + c), W_r [D, N], N = `experts.number`, with a learned c [N].",
        paper="OpenAI 2025, gpt-oss",
        details=("It is part of the weights, unlike the bias b by which the choice is balanced, and has a gradient.",),
    ),
    Variant(
        "gated-shared-expert",
        PART,
        {"model.ffn.experts.shared_gate": True},
        needs=MOE | {"model.ffn.experts.shared_dim": 1024},
        source=MIXTURE,
        equation="y = sum_i g_i f_i(x) + sigmoid(x v) f_s(x), with i over the chosen experts and v [D].",
        paper="Qwen Team 2024 (Qwen1.5-MoE)",
        details=("The shared expert f_s of DeepSeek's models has weight 1.",),
    ),
)
