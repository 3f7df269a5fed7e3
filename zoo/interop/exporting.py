"""Exports a run as a checkpoint of another library.

The files are config.json, model.safetensors and, if possible, the tokenizer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.config.generators import LAYERS, OF_GENERATORS
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer
from zoo.errors import ConfigError
from zoo.files import read_json, read_object_or_empty, write_json
from zoo.interop.class_registry import FAMILIES, importer_of
from zoo.interop.config_export import ExportedConfig, choose_class
from zoo.interop.model_weights import export_weights, with_rows_of, without_padding
from zoo.interop.output_folder import atomic_folder
from zoo.interop.settings.finite_settings import finite
from zoo.interop.tokenizer_files import write_tokenizer
from zoo.interop.weights.tensor_files import write_tensors
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.training.checkpoints.warm_start import read_weights
from zoo.training.records.record_faults import check_unedited
from zoo.training.records.run_folder import RunFolder

# Fields that act only in training and may be changed by an export.
IN_TRAINING = (
    "model.dropout",
    "model.attention.dropout",
    "model.encoder.dropout",
    "model.decoder.dropout",
    "model.encoder.attention.dropout",
    "model.decoder.attention.dropout",
    "model.attention.redraw_every",
)


@dataclass(frozen=True)
class ExportableRun:
    """A run's parameters and what its export needs.

    Attributes:
        config: resolved.
        tokenizer: the run's tokenizer.
        step: number of updates.
        parameters: number of parameters.
        params, stats: nested dicts of arrays; empty after the export.
        imported: the record of the import in meta.json of this run, or of the run that it started
            from; empty if there was none.
    """

    config: ResolvedConfig
    tokenizer: Tokenizer
    step: int
    parameters: int
    params: dict[str, Any]
    stats: dict[str, Any]
    imported: Mapping[str, Any]


def load_exportable(folder: Path, step: str = "latest", changes: Mapping[str, Any] | None = None) -> ExportableRun:
    """Loads a run's parameters on one device, without building its training program.

    Args:
        folder: the run's folder.
        step: "latest", "best" or a number.
        changes: flat fields to change, among `IN_TRAINING`.

    Raises:
        ConfigError: no such run or checkpoint; a change of any other field.
        DataError: damaged files.
    """
    if not (folder / "checkpoints").exists() and any(folder.glob("*.safetensors")):
        raise ConfigError(f"{folder} is a checkpoint of another library already, not a run")
    for name in ("config.json", "checkpoints", "tokenizer.json"):
        if not (folder / name).exists():
            raise ConfigError(f"{folder} is not a run that can be exported: it has no {name}")
    if wrong := sorted(set(changes or {}) - set(IN_TRAINING)):
        raise ConfigError([f"{path} cannot be changed by an export, only {', '.join(IN_TRAINING)}" for path in wrong])
    check_unedited(RunFolder(folder))
    tokenizer = load_tokenizer(folder)
    config = configs.override(configs.load(str(folder / "config.json")), changes or {})
    if config.objective.kind in TASKS and (labels := _labels(folder)):
        config = configs.override(config, {"data.labels": labels, "model.head.classes": len(labels)})
    config = configs.resolve(config, tokenizer.model_vocab_size(config.objective, config.data.row_format))
    _, params, stats = split(make_model(config))
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    abstract = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), {"params": params, "stats": stats}
    )
    weights, number = read_weights(folder, abstract, step)
    if "generator" in weights["params"]:
        config, weights = without_generator(config, weights)
    if (plain := without_padding(config)) != config:
        config, weights["params"] = plain, with_rows_of(plain, weights["params"])
    count = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(weights["params"]))
    return ExportableRun(config, tokenizer, number, count, weights["params"], weights["stats"], _imported(folder))


def without_generator(
    config: ResolvedConfig, weights: Mapping[str, dict[str, Any]]
) -> tuple[ResolvedConfig, dict[str, dict[str, Any]]]:
    """Returns config and weights of a discriminator alone, without its generator."""
    plain = {path: configs.BY_PATH[path].default for path in OF_GENERATORS}
    kept = {
        kind: {part: tree for part, tree in trees.items() if part != "generator"} for kind, trees in weights.items()
    }
    return configs.resolve(configs.override(config, plain | {LAYERS: 0})), kept


def _labels(folder: Path) -> tuple[str, ...]:
    """Returns the labels of a task's run in the order of their ids; none for numbers and answers."""
    try:
        return tuple(read_json(folder / "meta.json")["data"]["labels"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _imported(folder: Path) -> Mapping[str, Any]:
    """Returns the record of where a run's parameters came from.

    It follows the runs that the run started from, as far as they still exist.
    """
    seen: set[Path] = set()
    while folder not in seen:
        seen.add(folder)
        try:
            meta = read_object_or_empty(folder / "meta.json")
            if isinstance(meta.get("imported"), dict):
                return meta["imported"]
            folder = Path(meta["started_from"]["folder"])
        except (KeyError, TypeError):
            break
    return {}


def export_run(
    folder: Path,
    out: Path,
    class_name: str | None = None,
    step: str = "latest",
    changes: Mapping[str, Any] | None = None,
) -> tuple[ExportableRun, ExportedConfig, bool]:
    """Writes a run as a checkpoint of another library.

    Args:
        folder: the run's folder.
        out: the folder to write, which must not exist or be empty.
        class_name: the class to write; None for the one that it was imported as, or the first that
            can express it.
        step, changes: as in `load_exportable`.

    Returns:
        (the run, how it was expressed, whether its tokenizer was written).

    Raises:
        ConfigError: as `load_exportable`, and with every field that the class cannot express.
    """
    if class_name is not None:
        importer_of(class_name)
    if folder.resolve() in out.resolve().parents:
        raise ConfigError(f"--out {out} is inside the run; what lies there is the run's own")
    with atomic_folder(out) as temporary:
        run = load_exportable(folder, step, changes)
        recorded = name if (name := run.imported.get("class")) in FAMILIES else None
        expressed = choose_class(run.config, class_name, recorded, run.imported.get("config"))
        same = expressed.class_name == recorded
        write_json(temporary / "config.json", _settings(run, expressed, same))
        tensors = export_weights(expressed.class_name, run.config, run.params, run.stats, consume=True)
        write_tensors(temporary / "model.safetensors", tensors)
        written = write_tokenizer(
            temporary,
            run.tokenizer,
            run.config,
            run.imported.get("tokenizer_config") if same else None,
            run.imported.get("files", {}),
        )
    return run, expressed, written


def _settings(run: ExportableRun, expressed: ExportedConfig, same: bool) -> dict[str, Any]:
    """Returns the content of config.json: class, model and special token ids."""
    model_type = importer_of(expressed.class_name).model_type
    naming = {"architectures": [expressed.class_name]} | (
        {"model_type": model_type, "torch_dtype": "float32"} if model_type else {}
    )
    settings = {name: value for name, value in finite(expressed.settings).items() if name not in (*naming, "dtype")}
    return naming | settings | ({} if same else _special_ids(run, settings))


def _special_ids(run: ExportableRun, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the token ids that `generate` needs.

    The token that opens a document also ends the one before it. There is no padding id, unless the
    class derives positions from it: padded rows come with a mask.
    """
    opens = run.tokenizer.bos_id
    found = {"bos_token_id": opens, "eos_token_id": opens, "pad_token_id": settings.get("pad_token_id")}
    if run.config.model.architecture == "encoder_decoder":
        found |= {"decoder_start_token_id": opens, "forced_eos_token_id": None, "forced_bos_token_id": None}
    return found
