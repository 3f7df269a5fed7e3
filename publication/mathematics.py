"""Finds the equations of a text and sets them as MathML, which browsers draw without a script or a
font of another host.
"""

import html
import re
from collections.abc import Iterator

from publication.equation_parser import ARTICLES, FUNCTIONS, GREEK, Parser, Token, tokens_of

MARK, DISPLAYED = "$", "$$"
MARKED = re.compile(r"<code>(\${1,2})([^$]+)\1</code>((?<=\$\$</code>)[.,:;])?")
# An equation on a line of its own, which scrolls where it is wider than the page.
LINE = '<span style="display:block;overflow-x:auto;overflow-y:hidden;padding:.3em 0">{}</span>'
# An equation of this length is displayed on a line of its own, at the place where a text states it.
LONG = 24


def mathml(equation: str, displayed: bool = False, end: str = "") -> str:
    """Returns an equation as MathML.

    Args:
        equation: as in code.
        displayed: on a line of its own.
        end: the sign of the sentence after it.

    Raises:
        ValueError: it cannot be read.
    """
    parser = Parser(tokens_of(equation), fractions=displayed)
    part = parser.attempt(parser.line)
    if part is None or parser.place < len(parser.tokens):
        raise ValueError(f"{equation!r} is no equation from {''.join(map(parser.text, range(9)))!r} on")
    opening = '<math display="block">' if displayed else "<math>"
    return f"{opening}<mrow>{part.markup}{f'<mtext>{end}</mtext>' if end else ''}</mrow></math>"


def equations(text: str) -> Iterator[tuple[str, bool, bool]]:
    """Yields (part of the text, whether it is an equation, whether it has a relation), in order."""
    tokens, place = tokens_of(text), 0
    while place < len(tokens):
        parser = Parser(tokens, place)
        begins = place == 0 or tokens[place - 1].kind == "space" or tokens[place - 1].text[-1] in "([+"
        found = begins and parser.attempt(parser.relation) is not None
        if found and not _accepted(tokens, place, parser):
            found, parser.place = _is_lone(tokens, place), place + 1
        if found:
            yield "".join(token.text for token in tokens[place : parser.place]), True, parser.relates
            place = parser.place
        else:
            yield tokens[place].text, False, False
            place += 1


def _accepted(tokens: list[Token], start: int, parser: Parser) -> bool:
    """Returns whether what was read is an equation and no part of a word or sentence."""
    read = [token for token in tokens[start : parser.place] if token.kind != "space"]
    # Words such as "q/k/v" are no fractions.
    listed = sum(token.text == "/" for token in read) > 1 and len(read) == parser.place - start
    if _is_glued(tokens, parser.place) or read[0].text.startswith("..") or (listed and read[0].kind == "word"):
        return False
    single = [token.kind == "word" and len(token.text.rstrip("'")) == 1 for token in read]
    first = single[0] or read[0].kind == "number" or read[0].text in FUNCTIONS
    # "2 K", "V G K" and "ln f" are products without a sign; "e 1" and "2024b" are none.
    product = len(read) > 1 and first and all(single[1:]) and parser.place - start == 2 * len(read) - 1
    return parser.operators > 0 or product


def _is_lone(tokens: list[Token], place: int) -> bool:
    """Returns whether a token is a letter that stands for a quantity."""
    plain = tokens[place].text.rstrip("'")
    letter = len(plain) == 1 and plain.isalpha() and (plain not in ARTICLES or plain != tokens[place].text)
    return (letter or plain in GREEK) and not _is_glued(tokens, place + 1)


def _is_glued(tokens: list[Token], place: int) -> bool:
    """Returns whether the token at a place belongs to the word before it."""
    after = tokens[place] if place < len(tokens) else Token("space", " ")
    return after.kind in ("word", "number", "code") or after.text in ("-", "/", "'", "_", "^", "[", "=")


def marked(text: str) -> str:
    """Returns a text in Markdown with its equations as code between dollar signs, `$x + y$`, long ones
    of its first paragraph, and lines of a block, as `$$x = y$$`.
    """
    paragraphs = text.split("\n\n")
    return "\n\n".join(_marked(paragraph, not number) for number, paragraph in enumerate(paragraphs))


def _marked(paragraph: str, first: bool) -> str:
    if paragraph.startswith("    ") or _is_equation(paragraph):
        lines = [line.strip() for line in paragraph.splitlines()]
        return "\n".join(f"`{DISPLAYED}{line}{DISPLAYED}`" if _is_equation(line) else line for line in lines)
    parts = []
    for part, is_equation, relates in equations(paragraph):
        stated = first and (relates or not parts) and len(part) >= LONG
        mark = DISPLAYED if stated else MARK
        parts.append(f"`{mark}{part}{mark}`" if is_equation else part)
    return "".join(parts)


def _is_equation(text: str) -> bool:
    try:
        return bool(mathml(text))
    except ValueError:
        return False


def set_equations(page: str) -> str:
    """Returns HTML with the marked equations as MathML."""

    def shown(found: re.Match[str]) -> str:
        displayed = found[1] == DISPLAYED
        markup = mathml(html.unescape(found[2]), displayed, found[3] or "")
        return LINE.format(markup) if displayed else markup

    return MARKED.sub(shown, page)
