"""Rules for docstrings: their first word, and the numbers in those of configs and experiments."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.lint.problem import ROOT, Problem, at, module_docstring

# A docstring that begins with one of these has no subject.
NO_SUBJECT = ("What", "Where", "Which", "How", "Those")
# Their counts follow from another number: of the language model without its softmax, and of the
# characters of a text.
COUNTED_OTHERWISE = ("elmo:original", "shakespeare_char:cpu")


def openings(folder: Path = ROOT / "zoo", root: Path = ROOT) -> Iterator[Problem]:
    """Finds docstrings that open with a word of `NO_SUBJECT`."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                word = re.match(r"\w*", text)[0]
                if word in NO_SUBJECT:
                    line = node.body[0].lineno
                    yield at(path, f'a docstring opens with "{word}": {text.splitlines()[0]}', line, root)


def parameter_counts(
    counts: Mapping[str, int], folder: Path = ROOT / "configs", root: Path = ROOT
) -> Iterator[Problem]:
    """Finds config files whose docstring lacks a size or its number of parameters.

    Args:
        counts: {"gpt2:small": number of parameters}.
        folder: the folder of the config files.
        root: what paths are relative to.
    """
    for spec, count in counts.items():
        name, _, size = spec.partition(":")
        path = folder / f"{name}.py"
        text = module_docstring(path)
        if spec not in COUNTED_OTHERWISE and not (f"{count:,}" in text and size in text):
            yield at(path, f"the docstring does not state that {size} has {count:,} parameters", 1, root)


def experiment_files(folder: Path = ROOT / "experiments") -> list[Path]:
    """Returns the experiment files that need neither a trained run nor a download."""
    return sorted(set(folder.glob("*.py")) - {folder / "distillation.py", folder / "feedforward_wikitext.py"})


def margins(paths: Iterable[Path] | None = None, root: Path = ROOT) -> Iterator[Problem]:
    """Finds experiments whose docstring lacks their claim, their command, or the margin of a contrast
    at one of their sizes.
    """
    from zoo import config as configs
    from zoo.lab.experiment import load_experiment
    from zoo.lab.sizes import SIZES

    for path in experiment_files() if paths is None else paths:
        text = module_docstring(path)
        command = f"zoo run experiments/{path.name}"
        if command not in text:
            yield at(path, f"the docstring lacks the command, {command}", 1, root)
        wanted: dict[str, str] = {}
        for size in getattr(configs.import_file(path, "experiment file"), "SIZES", SIZES):
            experiment = load_experiment(f"{path}:{size}")
            wanted.setdefault(experiment.claim.id, "the claim")
            for contrast in experiment.contrasts:
                wanted.setdefault(f"{contrast.margin:g}", f"the margin of {contrast.name!r} at size {size}")
        for word, meaning in wanted.items():
            if word not in text:
                yield at(path, f"the docstring lacks {meaning}, {word}", 1, root)


def documented_claims(paths: Iterable[Path] | None = None, root: Path = ROOT) -> Iterator[Problem]:
    """Finds experiments that no table of docs/experiments.md or docs/pretraining.md names in the row
    of each of their claims.
    """
    from zoo.lab.experiment import load_experiment

    pages = [root / "docs" / name for name in ("experiments.md", "pretraining.md")]
    rows = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    for path in experiment_files() if paths is None else paths:
        for claim in re.split(r", *", load_experiment(str(path)).claim.id):
            if not any(re.match(rf"\|[^|]*\b{claim}\b", row) and path.name in row for row in rows):
                yield at(pages[0], f"no row of a table names {path.name} for claim {claim}", 1, root)
