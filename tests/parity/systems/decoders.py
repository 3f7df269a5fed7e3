"""Decoders: GPT, GPT-NeoX, GPT-J, LLaMA and models derived from LLaMA."""

from typing import Any

from tests.parity.systems.record import Published, System

# There is no dropout; sizes are small and distinct, so that mixed-up dimensions are noticed; and the
# epsilon of norms is large enough to matter.
V, D, F, L = 99, 32, 56, 2
GPT = {
    "vocab_size": V,
    "n_embd": D,
    "n_layer": L,
    "n_head": 4,
    "n_positions": 24,
    "attn_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "layer_norm_epsilon": 0.03,
}
LLAMA = {"vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 24, "rms_norm_eps": 0.03}  # fmt: skip
NEOX = {"vocab_size": V, "hidden_size": D, "intermediate_size": F, "num_hidden_layers": L, "num_attention_heads": 2, "rotary_pct": 0.25,
        "max_position_embeddings": 24, "layer_norm_eps": 0.03}  # fmt: skip
GLM = LLAMA | {"head_dim": 12, "pad_token_id": 0}
PHI = {name: value for name, value in NEOX.items() if name != "rotary_pct"} | {"num_attention_heads": 4}


def with_rope_scaling(kind: str, **more: Any) -> dict[str, Any]:
    """LLaMA with a kind of RoPE scaling, trained at 8 tokens and run at 12. Some pairs of dimensions
    keep their frequency, some are scaled, some are in between.
    """
    scaling = {"rope_type": kind, "factor": 2.5, **more}
    return LLAMA | {"head_dim": 16, "rope_theta": 100.0, "max_position_embeddings": 8, "rope_scaling": scaling}


DECODERS = (
    System("gpt1", "post-norm, learned positions, GELU", "OpenAIGPTLMHeadModel", GPT, published=(
        Published("configs/gpt1.py:base", 116_534_784),)),
    System("gpt2", "pre-norm, learned positions, GELU", "GPT2LMHeadModel", GPT | {"n_inner": F}, published=(
        Published("configs/gpt2.py:small", 124_439_808), Published("configs/gpt2.py:medium", 354_823_168),
        Published("configs/gpt2.py:large", 774_030_080), Published("configs/gpt2.py:xl", 1_557_611_200))),
    System("gpt2-unscaled-relu", "scores not scaled, ReLU, untied head", "GPT2LMHeadModel",
           GPT | {"scale_attn_weights": False, "activation_function": "relu", "tie_word_embeddings": False}),
    System("gpt-neox", "side by side with two norms, a quarter of each head rotated", "GPTNeoXForCausalLM", NEOX, published=(
        Published("configs/pythia.py:160m", 162_322_944), Published("configs/pythia.py:12b", 11_846_072_320))),
    System("gpt-neox-sequential", "one after the other, no bias in attention, all of each head rotated", "GPTNeoXForCausalLM",
           NEOX | {"use_parallel_residual": False, "attention_bias": False, "rotary_pct": 1.0}),
    System("gpt-j", "side by side with one norm, neighbouring pairs rotated", "GPTJForCausalLM", GPT | {"n_head": 2, "rotary_dim": 8},
           published=(Published("configs/gpt_j.py:6b", 6_050_882_784),)),
    System("phi", "side by side with one norm, half of each head rotated, biases, untied head", "PhiForCausalLM", PHI, published=(
        Published("configs/phi.py:1", 1_418_270_720), Published("configs/phi.py:1.5", 1_418_270_720),
        Published("configs/phi.py:2", 2_779_683_840))),
    System("phi-grouped", "GQA, tied head, exact GELU", "PhiForCausalLM",
           PHI | {"num_key_value_heads": 2, "tie_word_embeddings": True, "hidden_act": "gelu"}),
    System("llama", "RMSNorm, RoPE, SwiGLU, a key head for every query head", "LlamaForCausalLM", LLAMA | {"num_key_value_heads": 4},
           published=(Published("configs/llama.py:7b", 6_738_415_616), Published("configs/llama.py:13b", 13_015_864_320),
                      Published("configs/llama.py:33b", 32_528_943_616), Published("configs/llama.py:65b", 65_285_660_672),
                      Published("configs/llama.py:v2-7b", 6_738_415_616), Published("configs/llama.py:v2-13b", 13_015_864_320))),
    System("llama-grouped", "GQA: two query heads to a key head", "LlamaForCausalLM", LLAMA, published=(
        Published("configs/llama.py:v2-70b", 68_976_648_192),
        Published({"vocab_size": 128256, "intermediate_size": 14336, "num_key_value_heads": 8, "rope_theta": 5e5}, 8_030_261_248,
                  "LLaMA 3 8B"))),
    System("llama-multi-query", "MQA: one key head, biases, tied head, wide heads", "LlamaForCausalLM",
           LLAMA | {"num_key_value_heads": 1, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "head_dim": 12}),
    System("llama-linear", "positions divided (position interpolation)", "LlamaForCausalLM", with_rope_scaling("linear")),
    System("llama-dynamic", "theta that grows with the length (dynamic NTK)", "LlamaForCausalLM", with_rope_scaling("dynamic")),
    System("llama-yarn", "YaRN", "LlamaForCausalLM", with_rope_scaling("yarn", original_max_position_embeddings=8, beta_fast=0.6, beta_slow=0.05)),
    System("llama-3.1", "LLaMA 3.1's stretching", "LlamaForCausalLM",
           with_rope_scaling("llama3", original_max_position_embeddings=8, low_freq_factor=0.1, high_freq_factor=0.9)),
    System("mistral", "sliding window", "MistralForCausalLM", LLAMA | {"sliding_window": 5}, length=16, published=(
        Published("configs/mistral.py:7b", 7_241_732_096),)),
    System("ministral", "one layer with a window and one without, heads of their own width", "MinistralForCausalLM",
           LLAMA | {"head_dim": 12, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}, length=16,
           published=(Published("configs/ministral.py:8b", 8_019_808_256),)),
    System("smollm3", "no positions in every other layer", "SmolLM3ForCausalLM",
           LLAMA | {"no_rope_layer_interval": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}, published=(
               Published("configs/smollm3.py:3b", 3_075_098_624),)),
    System("smollm3-windows", "a window in the layers without positions, biases", "SmolLM3ForCausalLM",
           LLAMA | {"no_rope_layers": [0, 1], "use_sliding_window": True, "sliding_window": 5, "attention_bias": True, "mlp_bias": True,
                    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}, length=16),
    System("qwen3", "queries and keys normalised head by head", "Qwen3ForCausalLM", LLAMA | {"head_dim": 12}, published=(
        Published("configs/qwen3.py:0.6b", 596_049_920), Published("configs/qwen3.py:8b", 8_190_735_360))),
    System("qwen3-windows", "a window in the last layer, biases, tied head", "Qwen3ForCausalLM",
           LLAMA | {"head_dim": 12, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1, "attention_bias": True,
                    "tie_word_embeddings": True}, length=16),
    System("olmo2", "norms after the sublayers, queries and keys normalised as a whole", "Olmo2ForCausalLM", LLAMA, published=(
        Published("configs/olmo2.py:1b", 1_484_916_736), Published("configs/olmo2.py:7b", 7_298_617_344))),
    System("olmo3", "local and global in turn, of which only the global ones' RoPE is scaled", "Olmo3ForCausalLM",
           with_rope_scaling("yarn", original_max_position_embeddings=8, beta_fast=0.6, beta_slow=0.05) | {
               "num_hidden_layers": 4, "sliding_window": 5}, length=16, published=(
                   Published("configs/olmo3.py:7b", 7_298_011_136), Published("configs/olmo3.py:32b", 32_233_522_176))),
    System("diffllama", "differential attention, GQA: two query heads to a key head", "DiffLlamaForCausalLM", LLAMA | {"num_hidden_layers": 3}),
    System("gemma", "factors less one, scaled embedding, GeGLU", "GemmaForCausalLM", LLAMA | {"head_dim": 12}, published=(
        Published("configs/gemma.py:2b", 2_506_172_416), Published("configs/gemma.py:7b", 8_537_680_896))),
    System("gemma2", "local and global in turn, norms on both sides, caps", "Gemma2ForCausalLM",
           LLAMA | {"head_dim": 12, "query_pre_attn_scalar": 20, "sliding_window": 5, "attn_logit_softcapping": 2.0,
                    "final_logit_softcapping": 3.0}, length=16,
           published=(Published("configs/gemma2.py:2b", 2_614_341_888), Published("configs/gemma2.py:9b", 9_241_705_984),
                      Published("configs/gemma2.py:27b", 27_227_128_320))),
    System("gemma3", "two local layers to a global one, each with its theta", "Gemma3ForCausalLM",
           LLAMA | {"num_hidden_layers": 5, "head_dim": 12, "query_pre_attn_scalar": 20, "sliding_window": 5, "rope_theta": 1000.0,
                    "rope_local_base_freq": 10.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0},
                    "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]},
           length=16, published=(Published("configs/gemma3.py:270m", 268_098_176), Published("configs/gemma3.py:1b", 999_885_952))),
    System("apertus", "xIELU, queries and keys normalised head by head, LLaMA 3.1's stretching", "ApertusForCausalLM",
           with_rope_scaling("llama3", original_max_position_embeddings=8, low_freq_factor=0.1, high_freq_factor=0.9) | {
               "head_dim": 16}, published=(
                   Published("configs/apertus.py:8b", 8_053_338_176), Published("configs/apertus.py:70b", 70_599_864_480))),
    System("apertus-relu", "biases of attention, ReLU, plain RoPE, tied head", "ApertusForCausalLM",
           LLAMA | {"rope_scaling": None, "hidden_act": "relu", "attention_bias": True, "tie_word_embeddings": True}),
    System("glm", "half of each head rotated in neighbouring pairs, biases of queries, keys and values", "GlmForCausalLM",
           GLM, published=(Published({}, 9_399_951_360, "GLM-4 9B of 2024"),)),
    System("glm4", "the same with norms on both sides of the sublayers", "Glm4ForCausalLM", GLM, published=(
        Published("configs/glm4.py:9b", 9_400_279_040), Published("configs/glm4.py:32b", 32_566_081_536))),
    System("glm4-unbiased", "no biases, three quarters of each head rotated, YaRN", "Glm4ForCausalLM",
           with_rope_scaling("yarn", original_max_position_embeddings=8, beta_fast=0.6, beta_slow=0.05) | {
               "attention_bias": False, "partial_rotary_factor": 0.75, "pad_token_id": 0}),
    System("exaone4", "norms after the sublayers, local layers with RoPE and global ones without positions", "Exaone4ForCausalLM",
           with_rope_scaling("llama3", original_max_position_embeddings=8, low_freq_factor=0.1, high_freq_factor=0.9) | {
               "num_hidden_layers": 4, "sliding_window": 5}, length=16, published=(
                   Published("configs/exaone4.py:32b", 32_003_216_384), Published("configs/exaone4.py:1.2b", 1_279_391_488))),
    System("exaone4-global", "every layer global and rotated, tied head", "Exaone4ForCausalLM",
           LLAMA | {"sliding_window": None, "layer_types": ["full_attention"] * 2, "tie_word_embeddings": True}),
    System("helium", "neighbouring pairs rotated", "HeliumForCausalLM", LLAMA | {"head_dim": 8}, published=(
        Published("configs/helium.py:preview-2b", 2_172_643_840),)),
    System("helium-biases", "biases of queries, keys and values, and of the feed-forward layer", "HeliumForCausalLM",
           LLAMA | {"head_dim": 8, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
)  # fmt: skip
