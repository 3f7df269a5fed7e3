"""Faults in plug-ins (execution, storage and comparison) and in the interfaces of kinds."""

from tests.mutants.mutant import Mutant

PLUGINS, RESOLVE, REGISTRATIONS = "zoo/config/plugins.py", "zoo/config/resolve.py", "zoo/plugin/registrations.py"
STACK, TRAITS = "zoo/models/stack.py", "zoo/config/kinds/attention_kinds.py"
PROVENANCE, LOADING = ("tests/plugins/test_provenance.py",), ("tests/plugins/test_loading.py",)
OWN_PAGE = ("tests/project/test_your_own_variant.py",)
STREAMS, MIXERS = ("tests/models/test_residual_streams.py",), ("tests/layers/attention/test_token_mixers.py",)

MUTANTS = (
    Mutant(
        "plug-ins: an untrusted plug-in is executed",
        PLUGINS,
        "if not (_trusts_stored or is_trusted(plugin)):",
        "if False:",
        PROVENANCE,
    ),
    Mutant(
        "plug-ins: changes of a stored text are accepted",
        PLUGINS,
        "if plugin.reference != entry:",
        "if False:",
        PROVENANCE,
    ),
    Mutant(
        "plug-ins: a different text is accepted",
        PLUGINS,
        "        if name in _loaded:\n",
        "        if name in _loaded:\n            continue\n        if name in _loaded:\n",
        PROVENANCE,
    ),
    Mutant(
        "plug-ins: registrations of a rejected file remain",
        PLUGINS,
        "        for registration in reversed(added):\n            registration.remove()\n",
        "",
        LOADING,
    ),
    Mutant(
        "plug-ins: the identity of a run ignores them",
        RESOLVE,
        "if field.added and relevant.get(field.path) == field.default:",
        "if field.added and relevant.pop(field.path, None) is None and False:",
        LOADING,
    ),
    Mutant(
        "plug-ins: the text is not stored with the run",
        "zoo/training/records/run_record.py",
        "plugins.store(folder, config.plugins)",
        "None",
        PROVENANCE,
    ),
    Mutant(
        "plug-ins: existing fields can be redefined",
        REGISTRATIONS,
        "elif field.path in BY_PATH:",
        "elif False:",
        LOADING,
    ),
    Mutant(
        "attention: decoding skips merge",
        "zoo/layers/attention/projections.py",
        "return self.merge(attended.reshape(*x.shape[:2], *attended.shape[2:]), x, context)",
        "return self.merge(attended.reshape(*x.shape[:2], *attended.shape[2:]), x, context) if context.cache is None "
        "else self.output(attended.reshape(*x.shape[:2], -1))",
        OWN_PAGE,
    ),
    Mutant(
        "streams: only the first is returned",
        STACK,
        "return self.placement.reduce(x, self.config)",
        "return x if x.ndim == 3 else x[:, :, 0]",
        STREAMS,
    ),
    Mutant(
        "streams: only the first is recorded",
        STACK,
        "states = self.placement.reduce(x, self.config)",
        "states = x if x.ndim == 3 else x[:, :, 0]",
        STREAMS,
    ),
    Mutant(
        "traits: an undeclared one is accepted",
        "zoo/config/kinds/kind.py",
        "for trait in sorted(kind.traits - self.traits.keys(), key=str):",
        "for trait in ():",
        LOADING,
    ),
    Mutant(
        "traits: a window is accepted by every kind",
        TRAITS,
        '        "model.attention.window": "window",\n',
        "",
        MIXERS,
    ),
    Mutant(
        "traits: every kind reads an encoder's output",
        "zoo/config/constraints/combinations.py",
        'yield from check_cross(flat, scopes.get("model.decoder", {}))',
        "yield from ()",
        MIXERS,
    ),
)
