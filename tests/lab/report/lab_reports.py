"""Writes reports as the commands do."""

from pathlib import Path

import pytest

from zoo.lab.report import build
from zoo.lab.report.html_page import render
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.verdict import judge


def write_report(folder, output=None, figures=False):
    """Writes the report of a sweep's folder and returns its path; its figures are also written as
    files if `figures` is true.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not figures:
            patch.setattr(build, "write_figures", lambda sweep, folder: [])
        return build.build_report(load_sweep(folder), output or Path(folder) / "report.html").path


def write_comparison(folders, output):
    """Writes the comparison of run folders and returns its path."""
    return build.build_report(load_comparison(folders), output).path


def write_page(sweep, output):
    """Writes the page alone, without its figures, and returns its path."""
    output.write_text(render(sweep, judge(sweep), output.parent), encoding="utf-8")
    return output
