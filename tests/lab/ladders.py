"""Sweeps of two arms at three sizes, whose losses follow a law that is known."""

import json
import math

import numpy as np

from zoo.lab.statistics.power_law import PowerLaw

# Operations, divided by those of the smallest size, are 16 times apart: 4 in parameters, 4 in tokens.
LAW = PowerLaw(0.8, 0.9, 0.15)
STEPS, BASE, ARM, SEEDS = (40, 160, 640), "optimizer=adamw", "optimizer=muon", (0, 1, 2)
GAINS = (-0.09, -0.07, -0.05)


def size_of(steps):
    tokens = steps * 1024
    parameters = tokens // 20
    return tokens, parameters, 6 * parameters


def write_sweep(
    writer, place, *, name="", factor=1.0, tokens_per_parameter=1.0, arms=(BASE, ARM), seeds=SEEDS, **changes
):
    """Writes a sweep of two arms at a size; all losses follow `LAW`, with a noise that is the same at
    each size.
    """
    folder, noise = name or f"rung{place + 1}", np.random.default_rng(place)
    tokens, parameters, flops = size_of(STEPS[place])
    parameters = int(parameters * tokens_per_parameter)
    compute = tokens * flops * factor / math.prod(size_of(STEPS[0])[::2])
    runs = []
    for seed in seeds:
        shared = 0.02 * noise.normal()
        for arm in arms:
            loss = LAW.loss(compute) + shared + (0.004 * noise.normal()) + (GAINS[place] if arm == ARM else 0)
            writer.run(
                f"{folder}/{arm}-{seed}",
                seed=seed,
                final=loss,
                steps=STEPS[place],
                config={"data": {"source": "stdlib", "sequence_length": 128}},
                meta={"parameters": {"total": parameters}, "flops_per_token": flops * factor},
            )
            runs.append({"folder": f"{arm}-{seed}", "arm": arm, "seed": seed, "identity": f"{arm}-{seed}"})
    experiment = {
        "name": folder,
        "metric": "eval/loss",
        "arms": [{"name": arm, "factors": dict([arm.split("=")]), "parameters": {"total": parameters}} for arm in arms],
        "runs": runs,
        "seeds": list(seeds),
        "contrasts": [],
    } | changes
    (writer.root / folder / "experiment.json").write_text(json.dumps(experiment))
    return writer.root / folder
