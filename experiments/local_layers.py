"""Claim A5 (Gemma 2, Gemma 3): local layers between global ones recover the loss of full attention.

    zoo run experiments/local_layers.py
    zoo run experiments/local_layers.py:small

The decoder of `zoo.lab.sizes`, six layers deep, with windows of an eighth of a row: all layers
global, every second one, every sixth one, and none. Each arm uses its best learning rate, fitted
with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* Every second layer global ends at most 0.02 nats above all layers global (non-inferiority): 2 % of
  perplexity.
* Every sixth one too (non-inferiority, 0.02 nats).
* All layers with windows end above every second one global (superiority of the latter, margin 0).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size
from zoo.lab.sizes import SIZES, decoder, rates, sized_name

MARGIN = 0.02
PATTERNS = {"all global": (0, 1), "1:1": (1, 1), "5:1": (5, 1), "all local": (1, 0)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Four patterns of local and global layers."""
    window = choose_size(size, SIZES)["data.sequence_length"] // 8

    def layers(local: int, others: int) -> dict[str, object]:
        if not local:
            return {"model.layers.pattern": (), "model.attention.window": 0}
        if not others:
            return {"model.layers.pattern": (), "model.attention.window": window}
        return {
            "model.layers.pattern": ("local",) * local + ("global",),
            "model.layers.kinds.local.attention.window": window,
            "model.layers.kinds.global.attention.window": 0,
        }

    def arm(pattern: str) -> Side:
        return Side({"layers": pattern})

    return Experiment(
        name=sized_name("local_layers", size),
        question="Do a few global layers between local ones recover full attention's loss?",
        base=config.override(decoder(size), {"model.num_layers": 12 if size == "gpu" else 6}),
        factors={"layers": {name: layers(*counts) for name, counts in PATTERNS.items()}},
        tune=rates(size),
        # Windows save FLOPs.
        allow=("flops", "levels"),
        claim=Claim(
            "A5",
            "Interleaving local and global layers recovers full attention's loss",
            "Gemma 2 (2024), Gemma 3 (2025) reports",
        ),
        contrasts=(
            *(
                Contrast(
                    f"{name} recovers it",
                    a=arm(name),
                    b=arm("all global"),
                    rule="non_inferiority",
                    margin=MARGIN,
                    expected=f"{name} ends at most {MARGIN} nats above all global",
                )
                for name in ("1:1", "5:1")
            ),
            Contrast(
                "windows alone do not",
                a=arm("1:1"),
                b=arm("all local"),
                rule="superiority",
                margin=0.0,
                expected="1:1 ends below all local",
            ),
        ),
        size=size,
    )
