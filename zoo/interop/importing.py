"""Makes a run of a checkpoint of another library; its folder is like that of any finished run."""

import hashlib
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zoo import config as configs
from zoo.config import ResolvedConfig, plugins
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.pretrained_files import READABLE_FILES, SENTENCEPIECE_NAMES
from zoo.data.tokenizers.tokenizer import TOKENIZER_FILE, Tokenizer
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError, did_you_mean
from zoo.files import write_json
from zoo.interop.checkpoint_source import CheckpointSource
from zoo.interop.class_registry import FAMILIES, importer_of
from zoo.interop.families.bilm import open_elmo
from zoo.interop.families.fairseq import open_fairseq
from zoo.interop.model_weights import import_weights, with_rows_of, without_padding
from zoo.interop.output_folder import atomic_folder
from zoo.interop.weights.checkpoint_contents import CheckpointContents, ParamsAndStats
from zoo.interop.weights.tensor_files import open_tensors, read_object, weight_files
from zoo.models import cost
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.records.run_record import environment, parameters_sha256

TOKENIZER_NAMES = ("tokenizer.json", "vocab.txt", "vocab.json", *SENTENCEPIECE_NAMES)


def open_checkpoint(source: CheckpointSource, class_name: str | None = None) -> CheckpointContents:
    """Reads a checkpoint's config and tokenizer.

    Args:
        source: where it is.
        class_name: its class, if config.json does not name it or another one is wanted.

    Raises:
        ConfigError: a class without an importer, or settings that cannot be expressed.
        DataError: files with bad content.
    """
    if source.kind == "elmo":
        return open_elmo(*source.path)
    if source.kind == "fairseq":
        return open_fairseq(source.path)
    return _open_hugging_face(source.path, class_name)


def _open_hugging_face(folder: Path, class_name: str | None) -> CheckpointContents:
    settings = read_object(folder / "config.json", "the model's settings")
    name = class_name or _architecture(folder, settings)
    importer = importer_of(name)
    try:
        fields = importer.read_config(settings)
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise ConfigError(
            f"{folder / 'config.json'} has a value of a wrong type: {type(error).__name__}: {error}"
        ) from error
    files = weight_files(folder)

    def weights(config: ResolvedConfig) -> ParamsAndStats:
        tensors = open_tensors(folder)
        try:
            read = import_weights(name, config, tensors)
            tensors.finish()
        finally:
            tensors.close()
        return read

    names = (*TOKENIZER_NAMES, "merges.txt", "tokenizer_config.json")
    known = [folder / file for file in names if (folder / file).is_file()]
    tokenizer = read_pretrained(folder) if any(path.name in TOKENIZER_NAMES for path in known) else None
    metadata = {}
    if (folder / "tokenizer_config.json").is_file():
        metadata["tokenizer_config"] = read_object(folder / "tokenizer_config.json", "the tokenizer's settings")
    return CheckpointContents(
        name, settings, fields, weights, (folder / "config.json", *files, *known), tokenizer, metadata
    )


def _architecture(folder: Path, settings: Mapping[str, Any]) -> str:
    """Returns the class that a config.json names."""
    names = settings.get("architectures") or []
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise ConfigError(
            f"{folder / 'config.json'} names no class under architectures; --class NAME says which it is: "
            f"{', '.join(sorted(FAMILIES))}"
        )
    if names[0] not in FAMILIES:
        raise ConfigError(
            f"{folder / 'config.json'}: no importer for {names[0]}{did_you_mean(names[0], FAMILIES)}; --class NAME "
            f"reads it as one of {', '.join(sorted(FAMILIES))}"
        )
    return names[0]


def import_run(
    source: CheckpointSource,
    out: Path,
    class_name: str | None = None,
    tokenizer: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> tuple[CheckpointContents, ResolvedConfig, int]:
    """Makes the folder of a run out of a checkpoint.

    It holds config.json, meta.json, status.json, tokenizer.json and checkpoints/0.

    Args:
        source: the checkpoint.
        out: the folder, which must not exist or be empty.
        class_name: as in `open_checkpoint`.
        tokenizer: file or folder of a tokenizer that replaces the checkpoint's.
        changes: flat fields that take precedence over the checkpoint's.

    Returns:
        (contents of the checkpoint, the resolved config, number of parameters).

    Raises:
        ConfigError: as `open_checkpoint`; a folder that is in use; no tokenizer.
        DataError: tensors that are missing, unexpected, of a wrong shape or not finite.
    """
    with atomic_folder(out) as folder:
        contents = open_checkpoint(source, class_name)
        used = read_pretrained(tokenizer) if tokenizer else contents.tokenizer or _byte_tokenizer(contents)
        # A new run that starts from this one reads the run's own copy, wherever the run is moved.
        tokenizer_fields = {"data.tokenizer.kind": "bytes"}
        if not isinstance(used, ByteTokenizer):
            tokenizer_fields = {"data.tokenizer.kind": "file", "data.tokenizer.path": "."}
        config = configs.override(configs.default(), {**contents.fields, **tokenizer_fields, **(changes or {})})
        config = configs.resolve(config, used.model_vocab_size(config.objective, config.data.row_format))
        _save_tokenizers(folder, used, contents.extra_tokenizers)
        plugins.store(folder, config.plugins)
        write_json(folder / "config.json", configs.to_plain(config))
        counted = cost.summary(config)
        write_json(folder / "meta.json", _metadata(source, out, contents, config, counted))
        plain = without_padding(config)
        params, stats = contents.weights(plain)
        _write_weights(folder, params if plain == config else with_rows_of(config, params), stats)
    return contents, config, counted.parameters["total"]


def _byte_tokenizer(contents: CheckpointContents) -> Tokenizer:
    """Returns the tokenizer of a byte-level model whose checkpoint has none."""
    tokenizer, size = ByteTokenizer(), contents.fields.get("model.vocab_size")
    if size in (None, tokenizer.model_vocab_size(configs.override(configs.default(), contents.fields).objective)):
        return tokenizer
    raise ConfigError(
        f"the checkpoint has no readable tokenizer, and its {size} ids are not bytes; pass --tokenizer DIR with "
        f"{READABLE_FILES}"
    )


def _save_tokenizers(folder: Path, tokenizer: Tokenizer, extra: Mapping[str, Tokenizer]) -> None:
    for name, other in extra.items():
        other.save(folder)
        (folder / TOKENIZER_FILE).rename(folder / name)
    tokenizer.save(folder)


def _metadata(
    source: CheckpointSource, out: Path, contents: CheckpointContents, config: ResolvedConfig, counted: cost.Cost
) -> dict[str, Any]:
    """Returns the content of meta.json."""
    return {
        "identity": configs.identity(config),
        **environment(),
        "imported": {
            "class": contents.class_name,
            "source": source.name,
            "revision": source.revision,
            "files": {path.name: sha256(path) for path in contents.files},
            "config": dict(contents.settings),
            **contents.extra_metadata,
        },
        "parameters": counted.parameters,
        "flops_per_token": counted.flops_per_token,
        "command": f"zoo import {source.name} --out {out}",
        "arguments": sys.argv[1:],
    }


def _write_weights(folder: Path, params: Any, stats: Any) -> None:
    """Writes checkpoint 0 and status.json."""
    digest = parameters_sha256(params)
    checkpoints = Checkpoints(folder / "checkpoints", 1, zero_copy=True)
    checkpoints.save(
        0,
        {"step": np.zeros((), np.int32), "params": params, "stats": stats},
        {"tokens": 0, "evaluated": False, "seconds": 0.0},
        None,
    )
    checkpoints.close()
    write_json(
        folder / "status.json", {"state": "done", "step": 0, "steps": 0, "reason": None, "parameters_sha256": digest}
    )


def sha256(path: Path) -> str:
    """Returns the sha256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def import_report(contents: CheckpointContents, config: ResolvedConfig, parameters: int, out: Path) -> Iterable[str]:
    """Yields lines that say what was imported and how to go on."""
    yield (
        f"{contents.class_name}: {parameters:,} parameters; model.architecture={config.model.architecture}, "
        f"objective.kind={config.objective.kind}"
    )
    data = config.data
    yield f"tokenizer {data.tokenizer.kind} ({out / TOKENIZER_FILE}); rows of {data.sequence_length} tokens"
    yield from contents.notes
    yield f"python eval.py {out}"
    yield f"python train.py --config={out}/config.json --config.training.start_from={out} --workdir=DIR"
