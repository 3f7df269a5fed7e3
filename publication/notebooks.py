"""Runs the notebooks of docs/notebooks and keeps what their cells show."""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from zoo.errors import ConfigError

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
COMMAND = "python -m publication notebooks"
VARIES = "varies"
"""Tag of a cell whose words depend on the machine, such as the nearest tokens of a model that was
trained for a few steps.
"""
DPI = 80


def paths() -> list[Path]:
    """Returns the notebooks."""
    return sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> dict[str, Any]:
    """Returns a notebook."""
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the cells of code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Runs a notebook in the current folder, and yields the outputs of each cell of code."""
    names: dict[str, Any] = {"__name__": path.stem}
    for number, cell in enumerate(code_cells(read(path)), 1):
        yield run_cell("".join(cell["source"]), names, number, f"{path.name}, cell {number}")


def run_cell(source: str, names: dict[str, Any], number: int, title: str) -> list[dict[str, Any]]:
    """Runs a cell and returns its outputs as Jupyter stores them: what it prints, the value of its
    last expression, and the open figures of pyplot, which are closed.

    Args:
        source: its text.
        names: the names that earlier cells have defined; the cell's are added.
        number: of the cell.
        title: for tracebacks.
    """
    body, last = ast.parse(source).body, None
    if body and isinstance(body[-1], ast.Expr):
        last = ast.Expression(body.pop().value)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), title, "exec"), names)
        value = None if last is None else eval(compile(last, title, "eval"), names)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())})
    if value is not None and not source.rstrip().endswith(";"):
        data: dict[str, Any] = {"text/plain": _lines(repr(value))}
        if html := getattr(value, "_repr_html_", lambda: None)():
            data["text/html"] = _lines(html)
        outputs.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return outputs + [
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": _png(figure)}} for figure in _figures()
    ]


def write(names: Sequence[str] = ()) -> list[Path]:
    """Runs the notebooks of these names, or all, stores the outputs of their cells in them, and
    returns their paths.

    Raises:
        ConfigError: there is no such notebook.
    """
    known = {path.stem: path for path in paths()}
    if unknown := sorted(set(names) - known.keys()):
        raise ConfigError(f"there is no notebook {unknown[0]} in docs/notebooks; use {', '.join(known)}")
    written = [known[name] for name in names or known]
    for path in written:
        notebook = read(path)
        with tempfile.TemporaryDirectory(prefix="zoo-notebook-") as folder, _inside(folder):
            found = list(run(path))
        for number, (cell, outputs) in enumerate(zip(code_cells(notebook), found, strict=True), 1):
            cell |= {"execution_count": number, "outputs": outputs}
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return written


def pages() -> dict[str, str | bytes]:
    """Returns {path in the site: content} of a page for every notebook, of its pictures, and of the
    index.
    """
    found: dict[str, str | bytes] = {}
    rows = []
    for path in paths():
        parts, pictures = [], {}
        for number, cell in enumerate(read(path)["cells"]):
            source = "".join(cell["source"])
            parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
            for kind, shown in _shown(cell.get("outputs", ())):
                if kind == "image/png":
                    name = f"{path.stem}_{number}_{len(pictures)}.png"
                    pictures[f"notebooks/{name}"] = base64.b64decode(shown)
                    shown = f"![Figure of the cell above]({name})"
                elif kind == "text/plain":
                    shown = f"```text\n{shown.rstrip()}\n```"
                parts.append(shown)
        parts.insert(1, f"[Download the notebook]({path.name})")
        found |= {f"notebooks/{path.stem}.md": "\n\n".join(parts) + "\n", **pictures}
        rows.append(f"- [{parts[0].splitlines()[0].lstrip('# ')}]({path.stem}.md)")
    listed = "\n".join(rows)
    about = f"`{COMMAND}` runs their cells and keeps what they show; a test runs them again."
    return found | {"notebooks/index.md": f"# Notebooks\n\n{about}\n\n{listed}\n"}


def _shown(outputs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yields (MIME type, content) of what a page shows of outputs: of each the richest form."""
    for output in outputs:
        data = output.get("data", {"text/plain": output.get("text", "")})
        if "image/png" in data:
            yield "image/png", data["image/png"]
        elif "text/html" in data:
            html = "".join(data["text/html"])
            # The rules for colours of a frame are those of Jupyter's own pages.
            yield "text/html", html[html.index("<table") : html.index("</table>")] + "</table>"
        else:
            yield "text/plain", "".join(data["text/plain"])


def _figures() -> Iterator[Figure]:
    """Yields the open figures of pyplot, if a cell has imported it, and closes them."""
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        for number in pyplot.get_fignums():
            yield pyplot.figure(number)
        pyplot.close("all")


def _png(figure: Figure) -> str:
    written = io.BytesIO()
    # Without the version of Matplotlib, equal pictures are equal files.
    figure.savefig(written, format="png", dpi=DPI, bbox_inches="tight", metadata={"Software": None})
    return base64.b64encode(written.getvalue()).decode("ascii")


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
