"""What all tests share: a cache of their own, and property tests that draw the same examples every time."""

import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings

# Machines are shared and slow at times: how long an example takes says nothing.
settings.register_profile("zoo", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zoo")


def pytest_configure(config):
    config.zoo_cache = os.environ["ZOO_CACHE"] = tempfile.mkdtemp(prefix="zoo-tests-")
    os.environ["HF_DATASETS_CACHE"] = os.path.join(config.zoo_cache, "hf")


def pytest_unconfigure(config):
    shutil.rmtree(config.zoo_cache, ignore_errors=True)
