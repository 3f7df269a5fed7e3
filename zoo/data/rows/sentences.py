"""Sentences: the units of which pairs and rows that respect them are made."""

import re
from collections.abc import Iterable, Iterator

from zoo.data.sources.documents import Piece

# A sentence ends at a line's end, and inside a line after ., ! or ? with what closes quotes and
# brackets. The white space that follows belongs to the next sentence, so that byte-level tokens are
# those of the whole text.
_END = re.compile(r"""(?<=\S)(?=\s*\n)|(?<=[.!?])(?=\s)|(?<=[.!?]["'”’)\]])(?=\s)""")


def split_sentences(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Cuts pieces of documents into sentences; one by one they make up the same text.

    The rule is a plain one and knows no abbreviations; text with one sentence per line is cut at
    the lines where these hold one each.
    """
    for opens, text in pieces:
        start = 0
        for match in _END.finditer(text):
            if text[start : match.start()].strip():
                yield Piece(opens, text[start : match.start()])
                opens, start = False, match.start()
        if text[start:]:
            yield Piece(opens, text[start:])
