"""Commands of maintainers, `python -m publication COMMAND`.

python -m publication results                     # rewrite the pages of docs/results
python -m publication results runs/heads --noise  # archive a sweep there, as `zoo results` does
python -m publication rejudge                     # judge all archived sweeps by the procedure of today
python -m publication performance runs/gpu        # GPU measurements into docs/performance.md
python -m publication error-rates                 # error rates on simulated sweeps
python -m publication law-coverage                # coverage of the intervals of scaling laws
python -m publication variants                    # the list of variants, and their costs
python -m publication recipes                     # the page of published recipes
python -m publication systems                     # the page of the systems of the lectures
python -m publication planned                     # published sizes on devices that they name
python -m publication notebooks                   # the outputs of the notebooks
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from publication import (
    error_rates,
    law_coverage,
    noise_record,
    notebooks,
    performance_page,
    planned_sizes,
    published_recipes,
    rejudge,
    size_costs,
    systems,
    variants,
)
from publication.claim_lines import refresh_claims
from publication.page_tables import refresh_page
from publication.results_index import build
from zoo.arguments import Parser
from zoo.cli import plugin_options
from zoo.cli.sweeps import results
from zoo.errors import ConfigError, reported

ROOT = Path(__file__).resolve().parents[1]
RESULTS, TESTS, EXPERIMENTS = ROOT / "docs" / "results", ROOT / "tests" / "claims", ROOT / "experiments"
LECTURES = ROOT / "docs" / "lectures"


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    parser = Parser(
        prog="python -m publication", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    archive = commands.add_parser("results", help="archive sweeps in docs/results, and write its pages")
    results.add_options(archive)
    archive.add_argument("--output", metavar="DIR", type=Path, default=RESULTS, help="default: docs/results")
    plugin_options.add_options(archive)
    archive.set_defaults(handler=write_results)
    again = commands.add_parser("rejudge", help="judge archived sweeps again, and write the pages of docs/results")
    rejudge.add_options(again)
    again.add_argument("--output", metavar="DIR", type=Path, default=RESULTS, help="default: docs/results")
    again.set_defaults(handler=judge_again)
    performance_page.add_parser(commands)
    planned_sizes.add_parser(commands)
    listing = commands.add_parser("variants", help="write docs/variants.md and zoo/variants/computed.json")
    listing.set_defaults(handler=write_variants)
    recipes = commands.add_parser("recipes", help="write docs/published_recipes.md")
    recipes.set_defaults(handler=write_recipes)
    table = commands.add_parser("systems", help="write docs/systems.md")
    table.set_defaults(handler=write_systems)
    shown = commands.add_parser("notebooks", help="run docs/notebooks, and keep what their cells show")
    shown.add_argument("names", metavar="NAME", nargs="*", help="of a notebook; default: all")
    shown.set_defaults(handler=write_notebooks)
    rates = commands.add_parser("error-rates", help="simulate sweeps, and write the tables of docs/comparisons.md")
    rates.set_defaults(handler=write_error_rates)
    coverage = commands.add_parser("law-coverage", help="simulate ladders, and write the table of docs/scaling_laws.md")
    coverage.set_defaults(handler=write_law_coverage)
    options = parser.parse_args(arguments)
    return options.handler(options)


def write_results(options: argparse.Namespace) -> int:
    """Archives sweeps, writes all pages about archived results, and prints the paths."""
    plugin_options.load(options)
    written = [*results.archive(options)]
    if options.output == RESULTS:
        # Before the pages, which have a table of both.
        written += [noise_record.write(RESULTS), size_costs.write(RESULTS)]
    written.append(_build(options.output))
    print("\n".join(map(str, written)))
    return 0


def judge_again(options: argparse.Namespace) -> int:
    """Judges archived sweeps again, writes all pages about them, and prints a line for each."""
    lines = rejudge.rejudge(options.output, EXPERIMENTS, options.names, options.max_seeds)
    print("\n".join([*lines, str(_build(options.output))]))
    return 0


def _build(output: Path) -> Path:
    """Writes the pages of an archive; those of this repository are also counted in its README, and its
    claims listed in the pages about lectures.
    """
    if output != RESULTS:
        return build(output, TESTS)
    index = build(output, TESTS, [ROOT / "README.md", ROOT / "docs" / "experiments.md"], ROOT / "experiments")
    for page in sorted(LECTURES.glob("*.md")):
        refresh_claims(page, RESULTS)
    return index


def write_variants(options: argparse.Namespace) -> int:
    """Writes the files about variants, and prints their paths."""
    del options
    print("\n".join(map(str, variants.write())))
    return 0


def write_recipes(options: argparse.Namespace) -> int:
    """Writes the page of published recipes, unless a preset differs from them, and prints its path.

    Raises:
        ConfigError: values that are not those of their presets, or items without a row.
    """
    del options
    if found := list(published_recipes.problems(published_recipes.read(), published_recipes.presets())):
        raise ConfigError([f"{published_recipes.DATA}: {problem}" for problem in found])
    print(published_recipes.write())
    return 0


def write_systems(options: argparse.Namespace) -> int:
    """Writes the page of systems, unless a statement of it is not true, and prints its path."""
    del options
    print(systems.write())
    return 0


def write_notebooks(options: argparse.Namespace) -> int:
    """Runs the notebooks, stores the outputs of their cells, and prints their paths."""
    print("\n".join(map(str, notebooks.write(options.names))))
    return 0


def write_error_rates(options: argparse.Namespace) -> int:
    """Simulates sweeps, writes their error rates and the tables of the page, and prints the paths."""
    del options
    written = error_rates.write()
    page = ROOT / "docs" / "comparisons.md"
    refresh_page(page)
    print("\n".join(map(str, [*written, page])))
    return 0


def write_law_coverage(options: argparse.Namespace) -> int:
    """Simulates ladders, writes the coverage of intervals and the table of the page, and prints the
    paths.
    """
    del options
    written, page = law_coverage.write(), ROOT / "docs" / "scaling_laws.md"
    refresh_page(page)
    print(written, page, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
