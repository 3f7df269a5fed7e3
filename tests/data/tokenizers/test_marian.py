"""Marian's two SentencePiece models with one vocabulary: compared with transformers, used by a run,
and damaged.
"""

import functools
import io
import json

import pytest
import sentencepiece

from zoo.cli.main import main
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, read_pretrained
from zoo.errors import ConfigError, DataError
from zoo.training.trained_run import load_trained

ENGLISH = ["the cat sat on the mat and the dog sat too", "a bear is so cute, and it is not sad", "don't, I'll"] * 8
FRENCH = ["le chat est assis sur le tapis et le chien aussi", "un ours est si mignon, et il n'est pas triste"] * 8
TEXTS = ("the cat sat", "The Cat SAT!", " two  spaces ", "a", "", "naïve café", "東京", ">>fra<< the dog", ">>deu<< the dog", "x <pad> </s>")  # fmt: skip


@functools.cache
def model(side):
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(ENGLISH if side == "source" else FRENCH), model_writer=written, vocab_size=50,
        hard_vocab_limit=False, minloglevel=2,
    )  # fmt: skip
    return written.getvalue()


def opus_files(folder):
    """Writes the files of OPUS-MT to a folder: one vocabulary for both languages, with <pad> last."""
    folder.mkdir(exist_ok=True)
    tokens = ["</s>", "<unk>", ">>fra<<"]
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model(side))
        processor = sentencepiece.SentencePieceProcessor(model_proto=model(side))
        pieces = [processor.IdToPiece(id) for id in range(processor.GetPieceSize())]
        tokens += [piece for piece in pieces if piece not in ("<s>", "</s>", "<unk>") and piece not in tokens]
    ids = {token: id for id, token in enumerate([*tokens, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(ids))
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "eng", "target_lang": "fra"}))
    return folder


def test_sides_have_their_own_models_and_one_vocabulary(tmp_path):
    target = read_pretrained(opus_files(tmp_path / "marian"))
    source = target.source_side
    assert (target.bos_id, target.start_id) == (0, target.vocab_size - 1)
    assert target.encode("le chat").tolist() != source.encode("le chat").tolist()
    assert source.decode(source.encode("the cat sat")) == "the cat sat"
    assert target.decode([*target.encode("le chat").tolist(), 0]) == "le chat"
    assert source.encode(">>fra<< the cat")[0] == 2
    assert not target.token_bytes().any()
    target.save(tmp_path / "saved")
    assert load_tokenizer(tmp_path / "saved").fingerprint == target.fingerprint != source.fingerprint
    assert read_pretrained(tmp_path / "marian" / "source.spm").fingerprint == target.fingerprint


@pytest.mark.parity
def test_ids_and_texts_are_those_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    other = transformers.MarianTokenizer.from_pretrained(opus_files(tmp_path / "marian"))
    target = read_pretrained(tmp_path / "marian")
    for text in TEXTS[:-1]:
        assert [*target.source_side.encode(text).tolist(), 0] == other(text)["input_ids"], text
    for text in FRENCH[:2]:
        ids = other(text_target=text)["input_ids"]
        assert [*target.encode(text).tolist(), 0] == ids
        assert target.decode(ids) == other.decode(ids, skip_special_tokens=True) == text


@pytest.mark.parity
def test_an_imported_run_translates_as_transformers_does(tmp_path, capsys):
    import torch
    from transformers import MarianConfig, MarianMTModel, MarianTokenizer

    folder = opus_files(tmp_path / "marian")
    tokenizer = MarianTokenizer.from_pretrained(folder)
    size, pad = len(tokenizer), tokenizer.pad_token_id
    torch.manual_seed(0)
    settings = MarianConfig(
        vocab_size=size, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, scale_embedding=True,
        decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, max_position_embeddings=32, init_std=1.0,
        pad_token_id=pad, eos_token_id=0, decoder_start_token_id=pad, forced_eos_token_id=None, dropout=0.0,
    )  # fmt: skip
    marian = MarianMTModel(settings).eval()
    marian.save_pretrained(folder)
    assert main(["import", f"hf:{folder}", "--out", str(tmp_path / "run")]) == 0
    run = load_trained(tmp_path / "run")
    from zoo.decoding.sampling import Sampling
    from zoo.decoding.text_generator import TextGenerator

    generator = TextGenerator(run.config, run.tokenizer, run.model, run.params, run.stats, run.source_tokenizer)
    prompts = ["the cat sat on the mat", "a bear is so cute"]
    found = generator.sample(prompts, 8, Sampling(temperature=0.0), seed=0)
    texts = []
    for prompt in prompts:
        ids, source = [pad], tokenizer(prompt, return_tensors="pt")
        with torch.no_grad():
            for _ in range(8):
                step = marian(**source, decoder_input_ids=torch.tensor([ids])).logits[0, -1]
                ids.append(int(step.argmax()))
                if ids[-1] in (0, pad):
                    break
        texts.append(tokenizer.decode(ids[1:], skip_special_tokens=True))
    assert [one.text for one in found] == texts
    assert len(set(texts)) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("damage", "error", "line"),
    [
        (lambda folder: (folder / "target_vocab.json").write_text("{}"), ConfigError, "only one list for both"),
        (lambda folder: (folder / "vocab.json").write_text("[]"), DataError, "does not map tokens to ids"),
        (lambda folder: (folder / "vocab.json").write_text('{"a": 0}'), DataError, "vocab.json has no </s>"),
        (lambda folder: (folder / "target.spm").write_bytes(b"no"), DataError, "not a SentencePiece model"),
        (lambda folder: (folder / "target.spm").unlink(), ConfigError, "the folder has no merges.txt"),
    ],
    ids=["two vocabularies", "not a mapping", "no end token", "damaged model", "missing model"],
)
def test_damaged_files_are_reported(damage, error, line, tmp_path):
    damage(opus_files(tmp_path / "marian"))
    with pytest.raises(error, match=line):
        read_pretrained(tmp_path / "marian")


def test_each_side_of_a_pair_is_encoded_by_its_own_model(tmp_path):
    from zoo import config as configs
    from zoo.data import load

    texts = [(f"the cat sat {number}", f"le chat est assis {number}") for number in range(40)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in texts))
    config = configs.override(
        configs.load("transformer:smoke"),
        {
            "objective.kind": "translation", "data.tokenizer.kind": "file", "data.tokenizer.path": str(opus_files(tmp_path / "marian")),
            "data.source": f"tsv:{tmp_path / 'pairs.tsv'}", "data.source_column": "0", "data.target_column": "1",
            "data.header": False, "data.validation_fraction": 0.3, "data.sequence_length": 64,
        },
    )  # fmt: skip
    dataset = load(configs.resolve(config, 200))
    target = dataset.tokenizer
    pairs = {(tuple(target.source_side.encode(one)), tuple(target.encode(other))) for one, other in texts}
    rows = next(iter(dataset.evaluation_batches()))
    for one, other in zip(rows["source"], rows["targets"], strict=True):
        if one[0] >= 0:
            assert (tuple(one[one >= 0][:-1]), tuple(other[other >= 0][:-1])) in pairs
            assert one[one >= 0][-1] == other[other >= 0][-1] == target.bos_id
