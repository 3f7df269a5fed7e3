"""Makes a run of a checkpoint of another library; its folder is like that of any finished run."""

import contextlib
import functools
import hashlib
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zoo import config as configs
from zoo.config import BY_PATH, ResolvedConfig, plugins
from zoo.config.fields import TASKS
from zoo.data.tokenizers.added_tokens import COMPANIONS, SETTINGS_FILE
from zoo.data.tokenizers.byte_tokenizers import ByT5Tokenizer, ByteTokenizer
from zoo.data.tokenizers.marian_files import FILES as MARIAN_FILES
from zoo.data.tokenizers.pretrained_files import READABLE_FILES, SENTENCEPIECE_NAMES
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE, TOKENIZER_FILE, Tokenizer
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError
from zoo.files import read_object_or_empty, write_json
from zoo.interop.checkpoint_source import CheckpointSource
from zoo.interop.class_registry import ALIASES, importer_of, named_class, read_settings
from zoo.interop.families.bilm import open_elmo
from zoo.interop.families.fairseq import open_fairseq
from zoo.interop.generation_settings import unapplied_choices
from zoo.interop.model_weights import import_weights, with_rows_of, without_padding
from zoo.interop.output_folder import atomic_folder
from zoo.interop.settings.finite_settings import finite
from zoo.interop.settings.ignored_settings import without_ignored
from zoo.interop.text_frames import frame_of
from zoo.interop.weights.checkpoint_contents import CheckpointContents, ParamsAndStats
from zoo.interop.weights.tensor_files import open_tensors, read_object, weight_files
from zoo.models import cost
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.records.run_record import environment, parameters_sha256

# Settings that say of which family a checkpoint is; see `check_family`.
OF_THE_FAMILY = ("model_type", "architectures")
# Names of the setting for the length of rows in training, whether or not there is a table.
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
TOKENIZER_NAMES = ("tokenizer.json", "vocab.txt", "vocab.json", *SENTENCEPIECE_NAMES)


def open_checkpoint(
    source: CheckpointSource, class_name: str | None = None, ignored: Collection[str] = ()
) -> CheckpointContents:
    """Reads a checkpoint's config and tokenizer.

    Args:
        source: where it is.
        class_name: its class, if config.json does not name it or another one is wanted.
        ignored: settings of config.json, or arguments of fairseq, to ignore, e.g. "new_setting" or
            "rope_scaling.new"; each must be one that stops the import because the importer does not
            know it, or "model_type" or "architectures".

    Raises:
        ConfigError: a class without an importer, or settings that cannot be expressed.
        DataError: files with bad content.
    """
    if source.kind == "elmo":
        if ignored:
            raise ConfigError(f"--ignore {next(iter(ignored))}: elmo: sources have no settings to ignore")
        return open_elmo(*source.path)
    if source.kind == "fairseq":
        return open_fairseq(source.path, ignored)
    return _open_hugging_face(source.path, class_name, ignored)


def _open_hugging_face(folder: Path, class_name: str | None, ignored: Collection[str]) -> CheckpointContents:
    settings = read_object(folder / "config.json", "the model's settings")
    name = ALIASES.get(class_name, class_name) or named_class(settings, str(folder / "config.json"))
    importer = importer_of(name)
    settings, left_out = without_ignored(
        functools.partial(read_settings, name), name, "config.json", settings, ignored, OF_THE_FAMILY
    )
    fields = read_settings(name, settings)
    length = trained_length(name, settings, fields)
    rows = BY_PATH["data.sequence_length"].default
    fields = {"data.sequence_length": min(rows, length or rows)} | fields
    files = weight_files(folder)
    with contextlib.closing(open_tensors(folder)) as named:
        renamed = named.note

    def weights(config: ResolvedConfig) -> ParamsAndStats:
        tensors = open_tensors(folder)
        try:
            read = import_weights(name, config, tensors)
            tensors.finish()
        finally:
            tensors.close()
        return read

    names = (*TOKENIZER_NAMES, *MARIAN_FILES[:2], "merges.txt", *COMPANIONS)
    known = [folder / file for file in names if (folder / file).is_file()] + sorted(folder.glob("*.tiktoken"))
    has_tokenizer = any(path.name in TOKENIZER_NAMES or path.suffix == ".tiktoken" for path in known)
    tokenizer = read_pretrained(folder) if has_tokenizer else _byt5(folder)
    source = tokenizer and tokenizer.source_side
    metadata: dict[str, Any] = {"trained_length": length}
    metadata |= {"ignored": left_out} if left_out else {}
    frame = frame_of(folder, settings, tokenizer, fields.get("model.architecture") == "encoder_decoder")
    metadata |= {} if frame is None else {"text_frame": frame.to_record()}
    metadata |= {"renamed": renamed} if renamed else {}
    if (folder / "tokenizer_config.json").is_file():
        metadata["tokenizer_config"] = read_object(folder / "tokenizer_config.json", "the tokenizer's settings")
    return CheckpointContents(
        name,
        settings,
        fields,
        weights,
        (folder / "config.json", *files, *known),
        tokenizer,
        metadata,
        tuple(
            filter(None, (importer.note, renamed, *importer.deviations(settings), unapplied_choices(folder, settings)))
        ),
        extra_tokenizers={} if tokenizer in (None, source) else {SOURCE_TOKENIZER_FILE: source},
    )


def _byt5(folder: Path) -> Tokenizer | None:
    """Returns ByT5's tokenizer, which has no vocabulary to store, where the settings name it."""
    named = read_object_or_empty(folder / SETTINGS_FILE).get("tokenizer_class")
    return ByT5Tokenizer() if named == "ByT5Tokenizer" else None


def trained_length(class_name: str, settings: Mapping[str, Any], fields: Mapping[str, Any]) -> int | None:
    """Returns the largest number of tokens in a row of a model's training, None if nothing tells.

    Args:
        class_name: the model's class.
        settings: its config.json.
        fields: the same as fields.
    """
    if "model.position.max_length" in fields:
        return fields["model.position.max_length"]
    defaults = importer_of(class_name).defaults
    values = [given.get(name) for given in (settings, defaults) for name in LENGTHS]
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def import_run(
    source: CheckpointSource,
    out: Path,
    class_name: str | None = None,
    tokenizer: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
    ignored: Collection[str] = (),
) -> tuple[CheckpointContents, ResolvedConfig, int]:
    """Makes the folder of a run out of a checkpoint.

    It holds config.json, meta.json, status.json, tokenizer.json and checkpoints/0.

    Args:
        source: the checkpoint.
        out: the folder, which must not exist or be empty.
        class_name: as in `open_checkpoint`.
        tokenizer: file or folder of a tokenizer that replaces the checkpoint's.
        changes: flat fields that take precedence over the checkpoint's.
        ignored: as in `open_checkpoint`.

    Returns:
        (contents of the checkpoint, the resolved config, number of parameters).

    Raises:
        ConfigError: as `open_checkpoint`; a folder that is in use; no tokenizer.
        DataError: tensors that are missing, unexpected, of a wrong shape or not finite.
    """
    with atomic_folder(out) as folder:
        contents = open_checkpoint(source, class_name, ignored)
        used = read_pretrained(tokenizer) if tokenizer else contents.tokenizer or _byte_tokenizer(contents)
        # A new run that starts from this one reads the run's own copy, wherever the run is moved.
        tokenizer_fields = {"data.tokenizer.kind": "bytes"}
        if isinstance(used, ByT5Tokenizer):
            tokenizer_fields = {"data.tokenizer.kind": "byt5"}
        elif not isinstance(used, ByteTokenizer):
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
            "config": finite(contents.settings),
            **({"notes": list(contents.notes)} if contents.notes else {}),
            **contents.extra_metadata,
        },
        # A run of the same task with the same labels takes over the head, too.
        **({"data": {"labels": list(config.data.labels)}} if config.objective.kind in TASKS else {}),
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


def _ids_without_a_token(tokenizer: Tokenizer, config: ResolvedConfig) -> int:
    return config.model.vocab_size - tokenizer.model_vocab_size(config.objective, config.data.row_format)


def import_report(contents: CheckpointContents, config: ResolvedConfig, parameters: int, out: Path) -> Iterable[str]:
    """Yields lines that say what was imported and how to go on."""
    yield (
        f"{contents.class_name}: {parameters:,} parameters; model.architecture={config.model.architecture}, "
        f"objective.kind={config.objective.kind}"
    )
    data = config.data
    yield f"tokenizer {data.tokenizer.kind} ({out / TOKENIZER_FILE}); rows of {data.sequence_length} tokens"
    if contents.tokenizer is not None and (unused := _ids_without_a_token(contents.tokenizer, config)):
        yield (
            f"{unused} of the model's {config.model.vocab_size} ids have no token: usual where a table was padded; "
            "otherwise the tokenizer is not that of the checkpoint"
        )
    if (length := contents.extra_metadata.get("trained_length") or 0) > data.sequence_length:
        yield f"trained with rows of {length} tokens: set data.sequence_length to train on with longer ones"
    yield from contents.notes
    if config.objective.kind not in TASKS:
        yield f"python eval.py {out}"
    # Training reads both sides with one tokenizer.
    if not contents.extra_tokenizers or contents.tokenizer.has_source_side:
        yield f"python train.py --config={out}/config.json --config.training.start_from={out} --workdir=DIR"
