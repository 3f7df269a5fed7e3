"""`zoo config show|sizes|diff|validate|schema`: inspects configs without training."""

import argparse
import json
from dataclasses import asdict
from typing import Any

from zoo import config as configs
from zoo.cli import size_table
from zoo.errors import ConfigError
from zoo.nested import flatten

EXAMPLES = """examples:
  zoo config show configs/llama.py:7b
  zoo config show configs/gpt2.py:tiny --config.model.norm.kind=rmsnorm --json
  zoo config sizes llama mistral
  zoo config diff configs/gpt2.py:small configs/llama.py:7b
  zoo config validate configs/llama.py:tiny runs/first/config.json
  zoo config schema > zoo.schema.json"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = subparsers.add_parser(
        "config",
        help="show, compare or validate configs; tables of sizes",
        epilog=EXAMPLES,
        formatter_class=raw,
        description="Inspects configs: of files and runs, with overrides by dotted path.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    show = actions.add_parser(
        "show", help="print every field, first those that the config sets, and the parameter and FLOP counts"
    )
    show.add_argument("config", metavar="CONFIG", help="FILE[:ARGUMENT], a run's folder, or its config.json")
    show.add_argument("--json", action="store_true", help="print one JSON object")
    show.set_defaults(handler=run_show, takes_overrides=True)
    size_table.add_parser(actions).set_defaults(handler=run_sizes, takes_overrides=True)
    diff = actions.add_parser("diff", help="print the fields in which two configs differ")
    diff.add_argument("one", metavar="CONFIG")
    diff.add_argument("other", metavar="CONFIG")
    diff.add_argument("--json", action="store_true", help="print one JSON object: {field: [value, other value]}")
    diff.set_defaults(handler=run_diff)
    validate = actions.add_parser("validate", help="check configs; prints one line per problem")
    validate.add_argument("configs", metavar="CONFIG", nargs="+")
    validate.add_argument("--json", action="store_true", help="print one JSON object: {config: [problems]}")
    validate.set_defaults(handler=run_validate, takes_overrides=True)
    schema = actions.add_parser(
        "schema",
        help="print the JSON Schema of configs",
        description="Prints the JSON Schema (draft 2020-12) of configs as nested JSON objects, such as a run's "
        "config.json: every field with its type, choices, limits, default and meaning, those of plug-ins (--plugin) "
        "included. It checks fields one by one; `zoo config validate` also checks combinations.",
    )
    schema.set_defaults(handler=run_schema)


def resolved_config(spec: str, overrides: list[str]) -> configs.ResolvedConfig:
    """Returns the resolved config of a command's argument, vocabulary size and classes included."""
    from zoo.data import resolve_with_data

    return resolve_with_data(configs.override(configs.load_with_plugins(spec), configs.parse_overrides(overrides)))


def run_show(args: argparse.Namespace) -> int:
    """Prints a resolved config, its cost, which is computed from shapes alone, and the attention
    kernels that it would be trained with here.
    """
    from zoo.layers.platform import Platform
    from zoo.models import cost
    from zoo.models.parameter_groups import group_sizes
    from zoo.objectives.attention_kernels import attention_kernels, kernel_lines

    resolved = resolved_config(args.config, args.overrides)
    counted, groups = cost.summary(resolved), group_sizes(resolved)
    kernels = attention_kernels(resolved, Platform.here())
    if args.json:
        print(
            json.dumps(
                {
                    "config": configs.to_plain(resolved),
                    "parameters": counted.parameters,
                    "flops_per_token": counted.flops_per_token,
                    "attention_kernels": [each._asdict() for each in kernels],
                    **({"groups": groups} if groups else {}),
                },
                indent=2,
            )
        )
        return 0
    _print_fields(flatten(resolved))
    print(f"parameters {counted.parameters['total']:,}")
    for name, count in counted.blocks.items():
        print(f"  {name:24s} {count:>16,}")
    for name in ("embedding", "body", "heads", "generator", "padding", "active"):
        if name in counted.parameters:
            print(f"  in {name:21s} {counted.parameters[name]:>16,}")
    for name, count in groups.items():
        print(f"  in group {name:15s} {count:>16,}")
    print(f"training FLOPs per token {counted.flops_per_token:,.0f}")
    for line in kernel_lines(kernels):
        print(f"attention {line}")
    return 0


def _print_fields(flat: dict[str, Any]) -> None:
    """Prints what the config sets, then what is derived, then the defaults."""
    width = max(len(path) for path in flat)
    parts: dict[str, list[str]] = {"*": [], "=": [], " ": []}
    for path, value in flat.items():
        field = configs.field_at(path)
        # Fields inside a scope have no defaults: their values were set or derived.
        unset = path in configs.BY_PATH and value == field.default
        mark = " " if unset else "=" if field.default == configs.AUTO else "*"
        parts[mark].append(f"{mark} {path:{width}s} {_text(value):>14s}  {field.meaning}")
    for mark, title in (("*", "set by the config"), ("=", "derived (auto), or set"), (" ", "defaults")):
        if parts[mark]:
            print("\n".join([f"{title}:", *parts[mark], ""]))


def _text(value: Any) -> str:
    if value is None:
        return "unset"
    return (
        ",".join(map(str, value)) or "()"
        if isinstance(value, tuple)
        else str(value).lower()
        if isinstance(value, bool)
        else str(value)
    )


def run_sizes(args: argparse.Namespace) -> int:
    """Prints a table of the sizes of families, whose counts are computed from shapes alone."""
    names = dict.fromkeys(name for family in args.families for name in size_table.sizes_of(family))
    from zoo.models.model_sizes import model_sizes

    found = {}
    for name in names:
        try:
            found[name] = asdict(model_sizes(resolved_config(name, args.overrides)))
        except ConfigError as error:
            lines = [problem if name in problem else f"{name}: {problem}" for problem in error.problems]
            raise ConfigError(lines) from error
    if args.json:
        print(json.dumps(found, indent=2))
    else:
        size_table.print_table({name: size_table.cells(sizes) for name, sizes in found.items()})
    return 0


def run_diff(args: argparse.Namespace) -> int:
    """Prints the fields that differ between two resolved configs; returns 0 in any case."""
    one, other = resolved_config(args.one, []), resolved_config(args.other, [])
    different = configs.difference(one, other)
    if args.json:
        print(json.dumps(different, indent=2))
        return 0
    if not different:
        print("no difference")
    width = max(map(len, different), default=0)
    for path, (before, after) in different.items():
        print(f"{path:{width}s}  {_text(before)} -> {_text(after)}")
    return 0


def run_validate(args: argparse.Namespace) -> int:
    """Checks every config and reports the problems of all of them."""
    found: dict[str, list[str]] = {}
    for spec in args.configs:
        found[spec] = []
        try:
            resolved = resolved_config(spec, args.overrides)
            if resolved.optimizer.groups:
                from zoo.models.parameter_groups import group_sizes

                group_sizes(resolved)
        except ConfigError as error:
            found[spec] = list(error.problems)
    if args.json:
        print(json.dumps(found, indent=2))
        return 2 if any(found.values()) else 0
    for spec, problems in found.items():
        if not problems:
            print(f"{spec}: valid")
    if problems := [f"{spec}: {problem}" for spec, problems in found.items() for problem in problems]:
        raise ConfigError(problems)
    return 0


def run_schema(args: argparse.Namespace) -> int:
    """Prints the JSON Schema of configs."""
    from zoo.config.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2))
    return 0
