"""Whether a config runs on the devices of this machine."""

import jax

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.nested import flatten


def check_platform(config: ResolvedConfig) -> None:
    """Checks that the attention kernels of a config run on this platform.

    Raises:
        ConfigError: naming the kernel and the platforms that it needs.
    """
    platform = jax.default_backend()
    kernels = {value for path, value in flatten(config.model).items() if path.endswith("attention.kernel")}
    for kernel in sorted(kernels - {configs.AUTO}):
        if platform not in (supported := configs.ATTENTION_SUPPORT[kernel].platforms):
            raise ConfigError(
                f"model.attention.kernel={kernel} runs on {' or '.join(supported)} only, and this is a {platform}"
            )
