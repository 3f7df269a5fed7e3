"""Mixture of experts: a router sends every token to a few of many feed-forward layers."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from zoo.config import ResolvedConfig
from zoo.config.scopes import expert_config, shared_expert_config
from zoo.layers.activation_sharding import EXPERT_AXIS, TENSOR_AXIS
from zoo.layers.context import Context
from zoo.layers.dispatch import combined, dispatched, sorted_places
from zoo.layers.expert_exchange import OfGroups, exchanged, exchanged_rows
from zoo.layers.grouped_product import grouped_product
from zoo.layers.parameter import Initializer, Linear, kernel_initializer, statistic, zeros
from zoo.layers.parametrization import output_gain, width_ratio
from zoo.layers.products_on_cpu import ROOM
from zoo.layers.routing import (
    assignments,
    balance_loss,
    entropy,
    route,
    router_scores,
    router_z_loss,
    score_shares,
    sequence_balance_loss,
    weights_of,
    within_capacity,
)
from zoo.nested import unflatten

JITTER, NOISE = "router jitter", "router noise"
MakeFeedForward = Callable[..., nnx.Module]


def stacked_experts(layer: nnx.Module, number: int) -> nnx.Module:
    """Gives all linear maps of a feed-forward layer a leading dimension of experts, in place. What
    else the layer learns, such as the numbers of xIELU, is shared by its experts.
    """
    for _, linear in list(nnx.iter_modules(layer)):
        if not isinstance(linear, Linear):
            continue
        for name in ("kernel", "bias"):
            if (one := getattr(linear, name)) is None:
                continue
            one.set_value(jax.ShapeDtypeStruct((number, *one.get_value().shape), jnp.float32))
            one.set_metadata(
                axes=("expert", *one.get_metadata("axes")),
                initializer=_of_each(one.get_metadata("initializer")),
                **({"role": "expert"} if name == "kernel" else {}),
            )
    return layer


def _of_each(initializer: Initializer) -> Initializer:
    """Returns an initializer of [E, ...] that draws each expert by itself."""
    if initializer is zeros:
        return zeros

    def initial(key: Array, shape: tuple[int, ...]) -> Array:
        return jax.vmap(lambda own: initializer(own, shape[1:]))(jax.random.split(key, shape[0]))

    return initial


class MixtureOfExperts(nnx.Module):
    """y = sum_i g_i f_i(x) over the chosen i, plus g_s f_s(x) with a shared expert (Shazeer et al.
    2017; Fedus et al. 2021; Dai et al. 2024, eq. 3 to 8).

    Each f_i is a feed-forward layer of `experts.kind` and F hidden units. The logits of the router are
    W_router x, one for each expert, in float32, and with `experts.router_bias` a bias is added to them
    (OpenAI 2025, gpt-oss); the choice and the gates g are made of them (`zoo.layers.routing.route`).
    The shared expert f_s has `experts.shared_dim` hidden units; its weight g_s is 1, or sigmoid(w x)
    with `experts.shared_gate` (Qwen 1.5 MoE). No token is dropped without a capacity, so what a token
    gets does not depend on the other rows.

    With a capacity factor c, in training only, an expert takes the first c k T / e tokens of each row
    that are sent to it, rounded up, with k of e experts per token; what others would have got from it
    is 0.

    With `experts.bias_rate` r, the choice is made by scores with a bias b_i of each expert. After
    every update

        b_i <- b_i + r sign(mean_j n_j - n_i)

    with the numbers n of tokens that were sent to each expert, counted over the whole batch: over the
    parts that gradients are accumulated over, and over all devices (Wang et al. 2024, algorithm 1).

    Args:
        config: the `model` part, as this layer sees it.
        gain: factor on the initial values of the weights of the experts.
        make: makes the feed-forward layer of a config.
    """

    def __init__(self, config: ResolvedConfig, gain: float, make: MakeFeedForward):
        experts = config.ffn.experts
        self.config = config
        routes = ("embed", None), experts.router_bias, router_initializer(config), "router"
        self.router = Linear(config.dim, experts.number, *routes)
        self.experts = stacked_experts(make(expert_config(config), gain), experts.number)
        self.shared = make(shared_expert_config(config), gain) if experts.shared_dim else None
        gate = Linear(config.dim, 1, ("embed", None), False, router_initializer(config), "router")
        self.shared_gate = gate if experts.shared_gate else None
        rate, shape = experts.bias_rate, (experts.number,)
        self.choice_bias = statistic(shape, zeros) if rate else None
        self.sent = statistic(shape, zeros, adds=True, balances=("choice_bias", rate)) if rate else None

    def __call__(self, x: Float[Array, "B T D"], context: Context | None = None) -> Float[Array, "B T D"]:
        """Applies the layer to every token.

        Args:
            x: the tokens.
            context: structure of the sequence; None for tokens without padding, outside of training.
        """
        context = Context(jnp.zeros((1, x.shape[1]), jnp.int32)) if context is None else context
        there = jnp.broadcast_to(context.positions >= 0, x.shape[:2])
        logits = self.logits(x, context)
        if self.config.ffn.experts.choice == "experts":
            y = self._chosen_by_experts(x, logits, there, context)
        else:
            y = self._chosen_by_tokens(x, logits, there, context)
        if self.shared is not None:
            common = self.shared(x, replace(context, record=None))
            if self.shared_gate is not None:
                common = common * jax.nn.sigmoid(_logits(self.shared_gate, x, self.config)).astype(x.dtype)
            y = y + common
        return y

    def logits(self, x: Float[Array, "B T D"], context: Context) -> Float[Array, "B T E"]:
        """Returns the logits of the router, in float32; in training with jitter, a factor on each
        input that is uniform from 1 - j to 1 + j (Fedus et al. 2021, section 2.4), and normal noise.
        """
        experts, key, wide = self.config.ffn.experts, context.dropout_key, x.astype(jnp.float32)
        noisy = context.training and key is not None
        if experts.jitter and noisy:
            wide = wide * key.uniform(JITTER, wide.shape, 1 - experts.jitter, 1 + experts.jitter)
        logits = _logits(self.router, wide, self.config)
        if experts.noise and noisy:
            logits = logits + experts.noise * key.normal(NOISE, logits.shape)
        return logits

    def _chosen_by_tokens(self, x: Array, logits: Array, there: Bool[Array, "B T"], context: Context) -> Array:
        experts = self.config.ffn.experts
        bias = None if self.choice_bias is None else self.choice_bias[...]
        routing = _on_rows(lambda logits, bias: route(logits, bias, experts), logits, bias, context)
        sent = jax.lax.stop_gradient(assignments(routing, there))
        taken = jnp.broadcast_to(there[..., None], routing.chosen.shape)
        if experts.capacity_factor and context.training:
            capacity = _share_of_row(experts.capacity_factor * experts.per_token / experts.number, there)
            taken &= within_capacity(routing.chosen, sent, capacity[:, None, None])
            routing = routing._replace(gates=jnp.where(taken, routing.gates, 0))
        if self.sent is not None and context.training:
            self.sent.set_value(self.sent[...] + sent.sum(axis=(0, 1)))
        context.add_loss("expert_balance", balance_loss(routing.shares, sent, there))
        context.add_loss("sequence_balance", sequence_balance_loss(routing.shares, sent, there))
        context.add_loss("router_z", router_z_loss(logits, there))
        if context.record is not None:
            dropped = {"total": sent.sum() - taken.sum().astype(jnp.float32), "count": sent.sum()}
            context.record["experts"] = _record(sent, routing.shares, there) | {"dropped": dropped}
            if context.record_arrays:
                context.record["expert gates"] = weights_of(routing)
        y = self._on_devices(outputs_by_token, x, routing.chosen, routing.gates, context)
        return y if self.experts.down.bias is None else self._biased(y, weights_of(routing))

    def _chosen_by_experts(self, x: Array, logits: Array, there: Bool[Array, "B T"], context: Context) -> Array:
        """Returns the outputs where every expert takes the k T / E tokens of a row that have the
        largest scores (Zhou et al. 2022, section 3.2). All experts have the same number of tokens.
        """
        experts, length = self.config.ffn.experts, x.shape[1]
        scores = jnp.where(there[..., None], score_shares(router_scores(logits, experts.scores)), 0)
        count = math.ceil(experts.per_token * length / experts.number)
        gates, tokens = _on_rows(lambda scores, _: jax.lax.top_k(scores.mT, count), scores, None, context)
        # Padding makes a row longer, and not the share of it that an expert takes.
        taken = jnp.arange(count) < _share_of_row(experts.per_token / experts.number, there)[:, None, None]
        gates = jnp.where(taken, gates, 0) * experts.scale
        for name in ("expert_balance", "sequence_balance"):
            # Loads are equal by the choice; arms whose tokens choose can be compared with it.
            context.add_loss(name, jnp.ones(()))
        context.add_loss("router_z", router_z_loss(logits, there))
        if context.record is not None:
            sent = _by_token(tokens, taken.astype(jnp.float32), length)
            context.record["experts"] = _record(sent, scores, there) | {"unchosen": _unchosen(sent, there)}
        y = self._on_devices(outputs_by_expert, x, tokens, gates, context)
        if self.experts.down.bias is None:
            return y
        return self._biased(y, _by_token(tokens, gates, length))

    def _biased(self, y: Float[Array, "B T D"], weights: Float[Array, "B T E"]) -> Float[Array, "B T D"]:
        return (y.astype(jnp.float32) + weights @ self.experts.down.bias[...]).astype(y.dtype)

    def _on_devices(self, outputs: Callable[..., Array], x: Array, numbers: Array, gates: Array, context: Context):
        """Returns what `outputs` does. Each device has rows of its own, and its share of the experts
        and of their hidden units.
        """
        graph, params = nnx.split(self.experts, nnx.Param)
        params = jax.tree.map(lambda leaf: leaf.astype(x.dtype) if leaf.ndim > 2 else leaf, nnx.to_pure_dict(params))
        number, sharding = self.config.ffn.experts.number, context.sharding

        def of_groups(params: Any, rows: Array, sizes: Int[Array, " e"], room: int = 0) -> Float[Array, "N D"]:
            own = replace(context, record=None, losses=None, cache=None, group_sizes=sizes, group_room=room)
            return _of_groups(nnx.merge(graph, params), rows, own)

        if sharding is None:
            return outputs(of_groups, params, x, numbers, gates, number, False)
        divided = self.experts.down.kernel.shape[1] % sharding.mesh.shape[TENSOR_AXIS] == 0
        exchange = sharding.mesh.shape[EXPERT_AXIS] > 1

        def of_the_rows(params: Any, x: Array, numbers: Array, gates: Array) -> Array:
            y = outputs(of_groups, params, x, numbers, gates, number, exchange)
            return jax.lax.psum(y, TENSOR_AXIS) if divided else y

        rows = PartitionSpec(sharding.batch_axes)
        return jax.shard_map(
            of_the_rows,
            mesh=sharding.mesh,
            in_specs=(_specs(self.experts, divided), rows, rows, rows),
            out_specs=rows,
            check_vma=False,
        )(params, x, numbers, gates)


def _share_of_row(share: float, there: Bool[Array, "B T"]) -> Int[Array, " B"]:
    """Returns a share of the tokens of each row, rounded up; padding is no token."""
    length = there.shape[1]
    # Rounded in float64, which float32 cannot repeat.
    shares = np.ceil(np.round(share * np.arange(length + 1), 9)).astype(np.int32)
    return jnp.asarray(shares)[there.sum(axis=1)]


def _on_rows(function: Callable, rows: Any, others: Any, context: Context) -> Any:
    return function(rows, others) if context.sharding is None else context.sharding.on_rows(function, rows, others)


def router_initializer(config: ResolvedConfig) -> Initializer:
    """Returns the initializer of a router's matrix, whose number of outputs does not grow with D:
    under muP it stays as large as at the base, like the output matrix (`zoo.layers.parametrization`).
    """
    return kernel_initializer(config, output_gain(config, config.ffn.experts.number))


def _logits(linear: Linear, x: Array, config: ResolvedConfig) -> Float[Array, "B T O"]:
    """Returns x W / m + b in float32, with the factor of outputs under muP, and b if there is one."""
    product = jnp.matmul(x.astype(jnp.float32), linear.kernel[...], precision=jax.lax.Precision.HIGHEST)
    product = product if width_ratio(config) == 1 else product / width_ratio(config)
    return product if linear.bias is None else product + linear.bias[...]


def outputs_by_token(
    of_groups: OfGroups,
    params: Any,
    x: Float[Array, "B T D"],
    chosen: Int[Array, "B T k"],
    gates: Float[Array, "B T k"],
    number: int,
    exchange: bool,
) -> Float[Array, "B T D"]:
    """Returns the sum over the chosen experts of their weighted outputs, without the last bias; of a
    part of the hidden units, that part's share of it.

    Args:
        of_groups: applies the experts to rows in their order.
        params: their parameters.
        x: the tokens.
        chosen: their experts.
        gates: weights of the outputs.
        number: E.
        exchange: whether other devices have some of the experts.
    """
    tokens, weights = x.reshape(-1, x.shape[-1]), gates.reshape(-1, gates.shape[-1])
    chosen = chosen.reshape(weights.shape)
    if exchange:
        return exchanged(of_groups, params, tokens, chosen, weights, number).reshape(x.shape).astype(x.dtype)
    places = sorted_places(chosen, ROOM)
    sizes = jnp.bincount(chosen.reshape(-1), length=number).astype(jnp.int32)
    y = of_groups(params, dispatched(tokens, places), sizes, ROOM)
    return combined(y, weights, places).reshape(x.shape).astype(x.dtype)


def outputs_by_expert(
    of_groups: OfGroups,
    params: Any,
    x: Float[Array, "B T D"],
    tokens: Int[Array, "B E C"],
    gates: Float[Array, "B E C"],
    number: int,
    exchange: bool,
) -> Float[Array, "B T D"]:
    """Returns the same of the C tokens of a row that each expert takes."""
    rows, _, count = tokens.shape
    taken = jnp.take_along_axis(x[:, None], tokens[..., None], axis=2)
    taken = jnp.moveaxis(taken, 1, 0).reshape(number, -1, x.shape[-1])
    if exchange:
        y = exchanged_rows(of_groups, params, taken)
    else:
        y = of_groups(params, taken.reshape(-1, x.shape[-1]), jnp.full((number,), rows * count, jnp.int32))
    y = jnp.moveaxis(y.reshape(number, rows, count, -1), 0, 1).astype(jnp.float32) * gates[..., None]
    places = jnp.arange(rows)[:, None, None], tokens
    return jnp.zeros(x.shape, jnp.float32).at[places].add(y).astype(x.dtype)


def _of_groups(experts: nnx.Module, rows: Float[Array, "N D"], context: Context) -> Float[Array, "N D"]:
    hidden, down = experts.hidden(rows, context), experts.down.kernel[...].astype(rows.dtype)
    return grouped_product(hidden, down, context.group_sizes, context.platform, context.group_room)


def _specs(experts: nnx.Module, divided: bool) -> dict[str, Any]:
    """Returns how the parameters of the experts are divided where the products are made: the experts
    over the expert axis, the hidden units over the tensor axis if `divided`, and nothing else.
    """
    of_axes = {"expert": EXPERT_AXIS, "mlp": TENSOR_AXIS if divided else None}

    def spec(variable: nnx.Variable) -> PartitionSpec:
        axes = variable.get_metadata("axes")[-variable.get_value().ndim :]
        return PartitionSpec(*(of_axes.get(name) for name in axes))

    leaves = nnx.state(experts, nnx.Param).flat_state()
    return unflatten({"/".join(map(str, path)): spec(variable) for path, variable in leaves}, "/")


def _by_token(tokens: Int[Array, "B E C"], values: Float[Array, "B E C"], length: int) -> Float[Array, "B T E"]:
    """Returns the values of the tokens that each expert takes, 0 for the other tokens."""
    rows, number, _ = tokens.shape
    places = jnp.arange(rows)[:, None, None], jnp.arange(number)[None, :, None], tokens
    return jnp.zeros((rows, number, length)).at[places].set(jnp.broadcast_to(values, tokens.shape)).mT


def _record(sent: Float[Array, "B T E"], shares: Float[Array, "B T E"], there: Bool[Array, "B T"]) -> dict[str, Any]:
    """Returns sums over the tokens: how many each expert has, and the entropy of the router."""
    entropies = jnp.where(there, entropy(jax.lax.stop_gradient(shares)), 0)
    return {
        "sent": sent.sum(axis=(0, 1)),
        "entropy": {"total": entropies.sum(), "count": there.sum().astype(jnp.float32)},
    }


def _unchosen(sent: Float[Array, "B T E"], there: Bool[Array, "B T"]) -> dict[str, Array]:
    """Returns how many tokens no expert takes, of how many."""
    left = there & (sent.sum(axis=-1) == 0)
    return {"total": left.sum().astype(jnp.float32), "count": there.sum().astype(jnp.float32)}
