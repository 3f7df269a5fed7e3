"""Comparisons of variants with references in the test suite, by the names of the variants."""

from zoo.variants.variant import ReferenceTest


def _numpy(where: str, tolerance: float = 1e-5) -> ReferenceTest:
    """Returns a comparison with float64 numpy, written from the paper's equation."""
    return ReferenceTest("numpy in float64, from the equation", f"tests/{where}", tolerance)


WHOLE = _numpy("models/test_language_model.py::test_logits_match_the_reference", 2e-05)
LAYER = _numpy("layers/attention/test_attention.py::test_a_layer_is_the_equation", 2e-05)
BLOCK = _numpy("layers/test_block.py::test_block_matches_its_equation")
NORM = _numpy("layers/test_norm.py::test_norm_matches_its_equation")
TORCH_BLOCK = ReferenceTest(
    "torch.nn.TransformerEncoderLayer",
    "tests/parity/parts/test_torch_blocks.py::test_blocks_match_torch_encoder_layers",
    1e-05,
)
TORCH_NORM = ReferenceTest(
    "torch.nn.LayerNorm and RMSNorm", "tests/parity/parts/test_torch_blocks.py::test_norms_match_torch", 1e-05
)
FREQUENCIES = _numpy("layers/test_position.py::test_scaled_rope_frequencies_match_their_formulas", 2e-05)
SINUSOID = _numpy("layers/test_position.py::test_sinusoids_are_added_to_the_embedding")
DEEPSEEK = ReferenceTest(
    "DeepseekV3Attention of transformers",
    "tests/parity/parts/test_latent.py::test_latent_attention_matches_deepseek_v3",
    1e-05,
)
CONVOLUTION = _numpy("layers/test_short_convolution.py::test_block_matches_its_equation_in_packed_and_padded_rows")
FFN = _numpy("layers/test_feedforward.py::test_layer_matches_its_equation")
MODELS = ReferenceTest(
    "the layer of the model that brought it, in transformers",
    "tests/parity/parts/test_feed_forwards.py::test_feed_forward_layers_match_their_reference_models",
    1e-05,
)
ROWS_ALONE = _numpy("objectives/test_classification.py::test_loss_equals_that_of_each_row_alone")
HUGGING_FACE = ReferenceTest(
    "...ForSequenceClassification of transformers",
    "tests/parity/models/test_published_classes.py::test_outputs_match_the_class_and_weights_round_trip",
    0.0001,
)
BARE_NORM = _numpy("layers/test_norm.py::test_norm_without_scale_and_bias_uses_1_and_0", 1e-07)
POOLER = _numpy("models/test_language_model.py::test_pooler_reads_the_first_token")
PREFIX = _numpy("objectives/test_prefix.py::test_the_loss_is_that_of_every_row_alone")
SPANS = _numpy("objectives/test_spans_of_text.py::test_loss_equals_that_of_each_row_alone")
MIXTURE = _numpy("models/test_elmo_features.py::test_scores_equal_the_mixture_computed_by_hand")


TESTS: dict[str, tuple[ReferenceTest, ...]] = {
    "layernorm": (NORM, TORCH_NORM),
    "rmsnorm": (NORM, TORCH_NORM),
    "centering": (NORM,),
    "dynamic-tanh": (NORM,),
    "batchnorm": (_numpy("layers/test_norm.py::test_batch_norm_in_training_is_algorithm_1_over_filled_slots"),),
    "no-norm": (_numpy("layers/test_block.py::test_block_without_norms_matches_its_equation"),),
    "no-input-norm": (_numpy("layers/test_block.py::test_attention_without_input_norm_matches_its_equation"),),
    "unit-offset": (WHOLE,),
    "no-norm-scale": (BARE_NORM,),
    "no-norm-bias": (BARE_NORM,),
    "pre": (BLOCK, TORCH_BLOCK),
    "post": (BLOCK, TORCH_BLOCK),
    "sandwich": (BLOCK,),
    "reordered": (BLOCK,),
    "layernorm-scaling": (BLOCK,),
    "layerscale": (BLOCK,),
    "x0-shortcut": (BLOCK,),
    "deepnorm": (_numpy("layers/test_block.py::test_deepnorm_weights_the_stream_and_scales_initial_values"),),
    "zero-outputs": (_numpy("layers/test_block.py::test_block_initialised_as_the_identity_has_gradients", 0.0),),
    "no-residual": (BLOCK,),
    "parallel-shared-norm": (WHOLE,),
    "parallel": (WHOLE,),
    "nope": (WHOLE,),
    "learned": (WHOLE,),
    "position-offset": (WHOLE,),
    "sinusoidal": (SINUSOID,),
    "sinusoidal-half": (SINUSOID,),
    "sinusoidal-endpoint": (SINUSOID,),
    "rope": (
        ReferenceTest(
            "complex numbers in float64",
            "tests/layers/test_position.py::test_rope_equals_complex_multiplication",
            1e-05,
        ),
    ),
    "rope-interleaved": (WHOLE,),
    "partial-rotary": (WHOLE,),
    "p-rope": (LAYER,),
    "rope-linear": (FREQUENCIES,),
    "rope-dynamic": (FREQUENCIES,),
    "rope-yarn": (FREQUENCIES,),
    "rope-llama3": (FREQUENCIES,),
    "alibi": (LAYER,),
    "relative-bias": (WHOLE,),
    "relative-bias-per-layer": (LAYER,),
    "shaw": (LAYER,),
    "shaw-keys": (LAYER,),
    "multi-head": (LAYER,),
    "grouped-query": (LAYER,),
    "multi-query": (LAYER,),
    "shared-queries": (LAYER,),
    "grouped-cross-attention": (_numpy("models/test_encoder_decoder.py::test_logits_match_the_reference", 2e-05),),
    "single-head": (WHOLE,),
    "window": (LAYER,),
    "symmetric-window": (LAYER,),
    "dilated-window": (LAYER,),
    "global-tokens": (LAYER,),
    "global-projections": (LAYER,),
    "local-global": (WHOLE,),
    "nope-layers": (WHOLE,),
    "qk-norm": (LAYER,),
    "qk-norm-full": (LAYER,),
    "attention-softcap": (LAYER,),
    "sinks": (
        LAYER,
        ReferenceTest(
            "GptOssAttention of transformers",
            "tests/parity/parts/test_sinks.py::test_attention_sinks_match_gpt_oss",
            1e-05,
        ),
    ),
    "unscaled": (WHOLE,),
    "no-attention-bias": (LAYER,),
    "performer": (
        ReferenceTest(
            "FastAttention of performer-pytorch",
            "tests/parity/parts/test_performer.py::test_bidirectional_attention",
            1e-05,
        ),
        _numpy("layers/attention/test_performer.py::test_outputs_and_gradients_match_the_equations"),
    ),
    "cosine": (
        LAYER,
        ReferenceTest(
            "Swinv2SelfAttention of transformers",
            "tests/parity/parts/test_cosine.py::test_cosine_attention_matches_swin_v2",
            5e-05,
        ),
    ),
    "output-norm": (LAYER,),
    "output-gate": (
        LAYER,
        ReferenceTest(
            "Qwen3NextAttention of transformers",
            "tests/parity/parts/test_output_gate.py::test_elementwise_output_gate_matches_qwen3_next",
            1e-05,
        ),
    ),
    "head-gate": (LAYER,),
    "attended-gate": (LAYER,),
    "input-gate": (LAYER,),
    "exclusive": (LAYER,),
    "ssmax": (LAYER,),
    "softmax-plus-one": (
        LAYER,
        ReferenceTest(
            "MultiheadAttention(add_zero_attn=True) of torch.nn",
            "tests/parity/parts/test_softmax_plus_one.py::test_softmax_plus_one_equals_an_additional_zero_key",
            1e-05,
        ),
    ),
    "sigmoid-attention": (LAYER,),
    "forgetting": (LAYER,),
    "differential": (LAYER, WHOLE),
    "constant-lambda": (LAYER,),
    "latent": (LAYER, WHOLE, DEEPSEEK),
    "latent-queries": (LAYER, DEEPSEEK),
    "canon": (CONVOLUTION,),
    "primer": (CONVOLUTION,),
    "kv-shift": (CONVOLUTION,),
    "token-shift": (CONVOLUTION,),
    "value-residual": (WHOLE,),
    "learned-value-residual": (WHOLE,),
    "value-embedding": (WHOLE,),
    "relu": (FFN,),
    "gelu": (FFN,),
    "silu": (FFN,),
    "swiglu": (FFN,),
    "geglu": (FFN,),
    "reglu": (FFN,),
    "relu-squared": (FFN, MODELS),
    "leaky-relu-squared": (FFN,),
    "swiglu-clamped": (FFN, MODELS),
    "xielu": (FFN, MODELS),
    "gelu-tanh": (FFN,),
    "matched-parameters": (
        ReferenceTest(
            "counts of parameters",
            "tests/layers/test_feedforward.py::test_matched_gated_kinds_have_equal_parameter_counts",
            0.02,
        ),
    ),
    "no-ffn-bias": (FFN,),
    "scaled-embedding": (WHOLE,),
    "embedding-norm": (WHOLE,),
    "factorised-embedding": (WHOLE,),
    "segments": (WHOLE,),
    "two-embeddings": (_numpy("models/test_encoder_decoder.py::test_logits_match_the_reference"),),
    "untied-head": (WHOLE,),
    "head-transform": (WHOLE,),
    "no-head-transform-bias": (WHOLE,),
    "head-bias": (WHOLE,),
    "scaled-head": (WHOLE,),
    "logit-softcap": (WHOLE,),
    "pooler": (POOLER,),
    "next-sentence": (POOLER,),
    "decoder": (WHOLE,),
    "causal-lm": (_numpy("objectives/test_causal.py::test_the_loss_is_the_reference_s"),),
    "multi-token": (
        _numpy("objectives/test_multi_token.py::test_terms_are_the_surprisals_of_the_document_s_next_tokens"),
    ),
    "shared-layers": (
        ReferenceTest(
            "distinct layers with equal weights",
            "tests/models/test_shared_layers.py::test_shared_layers_equal_distinct_layers_with_equal_weights",
            1e-05,
        ),
    ),
    "encoder": (WHOLE,),
    "masked-lm": (_numpy("objectives/test_masked.py::test_loss_equals_that_of_each_row_alone"),),
    "masked-diffusion": (
        _numpy("objectives/test_masked_diffusion.py::test_loss_equals_that_of_each_row_alone"),
        ReferenceTest(
            "the mean loss over all orders of the tokens",
            "tests/objectives/test_masked_diffusion.py::test_the_bound_is_the_mean_over_all_orders",
            1e-05,
        ),
    ),
    "replaced-tokens": (_numpy("objectives/test_replaced_tokens.py::test_both_losses_equal_those_of_each_row_alone"),),
    "encoder-decoder": (PREFIX,),
    "prefix-lm": (PREFIX,),
    "prefix-lm-decoder": (_numpy("objectives/test_prefix_decoder.py::test_the_loss_is_the_reference_s"),),
    "span-corruption": (_numpy("objectives/test_spans.py::test_the_loss_is_that_of_every_row_alone"),),
    "denoising": (_numpy("objectives/test_denoising.py::test_loss_equals_that_of_each_row_alone"),),
    "translation": (_numpy("objectives/test_translation.py::test_loss_equals_that_of_each_pair_alone"),),
    "elmo": (
        ReferenceTest(
            "the published bilm's outputs",
            "tests/parity/models/test_elmo_published.py::test_states_match_the_published_ones",
            3e-06,
        ),
        _numpy("models/test_elmo.py::test_model_matches_its_equations"),
    ),
    "bidirectional-lm": (_numpy("objectives/test_bidirectional.py::test_loss_equals_that_of_each_row_alone"),),
    "character-cnn": (_numpy("layers/test_characters.py::test_token_vector_matches_its_equation"),),
    "projected-lstm": (_numpy("layers/test_recurrent.py::test_layer_matches_its_equation"),),
    "z-loss": (_numpy("objectives/test_causal.py::test_training_adds_the_z_loss_and_reports_without_it"),),
    "label-smoothing": (
        _numpy("objectives/losses/test_cross_entropy.py::test_head_options_equal_plain_cross_entropy", 3e-06),
    ),
    "classification": (ROWS_ALONE,),
    "regression": (ROWS_ALONE,),
    "tagging": (SPANS,),
    "extraction": (SPANS,),
    "pool-first": (ROWS_ALONE,),
    "pool-last": (ROWS_ALONE,),
    "pool-mean": (ROWS_ALONE,),
    "tanh-pooler": (ROWS_ALONE, HUGGING_FACE),
    "gelu-pooler": (ROWS_ALONE, HUGGING_FACE),
    "relu-pooler": (ROWS_ALONE, HUGGING_FACE),
    "scalar-mix": (_numpy("layers/test_scalar_mix.py::test_mixture_matches_its_equation"), MIXTURE),
    "normalised-layers": (MIXTURE,),
}
