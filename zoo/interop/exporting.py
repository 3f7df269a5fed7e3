"""From a run to the files of another library's class: config.json, model.safetensors, and the tokenizer where it can be written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.data.tokenizers import Tokenizer
from zoo.errors import ConfigError
from zoo.files import write_json
from zoo.interop import export_weights, importer_of
from zoo.interop.expressing import Expressed, choose
from zoo.interop.importing import replacing
from zoo.interop.tensors import write_tensors

# What a config.json calls the token that opens and so ends a document, and the one that hides others.
OPENS, MASK = "<|endoftext|>", "[MASK]"
# Fields that act in training alone, which may be set for the export.
IN_TRAINING = ("model.dropout", "model.attention.dropout", "model.encoder.dropout", "model.decoder.dropout",
               "model.encoder.attention.dropout", "model.decoder.attention.dropout", "model.attention.redraw_every")  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A run as it is exported.

    Attributes:
        config: resolved.
        tokenizer: its own.
        step: updates that the parameters have had.
        params, stats: nested dicts of arrays.
        imported: what its meta.json, or that of the run that it started from, says of where it came from; empty if from nowhere.
    """

    config: ResolvedConfig
    tokenizer: Tokenizer
    step: int
    params: Mapping[str, Any]
    stats: Mapping[str, Any]
    imported: Mapping[str, Any]


def read_run(folder: Path, step: str = "latest", changes: Mapping[str, Any] | None = None) -> Run:
    """A run's parameters, on one device, without building its training program.

    Args:
        folder: the run's.
        step: "latest", "best" or a number.
        changes: flat fields to change, among `IN_TRAINING`.

    Raises:
        ConfigError: no such run or checkpoint; a change of anything else.
        DataError: damaged files.
    """
    from zoo.models.architectures import make_model
    from zoo.models.functional import split
    from zoo.training.start import read_weights

    for name in ("config.json", "checkpoints", "tokenizer.json"):
        if not (folder / name).exists():
            raise ConfigError(f"{folder} is not a run that can be exported: it has no {name}")
    if wrong := sorted(set(changes or {}) - set(IN_TRAINING)):
        raise ConfigError([f"{path} cannot be changed by an export, only {', '.join(IN_TRAINING[:2])}" for path in wrong])
    tokenizer = data.load_tokenizer(folder)
    config = configs.override(configs.load(str(folder / "config.json")), changes or {})
    config = configs.resolve(config, tokenizer.ids_needed(config.objective.kind))
    _, params, stats = split(make_model(config))
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    abstract = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), {"params": params, "stats": stats})
    weights, number = read_weights(folder, abstract, step)
    return Run(config, tokenizer, number, weights["params"], weights["stats"], _imported(folder))


def _imported(folder: Path) -> Mapping[str, Any]:
    """Where a run's parameters came from, through the runs that it started from, as far as these are still there."""
    seen: set[Path] = set()
    while folder not in seen:
        seen.add(folder)
        try:
            meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
            if "imported" in meta:
                return meta["imported"]
            folder = Path(meta["started_from"]["folder"])
        except (OSError, ValueError, KeyError, TypeError):
            break
    return {}


def export_run(folder: Path, out: Path, class_name: str | None = None, step: str = "latest",
               changes: Mapping[str, Any] | None = None) -> tuple[Run, Expressed, bool]:
    """Writes a run as a checkpoint of another library.

    Args:
        folder: the run's.
        out: the folder to write, which is not there yet or empty.
        class_name: the class to write; None for the one that it was imported as, or the first that can express it.
        step, changes: as in `read_run`.

    Returns:
        (the run, how it was expressed, whether its tokenizer was written).

    Raises:
        ConfigError: as `read_run`, and with every field that the class cannot express.
    """
    if class_name is not None:
        importer_of(class_name)
    with replacing(out) as temporary:
        run = read_run(folder, step, changes)
        recorded = run.imported.get("class")
        recorded = recorded if recorded in _known() else None
        expressed = choose(run.config, class_name, recorded, run.imported.get("config"))
        same = expressed.class_name == recorded
        importer = importer_of(expressed.class_name)
        settings = {"architectures": [expressed.class_name], **({"model_type": importer.model_type} if importer.model_type else {}),
                    **{name: value for name, value in expressed.settings.items() if name not in ("architectures", "model_type")}}
        settings |= {} if same else _special_ids(run, settings)
        if importer.model_type:
            settings |= {"torch_dtype": "float32"}
            settings.pop("dtype", None)
        write_json(temporary / "config.json", settings)
        tensors = export_weights(expressed.class_name, run.config, run.params, run.stats)
        write_tensors(temporary / "model.safetensors", tensors)
        written = write_tokenizer(temporary, run, run.imported.get("tokenizer_config") if same else None)
    return run, expressed, written


def _known() -> Mapping[str, Any]:
    from zoo.interop import FAMILIES

    return FAMILIES


def _special_ids(run: Run, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Ids that `generate` needs: the token that opens a document also ends the one before it. No id stands for padding unless the class
    counts positions by it: the rows that a class fills up come with a mask."""
    opens = run.tokenizer.document_id
    found = {"bos_token_id": opens, "eos_token_id": opens, "pad_token_id": settings.get("pad_token_id")}
    if run.config.model.architecture == "encoder_decoder":
        found |= {"decoder_start_token_id": opens, "forced_eos_token_id": None, "forced_bos_token_id": None}
    return found


def write_tokenizer(folder: Path, run: Run, given: Mapping[str, Any] | None = None) -> bool:
    """Writes `tokenizer.json` and `tokenizer_config.json`, if the tokenizer can be expressed.

    Args:
        folder: where to.
        run: whose tokenizer it is.
        given: the tokenizer_config.json that it came with.
    """
    model = expressed_tokenizer(run.tokenizer, run.config.objective.kind == "masked")
    if model is None:
        return False
    model.save(str(folder / "tokenizer.json"))
    config = dict(given or {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
                            "model_max_length": run.config.data.sequence_length})
    if given is None:
        names = {"bos_token": run.tokenizer.document_id, "eos_token": run.tokenizer.document_id}
        names |= {"mask_token": run.tokenizer.mask_id} if run.config.objective.kind == "masked" else {}
        config |= {name: model.id_to_token(id) for name, id in names.items()}
    write_json(folder / "tokenizer_config.json", config)
    return True


def expressed_tokenizer(tokenizer: Tokenizer, masked: bool) -> Any:
    """A tokenizer as one of the `tokenizers` library, which gives every text the same ids; None if there is none.

    Args:
        tokenizer: bytes, byte-level pairs, characters, or a published one. A character that the vocabulary lacks is refused here, and
            left out there.
        masked: whether it needs an id that hides tokens.
    """
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Model

    from zoo.data.tokenizers import byte_of_symbol

    if tokenizer.kind == "bytes":
        model = Model(models.BPE({symbol: byte for symbol, byte in byte_of_symbol().items()}, []))
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        model.decoder = decoders.ByteLevel()
    elif tokenizer.kind == "characters":
        model = Model(models.BPE({piece.decode(): id for id, piece in enumerate(tokenizer.pieces[:-1])}, []))
        model.decoder = decoders.Fuse()
    elif tokenizer.kind in ("bpe", "file"):
        model = Model.from_str(json.dumps(tokenizer.to_json()["model"]))
        if tokenizer.kind == "bpe":
            model.decoder = decoders.ByteLevel()
    else:
        return None
    more = [] if tokenizer.kind == "file" else [(tokenizer.document_id, OPENS)]
    more += [(tokenizer.mask_id, MASK)] if masked and tokenizer.mask_id == tokenizer.vocab_size else []
    for id, name in more:
        model.add_special_tokens([AddedToken(name, special=True, normalized=False)])
        if model.token_to_id(name) != id:
            return None
    return model


def parameters(run: Run) -> int:
    """Number of a run's parameters."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(dict(run.params)))
