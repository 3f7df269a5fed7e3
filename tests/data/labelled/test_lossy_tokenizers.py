"""Spans and tags by tokenizers that lose or change some of a text: right places, and never a
traceback.
"""

import json

import numpy as np
import pytest

from tests.data.labelled.test_examples import config
from tests.support.small_tokenizers import KINDS, saved
from zoo import data
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError, DataError

CONTEXTS = {
    "the café of the law  has data": ("the law", "law", "café of the law"),
    "e\u0301 日本 the cat sat on 日 mat": ("cat sat", "the", "mat"),
    "<tab> the file,    and work": ("file", "work", "the file"),
}
LOST = {"日", "é"}


def questions(path):
    paragraphs = [
        {"context": context, "qas": [
            {"id": f"{context}{answer}", "question": "which é?",
             "answers": [{"text": answer, "answer_start": context.rindex(answer)}]} for answer in answers]}
        for context, answers in CONTEXTS.items()
    ]  # fmt: skip
    path.write_text(json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return f"squad:{path}"


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_found_where_they_stand(tmp_path, kind):
    source = questions(tmp_path / "train.json")
    path = saved(tmp_path / kind, kind)
    resolved = config(
        source, "extraction", data__held_out=source, data__sequence_length=128, model__vocab_size=400, data__tokenizer__kind="file",
        data__tokenizer__path=str(path),
    )  # fmt: skip
    dataset = data.load(resolved)
    encoded = dataset.encoded("validation")
    assert encoded.cut["answers in no row"] == 0
    for example, window, start, end in zip(
        dataset.examples.held_out, encoded.extra, encoded.arrays["starts"], encoded.arrays["ends"], strict=True
    ):
        (answer, begin), *_ = example.answers
        first, last = start - window.first, end - window.first
        found = example.context[window.starts[first] : window.stops[last]]
        assert answer in found
        # A token may take the space before it, and that of an added token the white space around it.
        assert found.strip() == answer
        assert window.starts[first] <= begin < window.stops[first]


@pytest.mark.parametrize("kind", KINDS)
def test_tags_are_at_the_first_token_of_their_word(tmp_path, kind):
    (tmp_path / "a.conll").write_text("the O\ncafé B-x\n日 B-y\nlaw O\n\nwork B-x\nof O\ne\u0301 B-y\n")
    source = f"conll:{tmp_path / 'a.conll'}"
    resolved = config(
        source, "tagging", data__held_out=source, data__sequence_length=64, model__vocab_size=400, data__tokenizer__kind="file",
        data__tokenizer__path=str(saved(tmp_path / kind, kind)),
    )  # fmt: skip
    dataset = data.load(resolved)
    encoded = dataset.encoded("validation")
    (located,) = dataset.tokenizer.encode_with_offsets(["the café 日 law"])
    words, borders = ["the", "café", "日", "law"], [0, 4, 9, 11]
    unseen = 0
    for word, border, place in zip(words, borders, encoded.extra[0].tolist(), strict=True):
        unseen += place < 0
        if place >= 0:
            assert border - 1 <= located.starts[place - 1] <= border
            assert located.stops[place - 1] > border
        else:
            assert (kind, word) == ("without_some_bytes", "日")
    assert encoded.cut["words cut off or unseen"] >= unseen


class Wrong(Tokenizer):
    """A tokenizer whose tokens are not the bytes of the text."""

    kind = "wrong"

    def __init__(self):
        super().__init__([b"a", b""], bos_id=1)

    def encode(self, text):
        return np.zeros(len(text), np.int32)

    def to_json(self):
        return {}

    build = known_vocab_size = from_json = classmethod(lambda cls, *_: None)


def test_tokens_that_are_not_the_text_are_one_line():
    with pytest.raises(DataError, match=r"the tokens of 'bé' do not stand for its 3 bytes"):
        Wrong().encode_with_offsets(["aa", "bé"])
    assert Wrong().encode_with_offsets(["aa"])[0].stops.tolist() == [1, 2]


def test_marian_has_the_places_of_its_tokens(tmp_path):
    from tests.data.tokenizers.test_marian import opus_files

    folder = opus_files(tmp_path / "marian")
    tokenizer = read_pretrained(folder).source_side
    for text in ("the cat  sat", ">>fra<< the cat sat"):
        (found,) = tokenizer.encode_with_offsets([text])
        assert found.ids.tolist() == tokenizer.encode(text).tolist()
        assert found.stops[-1] == len(text)
        assert (np.diff(found.stops) >= 0).all()
    assert text[found.starts[0] : found.stops[0]] == ">>fra<<"
    (folder / "added_tokens.json").write_text(json.dumps({"<new>": 999}))
    with pytest.raises(ConfigError, match=r"the added token '<new>' with the id 999 is not in vocab\.json"):
        read_pretrained(folder)
