"""The files that `zoo export` writes for a run trained here: weights of the requested step, special
tokens and tokenizer; and nothing after an error.
"""

import io
import json
import shutil

import jax
import numpy as np
import pytest
import sentencepiece

from tests.support.checkpoints_of_others import arrays_of, imported, write_checkpoint, zoo
from tests.support.edited_config import begun_with
from tests.support.small_runs import OBJECTIVES, small
from zoo.data.tokenizers.byte_pair import BytePairTokenizer
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.character_level import CharacterTokenizer
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer, read_pretrained
from zoo.interop.exporting import IN_TRAINING
from zoo.interop.model_weights import export_weights
from zoo.interop.tokenizer_files import to_fast_tokenizer, write_tokenizer
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run as train

TEXT = "Grüße, 你好\n\n  two  spaces\tand <|endoftext|> spelled out 🎉 the theatre"
GPT2 = {"model__ffn__gelu_approximation": "tanh", "model__dim": 16, "model__num_layers": 1, "training__steps": 2,
        "training__checkpoint_every": 1, "training__eval_every": 2, "training__eval_batches": 1}  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny byte-level GPT with checkpoints of steps 1 and 2, and an export of each."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(TEXT * 40)
    train(small(**GPT2, data__source=f"text:{folder / 'text.txt'}"), folder / "run", lambda line: None)
    for step in ("1", "latest"):
        assert zoo("export", folder / "run", "--out", folder / step, "--step", step)[0] == 0
    return folder


def test_export_writes_the_weights_of_the_requested_step(trained):
    for step in ("1", "latest"):
        run, found = load_trained(trained / "run", step), arrays_of(trained / step)
        expected = export_weights("GPT2LMHeadModel", run.config, jax.tree.map(np.asarray, run.params), {})
        assert set(found) == set(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    one, other = (arrays_of(trained / step)["transformer.wte.weight"] for step in ("1", "latest"))
    assert not np.array_equal(one, other)


@pytest.mark.promise(reason="a whole run is trained")
def test_vocabulary_padding_is_removed_by_export(trained, tmp_path):
    data = {"data__source": f"text:{trained / 'text.txt'}", "model__vocab_multiple": 64}
    train(small(**GPT2, **data), tmp_path / "run", lambda line: None)
    assert zoo("export", tmp_path / "run", "--out", tmp_path / "out")[0] == 0
    exported, before = arrays_of(tmp_path / "out")["transformer.wte.weight"], load_trained(tmp_path / "run")
    table = np.asarray(before.params["embedding"])
    assert (table.shape, exported.shape) == ((320, 16), (257, 16))
    np.testing.assert_array_equal(exported, table[:257])
    assert not table[257:].any()
    assert json.loads((tmp_path / "out" / "config.json").read_text())["vocab_size"] == 257
    again = zoo("import", f"hf:{tmp_path / 'out'}", "--out", tmp_path / "in", "--config.model.vocab_multiple=64")
    assert again[0] == 0, again[2]
    np.testing.assert_array_equal(np.asarray(load_trained(tmp_path / "in").params["embedding"]), table)


def test_exported_special_tokens(trained):
    assert sorted(path.name for path in (trained / "latest").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    settings = json.loads((trained / "latest" / "config.json").read_text())
    assert settings["architectures"] == ["GPT2LMHeadModel"]
    assert {
        name: settings[name] for name in ("model_type", "vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")
    } == {"model_type": "gpt2", "vocab_size": 257, "bos_token_id": 256, "eos_token_id": 256, "pad_token_id": None}
    beside = json.loads((trained / "latest" / "tokenizer_config.json").read_text())
    assert (beside["bos_token"], beside["eos_token"], beside["model_max_length"]) == (
        "<|endoftext|>",
        "<|endoftext|>",
        16,
    )
    read = read_pretrained(trained / "latest")
    assert (read.bos_id, read.vocab_size, read.encode("é").tolist()) == (256, 257, [0xC3, 0xA9])


def test_runs_started_from_an_import_keep_its_class(tmp_path):
    """The class and the ids of special tokens come from the imported file, through every run that
    started from it.
    """
    source, folders = imported(tmp_path, "mistral", words=99, eos_token_id=7), [tmp_path / "first", tmp_path / "second"]
    for before, folder in zip([source, *folders], folders, strict=False):
        shutil.copytree(source, folder)
        (folder / "meta.json").write_text(json.dumps({"started_from": {"folder": str(before), "step": 0}}))
    assert zoo("export", folders[1], "--out", tmp_path / "out")[0] == 0
    written = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (written["architectures"], written["eos_token_id"]) == (["MistralForCausalLM"], 7)
    # If the chain of runs is broken or circular, the first class that fits is chosen.
    (source / "meta.json").write_text(json.dumps({"started_from": {"folder": str(folders[1])}}))
    assert zoo("export", folders[1], "--out", tmp_path / "again")[0] == 0
    assert json.loads((tmp_path / "again" / "config.json").read_text())["eos_token_id"] == 0


def test_dropout_can_be_overridden_on_export(tmp_path):
    run = imported(tmp_path, "gemma")
    config = json.loads((run / "config.json").read_text())
    config["model"]["dropout"] = 0.1
    begun_with(run, config)
    code, _, errors = zoo("export", run, "--out", tmp_path / "out")
    assert (code, errors) == (
        2,
        [
            "error: no class can express this config; GemmaForCausalLM, as which it was imported, cannot express "
            "model.dropout=0.1; it would be 0.0"
        ],
    )
    assert zoo("export", run, "--out", tmp_path / "out", "--config.model.dropout=0")[0] == 0
    code, _, errors = zoo("export", run, "--out", tmp_path / "other", "--config.model.norm.epsilon=1e-3")
    assert (code, errors) == (
        2,
        [f"error: model.norm.epsilon cannot be changed by an export, only {', '.join(IN_TRAINING)}"],
    )


@pytest.mark.parametrize(("damage", "arguments", "code", "words"), [
    (lambda run: None, ["--class", "GPT2LMHeadModl"], 2, 'no importer for GPT2LMHeadModl (did you mean "GPT2LMHeadModel"?)'),
    (lambda run: None, ["--class", "LlamaForCausalLM"], 2, "LlamaForCausalLM cannot express model."),
    (lambda run: None, ["--step", "7"], 2, "--step 7: "),
    (lambda run: None, ["--frob"], 2, "unknown argument --frob"),
    (lambda run: (run / "config.json").unlink(), [], 2, "is not a run that can be exported: it has no config.json"),
    (lambda run: (run / "tokenizer.json").unlink(), [], 2, "it has no tokenizer.json"),
    (lambda run: next((run / "checkpoints" / "0" / "state" / "d").iterdir()).write_bytes(b"x"), [], 3, "is damaged"),
])  # fmt: skip
def test_failed_exports_report_the_error_and_write_nothing(damage, arguments, code, words, tmp_path):
    run = imported(tmp_path, "gpt2")
    damage(run)
    found, out, errors = zoo("export", run, "--out", tmp_path / "out", *arguments)
    assert (found, out) == (code, "")
    assert any(words in line for line in errors), errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "source"]


def test_nonempty_output_folders_are_rejected(tmp_path):
    run = imported(tmp_path, "gpt2")
    before = (run / "config.json").read_text()
    code, _, errors = zoo("export", run, "--out", run)
    assert (code, errors) == (2, [f"error: --out {run} is there already and not an empty folder"])
    assert (run / "config.json").read_text() == before


# Tokenizers


def byte_pair_tokenizer():
    from tokenizers import Tokenizer as Model
    from tokenizers import models, pre_tokenizers, trainers

    model = Model(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.train_from_iterator(
        [TEXT * 3, "the theatre then"],
        trainers.BpeTrainer(
            vocab_size=290, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())
        ),
    )
    return BytePairTokenizer(model)


@pytest.mark.parametrize("kind", OBJECTIVES)
@pytest.mark.parametrize(
    "make", [ByteTokenizer, byte_pair_tokenizer, lambda: CharacterTokenizer(TEXT)], ids=["bytes", "bpe", "characters"]
)
def test_exported_tokenizers_give_the_same_ids(make, kind, tmp_path):
    tokenizer, config = make(), small(**OBJECTIVES[kind])
    assert write_tokenizer(tmp_path, tokenizer, config)
    model, masked = (
        to_fast_tokenizer(tokenizer, config.objective, config.data.row_format),
        kind in ("masked", "masked_diffusion", "pairs", "denoising", "replaced_tokens"),
    )
    ids = tokenizer.encode(TEXT).tolist()
    model.encode_special_tokens = True
    assert model.encode(TEXT, add_special_tokens=False).ids == ids
    assert model.decode(ids) == TEXT
    assert model.token_to_id("<|endoftext|>") == tokenizer.bos_id
    assert model.token_to_id("[MASK]") == (tokenizer.mask_id if masked else None)
    assert model.get_vocab_size() == tokenizer.model_vocab_size(config.objective, config.data.row_format)
    if kind == "span":
        last = model.get_vocab_size() - 1
        assert [model.token_to_id(f"<extra_id_{number}>") for number in (0, 1)] == [last, last - 1]
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    assert ("mask_token" in config) == masked
    # The reader of published tokenizers treats special tokens in text as text.
    assert read_pretrained(tmp_path).encode(TEXT).tolist() == ids


def test_published_tokenizers_are_exported_unchanged(tmp_path):
    source = write_checkpoint(tmp_path / "cased", "bert-masked", words=60)
    tokenizer_config = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
    (source / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "kept")[0] == 0
    assert zoo("export", tmp_path / "kept", "--out", tmp_path / "out")[0] == 0
    assert json.loads((tmp_path / "out" / "tokenizer_config.json").read_text()) == tokenizer_config
    assert isinstance(tokenizer := read_pretrained(tmp_path / "out"), PretrainedTokenizer)
    assert tokenizer.encode("w3 w5 W3").tolist() == [6, 8, 2]
    assert zoo("export", imported(tmp_path, "bert-masked", words=60), "--out", tmp_path / "other")[0] == 0
    named = json.loads((tmp_path / "other" / "tokenizer_config.json").read_text())
    assert (named["bos_token"], named["mask_token"]) == ("<s>", "[MASK]")


def test_sentencepiece_models_are_exported_unchanged(tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(["the sheep and the wolf", "never met the wolves"] * 20),
        model_writer=model,
        vocab_size=20,
        model_type="unigram",
        minloglevel=2,
    )
    source = write_checkpoint(tmp_path / "source", "llama", words=None)
    (source / "spiece.model").write_bytes(model.getvalue())
    assert zoo("import", f"hf:{source}", "--out", tmp_path / "kept")[0] == 0
    assert zoo("export", tmp_path / "kept", "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "spiece.model").read_bytes() == model.getvalue()
    assert not write_tokenizer(tmp_path / "out", read_pretrained(source), small(**OBJECTIVES["masked"]))
