"""What becomes of text that is no text: bytes that are not UTF-8, and NUL characters."""

import re
from collections import Counter

from zoo.errors import DataError

REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")


class BadTextPolicy:
    """Applies `data.bad_text` during one pass over a source, and counts.

    Attributes:
        policy: a key of `POLICIES`.
        counts: how often each kind of bad text was replaced or left out.
    """

    def __init__(self, policy: str):
        self.policy = policy
        self.counts: Counter[str] = Counter()

    def decode(self, content: bytes, where: str, offset: int = 0) -> str | None:
        """The text of bytes, or None where it is left out.

        Args:
            content: the bytes.
            where: what they are; begins the line of an error.
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
        """The text as it is kept, or None where it is left out. Raises as `decode`; a lone
        surrogate is not UTF-8 either.
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
        """Counts a record that cannot be read at all, for which nothing can stand.

        Raises:
            DataError: the policy is not `skip`.
        """
        if self.policy != "skip":
            raise DataError(f"{where}: {problem}; mend it, or leave such records out with data.bad_text=skip")
        self.counts[why] += 1

    @staticmethod
    def error(where: str, problem: str) -> DataError:
        """One line with a way out."""
        return DataError(f"{where}: {problem}; convert it to UTF-8 text, or set data.bad_text to replace or skip")

    @staticmethod
    def describe_counts(counts: Counter[str]) -> str:
        """The counts in brackets, for people; empty where nothing was left out."""
        parts = (f"{count:,} {what}" for what, count in sorted(counts.items()) if count)
        text = ", ".join(parts)
        return f" (bad text: {text})" if text else ""

    def summary(self) -> str:
        """`describe_counts` of what was counted so far."""
        return self.describe_counts(self.counts)
