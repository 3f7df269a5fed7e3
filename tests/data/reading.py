"""Documents as whole texts, which the code never has in memory together."""


def texts_of(documents):
    """The texts, in order, as a tuple."""
    texts = []
    for opens, text in documents.pieces():
        if opens:
            texts.append(text)
        else:
            texts[-1] += text
    return tuple(texts)
