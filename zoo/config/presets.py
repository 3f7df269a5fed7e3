"""Any config, shrunk: the same choices at a size that a CPU trains in seconds."""

from collections.abc import Mapping
from typing import Any

import ml_collections

from zoo.config.fields import AUTO, GATED
from zoo.config.files import override, parse_argument
from zoo.config.resolve import flatten

PRESETS = {
    "tiny": {"dim": 64, "layers": 2, "heads": 4, "length": 64, "batch": 16, "steps": 200, "warmup": 20, "every": 100},
    "smoke": {"dim": 32, "layers": 2, "heads": 4, "length": 16, "batch": 4, "steps": 4, "warmup": 1, "every": 2},
}


def shrink(config: ml_collections.ConfigDict, preset: str) -> ml_collections.ConfigDict:
    """Returns `config` at the size of `preset` ("tiny" or "smoke").

    What a variant is stays (kinds, placement, biases, whether heads share keys, whether there is a window); how large it is
    changes: width, depth, heads, hidden width in proportion, sequence, batch and budget. The text is `stdlib` as bytes.
    """
    size, flat = PRESETS[preset], flatten(config)
    kv_heads, heads = flat["model.attention.num_kv_heads"], flat["model.attention.num_heads"]
    if kv_heads not in (AUTO, heads):
        kv_heads = 1 if kv_heads == 1 else size["heads"] // 2
    elif kv_heads == heads:
        kv_heads = size["heads"]
    hidden = flat["model.ffn.hidden_dim"]
    if hidden != AUTO:
        unit = 24 if flat["model.ffn.kind"] in GATED else 8
        hidden = max(unit, round(hidden / flat["model.dim"] * size["dim"] / unit) * unit)
    learned = flat["model.position.kind"] == "learned"
    return override(config, {
        "model.dim": size["dim"],
        "model.num_layers": size["layers"],
        "model.vocab_size": AUTO,
        "model.attention.num_heads": size["heads"],
        "model.attention.num_kv_heads": kv_heads,
        "model.attention.head_dim": AUTO,
        "model.attention.scale": AUTO,
        "model.attention.window": size["length"] // 4 if flat["model.attention.window"] else 0,
        "model.attention.kernel": AUTO,
        "model.dtype": "float32",
        "model.scan_layers": False,
        "model.remat": "none",
        "model.ffn.hidden_dim": hidden,
        "model.position.max_length": size["length"] if learned and flat["model.position.max_length"] != AUTO else AUTO,
        "data.source": "stdlib",
        "data.document_separator": "",
        "data.tokenizer.kind": "bytes",
        "data.tokenizer.vocab_size": 8192,
        "data.sequence_length": size["length"],
        "data.batch_size": size["batch"],
        "training.steps": size["steps"],
        "training.accumulation_steps": 1,
        "training.eval_every": size["every"],
        "training.checkpoint_every": size["every"],
        "training.eval_batches": 10,
        "training.log_every": max(1, size["steps"] // 20),
        "optimizer.learning_rate": 3e-3,
        "schedule.warmup_steps": min(flat["schedule.warmup_steps"], size["warmup"]),
    })


def sized(argument: str, base: ml_collections.ConfigDict, sizes: Mapping[str, Mapping[str, Any]]) -> ml_collections.ConfigDict:
    """What a config file's `get_config` returns: `base` at the size its argument names, with the argument's overrides.

    Args:
        argument: "size,field=value,...".
        base: the fields that all sizes share.
        sizes: flat overrides of every published size; `tiny` and `smoke` shrink the first of them.
    """
    size, options = parse_argument(argument, sizes)
    config = override(base, sizes[size if size in sizes else next(iter(sizes))])
    if size not in sizes:
        config = shrink(config, size)
    return override(config, options)
