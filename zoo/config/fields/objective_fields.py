"""Fields of objectives."""

from zoo.config.field import AUTO, Field
from zoo.config.fields.conditions import DISTILLABLE, FIXED_SHARE, MASKED, PREFIX, SPANS, TOKEN_OBJECTIVES
from zoo.config.kinds import OBJECTIVE_KINDS


def _own(kind: str) -> tuple[Field, ...]:
    """Returns the fields that only this objective reads."""
    return OBJECTIVE_KINDS.by_name[kind].fields


OBJECTIVE_FIELDS: tuple[Field, ...] = (
    Field("objective.kind", "causal", str, "what is predicted and scored", OBJECTIVE_KINDS.choices),
    *_own("multi_token"),
    *_own("replaced_tokens"),
    *_own("extraction"),
    Field(
        "objective.select_fraction",
        0.15,
        float,
        "share of the tokens that are predicted",
        above=0,
        maximum=1,
        when=FIXED_SHARE,
    ),
    Field(
        "objective.mask_token_fraction",
        0.8,
        float,
        "share of the predicted tokens that the input shows as [MASK]",
        minimum=0,
        maximum=1,
        when=FIXED_SHARE,
    ),
    Field(
        "objective.random_token_fraction",
        0.1,
        float,
        "share of the predicted tokens that the input shows as a random token",
        minimum=0,
        maximum=1,
        when=FIXED_SHARE,
    ),
    Field(
        "objective.mask_copies",
        0,
        int,
        "number of fixed masks per row, used in turn over the epochs (BERT: 10); 0: a new mask in every "
        "epoch (RoBERTa)",
        minimum=0,
        when=FIXED_SHARE,
    ),
    Field(
        "objective.whole_words",
        False,
        bool,
        "words are hidden as a whole: all their tokens or none (BERT's whole-word masking)",
        when=FIXED_SHARE,
    ),
    Field(
        "objective.next_sentence",
        False,
        bool,
        "also predict whether the second segment follows the first, with model.head.next_sentence (Devlin et al. "
        "2019); with data.row_format=swapped_pairs, whether the two are in order (Lan et al. 2020)",
        when=MASKED,
    ),
    Field(
        "objective.prefix_length",
        AUTO,
        int,
        "tokens of a row that the encoder reads, or that see each other in a decoder",
        minimum=1,
        auto="half of data.sequence_length",
        when=PREFIX,
    ),
    Field(
        "objective.noise_density",
        0.15,
        float,
        "share of a row's tokens that are cut out",
        above=0,
        maximum=0.9,
        when=SPANS,
    ),
    Field(
        "objective.mean_span_length",
        3.0,
        float,
        "mean number of tokens in a span that is cut out",
        minimum=1,
        when=SPANS,
    ),
    Field(
        "objective.sentinels",
        100,
        int,
        "number of sentinel ids, in addition to the tokenizer's, that stand for spans",
        minimum=1,
        when=SPANS,
    ),
    *_own("bidirectional"),
    Field(
        "objective.label_smoothing",
        0.0,
        float,
        "share of a target's probability that training spreads over all ids (Vaswani et al. 2017: 0.1)",
        minimum=0,
        maximum=0.9,
        when=TOKEN_OBJECTIVES,
        traced=True,
    ),
    *_own("translation"),
    Field(
        "objective.z_loss",
        0.0,
        float,
        "weight of log(sum exp logits)^2 in the loss (PaLM: 1e-4)",
        minimum=0,
        when=TOKEN_OBJECTIVES,
        traced=True,
    ),
    Field(
        "objective.chunk_tokens",
        AUTO,
        int,
        "tokens whose logits a device holds at once, which changes results by rounding only; 0: all",
        minimum=0,
        auto="8192 on a GPU or TPU; on a CPU a power of two that keeps a chunk's logits near 32 MB, at least 1024",
        when=TOKEN_OBJECTIVES,
    ),
    Field(
        "objective.distillation.teacher",
        "",
        str,
        "folder of a run whose predictions are also learnt (Hinton et al. 2015; Sanh et al. 2019); empty: no teacher",
        when=DISTILLABLE,
    ),
    Field(
        "objective.distillation.kl",
        1.0,
        float,
        "weight of T^2 KL(teacher || student) at temperature T, over the predicted tokens",
        minimum=0,
        when=DISTILLABLE,
        traced=True,
    ),
    Field(
        "objective.distillation.temperature",
        2.0,
        float,
        "T, which divides the logits of teacher and student in the KL term",
        above=0,
        when=DISTILLABLE,
        traced=True,
    ),
    Field(
        "objective.distillation.cosine",
        0.0,
        float,
        "weight of 1 - cos(student's last hidden state, teacher's), over all tokens that are read",
        minimum=0,
        when=DISTILLABLE,
    ),
    Field(
        "objective.distillation.hard",
        1.0,
        float,
        "weight of the objective's own loss when there is a teacher",
        minimum=0,
        when=DISTILLABLE,
    ),
)
