"""Published results about positions."""

_LENGTHS = (
    "Press et al. 2021, perplexity on WikiText-103, trained on 512 tokens and evaluated on 512, 1,012 and 3,512: "
    "sinusoidal 20.05, 43.54, 178.97; RoPE 20.07, 21.37, 35.54; T5's bias 19.65, 18.79, 22.91; ALiBi 19.73, 18.73, "
    "18.40."
)
_SHAW = (
    "Shaw et al. 2018, table 1, BLEU with sinusoids and with relative positions: English-German 26.5, 26.8 (base) and "
    "27.9, 29.2 (big).",
    "The same, table 2, distances clipped at k: k = 0 12.5, k = 1 25.5, k = 2 25.8, k = 16 25.8. Vectors for keys "
    "alone are as good as for keys and values (25.8), for values alone 25.3.",
)
_GENERALISATION = (
    "Kazemnejad et al. 2023, decoders on reasoning and arithmetic longer than those of training: without positions "
    "they generalise better than with absolute positions, T5's bias, ALiBi or RoPE."
)

POSITION_RESULTS: dict[str, tuple[str, ...]] = {
    "nope": (
        "Shaw et al. 2018, table 2: an encoder-decoder without any positions reaches 12.5 BLEU instead of 25.8.",
        _GENERALISATION,
        "Allen-Zhu 2025, synthetic tasks: with Canon layers a model without positions is as good as one with RoPE.",
    ),
    "learned": ("Vaswani et al. 2017, table 3, row E: BLEU 25.7, with sinusoids 25.8; perplexity 4.92 with both.",),
    "sinusoidal": (
        "Vaswani et al. 2017, table 3, row E: BLEU 25.8, with learned vectors 25.7; perplexity 4.92 with both.",
        _LENGTHS,
    ),
    "rope": (
        "Su et al. 2021, table 1: BLEU on WMT14 English-German 27.5, the Transformer with sinusoids 27.3.",
        _LENGTHS,
        _GENERALISATION,
    ),
    "partial-rotary": (
        "Khan et al. 2026, arXiv:2603.11611: rotating about a tenth of the dimensions converges like rotating all, "
        "over sizes, row lengths and data sets.",
        "Karpathy 2026 (nanochat's experiment log): rotating the first quarter of each head is slightly worse.",
    ),
    "p-rope": (
        "Barbero et al. 2024, table 2, Gemma 2B trained from scratch: without the lowest frequencies the validation "
        "perplexity is as low as RoPE's, or lower.",
        "Karpathy 2026 (nanochat's experiment log): a related form, which rotates half of the dimensions of each "
        "head, is no improvement.",
    ),
    "rope-linear": (
        "Chen et al. 2023: LLaMA models reach rows of 32,768 tokens after at most 1,000 steps of fine-tuning.",
    ),
    "rope-yarn": (
        "Peng et al. 2023: LLaMA models are extended with a tenth of the tokens and 2.5 times fewer steps than earlier "
        "methods need.",
    ),
    "alibi": (_LENGTHS, _GENERALISATION),
    "relative-bias": (_LENGTHS, _GENERALISATION),
    "shaw": _SHAW,
    "shaw-keys": _SHAW[1:],
    "nope-layers": (
        "Yang et al. 2025, with windows in the layers that have RoPE: better than RoPE in all layers on tasks with "
        "long contexts, and about as good with short ones.",
    ),
}
