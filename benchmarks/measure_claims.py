"""Measures the claims about time and memory, judges them by their rules, and writes a page for each.

    python benchmarks/measure_claims.py                 # all of them
    python benchmarks/measure_claims.py windows rope_forms
    python benchmarks/measure_claims.py --pages         # judge and write again what was measured
    python benchmarks/measure_claims.py --smoke --output DIR   # the smallest models: does it run?

Each claim has a folder with the table of its measurements, the verdict, a picture and the page.
`python -m publication results` adds the verdicts to the table of all claims. What is compared is
called in turn, and a turn in which other processes used much of the machine is thrown away.
"""

import argparse
import time
from pathlib import Path

from claims import kv_cache, norm_time, position_bias, recurrence, rope_forms, windows
from claims.measured_claim import rewrite_page, save_measurements
from claims.turns import Settings

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "results" / "measured"
CLAIMS = {
    claim.name: claim
    for claim in (
        kv_cache.SHARED_HEADS,
        kv_cache.CONTEXTS,
        windows.CLAIM,
        position_bias.CLAIM,
        rope_forms.CLAIM,
        recurrence.CLAIM,
        norm_time.CLAIM,
    )
}


def main() -> None:
    """Command line."""
    defaults = Settings()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CLAIMS)} (default: all)")
    parser.add_argument("--output", type=Path, default=FOLDER, help="default: docs/results/measured")
    parser.add_argument(
        "--pages", action="store_true", help="measure nothing; judge what was measured, write the pages"
    )
    parser.add_argument("--rounds", type=int, default=defaults.rounds, help="clean turns (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=defaults.calls, help="calls in a turn (default: %(default)s)")
    parser.add_argument(
        "--foreign",
        type=float,
        default=defaults.foreign,
        help="largest share of the machine that others may use in a turn (default: %(default)s)",
    )
    parser.add_argument("--smoke", action="store_true", help="the smallest models, one turn, beside any other work")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - set(CLAIMS)):
        parser.error(f"no claim is called {', '.join(unknown)}; there are {', '.join(CLAIMS)}")
    if arguments.smoke and arguments.output == FOLDER:
        parser.error("--smoke would replace real measurements; name another folder with --output")
    settings = (
        Settings(1, 1, 100.0, True)
        if arguments.smoke
        else Settings(arguments.rounds, arguments.calls, arguments.foreign)
    )
    for name in arguments.names or CLAIMS:
        claim, folder, began = CLAIMS[name], arguments.output / name, time.perf_counter()
        if arguments.pages:
            rewrite_page(claim, folder)
        else:
            print(f"{claim.id:4s} {name} ...", flush=True)
            save_measurements(claim, claim.measure(settings), settings, folder)
        print(f"{claim.id:4s} {folder / 'README.md'} ({time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
