"""Mixtures of experts."""

from tests.parity.systems.decoders import LLAMA, F, with_rope_scaling
from tests.parity.systems.record import Published, System

TOLERANCE = 1e-5
IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MIXTURE = LLAMA | IDS | {"num_experts_per_tok": 3}
MULTIPLIERS = {"embedding_multiplier": 6.0, "residual_multiplier": 0.3, "attention_multiplier": 0.2, "logits_scaling": 4.0,
               "tie_word_embeddings": True}  # fmt: skip
QWEN15 = {"vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
          "num_key_value_heads": 16, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
          "num_experts": 60, "num_experts_per_tok": 4}  # fmt: skip
GRANITE = {"vocab_size": 49155, "intermediate_size": 512, "num_key_value_heads": 8, "num_local_experts": 32,
           "num_experts_per_tok": 8, "tie_word_embeddings": True}  # fmt: skip
DEEPSEEK = MIXTURE | {"rms_norm_eps": 1e-6, "num_hidden_layers": 3, "num_key_value_heads": 4, "first_k_dense_replace": 1,
                      "kv_lora_rank": 12, "q_lora_rank": 9, "qk_nope_head_dim": 10, "qk_rope_head_dim": 6, "v_head_dim": 10,
                      "n_routed_experts": 8, "n_shared_experts": 2, "moe_intermediate_size": 20, "n_group": 4,
                      "topk_group": 2}  # fmt: skip
PUBLISHED_V2 = {"vocab_size": 102400, "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 60,
                "num_attention_heads": 128, "n_routed_experts": 160, "moe_intermediate_size": 1536,
                "first_k_dense_replace": 1, "topk_method": "group_limited_greedy", "n_group": 8, "topk_group": 3,
                "routed_scaling_factor": 16.0}  # fmt: skip
LITE = {"hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27, "num_attention_heads": 16,
        "q_lora_rank": None, "n_routed_experts": 64, "moe_intermediate_size": 1408, "topk_method": "greedy",
        "routed_scaling_factor": 1.0}  # fmt: skip


def with_yarn(**more):
    """Returns the settings of YaRN on rows longer than in training."""
    scaling = {
        "rope_type": "yarn",
        "factor": 2.5,
        "original_max_position_embeddings": 8,
        "beta_fast": 0.6,
        "beta_slow": 0.05,
    }
    return {"rope_theta": 100.0, "max_position_embeddings": 8, "rope_scaling": scaling | more}


MIXTURES: tuple[System, ...] = (
    System("mixtral", "two of four experts, whose weights add up to 1, sliding window", "MixtralForCausalLM",
           LLAMA | IDS | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5}, length=16, tolerance=TOLERANCE,
           published=(
               Published("configs/mixtral.py:8x7b", 46_702_792_704), Published("configs/mixtral.py:8x22b", 140_620_634_112))),
    System("olmoe", "three of eight experts, weights as they are, norms over all heads", "OlmoeForCausalLM",
           MIXTURE | {"intermediate_size": 20, "num_experts": 8}, tolerance=TOLERANCE, published=(
               Published("configs/olmoe.py:1b-7b", 6_919_161_856),)),
    System("qwen2-moe", "dense and sparse layers in turns, a shared expert with a gate, biases of queries, keys and values",
           "Qwen2MoeForCausalLM", MIXTURE | {"intermediate_size": F, "moe_intermediate_size": 20, "num_experts": 8,
                                             "shared_expert_intermediate_size": 28, "decoder_sparse_step": 2}, tolerance=TOLERANCE, published=(
               Published(QWEN15, 14_315_784_192, "Qwen1.5-MoE-A2.7B"),)),
    System("qwen3-moe", "a dense layer before one of experts, norms of each head's queries and keys", "Qwen3MoeForCausalLM",
           MIXTURE | {"intermediate_size": F, "moe_intermediate_size": 20, "num_experts": 8, "norm_topk_prob": True,
                      "head_dim": 12, "mlp_only_layers": [0]}, tolerance=TOLERANCE, published=(
               Published("configs/qwen3_moe.py:30b-a3b", 30_532_122_624),
               Published("configs/qwen3_moe.py:235b-a22b", 235_093_634_560))),
    System("granite-moe", "two of four experts, whose weights add up to 1, four multipliers, tied head",
           "GraniteMoeForCausalLM", LLAMA | IDS | MULTIPLIERS | {"intermediate_size": 20, "num_local_experts": 4}, tolerance=TOLERANCE, published=(
               Published(GRANITE | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}, 1_334_628_352,
                         "granite-3.0-1b-a400m"),
               Published(GRANITE | {"hidden_size": 1536, "num_hidden_layers": 32, "num_attention_heads": 24,
                                    "num_local_experts": 40}, 3_298_793_472, "granite-3.0-3b-a800m"))),
    System("gpt-oss", "two of four experts with biases, clamped SwiGLU, sinks, a window in every other layer, YaRN not rounded",
           "GptOssForCausalLM", with_rope_scaling("yarn", original_max_position_embeddings=8, beta_fast=0.6, beta_slow=0.05,
                                                  truncate=False) | IDS | {
               "intermediate_size": 20, "num_hidden_layers": 2, "sliding_window": 5, "num_local_experts": 4,
               "num_experts_per_tok": 2}, length=16, tolerance=TOLERANCE, published=(
               Published("configs/gpt_oss.py:20b", 20_914_757_184), Published("configs/gpt_oss.py:120b", 116_829_156_672))),
    System("deepseek-v2", "softmax scores, groups by their best expert, YaRN, biases of feed-forward layers", "DeepseekV2ForCausalLM",
           DEEPSEEK | with_yarn(mscale=0.8) | {"topk_method": "group_limited_greedy", "routed_scaling_factor": 4.0, "mlp_bias": True},
           tolerance=TOLERANCE, published=(Published(PUBLISHED_V2, 235_741_434_880, "DeepSeek-V2"),)),
    System("deepseek-v2-lite", "queries without a latent vector, no groups", "DeepseekV2ForCausalLM",
           DEEPSEEK | {"q_lora_rank": None, "n_group": 1, "topk_group": 1}, tolerance=TOLERANCE, published=(
               Published(PUBLISHED_V2 | LITE, 15_706_484_224, "DeepSeek-V2-Lite"),)),
    System("deepseek-v3", "a dense layer, then groups with biases of the choice, a shared expert; YaRN with both factors",
           "DeepseekV3ForCausalLM", DEEPSEEK | with_yarn(mscale=0.8, mscale_all_dim=1.3) | {
               "norm_topk_prob": True, "routed_scaling_factor": 2.5, "attention_bias": True}, length=16, tolerance=TOLERANCE, published=(
               Published("configs/deepseek_v3.py:671b", 671_026_404_352),)),
)  # fmt: skip
