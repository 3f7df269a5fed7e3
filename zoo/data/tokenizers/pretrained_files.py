"""Files of pretrained tokenizers: which file of a folder is read, and how."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from zoo.data.tokenizers.sentencepiece_files import read_sentencepiece
from zoo.errors import ConfigError

SENTENCEPIECE_NAMES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
# Special tokens of files that only list a vocabulary.
LISTED_SPECIALS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    "<mask>",
    "<|endoftext|>",
)
READABLE_FILES = "tokenizer.json, vocab.txt, vocab.json with merges.txt, or a SentencePiece .model"


def read_library_json(path: Path) -> Any:
    """Reads the `tokenizer.json` of the `tokenizers` library."""
    from tokenizers import Tokenizer as Model

    return Model.from_file(str(path))


def read_wordpiece_vocabulary(path: Path) -> Any:
    """Reads BERT's `vocab.txt`: WordPiece with one token per line.

    Text is lower-cased unless a `tokenizer_config.json` in the same folder says otherwise.
    """
    from tokenizers import Tokenizer as Model
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    tokens = path.read_text(encoding="utf-8").splitlines()
    config = path.with_name("tokenizer_config.json")
    settings = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    model = Model(
        models.WordPiece(
            {token: id for id, token in enumerate(tokens)}, unk_token="[UNK]", max_input_chars_per_word=100
        )
    )
    model.normalizer = normalizers.BertNormalizer(lowercase=settings.get("do_lower_case", True))
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    return _with_special_tokens(model, tokens)


def read_byte_pair_merges(path: Path) -> Any:
    """Reads GPT-2's `vocab.json` with its `merges.txt`: byte-level BPE."""
    from tokenizers import Tokenizer as Model
    from tokenizers import decoders, models, pre_tokenizers

    model = Model(models.BPE.from_file(str(path), str(path.with_name("merges.txt"))))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    return _with_special_tokens(model, model.get_vocab())


def _with_special_tokens(model: Any, tokens: Collection[str]) -> Any:
    from tokenizers import AddedToken

    known = set(tokens)
    model.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in LISTED_SPECIALS if name in known]
    )
    return model


def find_reader(path: Path) -> tuple[Path, Callable[[Path], Any]]:
    """Returns the tokenizer file at a path, which may be a folder, and the function that reads it.

    Raises:
        ConfigError: there is none.
    """
    if path.is_dir():
        readers = {
            "tokenizer.json": read_library_json,
            "vocab.txt": read_wordpiece_vocabulary,
            "vocab.json": read_byte_pair_merges,
            **dict.fromkeys(SENTENCEPIECE_NAMES, read_sentencepiece),
        }
        found = next((path / name for name in readers if (path / name).is_file()), None)
        if found is None:
            raise ConfigError(
                f"data.tokenizer.path={path}: the folder has no readable tokenizer; expected {READABLE_FILES}"
            )
        path = found
    if not path.is_file():
        raise ConfigError(f"data.tokenizer.path={path}: no such file; expected {READABLE_FILES}")
    if path.suffix == ".txt" and path.name != "merges.txt":
        return path, read_wordpiece_vocabulary
    if path.name in ("vocab.json", "merges.txt"):
        path = path.with_name("vocab.json")
        if missing := [name for name in ("vocab.json", "merges.txt") if not path.with_name(name).is_file()]:
            raise ConfigError(f"data.tokenizer.path={path}: the folder has no {missing[0]}")
        return path, read_byte_pair_merges
    if path.suffix == ".model":
        return path, read_sentencepiece
    if path.suffix != ".json":
        raise ConfigError(f"data.tokenizer.path={path}: unknown kind of file; expected {READABLE_FILES}")
    return path, read_library_json
