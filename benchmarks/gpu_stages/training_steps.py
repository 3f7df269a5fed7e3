"""Cells that time the train step of a config on random tokens."""

import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_stages.measuring import CALLS, WARMUP, Settings, rates, timed

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = 256
"""Tokens of a document, where documents are packed and kept apart."""
PUBLISHED, PADDED = 50257, 50304
"""GPT-2's vocabulary, and the next multiple of 64."""
# Sizes of the dry run, and what stands there for other sizes.
SMALL = {"model.dim": 32, "model.attention.num_heads": 2, "data.sequence_length": 64, "data.tokenizer.vocab_size": 300}
SMALL_VALUES = {
    "model.vocab_size": lambda size: 320 if size == PADDED else 301,
    "model.attention.window": lambda size: 16,
    "objective.chunk_tokens": lambda size: size if size in ("auto", 0) else size // 128,
    "data.batch_size": lambda size: 4,
    "training.microbatch_size": lambda size: 2,
}


def cell(config: str, changes: Mapping[str, Any], tiny: bool, calls: int = CALLS) -> Settings:
    """Returns the settings of a train step.

    Args:
        config: config file and size.
        changes: fields that differ from the file's.
        tiny: shrink the model and the batch.
        calls: steps to time; a quarter as many come before them.
    """
    if not tiny:
        return {"config": config, "changes": dict(changes), "warmup": max(1, calls * WARMUP // CALLS), "calls": calls}
    changes = {"data.batch_size": 4, "model.vocab_size": 0, **changes}
    small = {path: SMALL_VALUES[path](value) if path in SMALL_VALUES else value for path, value in changes.items()}
    layers = 2 if small.get("model.scan_layers", True) else 1
    return {"config": config, "changes": small | SMALL | {"model.num_layers": layers}, "warmup": 1, "calls": 2}


def distinct(cells: Mapping[str, Settings]) -> dict[str, Settings]:
    """Returns the cells without repetitions: small cells may have the settings of an earlier one."""
    return {name: cell for index, (name, cell) in enumerate(cells.items()) if cell not in [*cells.values()][:index]}


def gpt2(rows: int, scan: bool, chunk: int | str = "auto", vocabulary: int = PADDED, **more: Any) -> dict[str, Any]:
    """Returns changes of GPT-2 for a step without accumulation; `model__remat` sets `model.remat`."""
    return {
        "data.batch_size": rows,
        "training.microbatch_size": 0,
        "model.scan_layers": scan,
        "objective.chunk_tokens": chunk,
        "model.vocab_size": vocabulary,
        "model.vocab_multiple": 1,
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def small_model_cells(tiny: bool) -> dict[str, Settings]:
    """GPT-2 124M: as the config file has it, then what could be changed, most telling first."""
    config = "configs/gpt2.py:small"
    shipped = {"data.batch_size": 12, "training.microbatch_size": 12, "model.vocab_size": PUBLISHED}
    cells = {"as shipped, one part of 12 rows": shipped}
    for rows, scan, chunk, vocabulary in (
        (64, False, 8192, PADDED),
        (64, True, 8192, PUBLISHED),
        (64, False, 8192, PUBLISHED),
        (64, False, 1024, PUBLISHED),
        (64, True, 1024, PUBLISHED),
        (32, False, 8192, PADDED),
        (96, False, 8192, PADDED),
        (12, False, 8192, PADDED),
        (64, False, 0, PADDED),
        (64, True, 8192, PADDED),
    ):
        layers, chunks = "scanned" if scan else "unrolled", f"chunks of {chunk}" if chunk else "one chunk"
        cells[f"{rows} rows, {layers}, {chunks}, V {vocabulary}"] = gpt2(rows, scan, chunk, vocabulary)
    found = {name: cell(config, changes, tiny) for name, changes in cells.items()}
    # An update of 480 rows takes seconds.
    whole = shipped | {"data.batch_size": 480}
    return distinct(found | {"as shipped, whole update of 480 rows": cell(config, whole, tiny, calls=4)})


def ladder_cells(tiny: bool) -> dict[str, Settings]:
    """Larger models, with what the backward pass recomputes."""
    medium, large = "configs/gpt2.py:medium", "configs/gpt2.py:xl"
    # The width and depth that GPT-3 has at this size (Brown et al. 2020, table 2.1).
    wide = {"model.dim": 2048, "model.num_layers": 24, "model.attention.num_heads": 16}
    cells = {
        "350M, 32 rows, unrolled": (medium, gpt2(32, False)),
        "1.3B, 16 rows, scanned, remat=dots": (large, wide | gpt2(16, True, model__remat="dots")),
        "1.6B, 16 rows, scanned, remat=dots": (large, gpt2(16, True, model__remat="dots")),
        "1.6B, 16 rows, scanned, remat=full": (large, gpt2(16, True, model__remat="full")),
        "350M, 32 rows, scanned": (medium, gpt2(32, True)),
        "350M, 32 rows, scanned, remat=dots": (medium, gpt2(32, True, model__remat="dots")),
        "1.3B, 16 rows, scanned": (large, wide | gpt2(16, True)),
        "1.3B, 16 rows, scanned, remat=full": (large, wide | gpt2(16, True, model__remat="full")),
    }
    return distinct({name: cell(config, changes, tiny) for name, (config, changes) in cells.items()})


FEATURES: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "ALiBi": {"model.position.kind": "alibi"},
    "T5's bias": {"model.position.kind": "relative_bias"},
    "packed documents": {"data.isolate_documents": True},
    "dropout 0.1": {"model.dropout": 0.1, "model.attention.dropout": 0.1},
    "dropout 0.1, not on probabilities": {"model.dropout": 0.1},
    "soft-cap": {"model.attention.softcap": 50.0},
    "window of 256": {"model.attention.window": 256},
    "RoPE": {"model.position.kind": "rope"},
    "QK-norm": {"model.attention.qk_norm": "head"},
}
FULL_ROWS: Mapping[str, Any] = {
    "data.row_format": "packed",
    "objective.next_sentence": False,
    "model.head.next_sentence": False,
    "model.head.pooler": False,
    "model.embedding.segments": 0,
    "model.dropout": 0.0,
    "model.attention.dropout": 0.0,
}
"""Changes of BERT with which no row has padding and nothing is dropped."""


def variant_cells(tiny: bool) -> dict[str, Settings]:
    """Returns GPT-2 124M with 32 rows and one feature added each; BERT reads as many tokens."""
    cells = {name: cell("configs/gpt2.py:small", gpt2(32, False) | changes, tiny) for name, changes in FEATURES.items()}
    bert = {"data.batch_size": 64, "model.scan_layers": False}
    return cells | {
        "BERT-base, 64 rows of 512": cell("configs/bert.py:base", bert, tiny),
        "BERT-base, full rows, no dropout": cell("configs/bert.py:base", bert | FULL_ROWS, tiny),
    }


def length_cells(tiny: bool) -> dict[str, Settings]:
    """Returns GPT-2 124M, scanned, with 8,192 tokens in rows of three lengths, by cuDNN and by einsum."""
    cells = {}
    for length in (1024,) if tiny else (1024, 4096, 256):
        for name, kernel in (("auto", "auto"), ("einsum", "einsum")):
            changes = {
                "data.sequence_length": length,
                "model.position.max_length": length,
                "model.attention.implementation": kernel,
            }
            cells[f"T {length}, {name}"] = cell(
                "configs/gpt2.py:small", gpt2(8192 // length, True) | changes, tiny, calls=40
            )
    return distinct(cells)


def mixer_cells(tiny: bool) -> dict[str, Settings]:
    """Returns GPT-2 124M, scanned, with 16,384 tokens: experts beside a dense layer with as many
    operations per token, and a state beside attention in rows of two lengths.
    """
    dense = {"model.ffn.kind": "swiglu", "model.ffn.hidden_dim": 2048}
    experts = {
        "model.ffn.kind": "moe",
        "model.ffn.experts.kind": "swiglu",
        "model.ffn.experts.balance_weight": 0.01,
        "model.ffn.hidden_dim": 1024,
    }
    hybrid = {
        "model.layers.pattern": ("state", "state", "state", "full"),
        "model.layers.kinds.state.attention.kind": "gated_delta",
        "model.layers.kinds.full.attention.kind": "softmax",
    }
    cells = {"dense SwiGLU": gpt2(16, True) | dense, "2 of 8 experts": gpt2(16, True) | experts}
    for length in (4096,) if tiny else (4096, 1024):
        rows = gpt2(16384 // length, True) | {"data.sequence_length": length, "model.position.max_length": length}
        cells |= {
            f"attention, T {length}": rows,
            f"Gated DeltaNet, T {length}": rows | {"model.attention.kind": "gated_delta"},
            f"attention in every fourth layer, T {length}": rows | hybrid,
        }
    small = {"model.ffn.hidden_dim": 64}
    return distinct(
        {
            name: cell("configs/gpt2.py:small", changes | (small if tiny else {}), tiny, calls=40)
            for name, changes in cells.items()
        }
    )


def fused_cells(tiny: bool) -> dict[str, Settings]:
    """Returns small models with heads of 64, two layers and one feature each, to compile and not to run."""
    small = {
        "model.dim": 256,
        "model.num_layers": 2,
        "model.attention.num_heads": 4,
        "model.scan_layers": False,
        "model.vocab_size": 512,
        "data.sequence_length": 512,
        "data.tokenizer.vocab_size": 500,
    }
    more: Mapping[str, Mapping[str, Any]] = {
        "GQA 4:1": {"model.attention.num_kv_heads": 1},
        "float32": {"model.dtype": "float32"},
        "forgetting": {"model.attention.kind": "forgetting"},
    }
    decoders = {
        name: ("configs/gpt2.py:small", gpt2(4, False) | changes | small)
        for name, changes in {**FEATURES, **more}.items()
    }
    encoder = small | {"data.batch_size": 4}
    encoders = {
        "BERT": ("configs/bert.py:base", encoder),
        "BERT, full rows, no dropout": ("configs/bert.py:base", encoder | FULL_ROWS),
    }
    chosen = {name: {"config": config, "changes": changes} for name, (config, changes) in (decoders | encoders).items()}
    return dict(list(chosen.items())[:2]) if tiny else chosen


def resolved(settings: Settings) -> Any:
    """Returns the resolved config of a cell."""
    from zoo import config as configs

    return configs.resolve(configs.override(configs.load(str(ROOT / settings["config"])), settings["changes"]))


def random_batch(config: Any) -> dict[str, Any]:
    """Returns a batch of random tokens for an objective that predicts tokens of running text.

    Packed documents have `DOCUMENT` tokens each; a row's masked positions are distinct.
    """
    import numpy as np

    from zoo.resources.abstract_run import abstract_batch

    random, shapes = np.random.default_rng(0), abstract_batch(config)
    # 0 opens a document.
    batch = {name: random.integers(1, config.model.vocab_size, x.shape, np.int32) for name, x in shapes.items()}
    if config.data.isolate_documents:
        batch["tokens"][:, ::DOCUMENT] = 0
    if "masked_positions" in batch:
        rows, length = shapes["tokens"].shape
        places = random.permuted(np.tile(np.arange(length, dtype=np.int32), (rows, 1)), axis=1)
        batch["masked_positions"] = np.sort(places[:, : shapes["targets"].shape[1]], axis=1)
    if "segments" in batch:
        batch["segments"] = (np.arange(shapes["tokens"].shape[1]) >= shapes["tokens"].shape[1] // 2).astype(np.int32)
        batch["segments"] = np.broadcast_to(batch["segments"], shapes["tokens"].shape).copy()
        batch["next"] = random.integers(0, 2, shapes["next"].shape, np.int32)
    return batch


_FUSED_CALL = re.compile(r'custom_call_target="(__cudnn\$fmha\w+)"')


def fused_calls(text: str) -> dict[str, int]:
    """Returns the number of calls of cuDNN's attention in the text of a compiled program, by their
    target. What a loop over layers repeats is one call.
    """
    return dict(sorted(Counter(_FUSED_CALL.findall(text)).items()))


def compiled_attention(settings: Settings) -> dict[str, Any]:
    """Compiles the train step of a cell, and counts the calls of cuDNN's attention in it.

    Raises:
        AssertionError: the config is said to train with cuDNN's attention and its program has no
            such call for the forward or the backward pass of a layer, or the other way round.
    """
    from zoo.layers.attention.kernels.kernel_choice import FUSED
    from zoo.layers.platform import Platform
    from zoo.objectives.attention_kernels import attention_kernels, kernel_lines
    from zoo.resources.abstract_run import abstract_program, lowered_step

    config = resolved(settings)
    kernels = attention_kernels(config, Platform.here())
    calls = fused_calls(lowered_step(config, abstract_program(config)).compile().as_text())
    # Nothing runs, so no peak of memory is worth a word.
    found = {"attention_kernel": kernel_lines(kernels), "fused_calls": calls, "peak_bytes": None}
    backward = sum(number for name, number in calls.items() if name.endswith("Backward"))
    forward = sum(calls.values()) - backward
    fused = all(kernel.kernel.split()[-1] == FUSED["gpu"] for kernel in kernels)
    if (min(forward, backward) < config.model.num_layers) if fused else calls:
        raise AssertionError(f"{found['attention_kernel']}, but the program calls {calls or 'nothing of cuDNN'}")
    return found


def measure(settings: Settings) -> dict[str, Any]:
    """Times the train step of a cell, with a state that is donated.

    Raises:
        FloatingPointError: the loss is not finite: what was timed is no training step.
    """
    from zoo.layers.platform import Platform
    from zoo.models import cost
    from zoo.objectives.attention_kernels import attention_kernels, kernel_lines
    from zoo.resources.abstract_run import abstract_program

    config = resolved(settings)
    program, size = abstract_program(config), cost.summary(config)
    state, constants = program.initial_state(0), program.constants(0)
    batch, metrics = program.put_batch(random_batch(config)), {}
    train_step = None

    def step() -> dict[str, Any]:
        nonlocal state, metrics, train_step
        # Its text is read below; a call of the function would not give it.
        train_step = train_step or program.train_step.lower(state, batch, constants).compile()
        state, metrics = train_step(state, batch, constants)
        return metrics

    found = timed(step, settings["warmup"], settings["calls"])
    loss = float(metrics["loss"])
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss}")
    tokens = config.data.batch_size * config.data.sequence_length
    return found | {
        **rates(tokens, found["ms"]["mean"], size.flops_per_token, config.model.dtype),
        "parameters": size.parameters["total"],
        "attention_kernel": kernel_lines(attention_kernels(config, Platform.here())),
        "fused_calls": fused_calls(train_step.as_text()),
        "temporary_bytes": train_step.memory_analysis().temp_size_in_bytes,
        "loss": loss,
    }
