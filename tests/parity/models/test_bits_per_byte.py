"""Bits per byte of one published model with five kinds of tokenizers, compared with torch: the sum of
the losses of all tokens, divided by the bytes of the text.
"""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import sentencepiece
import torch
import transformers

from tests.support.checkpoints_of_others import zoo
from tests.support.small_tokenizers import OPENS, saved

pytestmark = pytest.mark.parity

TEXT = "".join(
    f"The cat {number} sat on  the mat, and café number {number * number} has data.\n\n The e\u0301 law 日本 {number}\t\n"
    for number in range(12)
)
OPENING = {"wordpiece": "[CLS]", "byte_fallback": "<s>", "sentencepiece": "<s>"}
LENGTH = 16


def ids_of(folder, kind):
    """The ids of the text and their number, by the library that the files are from."""
    if kind == "sentencepiece":
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
        return [model.bos_id(), *model.Encode(TEXT)], model.GetPieceSize()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    opens = tokenizer.convert_tokens_to_ids(OPENING.get(kind, OPENS))
    return [opens, *tokenizer(TEXT, add_special_tokens=False)["input_ids"]], len(tokenizer)


def summed_loss(model, ids):
    """The sum of -log p of all ids but the first, in rows of `LENGTH` that begin where the last one
    ended.
    """
    total = 0.0
    for start in range(0, len(ids) - 1, LENGTH):
        row = torch.tensor([ids[start : start + LENGTH + 1]])
        with torch.no_grad():
            scores = torch.log_softmax(model(row[:, :-1]).logits.double(), dim=-1)
        total -= scores.gather(2, row[:, 1:, None]).sum().item()
    return total


@pytest.mark.parametrize("kind", ["without_some_bytes", "normalised", "wordpiece", "byte_fallback", "sentencepiece"])
def test_bits_per_byte_are_those_of_torch(tmp_path, kind):
    folder = saved(tmp_path / "published", kind)
    ids, size = ids_of(folder, kind)
    torch.manual_seed(0)
    settings = transformers.GPT2Config(
        vocab_size=size,
        n_positions=64,
        n_embd=16,
        n_layer=1,
        n_head=2,
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(settings).eval()
    model.save_pretrained(folder)
    text = tmp_path / "text.txt"
    text.write_bytes(TEXT.encode())
    assert zoo("import", f"hf:{folder}", "--out", tmp_path / "run")[0] == 0
    code, out, errors = zoo("eval", tmp_path / "run", "--text", text, "--lengths", LENGTH, "--json")
    assert (code, errors) == (0, [])
    scores = json.loads(out)["lengths"][str(LENGTH)]
    expected = summed_loss(model, ids) / len(TEXT.encode()) / np.log(2)
    np.testing.assert_allclose(scores["bits_per_byte"], expected, rtol=1e-5)
    np.testing.assert_allclose(scores["loss"], summed_loss(model, ids) / (len(ids) - 1), rtol=1e-5)
