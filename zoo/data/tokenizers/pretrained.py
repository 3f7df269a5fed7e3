"""Tokenizers that others have trained: a published file, read by the `tokenizers` library."""

import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.base import Located, Tokenizer, byte_of_symbol, tokenizer_class
from zoo.data.tokenizers.sentencepiece_files import read_sentencepiece
from zoo.data.tokenizers.word_boundaries import Joins, by_marks
from zoo.errors import ConfigError, DataError

SENTENCEPIECE_NAMES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
# What opens a document, in the order in which a vocabulary is searched, what hides a token, and
# what ends a sentence.
OPENING = ("[CLS]", "<s>", "<|begin_of_text|>", "<bos>", "<|endoftext|>", "</s>", "<pad>")
MASKS = ("[MASK]", "<mask>")
SEPARATORS = ("[SEP]", "</s>")
# Special tokens of files that only list a vocabulary.
LISTED = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<s>", "<pad>", "</s>", "<unk>", "<mask>", "<|endoftext|>")
# What a run keeps beside its tokenizer.json where the encoder reads text in another vocabulary than
# the decoder writes.
SOURCE_FILE = "source_tokenizer.json"
READ = "tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece .model"


class PublishedTokenizer(Tokenizer):
    """The tokenizer of a file; its special tokens stand for no text, and text never becomes one of
    them.

    Whether the tokens of a text stand for exactly its bytes depends on the file. Byte-level BPE
    keeps them; WordPiece and SentencePiece drop or change spaces, case or accents, so that no loss
    per byte of text can be told: there `token_bytes` is 0 everywhere.

    Args:
        model: of the `tokenizers` library.

    Raises:
        DataError: none of its tokens is one that opens a document.
    """

    kind = "file"

    def __init__(self, model: Any):
        self._model = model
        vocabulary = model.get_vocab(with_added_tokens=True)
        size = max(vocabulary.values()) + 1
        specials = {id for id, token in model.get_added_tokens_decoder().items() if token.special}
        document_id = next((vocabulary[name] for name in OPENING if name in vocabulary), None)
        if document_id is None:
            raise DataError(f"the tokenizer has no token that could open a document; looked for {', '.join(OPENING)}")
        to_bytes = byte_of_symbol()
        texts = {id: token for token, id in vocabulary.items() if id not in specials and id != document_id}
        self.lossless = _is_byte_level(model) and all(
            character in to_bytes for text in texts.values() for character in text
        )
        pieces = [b""] * size
        for id, text in texts.items():
            pieces[id] = bytes(to_bytes[character] for character in text) if self.lossless else text.encode()
        own = {name: id for name, id in vocabulary.items() if id != document_id}
        mask_id, separator_id = (
            next((own[name] for name in names if name in own), None) for names in (MASKS, SEPARATORS)
        )
        super().__init__(pieces, document_id, mask_id, separator_id)
        self.specials = frozenset(specials | {document_id})

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Tokenizer:
        return read_published(settings.path)

    @classmethod
    def size_in_advance(cls, settings: Any) -> int:
        return read_published(settings.path).vocab_size

    @classmethod
    def ids_in_advance(cls, settings: Any, objective: Any, rows: str = "packed") -> int:
        return read_published(settings.path).ids_needed(objective, rows)

    def encode(self, text: str) -> np.ndarray:
        return np.array(self._model.encode(text, add_special_tokens=False).ids, np.int32)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        encodings = self._model.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def located(self, texts: Sequence[str]) -> list[Located]:
        if self.lossless:
            return super().located(texts)
        found = []
        for encoding in self._model.encode_batch(list(texts), add_special_tokens=False):
            places = np.array(encoding.offsets, np.int32).reshape(-1, 2)
            found.append(Located(np.array(encoding.ids, np.int32), places[:, 0], places[:, 1]))
        return found

    def decode(self, ids: Any, document: str = "") -> str:
        if self.lossless:
            return super().decode(ids, document)
        super().decode(ids)  # For the check of the ids.
        parts: list[list[int]] = [[]]
        for id in np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64).ravel().tolist():
            if id == self.document_id:
                parts.append([])
            else:
                parts[-1].append(id)
        return document.join(self._model.decode(part, skip_special_tokens=True) for part in parts)

    def token_bytes(self) -> np.ndarray:
        return super().token_bytes() if self.lossless else np.zeros(self.vocab_size, np.int64)

    def word_joins(self) -> Joins:
        """As the vocabulary marks them: by WordPiece's "##", by an end of words, or by what stands
        for a space before one.
        """
        if self.lossless:
            return super().word_joins()
        described = json.loads(self._model.to_str())["model"]
        continues = described.get("continuing_subword_prefix") or "" if described["type"] == "WordPiece" else ""
        return by_marks(
            [piece.decode() for piece in self.pieces],
            self.specials,
            continues,
            described.get("end_of_word_suffix") or "",
        )

    def to_json(self) -> dict[str, Any]:
        return {"model": json.loads(self._model.to_str())}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        from tokenizers import Tokenizer as Model

        return cls(plain(Model.from_str(json.dumps(content["model"]))))


def _is_byte_level(model: Any) -> bool:
    """Whether tokens are written in the 256 symbols that stand for bytes, after nothing was changed
    or added.
    """
    described = json.loads(model.to_str())
    before = described["pre_tokenizer"] or {}
    steps = before.get("pretokenizers", [before])
    last = steps[-1] if steps else {}
    return (
        described["normalizer"] is None
        and last.get("type") == "ByteLevel"
        and not any(step.get("add_prefix_space") or step.get("behavior") == "Removed" for step in steps)
    )


def plain(model: Any) -> Any:
    """A model that hands out a text's own tokens, however long it is, and takes special tokens that
    a text spells for text.
    """
    model.no_padding()
    model.no_truncation()
    model.encode_special_tokens = True
    return model


def _from_json(path: Path) -> Any:
    from tokenizers import Tokenizer as Model

    return Model.from_file(str(path))


def _from_vocabulary(path: Path) -> Any:
    """WordPiece, as BERT's `vocab.txt` with one token per line has it; lower case unless
    `tokenizer_config.json` says otherwise.
    """
    from tokenizers import Tokenizer as Model
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    tokens = path.read_text(encoding="utf-8").splitlines()
    beside = path.with_name("tokenizer_config.json")
    settings = json.loads(beside.read_text(encoding="utf-8")) if beside.is_file() else {}
    model = Model(
        models.WordPiece(
            {token: id for id, token in enumerate(tokens)}, unk_token="[UNK]", max_input_chars_per_word=100
        )
    )
    model.normalizer = normalizers.BertNormalizer(lowercase=settings.get("do_lower_case", True))
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    return _with_specials(model, tokens)


def _from_merges(path: Path) -> Any:
    """Byte-level BPE, as GPT-2's `vocab.json` and `merges.txt` have it."""
    from tokenizers import Tokenizer as Model
    from tokenizers import decoders, models, pre_tokenizers

    model = Model(models.BPE.from_file(str(path), str(path.with_name("merges.txt"))))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    return _with_specials(model, model.get_vocab())


def _with_specials(model: Any, tokens: Any) -> Any:
    from tokenizers import AddedToken

    there = set(tokens)
    model.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in LISTED if name in there])
    return model


def _file_of(path: Path) -> tuple[Path, Any]:
    """The file that is read, and what reads it."""
    if path.is_dir():
        readers = {
            "tokenizer.json": _from_json,
            "vocab.txt": _from_vocabulary,
            "vocab.json": _from_merges,
            **dict.fromkeys(SENTENCEPIECE_NAMES, read_sentencepiece),
        }
        found = next((path / name for name in readers if (path / name).is_file()), None)
        if found is None:
            raise ConfigError(
                f"data.tokenizer.path={path}: the folder has no tokenizer that can be read; expected {READ}"
            )
        path = found
    if not path.is_file():
        raise ConfigError(f"data.tokenizer.path={path}: no such file; expected {READ}")
    if path.suffix == ".txt" and path.name != "merges.txt":
        return path, _from_vocabulary
    if path.name in ("vocab.json", "merges.txt"):
        path = path.with_name("vocab.json")
        if missing := [name for name in ("vocab.json", "merges.txt") if not path.with_name(name).is_file()]:
            raise ConfigError(f"data.tokenizer.path={path}: {missing[0]} is missing beside it")
        return path, _from_merges
    if path.suffix == ".model":
        return path, read_sentencepiece
    if path.suffix != ".json":
        raise ConfigError(f"data.tokenizer.path={path}: not a kind of file that can be read; expected {READ}")
    return path, _from_json


def read_published(path: str | Path) -> Tokenizer:
    """The tokenizer of a file, or of a folder that holds one: `tokenizer.json` of the `tokenizers`
    library, BERT's `vocab.txt`, GPT-2's `vocab.json` with `merges.txt`, SentencePiece's `.model`;
    or that of a run, of whatever kind.

    Raises:
        ConfigError: no such file, or none that can be read.
        DataError: it is damaged, or lacks what opens a document.
    """
    if not str(path):
        raise ConfigError(f"data.tokenizer.kind=file needs data.tokenizer.path: {READ}, or a folder with one")
    file, reader = _file_of(Path(path))
    return _read(file, reader, file.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _read(path: Path, reader: Any, changed: int) -> Tokenizer:
    try:
        if reader is _from_json and "kind" in (content := json.loads(path.read_text(encoding="utf-8"))):
            return tokenizer_class(content["kind"]).from_json(content)
        return reader(path) if reader is read_sentencepiece else PublishedTokenizer(plain(reader(path)))
    except ConfigError:
        raise
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:  # the library raises bare Exception
        raise DataError(
            f"{path}: not a tokenizer file: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        ) from error
