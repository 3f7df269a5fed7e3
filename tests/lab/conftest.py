"""Synthetic sweeps with known curves, written the way runs write them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ARMS = {("pre", "0"): 2.50, ("pre", "100"): 2.45, ("post", "0"): 3.50, ("post", "100"): 2.48}
# Noise of single runs, so that a seed does not shift all arms by the same amount.
RUN_NOISE = (0.004, -0.006, 0.001, 0.008, -0.003)


class SweepWriter:
    """Writes run and sweep folders below `root`."""

    def __init__(self, root: Path):
        self.root = root

    def run(
        self,
        name: str,
        *,
        seed: int = 0,
        final: float = 2.5,
        state: str = "done",
        steps: int = 200,
        stop: int | None = None,
        lengths: dict[int, float] | None = None,
        config: dict[str, Any] | None = None,
        reason: str | None = None,
        meta: dict[str, Any] | None = None,
        torn: bool = False,
    ) -> Path:
        """A run whose evaluation loss falls from 6 to exactly `final` at the last step."""
        folder = self.root / name
        folder.mkdir(parents=True)
        base = {"seed": seed, "model": {"dim": 64, "norm": {"placement": "pre"}}, "data": {"sequence_length": 128}}
        (folder / "config.json").write_text(json.dumps({**base, **(config or {})}))
        (folder / "meta.json").write_text(
            json.dumps(
                {
                    "identity": "00ff",
                    "versions": {"jax": "0.10.2", "python": "3.11.2"},
                    "device": {"kind": "cpu", "count": 1},
                    "commit": None,
                    "data": {"fingerprint": "abc", "description": "synthetic"},
                    "parameters": {"total": 1_234_567, "embedding": 1, "body": 2, "heads": 3},
                    "flops_per_token": 7.4e6,
                    "command": f"zoo run --config.seed={seed}",
                    **(meta or {}),
                }
            )
        )
        stop = steps if stop is None else stop
        (folder / "status.json").write_text(
            json.dumps({"state": state, "step": stop, "steps": steps, "reason": reason})
        )
        noise = np.random.default_rng([seed, len(name)])
        lines = []
        for step in range(0, stop + 1, 2):
            clock = {"step": step, "tokens": step * 1024, "seconds": round(step * (0.1 + 0.01 * seed), 4)}
            share = math.log1p(step) / math.log1p(steps)
            loss = 6 + (final - 6) * share
            if state == "diverged" and step > stop - 10:
                loss *= 5
            if step:
                lines.append(
                    {
                        **clock,
                        "train/loss": loss + noise.normal() * 0.15,
                        "train/gradient_norm": 1 + noise.random(),
                        "train/learning_rate": 1e-3 * (1 - step / steps / 2),
                        "train/tokens_per_second": 9000 + step,
                    }
                )
            if step % 20 == 0:
                evaluation = {**clock, "eval/loss": loss, "eval/bits_per_byte": loss / 2.5}
                if step == steps:
                    evaluation |= {f"eval/loss@{length}": value for length, value in (lengths or {}).items()}
                lines.append(evaluation)
        if state == "diverged":
            clock = {"step": stop + 2, "tokens": (stop + 2) * 1024, "seconds": stop * 0.1}
            lines.append({**clock, "train/loss": None, "nonfinite": ["train/loss"]})
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text + ('{"step": 99999, "train/lo' if torn else ""))
        return folder

    def sweep(
        self,
        *,
        broken: bool = False,
        lengths: bool = False,
        floors: dict[str, dict[str, float]] | None = None,
        **changes: Any,
    ) -> Path:
        """Norm placement times warm-up, three seeds. `broken` adds a diverged, a failed and a
        missing run. All arms have the same floors, {name: {metric: score}}.
        """
        name = changes.pop("folder", "sweep")
        (self.root / name).mkdir(parents=True)
        arms, runs = [], []
        for (norm, warmup), loss in ARMS.items():
            arm = f"norm={norm},warm-up={warmup}"
            overrides = {"model.norm.placement": norm, "schedule.warmup_steps": int(warmup)}
            arms.append(
                {
                    "name": arm,
                    "factors": {"norm": norm, "warm-up": warmup},
                    "overrides": overrides,
                    "parameters": {"total": 1_234_567},
                    "flops_per_token": 7.4e6,
                }
            )
            for seed in (0, 1, 2):
                folder = f"{norm}-{warmup}-{seed}"
                runs.append({"folder": folder, "arm": arm, "seed": seed, "identity": folder})
                settings: dict[str, Any] = {
                    "seed": seed,
                    "final": loss + 0.02 * seed + RUN_NOISE[len(runs) % 5],
                    "torn": seed == 1,
                    "config": {
                        "model": {"dim": 64, "norm": {"placement": norm}},
                        "schedule": {"warmup_steps": int(warmup)},
                    },
                }
                if lengths:
                    reach = (256, 512, 1024) if norm == "post" else (256,)
                    settings["lengths"] = {at: loss + 0.3 * math.log2(at / 128) + 0.01 * seed for at in (64, *reach)}
                if broken and folder == "post-0-1":
                    settings |= {"state": "diverged", "stop": 120, "reason": "loss is not finite at step 122"}
                if broken and folder == "post-100-2":
                    settings |= {"state": "failed", "stop": 60, "reason": "OSError: disk full"}
                if not (broken and folder == "pre-100-2"):
                    self.run(f"{name}/{folder}", **settings)
        experiment = {
            "name": "Norm placement",
            "question": "Does post-norm need warm-up?",
            "size": "tiny",
            "claim": {
                "id": "N1",
                "statement": "Post-norm needs warm-up, pre-norm does not",
                "source": "Xiong et al. 2020",
            },
            "metric": "eval/loss",
            "factors": {"norm": ["pre", "post"], "warm-up": ["0", "100"]},
            "arms": arms,
            "runs": runs,
            "seeds": [0, 1, 2],
            "warnings": [],
            "contrasts": [
                contrast("post needs it", "norm=post,warm-up=100", "norm=post,warm-up=0"),
                contrast("pre does not", "norm=pre,warm-up=0", "norm=pre,warm-up=100", "equivalence", 0.1),
            ],
            **changes,
        }
        (self.root / name / "experiment.json").write_text(json.dumps(experiment))
        found = {"scores": floors or {}, "best": {}, "note": "counted" if floors else "no floors"}
        arm_floors = {arm["name"]: found for arm in arms}
        (self.root / name / "floors.json").write_text(json.dumps({"arms": arm_floors}))
        return self.root / name


def contrast(
    name: str, a: str, b: str, rule: str = "superiority", margin: float = 0.0, metric: str = "eval/loss"
) -> dict:
    """One entry of `contrasts` in experiment.json."""
    return {
        "name": name,
        "a": {"arm": a, "metric": metric},
        "b": {"arm": b, "metric": metric},
        "rule": rule,
        "margin": margin,
        "expected": "",
    }


@pytest.fixture
def writer(tmp_path: Path) -> SweepWriter:
    return SweepWriter(tmp_path)
