"""docs/parity.md is current: the same systems, references and counts. The figures in it are measured by the tests of parity."""

import pytest

from tests.parity.systems import SYSTEMS
from tests.parity.table import FILE, count, render, written

COUNTS = [(system, published) for system in SYSTEMS for published in system.published]


def test_the_table_has_every_system_and_no_figure_above_its_tolerance():
    figures = written()
    assert list(figures) == [system.name for system in SYSTEMS]
    for system in SYSTEMS:
        assert 0 < max(figures[system.name]) <= system.tolerance


def test_the_table_is_what_the_command_would_write():
    assert FILE.read_text(encoding="utf-8") == render(written())


@pytest.mark.parametrize(("system", "published"), COUNTS, ids=lambda value: value.name or value.source)
def test_published_parameter_counts(system, published):
    assert count(published, system) == published.count
