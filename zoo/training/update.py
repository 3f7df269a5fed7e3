"""One update of the training state: gradient of the loss, optimizer and metrics."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx
from jax.sharding import Mesh
from jaxtyping import Array, Int, Key

from zoo.config import ResolvedConfig
from zoo.config.hyperparameters import is_random_rate
from zoo.layers.activation_sharding import activation_sharding
from zoo.layers.context import DropoutKey
from zoo.layers.platform import ROWS_FROM, Platform
from zoo.models.functional import Params, adds, balanced, logical_axes, parameter_traits, refresh, split
from zoo.models.loop_draws import draw_loops
from zoo.models.parameter_groups import group_labels
from zoo.nested import flatten
from zoo.objectives import Objective
from zoo.objectives.objective import ForwardMode, step_key, sum_of_means
from zoo.training.accumulation import accumulate_gradients, accumulation_parts, data_groups
from zoo.training.dynamics import UpdateStatistics, update_statistics
from zoo.training.freezing import mask_updates, stop_gradient_where_frozen, trainable_mask
from zoo.training.mesh import data_parallel_size
from zoo.training.optimization.optimizer import make_optimizer
from zoo.training.optimization.schedule_free import gradient_point
from zoo.training.optimization.schedules import make_schedule
from zoo.training.state import State

DROPOUT_GENERATORS = {"threefry": "threefry2x32", "rbg": "rbg"}
"""Value of `training.dropout_generator` -> name of the generator in JAX."""

Batch = Mapping[str, Array]
Constants = dict[str, Any]
Metrics = dict[str, Array]


def uses_dropout(config: ResolvedConfig) -> bool:
    """Returns whether any part of the model draws random numbers in training: it has a dropout rate,
    or jitter or noise of a router, above 0.
    """
    return any(rate > 0 for path, rate in flatten(config).items() if is_random_rate(path))


class UpdateStep:
    """Computes one update of the training state, or only statistics of that update.

    `update` does the former, `dynamics` the latter.

    Args:
        config: the resolved config.
        model: the abstract model.
        objective: the objective that gives the loss.
        rows_from: see `Platform`.
    """

    def __init__(self, config: ResolvedConfig, model: nnx.Module, objective: Objective, rows_from: int = ROWS_FROM):
        self._config, self._model, self._objective, self._rows_from = config, model, objective, rows_from
        self._graph, self._traits = split(model)[0], parameter_traits(model)
        self._labels = group_labels(config, model)
        self._mask = trainable_mask(config, model)
        self._body_frozen, self._uses_dropout = config.training.trained_layers == 0, uses_dropout(config)

    def optimizer(self, hyperparameters: Mapping[str, Any] | None = None) -> optax.GradientTransformation:
        """Returns the optimizer, with these values in place of the config's."""
        return make_optimizer(self._config, self._traits, hyperparameters, self._labels)

    def update(
        self, state: State, batch: Batch, constants: Constants, mesh: Mesh | None = None
    ) -> tuple[State, Metrics]:
        """Returns the state after one update, and metrics of the update.

        Args:
            state: the state before it.
            batch: arrays with the rows first.
            constants: what `RunConstants` makes.
            mesh: the devices that the program runs on; None for a single one.

        A non-finite loss or gradient leaves the state unchanged, so that the last good parameters
        can be inspected; the metric "finite" is then False.
        """
        loss, sums, stats, gradient = self._gradient(state, batch, constants, mesh)
        norm = optax.global_norm(gradient)
        updates, optimizer_state = self._optimizer_updates(state, gradient, constants)
        new = {
            "step": state["step"] + 1,
            "params": optax.apply_updates(state["params"], updates),
            "stats": balanced(self._model, stats, self._mask),
            "optimizer": optimizer_state,
        }
        finite = jnp.isfinite(loss) & jnp.isfinite(norm)
        new = jax.tree.map(lambda after, before: jnp.where(finite, after, before), new, state)
        means = {
            name: sums[total] / jnp.maximum(sums[weight], 1)
            for name, (total, weight) in self._objective.means.items()
            if total in sums
        }
        rate = make_schedule(self._config, constants["hyperparameters"])(state["step"])
        loops = self._loops(state, constants)
        metrics = {
            **means,
            **({} if loops is None else {"loops": loops}),
            "gradient_norm": norm,
            "learning_rate": jnp.asarray(rate, jnp.float32),
            "tokens": sums["tokens"],
            "finite": finite,
        }
        return new, metrics

    def dynamics(self, state: State, batch: Batch, constants: Constants, mesh: Mesh | None = None) -> UpdateStatistics:
        """Returns statistics of the update that `update` would make."""
        _, (_, record), _, gradient = self._gradient(state, batch, constants, mesh, recording=True)
        updates, _ = self._optimizer_updates(state, gradient, constants)
        return update_statistics(self._model, record, state["params"], gradient, updates)

    def _gradient(self, state: State, batch: Batch, constants: Constants, mesh: Mesh | None, recording: bool = False):
        """Returns (loss, sums, stats, gradient) of a batch.

        With `recording`, (sums, record of the layers) takes the place of the sums.
        """
        seed, step, objective = constants["seed"], state["step"], self._objective
        generator = DROPOUT_GENERATORS[self._config.training.dropout_generator]
        key = jax.random.fold_in(jax.random.key(seed, impl=generator), step) if self._uses_dropout else None
        normalizers = objective.all_normalizers(batch)
        constants = {**constants, **objective.per_step_constants(seed, step)}
        stats = state["stats"] if self._body_frozen else refresh(self._model, state["stats"], seed, step)

        sharding = None if mesh is None else activation_sharding(mesh)
        parts = accumulation_parts(self._config, 1 if mesh is None else data_parallel_size(mesh))
        groups = data_groups(mesh, parts, self._config, logical_axes(self._model), adds(self._model))
        mode = ForwardMode(
            training=True,
            loops=self._loops(state, constants),
            sharding=sharding if groups is None else groups.sharding,
            platform=None if mesh is None else Platform.of(mesh, self._rows_from),
        )

        def loss_of(params, stats, part, rows):
            part_key = None if key is None else self._dropout_key(key, rows, constants)
            params, record = stop_gradient_where_frozen(params, self._mask), {} if recording else None
            of_part = replace(mode, dropout_key=part_key, record=record, rows=rows)
            losses, (sums, stats) = objective.sums(self._graph, params, stats, part, constants, of_part)
            return sum_of_means(losses, normalizers), ((sums, record) if recording else sums, stats)

        point = gradient_point(state, constants["hyperparameters"]["optimizer.beta1"])
        return accumulate_gradients(loss_of, point, stats, batch, parts, groups)

    def _loops(self, state: State, constants: Constants) -> Int[Array, ""] | None:
        """Returns the number of loops over the layers, a function of the seed and the step, or None
        where it is not drawn.
        """
        return draw_loops(self._config.model, step_key(constants["seed"], state["step"], "model/loops"))

    def _dropout_key(self, key: Key[Array, ""], rows: Int[Array, " B"], constants: Constants) -> DropoutKey:
        """Returns the key of a part of the batch; `rows` are the numbers of its rows in the batch."""
        rates = constants["hyperparameters"]
        if self._config.training.dropout_generator == "rbg":
            # The generator of a device draws an array at once, and not by keys of rows.
            return DropoutKey(jax.random.fold_in(key, rows[0]), rates)
        return DropoutKey(key, rates, rows)

    def _optimizer_updates(self, state: State, gradient: Params, constants: Constants) -> tuple[Params, Any]:
        """Returns (the changes to add to the parameters, the optimizer's next state)."""
        optimizer = self.optimizer(constants["hyperparameters"])
        updates, optimizer_state = optimizer.update(gradient, state["optimizer"], state["params"])
        return mask_updates(updates, self._mask), optimizer_state
