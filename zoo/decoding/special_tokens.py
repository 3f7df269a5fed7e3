"""Special tokens that a text spells, such as <|im_start|>, read as tokens and not as text."""

import json
from collections.abc import Callable

import numpy as np

from zoo.data.tokenizers.fast_tokenizer import FastTokenizer
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.errors import ConfigError


def read_special_tokens(tokenizer: Tokenizer) -> Callable[[str], np.ndarray]:
    """Returns a function from a text to its ids, int32 [tokens], where special tokens are read.

    Nothing is added: neither the token that opens a document nor one that ends it.

    Raises:
        ConfigError: the tokenizer has no special tokens with names of their own.
    """
    if not isinstance(tokenizer, FastTokenizer):
        raise ConfigError(
            f"special tokens are read by tokenizers of a tokenizer.json; this one, of kind {tokenizer.kind}, reads text"
        )
    from tokenizers import Tokenizer as Model

    model = Model.from_str(json.dumps(tokenizer.to_json()["model"]))
    model.encode_special_tokens = False
    return lambda text: np.array(model.encode(text, add_special_tokens=False).ids, np.int32)
