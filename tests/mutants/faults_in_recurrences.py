"""Faults in mixers of tokens that keep a state."""

from tests.mutants.mutant import Mutant

RECURRENCE, STATES, DELTA, LINEAR = (
    f"zoo/layers/attention/{name}.py"
    for name in ("linear_recurrence", "gated_linear_recurrence", "gated_delta", "gated_linear_attention")
)
RANK_ONE, RWKV = "zoo/layers/attention/generalized_delta.py", "zoo/layers/attention/rwkv7.py"
RECURRENCE_TESTS = ("tests/layers/attention/test_linear_recurrence.py",)
RWKV_TESTS = ("tests/layers/attention/test_rwkv7.py",)
RANK_ONE_TESTS = ("tests/layers/attention/test_generalized_delta.py",)

MUTANTS = (
    Mutant(
        "recurrence: a chunk reads the state of the document before",
        RECURRENCE,
        "from_before = jnp.exp(jnp.where(goes_on, total, -jnp.inf))",
        "from_before = jnp.exp(total)",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "recurrence: tokens of a chunk see those of other documents",
        RECURRENCE,
        "return jnp.tri(documents.shape[-1], dtype=bool) & (documents[..., :, None] == documents[..., None, :])",
        "return jnp.tri(documents.shape[-1], dtype=bool) & (documents[..., :, None] >= 0)",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "recurrence: the delta rule is computed before the decay",
        RECURRENCE,
        'new = v - jnp.einsum("bhk,bhkv->bhv", k, state) if delta else v',
        'new = v - jnp.einsum("bhk,bhkv->bhv", k, state / jnp.exp(log_decay)[..., None]) if delta else v',
        RECURRENCE_TESTS,
    ),
    Mutant(
        "recurrence: padding writes to the state",
        STATES,
        "rate = jnp.where(filled, self.rate(gated), 0)",
        "rate = self.rate(gated)",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "recurrence: padding decays the state",
        STATES,
        "log_decay = jnp.where(filled[..., None], log_decay, 0)",
        "log_decay = jnp.where(True, log_decay, 0)",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "recurrence: the state has the type of activations",
        STATES,
        "wide = jnp.promote_types(x.dtype, jnp.float32)",
        "wide = x.dtype",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "generalised delta rule: what is taken off is read after the decay",
        RANK_ONE,
        "state = jnp.where(first[:, None, None, None], 0, state)\n",
        "state = jnp.exp(log_decay)[..., None] * jnp.where(first[:, None, None, None], 0, state)\n"
        "        log_decay = 0 * log_decay\n",
        RANK_ONE_TESTS,
    ),
    Mutant(
        "generalised delta rule: a chunk takes off along the wrong vector",
        RANK_ONE,
        "for x in (k, added))\n    kept",
        "for x in (k, erased))\n    kept",
        RANK_ONE_TESTS,
    ),
    Mutant(
        "generalised delta rule: sums of decays begin before the document",
        RANK_ONE,
        "jnp.matmul(until.astype(r.dtype), log_decay",
        "jnp.matmul(jnp.tri(size, dtype=r.dtype), log_decay",
        RWKV_TESTS,
    ),
    Mutant(
        "generalised delta rule: tokens of a chunk see those of other documents",
        RANK_ONE,
        "same = documents[..., :, None] == documents[..., None, :]",
        "same = documents[..., :, None] >= documents[..., None, :]",
        RANK_ONE_TESTS,
    ),
    Mutant("RWKV-7: padding changes the state", RWKV, "jnp.where(filled, each, 0)", "each", RWKV_TESTS),
    Mutant("RWKV-7: later layers keep their own values", RWKV, 'context.published["value"] - v', "v - v", RWKV_TESTS),
    Mutant(
        "RWKV-7: what is written is not scaled by the rate",
        RWKV,
        "k = k * (1 + (rate - 1) * self._by_head(self.rate_share[...]))",
        "k = k + 0 * self._by_head(self.rate_share[...])",
        RWKV_TESTS,
    ),
    Mutant(
        "RWKV-7: the state has the type of activations",
        RWKV,
        "wide = jnp.promote_types(x.dtype, jnp.float32)",
        "wide = x.dtype",
        RWKV_TESTS,
    ),
    Mutant(
        "RWKV-7: initial decays do not depend on depth",
        "zoo/layers/attention/rwkv7_values.py",
        "power = 1 + (layer / max(depth - 1, 1)) ** 0.3",
        "power = 1 + (0 * layer / max(depth - 1, 1)) ** 0.3",
        RWKV_TESTS,
    ),
    Mutant(
        "lightning attention: decays do not depend on depth",
        LINEAR,
        "slopes = slopes * (1 - index / (depth - 1 + 1e-5) + 1e-5)",
        "slopes = slopes * (1 + 1e-5)",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "HGRN-2: keys are the forget gates",
        LINEAR,
        "return jax.nn.silu(q) * q.shape[-1] ** -0.5, jax.nn.sigmoid(-k)",
        "return jax.nn.silu(q) * q.shape[-1] ** -0.5, jax.nn.sigmoid(k)",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "gated delta rule: queries and keys keep their lengths",
        DELTA,
        "return super().features(unit_length(q), unit_length(k), context)",
        "return super().features(q, k, context)",
        RECURRENCE_TESTS,
    ),
    Mutant(
        "gated delta rule: rates up to 2 without negative eigenvalues",
        DELTA,
        "(2 if self.config.negative_eigenvalues else 1)",
        "2",
        RECURRENCE_TESTS,
    ),
)
