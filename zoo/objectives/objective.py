"""The base of all objectives: from a model's prediction and its targets to summed losses, and to
the sums behind the metrics.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Integer, Key

from zoo.config import ResolvedConfig
from zoo.data.rows.packed_rows import BYTES
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.activation_record import TOKENS, deviations, evenly_spaced
from zoo.layers.context import Context, ForwardMode, path_hash
from zoo.models.functional import Params, Stats, statistics_of
from zoo.models.head import LogitFactors, logits
from zoo.objectives.cross_entropy import Scalar, cross_entropy
from zoo.objectives.layer_terms import LayerTerms
from zoo.objectives.token_chunks import chunk_tokens

Batch = Mapping[str, Array]
"""Arrays with the rows first, by name."""
Constants = Mapping[str, Any]
"""Arrays by name, "hyperparameters" by path, and the values of a "teacher"."""
Sums = dict[str, Array]
"""Numbers by name; in evaluation also `Objective.outputs`."""


EVALUATION = ForwardMode()


class Objective:
    """Defines the targets of a model, the loss and the sums behind the metrics.

    The loss is sum_k L_k / W_k: L_k is term k summed over what it scores (mostly tokens), W_k the
    number (weight) of tokens that it is averaged over, counted over the whole batch also when the
    batch is processed in parts.

    Every objective has the term "loss", -log p(target) over the W tokens that it scores. Layers may
    add others (`zoo.objectives.layer_terms`).

    Args:
        config: the resolved config.
        tokenizer: the tokenizer that made the tokens.

    Attributes:
        constants: host arrays that stay the same for a whole run; they are copied to the devices
            once and passed to `sums`.
        means: the metrics: by name, which of the sums is divided by which. Training has no sums of
            the terms of layers that have no weight (`zoo.objectives.layer_terms`).
        target_weight: weight of one scored target; the targets of one token add up to 1.
        outputs: names of arrays with rows first that an evaluation returns among its sums, for
            scores that are not means.
        packed_without_padding: packed rows of training have no padding.
        marks_padding: rows that may have padding have positions of their own, -1 where it is.
        teacher: the model that this one learns from, abstract, or None. Its values are in the
            constants of a program as "teacher", a dict of its parameters and statistics.
    """

    teacher: nnx.Module | None = None
    target_weight = 1.0
    outputs: tuple[str, ...] = ()
    packed_without_padding = True
    marks_padding = False

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        self.config, self.bos_id, self.start_id = config, tokenizer.bos_id, tokenizer.start_id
        self.layer_terms = LayerTerms(config)
        self.means: dict[str, tuple[str, str]] = {"loss": ("loss", "weight"), **self.layer_terms.means}
        self.constants: dict[str, np.ndarray] = {
            "token_bytes": self.pad_to_vocab(tokenizer.token_bytes().astype(np.int32))
        }

    @property
    def chunk_tokens(self) -> int:
        """Returns about how many tokens' logits exist at once on a device; 0 for all of them."""
        return chunk_tokens(self.config.objective.chunk_tokens, self.config.model.vocab_size)

    def pad_to_vocab(self, table: np.ndarray) -> np.ndarray:
        """Pads a table over the tokenizer's ids with zeros to all ids of the model."""
        return np.pad(table, [(0, self.config.model.vocab_size - len(table))] + [(0, 0)] * (table.ndim - 1))

    def targets(self, batch: Batch) -> Int[Array, "B T"]:
        """Returns the tokens to predict, -1 where nothing is scored."""
        raise NotImplementedError

    def scored_targets(self, batch: Batch, mode: ForwardMode) -> Int[Array, "B T"]:
        """Returns the targets that count in this mode: all, unless evaluation leaves some out."""
        return self.targets(batch)

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> LogitFactors:
        """Runs the model and returns its prediction of the targets, as factors of the logits."""
        raise NotImplementedError

    def normalizers(self, batch: Batch) -> Sums:
        """Returns W_k of each term of the objective's own loss, by name, counted over this batch."""
        return {"loss": (self.targets(batch) >= 0).sum() * self.target_weight}

    def all_normalizers(self, batch: Batch) -> Sums:
        """Returns W_k of each term of the loss: the objective's own and those that layers add."""
        return self.normalizers(batch) | (
            self.layer_terms.normalizers(self.num_rows(batch)) if self.layer_terms.trained else {}
        )

    def num_rows(self, batch: Batch) -> Int[Array, ""]:
        """Returns the number of rows that are no padding."""
        return (self.targets(batch) >= 0).any(axis=1).sum()

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Runs the model and returns (the summed loss of each term, the other sums); see `sums`."""
        return self.score_tokens(self.predict(model, batch, constants, mode), batch, constants, mode)

    def score_tokens(
        self, prediction: LogitFactors, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> tuple[Sums, Sums]:
        """Returns the term "loss" and its sums, from a prediction of the targets."""
        targets, weights, counts = self.prepare_targets(batch, constants, mode)
        record_logits(prediction, weights, mode)
        loss, cross_entropy_sum = self.token_loss(prediction, targets, weights, constants, mode)
        # The first "loss" is minimised; the second, the cross-entropy alone, is reported.
        return {"loss": loss}, {"loss": cross_entropy_sum, **counts}

    def prepare_targets(
        self, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> tuple[Int[Array, "B T"], Float[Array, "B T"], Sums]:
        """Returns the targets as valid ids, the weight of each, and {"weight": the sum of weights,
        "bytes": weighted bytes of the documents that the targets have}.
        """
        targets = self.scored_targets(batch, mode)
        weights = (targets >= 0).astype(jnp.float32) * self.target_weight
        return self.counted(targets, weights, batch, constants)

    def counted(
        self, targets: Int[Array, "B T"], weights: Float[Array, "B T"], batch: Batch, constants: Constants
    ) -> tuple[Int[Array, "B T"], Float[Array, "B T"], Sums]:
        """Returns what `prepare_targets` does, of targets with -1 where there is none."""
        targets = jnp.maximum(targets, 0)
        sizes = self.target_bytes(batch) if BYTES in batch else constants["token_bytes"][targets]
        return targets, weights, {"weight": weights.sum(), "bytes": (sizes * weights).sum()}

    def target_bytes(self, batch: Batch) -> Int[Array, "B T"]:
        """Returns the bytes of the documents that each target has, from a batch that says them (those
        of a tokenizer whose pieces do not).
        """
        return batch[BYTES]

    def token_loss(
        self,
        prediction: LogitFactors,
        targets: Int[Array, "B T"],
        weights: Float[Array, "B T"],
        constants: Constants,
        mode: ForwardMode,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns the loss of a prediction, and its cross-entropy alone (see `cross_entropy`)."""
        return cross_entropy(
            prediction, targets, weights, self.chunk_tokens, *self.regularisers(constants, mode), mode.sharding
        )

    def regularisers(self, constants: Constants, mode: ForwardMode) -> tuple[Scalar, Scalar]:
        """Returns what training adds to the cross-entropy: the weight of the z-loss, and the label
        smoothing.
        """
        if not mode.training:
            return 0.0, 0.0
        return self.hyperparameter("objective.z_loss", constants), self.hyperparameter(
            "objective.label_smoothing", constants
        )

    def hyperparameter(self, path: str, constants: Constants) -> Scalar:
        """Returns the value of a config field: the traced argument if the compiled program has one,
        otherwise the constant from the config. A 0 in the config is always the constant 0.0, so
        that the term it weighs is not computed.
        """
        section, *names = path.split(".")
        value = self.config[section]
        for name in names:
            value = value[name]
        return constants.get("hyperparameters", {}).get(path, value) if value else 0.0

    def per_step_constants(self, seed: Integer[Array, ""], step: Integer[Array, ""]) -> dict[str, Any]:
        """Returns random values drawn once per update and shared by all parts of its batch."""
        return {}

    def num_tokens(self, batch: Batch) -> Int[Array, ""]:
        """Returns the number of text tokens that are read. A row holds T + 1 tokens but counts as
        T, because its last token is also the first of the next row.
        """
        return (batch["tokens"][:, 1:] >= 0).sum()

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why rows of `length` tokens cannot be evaluated, or None if they can."""
        return beyond_position_table(
            self.config.model, model, length + max(self.config.data.position_offsets, default=0)
        )

    def sums(
        self,
        graph: nnx.GraphDef,
        params: Params,
        stats: Stats,
        batch: Batch,
        constants: Constants,
        mode: ForwardMode = EVALUATION,
    ) -> tuple[Sums, tuple[Sums, Stats]]:
        """Scores a batch, or a part of one.

        Args:
            graph, params, stats: the model, split.
            batch: arrays with the rows first, as `zoo.data` makes them.
            constants: `self.constants`, on the device; in training with `per_step_constants`.
            mode: how the model runs; `no_padding` and `losses` are set here. In training, statistics
                are updated, and the loss has all its terms; otherwise its first term is the
                cross-entropy alone.

        Returns:
            (losses, (sums, statistics)). The losses are the terms that training minimises, summed
            and not yet divided by their entry in `all_normalizers`. The sums are what is reported:
            {"loss": the cross-entropy alone in nats, summed over scored tokens, "weight": scored
            tokens, "bytes": bytes of text that they stand for, "tokens": tokens of text that were
            read, and everything else that `means` and, in evaluation, `outputs` name}. The
            statistics are those after the call.
        """
        model = nnx.merge(graph, params, stats)
        mode = replace(
            mode,
            no_padding=mode.training and self.packed_without_padding and self.config.data.row_format == "packed",
            losses={} if self.layer_terms.computed(mode.training) else None,
        )
        losses, sums = self.score(model, batch, constants, mode)
        if mode.losses is not None:
            rows = self.num_rows(batch).astype(jnp.float32)
            added = self.layer_terms.score(
                mode.losses, rows, lambda path: self.hyperparameter(path, constants), mode.training
            )
            losses, sums = losses | added[0], sums | added[1]
        return losses, (
            sums | {"tokens": self.num_tokens(batch).astype(jnp.float32)},
            statistics_of(model) if mode.training else stats,
        )


def step_key(seed: Integer[Array, ""], step: Integer[Array, ""], purpose: str) -> Key[Array, ""]:
    """Returns the random key of an update for a purpose, e.g. "objective/replacements"."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), step), path_hash(purpose))


def sum_of_means(losses: Sums, normalizers: Sums) -> Float[Array, ""]:
    """Returns the loss, the sum over k of L_k / W_k; a term with W_k = 0 contributes 0.

    With the normalizers of a whole batch, the results of its parts add up to that of the whole, and
    so do their gradients.
    """
    return sum(losses[name] / jnp.maximum(normalizer, 1) for name, normalizer in normalizers.items())


def positions_and_documents(
    tokens: Int[Array, "B T"],
    isolate: bool,
    bos_id: int,
    offsets: tuple[int, ...] = (),
    rows: Int[Array, " B"] | None = None,
) -> tuple[Int[Array, "#B T"], Int[Array, "B T"] | None]:
    """Returns positions and document numbers of packed rows.

    Args:
        tokens: rows in which `bos_id` opens every document.
        isolate: each document is a sequence of its own, with positions from 0; otherwise a row is
            one sequence.
        offsets: first positions of such rows, in turn; empty for 0.
        rows: numbers of the rows in the whole batch (`ForwardMode.rows`).

    Returns:
        (positions [B or 1, T], document numbers [B, T] or None).
    """
    index = jnp.arange(tokens.shape[1])[None]
    if not isolate:
        numbers = jnp.arange(len(tokens)) if rows is None else rows
        return (index + jnp.array(offsets)[numbers % len(offsets), None] if offsets else index), None
    opens = tokens == bos_id
    start = jax.lax.cummax(jnp.where(opens, index, 0), axis=1)
    return index - start, jnp.cumsum(opens, axis=1)


def mark_padding(positions: Int[Array, "#B T"], tokens: Int[Array, "B T"], mode: ForwardMode) -> Int[Array, "#B T"]:
    """Sets the positions of padding to -1, in rows that a model reads as a whole."""
    return positions if mode.no_padding else jnp.where(tokens >= 0, positions, -1)


def mark_last_padding(
    positions: Int[Array, "#B T"], tokens: Int[Array, "B T"], mode: ForwardMode
) -> Int[Array, "#B T"]:
    """Does the same in causal rows, whose padding comes last. Nothing sees it there, so it is marked
    only where layers add terms to the loss, as experts do, which are of tokens alone.
    """
    return positions if mode.losses is None else mark_padding(positions, tokens, mode)


def make_context(
    mode: ForwardMode,
    positions: Int[Array, "#B T"],
    documents: Int[Array, "B T"] | None = None,
    causal: bool = True,
    prefix: int = 0,
    in_order: bool = True,
) -> Context:
    """Returns the context of rows; see `Context` for the arguments."""
    return Context(positions, documents, causal, in_order, prefix=prefix, **vars(mode))


def record_logits(prediction: LogitFactors, weights: Float[Array, "B T"], mode: ForwardMode) -> None:
    """Records the deviation of the logits from their mean, for up to `TOKENS` scored tokens spread
    evenly over a batch.
    """
    if mode.record is not None:
        places = evenly_spaced(weights.size, TOKENS)
        hidden = prediction.hidden.reshape(weights.size, -1)[places]
        scores = logits(prediction._replace(hidden=hidden[None]))[0]
        mode.record["logits"] = deviations(scores[:, : prediction.ids or None], weights.reshape(-1)[places] > 0)


def beyond_position_table(config: ResolvedConfig, module: nnx.Module, length: int, whose: str = "") -> str | None:
    """Returns a line if rows of `length` tokens are longer than a table of positions, else None.

    Args:
        config: the `model` part of a config as the module sees it.
        module: the module with the positions.
        length: number of tokens.
        whose: owner of the positions, for the line, e.g. "the decoder's ".
    """
    max_length = module.position.max_length
    if max_length is None or length <= max_length:
        return None
    return f"{whose}{config.position.kind} positions end at {max_length}"
