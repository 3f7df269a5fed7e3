"""Reads an equation that a text writes as code does, "x / sqrt(mean(x^2) + epsilon)", and draws it as
MathML.

    relation = sum (("=" | "<" | "<=" | "<-" ...) sum)*
    sum      = ["-"] product (("+" | "-") product)*
    product  = factor (["*" | " . " | "/"] factor)*
    factor   = atom (("^" | "_") script | "(" list ")" | "[" list "]")*

Two factors beside each other are multiplied first, so that "2 F / 3" divides both. Letters and the
words of `WORDS` are names.
"""

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<code>`[^`]*`)|(?P<number>\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?)|(?P<word>[A-Za-z]+(?:'(?![A-Za-z]))*)"
    r"|(?P<operator><-|<=|>=|\+-|\.\.\.?|[-+*/=<>^_()\[\]{}|,;:.])|(?P<other>.)",
    re.DOTALL,
)
GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "epsilon": "ε", "theta": "θ", "lambda": "λ", "pi": "π",
    "phi": "φ", "Phi": "Φ",
}  # fmt: skip
# These words are quantities when an operator stands next to them, and prose otherwise.
WORDS = frozenset((
    "scale", "bias", "mean", "variance", "running", "momentum", "batch", "position", "factor", "original", "rotated",
    "fraction", "table", "score", "scores", "logits", "loss", "slope", "token", "target", "rate", "output", "out",
    "pooled", "PE", "log", "ln", "exp", "cos", "sin", "max", "min", "sum",
))  # fmt: skip
# Names of functions that need no brackets.
FUNCTIONS = ("log", "ln", "cos", "sin", "exp")
# Single letters that are words, too.
ARTICLES = ("a", "A", "I")
RELATIONS = {"=": "=", "<": "&lt;", ">": "&gt;", "<=": "≤", ">=": "≥", "<-": "←"}
SIGNS = {"+": "+", "-": "−", "+-": "±"}
PRODUCTS = {"*": "∗", ".": "·"}
CLOSING = {"(": ")", "[": "]", "{": "}"}


class NoEquation(ValueError):
    """The text at this place is no equation."""


class Token(NamedTuple):
    """A part of a text, with the name of its group in `TOKEN`."""

    kind: str
    text: str


class Part(NamedTuple):
    """A part of an equation.

    Attributes:
        markup: MathML.
        inner: the same without the parentheses around it, which a fraction does not need.
        word: whether it is a word of several letters.
        big: whether it is a sum sign, which takes all that is multiplied after it.
    """

    markup: str
    inner: str = ""
    word: bool = False
    big: bool = False

    @property
    def bare(self) -> str:
        """Returns the markup as the part of a fraction."""
        return self.inner or self.markup


def tokens_of(text: str) -> list[Token]:
    """Returns the tokens of a text."""
    return [Token(str(found.lastgroup), found[0]) for found in TOKEN.finditer(text)]


class Parser:
    """Reads one equation, from a token on.

    Args:
        tokens: of the whole text.
        place: where the equation begins.
        fractions: whether a division is drawn as a fraction, which within a line would be too small to
            read, and not with a slash.

    Attributes:
        place: the token after what was read.
        operators: number of operators, scripts and brackets.
        relates: whether there is a relation outside of all brackets.
    """

    def __init__(self, tokens: list[Token], place: int = 0, fractions: bool = False):
        self.tokens, self.place, self.operators, self.relates = tokens, place, 0, False
        self.fractions = fractions
        self.depth = self.bars = self.calls = 0

    def text(self, ahead: int = 0) -> str:
        """Returns a token from here on; "" after the last one."""
        place = self.place + ahead
        return self.tokens[place].text if 0 <= place < len(self.tokens) else ""

    def kind(self, ahead: int = 0) -> str:
        """Returns the kind of a token from here on."""
        place = self.place + ahead
        return self.tokens[place].kind if 0 <= place < len(self.tokens) else ""

    def attempt(self, rule: Callable[[], Part]) -> Part | None:
        """Returns what a rule reads, or None and goes back if it does not apply."""
        before = self.place, self.operators, self.relates, self.depth, self.bars, self.calls, self.fractions
        try:
            return rule()
        except NoEquation:
            self.place, self.operators, self.relates, self.depth, self.bars, self.calls, self.fractions = before
            return None

    def skip_spaces(self) -> bool:
        """Passes spaces; returns whether there were some."""
        found = self.kind() == "space"
        self.place += found
        return found

    def infix(self, names: dict[str, str]) -> str:
        """Passes one of these operators and returns its sign; "" if there is none."""
        before, spaced = self.place, self.skip_spaces()
        name = self.text()
        if self.kind() != "operator" or name not in names or (name == "." and not (spaced and self.kind(1) == "space")):
            self.place = before
            return ""
        if name == "-" and not spaced and self.kind(1) != "space" and self.hyphenates():
            self.place = before
            return ""
        self.place += 1
        self.skip_spaces()
        return names[name]

    def hyphenates(self) -> bool:
        """Returns whether a minus sign without spaces is a hyphen: it stands beside a word."""
        beside = [self.tokens[self.place + step] for step in (-1, 1) if 0 <= self.place + step < len(self.tokens)]
        return any(token.kind == "word" and len(token.text.rstrip("'")) > 1 for token in beside)

    def chain(self, rule: Callable[[], Part], names: dict[str, str], relates: bool = False) -> Part:
        """Reads operands of one rule with these operators between them."""
        parts = [rule()]
        while True:

            def further() -> Part:
                if not (sign := self.infix(names)):
                    raise NoEquation
                return Part(f"<mo>{sign}</mo>{rule().markup}")

            if (part := self.attempt(further)) is None:
                return parts[0] if len(parts) == 1 else Part("".join(one.markup for one in parts))
            self.operators += 1
            self.relates |= relates and not self.depth
            parts.append(part)

    def line(self) -> Part:
        """Reads relations with commas between them."""
        parts = [self.relation().markup]
        while self.text() == ",":
            self.place += 1
            self.skip_spaces()
            parts += ["<mo>,</mo>", self.relation().markup]
        return Part("".join(parts))

    def relation(self) -> Part:
        """Reads a relation."""
        return self.chain(self.sum, RELATIONS, relates=True)

    def sum(self) -> Part:
        """Reads a sum, perhaps with a sign in front."""
        sign = SIGNS.get(self.text()) if self.kind() == "operator" else None
        if sign is None:
            return self.chain(self.product, SIGNS)
        self.place += 1
        self.operators += 1
        return Part(f"<mo form='prefix'>{sign}</mo>{self.chain(self.product, SIGNS).markup}")

    def product(self) -> Part:
        """Reads a product; a "/" divides all factors beside each other before it."""
        # (sign before it, part) of every factor since the last fraction bar's reach.
        found = [("", self.factor())]
        while True:
            if (divisor := self.attempt(self.divisor)) is not None:
                start = next((place for place in range(len(found) - 1, 0, -1) if found[place][0]), 0)
                start = next((place for place, (_, part) in enumerate(found) if part.big), start)
                sign, over = found[start][0], joined([("", found[start][1]), *found[start + 1 :]])
                self.operators += 1
                bar = f"<mfrac><mrow>{over.bare}</mrow><mrow>{divisor.bare}</mrow></mfrac>"
                slash = f"{over.markup}<mo>/</mo>{divisor.markup}"
                found[start:] = [(sign, Part(bar if self.fractions else slash))]
            elif (further := self.attempt(self.multiplied)) is not None:
                found.append((further.inner, further._replace(inner="")))
            elif (beside := self.attempt(partial(self.beside, found[-1][1]))) is not None:
                found.append(("", beside))
            else:
                return joined(found)

    def divisor(self) -> Part:
        """Reads "/" and what it divides by."""
        if not self.infix({"/": "/"}):
            raise NoEquation
        part = self.factor()
        if part.big:
            rest = [("", part)]
            while True:
                if (further := self.attempt(self.multiplied)) is not None:
                    rest.append((further.inner, further._replace(inner="")))
                elif (further := self.attempt(partial(self.beside, rest[-1][1]))) is not None:
                    rest.append(("", further))
                else:
                    return joined(rest)
        return part

    def multiplied(self) -> Part:
        """Reads a sign of multiplication and a factor; the sign is the part's `inner`."""
        if not (sign := self.infix(PRODUCTS)):
            raise NoEquation
        self.operators += 1
        return self.factor()._replace(inner=sign)

    def beside(self, last: Part) -> Part:
        """Reads a factor that stands beside the last one. Beside a word it would be prose."""
        spaced = self.skip_spaces()
        if last.word and not self.calls and self.text() != "[":
            raise NoEquation
        if self.kind() == "number" and not self.calls:
            raise NoEquation
        if not spaced and not (self.kind() == "word" and self.kind(-1) == "number") and self.text() != "(":
            raise NoEquation
        if self.text() == "|" and self.bars:
            raise NoEquation
        return self.factor()

    def factor(self) -> Part:
        """Reads an atom and what stands at it."""
        base = self.atom()
        markup, inner, below = base.markup, base.inner, ""
        primes = self.text(-1).count("'") if self.kind(-1) == "word" else 0
        above = f"<mo>{'′' * primes}</mo>" if primes else ""
        while True:
            name = self.text() if self.kind() == "operator" else ""
            if name in ("^", "_"):
                self.place += 1
                script = self.script()
                self.operators += 1
                if below if name == "_" else above and not primes:
                    markup, below, above, primes = scripted(markup, below, above), "", "", 0
                below, above = (script, above) if name == "_" else (below, above + script)
                inner = ""
            elif name in ("(", "[") and (self.kind(-1) in ("word", "number") or self.text(-1) in (")", "]", "}", "'")):
                self.calls += 1
                part = self.bracketed()
                self.calls -= 1
                if markup == "<mi>sqrt</mi>" and not below:
                    markup = f"<msqrt>{part.inner}</msqrt>"
                else:
                    # An index or a call holds for all that stands before it.
                    markup, below, above = f"{scripted(markup, below, above)}{part.markup}", "", ""
                primes, inner = 0, ""
            else:
                if base.big and below:
                    return Part(f"<munder>{markup}<mrow>{below}</mrow></munder>", big=True)
                bare = markup == base.markup and not below and not above
                return Part(scripted(markup, below, above), inner, base.word and bare)

    def script(self) -> str:
        """Reads an index or exponent."""
        name = self.text()
        if name in ("(", "{"):
            before, self.fractions = self.fractions, False
            inner = self.bracketed().inner
            self.fractions = before
            return inner
        before = ""
        if self.kind() == "operator" and name in {**RELATIONS, "-": "−"}:
            before = f"<mo>{RELATIONS.get(name, '−')}</mo>"
            self.place += 1
        if self.kind() not in ("word", "number"):
            raise NoEquation
        markup = before + self.name().markup
        while self.text() == "," and self.kind(1) == "word" and len(self.text(1)) == 1 and self.kind(2) != "word":
            self.place += 1
            markup += f"<mo>,</mo>{self.name().markup}"
        return markup

    def name(self) -> Part:
        """Reads a number or a word, whatever it is."""
        kind, text = self.kind(), self.text()
        self.place += 1
        if kind == "number":
            digits, _, exponent = text.partition("e")
            power = f"<msup><mn>10</mn><mn>{exponent.replace('-', '−')}</mn></msup>"
            shown = power if digits == "1" else f"<mn>{digits}</mn><mo>·</mo>{power}"
            return Part(shown if exponent else f"<mn>{digits}</mn>")
        plain = text.rstrip("'")
        if plain in FUNCTIONS:
            return Part(f"<mi>{plain}</mi>")
        return Part(f"<mi>{GREEK.get(plain, plain)}</mi>", word=len(plain) > 1 and plain not in GREEK)

    def atom(self) -> Part:
        """Reads a number, a name, or what is in brackets or between bars."""
        kind, text = self.kind(), self.text()
        if kind == "number":
            return self.name()
        if kind == "word" and self.is_name():
            plain, suffix = text.rstrip("'"), self.text(1)
            part = self.name()
            # x0 is x with an index.
            if len(plain) == 1 and self.kind() == "number" and (plain.islower() or plain == "W") and suffix.isdigit():
                self.place += 1
                return Part(scripted(part.markup, f"<mn>{suffix}</mn>", ""))
            return part._replace(big=plain == "sum") if plain != "sum" else Part("<mo>∑</mo>", big=True)
        if kind == "operator" and text in CLOSING:
            return self.bracketed()
        if kind == "operator" and text == "|" and not self.bars:
            self.place += 1
            self.bars += 1
            self.operators += 1
            inner = self.relation().markup
            self.skip_spaces()
            if self.text() != "|":
                raise NoEquation
            self.place += 1
            self.bars -= 1
            bar = "<mo>&#124;</mo>"
            return Part(f"<mrow>{bar}{inner}{bar}</mrow>")
        if kind == "operator" and text in ("..", "..."):
            self.place += 1
            self.operators += 1
            return Part("<mo>…</mo>")
        raise NoEquation

    def is_name(self) -> bool:
        """Returns whether a word is part of an equation."""
        plain, after = self.text().rstrip("'"), self.text(1)
        if plain == "sum" and not self.calls:
            return after == "_"
        if self.calls or plain in GREEK or plain in WORDS or after in ("(", "_"):
            return True
        if len(plain) > 1:
            return False
        if plain not in ARTICLES or self.text() != plain or after in ("^", "[", ")", "]"):
            return True
        following = 2 if self.kind(1) == "space" else 1
        name = self.text(following)
        if self.kind(following) == "operator":
            return name not in ("(", "[", ",", ";", ":", ".") or self.depth > 0
        if name in FUNCTIONS:
            return True
        return self.kind(following) == "word" and (len(name) == 1 or self.text(following + 1) in ("_", "("))

    def bracketed(self) -> Part:
        """Reads a list in brackets."""
        opening = self.text()
        closing, bars = CLOSING[opening], self.bars
        self.place += 1
        self.depth += 1
        self.operators += 1
        self.bars, parts = 0, []
        while True:
            self.skip_spaces()
            if (part := self.attempt(self.relation)) is not None:
                parts.append(part.markup)
            self.skip_spaces()
            name = self.text()
            self.place += 1
            if name == closing:
                break
            if name not in (",", ";", ":", "|", ".."):
                raise NoEquation
            parts.append({"|": "<mo>∣</mo>", "..": "<mo>…</mo>"}.get(name, f"<mo>{name}</mo>"))
        if not parts:
            raise NoEquation
        self.depth -= 1
        self.bars = bars
        inner = "".join(parts)
        # Brackets around letters with exponents are not larger than others.
        size = "" if "<mfrac>" in inner or "∑" in inner else " stretchy='false'"
        shown = (f"<mo{size}>&#{ord(sign)};</mo>" for sign in (opening, closing))
        return Part(f"<mrow>{next(shown)}{inner}{next(shown)}</mrow>", inner)


def joined(found: list[tuple[str, Part]]) -> Part:
    """Returns a product of parts, each with the sign before it."""
    if len(found) == 1:
        return found[0][1]
    markup = [found[0][1].markup]
    for (_, before), (sign, part) in itertools.pairwise(found):
        space = "0.3em" if before.word or part.word else "0.1667em"
        markup += [f"<mo>{sign}</mo>" if sign else f"<mspace width='{space}'/>", part.markup]
    return Part("".join(markup), big=found[0][1].big)


def scripted(base: str, below: str, above: str) -> str:
    """Returns MathML of a base with an index and an exponent, if there are any."""
    rows = [f"<mrow>{part}</mrow>" for part in (below, above) if part]
    name = {(True, True): "msubsup", (True, False): "msub", (False, True): "msup"}.get((bool(below), bool(above)))
    return base if name is None else f"<{name}><mrow>{base}</mrow>{''.join(rows)}</{name}>"
