"""Sentence splitting."""

import re
from collections.abc import Iterable, Iterator

from zoo.data.sources.documents import Piece

# A sentence ends at the end of a line, and within a line after ., ! or ? and closing quotes or
# brackets. The following white space belongs to the next sentence, so that byte-level tokens are
# those of the whole text.
_END = re.compile(r"""(?<=\S)(?=\s*\n)|(?<=[.!?])(?=\s)|(?<=[.!?]["'”’)\]])(?=\s)""")


def split_sentences(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Cuts pieces of documents into sentences, which together make up the same text.

    The rule is simple and knows no abbreviations; text with one sentence per line is cut at its
    lines.
    """
    for opens, text in pieces:
        start = 0
        for match in _END.finditer(text):
            if text[start : match.start()].strip():
                yield Piece(opens, text[start : match.start()])
                opens, start = False, match.start()
        if text[start:]:
            yield Piece(opens, text[start:])
