"""Word boundaries for every kind of tokenizer, ids of separators, and whole-word masking against its
rule written as a loop.
"""

import dataclasses
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.data.rows.corruption import make_corruption
from zoo.data.rows.masking import Masking
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.character_level import CharacterTokenizer
from zoo.data.tokenizers.own_tokens import keep_own_tokens
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer
from zoo.data.tokenizers.word_boundaries import choose_words, first_tokens, joins_by_marker, joins_by_white_space

# Tokenizers built from lists

TEXTS = ["the", "sheep", "wolf", "s", ".", "and", "met"]


def model_of(model, pre=None):
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Model

    made = Model(model)
    made.pre_tokenizer = pre
    made.add_special_tokens(
        [
            AddedToken(name, special=True)
            for name in ("[CLS]", "[SEP]", "[MASK]", "<s>", "</s>")
            if made.token_to_id(name) is not None
        ]
    )
    return PretrainedTokenizer(keep_own_tokens(made))


def wordpiece(*special_ids):
    from tokenizers import models, pre_tokenizers

    tokens = ["[UNK]", *special_ids, "the", "sheep", "wolf", "##s", "##ly", ".", "met"]
    return model_of(
        models.WordPiece({token: id for id, token in enumerate(tokens)}, unk_token="[UNK]"),
        pre_tokenizers.BertPreTokenizer(),
    )


def unigram():
    from tokenizers import models, pre_tokenizers

    pieces = ["<s>", "▁the", "▁", "sheep", "▁wolf", "s", "."]
    return model_of(
        models.Unigram([(piece, -float(id)) for id, piece in enumerate(pieces)], unk_id=0), pre_tokenizers.Metaspace()
    )


def bpe_with_end_markers():
    from tokenizers import models, pre_tokenizers

    tokens = ["<s>", "t", "h", "s", "t</w>", "h</w>", "s</w>"]
    model = models.BPE({token: id for id, token in enumerate(tokens)}, [], end_of_word_suffix="</w>")
    return model_of(model, pre_tokenizers.Whitespace())


def words_of(tokenizer, ids):
    """Groups ids into words by `first_tokens`; ids that are not candidates are left out."""
    rows = np.array([ids])
    candidates = (rows >= 0) & ~np.isin(rows, list(tokenizer.special_ids))
    first = first_tokens(rows, tokenizer.word_joins(), candidates)[0]
    found = []
    for id, begins, candidate in zip(ids, first, candidates[0], strict=True):
        if begins:
            found.append([id])
        elif candidate:
            found[-1].append(id)
    return found


def test_white_space_ends_a_word_of_bytes_and_of_characters():
    text = "the  sheep\tmet.\nKöln"
    for tokenizer in (ByteTokenizer(), CharacterTokenizer(text)):
        ids = tokenizer.encode(text).tolist()
        texts = [tokenizer.decode(word) for word in words_of(tokenizer, [tokenizer.bos_id, *ids])]
        assert texts == ["the", " ", " ", "sheep", "\t", "met.", "\n", "Köln"]


def test_a_leading_space_begins_a_word_of_byte_pairs():
    left, right = joins_by_white_space([" the", "re", "\n", " ", "x ", "", "a"], {6})
    assert left.tolist() == [False, True, False, False, True, False, False]
    assert right.tolist() == [True, True, False, False, False, False, False]


def test_wordpiece_markers():
    tokenizer = wordpiece("[CLS]", "[SEP]")
    ids = [1, *tokenizer.encode("the sheeps wolfsly . met").tolist(), 2]
    assert words_of(tokenizer, ids) == [[3], [4, 6], [5, 6, 7], [8], [9]]


def test_markers_of_leading_spaces():
    assert words_of(unigram(), [0, 1, 5, 2, 3, 5, 6, 4, 5]) == [[1, 5], [2, 3, 5, 6], [4, 5]]
    left, right = joins_by_marker(["Ġthe", "re", "Ċ"], set())
    assert (left.tolist(), right.tolist()) == ([False, True, True], [True] * 3)


def test_markers_of_word_ends():
    assert words_of(bpe_with_end_markers(), [1, 2, 6, 4, 3, 5]) == [[1, 2, 6], [4], [3, 5]]


# Ids of separators and masks

CAUSAL, MASKED, SPAN = (SimpleNamespace(kind=kind, sentinels=9) for kind in ("causal", "masked", "span"))


def test_separator_and_mask_are_the_tokenizers_own_or_the_first_free_id():
    own, half, none = wordpiece("[CLS]", "[SEP]", "[MASK]"), wordpiece("[CLS]", "[MASK]"), wordpiece("[CLS]", "[SEP]")
    assert (own.bos_id, own.separator_id, own.mask_id) == (1, 2, 3)
    assert (half.mask_id, half.separator_id) == (2, half.vocab_size)
    assert (none.mask_id, none.separator_id) == (none.vocab_size, 2)
    assert (ByteTokenizer().mask_id, ByteTokenizer().separator_id) == (257, 258)
    # Where </s> opens documents it cannot end sentences too.
    ends, both = wordpiece("</s>"), wordpiece("<s>", "</s>")
    assert (ends.bos_id, ends.separator_id) == (1, ends.vocab_size + 1)
    assert (both.bos_id, both.separator_id) == (1, 2)


@pytest.mark.parametrize(("make", "packed", "pairs"), [
    (ByteTokenizer, {"causal": 257, "masked": 258, "span": 266}, 259),
    (lambda: wordpiece("[CLS]", "[SEP]", "[MASK]"), {"causal": 11, "masked": 11, "span": 20}, 11),
    (lambda: wordpiece("[CLS]", "[MASK]"), {"causal": 10, "masked": 10, "span": 19}, 11),
    (lambda: wordpiece("[CLS]", "[SEP]"), {"causal": 10, "masked": 11, "span": 19}, 11),
])  # fmt: skip
def test_extra_ids_are_counted_where_they_are_needed(make, packed, pairs):
    tokenizer = make()
    for objective in (CAUSAL, MASKED, SPAN):
        assert tokenizer.model_vocab_size(objective) == packed[objective.kind]
    for rows in ("full_sentences", "segment_pairs"):
        assert tokenizer.model_vocab_size(MASKED, rows) == pairs
    assert ByteTokenizer.known_model_vocab_size(None, MASKED, "segment_pairs") == 259


# Whole-word masking

V, BOUNDARY = 30, 7
# Even ids begin a word, and odd ids continue it.
JOINS = np.arange(V) % 2 == 1, np.ones(V, bool)


def random_rows(count, length, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, V, (count, length)).astype(np.int32)
    rows[np.arange(length) >= generator.integers(0, length + 1, count)[:, None]] = -1
    return rows


def words_in(row):
    """Returns a list of positions for each word."""
    found, before = [], None
    for place, token in enumerate(row):
        if token < 0 or token == BOUNDARY:
            before = None
            continue
        if before is not None and token % 2 == 1:
            found[-1].append(place)
        else:
            found.append([place])
        before = token
    return found


def greedy(words, draws, budget):
    """Applies the rule word by word."""
    chosen = []
    for word in sorted(words, key=lambda word: draws[word[0]]):
        if len(chosen) + len(word) <= budget:
            chosen += word
    return sorted(chosen)


@settings(deadline=None)
@given(length=st.integers(1, 40), share=st.floats(0, 1), seed=st.integers(0, 10**6))
def test_chosen_words_match_the_rule_applied_word_by_word(length, share, seed):
    rows, draws = random_rows(10, length, seed), np.random.default_rng(seed + 1).random((10, length))
    candidates = (rows >= 0) & (rows != BOUNDARY)
    budget = np.floor(share * candidates.sum(axis=1)).astype(np.int64)
    chosen = choose_words(first_tokens(rows, JOINS, candidates), candidates, draws, budget)
    for row, mine, its_draws, most in zip(rows, chosen, draws, budget, strict=True):
        assert np.flatnonzero(mine).tolist() == greedy(words_in(row), its_draws, most)


@settings(deadline=None)
@given(length=st.integers(1, 60), fraction=st.floats(0.05, 1), seed=st.integers(0, 10**6))
def test_words_are_predicted_whole_and_within_the_budget(length, fraction, seed):
    rows, masking = random_rows(8, length, seed), Masking(fraction, 0.6, 0.2, V, (BOUNDARY,), V, joins=JOINS)
    batch = masking.training_batch({"tokens": rows}, np.arange(8), np.zeros(8, int), seed)
    for row, tokens, places, targets in zip(
        rows, batch["tokens"], batch["masked_positions"], batch["targets"], strict=True
    ):
        words, used = words_in(row), places[targets >= 0]
        budget = min(sum(map(len, words)), max(1, int(np.floor(fraction * sum(map(len, words)) + 0.5))))
        assert len(set(used.tolist())) == len(used) <= budget
        assert all(len(set(word) & set(used.tolist())) in (0, len(word)) for word in words)
        left = [word for word in words if word[0] not in used]
        # Nothing more would fit; a row has something predicted where one of its words does.
        assert all(len(word) > budget - len(used) for word in left)
        np.testing.assert_array_equal(targets[targets >= 0], row[used])
        unused = np.setdiff1d(np.arange(length), used)
        np.testing.assert_array_equal(tokens[unused], row[unused])


WORDS = Masking(0.15, 0.8, 0.1, V, (BOUNDARY,), V, joins=JOINS)


def test_whole_words_make_up_the_selected_fraction():
    rows = np.random.default_rng(1).integers(0, V, (400, 128)).astype(np.int32)
    batch = WORDS.evaluation_batch({"tokens": rows}, np.arange(400))
    assert (batch["targets"] >= 0).sum() / ((rows != BOUNDARY).sum()) == pytest.approx(0.15, abs=0.005)
    used = batch["targets"] >= 0
    row, places = np.nonzero(used)[0], batch["masked_positions"][used]
    hidden, masked = np.zeros(rows.shape, bool), np.zeros(rows.shape, bool)
    hidden[row, places], masked[row, places] = True, batch["tokens"][row, places] == V
    # Each token of a word is masked by its own draw.
    assert masked[hidden].mean() == pytest.approx(0.8, abs=0.02)
    going_on = rows % 2 == 1
    pair = hidden[:, 1:] & hidden[:, :-1] & going_on[:, 1:]
    assert pair.sum() > 1000
    assert (masked[:, 1:] & masked[:, :-1])[pair].mean() == pytest.approx(0.64, abs=0.04)


def test_chosen_words_are_a_function_of_seed_epoch_and_row():
    rows = np.resize(random_rows(1, 60, 3)[0].clip(0), (1, 60))
    tokens_of = {}
    for seed, epoch, index in itertools.product(range(4), repeat=3):
        batch = WORDS.training_batch({"tokens": rows}, np.array([index]), np.array([epoch]), seed)
        again = WORDS.training_batch({"tokens": rows[[0, 0]]}, np.array([index, 9]), np.array([epoch, 9]), seed)
        np.testing.assert_array_equal(batch["tokens"][0], again["tokens"][0])
        tokens_of[seed, epoch, index] = tuple(batch["tokens"][0])
    assert len(set(tokens_of.values())) == len(tokens_of)
    static = dataclasses.replace(WORDS, copies=2)
    tokens = [
        static.training_batch({"tokens": rows}, np.array([0]), np.array([epoch]), 0)["tokens"].tolist()
        for epoch in range(3)
    ]
    assert tokens[0] == tokens[2] != tokens[1]


def test_a_row_of_one_long_word_predicts_nothing():
    rows = np.full((1, 20), 1, np.int32)
    assert (WORDS.evaluation_batch({"tokens": rows}, np.arange(1))["targets"] == -1).all()


def test_config_selects_whole_words():
    objective = {
        "kind": "masked",
        "select_fraction": 0.2,
        "mask_token_fraction": 0.8,
        "random_token_fraction": 0.1,
        "mask_copies": 0,
    }
    for whole, rows in ((False, "packed"), (True, "segment_pairs")):
        config = SimpleNamespace(
            objective=SimpleNamespace(**objective, whole_words=whole),
            data=SimpleNamespace(row_format=rows),
            training=SimpleNamespace(eval_masks="as_trained"),
        )
        masking = make_corruption(config, ByteTokenizer())
        assert (masking.joins is not None) == whole
        assert masking.boundary_ids == ((256,) if rows == "packed" else (256, 258))
