"""Models of the `tokenizers` library with special tokens of their own."""

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from zoo.data.tokenizers.byte_pair import byte_of_symbol
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets
from zoo.data.tokenizers.word_boundaries import WordJoins, joins_by_marker
from zoo.errors import DataError

# Names of the token that opens a document, in the order in which a vocabulary is searched, of the
# mask and of the separator.
# The last is GPT-1's: the end of a paragraph, which its tokenizer never makes of a text.
OPENING = ("[CLS]", "<s>", "<|begin_of_text|>", "<|startoftext|>", "<bos>", "<|endoftext|>", "</s>", "<pad>", "\n</w>")
MASKS = ("[MASK]", "<mask>")
SEPARATORS = ("[SEP]", "</s>")


class FastTokenizer(Tokenizer):
    """Wraps a model of the `tokenizers` library.

    Its special tokens stand for no text, and text never becomes one of them. Whether the tokens of
    a text stand for exactly its bytes depends on the model. Byte-level BPE preserves them;
    WordPiece and SentencePiece drop or change spaces, case or accents, so no loss per byte is
    defined and `token_bytes` is 0 everywhere.

    Args:
        model: a `tokenizers.Tokenizer`.

    Attributes:
        lossless: the tokens of a text stand for exactly its bytes.

    Raises:
        DataError: it has no token that could open a document.
    """

    def __init__(self, model: Any):
        self._model = model
        vocabulary = model.get_vocab(with_added_tokens=True)
        size = max(vocabulary.values()) + 1
        special_ids = {id for id, token in model.get_added_tokens_decoder().items() if token.special}
        bos_id = next((vocabulary[name] for name in OPENING if name in vocabulary), None)
        if bos_id is None:
            names = ", ".join(OPENING).replace("\n", "\\n")
            raise DataError(f"the tokenizer has no token that could open a document; looked for {names}")
        to_bytes = byte_of_symbol()
        texts = {id: token for token, id in vocabulary.items() if id not in special_ids and id != bos_id}
        self.lossless = _is_byte_level(model) and all(
            character in to_bytes for text in texts.values() for character in text
        )
        pieces = [b""] * size
        for id, text in texts.items():
            pieces[id] = bytes(to_bytes[character] for character in text) if self.lossless else text.encode()
        own = {name: id for name, id in vocabulary.items() if id != bos_id}
        mask_id, separator_id = (
            next((own[name] for name in names if name in own), None) for names in (MASKS, SEPARATORS)
        )
        super().__init__(pieces, bos_id, mask_id, separator_id)
        self.special_ids = frozenset(special_ids | {bos_id})

    def encode(self, text: str) -> np.ndarray:
        return np.array(self._model.encode(text, add_special_tokens=False).ids, np.int32)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        encodings = self._model.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        if self.lossless:
            return super().encode_with_offsets(texts)
        found = []
        for encoding in self._model.encode_batch(list(texts), add_special_tokens=False):
            offsets = np.array(encoding.offsets, np.int32).reshape(-1, 2)
            found.append(TokenOffsets(np.array(encoding.ids, np.int32), offsets[:, 0], offsets[:, 1]))
        return found

    def decode(self, ids: Any, document: str = "") -> str:
        if self.lossless:
            return super().decode(ids, document)
        parts = self.documents_of(ids)
        return document.join(self._model.decode(part, skip_special_tokens=True) for part in parts)

    def token_bytes(self) -> np.ndarray:
        return super().token_bytes() if self.lossless else np.zeros(self.vocab_size, np.int64)

    def word_joins(self) -> WordJoins:
        """Reads words off the vocabulary's markers.

        These are WordPiece's "##", an end-of-word suffix, or the symbol for a space before a word.
        """
        if self.lossless:
            return super().word_joins()
        settings = json.loads(self._model.to_str())["model"]
        continuation = settings.get("continuing_subword_prefix") or "" if settings["type"] == "WordPiece" else ""
        return joins_by_marker(
            [piece.decode() for piece in self.pieces],
            self.special_ids,
            continuation,
            settings.get("end_of_word_suffix") or "",
        )

    def to_json(self) -> dict[str, Any]:
        return {"model": json.loads(self._model.to_str())}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        from tokenizers import Tokenizer as Model

        return cls(keep_own_tokens(Model.from_str(json.dumps(content["model"]))))


def _is_byte_level(model: Any) -> bool:
    """Whether tokens are written in the 256 byte symbols and the text is not changed before."""
    settings = json.loads(model.to_str())
    before = settings["pre_tokenizer"] or {}
    steps = before.get("pretokenizers", [before])
    last = steps[-1] if steps else {}
    return (
        settings["normalizer"] is None
        and last.get("type") == "ByteLevel"
        and not any(step.get("add_prefix_space") or step.get("behavior") == "Removed" for step in steps)
    )


def keep_own_tokens(model: Any) -> Any:
    """Returns the model set up to return a text's own tokens only, without padding or truncation.

    Special tokens that a text spells are encoded as text.
    """
    model.no_padding()
    model.no_truncation()
    model.encode_special_tokens = True
    return model
