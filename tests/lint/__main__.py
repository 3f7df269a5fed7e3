"""`python -m tests.lint` prints every problem that a rule finds, as FILE:LINE: TEXT, and exits with 1
if there is one.
"""

import itertools
import sys

import zoo
from tests.lint import docstrings, pages, variants
from tests.published.test_configs import COUNTS
from zoo.variants import VARIANTS


def main() -> int:
    """Runs all rules."""
    rules = (
        docstrings.openings(),
        docstrings.parameter_counts(COUNTS),
        docstrings.margins(),
        docstrings.documented_claims(),
        pages.links(),
        pages.navigation(),
        pages.versions(zoo.__version__),
        pages.notebooks(),
        variants.equations(VARIANTS),
        variants.names(VARIANTS),
        variants.papers(VARIANTS),
        variants.recorded_tests(),
    )
    problems = list(dict.fromkeys(itertools.chain(*rules)))
    print(*problems, sep="\n", end="\n" if problems else "")
    if problems:
        print(f"{len(problems)} problems", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
