"""Feed-forward layers against those of the models that introduced them: Arcee's AFM (squared ReLU),
Apertus (xIELU), and a single expert of gpt-oss (clamped SwiGLU).
"""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from transformers.models.apertus import modeling_apertus as apertus
from transformers.models.arcee import modeling_arcee as arcee
from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss

from tests.parity.layers import largest, layer_differences
from tests.parity.references import fill
from tests.support.building import counting, tiny
from tests.support.comparisons import note
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Transform, linear
from zoo.layers.feedforward import make_feed_forward

pytestmark = pytest.mark.parity
B, T, D, F = 2, 16, 32, 56
PLAIN = [*linear("up", "up_proj", bias=False), *linear("down", "down_proj", bias=False)]
# gpt-oss interleaves the gate and the linear part of each hidden unit.
INTERLEAVED = Transform(
    lambda x: (x[0, ..., ::2], x[0, ..., 1::2]),
    lambda parts: np.stack(parts, axis=-1).reshape(1, *parts[0].shape[:-1], -1),
)
ONE_EXPERT = Transform(lambda x: (x[0],), lambda parts: parts[0][None])
CLASSES = {"relu_squared": "ArceeMLP", "xielu": "ApertusMLP", "swiglu_clamped": "GptOssExperts"}
RULES = {
    "relu_squared": PLAIN,
    "xielu": [
        *PLAIN,
        Rule("act_fn.alpha_p", ("positive",)),
        Rule("act_fn.alpha_n", ("negative",)),
        IgnoredTensors(r"act_fn\.(beta|eps)"),
    ],
    "swiglu_clamped": [
        Rule("gate_up_proj", ("gate/kernel", "up/kernel"), INTERLEAVED),
        Rule("gate_up_proj_bias", ("gate/bias", "up/bias"), INTERLEAVED),
        Rule("down_proj", ("down/kernel",), ONE_EXPERT),
        Rule("down_proj_bias", ("down/bias",), ONE_EXPERT),
    ],
}


def reference(kind):
    """Returns the layer and a function that calls it."""
    sizes = {"hidden_size": D, "intermediate_size": F, "num_hidden_layers": 1, "num_attention_heads": 4}
    if kind == "swiglu_clamped":
        layer = gpt_oss.GptOssExperts(SimpleNamespace(**sizes, num_local_experts=1))
        routing = torch.zeros(B * T, 1, dtype=torch.long), torch.ones(B * T, 1)
        return layer, lambda x: layer(x, *routing)
    layer = (
        arcee.ArceeMLP(arcee.ArceeConfig(**sizes))
        if kind == "relu_squared"
        else apertus.ApertusMLP(apertus.ApertusConfig(**sizes)).float()
    )
    return layer, layer


def settings(kind):
    """Returns the `model` part of zoo's config."""
    return tiny(
        {"model.dim": D, "model.ffn.hidden_dim": F, "model.ffn.kind": kind, "model.ffn.bias": kind == "swiglu_clamped"}
    ).model


def differences(kind):
    """Returns the differences; gpt-oss has large weights, so that its clamps take effect."""
    layer, run = reference(kind)
    fill(layer)
    with torch.no_grad():
        for parameter in layer.parameters() if kind == "swiglu_clamped" else ():
            parameter *= 3
    return layer_differences(make_feed_forward(settings(kind)), counting(T), layer, run, RULES[kind], (B, T, D))


def measure():
    """Measures the line of `docs/parity.md`."""
    return *largest(map(differences, RULES)), f"transformers {transformers.__version__}"


@pytest.mark.parametrize("kind", RULES)
def test_feed_forward_layers_match_their_reference_models(kind):
    note(max(differences(kind)), 1e-5, settings(kind), "model.ffn", f"{CLASSES[kind]} of transformers")
