"""The words of docs/glossary.md, which `zoo describe` explains."""

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from zoo.config import shipped_folder

Value = TypeVar("Value")
FOLDER, PAGE = "docs", "glossary.md"
# A row of a table of the page: **word**, other words | meaning | links and commands.
_ROW = re.compile(r"^\| \*\*(.+?)\*\*(.*?) \| (.+) \| (.+) \|$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)]+)\)")


class Entry(NamedTuple):
    """A word of the glossary.

    Attributes:
        names: the word, then other words for it.
        meaning: one or two sentences, in Markdown.
        see: links to pages and commands, in Markdown, with "; " between them.
    """

    names: tuple[str, ...]
    meaning: str
    see: str

    @property
    def lines(self) -> list[str]:
        """The entry as plain text; links are paths from the root of the repository."""
        see = _LINK.sub(lambda link: f"{FOLDER}/{link[1]}", self.see)
        meaning, see = (re.sub(r"[`*]", "", text) for text in (self.meaning, see))
        return [", ".join(self.names), f"    {meaning}", f"    see {see}"]


@functools.cache
def entries() -> dict[str, Entry]:
    """Returns the entries of the glossary by all their names, as `normalised` makes them."""
    text = (shipped_folder(FOLDER) / PAGE).read_text(encoding="utf-8")
    found: dict[str, Entry] = {}
    for word, others, meaning, see in _ROW.findall(text):
        names = tuple(name.strip("` ") for name in (word, *others.split(",")) if name.strip())
        entry = Entry(names, meaning, see)
        found |= {normalised(name): entry for name in names}
    return found


def normalised(word: str) -> str:
    """Returns a word in lower case, with hyphens: "KV cache" as "kv-cache"."""
    return re.sub(r"[_\s-]+", "-", word.strip().lower())


def look_up(known: Mapping[str, Value], word: str) -> Value | None:
    """Returns what normalised words map a word to, or its singular; None if they have neither."""
    wanted = normalised(word)
    return known.get(wanted) or known.get(wanted.removesuffix("s"))


def explained(word: str) -> Entry | None:
    """Returns the entry of a word, also of its plural; None without one."""
    return look_up(entries(), word)
