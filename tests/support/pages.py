"""Anchors of pages in Markdown."""

import re
import unicodedata


def anchors(page):
    """The anchors of a page: those of its headings, as Python-Markdown makes them, and its own."""
    text = page.read_text(encoding="utf-8")
    yield from re.findall(r'<a id="([^"]+)">', text)
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading)
        plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
        yield re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
