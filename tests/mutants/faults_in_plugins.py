"""Faults in the execution and the registrations of plug-ins."""

from tests.mutants.mutant import Mutant

PLUGINS = "zoo/config/plugins.py"
PROVENANCE, LOADING = ("tests/plugins/test_provenance.py",), ("tests/plugins/test_loading.py",)

MUTANTS = (
    Mutant(
        "plug-ins: an untrusted plug-in is executed",
        PLUGINS,
        "if not (_trusts_stored or is_trusted(plugin)):",
        "if False:",
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
        "traits: an undeclared one is accepted",
        "zoo/config/kinds/kind.py",
        "for trait in sorted(kind.traits - self.traits.keys(), key=str):",
        "for trait in ():",
        LOADING,
    ),
)
