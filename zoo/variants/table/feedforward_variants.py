"""Variants of the feed-forward layer, the embedding and the head."""

from zoo.config.fields import GATED
from zoo.config.kinds import activation_of
from zoo.variants.table.entry import WHOLE, choice, numpy_reference
from zoo.variants.variant import ReferenceTest, Variant

ACTIVATIONS = {
    "relu": "act(x) = max(0, x).",
    "gelu": "act(x) = x Phi(x), Phi the distribution function of the standard normal distribution.",
    "silu": "act(x) = x / (1 + exp(-x)), also called Swish.",
}
FFN = numpy_reference("layers/test_feedforward.py::test_layer_matches_its_equation")
MODELS = ReferenceTest(
    "the layer of the model that brought it, in transformers",
    "tests/parity/parts/test_feed_forwards.py::test_feed_forward_layers_match_their_reference_models",
    1e-5,
)


FEEDFORWARD_AND_HEAD_VARIANTS: tuple[Variant, ...] = (
    *(
        choice(
            "model.ffn.kind",
            kind,
            "feed-forward layer",
            source=f"zoo.layers.feedforward:{'GatedFeedForward' if kind in GATED else 'FeedForward'}",
            systems=systems,
            tests=(FFN,),
            details=(ACTIVATIONS[activation_of(kind)],),
        )
        for kind, systems in {
            "relu": ("t5", "transformer", "gpt2-unscaled-relu"),
            "gelu": ("gpt2", "bert"),
            "silu": ("marian-uneven", "bert-untied"),
            "swiglu": ("llama", "mistral"),
            "geglu": ("gemma", "t5-1.1"),
            "reglu": (),
        }.items()
    ),
    *(
        choice(
            "model.ffn.kind",
            kind,
            "feed-forward layer",
            kind.replace("_", "-"),
            source=f"zoo.layers.feedforward:{name}",
            paper="Maas et al. 2013; So et al. 2021, section 4" if kind.startswith("leaky") else "",
            tests=(FFN,) if kind == "leaky_relu_squared" else (FFN, MODELS),
        )
        for kind, name in (
            ("relu_squared", "SquaredReLU"),
            ("leaky_relu_squared", "LeakySquaredReLU"),
            ("swiglu_clamped", "ClampedSwiGLU"),
            ("xielu", "XIELU"),
        )
    ),
    choice(
        "model.ffn.gelu_approximation",
        "tanh",
        "feed-forward layer",
        "gelu-tanh",
        paper="Hendrycks & Gimpel 2016, section 2; GPT-2's code",
        equation="gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).",
        systems=("gpt1", "gpt2", "bloom"),
        tests=(FFN,),
    ),
    choice(
        "model.ffn.match_parameters",
        True,
        "feed-forward layer",
        "matched-parameters",
        {"model.ffn.kind": "swiglu"},
        source="zoo.layers.feedforward:hidden_dim",
        tests=(
            ReferenceTest(
                "counts of parameters",
                "tests/layers/test_feedforward.py::test_matched_gated_kinds_have_equal_parameter_counts",
                0.02,
            ),
        ),
        equation="F' = round(2 F / 3) for a gated kind: three matrices [D, F'] have as many weights as two [D, F].",
        paper="Shazeer 2020, section 2",
    ),
    choice(
        "model.ffn.bias",
        False,
        "feed-forward layer",
        "no-ffn-bias",
        equation="y = act(x W_up) W_down without biases.",
        paper="Touvron et al. 2023 (LLaMA); Raffel et al. 2020 (T5)",
        systems=("llama", "t5"),
        tests=(FFN,),
        details=("Switched off: the biases of all matrices of the feed-forward layer.",),
    ),
    choice(
        "model.embedding.scale",
        "sqrt_dim",
        "embedding and head",
        "scaled-embedding",
        source="zoo.models.language_model:embed",
        systems=("transformer", "gemma"),
        tests=(WHOLE,),
        equation="x_t = E[token_t] * sqrt(D).",
        paper="Vaswani et al. 2017, section 3.4",
    ),
    choice(
        "model.embedding.norm",
        True,
        "embedding and head",
        "embedding-norm",
        equation="x = Norm(E[token] + position + segment).",
        paper="Devlin et al. 2019 (BERT's code); Le Scao et al. 2022, section 3.2.2 (BLOOM)",
        systems=("bert", "bloom"),
        tests=(WHOLE,),
    ),
    choice(
        "model.embedding.dim",
        128,
        "embedding and head",
        "factorised-embedding",
        {"model.head.transform": True},
        equation=(
            "x_t = Norm'(E[token_t] + P[t]) W + b, with E [V, e], P [T, e], W [e, D], e = `embedding.dim`; "
            "logits = Norm(act(h W_d + b_d)) E^T, with W_d [D, e]. Norm' is optional (`embedding.norm`)."
        ),
        paper="Lan et al. 2020, section 3.1 (ALBERT)",
        systems=("albert",),
        tests=(WHOLE,),
        details=(
            "V e + e D numbers in place of V D. A tied head needs `model.head.transform`, which maps the hidden states "
            "to width e; with `model.tie_embeddings=false` the head may read them as they are. Segments have width e "
            "too.",
        ),
    ),
    choice(
        "model.embedding.segments",
        2,
        "embedding and head",
        "segments",
        equation=(
            "x_t = E[token_t] + P[t] + E_segment[segment_t], with a learned vector for each of `embedding.segments` "
            "segments."
        ),
        paper="Devlin et al. 2019, section 3",
        baseline="encoder",
        systems=("bert",),
        tests=(WHOLE,),
    ),
    choice(
        "model.embedding.shared",
        False,
        "embedding and head",
        "two-embeddings",
        paper="Press & Wolf 2017, section 4, for a single one",
        equation="x_s = E_source[source_s], y_t = E[target_t]; the head is tied to E.",
        baseline="encoder_decoder",
        tests=(numpy_reference("models/test_encoder_decoder.py::test_logits_match_the_reference"),),
        details=("Switched off: the tie between the embeddings of the two sides.",),
    ),
    choice(
        "model.tie_embeddings",
        False,
        "embedding and head",
        "untied-head",
        paper="Press & Wolf 2017 for the tied one",
        equation="logits = h W^T, with W [V, D] of its own instead of the token embedding E.",
        systems=("llama", "t5-1.1"),
        tests=(WHOLE,),
        details=("Switched off: the tie between the head and the token embedding, which then share no weights.",),
    ),
    choice(
        "model.head.transform",
        True,
        "embedding and head",
        "head-transform",
        source="zoo.models.head:Head",
        systems=("bert",),
        tests=(WHOLE,),
        equation=(
            "logits = Norm(act(h W_d + b_d)) E^T: a dense layer, the activation of the feed-forward layers and a "
            "norm before the product with the token embedding."
        ),
        paper="Devlin et al. 2019 (BERT's code)",
    ),
    choice(
        "model.head.transform_bias",
        False,
        "embedding and head",
        "no-head-transform-bias",
        {"model.head.transform": True},
        equation="logits = Norm(act(h W_d)) E^T: BERT's transform without the bias of its dense layer.",
        paper="Warner et al. 2024 (ModernBERT's code)",
        systems=("modernbert",),
        tests=(WHOLE,),
        details=("Switched off: the bias b_d of the dense layer.",),
    ),
    choice(
        "model.head.bias",
        True,
        "embedding and head",
        "head-bias",
        equation="logits = h E^T + b, b [V].",
        paper="Devlin et al. 2019 (BERT's code)",
        systems=("bert", "transformer"),
        tests=(WHOLE,),
    ),
    choice(
        "model.head.scale",
        "rsqrt_dim",
        "embedding and head",
        "scaled-head",
        paper="Raffel et al. 2020 (T5's code)",
        equation="logits = (h / sqrt(D)) E^T, for a tied head.",
        systems=("t5",),
        tests=(WHOLE,),
    ),
    choice(
        "model.head.softcap",
        30.0,
        "embedding and head",
        "logit-softcap",
        paper="Gemma Team 2024 (Gemma 2), section 2",
        equation="logits = c * tanh(h E^T / c).",
        systems=("gemma2",),
        tests=(WHOLE,),
    ),
    choice(
        "model.head.pooler",
        True,
        "embedding and head",
        "pooler",
        equation="pooled = tanh(h_0 W + b), h_0 the state of the first token.",
        paper="Devlin et al. 2019 (BERT's code)",
        baseline="encoder",
        systems=("bert",),
        tests=(numpy_reference("models/test_language_model.py::test_pooler_reads_the_first_token"),),
    ),
    choice(
        "model.head.next_sentence",
        True,
        "embedding and head",
        "next-sentence",
        {"model.head.pooler": True},
        baseline="encoder",
        equation="logits [2] = tanh(h_0 W + b) W' + b'.",
        paper="Devlin et al. 2019, section 3.1, Task 2",
        systems=("bert",),
        tests=(numpy_reference("models/test_language_model.py::test_pooler_reads_the_first_token"),),
        claims=("O1",),
    ),
)
