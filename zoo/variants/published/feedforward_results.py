"""Published results about the feed-forward layer, the embedding and the head."""

_GLU = (
    "Shazeer 2020, table 1, log-perplexity of T5-base after 65,536 and 524,288 steps, at equal parameters: ReLU "
    "1.997, 1.677; GELU 1.983, 1.679; SiLU 1.994, 1.683; ReGLU 1.953, 1.645; GEGLU 1.942, 1.633; SwiGLU 1.944, 1.636."
)
_ACTIVATIONS = (
    "Narang et al. 2021, table 1, T5 of 223M parameters, final loss: ReLU 1.838, GELU 1.838, SiLU 1.847, ReGLU 1.803, "
    "GEGLU 1.792, SwiGLU 1.789."
)
_SQUARED_OR_GATED = (
    "Karpathy 2026 (nanochat's experiment log), 12 and 24 layers, equal parameters and FLOPs: SwiGLU is worse than "
    "squared ReLU at equal steps, FLOPs and time."
)
_XIELU = (
    "Huang & Schlag 2024, LLaMA models of 1.1B and 3B parameters, 125B tokens of FineWeb-Edu, equal parameters and "
    "FLOPs: xIELU has a lower perplexity than squared ReLU and SwiGLU."
)
_SLOPES = (
    "Parameter-golf 2026 (pull request 1970), one seed, bits per byte: 1.0819 with the slope of the recipe, 1.0822 "
    "with 0.3, 1.0837 with 0, which is squared ReLU."
)
_TIED = (
    "Parameter-golf 2026 (pull request 2000), three seeds, a vocabulary of 1,024: a separate head lowers the "
    "loss by 0.019 bits per byte.",
    "Marin 2026 (issue 9290), mixture of experts, one run each: a tied head lowers the macro loss on Paloma by 0.0035 "
    "at width 512 and by 0.0101 at width 768.",
)
_CAP = (
    "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, c = 30: validation loss "
    "3.2844 without, 3.2791 with it. Runs differ by 0.0014 (standard deviation).",
    "Karpathy 2026 (nanochat's experiment log), 24 layers: of caps from 5 to 30, 20 is best (0.715, the others about "
    "0.716) and 5 far worse.",
    "Marin 2026 (issue 9290), mixture of experts, one run each: macro loss on Paloma lower by 0.0039 at width 512 and "
    "by 0.0001 at width 768.",
)

FEEDFORWARD_AND_HEAD_RESULTS: dict[str, tuple[str, ...]] = {
    "relu": (_GLU, _ACTIVATIONS),
    "gelu": (_GLU, _ACTIVATIONS),
    "silu": (_GLU, _ACTIVATIONS),
    "swiglu": (_GLU, _ACTIVATIONS, _SQUARED_OR_GATED, _XIELU),
    "geglu": (_GLU, _ACTIVATIONS),
    "reglu": (_GLU, _ACTIVATIONS),
    "relu-squared": (
        "So et al. 2021: a T5 of 500M parameters with squared ReLU and convolutions after the projections of attention "
        "needs a quarter of the training cost for the same loss on C4. Most of the gain is due to these two changes.",
        _SQUARED_OR_GATED,
        _XIELU,
    ),
    "leaky-relu-squared": (
        "Karpathy 2026 (nanochat's experiment log), slope 0.5: slightly better than squared ReLU at equal steps, worse "
        "at equal time.",
        _SLOPES,
    ),
    "xielu": (_XIELU,),
    "matched-parameters": (_GLU, _SQUARED_OR_GATED),
    "untied-head": _TIED,
    "logit-softcap": _CAP,
}
