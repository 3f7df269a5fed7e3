"""A laboratory for ablations of transformers.

In Python (docs/python.md):

    model = zoo.load("runs/first")             # logits, hidden states, attention, predictions, text
    config = zoo.load_config("configs/llama.py:tiny", {"training.steps": 200})
    model = zoo.train(config, "runs/second")
    frame = zoo.compare(["runs/first", "runs/second"])
    vary = {"model.norm.kind": ["rmsnorm", "layernorm"]}
    answer = zoo.sweep("configs/llama.py:tiny", vary=vary, seeds=3)
    again = zoo.differences(answer.attrs["folder"], baseline="norm.kind=layernorm")
"""

import importlib
from typing import Any as _Any

__version__ = "0.1.0"

# Imported when they are first used, because they need JAX or SciPy.
_LAZY = {
    "load": "zoo.inference.loaded_model",
    "load_config": "zoo.inference.python_api",
    "train": "zoo.inference.python_api",
    "compare": "zoo.lab.results.frames",
    "differences": "zoo.lab.results.frames",
    "verdict": "zoo.lab.results.frames",
    "figures": "zoo.inference.sweeps",
    "plan": "zoo.inference.sweeps",
    "sweep": "zoo.inference.sweeps",
}
__all__ = [
    "__version__",
    "compare",
    "differences",
    "figures",
    "load",
    "load_config",
    "plan",
    "sweep",
    "train",
    "verdict",
]


def __getattr__(name: str) -> _Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'zoo' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({name for name in globals() if name.startswith("__")} | {*__all__})
