"""Scale factors of muP and CompleteP: a model's width and depth relative to its base.

With m = D / `base_dim` and d = L / `base_num_layers` (1 under `mup`), against the standard
parametrization (Yang et al. 2022, table 8; Dey et al. 2025, table 1 with alpha = 1):

| | embeddings, norms, biases | hidden matrices | output matrix, routers |
| --- | --- | --- | --- |
| variance of the initial values | 1 | 1 / m | 1 |
| factor in the forward pass | 1 | 1 / d on the output of each sublayer | 1 / m |
| learning rate, direction of Adam | 1 | 1 / m | 1 |
| weight decay | 1 | m, so that rate x decay stays | 1 |
| Adam's epsilon | 1 / m, and 1 / (m d) inside the layers | 1 / (m d) | 1 / m, routers 1 / (m d) |

and scores are multiplied by sqrt(K0) / K for heads of width K, K0 at the base. The last three rows are
in `zoo.training.optimization.parametrized_rates`.
"""

from zoo.config import ResolvedConfig


def reference_width(config: ResolvedConfig) -> int:
    """Returns `base_dim`, or D in the standard parametrization.

    Args:
        config: the `model` part of the config.
    """
    return config.base_dim if config.parametrization != "standard" else config.dim


def width_ratio(config: ResolvedConfig) -> float:
    """Returns m = D / `base_dim`; 1 in the standard parametrization. All widths are taken to grow in
    this proportion.
    """
    return config.dim / reference_width(config)


def depth_ratio(config: ResolvedConfig) -> float:
    """Returns d = L / `base_num_layers` under CompleteP, else 1."""
    return config.num_layers / config.base_num_layers if config.parametrization == "completep" else 1.0


def output_gain(config: ResolvedConfig, outputs: int) -> float:
    """Returns the factor on the standard deviation of a matrix between D and a number of outputs that
    does not grow with D, such as the output matrix [V, D], that leaves it as large as at the base, for
    every `init.kernel`.
    """
    if config.init.kernel in ("xavier_uniform", "xavier_normal"):
        return ((outputs + config.dim) / (outputs + reference_width(config))) ** 0.5
    return width_ratio(config) ** 0.5
