"""Settings of published config files, limited to those that differ from the defaults of the class or
that the class does not have.

`EVERYWHERE` holds the settings of every file, and the function named after a family adds those that
the family's files share.
"""

from typing import Any, NamedTuple


class Published(NamedTuple):
    """A published file: the class that it names, its model type, its settings, and the error message
    if they are rejected ("" if they are accepted).
    """

    class_name: str
    model_type: str
    settings: dict[str, Any]
    refused: str = ""


EVERYWHERE = {"_name_or_path": "there", "transformers_version": "4.40.0", "torch_dtype": "float32", "use_cache": True,
              "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}  # fmt: skip
LABELS = {"id2label": {"0": "NEGATIVE", "1": "POSITIVE"}, "label2id": {"NEGATIVE": 0, "POSITIVE": 1}}
TAGS = {"id2label": {"0": "O", "1": "B-PER", "2": "I-PER"}, "label2id": {"O": 0, "B-PER": 1, "I-PER": 2}}
SUMMARY = {"summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
           "summary_type": "cls_index", "summary_use_proj": True}  # fmt: skip
POOLER = {"directionality": "bidi", "pooler_fc_size": 768, "pooler_num_attention_heads": 12, "pooler_num_fc_layers": 3,
          "pooler_size_per_head": 128, "pooler_type": "first_token_transform"}  # fmt: skip
LLAMA3 = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
          "rope_type": "llama3"}  # fmt: skip


def gpt2(width, depth, heads, **more):
    return SUMMARY | {"n_ctx": 1024, "n_embd": width, "n_layer": depth, "n_head": heads} | more


def llama(width, inner, depth, heads, kv_heads=None, **more):
    return {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads or heads, "rms_norm_eps": 1e-5} | more  # fmt: skip


def bert(width=768, depth=12, heads=12, **more):
    return {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads,
            "intermediate_size": 4 * width} | more  # fmt: skip


def roberta(width=768, depth=12, heads=12, **more):
    return bert(width, depth, heads, layer_norm_eps=1e-5, max_position_embeddings=514, type_vocab_size=1) | more


def albert(**more):
    return {"down_scale_factor": 1, "gap_size": 0, "inner_group_num": 1, "layers_to_keep": [], "net_structure_type": 0,
            "num_hidden_groups": 1, "num_memory_blocks": 0, "classifier_dropout_prob": 0.1} | more  # fmt: skip


def modernbert(**more):
    return {"classifier_pooling": "mean", "gradient_checkpointing": False, "layer_norm_eps": 1e-5, "position_embedding_type": "absolute",
            "reference_compile": True, "cls_token_id": 50281, "sep_token_id": 50282, "sparse_prediction": False,
            "sparse_pred_ignore_index": -100, "deterministic_flash_attn": False} | more  # fmt: skip


def electra(width=256, depth=12, heads=4, **more):
    return bert(width, depth, heads, embedding_size=128, summary_activation="gelu", summary_last_dropout=0.1, summary_type="first",
                summary_use_proj=True) | more  # fmt: skip


def distilbert(**more):
    return {"qa_dropout": 0.1, "seq_classif_dropout": 0.2, "tie_weights_": True} | more


def neox(width, depth, heads, **more):
    return {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads, "intermediate_size": 4 * width,
            "vocab_size": 50304} | more  # fmt: skip


def phi(**more):
    return {"num_key_value_heads": 32, "rope_scaling": None, "embd_pdrop": 0.0, "layer_norm_eps": 1e-5} | more


def gptj(**more):
    return SUMMARY | {"gradient_checkpointing": False, "rotary": True, "scale_attn_weights": True,
                      "task_specific_params": {"text-generation": {"do_sample": True}}} | more  # fmt: skip


def bloom(width, depth, heads, **more):
    return {"apply_residual_connection_post_layernorm": False, "attention_softmax_in_fp32": True,
            "bias_dropout_fusion": True, "masked_softmax_fusion": True, "n_embed": width, "n_inner": None,
            "n_layer": depth, "num_attention_heads": heads, "offset_alibi": 100, "pretraining_tp": 1,
            "seq_length": 2048, "skip_bias_add": True, "skip_bias_add_qkv": False, "slow_but_exact": False} | more  # fmt: skip


def mpt(attention=(), **more):
    inner = {
        "alibi": True,
        "alibi_bias_max": 8,
        "attn_impl": "torch",
        "attn_pdrop": 0,
        "attn_type": "multihead_attention",
        "attn_uses_sequence_id": False,
        "clip_qkv": None,
        "prefix_lm": False,
        "qk_ln": False,
        "softmax_scale": None,
    }
    return {"attn_config": inner | dict(attention), "auto_map": {"AutoConfig": "configuration_mpt.MPTConfig"},
            "d_model": 4096, "emb_pdrop": 0, "init_config": {"name": "kaiming_normal_"}, "init_device": "cpu",
            "learned_pos_emb": True, "max_seq_len": 2048, "n_heads": 32, "n_layers": 32, "resid_pdrop": 0,
            "tokenizer_name": "EleutherAI/gpt-neox-20b", "verbose": 0, "vocab_size": 50432} | more  # fmt: skip


def bart(width, inner, depth, heads, **more):
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", depth), ("ffn_dim", inner), ("attention_heads", heads))
    }
    return sides | {"d_model": width, "activation_dropout": 0.1, "add_bias_logits": False, "add_final_layer_norm": False,
                    "classif_dropout": 0.1, "classifier_dropout": 0.0, "decoder_start_token_id": 2,
                    "early_stopping": True, "forced_eos_token_id": 2, "gradient_checkpointing": False,
                    "no_repeat_ngram_size": 3, "normalize_before": False, "normalize_embedding": True, "num_beams": 4,
                    "num_hidden_layers": depth, "task_specific_params": {"summarization": {"num_beams": 4}}} | more  # fmt: skip


def marian(words, **more):
    return bart(512, 2048, 6, 8) | {
        "vocab_size": words, "decoder_vocab_size": words, "_num_labels": 3, "activation_dropout": 0.0,
        "activation_function": "swish", "bad_words_ids": [[words - 1]], "max_position_embeddings": 512,
        "normalize_embedding": False, "scale_embedding": True, "share_encoder_decoder_embeddings": True,
        "static_position_embeddings": True} | more  # fmt: skip


def t5(width, inner, depth, heads, **more):
    return {"d_model": width, "d_ff": inner, "num_layers": depth, "num_heads": heads, "initializer_factor": 1.0,
            "n_positions": 512, "output_past": True, "decoder_start_token_id": 0} | more  # fmt: skip


V11 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 8}


def qwen(width, inner, depth, heads, kv_heads, **more):
    return {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "max_window_layers": depth, "rope_theta": 1e6, "use_sliding_window": False,
            "sliding_window": 32768, "tie_word_embeddings": True} | more  # fmt: skip


def gemma(width, inner, depth, heads, kv_heads, **more):
    return {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads} | more  # fmt: skip


def cohere(width, inner, depth, heads, kv_heads, **more):
    return {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": heads,
            "num_key_value_heads": kv_heads, "layer_norm_eps": 1e-5, "use_cache": True} | more  # fmt: skip


def falcon(width, depth, heads, **more):
    return {"hidden_size": width, "num_hidden_layers": depth, "num_attention_heads": heads, "apply_residual_connection_post_layernorm": False,
            "layer_norm_epsilon": 1e-5, "auto_map": {"AutoConfig": "configuration_falcon.FalconConfig"}} | more  # fmt: skip


def granite(width, inner, **more):
    return (
        llama(width, inner, 40, 32, 8, embedding_multiplier=12.0, residual_multiplier=0.22, tie_word_embeddings=True)
        | more
    )


def nemotron(width, inner, depth, heads, **more):
    return {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": heads,
            "num_key_value_heads": 8, "norm_eps": 1e-5, "partial_rotary_factor": 0.5} | more  # fmt: skip


def gpt_oss(depth, experts, **more):
    return llama(2880, 2880, depth, 64, 8, attention_bias=True, experts_per_token=4, head_dim=64, initial_context_length=4096,
                 layer_types=["sliding_attention", "full_attention"] * (depth // 2), num_experts_per_tok=4, num_local_experts=experts,
                 output_router_logits=False, rope_theta=150000, router_aux_loss_coef=0.9, sliding_window=128, swiglu_limit=7.0,
                 rope_scaling={"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
                               "rope_type": "yarn", "truncate": False}, vocab_size=201088) | more  # fmt: skip


def olmo(width, inner, depth, heads, **more):
    return {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": heads,
            "num_key_value_heads": heads, "pretraining_tp": 1} | more  # fmt: skip


def opt(width, inner, depth, heads, **more):
    return {"hidden_size": width, "ffn_dim": inner, "num_hidden_layers": depth, "num_attention_heads": heads, "prefix": "</s>",
            "word_embed_proj_dim": width, "_remove_final_layer_norm": False, "do_layer_norm_before": True} | more  # fmt: skip


def phi3(width, inner, depth, heads, kv_heads, **more):
    return llama(width, inner, depth, heads, kv_heads, embd_pdrop=0.0, resid_pdrop=0.0, original_max_position_embeddings=4096,
                 auto_map={"AutoConfig": "configuration_phi3.Phi3Config"}) | more  # fmt: skip


def stablelm(width, inner, depth, kv_heads, **more):
    return {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": depth, "num_attention_heads": 32,
            "num_key_value_heads": kv_heads, "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.25} | more  # fmt: skip


def deepseek(width, inner, depth, heads, **more):
    return llama(width, inner, depth, heads, attention_bias=False, first_k_dense_replace=1, ep_size=1, kv_lora_rank=512, moe_layer_freq=1,
                 max_position_embeddings=163840, norm_topk_prob=False, pretraining_tp=1, qk_nope_head_dim=128, qk_rope_head_dim=64,
                 rms_norm_eps=1e-6, scoring_func="softmax", seq_aux=True, v_head_dim=128, vocab_size=102400,
                 auto_map={"AutoConfig": "configuration_deepseek.DeepseekV2Config"},
                 rope_scaling={"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
                               "original_max_position_embeddings": 4096, "type": "yarn"}) | more  # fmt: skip


DEEPSEEK_V3 = deepseek(
    7168, 18432, 61, 128, first_k_dense_replace=3, moe_intermediate_size=2048, n_group=8, n_routed_experts=256, n_shared_experts=1,
    norm_topk_prob=True, num_experts_per_tok=8, num_nextn_predict_layers=1, q_lora_rank=1536, routed_scaling_factor=2.5,
    scoring_func="sigmoid", topk_group=4, topk_method="noaux_tc", vocab_size=129280, aux_loss_alpha=0.001,
    rope_scaling={"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                  "original_max_position_embeddings": 4096, "type": "yarn"})  # fmt: skip


def qwen3_next(**more):
    return {"hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 16,
            "num_key_value_heads": 2, "head_dim": 256, "rope_theta": 1e7, "partial_rotary_factor": 0.25,
            "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
            "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
            "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 512,
            "shared_expert_intermediate_size": 512, "num_experts": 512, "num_experts_per_tok": 10,
            "norm_topk_prob": True, "output_router_logits": False, "router_aux_loss_coef": 0.001, "rope_scaling": None,
            "use_sliding_window": False, "max_position_embeddings": 262144} | more  # fmt: skip


def olmo_hybrid(**more):
    """The defaults of the class, which are those of Olmo-Hybrid-7B, as transformers 5 writes them; the
    checkpoint rotates nothing.
    """
    return {"hidden_size": 3840, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 30,
            "num_key_value_heads": 30, "hidden_act": "silu", "max_position_embeddings": 65536, "rms_norm_eps": 1e-6,
            "attention_bias": False, "attention_dropout": 0.0, "tie_word_embeddings": False, "vocab_size": 100352,
            "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8, "linear_a_log_max": 16.0,
            "linear_a_log_min": 0.0, "linear_allow_neg_eigval": True, "linear_conv_kernel_dim": 4,
            "linear_dt_init_floor": 1e-4, "linear_dt_max": 0.1, "linear_dt_min": 0.001, "linear_key_head_dim": 96,
            "linear_num_key_heads": 30, "linear_num_value_heads": 30, "linear_value_head_dim": 192,
            "rope_parameters": {"rope_theta": None, "rope_type": "default"}} | more  # fmt: skip


def nanochat(**more):
    """The shape of nanochat-d32, as transformers 5 writes it."""
    return {"vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 32,
            "num_attention_heads": 16, "num_key_value_heads": 16, "max_position_embeddings": 2048, "hidden_act": "relu2",
            "attention_bias": False, "attention_dropout": 0.0, "rms_norm_eps": 1e-6, "initializer_range": 0.02,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "final_logit_softcapping": 15.0,
            "tie_word_embeddings": False, "use_cache": True} | more  # fmt: skip


FULL_OF_KIMI = [4, 8, 12, 16, 20, 24, 27]
SIZES_OF_KIMI = {
    "hidden_act": "silu", "hidden_size": 2304, "initializer_range": 0.02, "intermediate_size": 9216, "kv_lora_rank": 512,
    "moe_intermediate_size": 1024, "moe_renormalize": True, "num_attention_heads": 32, "num_expert_group": 1,
    "num_experts": 256, "num_experts_per_token": 8, "num_hidden_layers": 27, "num_key_value_heads": 32,
    "num_shared_experts": 1, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-5,
    "routed_scaling_factor": 2.446, "tie_word_embeddings": False, "topk_group": 1, "v_head_dim": 128,
    "vocab_size": 163840, "model_max_length": 1048576,
}  # fmt: skip


def kimi_linear(**more):
    """The settings of the authors' file."""
    return SIZES_OF_KIMI | {
        "auto_map": {"AutoConfig": "configuration_kimi.KimiLinearConfig"}, "first_k_dense_replace": 1, "head_dim": 72,
        "linear_attn_config": linear_attention(), "mla_use_nope": True, "moe_layer_freq": 1,
        "moe_router_activation_func": "sigmoid", "num_nextn_predict_layers": 0, "rope_scaling": None, "rope_theta": 10000.0,
        "use_grouped_topk": True} | more  # fmt: skip


def linear_attention(**more):
    state = [layer for layer in range(1, 28) if layer not in FULL_OF_KIMI]
    return {"full_attn_layers": FULL_OF_KIMI, "head_dim": 128, "kda_layers": state, "num_heads": 32,
            "short_conv_kernel_size": 4} | more  # fmt: skip


def kimi_linear_five(**more):
    """The same as transformers 5 writes it."""
    return SIZES_OF_KIMI | {
        "attention_bias": False, "attention_dropout": 0.0, "head_dim": 64, "linear_conv_kernel_dim": 4, "linear_head_dim": 128,
        "linear_num_heads": 32, "mlp_layer_types": ["dense"] + ["sparse"] * 26, "output_router_logits": False,
        "pretraining_tp": 1, "qk_head_dim": 192,
        "layer_types": ["full_attention" if layer in FULL_OF_KIMI else "linear_attention" for layer in range(1, 28)],
    } | more  # fmt: skip


def mamba2(**more):
    return {"hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64, "state_size": 128,
            "n_groups": 8, "expand": 2, "conv_kernel": 4, "chunk_size": 256, "hidden_act": "silu",
            "intermediate_size": 8192, "norm_before_gate": True, "residual_in_fp32": True, "rms_norm": True,
            "time_step_floor": 1e-4, "time_step_init_scheme": "random", "time_step_limit": [0.0, float("inf")],
            "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 256, "time_step_scale": 1.0,
            "rescale_prenorm_residual": False, "use_bias": False, "use_conv_bias": True} | more  # fmt: skip


def lfm2(width, hidden, heads, **more):
    return {"hidden_size": width, "block_dim": width, "conv_dim": width, "conv_dim_out": width, "block_ff_dim": hidden,
            "num_hidden_layers": 16, "num_attention_heads": heads, "num_heads": heads, "num_key_value_heads": 8,
            "full_attn_idxs": [2, 5, 8, 10, 12, 14], "theta": 1e6, "block_auto_adjust_ff_dim": True,
            "block_ffn_dim_multiplier": 1.0, "block_mlp_init_scale": 1.0, "block_multiple_of": 256,
            "block_norm_eps": 1e-5, "block_out_init_scale": 1.0, "block_use_swiglu": True,
            "block_use_xavier_init": True, "conv_L_cache": 3, "conv_bias": False, "conv_use_xavier_init": True,
            "use_pos_enc": True} | more  # fmt: skip


LONG = {"type": "su", "short_factor": [1.05] * 48, "long_factor": [1.03 + pair for pair in range(48)]}


def of(class_name, model_type, **files):
    """The files of a class, by name."""
    return {name: Published(class_name, model_type, settings) for name, settings in files.items()}


def refused(class_name, model_type, settings, words):
    return Published(class_name, model_type, settings, words)


FIVE = {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "dtype": "bfloat16"}
FILES: dict[str, Published] = {
    # GPT
    "openai-gpt": Published("OpenAIGPTLMHeadModel", "openai-gpt", SUMMARY | {
        "afn": "gelu", "n_ctx": 512, "n_special": 0, "predict_special_tokens": True}),
    **of("GPT2LMHeadModel", "gpt2", **{
        "gpt2": gpt2(768, 12, 12),
        "gpt2-medium": gpt2(1024, 24, 16, n_special=0, predict_special_tokens=True),
        "gpt2-large": gpt2(1280, 36, 20), "gpt2-xl": gpt2(1600, 48, 25, output_past=True),
        "distilgpt2": gpt2(768, 6, 12, _num_labels=1, **LABELS),
        "microsoft/DialoGPT-small": gpt2(768, 12, 12), "microsoft/DialoGPT-medium": gpt2(1024, 24, 16),
        "sberbank-ai/rugpt3small": gpt2(768, 12, 12, n_ctx=2048, n_positions=2048, vocab_size=50264),
        "sshleifer/tiny-gpt2": gpt2(2, 2, 2),
    }),
    "cerebras/Cerebras-GPT-111M": Published("GPT2Model", "gpt2", {
        "n_embd": 768, "n_layer": 10, "n_head": 12, "n_inner": 3072, "n_positions": 2048, "activation_function": "gelu",
        "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "scale_attn_weights": True}),
    "stanford-crfm/alias-gpt2-small-x21": refused("GPT2LMHeadModel", "gpt2", gpt2(
        768, 12, 12, reorder_and_upcast_attn=True, scale_attn_by_inverse_layer_idx=True),
        "scale_attn_by_inverse_layer_idx=True: scores divided by the layer's number"),
    "bigcode/gpt_bigcode-santacoder": refused("GPTBigCodeForCausalLM", "gpt_bigcode", {}, "no importer for GPTBigCodeForCausalLM"),
    "roneneldan/TinyStories-33M": refused("GPTNeoForCausalLM", "gpt_neo", {}, "no importer for GPTNeoForCausalLM; no class of its"),
    # GPT-NeoX and GPT-J
    **of("GPTNeoXForCausalLM", "gpt_neox", **{
        "EleutherAI/gpt-neox-20b": neox(6144, 44, 64, vocab_size=50432, hidden_act="gelu_fast",
                                        attention_probs_dropout_prob=0, hidden_dropout_prob=0),
        "EleutherAI/pythia-14m": neox(128, 6, 4), "EleutherAI/pythia-70m": neox(512, 6, 8),
        "EleutherAI/pythia-160m": neox(768, 12, 12), "EleutherAI/pythia-410m": neox(1024, 24, 16),
        "EleutherAI/pythia-1b": neox(2048, 16, 8), "EleutherAI/pythia-6.9b": neox(4096, 32, 32, vocab_size=50432),
        "EleutherAI/pythia-12b": neox(5120, 36, 40, vocab_size=50688),
        "databricks/dolly-v2-3b": neox(2560, 32, 32, vocab_size=50280, gradient_checkpointing=False,
                                       custom_pipelines={"text-generation": {}}),
        "togethercomputer/RedPajama-INCITE-Base-3B-v1": neox(2560, 32, 32, vocab_size=50432, rotary_pct=1.0,
                                                             use_parallel_residual=False),
        "EleutherAI/polyglot-ko-5.8b": neox(4096, 28, 16, vocab_size=30080, num_steps="global_step320000"),
        "pythia saved by transformers 5": neox(512, 6, 8, rope_parameters={
            "partial_rotary_factor": 0.25, "rope_theta": 10000, "rope_type": "default"}),
    }),
    **of("GPTJForCausalLM", "gptj", **{
        "EleutherAI/gpt-j-6b": gptj(), "togethercomputer/GPT-JT-6B-v1": gptj(), "PygmalionAI/pygmalion-6b": gptj(),
    }),
    **of("PhiForCausalLM", "phi", **{
        "microsoft/phi-1": phi(), "microsoft/phi-1_5": phi(),
        "microsoft/phi-2": phi(hidden_size=2560, intermediate_size=10240, num_hidden_layers=32, partial_rotary_factor=0.4, resid_pdrop=0.1),
    }),
    "a Phi with normed queries": refused("PhiForCausalLM", "phi", phi(qk_layernorm=True), "qk_layernorm=True: LayerNorm of queries"),
    "without rotary_dim": refused("GPTJForCausalLM", "gptj", gptj(rotary_dim=None), "rotary_dim=None: expected the number"),
    # Decoders of 2022 and later
    **of("Phi3ForCausalLM", "phi3", **{
        "microsoft/Phi-3-mini-4k-instruct": phi3(3072, 8192, 32, 32, 32, sliding_window=2047, rope_scaling=None),
        "microsoft/Phi-3-mini-128k-instruct": phi3(3072, 8192, 32, 32, 32, sliding_window=262144, rope_scaling=LONG,
                                                   max_position_embeddings=131072),
        "microsoft/phi-4": phi3(5120, 17920, 40, 40, 10, vocab_size=100352, rope_theta=250000, sliding_window=None,
                                max_position_embeddings=16384, original_max_position_embeddings=16384),
        "microsoft/Phi-4-mini-instruct": phi3(3072, 8192, 32, 24, 8, vocab_size=200064, tie_word_embeddings=True, partial_rotary_factor=0.75,
                                              max_position_embeddings=131072, rope_scaling=LONG | {"type": "longrope"}),
        "Phi-3-mini-128k saved by transformers 5": phi3(3072, 8192, 32, 32, 32, max_position_embeddings=131072, rope_parameters=LONG | {
            "rope_theta": 10000.0, "rope_type": "longrope", "type": "longrope",
            "original_max_position_embeddings": 4096}),
    }),
    "a Phi-3 with a factor for too few pairs": refused(
        "Phi3ForCausalLM", "phi3", phi3(3072, 8192, 32, 32, 32, rope_scaling=LONG | {"short_factor": [1.0]}, max_position_embeddings=131072),
        "short_factors has 1 numbers"),
    "a Phi-3 with scales of attention": refused(
        "Phi3ForCausalLM", "phi3", phi3(3072, 8192, 32, 32, 32, rope_scaling=LONG | {"long_mscale": 1.2}, max_position_embeddings=131072),
        "rope_scaling.long_mscale=1.2: not known"),
    **of("OPTForCausalLM", "opt", **{
        "facebook/opt-125m": opt(768, 3072, 12, 12, activation_dropout=0.0, layerdrop=0.0, dropout=0.1),
        "facebook/opt-350m": opt(1024, 4096, 24, 16, word_embed_proj_dim=512, do_layer_norm_before=False),
        "facebook/opt-6.7b": opt(4096, 16384, 32, 32, enable_bias=True, layer_norm_elementwise_affine=True),
        "facebook/galactica-125m": opt(768, 3072, 12, 12, vocab_size=50000, activation_function="gelu", enable_bias=False,
                                       scale_embeddings=False, learned_embeddings=True),
    }),
    "an OPT without a last norm": refused("OPTForCausalLM", "opt", opt(768, 3072, 12, 12, _remove_final_layer_norm=True),
                                          "_remove_final_layer_norm=True: a pre-norm model has a norm after the last layer"),
    **of("FalconForCausalLM", "falcon", **{
        "tiiuae/falcon-7b": falcon(4544, 32, 71, multi_query=True, parallel_attn=True, bias=False, alibi=False),
        "tiiuae/falcon-40b": falcon(8192, 60, 128, num_kv_heads=8, new_decoder_architecture=True, bias=False, alibi=False),
        "tiiuae/falcon-11B": falcon(4096, 60, 32, num_kv_heads=8, new_decoder_architecture=True, num_ln_in_parallel_attn=1,
                                    ffn_hidden_size=16384, ff_factor=4, rope_theta=500042.0, tie_word_embeddings=False, max_position_embeddings=8192),
        "tiiuae/falcon-rw-1b": falcon(2048, 24, 32, vocab_size=50304, alibi=True, bias=True, multi_query=False, parallel_attn=False),
    }),
    "a Falcon with two norms in the old layout": refused("FalconForCausalLM", "falcon", falcon(4544, 32, 71, num_ln_in_parallel_attn=2),
                                                         "num_ln_in_parallel_attn=2: this class has one norm"),
    **of("GraniteForCausalLM", "granite", **{
        "ibm-granite/granite-3.0-2b-base": granite(2048, 8192, vocab_size=49155, attention_multiplier=0.015625, logits_scaling=8.0),
        "ibm-granite/granite-3.3-8b-instruct": granite(4096, 12800, vocab_size=49159, attention_multiplier=0.0078125, logits_scaling=16.0,
                                                       rope_theta=1e7, max_position_embeddings=131072),
    }),
    **of("CohereForCausalLM", "cohere", **{
        "CohereForAI/c4ai-command-r-v01": cohere(8192, 22528, 40, 64, 64, rope_theta=8e6, logit_scale=0.0625, model_max_length=131072),
        "CohereForAI/c4ai-command-r-plus": cohere(12288, 33792, 64, 96, 8, rope_theta=7.5e7, logit_scale=0.8333333333333334, use_qk_norm=True),
        "CohereForAI/aya-23-8B": cohere(4096, 14336, 32, 32, 8, rope_theta=10000, logit_scale=0.0625),
    }),
    **of("StableLmForCausalLM", "stablelm", **{
        "stabilityai/stablelm-3b-4e1t": stablelm(2560, 6912, 32, 32),
        "stabilityai/stablelm-2-1_6b": stablelm(2048, 5632, 24, 32, vocab_size=100352, use_qkv_bias=True),
        "stabilityai/stablelm-2-12b": stablelm(5120, 13824, 40, 8, vocab_size=100352, qk_layernorm=True, use_parallel_residual=True),
    }),
    **of("NemotronForCausalLM", "nemotron", **{
        "nvidia/Minitron-4B-Base": nemotron(3072, 9216, 32, 24, head_dim=128, kv_channels=128, rope_scaling=None),
        "nvidia/Nemotron-4-340B-Instruct-hf": nemotron(18432, 73728, 96, 96, initializer_range=0.0063),
    }),
    **of("OlmoForCausalLM", "olmo", **{
        "allenai/OLMo-1B-hf": olmo(2048, 8192, 16, 16, tie_word_embeddings=True, clip_qkv=None),
        "allenai/OLMo-7B-0424-hf": olmo(4096, 11008, 32, 32, clip_qkv=8.0, max_position_embeddings=4096),
    }),
    # Layers with a state
    "Qwen/Qwen3-Next-80B-A3B-Instruct": Published("Qwen3NextForCausalLM", "qwen3_next", qwen3_next()),
    "a Qwen3-Next with windows": refused("Qwen3NextForCausalLM", "qwen3_next", qwen3_next(use_sliding_window=True),
                                         "use_sliding_window=True: expected False; the class has no windows"),
    "a Qwen3-Next with biases": refused("Qwen3NextForCausalLM", "qwen3_next", qwen3_next(attention_bias=True),
                                        "attention_bias=True: the matrix of queries holds the gates"),
    "a Qwen3-Next with GELU": refused("Qwen3NextForCausalLM", "qwen3_next", qwen3_next(hidden_act="gelu"),
                                      "hidden_act='gelu': the class applies it to the convolutions"),
    "a Qwen3-Next without a shared expert": refused(
        "Qwen3NextForCausalLM", "qwen3_next", qwen3_next(shared_expert_intermediate_size=0), "the class has a shared expert"),
    "a Qwen3-Next with unknown layers": refused(
        "Qwen3NextForCausalLM", "qwen3_next", qwen3_next(layer_types=["mamba"] * 47 + ["full_attention"]),
        "mamba is not one of linear_attention, full_attention"),
    "allenai/Olmo-Hybrid-7B": Published("OlmoHybridForCausalLM", "olmo_hybrid", olmo_hybrid()),
    "an OLMo-hybrid with positions": Published(
        "OlmoHybridForCausalLM", "olmo_hybrid", olmo_hybrid(rope_parameters={"rope_theta": 5e5, "rope_type": "default"})),
    "an OLMo-hybrid with GELU": refused("OlmoHybridForCausalLM", "olmo_hybrid", olmo_hybrid(hidden_act="gelu"),
                                        "hidden_act='gelu': the class applies it to the convolutions"),
    "an OLMo-hybrid of attention alone": refused(
        "OlmoHybridForCausalLM", "olmo_hybrid", olmo_hybrid(layer_types=["full_attention"] * 32),
        "the class expects at least one layer of linear_attention"),
    "an OLMo-hybrid that stretches nothing": refused(
        "OlmoHybridForCausalLM", "olmo_hybrid", olmo_hybrid(rope_parameters={"rope_theta": None, "rope_type": "linear", "factor": 2.0}),
        "without a rope_theta nothing is rotated"),
    "karpathy/nanochat-d32": Published("NanoChatForCausalLM", "nanochat", nanochat()),
    "a nanochat with stretched positions": refused(
        "NanoChatForCausalLM", "nanochat", nanochat(rope_parameters={"rope_theta": 10000.0, "rope_type": "linear", "factor": 2.0}),
        "stretched positions are not read for this class"),
    "moonshotai/Kimi-Linear-48B-A3B-Instruct": Published("KimiLinearForCausalLM", "kimi_linear", kimi_linear()),
    "moonshotai/Kimi-Linear-48B-A3B-Instruct, saved again": Published(
        "KimiLinearForCausalLM", "kimi_linear", kimi_linear_five()),
    "a Kimi Linear with positions": refused("KimiLinearForCausalLM", "kimi_linear", kimi_linear(mla_use_nope=False),
                                            "mla_use_nope=False: expected True; the class never rotates"),
    "a Kimi Linear with softmax scores": refused(
        "KimiLinearForCausalLM", "kimi_linear", kimi_linear(moe_router_activation_func="softmax"), "expected sigmoid"),
    "a Kimi Linear with a layer of both kinds": refused(
        "KimiLinearForCausalLM", "kimi_linear", kimi_linear(linear_attn_config=linear_attention(full_attn_layers=[3, *FULL_OF_KIMI])),
        "each of the 27 layers once, counted from 1"),
    "a Kimi Linear with bounded decays": refused(
        "KimiLinearForCausalLM", "kimi_linear", kimi_linear(linear_attn_config=linear_attention(gate_lower_bound=-5.0)),
        "linear_attn_config.gate_lower_bound=-5.0: not known to this importer"),
    "a Kimi Linear with wide values": refused("KimiLinearForCausalLM", "kimi_linear", kimi_linear(v_head_dim=64),
                                              "v_head_dim=64: expected qk_nope_head_dim"),
    "mistralai/Mamba-Codestral-7B-v0.1": Published("Mamba2ForCausalLM", "mamba2", mamba2()),
    "state-spaces/mamba2-130m": Published("Mamba2ForCausalLM", "mamba2", mamba2(
        hidden_size=768, num_hidden_layers=24, num_heads=24, n_groups=1, intermediate_size=1536, vocab_size=50288,
        tie_word_embeddings=True, time_step_rank=48)),
    "a Mamba-2 with biases": refused("Mamba2ForCausalLM", "mamba2", mamba2(use_bias=True), "use_bias=True: the projections"),
    "a Mamba-2 with bounds": refused("Mamba2ForCausalLM", "mamba2", mamba2(time_step_limit=[0.001, 0.1]),
                                     "time_step_limit=[0.001, 0.1]: step sizes have no bounds"),
    "a Mamba-2 of other sizes": refused("Mamba2ForCausalLM", "mamba2", mamba2(expand=3), "differs from num_heads * head_dim"),
    **of("Lfm2ForCausalLM", "lfm2", **{
        "LiquidAI/LFM2-350M": lfm2(1024, 6656, 16), "LiquidAI/LFM2-700M": lfm2(1536, 10240, 24),
        "LiquidAI/LFM2-1.2B": lfm2(2048, 12288, 32),
    }),
    "an LFM2 with biases": refused("Lfm2ForCausalLM", "lfm2", lfm2(1024, 6656, 16, conv_bias=True), "conv_bias=True: the convolution"),
    "an LFM2 without positions": refused("Lfm2ForCausalLM", "lfm2", lfm2(1024, 6656, 16, use_pos_enc=False),
                                         "use_pos_enc=False: expected True; the class always has them"),
    # LLaMA
    **of("LlamaForCausalLM", "llama", **{
        "huggyllama/llama-7b": llama(4096, 11008, 32, 32, rms_norm_eps=1e-6, max_sequence_length=2048),
        "meta-llama/Llama-2-7b-hf": llama(4096, 11008, 32, 32, max_position_embeddings=4096, pretraining_tp=1),
        "meta-llama/Llama-2-70b-hf": llama(8192, 28672, 80, 64, 8, max_position_embeddings=4096, pretraining_tp=1),
        "meta-llama/Meta-Llama-3-8B": llama(4096, 14336, 32, 32, 8, vocab_size=128256, rope_theta=5e5, pretraining_tp=1),
        "meta-llama/Llama-3.1-8B": llama(4096, 14336, 32, 32, 8, vocab_size=128256, rope_theta=5e5, mlp_bias=False,
                                         max_position_embeddings=131072, rope_scaling=LLAMA3),
        "meta-llama/Llama-3.2-1B": llama(2048, 8192, 16, 32, 8, vocab_size=128256, rope_theta=5e5, head_dim=64,
                                         max_position_embeddings=131072, rope_scaling=LLAMA3 | {"factor": 32.0},
                                         tie_word_embeddings=True),
        "TinyLlama/TinyLlama-1.1B": llama(2048, 5632, 22, 32, 4),
        "codellama/CodeLlama-7b-hf": llama(4096, 11008, 32, 32, vocab_size=32016, rope_theta=1e6, pretraining_tp=1,
                                           max_position_embeddings=16384),
        "HuggingFaceTB/SmolLM-135M": llama(576, 1536, 30, 9, 3, vocab_size=49152, tie_word_embeddings=True),
        "HuggingFaceTB/SmolLM2-135M": llama(
            576, 1536, 30, 9, 3, vocab_size=49152, tie_word_embeddings=True, initializer_range=0.041666666666666664,
            is_llama_config=True, rope_interleaved=False, rope_theta=100000, max_position_embeddings=8192),
        "HuggingFaceTB/SmolLM2-135M-Instruct": llama(
            576, 1536, 30, 9, 3, vocab_size=49152, tie_word_embeddings=True, is_llama_config=True, pretraining_tp=1,
            rope_interleaved=False, rope_theta=100000, max_position_embeddings=8192,
            **{"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}}),
        "01-ai/Yi-6B": llama(4096, 11008, 32, 32, 4, vocab_size=64000, rope_theta=5e6, pretraining_tp=1),
        "deepseek-ai/deepseek-coder-1.3b-base": llama(2048, 5504, 24, 16, vocab_size=32256, rope_theta=1e5, rms_norm_eps=1e-6,
                                                      rope_scaling={"factor": 4.0, "type": "linear"}),
        "Llama 3.2 1B saved by transformers 5": llama(
            2048, 8192, 16, 32, 8, dtype="bfloat16", rope_parameters=LLAMA3 | {"rope_theta": 5e5}, tie_word_embeddings=True),
        "Llama 2 saved by transformers 5": llama(4096, 11008, 32, 32, **FIVE),
    }),
    "a Mistral": Published("MistralForCausalLM", "mistral", llama(4096, 14336, 32, 32, 8)),
    "8 bits": refused("LlamaForCausalLM", "llama", llama(2048, 8192, 16, 32, 8, quantization_config={"load_in_8bit": True}),
                      "quantization_config={'load_in_8bit': True}: quantised weights are not read"),
    "bigcode/starcoder2-3b": refused("Starcoder2ForCausalLM", "starcoder2", llama(3072, 12288, 30, 24),
                                     "no importer for Starcoder2ForCausalLM; no class of its family"),
    "openai/gpt-oss-20b": refused("GptOssForCausalLM", "gpt_oss", gpt_oss(24, 32, quantization_config={"quant_method": "mxfp4"}),
                                  "quantization_config={'quant_method': 'mxfp4'}: quantised weights are not read; dequantise them"),
    "gpt-oss-20b, dequantised": Published("GptOssForCausalLM", "gpt_oss", gpt_oss(24, 32)),
    "gpt-oss saved by transformers 5": Published("GptOssForCausalLM", "gpt_oss", {
        name: value for name, value in gpt_oss(24, 32).items() if name not in ("rope_scaling", "rope_theta")} | {
        "swiglu_alpha": 1.702, "rope_parameters": gpt_oss(24, 32)["rope_scaling"] | {"rope_theta": 150000.0}}),
    "gpt-oss-120b, dequantised": Published("GptOssForCausalLM", "gpt_oss", gpt_oss(36, 128)),
    "a gpt-oss with another bound": refused("GptOssForCausalLM", "gpt_oss", gpt_oss(24, 32, swiglu_limit=10.0),
                                            "swiglu_limit=10.0: the class has a bound of 7"),
    **of("Qwen2MoeForCausalLM", "qwen2_moe", **{
        "Qwen/Qwen1.5-MoE-A2.7B": qwen(
            2048, 5632, 24, 16, 16, num_experts=60, num_experts_per_tok=4, decoder_sparse_step=1, max_window_layers=21,
            moe_intermediate_size=1408, norm_topk_prob=False, output_router_logits=False, router_aux_loss_coef=0.001,
            shared_expert_intermediate_size=5632, tie_word_embeddings=False, vocab_size=151936),
        "Qwen/Qwen2-57B-A14B": qwen(
            3584, 18944, 28, 28, 4, num_experts=64, num_experts_per_tok=8, decoder_sparse_step=1, moe_intermediate_size=2560,
            norm_topk_prob=False, output_router_logits=False, router_aux_loss_coef=0.001, sliding_window=65536,
            shared_expert_intermediate_size=20480, tie_word_embeddings=False, vocab_size=151936),
    }),
    "Qwen1.5-MoE saved by transformers 5": Published("Qwen2MoeForCausalLM", "qwen2_moe", qwen(
        2048, 5632, 24, 16, 16, sliding_window=0, layer_types=["full_attention"] * 24, rope_theta=None,
        rope_parameters={"rope_theta": 1e6, "rope_type": "default"}, tie_word_embeddings=False, vocab_size=151936)),
    "a Qwen2-MoE whose layers have windows": refused(
        "Qwen2MoeForCausalLM", "qwen2_moe", qwen(2048, 5632, 2, 16, 16, layer_types=["full_attention", "sliding_attention"]),
        "expected full_attention in all layers"),
    "a Qwen2-MoE with a window": refused("Qwen2MoeForCausalLM", "qwen2_moe", qwen(2048, 5632, 24, 16, 16, use_sliding_window=True),
                                         "use_sliding_window=True: with some kernels the class has the window in all layers"),
    **of("DeepseekV2ForCausalLM", "deepseek_v2", **{
        "deepseek-ai/DeepSeek-V2": deepseek(
            5120, 12288, 60, 128, aux_loss_alpha=0.001, n_group=8, n_routed_experts=160, n_shared_experts=2, num_experts_per_tok=6,
            moe_intermediate_size=1536, q_lora_rank=1536, routed_scaling_factor=16.0, topk_group=3, topk_method="group_limited_greedy"),
        "deepseek-ai/DeepSeek-V2-Lite": deepseek(
            2048, 10944, 27, 16, aux_loss_alpha=0.001, n_group=1, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
            moe_intermediate_size=1408, q_lora_rank=None, routed_scaling_factor=1.0, topk_group=1, topk_method="greedy"),
    }),
    "deepseek-ai/DeepSeek-V3": refused("DeepseekV3ForCausalLM", "deepseek_v3", DEEPSEEK_V3 | {
        "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}},
        "quantised weights are not read; dequantise them"),
    "DeepSeek-V3 saved by transformers 5": Published("DeepseekV3ForCausalLM", "deepseek_v3", {
        name: value for name, value in DEEPSEEK_V3.items() if name != "rope_scaling"} | {
        "head_dim": 64, "qk_head_dim": 192, "num_mtp_layers": 1, "output_router_logits": False, "rope_interleave": True,
        "rope_parameters": DEEPSEEK_V3["rope_scaling"] | {"rope_theta": 10000.0, "rope_type": "yarn"}}),
    "DeepSeek-V3, dequantised": Published("DeepseekV3ForCausalLM", "deepseek_v3", DEEPSEEK_V3),
    "moonshotai/Moonlight-16B-A3B": refused("DeepseekV3ForCausalLM", "deepseek_v3", deepseek(
        2048, 11264, 27, 16, rms_norm_eps=1e-5, n_group=1, topk_group=1, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
        moe_intermediate_size=1408, q_lora_rank=None, routed_scaling_factor=2.446, norm_topk_prob=True, rope_scaling=None,
        scoring_func="sigmoid", topk_method="noaux_tc", vocab_size=163840), "rms_norm_eps=1e-05: expected 1e-06"),
    "ibm-granite/granite-3.0-1b-a400m-base": Published("GraniteMoeForCausalLM", "granitemoe", llama(
        1024, 512, 24, 16, 8, attention_bias=False, attention_dropout=0.1, attention_multiplier=0.015625, embedding_multiplier=12.0,
        logits_scaling=6.0, num_experts_per_tok=8, num_local_experts=32, output_router_logits=False, residual_multiplier=0.22,
        rms_norm_eps=1e-6, router_aux_loss_coef=0.0, tie_word_embeddings=True, vocab_size=49155)),
    "mistralai/Mixtral-8x7B-v0.1": Published("MixtralForCausalLM", "mixtral", llama(
        4096, 14336, 32, 32, 8, max_position_embeddings=32768, num_experts_per_tok=2, num_local_experts=8, output_router_logits=False,
        rope_theta=1e6, router_aux_loss_coef=0.02, sliding_window=None, vocab_size=32000)),
    "allenai/OLMoE-1B-7B-0924": Published("OlmoeForCausalLM", "olmoe", llama(
        2048, 1024, 16, 16, 16, attention_bias=False, clip_qkv=None, max_position_embeddings=4096, norm_topk_prob=False, num_experts=64,
        num_experts_per_tok=8, output_router_logits=False, router_aux_loss_coef=0.01, vocab_size=50304)),
    "Qwen/Qwen3-30B-A3B": Published("Qwen3MoeForCausalLM", "qwen3_moe", qwen(
        2048, 6144, 48, 32, 4, num_experts=128, decoder_sparse_step=1, head_dim=128, max_window_layers=48, mlp_only_layers=[],
        moe_intermediate_size=768, norm_topk_prob=True, num_experts_per_tok=8, output_router_logits=False,
        router_aux_loss_coef=0.001, sliding_window=None, use_sliding_window=False, vocab_size=151936)),
    "zai-org/GLM-4.5-Air": refused("Glm4MoeForCausalLM", "glm4_moe", llama(4096, 10944, 46, 96, 8, n_routed_experts=128),
                                   "choose among 128 experts (n_routed_experts)"),
    **of("HeliumForCausalLM", "helium", **{
        "kyutai/helium-1-preview-2b": llama(2560, 7040, 24, 20, attention_bias=False, head_dim=128, mlp_bias=False, pretraining_tp=1,
                                            rms_norm_eps=1e-8, rope_theta=1e5, vocab_size=48000),
        "Helium saved by transformers 5": llama(2560, 7040, 24, 20, head_dim=128, rms_norm_eps=1e-8, rope_theta=None, rope_parameters={
            "rope_theta": 1e5, "rope_type": "default"}),
    }),
    "a Helium whose heads are not as wide as the model": refused(
        "HeliumForCausalLM", "helium", llama(2560, 7040, 24, 20, head_dim=64), "head_dim=64: expected hidden_size / num_attention_heads = 128"),
    **of("ApertusForCausalLM", "apertus", **{
        "swiss-ai/Apertus-8B-2509": llama(
            4096, 21504, 32, 32, 8, hidden_dropout=0.0, mlp_bias=False, post_norm=False, qk_norm=True, rope_theta=12000000,
            rope_scaling=LLAMA3 | {"type": "llama3"}),
        "swiss-ai/Apertus-70B-2509": llama(
            8192, 43008, 80, 64, 8, hidden_dropout=0.0, mlp_bias=False, post_norm=False, qk_norm=True, rope_theta=12000000,
            rope_scaling=LLAMA3 | {"type": "llama3"}),
        "Apertus saved by transformers 5": llama(4096, 21504, 32, 32, 8, rope_theta=None,
                                                 rope_parameters=LLAMA3 | {"rope_theta": 12e6}),
    }),
    "an Apertus that is not stretched": Published(
        "ApertusForCausalLM", "apertus", llama(4096, 21504, 32, 32, 8, rope_theta=None, **FIVE)),
    "an Apertus without norms of queries and keys": refused(
        "ApertusForCausalLM", "apertus", llama(4096, 21504, 32, 32, 8, qk_norm=False), "qk_norm=False: expected True; "),
    **of("GlmForCausalLM", "glm", **{
        "THUDM/glm-4-9b-chat-hf": llama(4096, 13696, 40, 32, 2, attention_bias=True, head_dim=128, rms_norm_eps=1.5625e-7),
        "THUDM/glm-edge-1.5b-chat": llama(2048, 6144, 28, 16, 4, attention_bias=False, head_dim=128, partial_rotary_factor=1.0,
                                          vocab_size=59264),
    }),
    **of("Glm4ForCausalLM", "glm4", **{
        "THUDM/GLM-4-9B-0414": llama(4096, 13696, 40, 32, 2, attention_bias=True, head_dim=128, partial_rotary_factor=0.5),
        "THUDM/GLM-4-32B-0414": llama(6144, 23040, 61, 48, 2, attention_bias=False, head_dim=128, partial_rotary_factor=0.5),
        "GLM-4 saved by transformers 5": llama(4096, 13696, 40, 32, 2, partial_rotary_factor=0.5, rope_theta=None, rope_parameters={
            "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "rope_type": "default"}),
    }),
    **of("Exaone4ForCausalLM", "exaone4", **{
        "LGAI-EXAONE/EXAONE-4.0-32B": llama(
            5120, 27392, 64, 40, 8, head_dim=128, rope_theta=1e6, sliding_window=4096, sliding_window_pattern="LLLG",
            layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16, rope_scaling=LLAMA3 | {"factor": 16.0}),
        "LGAI-EXAONE/EXAONE-4.0-1.2B": llama(
            2048, 4096, 30, 32, 8, head_dim=64, rope_theta=1e6, sliding_window=None, sliding_window_pattern=None,
            layer_types=["full_attention"] * 30, rope_scaling=LLAMA3 | {"factor": 16.0}, tie_word_embeddings=True),
    }),
    "an EXAONE 4 without the types of its layers": refused(
        "Exaone4ForCausalLM", "exaone4", llama(2048, 4096, 30, 32, 8, sliding_window_pattern="LLLG"),
        "sliding_window_pattern='LLLG': expected a number of layers"),
    "an Olmo 3 with two bases": Published("Olmo3ForCausalLM", "olmo3", llama(
        4096, 11008, 32, 32, sliding_window=4096, layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 8, rope_parameters={
            "full_attention": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}})),
    "a Ministral": Published("MinistralForCausalLM", "ministral", llama(
        4096, 12288, 36, 32, 8, head_dim=128, rope_theta=1e8, sliding_window=32768, vocab_size=131072,
        layer_types=(["full_attention"] + ["sliding_attention"] * 3) * 9)),
    "a Ministral without a window": refused(
        "MinistralForCausalLM", "ministral", llama(4096, 12288, 36, 32, 8, sliding_window=None, layer_types=["sliding_attention"] * 36),
        "sliding_attention without a sliding_window"),
    **of("MistralForCausalLM", "mistral", **{
        "mistralai/Mistral-7B-v0.1": llama(4096, 14336, 32, 32, 8, max_position_embeddings=32768, sliding_window=4096),
        "mistralai/Mistral-7B-v0.3": llama(4096, 14336, 32, 32, 8, vocab_size=32768, sliding_window=None, rope_theta=1e6),
        "mistralai/Mistral-Nemo-Base-2407": llama(5120, 14336, 40, 32, 8, head_dim=128, vocab_size=131072, rope_theta=1e6,
                                                  sliding_window=None),
        "HuggingFaceH4/zephyr-7b-beta": llama(4096, 14336, 32, 32, 8, sliding_window=4096),
        "Mistral saved by transformers 5": llama(4096, 14336, 32, 32, 8, sliding_window=None, **FIVE),
    }),
    **of("Qwen2ForCausalLM", "qwen2", **{
        "Qwen/Qwen2-0.5B": qwen(896, 4864, 24, 14, 2), "Qwen/Qwen2.5-0.5B": qwen(896, 4864, 24, 14, 2, use_mrope=False),
        "Qwen/Qwen2.5-1.5B": qwen(1536, 8960, 28, 12, 2, use_mrope=False, sliding_window=131072),
        "Qwen/Qwen2.5-7B": qwen(3584, 18944, 28, 28, 4, use_mrope=False, vocab_size=152064, tie_word_embeddings=False),
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": qwen(1536, 8960, 28, 12, 2, use_mrope=False, rope_theta=10000),
        "Qwen2.5 saved by transformers 5": qwen(1536, 8960, 28, 12, 2, use_mrope=False, sliding_window=None, rope_theta=None,
                                                layer_types=["full_attention"] * 28, rope_parameters={
                                                    "rope_theta": 1e6, "rope_type": "default"}),
    }),
    **of("Qwen3ForCausalLM", "qwen3", **{
        "Qwen/Qwen3-0.6B": qwen(1024, 3072, 28, 16, 8, sliding_window=None, max_position_embeddings=40960, head_dim=128),
        "Qwen/Qwen3-1.7B": qwen(2048, 6144, 28, 16, 8, sliding_window=None, max_position_embeddings=40960),
        "Qwen/Qwen3-4B": qwen(2560, 9728, 36, 32, 8, sliding_window=None, max_position_embeddings=40960),
        "Qwen/Qwen3-8B": qwen(4096, 12288, 36, 32, 8, sliding_window=None, tie_word_embeddings=False),
        "Qwen3 saved by transformers 5": qwen(1024, 3072, 28, 16, 8, sliding_window=None, rope_theta=None, rope_parameters={
            "rope_theta": 1e6, "rope_type": "default"}, layer_types=["full_attention"] * 28),
    }),
    "HuggingFaceTB/SmolLM3-3B": Published("SmolLM3ForCausalLM", "smollm3", {
        "max_position_embeddings": 65536, "max_window_layers": 28, "pretraining_tp": 2, "rope_theta": 5e6,
        "layer_types": ["full_attention"] * 36, "no_rope_layers": [1, 1, 1, 0] * 9}),
    **of("Olmo2ForCausalLM", "olmo2", **{
        "allenai/OLMo-2-1124-7B": llama(4096, 11008, 32, 32, vocab_size=100352, rope_theta=5e5, rms_norm_eps=1e-6),
        "allenai/OLMo-2-0425-1B": llama(2048, 8192, 16, 16, vocab_size=100352, rope_theta=5e5, rms_norm_eps=1e-6),
    }),
    "a DiffLlama": Published("DiffLlamaForCausalLM", "diffllama", llama(2048, 8192, 16, 32, num_key_value_heads=8, lambda_std_dev=0.1)),
    "a DiffLlama with other first vectors": refused("DiffLlamaForCausalLM", "diffllama", llama(2048, 8192, 16, 32, lambda_std_dev=0.2),
                                                    "lambda_std_dev=0.2: the vectors of lambda"),
    "allenai/Olmo-3-1025-7B": Published("Olmo3ForCausalLM", "olmo3", llama(
        4096, 11008, 32, 32, vocab_size=100278, rope_theta=5e5, rms_norm_eps=1e-6, sliding_window=4096,
        max_position_embeddings=65536, rope_scaling={
            "attention_factor": 1.2079441541679836, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 8.0,
            "original_max_position_embeddings": 8192, "rope_type": "yarn"},
        layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 8)),
    **of("GemmaForCausalLM", "gemma", **{
        "google/gemma-2b": gemma(2048, 16384, 18, 8, 1, hidden_act="gelu", hidden_activation="gelu_pytorch_tanh"),
        "google/gemma-7b": gemma(3072, 24576, 28, 16, 16, hidden_activation="gelu_pytorch_tanh"),
        "gemma saved by transformers 5": gemma(2048, 16384, 18, 8, 1, **FIVE),
    }),
    "the first gemma-2b": refused("GemmaForCausalLM", "gemma", gemma(2048, 16384, 18, 8, 1, hidden_act="gelu"),
                                  "hidden_act='gelu': gelu stands for its tanh approximation"),
    **of("Gemma2ForCausalLM", "gemma2", **{
        "google/gemma-2-2b": gemma(2304, 9216, 26, 8, 4, hidden_act="gelu_pytorch_tanh", cache_implementation="hybrid"),
        "google/gemma-2-9b": gemma(3584, 14336, 42, 16, 8, hidden_act="gelu_pytorch_tanh", cache_implementation="hybrid"),
        "google/gemma-2-27b": gemma(4608, 36864, 46, 32, 16, head_dim=128, query_pre_attn_scalar=144,
                                    hidden_act="gelu_pytorch_tanh", cache_implementation="hybrid"),
        "gemma-2 saved by transformers 5": gemma(2304, 9216, 26, 8, 4, use_bidirectional_attention=None, layer_types=[
            "sliding_attention", "full_attention"] * 13, **FIVE),
    }),
    **of("Gemma3ForCausalLM", "gemma3_text", **{
        "google/gemma-3-1b-pt": gemma(1152, 6912, 26, 4, 1, sliding_window=512, vocab_size=262144, max_position_embeddings=32768,
                                      cache_implementation="hybrid"),
        "google/gemma-3-270m": gemma(640, 2048, 18, 4, 1, sliding_window=512, vocab_size=262144, max_position_embeddings=32768,
                                     _sliding_window_pattern=6,
                                     layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 3),
        "a final cap": gemma(640, 2048, 18, 4, 1, final_logit_softcapping=30.0),
        "gemma-3 saved by transformers 5": gemma(640, 2048, 18, 4, 1, rope_parameters={
            "full_attention": {"rope_theta": 1e6, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}),
    }),
    "google/gemma-3-4b-pt": refused("Gemma3ForConditionalGeneration", "gemma3", {}, "no importer for Gemma3ForConditionalGeneration"),
    # BERT
    **of("BertForMaskedLM", "bert", **{
        "bert-base-uncased": bert(gradient_checkpointing=False, position_embedding_type="absolute"),
        "bert-large-uncased": bert(1024, 24, 16), "bert-base-cased": bert(vocab_size=28996),
        "bert-base-multilingual-cased": bert(vocab_size=119547, **POOLER),
        "bert-base-chinese": bert(vocab_size=21128, **POOLER), "bert-base-german-cased": bert(vocab_size=30000, **POOLER),
        "dbmdz/bert-base-german-uncased": bert(vocab_size=31102, classifier_dropout=None),
        "emilyalsentzer/Bio_ClinicalBERT": bert(vocab_size=28996), "nlpaueb/legal-bert-base-uncased": bert(output_past=True, **POOLER),
    }),
    **of("BertModel", "bert", **{
        "prajjwal1/bert-tiny": bert(128, 2, 2), "sentence-transformers/all-MiniLM-L6-v2": bert(384, 6, 12),
        "BAAI/bge-small-en-v1.5": bert(384, 12, 12, **LABELS), "thenlper/gte-small": bert(384, 12, 12),
        "intfloat/e5-base": bert(classifier_dropout=None),
    }),
    **of("RobertaForMaskedLM", "roberta", **{
        "roberta-base": roberta(), "roberta-large": roberta(1024, 24, 16), "distilroberta-base": roberta(depth=6),
        "vinai/bertweet-base": roberta(vocab_size=64001, max_position_embeddings=130, tokenizer_class="BertweetTokenizer"),
        "microsoft/codebert-base-mlm": roberta(), "vinai/phobert-base": roberta(
            vocab_size=64001, max_position_embeddings=258, gradient_checkpointing=False),
    }),
    **of("XLMRobertaForMaskedLM", "xlm-roberta", **{
        "xlm-roberta-base": roberta(vocab_size=250002, output_past=True),
        "xlm-roberta-large": roberta(1024, 24, 16, vocab_size=250002, output_past=True),
        "cardiffnlp/twitter-xlm-roberta-base": roberta(vocab_size=250002, gradient_checkpointing=False),
    }),
    "camembert-base": Published("CamembertForMaskedLM", "camembert", roberta(vocab_size=32005, output_past=True)),
    **of("DistilBertForMaskedLM", "distilbert", **{
        "distilbert-base-uncased": distilbert(), "distilbert-base-cased": distilbert(vocab_size=28996, output_past=True),
        "distilbert-base-multilingual-cased": distilbert(vocab_size=119547, output_past=True),
    }),
    **of("RoFormerForMaskedLM", "roformer", **{
        "junnyu/roformer_chinese_base": bert(embedding_size=768, max_position_embeddings=1536, gradient_checkpointing=False, **POOLER),
        "junnyu/roformer_chinese_small": bert(384, 6, 6, embedding_size=384, max_position_embeddings=512, **POOLER),
    }),
    "allenai/longformer-base-4096": Published("LongformerForMaskedLM", "longformer", roberta(
        vocab_size=50265, max_position_embeddings=4098, attention_window=[512] * 12, attention_mode="longformer",
        ignore_attention_mask=False, gradient_checkpointing=False, sep_token_id=2)),
    **of("AlbertForMaskedLM", "albert", **{
        "albert/albert-base-v2": albert(hidden_size=768, num_attention_heads=12, intermediate_size=3072),
        "albert/albert-xxlarge-v2": albert(),
    }),
    "an ALBERT whose layers take turns": refused("AlbertForMaskedLM", "albert", albert(inner_group_num=2), "inner_group_num=2: layers that"),
    **of("ModernBertForMaskedLM", "modernbert", **{
        "answerdotai/ModernBERT-base": modernbert(),
        "answerdotai/ModernBERT-large": modernbert(hidden_size=1024, intermediate_size=2624, num_hidden_layers=28, num_attention_heads=16),
    }),
    "a ModernBERT with dropout": refused("ModernBertForMaskedLM", "modernbert", modernbert(mlp_dropout=0.1), "mlp_dropout=0.1: expected 0"),
    **of("ElectraForPreTraining", "electra", **{
        "google/electra-small-discriminator": electra(),
        "google/electra-base-discriminator": electra(768, 12, 12, embedding_size=768),
        "google/electra-large-discriminator": electra(1024, 24, 16, embedding_size=1024),
    }),
    "google/electra-base-generator": Published("ElectraForMaskedLM", "electra", electra(256, 12, 4, embedding_size=768)),
    "a generator with another activation": refused("ElectraForMaskedLM", "electra", electra(hidden_act="relu"), "hidden_act='relu': the head"),
    "google/mobilebert-uncased": refused("MobileBertForPreTraining", "mobilebert", {}, "no importer for MobileBertForPreTraining; no"),
    # Heads of tasks, and no heads
    **of("BertForTokenClassification", "bert", **{
        "dslim/bert-base-NER": bert(vocab_size=28996, _num_labels=9, output_past=True, max_length=512, **POOLER | TAGS),
        "dbmdz/bert-large-cased-finetuned-conll03-english": bert(1024, 24, 16, vocab_size=28996, **POOLER | TAGS),
    }),
    **of("BertForSequenceClassification", "bert", **{
        "nlptown/bert-base-multilingual-uncased-sentiment": bert(
            vocab_size=105879, _num_labels=5, finetuning_task="sentiment-analysis", output_past=True, **POOLER | LABELS),
        "ProsusAI/finbert": bert(gradient_checkpointing=False, problem_type=None, **LABELS),
        "cross-encoder/ms-marco-MiniLM-L-6-v2": bert(384, 6, 12, id2label={"0": "LABEL_0"}, label2id={"LABEL_0": 0},
                                                     sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}),
        "textattack/bert-base-uncased-imdb": bert(finetuning_task="imdb"),
    }),
    "unitary/toxic-bert": refused("BertForSequenceClassification", "bert", bert(problem_type="multi_label_classification"),
                                  "problem_type='multi_label_classification': a text has one label here"),
    "bert-large-uncased-whole-word-masking-finetuned-squad": Published("BertForQuestionAnswering", "bert", bert(1024, 24, 16)),
    **of("RobertaForSequenceClassification", "roberta", **{
        "roberta-large-mnli": roberta(1024, 24, 16, _num_labels=3, **LABELS), "siebert/sentiment-roberta-large-english": roberta(
            1024, 24, 16, finetuning_task="sst2", problem_type="single_label_classification", **LABELS),
    }),
    "deepset/roberta-base-squad2": Published("RobertaForQuestionAnswering", "roberta", roberta(
        gradient_checkpointing=False, language="english", name="Roberta")),
    "microsoft/codebert-base": Published("RobertaModel", "roberta", roberta(output_past=True)),
    "intfloat/multilingual-e5-base": Published("XLMRobertaModel", "xlm-roberta", roberta(vocab_size=250002, output_past=True)),
    "papluca/xlm-roberta-base-language-detection": Published("XLMRobertaForSequenceClassification", "xlm-roberta", roberta(
        vocab_size=250002, **LABELS)),
    "distilbert-base-cased-distilled-squad": Published("DistilBertForQuestionAnswering", "distilbert", distilbert(vocab_size=28996)),
    "elastic/distilbert-base-cased-finetuned-conll03-english": Published("DistilBertForTokenClassification", "distilbert",
                                                                         distilbert(vocab_size=28996, **TAGS)),
    "distilbert-base-uncased-finetuned-sst-2-english": Published(
        "DistilBertForSequenceClassification", "distilbert", distilbert(finetuning_task="sst-2", output_past=True, **LABELS)),
    "an ALBERT for labels": Published("AlbertForSequenceClassification", "albert", albert(finetuning_task="sst-2", **LABELS)),
    "an ALBERT for tags": Published("AlbertForTokenClassification", "albert", albert(hidden_size=768, num_attention_heads=12, **TAGS)),
    "an ALBERT for answers": Published("AlbertForQuestionAnswering", "albert", albert(hidden_size=768, num_attention_heads=12, output_past=True)),
    "an ALBERT without a head": Published("AlbertModel", "albert", albert(
        hidden_size=768, num_attention_heads=12, num_hidden_layers=6, intermediate_size=3072, gradient_checkpointing=False)),
    "an ELECTRA for labels": Published("ElectraForSequenceClassification", "electra", electra(summary_use_proj=True, **LABELS)),
    "an ELECTRA for tags": Published("ElectraForTokenClassification", "electra", electra(1024, 24, 16, embedding_size=1024, **TAGS)),
    "an ELECTRA for answers": Published("ElectraForQuestionAnswering", "electra", electra(
        768, 12, 12, embedding_size=768, classifier_dropout=None, language="english", name="Electra")),
    "an ELECTRA without a head": Published("ElectraModel", "electra", electra()),
    "sentence-transformers/msmarco-distilbert-base-v4": Published("DistilBertModel", "distilbert", distilbert()),
    "intfloat/e5-mistral-7b-instruct": Published("MistralModel", "mistral", llama(
        4096, 14336, 32, 32, 8, max_position_embeddings=32768, sliding_window=4096)),
    "Qwen/Qwen3-Embedding-0.6B": Published("Qwen3ForCausalLM", "qwen3", qwen(1024, 3072, 28, 16, 8, sliding_window=None)),
    "sentence-transformers/gtr-t5-base": Published("T5EncoderModel", "t5", t5(768, 3072, 12, 12)),
    "google/t5-v1_1-xxl, its encoder": Published("T5EncoderModel", "t5", t5(4096, 10240, 24, 64, **V11)),
    "the encoder of umt5-xxl": Published("UMT5EncoderModel", "umt5", t5(
        4096, 10240, 24, 64, vocab_size=256384, scalable_attention=True, is_gated_act=True, dense_act_fn="gelu_new",
        is_encoder_decoder=False, num_decoder_layers=24)),
    # ALiBi
    **of("BloomForCausalLM", "bloom", **{
        "bigscience/bloom-560m": bloom(1024, 24, 16), "bigscience/bloom-1b1": bloom(1536, 24, 16),
        "bigscience/bloom-3b": bloom(2560, 30, 32, pretraining_tp=4), "bigscience/bloom": bloom(14336, 70, 112, pretraining_tp=4),
        "bigscience/bloomz-560m": bloom(1024, 24, 16, pretraining_tp=2),
    }),
    **of("MPTForCausalLM", "mpt", **{
        "mosaicml/mpt-7b": mpt(), "mosaicml/mpt-7b-chat": mpt(), "mosaicml/mpt-7b-8k": mpt(max_seq_len=8192),
        "mosaicml/mpt-30b": mpt(d_model=7168, n_heads=64, n_layers=48, max_seq_len=8192),
    }),
    "mosaicml/mpt-7b-storywriter": refused("MPTForCausalLM", "mpt", mpt({"alibi_bias_max": 16, "clip_qkv": 6}),
                                           "attn_config.clip_qkv=6: clipping queries"),
    # Encoder-decoders
    **of("BartForConditionalGeneration", "bart", **{
        "facebook/bart-large-cnn": bart(1024, 4096, 12, 16, vocab_size=50264, force_bos_token_to_be_generated=True, _num_labels=3,
                                        output_past=True, prefix=" ", min_length=56, max_length=142, length_penalty=2.0),
        "sshleifer/distilbart-cnn-12-6": bart(1024, 4096, 12, 16, decoder_layers=6, vocab_size=50264, extra_pos_embeddings=2,
                                              static_position_embeddings=False),
    }),
    "facebook/bart-base": Published("BartModel", "bart", bart(768, 3072, 6, 12, forced_bos_token_id=0)),
    "facebook/bart-large": Published("BartModel", "bart", bart(1024, 4096, 12, 16, forced_bos_token_id=0)),
    "facebook/mbart-large-cc25": Published("MBartForConditionalGeneration", "mbart", bart(
        1024, 4096, 12, 16, vocab_size=250027, add_final_layer_norm=True, normalize_before=True, scale_embedding=True,
        static_position_embeddings=False)),
    **of("MarianMTModel", "marian", **{
        "Helsinki-NLP/opus-mt-en-de": marian(58101), "Helsinki-NLP/opus-mt-de-en": marian(58101),
        "Helsinki-NLP/opus-mt-en-fr": marian(59514), "Helsinki-NLP/opus-mt-fr-en": marian(59514),
        "Helsinki-NLP/opus-mt-en-jap": marian(46276), "Helsinki-NLP/opus-mt-zh-en": marian(65001),
        "Helsinki-NLP/opus-mt-mul-en": marian(64172, extra_pos_embeddings=53685, is_decoder=False, dtype="float32"),
    }),
    **of("T5ForConditionalGeneration", "t5", **{
        "t5-small": t5(512, 2048, 6, 8), "t5-base": t5(768, 3072, 12, 12), "t5-large": t5(1024, 4096, 24, 16),
        "google/t5-v1_1-small": t5(512, 1024, 8, 6, **V11), "google/flan-t5-small": t5(512, 1024, 8, 6, **V11),
        "google/flan-t5-base": t5(768, 2048, 12, 12, **V11), "google/byt5-small": t5(
            1472, 3584, 12, 6, gradient_checkpointing=False, vocab_size=384, **V11 | {"num_decoder_layers": 4}),
        "google/flan-ul2": t5(4096, 16384, 32, 16, d_kv=256, feed_forward_proj="gated-silu", is_gated_act=True,
                              dense_act_fn="silu", tie_word_embeddings=False),
    }),
    "T5 saved with the scale of the head": Published("T5ForConditionalGeneration", "t5", t5(
        512, 2048, 6, 8, is_decoder=False, scale_decoder_outputs=True, tie_word_embeddings=True, dtype="float32")),
    "t5-3b": Published("T5WithLMHeadModel", "t5", t5(1024, 16384, 24, 32, d_kv=128)),
    "google/mt5-small": Published("MT5ForConditionalGeneration", "mt5", t5(512, 1024, 8, 6, num_decoder_layers=8)),
    "google/umt5-small": Published("UMT5ForConditionalGeneration", "umt5", t5(
        512, 1024, 8, 6, vocab_size=256384, num_decoder_layers=8, scalable_attention=True, is_gated_act=True,
        dense_act_fn="gelu_new", tie_word_embeddings=False)),
    "google/long-t5-local-base": refused("LongT5ForConditionalGeneration", "longt5", {}, "no importer for LongT5ForConditionalGeneration;"),
}  # fmt: skip
