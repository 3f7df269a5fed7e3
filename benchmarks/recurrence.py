"""Claim O11 (a lecture): a recurrent biLM scales worse with length than attention on parallel
hardware. Time of a step by length.

    python benchmarks/recurrence.py

A training step of ELMo's two LSTMs, of an encoder and of a decoder, on rows of ever more tokens and
ever fewer rows, so that every step has as many tokens. A recurrence then does the same arithmetic
for each token at any length, but in T steps, one after the other, of fewer and fewer rows;
attention does more arithmetic for each token and all of it at once. Printed are the median time of
a step, the time and the FLOPs of a token relative to those at the shortest length, and the FLOPs
per second relative to that.

This is a benchmark and no experiment file: the claim is about time, which a sweep's runs, one after
the other on a machine with other work, cannot compare. Here all models of a length are compiled in
one process and take turns, and a turn in which other processes used more than `--foreign` of the
machine's processor time is thrown away.

Stated beforehand: from the shortest length to the longest, the time of a token grows by a larger
factor in the recurrent model than in either of the others. Models are of 2 layers and width 128,
their FLOPs per token at the shortest length within 1 % of each other.
"""

import argparse
import statistics

import jax
from linear_attention import take_turns

from zoo import config as configs
from zoo import data
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.startup import resolve_with_vocabulary
from zoo.training.step import make_program

WIDTH = {"model.dim": 128, "model.num_layers": 2, "data.tokenizer.kind": "bytes"}
ATTENTION = WIDTH | {"model.attention.num_heads": 4, "model.position.kind": "rope"}
MODELS = {
    "recurrent": WIDTH
    | {
        "model.architecture": "elmo",
        "objective.kind": "bidirectional",
        "model.elmo.characters": 3,
        "model.elmo.character_dim": 8,
        "model.elmo.filters": (1, 32),
        "model.elmo.highways": 1,
        "model.elmo.cell_dim": 128,
    },
    "encoder": ATTENTION | {"model.architecture": "encoder", "objective.kind": "masked", "model.ffn.hidden_dim": 992},
    "decoder": ATTENTION | {"model.ffn.hidden_dim": 960},
}


def stepper(model: str, length: int, tokens: int):
    """Returns a function that does one training step and waits for it, and its FLOPs per token."""
    config = resolve_with_vocabulary(
        configs.override(
            configs.default(), MODELS[model] | {"data.sequence_length": length, "data.batch_size": tokens // length}
        )
    )
    dataset = data.load(config)
    program = make_program(config, make_model(config), make_objective(config, dataset.tokenizer), make_mesh(config))
    state, constants = program.initial_state(0), program.constants(0)
    with dataset.training_batches() as batches:
        batch = program.put_batch(next(batches))

    def step() -> None:
        nonlocal state
        state, metrics = program.train_step(state, batch, constants)
        jax.block_until_ready(metrics)

    return step, cost.summary(config).flops_per_token


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--lengths", type=lambda text: [int(x) for x in text.split(",")], default=[32, 64, 128, 256, 512, 1024]
    )
    parser.add_argument("--tokens", type=int, default=4096, help="tokens of a step")
    parser.add_argument("--rounds", type=int, default=7, help="clean turns per length")
    parser.add_argument("--steps", type=int, default=3, help="steps per turn")
    parser.add_argument(
        "--foreign", type=float, default=0.07, help="largest share of the machine that others may use in a turn"
    )
    arguments = parser.parse_args()
    first: dict[str, tuple[float, float]] = {}
    print(f"{'tokens':>6s} {'rows':>5s} {'model':10s} {'ms':>8s} {'time':>6s} {'FLOPs':>6s} {'FLOP/s':>7s}")
    for length in arguments.lengths:
        built = {model: stepper(model, length, arguments.tokens) for model in MODELS}
        for step, _ in built.values():
            step()
        times, dropped = take_turns({model: step for model, (step, _) in built.items()}, arguments)
        if not times["recurrent"]:
            raise SystemExit(f"{length} tokens: no turn was clean; the machine is busy (raise --foreign)")
        for model, (_, flops) in built.items():
            now = statistics.median(times[model]), flops
            time, work = (x / y for x, y in zip(now, first.setdefault(model, now), strict=True))
            rows = arguments.tokens // length
            print(
                f"{length:6d} {rows:5d} {model:10s} {now[0]:8.1f} {time:6.2f} {work:6.2f} {work / time:7.2f}",
                flush=True,
            )
        print(f"             n={len(times['recurrent'])}, {dropped} dropped", flush=True)


if __name__ == "__main__":
    main()
