"""Claim V31 (DeepSeek-AI 2024, DeepSeek-V2): latent attention loses nothing against multi-head
attention, and is better than shared keys and values that fill the same cache.

    zoo run experiments/latent_attention.py
    zoo run experiments/latent_attention.py:small

The decoder of `zoo.lab.sizes` with eight heads of width K: multi-head attention, whose cache holds
16 K numbers of a token in each layer; grouped-query attention with two keys and values, 4 K
numbers; and latent attention with a vector of 7/2 K and a rotated key of K/2, 4 K numbers too. The
width of the feed-forward layers gives all arms equally many parameters, to within 1 %; where rows
are long, the wider keys of latent attention cost a few percent more operations. Each arm uses its
best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Latent attention ends at most 0.02 nats above multi-head attention (non-inferiority), 2 % of
  perplexity.
* Latent attention ends below grouped-query attention (superiority, margin 0).

Published: stronger than multi-head attention, with a cache as large as that of 2.25 keys and values
(DeepSeek-AI 2024, section 2.1.4).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Match, Side
from zoo.lab.sizes import SIZES, decoder, rates, sized_name

MARGIN, HEADS = 0.02, 8


def get_experiment(size: str = "tiny") -> Experiment:
    """Multi-head, grouped-query and latent attention."""
    head_dim = SIZES[size]["model.dim"] // HEADS if size in SIZES else 0
    latent, grouped = Side({"attention": "latent"}), Side({"attention": "grouped-query"})
    return Experiment(
        name=sized_name("latent_attention", size),
        question="Can keys and values be computed from one small vector for each token?",
        base=decoder(size, {"model.attention.num_heads": HEADS}),
        factors={
            "attention": {
                "multi-head": {},
                "grouped-query": {"model.attention.num_kv_heads": 2},
                "latent": {
                    "model.attention.kind": "latent",
                    "model.attention.latent_dim": 7 * head_dim // 2,
                    "model.attention.rotary_dim": head_dim // 2,
                },
            }
        },
        # Parameters are matched to within 1 %; the scores of wider keys cost more operations.
        allow=("parameters", "flops"),
        match=Match("parameters", "model.ffn.hidden_dim"),
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        claim=Claim(
            "V31",
            "Latent attention loses nothing against multi-head attention, with a fraction of its cache",
            "DeepSeek-AI 2024, DeepSeek-V2",
        ),
        contrasts=(
            Contrast(
                "latent attention costs nothing",
                a=latent,
                b=Side({"attention": "multi-head"}),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"latent attention ends at most {MARGIN} nats above multi-head attention",
            ),
            Contrast(
                "it beats shared keys and values",
                a=latent,
                b=grouped,
                rule="superiority",
                margin=0.0,
                expected="latent attention ends below grouped-query attention with as large a cache",
            ),
        ),
        size=size,
    )
