"""Fields of the feed-forward layers, initial values, heads, generators and ELMo."""

from zoo.config.field import AUTO, Field
from zoo.config.fields.conditions import ELMO, ENCODER, REPLACED, SEQUENCE_OBJECTIVES, TASK_OBJECTIVES, TOKEN_OBJECTIVES
from zoo.config.kinds import FEED_FORWARD_KINDS

_HIDDEN = FEED_FORWARD_KINDS.when("hidden")

FFN_FIELDS: tuple[Field, ...] = (
    Field("model.ffn.kind", "gelu", str, "feed-forward layer", FEED_FORWARD_KINDS.choices, synonyms=("glu",)),
    Field(
        "model.ffn.hidden_dim",
        AUTO,
        int,
        "F, width of the hidden layer, of each expert in a mixture",
        minimum=1,
        auto="4 * dim",
        when=_HIDDEN,
    ),
    Field(
        "model.ffn.match_parameters",
        False,
        bool,
        "gated kinds take 2/3 of hidden_dim, so that all kinds have the same number of weights (Shazeer 2020)",
        when=_HIDDEN,
    ),
    Field(
        "model.ffn.dim_multiplier",
        1.0,
        float,
        "factor on the hidden width, after `match_parameters` (LLaMA 2 of 70B, LLaMA 3 of 8B and 70B: 1.3)",
        above=0,
        added=True,
        synonyms=("ffn-dim-multiplier",),
        when=_HIDDEN,
    ),
    Field(
        "model.ffn.multiple_of",
        1,
        int,
        "the hidden width is rounded up to a multiple of this, after `dim_multiplier` (LLaMA: 256)",
        minimum=1,
        added=True,
        when=_HIDDEN,
    ),
    Field("model.ffn.bias", True, bool, "the feed-forward's projections have a bias", when=_HIDDEN),
    Field(
        "model.ffn.hidden_scale",
        False,
        bool,
        "learned factors on the hidden units: s u on those that the gate multiplies, s v sqrt(D) on those that the "
        "activation reads (nGPT)",
        when=_HIDDEN,
        added=True,
    ),
    Field(
        "model.ffn.gelu_approximation",
        "none",
        str,
        "form of GELU",
        {"none": "exact, by the error function", "tanh": "tanh approximation (GPT-2)"},
        when=FEED_FORWARD_KINDS.when("gelu"),
    ),
    Field(
        "model.ffn.experts.kind",
        "swiglu",
        str,
        "feed-forward layer that each expert is, of `hidden_dim` hidden units",
        FEED_FORWARD_KINDS.choices,
        when=FEED_FORWARD_KINDS.when("experts"),
        added=True,
    ),
    *FEED_FORWARD_KINDS.fields,
)

INIT_FIELDS: tuple[Field, ...] = (
    Field(
        "model.init.kernel",
        "normal",
        str,
        "initial values of weight matrices",
        {
            "normal": "normal, standard deviation `std` (GPT-2)",
            "xavier_uniform": "uniform, variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010; Vaswani et al. 2017)",
            "xavier_normal": "normal, variance 2 / (fan_in + fan_out)",
            "lecun_normal": "truncated normal, variance 1 / fan_in",
            "he_normal": "truncated normal, variance 2 / fan_in",
        },
    ),
    Field(
        "model.init.std",
        0.02,
        float,
        "standard deviation of `normal`",
        above=0,
        when=("model.init.kernel", ("normal",)),
    ),
    Field(
        "model.init.embedding_std",
        AUTO,
        float,
        "standard deviation of embeddings",
        above=0,
        auto="init.std for `normal`, else dim ** -0.5",
    ),
    Field(
        "model.init.scale_residual",
        False,
        bool,
        "divide the sublayers' last matrices by sqrt(2 * num_layers) (GPT-2), with cross-attention too; by "
        "sqrt(num_layers) without feed-forward layers",
    ),
    Field(
        "model.init.zero_outputs",
        False,
        bool,
        "the sublayers' last matrices begin at 0, so that each block begins as the identity (Zhang et al. 2019)",
        added=True,
    ),
)

HEAD_FIELDS: tuple[Field, ...] = (
    Field(
        "model.head.transform",
        False,
        bool,
        "a dense layer, the activation and a norm come before the output matrix (BERT)",
        when=TOKEN_OBJECTIVES,
    ),
    Field(
        "model.head.transform_bias",
        True,
        bool,
        "the dense layer of `transform` has a bias",
        when=("model.head.transform", (True,)),
        added=True,
    ),
    Field("model.head.bias", False, bool, "the output matrix has a bias", when=TOKEN_OBJECTIVES),
    Field(
        "model.head.scale",
        "none",
        str,
        "factor on the hidden states before the output matrix",
        {"none": "1", "rsqrt_dim": "1 / sqrt(D) (T5 with a tied head)"},
        when=TOKEN_OBJECTIVES,
    ),
    Field(
        "model.head.multiplier",
        1.0,
        float,
        "another factor on the hidden states before the output matrix, beside `scale` (Granite; Cohere)",
        above=0,
        when=TOKEN_OBJECTIVES,
        added=True,
    ),
    Field(
        "model.head.logit_scale",
        False,
        bool,
        "a learned factor on the logit of each token, 1 at first (nGPT)",
        when=TOKEN_OBJECTIVES,
        added=True,
    ),
    Field(
        "model.head.softcap",
        0.0,
        float,
        "c in c * tanh(logit / c); 0 for no cap (Gemma 2)",
        minimum=0,
        when=TOKEN_OBJECTIVES,
    ),
    Field(
        "model.head.pooler",
        False,
        bool,
        "a dense layer and an activation over the first token, or over the vector that `pooling` selects (BERT)",
        when=ENCODER,
    ),
    Field(
        "model.head.pooler_activation",
        "tanh",
        str,
        "f in f(v W + b), the pooler",
        {"tanh": "BERT, RoBERTa, ALBERT", "gelu": "ELECTRA", "relu": "DistilBERT"},
        when=("model.head.pooler", (True,)),
        added=True,
    ),
    Field(
        "model.head.next_sentence",
        False,
        bool,
        "two logits from the pooler: whether the second segment follows the first (BERT)",
        when=("model.head.pooler", (True,)),
    ),
    Field(
        "model.head.classes",
        AUTO,
        int,
        "C, number of outputs of a task's head",
        minimum=1,
        auto="the number of labels; 1 for regression, 2 for extraction",
        when=TASK_OBJECTIVES,
    ),
    Field(
        "model.head.pooling",
        AUTO,
        str,
        "which vector of a row the class or number is predicted from",
        {
            "first": "the first token's hidden state (BERT's [CLS])",
            "last": "the last token's hidden state (GPT)",
            "mean": "the mean of all tokens' hidden states",
        },
        auto="first in an encoder, last in a decoder, mean in an ELMo",
        when=SEQUENCE_OBJECTIVES,
    ),
)

GENERATOR_FIELDS: tuple[Field, ...] = (
    Field(
        "model.generator.num_layers",
        AUTO,
        int,
        "number of blocks of the generator; 0 for none: replacements are then uniform over all ids",
        minimum=0,
        maximum=10_000,
        auto="num_layers",
        when=REPLACED,
        added=True,
    ),
    Field(
        "model.generator.width_fraction",
        0.25,
        float,
        "width, heads and hidden width of the generator's layers, as shares of this model's",
        above=0,
        maximum=1,
        when=REPLACED,
        added=True,
    ),
)

ELMO_FIELDS: tuple[Field, ...] = (
    Field(
        "model.elmo.characters",
        50,
        int,
        "bytes per token, with its begin and end marks; longer tokens are cut",
        minimum=3,
        when=ELMO,
    ),
    Field("model.elmo.character_dim", 16, int, "width of a character's embedding", minimum=1, when=ELMO),
    Field(
        "model.elmo.filters",
        (1, 32, 2, 32, 3, 64, 4, 128, 5, 256, 6, 512, 7, 1024),
        tuple,
        "width and number of filters of each character convolution, in turn",
        minimum=1,
        when=ELMO,
    ),
    Field("model.elmo.highways", 2, int, "number of highway layers", minimum=0, when=ELMO),
    Field("model.elmo.cell_dim", 4096, int, "width of an LSTM cell, which is projected to D", minimum=1, when=ELMO),
    Field(
        "model.elmo.cell_clip", 3.0, float, "largest magnitude of a cell's state; 0: no clipping", minimum=0, when=ELMO
    ),
    Field(
        "model.elmo.layer_norm",
        False,
        bool,
        "a task mixes the layers after each vector is normalised (Peters et al. 2018, section 3.2)",
        when=ELMO,
    ),
    Field(
        "model.elmo.projection_clip",
        3.0,
        float,
        "largest magnitude of a projected state; 0: no clipping",
        minimum=0,
        when=ELMO,
    ),
)
