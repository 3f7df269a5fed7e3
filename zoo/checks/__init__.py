"""Properties of a kind: what every variant of a model, an objective or an optimizer has to fulfil.

`zoo check` runs them on a user's kind, and the tests of zoo on its own. A property is a function of a
`Subject` that returns what was compared; it raises `Fails` or `NotApplicable` with the reason.
"""

from zoo.checks.check import PROPERTIES, Outcome, check_kind
from zoo.checks.outcome import Fails, NotApplicable
from zoo.checks.subject import Subject

__all__ = ["PROPERTIES", "Fails", "NotApplicable", "Outcome", "Subject", "check_kind"]
