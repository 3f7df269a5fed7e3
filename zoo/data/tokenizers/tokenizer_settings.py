"""tokenizer_config.json beside the files of a pretrained tokenizer: which class reads them, and how.

`tokenizer.json` says everything itself. The older files, vocab.txt, vocab.json with merges.txt and
SentencePiece's models, hold only tokens: the same file means other ids to another class. A class or
a setting that is not understood is therefore refused and never passed over.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json

SETTINGS_FILE = "tokenizer_config.json"
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
    if not file.is_file():
        return {}
    try:
        settings = read_json(file)
    except (OSError, ValueError) as error:
        raise ConfigError(f"data.tokenizer.path: {file} cannot be read ({error})") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"data.tokenizer.path: {file} holds no JSON object")
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
