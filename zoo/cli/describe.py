"""`zoo describe|configs|experiments`: lists and explains variants, config fields, words of the
glossary and the files that come with zoo.
"""

import argparse
import ast
import json
import re
import shutil
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from zoo import config as configs
from zoo.cli import glossary
from zoo.config import BY_PATH, FIELDS, GROUPS, Field, check_records, plugins
from zoo.config.fields import GROUP_ONLY, has_condition
from zoo.config.kinds import KIND_TABLES
from zoo.config.scopes import scoped
from zoo.errors import ConfigError, did_you_mean, shown
from zoo.terminal import escape

EXAMPLES = """examples:
  zoo describe               all variants, one line each
  zoo describe rope          one variant: equation, paper, shapes, cost, exclusions, reference tests
  zoo describe position      the fields of position encodings and their choices
  zoo describe schedule.warmup_steps
  zoo describe kv-cache      a word of papers and lectures (docs/glossary.md)
  zoo describe configs/bert.py"""
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
# Width of the column of fields; longer ones push the rest to the right.
COLUMN = 48
LISTS = {
    configs.CONFIGS: "zoo config show llama:7b\n  zoo train --config=llama:tiny --workdir=runs/first",
    configs.EXPERIMENTS: "zoo run norm_placement:quick",
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "describe",
        help="list and explain variants, config fields and words",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Lists all variants, or explains one of them, the fields of a part, a word, or a config file.",
    )
    parser.add_argument(
        "name",
        nargs="*",
        help="a variant, a part of a field's path (norm, model.norm, optimizer ...), a word, or a config file",
    )
    parser.add_argument("--json", action="store_true", help="without NAME: print one JSON list of the variants")
    parser.set_defaults(handler=run)
    for kind, example in LISTS.items():
        listing = subparsers.add_parser(
            kind,
            help=f"list the {kind} that come with zoo",
            epilog=f"A name stands for its file in any folder:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            description=f"Lists the {kind} that come with zoo: name, sizes and a description of each.",
        )
        listing.add_argument("--json", action="store_true", help="print one JSON list")
        listing.set_defaults(handler=run_list, kind=kind)


IMPLEMENTATION = "model.attention.implementation"
# Read by the gated kinds of feed-forward layers.
MATCH_PARAMETERS = "model.ffn.match_parameters"


def describe_field(field: Field) -> list[str]:
    """Returns lines about one field: path, default, meaning and choices."""
    default = f"{field.default}" + (f": {field.auto}" if field.auto else "") if field.default != () else "none"
    lines = [f"{field.path} ({default})", f"    {field.meaning}"]
    if has_condition(field):
        values = " or ".join(str(value).lower() if isinstance(value, bool) else value for value in field.when[1])
        lines.append(f"    read only when {field.when[0]} is {values}")
    if field.choices:
        width = max(map(len, field.choices))
        lines += [f"    {name:{width}s}  {text}" for name, text in field.choices.items()]
    if (table := KIND_TABLES.get(field.path)) is not None:
        width = max(map(len, table.traits))
        lines.append("    traits; a kind of your own names the ones that it has:")
        for trait, text in table.traits.items():
            lines.append(f"        {trait:{width}s}  {text}: {', '.join(table.having(trait))}")
    return lines


def _fields(name: str) -> list[Field]:
    """Returns the fields that have the name as their path, as its beginning or as a part of it."""
    inside = [replace(field, path=scoped(f"{GROUPS}.NAME", path)) for path, field in GROUP_ONLY.items()]
    return [
        field
        for field in (*FIELDS, *inside)
        if name in field.path.split(".") or field.path == name or field.path.startswith(f"{name}.")
    ]


def _options_of(variant) -> list[Field]:
    """Returns the fields that are read only with the choice of a variant, such as a gated layer's
    matching of parameters.
    """
    chosen = variant.chosen or variant.changes
    matched = [MATCH_PARAMETERS] if chosen.get("model.ffn.kind") in configs.GATED else []
    return [
        field
        for field in FIELDS
        if field.path in matched
        or (field.when and field.when[0] in chosen and has_condition(field) and chosen[field.when[0]] in field.when[1])
    ]


def _config_file(name: str) -> str | None:
    """Returns the docstring of a config file, which is not executed; None without such a file."""
    shipped = configs.shipped_folder(configs.CONFIGS) / f"{name}.py"
    path = Path(name) if name.endswith(".py") else shipped
    if not path.is_file():
        return None
    try:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a Python file: {error}") from None


def synonyms() -> dict[str, str]:
    """Returns {other name: name of a variant or path of a field}."""
    from zoo.variants import VARIANTS

    names = {variant.name: variant.synonyms for variant in VARIANTS} | {field.path: field.synonyms for field in FIELDS}
    return {synonym: name for name, others in names.items() for synonym in others}


def run(args: argparse.Namespace) -> int:
    """Prints a description of the name; without a name, one line per variant."""
    from zoo.variants import VARIANTS
    from zoo.variants.variant_page import render

    if args.json and args.name:
        raise ConfigError("--json lists all variants; leave the name out")
    if not args.name:
        _list_variants(args.json)
        return 0
    name = " ".join(args.name)
    wanted, meant = glossary.normalised(name), glossary.look_up(synonyms(), name)
    for variant in VARIANTS:
        if variant.name == (meant or wanted):
            _show(render(variant))
            fields = [*_fields(meant or name), *_options_of(variant)]
            print("".join(f"\n{text}" for field in fields for text in describe_field(field)))
            print("".join(f"\n{text}" for text in _of_plugins(meant or name, described=True)), end="")
            return 0
    lines = [*_lines(name, [meant] if meant else [name, wanted.replace("-", "_")]), *_of_plugins(name)]
    if not lines:
        names = {variant.name for variant in VARIANTS} | {part for path in BY_PATH for part in path.split(".")}
        raise ConfigError(
            f"nothing is called {shown(name)}{did_you_mean(wanted, names | set(glossary.entries()))}; "
            "zoo describe lists all names"
        )
    print("\n".join(lines))
    return 0


def _of_plugins(name: str, described: bool = False) -> list[str]:
    """Returns lines about the kinds of loaded plug-ins that have a name: what they compute, add and
    keep, what the check of their text has found, and the text.

    Args:
        name: of the kind, as it was given.
        described: the page of a variant has told its equation, fields and costs.
    """
    lines = []
    for plugin in plugins.loaded():
        for kind in plugins.kinds_of(plugin):
            if kind.name.replace("_", "-") != name.replace("_", "-"):
                continue
            from zoo.models.kind_facts import facts_of

            facts = facts_of(kind)
            told = () if described else ("equation", "fields", "parameters", "cache")
            lines += ["", f"{facts['kind']}, of the plug-in {plugin.origin}"]
            for key in (*told, "loss_terms"):
                value = facts.get(key)
                texts = value if isinstance(value, list) else str(value or "").splitlines()
                lines += [f"{key.replace('_', ' ')}:", *(f"    {text}" for text in texts)] if texts else []
            lines += check_records.lines_about(plugin, kind)
            found = check_records.properties_in(check_records.record_of(plugin), kind)
            lines += [f"    {one['property']:18s} {one['state']}: {one['reason']}" for one in found]
            lines += ["text:", *(f"    {line}".rstrip() for line in plugin.text.splitlines())]
    return lines


def _lines(name: str, paths: list[str]) -> list[str]:
    """Returns the lines about what is no variant: the entry of the glossary and the fields of that
    name, else a config file, else the fields of which it is a choice.

    Args:
        name: as it was given.
        paths: the fields that it may mean, or parts of their paths.
    """
    entry = glossary.explained(name)
    fields = next(filter(None, map(_fields, paths)), [])
    if not fields and not entry and (described := _config_file(name)):
        return [described]
    fields = fields or [field for field in FIELDS if field.choices and name in field.choices]
    about = [text for field in fields for text in describe_field(field)]
    if [field.path for field in fields] == [IMPLEMENTATION]:
        about += ["", *_kernel_lines()]
    return [*entry.lines, *([""] if about else []), *about] if entry else about


def _kernel_lines() -> list[str]:
    """Returns lines about the attention kernels that variants get on each platform."""
    from zoo.variants.kernel_table import PLATFORMS, kernel_table

    lines = [
        "the kernels that auto takes on a TPU, a GPU (of compute capability 9.0) and a CPU, for a GPT-2 small in "
        "bfloat16 with each variant; in brackets the reason where it is not the fused one:"
    ]
    for kernels, names in kernel_table().items():
        lines.append("    " + "; ".join(f"{name} {kernel}" for name, kernel in zip(PLATFORMS, kernels, strict=True)))
        lines.append(
            textwrap.fill(", ".join(names), 110, initial_indent=" " * 8, subsequent_indent=" " * 8,
                          break_on_hyphens=False)
        )  # fmt: skip
    return lines


def _list_variants(as_json: bool) -> None:
    """Prints every variant with the fields that choose it, and the fields that have choices."""
    from zoo.variants import VARIANTS
    from zoo.variants.variant_page import summary_line

    listed = [
        {
            "name": variant.name,
            "part": variant.part,
            "fields": dict(variant.chosen or variant.changes),
            "what": summary_line(variant),
        }
        for variant in VARIANTS
    ]
    if as_json:
        print(json.dumps(listed, indent=2))
        return
    assignments = [
        " ".join(f"{path.removeprefix('model.')}={_text(value)}" for path, value in each["fields"].items())
        for each in listed
    ]
    names = max(len(each["name"]) for each in listed)
    width = min(COLUMN, max(map(len, assignments)))
    for part in dict.fromkeys(each["part"] for each in listed):
        print(part)
        for each, assignment in zip(listed, assignments, strict=True):
            if each["part"] == part:
                print(f"    {each['name']:{names}s}  {assignment:{width}s}  {each['what']}")
    print("\nfields with choices")
    chosen = [field for field in FIELDS if field.choices]
    print("\n".join(f"    {field.path}: {', '.join(field.choices)}" for field in chosen))
    words = ", ".join(dict.fromkeys(entry.names[0] for entry in glossary.entries().values()))
    print("\nwords of papers, lectures and reports")
    print(textwrap.fill(words, 110, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))
    print(
        "\nThe second column leaves out model. in front of a field. zoo describe NAME explains a variant or a field;"
        "\nzoo describe model (or objective, data, optimizer, schedule) lists the fields."
    )


def _text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()


def run_list(args: argparse.Namespace) -> int:
    """Prints the files of one kind that come with zoo."""
    from zoo.lab.sizes import SIZES

    listed = []
    for name in configs.shipped_names(args.kind):
        path = configs.shipped_folder(args.kind) / f"{name}.py"
        module = configs.import_file(path, "file")
        shared = SIZES if args.kind == configs.EXPERIMENTS else {}
        sizes = [*getattr(module, "SIZES", shared), *(["tiny", "smoke"] if hasattr(module, "sized") else [])]
        paragraph = " ".join((module.__doc__ or "").split("\n\n")[0].split())
        title = re.split(r"[.] +(?=[A-Z])", paragraph.removesuffix("."))[0]
        listed.append({"name": name, "sizes": list(dict.fromkeys(sizes)), "what": title})
    if args.json:
        print(json.dumps(listed, indent=2))
        return 0
    width = max(len(each["name"]) for each in listed)
    for each in listed:
        print(f"{each['name']:{width}s}  {each['what']}")
        if each["sizes"]:
            print(f"{'':{width}s}  sizes {', '.join(each['sizes'])}")
    return 0


def _show(markdown: str) -> None:
    """Prints a Markdown page, wrapped and with bold headings in a terminal, and as it is elsewhere."""
    if not sys.stdout.isatty():
        print(markdown, end="")
        return
    text = in_terminal(escape(markdown), shutil.get_terminal_size().columns)
    print(text, file=getattr(sys.stdout, "unescaped", sys.stdout))


def in_terminal(markdown: str, width: int) -> str:
    """Returns a page as text for a terminal. Libraries that render Markdown take longer to import than
    the page takes to make.

    Args:
        markdown: headings, paragraphs, lists and indented blocks, with an empty line between them.
        width: number of columns.
    """
    found = []
    for block in markdown.strip("\n").split("\n\n"):
        if block.startswith("#"):
            found.append(f"{BOLD}{block.lstrip('# ')}{PLAIN}")
        elif block.startswith("    "):
            found.append(block)
        else:
            lines = [LINK.sub(_without_markup, line) for line in block.split("\n")]
            found.append("\n".join(_wrapped(line, width) for line in lines))
    return "\n\n".join(found)


def _without_markup(link: re.Match[str]) -> str:
    return link[2] if link[2].startswith("https://") else link[1]


def _wrapped(line: str, width: int) -> str:
    indent = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
