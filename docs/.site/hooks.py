"""Makes the pages of the site that are not in docs/: one for every variant, experiment file, notebook,
command, claim and module of the public API, and one of sizes; and leads links there.
"""

import ast
import contextlib
import functools
import importlib
import io
import json
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import zoo
from publication import mathematics, notebooks, size_pages, variant_pages
from publication.claim_lines import claim_rows, judged
from publication.claims_table import read_claims
from publication.forest_plot import PARTS
from zoo.cli.main import SUBCOMMANDS, WHOLE_COMMANDS, Parser
from zoo.cli.main import main as zoo_command
from zoo.lab.report.archive.experiment_page import as_cell
from zoo.variants import table as variant_table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
# The page with all variants, `variants.md`, and the folder with a page for each.
VARIANTS = "variants"
# The width of help, whatever the terminal's.
os.environ["COLUMNS"] = "100"
# Modules that a user imports, and packages of which every module has a page, so that none is missing.
MODULES = (
    *("zoo", "zoo.inference.loaded_model", "zoo.inference.python_api", "zoo.inference.sweeps"),
    *("zoo.lab.results.frames", "zoo.config", "zoo.plugin"),
    *("zoo.lab.experiment", "zoo.lab.declarations", "zoo.lab.measures", "zoo.lab.sizes"),
    *("zoo.lab.statistics.paired", "zoo.lab.statistics.sequential", "zoo.training.trainer"),
)
PACKAGES = (
    *("zoo.layers", "zoo.layers.attention", "zoo.layers.position", "zoo.models"),
    *("zoo.objectives", "zoo.objectives.tasks", "zoo.training.optimization"),
)
# A command at the start of a row in cli.md: "| `zoo probe`" or "| `python eval.py`, or `zoo eval`".
COMMAND = re.compile(r"^(\| (?:`python [^`]*`, or )?)(`zoo (\w+)[^`]*`)", re.MULTILINE)
# Code, which may look like a link, or a link.
LINK = re.compile(r"(?P<ticks>`+).*?(?P=ticks)|(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)", re.DOTALL)
# The paragraphs of a variant's equation, on its own page and on that of all variants.
COMPUTES = re.compile(r"(?<=\n## What it computes\n\n).*?(?=\n\n(?:## |!\[))", re.DOTALL)
ENTRY = re.compile(r"(?<=\n### )([^\n]+\n\n`[^\n]*\n\n)(.*?)(?=\n\n(?:#|- ))", re.DOTALL)


def experiment_pages() -> dict[str, str]:
    """Returns {path in the site: text} of a page for every experiment, measure and drawing, and of the
    experiments' index.
    """
    pages, rows = {}, []
    for path in sorted((ROOT / "experiments").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(source)) or ""
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        command = f"```\nzoo run {path.stem}:tiny\n```\n\n" if path.parent.name == "experiments" else ""
        pages[f"{name}.md"] = (
            f'# {path.stem}\n\n{docstring}\n\n{command}```{{.python data-search-exclude=""}}\n{source}```\n'
        )
        if command:
            rows.append(f"| [{path.stem}]({path.stem}.md) | {' '.join(docstring.split(chr(10) * 2)[0].split())} |")
    table = "\n".join(["| experiment | question |", "| --- | --- |", *rows])
    return pages | {"experiments/index.md": f"# Experiment files\n\n`zoo run NAME:tiny` runs one.\n\n{table}\n"}


def api_modules() -> list[str]:
    """Returns the names of the modules that have a page."""
    names = list(MODULES)
    for package in PACKAGES:
        files = sorted((ROOT / package.replace(".", "/")).glob("*.py"))
        names += [package, *(f"{package}.{path.stem}" for path in files if path.stem != "__init__")]
    return names


def api_pages() -> dict[str, str]:
    """Returns {path in the site: text} of a page for every module of the API, and of their index."""
    names = api_modules()
    pages = {f"api/{name}.md": f"# {name}\n\n::: {name}\n" for name in names}
    # Functions of `zoo` that it imports when they are first used, which no reader of its source sees.
    lazy = (f"- [zoo.{name}][{module}.{name}]" for name, module in zoo._LAZY.items())
    pages["api/zoo.md"] += "\n## Functions\n\n" + "\n".join(lazy) + "\n"
    listed = "\n".join(f"- [{name}]({name}.md)" for name in names)
    return pages | {"api/index.md": f"# API\n\nWhat is imported from Python, made of the docstrings.\n\n{listed}\n"}


def command_pages() -> dict[str, str]:
    """Returns {path in the site: text} of a page for every command, with its help and those of its
    subcommands, and of their index.
    """
    pages, rows = {}, []
    for name, (module, description) in SUBCOMMANDS.items():
        parts = [f"# zoo {name}", f"{description[0].upper()}{description[1:]}.", block(help_of(name))]
        if name not in WHOLE_COMMANDS:
            parser = Parser(prog="zoo")
            importlib.import_module(module).add_parser(parser.add_subparsers())
            # "zoo draw attention" is one of the commands of `zoo draw`.
            inner = [each.prog.split()[1:] for each in parser.commands() if each.prog.split()[1] == name]
            for words in (words for words in inner if len(words) > 1):
                parts += [f"## zoo {' '.join(words)}", block(help_of(*words))]
        pages[f"commands/{name}.md"] = "\n\n".join(parts) + "\n"
        rows.append(f"| [zoo {name}]({name}.md) | {description} |")
    table = "\n".join(["| command | what it does |", "| --- | --- |", *rows])
    about = "What `--help` prints. [Commands](../cli.md) has examples, exit codes and files."
    return pages | {"commands/index.md": f"# Options of every command\n\n{about}\n\n{table}\n"}


def help_of(*words: str) -> str:
    """Returns what a command prints with `--help`."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        zoo_command([*words, "--help"])
    return printed.getvalue().strip()


def block(text: str) -> str:
    """Returns a text as a block of code, without highlighting."""
    return f"```text\n{text}\n```"


def claim_pages() -> dict[str, str]:
    """Returns {path in the site: text} of a page for the claims about each subject, and of their
    index: the claims as results/claims.csv has them, and their rows of results/README.md.
    """
    table, rows = claim_rows(RESULTS), []
    parts: dict[str, list[str]] = {}
    for claim in read_claims(RESULTS).claims:
        if not (found := table.get(claim["id"], [])):
            raise ValueError(f"results/README.md has no row of claim {claim['id']}: run python -m publication results")
        # The columns are id, claim, source, verdict, effect, size, published and where.
        judged = ["| verdict | effect | size | published | where |", "| --- | --- | --- | --- | --- |"]
        judged += ["| " + " | ".join([*row[3:7], from_results(row[7])]) + " |" for row in found]
        path = claim_page(claim["id"])
        part = parts.setdefault(path, [f"# {PARTS[claim['id'][0]]}", "[All claims in one table](../results/README.md)"])
        part += [f"## {claim['id']}", f"**{claim['statement']}.**", f"Source: {claim['source']}.", "\n".join(judged)]
        part += [f"What could be wrong with it: {claim['limits']}"] * bool(claim["limits"])
        verdicts = ", ".join(dict.fromkeys(row[3] for row in found))
        link = f"{posixpath.basename(path)}#{claim['id'].lower()}"
        rows.append(f"| [{claim['id']}]({link}) | {as_cell(claim['statement'])} | {verdicts} |")
    listed = "\n".join(["| | claim | verdict |", "| --- | --- | --- |", *rows])
    pages = {path: "\n\n".join(part) + "\n" for path, part in parts.items()}
    return pages | {"claims/index.md": f"# Claims\n\n{listed}\n"}


@functools.cache
def claims_with_rows() -> frozenset[str]:
    """Returns the claims that results/README.md has rows of."""
    return frozenset(claim_rows(RESULTS))


def claim_page(claim: str) -> str:
    """Returns the path in the site of the page with a claim."""
    return f"claims/{PARTS[claim[0]].lower().replace(' ', '_')}.md"


def from_results(cell: str) -> str:
    """Returns a cell of results/README.md whose links start in the folder of the claims' pages."""
    return re.sub(r"\]\((#?)", lambda link: f"](../results/{'README.md#' if link[1] else ''}", cell)


def one_row_per_claim(markdown: str) -> str:
    """Returns results/README.md with a table of five columns and one row per claim, whose cells have a
    line for each row of the claim there. The page of a claim has the other columns.
    """
    lines = markdown.splitlines()
    rows = ["| | claim | source | verdict | first effect |", "| --- | --- | --- | --- | --- |"]
    for claim, found in claim_rows(RESULTS).items():
        verdicts = "<br>".join(dict.fromkeys(judged(row[3], row[7], ".") for row in found))
        effects = "<br>".join(dict.fromkeys(row[4].partition("; ")[0] for row in found if row[4]))
        rows.append(f"| [{claim}](README.md) | {found[0][1]} | {found[0][2]} | {verdicts} | {effects} |")
    first = next(number for number, line in enumerate(lines) if line.startswith("| | claim | source |"))
    after = next(number for number, line in enumerate(lines[first:], first) if not line.startswith("|"))
    about = "Here a claim has one row, and a line for each of its rows. Its link leads to effects, sizes and published"
    return "\n".join([*lines[:first], f"{about} values.", "", *rows, *lines[after:]]) + "\n"


@functools.cache
def generated_pages() -> dict[str, str | bytes]:
    """Returns {path in the site: content} of all that is made of the code and the results."""
    variants = {f"{VARIANTS}/{name}": text for name, text in variant_pages.pages().items()}
    drawn = {f"{VARIANTS}/{variant_pages.PICTURES}/{name}": svg for name, svg in variant_pages.pictures().items()}
    written = experiment_pages() | api_pages() | command_pages() | claim_pages() | notebooks.pages()
    return written | {"sizes/index.md": size_pages.page()} | variants | drawn


def in_groups(paths: list[str]) -> list[Any]:
    """Returns the pages of a folder as the navigation has them: those of no group, and groups by
    title. A page holds the entries of its group alone.
    """
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(group_of(path), []).append(path)
    return [*groups.pop("", ()), *({title: group} for title, group in sorted(groups.items()))]


def group_of(path: str) -> str:
    """Returns the title of the group of a page: the part of a variant, the package of a module, the
    subject of an experiment; "" for pages of no group.
    """
    folder, *inner, name = Path(path).with_suffix("").parts
    if folder == VARIANTS:
        return next((each.part.capitalize() for each in variant_table.VARIANTS if each.name == name), "")
    if folder == "api" and name != "index":
        packages = (package for package in PACKAGES if f"{name}.".startswith(f"{package}."))
        return max(packages, key=len, default="Modules")
    if folder == "experiments" and inner:
        return inner[0].capitalize()
    if (folder == "results" and inner) or (folder == "experiments" and name != "index"):
        found = RESULTS / (inner or [name])[0] / "result.json"
        claims = json.loads(found.read_text(encoding="utf-8"))["claims"] if found.exists() else ()
        return PARTS.get("".join(claims)[:1], "Others")
    return ""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replaces each folder of the navigation by its pages, the index first."""
    docs, generated = Path(config.docs_dir), generated_pages()

    def pages_of(folder: str) -> list[Any]:
        written = [path.relative_to(docs).as_posix() for path in (docs / folder).rglob("*.md")]
        found = [*written, *(path for path in generated if path.startswith(folder) and path.endswith(".md"))]
        first = (f"{folder}README.md", f"{folder}index.md")
        return in_groups(sorted(found, key=lambda path: (path not in first, path)))

    def expanded(entry: Any) -> Any:
        if isinstance(entry, list):
            return [one for part in entry for one in (expanded(part) if _is_folder(part) else [expanded(part)])]
        if isinstance(entry, dict):
            return {name: expanded(value) for name, value in entry.items()}
        return pages_of(entry) if _is_folder(entry) else entry

    config.nav = expanded(config.nav)
    return config


def _is_folder(entry: Any) -> bool:
    return isinstance(entry, str) and entry.endswith("/")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what is made of the code and the results."""
    for path, content in generated_pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links to experiment files, variants, claims and, in cli.md, commands to their pages, and
    leaves the names of other files outside docs/ without a link.
    """
    del config
    if page.file.src_uri == "cli.md":
        markdown = COMMAND.sub(r"\1[\2](commands/\3.md)", markdown)
    if page.file.src_uri == "results/README.md":
        markdown = one_row_per_claim(markdown)
    folder = posixpath.dirname(page.file.src_uri)
    if folder == VARIANTS:
        markdown = COMPUTES.sub(lambda found: mathematics.marked(found[0]), markdown)
    if page.file.src_uri == f"{VARIANTS}.md":
        markdown = ENTRY.sub(lambda found: found[1] + mathematics.marked(found[2]), markdown)

    def replaced(found: re.Match) -> str:
        text, target = found["text"], found["target"]
        if text is None:
            return found[0]
        path, _, anchor = target.partition("#")
        if "://" in path:
            return found[0]
        if not path:
            path = posixpath.basename(page.file.src_uri)
        inside = posixpath.normpath(posixpath.join(folder, path))
        if inside.startswith("../experiments/") and inside.endswith(".py"):
            page_path = inside.removeprefix("../").removesuffix(".py") + ".md"
            if page_path in generated_pages():
                return f"[{text}]({posixpath.relpath(page_path, folder or '.')})"
        if inside == "results/README.md" and text in claims_with_rows():
            return f"[{text}]({posixpath.relpath(claim_page(text), folder or '.')}#{text.lower()})"
        if inside == f"{VARIANTS}.md" and f"{VARIANTS}/{anchor}.md" in generated_pages():
            return f"[{text}]({posixpath.relpath(f'{VARIANTS}/{anchor}.md', folder or '.')})"
        if inside.startswith("../"):
            return text
        for name in ("README.md", "index.md"):
            if files.get_file_from_path(f"{inside}/{name}"):
                return (
                    f"[{text}]({posixpath.relpath(f'{inside}/{name}', folder or '.')}{'#' + anchor if anchor else ''})"
                )
        # A folder without a page of its own, such as the data of a result.
        return found[0] if files.get_file_from_path(inside) else text

    return LINK.sub(replaced, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Sets the equations that are marked."""
    del page, config, files
    return mathematics.set_equations(html)
