"""Variants of the feed-forward layer, the embedding and the head."""

from zoo.config.kinds.feedforward_kinds import GLU_RESULT, SQUARED_OR_GATED_RESULT
from zoo.variants.variant import Variant

FEEDFORWARD_AND_HEAD_VARIANTS: tuple[Variant, ...] = (
    Variant(
        "gelu-tanh",
        "feed-forward layer",
        {"model.ffn.gelu_approximation": "tanh"},
        equation="gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).",
        paper="Hendrycks & Gimpel 2016, section 2; GPT-2's code",
    ),
    Variant(
        "matched-parameters",
        "feed-forward layer",
        {"model.ffn.match_parameters": True},
        source="zoo.layers.feedforward:hidden_dim",
        needs={"model.ffn.kind": "swiglu"},
        equation="F' = round(2 F / 3) for a gated kind: three matrices [D, F'] have as many weights as two [D, F].",
        paper="Shazeer 2020, section 2",
        published=(GLU_RESULT, SQUARED_OR_GATED_RESULT),
    ),
    Variant(
        "rounded-width",
        "feed-forward layer",
        {"model.ffn.dim_multiplier": 1.3, "model.ffn.multiple_of": 256},
        source="zoo.config.kinds.feedforward_kinds:hidden_width",
        needs={"model.ffn.kind": "swiglu", "model.ffn.match_parameters": True},
        equation=(
            "F' = m ceil(int(c int(2 F / 3)) / m), with F = `ffn.hidden_dim`, c = `ffn.dim_multiplier`, m = "
            "`ffn.multiple_of`; int rounds down."
        ),
        paper="Touvron et al. 2023 (LLaMA's code)",
        details=(
            "The widths of LLaMA follow from F = 4 D: 11008 at D = 4096 with m = 256, c = 1; 28672 at D = 8192 with "
            "m = 4096, c = 1.3 (LLaMA 2 and 3 of 70B); 14336 at D = 4096 with m = 1024, c = 1.3 (LLaMA 3 of 8B).",
        ),
        synonyms=("multiple-of",),
    ),
    Variant(
        "no-ffn-bias",
        "feed-forward layer",
        {"model.ffn.bias": False},
        equation="y = act(x W_up) W_down without biases.",
        paper="Touvron et al. 2023 (LLaMA); Raffel et al. 2020 (T5)",
        details=("Switched off: the biases of all matrices of the feed-forward layer.",),
    ),
    Variant(
        "hidden-scale",
        "feed-forward layer",
        {"model.ffn.hidden_scale": True},
        source="zoo.layers.feedforward:FeedForward",
        needs={"model.ffn.kind": "swiglu"},
        equation=(
            "y = (s_u u * silu(s_v v sqrt(D))) W_down, u = x W_up, v = x W_gate, with learned vectors s_u and s_v [F], "
            "1 at first. A layer without gates has v alone."
        ),
        paper="Loshchilov et al. 2024, section 2.4 (nGPT)",
        details=(
            "sqrt(D) makes v about 1 where x and the columns of W_gate have length 1, as in nGPT. With "
            "another norm it makes v sqrt(D) times larger than without.",
        ),
    ),
    Variant(
        "logit-scale",
        "embedding and head",
        {"model.head.logit_scale": True},
        source="zoo.models.head:Head",
        equation=(
            "logits = z * (h W^T), W the output matrix and z a learned number of each token id, 1 at first and stored "
            "as z / sqrt(D)."
        ),
        paper="Loshchilov et al. 2024, sections 2.1 and 2.5 (nGPT)",
    ),
    Variant(
        "scaled-embedding",
        "embedding and head",
        {"model.embedding.scale": "sqrt_dim"},
        source="zoo.models.language_model:embed",
        equation="x_t = E[token_t] * sqrt(D).",
        paper="Vaswani et al. 2017, section 3.4",
    ),
    Variant(
        "embedding-multiplier",
        "embedding and head",
        {"model.embedding.multiplier": 12.0},
        source="zoo.models.language_model:embed",
        equation="x_t = m E[token_t], m = `embedding.multiplier`.",
        paper="Granite Team 2024 (Granite 3.0), after Yang et al. 2022",
    ),
    Variant(
        "embedding-norm",
        "embedding and head",
        {"model.embedding.norm": True},
        equation="x = Norm(E[token] + position + segment).",
        paper="Devlin et al. 2019 (BERT's code); Le Scao et al. 2022, section 3.2.2 (BLOOM)",
    ),
    Variant(
        "factorised-embedding",
        "embedding and head",
        {"model.embedding.dim": 128, "model.embedding.projection": "sum"},
        needs={"model.head.transform": True},
        equation=(
            "x_t = Norm'(E[token_t] + P[t]) W + b, with E [V, e], P [T, e], W [e, D], e = `embedding.dim`; logits = "
            "Norm(act(h W_d + b_d)) E^T, with W_d [D, e]. Norm' is optional (`embedding.norm`)."
        ),
        paper="Lan et al. 2020, section 3.1 (ALBERT)",
        details=(
            "V e + e D numbers in place of V D. A tied head needs `model.head.transform`, which maps the hidden "
            "states to width e; with `model.tie_embeddings=false` the head may read them as they are. Segments have "
            "width e too.",
        ),
    ),
    Variant(
        "projected-tokens",
        "embedding and head",
        {"model.embedding.projection": "tokens"},
        needs={"model.embedding.dim": 128},
        source="zoo.models.language_model:Tower",
        equation=(
            "x_t = E[token_t] W_e + P[t], with E [V, e], W_e [e, D], P [T, D], e = `embedding.dim`; "
            "logits = (h W_d) E^T, with W_d [D, e]."
        ),
        paper="Zhang et al. 2022 (OPT's code)",
        details=(
            "The model of 350M parameters alone has it. In `factorised-embedding` positions are narrow too, and the "
            "matrix has a bias.",
        ),
    ),
    Variant(
        "segments",
        "embedding and head",
        {"model.embedding.segments": 2},
        baseline="encoder",
        equation=(
            "x_t = E[token_t] + P[t] + E_segment[segment_t], with a learned vector for each of `embedding.segments` "
            "segments."
        ),
        paper="Devlin et al. 2019, section 3",
        synonyms=("segment", "segment-embedding", "token-type"),
    ),
    Variant(
        "two-embeddings",
        "embedding and head",
        {"model.embedding.shared": False},
        baseline="encoder_decoder",
        equation="x_s = E_source[source_s], y_t = E[target_t]; the head is tied to E.",
        paper="Press & Wolf 2017, section 4, for a single one",
        details=("Switched off: the tie between the embeddings of the two sides.",),
    ),
    Variant(
        "untied-head",
        "embedding and head",
        {"model.tie_embeddings": False},
        equation="logits = h W^T, with W [V, D] of its own instead of the token embedding E.",
        paper="Press & Wolf 2017 for the tied one",
        details=("Switched off: the tie between the head and the token embedding, which then share no weights.",),
        published=(
            (
                "Parameter-golf 2026 (pull request 2000), three seeds, a vocabulary of 1,024: a separate head lowers "
                "the loss by 0.019 bits per byte."
            ),
            (
                "Marin 2026 (issue 9290), mixture of experts, one run each: a tied head lowers the macro loss on "
                "Paloma by 0.0035 at width 512 and by 0.0101 at width 768."
            ),
        ),
    ),
    Variant(
        "head-transform",
        "embedding and head",
        {"model.head.transform": True},
        source="zoo.models.head:Head",
        equation=(
            "logits = Norm(act(h W_d + b_d)) E^T: a dense layer, the activation of the feed-forward layers and a "
            "norm before the product with the token embedding."
        ),
        paper="Devlin et al. 2019 (BERT's code)",
    ),
    Variant(
        "no-head-transform-bias",
        "embedding and head",
        {"model.head.transform_bias": False},
        needs={"model.head.transform": True},
        equation="logits = Norm(act(h W_d)) E^T: BERT's transform without the bias of its dense layer.",
        paper="Warner et al. 2024 (ModernBERT's code)",
        details=("Switched off: the bias b_d of the dense layer.",),
    ),
    Variant(
        "head-bias",
        "embedding and head",
        {"model.head.bias": True},
        equation="logits = h E^T + b, b [V].",
        paper="Devlin et al. 2019 (BERT's code)",
    ),
    Variant(
        "scaled-head",
        "embedding and head",
        {"model.head.scale": "rsqrt_dim"},
        equation="logits = (h / sqrt(D)) E^T, for a tied head.",
        paper="Raffel et al. 2020 (T5's code)",
    ),
    Variant(
        "head-multiplier",
        "embedding and head",
        {"model.head.multiplier": 0.0625},
        source="zoo.models.head:Head",
        equation="logits = m h E^T, m = `head.multiplier`.",
        paper="Yang et al. 2022, table 8; Granite Team 2024 (Granite 3.0)",
        details=("Cohere's models call m `logit_scale`, Granite calls 1 / m `logits_scaling`.",),
    ),
    Variant(
        "logit-softcap",
        "embedding and head",
        {"model.head.softcap": 30.0},
        equation="logits = c * tanh(h E^T / c).",
        paper="Gemma Team 2024 (Gemma 2), section 2",
        published=(
            (
                "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, c = 30: "
                "validation loss 3.2844 without, 3.2791 with it. Runs differ by 0.0014 (standard deviation)."
            ),
            (
                "Karpathy 2026 (nanochat's experiment log), 24 layers: of caps from 5 to 30, 20 is best (0.715, the "
                "others about 0.716) and 5 far worse."
            ),
            (
                "Marin 2026 (issue 9290), mixture of experts, one run each: macro loss on Paloma lower by 0.0039 at "
                "width 512 and by 0.0001 at width 768."
            ),
        ),
    ),
    Variant(
        "pooler",
        "embedding and head",
        {"model.head.pooler": True},
        baseline="encoder",
        equation="pooled = tanh(h_0 W + b), h_0 the state of the first token.",
        paper="Devlin et al. 2019 (BERT's code)",
    ),
    Variant(
        "next-sentence",
        "embedding and head",
        {"model.head.next_sentence": True},
        needs={"model.head.pooler": True},
        baseline="encoder",
        equation="logits [2] = tanh(h_0 W + b) W' + b'.",
        paper="Devlin et al. 2019, section 3.1, Task 2",
        published=(
            (
                "Devlin et al. 2019, table 5, with and without the task: MNLI 84.4, 83.9; QNLI 88.4, 84.9; SQuAD F1 "
                "88.5, 87.9."
            ),
            (
                "Liu et al. 2019, table 2, SQuAD 1.1 F1 and MNLI: segment pairs with the task 90.4, 84.0; full "
                "sentences without it 90.4, 84.7; sentences of one document without it 90.6, 84.7."
            ),
        ),
        synonyms=("nsp", "next-sentence-prediction"),
        claims=("O1",),
    ),
)
