"""Results that papers report about variants, by the name of the variant, in the units of the papers.

Only comparisons of a variant with another one are listed, with the table or section that has them.
They are not what was found here: that is in the section before.
"""

_GLU = (
    "Shazeer 2020, table 1, log-perplexity of T5-base after 65,536 and 524,288 steps: ReLU 1.997, 1.677; GELU 1.983, "
    "1.679; SiLU 1.994, 1.683; ReGLU 1.953, 1.645; GEGLU 1.942, 1.633; SwiGLU 1.944, 1.636."
)
_HEADS = (
    "Vaswani et al. 2017, table 3, row A, BLEU on the English-German development set at equal cost: 1 head 24.9, "
    "4 heads 25.5, 8 and 16 heads 25.8, 32 heads 25.4."
)
_SHARED = (
    "Ainslie et al. 2023, table 1, T5-XXL, seconds per sample and mean score: multi-head 1.51, 47.2; 8 groups 0.28, "
    "47.1; multi-query 0.24, 46.6."
)
_LENGTHS = (
    "Press et al. 2021, perplexity on WikiText-103, trained on 512 tokens and evaluated on 512, 1,012 and 3,512: "
    "sinusoidal 20.05, 43.54, 178.97; RoPE 20.07, 21.37, 35.54; T5's bias 19.65, 18.79, 22.91; ALiBi 19.73, 18.73, "
    "18.40."
)
_SHAW = (
    "Shaw et al. 2018, table 1, BLEU with sinusoids and with relative positions: English-German 26.5, 26.8 (base) and "
    "27.9, 29.2 (big).",
    "The same, table 2, distances clipped at k: k = 0 12.5, k = 1 25.5, k = 2 25.8, k = 16 25.8. Vectors for keys "
    "alone "
    "are as good as for keys and values (25.8), for values alone 25.3.",
)
_ORDER = (
    "Xiong et al. 2020, BLEU on IWSLT14 German-English with Adam: post-norm without warm-up 8.45, with it about 34; "
    "pre-norm about 34 without."
)
_MASKS = (
    "Devlin et al. 2019, table 8, accuracy on MNLI by the shares of [MASK], the same token, a random token: 80/10/10 "
    "84.2, 100/0/0 84.3, 80/20/0 84.4, 80/0/20 84.1, 0/0/100 83.6."
)
_OBJECTIVES = (
    "Raffel et al. 2020, table 2, GLUE: encoder-decoder with span corruption 83.28; with language modelling 79.56; "
    "prefix decoder with denoising 81.82; decoder with language modelling 73.78."
)

PUBLISHED: dict[str, tuple[str, ...]] = {
    "rmsnorm": (
        "Zhang & Sennrich 2019, Transformer-base on WMT14 English-German, BLEU on test14 and seconds per 1,000 steps: "
        "LayerNorm 26.6, 248; RMSNorm 26.8, 231; without a norm training fails.",
    ),
    "layernorm": (
        "Zhang & Sennrich 2019, Transformer-base on WMT14 English-German: LayerNorm 26.6 BLEU, RMSNorm 26.8, "
        "without a norm 0.",
    ),
    "no-norm": ("Zhang & Sennrich 2019, Transformer-base on WMT14 English-German: training fails (0 BLEU).",),
    "pre": (_ORDER,),
    "post": (_ORDER,),
    "deepnorm": (
        "Wang et al. 2022: Transformers of 1,000 layers train; one of 200 layers and 3.2B parameters is 5 BLEU better "
        "in multilingual translation than one of 48 layers and 12B parameters.",
    ),
    "parallel": (
        "Chowdhery et al. 2022, section 2 (PaLM): training is about 15 % faster; a small loss of quality at 8B "
        "parameters, none at 62B.",
    ),
    "nope": ("Shaw et al. 2018, table 2: an encoder-decoder without any positions reaches 12.5 BLEU instead of 25.8.",),
    "learned": ("Vaswani et al. 2017, table 3, row E: BLEU 25.7, with sinusoids 25.8; perplexity 4.92 with both.",),
    "sinusoidal": (
        "Vaswani et al. 2017, table 3, row E: BLEU 25.8, with learned vectors 25.7; perplexity 4.92 with both.",
        _LENGTHS,
    ),
    "rope": (
        "Su et al. 2021, table 1: BLEU on WMT14 English-German 27.5, the Transformer with sinusoids 27.3.",
        _LENGTHS,
    ),
    "rope-linear": (
        "Chen et al. 2023: LLaMA models reach rows of 32,768 tokens after at most 1,000 steps of fine-tuning.",
    ),
    "alibi": (_LENGTHS,),
    "relative-bias": (_LENGTHS,),
    "shaw": _SHAW,
    "shaw-keys": _SHAW[1:],
    "multi-head": (_HEADS,),
    "single-head": (_HEADS,),
    "grouped-query": (_SHARED,),
    "multi-query": (
        _SHARED,
        "Shazeer 2019, BLEU on the WMT14 English-German development set: multi-head 26.7, multi-query 26.5.",
    ),
    "window": ("Beltagy et al. 2020, Longformer of 41M parameters, bits per character: enwik8 1.00, text8 1.10.",),
    "dilated-window": (
        "Beltagy et al. 2020, table 4, bits per character on text8, first phase: no dilation 1.21, dilation in 2 heads "
        "1.20; windows that grow with depth 1.21, that shrink 1.24.",
    ),
    "qk-norm": (
        "Henry et al. 2020: 0.928 BLEU better on average over five pairs of languages with little data.",
        "Dehghani et al. 2023: without it attention scores diverge in a vision transformer of 8B parameters.",
    ),
    "relu": (_GLU,),
    "gelu": (_GLU,),
    "silu": (_GLU,),
    "swiglu": (_GLU, "Narang et al. 2021, table 1, T5 of 223M parameters, final loss: ReLU 1.838, SwiGLU 1.789."),
    "geglu": (_GLU, "Narang et al. 2021, table 1, T5 of 223M parameters, final loss: ReLU 1.838, GEGLU 1.792."),
    "reglu": (_GLU, "Narang et al. 2021, table 1, T5 of 223M parameters, final loss: ReLU 1.838, ReGLU 1.803."),
    "masked-lm": (_MASKS,),
    "next-sentence": (
        "Devlin et al. 2019, table 5, with and without the task: MNLI 84.4, 83.9; QNLI 88.4, 84.9; SQuAD F1 88.5, "
        "87.9.",
        "Liu et al. 2019, table 2, SQuAD 1.1 F1 and MNLI: segment pairs with the task 90.4, 84.0; full sentences "
        "without "
        "it 90.4, 84.7; sentences of one document without it 90.6, 84.7.",
    ),
    "span-corruption": (_OBJECTIVES,),
    "prefix-lm": (_OBJECTIVES,),
    "prefix-lm-decoder": (_OBJECTIVES,),
    "causal-lm": (_OBJECTIVES,),
    "label-smoothing": (
        "Vaswani et al. 2017, table 3, row D, perplexity and BLEU: without 4.67, 25.3; with 0.1 4.92, 25.8; with 0.2 "
        "5.47, 25.7.",
    ),
    "elmo": ("Peters et al. 2018: relative reductions of the error by 6 to 20 % on six tasks.",),
}
