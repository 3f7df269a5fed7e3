"""Files of a source, and their text in blocks."""

import difflib
import glob
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from zoo.data.sources.documents import Piece
from zoo.data.sources.file_content import BLOCK_BYTES, COMPRESSED, file_blocks
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, listed, user_path, why_no_file

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Byte-level BPE and WordPiece never merge across the boundary of a visible character and the space
# or newline after it, so cutting there changes no token.
SAFE_CUT = re.compile(r"(?<=\S)(?=[ \n])")
_BLANK_LINE = re.compile(r"\S[^\S\r\n]*(?:\r?\n|\r)[^\S\r\n]*(?:\r?\n|\r)\s*\S")


def find_files(argument: str, kind: str, example: str, endings: tuple[str, ...] = ("",)) -> list[Path]:
    """Returns the files that a source names, sorted by path.

    Args:
        argument: what follows the ":" of `data.source`: a file, a folder or a glob pattern.
        kind: what precedes it.
        example: a path for the error message.
        endings: in a folder, only files with these endings are read.

    Raises:
        ConfigError: there are none.
    """
    if not argument:
        raise ConfigError(f'data.source: "{kind}" needs a file, a folder or a pattern, e.g. "{kind}:{example}"')
    path = user_path(argument)
    if path.is_dir():
        entries = [entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name.endswith(endings)]
        such = f" that end in {', '.join(filter(None, endings))}" if any(endings) else ""
        problem = (
            f'data.source: no files{such} in the folder "{path}"; "{path}/**/*" would take those of its subfolders'
        )
    elif path.is_file():
        entries, problem = [path], ""
    else:
        entries = [Path(match) for match in glob.glob(str(path), recursive=True)]
        problem = f'data.source: no such file or folder: "{path}"{path_suggestion(path)}'
        if glob.has_magic(str(path)):
            problem = f'data.source: no file matches "{path}"'
        elif os.path.lexists(path):
            problem = f'data.source: "{path}" {why_no_file(path)}'
    # A link whose file is gone, as of git-annex or of a cache, would be missed without a word.
    if dead := sorted(f'"{entry}"' for entry in entries if entry.is_symlink() and not entry.exists()):
        raise ConfigError(f"data.source: links to files that do not exist: {listed(dead)}")
    if not (files := [entry for entry in entries if entry.is_file()]):
        raise ConfigError(problem)
    return sorted(files, key=lambda file: file.as_posix())


def path_suggestion(path: Path) -> str:
    """Suggests a name for the first part of `path` that does not exist."""
    missing, parent = path, path.parent
    while not parent.is_dir() and parent != parent.parent:
        missing, parent = parent, parent.parent
    # Not did_you_mean: it treats what follows a dot as a field's name; here it is a file's ending.
    close = difflib.get_close_matches(missing.name, sorted(os.listdir(parent)), n=1)
    return f' (did you mean "{parent / close[0]}"?)' if close else ""


def line_blocks(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Yields whole lines of a file, decompressed: (number of the first line, byte offset, bytes).

    A long line is a block of its own. A byte order mark is removed.

    Raises:
        ConfigError, DataError: as `file_blocks`.
    """
    rest, line, offset = [], 1, 0
    for block in file_blocks(path):
        if not offset and not rest and block.startswith(BYTE_ORDER_MARK):
            offset, block = len(BYTE_ORDER_MARK), block.removeprefix(BYTE_ORDER_MARK)
        end = block.rfind(b"\n") + 1
        if end:
            whole = b"".join((*rest, block[:end]))
            yield line, offset, whole
            line, offset, rest = line + whole.count(b"\n"), offset + len(whole), []
        rest.append(block[end:])
    if whole := b"".join(rest):
        yield line, offset, whole


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """Yields (number, content, byte offset) of each line."""
    for first, offset, block in line_blocks(path):
        start = 0
        # Not split(): it would make an object per line of a block of many megabytes.
        for number in range(first, first + block.count(b"\n") + (not block.endswith(b"\n"))):
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            yield number, block[start:end], offset + start
            start = end + 1


def read_lines(path: Path, flag: str) -> list[str]:
    """Returns the lines of a file that a flag names, plain or compressed, without their ends.

    A line ends at a line feed, before which a carriage return may stand, and at no other character.
    A byte order mark is removed.

    Raises:
        ConfigError: the file does not exist, or cannot be read.
        DataError: a line that is not UTF-8; a file without text.
    """
    if not path.is_file():
        raise ConfigError(f"{flag} {path} {why_no_file(path)}")
    lines = []
    for number, content, _ in numbered_lines(path):
        try:
            lines.append(content.removesuffix(b"\r").decode())
        except UnicodeDecodeError as error:
            raise DataError(f"{flag} {path} is not UTF-8: line {number}: {error}") from error
    return lines


def file_pieces(path: Path, separator: str, policy: BadTextPolicy) -> Iterator[Piece]:
    """Yields the documents of a text file; newlines are preserved.

    Args:
        path: path of the file.
        separator: divides documents; "" for one document. Its newlines match the line ends of the
            file, which are CRLF or LF; or CR, where there is no LF.
        policy: for bad text; its `undivided` gets a file of several paragraphs in which the separator
            does not occur.

    Raises:
        ConfigError: it cannot be read.
        DataError: bad text, if the policy is `error`; a broken compressed file.
    """
    opens, text, divided, paragraphs, line_feeds = True, "", False, False, False
    split, longest = None, len(separator)
    for block in _texts(path, policy):
        line_feeds = line_feeds or "\n" in block
        if split is None and "\n" in separator and ("\r" in block or "\r" in separator):
            split, longest = _splitter(separator, line_feeds)
        text += block
        *ended, text = split(text) if split else text.split(separator) if separator else [text]
        for document in ended:
            yield Piece(opens, document)
            opens = True
        divided |= bool(ended)
        if separator and not (divided or paragraphs):
            paragraphs = _BLANK_LINE.search(text) is not None
        # A possible beginning of a separator stays in the buffer.
        end = _cut(text, len(text) - longest)
        if end:
            yield Piece(opens, text[:end])
            opens, text = False, text[end:]
    if paragraphs and not divided:
        policy.undivided.append(path.name)
    yield Piece(opens, text)


def _splitter(separator: str, has_line_feeds: bool) -> tuple[Callable[[str], list[str]], int]:
    """Returns what divides a text of any line ends, and the length of the longest match."""
    lines = re.split("\r?\n", separator)
    pattern = re.compile(("\r?\n" if has_line_feeds else "\r").join(map(re.escape, lines)))
    return pattern.split, sum(map(len, lines)) + 2 * (len(lines) - 1)


def _cut(text: str, limit: int) -> int:
    """Returns the last place up to `limit` that no token spans.

    The result is 0 if there is none, or the text is short.
    """
    if limit < BLOCK_BYTES // 4:
        return 0
    for width in (1 << 10, limit):
        found = [match.start() for match in SAFE_CUT.finditer(text, max(limit - width, 0), limit)]
        if found:
            return found[-1]
    return 0


def _texts(path: Path, policy: BadTextPolicy) -> Iterator[str]:
    for line, offset, block in line_blocks(path):
        try:
            text = block.decode()
            if "\0" not in text:
                yield text
                continue
        except UnicodeDecodeError:
            pass
        end = offset + len(block)
        of_text = " of the decompressed text" if path.suffix in COMPRESSED else ""
        for number, content in enumerate(block.removesuffix(b"\n").split(b"\n"), line):
            content += b"\n" * (offset + len(content) < end)
            text = policy.decode(content, f'"{path}": line {number}{of_text}', offset)
            offset += len(content)
            if text is not None:
                yield text
