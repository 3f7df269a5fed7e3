"""What all tests share: one cache, and property tests that draw the same examples every time."""

import os
import shutil
import tempfile

from hypothesis import HealthCheck, settings

# Machines are shared and slow at times: how long an example takes says nothing.
settings.register_profile("zoo", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zoo")


def pytest_configure(config):
    # Worker processes inherit the cache of the process that started them: what one has compiled or tokenised the others need not.
    config.zoo_cache = None
    if not hasattr(config, "workerinput"):
        config.zoo_cache = os.environ["ZOO_CACHE"] = tempfile.mkdtemp(prefix="zoo-tests-")
        os.environ["HF_DATASETS_CACHE"] = os.path.join(config.zoo_cache, "hf")
        # Tests that compile without a run, too; before jax is imported.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(config.zoo_cache, "compiled")
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"


def pytest_unconfigure(config):
    if config.zoo_cache:
        shutil.rmtree(config.zoo_cache, ignore_errors=True)
