"""From `data.source` to documents.

A source is one function in `SOURCES`, found by the part of `data.source` before the ":".
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections

from zoo.data.sources.documents import Documents, Piece
from zoo.data.sources.hubs import hugging_face, tensorflow_datasets
from zoo.data.sources.records import json_lines, parquet
from zoo.data.sources.standard_library import standard_library
from zoo.data.sources.stored_tokens import StoredTokens, stored_tokens
from zoo.data.sources.synthetic import synthetic
from zoo.data.sources.tables import held_out_config
from zoo.data.sources.text_files import file_pieces, find_files, path_suggestion
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, did_you_mean, shown, user_path


class SourceReader(NamedTuple):
    """The notation of a `data.source`, and the function that opens it.

    Attributes:
        usage: the notation.
        read: takes the part after the ":" and the `data` part of a config.
    """

    usage: str
    read: Callable[[str, Any], Documents | StoredTokens]


def read_documents(data: Any) -> Documents | StoredTokens:
    """Opens the source that `data.source` names; its text or tokens are not read yet.

    Args:
        data: the `data` part of a config.

    Raises:
        ConfigError: unknown source, or a file or folder that does not exist.
    """
    kind, _, argument = str(data.source).partition(":")
    if kind not in SOURCES:
        options = ", ".join(f'"{source.usage}"' for source in SOURCES.values())
        hint = did_you_mean(kind, SOURCES)
        raise ConfigError(f'data.source: unknown source "{data.source}"{hint}; one of {options}')
    return SOURCES[kind].read(argument, data)


def read_components(data: Any) -> list[tuple[float, Documents | StoredTokens]]:
    """Opens the sources of a config, with weights: those of `data.mixture`, or `data.source`.

    Raises:
        ConfigError: as `read_documents`; an entry that is not a weight and a source.
    """
    if data.source != "mixture":
        return [(1.0, read_documents(data))]
    components, problems = [], []
    for entry in data.mixture:
        weight, _, source = entry.partition("*")
        try:
            if not 0 < float(weight) < float("inf"):
                raise ValueError
            components.append(
                (float(weight), read_documents(ml_collections.ConfigDict({**data, "source": source.strip()})))
            )
        except ValueError:
            problems.append(
                f'data.mixture: "{entry}" is not a positive weight and a source; e.g. '
                '"0.7*text:corpus.txt","0.3*stdlib"'
            )
        except ConfigError as error:
            problems += [problem.replace("data.source", "data.mixture", 1) for problem in error.problems]
    if not data.mixture:
        problems.append(
            "data.mixture: empty; data.source=mixture needs weights and sources, e.g. "
            '"0.7*text:corpus.txt","0.3*stdlib"'
        )
    if problems:
        raise ConfigError(problems)
    return components


def read_held_out(data: Any, training: Sequence[Documents | StoredTokens]) -> Documents | StoredTokens | None:
    """Opens the held-out text that `data.held_out` names; returns None if it is empty.

    Args:
        data: the `data` part of a config.
        training: the training texts, which are read too. Of stored tokens, only the names of files
            and the fingerprints are compared.

    Raises:
        ConfigError: as `read_documents`.
        DataError: bad text or none, or all of it is also training text.
    """
    if not data.held_out:
        return None
    try:
        held_out = read_documents(held_out_config(data))
        digests = _digests(held_out)
    except ConfigError as error:
        raise ConfigError([problem.replace("data.source", "data.held_out", 1) for problem in error.problems]) from error
    both = _paths(held_out) & {path for text in training for path in _paths(text)}
    if both:
        raise DataError(
            f'data.held_out={data.held_out}: "{min(both)}" is also a training file, so the score would be that of '
            "memory; name the training files so that data.source leaves it out"
        )
    if set(digests) <= {digest for text in training for digest in _digests(text)}:
        raise DataError(
            f"data.held_out={data.held_out}: all of it is also training text, so the score would be that of memory; "
            "leave it out of data.source, or name another text"
        )
    return held_out


def _digests(text: Documents | StoredTokens) -> Sequence[Any]:
    return [text.fingerprint] if isinstance(text, StoredTokens) else text.index.digests


def _paths(text: Documents | StoredTokens) -> set[Path]:
    return {file.path.resolve() for file in text.files} if isinstance(text, StoredTokens) else set()


def read_text_file(path: str | Path, separator: str = "", bad_text: str = "error") -> Documents:
    """Opens one text file, plain or compressed.

    A byte order mark is removed; newlines are preserved.

    Args:
        path: path of the file.
        separator: divides it into documents; "" for one document.
        bad_text: as `data.bad_text`.

    Raises:
        ConfigError: no such file.
    """
    path = user_path(path)
    if not path.is_file():
        raise ConfigError(f'no such file: "{path}"{path_suggestion(path)}')
    return Documents(lambda policy: file_pieces(path, separator, policy), str(path), bad_text)


def _text(argument: str, data: Any) -> Documents:
    """Opens a text file, or all files of a folder or glob pattern, sorted by path."""
    files = find_files(argument, "text", "corpus/*.txt")

    def read(policy: BadTextPolicy) -> Iterator[Piece]:
        divided = False
        for path in files:
            for number, piece in enumerate(file_pieces(path, data.document_separator, policy)):
                divided |= bool(number) and piece.opens
                yield piece
        # A shell passes \n on as two characters.
        if not divided and "\\" in data.document_separator:
            raise ConfigError(
                f"data.document_separator={shown(data.document_separator)} does not occur in {name}; for a newline "
                "write $'\\n' in a shell"
            )

    name = str(data.source) + (f" in {len(files)} files" if len(files) > 1 else "")
    return Documents(read, name, data.bad_text)


SOURCES = {
    "stdlib": SourceReader("stdlib", standard_library),
    "text": SourceReader("text:PATH", _text),
    "jsonl": SourceReader("jsonl:PATH", json_lines),
    "tokens": SourceReader("tokens:PATH", stored_tokens),
    "parquet": SourceReader("parquet:PATH", parquet),
    "hf": SourceReader("hf:NAME_OR_FOLDER", hugging_face),
    "tfds": SourceReader("tfds:NAME", tensorflow_datasets),
    "synthetic": SourceReader("synthetic:TASK", synthetic),
}
