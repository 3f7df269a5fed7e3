"""Numbers as single digits, for tokenizers that are trained with `data.tokenizer.split_digits`.

LLaMA splits all numbers into individual digits (Touvron et al. 2023, section 2.4): each place of a
number is one token. A digit is a decimal digit of any script; superscripts and fractions are none.
"""

import re
from typing import Any

_DIGIT = r"\d"


def single_digits(before: list[Any], after: list[Any]) -> Any:
    """Returns a pre-tokenizer of the `tokenizers` library that splits the digits of a text apart.

    Args:
        before, after: pre-tokenizers that come before and after.
    """
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Sequence([*before, pre_tokenizers.Split(Regex(_DIGIT), behavior="isolated"), *after])


def parts_of_word(word: str) -> list[str]:
    """Returns the digits of a word and the text between them, in order: "a12b" as a, 1, 2, b."""
    return [part for part in re.split(f"({_DIGIT})", word) if part]


def digits_key(settings: Any) -> str:
    """Returns the part of a tokenizer's name in the cache; empty where digits are not split, so that
    tokenizers without the field keep theirs.
    """
    return " single digits" if settings.split_digits else ""
