"""Published results about attention, convolutions and values."""

_HEADS = (
    "Vaswani et al. 2017, table 3, row A, BLEU on the English-German development set at equal cost: 1 head 24.9, "
    "4 heads 25.5, 8 and 16 heads 25.8, 32 heads 25.4."
)
_SHARED = (
    "Ainslie et al. 2023, table 1, T5-XXL, seconds per sample and mean score: multi-head 1.51, 47.2; 8 groups 0.28, "
    "47.1; multi-query 0.24, 46.6."
)
_UNSHARED = (
    "Marin 2026 (issue 8227), mixture of experts of width 768, one run each: macro loss on Paloma 3.0208 with shared "
    "key and value heads, 2.9985 with one for each query head.",
    "Marin 2026 (issue 4371): sharing a key and value head among 4 query heads costs about 0.004 bits per byte at the "
    "best rate.",
    "Parameter-golf 2026 (pull request 2000), three seeds: 8 instead of 4 key and value heads lower the loss by 0.002 "
    "bits per byte.",
)
_GATE = (
    "Qiu et al. 2025, mixture of experts of 15B parameters, 400B tokens, perplexity: without a gate 6.026, with a gate "
    "for each element 5.761, for each head 5.792. The first token gets 0.467 of the attention without a gate, 0.048 "
    "with one for each element."
)
_DENSE_GATE = (
    "Qiu et al. 2025, dense model of 1.7B parameters, 3.5T tokens, perplexity: without a gate 6.180, with it 6.130."
)
_GATE_OF_HEADS = (
    "Modded-nanogpt 2025 (record of August 23), a gate for each head from 12 of the input's channels: an estimated 50 "
    "of 1,750 steps saved.",
    "Karpathy 2026 (nanochat's experiment log): a gate for each head is no improvement.",
    "Parameter-golf 2026 (pull request 2005), three seeds: a gate for each head lowers the loss by 0.0005 bits per "
    "byte.",
)
_SINK = (
    "Xiao et al. 2023, table 3, models of 160M parameters that read 1,024 tokens of long texts, perplexity with 0, 1 "
    "and 4 first tokens kept beside the latest ones: softmax 27.87, 18.49, 18.05; softmax+1 29,214, 19.90, 18.01; a "
    "learned sink token 1,235, 18.01, 18.02."
)
_FOX = (
    "Lin et al. 2025: better than a Transformer with RoPE in language modelling with long contexts, on longer rows "
    "than in training and on tasks with short contexts; as good on tasks with long ones."
)
_PRO = (
    "Lin et al. 2025: the Pro block, which adds an output norm, an output gate and the shift of keys and values, makes "
    "both FoX and the Transformer significantly better."
)
_MIXED = (
    "Zhou et al. 2024: reaches the loss of a Transformer with 16.11 % fewer parameters or 20.3 % fewer tokens; a "
    "submission of the same paper in February 2025 has 13.3 % and 15.4 %."
)
_PRIMER = (
    "So et al. 2021: a T5 of 500M parameters with squared ReLU and these convolutions needs a quarter of the training "
    "cost for the same loss on C4. Most of the gain is due to these two changes."
)

ATTENTION_RESULTS: dict[str, tuple[str, ...]] = {
    "multi-head": (_HEADS, *_UNSHARED),
    "single-head": (_HEADS,),
    "grouped-query": (_SHARED, *_UNSHARED),
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
    "sinks": (_SINK + " That token has a key and a value; b_h is a score alone.",),
    "softmax-plus-one": (_SINK,),
    "sigmoid-attention": (
        "Ramapuram et al. 2024: normalised properly, it is as good as softmax for language, images and speech; their "
        "kernel is 17 % faster at inference than FlashAttention-2 on an H100.",
    ),
    "ssmax": (
        "Nakanishi 2025: the loss falls faster in pre-training, and long contexts and retrieval from them are much "
        "better than with softmax; replacing softmax after pre-training helps less.",
    ),
    "output-gate": (_GATE, _DENSE_GATE),
    "input-gate": (_GATE, _DENSE_GATE),
    "head-gate": (_GATE, *_GATE_OF_HEADS),
    "exclusive": (
        "Zhai 2026, up to 2.7B parameters: better than attention without it at every size, by 1.36 points on average "
        "over tasks at 2.7B, and by more on longer rows.",
        "Karpathy 2026 (nanochat's experiment log), in the last three layers without value embeddings: slightly better "
        "at equal steps, not at equal time.",
    ),
    "forgetting": (_FOX,),
    "differential": (
        "Ye et al. 2024: reaches the loss of a Transformer with about 65 % of its parameters or tokens; better at "
        "finding facts in long texts. The authors recommend at least eight pairs of heads.",
    ),
    "latent": (
        "DeepSeek-AI 2024 (DeepSeek-V2), section 2.1.4: stronger than multi-head attention, with the cache of "
        "grouped-query attention with 2.25 groups. An author, answering a question about dense models "
        "(DeepSeek-V2, issue 26): better than multi-head attention at 7B parameters too, where more layers make up for "
        "fewer parameters.",
    ),
    "output-norm": (_PRO,),
    "kv-shift": (
        _PRO,
        "Xu et al. 2024, arXiv:2411.19574, a related form with a few learned numbers for each head: better or "
        "faster from toy models to more than 10B parameters, because induction heads then need less depth.",
    ),
    "canon": (
        "Allen-Zhu 2025, synthetic tasks: Canon layers double the depth of reasoning, and a model without positions "
        "becomes as good as one with RoPE.",
        "Marin 2026 (issue 7585), mixture of experts of width 1,024, one run each: similar convolutions on keys, "
        "values and the outputs of both sublayers lower the macro loss on Paloma by 0.023, to 3.0378; on keys alone by "
        "0.007.",
    ),
    "primer": (_PRIMER,),
    "token-shift": (
        "Modded-nanogpt 2025 (record of September 18), a related form, which adds a gated share of the embedding of "
        "the token before: about 5 steps saved at an equal loss.",
        "Karpathy 2026 (nanochat's experiment log), the same with a gate from all channels: a negligible gain.",
    ),
    "value-residual": (
        _MIXED,
        "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, validation loss: "
        "3.3274 without, 3.3151 with m = 1/2. Runs differ by 0.0014 (standard deviation).",
    ),
    "learned-value-residual": (
        "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, validation loss: "
        "3.3274 without, 3.3151 with m = 1/2, 3.3065 with a learned m. Runs differ by 0.0014 (standard deviation).",
    ),
    "value-embedding": (
        "Karpathy 2026 (nanochat's experiment log): better at equal steps, FLOPs and time, best in every other layer; "
        "the gate helps. Sharing tables or making them smaller loses the gain.",
    ),
}
