"""Sets up models of the `tokenizers` library so that no text becomes a special token."""

import re
from collections.abc import Iterable, Mapping
from typing import Any


def keep_own_tokens(model: Any) -> Any:
    """Returns the model set up to return a text's own tokens only, without padding or truncation.

    Special tokens that a text spells are encoded as text. BPE dropout (Provilkov et al. 2020), which
    is for training alone and draws from no seed, is off: a text has one encoding.
    """
    if getattr(model.model, "dropout", None) is not None:
        model.model.dropout = None
    model.no_padding()
    model.no_truncation()
    model.encode_special_tokens = True
    return model


def without_names_in_text(model: Any, definition: str, settings: Mapping[str, Any], special: Iterable[str]) -> Any:
    """Returns a model that segments no text into the names of special tokens or of bytes.

    A Unigram model finds every entry of its vocabulary in a text, `</s>` and `<0x41>` too, which
    sentencepiece never does. Such a name is divided after its first character before it is segmented.

    Args:
        model: is returned itself if its text cannot become such names.
        definition: of the model, as JSON.
        settings: of its segmentation.
        special: the names of the special tokens.
    """
    from tokenizers import Regex
    from tokenizers import Tokenizer as Model
    from tokenizers import pre_tokenizers as before

    if settings["type"] != "Unigram":
        return model
    vocabulary = model.get_vocab(with_added_tokens=False)
    names = sorted(name for name in special if name in vocabulary and len(name) > 1)
    parts = [f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names]
    parts += ["<(?=0x[0-9A-F]{2}>)"] if settings.get("byte_fallback") else []
    if not parts:
        return model
    divided, divide = keep_own_tokens(Model.from_str(definition)), before.Split(Regex("|".join(parts)), "isolated")
    divided.pre_tokenizer = before.Sequence([model.pre_tokenizer, divide]) if model.pre_tokenizer else divide
    return divided
