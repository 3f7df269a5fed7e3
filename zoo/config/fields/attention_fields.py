"""Fields of attention."""

from zoo.config.field import AUTO, Field
from zoo.config.fields.conditions import ENCODER_DECODER
from zoo.config.kinds import ATTENTION_KINDS, PLACEMENT_KINDS

ATTENTION_FIELDS: tuple[Field, ...] = (
    Field("model.attention.kind", "softmax", str, "how scores become weights", ATTENTION_KINDS.choices),
    Field(
        "model.attention.num_heads", 4, int, "H, number of query heads", minimum=1, when=ATTENTION_KINDS.when("heads")
    ),
    Field(
        "model.attention.num_kv_heads",
        AUTO,
        int,
        "G, number of key/value heads: H is MHA, 1 is MQA, between is GQA (Ainslie et al. 2023)",
        minimum=1,
        auto="num_heads",
        when=ATTENTION_KINDS.when("heads"),
    ),
    Field(
        "model.attention.num_query_heads",
        AUTO,
        int,
        "number of distinct queries; each serves num_heads / num_query_heads neighbouring heads, as keys "
        "and values do in GQA",
        minimum=1,
        auto="num_heads",
        when=ATTENTION_KINDS.when("heads"),
    ),
    Field(
        "model.attention.cross_kv_heads",
        AUTO,
        int,
        "number of key/value heads of cross-attention",
        minimum=1,
        auto="num_kv_heads",
        when=ENCODER_DECODER,
    ),
    Field(
        "model.attention.head_dim",
        AUTO,
        int,
        "K, width of a head",
        minimum=1,
        auto="dim / num_heads",
        when=ATTENTION_KINDS.when("heads"),
    ),
    Field(
        "model.attention.window",
        0,
        int,
        "number of keys that a query sees, its own included: the last ones, or in an encoder equally many on "
        "either side; 0: all",
        minimum=0,
    ),
    Field(
        "model.attention.dilations",
        (),
        tuple,
        "dilations of the window, cycled over the heads: with dilation d a window holds every d-th token "
        "(Longformer); empty: 1 for all heads",
        minimum=1,
    ),
    Field(
        "model.attention.global_tokens",
        0,
        int,
        "number of first tokens of a row that see every token and are seen by every token (Longformer)",
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
        "norm of queries and keys",
        {
            "none": "no norm",
            "head": "RMSNorm of each head by itself, before RoPE (Henry et al. 2020; Qwen 3)",
            "full": "RMSNorm of all heads together, before RoPE (OLMo 2)",
            "head_layernorm": "LayerNorm of each head by itself, each with its own scale, before RoPE (StableLM 2)",
            "cosine": "each head divided by its length, and scores times a learned factor for each head (Swin V2)",
        },
        when=ATTENTION_KINDS.when("heads"),
    ),
    Field(
        "model.attention.clip",
        0.0,
        float,
        "c: projected queries, keys and values are clipped to [-c, c]; 0: not clipped (OLMo)",
        minimum=0,
        when=ATTENTION_KINDS.when("heads"),
        added=True,
    ),
    Field(
        "model.attention.input_norm",
        True,
        bool,
        "self-attention reads a normalised input; False: the residual stream as it is (the first layer of ModernBERT)",
        when=PLACEMENT_KINDS.when("input_norm"),
        added=True,
    ),
    Field(
        "model.attention.output_norm",
        False,
        bool,
        "RMSNorm of what each head has read, before the output gate (FoX Pro)",
        when=ATTENTION_KINDS.when("heads"),
        added=True,
    ),
    Field(
        "model.attention.gate",
        "none",
        str,
        "output gate: what the heads have read is multiplied by a sigmoid, before the output projection",
        {
            "none": "no gate",
            "elementwise": "one gate for each element of a head's values (Qiu et al. 2025; Qwen3-Next)",
            "head": "one gate for each head (Qiu et al. 2025)",
        },
        when=ATTENTION_KINDS.when("heads"),
        added=True,
    ),
    Field(
        "model.attention.gate_input",
        "x",
        str,
        "what the output gate is computed from",
        {"x": "the layer's input (Qiu et al. 2025)", "attended": "what the heads have read"},
        when=("model.attention.gate", ("elementwise", "head")),
        added=True,
    ),
    Field(
        "model.attention.exclusive",
        False,
        bool,
        "the projection on the token's own value is removed from what a head has read (XSA)",
        added=True,
    ),
    Field(
        "model.attention.ssmax",
        0.0,
        float,
        "initial value of the s that each head learns, where scores are multiplied by s * ln(number of visible keys) "
        "(Scalable-Softmax); 0 for no such factor",
        minimum=0,
        added=True,
    ),
    Field("model.attention.softcap", 0.0, float, "c in c * tanh(score / c); 0 for no cap (Gemma 2)", minimum=0),
    Field(
        "model.attention.sinks",
        False,
        bool,
        "attention sinks: a learned logit per head that takes part in the softmax but has no value vector (gpt-oss)",
    ),
    Field(
        "model.attention.scale",
        AUTO,
        float,
        "factor on the scores",
        above=0,
        auto="1 / sqrt(head_dim), with kind=latent 1 / sqrt(head_dim + rotary_dim), or 1 with qk_norm=cosine",
        when=ATTENTION_KINDS.when("heads"),
    ),
    Field(
        "model.attention.bias",
        True,
        bool,
        "the query, key, value and output projections have a bias",
        when=ATTENTION_KINDS.when("heads"),
    ),
    Field(
        "model.attention.output_bias",
        True,
        bool,
        "the output projection has a bias too; False: only those of queries, keys and values (GLM-4)",
        when=("model.attention.bias", (True,)),
        added=True,
    ),
    Field(
        "model.attention.dropout", 0.0, float, "dropout rate on the attention probabilities", minimum=0, maximum=0.99
    ),
    Field(
        "model.attention.implementation",
        AUTO,
        str,
        "implementation of the attention product",
        {
            "einsum": "plain einsum, the readable reference: holds scores of size T x S",
            "rows": "einsum, one row of the batch at a time, with scores recomputed in the backward pass: fastest on a "
            "CPU for long rows",
            "xla": "jax.nn.dot_product_attention on any device: holds scores of size T x S",
            "cudnn": "fused on NVIDIA GPUs, bfloat16: memory linear in T, but for the array of T x S that a bias, "
            "packed documents or a prefix needs",
            "splash": "fused on TPUs (splash attention in Pallas): memory linear in T; no bias on the scores",
        },
        auto="the fastest that supports the config: cudnn on a GPU, splash on a TPU, rows on a CPU from 131,072 scores "
        "(heads x queries x keys) in a row on, else einsum",
        when=ATTENTION_KINDS.when("kernels"),
        synonyms=("flash", "flash-attention"),
    ),
    *ATTENTION_KINDS.fields,
)
