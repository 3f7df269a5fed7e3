"""What the site has besides the pages in docs/: a page for every experiment file, every notebook and
every module of the public API, and links that lead out of docs/.
"""

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# The modules that a user imports; each has a page of its own.
API = (
    *(
        "zoo",
        "zoo.inference.python_api",
        "zoo.inference.loaded_model",
        "zoo.config",
        "zoo.plugin",
        "zoo.lab.experiment",
        "zoo.lab.declarations",
    ),
    *("zoo.lab.sizes", "zoo.layers.block", "zoo.layers.attention", "zoo.layers.feedforward", "zoo.layers.norm"),
    *("zoo.layers.position.absolute", "zoo.layers.position.relative", "zoo.layers.position.rope", "zoo.models.head"),
    *("zoo.models.language_model", "zoo.models.encoder_decoder", "zoo.models.elmo", "zoo.objectives.objective"),
    *("zoo.objectives.causal", "zoo.objectives.multi_token", "zoo.objectives.masked", "zoo.objectives.span_corruption"),
    *("zoo.objectives.replaced_tokens", "zoo.layers.short_convolution", "zoo.training.trainer"),
    *(
        "zoo.training.optimization.optimizer",
        "zoo.training.optimization.update_rules",
        "zoo.training.optimization.soap",
    ),
    "zoo.training.optimization.schedule_free",
    *("zoo.training.optimization.schedules", "zoo.training.optimization.muon", "zoo.lab.statistics.paired"),
    "zoo.lab.statistics.sequential",
)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def experiment_pages() -> dict[str, str]:
    """Returns {path in the site: text} of a page for every experiment, and of their index."""
    pages, rows = {}, []
    for path in sorted((ROOT / "experiments").glob("*.py")):
        source = path.read_text(encoding="utf-8")
        docstring = ast.get_docstring(ast.parse(source)) or ""
        pages[f"experiments/{path.stem}.md"] = (
            f"# {path.stem}\n\n{docstring}\n\n```\nzoo run {path.stem}:tiny\n```\n\n```python\n{source}```\n"
        )
        rows.append(f"| [{path.stem}]({path.stem}.md) | {' '.join(docstring.split(chr(10) * 2)[0].split())} |")
    table = "\n".join(["| experiment | question |", "| --- | --- |", *rows])
    return pages | {"experiments/index.md": f"# Experiment files\n\n`zoo run NAME:tiny` runs one.\n\n{table}\n"}


def api_pages() -> dict[str, str]:
    """Returns {path in the site: text} of a page for every module of the API, and of their index."""
    pages = {f"api/{name}.md": f"# {name}\n\n::: {name}\n" for name in API}
    listed = "\n".join(f"- [{name}]({name}.md)" for name in API)
    return pages | {"api/index.md": f"# API\n\nWhat is imported from Python, made of the docstrings.\n\n{listed}\n"}


def notebook_pages() -> dict[str, str]:
    """Returns {path in the site: text} of a page for every notebook, and of their index."""
    pages, rows = {}, []
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
        shown = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in texts]
        shown.insert(1, f"[Download the notebook]({path.name})")
        pages[f"notebooks/{path.stem}.md"] = "\n\n".join(shown) + "\n"
        rows.append(f"- [{shown[0].splitlines()[0].lstrip('# ')}]({path.stem}.md)")
    listed = "\n".join(rows)
    return pages | {"notebooks/index.md": f"# Notebooks\n\nA test runs their cells.\n\n{listed}\n"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replaces each folder of the navigation by its pages, the index first."""
    generated = experiment_pages() | api_pages() | notebook_pages()
    docs = Path(config.docs_dir)

    def pages_of(folder: str) -> list[str]:
        written = [path.relative_to(docs).as_posix() for path in (docs / folder).rglob("*.md")]
        found = [*written, *(path for path in generated if path.startswith(folder))]
        return sorted(found, key=lambda path: (path not in (f"{folder}README.md", f"{folder}index.md"), path))

    def expanded(entry: Any) -> Any:
        if isinstance(entry, list):
            return [expanded(one) for one in entry]
        if isinstance(entry, dict):
            return {name: expanded(value) for name, value in entry.items()}
        return pages_of(entry) if entry.endswith("/") else entry

    config.nav = expanded(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are made of the code."""
    for path, text in (experiment_pages() | api_pages() | notebook_pages()).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links to experiment files to their pages, and leaves the names of other files outside
    docs/ without a link.
    """
    del config
    folder = posixpath.dirname(page.file.src_uri)

    def replaced(found: re.Match) -> str:
        text, target = found.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in path:
            return found[0]
        inside = posixpath.normpath(posixpath.join(folder, path))
        if inside.startswith("../experiments/") and inside.endswith(".py"):
            page_path = inside.removeprefix("../").removesuffix(".py") + ".md"
            return f"[{text}]({posixpath.relpath(page_path, folder or '.')})"
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
