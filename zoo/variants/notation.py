"""The letters of equations and shapes, the same on every page."""

import re

LETTERS = {
    "B": "rows of a batch",
    "T": "tokens of a row, with t a query's place",
    "S": "tokens that queries read, with s a key's place (T in self-attention)",
    "D": "width of the model",
    "H": "heads, each with queries of its own",
    "G": "heads with keys and values of their own",
    "K": "width of a head",
    "F": "hidden width of the feed-forward layer",
    "V": "size of the vocabulary",
    "L": "layers",
}
# A letter of a word, of a matrix (W_q) or of a call such as K(x) is not a size.
SIZE = re.compile(rf"(?<![\w^'])([{''.join(LETTERS)}])(?![\w'(])")


def legend(text: str) -> str:
    """Returns what the letters in a text mean, "B: rows of a batch; D: ..."; "" without letters."""
    used = set(SIZE.findall(text))
    return "; ".join(f"{letter}: {meaning}" for letter, meaning in LETTERS.items() if letter in used)
