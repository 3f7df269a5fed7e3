"""Every config field there is: its default, its type, its meaning and what it may be.

This table is the only place where a field or a default is defined. Validation, `--help`, error texts, `zoo describe` and the
generated configs all read it. A module takes the part of the resolved config that is its own and re-declares nothing.
"""

from dataclasses import dataclass
from typing import Any

AUTO = "auto"


@dataclass(frozen=True)
class Field:
    """One leaf of the config.

    Attributes:
        path: dotted path, e.g. "model.norm.kind".
        default: value in a fresh config; `AUTO` when it is derived by `resolve`.
        kind: int, float, bool, str, or tuple (of ints).
        meaning: one line for people, with the unit.
        choices: allowed names with one line each, for fields that pick an implementation.
        minimum, maximum: inclusive range of a number; `above` is an exclusive lower bound.
        auto: how an `auto` value is derived; empty where `auto` is not allowed.
        when: (path, values): the field is read only when the field at `path` has one of `values`.
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


NORMED = ("model.norm.kind", ("layernorm", "rmsnorm"))
GATED = ("swiglu", "geglu", "reglu")
ACTIVATION_OF = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swiglu": "silu", "geglu": "gelu", "reglu": "relu"}

# What an attention kernel can honour. `score`: an additive score term (ALiBi); `documents`: isolation of packed documents;
# `dropout`: dropout on the attention probabilities; `head_dims`: widths of a head; `platforms`: where it runs. What a kernel lacks is
# refused when the config is resolved, a wrong platform when a run starts.
ANYWHERE = ("cpu", "gpu", "tpu")
ANY_WIDTH = range(1, 2**31)
ATTENTION_KERNELS = {
    "einsum": {"score": True, "documents": True, "dropout": True, "dtypes": ("float32", "bfloat16"),
               "head_dims": ANY_WIDTH, "platforms": ANYWHERE},
    "rows": {"score": True, "documents": True, "dropout": False, "dtypes": ("float32", "bfloat16"),
               "head_dims": ANY_WIDTH, "platforms": ANYWHERE},
    "xla": {"score": True, "documents": True, "dropout": False, "dtypes": ("float32", "bfloat16"),
               "head_dims": ANY_WIDTH, "platforms": ANYWHERE},
    "cudnn": {"score": False, "documents": False, "dropout": False, "dtypes": ("bfloat16",),
              "head_dims": range(8, 129, 8), "platforms": ("gpu",)},
}

FIELDS: tuple[Field, ...] = (
    Field("seed", 0, int, "seed of everything random: initial values, data order, dropout", minimum=0, maximum=2**31 - 1),
    # Model
    Field("model.architecture", "decoder", str, "which stack", {
        "decoder": "causal decoder: each position sees itself and what came before (GPT, LLaMA)"}),
    Field("model.dim", 256, int, "D, width of the residual stream", minimum=1),
    Field("model.num_layers", 4, int, "L, number of blocks", minimum=1),
    Field("model.vocab_size", AUTO, int, "V, number of token ids", minimum=2, auto="the tokenizer's size"),
    Field("model.residual", True, bool, "add each sublayer's output to its input; False keeps the output alone"),
    Field("model.tie_embeddings", True, bool, "the output head is the token embedding, transposed"),
    Field("model.dropout", 0.0, float, "dropout rate on the embedding and on every sublayer's output", minimum=0, maximum=0.99),
    Field("model.dtype", "float32", str, "type of activations; parameters are always float32", {
        "float32": "single precision", "bfloat16": "half the memory and traffic; norms and losses stay float32"}),
    Field("model.scan_layers", False, bool, "run the layers as one scanned program: compiles faster, slower per step on a CPU"),
    Field("model.remat", "none", str, "what the backward pass computes again instead of keeping", {
        "none": "keep every activation", "full": "keep only each block's input", "dots": "keep the matrix products' outputs"}),
    Field("model.norm.kind", "layernorm", str, "normalisation", {
        "layernorm": "subtract the mean, divide by the standard deviation, scale, shift (Ba et al. 2016)",
        "rmsnorm": "divide by the root mean square, scale (Zhang & Sennrich 2019)",
        "none": "no normalisation anywhere"}),
    Field("model.norm.placement", "pre", str, "where a block normalises", {
        "pre": "x + f(norm(x)), and one norm after the last block (Xiong et al. 2020)",
        "post": "norm(x + f(x)), as in the original Transformer (Vaswani et al. 2017)"}, when=NORMED),
    Field("model.norm.epsilon", 1e-5, float, "added to the variance (or mean square) before the root", above=0, maximum=1, when=NORMED),
    Field("model.norm.bias", True, bool, "LayerNorm learns a shift", when=("model.norm.kind", ("layernorm",))),
    Field("model.position.kind", "learned", str, "how a token's position enters", {
        "none": "not at all: only the causal mask tells order (NoPE)",
        "learned": "a learned vector per position, added to the embedding (Gehring et al. 2017; GPT)",
        "sinusoidal": "a fixed sine/cosine vector, added to the embedding (Vaswani et al. 2017, section 3.5)",
        "rope": "queries and keys rotated by position, in every layer (Su et al. 2021)",
        "alibi": "a penalty on the score, linear in distance, per head (Press et al. 2021)"}),
    Field("model.position.max_length", AUTO, int, "rows of the learned table: no sequence can be longer", minimum=1,
          auto="data.sequence_length", when=("model.position.kind", ("learned",))),
    Field("model.position.theta", 10000.0, float, "base of RoPE's wavelengths", above=0, when=("model.position.kind", ("rope",))),
    Field("model.position.fraction", 1.0, float, "share of each head's dimensions that RoPE rotates", above=0, maximum=1,
          when=("model.position.kind", ("rope",))),
    Field("model.position.layout", "half", str, "which dimensions RoPE pairs", {
        "half": "k with k + K/2 (GPT-NeoX, LLaMA in Hugging Face)", "interleaved": "2k with 2k + 1 (Su et al. 2021; GPT-J)"},
          when=("model.position.kind", ("rope",))),
    Field("model.attention.num_heads", 4, int, "H, number of query heads", minimum=1),
    Field("model.attention.num_kv_heads", AUTO, int,
          "G, number of key/value heads: H is MHA, 1 is MQA, between is GQA (Ainslie et al. 2023)",
          minimum=1, auto="num_heads"),
    Field("model.attention.head_dim", AUTO, int, "K, width of a head", minimum=1, auto="dim / num_heads"),
    Field("model.attention.window", 0, int, "keys a query sees, itself included (Mistral's sliding window); 0 for all", minimum=0),
    Field("model.attention.scale", AUTO, float, "factor on the scores", above=0, auto="1 / sqrt(head_dim)"),
    Field("model.attention.bias", True, bool, "the query, key, value and output projections have a bias"),
    Field("model.attention.dropout", 0.0, float, "dropout rate on the attention probabilities", minimum=0, maximum=0.99),
    Field("model.attention.kernel", AUTO, str, "implementation of the attention product", {
        "einsum": "plain einsum, the readable reference: holds scores of size T x S",
        "rows": "einsum, a row of the batch at a time, scores computed again in the backward pass: fastest on a CPU",
        "xla": "jax.nn.dot_product_attention on any device: holds scores of size T x S",
        "cudnn": "fused on NVIDIA GPUs, memory linear in T: bfloat16, no ALiBi, no packed documents"},
          auto="where it can do what the config asks: cudnn on a GPU, rows on a CPU; else einsum"),
    Field("model.ffn.kind", "gelu", str, "feed-forward", {
        "relu": "max(0, x W1) W2 (Vaswani et al. 2017)",
        "gelu": "gelu(x W1) W2 (Hendrycks & Gimpel 2016; GPT)",
        "silu": "silu(x W1) W2, also called Swish",
        "swiglu": "(silu(x W1) * x W3) W2 (Shazeer 2020; LLaMA)",
        "geglu": "(gelu(x W1) * x W3) W2 (Shazeer 2020)",
        "reglu": "(relu(x W1) * x W3) W2 (Shazeer 2020)"}),
    Field("model.ffn.hidden_dim", AUTO, int, "F, width of the hidden layer", minimum=1, auto="4 * dim"),
    Field("model.ffn.match_parameters", False, bool,
          "gated kinds take 2/3 of hidden_dim, so that all kinds have as many weights (Shazeer 2020)"),
    Field("model.ffn.bias", True, bool, "the feed-forward's projections have a bias"),
    Field("model.ffn.gelu_approximation", "none", str, "form of GELU", {
        "none": "exact, by the error function", "tanh": "tanh approximation (GPT-2)"}, when=("model.ffn.kind", ("gelu", "geglu"))),
    Field("model.init.kernel", "normal", str, "initial values of weight matrices", {
        "normal": "normal, standard deviation `std` (GPT-2)",
        "xavier_uniform": "uniform, variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010; Vaswani et al. 2017)",
        "xavier_normal": "normal, variance 2 / (fan_in + fan_out)",
        "lecun_normal": "truncated normal, variance 1 / fan_in",
        "he_normal": "truncated normal, variance 2 / fan_in"}),
    Field("model.init.std", 0.02, float, "standard deviation of `normal`", above=0, when=("model.init.kernel", ("normal",))),
    Field("model.init.embedding_std", AUTO, float, "standard deviation of embeddings", above=0,
          auto="init.std for `normal`, else dim ** -0.5"),
    Field("model.init.scale_residual", False, bool, "divide the sublayers' last matrices by sqrt(2 * num_layers) (GPT-2)"),
    # Objective
    Field("objective.kind", "causal", str, "what is predicted and scored", {"causal": "the next token, from all before it"}),
    Field("objective.chunk_tokens", AUTO, int, "tokens whose logits are held at once; 0 for all",
          minimum=0, auto="a power of two that keeps a chunk's logits near 32 MB, at least 1024"),
    # Data
    Field("data.source", "stdlib", str,
          "text: `stdlib` (the running Python's own library, no download) or `text:PATH` (a file, folder or glob)"),
    Field("data.document_separator", "", str, "string that separates documents in a text file; empty: a file is one document"),
    Field("data.validation_fraction", 0.1, float, "share of the text held out", above=0, maximum=0.9),
    Field("data.tokenizer.kind", "bytes", str, "tokenizer", {
        "bytes": "UTF-8 bytes: 256 ids and one that opens a document",
        "characters": "the characters of the source and one id that opens a document",
        "bpe": "byte-level byte-pair encoding, trained on the training split once and cached"}),
    Field("data.tokenizer.vocab_size", 8192, int, "size of a trained vocabulary", minimum=258, when=("data.tokenizer.kind", ("bpe",))),
    Field("data.sequence_length", 128, int, "T, tokens per row", minimum=1),
    Field("data.batch_size", 16, int, "B, rows per update, over all devices", minimum=1),
    Field("data.isolate_documents", False, bool, "packed documents do not see each other and each counts positions from 0"),
    # Optimization
    Field("optimizer.kind", "adamw", str, "optimizer", {"adamw": "Adam with decoupled weight decay (Loshchilov & Hutter 2019)"}),
    Field("optimizer.learning_rate", 1e-3, float, "peak learning rate", above=0),
    Field("optimizer.weight_decay", 0.0, float, "decoupled weight decay on matrices and embeddings; never on biases and norms", minimum=0),
    Field("optimizer.beta1", 0.9, float, "decay of the first moment", minimum=0, maximum=0.99999),
    Field("optimizer.beta2", 0.999, float, "decay of the second moment", minimum=0, maximum=0.9999999),
    Field("optimizer.epsilon", 1e-8, float, "added to the root of the second moment", above=0),
    Field("optimizer.clip_norm", 0.0, float, "largest global norm of the gradient; 0 for no clipping", minimum=0),
    Field("schedule.kind", "constant", str, "learning rate after the warm-up", {
        "constant": "stays at the peak",
        "cosine": "half a cosine to `final_fraction` of the peak at the last step",
        "linear": "a line to `final_fraction` of the peak at the last step",
        "inverse_sqrt": "peak * sqrt(warm-up / step) (Vaswani et al. 2017)",
        "wsd": "warm-up, stable, then a line down over the last `decay_fraction` of the steps (Hu et al. 2024)"}),
    Field("schedule.warmup_steps", 0, int, "steps of linear warm-up; the peak is reached at the last of them", minimum=0),
    Field("schedule.final_fraction", 0.0, float, "last learning rate as a share of the peak", minimum=0, maximum=1,
          when=("schedule.kind", ("cosine", "linear", "wsd"))),
    Field("schedule.decay_fraction", 0.2, float, "share of the steps in which `wsd` decays", above=0, maximum=1,
          when=("schedule.kind", ("wsd",))),
    # Training
    Field("training.steps", 1000, int, "number of updates", minimum=1),
    Field("training.accumulation_steps", 1, int, "parts in which a batch is computed; the update is that of the whole batch", minimum=1),
    Field("training.log_every", 10, int, "steps between training lines of metrics.jsonl", minimum=1),
    Field("training.eval_every", 250, int, "steps between evaluations; the last step is always evaluated; 0: only that one", minimum=0),
    Field("training.eval_batches", 40, int, "batches per evaluation, spread over the validation split; 0 for all of it", minimum=0),
    Field("training.eval_lengths", (), tuple, "further sequence lengths for the last evaluation, e.g. 256,512", minimum=1),
    Field("training.checkpoint_every", 250, int, "steps between checkpoints; the last step is always saved; 0: only that one", minimum=0),
    Field("training.keep_checkpoints", 2, int, "newest checkpoints kept, beside the best one", minimum=1),
    Field("mesh.data", -1, int, "devices that share the batch, each with all parameters; -1 for all that are left", minimum=-1),
    Field("mesh.fsdp", 1, int, "devices that share the batch and the parameters", minimum=1),
    Field("mesh.tensor", 1, int, "devices that share heads, hidden units and vocabulary", minimum=1),
)

BY_PATH: dict[str, Field] = {field.path: field for field in FIELDS}

# What does not change the result of a run, and so is no part of its identity: where and how it runs and how often it reports.
NOT_RESULT_RELEVANT: tuple[str, ...] = (
    "mesh.data", "mesh.fsdp", "mesh.tensor",
    "training.log_every", "training.eval_every", "training.checkpoint_every", "training.keep_checkpoints",
)
