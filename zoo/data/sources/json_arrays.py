"""Files that hold one JSON array of objects, read object by object."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.data.sources.file_content import file_blocks
from zoo.errors import DataError, one_line

_SPACE = " \t\r\n"
# An error this close to the end of what has been read may be of an object that goes on.
_NEAR_THE_END = 16


def begins_array(head: bytes) -> bool:
    """Returns whether a file that begins like this holds an array, of objects or of nothing."""
    head = head.removeprefix(codecs.BOM_UTF8).lstrip()
    return head.startswith(b"[") and head[1:].lstrip()[:1] in (b"{", b"]", b"")


def array_values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yields (number, value) for the elements of the array, or of several one after another.

    Bytes that are not UTF-8 become lone surrogates. Memory holds a few times the longest element or
    block of the file.

    Raises:
        DataError: not JSON; what follows the error cannot be read.
        ConfigError, DataError: as `file_blocks`.
    """
    text, inside, number = _Text(path), False, 0
    while (character := text.next_character()) is not None:
        where = f'"{path}": element {number + 1}'
        if not inside:
            if character != "[":
                raise DataError(f'"{path}": not JSON: after the array, {character!r} instead of the end of the file')
            inside = True
            text.place += 1
            if text.next_character() == "]":
                inside = False
                text.place += 1
            continue
        number += 1
        yield number, text.read_value(where)
        character = text.next_character()
        if character not in (",", "]"):
            found = "the end of the file" if character is None else repr(character)
            raise DataError(f'{where}: not JSON: {found} after it instead of "," or "]"')
        inside = character == ","
        text.place += 1
    if inside:
        raise DataError(f'"{path}": not JSON: the array does not end')


class _Text:
    """The text of a file, of which a part is in memory.

    Attributes:
        place: where reading goes on.
    """

    def __init__(self, path: Path):
        self._blocks, self._decode = file_blocks(path), codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._text, self.place, self._ended = "", 0, False

    def next_character(self) -> str | None:
        """Returns the next character that is not white space; None at the end."""
        while True:
            while self.place < len(self._text):
                if self._text[self.place] not in _SPACE:
                    return self._text[self.place]
                self.place += 1
            if self._ended:
                return None
            self._fill()

    def read_value(self, where: str) -> Any:
        """Parses the next value. Raises DataError if it is not JSON."""
        while True:
            try:
                value, end = json.JSONDecoder().raw_decode(self._text, self.place)
            except json.JSONDecodeError as error:
                goes_on = error.pos > len(self._text) - _NEAR_THE_END or error.msg.startswith("Unterminated")
                if self._ended or not goes_on:
                    raise DataError(f"{where}: not JSON: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where}: not JSON: {one_line(error)}") from error
            else:
                # A number may go on in the next block.
                if end < len(self._text) or self._ended:
                    self.place = end
                    return value
            self._fill()

    def _fill(self) -> None:
        """Reads as much again as is waiting, so that a long value is parsed a few times only."""
        kept, parts, size = self._text[self.place :], [], 0
        while size <= len(kept) and not self._ended:
            block = next(self._blocks, None)
            self._ended = block is None
            parts.append(self._decode.decode(block or b"", final=self._ended))
            size += len(parts[-1])
        self._text, self.place = "".join((kept, *parts)), 0
