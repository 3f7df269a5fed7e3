"""The table of variants: every choice of a model's parts, its changes, and its reference tests.

A new variant needs one entry in a module of this package, besides its code, its field and its test.
The entries are tested: the systems they name have the variant, their tests exist and use the given
tolerance, and no choice of a field is missing.
"""

from zoo.variants.table.architecture_variants import ARCHITECTURE_VARIANTS
from zoo.variants.table.attention_variants import ATTENTION_VARIANTS
from zoo.variants.table.convolution_variants import CONVOLUTION_VARIANTS
from zoo.variants.table.feedforward_variants import FEEDFORWARD_AND_HEAD_VARIANTS
from zoo.variants.table.head_variants import HEAD_VARIANTS
from zoo.variants.table.norm_variants import NORM_VARIANTS
from zoo.variants.table.position_variants import POSITION_VARIANTS
from zoo.variants.table.task_variants import TASK_VARIANTS
from zoo.variants.table.value_variants import VALUE_VARIANTS
from zoo.variants.variant import Variant

# A list, to which plug-ins add the variants that they register.
VARIANTS: list[Variant] = [
    *NORM_VARIANTS,
    *POSITION_VARIANTS,
    *ATTENTION_VARIANTS,
    *HEAD_VARIANTS,
    *CONVOLUTION_VARIANTS,
    *VALUE_VARIANTS,
    *FEEDFORWARD_AND_HEAD_VARIANTS,
    *ARCHITECTURE_VARIANTS,
    *TASK_VARIANTS,
]
