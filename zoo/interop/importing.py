"""From a checkpoint of another library to the folder of a run, which is like that of any other run
that is done.
"""

import errno
import hashlib
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.data.tokenizers.base import ByteTokenizer, Tokenizer
from zoo.data.tokenizers.pretrained import READ, SENTENCEPIECE_NAMES, read_published
from zoo.errors import ConfigError, did_you_mean
from zoo.files import write_json
from zoo.interop import FAMILIES, import_weights, importer_of
from zoo.interop.checkpoint_source import Source
from zoo.interop.weights.tensor_files import open_tensors, read_object, weight_files

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", *SENTENCEPIECE_NAMES)
# A disk without room, a quota, a limit of a file's size, a disk that cannot be written.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
OS_ERROR = re.compile(r"os[ _]error(?:_code=')? ?(\d+)", re.IGNORECASE)
Weights = tuple[dict[str, Any], dict[str, Any]]


@dataclass(frozen=True)
class Found:
    """A checkpoint that was recognised.

    Attributes:
        class_name: what it is.
        settings: its config file.
        fields: what these settings are here, flat overrides of `zoo.config.default()`.
        weights: reads (parameters, statistics) for the resolved config.
        files: what was read.
        tokenizer: its tokenizer; None where it has none that can be read.
        beside: what else is recorded of it.
        notes: lines for whoever imports it.
        more_tokenizers: further tokenizers, by the name of their file.
    """

    class_name: str
    settings: Mapping[str, Any]
    fields: Mapping[str, Any]
    weights: Callable[[ResolvedConfig], Weights]
    files: tuple[Path, ...]
    tokenizer: Tokenizer | None
    beside: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    more_tokenizers: Mapping[str, Tokenizer] = field(default_factory=dict)


def recognise(source: Source, class_name: str | None = None) -> Found:
    """Reads a checkpoint's config and tokenizer.

    Args:
        source: where it is.
        class_name: its class, where config.json does not say it or another one is wanted.

    Raises:
        ConfigError: a class without an importer, or settings that cannot be expressed.
        DataError: files with bad content.
    """
    if source.kind == "elmo":
        from zoo.interop.families.bilm import found

        return found(*source.path)
    if source.kind == "fairseq":
        from zoo.interop.families.fairseq import found

        return found(source.path)
    return _hugging_face(source.path, class_name)


def _hugging_face(folder: Path, class_name: str | None) -> Found:
    settings = read_object(folder / "config.json", "the model's settings")
    name = class_name or _architecture(folder, settings)
    importer = importer_of(name)
    try:
        fields = importer.config_of(settings)
    except (TypeError, ValueError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise ConfigError(
            f"{folder / 'config.json'} has a value of a wrong type: {type(error).__name__}: {error}"
        ) from error
    files = weight_files(folder)

    def weights(config: ResolvedConfig) -> Weights:
        tensors = open_tensors(folder)
        try:
            read = import_weights(name, config, tensors)
            tensors.finish()
        finally:
            tensors.close()
        return read

    known = [
        folder / file for file in (*TOKENIZERS, "merges.txt", "tokenizer_config.json") if (folder / file).is_file()
    ]
    tokenizer = read_published(folder) if any(path.name in TOKENIZERS for path in known) else None
    beside = {}
    if (folder / "tokenizer_config.json").is_file():
        beside["tokenizer_config"] = read_object(folder / "tokenizer_config.json", "the tokenizer's settings")
    return Found(name, settings, fields, weights, (folder / "config.json", *files, *known), tokenizer, beside)


def _architecture(folder: Path, settings: Mapping[str, Any]) -> str:
    """The class that a config.json names."""
    names = settings.get("architectures") or []
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise ConfigError(
            f"{folder / 'config.json'} names no class under architectures; --class NAME says which it is: "
            f"{', '.join(sorted(FAMILIES))}"
        )
    if names[0] not in FAMILIES:
        raise ConfigError(
            f"{folder / 'config.json'}: no importer for {names[0]}{did_you_mean(names[0], FAMILIES)}; --class NAME reads it "
            f"as one of {', '.join(sorted(FAMILIES))}"
        )
    return names[0]


def import_run(
    source: Source,
    out: Path,
    class_name: str | None = None,
    tokenizer: str | Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> tuple[Found, ResolvedConfig, int]:
    """Makes the folder of a run out of a checkpoint: config.json, meta.json, status.json,
    tokenizer.json, checkpoints/0.

    Args:
        source: the checkpoint.
        out: the folder, which is not there yet or empty.
        class_name: as in `recognise`.
        tokenizer: file or folder of the tokenizer, in place of the checkpoint's.
        changes: flat fields on top of what the checkpoint says.

    Returns:
        (what was found, the resolved config, number of parameters).

    Raises:
        ConfigError: as `recognise`; a folder that is in use; no tokenizer.
        DataError: tensors that are missing, left over, of another shape or not finite.
    """
    with replacing(out) as folder:
        found = recognise(source, class_name)
        used = read_published(tokenizer) if tokenizer else found.tokenizer or _bytes(found)
        # The run's own copy, wherever it is moved, is what a new run that starts from this one
        # reads.
        named = {"data.tokenizer.kind": "bytes"}
        if not isinstance(used, ByteTokenizer):
            named = {"data.tokenizer.kind": "file", "data.tokenizer.path": "."}
        config = configs.override(configs.default(), {**found.fields, **named, **(changes or {})})
        config = configs.resolve(config, used.ids_needed(config.objective, config.data.rows))
        params, stats = found.weights(config)
        count = _write(folder, out, source, found, config, used, params, stats)
    return found, config, count


def _bytes(found: Found) -> Tokenizer:
    """The tokenizer of a model of bytes that comes without one."""
    tokenizer, size = ByteTokenizer(), found.fields.get("model.vocab_size")
    if size in (None, tokenizer.ids_needed(configs.override(configs.default(), found.fields).objective)):
        return tokenizer
    raise ConfigError(
        f"the checkpoint has no tokenizer that can be read, and its {size} ids are no bytes; --tokenizer DIR gives one, "
        f"{READ}"
    )


def _write(
    folder: Path,
    out: Path,
    source: Source,
    found: Found,
    config: ResolvedConfig,
    tokenizer: Tokenizer,
    params: Any,
    stats: Any,
) -> int:
    """Writes a run's folder and returns the number of parameters."""
    import numpy as np

    from zoo.models import cost
    from zoo.training.checkpoints.checkpoint import Checkpoints
    from zoo.training.records.run_record import conditions, parameters_sha256

    tokenizer.save(folder)
    for name, more in found.more_tokenizers.items():
        more.save(folder / "more")
        (folder / "more" / "tokenizer.json").rename(folder / name)
        (folder / "more").rmdir()
    counted = cost.summary(config)
    write_json(folder / "config.json", configs.to_plain(config))
    write_json(folder / "meta.json", {
        "identity": configs.identity(config),
        **conditions(),
        "imported": {"class": found.class_name, "source": source.name, "revision": source.revision,
                     "files": {path.name: sha256(path) for path in found.files}, "config": dict(found.settings), **found.beside},
        "parameters": counted.parameters,
        "flops_per_token": counted.flops_per_token,
        "command": f"zoo import {source.name} --out {out}",
        "arguments": sys.argv[1:],
    })  # fmt: skip
    digest = parameters_sha256(params)
    checkpoints = Checkpoints(folder / "checkpoints", 1, in_place=True)
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
    return counted.parameters["total"]


def sha256(path: Path) -> str:
    """sha256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A folder to write into that becomes `out` at the end, or nothing if the writing fails or is
    ended by a signal.

    Raises:
        ConfigError: `out` is there and not empty, or nothing can be written beside it.
    """
    # Where a link points to.
    folder = out.resolve()
    try:
        used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        if not used:
            temporary.mkdir(parents=True)
    except OSError as error:
        raise ConfigError(f"--out {out} cannot be written: {error.strerror}") from error
    if used:
        raise ConfigError(f"--out {out} is there already and not an empty folder")
    try:
        with _ended_by_sigterm():
            yield temporary
            if folder.exists():
                folder.rmdir()
            temporary.rename(folder)
    except (OSError, ValueError, SafetensorError) as error:
        # The libraries that write say it in words.
        told = getattr(error, "errno", None) or (int(found[1]) if (found := OS_ERROR.search(str(error))) else None)
        if told not in FULL:
            raise
        raise ConfigError(f"--out {out} cannot be written: {os.strerror(told)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM end the process as an exception does, with everything cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def lines(found: Found, config: ResolvedConfig, count: int, out: Path) -> Iterable[str]:
    """What was imported, for people."""
    yield (
        f"{found.class_name}: {count:,} parameters; model.architecture={config.model.architecture}, "
        f"objective.kind={config.objective.kind}"
    )
    yield f"tokenizer {config.data.tokenizer.kind} ({out / 'tokenizer.json'}); rows of {config.data.sequence_length} tokens"
    yield from found.notes
    yield f"python eval.py {out}"
    yield f"python train.py --config={out}/config.json --config.training.start_from={out} --workdir=DIR"
