"""Small runs for the training tests."""

import contextlib
import json
import signal
from pathlib import Path

from zoo import config as configs

SMALL = {
    # It is read faster than the standard library, and does not change: losses stay what tests expect.
    "data.source": f"text:{Path(__file__).with_name('small_text.txt')}",
    "model.dim": 32,
    "model.num_layers": 1,
    "data.sequence_length": 16,
    "data.batch_size": 8,
    "training.steps": 12,
    "training.log_every": 1,
    "training.eval_every": 4,
    "training.eval_batches": 3,
    "training.checkpoint_every": 3,
    "optimizer.learning_rate": 3e-3,
}

# Arguments of `small` that train each architecture.
OBJECTIVES = {
    "causal": {},
    "multi_token": {"objective__kind": "multi_token"},
    "masked": {"model__architecture": "encoder", "objective__kind": "masked"},
    "masked_diffusion": {"model__architecture": "encoder", "objective__kind": "masked_diffusion"},
    "replaced_tokens": {"model__architecture": "encoder", "objective__kind": "replaced_tokens"},
    "pairs": {"data__source": "stdlib", "model__architecture": "encoder", "objective__kind": "masked",
              "data__row_format": "segment_pairs", "model__embedding__segments": 2, "model__head__pooler": True,
              "model__head__next_sentence": True, "objective__next_sentence": True},
    "prefix": {"model__architecture": "encoder_decoder", "objective__kind": "prefix", "objective__prefix_length": 6},
    "prefix decoder": {"objective__kind": "prefix", "objective__prefix_length": 6},
    "span": {"model__architecture": "encoder_decoder", "objective__kind": "span", "objective__sentinels": 8},
    "translation": {"data__source": "stdlib", "model__architecture": "encoder_decoder", "objective__kind": "translation",
                    "objective__beams": 2, "data__sequence_length": 24, "data__buckets": 2},
    "denoising": {"model__architecture": "encoder_decoder", "objective__kind": "denoising"},
    "bidirectional": {"model__architecture": "elmo", "objective__kind": "bidirectional", "model__elmo__cell_dim": 48,
                      "model__elmo__character_dim": 4, "model__elmo__characters": 4, "model__elmo__filters": (1, 8, 2, 8)},
}  # fmt: skip


def small(**overrides):
    """Returns an unresolved config that trains in a second; keyword a__b sets the field a.b."""
    changes = SMALL | {key.replace("__", "."): value for key, value in overrides.items()}
    if changes.get("model.architecture") != "elmo" and "model.attention.kind" not in changes:
        # This kernel compiles fastest.
        changes = {"model.attention.implementation": "einsum"} | changes
    return configs.override(configs.default(), changes)


def lines(workdir: Path) -> list[dict]:
    """Returns the lines of metrics.jsonl."""
    return [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


def curves(workdir: Path) -> list[tuple]:
    """Returns the metrics without timings, which two runs with equal configs share."""
    timed = ("seconds", "train/tokens_per_second")
    return [tuple(sorted((key, value) for key, value in line.items() if key not in timed)) for line in lines(workdir)]


@contextlib.contextmanager
def stop_requested_at(step, monkeypatch):
    """Sends SIGTERM to this process when the run handles the metrics of a step."""
    # Imported here, because tests that only make configs do not need JAX.
    from zoo.training.training_run import TrainingRun

    handle = TrainingRun.handle_metrics

    def stop(self, number, *rest):
        handle(self, number, *rest)
        if number == step:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingRun, "handle_metrics", stop)
        yield
