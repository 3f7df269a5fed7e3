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
from zoo.files import read_object_or_empty

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
# Classes with BERT's normalizer, whose default is lower case, and classes of byte-level BPE whose
# default is no space before a text: a default of a class counts more than `tokenizer.json`.
_BERT_CLASSES = WORDPIECE_CLASSES | {"MPNetTokenizer"}
_NO_SPACE_CLASSES = BYTE_LEVEL_CLASSES | {"GPTNeoXTokenizer"}
# Classes, without "Tokenizer", of models whose files name none.
CLASS_OF_MODEL = {
    "bert": "Bert", "distilbert": "DistilBert", "electra": "Electra", "roformer": "RoFormer", "albert": "Albert",
    "roberta": "Roberta", "bart": "Bart", "longformer": "Longformer", "xlm-roberta": "XLMRoberta",
    "camembert": "Camembert", "t5": "T5", "mt5": "MT5", "umt5": "T5", "gpt2": "GPT2", "openai-gpt": "OpenAIGPT",
    "llama": "Llama", "mistral": "Llama", "gemma": "Gemma", "gemma2": "Gemma", "gemma3_text": "Gemma", "mbart": "MBart",
    "diffllama": "Llama", "ministral": "Llama", "phi3": "Llama", "phi": "CodeGen", "cohere": "Cohere",
    **dict.fromkeys(("gpt_neox", "mpt", "olmo", "olmo2", "stablelm"), "GPTNeoX"),
    **dict.fromkeys(("exaone4", "gptj", "granite", "olmo3", "opt"), "GPT2"),
}  # fmt: skip
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
    space before a text of byte-level BPE. Where the settings say nothing the class's default counts.
    """
    settings, state = read_object(path.with_name(SETTINGS_FILE)), json.loads(model.to_str())
    name = _class_name(settings, path)
    normalizer, before = state["normalizer"] or {}, state["pre_tokenizer"] or {}
    if name in _BERT_CLASSES and normalizer.get("type") == "BertNormalizer":
        from tokenizers import normalizers

        model.normalizer = normalizers.BertNormalizer(
            clean_text=normalizer["clean_text"],
            handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
            strip_accents=settings.get("strip_accents"),
            lowercase=settings.get("do_lower_case", True),
        )
    space = settings.get("add_prefix_space", False if name in _NO_SPACE_CLASSES else None)
    if space is not None and before.get("type") == "ByteLevel" and space != before["add_prefix_space"]:
        from tokenizers import pre_tokenizers

        model.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=space, trim_offsets=before["trim_offsets"], use_regex=before["use_regex"]
        )


def _class_name(settings: Mapping[str, Any], path: Path) -> str:
    """Returns the class of the tokenizer in `path`, as its settings or the model's config name it or
    as the kind of model implies; empty if nothing does.
    """
    if not (name := settings.get("tokenizer_class")):
        model = read_object_or_empty(path.with_name("config.json"))
        kind = CLASS_OF_MODEL.get(str(model.get("model_type", "")), "")
        name = model.get("tokenizer_class") or (f"{kind}Tokenizer" if kind else "")
    return str(name).removesuffix("Fast")
