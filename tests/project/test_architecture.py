"""Limits on the structure of `zoo/`: imports point one way, between packages and between the folders
and modules of a package, and functions stay small.

Every import counts, also those inside functions and under TYPE_CHECKING. So does a call of `code_of`
(`zoo.config.kinds`), which imports the code of a kind by its name: it is an import of the code of all
kinds of the table. docs/architecture.md shows `LEVELS`.
"""

import ast
import functools
from collections import defaultdict
from pathlib import Path

import pytest

from zoo.config import kinds

ROOT = Path(__file__).parents[2]

# From the bottom up. A module imports only from lower levels and from its own package; packages on
# one level do not import each other. A dotted name is a subpackage with a level of its own; the
# other modules of its parent (say `data`) are on the parent's level.
LEVELS = (
    ("terminal",),
    ("errors", "files", "nested"),
    ("arguments",),
    ("config",),
    ("layers", "data.sources"),
    ("models", "data.tokenizers"),
    ("data.rows",),
    ("data.pipeline",),
    ("data.labelled", "data.translation"),
    ("data",),
    ("objectives", "decoding"),
    ("training.runtime", "training.records"),
    ("training.checkpoints",),
    ("training",),
    ("interop.weights",),
    ("interop.settings",),
    ("interop.families",),
    ("interop",),
    ("harness",),
    ("lab.formatting", "lab.measures", "lab.statistics"),
    ("lab.metrics",),
    ("lab.declarations",),
    ("lab.experiment",),
    ("lab.sizes", "lab.planning", "lab.floors"),
    ("lab.results",),
    ("lab.launch", "lab.report"),
    ("analysis", "checks", "resources"),
    ("draw",),
    ("variants",),
    ("plugin", "inference"),
    ("cli",),
)
LEVEL_OF = {package: level for level, packages in enumerate(LEVELS) for package in packages}

# The packages with the code of kinds, by the first part of the field that picks one.
CODE_OF_KINDS = {"model": "layers", "objective": "objectives", "optimizer": "training", "schedule": "training"}

LINES_PER_FUNCTION, PARAMETERS = 70, 8


def source_files():
    return sorted((ROOT / "zoo").rglob("*.py"))


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(tree, module, modules):
    """Yields the modules of zoo that a parsed file imports, including imports inside functions and
    conditions, and those with the code of kinds that it asks for.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "zoo")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            if node.module.split(".")[0] == "zoo":
                for alias in node.names:
                    submodule = f"{node.module}.{alias.name}"
                    yield submodule if submodule in modules else node.module
        elif isinstance(node, ast.Call) and module != "zoo.config.kinds.kind":
            yield from (kind.code.partition(":")[0] for kind in kinds_asked_for(node.func))


def kinds_asked_for(function):
    """Returns the kinds whose code a call may import: those of the table X in X.code_of(name), all if
    the table is not named, none if the function is another.
    """
    if getattr(function, "attr", getattr(function, "id", "")) != "code_of":
        return []
    named = getattr(kinds, getattr(getattr(function, "value", None), "id", ""), None)
    tables = [named] if isinstance(named, kinds.KindTable) else kinds.KIND_TABLES.values()
    return [kind for table in tables for kind in table.by_name.values()]


@functools.cache
def read_imports():
    """Returns {module: modules that it imports} of all of zoo."""
    paths = {module_name(path): path for path in source_files()}
    return {module: set(imports_of(parsed(path), module, paths)) - {module} for module, path in paths.items()}


def package_of(module):
    """Returns the longest entry of LEVELS that contains a module."""
    parts = module.split(".")[1:]
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in LEVEL_OF:
            return ".".join(parts[:length])
    raise AssertionError(f"{module} has no level: name its package in LEVELS")


def cycles(graph):
    """Returns the sets of modules that import each other directly or indirectly."""
    below = {node: reachable(graph, node) for node in graph}
    return {frozenset(other for other in below[node] if node in below[other]) for node in graph if node in below[node]}


def reachable(graph, start):
    found, waiting = set(), [start]
    while waiting:
        for node in graph.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def imports_between_parts(imports, folder):
    """Returns {part: parts that it imports} of a folder, whose parts are its modules and its
    subfolders, each subfolder as a whole.
    """

    def part(module):
        return module.removeprefix(f"{folder}.").partition(".")[0]

    found = defaultdict(set)
    for module, imported in imports.items():
        if module.startswith(f"{folder}."):
            parts = {part(other) for other in imported if other.startswith(f"{folder}.")}
            found[part(module)] |= parts - {part(module)}
    return found


def folder_cycles(imports):
    """Returns the cycles between the parts of each folder, as "FOLDER: PART, PART"."""
    parts = [module.split(".") for module in imports]
    folders = {".".join(names[:length]) for names in parts for length in range(1, len(names))}
    return {
        f"{folder}: {', '.join(sorted(cycle))}"
        for folder in folders
        for cycle in cycles(imports_between_parts(imports, folder))
    }


def functions():
    for path in source_files():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def test_imports_point_one_way():
    upwards = [
        f"{module} imports {imported}"
        for module, imports in read_imports().items()
        for imported in imports
        if module != "zoo"
        and imported != "zoo"
        and package_of(module) != package_of(imported)
        and LEVEL_OF[package_of(imported)] >= LEVEL_OF[package_of(module)]
    ]
    assert not upwards, "\n".join(sorted(upwards))


def test_no_import_cycles():
    assert not cycles(read_imports())


def test_no_import_cycles_between_folders():
    """Modules next to a subfolder import from it, or it imports from them, but not both."""
    assert not folder_cycles(read_imports())


def test_import_cycles_are_detected():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}


@pytest.mark.parametrize(
    ("imports", "found"),
    [
        ({"z.a.one": {"z.b"}, "z.b": {"z.a.two"}, "z.a.two": set()}, {"z: a, b"}),
        ({"z.a.one": {"z.b"}, "z.b": {"z.c"}, "z.a.two": set(), "z.c": set()}, set()),
        (
            {"z.p.a.one": {"z.p.b.one"}, "z.p.b.two": {"z.p.a.two"}, "z.p.b.one": set(), "z.p.a.two": set()},
            {"z.p: a, b"},
        ),
        ({"z.a.one": {"z.a.two"}, "z.a.two": {"z.a.one"}}, {"z.a: one, two"}),
    ],
)
def test_import_cycles_between_folders_are_detected(imports, found):
    assert folder_cycles(imports) == found


@pytest.mark.parametrize("where", ["module", "function", "type checking"])
def test_imports_are_found_in_functions_and_conditions(where):
    line = "from zoo.lab import metrics"
    source = {
        "module": line,
        "function": f"def late():\n    {line}",
        "type checking": f"if TYPE_CHECKING:\n    {line}",
    }[where]
    assert list(imports_of(ast.parse(source), "zoo.x", {"zoo.lab.metrics"})) == ["zoo.lab.metrics"]


@pytest.mark.parametrize(
    ("call", "table"),
    [("NORM_KINDS.code_of(name)", "NORM_KINDS"), ("KIND_TABLES[path].code_of(name)", ""), ("code_of(kind)", "")],
)
def test_asking_for_the_code_of_a_kind_is_an_import_of_it(call, table):
    tables = [getattr(kinds, table)] if table else kinds.KIND_TABLES.values()
    expected = {kind.code.partition(":")[0] for one in tables for kind in one.by_name.values()}
    assert set(imports_of(ast.parse(f"def late():\n    {call}"), "zoo.x", {})) == expected
    assert not list(imports_of(ast.parse("config.attention.implementation()"), "zoo.x", {}))


def test_code_of_kinds_exists_and_stands_in_its_package():
    paths = {module_name(path): path for path in source_files()}
    for table in kinds.KIND_TABLES.values():
        for kind in table.by_name.values():
            module, _, name = kind.code.partition(":")
            assert package_of(module).split(".")[0] == CODE_OF_KINDS[kind.path.split(".")[0]], kind.code
            defined = [
                node.name for node in parsed(paths[module]).body if isinstance(node, ast.ClassDef | ast.FunctionDef)
            ]
            assert name in defined, kind.code


def test_functions_are_short():
    lengths = {name: node.end_lineno - node.lineno + 1 for name, node in functions()}
    assert not {name: lines for name, lines in lengths.items() if lines > LINES_PER_FUNCTION}


def test_functions_have_few_parameters():
    def count(node):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        return len([argument for argument in every if argument.arg not in ("self", "cls")])

    assert not {name: count(node) for name, node in functions() if count(node) > PARAMETERS}
