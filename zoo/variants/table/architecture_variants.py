"""Architectures, and the objectives that they are trained for."""

from zoo.variants.table.entry import WHOLE, choice, numpy_reference
from zoo.variants.variant import BASELINES, ReferenceTest, Variant

BILM = ReferenceTest(
    "the published bilm's outputs",
    "tests/parity/models/test_elmo_published.py::test_states_match_the_published_ones",
    3e-6,
)

SHARED_LAYERS = ReferenceTest(
    "distinct layers with equal weights",
    "tests/models/test_shared_layers.py::test_shared_layers_equal_distinct_layers_with_equal_weights",
    1e-5,
)


ARCHITECTURE_VARIANTS: tuple[Variant, ...] = (
    choice(
        "model.architecture",
        "decoder",
        "architecture",
        equation="h = Blocks(E[tokens]), where query t sees the keys s <= t.",
        paper="Radford et al. 2018 (GPT)",
        systems=("gpt2",),
        tests=(WHOLE,),
        claims=("O12",),
        picture="mask",
    ),
    choice(
        "objective.kind",
        "causal",
        "objective",
        "causal-lm",
        source="zoo.objectives.causal:CausalObjective",
        systems=("gpt2",),
        tests=(numpy_reference("objectives/test_causal.py::test_the_loss_is_the_reference_s"),),
        details=("exp of the mean loss is the perplexity.",),
        claims=("O8",),
    ),
    choice(
        "objective.kind",
        "multi_token",
        "objective",
        "multi-token",
        source="zoo.objectives.multi_token:MultiTokenObjective",
        tests=(
            numpy_reference(
                "objectives/test_multi_token.py::test_terms_are_the_surprisals_of_the_document_s_next_tokens"
            ),
        ),
    ),
    choice(
        "model.layers.distinct",
        1,
        "architecture",
        "shared-layers",
        equation=(
            "x_l = f(x_{l-1}) for l = 1 ... L, with one layer f and one set of weights. The gradient of a weight is "
            "the sum over its L uses."
        ),
        paper="Lan et al. 2020, section 3.1 (ALBERT); Dehghani et al. 2019 (Universal Transformer, which also halts)",
        systems=("albert",),
        tests=(SHARED_LAYERS,),
        details=(
            "With n = `model.layers.distinct` layer l, counted from 0, has the weights of stored layer floor(l n / L). "
            "Operations, activations and the cache are those of L layers; parameters, gradients and the state of the "
            "optimizer are those of n. Dropout differs from layer to layer.",
        ),
    ),
    choice(
        "model.architecture",
        "encoder",
        "architecture",
        "encoder",
        {"objective.kind": "masked"},
        paper="Devlin et al. 2019 (BERT)",
        equation="h = Blocks(E[tokens]), where query t sees all keys s.",
        systems=("bert",),
        tests=(WHOLE,),
        claims=("O7",),
        picture="mask",
    ),
    Variant(
        "masked-lm",
        "objective",
        BASELINES["encoder"],
        source="zoo.objectives.masked:MaskedObjective",
        systems=("bert",),
        tests=(numpy_reference("objectives/test_masked.py::test_loss_equals_that_of_each_row_alone"),),
        details=(
            "round(0.15 n) of a row's n tokens are chosen, never [CLS] or [SEP]. A chosen token is shown as [MASK] "
            "with probability 0.8, as a random token with probability 0.1 and as it is with probability 0.1; all "
            "chosen ones are predicted. `objective.select_fraction`, `mask_token_fraction` and "
            "`random_token_fraction` set these shares ([recipes](../pretraining.md#masking)).",
        ),
        claims=("O2", "O3", "O4"),
    ),
    choice(
        "objective.kind",
        "masked_diffusion",
        "objective",
        "masked-diffusion",
        baseline="encoder",
        source="zoo.objectives.masked:MaskedDiffusionObjective",
        tests=(
            numpy_reference("objectives/test_masked_diffusion.py::test_loss_equals_that_of_each_row_alone"),
            ReferenceTest(
                "the mean loss over all orders of the tokens",
                "tests/objectives/test_masked_diffusion.py::test_the_bound_is_the_mean_over_all_orders",
                1e-5,
            ),
        ),
        claims=("V29",),
    ),
    choice(
        "objective.kind",
        "replaced_tokens",
        "objective",
        "replaced-tokens",
        baseline="encoder",
        source="zoo.objectives.replaced_tokens:ReplacedTokensObjective",
        systems=("electra",),
        tests=(numpy_reference("objectives/test_replaced_tokens.py::test_both_losses_equal_those_of_each_row_alone"),),
        claims=("V30",),
    ),
    choice(
        "model.architecture",
        "encoder_decoder",
        "architecture",
        "encoder-decoder",
        {"objective.kind": "prefix"},
        source="zoo.models.encoder_decoder:EncoderDecoder",
        paper="Vaswani et al. 2017, section 3",
        systems=("transformer", "t5"),
        tests=(numpy_reference("objectives/test_prefix.py::test_the_loss_is_that_of_every_row_alone"),),
        claims=("O8", "O12"),
        picture="architecture",
    ),
    Variant(
        "prefix-lm",
        "objective",
        BASELINES["encoder_decoder"],
        source="zoo.objectives.prefix:PrefixObjective",
        systems=("t5",),
        tests=(numpy_reference("objectives/test_prefix.py::test_the_loss_is_that_of_every_row_alone"),),
        claims=("O8",),
        picture="mask",
    ),
    Variant(
        "prefix-lm-decoder",
        "objective",
        {"objective.kind": "prefix"},
        source="zoo.objectives.prefix:PrefixDecoderObjective",
        tests=(numpy_reference("objectives/test_prefix_decoder.py::test_the_loss_is_the_reference_s"),),
        picture="mask",
    ),
    Variant(
        "span-corruption",
        "objective",
        {"model.architecture": "encoder_decoder", "objective.kind": "span"},
        source="zoo.objectives.span_corruption:SpanObjective",
        tests=(numpy_reference("objectives/test_spans.py::test_the_loss_is_that_of_every_row_alone"),),
        details=(
            "With noise density 0.15 and mean span length 3, a row of n tokens has about 0.15 n / 3 spans; T5's 568"
            " tokens become 512 in the encoder and 114 in the decoder.",
        ),
        claims=("O8",),
    ),
    Variant(
        "denoising",
        "objective",
        {"model.architecture": "encoder_decoder", "objective.kind": "denoising"},
        source="zoo.objectives.denoising:DenoisingObjective",
        tests=(numpy_reference("objectives/test_denoising.py::test_loss_equals_that_of_each_row_alone"),),
    ),
    Variant(
        "translation",
        "objective",
        {"model.architecture": "encoder_decoder", "objective.kind": "translation"},
        source="zoo.objectives.translation:TranslationObjective",
        tests=(numpy_reference("objectives/test_translation.py::test_loss_equals_that_of_each_pair_alone"),),
    ),
    choice(
        "model.architecture",
        "elmo",
        "architecture",
        "elmo",
        {"objective.kind": "bidirectional"},
        source="zoo.models.elmo:ELMo",
        tests=(BILM, numpy_reference("models/test_elmo.py::test_model_matches_its_equations")),
        claims=("O7", "O11", "O14"),
        picture="architecture",
    ),
    Variant(
        "bidirectional-lm",
        "objective",
        BASELINES["elmo"],
        source="zoo.objectives.bidirectional:BidirectionalObjective",
        tests=(numpy_reference("objectives/test_bidirectional.py::test_loss_equals_that_of_each_row_alone"),),
    ),
    Variant(
        "character-cnn",
        "architecture",
        {},
        source="zoo.layers.characters:CharacterCNN",
        paper="Kim et al. 2016; Peters et al. 2018, section 3.4",
        baseline="elmo",
        tests=(numpy_reference("layers/test_characters.py::test_token_vector_matches_its_equation"),),
    ),
    Variant(
        "projected-lstm",
        "architecture",
        {},
        source="zoo.layers.recurrent:ProjectedLSTM",
        baseline="elmo",
        paper="Sak et al. 2014",
        tests=(numpy_reference("layers/test_recurrent.py::test_layer_matches_its_equation"),),
    ),
    choice(
        "objective.z_loss",
        1e-4,
        "objective",
        "z-loss",
        source="zoo.objectives.cross_entropy:cross_entropy",
        tests=(numpy_reference("objectives/test_causal.py::test_training_adds_the_z_loss_and_reports_without_it"),),
        equation=(
            "loss = -log p(target) + z_loss * log(Z)^2, Z = sum_v exp(logits_v): the second term keeps log Z near 0, "
            "in training only."
        ),
        paper="Chowdhery et al. 2022, section 5 (PaLM), with 1e-4",
    ),
    choice(
        "objective.label_smoothing",
        0.1,
        "objective",
        "label-smoothing",
        paper="Szegedy et al. 2016, section 7; Vaswani et al. 2017",
        equation=(
            "loss = -sum_v q_v log p_v, q_v = (1 - e) [v = target] + e / V, e = `objective.label_smoothing`, in "
            "training; evaluation reports -log p(target)."
        ),
        tests=(
            numpy_reference(
                "objectives/losses/test_cross_entropy.py::test_head_options_equal_plain_cross_entropy", 3e-6
            ),
        ),
    ),
)
