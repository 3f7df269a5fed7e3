"""Rows of every format and corruption carry the bytes of exactly those tokens that are scored."""

import numpy as np
import pytest

from tests.objectives.making import FewTokens
from tests.support.building import tiny
from zoo.data.pipeline.batching import Batching
from zoo.data.pipeline.buckets import PairBatches, TokenSequences, bucket_shapes
from zoo.data.rows.packed_rows import BYTES
from zoo.data.rows.token_streams import Stream
from zoo.objectives import make_objective
from zoo.objectives.objective import EVALUATION

FORMATS = {
    "causal": {},
    "context": {"training.eval_context": 3},
    "multi_token": {"objective.kind": "multi_token"},
    "prefix": {"objective.kind": "prefix", "objective.prefix_length": 3},
    "prefix encoder": {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "objective.prefix_length": 3},
    "masked": {"model.architecture": "encoder", "objective.kind": "masked"},
    "diffusion": {"model.architecture": "encoder", "objective.kind": "masked_diffusion"},
    "sentences": {"model.architecture": "encoder", "objective.kind": "masked", "data.row_format": "full_sentences"},
    "pairs": {"model.architecture": "encoder", "objective.kind": "masked", "data.row_format": "segment_pairs",
              "model.embedding.segments": 2},
    "span": {"model.architecture": "encoder_decoder", "objective.kind": "span", "objective.sentinels": 4},
    "denoising": {"model.architecture": "encoder_decoder", "objective.kind": "denoising"},
    "bidirectional": {"model.architecture": "elmo", "objective.kind": "bidirectional", "model.ffn.hidden_dim": "auto",
                      "model.elmo.characters": 8, "model.elmo.character_dim": 5, "model.elmo.filters": (1, 4, 3, 6, 2, 5),
                      "model.elmo.cell_dim": 24},
}  # fmt: skip
# Each id stands for another number of bytes; the token that opens documents and ids beyond the
# tokenizer's for none.
SIZES = np.array([3, 1, 4, 1, 5, 9, 2, 6, 7, 0, 8, 5, 2] + [0] * 12)


class Sized(FewTokens):
    """A tokenizer with a mask of its own, whose pieces have `SIZES` bytes."""

    pieces = tuple(b"x" * size for size in SIZES[:13])
    mask_id, special_ids = 12, frozenset({9})


def streams():
    """A stream of documents of sentences, and the same with the bytes of its tokens."""
    random = np.random.default_rng(0)
    tokens = random.integers(0, 9, 203)
    opens = np.arange(0, 203, 23)
    tokens[opens] = Sized.bos_id
    starts = np.unique(np.concatenate([opens + 1, opens[:-1] + 9, opens[:-1] + 15]))
    plain = Stream(tokens.astype(np.uint16), starts[starts < 203])
    return plain, Stream(plain.tokens, plain.sentences, SIZES[tokens].astype(np.int32))


@pytest.mark.parametrize("name", FORMATS)
def test_bytes_of_rows_are_those_of_the_pieces(name):
    config = tiny({"model.vocab_size": 25} | FORMATS[name])
    batching, objective = Batching(config, Sized()), make_objective(config, Sized())
    plain, sized = ([*batching.evaluation([stream], limit_batches=0)] for stream in streams())
    assert len(plain) == len(sized) > 3
    total = 0
    for without, having in zip(plain, sized, strict=True):
        assert set(having) == {*without, BYTES}
        for array in without:
            np.testing.assert_array_equal(having[array], without[array])
        counts = [objective.prepare_targets(batch, objective.constants, EVALUATION)[2] for batch in (without, having)]
        assert float(counts[0]["bytes"]) == float(counts[1]["bytes"])
        total += float(counts[0]["bytes"])
    assert total > 0
    if name == "causal":
        assert total == SIZES[streams()[0].tokens[1:]].sum()


def test_rows_that_begin_inside_a_document_have_their_own_bytes():
    _, sized = streams()
    batching = Batching(tiny(), Sized())
    first, *_ = batching.evaluation([sized], limit_batches=0)
    np.testing.assert_array_equal(first[BYTES], SIZES[sized.tokens[: 2 * 8 + 1]][[np.arange(9), np.arange(8, 17)]])


def test_training_rows_have_no_bytes_and_streams_without_get_those_of_their_pieces():
    plain, sized = streams()
    batching = Batching(tiny(), Sized())
    with batching.training([plain, sized], [1.0, 1.0]) as batches:
        assert set(batches.batch(0)) == {"tokens"}
    found = [*batching.evaluation([plain, sized], limit_batches=0)]
    expected = np.where(np.concatenate([batch["tokens"] for batch in found]) >= 0, 1, 0)
    tokens = np.maximum(np.concatenate([batch["tokens"] for batch in found]), 0)
    np.testing.assert_array_equal(np.concatenate([batch[BYTES] for batch in found]), SIZES[tokens] * expected)


def test_translations_have_the_bytes_of_the_target_texts():
    texts = [np.arange(count) for count in (3, 5, 2, 7)]
    source = TokenSequences(texts, 9)
    target = TokenSequences(texts, 9, [SIZES[text] for text in texts])
    pairs = PairBatches(source, target, bucket_shapes(8, 2, 2))
    for batch in pairs.evaluation(3):
        rows = batch["targets"]
        np.testing.assert_array_equal(batch[BYTES], np.where(rows >= 0, SIZES[np.maximum(rows, 0)], 0))
    assert BYTES not in pairs.training(0).batch(0)
