"""The embeddings that a model adds for each token of a text: of its id, its segment and its position
(Devlin et al. 2019, figure 2).
"""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure

from zoo.config import ResolvedConfig, side
from zoo.draw.diagrams.canvas import QUIET, Canvas
from zoo.errors import ConfigError
from zoo.layers.position import Position
from zoo.layers.position.absolute import Learned
from zoo.models.architectures import make_model
from zoo.models.language_model import Tower

LEFT, PITCH, WIDTH = 1.35, 0.53, 0.47
"""Left edge of the tokens, the distance of two, and the width of a box, in inches."""
HEIGHT, GAP = 0.24, 0.17
"""Height of a box, and the room for a plus sign between two."""
IN_A_ROW, MOST = 18, 108
"""Tokens beside each other, and in all."""
PADDED = 2
"""Padding that is shown after the text, if there is room, of models that read padded rows."""
NO_POSITION = {
    "rope": "no position is added: RoPE rotates queries and keys in attention",
    "none": "no position is added",
}


class EmbeddingRow(NamedTuple):
    """One of the vectors that are summed, for every token.

    Attributes:
        name: what it depends on: token, segment or position.
        table: its rows and their width, as text.
        role: key of `canvas.FILLS`.
        symbol: letter of the table.
        rows: for every token the row of the table, or the position of which it is a function.
    """

    name: str
    table: str
    role: str
    symbol: str
    rows: tuple[int, ...]


class EmbeddingSum(NamedTuple):
    """The sum that enters the first layer.

    Attributes:
        rows: the vectors that are summed.
        notes: what happens to the sum, or to the position instead, in words.
        padded: whether rows of the model's data may end in padding.
    """

    rows: tuple[EmbeddingRow, ...]
    notes: tuple[str, ...]
    padded: bool


def embedding_sum(config: ResolvedConfig, ids: Sequence[int], segments: Sequence[int]) -> EmbeddingSum:
    """Returns what the model adds for tokens at positions 0, 1, ... of a row: of an encoder-decoder
    what the encoder adds.

    Args:
        config: resolved.
        ids: ids of the tokens.
        segments: number of the segment of each token.

    Raises:
        ConfigError: the model embeds characters.
    """
    model = config.model
    if model.architecture == "elmo":
        raise ConfigError("model.architecture=elmo embeds the characters of words; it has no table to draw")
    both = model.architecture == "encoder_decoder"
    tower, own = make_model(config), side(model, "encoder") if both else model
    tower = tower.encoder if both else tower
    width = own.embedding.dim or own.dim
    wide = own.dim if own.embedding.projection == "tokens" else width
    rows = [EmbeddingRow("token", f"{own.vocab_size:,} rows of {width:,}", "embedding", "E", tuple(ids))]
    if tower.segments is not None:
        table = f"{own.embedding.segments} row{'s' * (own.embedding.segments > 1)} of {wide:,}"
        rows.append(EmbeddingRow("segment", table, "softmax", "S", tuple(segments)))
    position, places = tower.position, range(len(ids))
    if isinstance(position, Learned):
        shown = tuple(place + position.offset for place in places)
        table = f"{position.offset + position.max_length:,} rows of {wide:,}"
        rows.append(EmbeddingRow("position", table, "position", "P", shown))
    elif type(position).embed is not Position.embed:
        shown = tuple(place + getattr(position, "offset", 0) for place in places)
        rows.append(EmbeddingRow("position", f"{own.position.kind}, {wide:,} wide", "position", "p", shown))
    return EmbeddingSum(tuple(rows), tuple(_notes(own, tower, len(rows))), model.architecture != "decoder")


def _notes(own: ResolvedConfig, tower: Tower, count: int) -> list[str]:
    notes = []
    if own.embedding.multiplier != 1:
        notes.append(f"token embeddings are multiplied by {own.embedding.multiplier:g}")
    if own.embedding.scale == "sqrt_dim":
        notes.append("token embeddings are multiplied by the square root of their width")
    kind = own.position.kind
    if type(tower.position).embed is Position.embed:
        notes.append(NO_POSITION.get(kind, f"no position is added: {kind} adds to the scores of attention"))
    steps = ["the sum" if count > 1 else "the token embedding"]
    if tower.embedding_norm is not None:
        steps.append(type(tower.embedding_norm).__name__)
    if own.embedding.dim:
        steps.append(f"{own.embedding.dim:,} → {own.dim:,}")
    return [*notes, " → ".join([*steps, "layer 0"])]


def page(
    config: ResolvedConfig, name: str, tokens: Sequence[str], ids: Sequence[int], segments: Sequence[int]
) -> Figure:
    """Draws the tokens of a text, and below each the vectors that are summed; long texts have several
    bands.

    Args:
        config: resolved.
        name: title of the figure.
        tokens: their texts.
        ids, segments: as for `embedding_sum`.

    Raises:
        ConfigError: the text is too long for a page, or there is nothing to draw.
    """
    if len(ids) > MOST:
        raise ConfigError(f"--text has {len(ids)} tokens; a page holds {MOST}: give a shorter one")
    found, canvas = embedding_sum(config, ids, segments), Canvas()
    bands = -(-len(tokens) // IN_A_ROW)
    padding = min(PADDED, bands * IN_A_ROW - len(tokens)) if found.padded else 0
    shown = [*tokens, *["[PAD]"] * padding]
    columns = -(-len(shown) // bands)
    y, right = 0.0, LEFT + columns * PITCH
    for start in range(0, len(shown), columns):
        y = _draw_band(canvas, found, shown, range(start, min(start + columns, len(shown))), len(tokens), y) - 0.4
    y += 0.2
    notes = list(found.notes)
    if padding:
        notes.append("[PAD] fills a row up to its length: no token attends to it, and it is not predicted")
    for row, note in enumerate(notes):
        canvas.text(LEFT, y - 0.16 * row, note, 8, ha="left")
    right = max(right, LEFT + 0.062 * max(map(len, notes)))
    canvas.text((right + 0.1) / 2, 0.42, f"{name}: what enters the first layer", 10, weight="bold")
    return canvas.finish(0.0, y - 0.16 * len(notes), right + 0.1, 0.62)


def _draw_band(canvas: Canvas, found: EmbeddingSum, shown: list[str], places: range, count: int, top: float) -> float:
    """Draws the columns of some tokens; returns where they end. `count` tokens are not padding."""

    def left(place: int) -> float:
        return LEFT + PITCH * (place - places.start)

    canvas.text(LEFT - 0.12, top, "tokens", 8, ha="right", weight="bold")
    bottoms = [top - 0.2 - GAP - HEIGHT - number * (HEIGHT + GAP) for number in range(len(found.rows))]
    for place in places:
        text = shown[place] if len(shown[place]) <= 9 else shown[place][:8] + "…"
        canvas.box(left(place), top - HEIGHT / 2, (WIDTH, HEIGHT), "input", dashed=place >= count)
        canvas.text(left(place) + WIDTH / 2, top, text, 7 if len(text) < 8 else 6)
    for number, (row, bottom) in enumerate(zip(found.rows, bottoms, strict=True)):
        middle = bottom + HEIGHT / 2
        canvas.text(LEFT - 0.12, middle + 0.055, row.name, 8, ha="right", weight="bold")
        canvas.text(LEFT - 0.12, middle - 0.075, row.table, 6.5, ha="right", color=QUIET)
        for place in places:
            if place >= count:
                continue
            centre = left(place) + WIDTH / 2
            text = f"p({row.rows[place]})" if row.symbol == "p" else f"{row.symbol}[{row.rows[place]}]"
            canvas.box(left(place), bottom, (WIDTH, HEIGHT), row.role)
            canvas.text(centre, middle, text, 7 if len(text) < 8 else 6.3)
            if number:
                canvas.text(centre, bottom + HEIGHT + GAP / 2, "+", 8)
            else:
                canvas.line((centre, top - HEIGHT / 2), (centre, bottom + HEIGHT), arrow=True)
    return bottoms[-1]
