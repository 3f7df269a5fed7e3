"""Tokens per second of cached generation, here and by Hugging Face's `generate`, taking turns; and
what a cache holds.

    python benchmarks/decode.py             # needs the `parity` extra (torch, transformers)
    python benchmarks/decode.py --smoke     # a tiny model for a few turns: does it run?
    python benchmarks/decode.py --only-zoo --models small --batches 1 --heads

Greedy generation from random weights in float32: GPT-2 small (12 layers, width 768, 12 heads, 50257
tokens, 124 M parameters) and a tiny GPT-2 (4 layers, width 128, 4 heads, 512 tokens). Both sides
have a cache of a fixed size (Hugging Face: `cache_implementation="static"`) and all processors. One
worker process per side stays resident; a turn is a call of each, which reads the prompts and makes
`--new-tokens` tokens, and one that makes a single token, which tells what reading takes. A turn in
which other processes used more than `--foreign` of the machine's processor time is thrown away.
Printed are medians over the turns, quartiles, and the ratio of each pair of neighbouring turns.
"""

import argparse
import os
import subprocess
import sys
import time

from step_time import busy_seconds, quartiles

MODELS = {
    "tiny": {"layers": 4, "width": 128, "heads": 4, "vocabulary": 512},
    "small": {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257},
}
POSITIONS = 1024


def zoo_generator(shape: dict[str, int], overrides: dict | None = None):
    """A generator of a GPT-2 of that shape."""
    from zoo import config as configs
    from zoo.decoding import Generator
    from zoo.models.architectures import make_model
    from zoo.models.functional import initialise, initialise_statistics

    config = configs.resolve(
        configs.override(
            configs.default(),
            {
                "model.dim": shape["width"],
                "model.num_layers": shape["layers"],
                "model.attention.num_heads": shape["heads"],
                "model.vocab_size": shape["vocabulary"],
                "model.ffn.gelu_approximation": "tanh",
                "model.position.max_length": POSITIONS,
                "data.tokenizer.kind": "characters",
                **(overrides or {}),
            },
        )
    )
    model = make_model(config)
    return Generator(model, initialise(model, 0), initialise_statistics(model, 0))


def zoo_caller(shape: dict[str, int], prompts: list[list[int]], overrides: dict | None = None):
    """Returns a function that makes a number of tokens and waits for them."""
    generator = zoo_generator(shape, overrides)
    return lambda new_tokens: generator.generate(prompts, new_tokens).tokens


def hf_caller(shape: dict[str, int], prompts: list[list[int]]):
    """The same with transformers."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    config = transformers.GPT2Config(n_layer=shape["layers"], n_embd=shape["width"], n_head=shape["heads"],
                                     vocab_size=shape["vocabulary"], n_positions=POSITIONS)  # fmt: skip
    module, read = transformers.GPT2LMHeadModel(config).eval(), torch.tensor(prompts)

    def call(new_tokens: int):
        with torch.inference_mode():
            made = module.generate(read, attention_mask=torch.ones_like(read), max_new_tokens=new_tokens, do_sample=False,
                                   eos_token_id=None, pad_token_id=0, cache_implementation="static")  # fmt: skip
        return made[:, read.shape[1] :]

    return call


CALLERS = {"zoo": zoo_caller, "hf": hf_caller}


def work(arguments: argparse.Namespace) -> None:
    """A worker: builds, warms up, then for every line on its input prints seconds, and its own
    processor seconds, of the two calls.
    """
    if arguments.threads:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    shape, batch = MODELS[arguments.models[0]], arguments.batches[0]
    prompts = [
        [(7 * row + 3 * place) % shape["vocabulary"] for place in range(arguments.prompt)] for row in range(batch)
    ]
    call = CALLERS[arguments.worker](shape, prompts)
    for new_tokens in (arguments.new_tokens, 1):
        assert call(new_tokens).shape == (batch, new_tokens)
    print("ready", flush=True)
    for _ in sys.stdin:
        cpu, times = time.process_time(), []
        for new_tokens in (arguments.new_tokens, 1):
            began = time.perf_counter()
            call(new_tokens)
            times.append(time.perf_counter() - began)
        print(*times, time.process_time() - cpu, flush=True)


def take_turns(
    model: str, batch: int, arguments: argparse.Namespace
) -> tuple[list[dict[str, tuple[float, float]]], int]:
    """Seconds (of all tokens, of one) of every side in each clean turn, and the number of turns
    that were thrown away.
    """
    # Idle workers must not spin while the other one is measured.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
    common = ["--models", model, "--batches", str(batch), "--prompt", str(arguments.prompt), "--new-tokens", str(arguments.new_tokens),
              "--threads", str(arguments.threads)]  # fmt: skip
    workers = {name: subprocess.Popen([sys.executable, __file__, "--worker", name, *common], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True, env=environment)
               for name in (["zoo"] if arguments.only_zoo else CALLERS)}  # fmt: skip
    for name, worker in workers.items():
        if worker.stdout.readline().strip() != "ready":
            raise SystemExit(f"{name} failed")
    rounds, dropped = [], 0
    while len(rounds) < arguments.rounds and dropped < 5 * arguments.rounds:
        turn, clean = {}, True
        for name, worker in workers.items():
            busy, began = busy_seconds(), time.perf_counter()
            worker.stdin.write("go\n")
            worker.stdin.flush()
            *seconds, own = map(float, worker.stdout.readline().split())
            clean &= busy_seconds() - busy - own < arguments.foreign * (time.perf_counter() - began) * (
                os.cpu_count() or 1
            )
            turn[name] = tuple(seconds)
        rounds, dropped = ([*rounds, turn], dropped) if clean else (rounds, dropped + 1)
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    return rounds, dropped


def compare(model: str, batch: int, arguments: argparse.Namespace) -> None:
    """Prints the figures of one model and batch."""
    rounds, dropped = take_turns(model, batch, arguments)
    if not rounds:
        print(f"{model} B {batch}: no turn was clean; the machine is busy (raise --foreign)")
        return
    made = batch * arguments.new_tokens
    for name in rounds[0]:
        low, middle, high = quartiles([made / turn[name][0] for turn in rounds])
        _, each, _ = quartiles(
            [1000 * (turn[name][0] - turn[name][1]) / max(arguments.new_tokens - 1, 1) for turn in rounds]
        )
        print(
            f"{model:5s} B {batch:2d}  {name:4s} {middle:9.1f} tokens/s  quartiles {low:.1f} .. {high:.1f}   {each:8.3f} ms per step "
            f"after the prompts   n={len(rounds)}, {dropped} dropped",
            flush=True,
        )
    if "hf" in rounds[0]:
        low, middle, high = quartiles([turn["hf"][0] / turn["zoo"][0] for turn in rounds])
        print(f"{model:5s} B {batch:2d}  zoo / hf: median {middle:.2f}, quartiles {low:.2f} .. {high:.2f}", flush=True)


def heads_and_windows(model: str, batch: int, arguments: argparse.Namespace) -> None:
    """Prints the size of a cache with room for `POSITIONS` tokens, by key heads and window, and the
    speed of generating tokens with it.
    """
    import jax
    import numpy as np

    from zoo.decoding.decode_loop import prefill, sample
    from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens
    from zoo.decoding.stop_strings import StoppingCriteria, stop_table

    shape, heads, new_tokens = MODELS[model], MODELS[model]["heads"], arguments.new_tokens
    prompts, stop = (
        PaddedTokens(np.ones((batch, 16), np.int32), np.full(batch, 16, np.int32)),
        stop_table(shape["vocabulary"]),
    )
    rest = StoppingCriteria(stop, np.int32(new_tokens)), None, jax.random.key(0)
    for window in (0, POSITIONS // 8):
        for name, kv_heads in (("MHA", heads), ("GQA", max(heads // 4, 2)), ("MQA", 1)):
            generator = zoo_generator(
                shape, {"model.attention.num_kv_heads": kv_heads, "model.attention.window": window}
            )
            steps, times = (
                IncrementalDecoder(generator.graph, False, shape["layers"], POSITIONS, shape["vocabulary"], True),
                [],
            )
            for _ in range(arguments.rounds + 1):
                state, logits = jax.block_until_ready(prefill(steps, generator.weights, prompts))
                size = sum(x.nbytes for x in jax.tree.leaves(state.layers))
                began = time.perf_counter()
                jax.block_until_ready(sample(steps, generator.weights, state, logits, *rest, buffer_size=new_tokens))
                times.append(1000 * (time.perf_counter() - began) / max(new_tokens - 1, 1))
            print(
                f"{model:5s} B {batch:2d}  {name}, {kv_heads:2d} key heads, window {window or 'none':>4}: {size / 2**20:8.2f} MiB in the "
                f"cache, {min(times[1:]):8.3f} ms per step",
                flush=True,
            )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--models", type=lambda text: text.split(","), default=list(MODELS), help=f"of {', '.join(MODELS)}"
    )
    parser.add_argument(
        "--batches", type=lambda text: [int(x) for x in text.split(",")], default=[1, 16], help="numbers of prompts"
    )
    parser.add_argument("--prompt", type=int, default=64, help="tokens of a prompt (default: %(default)s)")
    parser.add_argument("--new-tokens", type=int, default=64, help="tokens to make (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="clean turns (default: %(default)s)")
    parser.add_argument(
        "--foreign", type=float, default=0.07, help="largest share of the machine that others may use in a turn"
    )
    parser.add_argument("--threads", type=int, default=0, metavar="N", help="let both sides have N processors; 0: all")
    parser.add_argument("--only-zoo", action="store_true", help="leave Hugging Face out")
    parser.add_argument(
        "--heads", action="store_true", help="also what a full cache holds and costs, by key heads and window"
    )
    parser.add_argument(
        "--smoke", action="store_true", help="the tiny model, one turn, 8 tokens, whatever else the machine does"
    )
    parser.add_argument("--worker", choices=CALLERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.models, arguments.batches, arguments.new_tokens = ["tiny"], [1, 2], 8
        arguments.rounds, arguments.foreign, arguments.heads = 1, 10.0, True
    if unknown := set(arguments.models) - set(MODELS):
        raise SystemExit(f"no model is called {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    if arguments.worker:
        work(arguments)
        return
    for model in arguments.models:
        for batch in arguments.batches:
            compare(model, batch, arguments)
            if arguments.heads:
                heads_and_windows(model, batch, arguments)


if __name__ == "__main__":
    main()
