"""The cache of compiled programs, which processes share."""

import contextlib
import hashlib
import os
from pathlib import Path

import jax
from jax._src import compilation_cache as jax_cache
from jax._src.lru_cache import LRUCache

from zoo.files import cache_directory, write_atomic

# The end of the names that JAX gives its entries, and that of their checksums.
ENTRY, CHECKSUM = "-cache", "-sha256"


class CheckedCache(LRUCache):
    """JAX's cache in a folder, with a checksum beside every compiled program.

    JAX notices only some damage and never replaces a damaged entry, and a flipped bit can abort the
    process. Here, an entry that is damaged or torn by a kill counts as missing, and is replaced by
    the program that is compiled then. An entry without a checksum, such as that of another program,
    gets it if it can be decompressed.
    """

    def get(self, key: str) -> bytes | None:
        """Returns the entry of a key; None if it is missing or not as it was written."""
        value = super().get(key)
        return value if value is not None and self._is_sound(key, value) else None

    def put(self, key: str, value: bytes) -> None:
        """Writes the entry of a key, unless a sound one is there."""
        entry = self._file(key, ENTRY)
        if entry.is_file():
            if self._is_sound(key, entry.read_bytes()):
                return
            entry.unlink(missing_ok=True)
        super().put(key, value)
        self._record(key, value)

    def _file(self, key: str, ending: str) -> Path:
        return Path(str(self.path)) / f"{key}{ending}"

    def _record(self, key: str, value: bytes) -> None:
        write_atomic(self._file(key, CHECKSUM), hashlib.sha256(value).hexdigest())

    def _is_sound(self, key: str, value: bytes) -> bool:
        path = self._file(key, CHECKSUM)
        if path.exists():
            return path.read_bytes() == hashlib.sha256(value).hexdigest().encode()
        try:
            jax_cache.decompress_executable(value)
        except Exception:  # Each library of compression has its own.
            return False
        with contextlib.suppress(OSError):  # Of others, and not writable.
            self._record(key, value)
        return True


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk for later runs and the other arms of a sweep.

    Must be called before the first array is made. JAX's own environment variables take precedence.
    A folder on another machine ("gs://...") is left to JAX.
    """
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
    if not os.environ.get("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
    if "://" not in str(jax.config.jax_compilation_cache_dir):
        # JAX has no public way to choose the class; it makes the cache when it first compiles.
        jax_cache.LRUCache = CheckedCache
