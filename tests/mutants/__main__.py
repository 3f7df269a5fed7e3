"""`python -m tests.mutants [WORD ...]` applies each fault and runs the tests named for it.

Faults are applied to a copy of the repository: the working tree is never touched.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.catalogue import MUTANTS
from tests.mutants.runner import copy_sources, failing_without_fault, is_caught

ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only faults whose name or file contains one of these")
    parser.add_argument("--list", action="store_true", help="print the names and run nothing")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="only every N-th fault, from the I-th on")
    arguments = parser.parse_args()
    words = arguments.words
    chosen = [one for one in MUTANTS if not words or any(word in one.name or word in one.file for word in words)]
    first, _, parts = arguments.part.partition("/")
    chosen = chosen[int(first) - 1 :: int(parts)]
    if arguments.list:
        print(*(one.name for one in chosen), sep="\n")
        return 0
    problems = [problem for one in chosen if (problem := one.problem(ROOT))]
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 2
    missed, began = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="zoo-mutants-") as folder:
        copy = copy_sources(ROOT, Path(folder))
        if broken := failing_without_fault(chosen, copy):
            print(*(f"fails without any fault: {tests}" for tests in broken), sep="\n", file=sys.stderr)
            return 2
        for number, one in enumerate(chosen, 1):
            caught = is_caught(one, copy)
            left = (time.monotonic() - began) / number * (len(chosen) - number)
            print(
                f"{number}/{len(chosen)} {'caught' if caught else 'MISSED'}: {one.name} ({left / 60:.0f} min left)",
                flush=True,
            )
            if not caught:
                missed.append(one)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults were caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
