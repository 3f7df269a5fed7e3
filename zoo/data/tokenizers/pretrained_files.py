"""Files of pretrained tokenizers: which file of a folder is read, and how."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from zoo.data.tokenizers.added_tokens import SETTINGS_FILE, AddedTokens
from zoo.data.tokenizers.marian_files import FILES as MARIAN_FILES
from zoo.data.tokenizers.marian_files import SOURCE_FILE, TARGET_FILE, is_marian, read_marian
from zoo.data.tokenizers.sentencepiece_files import PIECES, read_sentencepiece
from zoo.data.tokenizers.tiktoken_files import is_tiktoken, read_tiktoken
from zoo.data.tokenizers.tokenizer_settings import (
    BYTE_LEVEL_CLASSES,
    CLIP_CLASS,
    GPT1_CLASS,
    SENTENCEPIECE_CLASSES,
    SHIFTED_CLASSES,
    WORDPIECE_CLASSES,
    follow_settings,
    read_settings,
)
from zoo.data.tokenizers.word_end_files import clip_model, gpt1_model
from zoo.errors import ConfigError
from zoo.files import read_json, read_object_or_empty

SENTENCEPIECE_NAMES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
# The name under which XLM-R, mBART and CamemBERT save a model whose ids they shift.
SHIFTED_NAME = "sentencepiece.bpe.model"
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
    "<|startoftext|>",
    "<|endoftext|>",
)
# Tokens that tell CLIP's vocabulary from GPT-1's.
WORD_END_KINDS = {"<|startoftext|>": CLIP_CLASS, "\n</w>": GPT1_CLASS}
READABLE_FILES = (
    "tokenizer.json, vocab.txt, vocab.json with merges.txt, a SentencePiece .model, a .tiktoken file, or Marian's "
    "source.spm, target.spm and vocab.json"
)


def read_library_json(path: Path) -> Any:
    """Reads the `tokenizer.json` of the `tokenizers` library.

    Raises:
        ConfigError: the library numbers an added token otherwise than the file, as it does where
            their ids leave a gap; rows of an embedding would then belong to other tokens.
    """
    from tokenizers import Tokenizer as Model

    model = Model.from_file(str(path))
    for token in read_json(path).get("added_tokens") or ():
        if (found := model.token_to_id(token["content"])) != token["id"]:
            raise ConfigError(
                f"data.tokenizer.path={path}: the added token {token['content']!r} has the id {token['id']}, and the "
                f"vocabulary leads to {found}; give added tokens the ids that follow the vocabulary's"
            )
    follow_settings(model, path)
    return model


def read_wordpiece_vocabulary(path: Path) -> Any:
    """Reads BERT's `vocab.txt`: WordPiece with one token per line.

    Text is lower-cased and loses its accents, and Chinese characters are words, unless a
    `tokenizer_config.json` in the same folder says otherwise.

    Raises:
        ConfigError: see `read_settings`.
    """
    from tokenizers import Tokenizer as Model
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    settings = read_settings(path, WORDPIECE_CLASSES)
    # Not splitlines(), which also ends a line at characters that are tokens, such as U+2028.
    lines = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    tokens = [line.removesuffix("\r") for line in lines]
    unknown = AddedTokens.beside(path).roles.get("unk_token", "[UNK]")
    model = Model(
        models.WordPiece(
            {token: id for id, token in enumerate(tokens)}, unk_token=unknown, max_input_chars_per_word=100
        )
    )
    model.normalizer = normalizers.BertNormalizer(
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.decoder = decoders.WordPiece()
    return _with_special_tokens(model, tokens)


def read_byte_pair_merges(path: Path) -> Any:
    """Reads `vocab.json` with its `merges.txt`: GPT-2's byte-level BPE, CLIP's or GPT-1's.

    The class in `tokenizer_config.json` says which; without one, tokens do that end in "</w>".

    Raises:
        ConfigError: see `read_settings`; or the files are those of yet another BPE.
    """
    settings = read_settings(path, {*BYTE_LEVEL_CLASSES, CLIP_CLASS, GPT1_CLASS})
    vocabulary = read_json(path)
    name = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    marked = next((token for token in vocabulary if token.endswith("</w>")), None)
    if name not in (CLIP_CLASS, GPT1_CLASS) and marked:
        name = next((kind for token, kind in WORD_END_KINDS.items() if token in vocabulary), None)
        if name is None or settings.get("tokenizer_class") not in (None, "PreTrainedTokenizerFast"):
            raise ConfigError(
                f"data.tokenizer.path={path}: {marked!r} marks the end of a word, so this is no byte-level BPE; save "
                "the tokenizer as tokenizer.json"
            )
    make = {CLIP_CLASS: clip_model, GPT1_CLASS: gpt1_model}.get(name)
    if make is not None:
        return _with_special_tokens(make(path), vocabulary)
    from tokenizers import Tokenizer as Model
    from tokenizers import decoders, models, pre_tokenizers

    model = Model(models.BPE.from_file(str(path), str(path.with_name("merges.txt"))))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=settings.get("add_prefix_space", False))
    model.decoder = decoders.ByteLevel()
    return _with_special_tokens(model, vocabulary)


def read_model_file(path: Path) -> Any:
    """Reads SentencePiece's `.model`, whose ids are those of its pieces, or XLM-R's or CamemBERT's; or
    a file of tiktoken, which is often named as one.

    Raises:
        ConfigError: see `read_settings`; or the file is named as those of XLM-R, mBART and CamemBERT,
            which number the pieces in ways of their own, and nothing says whose it is.
        DataError: it is damaged.
    """
    if is_tiktoken(path):
        return read_tiktoken(path)
    settings, added = read_settings(path, {*SENTENCEPIECE_CLASSES, *SHIFTED_CLASSES}), AddedTokens.beside(path)
    name = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    if name in SENTENCEPIECE_CLASSES or path.name != SHIFTED_NAME:
        found = read_sentencepiece(path, SHIFTED_CLASSES.get(name, PIECES), added)
        if settings.get("add_prefix_space") is False and found.puts_space:
            raise ConfigError(
                f"data.tokenizer.path: {path.with_name(SETTINGS_FILE)} sets add_prefix_space=False, and {path.name} "
                "puts a space before a text; save the tokenizer as tokenizer.json"
            )
        return found
    layout = SHIFTED_CLASSES.get(name, _model_type(path))
    if layout not in SHIFTED_CLASSES.values():
        raise ConfigError(
            f"data.tokenizer.path={path}: files of this name belong to XLM-R, mBART and CamemBERT, whose ids are not "
            f"those of the pieces; add {SETTINGS_FILE} with its tokenizer_class ({', '.join(SHIFTED_CLASSES)} are "
            "read), or save the tokenizer as tokenizer.json"
        )
    return read_sentencepiece(path, layout, added)


def _model_type(path: Path) -> Any:
    """Returns the kind of model that config.json beside a tokenizer names; None without one."""
    return read_object_or_empty(path.with_name("config.json")).get("model_type")


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
    if path.is_dir() and is_marian(path):
        path = path / TARGET_FILE
    if path.is_dir():
        readers = {
            "tokenizer.json": read_library_json,
            "vocab.txt": read_wordpiece_vocabulary,
            "vocab.json": read_byte_pair_merges,
            **dict.fromkeys(SENTENCEPIECE_NAMES, read_model_file),
        }
        named = (path / name for name in readers if (path / name).is_file())
        found = next(named, next(iter(sorted(path.glob("*.tiktoken"))), None))
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
    if path.name in (SOURCE_FILE, TARGET_FILE):
        if not is_marian(path.parent):
            raise ConfigError(
                f"data.tokenizer.path={path}: Marian's files are {', '.join(MARIAN_FILES)}; one is missing"
            )
        return path, read_marian
    if path.suffix in (".model", ".tiktoken"):
        return path, read_model_file
    if path.suffix != ".json":
        raise ConfigError(f"data.tokenizer.path={path}: unknown kind of file; expected {READABLE_FILES}")
    return path, read_library_json
