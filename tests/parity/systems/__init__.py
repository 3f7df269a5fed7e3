"""The systems that are compared with the library that defined them: tiny models with random weights,
and the parameter counts of published models.

Nothing here imports torch: the stored outputs and the table are checked without it.
"""

from tests.parity.systems.alibi import ALIBI
from tests.parity.systems.comparisons import COMPARISONS
from tests.parity.systems.controls import CONTROLS
from tests.parity.systems.decoders import DECODERS
from tests.parity.systems.elmo import ELMO
from tests.parity.systems.encoder_decoders import ENCODER_DECODERS
from tests.parity.systems.encoders import ENCODERS
from tests.parity.systems.later_decoders import LATER_DECODERS
from tests.parity.systems.mixtures import MIXTURES
from tests.parity.systems.performers import PERFORMERS
from tests.parity.systems.record import FIVE, Comparison, Published, System
from tests.parity.systems.state_mixers import STATE_MIXERS

__all__ = ["COMPARISONS", "FIVE", "OF_FIVE", "SYSTEMS", "Comparison", "Published", "System"]

SYSTEMS: tuple[System, ...] = (
    *DECODERS,
    *LATER_DECODERS,
    *MIXTURES,
    *STATE_MIXERS,
    *ENCODERS,
    *ALIBI,
    *ENCODER_DECODERS,
    *PERFORMERS,
    *ELMO,
    *CONTROLS,
)
# The systems whose reference is a class that only transformers 5 has.
OF_FIVE = tuple(system for system in SYSTEMS if system.library == FIVE)
