"""docs/parity.md is up to date in its systems, references and parameter counts. Its differences are
measured by the tests of parity.
"""

import pytest

from tests.parity import cached, equations, memory, optimizers
from tests.parity.systems import COMPARISONS, SYSTEMS
from tests.parity.table import FILE, ROOT, ROWS, count, render, written, written_sections
from zoo.config import import_file

COUNTS = [(system, published) for system in ROWS for published in system.published]
# An unpublished example, and files that only change the data set or the objective of a system that
# has a file of its own.
NO_SYSTEM = {"shakespeare_char", "distill", "translation", "lm1b", "wmt14", "modded"}


def test_the_table_has_every_system_within_its_tolerance():
    figures = written()
    assert list(figures) == [system.name for system in ROWS]
    for system in SYSTEMS:
        assert 0 < max(figures[system.name][:2]) <= system.tolerance
    for comparison in COMPARISONS:
        output, gradient, library = figures[comparison.name]
        assert 0 < max(output, gradient or 0.0) <= comparison.tolerance
        assert any(character.isdigit() for character in library)


def test_the_sections_have_every_case_within_its_limit():
    found = written_sections()
    assert set(found["cached"]) == set(cached.CASES)
    assert max(found["cached"].values()) <= cached.TOLERANCE
    assert set(found["equations"]) == set(equations.cases())
    assert max(found["equations"].values()) <= equations.TOLERANCE
    assert set(found["optimizers"]) == set(optimizers.cases())
    assert all(difference <= optimizers.TOLERANCE for _, difference in found["optimizers"].values())
    assert set(found["memory"]) == set(memory.LIMITS)
    assert all(float(found["memory"][command][2]) <= limit for command, limit in memory.LIMITS.items())


def test_the_table_is_up_to_date():
    assert FILE.read_text(encoding="utf-8") == render(written(), written_sections())


def test_every_config_file_and_control_is_listed():
    named = {
        published.source for system in SYSTEMS for published in system.published if isinstance(published.source, str)
    }
    files = {path.stem for path in (ROOT / "configs").glob("*.py")} - NO_SYSTEM
    assert files == {source.removeprefix("configs/").partition(".py:")[0] for source in named}
    controls = ROOT / "configs" / "controls.py"
    assert {f"configs/controls.py:{size}" for size in import_file(controls, "config file").SIZES} <= named


@pytest.mark.parametrize(("system", "published"), COUNTS, ids=lambda value: value.name or value.source)
def test_published_parameter_counts(system, published):
    assert count(published, system) == published.count
