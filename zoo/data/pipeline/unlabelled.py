"""Defaults of data sets without labels."""

from typing import Any


class UnlabelledDataset:
    """A data set of text: losses are means over tokens, and no example has a label."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes: none."""
        return ()

    @property
    def changed_text(self) -> list[str]:
        """Lines that say where the tokens of a part do not stand for its text."""
        return []

    def measure(self, outputs: Any, length: int | None = None) -> dict[str, float]:
        """Returns no scores beyond the losses."""
        return {}
