"""The variants: every choice of a model's parts, what changes for it, and what it is checked
against.

A new variant is one entry here, beside its code, its field and its test. What an entry claims is
tested: that the systems it names have the variant, that its tests exist and use that tolerance, and
that no choice of a field is missing.
"""

from typing import Any

from zoo.config.fields import BY_PATH
from zoo.layers import attention, block, characters, feedforward, norm, performer, position, recurrent, scalar_mix
from zoo.layers.position import relative, rope
from zoo.models import elmo, encoder_decoder, head, language_model
from zoo.objectives.bidirectional import BidirectionalObjective
from zoo.objectives.causal import CausalObjective
from zoo.objectives.cross_entropy import cross_entropy
from zoo.objectives.denoising import DenoisingObjective
from zoo.objectives.masked import MaskedObjective
from zoo.objectives.prefix import PrefixObjective
from zoo.objectives.prefix_decoder import PrefixDecoderObjective
from zoo.objectives.span_corruption import SpanObjective
from zoo.objectives.tasks.classification import ClassificationObjective, RegressionObjective
from zoo.objectives.tasks.extraction import ExtractionObjective
from zoo.objectives.tasks.tagging import TaggingObjective
from zoo.objectives.translation import TranslationObjective
from zoo.variants.variant import BASELINES, ReferenceTest, Variant


def numpy(where: str, tolerance: float = 1e-5) -> ReferenceTest:
    """A comparison with float64 numpy, written from the paper's equation."""
    return ReferenceTest("numpy in float64, from the equation", f"tests/{where}", tolerance)


WHOLE = numpy("models/test_language_model.py::test_logits_are_the_reference_s", 2e-5)
LAYER = numpy("layers/test_attention.py::test_a_layer_is_the_equation", 2e-5)
BLOCK = numpy("layers/test_block.py::test_a_block_is_its_equation")
NORM = numpy("layers/test_norm.py::test_a_norm_is_its_equation")
FFN = numpy("layers/test_feedforward.py::test_a_layer_is_its_equation")
FREQUENCIES = numpy("layers/test_position.py::test_stretched_frequencies_are_their_formulas", 2e-5)
SINUSOID = numpy("layers/test_position.py::test_sinusoids_are_added_to_the_embedding")
TORCH_BLOCK = ReferenceTest(
    "torch.nn.TransformerEncoderLayer", "tests/parity/test_torch_blocks.py::test_a_block_is_torch_s_encoder_layer", 1e-5
)
TORCH_NORM = ReferenceTest(
    "torch.nn.LayerNorm and RMSNorm", "tests/parity/test_torch_blocks.py::test_norms_are_torch_s", 1e-5
)
SINKS = ReferenceTest(
    "GptOssAttention of transformers", "tests/parity/test_sinks.py::test_attention_with_sinks_is_gpt_oss_s", 1e-5
)
FAVOR = ReferenceTest(
    "FastAttention of performer-pytorch", "tests/parity/test_performer.py::test_both_directions", 1e-5
)
BILM = ReferenceTest(
    "the published bilm's outputs", "tests/parity/test_elmo_published.py::test_three_streams_of_sentences", 3e-6
)
ROPE = {"model.position.kind": "rope"}
ENCODER_WINDOW = {"model.attention.window": 257}
TABLE = "model.position.kind"
CLASSES = {"objective.kind": "classification", "model.head.classes": 4}


def choice(
    path: str, value: Any, part: str, name: str = "", more: dict[str, Any] | None = None, **rest: Any
) -> Variant:
    """The variant that is one choice of a field; for the baseline's own choice nothing changes."""
    baseline = BASELINES[rest.get("baseline", "decoder")].get(path, BY_PATH[path].default)
    return Variant(
        name or str(value), part, (more or {}) | ({} if value == baseline else {path: value}), {path: value}, **rest
    )


def stretched(kind: str, source: Any, systems: tuple[str, ...]) -> Variant:
    """RoPE over four times the length it was trained with."""
    return choice(
        "model.position.scaling.kind",
        kind,
        "position",
        f"rope-{kind}",
        ROPE
        | {"model.position.scaling.factor": 4.0}
        | ({} if kind == "linear" else {"model.position.scaling.original_length": 256}),
        source=source,
        systems=systems,
        tests=(FREQUENCIES,),
    )


VARIANTS: tuple[Variant, ...] = (
    # Normalisation
    choice("model.norm.kind", "layernorm", "normalisation", source=norm.LayerNorm, systems=("gpt2", "bert"), tests=(NORM, TORCH_NORM)),
    choice("model.norm.kind", "rmsnorm", "normalisation", source=norm.RMSNorm, systems=("llama", "t5"), tests=(NORM, TORCH_NORM)),
    choice("model.norm.kind", "centering", "normalisation", source=norm.CenteringNorm, tests=(NORM,)),
    choice("model.norm.kind", "batchnorm", "normalisation", source=norm.BatchNorm, tests=(
        numpy("layers/test_norm.py::test_batch_norm_in_training_is_algorithm_1_over_the_filled_slots"),)),
    choice("model.norm.kind", "none", "normalisation", "no-norm", source=norm.NoNorm, paper="a control",
           tests=(numpy("layers/test_block.py::test_a_block_without_norm"),)),
    choice("model.norm.unit_offset", True, "normalisation", "unit-offset", {"model.norm.kind": "rmsnorm"},
           equation="y = x / sqrt(mean(x^2) + epsilon) * (1 + w), w from 0, so that weight decay draws the factor to 1.",
           paper="Gemma Team 2024 (Gemma)", systems=("gemma", "gemma2"), tests=(WHOLE,)),
    choice("model.norm.scale", False, "normalisation", "no-norm-scale", equation="y = (x - mean(x)) / sqrt(variance(x) + epsilon) + bias.",
           paper="a control; Xu et al. 2019 (LayerNorm-simple)", tests=(
               numpy("layers/test_norm.py::test_the_switches_for_scale_and_bias_change_nothing_else", 1e-7),)),
    choice("model.norm.bias", False, "normalisation", "no-norm-bias", equation="y = (x - mean(x)) / sqrt(variance(x) + epsilon) * scale.",
           paper="a control; Xu et al. 2019", tests=(
               numpy("layers/test_norm.py::test_the_switches_for_scale_and_bias_change_nothing_else", 1e-7),)),
    # Placement
    choice("model.norm.placement", "pre", "placement", source=block.PreNormBlock, systems=("gpt2", "llama"), tests=(BLOCK, TORCH_BLOCK)),
    choice("model.norm.placement", "post", "placement", source=block.PostNormBlock, systems=("gpt1", "bert"), tests=(BLOCK, TORCH_BLOCK)),
    choice("model.norm.placement", "sandwich", "placement", source=block.SandwichBlock, systems=("gemma2", "gemma3"), tests=(BLOCK,)),
    choice("model.norm.placement", "reordered", "placement", source=block.ReorderedBlock, systems=("olmo2",), tests=(BLOCK,)),
    choice("model.norm.placement", "deepnorm", "placement", source=block.DeepNormBlock, tests=(
        numpy("layers/test_block.py::test_deepnorm_weighs_the_stream_and_scales_what_it_starts_from"),)),
    choice("model.residual", False, "placement", "no-residual", paper="a control",
           equation="x = f(Norm(x)): each sublayer's output alone, without x + in front of it.", tests=(BLOCK,)),
    choice("model.parallel", "shared_norm", "placement", "parallel-shared-norm", paper="Wang & Komatsuzaki 2021 (GPT-J)",
           equation="x = x + Attention(Norm(x)) + FFN(Norm(x)), one norm for both.", systems=("gpt-j",), tests=(WHOLE,)),
    choice("model.parallel", "own_norms", "placement", "parallel", paper="Black et al. 2022, section 2.1 (GPT-NeoX-20B)",
           equation="x = x + Attention(Norm_1(x)) + FFN(Norm_2(x)).", systems=("gpt-neox",), tests=(WHOLE,)),
    # Positions
    choice(TABLE, "none", "position", "nope", paper="Haviv et al. 2022; Kazemnejad et al. 2023",
           equation="x_t = E[token_t]: in a decoder only the causal mask tells order; an encoder is equivariant to permutations.",
           tests=(WHOLE,)),
    choice(TABLE, "learned", "position", source=position.POSITIONS["learned"], systems=("gpt1", "gpt2", "bert"), tests=(WHOLE,)),
    choice("model.position.offset", 2, "position", "position-offset", paper="Liu et al. 2019 (RoBERTa's code)",
           equation="x_t + P[2 + t]: the first two rows of the table belong to no position.", systems=("roberta",), tests=(WHOLE,)),
    choice(TABLE, "sinusoidal", "position", source=position.POSITIONS["sinusoidal"],
           systems=("distilbert-sinusoidal", "transformer"), tests=(SINUSOID,)),
    choice("model.position.layout", "half", "position", "sinusoidal-half", {TABLE: "sinusoidal"}, source=position.sinusoid,
           systems=("transformer",), tests=(SINUSOID,)),
    choice("model.position.endpoint", True, "position", "sinusoidal-endpoint", {TABLE: "sinusoidal"},
           paper="Vaswani et al. 2017, in the authors' code (tensor2tensor); Ott et al. 2019 (fairseq)",
           equation="PE[p, 2i] = sin(p / 10000^(i / (D/2 - 1))), PE[p, 2i+1] = cos(p / 10000^(i / (D/2 - 1))).", tests=(SINUSOID,)),
    choice(TABLE, "rope", "position", source=rope.Rope, systems=("llama", "mistral"), tests=(
        ReferenceTest("complex numbers in float64", "tests/layers/test_position.py::test_rope_multiplies_complex_numbers", 1e-5),)),
    choice("model.position.layout", "interleaved", "position", "rope-interleaved", ROPE, source=rope.rotate_pairs,
           systems=("gpt-j", "roformer"), tests=(WHOLE,)),
    choice("model.position.fraction", 0.5, "position", "partial-rotary", ROPE, paper="Wang & Komatsuzaki 2021 (GPT-J)",
           equation="The first fraction * K dimensions of a head turn with angles p * theta^(-2i / (fraction * K)), the rest stay.",
           systems=("gpt-neox",), tests=(WHOLE,)),
    stretched("linear", rope.linear_frequencies, ("llama-linear",)),
    stretched("dynamic", rope.dynamic_frequencies, ("llama-dynamic",)),
    stretched("yarn", rope.yarn_frequencies, ("llama-yarn",)),
    stretched("llama3", rope.llama3_frequencies, ("llama-3.1",)),
    choice(TABLE, "alibi", "position", source=relative.Alibi, systems=("bloom", "mpt-6-heads"), tests=(LAYER,)),
    choice(TABLE, "relative_bias", "position", "relative-bias", source=relative.RelativeBias, systems=("t5", "t5-1.1"), tests=(WHOLE,)),
    choice("model.position.shared", False, "position", "relative-bias-per-layer", {TABLE: "relative_bias"}, source=relative.RelativeBias,
           paper="Chung et al. 2023 (umT5)", systems=("umt5",), tests=(LAYER,)),
    choice(TABLE, "shaw", "position", source=relative.ShawPosition, tests=(LAYER,)),
    choice("model.position.relative_values", False, "position", "shaw-keys", {TABLE: "shaw"}, source=relative.ShawPosition,
           systems=("shaw-keys",), tests=(LAYER,)),
    # Attention
    choice("model.attention.kind", "softmax", "attention", "multi-head", source=attention.Attention, systems=("gpt2",), tests=(LAYER,)),
    Variant("grouped-query", "attention", {"model.attention.num_kv_heads": 4}, paper="Ainslie et al. 2023",
            equation="out_h = softmax(scale * q_h k_g^T) v_g, g = floor(h G / H): H / G query heads share a key and value head.",
            systems=("llama-grouped",), tests=(LAYER,)),
    Variant("multi-query", "attention", {"model.attention.num_kv_heads": 1}, paper="Shazeer 2019",
            equation="out_h = softmax(scale * q_h k^T) v: all H query heads share one key and value head, G = 1.",
            systems=("llama-multi-query",), tests=(LAYER,)),
    Variant("shared-queries", "attention", {"model.attention.num_query_heads": 2}, paper="a control; cf. Shazeer 2019",
            equation="out_h = softmax(scale * q_r k_g^T) v_g, r = floor(h Q / H): H / Q heads share a query, as others a key and value.",
            tests=(LAYER,)),
    Variant("grouped-cross-attention", "attention", {"model.attention.cross_kv_heads": 4}, paper="Ainslie et al. 2023",
            equation="In cross-attention out_h = softmax(scale * q_h k_g^T) v_g, g = floor(h C / H), C key and value heads of its own.",
            baseline="encoder_decoder", tests=(numpy("models/test_encoder_decoder.py::test_logits_are_the_reference_s", 2e-5),)),
    Variant("single-head", "attention", {"model.attention.num_heads": 1}, paper="a control; Vaswani et al. 2017, table 3, row A",
            equation="out = softmax(scale * q k^T) v with H = 1 and one head as wide as the model.", tests=(WHOLE,)),
    Variant("window", "attention", {"model.attention.window": 256}, paper="Beltagy et al. 2020, section 3.1; Jiang et al. 2023 (Mistral)",
            equation="Query t sees the keys s with t - W < s <= t: W keys, its own included.", systems=("mistral",), tests=(LAYER,)),
    Variant("symmetric-window", "attention", ENCODER_WINDOW, paper="Beltagy et al. 2020, section 3.1", baseline="encoder",
            equation="Query t sees the keys s with |t - s| <= (W - 1) / 2: W keys, its own included, W odd.",
            systems=("longformer-local",), tests=(LAYER,)),
    Variant("dilated-window", "attention", {"model.attention.window": 256, "model.attention.dilations": (1, 2)},
            equation="Query t of head h sees the keys s = t - i d, 0 <= i < W, d that of the head in turn: W keys, over W d tokens.",
            paper="Beltagy et al. 2020, section 3.1, Dilated Sliding Window", tests=(LAYER,)),
    Variant("global-tokens", "attention", ENCODER_WINDOW | {"model.attention.global_tokens": 1}, paper="Beltagy et al. 2020, section 3.1",
            equation="As symmetric-window; the first g tokens see all keys s, and every query sees s < g.", baseline="encoder",
            tests=(LAYER,)),
    Variant("global-projections", "attention", ENCODER_WINDOW | {
        "model.attention.global_tokens": 1, "model.attention.global_projections": True}, baseline="encoder",
            equation="As global-tokens; these ask with q = x W_q', k = x W_k', v = x W_v', matrices of their own.",
            paper="Beltagy et al. 2020, section 3.1, Linear Projections for Global Attention", systems=("longformer",), tests=(LAYER,)),
    Variant("local-global", "attention", {"model.layers.pattern": ("local", "global"), "model.layers.kinds.local.attention.window": 256,
                                          "model.layers.kinds.global.attention.window": 0},
            equation="Layers in turn: in a local one query t sees t - W < s <= t, in a global one all s <= t.",
            paper="Gemma Team 2024 (Gemma 2), section 2", systems=("gemma2", "gemma3"), tests=(WHOLE,)),
    Variant("nope-layers", "attention", ROPE | {"model.layers.pattern": ("rope", "rope", "rope", "plain"),
                                                "model.layers.kinds.rope.position.kind": "rope",
                                                "model.layers.kinds.plain.position.kind": "none"},
            equation="q and k are rotated in three layers of four; in every fourth they are not: score(t, s) = scale * q_t . k_s.",
            paper="Yang et al. 2025 (RNoPE); SmolLM3", systems=("smollm3",), tests=(WHOLE,)),
    choice("model.attention.qk_norm", "head", "attention", "qk-norm", source=attention.HeadNorm, systems=("qwen3",), tests=(LAYER,)),
    choice("model.attention.qk_norm", "full", "attention", "qk-norm-full", source=attention.HeadNorm,
           paper="OLMo Team 2025 (OLMo 2)", systems=("olmo2",), tests=(LAYER,)),
    choice("model.attention.softcap", 50.0, "attention", "attention-softcap", paper="Gemma Team 2024 (Gemma 2), section 2",
           equation="score = c * tanh(scale * q . k / c), before masking and softmax.", systems=("gemma2",), tests=(LAYER,)),
    choice("model.attention.sinks", True, "attention", "sinks", paper="OpenAI 2025 (gpt-oss); Xiao et al. 2023",
           equation="p_s = exp(score_s) / (exp(b_h) + sum_r exp(score_r)), b_h learned per head.", tests=(LAYER, SINKS)),
    choice("model.attention.scale", 1.0, "attention", "unscaled", paper="Raffel et al. 2020 (T5); Vaswani et al. 2017, section 3.2.1",
           equation="score = q . k, without 1 / sqrt(K).", systems=("t5", "gpt2-unscaled-relu"), tests=(WHOLE,)),
    choice("model.attention.bias", False, "attention", "no-attention-bias", equation="q = x W_q, and so for k, v and the output: no b.",
           paper="Touvron et al. 2023 (LLaMA); Raffel et al. 2020 (T5)", systems=("llama", "t5"), tests=(LAYER,)),
    choice("model.attention.kind", "performer", "attention", source=performer.performer_attention, tests=(
        FAVOR, numpy("layers/test_performer.py::test_outputs_and_gradients_are_the_equations"))),
    # Feed-forward
    *(choice("model.ffn.kind", kind, "feed-forward", source=feedforward.FeedForward, systems=systems, tests=(FFN,)) for kind, systems in {
        "relu": ("t5", "transformer", "gpt2-unscaled-relu"), "gelu": ("gpt2", "bert"), "silu": ("marian-uneven", "bert-untied"),
        "swiglu": ("llama", "mistral"), "geglu": ("gemma", "t5-1.1"), "reglu": ()}.items()),
    choice("model.ffn.gelu_approximation", "tanh", "feed-forward", "gelu-tanh", paper="Hendrycks & Gimpel 2016, section 2; GPT-2's code",
           equation="gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).", systems=("gpt1", "gpt2", "bloom"), tests=(FFN,)),
    choice("model.ffn.match_parameters", True, "feed-forward", "matched-parameters", {"model.ffn.kind": "swiglu"},
           source=feedforward.hidden_dim, tests=(ReferenceTest("counts of parameters",
           "tests/layers/test_feedforward.py::test_matched_gated_kinds_have_as_many_parameters", 0.02),)),
    choice("model.ffn.bias", False, "feed-forward", "no-ffn-bias", equation="y = act(x W_up) W_down: no b.",
           paper="Touvron et al. 2023 (LLaMA); Raffel et al. 2020 (T5)", systems=("llama", "t5"), tests=(FFN,)),
    # Embedding and head
    choice("model.embedding.scale", "sqrt_dim", "embedding and head", "scaled-embedding", source=language_model.embed,
           systems=("transformer", "gemma"), tests=(WHOLE,)),
    choice("model.embedding.norm", True, "embedding and head", "embedding-norm", equation="x = Norm(E[token] + position + segment).",
           paper="Devlin et al. 2019 (BERT's code); Le Scao et al. 2022, section 3.2.2 (BLOOM)", systems=("bert", "bloom"), tests=(WHOLE,)),
    choice("model.embedding.segments", 2, "embedding and head", "segments", equation="x_t = E[token_t] + P[t] + S[segment_t].",
           paper="Devlin et al. 2019, section 3", baseline="encoder", systems=("bert",), tests=(WHOLE,)),
    choice("model.embedding.shared", False, "embedding and head", "two-embeddings", paper="Press & Wolf 2017, section 4, for one",
           equation="x_s = E_source[source_s], y_t = E[target_t]; the head is tied to E.", baseline="encoder_decoder", tests=(
               numpy("models/test_encoder_decoder.py::test_logits_are_the_reference_s"),)),
    choice("model.tie_embeddings", False, "embedding and head", "untied-head", paper="Press & Wolf 2017 for the tied one",
           equation="logits = h W^T, W [V, D] apart from the token embedding E.", systems=("llama", "t5-1.1"), tests=(WHOLE,)),
    choice("model.head.transform", True, "embedding and head", "head-transform", source=head.Head, systems=("bert",), tests=(WHOLE,)),
    choice("model.head.bias", True, "embedding and head", "head-bias", equation="logits = h E^T + b, b [V].",
           paper="Devlin et al. 2019 (BERT's code)", systems=("bert", "transformer"), tests=(WHOLE,)),
    choice("model.head.scale", "rsqrt_dim", "embedding and head", "scaled-head", paper="Raffel et al. 2020 (T5's code)",
           equation="logits = (h / sqrt(D)) E^T, for a tied head.", systems=("t5",), tests=(WHOLE,)),
    choice("model.head.softcap", 30.0, "embedding and head", "logit-softcap", paper="Gemma Team 2024 (Gemma 2), section 2",
           equation="logits = c * tanh(h E^T / c).", systems=("gemma2",), tests=(WHOLE,)),
    choice("model.head.pooler", True, "embedding and head", "pooler", equation="pooled = tanh(h_0 W + b), h_0 the first token's.",
           paper="Devlin et al. 2019 (BERT's code)", baseline="encoder", systems=("bert",), tests=(
               numpy("models/test_language_model.py::test_the_pooler_reads_the_first_token"),)),
    choice("model.head.next_sentence", True, "embedding and head", "next-sentence", {"model.head.pooler": True}, baseline="encoder",
           equation="logits [2] = tanh(h_0 W + b) W' + b'.", paper="Devlin et al. 2019, section 3.1, Task 2", systems=("bert",), tests=(
               numpy("models/test_language_model.py::test_the_pooler_reads_the_first_token"),)),
    # Architectures and what they are trained for
    choice("model.architecture", "decoder", "architecture", equation="h = Blocks(E[tokens]), in which query t sees the keys s <= t.",
           paper="Radford et al. 2018 (GPT)", systems=("gpt2",), tests=(WHOLE,)),
    choice("objective.kind", "causal", "architecture", "causal-lm", source=CausalObjective, systems=("gpt2",), tests=(
        numpy("objectives/test_causal.py::test_the_loss_is_the_reference_s"),)),
    choice("model.architecture", "encoder", "architecture", "encoder", {"objective.kind": "masked"}, paper="Devlin et al. 2019 (BERT)",
           equation="h = Blocks(E[tokens]), in which query t sees all keys s.", systems=("bert",), tests=(WHOLE,)),
    Variant("masked-lm", "architecture", BASELINES["encoder"], source=MaskedObjective, systems=("bert",), tests=(
        numpy("objectives/test_masked.py::test_the_loss_is_that_of_every_row_alone"),)),
    choice("model.architecture", "encoder_decoder", "architecture", "encoder-decoder", {"objective.kind": "prefix"},
           source=encoder_decoder.EncoderDecoder, paper="Vaswani et al. 2017, section 3", systems=("transformer", "t5"), tests=(
               numpy("objectives/test_prefix.py::test_the_loss_is_that_of_every_row_alone"),)),
    Variant("prefix-lm", "architecture", BASELINES["encoder_decoder"], source=PrefixObjective, systems=("t5",), tests=(
        numpy("objectives/test_prefix.py::test_the_loss_is_that_of_every_row_alone"),)),
    Variant("prefix-lm-decoder", "architecture", {"objective.kind": "prefix"}, source=PrefixDecoderObjective, tests=(
        numpy("objectives/test_prefix_decoder.py::test_the_loss_is_the_reference_s"),)),
    Variant("span-corruption", "architecture", {"model.architecture": "encoder_decoder", "objective.kind": "span"}, source=SpanObjective,
            tests=(numpy("objectives/test_spans.py::test_the_loss_is_that_of_every_row_alone"),)),
    Variant("denoising", "architecture", {"model.architecture": "encoder_decoder", "objective.kind": "denoising"},
            source=DenoisingObjective, tests=(numpy("objectives/test_denoising.py::test_the_loss_is_that_of_every_row_alone"),)),
    Variant("translation", "architecture", {"model.architecture": "encoder_decoder", "objective.kind": "translation"},
            source=TranslationObjective, tests=(
                numpy("objectives/test_translation.py::test_the_loss_is_that_of_every_pair_alone"),)),
    choice("model.architecture", "elmo", "architecture", "elmo", {"objective.kind": "bidirectional"}, source=elmo.ELMo, tests=(
        BILM, numpy("models/test_elmo.py::test_a_model_is_its_equations"))),
    Variant("bidirectional-lm", "architecture", BASELINES["elmo"], source=BidirectionalObjective, tests=(
        numpy("objectives/test_bidirectional.py::test_the_loss_is_that_of_every_row_alone"),)),
    Variant("character-cnn", "architecture", {}, source=characters.CharacterCNN, paper="Kim et al. 2016; Peters et al. 2018, section 3.4",
            baseline="elmo", tests=(numpy("layers/test_characters.py::test_a_token_s_vector_is_its_equation"),)),
    Variant("projected-lstm", "architecture", {}, source=recurrent.ProjectedLSTM, baseline="elmo", paper="Sak et al. 2014", tests=(
        numpy("layers/test_recurrent.py::test_a_layer_is_its_equation"),)),
    choice("objective.kind", "classification", "tasks", more={"model.head.classes": 4}, source=ClassificationObjective, baseline="encoder",
           tests=(numpy("objectives/test_classification.py::test_a_loss_is_that_of_every_row_alone"),)),
    choice("objective.kind", "regression", "tasks", source=RegressionObjective, baseline="encoder", tests=(
        numpy("objectives/test_classification.py::test_a_loss_is_that_of_every_row_alone"),)),
    choice("objective.kind", "tagging", "tasks", more={"model.head.classes": 4}, source=TaggingObjective, baseline="encoder", tests=(
        numpy("objectives/test_spans_of_text.py::test_a_loss_is_that_of_every_row_alone"),)),
    choice("objective.kind", "extraction", "tasks", source=ExtractionObjective, baseline="encoder", tests=(
        numpy("objectives/test_spans_of_text.py::test_a_loss_is_that_of_every_row_alone"),)),
    *(choice("model.head.pooling", kind, "tasks", f"pool-{kind}", CLASSES, baseline="encoder", paper=paper, equation=equation, tests=(
        numpy("objectives/test_classification.py::test_a_loss_is_that_of_every_row_alone"),)) for kind, paper, equation in (
            ("first", "Devlin et al. 2019, section 4.1", "v = h_0, the state of [CLS]; scores = v W + b."),
            ("last", "Radford et al. 2018, section 3.2", "v = h_n, the state of a row's last token; scores = v W + b."),
            ("mean", "Reimers & Gurevych 2019, section 3", "v = (h_0 + ... + h_n) / (n + 1); scores = v W + b."))),
    Variant("scalar-mix", "tasks", CLASSES, source=scalar_mix.scalar_mix, baseline="elmo", tests=(
        numpy("layers/test_scalar_mix.py::test_a_mixture_is_its_equation"),
        numpy("models/test_elmo_features.py::test_scores_are_those_of_the_mixture_by_hand"))),
    choice("model.elmo.layer_norm", True, "tasks", "normalised-layers", CLASSES, source=scalar_mix.normalise_layers, baseline="elmo",
           tests=(numpy("models/test_elmo_features.py::test_scores_are_those_of_the_mixture_by_hand"),)),
    choice("objective.z_loss", 1e-4, "architecture", "z-loss", source=cross_entropy, tests=(
        numpy("objectives/test_causal.py::test_training_adds_the_z_loss_and_reports_without_it"),)),
    choice("objective.label_smoothing", 0.1, "architecture", "label-smoothing", paper="Szegedy et al. 2016, section 7; Vaswani et al. 2017",
           equation="L = -sum_v q_v log p_v, q_v = (1 - e) [v = target] + e / V, in training; evaluation reports -log p(target).", tests=(
               numpy("objectives/test_cross_entropy.py::test_what_a_head_may_add", 3e-6),)),
)  # fmt: skip
