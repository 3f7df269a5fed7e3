"""An archive for tests of its pages."""

import pytest

from tests.support.archives import write_archive


@pytest.fixture
def output(tmp_path):
    return write_archive(tmp_path / "docs")
