"""Results that papers and open experiment logs report about variants, by the name of the variant.

Numbers are in the units of the source. Only comparisons of a variant with another one are listed,
with the table or section that has them where it is known. Sources that disagree stand together.
They are not what was found here: that is in the section before.
"""

from zoo.variants.published.attention_results import ATTENTION_RESULTS
from zoo.variants.published.feedforward_results import FEEDFORWARD_AND_HEAD_RESULTS
from zoo.variants.published.norm_results import NORM_RESULTS
from zoo.variants.published.objective_results import OBJECTIVE_RESULTS
from zoo.variants.published.position_results import POSITION_RESULTS

PUBLISHED: dict[str, tuple[str, ...]] = (
    NORM_RESULTS | POSITION_RESULTS | ATTENTION_RESULTS | FEEDFORWARD_AND_HEAD_RESULTS | OBJECTIVE_RESULTS
)

__all__ = ["PUBLISHED"]
