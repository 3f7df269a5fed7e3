"""ELMo's published files: `options.json` and weights in HDF5 (Peters et al. 2018).

bilm-tf writes and AllenNLP reads them. Three arrangements differ from this library's. The input and
recurrent matrices of an LSTM are one matrix. Its gates are ordered (i, g, f, o), and TensorFlow
adds 1 to f's bias at run time, so the file's bias is smaller by 1. A highway's gate is that of the
transformed value, 1 - g: sigmoid(-z) = 1 - sigmoid(z), so its weights are the negatives of ours.
The file has no softmax. Because of the 1, the rules do not apply to gradients, and f's bias is
reproduced up to its last digit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zoo.config import ResolvedConfig
from zoo.errors import ConfigError, DataError
from zoo.interop.settings.importer import SettingsReader
from zoo.interop.weights.checkpoint_contents import CheckpointContents, ParamsAndStats
from zoo.interop.weights.mapping import IDENTITY, Rule, Rules, Transform, fused, to_zoo
from zoo.interop.weights.tensor_files import read_object
from zoo.models.elmo import ELMo
from zoo.models.functional import initialise, initialise_statistics, split

NEGATED = Transform(lambda x: (-x,), lambda parts: -parts[0])
# TensorFlow's convolutions have two spatial dimensions, the first of size 1.
FLAT = Transform(lambda x: (x[0],), lambda parts: parts[0][None])
# AllenNLP counts the padding id 0 among the characters; bilm-tf does so after training.
NUM_CHARACTERS = (261, 262)


def read_config(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns flat overrides of `zoo.config.default()` for an `options.json`.

    Settings of the training are not read.

    Raises:
        ConfigError: with one line for each setting that cannot be expressed.
    """
    absent = [
        f"{part}: missing; only models over characters are read" for part in ("lstm", "char_cnn") if part not in options
    ]
    if absent:
        raise ConfigError(absent)
    lstm = SettingsReader(options["lstm"], {"n_layers": 1, "use_skip_connections": False}, prefix="lstm.")
    cnn = SettingsReader(options["char_cnn"], {"n_highway": 0}, prefix="char_cnn.")
    character_dim = SettingsReader(cnn.get("embedding") or {}, {}, prefix="char_cnn.embedding.")
    dim, cell_dim, filters = lstm.get("projection_dim"), lstm.get("dim"), cnn.get("filters") or ()
    fields = {
        "model.architecture": "elmo",
        "objective.kind": "bidirectional",
        "model.dim": dim,
        "model.num_layers": lstm["n_layers"],
        "model.residual": bool(lstm["use_skip_connections"]),
        "model.elmo.characters": cnn.get("max_characters_per_token"),
        "model.elmo.character_dim": character_dim.get("dim"),
        "model.elmo.filters": tuple(number for pair in filters for number in pair),
        "model.elmo.highways": cnn["n_highway"] or 0,
        "model.elmo.cell_dim": cell_dim,
        "model.elmo.cell_clip": float(lstm.get("cell_clip") or 0),
        "model.elmo.projection_clip": float(lstm.get("proj_clip") or 0),
    }
    cnn.expect("relu", activation="only relu is supported")
    cnn.expect(*NUM_CHARACTERS, n_characters="expected bytes and five markers, 261, or 262 with padding")
    # bilm-tf has no projection if it would not reduce the width.
    if None not in (dim, cell_dim) and cell_dim <= dim:
        lstm.reject("dim", f"no wider than lstm.projection_dim={dim}: an LSTM without projection is not supported")
    if sum(fields["model.elmo.filters"][1::2]) == dim:
        cnn.reject("filters", f"as many as lstm.projection_dim={dim}: characters without projection are not supported")
    problems = [f"{path}: missing" for path, value in fields.items() if value is None or value == ()]
    for settings in (lstm, cnn, character_dim):
        try:
            settings.finish()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return fields


def _gates(forget: float = 0.0) -> Transform:
    """Converts between a file's gates (i, g, f, o) and ours, (i, f, g, o), in the last dimension.

    f is larger by `forget` here.
    """

    def split(x: np.ndarray) -> tuple[np.ndarray]:
        i, g, f, o = np.split(x, 4, axis=-1)
        return (np.concatenate([i, f + forget, g, o], axis=-1),)

    def join(parts: tuple[np.ndarray]) -> np.ndarray:
        i, f, g, o = np.split(parts[0], 4, axis=-1)
        return np.concatenate([i, g, f - forget, o], axis=-1)

    return Transform(split, join)


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of an ELMo's parameters, except the head's.

    Args:
        config: the `model` part of a resolved config.
    """
    cnn = "characters"
    found = [Rule("char_embed", (f"{cnn}/embedding",))]
    for index in range(len(config.elmo.filters) // 2):
        found += [
            Rule(f"CNN/W_cnn_{index}", (f"{cnn}/convolutions/{index}/kernel",), FLAT),
            Rule(f"CNN/b_cnn_{index}", (f"{cnn}/convolutions/{index}/bias",)),
        ]
    for index in range(config.elmo.highways):
        for theirs, ours, transform in (("carry", "gate", NEGATED), ("transform", "transform", IDENTITY)):
            found += [
                Rule(f"CNN_high_{index}/W_{theirs}", (f"{cnn}/highways/{index}/{ours}/kernel",), transform),
                Rule(f"CNN_high_{index}/b_{theirs}", (f"{cnn}/highways/{index}/{ours}/bias",), transform),
            ]
    found += [
        Rule("CNN_proj/W_proj", (f"{cnn}/projection/kernel",)),
        Rule("CNN_proj/b_proj", (f"{cnn}/projection/bias",)),
    ]
    layers = tuple(range(config.num_layers))
    for number, side in enumerate(("forward", "backward")):
        theirs, ours = f"RNN_{number}/RNN/MultiRNNCell/Cell{{layer}}/LSTMCell", f"{side}/layers"
        found += [
            Rule(
                f"{theirs}/W_0",
                (f"{ours}/input/kernel", f"{ours}/recurrent/kernel"),
                fused([config.dim, config.dim]).then(_gates()),
                layers,
            ),
            Rule(f"{theirs}/B", (f"{ours}/input/bias",), _gates(forget=1.0), layers),
            Rule(f"{theirs}/W_P_0", (f"{ours}/projection/kernel",), layers=layers),
        ]
    return found


def read_weights(tensors: Mapping[str, Any], config: ResolvedConfig) -> dict[str, Any]:
    """Reads a file's weights as a nested dict of parameters, without the head.

    Args:
        tensors: the file's arrays by path, from `read_hdf5`.
        config: the `model` part of a resolved config with the file's sizes; see `read_config`.

    Raises:
        DataError: naming all tensors that are missing, unexpected or of a wrong shape.
    """
    params = {name: value for name, value in split(ELMo(config))[1].items() if name != "head"}
    return to_zoo(rules(config), tensors, params)


def read_hdf5(path: str | Path) -> dict[str, np.ndarray]:
    """Reads all arrays of an HDF5 file, by path.

    Raises:
        ConfigError: no such file, or no h5py.
        DataError: not an HDF5 file.
    """
    try:
        import h5py
    except ModuleNotFoundError:
        raise ConfigError(f"reading {path} needs the package h5py: pip install h5py") from None
    if not Path(path).is_file():
        raise ConfigError(f"no such file: {path}")
    arrays: dict[str, np.ndarray] = {}

    def keep(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset):
            arrays[name] = node[...]

    try:
        with h5py.File(path, "r") as file:
            file.visititems(keep)
    except OSError as error:
        raise DataError(f"{path}: not an HDF5 file: {error}") from error
    return arrays


def open_elmo(options: Path, weights: Path) -> CheckpointContents:
    """Opens the model of two files, `options.json` and `weights.hdf5`.

    Raises:
        ConfigError: settings that cannot be expressed, or missing files.
        DataError: files with bad content.
    """
    settings = read_object(options, "an ELMo's settings")
    try:
        fields = read_config(settings)
    except (TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{options} has a value of a wrong type: {type(error).__name__}: {error}") from error
    if not weights.is_file():
        raise ConfigError(f"no such file: {weights}")

    def read(config: ResolvedConfig) -> ParamsAndStats:
        tensors = read_hdf5(weights)
        if wrong := [
            name for name, array in tensors.items() if array.dtype.kind != "f" or not np.isfinite(array).all()
        ]:
            raise DataError([f"tensor {name} holds infinite or undefined numbers" for name in wrong])
        values = read_weights(
            {name: array.astype(np.float32, copy=False) for name, array in tensors.items()}, config.model
        )
        model = ELMo(config.model)
        head, stats = jax.jit(
            lambda: (initialise(model, config.seed)["head"], initialise_statistics(model, config.seed))
        )()
        return values | {"head": jax.tree.map(np.asarray, head)}, jax.tree.map(np.asarray, stats)

    notes = ("the softmax was never published: the head has its initial values",)
    return CheckpointContents("ELMo", settings, fields, read, (options, weights), None, notes=notes)
