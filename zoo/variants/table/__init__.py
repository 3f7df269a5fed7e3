"""The variants: kinds that describe themselves, and the settings of other fields in this package.

A kind needs nothing here. A setting needs one entry in a module of this package, besides its code,
its field and its test. A test finds choices of fields that have no entry.
"""

from collections.abc import Iterable

from zoo.config.kinds import KIND_TABLES
from zoo.variants.table.architecture_variants import ARCHITECTURE_VARIANTS
from zoo.variants.table.attention_variants import ATTENTION_VARIANTS
from zoo.variants.table.expert_variants import EXPERT_VARIANTS
from zoo.variants.table.feedforward_variants import FEEDFORWARD_AND_HEAD_VARIANTS
from zoo.variants.table.head_variants import HEAD_VARIANTS
from zoo.variants.table.norm_variants import NORM_VARIANTS
from zoo.variants.table.position_variants import POSITION_VARIANTS
from zoo.variants.table.task_variants import TASK_VARIANTS
from zoo.variants.variant import Variant, has_page, of_kind

# In the order in which parts are listed.
PARTS = (
    "normalisation",
    "placement",
    "position",
    "attention",
    "convolution",
    "feed-forward layer",
    "embedding and head",
    "architecture",
    "objective",
    "task",
)


def _by_part(variants: Iterable[Variant]) -> list[Variant]:
    return sorted(variants, key=lambda variant: PARTS.index(variant.part))


# A list, to which plug-ins add the variants that they register.
VARIANTS: list[Variant] = _by_part(
    [
        *(of_kind(kind) for table in KIND_TABLES.values() for kind in table.by_name.values() if has_page(kind)),
        *NORM_VARIANTS,
        *POSITION_VARIANTS,
        *ATTENTION_VARIANTS,
        *HEAD_VARIANTS,
        *FEEDFORWARD_AND_HEAD_VARIANTS,
        *EXPERT_VARIANTS,
        *ARCHITECTURE_VARIANTS,
        *TASK_VARIANTS,
    ]
)
