"""How an entry of the table is written: choices of fields, and tests that many entries share."""

from typing import Any

from zoo.config.fields import BY_PATH
from zoo.variants.variant import BASELINES, ReferenceTest, Variant


def numpy_reference(where: str, tolerance: float = 1e-5) -> ReferenceTest:
    """Returns a comparison with float64 numpy, written from the paper's equation."""
    return ReferenceTest("numpy in float64, from the equation", f"tests/{where}", tolerance)


ROPE = {"model.position.kind": "rope"}
WHOLE = numpy_reference("models/test_language_model.py::test_logits_match_the_reference", 2e-5)
LAYER = numpy_reference("layers/attention/test_attention.py::test_a_layer_is_the_equation", 2e-5)


def choice(
    path: str, value: Any, part: str, name: str = "", more: dict[str, Any] | None = None, **rest: Any
) -> Variant:
    """Returns the variant that is one choice of a field, unchanged if it is the baseline's."""
    baseline = BASELINES[rest.get("baseline", "decoder")].get(path, BY_PATH[path].default)
    return Variant(
        name or str(value), part, (more or {}) | ({} if value == baseline else {path: value}), {path: value}, **rest
    )
