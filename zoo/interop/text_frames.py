"""The special tokens around the texts of a checkpoint, from the files of its tokenizer."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.data.tokenizers.added_tokens import SETTINGS_FILE, AddedTokens
from zoo.data.tokenizers.byte_tokenizers import ByT5Tokenizer
from zoo.data.tokenizers.own_tokens import keep_own_tokens
from zoo.data.tokenizers.sentencepiece_files import SentencePieceTokenizer
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_settings import CLASS_OF_MODEL
from zoo.errors import ConfigError
from zoo.files import read_object_or_empty
from zoo.interop.generation_settings import GENERATION_FILE

# A token that a slow tokenizer puts before or after a text: its role, and its usual name.
CLS, SEP = ("cls_token", "[CLS]"), ("sep_token", "[SEP]")
BOS, EOS = ("bos_token", "<s>"), ("eos_token", "</s>")
OF_FAIRSEQ = (("cls_token", "<s>"),), (("sep_token", "</s>"),)
# By class of tokenizer: the tokens before and after a text, where no tokenizer.json says so.
TEMPLATES = (
    dict.fromkeys(("Bert", "DistilBert", "Electra", "MobileBert", "RoFormer", "Albert"), ((CLS,), (SEP,)))
    | dict.fromkeys(("Roberta", "Bart", "Longformer", "LED", "XLMRoberta", "Camembert"), OF_FAIRSEQ)
    | dict.fromkeys(("T5", "MT5", "ByT5"), ((), (EOS,)))
    | dict.fromkeys(("GPT2", "CodeGen", "OpenAIGPT"), ((), ()))
    | {"CLIP": ((("bos_token", "<|startoftext|>"),), (("eos_token", "<|endoftext|>"),))}
)


class _Flags(NamedTuple):
    """The tokens of `add_bos_token` and `add_eos_token`; `begins`: the first is on by default."""

    bos: tuple[str, str]
    eos: tuple[str, str]
    begins: bool = True


# Classes of tokenizers that follow their flags, whatever tokenizer.json says.
FOLLOW_FLAGS = {
    "Llama": _Flags(BOS, EOS),
    "CodeLlama": _Flags(BOS, EOS),
    "Gemma": _Flags(("bos_token", "<bos>"), ("eos_token", "<eos>")),
    "Cohere": _Flags(("bos_token", "<BOS_TOKEN>"), ("eos_token", "<|END_OF_TURN_TOKEN|>")),
    "GPTNeoX": _Flags(("bos_token", "<|endoftext|>"), ("eos_token", "<|endoftext|>"), begins=False),
}
MBARTS, DEFAULT_LANGUAGE = ("MBart", "MBart50"), "en_XX"
# What the model's class takes where config.json says nothing.
SPANS = {"eos_token_id": 1, "pad_token_id": 0, "decoder_start_token_id": 0}
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "t5": SPANS,
    "mt5": SPANS,
    "umt5": SPANS,
    "bart": {"eos_token_id": 2, "decoder_start_token_id": 2},
    "mbart": {"eos_token_id": 2},
}
# ByT5 counts its blanks down from the last byte; the bytes 248 to 255 occur in no text.
BYTE_BLANKS = tuple(range(258, 250, -1))


class _Around(NamedTuple):
    """Ids around a text, and between the two of a pair."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    between: tuple[int, ...] = ()


def frame_of(folder: Path, settings: Mapping[str, Any], tokenizer: Tokenizer | None, both: bool) -> TextFrame | None:
    """Returns the frame of a checkpoint's texts; None if its files do not tell.

    Args:
        folder: of the checkpoint.
        settings: its config.json.
        tokenizer: its tokenizer.
        both: the model has an encoder and a decoder that read one vocabulary.
    """
    if tokenizer is None or tokenizer.source_side is not tokenizer:
        return None
    given = read_object_or_empty(folder / SETTINGS_FILE)
    model_type = str(settings.get("model_type", ""))
    # transformers takes one file or the other.
    chosen = read_object_or_empty(folder / GENERATION_FILE) or {**DEFAULTS.get(model_type, {}), **settings}
    name = str(given.get("tokenizer_class") or settings.get("tokenizer_class") or "")
    name = name.removesuffix("Fast").removesuffix("Tokenizer")
    around = _around(folder, given, name, CLASS_OF_MODEL.get(model_type, ""), tokenizer)
    if around is None:
        return None
    decoder: tuple[int, ...] = ()
    if both:
        start = _ids(chosen.get("decoder_start_token_id")) or (tokenizer.start_id,)
        decoder = (start[0], *_ids(chosen.get("forced_bos_token_id")))
    blanks = _blanks(tokenizer, given, name) if both else ()
    ends, alone = _ids(chosen.get("eos_token_id")), _alone(folder, tokenizer)
    return TextFrame(around.before, around.after, decoder, ends, blanks, alone, around.between)


def _alone(folder: Path, tokenizer: Tokenizer) -> tuple[int, ...]:
    """Returns the tokenizer's own BOS, or its EOS without one, where another token opens documents.

    lm-evaluation-harness conditions texts without a context on it (`HFLM.prefix_token_id`).
    """
    roles = AddedTokens.beside(folder / SETTINGS_FILE).roles
    named = (tokenizer.id_of(roles[role]) for role, _ in (BOS, EOS) if role in roles)
    id = next((one for one in named if one is not None), tokenizer.bos_id)
    return () if id == tokenizer.bos_id else (id,)


def _ids(value: Any) -> tuple[int, ...]:
    """Returns an id or a list of ids, without what is no id."""
    values = value if isinstance(value, list) else [value]
    return tuple(one for one in values if isinstance(one, int) and not isinstance(one, bool))


def _around(folder: Path, given: Mapping[str, Any], name: str, of_model: str, tokenizer: Tokenizer) -> _Around | None:
    roles = AddedTokens.beside(folder / SETTINGS_FILE).roles

    def ids(tokens: Sequence[tuple[str, str]]) -> tuple[int, ...]:
        named = (tokenizer.id_of(roles.get(role, usual)) for role, usual in tokens)
        return tuple(id for id in named if id is not None)

    if name in MBARTS:
        language = ids((("src_lang", str(given.get("src_lang") or DEFAULT_LANGUAGE)),))
        return _Around(language, ids((EOS,))) if name == "MBart50" else _Around((), (*ids((EOS,)), *language))
    file = folder / "tokenizer.json"
    # The model's own class reads a tokenizer that names none, if the vocabulary is of that class.
    if not name and of_model in FOLLOW_FLAGS and (not file.is_file() or ids((FOLLOW_FLAGS[of_model].bos,))):
        name = of_model
    if name not in FOLLOW_FLAGS and file.is_file():
        return _written(file)
    if name in ("", "PreTrained"):
        name = of_model
    if flags := FOLLOW_FLAGS.get(name):
        begins, ends = given.get("add_bos_token", flags.begins), given.get("add_eos_token")
        before, after = ids((flags.bos,)) if begins else (), ids((flags.eos,)) if ends else ()
        return _Around(before, after, after + before)
    if name not in TEMPLATES:
        return None
    before, after = (ids(tokens) for tokens in TEMPLATES[name])
    if name == "GPT2" and given.get("add_bos_token"):
        before = ids((BOS,))
    # Fairseq's models end each text of a pair, and separate them too; two texts of GPT-2 each begin.
    return _Around(before, after, after * 2 if TEMPLATES[name] == OF_FAIRSEQ else after or before)


def _written(file: Path) -> _Around | None:
    """Returns what the post-processor of a tokenizer.json puts around a text, and between two."""
    from tokenizers import Tokenizer as Model

    model = keep_own_tokens(Model.from_file(str(file)))
    for text in ("a", "the", "1"):
        whole, own = model.encode(text).ids, model.encode(text, add_special_tokens=False).ids
        for place in range(len(whole) - len(own) + 1 if own else 0):
            if whole[place : place + len(own)] == own:
                before, after = whole[:place], whole[place + len(own) :]
                first, second, pair = [*before, *own], [*own, *after], model.encode(text, text).ids
                # A template of pairs may have other ids around them, which a frame cannot express.
                alike = pair[: len(first)] == first and pair[len(pair) - len(second) :] == second
                between = pair[len(first) : len(pair) - len(second)] if alike else ()
                return _Around(tuple(before), tuple(after), tuple(between))
    return None


def _blanks(tokenizer: Tokenizer, given: Mapping[str, Any], name: str) -> tuple[int, ...]:
    if isinstance(tokenizer, ByT5Tokenizer):
        return BYTE_BLANKS

    def named() -> Iterator[int]:
        number = 0
        while (id := tokenizer.id_of(f"<extra_id_{number}>")) is not None:
            yield id
            number += 1

    found = tuple(named())
    if found or not isinstance(tokenizer, SentencePieceTokenizer):
        return found
    # T5's class puts them after the pieces, the first one last.
    extra = given.get("extra_ids", 100 if name in ("", "T5") else 0)
    if not isinstance(extra, int) or extra < 0:
        raise ConfigError(f"{SETTINGS_FILE}: extra_ids={extra!r:.40}: expected the number of sentinels, e.g. 100")
    return tuple(range(tokenizer.vocab_size + extra - 1, tokenizer.vocab_size - 1, -1))
