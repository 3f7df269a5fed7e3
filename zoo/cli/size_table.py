"""`zoo config sizes`: a table of the published sizes of families of models."""

import argparse
import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from zoo import config as configs
from zoo.errors import ConfigError

# Header of a column: attribute of `zoo.models.model_sizes.ModelSizes`.
COLUMNS = {
    "D": "dim",
    "L": "layers",
    "H": "heads",
    "G": "kv_heads",
    "K": "head_dim",
    "F": "hidden_dim",
    "parameters": "parameters",
    "T": "sequence_length",
    "batch": "batch_size",
    "tokens": "tokens",
    "rate": "learning_rate",
    "cache/token": "cached_bytes",
    "state": "state_bytes",
}
LEGEND = (
    "D: width of the model; L: layers; H: heads; G: heads with keys and values of their own; K: width of a head; "
    "F: width inside the feed-forward layer; T: tokens of a row; batch: rows of an update; tokens: of all updates; "
    "rate: the peak learning rate; cache/token: what a decoder's cache keeps of a token, until the windows of its "
    "layers are full; state: what it keeps of a text besides, whatever its length. 6+6: encoder and decoder; 8/1: "
    "kinds of layers; –: the model has none."
)
# Columns that a narrow terminal does without, the first of them first.
DROPPED_FIRST = ("state", "K", "batch", "T", "rate", "cache/token", "tokens", "F", "G", "H", "L", "D")


def add_parser(actions: argparse._SubParsersAction) -> argparse.ArgumentParser:
    """Registers `zoo config sizes` and returns its parser."""
    parser = actions.add_parser(
        "sizes",
        help="print a table of a family's published sizes",
        description=f"Prints a table of the published sizes of families.\n\n{textwrap.fill(LEGEND, 110)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n  zoo config sizes llama\n  zoo config sizes llama mistral --json\n"
        "  zoo config sizes gpt2:small runs/mine",
    )
    parser.add_argument(
        "families", metavar="CONFIG", nargs="+", help="FILE or the name of one: all its sizes; FILE:SIZE or a run: one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object: {size: {dim, layers ...}}")
    return parser


def sizes_of(family: str) -> list[str]:
    """Returns "llama:7b" and all others of "llama"; what names one config stays as it is.

    Raises:
        ConfigError: the file does not exist, or has no sizes.
    """
    path, argument = configs.locate(family, configs.CONFIGS)
    if argument is not None or path.is_dir() or path.suffix == ".json":
        return [family]
    module = configs.import_file(path, "config file")
    if sizes := getattr(module, "SIZES", None):
        return [f"{family}:{size}" for size in sizes]
    parameters = inspect.signature(getattr(module, "get_config", lambda: None)).parameters.values()
    argument = next((p.default if isinstance(p.default, str) else "ARGUMENT" for p in parameters), None)
    hint = f"zoo config show {family} describes it" if argument is None else f"name one config, as {family}:{argument}"
    raise ConfigError(f"config {family} has no sizes; {hint} (zoo configs lists the sizes of all)")


def cells(sizes: Mapping[str, Any]) -> dict[str, str]:
    """Returns {header: text} of a row, from the attributes of `ModelSizes`."""
    from zoo.lab.formatting import bytes_text
    from zoo.lab.launch.display import format_quantity

    texts = {header: _joined(sizes[name]) for header, name in COLUMNS.items()}
    texts["tokens"] = format_quantity(sizes["tokens"])
    texts["rate"] = f"{sizes['learning_rate']:.4g}"
    texts |= {header: _joined(sizes[COLUMNS[header]], bytes_text) for header in ("cache/token", "state")}
    return texts


def _joined(size: Any, text: Callable[[int], str] = "{:,}".format) -> str:
    """Returns the text of a `Size` of `zoo.models.model_sizes`."""
    if size is None:
        return "–"
    if isinstance(size, Mapping):
        sides = size.keys() == {"encoder", "decoder"}
        return ("+" if sides else "/").join(_joined(part, text) for part in size.values())
    return text(size)


def print_table(rows: Mapping[str, Mapping[str, str]]) -> None:
    """Prints rows of `cells` by name, without columns for which a terminal is too narrow."""
    from rich.table import Table
    from rich.text import Text

    from zoo.cli.console import make_console
    from zoo.lab.launch.fitted_table import print_fitted

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("size")
    for header in COLUMNS:
        table.add_column(header, justify="right", no_wrap=True)
    for name, texts in rows.items():
        table.add_row(Text(name), *texts.values())
    console = make_console()
    print_fitted(console, table, DROPPED_FIRST)
    console.print(Text(f"\n{LEGEND}", "dim"))
