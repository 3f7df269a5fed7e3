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
    "N": "tokens to predict, at most, in a row",
    "M": "width of the cell of an LSTM",
    "L": "layers",
}
# A letter of a word, of a matrix (W_q), of a place (Canon-B) or of a call such as K(x) is not a size.
SIZE = re.compile(rf"(?<![\w^'-])([{''.join(LETTERS)}])(?![\w'(])")
# Letters that a text defines: "W = `attention.window`", "with M random vectors", "Phi the mean".
DEFINED = re.compile(r"(?<![\w^'-])([A-Z])(?: = (?=[`a-z])| the (?!s\b))|(?<=[Ww]ith )([A-Z])(?= [a-z[<])")
MATRICES = "W_"
# Other symbols of equations: {name: (where it occurs, its meaning)}.
SYMBOLS = {
    "E": (r"\bE(?=\[|\^T)|embedding E\b", "table of token embeddings"),
    "P": (r"\bP(?=\[)", "table of positions"),
    "W, b": (r"\bW'? \+ b", "a learned matrix and bias"),
    MATRICES: (r"\bW_\w+", "learned weights"),
    "x": (
        r"(?<![\w<])x(?:_t)?(?= W_| w_h| = (?!E)| \+ P)|Norm(?:_1)?\(x\)",
        "a token's vector at this point in the model",
    ),
    "h": (r"(?<![\w/] )(?<!\w)h(?= E\^T| W| / sqrt)", "state of a token after the last layer"),
    "f": (r"(?:= |\+ |\* |Norm\()f\((?:Norm\()?x\b(?! W)", "attention or the feed-forward layer"),
    "act": (r"\bact\((?!x\) =)(?!.*\bact\(x\) =)", "activation of the feed-forward layer"),
    "scale": (r"\bscale \* q|\(k_s \+ a_d\) \* scale", "1 / sqrt(K), or `attention.scale`"),
    "p_s": (r"\bp_s =", "weight of key s"),
    "q, k, v": (
        r"\bq(?:_\w)? (?:k|\. k)|cos\(q_t|\bq(?:_h)? = (?:q|s_h)|\ba_h \. v|- \(a_h",
        "query, key and value of a head",
    ),
    "p": (r"PE\[p|rotate by p|angle p ", "position of a token"),
    "theta": (r"\btheta\b", "`position.theta`, 10,000 by default"),
    "epsilon": (r"\+ epsilon", "`norm.epsilon`"),
}


def legend(text: str) -> str:
    """Returns what the letters and symbols in a text mean, "B: rows of a batch; D: ...";
    "" without any.

    Letters that the text defines are left out.
    """
    symbols = {name: meaning for name, (where, meaning) in SYMBOLS.items() if re.search(where, text, re.DOTALL)}
    if MATRICES in symbols:
        # They stand under the names that the text has for them.
        names = dict.fromkeys(re.findall(SYMBOLS[MATRICES][0], text))
        symbols = {", ".join(names) if name == MATRICES else name: meaning for name, meaning in symbols.items()}
    used = set(SIZE.findall(" ".join([text, *symbols.values()]))) - defined(text)
    meanings = {letter: meaning for letter, meaning in LETTERS.items() if letter in used} | symbols
    return "; ".join(f"{name}: {meaning}" for name, meaning in meanings.items())


def defined(text: str) -> set[str]:
    """Returns the capital letters that a text defines."""
    return {letter for found in DEFINED.findall(text) for letter in found if letter}
