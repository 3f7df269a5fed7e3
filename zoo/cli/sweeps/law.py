"""`zoo law`: laws of loss against compute from the sweeps of one experiment at several sizes."""

import argparse
import json
import math
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, shortened

EXAMPLE = """examples:
  zoo law runs/value_residual-rung1 runs/value_residual-rung2 runs/value_residual-rung3
  zoo law runs/muon-rung* --target 10x --figure muon.svg
  zoo law runs/muon-rung1 runs/muon-rung2              two sizes: the slope of the effect, and no law
  zoo law runs/muon-rung* --target 1e18 --extrapolate --json"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "law",
        help="fit laws of loss against compute to sweeps at several sizes",
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Fits the law of each arm's loss against training compute, L = E + A (C / C0)^-a; the slope of its "
        "difference from the baseline; and how many times the baseline's compute gives the arm's loss. Needs the "
        "sweeps of one experiment at two sizes or more, and for a law three. See docs/scaling_laws.md.",
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", help="folders of the sweeps, one for each size")
    parser.add_argument(
        "--baseline", metavar="ARM", help="arm that the others are compared with (default: the first of the first DIR)"
    )
    parser.add_argument(
        "--target",
        metavar="C",
        help="training operations of the baseline for which losses are predicted, such as 1e18, or times those of the "
        "largest size, such as 10x (default: 1x)",
    )
    parser.add_argument("--asymptote", metavar="E", type=float, help="E of all laws, if it is known (default: fitted)")
    parser.add_argument("--extrapolate", action="store_true", help="allow a target more than 16 times beyond the sizes")
    parser.add_argument("--figure", metavar="FILE", type=Path, help="also draw the laws: a png, svg or pdf file")
    parser.add_argument("--json", action="store_true", help="print the estimates as one JSON object")
    parser.set_defaults(handler=run)


# Imports are inside the functions because they load SciPy and Matplotlib, which --help does not
# need.
def run(args: argparse.Namespace) -> int:
    """Fits, prints the table or the record, and draws the figure."""
    from zoo.lab.results.ladder import read_ladder
    from zoo.lab.results.scaling import scaling
    from zoo.lab.results.sweep_results import load_sweep

    if args.figure is not None:
        from zoo.draw.style import image_format

        image_format(args.figure)
    ladder = read_ladder([load_sweep(folder) for folder in args.folders], args.baseline)
    largest = ladder.of(ladder.baseline)[-1].compute
    found = scaling(ladder, _target(args.target, largest), args.asymptote, args.extrapolate)
    if args.figure is not None:
        from zoo.draw.scaling_curves import page
        from zoo.draw.style import drawing, save

        with drawing():
            save(page(found), args.figure)
    if args.json:
        print(json.dumps(_record(found, args.figure), indent=2))
        return 0
    _print(found)
    if args.figure is not None:
        print(f"figure: {args.figure}")
    return 0


def _target(text: str | None, largest: float) -> float | None:
    """Returns the operations that `--target` names; None for those of the largest size."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("x")) * (largest if text.endswith("x") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ConfigError(f"--target {shortened(text)}: expected operations, such as 1e18, or a multiple, such as 10x")
    return value


def _print(found) -> None:
    from rich.table import Table
    from rich.text import Text

    from zoo.cli.console import make_console
    from zoo.lab.formatting import count, difference_columns
    from zoo.lab.launch.fitted_table import UNLIMITED, print_fitted

    console = make_console(UNLIMITED)
    ladder = found.ladder
    console.print(Text(f"{ladder.metric} against training compute, with 95 % intervals"))
    for size, one in zip(ladder.sizes, ladder.of(ladder.baseline), strict=True):
        per = one.tokens / one.parameters
        line = f"  {size}: {one.compute:.3g} operations, {one.parameters:,.0f} parameters, {per:.1f} tokens for each"
        console.print(Text(f"{line}, {count(len(one.losses), 'seed')}"), soft_wrap=True)
    slopes = {
        arm.name: difference_columns([(arm.slope.slope.value, arm.slope.slope.low, arm.slope.slope.high)])
        for arm in found.arms
        if arm.slope
    }
    header = ("arm", "exponent", "E", f"loss at {found.target:.3g}", "slope per tenfold", "95 % interval", "effect")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for place, name in enumerate((*header, "times the compute")):
        table.add_column(Text(name), justify="right" if place else "left", no_wrap=bool(place))
    for arm in found.arms:
        missing = "baseline" if arm is found.arms[0] else "–"
        (slope,), (bounds,) = slopes.get(arm.name, ([missing], [""]))
        table.add_row(
            Text(arm.label),
            _exponents(arm),
            _asymptote(arm),
            _with_interval(arm.loss),
            slope,
            bounds,
            arm.slope.trend if arm.slope else "",
            arm.factor.text if arm.factor else "–" if arm.slope else "",
        )
    console.print()
    print_fitted(console, table, ["E", "exponent"])
    for note in found.notes:
        console.print(Text(f"note: {note}"), soft_wrap=True)


def _with_interval(estimate) -> str:
    """Returns e.g. `1.143 (1.131 to 1.155)`."""
    from zoo.lab.formatting import interval, number, rounded_mean

    if estimate is None:
        return "–"
    if not estimate.known or not math.isfinite(estimate.high - estimate.low):
        return number(estimate.value)
    value = rounded_mean(estimate.value, estimate.low, estimate.high)
    return f"{value} ({interval(estimate.low, estimate.high)})"


def _exponents(arm) -> str:
    if arm.law is not None:
        return _with_interval(arm.law.exponent())
    if arm.size_token_law is not None:
        of_parameters, of_tokens = arm.size_token_law.exponents()
        return f"N: {_with_interval(of_parameters)}, D: {_with_interval(of_tokens)}"
    return "–"


def _asymptote(arm) -> str:
    if arm.law is not None:
        return _with_interval(arm.law.asymptote())
    return f"{arm.size_token_law.values['E']:.4g}" if arm.size_token_law else "–"


def _record(found, figure: Path | None) -> dict[str, Any]:
    """Returns the estimates as they are written in JSON."""
    ladder = found.ladder
    return {
        "metric": ladder.metric,
        "sizes": [
            {"folder": size, "compute": one.compute, "parameters": one.parameters, "tokens": one.tokens}
            for size, one in zip(ladder.sizes, ladder.of(ladder.baseline), strict=True)
        ],
        "baseline": found.arms[0].label,
        "target": found.target,
        "arms": [_arm_record(arm) for arm in found.arms],
        "notes": list(found.notes),
        **({"figure": str(figure)} if figure else {}),
    }


def _arm_record(arm) -> dict[str, Any]:
    law = arm.law and {
        "asymptote": _bounds(arm.law.asymptote()),
        "reducible": _finite(arm.law.law.reducible),
        "exponent": _bounds(arm.law.exponent()),
        "misfit_p": _finite(arm.law.misfit_p()),
    }
    both = arm.size_token_law and arm.size_token_law.values
    slope = arm.slope and {
        "per_tenfold": _bounds(arm.slope.slope),
        "effect": arm.slope.trend,
        "bend_p": _finite(arm.slope.bend_p),
    }
    factor = arm.factor and {**_bounds(arm.factor.factor), "basis": arm.factor.basis, "text": arm.factor.text}
    return {
        "arm": arm.label,
        "law": law,
        "size_token_law": both,
        "loss": arm.loss and _bounds(arm.loss),
        "slope": slope,
        "times_the_compute": factor,
    }


def _bounds(estimate) -> dict[str, float | None]:
    return {name: _finite(getattr(estimate, name)) for name in ("value", "low", "high")}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
