"""ELMo: a forward and a backward language model over characters with shared token vectors and
softmax (Peters et al. 2018).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float, Int

from zoo.config import AUTO, ResolvedConfig
from zoo.layers.characters import CharacterCNN
from zoo.layers.context import Context, DropoutKey
from zoo.layers.parameter import Linear, kernel_initializer, parameter, zeros
from zoo.layers.recurrent import ProjectedLSTM
from zoo.layers.scalar_mix import ScalarMix, normalise_layers
from zoo.models.functional import stack
from zoo.models.head import LogitFactors, TaskHead, logits


class Carry(NamedTuple):
    """State of both directions between two batches of consecutive text.

    Attributes:
        state: [2, L, B, D], h after the last token read; index 0 is the forward direction, 1 the
            backward one.
        memory: [2, L, B, M], the cells' c, float32.
    """

    state: Float[Array, "2 L B D"]
    memory: Float[Array, "2 L B M"]


class Direction(nnx.Module):
    """L LSTM layers: x_1 = LSTM_1(x_0), x_j = LSTM_j(x_(j-1)) + x_(j-1) for j > 1; with
    `model.residual` off, x_j = LSTM_j(x_(j-1)).

    The token vectors x_0 have no skip connection: the only one of the published model is between
    its two layers.
    """

    def __init__(self, config: ResolvedConfig):
        self.layers = stack(ProjectedLSTM(config), range(config.num_layers))
        self.residual, self.rate = config.residual, config.dropout

    def __call__(
        self, x: Float[Array, "T B D"], filled: Bool[Array, "T B"], carry: Carry, context: Context, reverse: bool
    ) -> tuple[Float[Array, "L T B D"], Carry]:
        """Reads rows, time first, and returns the output of every layer and this direction's new
        carry, [L, B, ...].
        """
        graph, params = nnx.split(self.layers)
        leaves, structure = jax.tree.flatten(params)
        outputs, states = [], []
        for index, values in enumerate(zip(*(jnp.unstack(leaf) for leaf in leaves), strict=True)):
            layer = nnx.merge(graph, jax.tree.unflatten(structure, values))
            # Masks belong to rows, which come first there.
            x = context.layer(index).dropout(x.swapaxes(0, 1), self.rate, "layers").swapaxes(0, 1)
            y, state = layer(x, filled, (carry.state[index], carry.memory[index]), reverse)
            x = y + x if self.residual and index else y
            outputs.append(x)
            states.append(state)
        return jnp.stack(outputs), Carry(*(jnp.stack(part) for part in zip(*states, strict=True)))


class Softmax(nnx.Module):
    """The output matrix and bias, shared by both directions."""

    def __init__(self, config: ResolvedConfig):
        self.weights = parameter(
            (config.vocab_size, config.dim), ("vocab", "embed"), kernel_initializer(config, transposed=True), "head"
        )
        self.bias = parameter((config.vocab_size,), ("vocab",), zeros)


class ELMo(nnx.Module, TaskHead):
    """p(t_k | t_1 .. t_(k-1)) from the forward states at k - 1, p(t_k | t_(k+1) .. t_N) from the
    backward states at k + 1, for a text with N tokens.

    Peters et al. 2018, section 3.1, with the sizes of section 3.4. Both directions read the same
    token vectors and predict through the same softmax; their LSTMs are their own. Dropout, as in
    the published training, acts on the input of every layer (a skip connection carries the dropped
    input) and on the output of the last. A task replaces the softmax by a mixture of the layers and
    a head over it.
    """

    def __init__(self, config: ResolvedConfig):
        self.characters = CharacterCNN(config)
        self.forward = Direction(config)
        self.backward = Direction(config)
        if config.head.classes == AUTO:
            self.head = Softmax(config)
        else:
            self.mix = ScalarMix(config.num_layers + 1)
            self.classifier = Linear(
                2 * config.dim, config.head.classes, ("embed", None), True, kernel_initializer(config), "head"
            )
        self.config = config

    def __call__(
        self,
        characters: Int[Array, "B T C"],
        filled: Bool[Array, "B T"],
        dropout_key: DropoutKey | None = None,
        carry: Carry | None = None,
    ) -> tuple[Float[Array, "B T D"], Float[Array, "B T D"]]:
        """Returns the last layer's states from which the head predicts: (forward, backward).

        Args:
            characters: ids of every token's characters, see `zoo.layers.characters`.
            filled: False for padding, which gives zeros and which no other token sees.
            dropout_key: key of this forward pass; None drops nothing.
            carry: state after the text before, from `read`; None starts from zero.
        """
        layers, _ = self._read(characters, filled, dropout_key, carry)
        context = _context(filled, dropout_key)
        return tuple(
            context.side(side).dropout(layers[-1, :, :, index], self.config.dropout, "output")
            for index, side in enumerate(("forward", "backward"))
        )

    def representations(
        self, characters: Int[Array, "B T C"], filled: Bool[Array, "B T"], carry: Carry | None = None
    ) -> Float[Array, "L B T E"]:
        """Returns the layers that a task mixes (`zoo.layers.scalar_mix`): L + 1 layers of [forward;
        backward], E = 2D; layer 0 is [x; x].
        """
        return self.read(characters, filled, carry)[0]

    def states(
        self, characters: Int[Array, "B T C"], filled: Bool[Array, "B T"], dropout_key: DropoutKey | None = None
    ) -> Float[Array, "B T L E"]:
        """Returns the input of `task_scores`: `representations` from zero states, by token, and
        with `elmo.layer_norm` normalised.
        """
        layers, _ = self._read(characters, filled, dropout_key, None)
        layers = jnp.moveaxis(layers.reshape(*layers.shape[:3], -1), 0, 2)
        return normalise_layers(layers) if self.config.elmo.layer_norm else layers

    def read(
        self, characters: Int[Array, "B T C"], filled: Bool[Array, "B T"], carry: Carry | None = None
    ) -> tuple[Float[Array, "L B T E"], Carry]:
        """Reads one batch of a longer text and returns (`representations`, carry for the next
        batch).

        The forward direction continues where it stopped. So does the backward one, as in the
        published model: it enters the end of a batch with its state at the beginning of the
        previous batch.
        """
        layers, carry = self._read(characters, filled, None, carry)
        L, B, T = layers.shape[:3]
        return layers.reshape(L, B, T, -1), carry

    def empty_carry(self, batch: int) -> Carry:
        """Returns the carry of `batch` rows at the beginning of a text."""
        shape = (2, self.config.num_layers, batch)
        return Carry(
            jnp.zeros((*shape, self.config.dim), self.config.dtype),
            jnp.zeros((*shape, self.config.elmo.cell_dim), jnp.float32),
        )

    def prediction(self, hidden: Float[Array, "B T D"]) -> LogitFactors:
        """Returns the prediction of every token id, from the states of either direction."""
        return LogitFactors(hidden, self.head.weights[...], self.head.bias[...], 0.0)

    def logits(self, hidden: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        """Returns float32 scores of every token id; training uses the chunked loss instead."""
        return logits(self.prediction(hidden))

    def _read(self, characters, filled, dropout_key, carry) -> tuple[Float[Array, "L B T 2 D"], Carry]:
        """Returns all layers, token vectors first, with both directions in the last but one
        dimension.
        """
        carry = self.empty_carry(characters.shape[0]) if carry is None else carry
        context = _context(filled, dropout_key)
        x = jnp.where(filled[..., None], self.characters(characters), 0)
        layers, carries = [], []
        for index, (side, direction) in enumerate((("forward", self.forward), ("backward", self.backward))):
            before = Carry(carry.state[index], carry.memory[index])
            above, after = direction(x.swapaxes(0, 1), filled.T, before, context.side(side), reverse=side == "backward")
            layers.append(jnp.concatenate([x[None], above.swapaxes(1, 2)]))
            carries.append(after)
        return jnp.stack(layers, axis=3), Carry(*(jnp.stack(part) for part in zip(*carries, strict=True)))


def _context(filled: Bool[Array, "B T"], dropout_key: DropoutKey | None) -> Context:
    return Context(jnp.where(filled, jnp.arange(filled.shape[1]), -1), dropout_key=dropout_key)
