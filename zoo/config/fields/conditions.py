"""Conditions under which fields are read, and groups of choices shared by several modules."""

from zoo.config.kinds import FEED_FORWARD_KINDS, OBJECTIVE_KINDS, OPTIMIZER_KINDS, POSITION_KINDS

# Objectives that score a label of an example, with a head of their own; the others predict tokens.
TASKS = OBJECTIVE_KINDS.having("task")
# Tasks that read one vector of each row.
SEQUENCE_TASKS = OBJECTIVE_KINDS.having("sequence")
# Position schemes that add a vector to the embedding; the others act inside attention and may
# differ from layer to layer.
EMBEDDED_POSITIONS = POSITION_KINDS.having("embedded")
# Which objectives train which architecture.
OBJECTIVES_OF = {name: OBJECTIVE_KINDS.having(name) for name in ("decoder", "encoder", "encoder_decoder", "elmo")}
GATED = FEED_FORWARD_KINDS.having("gated")

# Fields that an architecture ignores, by the start of their path.
IGNORED_BY = {
    "elmo": (
        "model.norm.",
        "model.position.",
        "model.attention.",
        "model.convolution.",
        "model.ffn.",
        "model.layers.",
        "model.embedding.",
        "model.vocab_multiple",
        "model.parallel",
        "model.residual_multiplier",
        "model.parametrization",
        "model.base_",
        "model.scan_layers",
        "model.remat",
        "model.head.transform",
        "model.head.transform_bias",
        "model.head.bias",
        "model.head.scale",
        "model.head.multiplier",
        "model.head.logit_scale",
        "model.head.softcap",
        "model.head.pooler",
        "model.head.pooler_activation",
        "model.head.next_sentence",
        "model.tie_embeddings",
        "model.init.scale_residual",
        "model.init.zero_outputs",
    )
}
# Fields that the two sides of an encoder-decoder, and kinds of layers, may set for themselves (see
# `zoo.config.scopes`).
SIDE_FIELDS = (
    "num_layers",
    "residual",
    "residual_multiplier",
    "dropout",
    "parallel",
    "norm.",
    "position.",
    "attention.",
    "convolution.",
    "ffn.",
)
KIND_FIELDS = (
    "residual",
    "residual_multiplier",
    "norm.placement",
    "norm.layerscale_start",
    "position.",
    "attention.",
    "convolution.",
    "ffn.",
)


def group_fields() -> tuple[str, ...]:
    """Returns the fields below `optimizer` that a group of parameters may set for itself: these, and
    the own fields of each kind of optimizer, as a group may be the only one of its kind.
    """
    own = (field.path.removeprefix("optimizer.") for field in OPTIMIZER_KINDS.fields)
    momentum = ("momentum_warmup", "momentum_cooldown", "momentum_start")
    decay = ("weight_decay", "weight_decay_form")
    return ("select", "rate_factor", "kind", "beta1", "beta2", "epsilon", *momentum, *decay, *own)


# Values of `Field.when`: (path, values).
ENCODER = ("model.architecture", ("encoder",))
ENCODER_DECODER = ("model.architecture", ("encoder_decoder",))
ELMO = ("model.architecture", ("elmo",))

TOKEN_OBJECTIVES = OBJECTIVE_KINDS.when("tokens")
TEXT_OBJECTIVES = OBJECTIVE_KINDS.when("text")
TASK_OBJECTIVES = OBJECTIVE_KINDS.when("task")
SEQUENCE_OBJECTIVES = OBJECTIVE_KINDS.when("sequence")
LABEL_OBJECTIVES = OBJECTIVE_KINDS.when("labels")
EXAMPLE_OBJECTIVES = OBJECTIVE_KINDS.when("examples")
CAUSAL = OBJECTIVE_KINDS.when("causal")
MASKED = OBJECTIVE_KINDS.when("masked")
FIXED_SHARE = OBJECTIVE_KINDS.when("fixed_share")
REPLACED = OBJECTIVE_KINDS.when("replaced")
SPANS = OBJECTIVE_KINDS.when("spans")
PREFIX = OBJECTIVE_KINDS.when("prefix")
WHOLE_ROWS = OBJECTIVE_KINDS.when("whole_rows")
# The objectives whose loss a teacher adds to (`zoo.objectives.distillation`). It is no trait: with a
# teacher another class scores the tokens, so the loss of a kind that is added would be ignored.
DISTILLABLE = ("objective.kind", ("causal", "masked"))
DISTILLABLE_MASKED = ("objective.kind", ("masked",))
WINDOWED = OBJECTIVE_KINDS.when("windows")
TRANSLATION = ("objective.kind", ("translation",))

WITH_RECORDS = ("data.source", ("jsonl", "parquet", "hf", "tfds", "csv", "tsv"))
WITH_SPLITS = ("data.source", ("hf", "tfds"))
HUB = ("data.source", ("hf",))
TFDS = ("data.source", ("tfds",))
CONLL = ("data.source", ("conll",))
STORED = ("data.source", ("tokens",))
