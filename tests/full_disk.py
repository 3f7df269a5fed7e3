"""A stand-in for a full disk: the limit on the size of files, by which the system refuses to write
with an error of the same kind.
"""

import contextlib
import resource

SAID = "File too large"


@contextlib.contextmanager
def disk_with(size):
    """No file grows beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
