"""`zoo describe`: what variants there are, from the field table."""

import argparse

from zoo.config import BY_PATH, FIELDS, Field
from zoo.errors import ConfigError, did_you_mean

EXAMPLES = """examples:
  zoo describe            every choice there is
  zoo describe position   the fields and variants of positions
  zoo describe rope       one variant
  zoo describe schedule.warmup_steps"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser("describe", help="list the variants there are", epilog=EXAMPLES,
                                   formatter_class=argparse.RawDescriptionHelpFormatter,
                                   description="Lists fields and variants, one line each.")
    parser.add_argument("name", nargs="?", help="a part of a field's path (norm, position, optimizer ...) or a variant's name")
    parser.set_defaults(handler=run)


def describe_field(field: Field) -> list[str]:
    """Lines about one field: path, default, meaning, and its choices."""
    default = f"{field.default}" + (f": {field.auto}" if field.auto else "") if field.default != () else "none"
    lines = [f"{field.path} ({default})", f"    {field.meaning}"]
    if field.when:
        values = " or ".join(str(value).lower() if isinstance(value, bool) else value for value in field.when[1])
        lines.append(f"    read only when {field.when[0]} is {values}")
    if field.choices:
        width = max(map(len, field.choices))
        lines += [f"    {name:{width}s}  {text}" for name, text in field.choices.items()]
    return lines


def run(args: argparse.Namespace) -> int:
    """Prints what matches; without a name, every field that chooses between variants."""
    if args.name is None:
        fields = [field for field in FIELDS if field.choices]
    else:
        fields = [field for field in FIELDS if args.name in field.path.split(".") or field.path == args.name]
        fields = fields or [field for field in FIELDS if field.choices and args.name in field.choices]
        if not fields:
            names = {part for path in BY_PATH for part in path.split(".")} | {
                name for field in FIELDS for name in field.choices or ()}
            raise ConfigError(f"nothing is called {args.name!r}{did_you_mean(args.name, names)}; zoo describe lists everything")
    print("\n".join(line for field in fields for line in describe_field(field)))
    return 0
