"""Published results about architectures, objectives and tasks."""

_MASKS = (
    "Devlin et al. 2019, table 8, accuracy on MNLI by the shares of [MASK], the same token, a random token: 80/10/10 "
    "84.2, 100/0/0 84.3, 80/20/0 84.4, 80/0/20 84.1, 0/0/100 83.6."
)
_OBJECTIVES = (
    "Raffel et al. 2020, table 2, GLUE with denoising and with language modelling: encoder-decoder 83.28, 79.56; "
    "decoder with a prefix 81.82, 79.68; decoder 74.70, 73.78."
)
_CORRUPTIONS = (
    "Raffel et al. 2020, tables 4 and 5, GLUE, encoder-decoder: prefix language modelling 80.69, masks as in BERT "
    "82.96, deshuffling 73.17; spans replaced by sentinels 83.28, tokens dropped 84.44."
)
_DIRECTIONS = (
    "Devlin et al. 2019, table 5, both without next sentences, MNLI, MRPC, SQuAD F1: encoder with masks 83.9, 86.5, "
    "87.9; left to right 82.1, 77.5, 77.8."
)
_FEATURES = (
    "Devlin et al. 2019, table 7, F1 on the development set of CoNLL-2003: BERT-base fine-tuned 96.4; frozen, with the "
    "last four layers side by side 96.1, with a weighted sum of all layers about 95.5."
)
_REPLACED = (
    "Clark et al. 2020, table 5, GLUE at equal size and data: BERT 82.2; masks replaced by draws of the generator "
    "82.4; replaced tokens detected among the chosen ones alone 82.4; all tokens predicted 84.3; ELECTRA, which judges "
    "all tokens, 85.0."
)

OBJECTIVE_RESULTS: dict[str, tuple[str, ...]] = {
    "masked-lm": (_MASKS, _REPLACED),
    "masked-diffusion": (
        "Sahoo et al. 2024, perplexity on the One Billion Word benchmark with 110M parameters: at most 23.00; that of "
        "the autoregressive model is 20.09.",
    ),
    "replaced-tokens": (
        _REPLACED,
        "Clark et al. 2020: at the size of RoBERTa and XLNet about as good with less than a quarter of their compute.",
    ),
    "next-sentence": (
        "Devlin et al. 2019, table 5, with and without the task: MNLI 84.4, 83.9; QNLI 88.4, 84.9; SQuAD F1 88.5, "
        "87.9.",
        "Liu et al. 2019, table 2, SQuAD 1.1 F1 and MNLI: segment pairs with the task 90.4, 84.0; full sentences "
        "without it 90.4, 84.7; sentences of one document without it 90.6, 84.7.",
    ),
    "encoder": (_DIRECTIONS,),
    "decoder": (_DIRECTIONS, _OBJECTIVES),
    "encoder-decoder": (_OBJECTIVES,),
    "span-corruption": (_OBJECTIVES, _CORRUPTIONS),
    "denoising": (_CORRUPTIONS,),
    "prefix-lm": (_OBJECTIVES, _CORRUPTIONS),
    "prefix-lm-decoder": (_OBJECTIVES,),
    "causal-lm": (_OBJECTIVES,),
    "multi-token": (
        "Gloeckle et al. 2024, with a head for each future token, 13B parameters: 12 % more problems of HumanEval and "
        "17 % more of MBPP solved than with the next token alone; the gain grows with size.",
        "Karpathy 2026 (nanochat's experiment log), one head for all, 12 layers: the same loss or a slightly worse one "
        "at equal steps, clearly worse at equal time.",
        "Modded-nanogpt 2025 (record of December 22), one head for all, with an embedding and a head "
        "that are separated after two thirds of the steps: 80 steps fewer for all changes together.",
    ),
    "label-smoothing": (
        "Vaswani et al. 2017, table 3, row D, perplexity and BLEU: without 4.67, 25.3; with 0.1 4.92, 25.8; with 0.2 "
        "5.47, 25.7.",
    ),
    "elmo": ("Peters et al. 2018: relative reductions of the error by 6 to 20 % on six tasks.",),
    "scalar-mix": (_FEATURES,),
    "tagging": (_FEATURES,),
}
