"""Settings of published config files that do not change what a model computes, with the reason.

`SettingsReader` skips a setting that is in this list with a value that is listed, and rejects it
with the reason if it has another value. A setting that its importer reads is never looked up here.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InertSettings:
    """Settings that are inert for the same reason.

    Attributes:
        names: the settings.
        why: the reason; for settings with values, it also says what another value would mean.
        values: the values that change nothing; None if no value does. A value of None never does.
        of: the model types that the entry is for; empty for all.
    """

    names: tuple[str, ...]
    why: str
    values: tuple[Any, ...] | None = None
    of: tuple[str, ...] = ()


BERTS = ("bert", "roberta", "xlm-roberta", "camembert", "longformer", "roformer")
GPTS = ("openai-gpt", "gpt2", "gptj")
MIXTURES = ("mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "qwen3_next", "granitemoe", "gpt_oss")
LLAMAS = (
    "llama",
    "mistral",
    "smollm3",
    "qwen2",
    "qwen3",
    "olmo2",
    "olmo3",
    "gemma",
    "gemma2",
    "gemma3_text",
    "olmo",
    "cohere",
    "granite",
    "ministral",
    "apertus",
    "exaone4",
    "glm",
    "glm4",
    "helium",
    "olmo_hybrid",
    "nanochat",
    *MIXTURES,
    "deepseek_v2",
    "deepseek_v3",
)
DEEPSEEKS = ("deepseek_v2", "deepseek_v3")
BARTS = ("bart", "mbart", "marian")
T5S = ("t5", "mt5", "umt5")

INERT_SETTINGS = (
    InertSettings(
        ("_name_or_path", "_commit_hash", "architectures", "model_type", "transformers_version",
         "transformers.js_config", "unsloth_fixed", "unsloth_version", "name", "language", "sentence_transformers"),
        "where the file comes from, and what other programs do with it",
    ),
    InertSettings(
        ("dtype", "torch_dtype", "torchscript", "use_bfloat16", "_attn_implementation", "_attn_implementation_autoset",
         "attn_implementation", "_flash_attn_2_enabled", "use_flash_attention", "chunk_size_feed_forward", "use_cache",
         "gradient_checkpointing", "cache_implementation", "hybrid_cache_implementation"),
        "how numbers are stored and the computation is carried out",
    ),
    InertSettings(
        ("bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty", "do_sample",
         "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
         "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens", "min_length", "no_repeat_ngram_size",
         "num_beam_groups", "num_beams", "num_return_sequences", "prefix", "remove_invalid_values",
         "repetition_penalty", "suppress_tokens", "task_specific_params", "temperature", "top_k", "top_p", "typical_p"),
        "choices of generation",
    ),
    InertSettings(
        ("output_attentions", "output_hidden_states", "output_past", "output_scores", "return_dict",
         "return_dict_in_generate", "keys_to_ignore_at_inference"),
        "what the class returns besides",
    ),
    InertSettings(
        ("bos_token_id", "cls_token_id", "eos_token_id", "mask_token_id", "pad_token_id", "sep_token_id",
         "unk_token_id", "tokenizer_class", "tokenizer_name"),
        "the tokenizer's",
    ),
    InertSettings(
        ("finetuning_task", "id2label", "label2id", "num_labels", "_num_labels", "problem_type", "tf_legacy_loss"),
        "labels of a task; a class with a head for one reads them",
    ),
    InertSettings(
        ("add_cross_attention", "is_decoder"), "a model that reads another one's states is another model", (False,)
    ),
    InertSettings(("is_encoder_decoder", "tie_encoder_decoder"), "sides are those of the class", (False,)),
    InertSettings(("cross_attention_hidden_size",), "a model that reads another one's states is another model", ()),
    InertSettings(("pruned_heads",), "models whose layers differ in heads are not supported", ({},)),
    # Numbers of training alone: this library drops at fewer places, or has heads of its own.
    InertSettings(
        ("classifier_dropout", "classif_dropout", "qa_dropout", "seq_classif_dropout", "summary_first_dropout"),
        "dropout before the head of a task, in training",
    ),
    InertSettings(("activation_dropout",), "dropout inside the feed-forward, in training", of=(*BARTS, "fairseq")),
    InertSettings(("initializer_factor",), "the scale of initial values", of=T5S),
    # Families
    InertSettings(
        ("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
         "pooler_size_per_head", "pooler_type"),
        "a pooler of the authors' code that no class has", of=BERTS,
    ),
    InertSettings(
        ("activation",), "the class reads hidden_act", of=(*BERTS, "albert", "electra", *LLAMAS, "gpt_neox"),
    ),
    InertSettings(("generator_size",), "the size of the other network in pre-training", of=("electra",)),
    InertSettings(("sliding_window_size",), "the class reads sliding_window", of=LLAMAS),
    InertSettings(("classifier_dropout_prob",), "dropout before the head of a task, in training", of=("albert",)),
    InertSettings(
        ("down_scale_factor", "gap_size", "layers_to_keep", "net_structure_type", "num_memory_blocks"),
        "read by no class", of=("albert",),
    ),
    InertSettings(("onnx_export",), "the export to another format", of=("longformer",)),
    InertSettings(("tie_weights_",), "old files repeat what the class does", (True,), ("distilbert",)),
    InertSettings(
        ("summary_activation", "summary_last_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"),
        "the head of a class for multiple choice", of=(*GPTS, "gpt_neox", "electra"),
    ),
    InertSettings(("n_ctx", "n_special", "predict_special_tokens"), "sizes that no class reads", of=GPTS),
    InertSettings(("reorder_and_upcast_attn",), "scores in float32, as here", of=("gpt2",)),
    InertSettings(("rotary",), "the class always has rotary positions", (True,), ("gptj",)),
    InertSettings(("scale_attn_weights",), "the class always scales scores", (True,), ("gptj",)),
    InertSettings(
        ("attention_probs_dropout_prob", "hidden_dropout_prob"), "names that the class does not read", (0,),
        ("gpt_neox",),
    ),
    InertSettings(("num_steps", "custom_pipelines"), "notes of the authors", of=("gpt_neox",)),
    InertSettings(("pretraining_tp", "max_sequence_length", "use_mrope"), "read by no class any more", of=LLAMAS),
    InertSettings(
        ("output_router_logits", "router_aux_loss_coef"),
        "a balancing loss over all layers together, in training; that of zoo is of each layer", of=MIXTURES,
    ),
    InertSettings(("max_window_layers",), "the class has its window in all layers", of=("qwen3_moe",)),
    InertSettings(("aux_loss_alpha", "output_router_logits", "seq_aux"), "a balancing loss, in training", of=DEEPSEEKS),
    InertSettings(("auto_map", "ep_size"), "read by no class", of=DEEPSEEKS),
    InertSettings(("moe_layer_freq",), "all layers from first_k_dense_replace on have experts", (1,), DEEPSEEKS),
    InertSettings(("scoring_func",), "scores are the softmax of the logits", ("softmax",), ("deepseek_v2",)),
    InertSettings(("scoring_func",), "scores are the sigmoid of the logits", ("sigmoid",), ("deepseek_v3",)),
    InertSettings(("topk_method",), "the class chooses by biased scores of groups", ("noaux_tc",), ("deepseek_v3",)),
    InertSettings(
        ("num_nextn_predict_layers", "num_mtp_layers"), "a module that predicts later tokens", of=("deepseek_v3",)
    ),
    InertSettings(
        ("head_dim", "qk_head_dim", "max_position_embeddings", "model_max_length", "rope_theta", "pretraining_tp",
         "output_router_logits", "auto_map", "num_nextn_predict_layers", "use_grouped_topk"),
        "copies of widths, lengths and bases without positions, a loss in training, and names that no class reads",
        of=("kimi_linear",),
    ),
    InertSettings(("mla_use_nope",), "the class never rotates", (True,), ("kimi_linear",)),
    InertSettings(("moe_layer_freq",), "all layers from first_k_dense_replace on have experts", (1,), ("kimi_linear",)),
    InertSettings(
        ("moe_router_activation_func",), "scores are the sigmoid of the logits", ("sigmoid",), ("kimi_linear",)
    ),
    InertSettings(("initial_context_length",), "the class reads rope_scaling", of=("gpt_oss",)),
    InertSettings(("position_embedding_type",), "the class always has rotary positions", ("rope",), ("granitemoe",)),
    InertSettings(("use_sliding_window",), "the class has no windows", (False,), ("qwen3_next",)),
    InertSettings(
        ("block_dim", "block_norm_eps", "conv_dim", "conv_dim_out", "num_heads"), "copies of other settings",
        of=("lfm2",),
    ),
    InertSettings(
        ("block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "conv_use_xavier_init"),
        "initial values", of=("lfm2",),
    ),
    InertSettings(
        ("time_step_min", "time_step_max", "time_step_floor", "time_step_init_scheme", "time_step_scale",
         "time_step_rank"),
        "initial values, and names that the class does not read", of=("mamba2",),
    ),
    InertSettings(
        ("linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"),
        "initial values", of=("olmo_hybrid",),
    ),
    InertSettings(
        ("chunk_size", "residual_in_fp32"), "how the computation is carried out", of=("mamba2",),
    ),
    InertSettings(
        ("intermediate_size", "norm_before_gate"), "a copy of other settings, and a name that no class reads",
        of=("mamba2",),
    ),
    InertSettings(("block_use_swiglu", "use_pos_enc"), "the class always has them", (True,), ("lfm2",)),
    InertSettings(("qk_norm",), "the class always normalises queries and keys", (True,), ("apertus",)),
    InertSettings(("post_norm",), "the class has pre-norm", (False,), ("apertus",)),
    InertSettings(("hidden_dropout",), "dropout before the head of a task, in training", of=("apertus",)),
    InertSettings(("is_llama_config",), "the layout is LLaMA's", (True,), ("llama",)),
    InertSettings(("rope_interleaved",), "the class pairs the halves of a head", (False,), ("llama",)),
    InertSettings(
        ("classifier_pooling", "classifier_dropout", "deterministic_flash_attn", "sparse_prediction",
         "sparse_pred_ignore_index", "reference_compile", "repad_logits_with_grad", "initializer_cutoff_factor",
         "position_embedding_type", "layer_norm_eps"),
        "heads for tasks, how the computation is carried out, initial values, and names that the class does not read",
        of=("modernbert",),
    ),
    InertSettings(("max_window_layers",), "the class reads layer_types", of=("smollm3",)),
    InertSettings(("embd_pdrop", "auto_map"), "read by no class", of=("phi3",)),
    InertSettings(
        ("activation_dropout", "scale_embeddings", "learned_embeddings", "num_workers"),
        "read by no class any more", of=("opt",),
    ),
    InertSettings(("auto_map", "ff_factor"), "read by no class", of=("falcon",)),
    InertSettings(
        ("apply_residual_connection_post_layernorm",), "the class has no residual connection around a norm", (False,),
        ("falcon",),
    ),
    InertSettings(("model_max_length",), "the tokenizer's", of=("cohere",)),
    InertSettings(("kv_channels",), "a copy of head_dim", of=("nemotron",)),
    InertSettings(
        ("attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi", "skip_bias_add",
         "skip_bias_add_qkv", "seq_length", "slow_but_exact"),
        "details of the training program", of=("bloom",),
    ),
    InertSettings(
        ("auto_map", "init_config", "init_device", "learned_pos_emb", "max_seq_len", "verbose"),
        "how the authors' code builds a model; ALiBi needs no table of positions", of=("mpt",),
    ),
    InertSettings(
        ("attn_impl", "tie_word_embeddings"), "the choice of a kernel, and what is set outside", of=("mpt.attn_config",)
    ),
    InertSettings(("num_hidden_layers",), "a copy of the encoder's depth", of=BARTS),
    InertSettings(("extra_pos_embeddings", "force_bos_token_to_be_generated"), "read by no class any more", of=BARTS),
    InertSettings(("max_position_embeddings",), "sinusoids are computed for any length", of=("marian",)),
    InertSettings(("n_positions", "scalable_attention"), "read by no class", of=T5S),
    InertSettings(
        ("ff_chunks", "auto_check_redraw", "kernel_fn", "local_window_size", "axial_position_shape"),
        "how computation is cut and when redrawing is checked, and details of what is rejected",
        of=("performer-pytorch",),
    ),
    InertSettings(
        ("adaptive_softmax_dropout", "best_bleu", "encoder_embed_path", "decoder_embed_path",
         "left_pad_source", "left_pad_target", "max_source_positions", "max_target_positions", "no_epoch_checkpoints",
         "no_last_checkpoints", "no_progress_bar", "no_reshard_after_forward", "no_save", "no_save_optimizer_state",
         "no_seed_provided", "source_lang", "target_lang", "task", "tie_adaptive_weights", "relu_dropout",
         "checkpoint_activations", "quant_noise_pq", "quant_noise_pq_block_size", "quant_noise_scalar"),
        "training, saving and batching", of=("fairseq",),
    ),
    InertSettings(
        ("offload_activations", "min_params_to_wrap", "adam_betas", "adam_eps", "all_gather_list_size", "batch_size",
         "batch_size_valid", "best_checkpoint_metric", "broadcast_buffers", "bucket_cap_mb", "checkpoint_suffix",
         "clip_norm", "cpu", "criterion", "curriculum", "data", "data_buffer_size", "dataset_impl", "ddp_backend",
         "device_id", "disable_validation", "distributed_backend", "distributed_init_method",
         "distributed_no_spawn", "distributed_num_procs", "distributed_port", "distributed_rank",
         "distributed_world_size", "distributed_wrapper", "empty_cache_freq", "eval_bleu", "eval_bleu_args",
         "eval_bleu_detok", "eval_bleu_detok_args", "eval_bleu_print_samples", "eval_bleu_remove_bpe",
         "eval_tokenized_bleu", "fast_stat_sync", "find_unused_parameters", "fix_batches_to_gpus",
         "fixed_validation_seed", "fp16", "fp16_init_scale", "fp16_no_flatten_grads", "fp16_scale_tolerance",
         "fp16_scale_window", "gen_subset", "ignore_prefix_size", "keep_best_checkpoints",
         "keep_interval_updates", "keep_last_epochs", "label_smoothing", "lazy_load", "load_alignments",
         "local_rank", "log_format", "log_interval", "lr", "lr_scheduler", "lr_shrink", "max_epoch",
         "max_sentences", "max_sentences_valid", "max_tokens", "max_tokens_valid", "max_update",
         "maximize_best_checkpoint_metric", "memory_efficient_fp16", "min_loss_scale", "min_lr", "model_parallel_size",
         "num_shards", "num_workers", "optimizer", "optimizer_overrides", "patience", "profile", "raw_text",
         "report_accuracy", "required_batch_size_multiple", "reset_dataloader", "reset_lr_scheduler",
         "reset_meters", "reset_optimizer", "restore_file", "save_dir", "save_interval", "save_interval_updates",
         "scoring", "seed", "sentence_avg", "shard_id", "skip_invalid_size_inputs_valid_test", "stop_time_hours",
         "tensorboard_logdir", "threshold_loss_scale", "train_subset",
         "update_freq", "upsample_primary", "use_bmuf", "use_old_adam", "user_dir", "valid_subset",
         "validate_after_updates", "validate_interval", "validate_interval_updates", "wandb_project",
         "warmup_init_lr", "warmup_updates", "weight_decay"),
        "how a model was trained, saved and logged", of=("fairseq",),
    ),
    InertSettings(
        ("tokenizer", "bpe", "truncate_source"), "the preparation of text, which comes before the model",
        of=("fairseq",),
    ),
    InertSettings(
        ("export", "char_inputs", "encoder_embed_only", "base_layers"), "options that are off",
        (False, 0), ("fairseq",),
    ),
)  # fmt: skip


@functools.cache
def inert_settings(model_type: str) -> Mapping[str, InertSettings]:
    """Returns the entries for a model type, by the name of the setting."""
    return {name: entry for entry in INERT_SETTINGS if not entry.of or model_type in entry.of for name in entry.names}
