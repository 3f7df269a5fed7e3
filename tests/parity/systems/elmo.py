"""ELMo, whose reference is built from PyTorch's modules. Clipping is covered by the comparison with
published states.
"""

from collections.abc import Mapping
from typing import Any

from tests.parity.systems.record import Published, System
from zoo.config import ResolvedConfig
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import TRANSPOSED, IgnoredTensors, Rule, Rules, Transform, linear

# Settings of `tests.parity.references_torch.ELMo`.
SETTINGS = {"vocab": 23, "dim": 16, "layers": 3, "cell": 24, "characters": 8, "character_dim": 5, "filters": [1, 4, 3, 6, 2, 5],
            "highways": 2}  # fmt: skip
# Kernels are [width, in, out] in zoo and [out, in, width] in PyTorch.
CONVOLUTION = Transform(lambda x: (x.T,), lambda parts: parts[0].T)


def read_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides of `zoo.config.default()`."""
    return {
        "model.architecture": "elmo",
        "objective.kind": "bidirectional",
        "model.vocab_size": settings["vocab"],
        "model.dim": settings["dim"],
        "model.num_layers": settings["layers"],
        "model.elmo.cell_dim": settings["cell"],
        "model.elmo.cell_clip": 0.0,
        "model.elmo.projection_clip": 0.0,
        "model.elmo.characters": settings["characters"],
        "model.elmo.character_dim": settings["character_dim"],
        "model.elmo.filters": tuple(settings["filters"]),
        "model.elmo.highways": settings["highways"],
    }


def rules(config: ResolvedConfig) -> Rules:
    """Maps zoo's parameters to the module's tensors."""
    found, layers = [Rule("embedding", ("characters/embedding",))], tuple(range(config.num_layers))
    for index in range(len(config.elmo.filters) // 2):
        at = f"characters/convolutions/{index}"
        found += [
            Rule(f"convolutions.{index}.weight", (f"{at}/kernel",), CONVOLUTION),
            Rule(f"convolutions.{index}.bias", (f"{at}/bias",)),
        ]
    for index in range(config.elmo.highways):
        found += linear(f"characters/highways/{index}/gate", f"gates.{index}")
        found += linear(f"characters/highways/{index}/transform", f"transforms.{index}")
    found += linear("characters/projection", "projection")
    for side in ("forward", "backward"):
        ours, theirs = f"{side}/layers", f"{side}s.{{layer}}"
        found += [
            Rule(f"{theirs}.weight_ih_l0", (f"{ours}/input/kernel",), TRANSPOSED, layers),
            Rule(f"{theirs}.bias_ih_l0", (f"{ours}/input/bias",), layers=layers),
            Rule(f"{theirs}.weight_hh_l0", (f"{ours}/recurrent/kernel",), TRANSPOSED, layers),
            Rule(f"{theirs}.weight_hr_l0", (f"{ours}/projection/kernel",), TRANSPOSED, layers),
        ]
    return [
        *found,
        Rule("head.weight", ("head/weights",)),
        Rule("head.bias", ("head/bias",)),
        IgnoredTensors(r".*bias_hh_l0"),
    ]


ELMO = (
    System("elmo", "convolutions over characters, highways, three LSTM layers in both directions, one softmax",
           "LSTM(proj_size), Conv1d, Linear of torch.nn", SETTINGS, length=9, library="torch-elmo",
           importer=Importer(read_config, rules, SETTINGS), published=(
               Published("configs/elmo.py:original", 93_600_848, without=("head",), note="published as 93.6 million"),)),
)  # fmt: skip
