"""One update of the training state: gradient of the loss, optimizer and metrics."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jaxtyping import Array

from zoo.config import ResolvedConfig
from zoo.layers.context import DropoutKey
from zoo.models.functional import Params, Stats, refresh, split, unrolled_ndim
from zoo.models.parameter_groups import group_labels
from zoo.nested import flatten
from zoo.objectives import Objective
from zoo.objectives.objective import sum_of_means
from zoo.training.dynamics import UpdateStatistics, update_statistics
from zoo.training.freezing import mask_updates, stop_gradient_where_frozen, trainable_mask
from zoo.training.optimizer import make_optimizer, make_schedule
from zoo.training.state import State

Batch = Mapping[str, Array]
Constants = dict[str, Any]
Metrics = dict[str, Array]


def uses_dropout(config: ResolvedConfig) -> bool:
    """Returns whether any part of the model has a dropout rate above 0."""
    return any(rate > 0 for path, rate in flatten(config.model).items() if path.split(".")[-1] == "dropout")


class UpdateStep:
    """Computes one update of the training state, or only statistics of that update.

    `update` does the former, `dynamics` the latter.

    Args:
        config: the resolved config.
        model: the abstract model.
        objective: the objective that gives the loss.
    """

    def __init__(self, config: ResolvedConfig, model: nnx.Module, objective: Objective):
        self._config, self._model, self._objective = config, model, objective
        self._graph, self._unrolled_ndim = split(model)[0], unrolled_ndim(model)
        self._labels = group_labels(config, model)
        self._mask = trainable_mask(config, model)
        self._body_frozen, self._uses_dropout = config.training.trained_layers == 0, uses_dropout(config)

    def update(self, state: State, batch: Batch, constants: Constants) -> tuple[State, Metrics]:
        """Returns the state after one update, and metrics of the update.

        A non-finite loss or gradient leaves the state unchanged, so that the last good parameters
        can be inspected; the metric "finite" is then False.
        """
        loss, sums, stats, gradient = self._gradient(state, batch, constants)
        norm = optax.global_norm(gradient)
        updates, optimizer_state = self._optimizer_updates(state, gradient, constants)
        new = {
            "step": state["step"] + 1,
            "params": optax.apply_updates(state["params"], updates),
            "stats": stats,
            "optimizer": optimizer_state,
        }
        finite = jnp.isfinite(loss) & jnp.isfinite(norm)
        new = jax.tree.map(lambda after, before: jnp.where(finite, after, before), new, state)
        means = {
            name: sums[total] / jnp.maximum(sums[weight], 1) for name, (total, weight) in self._objective.means.items()
        }
        rate = make_schedule(self._config, constants["hyperparameters"])(state["step"])
        metrics = {
            **means,
            "gradient_norm": norm,
            "learning_rate": jnp.asarray(rate, jnp.float32),
            "tokens": sums["tokens"],
            "finite": finite,
        }
        return new, metrics

    def dynamics(self, state: State, batch: Batch, constants: Constants) -> UpdateStatistics:
        """Returns statistics of the update that `update` would make."""
        _, (_, record), _, gradient = self._gradient(state, batch, constants, recording=True)
        updates, _ = self._optimizer_updates(state, gradient, constants)
        return update_statistics(self._model, record, state["params"], gradient, updates)

    def _gradient(self, state: State, batch: Batch, constants: Constants, recording: bool = False):
        """Returns (loss, sums, stats, gradient) of a batch.

        With `recording`, (sums, record of the layers) takes the place of the sums.
        """
        seed, step, objective = constants["seed"], state["step"], self._objective
        key = jax.random.fold_in(jax.random.key(seed), step) if self._uses_dropout else None
        normalizers = objective.all_normalizers(batch)
        constants = {**constants, **objective.per_step_constants(seed, step)}
        stats = state["stats"] if self._body_frozen else refresh(self._model, state["stats"], seed, step)

        def loss_of(params, stats, part, index):
            part_key = None if key is None else DropoutKey(jax.random.fold_in(key, index), constants["hyperparameters"])
            params, record = stop_gradient_where_frozen(params, self._mask), {} if recording else None
            losses, (sums, stats) = objective.sums(
                self._graph, params, stats, part, constants, part_key, training=True, record=record
            )
            return sum_of_means(losses, normalizers), ((sums, record) if recording else sums, stats)

        return accumulate_gradients(loss_of, state["params"], stats, batch, self._config.training.accumulation_steps)

    def _optimizer_updates(self, state: State, gradient: Params, constants: Constants) -> tuple[Params, Any]:
        """Returns (what is added to the parameters, the optimizer's state after it)."""
        optimizer = make_optimizer(self._config, self._unrolled_ndim, constants["hyperparameters"], self._labels)
        updates, optimizer_state = optimizer.update(gradient, state["optimizer"], state["params"])
        return mask_updates(updates, self._mask), optimizer_state


def accumulate_gradients(
    loss_of: Callable[[Params, Stats, Batch, Any], tuple[Array, tuple[Any, Stats]]],
    params: Params,
    stats: Stats,
    batch: Batch,
    parts: int,
) -> tuple[Array, Any, Stats, Params]:
    """Accumulates loss, sums and gradients over micro-batches.

    The update equals that of the whole batch.

    Args:
        loss_of: (params, stats, part of the batch, index of the part) -> (the part's share of the
            loss, (tree of sums, stats after it)).
        params: the parameters, with respect to which the loss is differentiated.
        stats: statistics, passed from each part to the next.
        batch: arrays with the rows first. Part i is every `parts`-th row from row i on, so that a
            sharded batch stays in place.
        parts: number of parts.

    Returns:
        (loss, sums, stats after the last part, gradient of the loss).
    """
    value_and_gradient = jax.value_and_grad(loss_of, has_aux=True)
    if parts == 1:
        (loss, (sums, stats)), gradient = value_and_gradient(params, stats, batch, 0)
        return loss, sums, stats, gradient
    split_batch = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(x.shape[0] // parts, parts, *x.shape[1:]), 1, 0), batch)

    def body(carry, part):
        (total, stats), (index, rows) = carry, part
        (loss, (sums, stats)), gradient = value_and_gradient(params, stats, rows, index)
        return (jax.tree.map(jnp.add, total, (loss, sums, gradient)), stats), None

    first = jax.tree.map(lambda x: x[0], split_batch)
    (loss, (sums, _)), gradient = jax.eval_shape(value_and_gradient, params, stats, first, 0)
    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (loss, sums, gradient))
    ((loss, sums, gradient), stats), _ = jax.lax.scan(body, (zero, stats), (jnp.arange(parts), split_batch))
    return loss, sums, stats, gradient
