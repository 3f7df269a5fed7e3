"""Models of the `tokenizers` library with special tokens of their own."""

import copy
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from zoo.data.tokenizers.byte_pair import byte_of_symbol
from zoo.data.tokenizers.document_bytes import keeps_bytes
from zoo.data.tokenizers.dummy_prefix import without_prefix
from zoo.data.tokenizers.own_tokens import keep_own_tokens, without_names_in_text
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets, written_bytes
from zoo.data.tokenizers.word_boundaries import WordJoins, joins_by_marker
from zoo.errors import DataError

# Names of the token that opens a document, in the order in which a vocabulary is searched, of the
# mask and of the separator.
# The last is GPT-1's: the end of a paragraph, which its tokenizer never makes of a text.
OPENING = ("[CLS]", "<s>", "<|begin_of_text|>", "<|startoftext|>", "<bos>", "<|endoftext|>", "</s>", "<pad>", "\n</w>")
MASKS = ("[MASK]", "<mask>")
SEPARATORS = ("[SEP]", "</s>")
# Decoders for which the text of a sequence is that of its tokens, one after the other.
_ONE_BY_ONE = {"ByteFallback", "Metaspace", "Replace", "Fuse", "Strip"}


class FastTokenizer(Tokenizer):
    """Wraps a model of the `tokenizers` library.

    Its special tokens stand for no text, and text never becomes one of them. Whether the tokens of
    a text stand for exactly its bytes depends on the model and is measured (`keeps_bytes`): most
    byte-level BPE keeps them, WordPiece and SentencePiece drop or change spaces, case or accents.
    `token_bytes` is then 0 everywhere, and the bytes of a text are divided among its tokens.

    Args:
        model: a `tokenizers.Tokenizer`.
        roles: special tokens by role, as in tokenizer_config.json ("bos_token" ...); they come before
            the names that are searched otherwise.

    Attributes:
        lossless: the tokens of a text stand for exactly its bytes.
        roles: as given; empty if the search finds the same tokens.

    Raises:
        DataError: it has no token that could open a document.
    """

    def __init__(self, model: Any, roles: Mapping[str, str] = MappingProxyType({})):
        # A run's file keeps the model as it came, which other libraries read too.
        self._definition = model.to_str()
        settings = json.loads(self._definition)
        vocabulary = model.get_vocab(with_added_tokens=True)
        size = max(vocabulary.values()) + 1
        added = model.get_added_tokens_decoder()
        bos_id, mask_id, separator_id = chosen = _tokens_in_use(vocabulary, roles)
        if bos_id is None:
            searched = ", ".join(OPENING).replace("\n", "\\n")
            raise DataError(
                f"the tokenizer has no token that could open a document; looked for {searched}, and for the bos_token "
                "of tokenizer_config.json"
            )
        # A run's own file keeps only roles that decide something.
        self.roles = dict(roles) if chosen != _tokens_in_use(vocabulary, {}) else {}
        special_ids = {id for id, token in added.items() if token.special} | {bos_id}
        special = [token.content for id, token in added.items() if id in special_ids]
        self._model = without_names_in_text(model, self._definition, settings["model"], special)
        self._written = {id: token for token, id in vocabulary.items() if id not in special_ids}
        self._in_bytes, to_bytes = _writes_bytes(settings), byte_of_symbol()
        # Without a decoder, tokens are joined by spaces.
        self._one_by_one = bool(read := _decoders(settings)) and read <= _ONE_BY_ONE
        pieces = [b""] * size
        for id, text in self._written.items():
            # Added tokens are written as text, and found in a text before it becomes symbols of bytes.
            symbols = self._in_bytes and id not in added and all(character in to_bytes for character in text)
            pieces[id] = bytes(to_bytes[character] for character in text) if symbols else text.encode()
        super().__init__(pieces, bos_id, mask_id, separator_id)
        self.special_ids = frozenset(special_ids)
        self.lossless = self._in_bytes and keeps_bytes(
            self, self.encode_batch, [token.content for token in added.values()]
        )

    @cached_property
    def within_text(self) -> Tokenizer:
        model = None if self.lossless else without_prefix(self._model)
        if model is None:
            return self
        found = copy.copy(self)
        found._model = model
        return found

    def id_of(self, token: str) -> int | None:
        return self._model.token_to_id(token)

    def encode(self, text: str) -> np.ndarray:
        return np.array(self._model.encode(text, add_special_tokens=False).ids, np.int32)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        encodings = self._model.encode_batch_fast(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        found = []
        for text, encoding in zip(texts, self._model.encode_batch(list(texts), add_special_tokens=False), strict=True):
            ids, offsets = np.array(encoding.ids, np.int32), np.array(encoding.offsets, np.int32).reshape(-1, 2)
            exact = self._exact_offsets(text, ids) if self.lossless else None
            found.append(exact or TokenOffsets(ids, offsets[:, 0], offsets[:, 1]))
        return found

    def decode(self, ids: Any, document: str = "") -> str:
        if self._in_bytes:
            return super().decode(ids, document)
        return document.join(self._model.decode(part, skip_special_tokens=True) for part in self.documents_of(ids))

    def decode_batch(self, texts: Sequence[np.ndarray]) -> list[str]:
        if self._in_bytes:
            return super().decode_batch(texts)
        return self._model.decode_batch([ids.tolist() for ids in texts], skip_special_tokens=True)

    def token_bytes(self) -> np.ndarray:
        return super().token_bytes() if self.lossless else np.zeros(self.vocab_size, np.int64)

    def written_pieces(self) -> list[bytes] | None:
        if self._in_bytes:
            return list(self.pieces)
        return [written_bytes(piece) for piece in self.pieces] if self._one_by_one else None

    def word_joins(self) -> WordJoins:
        """Reads words off the vocabulary's markers.

        These are WordPiece's "##", an end-of-word suffix, or the symbol for a space before a word.
        """
        if self.lossless:
            return super().word_joins()
        settings = json.loads(self._definition)["model"]
        continuation = settings.get("continuing_subword_prefix") or "" if settings["type"] == "WordPiece" else ""
        return joins_by_marker(
            [self._written.get(id, "") for id in range(self.vocab_size)],
            self.special_ids,
            continuation,
            settings.get("end_of_word_suffix") or "",
        )

    def to_json(self) -> dict[str, Any]:
        return {"model": json.loads(self._definition)} | ({"roles": self.roles} if self.roles else {})

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        from tokenizers import Tokenizer as Model

        return cls(keep_own_tokens(Model.from_str(json.dumps(content["model"]))), content.get("roles", {}))


def _tokens_in_use(
    vocabulary: Mapping[str, int], roles: Mapping[str, str]
) -> tuple[int | None, int | None, int | None]:
    """Returns the ids of the token that opens documents, of the mask and of the separator.

    Each is the one that `roles` gives, else the first of those that are searched. A token that only
    ends texts opens them if there is no other.
    """

    def first(*candidates: str | None) -> int | None:
        return next((vocabulary[name] for name in candidates if name in vocabulary), None)

    named = roles.get
    bos_id = first(named("bos_token"), named("cls_token"), *OPENING, named("eos_token"), named("pad_token"))
    own = {name: id for name, id in vocabulary.items() if id != bos_id}
    mask_id, separator_id = (
        next((own[name] for name in (named(role), *others) if name in own), None)
        for role, others in (("mask_token", MASKS), ("sep_token", SEPARATORS))
    )
    return bos_id, mask_id, separator_id


def _writes_bytes(settings: Mapping[str, Any]) -> bool:
    """Whether the vocabulary is written in the 256 symbols of bytes, and read back from them alone."""
    read, before = _decoders(settings), settings["pre_tokenizer"] or {}
    divided = before.get("pretokenizers", [before])[-1:] or [{}]
    return read <= {"ByteLevel", "Fuse"} and ("ByteLevel" in read or divided[0].get("type") == "ByteLevel")


def _decoders(settings: Mapping[str, Any]) -> set[str]:
    """Returns the types of a model's decoders."""
    decoder = settings["decoder"] or {}
    return {step.get("type") for step in decoder.get("decoders", [decoder])} - {None}
