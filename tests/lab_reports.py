"""Reports as the commands write them."""

from pathlib import Path

from zoo.lab.comparison import load_comparison
from zoo.lab.report import build_report
from zoo.lab.results import load_sweep


def write_report(folder, output=None):
    """The report of a sweep's folder; returns its path."""
    return build_report(load_sweep(folder), output or Path(folder) / "report.html").path


def write_comparison(folders, output):
    """The comparison of run folders; returns its path."""
    return build_report(load_comparison(folders), output).path
