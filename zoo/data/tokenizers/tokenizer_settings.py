"""tokenizer_config.json beside the files of a pretrained tokenizer: which class reads them, and how.

`tokenizer.json` says nearly everything itself (`follow_settings` has the rest). The older files,
vocab.txt, vocab.json with merges.txt and SentencePiece's models, hold only tokens: the same file means
other ids to another class. A class or a setting that is not understood is therefore refused and never
passed over.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from zoo.data.tokenizers.added_tokens import SETTINGS_FILE, read_object
from zoo.errors import ConfigError

# Classes of transformers that read a file as it is read here; names of "fast" classes end in Fast.
WORDPIECE_CLASSES = frozenset({"BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer"})
BYTE_LEVEL_CLASSES = frozenset(
    {"GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer", "LongformerTokenizer", "LEDTokenizer", "CodeGenTokenizer"}
)
SENTENCEPIECE_CLASSES = frozenset({"T5Tokenizer", "MT5Tokenizer", "LlamaTokenizer", "GemmaTokenizer"})
# Classes whose ids are not the numbers of the pieces, with their layout.
SHIFTED_CLASSES = {"XLMRobertaTokenizer": "xlm-roberta", "CamembertTokenizer": "camembert"}
# BPE in which the last piece of a word is marked.
CLIP_CLASS, GPT1_CLASS = "CLIPTokenizer", "OpenAIGPTTokenizer"
# Text with one of these in it has other ids than without.
_CHANGES_TEXT = {"never_split": (None, []), "do_basic_tokenize": (True,), "do_word_tokenize": (True,)}


def read_settings(path: Path, classes: Collection[str]) -> Mapping[str, Any]:
    """Returns the settings of the tokenizer whose file is `path`; empty without a settings file.

    Args:
        path: a file of the tokenizer.
        classes: names of the classes that the file may belong to.

    Raises:
        ConfigError: the settings cannot be read, or name another class or a setting that is not
            understood.
    """
    file = path.with_name(SETTINGS_FILE)
    settings = read_object(file)
    name = settings.get("tokenizer_class")
    if name is not None and str(name).removesuffix("Fast") not in (*classes, "PreTrainedTokenizer"):
        raise ConfigError(
            f"data.tokenizer.path: {file} names {name}, which reads {path.name} in a way of its own (read here: "
            f"{', '.join(sorted(classes))}); save the tokenizer as tokenizer.json"
        )
    for key, known in _CHANGES_TEXT.items():
        if settings.get(key, known[0]) not in known:
            raise ConfigError(
                f"data.tokenizer.path: {file} sets {key}={settings[key]!r}, which is not read from {path.name}; save "
                "the tokenizer as tokenizer.json"
            )
    return settings


def follow_settings(model: Any, path: Path) -> None:
    """Changes a model that `tokenizer.json` describes where the settings beside it say otherwise, as
    the classes of `transformers` do: lower case, accents and Chinese characters of BERT's, and the
    space before a text of byte-level BPE.
    """
    settings, state = read_object(path.with_name(SETTINGS_FILE)), json.loads(model.to_str())
    name = str(settings.get("tokenizer_class", "")).removesuffix("Fast")
    normalizer, before = state["normalizer"] or {}, state["pre_tokenizer"] or {}
    if name in WORDPIECE_CLASSES and normalizer.get("type") == "BertNormalizer":
        from tokenizers import normalizers

        model.normalizer = normalizers.BertNormalizer(
            clean_text=normalizer["clean_text"],
            handle_chinese_chars=settings.get("tokenize_chinese_chars", normalizer["handle_chinese_chars"]),
            strip_accents=settings.get("strip_accents", normalizer["strip_accents"]),
            lowercase=settings.get("do_lower_case", normalizer["lowercase"]),
        )
    space = settings.get("add_prefix_space")
    if space is not None and before.get("type") == "ByteLevel" and space != before["add_prefix_space"]:
        from tokenizers import pre_tokenizers

        model.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=space, trim_offsets=before["trim_offsets"], use_regex=before["use_regex"]
        )
