"""Fields of the whole model: its stack, embeddings and norms."""

from zoo.config.fields.conditions import ANY_NORM, ENCODER, ENCODER_DECODER, TOKEN_OBJECTIVES, VARIANCE_NORM
from zoo.config.fields.field import AUTO, Field

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
    Field("model.num_layers", 4, int, "L, number of blocks", minimum=1),
    Field(
        "model.vocab_size",
        AUTO,
        int,
        "V, number of token ids",
        minimum=2,
        auto="the tokenizer's size, and one more for [MASK] where the objective hides tokens",
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
            "dots": "keep the matrix products' outputs",
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
    Field("model.embedding.norm", False, bool, "normalise the sum of the embeddings (BERT, BLOOM)", when=ANY_NORM),
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
    Field(
        "model.norm.kind",
        "layernorm",
        str,
        "normalisation",
        {
            "layernorm": "subtract the mean, divide by the standard deviation, scale, shift (Ba et al. 2016)",
            "rmsnorm": "divide by the root mean square, scale (Zhang & Sennrich 2019)",
            "centering": "subtract the mean, scale, shift: LayerNorm without the division",
            "batchnorm": (
                "normalise each dimension over the tokens of the batch, running statistics in evaluation (Ioffe "
                "& Szegedy 2015)"
            ),
            "none": "no normalisation anywhere",
        },
    ),
    Field(
        "model.norm.placement",
        "pre",
        str,
        "where a block normalises",
        {
            "pre": "x + f(norm(x)), and one norm after the last block (Xiong et al. 2020)",
            "post": "norm(x + f(x)), as in the original Transformer (Vaswani et al. 2017)",
            "sandwich": "x + norm(f(norm(x))), and one norm after the last block (Ding et al. 2021; Gemma 2)",
            "reordered": "x + norm(f(x)), and one norm after the last block (Liu et al. 2021; OLMo 2)",
            "deepnorm": "norm(alpha * x + f(x)), alpha and the initial values by depth (Wang et al. 2022)",
        },
        when=ANY_NORM,
    ),
    Field(
        "model.norm.epsilon",
        1e-5,
        float,
        "added to the variance (or mean square) before the root",
        above=0,
        maximum=1,
        when=VARIANCE_NORM,
    ),
    Field("model.norm.scale", True, bool, "learned scale per dimension", when=ANY_NORM),
    Field(
        "model.norm.unit_offset",
        False,
        bool,
        "the learned factor is stored as its difference from 1 (Gemma)",
        when=("model.norm.kind", ("rmsnorm",)),
    ),
    Field(
        "model.norm.bias",
        True,
        bool,
        "learned bias per dimension",
        when=("model.norm.kind", ("layernorm", "centering", "batchnorm")),
    ),
    Field(
        "model.norm.momentum",
        0.99,
        float,
        "share of the running statistics that each step keeps",
        minimum=0,
        maximum=0.99999,
        when=("model.norm.kind", ("batchnorm",)),
    ),
)
