"""The bytes of documents that tokens stand for, measured on texts and never deduced from a file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets

# Characters of a text that are shown around the first difference.
_SHOWN = 20


def bytes_of_tokens(text: str, found: TokenOffsets) -> np.ndarray:
    """Divides the UTF-8 bytes of a text among its tokens.

    Token i has the bytes between the end of the token before it and its own end, so what no token
    stands for belongs to the token after it, and at the end of the text to the last one. Tokens that
    end at the same character share its bytes as evenly as whole numbers can, the first ones more.

    Args:
        text: the text.
        found: its tokens, at least one.

    Returns:
        int32 [tokens]; the sum is the number of bytes of the text.
    """
    content = np.frombuffer(text.encode(), np.uint8)
    borders = np.append(np.flatnonzero((content & 0xC0) != 0x80), len(content))
    ends = borders[np.maximum.accumulate(np.clip(found.stops, 0, len(text)))]
    ends[ends == ends[-1]] = len(content)
    group = np.cumsum(np.diff(ends, prepend=ends[0]) > 0)
    counts, first = np.bincount(group), np.flatnonzero(np.diff(group, prepend=-1))
    shares, rest = np.divmod(np.diff(ends[first], prepend=0), counts)
    return (shares[group] + (np.arange(len(ends)) - first[group] < rest[group])).astype(np.int32)


def encode_with_bytes(tokenizer: Tokenizer, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns the ids of each text, and the bytes of the text that each token has:
    `bytes_of_tokens`.
    """
    return [
        (found.ids, bytes_of_tokens(text, found) if len(found.ids) else np.zeros(0, np.int32))
        for text, found in zip(texts, tokenizer.encode_with_offsets(texts), strict=True)
    ]


@dataclass
class ByteCount:
    """The bytes of documents, and those of the text that their tokens stand for.

    Attributes:
        bytes: UTF-8 bytes of the documents.
        of_tokens: UTF-8 bytes of what their tokens are decoded to.
        documents: number of documents that are not decoded to themselves.
        first: the first place where a decoded text differs, as plain JSON; None if none does.
    """

    bytes: int = 0
    of_tokens: int = 0
    documents: int = 0
    first: dict[str, Any] | None = None
    _document: int = field(default=-1, repr=False)
    _before: int = field(default=0, repr=False)
    _differs: bool = field(default=False, repr=False)

    def add(self, opens: bool, text: str, size: int, decoded: str | None) -> None:
        """Counts one piece of a document.

        Args:
            opens: it is the first of its document.
            text: the piece.
            size: its bytes.
            decoded: the text that its tokens stand for; None for the same.
        """
        if opens:
            self._document, self._before, self._differs = self._document + 1, 0, False
        self.bytes += size
        self.of_tokens += size if decoded is None else len(decoded.encode())
        if decoded is not None and decoded != text:
            self.documents += not self._differs
            self._differs = True
            if self.first is None:
                pairs = enumerate(zip(text, decoded, strict=False))
                same = next((place for place, (one, other) in pairs if one != other), min(len(text), len(decoded)))
                self.first = {
                    "document": self._document,
                    "byte": self._before + len(text[:same].encode()),
                    "text": text[max(same - _SHOWN, 0) : same + _SHOWN],
                    "decoded": decoded[max(same - _SHOWN, 0) : same + _SHOWN],
                }
        self._before += size

    def record(self) -> dict[str, Any] | None:
        """Returns the difference as plain JSON, or None if the tokens stand for exactly the
        documents.
        """
        if self.first is None:
            return None
        return {
            "bytes": self.bytes,
            "bytes_of_tokens": self.of_tokens,
            "documents": self.documents,
            "first": self.first,
        }


def difference_line(record: dict[str, Any]) -> str:
    """Returns a record of `ByteCount` in one line."""
    first, counted = record["first"], f"{record['documents']:,} document{'s' * (record['documents'] != 1)}"
    return (
        f"the tokens stand for {record['bytes_of_tokens']:,} bytes and the documents have {record['bytes']:,}; "
        f"{counted} {'differs' if record['documents'] == 1 else 'differ'}, first in document {first['document']} at "
        f"byte {first['byte']:,}: "
        f"{first['text']!r} is decoded to {first['decoded']!r}"
    )


def keeps_bytes(tokenizer: Tokenizer, encode: Any, added: Sequence[str] = ()) -> bool:
    """Returns whether the pieces of a text's tokens are exactly its bytes, measured on `probes`.

    Args:
        tokenizer: with `pieces`.
        encode: returns the ids of each of several texts.
        added: tokens that are found in a text before it is divided.
    """
    texts = list(probes(added))
    return all(
        b"".join(tokenizer.pieces[id] for id in ids) == text.encode()
        for text, ids in zip(texts, encode(texts), strict=True)
    )


def probes(added: Sequence[str] = ()) -> Iterator[str]:
    """Yields texts with every byte that UTF-8 uses, white space everywhere, characters that
    normalisation changes, and each added token alone, between spaces and inside a word.
    """
    # Every first byte of a character with the smallest code point that has it, and every later byte.
    leads = [*range(0x80), *range(0x80, 0xC0), *range(0xC0, 0x800, 0x40), *range(0x1000, 0x10000, 0x1000), 0x800]
    leads += [0x10000, *range(0x40000, 0x110000, 0x40000)]
    characters = [chr(point) for point in leads if not 0xD800 <= point < 0xE000]
    yield from characters
    yield from (f"a{character}b" for character in characters)
    yield from (
        " a",
        "a ",
        "a  b",
        " ",
        "   ",
        "a\n b",
        "\n\n a",
        "a\t\tb",
        "a \r\n b",
        "  a b  ",
        "\u00a0a\u3000",
        "\u2581a",
    )
    yield from (
        "e\u0301",
        "\u00e9",
        "\ufb01",
        "\u212b",
        "\u00bd",
        "\uff21",
        "\u0130I\u0131",
        "\u1100\u1161",
        "a\u200bb\ufeff",
    )
    for token in added:
        yield from (token, f" {token} ", f"  {token}  ", f"a{token}b", f"{token}{token}")
