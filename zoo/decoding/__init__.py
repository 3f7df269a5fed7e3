"""Cached generation.

One compiled program reads a prompt (prefill), then one compiled loop generates token after token on
the device. `Generator` is the entry point. `decode_step` is the model as two functions, with the
attention cache of `zoo.layers.cache` or without; `decode_loop` and `beam_search` are the two loops
over them; `sampling` chooses tokens and `stop_strings` ends rows.
"""

from zoo.decoding.generator import Generated, Generator
from zoo.decoding.sampling import Sampling
from zoo.decoding.stop_strings import stop_table

__all__ = ["Generated", "Generator", "Sampling", "stop_table"]
