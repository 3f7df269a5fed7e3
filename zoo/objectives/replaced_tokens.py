"""Replaced-token detection: a generator puts tokens of its own in place of hidden ones, and the model
says which ones they are (ELECTRA).
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Integer, Key, UInt32

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.activation_record import deviations
from zoo.models.head import LogitFactors, logits
from zoo.objectives.masked import MaskedObjective
from zoo.objectives.objective import Batch, Constants, ForwardMode, Sums, step_key
from zoo.objectives.token_chunks import in_chunks, number_of_chunks

MULTIPLIER = 0x9E3779B1


class ReplacedTokensObjective(MaskedObjective):
    """L_MLM + lambda * L_disc, lambda = `objective.discriminator_weight` (Clark et al. 2020,
    section 3.1).

    The generator reads a row in which tokens are hidden, as in `MaskedObjective`; L_MLM is the mean
    over the chosen tokens of -log p(x_t | the row with hidden tokens). Each chosen token is then
    replaced by a draw from p, through which no gradient flows. The model reads that row and gives
    every token the logit s_t of "it was replaced"; L_disc is the mean over all tokens that are not
    padding of -log sigmoid(s_t) where it was, and of -log(1 - sigmoid(s_t)) where not. A draw that is
    the original token counts as original. Without a generator (`model.generator.num_layers=0`) draws
    are uniform over all ids, and there is no L_MLM.

    The metric "loss" is L_disc alone, in nats per token. "accuracy" is the share of tokens whose
    logit has the right sign, "replaced_accuracy" that among replaced tokens. "generator_loss" is
    L_MLM without its other terms, "generator_accuracy" the share of draws that are the original.

    Draws depend on the seed, the step, the row that the generator reads and the place in it, so
    neither the parts of a batch nor the number of devices change them. An evaluation draws the same
    way every time and for every seed.
    """

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.generates = config.model.generator.num_layers > 0
        self.means |= {"accuracy": ("right", "weight"), "replaced_accuracy": ("replaced_right", "replaced")}
        self.means |= {"generator_loss": ("generator_loss", "chosen")} if self.generates else {}
        self.means |= {"generator_accuracy": ("generator_right", "chosen")}

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the numbers of tokens and of chosen tokens."""
        chosen = {"generator": (self.targets(batch) >= 0).sum()} if self.generates else {}
        return {"loss": (batch["tokens"] >= 0).sum()} | chosen

    def per_step_constants(self, seed: Integer[Array, ""], step: Integer[Array, ""]) -> dict[str, Any]:
        """Returns the key of an update's draws, a function of (seed, step)."""
        return {"replacements": step_key(seed, step, "objective/replacements")}

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Scores the generator's predictions and the model's verdicts on all tokens."""
        losses, sums, prediction = {}, {}, None
        if self.generates:
            prediction = self.generator_prediction(model, batch, mode)
            of_generator, counts = self.score_tokens(prediction, batch, constants, replace(mode, record=None))
            losses, sums = {"generator": of_generator["loss"]}, {"generator_loss": counts["loss"]}
        drawn, chosen = self.draw(prediction, batch, constants), self.targets(batch) >= 0
        tokens, replaced = replace_tokens(batch, drawn)
        hidden = model(jnp.maximum(tokens, 0), self.context(batch, mode), batch.get("segments"))
        verdicts = score_verdicts(model.replaced_logits(hidden), replaced, tokens >= 0, mode)
        weight = self.hyperparameter("objective.discriminator_weight", constants)
        right = (chosen & (drawn == self.targets(batch))).sum().astype(jnp.float32)
        counts = {"chosen": chosen.sum().astype(jnp.float32), "generator_right": right}
        weighted = weight * verdicts["loss"] if mode.training else verdicts["loss"]
        return {"loss": weighted} | losses, sums | verdicts | counts

    def generator_prediction(self, model: nnx.Module, batch: Batch, mode: ForwardMode) -> LogitFactors:
        """Returns the generator's prediction at the chosen positions."""
        tokens = jnp.maximum(batch["tokens"], 0)
        hidden = model.generator_states(tokens, self.context(batch, mode), batch.get("segments"))
        return model.generator_prediction(*self.chosen(hidden, batch, mode))

    def draw(self, prediction: LogitFactors | None, batch: Batch, constants: Constants) -> Int[Array, "B N"]:
        """Returns a draw for every chosen position, from the prediction or uniform."""
        key = constants.get("replacements", jax.random.key(0))
        places = batch["masked_positions"]
        rows = jnp.broadcast_to(row_hashes(batch["tokens"])[:, None], places.shape)
        if prediction is None:
            ids = self.config.model.vocab_size
            return jax.vmap(jax.vmap(lambda row, place: jax.random.randint(place_key(key, row, place), (), 0, ids)))(
                rows, places
            )
        return draw_tokens(prediction, rows, places, key, self.chunk_tokens)


def row_hashes(tokens: Int[Array, "B T"]) -> UInt32[Array, " B"]:
    """Returns a number for the content of each row; padding (-1) does not change it."""
    powers = np.cumprod(np.full(tokens.shape[1], MULTIPLIER, np.uint32), dtype=np.uint32)
    return jnp.where(tokens >= 0, (tokens + 1).astype(jnp.uint32) * powers, 0).sum(axis=1, dtype=jnp.uint32)


def place_key(key: Key[Array, ""], row: UInt32[Array, ""], place: Int[Array, ""]) -> Key[Array, ""]:
    """Returns the key of the draw at one place of a row."""
    return jax.random.fold_in(jax.random.fold_in(key, row), place)


def draw_tokens(
    prediction: LogitFactors,
    rows: UInt32[Array, "B N"],
    places: Int[Array, "B N"],
    key: Key[Array, ""],
    chunk_tokens: int,
) -> Int[Array, "B N"]:
    """Returns ids drawn from softmax(logits), without a gradient.

    Args:
        prediction: of N tokens of each row.
        rows, places: hash of the row and position of each token, which make the key of its draw.
        key: random key.
        chunk_tokens: about how many tokens' logits exist at once on a device; 0 for all of them.
    """
    hidden, matrix, bias = jax.lax.stop_gradient(prediction[:3])
    parts = number_of_chunks(*places.shape, chunk_tokens)

    def of_chunk(chunk: tuple[Array, Array, Array]) -> Int[Array, "B C"]:
        h, row, place = chunk
        scores = logits(prediction._replace(hidden=h, weights=matrix, bias=bias))
        keys = jax.vmap(jax.vmap(lambda row, place: place_key(key, row, place)))(row, place)
        return jax.vmap(jax.vmap(jax.random.categorical))(keys, scores)

    chunks = jax.lax.map(of_chunk, tuple(in_chunks(x, parts) for x in (hidden, rows, places)))
    return jnp.moveaxis(chunks, 0, 1).reshape(places.shape[0], -1)[:, : places.shape[1]]


def replace_tokens(batch: Batch, drawn: Int[Array, "B N"]) -> tuple[Int[Array, "B T"], Bool[Array, "B T"]]:
    """Returns (rows with the drawn ids at the chosen positions, which tokens differ from before)."""
    tokens, places, targets = batch["tokens"], batch["masked_positions"], batch["targets"]
    rows, chosen = jnp.arange(len(tokens))[:, None], targets >= 0
    # Unused entries point beyond the row, where nothing is written.
    places = jnp.where(chosen, places, tokens.shape[1])
    replaced = jnp.zeros(tokens.shape, bool).at[rows, places].set(drawn != targets, mode="drop")
    return tokens.at[rows, places].set(drawn, mode="drop"), replaced


def score_verdicts(
    scores: Float[Array, "B T"], replaced: Bool[Array, "B T"], real: Bool[Array, "B T"], mode: ForwardMode
) -> Sums:
    """Returns the sums behind L_disc and the accuracies.

    Args:
        scores: logits of "replaced".
        replaced: which tokens were.
        real: which tokens are no padding.
        mode: records the deviation of the two classes' logits, 0 and s, from their mean.
    """
    if mode.record is not None:
        mode.record["logits"] = deviations(jnp.stack([jnp.zeros_like(scores), scores], axis=-1), real)
    surprisal = jax.nn.softplus(jnp.where(replaced, -scores, scores))
    right = real & ((scores > 0) == replaced)
    counts = {"weight": real, "right": right, "replaced": replaced & real, "replaced_right": replaced & right}
    sums = {name: tokens.sum().astype(jnp.float32) for name, tokens in counts.items()}
    return sums | {"loss": jnp.where(real, surprisal, 0.0).sum()}
