"""The systems that the five documents behind this project speak of, `docs/systems.csv`, and the page
about them, `docs/systems.md`: for each the command of its smallest run, the parameters of its
published size, the differences from a library's model, the test that goes from text to text, a
picture and a page. `problems` checks all of it.
"""

import csv
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from zoo import config as configs
from zoo.cli.draw import DIAGRAMS
from zoo.config.fields import TASKS
from zoo.errors import ConfigError
from zoo.files import write_atomic
from zoo.models.model_sizes import model_sizes

COMMAND = "python -m publication systems"
ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
DATA, PAGE, PARITY = DOCS / "systems.csv", DOCS / "systems.md", DOCS / "parity.md"
# In a config: a run that another command trains first.
RUN, TEACHER = "runs/bert", "bert"
PARITY_ROW = re.compile(r"^\| `([^`]+)` \| [^|]* \| ([^|]+) \| (\S+) \| (\S+) \| (.*) \|$", re.MULTILINE)
NONE = "none: "


class System(NamedTuple):
    """One row of the file; its attributes are the columns.

    Attributes:
        name: as its paper or its weights are called.
        document: which of the five names it, or what it stands for.
        size: a config of its published size.
        smallest: a config of its smallest run.
        parity: its line in docs/parity.md.
        text: a test in tests/, or `NONE` and the reason.
        page: a page of docs/, with an anchor where it is about more.
        picture: what `zoo draw` shows of it.
    """

    name: str
    document: str
    size: str
    smallest: str
    parity: str
    text: str
    page: str
    picture: str


class Parity(NamedTuple):
    """A line of docs/parity.md: the class and library, both differences, and {config: parameters}."""

    reference: str
    outputs: str
    gradients: str
    counts: Mapping[str, int]


def parity() -> dict[str, Parity]:
    """Returns the lines of docs/parity.md that have a difference of gradients, by name."""
    found = {}
    for name, reference, outputs, gradients, counts in PARITY_ROW.findall(PARITY.read_text(encoding="utf-8")):
        listed = re.findall(r"`configs/(\w+)\.py:([^`]+)` ([\d,]+)", counts)
        found[name] = Parity(
            reference, outputs, gradients, {f"{file}:{size}": int(n.replace(",", "")) for file, size, n in listed}
        )
    return found


def read() -> list[System]:
    """Returns the rows of the file."""
    with open(DATA, encoding="utf-8", newline="") as file:
        return [System(**row) for row in csv.DictReader(file)]


@contextmanager
def resolved(spec: str, teacher: str) -> Iterator[configs.ResolvedConfig]:
    """Gives a config of the table, resolved.

    Args:
        spec: "llama:7b", or one that starts from the run `RUN`.
        teacher: size of `TEACHER` that stands for that run while the config is used.
    """
    with tempfile.TemporaryDirectory() as folder:
        if RUN in spec:
            plain = configs.to_plain(configs.resolve(configs.load(f"{TEACHER}:{teacher}")))
            (Path(folder) / "config.json").write_text(json.dumps(plain), encoding="utf-8")
        config = configs.load(spec.replace(RUN, folder))
        # Two labels, as those of a sentiment; data would tell.
        labels = {"model.head.classes": 2} if config.objective.kind in TASKS else {}
        yield configs.resolve(configs.override(config, labels))


@cache
def parameters(system: System) -> int:
    """Returns the number of parameters of the published size, or of what starts from BERT base."""
    with resolved(system.size, "base") as config:
        return model_sizes(config).parameters


def problems(systems: Iterable[System]) -> Iterator[str]:
    """Yields a line for each statement about a system that is not true."""
    measured = parity()
    for system in systems:
        try:
            with resolved(system.smallest, "smoke"):
                count = parameters(system)
        except ConfigError as error:
            yield from (f"{system.name}: {problem}" for problem in error.problems)
            continue
        if system.parity not in measured:
            yield f"{system.name}: docs/parity.md has no line {system.parity}"
        elif (listed := measured[system.parity].counts.get(system.size, count)) != count:
            yield f"{system.name}: {system.size} has {count:,} parameters, and {listed:,} in docs/parity.md"
        if system.picture not in DIAGRAMS:
            yield f"{system.name}: zoo draw {system.picture} draws no config"
        if not system.text.startswith(NONE) and not _is_test(system.text):
            yield f"{system.name}: there is no test tests/{system.text}"
        if not _is_place(system.page):
            yield f"{system.name}: there is no docs/{system.page}"


def _is_test(name: str) -> bool:
    """Returns whether a file has the test, and what names the case of a parametrized one."""
    path, _, function = name.partition("::")
    function, _, case = function.rstrip("]").partition("[")
    file = ROOT / "tests" / path
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    named = not case or re.search(rf"^def {re.escape(case)}\(|\"{re.escape(case)}\"", text, re.MULTILINE) is not None
    return f"\ndef {function}(" in text and named


def _is_place(page: str) -> bool:
    """Returns whether a page of docs/ exists, with the heading of the anchor."""
    path, _, anchor = page.partition("#")
    file = DOCS / path
    if not file.is_file():
        return False
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return not anchor or anchor in (re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


INTRODUCTION = """# The systems of the lectures

zoo grew out of five documents: a *walk-through* of LLaMA in two parts, the *slides* of a course, a *post* on
rotary embeddings, and a *lecture*. These are the {count} systems that they speak of, or that stand for what they
explain (*for* ...). *One of the five* means that the name was noted down, and not its document. GPT-3, of which
neither code nor weights were published, has no config.

- **Smallest run**: options of `zoo train`. It makes four updates, which need all parts to work; `{run}` is the
  run of BERT's row.
- **Parameters** of the published size are counted from shapes; `zoo config sizes CONFIG` compares the sizes of
  a family.
- **Parity**: the largest relative difference of outputs, and of gradients, from the model of a library with the
  same weights, and the name of its line in [parity](parity.md).
- **Text to text**: the test in which an imported checkpoint, with the files of its published tokenizer, reads
  and writes what its class does, or in which a run of ours goes from text to text.
- **Picture**: arguments of `zoo draw`.

| System | Document | Smallest run | Parameters | Parity | Text to text | Picture | Page |
| --- | --- | --- | ---: | --- | --- | --- | --- |
{rows}

`{command}` writes this page from [systems.csv](systems.csv), unless a config does not resolve, a count differs
from that of the library, or a line, test, picture or page does not exist.
"""


def page(systems: Sequence[System]) -> str:
    """Returns the page in Markdown."""
    measured = parity()
    rows = "\n".join(_row(system, measured[system.parity]) for system in systems)
    return INTRODUCTION.format(count=len(systems), run=RUN, rows=rows, command=COMMAND)


def _row(system: System, measured: Parity) -> str:
    folder = "runs/" + re.sub(r"[^a-z0-9]+", "-", system.name.lower())
    text = system.text
    if not text.startswith(NONE):
        path, _, function = text.partition("::")
        function, bracket, case = function.rstrip("]").partition("[")
        # Brackets within a link are not read as one everywhere.
        text = f"[`{function}`](../tests/{path})" + (f", `{case}`" if bracket else "")
    title, _, anchor = system.page.partition("#")
    cells = [
        system.name,
        system.document,
        f"`--config={system.smallest} --workdir={folder}`",
        f"{parameters(system):,} (`{system.size}`)",
        f"{measured.outputs}, {measured.gradients}: `{system.parity}` ({measured.reference})",
        text,
        f"`{system.picture} {folder if RUN in system.size else system.size}`",
        f"[{(anchor or Path(title).stem).replace('-', ' ').replace('_', ' ')}]({system.page})",
    ]
    return f"| {' | '.join(cells)} |"


def write() -> Path:
    """Writes the page and returns its path.

    Raises:
        ConfigError: naming every statement that is not true.
    """
    systems = read()
    if found := list(problems(systems)):
        raise ConfigError([f"{DATA}: {problem}" for problem in found])
    write_atomic(PAGE, page(systems))
    return PAGE
