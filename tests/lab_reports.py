"""Reports as the commands write them."""

from pathlib import Path

from zoo.lab.report.build import build_report
from zoo.lab.report.html_page import render
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.verdict import judge


def write_report(folder, output=None):
    """The report of a sweep's folder; returns its path."""
    return build_report(load_sweep(folder), output or Path(folder) / "report.html").path


def write_comparison(folders, output):
    """The comparison of run folders; returns its path."""
    return build_report(load_comparison(folders), output).path


def write_page(sweep, output):
    """The page alone, without its figures; returns its path."""
    output.write_text(render(sweep, judge(sweep), output.parent), encoding="utf-8")
    return output
