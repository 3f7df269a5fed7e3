"""Text for a terminal: control characters in names, messages and records are shown, not obeyed."""

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

# Control characters (C0, DEL, C1), line and paragraph separators, marks that reorder text, and lone
# surrogates, which no terminal's encoding has.
_UNSAFE_ALONE = r"\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = re.compile(rf"[\x00-\x1f{_UNSAFE_ALONE}]")
_UNSAFE_IN_LINES = re.compile(rf"[\x00-\x08\x0b-\x1f{_UNSAFE_ALONE}]")


def escape(text: str) -> str:
    """Returns text with unsafe characters as in a Python string, e.g. an escape as `\\x1b`; line
    breaks and tabs stay.
    """
    return _UNSAFE_IN_LINES.sub(_escaped, text)


def escape_line(text: str) -> str:
    """Returns text on one line: as `escape`, with line breaks and tabs escaped too."""
    return _UNSAFE.sub(_escaped, text)


def shell_line(words: Iterable[str]) -> str:
    """Returns a command on one line, to be pasted into a shell: a word with line breaks or other
    unsafe characters as `$'data.document_separator=\\n'`, which bash, zsh and ksh read in any locale.
    """
    return " ".join(f"$'{_in_ansi_quotes(word)}'" if _UNSAFE.search(word) else shlex.quote(word) for word in words)


def _in_ansi_quotes(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
    return _UNSAFE.sub(lambda match: "".join(f"\\{byte:03o}" for byte in _as_argument(match[0])), escaped)


def _as_argument(character: str) -> bytes:
    # Python reads a byte of an argument that is not UTF-8 as one of these surrogates.
    return character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class EscapedStream:
    """A text stream whose `write` escapes; everything else is that of the stream inside.

    Attributes:
        unescaped: the stream inside.
    """

    def __init__(self, stream: TextIO):
        self.unescaped = stream

    def write(self, text: str) -> int:
        """Writes escaped text; returns the number of characters that were given."""
        self.unescaped.write(escape(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        """Writes escaped lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unescaped, name)


def _open_closed_streams() -> None:
    """Sends output nowhere where a process was started without it (`>&-`). Otherwise the next file
    that is opened gets its descriptor, and what a library prints goes into that file.
    """
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(descriptor, "w", closefd=False))


@contextlib.contextmanager
def escaped_output() -> Iterator[None]:
    """Escapes what is written to standard output and standard error."""
    _open_closed_streams()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (one if isinstance(one, EscapedStream) else EscapedStream(one) for one in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
