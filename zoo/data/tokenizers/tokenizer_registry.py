"""All tokenizers by kind, and tokenizers that are read from files of any kind."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.data.sources.documents import Documents
from zoo.data.sources.file_content import HEAD_BYTES, signature_kind
from zoo.data.tokenizers.added_tokens import COMPANIONS, AddedTokens, add_tokens
from zoo.data.tokenizers.byte_pair import BytePairTokenizer
from zoo.data.tokenizers.byte_tokenizers import ByT5Tokenizer, ByteTokenizer
from zoo.data.tokenizers.character_level import CharacterTokenizer
from zoo.data.tokenizers.fast_tokenizer import FastTokenizer
from zoo.data.tokenizers.marian_files import MarianTokenizer
from zoo.data.tokenizers.own_tokens import keep_own_tokens
from zoo.data.tokenizers.pretrained_files import READABLE_FILES, find_reader, read_library_json
from zoo.data.tokenizers.sentencepiece_files import SentencePieceTokenizer
from zoo.data.tokenizers.tokenizer import Tokenizer, parse_saved
from zoo.data.tokenizers.trained import UnigramTokenizer, WordPieceTokenizer
from zoo.data.tokenizers.unknown import UnknownTokenizer
from zoo.data.tokenizers.word_level import WordTokenizer
from zoo.errors import ConfigError, DataError, did_you_mean, one_line


class PretrainedTokenizer(FastTokenizer):
    """A tokenizer that others have trained, read from a file (data.tokenizer.kind=file)."""

    kind = "file"

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Tokenizer:
        return read_pretrained(settings.path)

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        return read_pretrained(settings.path).vocab_size

    @classmethod
    def known_model_vocab_size(cls, settings: Any, objective: Any, rows: str = "packed") -> int:
        return read_pretrained(settings.path).model_vocab_size(objective, rows)


TOKENIZERS: dict[str, type[Tokenizer]] = {
    tokenizer.kind: tokenizer
    for tokenizer in (
        ByteTokenizer,
        ByT5Tokenizer,
        CharacterTokenizer,
        BytePairTokenizer,
        WordTokenizer,
        WordPieceTokenizer,
        UnigramTokenizer,
        PretrainedTokenizer,
        SentencePieceTokenizer,
        MarianTokenizer,
        UnknownTokenizer,
    )
}


def tokenizer_class(kind: str, field: str = "data.tokenizer.kind") -> type[Tokenizer]:
    """Returns the class of a kind. Raises ConfigError, naming `field`, for an unknown one."""
    if kind not in TOKENIZERS:
        options = ", ".join(f'"{name}"' for name in TOKENIZERS)
        raise ConfigError(f'{field}: unknown tokenizer "{kind}"{did_you_mean(kind, TOKENIZERS)}; one of {options}')
    return TOKENIZERS[kind]


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Reads the tokenizer that `Tokenizer.save` wrote into `folder`.

    Raises:
        ConfigError: no such file.
        DataError: the file is damaged.
    """
    return parse_saved(folder, _from_saved)


def _from_saved(content: dict[str, Any]) -> Tokenizer:
    found, id = tokenizer_class(content["kind"]).from_json(content), content.get("document_id")
    return found if id is None else found.with_document_id(id)


def read_pretrained(path: str | Path) -> Tokenizer:
    """Reads the tokenizer of a file, or of a folder that holds one.

    Files are the `tokenizer.json` of the `tokenizers` library, BERT's `vocab.txt`, the `vocab.json`
    with `merges.txt` of GPT-2, CLIP or GPT-1, a SentencePiece `.model` (that of XLM-R or CamemBERT
    included), a file of tiktoken, Marian's three files (the target's side), or the `tokenizer.json` of
    a run, of any kind. Tokens that the files beside them add have their ids
    (`zoo.data.tokenizers.added_tokens`).

    Raises:
        ConfigError: no such file, or none that can be read.
        DataError: the file is damaged, or no token could open a document.
    """
    if not str(path):
        raise ConfigError(f"data.tokenizer.kind=file needs data.tokenizer.path: {READABLE_FILES}, or a folder with one")
    file, reader = find_reader(Path(path))
    beside = [file.with_name(name) for name in COMPANIONS]
    return _read(file, reader, tuple(one.stat().st_mtime_ns if one.is_file() else 0 for one in (file, *beside)))


@functools.lru_cache(maxsize=4)
def _read(path: Path, reader: Callable[[Path], Any], changed: tuple[int, ...]) -> Tokenizer:
    with open(path, "rb") as opened:
        if kind := signature_kind(opened.read(HEAD_BYTES)):
            raise DataError(f"{path}: not a tokenizer file: it is {kind}")
    try:
        if reader is read_library_json and "kind" in (content := json.loads(path.read_text(encoding="utf-8"))):
            return _from_saved(content)
        model = reader(path)
        if isinstance(model, Tokenizer):
            return model
        added = AddedTokens.beside(path)
        add_tokens(model, added, path)
        return PretrainedTokenizer(keep_own_tokens(model), added.roles)
    except ConfigError:
        raise
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:  # the library raises bare Exception
        raise DataError(f"{path}: not a tokenizer file: {type(error).__name__}: {one_line(error)}") from error
