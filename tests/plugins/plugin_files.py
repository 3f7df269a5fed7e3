"""Plug-ins as texts, and context managers that load them for the duration of a test."""

import contextlib

from zoo.config import plugins

POWER = '''"""A feed-forward layer."""

import jax

from zoo import plugin


class PowerReLU(plugin.FeedForward):
    """y = max(0, x W_up)^p W_down (So et al. 2021, with p = 2)."""

    def nonlinearity(self, x):
        return jax.nn.relu(x) ** self.config.ffn.power


plugin.register(
    plugin.Kind(
        "model.ffn.kind",
        "relu_power",
        "max(0, x W1)^p W2 (So et al. 2021)",
        fields=(plugin.Field("model.ffn.power", 2, int, "p, the exponent of the activation", minimum=1),),
    ),
    PowerReLU,
)
'''

FOCAL = '''"""A causal objective that cares more for tokens that are hard."""

import jax
import jax.numpy as jnp

from zoo import plugin


class FocalObjective(plugin.CausalObjective):
    """-(1 - p)^gamma log p of the next token (Lin et al. 2017, eq. 4); also reports the mean of p."""

    def __init__(self, config, tokenizer):
        super().__init__(config, tokenizer)
        self.means["confidence"] = ("confidence", "weight")

    def score_tokens(self, prediction, batch, constants, mode):
        targets, weights, counts = self.prepare_targets(batch, constants, mode)
        log_p = jnp.take_along_axis(jax.nn.log_softmax(plugin.logits(prediction)), targets[..., None], axis=-1)[..., 0]
        p, plain = jnp.exp(log_p), -(weights * log_p).sum()
        gamma = self.hyperparameter("objective.focal_gamma", constants)
        loss = -(weights * (1 - p) ** gamma * log_p).sum() if mode.training else plain
        return {"loss": loss}, {"loss": plain, "confidence": (weights * p).sum(), **counts}


plugin.register(
    plugin.Kind(
        "objective.kind",
        "focal",
        "the next token, where it is hard to predict (Lin et al. 2017)",
        traits=plugin.traits("objective.kind", "causal"),
        fields=(
            plugin.Field("objective.focal_gamma", 2.0, float, "gamma, 0 is the causal objective", minimum=0, traced=True),
        ),
    ),
    FocalObjective,
)
plugin.register_metric("confidence", plugin.Metric(True), "focal")
'''

MEASURED = '''"""A measure of finished runs."""

from zoo import plugin


def final_loss(measured):
    return {"": 2.5}


plugin.register_measure("always_the_same", plugin.Measure("2.5", False, "nats", initial=False), final_loss)
'''


@contextlib.contextmanager
def unloading():
    """Unloads the plug-ins that are loaded inside the context."""
    before, trusted = plugins.loaded(), plugins._trusts_stored
    try:
        yield
    finally:
        plugins._trusts_stored = trusted
        for plugin in reversed(plugins.loaded()):
            if plugin not in before:
                plugins.unload(plugin)


@contextlib.contextmanager
def loaded(folder, text, name="mine.py"):
    """Loads a plug-in with this text inside the context; yields its file."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    with unloading():
        plugins.load_plugin(folder / name)
        yield folder / name
