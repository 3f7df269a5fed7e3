"""Fields of the whole model: its stack, embeddings and norms."""

from zoo.config.field import AUTO, Field
from zoo.config.fields.conditions import ENCODER, ENCODER_DECODER, TOKEN_OBJECTIVES
from zoo.config.kinds import NORM_KINDS, PLACEMENT_KINDS

STACK_FIELDS: tuple[Field, ...] = (
    Field(
        "model.architecture",
        "decoder",
        str,
        "architecture of the model",
        {
            "decoder": "each token sees itself and the tokens before it (GPT, LLaMA)",
            "encoder": "each token sees all others (BERT)",
            "encoder_decoder": "an encoder, and a decoder that reads it by cross-attention (Vaswani et al. 2017; T5)",
            "elmo": "a forward and a backward recurrent language model over characters (Peters et al. 2018)",
        },
    ),
    Field("model.dim", 256, int, "D, width of the residual stream", minimum=1),
    Field("model.num_layers", 4, int, "L, number of blocks", minimum=1, maximum=10_000),
    Field(
        "model.vocab_size",
        AUTO,
        int,
        "V, number of token ids",
        minimum=2,
        maximum=2**24,
        auto="the tokenizer's size, and one more for [MASK] where the objective hides tokens",
    ),
    Field(
        "model.vocab_multiple",
        1,
        int,
        "the token table and the head have a multiple of this many rows; those beyond V stay 0 and are never predicted",
        minimum=1,
        added=True,
    ),
    Field(
        "model.parametrization",
        "standard",
        str,
        "how initial values, multipliers and rates follow the size of the model",
        {
            "standard": "not at all",
            "mup": "maximal updates: the learning rate that suits `base_dim` suits every width (Yang et al. 2022)",
            "completep": "mup, and the rate that suits `base_num_layers` suits every depth (Dey et al. 2025)",
        },
        added=True,
    ),
    Field(
        "model.base_dim",
        0,
        int,
        "D at which mup and completep leave everything as it is; must be set",
        minimum=0,
        when=("model.parametrization", ("mup", "completep")),
        added=True,
    ),
    Field(
        "model.base_head_dim",
        0,
        int,
        "K at `base_dim`; 0: that of this model, because a wider one has more heads",
        minimum=0,
        when=("model.parametrization", ("mup", "completep")),
        added=True,
    ),
    Field(
        "model.base_num_layers",
        0,
        int,
        "L at which completep leaves everything as it is; must be set",
        minimum=0,
        when=("model.parametrization", ("completep",)),
        added=True,
    ),
    Field(
        "model.residual",
        True,
        bool,
        "residual connections: add each sublayer's output to its input; False: keep the output alone",
    ),
    Field(
        "model.tie_embeddings", True, bool, "the output head is the token embedding, transposed", when=TOKEN_OBJECTIVES
    ),
    Field(
        "model.dropout",
        0.0,
        float,
        "dropout rate on the embedding and on every sublayer's output",
        minimum=0,
        maximum=0.99,
    ),
    Field(
        "model.dtype",
        "float32",
        str,
        "type of activations; parameters are always float32",
        {"float32": "single precision", "bfloat16": "half the memory and traffic; norms and losses stay float32"},
    ),
    Field(
        "model.scan_layers",
        False,
        bool,
        "run the layers as one scanned program: compiles faster, slower per step on a CPU",
    ),
    Field(
        "model.remat",
        "none",
        str,
        "what the backward pass recomputes instead of keeping",
        {
            "none": "keep every activation",
            "full": "keep only each block's input",
            "dots": "keep the matrix products' outputs, the scores of attention among them",
            "products": "keep the outputs of linear maps and of fused attention, and recompute norms, activations and "
            "scores",
        },
    ),
    Field(
        "model.parallel",
        "none",
        str,
        "whether attention and feed-forward read the same input",
        {
            "none": "one after the other",
            "shared_norm": "in parallel, x + Attention(Norm(x)) + FFN(Norm(x)), with one norm (GPT-J)",
            "own_norms": "in parallel, each with its own norm (GPT-NeoX)",
        },
    ),
    Field(
        "model.layers.pattern",
        (),
        tuple,
        "kinds of layers, repeated over the depth, e.g. local,local,global; empty: all layers are alike",
        items=str,
    ),
    Field(
        "model.embedding.scale",
        "none",
        str,
        "factor on the token embedding",
        {"none": "1", "sqrt_dim": "sqrt(D) (Vaswani et al. 2017, section 3.4)"},
    ),
    Field(
        "model.embedding.shared",
        True,
        bool,
        "one token embedding for both sides; False: the encoder has its own (Press & Wolf 2017)",
        when=ENCODER_DECODER,
    ),
    Field(
        "model.embedding.norm",
        False,
        bool,
        "normalise the sum of the embeddings (BERT, BLOOM)",
        when=NORM_KINDS.when("normalises"),
    ),
    Field(
        "model.embedding.segments",
        0,
        int,
        "number of segment embeddings (BERT: 2); 0 for none",
        minimum=0,
        when=ENCODER,
    ),
)

NORM_FIELDS: tuple[Field, ...] = (
    Field("model.norm.kind", "layernorm", str, "normalisation", NORM_KINDS.choices),
    Field(
        "model.norm.placement",
        "pre",
        str,
        "where a block normalises",
        PLACEMENT_KINDS.choices,
        when=NORM_KINDS.when("normalises"),
    ),
    Field(
        "model.norm.epsilon",
        1e-5,
        float,
        "added to the variance (or mean square) before the root",
        above=0,
        maximum=1,
        when=NORM_KINDS.when("epsilon"),
    ),
    Field("model.norm.scale", True, bool, "learned scale per dimension", when=NORM_KINDS.when("normalises")),
    Field("model.norm.bias", True, bool, "learned bias per dimension", when=NORM_KINDS.when("bias")),
    *NORM_KINDS.fields,
    *PLACEMENT_KINDS.fields,
)
