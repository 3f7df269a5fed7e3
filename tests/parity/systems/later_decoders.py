"""Decoders of 2022 and later with a class of their own: OPT, Falcon, StableLM, OLMo, Phi-3, Command R,
Nemotron, Granite, nanochat.
"""

from tests.parity.systems.decoders import LLAMA, D, F, L, V
from tests.parity.systems.record import FIVE, Published, System

IDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
NO_EPSILON = {name: value for name, value in LLAMA.items() if name != "rms_norm_eps"} | IDS
LAYER_NORM = NO_EPSILON | {"layer_norm_eps": 0.03}
PHI3 = LLAMA | IDS | {"num_attention_heads": 2, "num_key_value_heads": 1, "original_max_position_embeddings": 24}
# Rows have 12 tokens.
LONGROPE = PHI3 | {"original_max_position_embeddings": 8, "rope_theta": 100.0, "partial_rotary_factor": 0.75,
                   "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.1, 1.3, 1.5, 2.0, 2.5],
                                    "long_factor": [1.2, 1.7, 2.0, 2.9, 3.5, 4.0]}}  # fmt: skip
OPT = {"vocab_size": V, "hidden_size": D, "ffn_dim": F, "num_hidden_layers": L, "num_attention_heads": 4,
       "max_position_embeddings": 24, "dropout": 0.0} | IDS  # fmt: skip
FALCON = {"vocab_size": V, "hidden_size": D, "ffn_hidden_size": F, "num_hidden_layers": L, "num_attention_heads": 4,
          "layer_norm_epsilon": 0.03} | IDS  # fmt: skip
NEW = FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2}

LATER_DECODERS = (
    System("phi3", "one matrix for query, key and value, one for gate and up; GQA, sliding window", "Phi3ForCausalLM",
           PHI3 | {"sliding_window": 5}, length=16, published=(
               Published("configs/phi3.py:mini", 3_821_079_552), Published("configs/phi3.py:medium", 13_960_238_080),)),
    System("phi3-longrope", "LongRoPE in rows longer than in training, three quarters of each head rotated, tied head",
           "Phi3ForCausalLM", LONGROPE | {"tie_word_embeddings": True}, published=(
               Published("configs/phi3.py:phi-4", 14_659_507_200), Published("configs/phi3.py:phi-4-mini", 3_836_021_760))),
    System("phi3-longrope-short", "LongRoPE in rows as long as in training", "Phi3ForCausalLM",
           LONGROPE | {"max_position_embeddings": 96, "original_max_position_embeddings": 12}),
    System("opt", "pre-norm, learned positions after two unused rows, ReLU", "OPTForCausalLM", OPT, published=(
               Published("configs/opt.py:125m", 125_239_296), Published("configs/opt.py:6.7b", 6_658_473_984),
               Published("configs/opt.py:175b", 174_604_468_224))),
    System("opt-350m", "post-norm, narrow embeddings of tokens", "OPTForCausalLM",
           OPT | {"do_layer_norm_before": False, "word_embed_proj_dim": 20}, published=(
               Published("configs/opt.py:350m", 331_196_416),)),
    System("opt-galactica", "no biases, norms without parameters, GELU", "OPTForCausalLM",
           OPT | {"enable_bias": False, "layer_norm_elementwise_affine": False, "activation_function": "gelu"}),
    System("falcon", "MQA and GELU side by side with one norm", "FalconForCausalLM", FALCON, published=(
               Published("configs/falcon.py:7b", 6_921_720_704),)),
    System("falcon-40b", "GQA and GELU side by side with two norms", "FalconForCausalLM", NEW, published=(
               Published("configs/falcon.py:40b", 41_303_293_952), Published("configs/falcon.py:180b", 178_557_088_768))),
    System("falcon-11b", "the same with one norm, untied head", "FalconForCausalLM",
           NEW | {"num_ln_in_parallel_attn": 1, "tie_word_embeddings": False}),
    System("falcon-rw", "one after the other, ALiBi with the factor of the scores, biases", "FalconForCausalLM",
           # With the plain attention the class adds ALiBi twice.
           FALCON | {"attn_implementation": "sdpa", "alibi": True, "multi_query": False, "parallel_attn": False, "bias": True}, published=(
               Published("configs/falcon.py:rw-1b", 1_311_625_216),)),
    System("granite", "four multipliers, tied head", "GraniteForCausalLM",
           LLAMA | IDS | {"embedding_multiplier": 6.0, "residual_multiplier": 0.3, "attention_multiplier": 0.2,
                          "logits_scaling": 4.0, "tie_word_embeddings": True}, published=(
               Published("configs/granite.py:2b", 2_533_531_648), Published("configs/granite.py:8b", 8_170_848_256))),
    System("cohere", "side by side with one norm without bias, neighbouring pairs rotated, logits scaled",
           "CohereForCausalLM", LAYER_NORM, published=(
               Published("configs/cohere.py:aya-8b", 8_028_033_024), Published("configs/cohere.py:command-r", 34_980_831_232))),
    System("cohere-normed", "LayerNorm of each head's queries and keys", "CohereForCausalLM",
           LAYER_NORM | {"use_qk_norm": True, "logit_scale": 0.8}, published=(
               Published("configs/cohere.py:command-r-plus", 103_810_674_688),)),
    System("stablelm", "LayerNorm, half of each head rotated, biases of queries, keys and values", "StableLmForCausalLM",
           LAYER_NORM | {"use_qkv_bias": True, "partial_rotary_factor": 0.5}, published=(
               Published("configs/stablelm.py:3b", 2_795_443_200), Published("configs/stablelm.py:2-1.6b", 1_644_515_328))),
    System("stablelm-12b", "side by side with one norm, LayerNorm of each head's queries and keys", "StableLmForCausalLM",
           LAYER_NORM | {"qk_layernorm": True, "use_parallel_residual": True}, published=(
               Published("configs/stablelm.py:2-12b", 12_143_185_920),)),
    System("nemotron", "LayerNorm with factors less one, squared ReLU, half of each head rotated", "NemotronForCausalLM",
           NO_EPSILON | {"norm_eps": 0.03, "head_dim": 12, "partial_rotary_factor": 0.5}, published=(
               Published("configs/nemotron.py:15b", 15_628_775_424), Published("configs/nemotron.py:minitron-4b", 4_190_509_056))),
    System("olmo", "LayerNorm without parameters, clipped queries, keys and values", "OlmoForCausalLM",
           NO_EPSILON | {"clip_qkv": 0.7}, published=(
               Published("configs/olmo.py:1b", 1_176_764_416), Published("configs/olmo.py:7b", 6_888_095_744))),
    System("nanochat", "norms without factors, of the embedding, queries and keys too; heads turned the other way, squared ReLU, softcap",
           "NanoChatForCausalLM", LLAMA | IDS | {"final_logit_softcapping": 2.0}, library=FIVE, published=(
               Published("configs/nanochat.py:d20", 560_988_160), Published("configs/nanochat.py:d32", 1_879_048_192))),
    System("nanochat-biases", "one head of keys and values, biases in attention, no softcap", "NanoChatForCausalLM", LLAMA | IDS | {
        "num_key_value_heads": 1, "attention_bias": True, "final_logit_softcapping": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, library=FIVE),
)  # fmt: skip
