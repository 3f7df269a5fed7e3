"""Seconds and peak memory of `zoo import` and `zoo export` for a checkpoint of BERT base's size,
110 million random numbers.

    python benchmarks/interchange.py [--smoke] [--json]

Memory is the largest resident set of the command's process, less that of a process that only
imports the same modules and starts the device; it is told as a multiple of the checkpoint's size.
`--smoke` takes a small model, to see that the benchmark works. `--json` prints one object instead
of lines.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BERT_BASE = {"vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
             "max_position_embeddings": 512}  # fmt: skip
SMOKE = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
         "max_position_embeddings": 32}  # fmt: skip
MODULES = "import jax, zoo.cli.checkpoints.interchange, zoo.interop.importing, zoo.interop.exporting, zoo.training.trainer; jax.devices()"


def run(arguments: list[str], environment: dict[str, str]) -> tuple[float, int]:
    """Seconds and peak memory in bytes of a process."""
    began = time.perf_counter()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, *arguments],
        os.environ | environment,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(arguments)} ended with status {status}")
    # Linux counts in KiB, macOS in bytes.
    return time.perf_counter() - began, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def make_checkpoint(folder: Path, sizes: dict[str, int]) -> None:
    """Writes a random checkpoint of BertForPreTraining with a tokenizer."""
    from zoo.interop import importer_of, resolve_like
    from zoo.interop.weights.mapping import tensor_shapes
    from zoo.interop.weights.tensor_files import write_tensors
    from zoo.models.architectures import make_model
    from zoo.models.functional import split

    config = resolve_like("BertForPreTraining", sizes, {"data.tokenizer.kind": "characters"})
    shapes = tensor_shapes(importer_of("BertForPreTraining").rules(config.model), split(make_model(config))[1])
    generator = np.random.default_rng(0)
    write_tensors(
        folder / "model.safetensors",
        {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()},
    )
    (folder / "config.json").write_text(json.dumps({"architectures": ["BertForPreTraining"], **sizes}))
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]) + "\n")


def measure(sizes: dict[str, int]) -> dict[str, float]:
    """Bytes of the checkpoint and of the modules alone; of each command, seconds and bytes beyond
    those of the modules.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "source").mkdir()
        # In a process of its own: what starts a process counts to that one's peak as well.
        maker = multiprocessing.get_context("spawn").Process(target=make_checkpoint, args=(folder / "source", sizes))
        maker.start()
        maker.join()
        environment = {"ZOO_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
        _, baseline = run(["-c", MODULES], environment)
        found = {"checkpoint": (folder / "source" / "model.safetensors").stat().st_size, "modules": baseline}
        commands = {
            "import": ["-m", "zoo.cli.main", "import", f"hf:{folder / 'source'}", "--out", str(folder / "run")],
            "export": ["-m", "zoo.cli.main", "export", str(folder / "run"), "--out", str(folder / "written")],
        }
        for command, arguments in commands.items():
            seconds, peak = run(arguments, environment)
            found |= {f"{command}_seconds": seconds, f"{command}_more": peak - baseline}
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--smoke", action="store_true", help="a small model")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    found = measure(SMOKE if args.smoke else BERT_BASE)
    if args.json:
        print(json.dumps(found))
        return
    print(f"checkpoint {found['checkpoint'] / 1e6:,.1f} MB\nmodules alone {found['modules'] / 1e6:,.0f} MB")
    for command in ("import", "export"):
        seconds, more = (found[f"{command}_{what}"] for what in ("seconds", "more"))
        print(
            f"{command}  {seconds:.1f} s, {more / 1e6:,.0f} MB more: {more / found['checkpoint']:.2f} times the checkpoint"
        )


if __name__ == "__main__":
    main()
