"""Reads documents as whole texts; zoo itself never holds them all in memory."""


def texts_of(documents):
    """Returns the texts, in order, as a tuple."""
    texts = []
    for opens, text in documents.pieces():
        if opens:
            texts.append(text)
        else:
            texts[-1] += text
    return tuple(texts)
