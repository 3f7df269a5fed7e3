"""`zoo import --ignore`: a setting that the class does not know is an error unless the user ignores
it by name, which the run records.
"""

import json

import pytest

from tests.support.checkpoints_of_others import write_checkpoint, zoo


def meta(run):
    return json.loads((run / "meta.json").read_text())["imported"]


def test_ignored_settings_are_recorded(tmp_path):
    source = write_checkpoint(tmp_path / "source", "gpt2", words=99, novel=3, rope={"odd": 1})
    code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run", "--ignore", "novel")
    assert (code, errors) == (2, ["error: rope={'odd': 1}: not known to this importer"])
    code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run", "--ignore", "novel", "--ignore", "rope")
    assert (code, errors) == (0, [])
    about = meta(tmp_path / "run")
    assert about["ignored"] == {"novel": 3, "rope": {"odd": 1}}
    assert not {"novel", "rope"} & about["config"].keys()
    assert zoo("export", tmp_path / "run", "--out", tmp_path / "out")[0] == 0
    assert "novel" not in json.loads((tmp_path / "out" / "config.json").read_text())


def test_nested_settings_can_be_ignored(tmp_path):
    scaling = {"rope_type": "linear", "factor": 2.5, "odd": 1}
    source = write_checkpoint(tmp_path / "source", "llama-linear", words=99, rope_scaling=scaling)
    code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run", "--ignore", "rope_scaling.odd")
    assert (code, errors) == (0, [])
    assert meta(tmp_path / "run")["ignored"] == {"rope_scaling.odd": 1}
    assert meta(tmp_path / "run")["config"]["rope_scaling"] == {"rope_type": "linear", "factor": 2.5}


def test_model_type_and_architectures_can_be_ignored(tmp_path):
    source = write_checkpoint(
        tmp_path / "source", "llama", words=99, model_type="my_llama", architectures=["MyLlamaForCausalLM"]
    )
    arguments = ["import", f"hf:{source}", "--out", tmp_path / "run", "--class", "LlamaForCausalLM"]
    code, _, errors = zoo(*arguments)
    assert (code, len(errors)) == (2, 1)
    assert "model_type='my_llama': LlamaForCausalLM is of type 'llama'" in errors[0]
    assert zoo(*arguments, "--ignore", "model_type", "--ignore", "architectures")[0] == 0
    assert meta(tmp_path / "run")["ignored"] == {"model_type": "my_llama", "architectures": ["MyLlamaForCausalLM"]}


@pytest.mark.parametrize(("name", "words"), [
    ("absent", "--ignore absent: config.json has no such setting"),
    ("n_embd", "--ignore n_embd: GPT2LMHeadModel reads this setting, or it changes nothing"),
    ("use_cache", "--ignore use_cache: GPT2LMHeadModel reads this setting, or it changes nothing"),
    ("scale_attn_by_inverse_layer_idx", "reads this setting"),
])  # fmt: skip
def test_known_or_absent_settings_cannot_be_ignored(name, words, tmp_path):
    source = write_checkpoint(
        tmp_path / "source", "gpt2", words=99, use_cache=True, scale_attn_by_inverse_layer_idx=True
    )
    code, _, errors = zoo("import", f"hf:{source}", "--out", tmp_path / "run", "--ignore", name)
    assert (code, len(errors)) == (2, 1)
    assert words in errors[0]
    assert not (tmp_path / "run").exists()


def test_of_an_elmo_no_setting_can_be_ignored(tmp_path):
    (tmp_path / "source").mkdir()
    for name in ("options.json", "weights.hdf5"):
        (tmp_path / "source" / name).write_text("")
    code, _, errors = zoo("import", f"elmo:{tmp_path / 'source'}", "--out", tmp_path / "run", "--ignore", "x")
    assert (code, errors) == (2, ["error: --ignore x: elmo: sources have no settings to ignore"])


def test_a_headless_bart_is_imported_as_its_generation_class(tmp_path):
    """The first published BART was saved without its head, which is tied to the embedding."""
    source = write_checkpoint(tmp_path / "source", "bart", words=99, architectures=["BartModel"])
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "run")[0] == 0
    assert meta(tmp_path / "run")["class"] == "BartForConditionalGeneration"
