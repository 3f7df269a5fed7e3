"""Byte-level byte-pair encoding, trained on the source."""

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.digits import digits_key, single_digits
from zoo.data.tokenizers.tokenizer import Tokenizer, interruptible, text_chunks, training_chunks
from zoo.errors import ConfigError, DataError


class BytePairTokenizer(Tokenizer):
    """Byte-level BPE as in GPT-2 (Radford et al. 2019, section 2.2), trained on the training part.

    Ids 0 .. V-2 are learned, V-1 opens a document.

    Args:
        model: a byte-level BPE of the `tokenizers` library, without special tokens.
    """

    kind = "bpe"

    def __init__(self, model: Any):
        self._model = model
        to_bytes = byte_of_symbol()
        symbols = sorted(model.get_vocab().items(), key=lambda item: item[1])
        pieces = [bytes(to_bytes[character] for character in symbol) for symbol, _ in symbols]
        super().__init__([*pieces, b""], bos_id=len(pieces))

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        """Loads the cached tokenizer of this training text, or trains it (seconds for 10 MB)."""
        import tokenizers

        size = cls.known_vocab_size(settings)
        key = f"{size} {training.fingerprint} {tokenizers.__version__}{digits_key(settings)}"
        return cls.load_or_train(key, lambda: cls._trained(training, size, settings.split_digits))

    @classmethod
    def _trained(cls, training: Documents, size: int, split_digits: bool) -> Self:
        from tokenizers import Tokenizer as Model
        from tokenizers import models, pre_tokenizers, trainers

        model = Model(models.BPE())
        symbols = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.pre_tokenizer = single_digits([], [symbols]) if split_digits else symbols
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(vocab_size=size - 1, show_progress=False, initial_alphabet=alphabet)
        interruptible(lambda: model.train_from_iterator(training_chunks(training), trainer))
        tokenizer = cls(model)
        if tokenizer.vocab_size < size:
            raise DataError(
                f"data.tokenizer.vocab_size: {size} asked for, but the {training.description} yields only "
                f"{tokenizer.vocab_size}; ask for at most that, or take a longer text"
            )
        return tokenizer

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        if settings.vocab_size < 257:
            raise ConfigError(
                f'data.tokenizer.vocab_size: "bpe" needs at least 257 (256 bytes and the token that opens a '
                f"document), got {settings.vocab_size}"
            )
        return int(settings.vocab_size)

    def encode(self, text: str) -> np.ndarray:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        chunks = [list(text_chunks(text)) for text in texts]
        encodings = iter(
            self._model.encode_batch_fast([chunk for text in chunks for chunk in text], add_special_tokens=False)
        )
        return [np.concatenate([np.array(next(encodings).ids, np.int32) for _ in text]) for text in chunks]

    def to_json(self) -> dict[str, Any]:
        return {"model": json.loads(self._model.to_str())}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        from tokenizers import Tokenizer as Model

        return cls(Model.from_str(json.dumps(content["model"])))


def byte_of_symbol() -> dict[str, int]:
    """Returns the byte for each of the 256 symbols in which byte-level BPE writes bytes.

    Printable Latin-1 bytes are their own symbol; the others take the symbols from U+0100 on, in
    order.
    """
    from tokenizers import pre_tokenizers

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    own = {symbol: ord(symbol) for symbol in symbols if ord(symbol) < 256}
    others = sorted(set(range(256)) - set(own.values()))
    return own | dict(zip([symbol for symbol in symbols if ord(symbol) >= 256], others, strict=True))
