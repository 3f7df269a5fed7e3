"""Training runs of one module share compiled programs."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def all_share_programs(shared_programs):
    """Every module here uses `shared_programs`."""
