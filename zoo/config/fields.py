"""Every config field there is: its default, its type, its meaning and what it may be.

This table is the only place where a field or a default is defined. Validation, `--help`, error
texts, `zoo describe` and the generated configs all read it. A module takes the part of the resolved
config that is its own and re-declares nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

AUTO = "auto"


@dataclass(frozen=True)
class Field:
    """One leaf of the config.

    Attributes:
        path: dotted path, e.g. "model.norm.kind".
        default: value in a fresh config; `AUTO` when it is derived by `resolve`.
        kind: int, float, bool, str, or tuple.
        meaning: one line for people, with the unit.
        choices: allowed names with one line each, for fields that pick an implementation.
        minimum, maximum: inclusive range of a number; `above` is an exclusive lower bound.
        auto: how an `auto` value is derived; empty where `auto` is not allowed.
        when: (path, values): the field is read only when the field at `path` has one of `values`
            (see `choices_made`).
        items: type of a tuple's items.
    """

    path: str
    default: Any
    kind: type
    meaning: str
    choices: dict[str, str] | None = None
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    auto: str = ""
    when: tuple[str, tuple] | None = None
    items: type = int

    def is_read(self, flat: Mapping[str, Any]) -> bool:
        """Whether `when` holds in a flat config."""
        return self.when is None or any(value in self.when[1] for value in choices_made(flat, self.when[0]))


def choices_made(flat: Mapping[str, Any], path: str) -> tuple:
    """What stands at a path; of `data.source` the kinds, which is what stands before a ":", also
    those of the entries of a mixture.
    """
    if path != "data.source":
        return (flat[path],)
    entries = flat["data.mixture"] if flat[path] == "mixture" and isinstance(flat["data.mixture"], tuple | list) else ()
    sources = [flat[path], *(str(entry).partition("*")[2].strip() for entry in entries)]
    return tuple(str(source).partition(":")[0] for source in sources)


NORMED = ("model.norm.kind", ("layernorm", "rmsnorm", "centering", "batchnorm"))
DIVIDED = ("model.norm.kind", ("layernorm", "rmsnorm", "batchnorm"))
ROPE = ("model.position.kind", ("rope",))
SCALED_ROPE = ("model.position.scaling.kind", ("linear", "dynamic", "yarn", "llama3"))
STRETCHED_ROPE = ("model.position.scaling.kind", ("dynamic", "yarn", "llama3"))
PERFORMER = ("model.attention.kind", ("performer",))
ENCODER = ("model.architecture", ("encoder",))
BOTH_SIDES = ("model.architecture", ("encoder_decoder",))
ELMO = ("model.architecture", ("elmo",))
MASKED = ("objective.kind", ("masked",))
HIDING = ("objective.kind", ("masked", "denoising"))
SPANS = ("objective.kind", ("span",))
TAUGHT = ("objective.kind", ("causal", "masked"))
RECORDS = ("data.source", ("jsonl", "parquet", "hf", "tfds", "csv", "tsv"))
# Objectives that score a label of an example, with a head of their own; the others predict tokens.
TASKS = ("classification", "regression", "tagging", "extraction")
OF_TOKENS = ("objective.kind", ("causal", "masked", "prefix", "span", "denoising", "translation", "bidirectional"))
EXTRACTION, CONLL = ("objective.kind", ("extraction",)), ("data.source", ("conll",))
OF_TEXT = ("objective.kind", tuple(kind for kind in OF_TOKENS[1] if kind != "translation"))
OF_TASKS, OF_SEQUENCES = ("objective.kind", TASKS), ("objective.kind", ("classification", "regression"))
TRANSLATION, OF_EXAMPLES = ("objective.kind", ("translation",)), ("objective.kind", (*TASKS, "translation"))
SPLIT_IN_PARTS, HUB, TFDS = ("data.source", ("hf", "tfds")), ("data.source", ("hf",)), ("data.source", ("tfds",))

# Schemes that add a vector to the embedding; the others act inside attention and may differ from
# layer to layer.
EMBEDDED_POSITIONS = ("learned", "sinusoidal")
# Which objective trains which architecture.
OBJECTIVES_OF = {
    "decoder": ("causal", "prefix", *TASKS),
    "encoder": ("masked", *TASKS),
    "encoder_decoder": ("prefix", "span", "denoising", "translation"),
    "elmo": ("bidirectional", *TASKS),
}
# What an architecture does not read, by the start of the path.
UNREAD_BY = {
    "elmo": (
        "model.norm.",
        "model.position.",
        "model.attention.",
        "model.ffn.",
        "model.layers.",
        "model.embedding.",
        "model.parallel",
        "model.scan_layers",
        "model.remat",
        "model.head.transform",
        "model.head.bias",
        "model.head.scale",
        "model.head.softcap",
        "model.head.pooler",
        "model.head.next_sentence",
        "model.tie_embeddings",
        "model.init.scale_residual",
    )
}
# What the two sides of an encoder-decoder, and what kinds of layers, may set for themselves (see
# `zoo.config.parts`).
SIDE_FIELDS = ("num_layers", "residual", "dropout", "parallel", "norm.", "position.", "attention.", "ffn.")
KIND_FIELDS = ("residual", "position.", "attention.", "ffn.")
GATED = ("swiglu", "geglu", "reglu")
ACTIVATION_OF = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "silu", "geglu": "gelu", "reglu": "relu"}

# What an attention kernel can honour. `score`: an additive score term (ALiBi, T5's bias, Shaw's
# keys); `documents`: isolation of packed documents; `prefix`: keys that a causal query before them
# sees too; `dropout`: dropout on the attention probabilities; `softcap`, `sinks`, `dilations`: as
# in attention.softcap, attention.sinks, attention.dilations; `value`: vectors added to the values
# by position (Shaw); `padding`: keys that are empty slots, or another sequence's (cross-attention);
# `head_dims`: widths of a head; `platforms`: where it runs. What a kernel lacks is refused when the
# config is resolved, a wrong platform when a run starts.
ANYWHERE = ("cpu", "gpu", "tpu")
ANY_WIDTH = range(1, 2**31)
BOTH = ("float32", "bfloat16")
ATTENTION_KERNELS = {
    "einsum": {
        "score": True,
        "documents": True,
        "prefix": True,
        "dropout": True,
        "softcap": True,
        "sinks": True,
        "value": True,
        "dilations": True,
        "padding": True,
        "dtypes": BOTH,
        "head_dims": ANY_WIDTH,
        "platforms": ANYWHERE,
    },
    "rows": {
        "score": True,
        "documents": True,
        "prefix": True,
        "dropout": False,
        "softcap": True,
        "sinks": True,
        "value": False,
        "dilations": False,
        "padding": True,
        "dtypes": BOTH,
        "head_dims": ANY_WIDTH,
        "platforms": ANYWHERE,
    },
    "xla": {
        "score": True,
        "documents": True,
        "prefix": True,
        "dropout": False,
        "softcap": False,
        "sinks": False,
        "value": False,
        "dilations": False,
        "padding": True,
        "dtypes": BOTH,
        "head_dims": ANY_WIDTH,
        "platforms": ANYWHERE,
    },
    "cudnn": {
        "score": False,
        "documents": False,
        "prefix": False,
        "dropout": False,
        "softcap": False,
        "sinks": False,
        "value": False,
        "dilations": False,
        "padding": False,
        "dtypes": ("bfloat16",),
        "head_dims": range(8, 129, 8),
        "platforms": ("gpu",),
    },
}

FIELDS: tuple[Field, ...] = (
    Field(
        "seed", 0, int, "seed of everything random: initial values, data order, dropout", minimum=0, maximum=2**31 - 1
    ),
    # Model
    Field(
        "model.architecture",
        "decoder",
        str,
        "which stack",
        {
            "decoder": "each position sees itself and what came before (GPT, LLaMA)",
            "encoder": "each position sees all others (BERT)",
            "encoder_decoder": "an encoder, and a decoder that also reads it by cross-attention (Vaswani et al. 2017; T5)",
            "elmo": "two recurrent language models over characters, forwards and backwards (Peters et al. 2018)",
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
    Field("model.residual", True, bool, "add each sublayer's output to its input; False keeps the output alone"),
    Field("model.tie_embeddings", True, bool, "the output head is the token embedding, transposed", when=OF_TOKENS),
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
        "what the backward pass computes again instead of keeping",
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
            "shared_norm": "side by side, x + Attention(Norm(x)) + FFN(Norm(x)), with one norm (GPT-J)",
            "own_norms": "side by side, each with a norm of its own (GPT-NeoX)",
        },
    ),
    Field(
        "model.layers.pattern",
        (),
        tuple,
        "kinds of layers, repeated over the depth, e.g. local,local,global; empty: all alike",
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
        when=BOTH_SIDES,
    ),
    Field("model.embedding.norm", False, bool, "normalise the sum of the embeddings (BERT, BLOOM)", when=NORMED),
    Field(
        "model.embedding.segments",
        0,
        int,
        "number of segment embeddings (BERT: 2); 0 for none",
        minimum=0,
        when=ENCODER,
    ),
    Field(
        "model.norm.kind",
        "layernorm",
        str,
        "normalisation",
        {
            "layernorm": "subtract the mean, divide by the standard deviation, scale, shift (Ba et al. 2016)",
            "rmsnorm": "divide by the root mean square, scale (Zhang & Sennrich 2019)",
            "centering": "subtract the mean, scale, shift: what LayerNorm does beside dividing",
            "batchnorm": "normalise each dimension over the tokens of the batch, running statistics in evaluation (Ioffe & Szegedy 2015)",
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
        when=NORMED,
    ),
    Field(
        "model.norm.epsilon",
        1e-5,
        float,
        "added to the variance (or mean square) before the root",
        above=0,
        maximum=1,
        when=DIVIDED,
    ),
    Field("model.norm.scale", True, bool, "the norm learns a factor per dimension", when=NORMED),
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
        "the norm learns a shift",
        when=("model.norm.kind", ("layernorm", "centering", "batchnorm")),
    ),
    Field(
        "model.norm.momentum",
        0.99,
        float,
        "share of the old running statistics kept in a step",
        minimum=0,
        maximum=0.99999,
        when=("model.norm.kind", ("batchnorm",)),
    ),
    Field(
        "model.position.kind",
        "learned",
        str,
        "how a token's position enters",
        {
            "none": "not at all: only the causal mask tells order (NoPE)",
            "learned": "a learned vector per position, added to the embedding (Gehring et al. 2017; GPT)",
            "sinusoidal": "a fixed sine/cosine vector, added to the embedding (Vaswani et al. 2017, section 3.5)",
            "rope": "queries and keys rotated by position, in every layer (Su et al. 2021)",
            "alibi": "a penalty on the score, linear in distance, per head (Press et al. 2021)",
            "relative_bias": "a learned number per head and bucket of distance, added to the score (Raffel et al. 2020; T5)",
            "shaw": "a learned vector per clipped distance, added to keys and values (Shaw et al. 2018)",
        },
    ),
    Field(
        "model.position.max_length",
        AUTO,
        int,
        "rows of the learned table: no sequence can be longer",
        minimum=1,
        auto="data.sequence_length, or what a side of an encoder-decoder needs",
        when=("model.position.kind", ("learned",)),
    ),
    Field(
        "model.position.offset",
        0,
        int,
        "number of the first position; a learned table has as many rows more (RoBERTa: 2)",
        minimum=0,
        when=("model.position.kind", EMBEDDED_POSITIONS),
    ),
    Field("model.position.theta", 10000.0, float, "base of RoPE's wavelengths", above=0, when=ROPE),
    Field(
        "model.position.fraction",
        1.0,
        float,
        "share of each head's dimensions that RoPE rotates",
        above=0,
        maximum=1,
        when=ROPE,
    ),
    Field(
        "model.position.layout",
        AUTO,
        str,
        "which dimensions form a pair",
        {
            "half": "k with k + K/2 (GPT-NeoX, LLaMA in Hugging Face)",
            "interleaved": "2k with 2k + 1 (Su et al. 2021; Vaswani et al. 2017)",
        },
        auto="half for rope, interleaved for sinusoidal",
        when=("model.position.kind", ("rope", "sinusoidal")),
    ),
    Field(
        "model.position.endpoint",
        False,
        bool,
        "sinusoids' frequencies end at 1/10000: powers i/(D/2 - 1) in place of 2i/D (fairseq)",
        when=("model.position.kind", ("sinusoidal",)),
    ),
    Field(
        "model.position.scaling.kind",
        "none",
        str,
        "how RoPE is stretched over longer sequences than it was trained with",
        {
            "none": "not at all",
            "linear": "positions divided by `factor` (Chen et al. 2023)",
            "dynamic": "theta grows with the length of the sequence beyond `original_length` (dynamic NTK)",
            "yarn": "short wavelengths kept, long ones divided by `factor`, scores sharpened (Peng et al. 2023)",
            "llama3": "short wavelengths kept, long ones divided by `factor`, a ramp between (LLaMA 3.1)",
        },
        when=ROPE,
    ),
    Field("model.position.scaling.factor", 1.0, float, "how much longer", minimum=1, when=SCALED_ROPE),
    Field(
        "model.position.scaling.original_length",
        2048,
        int,
        "tokens of a sequence before stretching",
        minimum=1,
        when=STRETCHED_ROPE,
    ),
    Field(
        "model.position.scaling.low",
        AUTO,
        float,
        "turns over `original_length` below which a wavelength is divided fully",
        above=0,
        auto="1",
        when=("model.position.scaling.kind", ("yarn", "llama3")),
    ),
    Field(
        "model.position.scaling.high",
        AUTO,
        float,
        "turns over `original_length` above which a wavelength is kept",
        above=0,
        auto="32 for yarn, 4 for llama3",
        when=("model.position.scaling.kind", ("yarn", "llama3")),
    ),
    Field(
        "model.position.buckets",
        32,
        int,
        "number of buckets of distance",
        minimum=4,
        when=("model.position.kind", ("relative_bias",)),
    ),
    Field(
        "model.position.max_distance",
        128,
        int,
        "distance from which on all share the last bucket",
        minimum=2,
        when=("model.position.kind", ("relative_bias",)),
    ),
    Field(
        "model.position.shared",
        True,
        bool,
        "one table for all layers (T5); False: one per layer (umT5)",
        when=("model.position.kind", ("relative_bias",)),
    ),
    Field(
        "model.position.clip",
        16,
        int,
        "k, the distance at which relative positions are clipped",
        minimum=0,
        when=("model.position.kind", ("shaw",)),
    ),
    Field(
        "model.position.values",
        True,
        bool,
        "values get relative vectors too; False: keys only",
        when=("model.position.kind", ("shaw",)),
    ),
    Field(
        "model.attention.kind",
        "softmax",
        str,
        "how scores become weights",
        {
            "softmax": "softmax of the scaled scores (Vaswani et al. 2017, section 3.2.1)",
            "performer": "softmax's kernel by positive orthogonal random features, linear in T (FAVOR+, Choromanski et al. 2021)",
        },
    ),
    Field("model.attention.num_heads", 4, int, "H, number of query heads", minimum=1),
    Field(
        "model.attention.num_kv_heads",
        AUTO,
        int,
        "G, number of key/value heads: H is MHA, 1 is MQA, between is GQA (Ainslie et al. 2023)",
        minimum=1,
        auto="num_heads",
    ),
    Field(
        "model.attention.num_query_heads",
        AUTO,
        int,
        "number of different queries, each read by num_heads / num_query_heads neighbouring heads, as keys and values are in GQA",
        minimum=1,
        auto="num_heads",
    ),
    Field(
        "model.attention.cross_kv_heads",
        AUTO,
        int,
        "number of key/value heads of cross-attention",
        minimum=1,
        auto="num_kv_heads",
        when=BOTH_SIDES,
    ),
    Field("model.attention.head_dim", AUTO, int, "K, width of a head", minimum=1, auto="dim / num_heads"),
    Field(
        "model.attention.window",
        0,
        int,
        "keys a query sees, itself included: those before it, or in an encoder as many on both sides; 0 for all",
        minimum=0,
    ),
    Field(
        "model.attention.dilations",
        (),
        tuple,
        "of each head in turn, d: its window is of every d-th token and reaches d times as far (Longformer); empty: 1",
        minimum=1,
    ),
    Field(
        "model.attention.global_tokens",
        0,
        int,
        "first tokens of a row that see all and are seen by all (Longformer)",
        minimum=0,
    ),
    Field(
        "model.attention.global_projections",
        False,
        bool,
        "global tokens have their own query, key and value matrices (Longformer)",
    ),
    Field(
        "model.attention.qk_norm",
        "none",
        str,
        "RMSNorm of queries and keys",
        {
            "none": "no",
            "head": "each head by itself, before RoPE (Henry et al. 2020; Qwen 3)",
            "full": "all heads together, before RoPE (OLMo 2)",
        },
    ),
    Field("model.attention.softcap", 0.0, float, "c in c * tanh(score / c); 0 for no cap (Gemma 2)", minimum=0),
    Field(
        "model.attention.sinks", False, bool, "a learned score per head that takes weight and gives no value (gpt-oss)"
    ),
    Field(
        "model.attention.features",
        AUTO,
        int,
        "number of random features of a head",
        minimum=1,
        auto="K * ln(K)",
        when=PERFORMER,
    ),
    Field(
        "model.attention.redraw_every",
        1000,
        int,
        "steps between new random features; 0 keeps the first",
        minimum=0,
        when=PERFORMER,
    ),
    Field("model.attention.scale", AUTO, float, "factor on the scores", above=0, auto="1 / sqrt(head_dim)"),
    Field("model.attention.bias", True, bool, "the query, key, value and output projections have a bias"),
    Field(
        "model.attention.dropout", 0.0, float, "dropout rate on the attention probabilities", minimum=0, maximum=0.99
    ),
    Field(
        "model.attention.kernel",
        AUTO,
        str,
        "implementation of the attention product",
        {
            "einsum": "plain einsum, the readable reference: holds scores of size T x S",
            "rows": "einsum, a row of the batch at a time, scores computed again in the backward pass: fastest on a CPU",
            "xla": "jax.nn.dot_product_attention on any device: holds scores of size T x S",
            "cudnn": "fused on NVIDIA GPUs, memory linear in T: bfloat16, no ALiBi, no packed documents",
        },
        auto="where it can do what the config asks: cudnn on a GPU, rows on a CPU; else einsum",
        when=("model.attention.kind", ("softmax",)),
    ),
    Field(
        "model.ffn.kind",
        "gelu",
        str,
        "feed-forward",
        {
            "relu": "max(0, x W1) W2 (Vaswani et al. 2017)",
            "gelu": "gelu(x W1) W2 (Hendrycks & Gimpel 2016; GPT)",
            "silu": "silu(x W1) W2, also called Swish",
            "swiglu": "(silu(x W1) * x W3) W2 (Shazeer 2020; LLaMA)",
            "geglu": "(gelu(x W1) * x W3) W2 (Shazeer 2020)",
            "reglu": "(relu(x W1) * x W3) W2 (Shazeer 2020)",
        },
    ),
    Field("model.ffn.hidden_dim", AUTO, int, "F, width of the hidden layer", minimum=1, auto="4 * dim"),
    Field(
        "model.ffn.match_parameters",
        False,
        bool,
        "gated kinds take 2/3 of hidden_dim, so that all kinds have as many weights (Shazeer 2020)",
    ),
    Field("model.ffn.bias", True, bool, "the feed-forward's projections have a bias"),
    Field(
        "model.ffn.gelu_approximation",
        "none",
        str,
        "form of GELU",
        {"none": "exact, by the error function", "tanh": "tanh approximation (GPT-2)"},
        when=("model.ffn.kind", ("gelu", "geglu")),
    ),
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
        "model.init.scale_residual", False, bool, "divide the sublayers' last matrices by sqrt(2 * num_layers) (GPT-2)"
    ),
    # Heads
    Field(
        "model.head.transform",
        False,
        bool,
        "a dense layer, the activation and a norm come before the output matrix (BERT)",
        when=OF_TOKENS,
    ),
    Field("model.head.bias", False, bool, "the output matrix has a bias", when=OF_TOKENS),
    Field(
        "model.head.scale",
        "none",
        str,
        "factor on the hidden states before the output matrix",
        {"none": "1", "rsqrt_dim": "1 / sqrt(D) (T5 with a tied head)"},
        when=OF_TOKENS,
    ),
    Field(
        "model.head.softcap", 0.0, float, "c in c * tanh(logit / c); 0 for no cap (Gemma 2)", minimum=0, when=OF_TOKENS
    ),
    Field(
        "model.head.pooler",
        False,
        bool,
        "a dense layer and tanh over the first token, or what `pooling` takes (BERT)",
        when=ENCODER,
    ),
    Field(
        "model.head.next_sentence",
        False,
        bool,
        "two logits from the pooler: does the second segment follow the first (BERT)",
        when=("model.head.pooler", (True,)),
    ),
    Field(
        "model.head.classes",
        AUTO,
        int,
        "C, outputs of the head of a task",
        minimum=1,
        auto="as many as there are labels; regression 1, extraction 2",
        when=OF_TASKS,
    ),
    Field(
        "model.head.pooling",
        AUTO,
        str,
        "what of a row its class or number is read from",
        {
            "first": "the first token's hidden state (BERT's [CLS])",
            "last": "the last token's hidden state (GPT)",
            "mean": "the mean of all tokens' hidden states",
        },
        auto="first in an encoder, last in a decoder, mean in an ELMo",
        when=OF_SEQUENCES,
    ),
    # ELMo
    Field(
        "model.elmo.characters",
        50,
        int,
        "bytes of a token, its two marks included; longer tokens are cut",
        minimum=3,
        when=ELMO,
    ),
    Field("model.elmo.character_dim", 16, int, "width of a character's embedding", minimum=1, when=ELMO),
    Field(
        "model.elmo.filters",
        (1, 32, 2, 32, 3, 64, 4, 128, 5, 256, 6, 512, 7, 1024),
        tuple,
        "widths and numbers of the character convolutions, in turn",
        minimum=1,
        when=ELMO,
    ),
    Field("model.elmo.highways", 2, int, "number of highway layers", minimum=0, when=ELMO),
    Field("model.elmo.cell_dim", 4096, int, "width of an LSTM's cell, which is projected to D", minimum=1, when=ELMO),
    Field(
        "model.elmo.cell_clip",
        3.0,
        float,
        "largest magnitude of a cell's state; 0 for no clipping",
        minimum=0,
        when=ELMO,
    ),
    Field(
        "model.elmo.normalise_layers",
        False,
        bool,
        "the mixture of layers that a task reads is of layers whose every vector is normalised (Peters et al. 2018, section 3.2)",
        when=ELMO,
    ),
    Field(
        "model.elmo.projection_clip",
        3.0,
        float,
        "largest magnitude of a projected state; 0 for no clipping",
        minimum=0,
        when=ELMO,
    ),
    # Objective
    Field(
        "objective.kind",
        "causal",
        str,
        "what is predicted and scored",
        {
            "causal": "the next token, from all before it",
            "masked": "tokens that were hidden, from all others (Devlin et al. 2019)",
            "prefix": "the second part of a row, token by token, from the first part (Raffel et al. 2020, section 3.2.3)",
            "span": "spans that were cut out of a row, from the rest of it (Raffel et al. 2020, section 3.1.4; T5)",
            "denoising": 'a whole row, from that row with tokens hidden (Raffel et al. 2020, section 3.3.1, "BERT-style")',
            "translation": "a text in another language, token by token, from the original (Vaswani et al. 2017)",
            "bidirectional": "the next token from those before it, and the one before from those after it (Peters et al. 2018)",
            "classification": "the label of a text or of a pair of texts (Devlin et al. 2019, section 4.1)",
            "regression": "a number for a text or a pair of texts, by squared error (Devlin et al. 2019, section 4.1)",
            "tagging": "a tag for each word, from its first token (Devlin et al. 2019, section 5.3)",
            "extraction": "where in a context the answer to a question begins and ends (Devlin et al. 2019, section 4.2)",
        },
    ),
    Field("objective.longest_answer", 30, int, "most tokens of an answer that is given", minimum=1, when=EXTRACTION),
    Field(
        "objective.select_fraction",
        0.15,
        float,
        "share of the tokens that are predicted",
        above=0,
        maximum=1,
        when=HIDING,
    ),
    Field(
        "objective.mask_fraction",
        0.8,
        float,
        "share of the predicted tokens that the input shows as [MASK]",
        minimum=0,
        maximum=1,
        when=HIDING,
    ),
    Field(
        "objective.random_fraction",
        0.1,
        float,
        "share of the predicted tokens that the input shows as a random token",
        minimum=0,
        maximum=1,
        when=HIDING,
    ),
    Field(
        "objective.mask_copies",
        0,
        int,
        "masks of a row, taken in turn epoch by epoch (BERT: 10); 0: new ones in every epoch (RoBERTa)",
        minimum=0,
        when=HIDING,
    ),
    Field(
        "objective.whole_words",
        False,
        bool,
        "words are hidden as a whole: all their tokens or none (BERT's whole-word masking)",
        when=HIDING,
    ),
    Field(
        "objective.next_sentence",
        False,
        bool,
        "whether the second segment follows the first is predicted too, with model.head.next_sentence (Devlin et al. 2019)",
        when=MASKED,
    ),
    Field(
        "objective.prefix_length",
        AUTO,
        int,
        "tokens of a row that the encoder reads, or that see each other in a decoder",
        minimum=1,
        auto="half of data.sequence_length",
        when=("objective.kind", ("prefix",)),
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
        "mean number of tokens of a span that is cut out",
        minimum=1,
        when=SPANS,
    ),
    Field("objective.sentinels", 100, int, "ids beside the tokenizer's that stand for spans", minimum=1, when=SPANS),
    Field(
        "objective.sampled_softmax",
        0,
        int,
        "ids sampled for an update, which its softmax is over; 0 for all (Jozefowicz et al. 2016; the published ELMo: 8192)",
        minimum=0,
        when=("objective.kind", ("bidirectional",)),
    ),
    Field(
        "objective.label_smoothing",
        0.0,
        float,
        "share of a target's probability that training spreads over all ids (Vaswani et al. 2017: 0.1)",
        minimum=0,
        maximum=0.9,
        when=OF_TOKENS,
    ),
    Field(
        "objective.beams",
        5,
        int,
        "hypotheses of the beam search that translates what is held out",
        minimum=1,
        when=TRANSLATION,
    ),
    Field(
        "objective.length_penalty",
        1.0,
        float,
        "a in its score log p / length^a: above 0 favours long translations",
        when=TRANSLATION,
    ),
    Field(
        "objective.z_loss",
        0.0,
        float,
        "weight of log(sum exp logits)^2 in the loss (PaLM: 1e-4)",
        minimum=0,
        when=OF_TOKENS,
    ),
    Field(
        "objective.chunk_tokens",
        AUTO,
        int,
        "tokens whose logits are held at once; 0 for all",
        minimum=0,
        auto="a power of two that keeps a chunk's logits near 32 MB, at least 1024",
        when=OF_TOKENS,
    ),
    Field(
        "objective.distillation.teacher",
        "",
        str,
        "folder of a run whose predictions are learnt too (Hinton et al. 2015; Sanh et al. 2019); empty: no teacher",
        when=TAUGHT,
    ),
    Field(
        "objective.distillation.kl",
        1.0,
        float,
        "weight of T^2 KL(teacher || student), at the temperature T, in the tokens that are predicted",
        minimum=0,
        when=TAUGHT,
    ),
    Field(
        "objective.distillation.temperature",
        2.0,
        float,
        "T, by which the scores of both are divided for it",
        above=0,
        when=TAUGHT,
    ),
    Field(
        "objective.distillation.cosine",
        0.0,
        float,
        "weight of 1 - cos(the student's last hidden state, the teacher's), in all tokens that are read",
        minimum=0,
        when=TAUGHT,
    ),
    Field(
        "objective.distillation.hard",
        1.0,
        float,
        "weight of the objective's own loss, beside a teacher",
        minimum=0,
        when=TAUGHT,
    ),
    # Data
    Field(
        "data.source",
        "stdlib",
        str,
        "text: `stdlib` (the running Python's own library, no download; `stdlib:docstrings`), `text:PATH`, `jsonl:PATH`, `parquet:PATH` "
        "(a file, folder or glob), `hf:NAME` (Hugging Face; or a folder), `tfds:NAME`, `synthetic:TASK`, or `mixture`; of examples "
        "with labels also `csv:PATH`, `tsv:PATH`, `conll:PATH`, `squad:PATH`, and `stdlib` is a task of the library's own; pairs of "
        "texts: `stdlib:translation`, `parallel:PATH.{en,de}`, and those with columns",
    ),
    Field("data.column", "text", str, 'where a record has its text; "a.b" is b of what it has at a', when=RECORDS),
    Field(
        "data.second_column", "", str, "where a record has a second text, for pairs; empty: there is none", when=RECORDS
    ),
    Field("data.label_column", "label", str, "where a record has its label", when=RECORDS),
    Field(
        "data.source_column",
        "source",
        str,
        'where a record has the text to translate, e.g. "translation.en"',
        when=TRANSLATION,
    ),
    Field("data.target_column", "target", str, "where a record has its translation", when=TRANSLATION),
    Field(
        "data.header",
        True,
        bool,
        "the first line names the columns; else they are called 0, 1, 2 ...",
        when=("data.source", ("csv", "tsv")),
    ),
    Field(
        "data.conll.words",
        0,
        int,
        "column of the words, counted from 0; from the last one backwards: -1, -2 ...",
        when=CONLL,
    ),
    Field("data.conll.tags", -1, int, "column of the tags, likewise", when=CONLL),
    Field(
        "data.labels",
        (),
        tuple,
        "labels in the order of their numbers; empty: those of the training examples, sorted",
        items=str,
        when=("objective.kind", ("classification", "tagging")),
    ),
    Field(
        "data.stride",
        AUTO,
        int,
        "tokens by which the rows of a context that is too long for one move on (BERT: 128)",
        minimum=1,
        auto="a third of data.sequence_length",
        when=EXTRACTION,
    ),
    Field(
        "data.held_out",
        "",
        str,
        "source of the held-out examples, e.g. `tsv:dev.tsv`, or `split:NAME` of the same hf or tfds data set; "
        "empty: `validation_fraction` of the source",
        when=OF_EXAMPLES,
    ),
    Field(
        "data.hub.revision",
        "",
        str,
        "commit of a data set on the Hugging Face hub, 40 hex digits; a folder has none",
        when=HUB,
    ),
    Field("data.hub.subset", "", str, "which of a data set's configurations; empty: its only or default one", when=HUB),
    Field("data.hub.split", "train", str, "which of a data set's splits", when=SPLIT_IN_PARTS),
    Field("data.hub.streaming", False, bool, "records are read as they arrive, without a copy on this disk", when=HUB),
    Field("data.hub.folder", "", str, "where TFDS keeps its data sets; empty: its own default", when=TFDS),
    Field(
        "data.mixture",
        (),
        tuple,
        'weights and sources whose rows are mixed, e.g. "0.7*text:corpus.txt","0.3*stdlib"',
        items=str,
        when=("data.source", ("mixture",)),
    ),
    Field(
        "data.bad_text",
        "error",
        str,
        "what happens to bytes that are not UTF-8 and to NUL characters",
        {
            "error": "ends with a line that says where it is",
            "replace": "each bad byte or NUL becomes U+FFFD, and is counted",
            "skip": "the line of a text file, or the record, is left out, and is counted",
        },
    ),
    Field(
        "data.document_separator",
        "",
        str,
        "string that separates documents in a text file; empty: a file is one document",
    ),
    Field("data.validation_fraction", 0.1, float, "share of the text held out", above=0, maximum=0.9),
    Field(
        "data.training_fraction",
        1.0,
        float,
        "share of the training part that is read; what is held out stays the same, and so does a trained tokenizer",
        above=0,
        maximum=1,
        when=OF_TEXT,
    ),
    Field(
        "data.examples",
        0,
        int,
        "training examples that are learned from, chosen by their content, so that more hold all of fewer; 0: "
        "all; what is held out, the labels and a trained tokenizer stay the same",
        minimum=0,
        when=OF_TASKS,
    ),
    Field(
        "data.tokenizer.kind",
        "bytes",
        str,
        "tokenizer",
        {
            "bytes": "UTF-8 bytes: 256 ids and one that opens a document",
            "byt5": "UTF-8 bytes after 3 special ids, as ByT5 numbers them",
            "characters": "the characters of the source and one id that opens a document",
            "words": "the words of the source, as white space divides them, for models that read characters",
            "bpe": "byte-level byte-pair encoding, trained on the training split once and cached",
            "wordpiece": "pieces of words, with [CLS], [SEP] and [MASK], trained likewise (BERT)",
            "unigram": "the likeliest cut into pieces, trained likewise (T5)",
            "file": "a published one, read from `path`",
        },
    ),
    Field(
        "data.tokenizer.path",
        "",
        str,
        "tokenizer.json, vocab.txt, vocab.json with merges.txt, a SentencePiece .model, or a folder or run with one",
        when=("data.tokenizer.kind", ("file",)),
    ),
    Field(
        "data.tokenizer.vocab_size",
        8192,
        int,
        "size of a trained vocabulary",
        minimum=258,
        when=("data.tokenizer.kind", ("bpe", "wordpiece", "unigram")),
    ),
    Field(
        "data.tokenizer.lowercase",
        True,
        bool,
        "letters are made small, and WordPiece takes their accents off (BERT uncased)",
        when=("data.tokenizer.kind", ("wordpiece", "unigram")),
    ),
    Field("data.sequence_length", 128, int, "T, tokens per row", minimum=1),
    Field("data.batch_size", 16, int, "B, rows per update, over all devices", minimum=1),
    Field(
        "data.buckets",
        8,
        int,
        "K, the shapes of batches: pairs of up to T / k tokens a side, k * batch_size of them, for k = 1 .. K; of labelled examples "
        "batch_size of up to T / k tokens, for k = 1, 2, 4 .. K, but no width below 16",
        minimum=1,
        when=OF_EXAMPLES,
    ),
    Field(
        "data.rows",
        "packed",
        str,
        "how text becomes rows",
        {
            "packed": "tokens one after another, cut every T: rows are full, and begin and end anywhere",
            "full_sentences": "whole sentences up to T tokens, across documents, a separator between two (Liu et al. 2019, section 4.2)",
            "doc_sentences": "whole sentences up to T tokens of one document alone: rows at its end are shorter (Liu et al. 2019, section 4.2)",
            "segment_pairs": "two segments of sentences, the second the next or one of another document (Devlin et al. 2019)",
            "sentence_pairs": "two single sentences, paired likewise (Liu et al. 2019, section 4.2)",
        },
        when=MASKED,
    ),
    Field(
        "data.offsets",
        (),
        tuple,
        "positions at which the rows of a batch begin, in turn, in training and in evaluation; empty: all at 0",
        minimum=0,
        when=("objective.kind", ("causal", "masked")),
    ),
    Field(
        "data.isolate_documents",
        False,
        bool,
        "packed documents do not see each other and each counts positions from 0",
        when=OF_TOKENS,
    ),
    # Optimization
    Field(
        "optimizer.kind",
        "adamw",
        str,
        "optimizer",
        {"adamw": "Adam with decoupled weight decay (Loshchilov & Hutter 2019)"},
    ),
    Field("optimizer.learning_rate", 1e-3, float, "peak learning rate", above=0),
    Field(
        "optimizer.weight_decay",
        0.0,
        float,
        "decoupled weight decay on matrices and embeddings; never on biases and norms",
        minimum=0,
    ),
    Field("optimizer.beta1", 0.9, float, "decay of the first moment", minimum=0, maximum=0.99999),
    Field("optimizer.beta2", 0.999, float, "decay of the second moment", minimum=0, maximum=0.9999999),
    Field("optimizer.epsilon", 1e-8, float, "added to the root of the second moment", above=0),
    Field("optimizer.clip_norm", 0.0, float, "largest global norm of the gradient; 0 for no clipping", minimum=0),
    Field(
        "schedule.kind",
        "constant",
        str,
        "learning rate after the warm-up",
        {
            "constant": "stays at the peak",
            "cosine": "half a cosine to `final_fraction` of the peak at the last step",
            "linear": "a line to `final_fraction` of the peak at the last step",
            "inverse_sqrt": "peak * sqrt(warm-up / step) (Vaswani et al. 2017)",
            "wsd": "warm-up, stable, then a line down over the last `decay_fraction` of the steps (Hu et al. 2024)",
        },
    ),
    Field(
        "schedule.warmup_steps", 0, int, "steps of linear warm-up; the peak is reached at the last of them", minimum=0
    ),
    Field(
        "schedule.final_fraction",
        0.0,
        float,
        "last learning rate as a share of the peak",
        minimum=0,
        maximum=1,
        when=("schedule.kind", ("cosine", "linear", "wsd")),
    ),
    Field(
        "schedule.decay_fraction",
        0.2,
        float,
        "share of the steps in which `wsd` decays",
        above=0,
        maximum=1,
        when=("schedule.kind", ("wsd",)),
    ),
    # Training
    Field("training.steps", 1000, int, "number of updates", minimum=1),
    Field(
        "training.start_from",
        "",
        str,
        "folder of a run whose parameters and statistics this one starts from; empty: fresh values",
    ),
    Field(
        "training.start_layers",
        (),
        tuple,
        "numbers, from 0 on, of the layers of that run which the layers here start from, in turn; empty: as many, one by one",
        minimum=0,
        when=("model.architecture", ("decoder", "encoder")),
    ),
    Field(
        "training.trained_layers",
        AUTO,
        int,
        "0: only the head of a task is trained; k: the last k layers too, with the norm after them",
        minimum=0,
        auto="everything is trained",
        when=OF_TASKS,
    ),
    Field(
        "training.accumulation_steps",
        1,
        int,
        "parts in which a batch is computed; the update is that of the whole batch",
        minimum=1,
    ),
    Field("training.log_every", 10, int, "steps between training lines of metrics.jsonl", minimum=1),
    Field(
        "training.dynamics_every",
        0,
        int,
        "steps between records of how training goes, layer by layer, in dynamics.jsonl; the first step is one; 0: none",
        minimum=0,
    ),
    Field(
        "training.trackers",
        AUTO,
        tuple,
        "what shows the lines of metrics.jsonl besides: tensorboard, wandb, trackio; empty: nothing",
        auto="tensorboard where tensorboardX is installed, else nothing",
        items=str,
    ),
    Field(
        "training.eval_every",
        250,
        int,
        "steps between evaluations; the last step is always evaluated; 0: only that one",
        minimum=0,
    ),
    Field(
        "training.eval_batches",
        AUTO,
        int,
        "batches per evaluation, spread over the validation split; 0 for all of it",
        minimum=0,
        auto="40; all of the examples of a task",
    ),
    Field(
        "training.eval_context",
        0,
        int,
        "first tokens of a row that evaluation reads and does not score: those of a prefix, to compare with objective.kind=prefix",
        minimum=0,
        when=("objective.kind", ("causal",)),
    ),
    Field(
        "training.eval_masks",
        "as_trained",
        str,
        "how evaluation shows the tokens that are predicted",
        {
            "as_trained": "as training does, by objective.mask_fraction and random_fraction",
            "all": "every one as [MASK], so that models trained with other fractions read the same rows",
        },
        when=HIDING,
    ),
    Field(
        "training.translate_every",
        0,
        int,
        "steps between translations of what is held out, scored by BLEU; the last step always is; 0: only that one",
        minimum=0,
        when=TRANSLATION,
    ),
    Field(
        "training.eval_lengths",
        (),
        tuple,
        "further sequence lengths for the last evaluation, e.g. 256,512",
        minimum=1,
        when=OF_TOKENS,
    ),
    Field(
        "training.checkpoint_every",
        250,
        int,
        "steps between checkpoints; the last step is always saved; 0: only that one",
        minimum=0,
    ),
    Field("training.keep_checkpoints", 2, int, "newest checkpoints kept, beside the best one", minimum=1),
    Field(
        "mesh.data",
        -1,
        int,
        "devices that share the batch, each with all parameters; -1 for all that are left",
        minimum=-1,
    ),
    Field("mesh.fsdp", 1, int, "devices that share the batch and the parameters", minimum=1),
    Field("mesh.tensor", 1, int, "devices that share heads, hidden units and vocabulary", minimum=1),
)

BY_PATH: dict[str, Field] = {field.path: field for field in FIELDS}

# What does not change the result of a run, and so is no part of its identity: where and how it runs
# and how often it reports.
NOT_RESULT_RELEVANT: tuple[str, ...] = (
    "data.hub.streaming",
    "data.hub.folder",
    "mesh.data",
    "mesh.fsdp",
    "mesh.tensor",
    "training.log_every",
    "training.dynamics_every",
    "training.eval_every",
    "training.translate_every",
    "training.checkpoint_every",
    "training.keep_checkpoints",
    "training.trackers",
)
