"""Mixtures of experts."""

from tests.parity.systems.decoders import LLAMA, F
from tests.parity.systems.record import Published, System

IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
MIXTURE = LLAMA | IDS | {"num_experts_per_tok": 3}

MIXTURES: tuple[System, ...] = (
    System("mixtral", "two of four experts, whose weights add up to 1, sliding window", "MixtralForCausalLM",
           LLAMA | IDS | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 5}, length=16, published=(
               Published("configs/mixtral.py:8x7b", 46_702_792_704), Published("configs/mixtral.py:8x22b", 140_620_634_112))),
    System("olmoe", "three of eight experts, weights as they are, norms over all heads", "OlmoeForCausalLM",
           MIXTURE | {"intermediate_size": 20, "num_experts": 8}, published=(
               Published("configs/olmoe.py:1b-7b", 6_919_161_856),)),
    System("qwen3-moe", "a dense layer before one of experts, norms of each head's queries and keys", "Qwen3MoeForCausalLM",
           MIXTURE | {"intermediate_size": F, "moe_intermediate_size": 20, "num_experts": 8, "norm_topk_prob": True,
                      "head_dim": 12, "mlp_only_layers": [0]}, published=(
               Published("configs/qwen3_moe.py:30b-a3b", 30_532_122_624),
               Published("configs/qwen3_moe.py:235b-a22b", 235_093_634_560))),
)  # fmt: skip
