"""Cached generation.

A prompt is read once, by one compiled program, and then one compiled loop makes token after token
on the device: `Generator` is the way in. `zoo.decoding.decode_step` is the model as two functions,
with the cache that attention keeps (`zoo.layers.cache`) or without; `sampling` and `beams` are the
two loops over them, `choosing` and `stopping` how a token is chosen and when a row ends.
"""

from zoo.decoding.generator import Generated, Generator
from zoo.decoding.sampling import Sampling
from zoo.decoding.stop_strings import stop_table

__all__ = ["Generated", "Generator", "Sampling", "stop_table"]
