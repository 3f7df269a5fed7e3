"""Whether a config runs on the devices of this machine."""

import jax

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.layers.platform import Platform
from zoo.nested import flatten
from zoo.objectives.attention_kernels import attention_kernels


def check_platform(config: ResolvedConfig) -> None:
    """Checks that the attention implementations of a config run on this platform.

    Raises:
        ConfigError: naming the implementation and the platforms that it needs, or what of the config
            it cannot compute on this one.
    """
    platform = jax.default_backend()
    chosen = {value for path, value in flatten(config.model).items() if path.endswith("attention.implementation")}
    for name in sorted(chosen - {configs.AUTO}):
        if platform not in (supported := configs.ATTENTION_SUPPORT[name].platforms):
            raise ConfigError(
                f"model.attention.implementation={name} runs on {' or '.join(supported)} only, and this is a {platform}"
            )
    attention_kernels(config, Platform.here())
