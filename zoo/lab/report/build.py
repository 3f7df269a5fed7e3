"""Writes a report: one self-contained HTML page, and its main plots as PNG and SVG files."""

from dataclasses import dataclass
from pathlib import Path

from zoo.errors import ConfigError, not_writable
from zoo.files import write_atomic
from zoo.lab.report.figures import write_figures
from zoo.lab.report.html_page import render
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict, judge


@dataclass(frozen=True)
class BuiltReport:
    """The path of the page, and the verdict it shows."""

    path: Path
    verdict: Verdict


def build_report(sweep: SweepResults, output: str | Path) -> BuiltReport:
    """Judges a sweep, and writes its page and a folder of the same name with the figures.

    Args:
        sweep: from `zoo.lab.results`.
        output: an .html file.

    Raises:
        ConfigError: `output` is not an HTML file or cannot be written.
    """
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
        raise not_writable(output, error, "output:") from error
    return BuiltReport(output, verdict)
