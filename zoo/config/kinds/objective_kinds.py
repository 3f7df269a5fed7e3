"""Kinds of objective."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.description import Description
from zoo.config.kinds.feedforward_kinds import ACTIVATIONS, activation_of, unit_field
from zoo.config.kinds.kind import Kind, KindTable

KIND = "objective.kind"

_TASK = frozenset({"task", "examples", "decoder", "encoder", "elmo"})


def is_prefix_decoder(flat: Mapping[str, Any], architecture: str) -> bool:
    """Returns whether a decoder reads the prefix itself."""
    prefix = flat["objective.kind"] in OBJECTIVE_KINDS.having("prefix")
    return architecture == flat["model.architecture"] == "decoder" and prefix


def _outputs_problems(flat: Mapping[str, Any], outputs: int) -> Iterator[str]:
    """Yields a line if the head of a task does not have its fixed number of outputs."""
    if flat["model.head.classes"] != outputs:
        yield (
            f"model.head.classes={flat['model.head.classes']} must be {outputs} for objective.kind="
            f"{flat['objective.kind']}; leave it at auto"
        )


def _derive_regression(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    del flat
    return {"model.head.classes": 1}


def _multi_token_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if (tokens := flat["objective.future_tokens"]) > (length := flat["data.sequence_length"]):
        yield f"objective.future_tokens={tokens} lie beyond rows of data.sequence_length={length}"


def _stride_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    stride, length = flat["data.stride"], flat["data.sequence_length"]
    if stride != AUTO and stride > length:
        yield (
            f"data.stride={stride} leaves out tokens between rows of data.sequence_length={length}; it must not be "
            "larger"
        )


def _regression_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _outputs_problems(flat, 1)
    yield from _stride_problems(flat, architecture)


def _tagging_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if question := flat["data.second_column"]:
        yield (
            f"data.second_column={question!r} has no effect: objective.kind=tagging reads single texts; leave it out"
        )


def _derive_extraction(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    # The beginning and the end of the answer.
    return {"model.head.classes": 2, "data.stride": max(1, flat["data.sequence_length"] // 3)}


def _extraction_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    source = flat["data.source"].partition(":")[0]
    yield from _outputs_problems(flat, 2)
    if source in ("jsonl", "parquet", "hf", "tfds") and not flat["data.second_column"]:
        yield (
            "data.second_column must name the question of objective.kind=extraction, data.column its context and "
            "data.label_column its answers"
        )
    yield from _stride_problems(flat, architecture)


def _masked_diffusion_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    for path in ("model.head.pooler", "objective.next_sentence"):
        if flat[path]:
            yield f"{path}=True has no effect: objective.kind=masked_diffusion scores tokens alone; leave it at False"


def _replaced_tokens_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    shown = "objective.kind=replaced_tokens"
    for path in ("model.head.pooler", "objective.next_sentence"):
        if flat[path]:
            yield f"{path}=True has no effect: {shown} scores tokens, and no vector of a row; leave it at False"
    if layers := flat["training.start_layers"]:
        yield (
            f"training.start_layers={','.join(map(str, layers))}: {shown} has two stacks of layers; leave it empty to "
            "start from all layers of both"
        )
    path, kind = unit_field(flat)
    if activation_of(kind) is None:
        yield (
            f"{shown}: the head applies the activation of {path}, which for {kind} is not one of "
            f"{', '.join(ACTIVATIONS)}"
        )


def _derive_replaced_tokens(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"model.generator.num_layers": flat["model.num_layers"]}


def _bidirectional_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    sampled = flat["objective.sampled_softmax"]
    if sampled and flat["objective.z_loss"]:
        yield (
            "objective.z_loss weighs the normaliser of the full softmax, which objective.sampled_softmax never "
            "computes; set one of them to 0"
        )
    if sampled and flat["objective.label_smoothing"]:
        yield (
            "objective.label_smoothing spreads over all ids, which objective.sampled_softmax never scores; "
            "set one of them to 0"
        )
    if flat["model.vocab_size"] != AUTO and sampled > flat["model.vocab_size"]:
        yield f"objective.sampled_softmax={sampled} is more than model.vocab_size={flat['model.vocab_size']} ids"


OBJECTIVES_RESULT = (
    "Raffel et al. 2020, table 2, GLUE with denoising and with language modelling: encoder-decoder 83.28, 79.56; "
    "decoder with a prefix 81.82, 79.68; decoder 74.70, 73.78."
)
FEATURES_RESULT = (
    "Devlin et al. 2019, table 7, F1 on the development set of CoNLL-2003: BERT-base fine-tuned 96.4; frozen, with "
    "the last four layers side by side 96.1, with a weighted sum of all layers about 95.5."
)
_REPLACED_RESULT = (
    "Clark et al. 2020, table 5, GLUE at equal size and data: BERT 82.2; masks replaced by draws of the generator "
    "82.4; replaced tokens detected among the chosen ones alone 82.4; all tokens predicted 84.3; ELECTRA, which "
    "judges all tokens, 85.0."
)
_CORRUPTIONS_RESULT = (
    "Raffel et al. 2020, tables 4 and 5, GLUE, encoder-decoder: prefix language modelling 80.69, masks as in BERT "
    "82.96, deshuffling 73.17; spans replaced by sentinels 83.28, tokens dropped 84.44."
)


OBJECTIVE_KINDS = KindTable(
    KIND,
    traits={
        "decoder": "it trains decoders",
        "encoder": "it trains encoders",
        "encoder_decoder": "it trains encoder-decoders",
        "elmo": "it trains ELMo models",
        "tokens": "it predicts tokens",
        "task": "it scores labels, with a head of its own",
        "sequence": "a task that reads one vector of each row",
        "labels": "a task whose labels have names",
        "windows": "a task that reads a long text in several rows",
        "text": "it reads running text",
        "examples": "it reads examples",
        "whole_rows": "the model reads rows as they are, which may begin at any position and whose documents can be "
        "kept apart",
        "causal": "it predicts each token from those before it",
        "several_targets": "each prediction is scored against `objective.future_tokens` tokens",
        "prefix": "it divides rows at `objective.prefix_length`",
        "spans": "spans are cut out of rows",
        "masking": "some tokens of rows are hidden",
        "masked": "an encoder predicts hidden tokens where they stand",
        "denoising": "a decoder writes the whole row whose tokens were hidden",
        "fixed_share": "a fixed share of the tokens is hidden",
        "any_share": "any share of the tokens is hidden; the model can write text, filling in one token at a time",
        "replaced": "a generator within the model predicts hidden tokens, and the model says which were replaced",
    },
    kinds=(
        Kind(
            KIND,
            "causal",
            "the next token, from all before it",
            frozenset({"decoder", "tokens", "text", "whole_rows", "causal"}),
            code="zoo.objectives.causal:CausalObjective",
            description=Description(
                name="causal-lm",
                details=("exp of the mean loss is the perplexity.",),
                published=(OBJECTIVES_RESULT,),
                synonyms=("clm", "causal-language-modeling"),
                claims=("O8",),
            ),
        ),
        Kind(
            KIND,
            "multi_token",
            "the next n tokens, all from one prediction; the loss is that of the first (after Gloeckle et al. 2024)",
            frozenset({"decoder", "tokens", "text", "whole_rows", "causal", "several_targets"}),
            (
                Field("objective.future_tokens", 3, int, "n, number of next tokens predicted", minimum=2, added=True),
                Field(
                    "objective.future_decay",
                    0.5,
                    float,
                    "r; the loss of the k-th next token has the weight r^(k - 1)",
                    above=0,
                    maximum=1,
                    added=True,
                ),
            ),
            problems=_multi_token_problems,
            code="zoo.objectives.multi_token:MultiTokenObjective",
            description=Description(
                published=(
                    (
                        "Gloeckle et al. 2024, with a head for each future token, 13B parameters: 12 % more problems "
                        "of HumanEval and 17 % more of MBPP solved than with the next token alone; the gain grows "
                        "with size."
                    ),
                    (
                        "Karpathy 2026 (nanochat's experiment log), one head for all, 12 layers: the same loss or a "
                        "slightly worse one at equal steps, clearly worse at equal time."
                    ),
                    (
                        "Modded-nanogpt 2025 (record of December 22), one head for all, with an embedding and a head "
                        "that are separated after two thirds of the steps: 80 steps fewer for all changes together."
                    ),
                ),
                synonyms=("mtp",),
            ),
        ),
        Kind(
            KIND,
            "masked",
            "hidden tokens, from all others (Devlin et al. 2019)",
            frozenset({"encoder", "tokens", "text", "whole_rows", "masking", "fixed_share", "masked"}),
            code="zoo.objectives.masked:MaskedObjective",
            description=Description(
                name="masked-lm",
                needs={"model.architecture": "encoder"},
                details=(
                    "round(0.15 n) of a row's n tokens are chosen, never [CLS] or [SEP]. A chosen token is shown "
                    "as [MASK] with probability 0.8, as a random token with probability 0.1 and as it is with "
                    "probability 0.1; all chosen ones are predicted. `objective.select_fraction`, "
                    "`mask_token_fraction` and `random_token_fraction` set these shares "
                    "([recipes](../pretraining.md#masking)).",
                ),
                published=(
                    (
                        "Devlin et al. 2019, table 8, accuracy on MNLI by the shares of [MASK], the same token, a "
                        "random token: 80/10/10 84.2, 100/0/0 84.3, 80/20/0 84.4, 80/0/20 84.1, 0/0/100 83.6."
                    ),
                    _REPLACED_RESULT,
                ),
                synonyms=("mlm", "masked-language-modeling"),
                claims=("O2", "O3", "O4"),
            ),
        ),
        Kind(
            KIND,
            "masked_diffusion",
            "hidden tokens, from all others, where any share of a row is hidden (Sahoo et al. 2024, MDLM)",
            frozenset({"encoder", "tokens", "text", "whole_rows", "masking", "any_share", "masked"}),
            problems=_masked_diffusion_problems,
            code="zoo.objectives.masked:MaskedDiffusionObjective",
            description=Description(
                baseline="encoder",
                published=(
                    "Sahoo et al. 2024, perplexity on the One Billion Word benchmark with 110M parameters: at "
                    "most 23.00; that of the autoregressive model is 20.09.",
                ),
                claims=("V29",),
            ),
        ),
        Kind(
            KIND,
            "replaced_tokens",
            "whether each token is the original or one that a small generator put in its place (Clark et al. 2020)",
            frozenset({"encoder", "tokens", "text", "whole_rows", "masking", "fixed_share", "masked", "replaced"}),
            (
                Field(
                    "objective.discriminator_weight",
                    50.0,
                    float,
                    "lambda, weight of the discriminator's loss beside the generator's",
                    above=0,
                    traced=True,
                    added=True,
                ),
            ),
            problems=_replaced_tokens_problems,
            derive=_derive_replaced_tokens,
            code="zoo.objectives.replaced_tokens:ReplacedTokensObjective",
            description=Description(
                baseline="encoder",
                published=(
                    _REPLACED_RESULT,
                    (
                        "Clark et al. 2020: at the size of RoBERTa and XLNet about as good with less than a quarter "
                        "of their compute."
                    ),
                ),
                claims=("V30",),
            ),
        ),
        Kind(
            KIND,
            "prefix",
            "the second part of a row, token by token, from the first part (Raffel et al. 2020, section 3.2.3)",
            frozenset({"decoder", "encoder_decoder", "tokens", "text", "prefix"}),
            code="zoo.objectives.prefix:PrefixObjective",
            description=Description(
                name="prefix-lm",
                needs={"model.architecture": "encoder_decoder"},
                published=(OBJECTIVES_RESULT, _CORRUPTIONS_RESULT),
                claims=("O8",),
                picture="mask",
            ),
        ),
        Kind(
            KIND,
            "span",
            "spans cut out of a row, from the rest of it (Raffel et al. 2020, section 3.1.4; T5)",
            frozenset({"encoder_decoder", "tokens", "text", "spans"}),
            code="zoo.objectives.span_corruption:SpanObjective",
            description=Description(
                name="span-corruption",
                needs={"model.architecture": "encoder_decoder"},
                details=(
                    "With noise density 0.15 and mean span length 3, a row of n tokens has about 0.15 n / 3 "
                    "spans; T5's 568 tokens become 512 in the encoder and 114 in the decoder.",
                ),
                published=(OBJECTIVES_RESULT, _CORRUPTIONS_RESULT),
                claims=("O8",),
            ),
        ),
        Kind(
            KIND,
            "denoising",
            'a whole row, from a copy of it with hidden tokens (Raffel et al. 2020, section 3.3.1, "BERT-style")',
            frozenset({"encoder_decoder", "tokens", "text", "masking", "fixed_share", "denoising"}),
            code="zoo.objectives.denoising:DenoisingObjective",
            description=Description(needs={"model.architecture": "encoder_decoder"}, published=(_CORRUPTIONS_RESULT,)),
        ),
        Kind(
            KIND,
            "translation",
            "a text in another language, token by token, from the original (Vaswani et al. 2017)",
            frozenset({"encoder_decoder", "tokens", "examples"}),
            (
                Field("objective.beams", 5, int, "beam width when held-out texts are translated", minimum=1),
                Field(
                    "objective.length_penalty",
                    1.0,
                    float,
                    "a in the beam search score log p / length^a; above 0 favours long translations",
                ),
            ),
            code="zoo.objectives.translation:TranslationObjective",
            description=Description(needs={"model.architecture": "encoder_decoder"}),
        ),
        Kind(
            KIND,
            "bidirectional",
            "the next token from those before it, and the one before from those after it (Peters et al. 2018)",
            frozenset({"elmo", "tokens", "text"}),
            (
                Field(
                    "objective.sampled_softmax",
                    0,
                    int,
                    "number of ids sampled per update for its softmax; 0: the full softmax (Jozefowicz et al. 2016; "
                    "the published ELMo: 8192)",
                    minimum=0,
                ),
            ),
            problems=_bidirectional_problems,
            code="zoo.objectives.bidirectional:BidirectionalObjective",
            description=Description(name="bidirectional-lm", needs={"model.architecture": "elmo"}),
        ),
        Kind(
            KIND,
            "classification",
            "the label of a text or of a pair of texts (Devlin et al. 2019, section 4.1)",
            _TASK | {"sequence", "labels", "windows"},
            problems=_stride_problems,
            code="zoo.objectives.tasks.classification:ClassificationObjective",
            description=Description(part="task", needs={"model.head.classes": 4}, baseline="encoder"),
        ),
        Kind(
            KIND,
            "regression",
            "a number for a text or a pair of texts, by squared error (Devlin et al. 2019, section 4.1)",
            _TASK | {"sequence", "windows"},
            problems=_regression_problems,
            derive=_derive_regression,
            code="zoo.objectives.tasks.classification:RegressionObjective",
            description=Description(part="task", baseline="encoder"),
        ),
        Kind(
            KIND,
            "tagging",
            "a tag for each word, from its first token (Devlin et al. 2019, section 5.3)",
            _TASK | {"labels"},
            problems=_tagging_problems,
            code="zoo.objectives.tasks.tagging:TaggingObjective",
            description=Description(
                part="task", needs={"model.head.classes": 4}, baseline="encoder", published=(FEATURES_RESULT,)
            ),
        ),
        Kind(
            KIND,
            "extraction",
            "where in a context the answer to a question begins and ends (Devlin et al. 2019, section 4.2)",
            _TASK | {"windows"},
            (Field("objective.longest_answer", 30, int, "maximum number of tokens in an answer", minimum=1),),
            problems=_extraction_problems,
            derive=_derive_extraction,
            code="zoo.objectives.tasks.extraction:ExtractionObjective",
            description=Description(part="task", baseline="encoder"),
        ),
    ),
    part="objective",
)
