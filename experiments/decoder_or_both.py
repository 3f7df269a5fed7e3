"""Claim O12 (a lecture; Wang et al. 2022): a decoder alone spends a fixed budget better than an
encoder-decoder on language modelling.

    zoo run experiments/decoder_or_both.py
    zoo run experiments/decoder_or_both.py:full

A decoder learns to predict every token of a row; an encoder-decoder reads the first half of the row
and learns to predict the second (prefix language modelling; Raffel et al. 2020, section 3.2.3). The
encoder has as many layers as the decoder, each of its layers processes half of the tokens, and a
feed-forward narrower by D pays for cross-attention, so the stacks cost the same per row, with about
twice the parameters, as in Raffel et al. 2020, Table 2. The decoder scores twice as many
predictions; in return the encoder-decoder gets more updates, so that the FLOPs of both runs are
equal.

Both are scored on the same tokens given the same preceding text: the second half of each held-out
row. For the decoder, `training.eval_context` does this; it trains on the whole row, which is the
advantage that the claim is about.

Stated beforehand, in nats per token of the second halves:

* The decoder alone ends below the encoder-decoder (superiority, margin 0).

Wang et al. 2022 judge zero-shot tasks after 168 billion tokens. This experiment judges only the
language modelling loss.

A run of the tiny size takes about a minute and a half of processor time; all 6, one at a time, took
19 minutes on two cores that also did other work.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size

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
# Updates of the decoder and of the encoder-decoder, with equal total FLOPs.
STEPS = {"tiny": (1000, 1178), "full": (10_000, 11_465)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Two architectures at equal FLOPs, scored on the same targets."""
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
    alone, both = STEPS[size]
    return Experiment(
        name="decoder_or_both" if size == "tiny" else f"decoder_or_both-{size}",
        question="Does a decoder alone model language better than an encoder-decoder of equal FLOPs?",
        base=base,
        allow=("tokens", "parameters", "flops"),
        factors={
            "architecture": {
                "decoder": {
                    "model.architecture": "decoder",
                    "objective.kind": "causal",
                    "training.eval_context": half,
                    "model.ffn.hidden_dim": 4 * width,
                    "training.steps": alone,
                },
                "encoder-decoder": {
                    "model.architecture": "encoder_decoder",
                    "objective.kind": "prefix",
                    "objective.prefix_length": half,
                    "model.ffn.hidden_dim": 3 * width,
                    "training.steps": both,
                },
            }
        },
        seeds=(0, 1, 2),
        claim=Claim(
            "O12",
            "Decoder-only spends a fixed budget better than encoder-decoder on language modelling",
            "a lecture; Wang et al. 2022, What Language Model Architecture and Pretraining Objective Work Best for "
            "Zero-Shot",
        ),
        contrasts=(
            Contrast(
                "the decoder alone is better",
                a=Side({"architecture": "decoder"}),
                b=Side({"architecture": "encoder-decoder"}),
                rule="superiority",
                margin=0.0,
                expected="on the second halves of rows the decoder ends below the encoder-decoder",
            ),
        ),
        size=size,
    )
