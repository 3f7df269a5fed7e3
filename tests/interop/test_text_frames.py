"""The special tokens around a text, by the files beside a tokenizer.

The ids are those of transformers 4.57.6, whose `AutoTokenizer` read the same folders.
"""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from tests.support.small_tokenizers import sentencepiece_content
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError, DataError
from zoo.interop.generation_settings import unapplied_choices
from zoo.interop.text_frames import frame_of

LETTERS = ["a", "h", "t", "Ġ"]
END = "<|endoftext|>"
OF_FAIRSEQ, OF_GEMMA = ["<s>", "</s>", "<unk>"], ["<pad>", "<eos>", "<bos>"]


def frame(folder, model_type, specials, settings=None, template="$A", files="tokenizer.json"):
    """The frame of a checkpoint with a tokenizer of a few letters, whose special tokens come first."""
    vocabulary = {token: id for id, token in enumerate([*specials, *LETTERS])}
    if files == "tokenizer.json":
        model = Tokenizer(models.BPE(vocabulary, []))
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
        named = [(token, vocabulary[token]) for token in template.split() if token in vocabulary]
        model.post_processor = processors.TemplateProcessing(single=template, special_tokens=named)
        model.save(str(folder / files))
    else:
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        (folder / "merges.txt").write_text("#version: 0.2\n")
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return frame_of(folder, {"model_type": model_type}, read_pretrained(folder), both=False)


NEOX = {"tokenizer_class": "GPTNeoXTokenizer", "bos_token": END, "eos_token": END}
FAIRSEQ_ENDS = {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>"}


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        # The class of GPT-NeoX replaces the file's template by its flags, off by default.
        (("gpt_neox", [END], NEOX, f"{END} $A"), (), ()),
        (("gpt_neox", [END], NEOX | {"add_bos_token": True}), (0,), ()),
        (("olmo2", [END], NEOX | {"add_eos_token": True}), (), (0,)),
        (("gpt_neox", [END], None, f"{END} $A"), (), ()),
        # A tokenizer that names no class is read by the class of its model.
        (("llama", OF_FAIRSEQ), (0,), ()),
        (("llama", OF_FAIRSEQ, {"bos_token": "<s>", "eos_token": "</s>"}), (0,), ()),
        (("mistral", OF_FAIRSEQ, {"bos_token": "<s>", "add_bos_token": False}, "<s> $A"), (), ()),
        (("opt", OF_FAIRSEQ, FAIRSEQ_ENDS | {"add_bos_token": True}, "", "vocab.json"), (1,), ()),
        # Another vocabulary than that of the model's class: its template counts.
        (("llama", ["<|begin_of_text|>"], {}, "<|begin_of_text|> $A"), (0,), ()),
        (("llama", ["<s>", "</s>"], {"tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": True}), (), ()),
        # Each class has end tokens of its own, and some have no such flag.
        (("gemma", OF_GEMMA, {"tokenizer_class": "GemmaTokenizer", "add_eos_token": True}), (2,), (1,)),
        (("gpt2", [END], {"tokenizer_class": "GPT2Tokenizer", "eos_token": END, "add_eos_token": True}, "",
          "vocab.json"), (), ()),
    ],
)  # fmt: skip
def test_flags_of_a_tokenizers_class_decide_what_is_around_a_text(tmp_path, arguments, before, after):
    found = frame(tmp_path, *arguments)
    assert (found.before, found.after) == (before, after)


@pytest.mark.parametrize(
    ("given", "ids", "read"),
    [
        (TextFrame((1,), (2,)), [1, 5, 2], [1, 5, 2]),
        (TextFrame((1,), (2,)), [5, 2, 6], [1, 5, 2, 6, 2]),
        (TextFrame((1,), (2, 3)), [1, 2, 3], [1, 2, 3]),
        (TextFrame((1,), (2, 3)), [5, 3], [1, 5, 3, 2, 3]),
        # One token of the text is not both the one before and the one after it.
        (TextFrame((0,), (0,)), [0], [0, 0]),
        (TextFrame((), ()), [5], [5]),
    ],
)
def test_what_is_around_a_text_is_not_repeated(given, ids, read):
    assert given.around(ids) == read


@pytest.mark.parametrize("record", [3, [], {"before": 1}, {"before": ["<s>"]}, {"starts": [1]}])
def test_an_edited_record_of_a_frame_is_named(record):
    with pytest.raises(DataError, match=r"meta.json: imported.text_frame .* expected lists of token ids"):
        TextFrame.from_record(record)


@pytest.mark.parametrize(
    ("settings", "sentinels"),
    [({}, 100), ({"tokenizer_class": None}, 100), ({"extra_ids": 3}, 3), ({"tokenizer_class": "LlamaTokenizer"}, 0)],
)
def test_sentinels_follow_the_pieces(tmp_path, settings, sentinels):
    (tmp_path / "spiece.model").write_bytes(sentencepiece_content())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = read_pretrained(tmp_path)
    found = frame_of(tmp_path, {"model_type": "t5"}, tokenizer, both=True).blanks
    assert found == tuple(range(tokenizer.vocab_size + sentinels - 1, tokenizer.vocab_size - 1, -1))


@pytest.mark.parametrize("extra", ["many", -1, None])
def test_a_wrong_number_of_sentinels_is_refused(tmp_path, extra):
    (tmp_path / "spiece.model").write_bytes(sentencepiece_content())
    tokenizer = read_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": extra}))
    with pytest.raises(ConfigError, match=r"tokenizer_config.json: extra_ids=.*: expected the number of sentinels"):
        frame_of(tmp_path, {"model_type": "t5"}, tokenizer, both=True)


def test_choices_of_generation_that_are_not_made_are_named(tmp_path):
    settings = {"model_type": "bart", "no_repeat_ngram_size": 3, "min_length": 0, "num_beams": 4, "eos_token_id": 2}
    line = "zoo generate does not apply the checkpoint's no_repeat_ngram_size=3, num_beams=4"
    assert unapplied_choices(tmp_path, settings) == line
    # A file of its own takes the place of config.json's choices.
    (tmp_path / "generation_config.json").write_text(json.dumps({"repetition_penalty": 1.0, "eos_token_id": 2}))
    assert unapplied_choices(tmp_path, settings) == ""


@pytest.mark.parametrize(
    ("specials", "settings", "alone"),
    [
        # As Qwen's chat models: no BOS, and another EOS than the token between documents.
        ((END, "<|im_end|>"), {"bos_token": None, "eos_token": "<|im_end|>"}, (1,)),
        ((END, "<|im_end|>"), {"bos_token": None, "eos_token": END}, ()),
        (("<s>", "</s>"), {"bos_token": "<s>", "eos_token": "</s>"}, ()),
    ],
)
def test_a_text_of_no_tokens_is_the_tokenizers_own_bos_or_eos(tmp_path, specials, settings, alone):
    found = frame(tmp_path, "qwen2", specials, settings | {"tokenizer_class": "Qwen2Tokenizer"})
    assert (found.before, found.alone) == ((), alone)
    assert TextFrame.from_record(found.to_record()) == found


@pytest.mark.parametrize(
    ("arguments", "between"),
    [
        (("roberta", OF_FAIRSEQ, {"cls_token": "<s>", "sep_token": "</s>"}, "", "vocab.json"), (1, 1)),
        (("llama", OF_FAIRSEQ), (0,)),
        (("llama", OF_FAIRSEQ, {"tokenizer_class": "LlamaTokenizer", "add_eos_token": True}), (1, 0)),
        (("gpt2", [END], {"tokenizer_class": "GPT2Tokenizer", "bos_token": END, "add_bos_token": True}, "",
          "vocab.json"), (0,)),
        # The template of single texts says nothing about pairs.
        (("qwen2", [END], {}, f"{END} $A"), ()),
    ],
)  # fmt: skip
def test_classes_of_tokenizers_put_ids_between_two_texts(tmp_path, arguments, between):
    assert frame(tmp_path, *arguments).between == between


def test_a_template_of_pairs_says_what_is_between_them(tmp_path):
    frame(tmp_path, "bert", ["[CLS]", "[SEP]"], {}, "[CLS] $A [SEP]")
    file = tmp_path / "tokenizer.json"
    model = Tokenizer.from_file(str(file))
    model.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] [SEP] $B [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    model.save(str(file))
    found = frame_of(tmp_path, {"model_type": "bert"}, read_pretrained(tmp_path), both=False)
    assert (found.before, found.after, found.between) == ((0,), (1,), (1, 1))
