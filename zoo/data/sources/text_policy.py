"""Handles bad text: bytes that are not UTF-8, and NUL characters."""

import re
from collections import Counter

from zoo.errors import ConfigError, DataError

REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")


class BadTextPolicy:
    """Applies `data.bad_text` during one pass over a source, and counts.

    Attributes:
        policy: a value of `data.bad_text`.
        counts: how often each kind of bad text was replaced or skipped.
        missing_column: the first error about a column that a record does not have, if such records
            were skipped. It is a mistake in the config if no record is left.
        undivided: files of several paragraphs in which `data.document_separator` does not occur.
    """

    def __init__(self, policy: str):
        self.policy = policy
        self.counts: Counter[str] = Counter()
        self.missing_column: ConfigError | None = None
        self.undivided: list[str] = []

    def decode(self, content: bytes, where: str, offset: int = 0) -> str | None:
        """Decodes bytes; returns None for text that is skipped.

        Args:
            content: the bytes.
            where: their location, which begins the error message.
            offset: number of bytes before them in their file.

        Raises:
            DataError: not UTF-8, or a NUL, and the policy is `error`.
        """
        try:
            return self.check(content.decode(), where)
        except UnicodeDecodeError as error:
            if self.policy == "error":
                raise self.error(
                    where, f"not UTF-8: byte 0x{content[error.start]:02x} at byte offset {offset + error.start}"
                ) from error
            self.counts["not UTF-8"] += 1
            return self.check(content.decode(errors="replace"), where) if self.policy == "replace" else None

    def check(self, text: str, where: str) -> str | None:
        """Returns a text as it is kept, or None if it is skipped.

        Raises as `decode`; a lone surrogate is not UTF-8 either.
        """
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError as error:
                if self.policy == "error":
                    raise self.error(where, f"not UTF-8: lone surrogate U+{ord(text[error.start]):04X}") from error
                self.counts["not UTF-8"] += 1
                if self.policy == "skip":
                    return None
                text = _SURROGATES.sub(REPLACEMENT, text)
        if "\0" in text:
            if self.policy == "error":
                raise self.error(where, f"a NUL character at character {text.index(chr(0))} of it")
            self.counts["with NUL"] += 1
            return text.replace("\0", REPLACEMENT) if self.policy == "replace" else None
        return text

    def skip_record(self, why: str, where: str, problem: str) -> None:
        """Counts a record that cannot be read and has no replacement.

        Raises:
            DataError: the policy is not `skip`.
        """
        if self.policy != "skip":
            raise DataError(f"{where}: {problem}; fix it, or skip such records with data.bad_text=skip")
        self.counts[why] += 1

    def skip_without_column(self, column: str, error: ConfigError) -> None:
        """Counts a record without a column.

        Raises:
            ConfigError: `error`, if the policy is not `skip`.
        """
        if self.policy != "skip":
            raise error
        self.missing_column = self.missing_column or error
        self.counts[f'without "{column}"'] += 1

    @staticmethod
    def error(where: str, problem: str) -> DataError:
        """Returns an error of one line that says what to do."""
        return DataError(f"{where}: {problem}; convert it to UTF-8 text, or set data.bad_text to replace or skip")

    @staticmethod
    def describe_counts(counts: Counter[str], which: str = "") -> str:
        """Returns counts in brackets, as text for display; "" if nothing was skipped or replaced.

        Args:
            counts: of texts that were skipped or replaced, by the reason.
            which: what they are counted in, e.g. "held-out ".
        """
        parts = (f"{count:,} {what}" for what, count in sorted(counts.items()) if count)
        text = ", ".join(parts)
        return f" (bad {which}text: {text})" if text else ""

    def summary(self) -> str:
        """Describes what was counted so far."""
        return self.describe_counts(self.counts)
