"""Prompts become tokens and tokens become text, as each objective requires."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import random_values, tiny
from zoo.config import to_plain
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.character_level import CharacterTokenizer
from zoo.data.tokenizers.own_tokens import keep_own_tokens
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer
from zoo.data.tokenizers.unknown import UnknownTokenizer
from zoo.decoding import Sampling
from zoo.decoding.stop_strings import START, STOPPED
from zoo.decoding.text_generator import BLANK, PromptReading, TextGenerator
from zoo.errors import ConfigError
from zoo.models.architectures import make_model

BOS, BYTE_TOKENIZER = 256, ByteTokenizer()
SPECIAL = {id for id in BYTE_TOKENIZER.special_ids if id < BYTE_TOKENIZER.vocab_size}
BYTES = {"data.tokenizer.kind": "bytes", "model.vocab_size": 270, "model.head.bias": True, "model.position.kind": "rope",
         "model.tie_embeddings": False, "model.num_layers": 1}  # fmt: skip
ENCODER_DECODER = {"model.architecture": "encoder_decoder"}
OBJECTIVES = {
    "causal": {}, "prefix": ENCODER_DECODER | {"objective.kind": "prefix", "objective.prefix_length": 3},
    "span": ENCODER_DECODER | {"objective.kind": "span", "objective.sentinels": 5},
    "denoising": ENCODER_DECODER | {"objective.kind": "denoising"},
    "translation": ENCODER_DECODER | {"objective.kind": "translation"},
}  # fmt: skip
UNIFORM, GREEDY = Sampling(temperature=1e6), Sampling(temperature=0.0)


MODELS = {}


def model_of(config):
    """Returns one model for equal model configs, so that their generators share compiled programs."""
    name = str(to_plain(config.model))
    if name not in MODELS:
        MODELS[name] = make_model(config)
    return MODELS[name]


@functools.cache
def text_generator(objective="causal", always=None, learned=False, tokenizer=BYTE_TOKENIZER, reading=None):
    """A random byte model, or one that always predicts the token `always`."""
    config = tiny(BYTES | OBJECTIVES[objective] | ({"model.position.kind": "learned"} if learned else {}))
    model = model_of(config)
    values = random_values(model, 3)
    bias = jnp.zeros_like(values["head"]["bias"])
    values["head"]["bias"] = bias if always is None else bias.at[always].set(1e4)
    return TextGenerator(config, tokenizer, model, values, {}, reading=reading or PromptReading())


def test_a_tokenizer_without_special_tokens_has_no_end():
    assert UnknownTokenizer(10).end_ids == frozenset()
    assert UnknownTokenizer(10, document_id=3).end_ids == {3}


def test_tokens_that_are_joined_by_spaces_are_not_written_one_by_one():
    from tokenizers import Tokenizer, models, pre_tokenizers

    model = Tokenizer(
        models.WordLevel({word: id for id, word in enumerate(["<s>", "<unk>", "a", "b"])}, unk_token="<unk>")
    )
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.add_special_tokens(["<s>", "<unk>"])
    tokenizer = PretrainedTokenizer(keep_own_tokens(model))
    assert tokenizer.decode([2, 3]) == "a b"
    assert tokenizer.written_pieces() is None


def test_ends_that_are_no_tokens_end_nothing():
    for ends, own in (((-1, BYTE_TOKENIZER.vocab_size), BYTE_TOKENIZER.special_ids), ((3, -1, 10**6), {3})):
        generator = text_generator(reading=PromptReading(frame=TextFrame(ends=ends)))
        table = generator._request(["a"], 1, ())["stop"]
        assert np.flatnonzero(table[:, START] == STOPPED).tolist() == sorted(own)


def test_prompts_of_an_unknown_tokenizer_are_ids_that_nothing_opens():
    generator = text_generator(tokenizer=UnknownTokenizer(270))
    assert generator.encode_prompt("3 14") == ([3, 14],) * 2
    assert text_generator(tokenizer=UnknownTokenizer(270, 7)).encode_prompt("3 14") == ([7, 3, 14],) * 2
    for prompt, problem in (("", "no token that opens a document; give ids"), ("a", "must be ids between spaces")):
        with pytest.raises(ConfigError, match=problem):
            generator.encode_prompt(prompt)
    assert generator._completion("3 14", np.array([15, 9]), 2, ()).text == " 15 9"


def test_a_decoder_continues_a_document():
    generator = text_generator()
    assert generator.encode_prompt("aé") == ([BOS, 97, 0xC3, 0xA9],) * 2
    assert generator.longest_sequence(["a", "abc"], 10) == 13
    (answer,) = generator.sample(["ab"], 5, GREEDY, 0)
    expected = generator.generator.generate([[BOS, 97, 98]], 5, vocab_size=257)
    assert answer.text == BYTE_TOKENIZER.decode(expected.tokens[0])
    assert (answer.tokens, answer.stopped, answer.score) == (5, False, None)
    assert generator.full_text("ab", answer) == "ab" + answer.text


def test_a_prefix_model_starts_from_the_last_token_of_the_prompt():
    generator = text_generator("prefix")
    assert generator.encode_prompt("ab") == ([BOS, 97, 98], [98])
    assert generator.encode_prompt("") == ([BOS], [BOS])
    assert generator.longest_sequence(["a", "abc"], 10) == 10
    for prompt, first, source in (("", BOS, [BOS]), ("ab", 98, [BOS, 97, 98])):
        (answer,) = generator.sample([prompt], 5, GREEDY, 0)
        expected = generator.generator.generate([[first]], 5, sources=[source], vocab_size=257)
        assert answer.text == BYTE_TOKENIZER.decode(expected.tokens[0])
    (found,) = generator.beam_search(["ab"], 5, 1, 1.0)
    assert found.text == answer.text
    assert found.score < 0


def test_a_span_model_fills_blanks():
    generator, first = text_generator("span"), 257 + 5 - 1
    assert generator.encode_prompt("a<0>b<2>") == ([BOS, 97, first, 98, first - 2, BOS], [BOS])
    assert generator.encode_prompt("ab") == ([BOS, 97, 98, first, BOS], [BOS])
    answers = [generator.sample(["a<0>b"], 15, UNIFORM, seed)[0] for seed in range(40)]
    said = {int(number) for answer in answers for number in BLANK.findall(answer.text)}
    assert said <= set(range(5))
    assert said
    assert generator.full_text("a<0>b", answers[0]) == answers[0].text
    with pytest.raises(ConfigError, match=r"blank <5> is past the last of objective.sentinels=5, <4>"):
        generator.sample(["a<5>b"], 3, GREEDY, 0)


def test_a_denoising_model_rewrites_the_text():
    generator = text_generator("denoising")
    assert generator.encode_prompt("a<0>b<7>") == ([BOS, 97, 257, 98, 257, BOS], [BOS])
    assert generator.encode_prompt("ab") == ([BOS, 97, 98, BOS], [BOS])
    (answer,) = generator.sample(["a<0>b"], 5, GREEDY, 0)
    expected = generator.generator.generate([[BOS]], 5, sources=[[BOS, 97, 257, 98, BOS]], vocab_size=257)
    assert answer.text == BYTE_TOKENIZER.decode(expected.tokens[0])
    assert generator.full_text("a<0>b", answer) == answer.text


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_generation_ends_at_the_start_of_a_new_document(objective):
    generator = text_generator(objective, always=BOS)
    (drawn,), (found,) = generator.sample(["ab"], 5, GREEDY, 0), generator.beam_search(["ab"], 5, 1, 1.0)
    for answer in (drawn, found):
        assert (answer.text, answer.tokens, answer.stopped) == ("", 1, True)


class WithAnotherEnd(ByteTokenizer):
    end_ids = frozenset({BOS, ord("x")})


@pytest.mark.parametrize(("objective", "text"), [("translation", "xxxxx"), ("denoising", "x")])
def test_a_translation_has_no_other_end_than_its_own(objective, text):
    generator = text_generator(objective, always=ord("x"), tokenizer=WithAnotherEnd())
    (answer,) = generator.sample(["ab"], 5, GREEDY, 0)
    assert (answer.text, answer.stopped) == (text, objective == "denoising")


@pytest.mark.parametrize("row_format", ["packed", "doc_sentences"])
def test_masked_diffusion_draws_no_special_token_in_rows_as_in_training(row_format):
    objective = {"model.architecture": "encoder", "objective.kind": "masked_diffusion", "data.row_format": row_format}
    config = tiny(BYTES | objective)
    model = model_of(config)
    values = random_values(model, 3)
    values["head"]["bias"] = jnp.zeros_like(values["head"]["bias"]).at[jnp.array(sorted(SPECIAL))].set(1e4)
    generator = TextGenerator(config, BYTE_TOKENIZER, model, values, {})
    (answer,) = generator.sample(["ab"], 5, GREEDY, 0)
    assert answer.tokens == 5
    assert len(BYTE_TOKENIZER.encode(answer.text)) > 0
    assert generator.generator.suffix == ([] if row_format == "packed" else [BYTE_TOKENIZER.separator_id])


def test_the_stop_string_is_left_out():
    generator = text_generator(always=ord("x"))
    (answer,) = generator.sample(["ab"], 9, GREEDY, 0, stop=["y", "xxx"])
    assert (answer.text, answer.tokens, answer.stopped) == ("", 3, True)
    (answer,) = generator.sample(["ab"], 9, GREEDY, 0, stop=["y"])
    assert (answer.text, answer.tokens, answer.stopped) == ("x" * 9, 9, False)


def test_a_stop_string_is_that_of_the_text_and_not_of_the_names_of_tokens():
    """WordPiece writes "##x" as "x", without a space before it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    words = ["[CLS]", "[UNK]", "a", "##x"]
    model = Tokenizer(models.WordPiece({word: id for id, word in enumerate(words)}, unk_token="[UNK]"))
    model.pre_tokenizer, model.decoder = pre_tokenizers.WhitespaceSplit(), decoders.WordPiece()
    model.add_special_tokens(["[CLS]", "[UNK]"])
    tokenizer = PretrainedTokenizer(keep_own_tokens(model))
    generator = text_generator(always=3, tokenizer=tokenizer)
    for stop, text, tokens in (("#", "x" * 6, 6), ("xx", "", 2), ("axx", "x" * 6, 6)):
        (answer,) = generator.sample(["a"], 6, GREEDY, 0, stop=[stop])
        assert (answer.text, answer.tokens, answer.stopped) == (text, tokens, stop == "xx")


def test_a_space_before_the_first_new_word_is_kept():
    """Even if the tokenizer drops the space before the first word of a text."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    words = ["<s>", "<unk>", "one", "two", "three"]
    model = Tokenizer(models.WordLevel({word: id for id, word in enumerate(words)}, unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    model.add_special_tokens([AddedToken("<s>", special=True), AddedToken("<unk>", special=True)])
    for objective in ("causal", "prefix"):
        generator = text_generator(objective, always=4, tokenizer=PretrainedTokenizer(model))
        (answer,) = generator.sample(["one two"], 2, GREEDY, 0)
        assert (answer.text, generator.full_text("one two", answer)) == (" three three", "one two three three")
        assert generator.sample([""], 2, GREEDY, 0)[0].text == "three three"


def chat_tokenizer():
    """A byte tokenizer with the special tokens of a chat."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    model = Tokenizer(models.BPE({symbol: id for id, symbol in enumerate(symbols)}, []))
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    model.decoder = decoders.ByteLevel()
    model.add_special_tokens([AddedToken(name, special=True) for name in ("<|endoftext|>", "<|im_start|>")])
    return PretrainedTokenizer(keep_own_tokens(model))


def test_special_tokens_in_prompts_are_text_by_default():
    tokenizer, prompt = chat_tokenizer(), "<|im_start|>a"
    bos, im_start = tokenizer.bos_id, 257
    (a,) = tokenizer.encode("a").tolist()
    as_text = text_generator(tokenizer=tokenizer).encode_prompt(prompt)[0]
    assert as_text == [bos, *tokenizer.encode(prompt).tolist()]
    assert len(as_text) == 1 + len(prompt)
    reader = text_generator(tokenizer=tokenizer, reading=PromptReading(special_tokens=True))
    assert reader.encode_prompt(prompt)[0] == [bos, im_start, a]
    # A prompt may start with the token that begins a document, which is then not repeated.
    assert reader.encode_prompt("<|endoftext|>" + prompt)[0] == [bos, im_start, a]
    assert tokenizer.encode(prompt).tolist() == as_text[1:]
    with pytest.raises(ConfigError, match=r"this one, of kind bytes, reads text"):
        text_generator(reading=PromptReading(special_tokens=True))


def test_the_trained_length_can_be_overridden():
    assert text_generator(reading=PromptReading(trained_length=99)).trained_length == 99


def test_sampling_is_determined_by_the_seed():
    generator = text_generator()
    one, again, other = (generator.sample(["ab", "c"], 9, UNIFORM, seed) for seed in (1, 1, 2))
    assert one == again
    assert one[0] != other[0]
    assert one[1] != other[1]


def test_learned_positions_limit_the_cached_length():
    generator = text_generator(learned=True)
    assert generator.trained_length == 8
    assert text_generator("prefix").trained_length == 6
    with pytest.raises(ConfigError, match="learned positions end at 8"):
        generator.sample(["abcd"], 9, GREEDY, 0)
    (answer,) = generator.sample(["abcd"], 9, GREEDY, 0, cache=False)
    assert answer.tokens == 9


def test_context_is_the_same_with_and_without_a_cache():
    generator = text_generator()
    prompt = "a text of many more letters than the rows of training have"
    assert generator.longest_sequence([prompt], 9) > 8 * generator.trained_length
    with_cache, without = (generator.sample([prompt], 9, GREEDY, 0, cache=cache) for cache in (True, False))
    assert with_cache == without


def test_limited_reading_keeps_to_the_trained_length():
    letters = "".join(map(chr, range(0x100, 0x200)))
    generator = text_generator(tokenizer=CharacterTokenizer(letters), reading=PromptReading(limited=True))
    prompts = [letters[start : start + 20] for start in range(30)]
    answers = [answer.text for answer in generator.sample(prompts, 1, GREEDY, 0, cache=False)]
    last, whole = (
        [letters[row[0]] for row in generator.generator.generate(read, 1, vocab_size=256).tokens]
        for read in (
            [list(range(start + 12, start + 20)) for start in range(30)],
            [[BOS, *range(start, start + 20)] for start in range(30)],
        )
    )
    assert answers == last != whole


def test_unknown_characters_are_rejected():
    config = tiny({"model.vocab_size": 4, "model.num_layers": 1})
    model = make_model(config)
    generator = TextGenerator(config, CharacterTokenizer("abc"), model, random_values(model), {})
    with pytest.raises(ConfigError, match="--prompt 'abZ'") as error:
        generator.sample(["ab", "abZ"], 3, GREEDY, 0)
    assert len(error.value.problems) == 1
    assert generator.sample(["ab"], 3, GREEDY, 0)[0].tokens <= 3
    assert np.isfinite(generator.beam_search(["ab"], 3, 2, 0.0)[0].score)
