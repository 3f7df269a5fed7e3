"""Files that `zoo new variant` writes, by the part of the model that they change.

Placeholders: NAME and CLASS of the kind, FILE, PATH of its field, DEFAULT choice of that field.
"""

HEADER = '''"""TITLE: ABOUT.

    zoo check --plugin FILE
    zoo run --plugin FILE --config=gpt2:tiny --vary PATH=DEFAULT,NAME --seeds 3ALLOWED

`zoo describe NAME --plugin FILE` shows what the first sentence of the docstring below says.
"""

'''

FEED_FORWARD = '''import jax
import jax.numpy as jnp
import numpy as np

from zoo import plugin


class CLASS(plugin.FeedForward):
    """y = max(0, x W_up)^2 W_down (So et al. 2021)."""

    def nonlinearity(self, x):
        """Returns what is computed between the two matrices, elementwise: [B, T, F] to [B, T, F]."""
        return jnp.square(jax.nn.relu(x))


def reference(config, values, x, positions):
    """The same in plain numpy; `zoo check` compares the two."""
    del config, positions
    up, down = values["up"], values["down"]
    return np.maximum(0, x @ up["kernel"] + up["bias"]) ** 2 @ down["kernel"] + down["bias"]


plugin.register(
    # The field that gets a new choice, the choice's name, and one line for people with the equation and the paper.
    plugin.Kind("PATH", "NAME", "max(0, x W_up)^2 W_down (So et al. 2021)", reference=reference),
    CLASS,
)
'''

NORM = '''import jax
import jax.numpy as jnp
import numpy as np

from zoo import plugin


class CLASS(plugin.Norm):
    """y = x / mean(|x|) * scale: RMSNorm with the mean of absolute values."""

    def __call__(self, x, context=None):
        """Normalises each vector, [..., D] to [..., D]; computes in float32 and returns the type of x."""
        del context
        wide = x.astype(jnp.float32)
        y = wide / (jnp.abs(wide).mean(axis=-1, keepdims=True) + self.epsilon)
        return (y if self.effective_scale is None else y * self.effective_scale).astype(x.dtype)


def reference(config, values, x, positions):
    """The same in plain numpy; `zoo check` compares the two."""
    del positions
    return x / (np.abs(x).mean(axis=-1, keepdims=True) + config.norm.epsilon) * values["scale"]


plugin.register(
    plugin.Kind(
        "PATH",
        "NAME",
        "x / mean(|x|) * scale",
        # What it has in common with other norms: it bounds its output, and reads norm.epsilon.
        traits=frozenset({"normalises", "epsilon"}),
        reference=reference,
    ),
    CLASS,
)
'''

POSITION = '''import jax.numpy as jnp

from zoo import plugin


class CLASS(plugin.Position):
    """score_h(t, s) - a_h ln(1 + |t - s|), with a learned a_h for each head."""

    def __init__(self, config):
        heads = config.attention.num_heads
        self.slope = plugin.parameter((heads,), (None,), lambda key, shape: jnp.linspace(0.1, 1.0, *shape), "scalar")

    def score_bias(self, q, q_positions, k_positions):
        """Returns what is added to the scores, [B or 1, H, T, S]; q is None where all layers share it."""
        del q
        distance = jnp.abs(q_positions[:, :, None] - k_positions[:, None, :]).astype(jnp.float32)
        return -self.slope[...][:, None, None] * jnp.log1p(distance)[:, None]


plugin.register(plugin.Kind("PATH", "NAME", "-a_h ln(1 + distance) is added to the scores"), CLASS)
'''

ATTENTION = '''from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from zoo import plugin


class State(NamedTuple):
    """The sum over s <= t of d^(t - s) k_s v_s^T, for each row and head: [B, H, K, V]."""

    sums: jax.Array

    def take(self, rows):
        """Returns R rows, by number, [R]; beam search chooses rows."""
        return State(self.sums[rows])


class CLASS(plugin.Attention):
    """y_t = sum_{s <= t} d^(t - s) (q_t . k_s) v_s / sqrt(K), with a learned decay d of each head (Sun et
    al. 2023, eq. 5).
    """

    def __init__(self, config, cross=False, gain=1.0):
        super().__init__(config, cross, gain)
        heads = config.attention.num_heads
        self.decay = plugin.parameter((heads,), (None,), lambda key, shape: jnp.linspace(1.0, 4.0, *shape), "scalar")

    def attend(self, x, projected, context, shared):
        """Reads whole rows: q, k, v [B, T, H, K] to [B, T, H, V]; with a cache, leaves the state for decoding."""
        del x, shared
        q, k, v = (heads.astype(jnp.float32) for heads in projected)
        positions = jnp.broadcast_to(context.positions, q.shape[:2])
        distance = positions[:, :, None] - positions[:, None, :]
        # Padding has the position -1.
        visible = (distance >= 0) & (positions >= 0)[:, None, :]
        if context.documents is not None:
            visible &= context.documents[:, :, None] == context.documents[:, None, :]
        weights = jnp.where(visible[:, None], self.power(distance), 0)
        if context.cache is not None:
            age = self.power(context.cache.newest[:, None] - positions)
            kept = jnp.where((positions >= 0)[:, None], age, 0)
            context.cache.entries[self.part] = State(jnp.einsum("bhs,bshk,bshv->bhkv", kept, k, v))
        return self.scaled(jnp.einsum("bhts,bthk,bshk,bshv->bthv", weights, q, k, v), projected)

    def attend_next(self, q, k, v, context, shared):
        """Reads the next token of every row, [B, 1, H, K], with the state, and replaces the state."""
        del shared
        before = context.cache.entries[self.part].sums
        wide = [heads.astype(jnp.float32)[:, 0] for heads in (q, k, v)]
        after = jax.nn.sigmoid(self.decay[...])[:, None, None] * before + jnp.einsum("bhk,bhv->bhkv", *wide[1:])
        context.cache.entries[self.part] = State(after)
        return self.scaled(jnp.einsum("bhk,bhkv->bhv", wide[0], after)[:, None], (q, k, v))

    def power(self, distance):
        """Returns d^distance, with a dimension of heads after that of rows."""
        rate = jax.nn.log_sigmoid(self.decay[...]).reshape(-1, *(1,) * (distance.ndim - 1))
        return jnp.exp(jnp.maximum(distance, 0)[:, None] * rate)

    def scaled(self, y, projected):
        """Returns y / sqrt(K) in the type of the activations."""
        return (y * self.config.scale).astype(projected[0].dtype)

    @staticmethod
    def state_bytes(layer):
        """Returns the bytes that a cache keeps of a row, whatever the number of its tokens."""
        return 4 * layer.attention.num_heads * layer.attention.head_dim**2

    @staticmethod
    def product_flops(layer, queries, keys):
        """Returns the operations beyond the products with weight matrices."""
        return 4 * layer.attention.num_heads * layer.attention.head_dim * queries * keys


def reference(config, values, x, positions):
    """The same in plain numpy, token by token; `zoo check` compares the two."""
    heads, width = config.attention.num_heads, config.attention.head_dim
    q, k, v = (
        (x @ values[name]["kernel"] + values[name]["bias"]).reshape(*x.shape[:2], heads, width)
        for name in ("query", "key", "value")
    )
    decay, y = 1 / (1 + np.exp(-values["decay"])), np.zeros_like(q)
    for row in range(len(x)):
        sums = np.zeros((heads, width, width))
        for t in np.flatnonzero(positions[row] >= 0):
            sums = decay[:, None, None] * sums + np.einsum("hk,hv->hkv", k[row, t], v[row, t])
            y[row, t] = np.einsum("hk,hkv->hv", q[row, t], sums) / np.sqrt(width)
    return y.reshape(*x.shape[:2], -1) @ values["output"]["kernel"] + values["output"]["bias"]


def problems(flat, architecture):
    """Yields a line for each value that the kind cannot be combined with."""
    if architecture != "decoder":
        yield "PATH=NAME reads a row from left to right; it needs model.architecture=decoder"
    if flat["model.attention.num_kv_heads"] != flat["model.attention.num_heads"]:
        yield "PATH=NAME has a key for every head; leave out model.attention.num_kv_heads"


plugin.register(
    plugin.Kind(
        "PATH",
        "NAME",
        "linear attention with a learned decay of each head (Sun et al. 2023)",
        # Which fields it reads: heads, rotary positions, isolated documents. Windows, for one, are refused.
        traits=frozenset({"heads", "positions", "documents"}),
        problems=problems,
        reference=reference,
    ),
    CLASS,
)
'''

OBJECTIVE = '''import jax
import jax.numpy as jnp

from zoo import plugin


class CLASS(plugin.CausalObjective):
    """-(1 - p)^gamma ln p of the next token, p its probability (Lin et al. 2017, eq. 4)."""

    def score_tokens(self, prediction, batch, constants, mode):
        """Returns ({"loss": summed loss}, sums of the metrics); evaluation reports the plain cross-entropy."""
        targets, weights, counts = self.prepare_targets(batch, constants, mode)
        log_p = jnp.take_along_axis(jax.nn.log_softmax(plugin.logits(prediction)), targets[..., None], axis=-1)[..., 0]
        plain = -(weights * log_p).sum()
        gamma = self.hyperparameter("objective.NAME_gamma", constants)
        loss = -(weights * (1 - jnp.exp(log_p)) ** gamma * log_p).sum() if mode.training else plain
        return {"loss": loss}, {"loss": plain, **counts}


plugin.register(
    plugin.Kind(
        "PATH",
        "NAME",
        "the next token, with less weight where it is easy (Lin et al. 2017)",
        # What it has in common with the causal objective: architectures, rows, metrics.
        traits=plugin.traits("PATH", "causal"),
        # Runs that differ only in a traced number share a compiled program.
        fields=(
            plugin.Field("objective.NAME_gamma", 2.0, float, "0 is the causal objective", minimum=0, traced=True),
        ),
    ),
    CLASS,
)
'''

OPTIMIZER = '''import numpy as np
import optax

from zoo import plugin


def rule(values, traits):
    """m <- c m + g, the direction is m (Polyak 1964), with c = `optimizer.NAME_momentum`.

    Clipping, weight decay and the learning rate are applied around it.
    """
    del traits
    return optax.trace(values["optimizer.NAME_momentum"])


def reference(values, gradients):
    """The direction after the gradients of one parameter, in plain numpy; `zoo check` compares the two."""
    momentum = np.zeros_like(gradients[0])
    for gradient in gradients:
        momentum = values["optimizer.NAME_momentum"] * momentum + gradient
    return momentum


plugin.register(
    plugin.Kind(
        "PATH",
        "NAME",
        "gradient descent with momentum (Polyak 1964)",
        fields=(
            plugin.Field(
                "optimizer.NAME_momentum",
                0.9,
                float,
                "c, the decay of the direction",
                minimum=0,
                maximum=0.999,
                traced=True,
            ),
        ),
        reference=reference,
    ),
    rule,
)
'''

SCHEDULE = '''import jax.numpy as jnp
import numpy as np

from zoo import plugin


def share(step):
    """Returns sqrt(1 - k/K) at update k of the K after the warm-up: the share of the peak rate."""
    return jnp.sqrt(jnp.maximum(0, 1 - step.since / step.remaining))


def reference(step):
    """The same in plain numpy; `zoo check` compares the two."""
    return np.sqrt(1 - step.since / step.remaining)


plugin.register(plugin.Kind("PATH", "NAME", "peak * sqrt(1 - share of the steps done)", reference=reference), share)
'''

# Word of --kind -> (field, its default choice, what the file is about, flags of the comparison, code).
TEMPLATES: dict[str, tuple[str, str, str, str, str]] = {
    "feed-forward": ("model.ffn.kind", "gelu", "a feed-forward layer", "", FEED_FORWARD),
    "norm": ("model.norm.kind", "layernorm", "a norm", " --allow parameters", NORM),
    "position": ("model.position.kind", "learned", "a scheme of positions", " --allow parameters,flops", POSITION),
    "attention": (
        "model.attention.kind",
        "softmax",
        "an attention with a state in the cache",
        " --allow parameters,flops",
        ATTENTION,
    ),
    "objective": ("objective.kind", "causal", "a training objective", "", OBJECTIVE),
    "optimizer": ("optimizer.kind", "adamw", "an optimizer", "", OPTIMIZER),
    "schedule": ("schedule.kind", "cosine", "a learning-rate schedule", "", SCHEDULE),
}


def variant_text(kind: str) -> str:
    """Returns the text of a variant's file, with NAME, CLASS, FILE and TITLE still to be replaced.

    Args:
        kind: one of `TEMPLATES`.
    """
    path, default, about, allowed, code = TEMPLATES[kind]
    text = HEADER + code
    for placeholder, value in (("PATH", path), ("DEFAULT", default), ("ABOUT", about), ("ALLOWED", allowed)):
        text = text.replace(placeholder, value)
    return text
