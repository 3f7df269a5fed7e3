"""The source of a checkpoint: a folder, or a name on the Hugging Face hub."""

import re
from dataclasses import dataclass
from pathlib import Path

from zoo.data.tokenizers.added_tokens import COMPANIONS
from zoo.data.tokenizers.marian_files import OTHER_LIST_FILE, SOURCE_FILE, TARGET_FILE
from zoo.data.tokenizers.pretrained_files import SENTENCEPIECE_NAMES
from zoo.errors import ConfigError, did_you_mean, one_line, user_path

KINDS = {
    "hf": (
        "hf:DIR or hf:NAME[@REVISION], a config.json with safetensors: the classes of transformers and "
        "performer-pytorch"
    ),
    "elmo": "elmo:DIR or elmo:OPTIONS.json+WEIGHTS.hdf5, the files of bilm-tf and AllenNLP",
    "fairseq": "fairseq:DIR, a translation model's weights as safetensors with its arguments in fairseq_args.json",
}
# Files that are fetched from a repository: no code, and of the formats of weights only the one that
# cannot contain code.
FETCHED = (
    "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
    "model-*.safetensors", "tokenizer.json", "vocab.txt",
    "vocab.json", "merges.txt", "*.tiktoken", *SENTENCEPIECE_NAMES, *COMPANIONS,
    SOURCE_FILE, TARGET_FILE, OTHER_LIST_FILE,
)  # fmt: skip
NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class CheckpointSource:
    """A checkpoint's files.

    Attributes:
        kind: one of `KINDS`.
        name: as the user gave it.
        path: the local folder; of an ELMo, the two files.
        revision: commit of a repository on the hub.
    """

    kind: str
    name: str
    path: Path | tuple[Path, Path]
    revision: str | None = None


def find_checkpoint(spec: str) -> CheckpointSource:
    """Finds the files of "hf:...", "elmo:..." or "fairseq:...".

    A name on the hub is downloaded, or taken from the hub's cache.

    Raises:
        ConfigError: unknown kind, or files that do not exist.
    """
    kind, colon, text = spec.partition(":")
    if kind not in KINDS or not colon or not text:
        raise ConfigError([f"{spec!r} is no source{did_you_mean(kind, KINDS)}; expected one of:", *KINDS.values()])
    path = user_path(text)
    if kind == "elmo":
        return CheckpointSource(kind, spec, _elmo(text))
    if path.is_dir():
        return CheckpointSource(kind, spec, path.resolve())
    if path.exists():
        raise ConfigError(f"{spec}: {path} is a file; expected the folder that it lies in")
    name, _, revision = text.partition("@")
    # Anything that looks like a path is one: a misspelt folder is never looked up on the hub.
    local = text.startswith((".", "/", "~")) or ("/" in text and Path(path.parts[0]).is_dir())
    if kind != "hf" or local or not NAME.fullmatch(name):
        raise ConfigError(f"{spec}: there is no folder {path}")
    return fetch_repository(name, revision or None)


def fetch_repository(name: str, revision: str | None = None) -> CheckpointSource:
    """Downloads a repository of the hub; if the hub cannot be reached, its cache is used.

    Args:
        name: "owner/name".
        revision: a branch, a tag or a commit; None for the main branch.

    Raises:
        ConfigError: the repository is neither on the hub nor in the cache.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(name, revision=revision, allow_patterns=list(FETCHED))
    except Exception as error:  # the hub's errors, and those of the network beneath it
        try:
            folder = snapshot_download(name, revision=revision, allow_patterns=list(FETCHED), local_files_only=True)
        except (LocalEntryNotFoundError, ValueError):
            reason = one_line(error)
            wanted = name + (f"@{revision}" if revision else "")
            raise ConfigError(
                f"hf:{wanted} is no folder, is not in the hub's cache, and cannot be fetched: {reason}"
            ) from error
    # The name of a snapshot's folder is its commit.
    return CheckpointSource("hf", f"hf:{name}", Path(folder), Path(folder).name)


def _elmo(text: str) -> tuple[Path, Path]:
    folder = user_path(text)
    if folder.is_dir():
        weights = sorted(folder.glob("*weights*.hdf5"))
        if len(weights) != 1:
            found = ", ".join(path.name for path in weights) or "none"
            raise ConfigError(
                f"elmo:{folder}: expected one file *weights*.hdf5, found {found}; elmo:OPTIONS.json+WEIGHTS.hdf5 "
                "names it"
            )
        return folder / "options.json", weights[0]
    options, plus, weights = text.partition("+")
    if not plus:
        raise ConfigError(f"elmo:{text}: expected a folder, or OPTIONS.json+WEIGHTS.hdf5")
    return user_path(options), user_path(weights)
