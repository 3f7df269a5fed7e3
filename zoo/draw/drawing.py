"""The figures of `zoo draw`: those of zoo, and those that plug-ins register.

A figure that many users ask for has a module in `zoo.draw`. One that serves a single question is a
plug-in, `experiments/drawings/NAME.py`, which is loaded when its name is used.
"""

import argparse
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Drawing(NamedTuple):
    """A figure that a plug-in draws.

    Attributes:
        meaning: what it shows, for `zoo draw --help`.
        draw: its options -> a Matplotlib `Figure`, or {ending of the file's name: Figure}.
        add_options: adds its options to a parser, which has those of all figures (`--out`,
            `--format`, `--json`) already.
    """

    meaning: str
    draw: Callable[[argparse.Namespace], Any]
    add_options: Callable[[argparse.ArgumentParser], None] = lambda parser: None


BUILT_IN = {
    "architecture": "one or two architectures as block diagrams, with differences marked",
    "mask": "which keys each query sees in each kind of layers, and the receptive field by layer",
    "heads": "the heads of each kind of attention layers, and the keys and values that they share",
    "embeddings": "the embeddings that are summed for each token of a text: of its id, segment and position",
    "norms": "the values over which LayerNorm, BatchNorm and RMSNorm take their statistics, and an example in numbers",
    "positions": "the positions of a config before training: slopes, buckets, wavelengths, sinusoids",
    "attention": "attention maps of every head on a text, as a grid for each layer",
    "query": "what one token attends to, as lines to the other tokens, one colour for each head",
    "online-softmax": "attention of one query tile by tile of keys, as FlashAttention computes it",
    "sinusoids": "the table of sinusoids",
    "rope": "the vectors that RoPE turns, and their angles by pair of dimensions and position",
    "rope-bound": "the bound of RoPE on scores by distance, scores under it, and the scores of a run",
    "biases": "the bias that ALiBi, or a run's learned bias, adds to scores by distance",
    "learned-positions": "the similarity of a run's learned positions, by distance",
    "residual": "the norm of a run's residual stream by layer, trained and at initial values",
    "gradients": "gradient norms and the residual stream by layer, of runs, or of a config with pre- and post-norm",
    "experts": "the load of every expert of a run; which experts a text takes; how far two runs agree",
    "soft-targets": "a teacher's probabilities of a token beside the label and a student's",
    "compare": "the fields of two architectures side by side, with differences marked",
}
"""Descriptions of the figures of `zoo.draw`, by name."""

MAX_NAME = 150
"""Bytes of a file's name, without its ending, past which it is cut."""

DRAWINGS: dict[str, Drawing] = {}
"""The figures of the plug-ins that are loaded, by name."""


def file_name(name: str) -> str:
    """Returns the name of a figure's file; of a long one, the beginning with a hash of the whole."""
    content = name.encode()
    if len(content) <= MAX_NAME:
        return name
    return f"{content[:MAX_NAME].decode(errors='ignore')}-{hashlib.sha256(content).hexdigest()[:8]}"


def short_name(spec: str) -> str:
    """Returns a config's name as a part of a file's name: llama-7b of configs/llama.py:7b."""
    path = Path(spec.partition(":")[0])
    name = path.parent.name if path.name == "config.json" else path.name.removesuffix(".py")
    return re.sub(r"[^\w.=]+", "-", name + spec[len(spec.partition(":")[0]) :]).strip("-")
