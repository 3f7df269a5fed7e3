"""`zoo import`: the run that it makes, the tokenizer that it chooses, and one-line errors for bad
sources.
"""

import hashlib
import json
import os
import pickle
from pathlib import Path

import jax
import ml_dtypes
import numpy as np
import pytest

from tests.parity.harness import make_batch, output_difference, resolved
from tests.parity.systems import SYSTEMS
from tests.support.building import call
from tests.support.checkpoints_of_others import arrays_of, imported, stored_tensors, write_checkpoint, zoo
from tests.support.stored_outputs import read
from zoo import config as configs
from zoo.cli.main import main
from zoo.config import AUTO
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer
from zoo.interop.families.decoders.falcon import falcon_deviations
from zoo.interop.families.gemma import gemma_deviations
from zoo.interop.weights import torch_files
from zoo.interop.weights.tensor_files import write_tensors
from zoo.layers.context import Context
from zoo.training.trained_run import load_trained


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A GPT-2 checkpoint and the run imported from it."""
    folder = tmp_path_factory.mktemp("gpt2")
    run = imported(folder, "gpt2", words=99)
    return folder / "source", run


def test_import_makes_a_complete_run(gpt2):
    source, run = gpt2
    assert sorted(path.name for path in run.iterdir()) == [
        "checkpoints",
        "config.json",
        "meta.json",
        "status.json",
        "tokenizer.json",
    ]
    config, meta = configs.resolve(configs.load(str(run))), json.loads((run / "meta.json").read_text())
    assert (config.model.dim, config.model.num_layers, config.model.vocab_size, config.data.sequence_length) == (
        32,
        2,
        99,
        24,
    )
    assert AUTO not in (config.model.attention.head_dim, config.model.position.max_length)
    assert (config.data.tokenizer.kind, config.data.tokenizer.path) == ("file", str(run))
    assert json.loads((run / "config.json").read_text())["data"]["tokenizer"]["path"] == "."
    assert load_tokenizer(run).encode("w3 w4").tolist() == [6, 7]
    about = meta["imported"]
    assert (about["class"], about["source"], about["revision"]) == ("GPT2LMHeadModel", f"hf:{source}", None)
    assert about["config"] == json.loads((source / "config.json").read_text())
    assert about["files"] == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in source.iterdir()}
    assert (len(meta["identity"]), meta["parameters"]["total"]) == (16, 20048)
    status = json.loads((run / "status.json").read_text())
    assert (status["state"], status["step"], status["reason"], len(status["parameters_sha256"])) == (
        "done",
        0,
        None,
        64,
    )


def test_imported_gpt2_matches_the_reference(gpt2):
    system, trained = next(system for system in SYSTEMS if system.name == "gpt2"), load_trained(gpt2[1])
    about, outputs, _, batch = read("gpt2")
    assert make_batch(system, resolved(system, about["config"]), padded=True).keys() == batch.keys()
    assert trained.step == 0

    def logits(tokens, positions):
        from flax import nnx

        from zoo.models.functional import split

        model = nnx.merge(split(trained.model)[0], trained.params, trained.stats)
        return model.logits(model(tokens, Context(positions)))

    ours = call(logits, batch["tokens"].astype(np.int32), batch["positions"].astype(np.int32))
    assert output_difference({"logits": ours}, outputs, batch) <= 1e-5


def test_other_commands_accept_an_imported_run(gpt2, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("w1 w2 w3 w4 w5 w6 w7 w8\n" * 40)
    code, out, errors = zoo("eval", gpt2[1], "--text", text, "--json")
    assert (code, errors) == (0, [])
    assert json.loads(out)["lengths"]["24"]["loss"] > 1
    code, out, _ = zoo("config", "show", gpt2[1])
    assert code == 0
    assert "parameters 20,048" in out
    code, out, _ = zoo(
        "generate", gpt2[1], "--prompt", "w1 w2", "--max-new-tokens", "4", "--temperature", "0", "--json"
    )
    assert code == 0
    assert "w1 w2" in out
    assert zoo("train", f"--config={gpt2[1] / 'config.json'}", f"--workdir={gpt2[1]}")[0] == 0


def test_sharded_bfloat16_files_give_the_same_parameters(gpt2, tmp_path):
    source = write_checkpoint(tmp_path / "source", "gpt2", words=99)
    tensors = {name: array.astype(ml_dtypes.bfloat16) for name, array in arrays_of(source).items()}
    (source / "model.safetensors").unlink()
    for number in range(3):
        write_tensors(
            source / f"model-{number}.safetensors", {name: tensors[name] for name in sorted(tensors)[number::3]}
        )
    weight_map = {name: f"model-{number}.safetensors" for number in range(3) for name in sorted(tensors)[number::3]}
    (source / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "run")[0] == 0
    one, other = load_trained(gpt2[1]).params, load_trained(tmp_path / "run").params
    assert jax.tree.all(jax.tree.map(lambda x: x.dtype == np.float32, other))
    jax.tree.map(
        lambda x, y: np.testing.assert_array_equal(np.asarray(x).astype(ml_dtypes.bfloat16), np.asarray(y)), one, other
    )


@pytest.mark.parametrize("name", ["gpt2", "gpt2-unscaled-relu"])
def test_tensor_names_without_the_class_prefix_are_read(name, tmp_path):
    """The first published GPT-2 was saved by the class without a head, so its names lack the prefix.
    Tensors of the head never have it.
    """
    whole = imported(tmp_path, name)
    source = write_checkpoint(tmp_path / "bare", name)
    tensors = {tensor.removeprefix("transformer."): array for tensor, array in stored_tensors(name).items()}
    assert ("lm_head.weight" in tensors) == (name != "gpt2")
    write_tensors(source / "model.safetensors", tensors | {"h.0.attn.bias": np.ones((1, 1, 24, 24), np.float32)})
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "again")[0] == 0
    jax.tree.map(np.testing.assert_array_equal, load_trained(tmp_path / "again").params, load_trained(whole).params)


def test_a_headless_bart_may_lack_only_the_logits_bias(tmp_path):
    """The first published BART has no name prefix and no logits bias, which is then 0. No other tensor
    may be missing.
    """
    source = write_checkpoint(tmp_path / "source", "bart", words=99, architectures=["BartModel"])
    tensors = {
        name.removeprefix("model."): array
        for name, array in stored_tensors("bart").items()
        if name != "final_logits_bias"
    }
    write_tensors(source / "model.safetensors", tensors)
    code, _, errors = zoo(
        "import", f"hf:{source}", "--class", "BartForConditionalGeneration", "--out", tmp_path / "run"
    )
    assert (code, errors) == (0, [])
    assert not np.asarray(load_trained(tmp_path / "run").params["head"]["bias"]).any()
    write_tensors(
        source / "model.safetensors", {name: array for name, array in tensors.items() if name != "shared.weight"}
    )
    code, _, errors = zoo(
        "import", f"hf:{source}", "--class", "BartForConditionalGeneration", "--out", tmp_path / "again"
    )
    assert (code, errors) == (3, ["error: tensor model.shared.weight is missing"])


def test_class_and_config_overrides(tmp_path):
    source = write_checkpoint(tmp_path / "source", "bert-masked", words=60, architectures=["BertForMultipleChoice"])
    code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run")
    assert (code, len(errors)) == (2, 1)
    assert "no importer for BertForMultipleChoice" in errors[0]
    code, _, errors = zoo(
        "import",
        f"hf:{source}",
        "--class",
        "BertForMaskedLM",
        "--out",
        tmp_path / "run",
        "--config.data.batch_size=3",
        "--config.model.dropout=0.25",
    )
    assert (code, errors) == (0, [])
    config = configs.resolve(configs.load(str(tmp_path / "run")))
    assert (config.data.batch_size, config.model.dropout, config.objective.kind) == (3, 0.25, "masked")


# Tokenizers


def test_the_tokenizer_may_be_in_another_folder(tmp_path):
    source = write_checkpoint(tmp_path / "source", "gpt2", words=None)
    code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run")
    assert (code, len(errors)) == (2, 1)
    assert "no readable tokenizer" in errors[0]
    assert "--tokenizer DIR" in errors[0]
    words = write_checkpoint(tmp_path / "words", "gpt2", words=50) / "vocab.txt"
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "run", "--tokenizer", words)[0] == 0
    assert load_tokenizer(tmp_path / "run").vocab_size == 50


def test_a_byte_vocabulary_selects_the_byte_tokenizer(tmp_path):
    changes = {"model.dim": 16, "model.num_layers": 1, "data.sequence_length": 8}
    config = configs.resolve(configs.override(configs.default(), changes))
    assert config.model.vocab_size == 257
    from zoo.interop.config_export import choose_class
    from zoo.interop.weights.mapping import tensor_shapes
    from zoo.models.architectures import make_model
    from zoo.models.functional import split

    expressed = choose_class(config, "GPT2LMHeadModel", None)
    from zoo.interop import importer_of

    shapes = tensor_shapes(importer_of("GPT2LMHeadModel").rules(config.model), split(make_model(config))[1])
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.json").write_text(
        json.dumps(expressed.settings | {"architectures": ["GPT2LMHeadModel"]})
    )
    write_tensors(
        tmp_path / "source" / "model.safetensors", {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    )
    assert zoo("import", f"hf:{tmp_path / 'source'}", "--out", tmp_path / "run")[0] == 0
    assert configs.load(str(tmp_path / "run")).data.tokenizer.kind == load_tokenizer(tmp_path / "run").kind == "bytes"


def test_a_tokenizer_larger_than_the_embedding_is_rejected(tmp_path):
    source = write_checkpoint(tmp_path / "source", "gpt2", words=120)
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "run") == (
        2,
        "",
        ["error: model.vocab_size=99 is smaller than the tokenizer's 120 ids"],
    )


# Bad sources and flags


def settings(source, **changes):
    path = source / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def tensors(source, change):
    found = arrays_of(source)
    change(found)
    write_tensors(source / "model.safetensors", found)


class MaliciousPickle:
    """Creates a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("sprung",)


def replace_weights_with_pickle(source):
    (source / "model.safetensors").unlink()
    (source / "pytorch_model.bin").write_bytes(pickle.dumps(MaliciousPickle()))


BAD_SOURCES = {
    "no config.json": (lambda source: (source / "config.json").unlink(), 2, ["has no config.json"]),
    "config.json is no JSON": (lambda source: (source / "config.json").write_text("{"), 3, ["config.json: not JSON"]),
    "config.json is a list": (lambda source: (source / "config.json").write_text("[]"), 3, ["not a JSON object"]),
    "no class": (lambda source: settings(source, architectures=None), 2, ["names no class under architectures; --class NAME"]),
    "two classes": (lambda source: settings(source, architectures=["GPT2LMHeadModel", "GPT2Model"]), 2, ["names no class"]),
    "an unknown class": (lambda source: settings(source, architectures=["GPT2LMHeadModell"]), 2, ['did you mean "GPT2LMHeadModel"?']),
    "settings that cannot be expressed": (
        lambda source: settings(source, scale_attn_by_inverse_layer_idx=True, activation_function="mish", new=1), 2,
        ["activation_function='mish': expected one of", "scale_attn_by_inverse_layer_idx=True: scores divided", "new=1: not known"]),
    "a value of a wrong type": (lambda source: settings(source, n_embd="x"), 2, ["model.dim='x': expected a whole number"]),
    "a damaged file": (lambda source: (source / "model.safetensors").write_bytes(b"\x00" * 99), 3, ["not a whole safetensors file"]),
    "no weights": (lambda source: (source / "model.safetensors").unlink(), 2, ["has no weights"]),
    "a pickle": (replace_weights_with_pickle, 2, ["pytorch_model.bin is not opened, because such files can run code"]),
    "tensors that are missing, left over and of another shape": (
        lambda source: tensors(source, lambda found: (found.pop("transformer.ln_f.bias"), found.update(
            {"transformer.new": np.ones(3, np.float32), "transformer.wpe.weight": np.ones((5, 32), np.float32)}))), 3,
        ["tensor transformer.wpe.weight has shape (5, 32), expected (24, 32)", "tensor transformer.ln_f.bias is missing",
         "tensor transformer.new has no place in the model"]),
    "numbers that are none": (
        lambda source: tensors(source, lambda found: found["transformer.ln_f.bias"].__setitem__(3, np.nan)), 3,
        ["tensor transformer.ln_f.bias holds 1 numbers that are infinite or not a number"]),
    "a damaged tokenizer": (lambda source: (source / "tokenizer.json").write_text("{}"), 3, ["tokenizer.json: not a tokenizer file"]),
}  # fmt: skip


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
def test_names_that_a_wrapper_has_prefixed_are_read_with_a_note(prefix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = write_checkpoint(tmp_path / "source", "gpt2", words=99)
    assert zoo("import", f"hf:{source}", "--out", "plain")[0] == 0

    def rename(found):
        for name in list(found):
            found[prefix + name] = found.pop(name)

    tensors(source, rename)
    code, out, errors = zoo("import", f"hf:{source}", "--out", "wrapped")
    assert (code, errors) == (0, [])
    assert "was left out of the names of" in out
    records = [json.loads(Path(run, "meta.json").read_text())["imported"] for run in ("plain", "wrapped")]
    assert "renamed" not in records[0]
    assert records[1]["renamed"] in out
    digests = {json.loads(Path(run, "status.json").read_text())["parameters_sha256"] for run in ("plain", "wrapped")}
    assert len(digests) == 1


def test_names_of_another_class_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = write_checkpoint(tmp_path / "source", "gpt2", words=99)
    tensors(source, lambda found: [found.update({f"net.{name}": found.pop(name)}) for name in list(found)])
    code, out, errors = zoo("import", f"hf:{source}", "--out", "run")
    assert (code, out, len(errors)) == (3, "", 1)
    assert "tensors has a name of this class, such as transformer.wte.weight; rename the tensors" in errors[0]


@pytest.mark.parametrize("name", BAD_SOURCES)
def test_failed_imports_report_the_error_and_write_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_files, "can_read_pickles", lambda: False)
    source = write_checkpoint(tmp_path / "source", "gpt2", words=99)
    damage, code, words = BAD_SOURCES[name]
    damage(source)
    found, out, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run")
    assert (found, out, len(errors)) == (code, "", len(words)), errors
    for word in words:
        assert any(word in line for line in errors), errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


@pytest.mark.parametrize(("arguments", "words"), [
    (["gpt2"], ["'gpt2' is no source; expected one of:", "hf:DIR or hf:NAME", "elmo:DIR", "fairseq:DIR"]),
    (["fairsec:gpt2"], ["'fairsec:gpt2' is no source (did you mean \"fairseq\"?)"]),
    (["hf:"], ["'hf:' is no source"]),
    (["fairseq:nowhere"], ["fairseq:nowhere: there is no folder nowhere"]),
    (["elmo:nowhere"], ["elmo:nowhere: expected a folder, or OPTIONS.json+WEIGHTS.hdf5"]),
    (["elmo:a.json+b.hdf5"], ["has no a.json: an ELMo's settings is expected there"]),
    (["elmo:source", "--class", "GPT2LMHeadModel"], ["--class GPT2LMHeadModel is for hf: sources"]),
    (["elmo:source"], ["expected one file *weights*.hdf5, found none"]),
    (["hf:source/config.json"], ["is a file; expected the folder that it lies in"]),
    (["hf:source", "--class", "GPT2LMHead"], ["no importer for GPT2LMHead (did you mean \"GPT2LMHeadModel\"?)"]),
    (["hf:source", "--tokenizer", "nowhere"], ["data.tokenizer.path=nowhere: no such file"]),
    (["hf:source", "--config.modle.dim=3"], ['unknown field modle.dim (did you mean "model.dim"?)']),
    (["hf:source", "--config.model.dim=3"], ["model.dim=3 is not divisible by model.attention.num_heads=4"]),
    (["hf:source", "--frob"], ["unknown argument --frob"]),
])  # fmt: skip
def test_bad_flags(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_checkpoint(tmp_path / "source", "gpt2", words=99)
    code, _, errors = zoo("import", *arguments, "--out", "run")
    assert code == 2, errors
    for word in words:
        assert any(word in line for line in errors), errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_nonempty_output_folders_are_rejected(tmp_path):
    source = write_checkpoint(tmp_path / "source", "gpt2", words=99)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("x")
    (tmp_path / "file").write_text("x")
    for out in ("run", "file", "file/inside"):
        code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / out)
        assert (code, len(errors)) == (2, 1)
        assert f"--out {tmp_path / out} " in errors[0]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["mine"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "run", "source"]
    (tmp_path / "run" / "mine").unlink()
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "run")[0] == 0


@pytest.mark.parametrize(("command", "words"), [("import", ["hf:NAME[@REVISION]", "Pickles are not opened", "--tokenizer"]),
                                                ("export", ["--class", "rejected by", "--step"])])  # fmt: skip
def test_help_of_import_and_export(command, words, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words)


def test_notes_of_an_import_and_deliberate_deviations_are_recorded(tmp_path):
    settings = {"hidden_act": "gelu", "hidden_activation": "gelu_pytorch_tanh"}
    meta = json.loads((imported(tmp_path, "gemma", **settings) / "meta.json").read_text())
    (note,) = meta["imported"]["notes"]
    assert note.startswith("hidden_act=gelu is not read: hidden_activation=gelu_pytorch_tanh takes its place")
    assert gemma_deviations(settings | {"hidden_act": "gelu_pytorch_tanh"}) == ()
    assert gemma_deviations({"hidden_activation": None, "hidden_act": "gelu_pytorch_tanh"}) == ()
    (note,) = falcon_deviations({"alibi": True})
    assert "rounds ALiBi's biases to bfloat16" in note
    assert falcon_deviations({}) == ()
