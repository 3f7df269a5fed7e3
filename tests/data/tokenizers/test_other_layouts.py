"""Tokenizers whose ids differ from those in their files: XLM-R, CamemBERT, CLIP and GPT-1."""

import functools
import io
import json

import numpy as np
import pytest
import sentencepiece

from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, read_pretrained

TEXTS = (
    "the cat sat", "The Cat SAT!", "don't, I'll", " two  spaces ", "tab\tand\nnew line", "a", "", " ", "1234 cats", "C++ & co.",
    "Crème brûlée", "ÀÉÎ", "東京 tower", "👩‍🔬 x", "e\u0301", "שלום", "one\u2028two", "x" * 60, "hello\u200bworld", "naïve café",
    "...", "a-b_c", "https://a.b/c?d=e", "<s> </s>", "UPPER lower", "½ ﬁne ﬀ", "I've we're they'd", "\u00a0space", "ßtraße", "æøå",
)  # fmt: skip
CORPUS = [
    "the cat sat on the mat and the dog sat too",
    "don't, I'll, we're",
    "naïve café crème",
    "C++ & co. 1234 x",
] * 8


@functools.cache
def sentencepiece_model():
    """A SentencePiece model with XLM-R's order of special pieces."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=60, hard_vocab_limit=False,
        unk_id=0, bos_id=1, eos_id=2, minloglevel=2,
    )  # fmt: skip
    return model.getvalue()


def shifted_files(folder, name="sentencepiece.bpe.model", **files):
    folder.mkdir()
    (folder / name).write_bytes(sentencepiece_model())
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content))
    return folder


@functools.cache
def trained_bpe(opening):
    """(vocabulary, merges) of BPE with marked ends of words, trained on the corpus."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    model = Tokenizer(models.BPE(unk_token=opening[-1], end_of_word_suffix="</w>"))
    model.normalizer = normalizers.Lowercase()
    clip = "<|startoftext|>" in opening
    model.pre_tokenizer = (
        pre_tokenizers.ByteLevel(add_prefix_space=False) if clip else pre_tokenizers.BertPreTokenizer()
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet() if clip else []
    trainer = trainers.BpeTrainer(
        vocab_size=600, end_of_word_suffix="</w>", initial_alphabet=alphabet, show_progress=False
    )
    model.train_from_iterator(CORPUS, trainer)
    saved = json.loads(model.to_str())["model"]
    tokens = dict.fromkeys([*saved["vocab"], *(f"{letter}</w>" for letter in alphabet), *opening])
    return tuple(tokens), tuple(" ".join(pair) for pair in saved["merges"])


def bpe_files(folder, opening, **settings):
    """The files of such a tokenizer."""
    tokens, merges = trained_bpe(opening)
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: id for id, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.mark.parametrize(
    ("model_type", "class_name"), [("xlm-roberta", "XLMRobertaTokenizer"), ("camembert", "CamembertTokenizerFast")]
)
def test_ids_of_xlm_r_and_camembert_are_shifted(tmp_path, model_type, class_name):
    by_class = read_pretrained(shifted_files(tmp_path / "class", tokenizer_config={"tokenizer_class": class_name}))
    by_model = read_pretrained(shifted_files(tmp_path / "model", config={"model_type": model_type}))
    plain = read_pretrained(shifted_files(tmp_path / "plain", name="spiece.model"))
    shift = {"xlm-roberta": 1, "camembert": 4}[model_type]
    assert by_class.vocab_size == by_model.vocab_size == plain.vocab_size + shift + 1
    assert by_class.mask_id == by_class.vocab_size - 1
    assert (by_class.bos_id, by_class.separator_id) == {"xlm-roberta": (0, 2), "camembert": (5, 6)}[model_type]
    for text in TEXTS:
        ids = plain.encode(text)
        np.testing.assert_array_equal(by_class.encode(text), np.where(ids == 0, 3, ids + shift))
        np.testing.assert_array_equal(by_model.encode(text), by_class.encode(text))
        assert by_class.decode([*by_class.encode(text), 1]) == plain.decode(ids)
    (own,), (theirs,) = by_class.encode_with_offsets([TEXTS[0]]), plain.encode_with_offsets([TEXTS[0]])
    np.testing.assert_array_equal(own.ids, theirs.ids + shift)
    np.testing.assert_array_equal(own.stops, theirs.stops)
    # Offsets are counted in characters.
    accents = "naïve café 東京 cat"
    (own,) = by_class.encode_with_offsets([accents])
    assert "".join(accents[start:end] for start, end in zip(own.starts, own.stops, strict=True)) == accents
    # A run keeps the layout.
    by_class.save(tmp_path)
    assert load_tokenizer(tmp_path).encode("the cat").tolist() == by_class.encode("the cat").tolist()


@pytest.mark.parity
@pytest.mark.parametrize("name", ["XLMRobertaTokenizer", "CamembertTokenizer"])
def test_shifted_ids_match_transformers(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    folder = shifted_files(tmp_path / "folder", tokenizer_config={"tokenizer_class": name})
    theirs = getattr(transformers, name)(str(folder / "sentencepiece.bpe.model"))
    ours = read_pretrained(folder)
    # CamemBERT's own class counts its mask only after it is added.
    assert ours.vocab_size == len(theirs)
    assert (ours.bos_id, ours.separator_id, ours.mask_id) == (
        theirs.bos_token_id, theirs.eos_token_id, theirs.mask_token_id
    )  # fmt: skip
    for text in TEXTS:
        if "<s>" not in text:  # Transformers reads a special token that a text spells out.
            assert ours.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"], text


LAYOUTS = {"CLIPTokenizer": ("<|startoftext|>", "<|endoftext|>"), "OpenAIGPTTokenizer": ("\n</w>", "<unk>")}


@pytest.mark.parity
@pytest.mark.parametrize("name", LAYOUTS)
def test_bpe_with_marked_word_ends_is_read_as_by_transformers(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    folder = bpe_files(tmp_path / "folder", LAYOUTS[name], tokenizer_class=name)
    theirs = getattr(transformers, f"{name}Fast")(str(folder / "vocab.json"), str(folder / "merges.txt"))
    ours = read_pretrained(folder)
    nonempty = 0
    for text in TEXTS:
        if "<s>" not in text:
            found = ours.encode(text).tolist()
            assert found == theirs(text, add_special_tokens=False)["input_ids"], text
            nonempty += len(found) > 0
    assert nonempty > 20


@pytest.mark.parametrize("name", LAYOUTS)
def test_bpe_with_marked_word_ends_is_recognised_by_its_tokens(tmp_path, name):
    by_class = read_pretrained(bpe_files(tmp_path / "class", LAYOUTS[name], tokenizer_class=name))
    by_tokens = read_pretrained(bpe_files(tmp_path / "tokens", LAYOUTS[name]))
    vocabulary = json.loads((tmp_path / "class" / "vocab.json").read_text())
    assert by_class.bos_id == by_tokens.bos_id == vocabulary[LAYOUTS[name][0]]
    for text in TEXTS:
        np.testing.assert_array_equal(by_class.encode(text), by_tokens.encode(text))
    # No text gives the id that opens documents, and case does not matter.
    assert by_class.bos_id not in by_class.encode("one\n\ntwo")
    np.testing.assert_array_equal(by_class.encode("THE CAT"), by_class.encode("the cat"))
    assert by_class.decode(by_class.encode("the cat sat")).strip() == "the cat sat"
    assert len(by_class.encode("the cat sat")) <= 5
