"""Published results about normalisation, its placement, and the residual stream."""

_ORDER = (
    "Xiong et al. 2020, BLEU on IWSLT14 German-English with Adam: post-norm without warm-up 8.45, with it about 34; "
    "pre-norm about 34 without."
)
_SIMPLE = (
    "Xu et al. 2019: LayerNorm without scale and bias (LayerNorm-simple) is better than LayerNorm on four of their "
    "data sets, because both parameters favour overfitting. They remove the two together."
)
_DEPTHS = (
    "Karpathy 2026 (nanochat's experiment log), validation bits per byte without and with the shortcut: 8 layers "
    "1.0885, 1.0782; 12 layers 0.9770, 0.9693; 16 layers 0.9059, 0.9002; 20 layers 0.8565, 0.8526. The gain shrinks "
    "with depth."
)
_SHORTCUT = (
    "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, validation loss: 3.3065 "
    "becomes 3.2972 with the shortcut. Runs differ by 0.0014 (standard deviation)."
)
_REZERO = (
    "Narang et al. 2021, table 1, T5 of 223M parameters, final loss: baseline 1.838; ReZero, one number that begins at "
    "0 in each sublayer, 1.939 in place of the norm and 1.858 with LayerNorm."
)

NORM_RESULTS: dict[str, tuple[str, ...]] = {
    "rmsnorm": (
        "Zhang & Sennrich 2019, Transformer-base on WMT14 English-German, BLEU on test14 and seconds per 1,000 steps: "
        "LayerNorm 26.6, 248; RMSNorm 26.8, 231; without a norm training fails.",
        "Narang et al. 2021, table 1, T5 of 223M parameters: final loss 1.838 with the baseline's norm, 1.821 with "
        "RMSNorm; 3.50 and 3.68 steps per second.",
    ),
    "layernorm": (
        "Zhang & Sennrich 2019, Transformer-base on WMT14 English-German: LayerNorm 26.6 BLEU, RMSNorm 26.8, "
        "without a norm 0.",
    ),
    "no-norm": ("Zhang & Sennrich 2019, Transformer-base on WMT14 English-German: training fails (0 BLEU).",),
    "batchnorm": (
        "Shen et al. 2020: BatchNorm in place of LayerNorm is clearly worse in translation and language modelling, "
        "because the statistics of a batch of text vary strongly during training.",
        "Zhang & Sennrich 2019, test error of a convolutional network on CIFAR-10: no norm 8.96, BatchNorm 8.25, "
        "LayerNorm 10.49, RMSNorm 8.83. For images the order is the opposite.",
    ),
    "dynamic-tanh": (
        "Zhu et al. 2025: vision and language models with DyT match or exceed those with LayerNorm or RMSNorm, "
        "mostly without tuning.",
        "Karpathy 2026 (nanochat's experiment log), 12 layers: no form of it was better than RMSNorm at equal steps, "
        "and it was about 10 % slower.",
        "Verma 2026, arXiv:2604.23434, GPT-2 of 64M parameters: validation loss 27.3 % better on 1M tokens, 18.8 % "
        "worse on 118M. It regularises, which helps only where data is scarce.",
    ),
    "no-norm-scale": (_SIMPLE,),
    "no-norm-bias": (_SIMPLE,),
    "pre": (_ORDER,),
    "post": (_ORDER,),
    "sandwich": (
        "Kim et al. 2025 (Peri-LN), up to 3.2B parameters: variances grow more evenly with depth and training is more "
        "stable than with pre-norm and post-norm.",
        "Marin 2026 (issue 9290), mixture of experts of width 512, one run each: macro loss on Paloma 3.1559 with "
        "pre-norm, 3.1693 with sandwich norm.",
    ),
    "deepnorm": (
        "Wang et al. 2022: Transformers of 1,000 layers train; one of 200 layers and 3.2B parameters is 5 BLEU better "
        "in multilingual translation than one of 48 layers and 12B parameters.",
    ),
    "layernorm-scaling": (
        "Sun et al. 2025, 130M to 7B parameters: lower perplexity than pre-norm and other placements at every size. "
        "Smaller initial values of the output projections take away from the gain.",
        "Karpathy 2026 (nanochat's experiment log): it did not help. Output projections begin at 0 there.",
    ),
    "layerscale": (_REZERO,),
    "x0-shortcut": (_DEPTHS, _SHORTCUT),
    "parallel": (
        "Chowdhery et al. 2022, section 2 (PaLM): training is about 15 % faster; a small loss of quality at 8B "
        "parameters, none at 62B.",
    ),
    "parallel-shared-norm": (
        "Chowdhery et al. 2022, section 2 (PaLM), which also has one norm for both: training is about 15 % faster; a "
        "small loss of quality at 8B parameters, none at 62B.",
    ),
}
