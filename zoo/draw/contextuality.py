"""Tables and figures of how much a word's vector depends on its sentence, layer by layer.

    python -m zoo.draw.contextuality RUN [RUN ...] [--text FILE] [--json] [--figure FILE]

`zoo.analysis.word_contextuality` defines the measures.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from matplotlib.figure import Figure

from zoo.analysis.word_contextuality import LayerContextuality, measure_contextuality
from zoo.draw.style import COLOURS, figure, image_format, save
from zoo.errors import ConfigError, DataError, reported

MAXIMUM_LINES = 500


def table(layers: Sequence[LayerContextuality]) -> str:
    """Returns the layers as a Markdown table."""
    header = (
        "layer",
        "self-similarity",
        "different words",
        "difference",
        "within - across senses",
        "random senses",
        "p",
        "words > 0",
    )
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for layer in layers:
        above = sum(value > 0 for value in layer.by_word.values())
        lines.append(
            f"| {layer.name} | {_number(layer.self_similarity)} | {layer.anisotropy:.3f} | {layer.adjusted:.3f} | "
            f"{_number(layer.senses)} | {layer.shuffled[0]:.3f} to {layer.shuffled[1]:.3f} | {layer.p:.4f} | "
            f"{above} of {len(layer.by_word)} |"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    """Formats with three decimals, or none if the value is whole."""
    return f"{value:.0f}" if value == round(value) else f"{value:.3f}"


def page(found: Mapping[str, Sequence[LayerContextuality]]) -> Figure:
    """Draws both measures by layer, in two panels, with a line for each run.

    Layers of the same name share a place on the axis, whatever layers a run has before them.
    """
    drawn, (left, right) = figure(8.4, 3.4, columns=2)
    # The run with most layers gives their order; an ELMo has no "first input" before layer 0.
    names = list(
        dict.fromkeys(layer.name for layers in sorted(found.values(), key=len, reverse=True) for layer in layers)
    )
    for colour, (name, layers) in zip(itertools.cycle(COLOURS), found.items()):
        places = [names.index(layer.name) for layer in layers]
        left.plot(places, [layer.adjusted for layer in layers], "o-", color=colour, label=name, markersize=4)
        right.plot(places, [layer.senses for layer in layers], "o-", color=colour, label=name, markersize=4)
        right.fill_between(
            places, *zip(*(layer.shuffled for layer in layers), strict=True), color=colour, alpha=0.15, linewidth=0
        )
    left.set_title("one word in different sentences,\nminus different words")
    right.set_title("within a sense minus across senses\n(shaded: 95 % of random senses)")
    for axes in (left, right):
        axes.set_xticks(range(len(names)), [name.replace(" ", "\n") for name in names], fontsize=7)
        axes.set_ylabel("mean cosine")
    left.legend(frameon=False)
    return drawn


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m zoo.draw.contextuality",
        allow_abbrev=False,
        description="Measures how much a word's vector depends on its sentence, layer by layer of a run.",
    )
    made.add_argument(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help="folders of runs, trained or imported: encoders, decoders, ELMos",
    )
    made.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help=f"sentences for self-similarity, one per line, at most {MAXIMUM_LINES} (default: those of the senses)",
    )
    made.add_argument(
        "--step", default="latest", help="which checkpoint: latest, best, or a step (default: %(default)s)"
    )
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--figure", type=Path, metavar="FILE", help="write a figure, .png, .svg or .pdf")
    return made


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Measures runs and prints a table for each."""
    args = parser().parse_args(arguments)
    if args.figure is not None:
        image_format(args.figure)
    texts = [] if args.text is None else _read_texts(args.text)
    found = {str(folder): measure_contextuality(folder, texts, args.step) for folder in args.runs}
    if args.figure is not None:
        save(page(_short_names(found)), args.figure)
    if args.json:
        records = {
            name: [asdict(layer) | {"adjusted": layer.adjusted} for layer in layers] for name, layers in found.items()
        }
        print(json.dumps(records, indent=2))
    else:
        print("\n\n".join(f"{name}\n\n{table(layers)}" for name, layers in found.items()))
    return 0


def _read_texts(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--text {path}: {error}") from error
    texts = [line.strip() for line in lines if line.strip()][:MAXIMUM_LINES]
    if not texts:
        raise DataError(f"--text {path} has no text")
    return texts


def _short_names(found: Mapping[str, Sequence[LayerContextuality]]) -> dict[str, Sequence[LayerContextuality]]:
    """Replaces the paths of runs by the names of their folders where these are unique."""
    short = [Path(name).name for name in found]
    return {
        name if short.count(last) > 1 else last: layers
        for last, (name, layers) in zip(short, found.items(), strict=True)
    }


if __name__ == "__main__":
    sys.exit(main())
