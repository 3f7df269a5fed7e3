"""Simulates a full disk by the limit on file sizes, at which the system refuses writes with a
similar error.
"""

import contextlib
import resource

ERROR_MESSAGE = "File too large"


@contextlib.contextmanager
def file_size_limit(size):
    """Limits files to `size` bytes inside the context."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
