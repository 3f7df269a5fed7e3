"""The table of sinusoids (Vaswani et al. 2017, section 3.5), and the similarity of its rows."""

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from zoo.draw.style import figure
from zoo.layers.position import sinusoid


def sinusoid_table(length: int, dim: int, layout: str = "interleaved") -> np.ndarray:
    """Returns the table, [length, dim]."""
    return np.asarray(sinusoid(jnp.arange(length), dim, layout))


def page(length: int = 128, dim: int = 64, layout: str = "interleaved") -> Figure:
    """Draws the table, and the scalar products of its rows with the middle one."""
    values = sinusoid_table(length, dim, layout)
    drawn, (left, right) = figure(8, 3.2, columns=2, width_ratios=(2, 1))
    shown = left.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    left.set(xlabel="dimension", ylabel="position", title=f"sinusoids, {layout}")
    drawn.colorbar(shown, ax=left, pad=0.01).outline.set_visible(False)
    middle = length // 2
    right.plot(np.arange(length) - middle, values @ values[middle] / (dim / 2), linewidth=1.4)
    right.set(xlabel="distance", title="product of two rows,\n1 for a row with itself")
    right.grid(alpha=0.25)
    return drawn
