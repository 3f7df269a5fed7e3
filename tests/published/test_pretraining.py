"""BERT and RoBERTa, trained for a few minutes on real text, learn to predict masked tokens from
context and whether two segments belong together.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from zoo import config as configs
from zoo import data
from zoo.data import resolve_with_data
from zoo.lab.results.run_records import load_run
from zoo.training.trainer import run

ROOT = Path(__file__).parents[2]
# Large enough to leave the unigram plateau within a few hundred updates; without dropout, which
# slows training.
SIZE = {
    "model.dim": 128, "model.num_layers": 2, "model.attention.num_heads": 4, "model.ffn.hidden_dim": 512, "model.dropout": 0.0,
    "model.attention.dropout": 0.0, "model.position.max_length": 64, "data.sequence_length": 64, "data.batch_size": 32,
    "data.tokenizer.vocab_size": 4096, "optimizer.learning_rate": 1e-3, "schedule.warmup_steps": 100, "training.steps": 1000,
    "training.eval_every": 0, "training.eval_batches": 60, "training.checkpoint_every": 0,
}  # fmt: skip


@pytest.fixture
def wikitext():
    """WikiText-2: a line " = Title = " opens an article, " = = Title = = " a section; each section
    is a document.
    """
    path = Path(os.environ.get("ZOO_TEST_DATA", ROOT.parent / "shared" / "data")) / "text" / "wiki.train.raw.gz"
    if not path.is_file():
        pytest.skip(f"no {path}; set ZOO_TEST_DATA to a folder that holds text/wiki.train.raw.gz")
    return {"data.source": f"text:{path}", "data.document_separator": "\n = "}


def trained(name, changes, folder):
    """Returns (the finished run, entropy of its held-out masked tokens, i.e. the loss of the best
    prediction without context).
    """
    config = configs.override(configs.load(f"{ROOT / 'configs' / name}:tiny"), SIZE | changes)
    run(config, folder, lambda line: None)
    batches = data.load(resolve_with_data(config)).evaluation_batches()
    targets = np.concatenate([batch["targets"][batch["targets"] >= 0] for batch in batches])
    frequencies = np.bincount(targets) / len(targets)
    return load_run(folder), -(frequencies[frequencies > 0] * np.log(frequencies[frequencies > 0])).sum()


@pytest.mark.slow(reason="a published result is trained again")
@pytest.mark.timeout(1800)
def test_bert_learns_masked_tokens_and_next_sentence(wikitext, tmp_path):
    """Measured: 6.249 nats, where the entropy of the hidden tokens is 6.566; accuracy 0.834, and
    0.732 after 250 updates. The test took 3.4 minutes.
    """
    result, entropy = trained("bert.py", wikitext | {"data.tokenizer.kind": "wordpiece"}, tmp_path)
    assert result.final("eval/loss") < entropy - 0.1
    assert result.final("eval/next_accuracy") > 0.7


@pytest.mark.slow(reason="a published result is trained again")
@pytest.mark.timeout(1800)
def test_roberta_learns_masked_tokens(wikitext, tmp_path):
    """Measured: 6.413 nats, where the entropy of the hidden tokens is 6.738. The test took 3.1
    minutes.
    """
    result, entropy = trained("roberta.py", wikitext | {"data.tokenizer.kind": "bpe"}, tmp_path)
    assert result.final("eval/loss") < entropy - 0.1
