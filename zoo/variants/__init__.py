"""The variants of a model's parts: a table of them, and a page about each, computed from the code.

`zoo describe NAME` prints a page.
"""

from zoo.variants.table import VARIANTS
from zoo.variants.variant import Variant

__all__ = ["VARIANTS", "Variant"]
