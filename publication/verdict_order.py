"""The words for outcomes and verdicts, in the order in which one of several decides."""

from collections.abc import Collection

# The outcome of a contrast, and the verdict of a claim on which it decides. The first that occurs
# among the contrasts of a claim decides it.
VERDICT_OF = {
    "refuted": "not supported",
    "not testable": "not testable",
    "not tuned": "not tuned",
    "undecided": "undecided",
    "holds": "supported",
}
DECIDED = ("supported", "not supported")
# Verdicts of experiments that decide nothing about their claim, whatever the interval.
SILENT = ("not testable", "not tuned")


def deciding_rank(outcome: str) -> int:
    """Returns the place of a contrast's outcome in the order of deciding."""
    return list(VERDICT_OF).index(outcome)


def verdict_of_all(verdicts: Collection[str]) -> str:
    """Returns the verdict on a claim from those of all its experiments and measurements."""
    return next((verdict for verdict in VERDICT_OF.values() if verdict in verdicts), "undecided")
