"""The special tokens around a text that a published model reads, and those that end what it writes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class TextFrame:
    """The special tokens around a text, as the published class and its tokenizer have them.

    Attributes:
        before, after: ids around the text that a model reads, or the encoder of an encoder-decoder.
        decoder: ids with which the decoder of an encoder-decoder begins; empty without one.
        ends: ids that end a generated text; if empty, any special token does.
        blanks: ids that stand for the blanks "<0>", "<1>", ... of a text (T5's sentinels).
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    decoder: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    blanks: tuple[int, ...] = ()

    def around(self, ids: Sequence[int]) -> list[int]:
        """Returns the ids of a text with those around it; `before` is not repeated where the text has
        it already.
        """
        begins = tuple(ids[: len(self.before)]) == self.before
        return [*(() if begins else self.before), *ids, *self.after]

    def to_record(self) -> dict[str, list[int]]:
        """Returns the frame as plain JSON."""
        return {name: list(ids) for name, ids in asdict(self).items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        """Returns the frame of `to_record`; None without one."""
        return None if record is None else cls(**{name: tuple(ids) for name, ids in record.items()})
