"""What all objectives share: from a model's prediction and its targets to summed losses and the
sums that turn them into metrics.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.activation_record import TOKENS, deviations, evenly
from zoo.layers.context import Context, DropoutKey
from zoo.models.functional import Params, Stats, statistics_of
from zoo.models.head import Prediction, logits
from zoo.objectives.cross_entropy import cross_entropy

Batch = Mapping[str, Int[Array, "B T"]]
Constants = Mapping[str, Array]
Sums = dict[str, Float[Array, ""]]
Number = float | Float[Array, ""]


class Pass(NamedTuple):
    """How a forward pass runs.

    Attributes:
        dropout_key: None to drop nothing.
        training: statistics are those of the batch.
        full: known beforehand: every row is full. So positions are the same for all rows, and what
            depends on them alone is computed once.
        record: where the layers leave what `zoo.layers.activation_record` sums up; None for
            nowhere.
    """

    dropout_key: DropoutKey | None
    training: bool
    full: bool = False
    record: dict[str, Any] | None = None


class Objective:
    """A sum of terms, each a mean of its own: sum over k of (L_k, summed over a batch) / (W_k, its
    weight in the whole batch).

    Every objective has the term "loss", -log p(target) over the W tokens that it scores.

    Args:
        config: resolved.
        tokenizer: what made the tokens.

    Attributes:
        constants: arrays that stay the same for a whole run; `sums` takes them back from the
            device.
        means: what is reported: by name, which of the sums is divided by which.
        share: weight of one scored target; targets of one token add up to 1.
        outputs: names of the arrays with the rows first that stand among the sums of an evaluation;
            scores that are no mean are made of them.
        full_rows: packed rows of training have no empty slot.
        teacher: the model that this one learns from, abstract, or None. Its values are in the
            constants of a program as "teacher", a dict of its parameters and statistics.
    """

    teacher: nnx.Module | None = None
    share = 1.0
    outputs: tuple[str, ...] = ()
    full_rows = True

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        self.config, self.document_id = config, tokenizer.document_id
        self.means: dict[str, tuple[str, str]] = {"loss": ("loss", "weight")}
        self.constants: dict[str, np.ndarray] = {"token_bytes": self.per_id(tokenizer.token_bytes().astype(np.int32))}

    def per_id(self, table: np.ndarray) -> np.ndarray:
        """Fills a table of the tokenizer's ids up with zeros to all ids of the model, of which
        further ones stand for no text.
        """
        return np.pad(table, [(0, self.config.model.vocab_size - len(table))] + [(0, 0)] * (table.ndim - 1))

    def targets(self, batch: Batch) -> Int[Array, "B T"]:
        """The tokens to predict, -1 where nothing is scored."""
        raise NotImplementedError

    def scored(self, batch: Batch, how: Pass) -> Int[Array, "B T"]:
        """The targets that count in a pass: all of them, where evaluation is not about some."""
        return self.targets(batch)

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> Prediction:
        """Runs the model: what it predicts in the targets' places."""
        raise NotImplementedError

    def weights(self, batch: Batch) -> Sums:
        """What each term of the loss is divided by, a function of the whole batch alone; its parts
        add up to it.
        """
        return {"loss": (self.targets(batch) >= 0).sum() * self.share}

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> tuple[Sums, Sums]:
        """Runs the model and sums what it did well or badly: (summed losses, one for each term; the
        other sums), as `sums` has them.
        """
        return self.score_tokens(self.predict(model, batch, constants, how), batch, constants, how)

    def score_tokens(self, prediction: Prediction, batch: Batch, constants: Constants, how: Pass) -> tuple[Sums, Sums]:
        """The term "loss" and the sums that go with it, from a prediction of the targets."""
        targets, weights, counts = self.counted(batch, constants, how)
        record_logits(prediction, weights, how)
        loss, entropy = self.entropy(prediction, targets, weights, constants, how)
        return {"loss": loss}, {"loss": entropy, **counts}

    def counted(
        self, batch: Batch, constants: Constants, how: Pass
    ) -> tuple[Int[Array, "B T"], Float[Array, "B T"], Sums]:
        """The targets as valid ids, the weight of each, and {"weight": their sum, "bytes": that of
        what they stand for}.
        """
        targets = self.scored(batch, how)
        weights = (targets >= 0).astype(jnp.float32) * self.share
        targets = jnp.maximum(targets, 0)
        return targets, weights, {"weight": weights.sum(), "bytes": (constants["token_bytes"][targets] * weights).sum()}

    def entropy(
        self,
        prediction: Prediction,
        targets: Int[Array, "B T"],
        weights: Float[Array, "B T"],
        constants: Constants,
        how: Pass,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """What a prediction of these targets loses, and its cross-entropy alone, as
        `zoo.objectives.cross_entropy` has them.
        """
        return cross_entropy(
            prediction, targets, weights, self.config.objective.chunk_tokens, *self.regularisers(constants, how)
        )

    def regularisers(self, constants: Constants, how: Pass) -> tuple[Number, Number]:
        """What training adds to the cross-entropy: the weight of the z-loss, and how far labels are
        smoothed.
        """
        if not how.training:
            return 0.0, 0.0
        return self.number("objective.z_loss", constants), self.number("objective.label_smoothing", constants)

    def number(self, path: str, constants: Constants) -> Number:
        """The value of a field that is an argument of the program, where it is one; 0 is always
        known beforehand.
        """
        section, *names = path.split(".")
        value = self.config[section]
        for name in names:
            value = value[name]
        return constants.get("hyperparameters", {}).get(path, value) if value else 0.0

    def drawn(self, seed: Int[Array, ""], step: Int[Array, ""]) -> dict[str, Any]:
        """Further constants of one update: what is drawn anew in every step and is the same for all
        parts of its batch.
        """
        return {}

    def read(self, batch: Batch) -> Int[Array, ""]:
        """Number of tokens of text that a batch goes through: by rows of T + 1 tokens that share
        one with the next row, T each.
        """
        return (batch["tokens"][:, 1:] >= 0).sum()

    def too_long(self, model: nnx.Module, length: int) -> str | None:
        """Says why rows of `length` tokens cannot be evaluated, or None where they can."""
        return past_the_table(self.config.model, model, length + max(self.config.data.offsets, default=0))

    def sums(
        self,
        graph: nnx.GraphDef,
        params: Params,
        stats: Stats,
        batch: Batch,
        constants: Constants,
        dropout_key: DropoutKey | None = None,
        training: bool = False,
        record: dict[str, Any] | None = None,
    ) -> tuple[Sums, tuple[Sums, Stats]]:
        """Scores a batch, or a part of one.

        Args:
            graph, params, stats: the model, split.
            batch: arrays with the rows first, as `zoo.data` makes them.
            constants: `self.constants`, on the device; in training with what `drawn` adds.
            dropout_key: None to drop nothing.
            training: statistics are updated, and the loss has all its terms; else its first term is
                the cross-entropy alone.
            record: a dict that is filled with what `zoo.layers.activation_record` sums up; None to
                record nothing.

        Returns:
            The terms that training minimises, each summed and not yet divided by its entry in
            `weights`, and beside them: {"loss": cross-entropy in nats summed over scored tokens,
            "weight": scored tokens, "bytes": bytes of text that they stand for, "tokens": tokens of
            text that were read, and what else `means` and, in evaluation, `outputs` name}, and the
            statistics after the call.
        """
        model = nnx.merge(graph, params, stats)
        how = Pass(
            dropout_key,
            training,
            full=training and self.full_rows and self.config.data.row_format == "packed",
            record=record,
        )
        losses, sums = self.score(model, batch, constants, how)
        return losses, (
            sums | {"tokens": self.read(batch).astype(jnp.float32)},
            statistics_of(model) if training else stats,
        )


def sum_of_means(losses: Sums, weights: Sums) -> Float[Array, ""]:
    """sum over k of L_k / W_k; a term of which a batch has nothing is 0.

    With the weights of a whole batch, the results of its parts add up to that of the whole, and so
    do their gradients.
    """
    return sum(losses[name] / jnp.maximum(weight, 1) for name, weight in weights.items())


def structure(
    tokens: Int[Array, "B T"], isolate: bool, document_id: int, offsets: tuple[int, ...] = ()
) -> tuple[Int[Array, "B T"], Int[Array, "B T"] | None]:
    """Positions and documents of packed rows.

    Args:
        tokens: rows in which `document_id` opens every document.
        isolate: each document counts its positions from 0 and is a world of its own; else a row is
            one sequence.
        offsets: where such rows begin, in turn; empty for 0.

    Returns:
        (positions [B or 1, T], document numbers [B, T] or None).
    """
    index = jnp.arange(tokens.shape[1])[None]
    if not isolate:
        return (index + jnp.array(offsets)[jnp.arange(len(tokens)) % len(offsets), None] if offsets else index), None
    opens = tokens == document_id
    start = jax.lax.cummax(jnp.where(opens, index, 0), axis=1)
    return index - start, jnp.cumsum(opens, axis=1)


def without_padding(positions: Int[Array, "B T"], tokens: Int[Array, "B T"], how: Pass) -> Int[Array, "B T"]:
    """Marks the empty slots of rows that a model sees as a whole."""
    return positions if how.full else jnp.where(tokens >= 0, positions, -1)


def context_of(
    how: Pass,
    positions: Int[Array, "B T"],
    documents: Int[Array, "B T"] | None = None,
    causal: bool = True,
    prefix: int = 0,
    in_order: bool = True,
) -> Context:
    """The context of rows whose tokens stand in order, by default from 0 on."""
    return Context(
        positions,
        documents,
        causal,
        in_order=in_order,
        dropout_key=how.dropout_key,
        training=how.training,
        prefix=prefix,
        record=how.record,
    )


def record_logits(prediction: Prediction, weights: Float[Array, "B T"], how: Pass) -> None:
    """Records how far the scores of up to `TOKENS` scored tokens, evenly spread over a batch, are
    from their mean.
    """
    if how.record is not None:
        places = evenly(weights.size, TOKENS)
        hidden = prediction.hidden.reshape(weights.size, -1)[places]
        how.record["logits"] = deviations(
            logits(prediction._replace(hidden=hidden[None]))[0], weights.reshape(-1)[places] > 0
        )


def past_the_table(config: ResolvedConfig, module: nnx.Module, length: int, whose: str = "") -> str | None:
    """Says that rows of `length` tokens are longer than a table of positions, or None.

    Args:
        config: the `model` part of a config as the module sees it.
        module: what holds the positions.
        length: number of tokens.
        whose: whose positions these are, for the line.
    """
    most = module.position.max_length
    return None if most is None or length <= most else f"{whose}{config.position.kind} positions end at {most}"
