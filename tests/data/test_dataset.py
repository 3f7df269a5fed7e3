import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import zoo.data
from zoo.errors import ConfigError, DataError
from zoo.objectives.objective import positions_and_documents


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    stories = [f"Story number {number} of héros, {number * 7919} words.<end>" for number in range(60)]
    path.write_text("".join(stories), encoding="utf-8")
    return path


@pytest.fixture
def text_config(make_config, corpus):
    def make(**fields):
        given = {name.replace("__", "."): value for name, value in fields.items()}
        return make_config({"data.source": f"text:{corpus}", "data.document_separator": "<end>"} | given)

    return make


def streams(dataset):
    """The tokens of training and validation of a data set with one source."""
    (part,) = dataset.parts
    return part.train_stream.tokens, dataset.held_out_texts[0].stream.tokens


BPE = {"data__tokenizer__kind": "bpe", "data__tokenizer__vocab_size": 280}
KINDS = {"bytes": {}, "characters": {"data__tokenizer__kind": "characters"}, "bpe": BPE}


@pytest.mark.parametrize(("kind", "size"), [("bytes", 257), ("characters", None), ("bpe", 280)])
def test_decoded_streams_are_the_source_text(text_config, corpus, kind, size):
    config = text_config(**KINDS[kind])
    dataset = zoo.data.load(config)
    stories = [story for story in corpus.read_text(encoding="utf-8").split("<end>") if story]
    assert dataset.tokenizer.vocab_size == zoo.data.vocabulary_size(config) == (size or len(set("".join(stories))) + 1)
    train, validation = (dataset.tokenizer.decode(tokens, document="\n").split("\n")[1:] for tokens in streams(dataset))
    assert sorted(train + validation) == sorted(stories)
    summary = dataset.summary()
    assert [summary[name] for name in ("documents", "train_documents", "validation_documents")] == [
        60,
        len(train),
        len(validation),
    ]
    assert [summary["train_tokens"], summary["validation_tokens"]] == [len(tokens) for tokens in streams(dataset)]
    assert [dataset.train_tokens, dataset.validation_tokens] == [len(tokens) for tokens in streams(dataset)]
    assert summary["train_bytes"] == len("".join(train).encode())
    assert summary["validation_bytes"] == len("".join(validation).encode())
    sizes = dataset.tokenizer.token_bytes()
    assert [sizes[tokens].sum() for tokens in streams(dataset)] == [summary["train_bytes"], summary["validation_bytes"]]


@pytest.mark.parametrize("fraction", [0.5, 0.2])
def test_training_fraction_keeps_the_vocabulary_and_the_held_out_text(text_config, fraction):
    whole, part = (zoo.data.load(text_config(**BPE, data__training_fraction=share)) for share in (1.0, fraction))
    assert part.tokenizer.fingerprint == whole.tokenizer.fingerprint
    np.testing.assert_array_equal(streams(part)[1], streams(whole)[1])
    stories, kept = (
        set(data.tokenizer.decode(streams(data)[0], document="\n").split("\n")[1:]) for data in (whole, part)
    )
    assert kept < stories
    assert part.summary()["train_bytes"] / whole.summary()["train_bytes"] == pytest.approx(fraction, abs=0.03)


def test_training_fraction_of_one_document_is_its_beginning(make_config, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text("".join(f"{number:04d} " for number in range(1000)))
    config = {"data.source": f"text:{path}", "data.validation_fraction": 0.2, "data.training_fraction": 0.25}
    train, validation = streams(zoo.data.load(make_config(config)))
    assert bytes(train[1:].astype(np.uint8)) == path.read_bytes()[:1000]
    assert bytes(validation[1:].astype(np.uint8)) == path.read_bytes()[4000:]


def test_a_training_fraction_that_leaves_nothing_is_refused(make_config, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("only a few words here")
    with pytest.raises(DataError, match=r"data\.training_fraction: 0\.01 of .* leaves nothing"):
        zoo.data.load(make_config({"data.source": f"text:{path}", "data.training_fraction": 0.01}))


def test_cached_load_is_the_same(text_config):
    config = text_config(**BPE)
    first, second = zoo.data.load(config), zoo.data.load(config)
    assert first.summary() == second.summary()
    np.testing.assert_array_equal(streams(first)[0], streams(second)[0])


def test_changed_content_is_never_served_from_the_cache(text_config, corpus):
    before = zoo.data.load(text_config())
    stamp = corpus.stat()
    corpus.write_bytes(corpus.read_bytes().replace(b"Story", b"Fable"))
    os.utime(corpus, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    after = zoo.data.load(text_config())
    assert after.summary()["fingerprint"] != before.summary()["fingerprint"]
    assert "Fable" in after.tokenizer.decode(streams(after)[0])


def test_summary_is_plain_json(text_config):
    summary = zoo.data.load(text_config()).summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["tokenizer"]["kind"] == "bytes"
    assert summary["fingerprint"] == zoo.data.load(text_config()).summary()["fingerprint"]
    assert "60 documents" in summary["description"]


def test_training_batches_follow_the_config(text_config):
    dataset = zoo.data.load(text_config(data__batch_size=6, data__sequence_length=12, seed=3))
    with dataset.training_batches() as batches:
        first = [batch["tokens"] for batch in itertools.islice(batches, 4)]
    assert first[0].shape == (6, 13)
    with dataset.training_batches(start_step=2, process_index=1, process_count=2) as batches:
        np.testing.assert_array_equal(next(batches)["tokens"], first[2][3:])
    other = zoo.data.load(text_config(data__batch_size=6, data__sequence_length=12, seed=4))
    with other.training_batches() as batches:
        assert not np.array_equal(next(batches)["tokens"], first[0])


def test_arms_with_other_models_see_the_same_batches(text_config):
    first_batches = []
    for fields in ({}, {"model__dim": 64, "optimizer__learning_rate": 0.1}):
        with zoo.data.load(text_config(**fields)).training_batches() as batches:
            first_batches.append(next(batches)["tokens"])
    np.testing.assert_array_equal(*first_batches)


def test_held_out_rows_begin_at_the_same_positions_on_any_number_of_devices(text_config):
    dataset = zoo.data.load(text_config(data__position_offsets=(0, 5, 11)))

    def firsts(length, devices):
        found = []
        for batch in dataset.evaluation_batches(length, multiple_of=devices, limit_batches=0):
            positions, _ = positions_and_documents(batch["tokens"], False, dataset.tokenizer.bos_id, (0, 5, 11))
            real = (batch["tokens"] >= 0).any(axis=1)
            found += [
                (row.tolist(), int(first)) for row, first in zip(batch["tokens"][real], positions[real, 0], strict=True)
            ]
        return found

    for length in (8, 16):
        assert [first for _, first in firsts(length, 1)][:4] == [0, 5, 11, 0]
        assert firsts(length, 1) == firsts(length, 8)


def test_evaluation_at_other_lengths_keeps_the_tokens_per_batch(text_config):
    dataset = zoo.data.load(text_config(training__eval_batches=2))
    shapes = {length: next(dataset.evaluation_batches(length))["tokens"].shape for length in (None, 8, 4, 16, 13, 100)}
    assert shapes == {None: (4, 9), 8: (4, 9), 4: (8, 5), 16: (2, 17), 13: (2, 14), 100: (1, 101)}
    assert len(list(dataset.evaluation_batches())) == 2
    assert next(dataset.evaluation_batches(16, multiple_of=5))["tokens"].shape == (5, 17)
    assert next(dataset.evaluation_batches(32, multiple_of=2, process_count=2))["tokens"].shape == (1, 33)
    whole = np.concatenate([batch["tokens"] for batch in dataset.evaluation_batches(32, limit_batches=0)])[:, 1:]
    np.testing.assert_array_equal(whole[whole >= 0], streams(dataset)[1][1:])


def test_scored_rows_do_not_depend_on_the_number_of_devices(text_config):
    dataset = zoo.data.load(text_config(training__eval_batches=2))
    for length in (4, 8, 16, 100):

        def rows(multiple_of, length=length):
            batches = [batch["tokens"] for batch in dataset.evaluation_batches(length, multiple_of)]
            return [row.tolist() for row in np.concatenate(batches) if (row >= 0).any()]

        assert rows(1) == rows(3) == rows(8)


def test_encoding_another_text_file(text_config, tmp_path):
    dataset = zoo.data.load(text_config(training__eval_batches=1))
    other = tmp_path / "other.txt"
    other.write_text("first<end>second")
    config = text_config(training__eval_batches=1)
    stream = zoo.data.encode_text_file(other, dataset.tokenizer, config)
    assert dataset.tokenizer.decode(stream.tokens, document="|") == "|first|second"
    (batch,) = dataset.batching.evaluation([stream], length=20)
    assert batch["tokens"][0, : len(stream)].tolist() == stream.tokens.tolist()
    with pytest.raises(ConfigError, match="no such file"):
        zoo.data.encode_text_file(tmp_path / "gone.txt", dataset.tokenizer, config)
    other.write_text("漢字")
    characters = zoo.data.load(text_config(data__tokenizer__kind="characters"))
    with pytest.raises(DataError, match=r"other\.txt.*'漢'.*position 0"):
        zoo.data.encode_text_file(other, characters.tokenizer, config)


def test_encoding_texts_of_json_objects(text_config, tmp_path):
    """A run that read text files sees the objects as they stand."""
    other = tmp_path / "other.jsonl"
    other.write_text('{"text": "first"}\n{"text": "second"}\n')
    config = text_config(training__eval_batches=1)
    tokenizer = zoo.data.load(config).tokenizer
    as_text = zoo.data.encode_text_file(other, tokenizer, config)
    assert '{"text": "first"}' in tokenizer.decode(as_text.tokens, document="|")
    changes = {"data__source": "stdlib", "data__document_separator": ""}
    documents = zoo.data.encode_text_file(other, tokenizer, text_config(**changes))
    assert tokenizer.decode(documents.tokens, document="|") == "|first|second"
    other.write_text('{"content": "first"}\n')
    with pytest.raises(DataError, match=r'no column "text"(.|\n)*a file that ends in \.txt is read as it stands'):
        zoo.data.encode_text_file(other, tokenizer, text_config(**changes))


def test_a_table_is_not_scored_as_prose(text_config, tmp_path):
    """A run that read text files sees a table as it stands."""
    table = tmp_path / "other.csv"
    table.write_text("text,label\nfirst,1\n")
    config = text_config(training__eval_batches=1)
    tokenizer = zoo.data.load(config).tokenizer
    assert "first,1" in tokenizer.decode(zoo.data.encode_text_file(table, tokenizer, config).tokens)
    with pytest.raises(ConfigError, match=r'other\.csv": a table'):
        zoo.data.encode_text_file(table, tokenizer, text_config(data__source="stdlib", data__document_separator=""))


def test_vocabulary_of_bytes_and_bpe_needs_no_data(text_config, corpus):
    configs = {kind: text_config(**fields) for kind, fields in KINDS.items()}
    corpus.unlink()
    assert [zoo.data.vocabulary_size(configs[kind]) for kind in ("bytes", "bpe")] == [257, 280]
    with pytest.raises(ConfigError, match="no such file"):
        zoo.data.vocabulary_size(configs["characters"])


def test_import_loads_no_heavy_packages():
    program = "import sys, zoo.data; print([name for name in ('grain', 'tokenizers', 'jax') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_loading_bytes_does_not_import_jax(text_config):
    program = (
        "import sys, types, zoo.data; n = types.SimpleNamespace; zoo.data.load(n(seed=0, training=n(eval_batches=0), "
        "objective=n(kind='causal'), data=n("
        "source='stdlib', row_format='packed', bad_text='error', document_separator='', held_out='', split='documents', validation_fraction=0.1, training_fraction=1.0, mixture_exponent=1.0, "
        "sequence_length=8, tokenizer=n(kind='bytes', document_id='auto')))); print('jax' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def test_stdlib_by_default(make_config):
    dataset = zoo.data.load(make_config({}))
    summary = dataset.summary()
    assert "standard library" in dataset.description
    assert abs(summary["validation_bytes"] / (summary["train_bytes"] + summary["validation_bytes"]) - 0.1) < 0.01
    with dataset.training_batches() as batches:
        tokens = next(batches)["tokens"]
    assert tokens.min() >= 0
    assert tokens.max() <= 256


def test_tiny_shakespeare_has_nanogpts_counts(make_config, real_text):
    """nanoGPT's data/shakespeare_char: 65 characters, 1,003,854 train and 111,540 validation
    tokens.
    """
    path = real_text("tinyshakespeare.txt")
    dataset = zoo.data.load(make_config({"data.source": f"text:{path}", "data.tokenizer.kind": "characters"}))
    assert dataset.tokenizer.vocab_size == 65 + 1
    assert (dataset.train_tokens, dataset.validation_tokens) == (1_003_854 + 1, 111_540 + 1)
    assert dataset.tokenizer.decode(np.append(*streams(dataset))) == path.read_text(encoding="utf-8")
