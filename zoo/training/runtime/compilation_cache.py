"""Where compiled programs are kept between processes."""

import os

import jax

from zoo.files import cache_directory


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk for later runs and the other arms of a sweep.

    Must be called before the first array is made. JAX's own environment variables take precedence.
    """
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
    if not os.environ.get("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
