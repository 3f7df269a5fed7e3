"""Models whose layers keep a state, some beside layers of attention."""

from tests.parity.systems.decoders import LLAMA, D, F, L, V
from tests.parity.systems.record import FIVE, Published, System

IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
QWEN3_NEXT = LLAMA | IDS | {
    "num_hidden_layers": 3, "full_attention_interval": 3, "head_dim": 12, "partial_rotary_factor": 0.5, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 6, "moe_intermediate_size": 20,
    "shared_expert_intermediate_size": 28, "num_experts": 6, "num_experts_per_tok": 2, "mlp_only_layers": [1],
}  # fmt: skip
LFM2 = {"vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 24, "norm_eps": 0.03, "block_multiple_of": 8,
        "layer_types": ["conv", "conv", "full_attention"]} | IDS  # fmt: skip
MAMBA2 = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": L, "num_heads": 8, "head_dim": 8, "state_size": 12,
          "n_groups": 2, "chunk_size": 8, "layer_norm_epsilon": 0.03} | IDS  # fmt: skip

# The norm within Gated DeltaNet keeps its epsilon of 1e-5, whatever that of the others is.
OLMO_HYBRID = LLAMA | IDS | {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 6, "linear_value_head_dim": 10,
    "rope_parameters": {"rope_type": "default", "rope_theta": None},
}  # fmt: skip

KIMI_LINEAR = {
    "vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_intermediate_size": 20, "num_local_experts": 6, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "n_shared_experts": 2,
    "kv_lora_rank": 10, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 6, "linear_head_dim": 6, "linear_num_heads": 2,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"], "mlp_layer_types": ["dense", "sparse", "sparse"],
    "rms_norm_eps": 0.03,
} | IDS  # fmt: skip

STATE_MIXERS: tuple[System, ...] = (
    System("qwen3-next", "two layers of Gated DeltaNet, one of attention with a gate; a shared expert with a gate",
           "Qwen3NextForCausalLM", QWEN3_NEXT, kernels=("einsum",), tolerance=1e-5, published=(
               Published("configs/qwen3_next.py:80b-a3b", 79_674_391_296),)),
    System("olmo-hybrid", "Gated DeltaNet with rates up to 2, pre-norm, and attention without positions, whose outputs are normed",
           "OlmoHybridForCausalLM", OLMO_HYBRID, library=FIVE, kernels=("einsum",), tolerance=1e-5, published=(
               Published("configs/olmo_hybrid.py:7b", 7_430_870_688),)),
    System("olmo-hybrid-rope", "rates up to 1, attention with positions and biases", "OlmoHybridForCausalLM", OLMO_HYBRID | {
        "linear_allow_neg_eigval": False, "attention_bias": True, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
    }, library=FIVE, kernels=("einsum",), tolerance=1e-5),
    System("kimi-linear", "Kimi Delta Attention; latent attention without positions, whose heads share a part of their keys; experts",
           "KimiLinearForCausalLM", KIMI_LINEAR, library=FIVE, kernels=("einsum",), tolerance=1e-5, published=(
               Published("configs/kimi_linear.py:48b-a3b", 49_122_675_072),)),
    System("kimi-linear-latents", "queries from latent vectors, biases, all layers of one kind with experts", "KimiLinearForCausalLM", KIMI_LINEAR | {
        "q_lora_rank": 9, "attention_bias": True, "n_group": 1, "num_hidden_layers": 2, "layer_types": ["full_attention"] * 2,
        "mlp_layer_types": ["sparse"] * 2, "n_shared_experts": 1, "norm_topk_prob": False}, library=FIVE, kernels=("einsum",), tolerance=1e-5),
    System("mamba2", "state space layers without feed-forward layers, two groups with the norm of Zamba 2", "Mamba2ForCausalLM", MAMBA2, kernels=("einsum",),
           tolerance=1e-5, published=(
               Published("configs/mamba2.py:130m", 128_989_632), Published("configs/mamba2.py:370m", 368_346_624),
               Published("configs/mamba2.py:780m", 780_161_280), Published("configs/mamba2.py:1.3b", 1_343_757_312),
               Published("configs/mamba2.py:2.7b", 2_702_599_680))),
    System("mamba2-one-group", "one group, with the norm of the class itself", "Mamba2ForCausalLM", MAMBA2 | {"n_groups": 1},
           kernels=("einsum",), tolerance=1e-5),
    System("lfm2", "gated convolutions and a layer of grouped-query attention, tied head", "Lfm2ForCausalLM", LFM2, tolerance=1e-5,
           # transformers 4.57 does not keep padding out of these convolutions.
           padded=False, published=(
               Published("configs/lfm2.py:350m", 354_483_968), Published("configs/lfm2.py:700m", 742_489_344),
               Published("configs/lfm2.py:1.2b", 1_170_340_608), Published("configs/lfm2.py:2.6b", 2_569_272_320))),
)  # fmt: skip
