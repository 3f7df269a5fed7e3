"""SentencePiece's dummy prefix (`add_dummy_prefix`): a space put before a text, so that its first word
is tokenised as it would be within the text.

It belongs to the beginning of a document alone. Documents are encoded sentence by sentence, or a few
million characters at a time, and what comes after a cut continues the document.
"""

import json
from collections.abc import Mapping
from typing import Any

from zoo.data.tokenizers.own_tokens import keep_own_tokens

# Appended to a serialised ModelProto: a second `normalizer_spec` (field 3) with `add_dummy_prefix`
# (its field 3) false. Protocol Buffers merge a message that occurs twice, and later values win.
_NO_PREFIX = bytes([3 << 3 | 2, 2, 3 << 3, 0])


def without_prefix(model: Any) -> Any | None:
    """Returns a model of the `tokenizers` library that puts no space before a text.

    None if it puts none already, or if a text would lose the space with which it begins.
    """
    from tokenizers import Tokenizer as Model

    definition = json.loads(model.to_str())
    changed = definition | {part: _without(definition[part]) for part in ("normalizer", "pre_tokenizer", "decoder")}
    if changed == definition:
        return None
    found = keep_own_tokens(Model.from_str(json.dumps(changed)))
    kept = found.normalizer.normalize_str(" a") if found.normalizer else " a"
    return found if kept[:1] in (" ", "▁") else None


def model_without_prefix(content: bytes, model: Any) -> bytes | None:
    """Returns the `.model` file of SentencePiece that puts no space before a text.

    Args:
        content: the bytes of a `.model` file.
        model: loads such bytes.

    Returns:
        The bytes of the file; None as for `without_prefix`.
    """
    changed = content + _NO_PREFIX
    before, after = (model(each).Normalize(" a") for each in (content, changed))
    return changed if before != after and after.startswith("▁") else None


def _without(part: Any) -> Any:
    """Returns a part of a definition without what adds a space before a text, or removes it."""
    if not isinstance(part, Mapping):
        return part
    match part.get("type"):
        case "Metaspace":
            return {**part, "prepend_scheme": "never"}
        case "Prepend":
            return None
        case "Strip" if part.get("content") == " ":
            return {**part, "start": 0}
    steps = {name: [_without(step) for step in value] for name, value in part.items() if isinstance(value, list)}
    return {**part, **{name: [step for step in value if step is not None] for name, value in steps.items()}}
