"""Claim O8 (Raffel et al. 2020, Tables 2 and 4): span corruption suits encoder-decoders. Judged
here: language modelling by both architectures.

    zoo run experiments/objective_and_architecture.py
    zoo run experiments/objective_and_architecture.py:full

Raffel et al. 2020, sections 3.2 and 3.3, train architectures with objectives at equal cost and
compare them by fine-tuning: an encoder-decoder that restores spans (83.28 on GLUE) or whole rows
("BERT-style", 82.96), one that continues a prefix (80.69, or 79.56 in Table 2), a decoder with a
prefix that sees itself (79.68) and a plain one (73.78). That part of the claim cannot be decided
here, because nothing is fine-tuned. The losses of different objectives, or bits per byte of their
targets, are not comparable either: restoring three tokens from both sides, repeating a mostly
visible row, and continuing a text differ in difficulty.

Three of the arms share the task of continuing a text: an encoder-decoder that reads the first half
of a row, a decoder that sees the first half in both directions, and a plain decoder that is scored
on the second half alone (`training.eval_context`). Their `eval/loss` covers the same tokens after
the same text. The two arms that restore text are shown but not judged.

Cost is FLOPs, forward and backward: an encoder-decoder has as many layers on each side as the
decoder, and a feed-forward narrower by D to pay for cross-attention. The number of updates evens
out the rest, because the rows of the objectives differ in how many tokens are read and scored.

Stated beforehand, in nats per token of the second halves, at equal FLOPs:

* With a prefix, the encoder-decoder and the decoder end within 0.1 of each other (equivalence), as
  their scores do in Table 2 when both model language (79.56 and 79.68).
* The decoder with a prefix ends at most 0.1 above the plain one (non-inferiority). In Table 2 it is
  far better; here the plain decoder is tested on its training task, and was trained on twice as
  many targets.

0.1 nats are 10 % of perplexity. A run of the tiny size takes 100 seconds of processor time, all 15
runs 13 minutes on two idle cores.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size

MARGIN = 0.1
SIZES = {
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 2,
        "data.tokenizer.vocab_size": 1024,
        "data.sequence_length": 128,
        "schedule.warmup_steps": 100,
    },
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "data.tokenizer.vocab_size": 8192,
        "data.sequence_length": 256,
        "data.batch_size": 32,
        "schedule.warmup_steps": 1000,
        "optimizer.learning_rate": 1e-3,
    },
}
# Updates for equal FLOPs: of the plain decoder, the decoder with a prefix, and the encoder-decoder
# with a prefix, spans, whole rows.
STEPS = {"tiny": (1000, 1186, 1178, 1146, 519), "full": (10_000, 11_504, 11_465, 11_139, 5_316)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Five pairs of an architecture and an objective."""
    base = config.override(
        config.default(),
        {
            "model.attention.num_heads": 4,
            "model.position.kind": "rope",
            "data.tokenizer.kind": "bpe",
            "data.batch_size": 16,
            "optimizer.learning_rate": 3e-3,
            "schedule.kind": "cosine",
            "training.eval_every": 250,
            "training.eval_batches": 100,
            **choose_size(size, SIZES),
        },
    )
    width, half = base.model.dim, base.data.sequence_length // 2
    decoder = {"model.architecture": "decoder", "model.ffn.hidden_dim": 4 * width}
    both = {"model.architecture": "encoder_decoder", "model.ffn.hidden_dim": 3 * width}
    prefix = {"objective.kind": "prefix", "objective.prefix_length": half}
    plain, seen, read, spans, rows = ({"training.steps": steps} for steps in STEPS[size])
    arms = {
        "decoder, plain": {**decoder, "objective.kind": "causal", "training.eval_context": half, **plain},
        "decoder, prefix": {**decoder, **prefix, **seen},
        "encoder-decoder, prefix": {**both, **prefix, **read},
        "encoder-decoder, spans": {**both, "objective.kind": "span", **spans},
        "encoder-decoder, rows": {**both, "objective.kind": "denoising", **rows},
    }

    def arm(name: str) -> Side:
        return Side({"model": name})

    return Experiment(
        name="objective_and_architecture" if size == "tiny" else f"objective_and_architecture-{size}",
        question="Which architecture continues a text best at equal FLOPs, and what do objectives that restore text "
        "cost?",
        base=base,
        # The contrasts compare the arms that continue a text; those that restore one are only shown.
        allow=("tokens", "parameters", "flops", "rows", "targets", "context"),
        factors={"model": arms},
        seeds=(0, 1, 2),
        claim=Claim(
            "O8",
            "Span corruption suits encoder-decoders (language modelling by both architectures, at equal cost)",
            "Raffel et al. 2020, T5, sections 3.2 and 3.3, Tables 2 and 4",
        ),
        contrasts=(
            Contrast(
                "prefixes suit both",
                a=arm("encoder-decoder, prefix"),
                b=arm("decoder, prefix"),
                rule="equivalence",
                margin=MARGIN,
                expected=f"with a prefix, encoder-decoder and decoder end within {MARGIN} nats of each other",
            ),
            Contrast(
                "a prefix costs a decoder little",
                a=arm("decoder, prefix"),
                b=arm("decoder, plain"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"the decoder with a prefix ends at most {MARGIN} nats above the plain one",
            ),
        ),
        size=size,
    )
