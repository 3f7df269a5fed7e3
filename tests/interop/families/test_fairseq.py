"""Small fairseq models in every supported form, and in some unsupported ones."""

import json

import jax
import numpy as np
import pytest

from tests.support.building import random_values
from tests.support.checkpoints_of_others import zoo
from zoo import config as configs
from zoo import load
from zoo.analysis.activations import record_activations
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, read_pretrained
from zoo.decoding import Generator, stop_table
from zoo.decoding.stop_strings import START, STOPPED
from zoo.decoding.text_generator import TextGenerator
from zoo.errors import ConfigError
from zoo.interop.families.fairseq import read_config, read_dictionary, rules
from zoo.interop.weights.mapping import from_zoo
from zoo.interop.weights.tensor_files import write_tensors
from zoo.models.architectures import make_model
from zoo.training.checkpoints.warm_start import check_start_from
from zoo.training.trained_run import load_trained

SMALL = {
    "arch": "transformer", "encoder_layers": 2, "decoder_layers": 3, "encoder_embed_dim": 16, "decoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 24, "decoder_ffn_embed_dim": 20, "encoder_attention_heads": 4, "decoder_attention_heads": 2,
    "encoder_normalize_before": True, "decoder_normalize_before": True, "activation_fn": "relu", "dropout": 0.3,
    "share_decoder_input_output_embed": True, "adaptive_softmax_cutoff": None, "max_source_positions": 1024,
}  # fmt: skip
SOURCE, TARGET = 9, 12


def write_source(folder, source=SOURCE, target=TARGET, same_dictionary=False, **changes):
    """Writes a small random model to a folder; returns the folder and zoo's parameters."""
    arguments = SMALL | changes
    config = configs.resolve(
        configs.override(
            configs.default(),
            read_config(arguments) | {"model.vocab_size": target, "data.tokenizer.kind": "characters"},
        )
    )
    params = random_values(make_model(config), 4)
    if not config.model.embedding.shared:
        params["source_embedding"] = params["source_embedding"].at[source:].set(0)
    folder.mkdir(exist_ok=True)
    tensors = from_zoo(rules(config.model, min(source, target)), params)
    tensors |= {
        "encoder.version": np.array([3.0], np.float32),
        "decoder.embed_positions._float_tensor": np.zeros(1, np.float32),
    }
    if source > target:
        tensors["encoder.embed_tokens.weight"] = np.ones((source, 16), np.float32)
    write_tensors(folder / "model.safetensors", tensors)
    (folder / "fairseq_args.json").write_text(json.dumps({"args": arguments}))
    for name, letter, size in (("en", "e" if not same_dictionary else "f", source), ("fr", "f", target)):
        (folder / f"dict.{name}.txt").write_text("".join(f"{letter}{i}@@ {100 - i}\n" for i in range(size - 4)))
    return folder, params


FORMS = {
    "two dictionaries": {},
    "untied": {"share_decoder_input_output_embed": False},
    "one dictionary": {"share_all_embeddings": True, "source": TARGET, "source_lang": "fr", "target_lang": "fr"},
    "one dictionary in two files": {"share_all_embeddings": True, "source": TARGET, "same_dictionary": True},
    "post-norm, gelu, not scaled": {"encoder_normalize_before": False, "decoder_normalize_before": False, "activation_fn": "gelu",
                                    "no_scale_embedding": True, "layernorm_embedding": True, "decoder_layers": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_parameters_are_read(name, tmp_path):
    folder, params = write_source(tmp_path / "source", **FORMS[name])
    code, out, errors = zoo("import", f"fairseq:{folder}", "--out", tmp_path / "run")
    assert (code, errors) == (0, [])
    trained = load_trained(tmp_path / "run")
    jax.tree.map(np.testing.assert_array_equal, trained.params, params)
    assert "source_tokenizer.json" in out
    tokenizers = (load_tokenizer(tmp_path / "run"), read_pretrained(tmp_path / "run" / "source_tokenizer.json"))
    assert [tokenizer.vocab_size for tokenizer in tokenizers] == [TARGET, FORMS[name].get("source", SOURCE)]
    assert tokenizers[0].encode("f1@@ f0@@ what</s> </s>").tolist() == [5, 4, 3, 2]


def test_imported_fairseq_config(tmp_path):
    folder, _ = write_source(tmp_path / "source")
    assert zoo("import", f"fairseq:{folder}", "--out", tmp_path / "run")[0] == 0
    model = configs.resolve(configs.load(str(tmp_path / "run"))).model
    assert (model.norm.placement, model.embedding.scale, model.embedding.shared, model.tie_embeddings) == (
        "pre",
        "sqrt_dim",
        False,
        True,
    )
    assert (model.position.kind, model.position.layout, model.position.offset, model.position.endpoint) == (
        "sinusoidal",
        "half",
        2,
        True,
    )
    assert (
        model.num_layers,
        model.decoder.num_layers,
        model.decoder.attention.num_heads,
        model.decoder.ffn.hidden_dim,
    ) == (2, 3, 2, 20)
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())["imported"]
    assert (meta["class"], sorted(meta["files"])) == (
        "fairseq TransformerModel",
        ["dict.en.txt", "dict.fr.txt", "fairseq_args.json", "model.safetensors"],
    )


@pytest.mark.parametrize(("changes", "problem"), [
    ({"encoder_learned_pos": True}, "encoder_learned_pos=True: expected sinusoids"),
    ({"adaptive_softmax_cutoff": "1,2"}, "adaptive_softmax_cutoff='1,2': adaptive softmax is not supported"),
    ({"decoder_embed_dim": 8}, "encoder_embed_dim=16, decoder_embed_dim=8: must be equal"),
    ({"encoder_normalize_before": False}, "encoder_normalize_before=False, decoder_normalize_before=True: must be equal"),
    ({"encoder_layerdrop": 0.1}, "encoder_layerdrop=0.1: leaving out layers"),
    ({"decoder_output_dim": 8}, "decoder_output_dim=8: expected decoder_embed_dim"),
    ({"no_cross_attention": True}, "no_cross_attention=True"),
    ({"activation_fn": "swish"}, "activation_fn='swish': expected one of relu, gelu"),
    ({"arch": "transformer_lm"}, "arch='transformer_lm': expected transformer"),
    ({"encoder_layers_to_keep": "1"}, "encoder_layers_to_keep='1'"),
    ({"a_new_one": 3}, "a_new_one=3: not known"),
    ({"export": True}, "export=True: expected False"),
    ({"arch": "transformer_iwslt_de_en"}, "the defaults of this architecture are not known; give attention_dropout"),
])  # fmt: skip
def test_unsupported_settings_are_rejected_by_name(changes, problem):
    with pytest.raises(ConfigError) as refused:
        read_config(SMALL | changes)
    assert len(refused.value.problems) == 1
    assert problem in refused.value.problems[0]


def test_arguments_of_training_and_those_of_other_sizes_are_read():
    training = {"lr": [5e-4], "offload_activations": False, "log_interval": 100, "label_smoothing": 0.1}
    assert read_config(SMALL | training | {"arch": "transformer_iwslt_de_en", "attention_dropout": 0.0}) == read_config(
        SMALL
    )


def test_unknown_arguments_can_be_ignored(tmp_path):
    folder, _ = write_source(tmp_path / "source")
    path = folder / "fairseq_args.json"
    path.write_text(json.dumps({"args": SMALL | {"a_new_one": 3}}))
    command = ["import", f"fairseq:{folder}", "--out", tmp_path / "run"]
    code, _, errors = zoo(*command, "--ignore", "dropout")
    assert (code, len(errors)) == (2, 1)
    assert "--ignore dropout: fairseq TransformerModel reads this setting" in errors[0]
    assert zoo(*command, "--ignore", "a_new_one")[0] == 0
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())["imported"]
    assert meta["ignored"] == {"a_new_one": 3}


def replace_dictionaries(folder, **rows):
    """Replaces dictionaries in the folder."""
    for name, text in rows.items():
        (folder / f"dict.{name}.txt").write_text(text)


BAD_FOLDERS = {
    "no arguments": (lambda folder: (folder / "fairseq_args.json").unlink(), 2, "has no fairseq_args.json"),
    "other arguments": (lambda folder: (folder / "fairseq_args.json").write_text("{}"), 3, "has no object args"),
    "a wrong type": (lambda folder: (folder / "fairseq_args.json").write_text(
        json.dumps({"args": SMALL | {"encoder_layers": "x"}})), 2, "model.num_layers='x': expected a whole number"),
    "no embedding": (lambda folder: write_tensors(folder / "model.safetensors", {"x": np.ones(2, np.float32)}), 3,
                     "tensor encoder.embed_tokens.weight is missing"),
    "a tensor that is missing": (lambda folder: write_tensors(folder / "model.safetensors", {
        f"{side}.embed_tokens.weight": np.ones((rows, 16), np.float32) for side, rows in (("encoder", SOURCE), ("decoder", TARGET))}), 3,
        "tensor encoder.layers.{layer}.self_attn.q_proj.weight is missing in all 2 layers"),
    "no dictionary": (lambda folder: (folder / "dict.en.txt").unlink(), 2, "cannot tell the dictionaries of source (9 tokens) and target"),
    "dictionaries of other lengths": (lambda folder: replace_dictionaries(folder, en="e 1\n"), 2, "found dict.en.txt of 5 tokens, dict.fr.txt of 12"),
    "a line without a count": (lambda folder: replace_dictionaries(folder, en="e0 1\ne1\n"), 3, "dict.en.txt: line 2 is not a token and its count"),
    "a token twice": (lambda folder: replace_dictionaries(folder, en="e0 1\ne0 1\n"), 3, "dict.en.txt: 'e0' occurs twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_bad_fairseq_folders_are_rejected(name, tmp_path):
    folder, _ = write_source(tmp_path / "source")
    damage, code, words = BAD_FOLDERS[name]
    damage(folder)
    found, _, errors = zoo("import", f"fairseq:{folder}", "--out", tmp_path / "run")
    assert found == code
    assert any(words in line for line in errors), errors
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize(("changes", "words"), [
    ({"source": 14}, "a source of 14 tokens and a target of 12: rows without a token would be predicted"),
    ({"source": TARGET}, "cannot tell the dictionaries"),
    ({"source_lang": "fr", "target_lang": "en"}, "dict.fr.txt has 12 tokens, its embedding 9 rows"),
    ({"source_lang": "en", "target_lang": "xx"}, "dict.xx.txt is missing, the dictionary of args.source_lang='en' or"),
])  # fmt: skip
def test_mismatched_dictionaries_are_rejected(changes, words, tmp_path):
    folder, _ = write_source(tmp_path / "source", **changes)
    code, _, errors = zoo("import", f"fairseq:{folder}", "--out", tmp_path / "run")
    assert code in (2, 3)
    assert words in errors[0]


def test_states_are_those_of_a_source_as_fairseq_reads_it(tmp_path):
    """The source's ids and </s>, without a token before them; the decoder begins with </s>."""
    folder, _ = write_source(tmp_path / "source")
    run = tmp_path / "run"
    code, out, _ = zoo("import", f"fairseq:{folder}", "--out", run)
    # Training would read sources with the dictionary of the target.
    assert (code, "train.py" in out) == (0, False)
    model = load(run)
    assert model.ids("e1@@ e0@@ e4@@") == [5, 4, 8, 2]
    expected = record_activations(
        model.config, model.run.model, model.run.params, model.run.stats, np.array([[5, 4, 8, 2]]), np.array([[2, 6]])
    )
    for side, states in model.hidden_states("e1@@ e0@@ e4@@", "f2@@").items():
        np.testing.assert_array_equal(states, expected[side].states[:, 0])
    config = configs.override(configs.load(str(run)), {"training.start_from": str(run)})
    with pytest.raises(
        ConfigError, match=r"its encoder reads the vocabulary of source_tokenizer\.json and its decoder"
    ):
        check_start_from(configs.resolve(config))


def test_only_the_end_token_ends_a_translation(tmp_path):
    folder, _ = write_source(tmp_path / "source")
    run = tmp_path / "run"
    assert zoo("import", f"fairseq:{folder}", "--out", run)[0] == 0
    trained = load_trained(run)
    generator = TextGenerator(
        trained.config, trained.tokenizer, trained.model, trained.params, trained.stats, trained.source_tokenizer
    )
    table = generator._request(["e1@@"], 1, ())["stop"]
    assert [id for id in range(TARGET) if table[id, START] == STOPPED] == [2]


@pytest.mark.slow(reason="beam search is compiled for a source of each length")
def test_prompts_are_encoded_with_the_source_dictionary(tmp_path):
    """As in fairseq, the encoder reads the source and </s>, and the decoder starts from </s>."""
    folder, _ = write_source(tmp_path / "source")
    run = tmp_path / "run"
    assert zoo("import", f"fairseq:{folder}", "--out", run)[0] == 0
    command = ["generate", run, "--max-new-tokens", "6"]
    code, out, errors = zoo(*command, "--prompt", "e1@@ e0@@ e4@@", "--prompt", "e2@@", "--beams", "2", "--json")
    assert (code, errors) == (0, [])
    trained = load_trained(run)
    expected = Generator(trained.model, trained.params, trained.stats).beam_search(
        [[2], [2]], 6, beams=2, stop=stop_table(TARGET, [2]), sources=[[5, 4, 8, 2], [6, 2]]
    )
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["tokens"] for answer in answers] == expected.lengths[:, 0].tolist()
    for answer, tokens, score in zip(answers, expected.tokens[:, 0], expected.scores[:, 0], strict=True):
        assert answer["text"] == " ".join(f"f{id - 4}@@" for id in tokens if id >= 4)
        assert answer["score"] == pytest.approx(score, rel=1e-5)
    assert answers[0]["score"] != answers[1]["score"]
    # Plain output has no prompts.
    code, out, _ = zoo(*command, "--prompt", "e1@@ e0@@ e4@@", "--prompt", "e2@@ <unk>", "--beams", "2")
    assert (code, out.split("---\n")[0].rstrip("\n")) == (0, answers[0]["text"])
    code, out, errors = zoo(*command, "--prompt", "e1@@ f1@@")
    assert (code, out, len(errors)) == (2, "", 1)
    assert (
        "--prompt 'e1@@ f1@@': 'f1@@' is not a token of the run's source_tokenizer.json; this model reads the tokens that it was"
        in errors[0]
    )
    text = tmp_path / "text.txt"
    text.write_text("f1@@ f2@@ f3@@ f4@@ " * 200)
    code, out, errors = zoo("eval", run, "--text", text, "--sample", "3", "--prompt", "e1@@", "--lengths", "16")
    assert code == 0
    assert errors == [
        "note: rows of one text, in the target's tokens, are cut in two: this is no loss of translations (see zoo generate)"
    ]


def test_fairseq_models_cannot_be_exported_to_transformers(tmp_path):
    folder, _ = write_source(tmp_path / "source")
    assert zoo("import", f"fairseq:{folder}", "--out", tmp_path / "run")[0] == 0
    code, _, errors = zoo("export", tmp_path / "run", "--class", "MarianMTModel", "--out", tmp_path / "out")
    assert code == 2
    assert "error: MarianMTModel cannot express model.embedding.shared=False; it would be True" in errors


def test_dictionaries_start_with_fairseq_special_tokens(tmp_path):
    (tmp_path / "dict.x.txt").write_text("a 3\nb c 2\n", encoding="utf-8")
    assert read_dictionary(tmp_path / "dict.x.txt") == ["<s>", "<pad>", "</s>", "<unk>", "a", "b c"]
