"""What can be varied in a model: a table of the variants, and a page about each, computed from the
code.

`zoo describe NAME` prints a page; `python -m zoo.variants docs/variants` writes them all.
"""

from zoo.variants.table import VARIANTS
from zoo.variants.variant import PARITY, TOLERANCE, ReferenceTest, Variant

__all__ = ["PARITY", "TOLERANCE", "VARIANTS", "ReferenceTest", "Variant"]
