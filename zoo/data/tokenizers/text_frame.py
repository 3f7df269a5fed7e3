"""The special tokens around a text that a published model reads, and those that end what it writes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from zoo.errors import DataError


@dataclass(frozen=True)
class TextFrame:
    """The special tokens around a text, as the published class and its tokenizer have them.

    Attributes:
        before, after: ids around the text that a model reads, or the encoder of an encoder-decoder.
        decoder: ids with which the decoder of an encoder-decoder begins; empty without one.
        ends: ids that end a generated text; if empty, `Tokenizer.end_ids` do.
        blanks: ids that stand for the blanks "<0>", "<1>", ... of a text (T5's sentinels).
        alone: what a text of no tokens is read as; if empty, the token that opens documents.
        between: ids between the two texts of a pair.
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    decoder: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    blanks: tuple[int, ...] = ()
    alone: tuple[int, ...] = ()
    between: tuple[int, ...] = ()

    def around(self, ids: Sequence[int]) -> list[int]:
        """Returns the ids of a text with those around it, not repeated where the text has them."""
        own = tuple(ids)
        own = own[len(self.before) :] if own[: len(self.before)] == self.before else own
        ends = bool(self.after) and own[-len(self.after) :] == self.after
        return [*self.before, *own, *(() if ends else self.after)]

    def to_record(self) -> dict[str, list[int]]:
        """Returns the frame as plain JSON."""
        return {name: list(ids) for name, ids in asdict(self).items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        """Returns the frame of `to_record`; None without one.

        Raises:
            DataError: the record is not one of `to_record`.
        """
        if record is None:
            return None
        names = [field.name for field in fields(cls)]
        if not isinstance(record, dict) or not all(name in names and _are_ids(ids) for name, ids in record.items()):
            raise DataError(
                f"meta.json: imported.text_frame is {record!r:.80}; expected lists of token ids under "
                f"{', '.join(names)}: import the checkpoint again"
            )
        return cls(**{name: tuple(ids) for name, ids in record.items()})


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(id) is int for id in value)
