"""Writes a report: one self-contained HTML page, and its plots as PNG files beside it."""

from dataclasses import dataclass
from pathlib import Path

from zoo.errors import ConfigError
from zoo.files import write_atomic
from zoo.lab.comparison import load_comparison
from zoo.lab.figures import write_figures
from zoo.lab.page import render
from zoo.lab.results import Sweep, load_sweep
from zoo.lab.verdict import Verdict, judge


@dataclass(frozen=True)
class Report:
    """Where the page lies, and the verdict it shows."""

    path: Path
    verdict: Verdict


def build_report(sweep: Sweep, output: str | Path) -> Report:
    """Judges a sweep and writes `output` (an .html file) and a folder of the same name with the PNG files."""
    output = Path(output)
    if output.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f'output: "{output}" is not an HTML file; name it {output.name or "report"}.html')
    if output.is_dir():
        raise ConfigError(f'output: "{output}" is a folder; name a file in it')
    verdict = judge(sweep)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_figures(sweep, output.with_suffix(""))
        write_atomic(output, render(sweep, verdict, output.parent))
    except OSError as error:
        raise ConfigError(f"output: {output} cannot be written ({error.strerror or error})") from error
    return Report(output, verdict)


def write_report(sweep_folder: str | Path, output: str | Path | None = None) -> Path:
    """Writes the report of a sweep, finished or not, and returns its path.

    Args:
        sweep_folder: the folder that holds experiment.json.
        output: the HTML file to write; `report.html` in the sweep folder by default.

    Raises:
        ConfigError: the folder is no sweep, its files are damaged, or the output cannot be written.
    """
    return build_report(load_sweep(sweep_folder), output or Path(sweep_folder) / "report.html").path


def write_comparison(run_folders: list[str | Path], output: str | Path) -> Path:
    """Writes a report of any runs, grouped by the config keys in which they differ, and returns its path."""
    return build_report(load_comparison(run_folders), output).path
