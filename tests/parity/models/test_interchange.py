"""Checkpoints written by `zoo export` load in the library of their class, and give the original's
outputs there.
"""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from tests.parity.harness import make_batch, relative_difference, resolved
from tests.parity.references import build, use_norms_of_groups
from tests.support.building import with_values
from tests.support.checkpoints_of_others import EXPRESSED, OF_CLASSES, arrays_of, imported, write_checkpoint, zoo
from zoo.interop.weights.tensor_files import write_tensors
from zoo.layers.context import Context
from zoo.training.trained_run import load_trained

pytestmark = pytest.mark.parity

# Constants that the class computes, and a table that it has but does not use.
NOT_WRITTEN = {
    "shaw-keys": ["bert.embeddings.position_embeddings.weight"],
    "distilbert-sinusoidal": ["distilbert.embeddings.position_embeddings.weight"],
    "roformer": ["roformer.encoder.embed_positions.weight"],
}  # fmt: skip
OF_TRANSFORMERS = [name for name in EXPRESSED if OF_CLASSES[name].library == "transformers"]
# The chunk size of Mamba-2 only changes the order of its sums. zoo has no such setting, and exports
# the class's default.
ROUNDED = dict.fromkeys(("mamba2", "mamba2-one-group"), 1e-6)
# With a record of the import only more settings are written, those that the import has read: one
# system of each kind shows it.
IMPORTED = ("gpt2", "llama-yarn", "gemma3", "bert", "bart", "t5", "mt5", "longformer")


def assert_same_outputs(name, loaded):
    """Compares the original's outputs with those of `loaded`, on padded rows."""
    system = OF_CLASSES[name]
    reference = build(system)
    config = resolved(system, reference.hf)
    batch = make_batch(system, config, padded=True)
    with torch.no_grad():
        expected = reference.outputs(batch, config)
        reference.module = loaded
        found = reference.outputs(batch, config)
    filled = batch["positions"] >= 0
    for output, values in expected.items():
        one, other = (tensor[filled] if tensor.ndim == 3 else tensor for tensor in (values, found[output]))
        assert torch.equal(one, other) or relative_difference(one.numpy(), other.numpy()) < ROUNDED.get(name, 0)


@pytest.mark.parametrize(
    ("name", "without_import_record"),
    [
        *(pytest.param(name, True, id=f"{name}-trained here") for name in OF_TRANSFORMERS),
        *(pytest.param(name, False, id=f"{name}-imported") for name in IMPORTED),
    ],
)
def test_transformers_loads_exports_with_identical_outputs(name, without_import_record, tmp_path):
    """Without a record of the import, settings come from zoo's config and the class from --class."""
    run = imported(tmp_path, name)
    if without_import_record:
        meta = json.loads((run / "meta.json").read_text())
        (run / "meta.json").write_text(json.dumps({key: value for key, value in meta.items() if key != "imported"}))
    class_flag = ("--class", OF_CLASSES[name].reference) if without_import_record else ()
    code, out, _ = zoo("export", run, "--out", tmp_path / "out", *class_flag)
    assert code == 0
    assert ("the norm is over the values of a group" in out) == (name == "mamba2")
    kind = getattr(transformers, OF_CLASSES[name].reference)
    assert isinstance(transformers.AutoConfig.from_pretrained(tmp_path / "out"), kind.config_class)
    attention = OF_CLASSES[name].settings.get("attn_implementation", "eager")
    loaded, loading_info = kind.from_pretrained(
        tmp_path / "out", attn_implementation=attention, output_loading_info=True
    )
    assert loading_info == {
        "missing_keys": NOT_WRITTEN.get(name, []),
        "unexpected_keys": [],
        "mismatched_keys": [],
        "error_msgs": [],
    }
    use_norms_of_groups(loaded)
    # Apertus keeps the numbers of xIELU in bfloat16, and computes with them in it.
    assert_same_outputs(name, loaded.float().eval())


@pytest.mark.parametrize("name", [name for name in EXPRESSED if OF_CLASSES[name].library == "performer-pytorch"])
def test_performer_pytorch_loads_exports_with_identical_outputs(name, tmp_path):
    assert zoo("export", imported(tmp_path, name), "--out", tmp_path / "out")[0] == 0
    settings = json.loads((tmp_path / "out" / "config.json").read_text())
    assert settings.pop("architectures") == ["PerformerLM"]
    assert "model_type" not in settings
    loaded = build(OF_CLASSES[name]).module
    written = {key: torch.tensor(array) for key, array in arrays_of(tmp_path / "out").items()}
    with torch.no_grad():
        for tensor in loaded.state_dict().values():
            if tensor.dtype.is_floating_point:
                tensor.zero_()
    loading_info = loaded.load_state_dict(written, strict=False)
    assert not loading_info.unexpected_keys
    # Missing keys are aliases of loaded ones, or tables that are not parameters in zoo.
    assert_same_outputs(name, loaded.eval())


def test_bert_without_heads(tmp_path):
    """It outputs hidden states instead of logits, so it is not one of the systems."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
             "max_position_embeddings": 20}  # fmt: skip
    reference = transformers.BertModel(transformers.BertConfig(**sizes)).eval()
    folder = write_checkpoint(tmp_path / "source", "bert-masked", words=60)
    reference.save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["architectures"] == ["BertModel"]
    assert zoo("import", f"hf:{folder}", "--out", tmp_path / "run")[0] == 0
    trained = load_trained(tmp_path / "run")
    tokens = np.random.default_rng(0).integers(0, 61, (2, 9))
    model = with_values(trained.model, trained.params, trained.stats)
    hidden = model(tokens, Context(np.tile(np.arange(9), (2, 1)), causal=False))
    with torch.no_grad():
        expected = reference(torch.tensor(tokens))
    assert relative_difference(np.asarray(hidden), expected.last_hidden_state.numpy()) < 1e-5
    assert relative_difference(np.asarray(model.pooled(hidden)), expected.pooler_output.numpy()) < 1e-5
    assert zoo("export", tmp_path / "run", "--out", tmp_path / "out")[0] == 0
    loaded = transformers.AutoModel.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        assert torch.equal(loaded(torch.tensor(tokens)).last_hidden_state, expected.last_hidden_state)


def test_sharded_bfloat16_and_headless_files_of_transformers(tmp_path):
    """Files may be sharded, in half precision, and have names without the prefix."""
    reference = build(OF_CLASSES["gpt2"]).module
    folder = write_checkpoint(tmp_path / "source", "gpt2", words=99)
    (folder / "model.safetensors").unlink()
    reference.to(torch.bfloat16).save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2
    assert zoo("import", f"hf:{folder}", "--out", tmp_path / "run")[0] == 0
    ours = load_trained(tmp_path / "run").params["embedding"]
    np.testing.assert_array_equal(ours, reference.transformer.wte.weight.detach().float().numpy())
    headless = write_checkpoint(tmp_path / "bare", "gpt2", words=99)
    write_tensors(
        headless / "model.safetensors",
        {name: tensor.float().numpy() for name, tensor in reference.transformer.state_dict().items()},
    )
    assert zoo("import", f"hf:{headless}", "--out", tmp_path / "run2")[0] == 0
    np.testing.assert_array_equal(load_trained(tmp_path / "run2").params["embedding"], ours)
