"""Outputs and weight round trips of classes that are not among the systems: those without a head,
those with a task head, and those with slightly different parameters.
"""

import json

import jax
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from flax import nnx

from tests.parity.class_cases import CASES, WITHOUT_HEAD, V
from tests.parity.harness import random_tensor, relative_difference
from tests.support.comparisons import note
from zoo.interop import resolve_like
from zoo.interop.class_registry import ALIASES
from zoo.interop.model_weights import export_weights, import_weights
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.models.head import pool

pytestmark = pytest.mark.parity

LENGTH = 12


def build_reference(class_name):
    """Returns the class with random weights, its config as written to a file, and its tensors."""
    kind = getattr(transformers, class_name)
    model = kind(kind.config_class(**(CASES | WITHOUT_HEAD)[class_name])).eval().float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(random_tensor(name, tuple(parameter.shape))))
    return model, json.loads(model.config.to_json_string()), {n: t.numpy() for n, t in model.state_dict().items()}


def outputs_of(module, config, hidden, context):
    """Returns zoo's outputs under the names that the class uses."""
    kind = config.objective.kind
    if kind == "classification":
        return {"logits": module.task_scores(pool(hidden, context.positions, config.model.head.pooling), context)}
    if kind == "tagging":
        return {"logits": module.task_scores(hidden, context)}
    if kind == "extraction":
        scores = module.task_scores(hidden, context)
        return {"start_logits": scores[..., 0], "end_logits": scores[..., 1]}
    pooled = {"pooler_output": module.pooled(hidden)} if config.model.head.pooler else {}
    return {"logits": module.logits(hidden), "last_hidden_state": hidden} | pooled


SLOW = pytest.mark.slow(reason="the same layers are compared with the class that has a head")


@pytest.mark.parametrize("class_name", [*CASES, *(pytest.param(name, marks=SLOW) for name in WITHOUT_HEAD)])
def test_outputs_match_the_class_and_weights_round_trip(class_name):
    model, settings, tensors = build_reference(class_name)
    ours = ALIASES.get(class_name, class_name)
    config = resolve_like(ours, settings | {"architectures": [ours]}, {"data.tokenizer.kind": "characters"})
    params, stats = import_weights(ours, config, tensors)
    graph = split(make_model(config))[0]
    tokens = np.random.default_rng(0).integers(5, V, (2, LENGTH))
    segments = (np.zeros_like(tokens),) if config.model.embedding.segments else ()

    @jax.jit
    def run(params, tokens, positions, segments):
        module = nnx.merge(graph, params, stats)
        context = Context(positions, causal=config.model.architecture == "decoder", in_order=True)
        return outputs_of(module, config, module(tokens, context, *segments), context)

    found = run(params, tokens, np.stack([np.arange(LENGTH)] * 2), segments)
    with torch.no_grad():
        expected = model(torch.from_numpy(tokens))
    compared = [name for name in found if expected.get(name) is not None]
    assert compared
    is_task = config.objective.kind in ("classification", "tagging", "extraction")
    parts = ("model", "objective.kind") if is_task else ("model",)
    for name in compared:
        difference = relative_difference(np.asarray(found[name]), expected[name].numpy())
        note(difference, 1e-4, config, parts, f"{class_name} of transformers")
    written = export_weights(ours, config, params, stats)
    prefix = f"{model.base_model_prefix}." if ours != class_name else ""
    for name in tensors.keys() - {"lm_head.weight"}:
        if (exported_name := prefix + name) in written:
            np.testing.assert_array_equal(written[exported_name], tensors[name])
    unknown_names = {name for name in written if name.removeprefix(prefix) not in tensors}
    assert not unknown_names
