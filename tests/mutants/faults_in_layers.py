"""Faults in norms, blocks, positions, attention, masks and initial values."""

from tests.mutants.mutant import Mutant

NORM, BLOCK, CONTEXT = "zoo/layers/norm.py", "zoo/layers/block.py", "zoo/layers/context.py"
STREAMS, DEPTH = "zoo/layers/residual_streams.py", "zoo/layers/depth_connections.py"
DYNAMIC = "zoo/layers/dynamic_dense.py"
DUAL, INTERPOLATED = "zoo/layers/dual_residual.py", "zoo/layers/interpolated_residual.py"
NGPT_TESTS = ("tests/models/test_ngpt.py",)
ROPE, RELATIVE, KERNELS = (
    "zoo/layers/position/rope.py",
    "zoo/layers/position/relative.py",
    "zoo/layers/attention/kernels/products.py",
)
FUNCTIONAL, CACHE = "zoo/models/functional.py", "zoo/layers/cache.py"
LATENT = "zoo/layers/attention/latent_attention.py"
NORM_TESTS, BLOCK_TESTS = ("tests/layers/test_norm.py",), ("tests/layers/test_block.py",)
POSITION_TESTS, KERNEL_TESTS = ("tests/layers/test_position.py",), ("tests/layers/attention/test_kernels.py",)
MASK_TESTS = ("tests/layers/test_visibility.py",)
STACK = "zoo/models/stack.py"
PUBLISHED_TESTS = ("tests/models/test_published.py",)
ROUTING, EXPERT_TESTS = "zoo/layers/routing.py", "tests/layers/test_experts.py"
IMPORT_TESTS = "tests/interop/families/test_mixtures.py"

MUTANTS = (
    Mutant(
        "layer norm: bfloat16 statistics",
        NORM,
        "    wide = x.astype(jnp.float32)\n    centred",
        "    wide = x\n    centred",
        NORM_TESTS,
    ),
    Mutant(
        "batch norm: padding counts",
        NORM,
        "weight = filled.astype(jnp.float32)[..., None]",
        "weight = jnp.ones_like(filled, jnp.float32)[..., None]",
        NORM_TESTS,
    ),
    Mutant(
        "post-norm: norm before the sum",
        BLOCK,
        "return norm(self.add(x, f(x), context, part), context)",
        "return self.add(x, norm(f(x), context), context, part)",
        BLOCK_TESTS,
    ),
    Mutant(
        "gated norm: the gate is linear between its matrices",
        NORM,
        "jax.nn.silu(self.down(y))",
        "self.down(y)",
        NORM_TESTS,
    ),
    Mutant(
        "ResiDual: the second stream is made of the first",
        DUAL,
        "self.combine(total, y)",
        "self.combine(normed, y)",
        BLOCK_TESTS,
    ),
    Mutant(
        "ResiDual: the output lacks the first stream",
        DUAL,
        "x[:, :, 0] + super().hidden_states(x, norm, config, context)",
        "super().hidden_states(x, norm, config, context)",
        BLOCK_TESTS,
    ),
    Mutant(
        "nGPT: the sublayer's output is not normalised",
        INTERPOLATED,
        "output_norm(f(x), context)",
        "f(x)",
        (*BLOCK_TESTS, *NGPT_TESTS),
    ),
    Mutant(
        "nGPT: steps are stored as they are applied",
        INTERPOLATED,
        "self.factor = config.norm.step_start / stored",
        "self.factor = 1.0",
        (*BLOCK_TESTS, *NGPT_TESTS),
    ),
    Mutant(
        "nGPT: keys are not multiplied by their factors",
        "zoo/layers/attention/projections.py",
        "return self._of_scale(q), self._of_scale(k)",
        "return self._of_scale(q), k",
        NGPT_TESTS,
    ),
    Mutant(
        "nGPT: the linear units get the factor sqrt(D)",
        "zoo/layers/feedforward.py",
        "if name == self.activates else 1.0",
        "if name != self.activates else 1.0",
        (*NGPT_TESTS, "tests/layers/test_feedforward.py"),
    ),
    Mutant(
        "hyper-connections: streams are not mixed",
        STREAMS,
        "sum(mix[..., n, m, None] * stream for n, stream in enumerate(streams))",
        "streams[m]",
        BLOCK_TESTS,
    ),
    Mutant(
        "mHC: matrices transposed",
        STREAMS,
        "sum(mix[..., m, n, None] * (other - own)",
        "sum(mix[..., n, m, None] * (other - own)",
        BLOCK_TESTS,
    ),
    Mutant(
        "attention over depth: later outputs are read",
        DEPTH,
        "known = jnp.arange(kept.shape[2]) <= number + 1",
        "known = jnp.arange(kept.shape[2]) <= number + 2",
        BLOCK_TESTS,
    ),
    Mutant(
        "U-net: the skip comes from the block next to the right one",
        DEPTH,
        "jnp.clip(self.depth - 1 - layer, 0, half - 1)",
        "jnp.clip(self.depth - 2 - layer, 0, half - 1)",
        BLOCK_TESTS,
    ),
    Mutant(
        "MUDD: the values read the sum of the keys",
        DYNAMIC,
        "(read[:, :, WAYS.index(name)], context)",
        '(read[:, :, WAYS.index("key")], context)',
        BLOCK_TESTS,
    ),
    Mutant(
        "MUDD: the weights of a sum are in the order of the outputs",
        DYNAMIC,
        "back = number - jnp.arange(weights.shape[-1])",
        "back = jnp.arange(weights.shape[-1])",
        BLOCK_TESTS,
    ),
    Mutant(
        "MUDD: attention is added to what its queries read",
        DYNAMIC,
        'for way in ("query", "residual"))',
        'for way in ("query", "query"))',
        BLOCK_TESTS,
    ),
    Mutant(
        "hyper-connections: all layers begin with the same stream",
        STREAMS,
        "number = context.layer_index * len(self.parts) + self.parts.index(part)",
        "number = self.parts.index(part)",
        BLOCK_TESTS,
    ),
    Mutant(
        "RoPE: rotates in the wrong direction",
        ROPE,
        "turned = jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)",
        "turned = jnp.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1)",
        POSITION_TESTS,
    ),
    Mutant(
        "T5: off-by-one bucket",
        RELATIVE,
        "np.where(near < exact, near, far)",
        "np.where(near <= exact, near, far + 1)",
        POSITION_TESTS,
    ),
    Mutant(
        "masks: a token sees the next one",
        CONTEXT,
        "if self.prefix else key <= query",
        "if self.prefix else key <= query + 1",
        MASK_TESTS,
    ),
    Mutant(
        "masks: documents see each other",
        CONTEXT,
        "visible &= self.documents[:, queries, None] == key_documents[:, None, keys]",
        "visible &= self.documents[:, queries, None] >= key_documents[:, None, keys]",
        MASK_TESTS,
    ),
    Mutant(
        "attention: heads of keys out of order",
        KERNELS,
        "return q.reshape(B, T, G, H // G, K).transpose(0, 2, 3, 1, 4)",
        "return q.reshape(B, T, H // G, G, K).transpose(0, 3, 2, 1, 4)",
        KERNEL_TESTS,
    ),
    Mutant(
        "attention: the sink is kept instead of dropped",
        KERNELS,
        "axis=-1)[..., :-1]",
        "axis=-1)[..., 1:]",
        KERNEL_TESTS,
    ),
    Mutant(
        "latent attention: the latent vector is not normalised",
        LATENT,
        "self.latent_norm(self.latent(x))",
        "self.latent(x)",
        ("tests/layers/attention/test_attention.py",),
    ),
    Mutant(
        "cache: positions one token late",
        CACHE,
        "self.newest[:, None] - (self.newest_index - jnp.arange(slots)) % slots",
        "self.newest[:, None] - (self.newest_index - jnp.arange(slots)) % slots - 1",
        ("tests/layers/test_cache.py",),
    ),
    Mutant(
        "initial values: all layers are equal",
        FUNCTIONAL,
        "fold_in, (None, 0))(root, hashes)",
        "fold_in, (None, 0))(root, hashes * 0)",
        ("tests/models/test_initialise.py",),
    ),
    Mutant(
        "feed-forward: the gate is not activated",
        "zoo/layers/feedforward.py",
        'return self.activated(self.projected("gate", x, context), context) * self.projected("up", x, context)',
        'return self.projected("gate", x, context) * self.projected("up", x, context)',
        ("tests/layers/test_feedforward.py",),
    ),
    Mutant(
        "experts: the bias of the choice is part of the gate",
        ROUTING,
        "gates = jnp.take_along_axis(scores, chosen, axis=-1)",
        "gates = jnp.take_along_axis(ranked, chosen, axis=-1)",
        (f"{EXPERT_TESTS}::test_the_bias_of_the_choice_changes_no_gate",),
    ),
    Mutant(
        "experts: weights are not renormalised",
        ROUTING,
        "if experts.renormalise:",
        "if False:",
        (f"{EXPERT_TESTS}::test_weights_sum_to_one_only_where_they_are_renormalised",),
    ),
    Mutant(
        "experts: those of losing groups have a score of 0",
        ROUTING,
        "ranked, -jnp.inf)",
        "ranked, 0.0)",
        (f"{EXPERT_TESTS}::test_experts_of_losing_groups_are_never_chosen",),
    ),
    Mutant(
        "experts: the bias of the router is left out",
        "zoo/layers/experts.py",
        "product + linear.bias[...]",
        "product",
        (f"{EXPERT_TESTS}::test_layer_matches_its_equation_over_all_experts",),
    ),
    Mutant(
        "experts: a group counts by the sum of its two best, whatever is asked for",
        ROUTING,
        '1 if experts.group_score == "max" else min(2, by_group.shape[-1])',
        "min(2, by_group.shape[-1])",
        (f"{EXPERT_TESTS}::test_layer_matches_its_equation_over_all_experts",),
    ),
    Mutant(
        "gpt-oss: gate and up are read as halves, and not in turns",
        "zoo/interop/families/decoders/gpt_oss.py",
        "fused([width, width], groups=width, axis=-1)",
        "fused([width, width], axis=-1)",
        (f"{IMPORT_TESTS}::test_columns_of_gate_and_up_alternate_in_gpt_oss",),
    ),
    Mutant(
        "DeepSeek: the factor on the scores is not squared",
        "zoo/interop/families/decoders/deepseek.py",
        "m * m * (nope + turned) ** -0.5",
        "m * (nope + turned) ** -0.5",
        (f"{IMPORT_TESTS}::test_factors_of_yarn_act_on_scores_and_on_what_is_rotated",),
    ),
    Mutant(
        "experts: counts of the last part of a batch alone",
        "zoo/layers/experts.py",
        "self.sent.set_value(self.sent[...] + sent.sum(axis=(0, 1)))",
        "self.sent.set_value(sent.sum(axis=(0, 1)))",
        ("tests/training/test_experts.py::test_biases_follow_the_counts_of_the_whole_batch_however_it_is_processed",),
    ),
    Mutant(
        "experts: what a round of the exchange has no room for is dropped",
        "zoo/layers/expert_exchange.py",
        "    return first + _further_rounds(of_groups, capacity, params, x, gates, plan, rounds)",
        "    return first",
        (f"{EXPERT_TESTS}::test_experts_on_their_own_devices_are_those_of_one_device",),
    ),
    Mutant(
        "experts: optimizers take a stack of matrices for something else",
        "zoo/models/functional.py",
        ' - ("expert" in axes)',
        "",
        ("tests/training/optimization/test_stacked_experts.py::test_experts_are_hidden_matrices_and_routers_are_not",),
    ),
)
