"""Speed of making batches from text, against that of training the tiny GPT, and the peak memory for
a large text.

    python benchmarks/data.py [--only tokenising feeding position model file] [--gigabytes 1]

tokenising  text of the standard library -> tokens, in memory
feeding     tokens -> batches of every kind of rows (16 rows of 128 tokens), taken as fast as they come
position    from nothing to the first batch at step 100,000
model       configs/gpt2.py:tiny on this machine, as metrics.jsonl has it
file        a text of that size is written to a temporary folder and loaded, each time by a new process: digests, split, training of the
            tokenizer, tokens on disk, first batch; peak memory is the process's ru_maxrss, in which
            mapped files count
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from zoo import config as configs
from zoo import data
from zoo.data.rows.token_streams import tokenize
from zoo.data.sources.source import read_documents

ROWS = {
    "packed": {},
    "packed, masked": {"model.architecture": "encoder", "objective.kind": "masked"},
    **{
        kind: {
            "model.architecture": "encoder",
            "objective.kind": "masked",
            "data.row_format": kind,
            "data.tokenizer.kind": "wordpiece",
        }
        for kind in ("full_sentences", "doc_sentences", "segment_pairs", "sentence_pairs")
    },
}
SEPARATOR = "\n\n\n"


def resolved(changes: dict[str, Any]) -> Any:
    """The config of these changes."""
    return configs.resolve(configs.override(configs.default(), changes))


def rate_of_batches(changes: dict[str, Any], seconds: float = 3.0) -> float:
    """Tokens per second that the input pipeline hands out."""
    with data.load(resolved(changes)).training_batches() as batches:
        next(batches)
        taken, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            taken += next(batches)["tokens"].size
        return taken / (time.perf_counter() - began)


def rate_of_model() -> float:
    """Tokens per second of the tiny GPT, the median of its lines after the first few."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "train.py",
            "--config=configs/gpt2.py:tiny",
            "--config.training.steps=120",
            "--config.training.eval_batches=1",
            f"--workdir={folder}/run",
        ]
        subprocess.run(command, cwd=Path(__file__).resolve().parents[1], check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in Path(folder, "run", "metrics.jsonl").read_text().splitlines()]
    return statistics.median(
        [line["train/tokens_per_second"] for line in lines if "train/tokens_per_second" in line][2:]
    )


def measure_tokenising() -> None:
    """Prints rates of `tokenize` by tokenizer."""
    for kind in ("bytes", "bpe", "wordpiece", "unigram"):
        config = resolved(
            {"data.tokenizer.kind": kind, **({"data.tokenizer.vocab_size": 8192} if kind != "bytes" else {})}
        )
        tokenizer, documents = data.load(config).tokenizer, read_documents(config.data)
        began = time.perf_counter()
        count = len(tokenize(tokenizer, documents))
        took = time.perf_counter() - began
        print(f"tokenising  {kind:10s} {count / took / 1e6:6.2f} M tokens/s  {documents.bytes / took / 1e6:6.2f} MB/s")


def measure_feeding() -> dict[str, float]:
    """Prints rates of batches by kind of rows."""
    rates = {}
    for kind, changes in ROWS.items():
        rates[kind] = rate_of_batches({"data.source": "stdlib:docstrings"} | changes)
        print(f"feeding     {kind:15s} {rates[kind] / 1e6:6.2f} M tokens/s")
    return rates


def measure_position(step: int = 100_000) -> None:
    """Prints how long it takes to get to a batch far from the beginning."""
    for kind, changes in ROWS.items():
        dataset = data.load(resolved({"data.source": "stdlib:docstrings"} | changes))
        times = []
        for start in (0, step):
            began = time.perf_counter()
            with dataset.training_batches(start) as batches:
                next(batches)
            times.append(time.perf_counter() - began)
        print(f"position    {kind:15s} step 0 after {times[0]:.3f} s, step {step:,} after {times[1]:.3f} s")


def write_text(path: Path, size: int) -> None:
    """Writes `size` bytes of documents of forty lines drawn from the standard library's code."""
    lines = [
        line for piece in read_documents(resolved({}).data).pieces() for line in piece.text.split("\n") if line.strip()
    ]
    numbers, written = np.random.default_rng(0), 0
    with open(path, "w", encoding="utf-8") as file:
        while written < size:
            drawn = [lines[number] for number in numbers.integers(len(lines), size=40)]
            written += file.write("\n".join(drawn) + SEPARATOR)


def load_file(kind: str, path: str) -> None:
    """In a process of its own: loads the file and prints what that took."""
    vocabulary = {"data.tokenizer.vocab_size": 8192} if kind != "bytes" else {}
    config = resolved(
        {"data.source": f"text:{path}", "data.document_separator": SEPARATOR, "data.tokenizer.kind": kind} | vocabulary
    )
    began = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dataset = data.load(config)
    with dataset.training_batches(1000) as batches:
        next(batches)
    took = time.perf_counter() - began
    part = dataset.parts[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"file        {kind:10s} {part.source.bytes / 1e9:.2f} GB, {part.source.count:,} documents, {dataset.train_tokens / 1e6:,.0f} M "
        f"tokens in {took:.0f} s; peak memory {peak / 1e6:.2f} GB ({before / 1e6:.2f} GB before)"
    )


def measure_file(gigabytes: float) -> None:
    """Writes the file and has it loaded."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.txt"
        write_text(path, int(gigabytes * 1e9))
        for kind in ("bytes", "bpe"):
            environment = os.environ | {"ZOO_CACHE": f"{folder}/{kind}"}
            subprocess.run([sys.executable, __file__, "--load", kind, str(path)], check=True, env=environment)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", choices=("tokenising", "feeding", "position", "model", "file"))
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load:
        return load_file(*arguments.load)
    chosen = arguments.only or ("tokenising", "feeding", "position", "model", "file")
    rates = {}
    if "tokenising" in chosen:
        measure_tokenising()
    if "feeding" in chosen:
        rates = measure_feeding()
    if "position" in chosen:
        measure_position()
    if "model" in chosen:
        model = rate_of_model()
        print(f"model       {model / 1e6:.3f} M tokens/s")
        for kind, rate in rates.items():
            print(f"ratio       {kind:15s} {rate / model:.0f} times what the model eats")
    if "file" in chosen:
        measure_file(arguments.gigabytes)
    return None


if __name__ == "__main__":
    main()
