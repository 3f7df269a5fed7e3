"""From text to text: an imported model reads and writes what the published class with its own
tokenizer does, in every layout of files in which tokenizers are published.
"""

import functools
import io
import json
import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from publication import systems
from tests.support.checkpoints_of_others import zoo
from zoo.inference.loaded_model import load

pytestmark = pytest.mark.parity

CORPUS = ["my teddy bear is so cute", "the cat sat on the mat", "a dog reads the book again, and sleeps"] * 10
PROMPTS = ["my teddy bear is so cute", "the dog sat", "a"]
NEW = 12


@functools.cache
def pieces(**settings):
    """The bytes of a SentencePiece model."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=60, hard_vocab_limit=False, minloglevel=2, **settings
    )  # fmt: skip
    return model.getvalue()


def byte_level(folder, specials, before=(), after=(), single_file=True):
    """Writes byte-level BPE, as tokenizer.json or as vocab.json with merges.txt."""
    model = Tokenizer(models.BPE())
    model.pre_tokenizer, model.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(vocab_size=300, special_tokens=specials, initial_alphabet=alphabet, show_progress=False),
    )
    if not single_file:
        model.model.save(str(folder))
        return model.get_vocab_size()
    model.post_processor = processors.TemplateProcessing(
        single=" ".join([*before, "$A", *after]),
        special_tokens=[(token, model.token_to_id(token)) for token in {*before, *after}],
    )
    model.save(str(folder / "tokenizer.json"))
    return model.get_vocab_size()


def wordpiece(folder):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({word for line in CORPUS for word in line.split()})]
    tokens += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"] + [*"abcdefghijklmnopqrstuvwxyz,"]
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(tokens)) + "\n")
    return len(dict.fromkeys(tokens))


def named(folder, **settings):
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


T5 = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 64, "init_std": 0.5, "forced_eos_token_id": None,
}  # fmt: skip
LLAMA = {
    "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.5,
    "max_position_embeddings": 64,
}  # fmt: skip
FAIRSEQ = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def t5(folder):
    """SentencePiece with sentinels after the pieces."""
    (folder / "spiece.model").write_bytes(pieces(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    named(folder, tokenizer_class="T5Tokenizer", extra_ids=10)
    size = len(transformers.T5Tokenizer(str(folder / "spiece.model"), extra_ids=10, legacy=True))
    return transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=size, initializer_factor=3.0, **T5))


def t5_single_file(folder):
    """The same as tokenizer.json."""
    model = t5(folder)
    transformers.T5TokenizerFast(str(folder / "spiece.model"), extra_ids=10).save_pretrained(folder)
    (folder / "spiece.model").unlink()
    return model


def t5_1_1(folder):
    """T5 1.1, which FLAN-T5 is: the same files, gated units and a head of its own."""
    size = t5(folder).config.vocab_size
    return transformers.T5ForConditionalGeneration(
        transformers.T5Config(
            vocab_size=size, initializer_factor=3.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **T5
        )
    )


def byt5(folder):
    named(folder, tokenizer_class="ByT5Tokenizer")
    settings = transformers.T5Config(
        vocab_size=384, initializer_factor=3.0, feed_forward_proj="gated-gelu", tie_word_embeddings=False, **T5
    )
    model = transformers.T5ForConditionalGeneration(settings)
    # No byte has these ids, which a trained model never writes.
    model.generation_config.suppress_tokens = list(range(259, 384))
    return model


def mt5(folder):
    (folder / "spiece.model").write_bytes(pieces(pad_id=0, eos_id=1, unk_id=2, bos_id=-1))
    named(folder, tokenizer_class="T5Tokenizer", extra_ids=0)
    size = len(transformers.T5Tokenizer(str(folder / "spiece.model"), extra_ids=0, legacy=True))
    return transformers.MT5ForConditionalGeneration(
        transformers.MT5Config(vocab_size=size, initializer_factor=3.0, **T5)
    )


def umt5(folder):
    mt5(folder)
    size = len(transformers.T5Tokenizer(str(folder / "spiece.model"), extra_ids=0, legacy=True))
    return transformers.UMT5ForConditionalGeneration(
        transformers.UMT5Config(vocab_size=size, initializer_factor=3.0, **T5)
    )


def bart(folder):
    """vocab.json with merges.txt; the first token after the start is forced, as in BART itself."""
    size = byte_level(folder, FAIRSEQ, single_file=False)
    named(folder, tokenizer_class="BartTokenizer")
    return transformers.BartForConditionalGeneration(
        transformers.BartConfig(vocab_size=size, decoder_start_token_id=2, forced_bos_token_id=0, **BART)
    )


def mbart(folder):
    """tokenizer.json; texts end with the language, and a generated one begins with it."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", *transformers.models.mbart.tokenization_mbart.FAIRSEQ_LANGUAGE_CODES,
                "<mask>"]  # fmt: skip
    size = byte_level(folder, specials)
    named(folder, tokenizer_class="MBartTokenizer", src_lang="de_DE", tgt_lang="fr_XX")
    start = specials.index("fr_XX")
    return transformers.MBartForConditionalGeneration(
        transformers.MBartConfig(vocab_size=size, decoder_start_token_id=start, **BART)
    )


def gpt2(folder):
    """vocab.json with merges.txt; nothing is put before a text."""
    size = byte_level(folder, ["<|endoftext|>"], single_file=False)
    named(folder, tokenizer_class="GPT2Tokenizer")
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=size, n_positions=64, n_embd=16, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
        initializer_range=0.5))  # fmt: skip


def llama(folder):
    """SentencePiece; <s> begins a text."""
    (folder / "tokenizer.model").write_bytes(pieces(unk_id=0, bos_id=1, eos_id=2))
    named(folder, tokenizer_class="LlamaTokenizer", legacy=False)
    size = len(transformers.LlamaTokenizer(str(folder / "tokenizer.model"), legacy=False))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=size, **LLAMA))


def llama3(folder):
    """tokenizer.json, whose template begins a text; two tokens end one."""
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|python_tag|>"]
    size = byte_level(folder, specials, before=specials[:1])
    named(folder, tokenizer_class="PreTrainedTokenizerFast", bos_token=specials[0], eos_token=specials[1])
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=size, bos_token_id=0, eos_token_id=[1, 2], **LLAMA)
    )


def llama2(folder):
    """The files of LLaMA; query heads share keys and values."""
    size = llama(folder).config.vocab_size
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=size, num_key_value_heads=2, **LLAMA))


def mistral(folder):
    """The files of LLaMA; a window that is shorter than the text."""
    size = llama(folder).config.vocab_size
    return transformers.MistralForCausalLM(
        transformers.MistralConfig(vocab_size=size, num_key_value_heads=2, sliding_window=5, **LLAMA)
    )


def gemma3(folder):
    """SentencePiece with other ids; local and global layers."""
    own = {"eos_piece": "<eos>", "bos_piece": "<bos>", "add_dummy_prefix": False}
    (folder / "tokenizer.model").write_bytes(pieces(pad_id=0, eos_id=1, bos_id=2, unk_id=3, **own))
    named(folder, tokenizer_class="GemmaTokenizer")
    size = len(transformers.GemmaTokenizer(str(folder / "tokenizer.model")))
    return transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(
        vocab_size=size, num_key_value_heads=1, head_dim=4, sliding_window=5, layer_types=["sliding_attention", "full_attention"],
        query_pre_attn_scalar=4, pad_token_id=0, eos_token_id=1, bos_token_id=2, **LLAMA))  # fmt: skip


def gpt1(folder):
    """vocab.json with merges.txt of words in lower case, whose last piece ends in </w>."""
    model = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    model.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    model.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=80, special_tokens=["<unk>", "\n</w>"], end_of_word_suffix="</w>", show_progress=False
        ),
    )
    model.model.save(str(folder))
    named(folder, tokenizer_class="OpenAIGPTTokenizer")
    return transformers.OpenAIGPTLMHeadModel(transformers.OpenAIGPTConfig(
        vocab_size=model.get_vocab_size(), n_positions=64, n_embd=16, n_layer=2, n_head=4, initializer_range=2.0))  # fmt: skip


def one_file(folder, name):
    """tokenizer.json without a frame, whose text ends with <|endoftext|>; returns its size."""
    named(folder, tokenizer_class=name, bos_token="<|endoftext|>", eos_token="<|endoftext|>")
    return {
        "vocab_size": byte_level(folder, ["<|endoftext|>"]),
        "bos_token_id": 0,
        "eos_token_id": 0,
        "initializer_range": 0.5,
    }


def falcon(folder):
    size = one_file(folder, "PreTrainedTokenizerFast")
    return transformers.FalconForCausalLM(transformers.FalconConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=4, multi_query=True, parallel_attn=True, bias=False,
        new_decoder_architecture=False, **size))  # fmt: skip


def bloom(folder):
    size = one_file(folder, "BloomTokenizer")
    return transformers.BloomForCausalLM(transformers.BloomConfig(hidden_size=16, n_layer=2, n_head=4, **size))


def mpt(folder):
    size = one_file(folder, "GPTNeoXTokenizer")
    return transformers.MptForCausalLM(
        transformers.MptConfig(d_model=16, n_layers=2, n_heads=4, max_seq_len=64, **size)
    )


WRITERS = (t5, t5_single_file, byt5, mt5, umt5, bart, mbart, gpt2, llama, llama3)
# Further models, and GPT-1's and Gemma's files; the others read those of another model.
FURTHER = (t5_1_1, gpt1, llama2, mistral, gemma3, falcon, bloom, mpt)


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Returns (the published model, its tokenizer, the run) of a writer."""

    @functools.cache
    def make(writer):
        folder = tmp_path_factory.mktemp(writer.__name__)
        torch.manual_seed(3)
        model = writer(folder).eval()
        model.save_pretrained(folder)
        run = folder / "run"
        assert zoo("import", f"hf:{folder}", "--out", run)[0] == 0
        return model, transformers.AutoTokenizer.from_pretrained(folder), load(run)

    return make


def written(model, tokenizer, prompt, **choices):
    """The ids that the published class writes after a prompt, without those before and after them."""
    read = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        (ids,) = model.generate(**read, max_new_tokens=NEW, **{"do_sample": False, "num_beams": 1, **choices}).tolist()
    return ids if model.config.is_encoder_decoder else ids[read.input_ids.shape[1] :]


def words(text):
    """The words of a generated text, without what one of the libraries leaves out: sentinels, and
    parts of characters.
    """
    return re.sub(r"<\d>|\ufffd", "", text).split()


SLOW = [
    pytest.param(writer, marks=pytest.mark.slow(reason="tests/interop/test_text_frames.py has what their files add"))
    for writer in FURTHER
]


@pytest.mark.parametrize("writer", [*WRITERS, *SLOW], ids=lambda writer: writer.__name__)
def test_greedy_text_is_that_of_the_published_class(imported, writer):
    model, tokenizer, run = imported(writer)
    # A forced token counts among the new ones there, and is read here.
    forced = int(model.generation_config.forced_bos_token_id is not None)
    texts = set()
    for prompt in PROMPTS:
        theirs = tokenizer.decode(written(model, tokenizer, prompt), skip_special_tokens=True)
        (ours,) = run.generate(prompt, max_new_tokens=NEW - forced)
        assert words(ours.text) == words(theirs)
        texts.add(ours.text)
    assert len(texts) > 1


@pytest.mark.parametrize("writer", [t5, bart, gpt2], ids=lambda writer: writer.__name__)
def test_beams_are_those_of_the_published_class(imported, writer):
    model, tokenizer, run = imported(writer)
    forced = int(model.generation_config.forced_bos_token_id is not None)
    for prompt in PROMPTS[:2]:
        theirs = written(model, tokenizer, prompt, num_beams=3, length_penalty=0.0, early_stopping=True)
        (ours,) = run._generator.beam_search([prompt], NEW - forced, 3, 0.0)
        assert words(ours.text) == words(tokenizer.decode(theirs, skip_special_tokens=True))


@pytest.mark.parametrize("writer", [t5, t5_single_file], ids=lambda writer: writer.__name__)
def test_blanks_are_the_sentinels_of_the_published_tokenizer(imported, writer):
    _, tokenizer, run = imported(writer)
    read, _ = run._generator.encode_prompt("my <0> is <1>")
    assert read == tokenizer("my <extra_id_0> is <extra_id_1>").input_ids
    named = tokenizer.convert_tokens_to_ids(["<extra_id_1>", "<extra_id_0>"])
    assert run._generator._decode_blanks(named) == "<1><0>"


def masked(kind):
    def write(folder):
        settings = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 32}
        if kind == "bert":
            named(folder, tokenizer_class="BertTokenizer")
            return transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=wordpiece(folder), **settings))
        if kind == "distilbert":
            named(folder, tokenizer_class="DistilBertTokenizer")
            return transformers.DistilBertForMaskedLM(
                transformers.DistilBertConfig(
                    vocab_size=wordpiece(folder), dim=16, n_layers=1, n_heads=4, hidden_dim=32
                )
            )
        settings |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
        settings["vocab_size"] = byte_level(folder, FAIRSEQ, single_file=False)
        if kind == "longformer":
            named(folder, tokenizer_class="LongformerTokenizer")
            return transformers.LongformerForMaskedLM(
                transformers.LongformerConfig(attention_window=[4], max_position_embeddings=66, **settings)
            )
        named(folder, tokenizer_class="RobertaTokenizer")
        return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**settings))

    write.__name__ = kind
    return write


MASKED = tuple(map(masked, ("bert", "roberta", "distilbert", "longformer")))


@pytest.mark.parametrize("writer", MASKED, ids=lambda writer: writer.__name__)
def test_hidden_tokens_are_read_in_the_frame_of_the_published_tokenizer(imported, writer):
    model, tokenizer, run = imported(writer)
    for text in ("my teddy bear{} is", "my teddy {} is"):
        read = tokenizer(text.format(tokenizer.mask_token), return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            scores = model(**read).logits[0]
        place = read.input_ids[0].tolist().index(tokenizer.mask_token_id)
        best = torch.softmax(scores[place], 0).sort(descending=True).values[:3].tolist()
        (found,) = run.fill_mask(text.format("[MASK]"), count=3)
        assert [one.probability for one in found] == pytest.approx(best, rel=3e-4)


@pytest.mark.parametrize("writer", [*MASKED, bart, t5, llama], ids=lambda writer: writer.__name__)
def test_pairs_are_read_in_the_frame_of_the_published_tokenizer(imported, writer):
    _, tokenizer, run = imported(writer)
    frame, (first, second) = run.run.text_frame, (run.tokenizer.encode(text).tolist() for text in ("my bear", "is"))
    expected = tokenizer("my bear", "is", return_token_type_ids=False).input_ids
    assert [*frame.before, *first, *frame.between, *second, *frame.after] == expected


def test_the_page_of_systems_names_cases_that_exist():
    named = {
        system.text.rpartition("::")[2]
        for system in systems.read()
        if system.text.startswith("parity/models/test_imported")
    }
    tests = (test_greedy_text_is_that_of_the_published_class, [*WRITERS, *FURTHER]), (
        test_hidden_tokens_are_read_in_the_frame_of_the_published_tokenizer, MASKED
    )  # fmt: skip
    assert named <= {f"{test.__name__}[{writer.__name__}]" for test, writers in tests for writer in writers}
    assert len(named) > len(WRITERS)
