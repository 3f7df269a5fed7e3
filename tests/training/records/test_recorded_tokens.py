"""A run records the hash of its tokens: equal text and equal tokenizers are not enough to
resume it.
"""

from types import SimpleNamespace

import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo import data
from zoo.errors import ConfigError
from zoo.training.records.recorded_tokens import differing_tokens, recorded_tokens
from zoo.training.records.resume_checks import check_same_data

SOURCE = {"fingerprint": "f", "tokenizer": {"fingerprint": "t"}}


def check(tmp_path, before, now):
    (tmp_path / "checkpoints").mkdir(exist_ok=True)
    folder = SimpleNamespace(path=tmp_path, meta={"data": before})
    check_same_data(folder, SimpleNamespace(summary=lambda: now))


def test_a_run_with_other_tokens_is_not_resumed(tmp_path):
    before = SOURCE | {"train_tokens_sha256": "a" * 64, "validation_tokens_sha256": "b" * 64}
    check(tmp_path, before, dict(before))
    with pytest.raises(
        ConfigError, match=r"the hash of the train tokens \(same text, same tokenizer\) has changed.*aaaa"
    ):
        check(tmp_path, before, before | {"train_tokens_sha256": "c" * 64})


def test_a_record_without_tokens_is_resumed(tmp_path):
    check(tmp_path, SOURCE, SOURCE | {"train_tokens_sha256": "a" * 64})
    check(tmp_path, SOURCE | {"train_tokens_sha256": "a" * 64}, SOURCE)


def test_tokens_of_mixtures_and_of_held_out_texts_are_compared():
    record = {
        "parts": [{"train_tokens_sha256": "a"}, {"train_tokens_sha256": "b", "weight": 1}],
        "held_out": {"validation_tokens_sha256": "c", "fingerprint": "d"},
    }
    assert dict(recorded_tokens(record)) == {"source 0 train": "a", "source 1 train": "b", "held_out validation": "c"}
    other = {"parts": [{"train_tokens_sha256": "a"}, {"train_tokens_sha256": "x"}], "held_out": None}
    assert [*differing_tokens(record, other)] == [("source 1 train", "b", "x")]


@pytest.mark.parametrize("kind", ["text", "pairs", "task"])
def test_the_record_of_every_kind_of_data_has_the_hash_of_its_tokens(tmp_path, kind):
    changes = {}
    if kind == "pairs":
        (tmp_path / "pairs.tsv").write_text("source\ttarget\n" + "".join(f"text {n}\tanswer {n}\n" for n in range(60)))
        changes = {"model__architecture": "encoder_decoder", "objective__kind": "translation",
                   "data__source": f"tsv:{tmp_path}/pairs.tsv"}  # fmt: skip
    if kind == "task":
        lines = "".join(f'{{"text": "number {n}", "label": "{"odd" if n % 2 else "even"}"}}\n' for n in range(60))
        (tmp_path / "task.jsonl").write_text(lines)
        changes = {"model__architecture": "encoder", "objective__kind": "classification", "data__label_column": "label",
                   "training__eval_batches": 0, "data__source": f"jsonl:{tmp_path}/task.jsonl"}  # fmt: skip
    hashes = [
        dict(
            recorded_tokens(data.load(configs.resolve(small(**changes, data__sequence_length=24, seed=seed))).summary())
        )
        for seed in (0, 1)
    ]
    assert hashes[0] == hashes[1]
    assert set(hashes[0]) == {"train", "validation"}
    assert len({*hashes[0].values()}) == 2
    assert all(len(digest) == 64 for digest in hashes[0].values())
