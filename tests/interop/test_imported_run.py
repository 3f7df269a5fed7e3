"""The trained length of an imported run, and its bits per byte."""

import json

import numpy as np
import pytest

from tests.support.checkpoints_of_others import imported, zoo
from zoo.data import encode_text_file
from zoo.interop.importing import trained_length
from zoo.training.trained_run import load_trained

TEXT = "w1 w2 w3 w4 w5 w6 w7 w8\n" * 40


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return imported(tmp_path_factory.mktemp("llama"), "llama", words=99)


@pytest.mark.parametrize(("class_name", "settings", "length"), [
    ("LlamaForCausalLM", {"max_position_embeddings": 8192}, 8192), ("LlamaForCausalLM", {}, 2048),
    ("GPT2LMHeadModel", {"n_positions": 512}, 512), ("MptForCausalLM", {"max_seq_len": 4096}, 4096),
    ("BloomForCausalLM", {"seq_length": 2048}, 2048), ("BloomForCausalLM", {}, None),
    ("T5ForConditionalGeneration", {"n_positions": 512}, 512), ("T5ForConditionalGeneration", {}, None),
])  # fmt: skip
def test_trained_length_comes_from_the_file(class_name, settings, length):
    assert trained_length(class_name, settings, {}) == length
    assert trained_length(class_name, settings, {"model.position.max_length": 7}) == 7


def test_generation_notes_texts_beyond_the_trained_length(llama):
    assert json.loads((llama / "meta.json").read_text())["imported"]["trained_length"] == 24
    assert load_trained(llama).trained_length == 24
    assert load_trained(llama).config.data.sequence_length == 24
    arguments = ("generate", llama, "--prompt", "w1 w2", "--temperature", "0", "--max-new-tokens")
    assert zoo(*arguments, "22")[2] == []
    assert zoo(*arguments, "23")[2] == ["note: a text may have 25 tokens; the model was trained with 24"]


def test_runs_trained_here_have_no_separate_trained_length(llama, tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("config.json", "tokenizer.json", "checkpoints"):
        (tmp_path / "run" / name).symlink_to(llama / name)
    assert load_trained(tmp_path / "run").trained_length is None


def test_bits_per_byte_of_an_imported_tokenizer(llama, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    code, out, errors = zoo("eval", llama, "--text", text, "--json")
    scores = json.loads(out)["lengths"]["24"]
    trained = load_trained(llama)
    tokens = len(encode_text_file(text, trained.tokenizer, trained.config))
    assert (code, errors) == (0, [])
    assert scores["bits_per_byte"] == pytest.approx(scores["loss"] * (tokens - 1) / len(TEXT) / np.log(2), rel=1e-5)
