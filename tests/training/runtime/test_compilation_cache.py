"""The cache of compiled programs: damaged entries are compiled again and replaced."""

import pytest
from jax._src import compilation_cache as jax_cache

from zoo.training.runtime.compilation_cache import CheckedCache, use_compilation_cache

PROGRAM, KEY = jax_cache.compress_executable(bytes(range(256)) * 10), "jit_step-00ff"
DAMAGE = {
    "torn": lambda entry, checksum: entry.write_bytes(PROGRAM[:50]),
    "empty": lambda entry, checksum: entry.write_bytes(b""),
    "a flipped bit": lambda entry, checksum: entry.write_bytes(b"b" + PROGRAM[1:]),
    "torn, no checksum": lambda entry, checksum: (entry.write_bytes(PROGRAM[:50]), checksum.unlink()),
    "a damaged checksum": lambda entry, checksum: checksum.write_bytes(b"\xff"),
    "another checksum": lambda entry, checksum: checksum.write_text("0" * 64),
    "gone": lambda entry, checksum: entry.unlink(),
}


@pytest.mark.parametrize("max_size", [-1, 10**6])
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_program_counts_as_missing_and_is_replaced(damage, max_size, tmp_path):
    cache = CheckedCache(str(tmp_path), max_size=max_size)
    cache.put(KEY, PROGRAM)
    assert cache.get(KEY) == PROGRAM
    DAMAGE[damage](tmp_path / f"{KEY}-cache", tmp_path / f"{KEY}-sha256")
    assert cache.get(KEY) is None
    compiled_again = jax_cache.compress_executable(b"the same")
    cache.put(KEY, compiled_again)
    assert CheckedCache(str(tmp_path), max_size=max_size).get(KEY) == compiled_again
    # A sound entry is kept.
    cache.put(KEY, PROGRAM)
    assert cache.get(KEY) == compiled_again


def test_program_without_a_checksum_gets_one_when_read(tmp_path):
    (tmp_path / f"{KEY}-cache").write_bytes(PROGRAM)
    cache = CheckedCache(str(tmp_path), max_size=-1)
    assert cache.get(KEY) == PROGRAM
    (tmp_path / f"{KEY}-cache").write_bytes(PROGRAM[:-1] + bytes([PROGRAM[-1] ^ 1]))
    assert cache.get(KEY) is None


def test_jax_uses_the_checked_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(jax_cache, "LRUCache", jax_cache.LRUCache)
    use_compilation_cache()
    assert isinstance(jax_cache.get_file_cache(str(tmp_path))[0], CheckedCache)
