"""Sources of text pairs: every kind gives the same pairs and reports a problem in one line."""

import gzip
import json
from collections import Counter

import pytest

from tests.support.small_library import small_standard_library
from zoo.data import load
from zoo.data.sources.builtin_tasks import classification, translation
from zoo.data.translation.text_pairs import TextPairs, read_pairs, read_split_pairs
from zoo.errors import ConfigError, DataError

PAIRS = [
    ("a house", "ein Haus"),
    ("two dogs run", "zwei Hunde rennen"),
    ('the "red" cat', "die Katze, rot"),
    ("où?", "wo?"),
]


@pytest.fixture
def read(make_config):
    """read({"data.source": ...}) -> TextPairs."""
    base = {"model.architecture": "encoder_decoder", "objective.kind": "translation"}
    return lambda changes: read_pairs(make_config(base | changes).data)


@pytest.fixture
def files(tmp_path):
    """The same pairs in a file of every kind: kind -> config changes."""
    import pyarrow
    import pyarrow.parquet

    records = [{"translation": {"en": source, "de": target}, "number": 1} for source, target in PAIRS]
    (tmp_path / "a.tsv").write_text("id\ten\tde\n" + "".join(f"1\t{source}\t{target}\n" for source, target in PAIRS))
    (tmp_path / "bare.tsv").write_text("".join(f"{target}\t{source}\n" for source, target in PAIRS))
    quoted = (",".join('"' + text.replace('"', '""') + '"' for text in pair) for pair in PAIRS)
    (tmp_path / "a.csv").write_text("en,de\n" + "\n".join(quoted) + "\n")
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / "a.parquet")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    with gzip.open(tmp_path / "p.en.gz", "wb") as one, gzip.open(tmp_path / "p.de.gz", "wb") as other:
        one.write("".join(f"{source}\r\n" for source, _ in PAIRS).encode())
        other.write("\n".join(target for _, target in PAIRS).encode())
    columns = {"data.source_column": "en", "data.target_column": "de"}
    inside = {"data.source_column": "translation.en", "data.target_column": "translation.de"}
    return {
        "tsv": {"data.source": f"tsv:{tmp_path}/a.tsv"} | columns,
        "tsv by number": {
            "data.source": f"tsv:{tmp_path}/bare.tsv",
            "data.header": False,
            "data.source_column": "1",
            "data.target_column": "0",
        },
        "csv": {"data.source": f"csv:{tmp_path}/a.csv"} | columns,
        "jsonl": {"data.source": f"jsonl:{tmp_path}/a.jsonl"} | inside,
        "parquet": {"data.source": f"parquet:{tmp_path}/a.parquet"} | inside,
        "hf": {"data.source": f"hf:{tmp_path}/folder", "data.hub.streaming": True} | inside,
        "parallel": {"data.source": f"parallel:{tmp_path}/p.{{en,de}}.gz"},
    }


@pytest.mark.parametrize("kind", ["tsv", "tsv by number", "csv", "jsonl", "parquet", "hf", "parallel"])
def test_every_kind_of_file_gives_the_same_pairs(read, files, kind):
    found = read(files[kind])
    assert list(zip(found.sources, found.targets, strict=True)) == PAIRS


@pytest.mark.parametrize("kind", ["tsv", "csv", "jsonl", "parquet", "hf"])
def test_a_missing_column_is_reported_with_the_existing_ones(read, files, kind):
    wrong = files[kind] | {"data.target_column": "fr"}
    with pytest.raises(ConfigError, match=r'no column "fr".*there are .*\bde\b') as caught:
        read(wrong)
    assert "data.target_column" in str(caught.value)


def test_pairs_without_a_side_are_left_out_and_counted_once(read, tmp_path):
    lines = [{"source": "a", "target": "b"}, {"source": "a"}, {"target": "b"}, {"source": 1, "target": None}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = read({"data.source": f"jsonl:{tmp_path}/p.jsonl", "data.bad_text": "skip"})
    assert (found.sources, found.targets) == (["a"], ["b"])
    assert found.left_out == {'without "target"': 1, 'without "source"': 1, 'no text at "source"': 1}


def test_tfds_has_the_columns_of_its_features(read, tmp_path):
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.core.registered.skip_registration():

        class TinyPairs(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.Translation(("en", "de")))

            def _split_generators(self, manager):
                return {"train": self._generate_examples()}

            def _generate_examples(self):
                yield from enumerate({"en": source, "de": target} for source, target in PAIRS)

    builder = TinyPairs(data_dir=str(tmp_path), file_format="array_record")
    builder.download_and_prepare()
    source = {"data.source": f"tfds:{builder.data_dir}", "data.source_column": "en"}
    found = read(source | {"data.target_column": "de"})
    assert sorted(zip(found.sources, found.targets, strict=True)) == sorted(PAIRS)
    with pytest.raises(ConfigError, match=r'no column "fr".*there are .*de'):
        read(source | {"data.target_column": "fr"})


def test_date_pairs_may_be_reversed(read):
    forth = read({"data.source": "stdlib:translation"})
    back = read({"data.source": "stdlib", "data.source_column": "target", "data.target_column": "source"})
    assert (forth.sources, forth.targets) == (back.targets, back.sources)
    assert len(forth) == 20000
    assert forth.targets[0][4] == "-"


def test_dates_have_their_own_held_out_part(make_config):
    base = {"model.architecture": "encoder_decoder", "objective.kind": "translation"}
    parts = read_split_pairs(make_config(base | {"data.source": "stdlib"}).data)
    made = translation()
    assert [part.sources for part in parts] == [
        [record["source"] for record in part] for part in (made.train, made.validation)
    ]


def test_classification_labels_become_target_texts(read, tmp_path):
    with small_standard_library(tmp_path):
        pairs, task = read({"data.source": "stdlib:classification"}), classification()
    records = [*task.train, *task.validation]
    assert pairs.targets == [record["label"] for record in records]
    assert all(" ".join(record["text"].split()).startswith(text) for record, text in zip(records, pairs.sources))
    assert max(text.count(" ") for text in pairs.sources) == 23


def test_files_of_different_lengths_are_refused(read, tmp_path):
    (tmp_path / "x.en").write_text("a\nb\nc\n")
    (tmp_path / "x.de").write_text("a\nb\n")
    with pytest.raises(DataError, match=r'x.en" has 3 lines and ".*x.de" 2'):
        read({"data.source": f"parallel:{tmp_path}/x.{{en,de}}"})
    with pytest.raises(ConfigError, match=r"x.en: nothing is left to translate"):
        read({"data.source": f"parallel:{tmp_path}/x.{{en,en}}"})
    (tmp_path / "x.de").write_bytes(b"a\rb\rc\r")
    (tmp_path / "x.en").write_text("a\n")
    with pytest.raises(DataError, match=r'x.de" has carriage returns and no line feeds'):
        read({"data.source": f"parallel:{tmp_path}/x.{{en,de}}"})


@pytest.mark.parametrize(("source", "problem"), [
    ("parallel:corpus.en", "braces"), ("parallel:no/such.{en,de}", 'no such file: "no/such.en"'),
    ("stdlib:docstrings", "stdlib:translation"),
    ("text:corpus.txt", "needs pairs of texts, and data.source is text:corpus.txt; one of .*parallel"), ("tsv:no/such.tsv", "no such file"),
])  # fmt: skip
def test_sources_without_pairs_are_refused(read, source, problem):
    with pytest.raises(ConfigError, match=problem):
        read({"data.source": source})


def test_bad_text_follows_the_policy_and_blank_sides_are_counted(read, tmp_path):
    (tmp_path / "x.en").write_bytes(b"one\nt\xffwo\nthree\nfour\n")
    (tmp_path / "x.de").write_bytes(b"eins\nzwei\n  \nvier\n")
    source = {"data.source": f"parallel:{tmp_path}/x.{{en,de}}"}
    with pytest.raises(DataError, match=r"line 2: not UTF-8: byte 0xff"):
        read(source)
    skipped, replaced = (read(source | {"data.bad_text": policy}) for policy in ("skip", "replace"))
    assert skipped.sources == ["one", "four"]
    assert replaced.sources == ["one", "t\ufffdwo", "four"]
    assert replaced.targets == ["eins", "zwei", "vier"]
    assert skipped.left_out == replaced.left_out == {"not UTF-8": 1, "with a blank side": 1}
    (tmp_path / "x.tsv").write_bytes(b"1\teins\n2\xff\tzwei\n3\tdrei\tvier\n4\tvier\n")
    table = {
        "data.source": f"tsv:{tmp_path}/x.tsv",
        "data.header": False,
        "data.source_column": "0",
        "data.target_column": "1",
    }
    with pytest.raises(DataError, match="line 2: not UTF-8: byte 0xff"):
        read(table)
    with pytest.raises(DataError, match="line 3: 3 fields, and the first line has 2"):
        read(table | {"data.bad_text": "replace"})
    assert read(table | {"data.bad_text": "skip"}).sources == ["1", "4"]


def test_a_source_text_is_in_one_part_only():
    pairs = TextPairs(
        [f"text {number % 300}" for number in range(600)], [f"t{number}" for number in range(600)], "made up"
    )
    train, validation = pairs.split(0.2)
    assert not set(train.sources) & set(validation.sources)
    assert sorted(train.targets + validation.targets) == sorted(pairs.targets)
    assert 0.1 < len(validation) / 600 < 0.3
    with pytest.raises(DataError, match="too few to hold out"):
        TextPairs(["a"], ["b"], "one").split(0.1)


def test_pairs_that_are_left_out_before_a_split_stay_counted():
    pairs = TextPairs([f"a {n}" for n in range(99)], ["b"] * 99, "pairs", Counter({"with a blank side": 2}))
    assert pairs.split(0.2)[0].left_out == {"with a blank side": 2}


def test_held_out_pairs_that_are_trained_on_are_counted(make_config, tmp_path):
    for name, numbers in (("train", range(8)), ("val", range(6, 10))):
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text("".join(f"{side} {number}\n" for number in numbers))
    changes = {"model.architecture": "encoder_decoder", "objective.kind": "translation", "data.batch_size": 2}
    changes |= {
        f"data.{field}": f"parallel:{tmp_path}/{name}.{{en,de}}"
        for field, name in (("source", "train"), ("held_out", "val"))
    }
    dataset = load(make_config(changes))
    assert dataset.summary()["warnings"] == [
        "2 of 4 held-out pairs are also training pairs, and are scored from memory"
    ]
    assert "bad_held_out_text" not in dataset.summary()
    (tmp_path / "val.de").write_text("de 6\n\nde 8\nde 9\n")
    dataset = load(make_config(changes))
    assert dataset.summary()["bad_held_out_text"] == {"with a blank side": 1}
    assert dataset.description.endswith("(bad held-out text: 1 with a blank side)")


def test_held_out_pairs_may_have_their_own_source(make_config, tmp_path):
    for name in ("train", "val"):
        for side in ("en", "de"):
            (tmp_path / f"{name}.{side}").write_text(f"{name} {side} 1\n{name} {side} 2\n")
    base = {"model.architecture": "encoder_decoder", "objective.kind": "translation"}
    both = base | {
        "data.source": f"parallel:{tmp_path}/train.{{en,de}}",
        "data.held_out": f"parallel:{tmp_path}/val.{{en,de}}",
    }
    train, validation = read_split_pairs(make_config(both).data)
    assert (len(train), validation.sources[0], validation.targets[1]) == (2, "val en 1", "val de 2")
    with pytest.raises(ConfigError, match=r"^data.held_out: no such file"):
        read_split_pairs(make_config(both | {"data.held_out": "parallel:no/x.{en,de}"}).data)
    (tmp_path / "folder").mkdir()
    for name in ("train", "test"):
        (tmp_path / "folder" / f"{name}.jsonl").write_text(
            json.dumps({"source": f"{name} in", "target": f"{name} out"})
        )
    split = base | {"data.source": f"hf:{tmp_path}/folder", "data.held_out": "split:test", "data.hub.streaming": True}
    assert [part.sources for part in read_split_pairs(make_config(split).data)] == [["train in"], ["test in"]]


@pytest.mark.parametrize(("changes", "problem"), [
    ({"data.column": "x", "data.source": "jsonl:x"}, "data.column has no effect"),
    ({"data.document_separator": "x"}, "data.document_separator has no effect"),
    ({"training.eval_lengths": (8,)}, "training.eval_lengths has no effect"),
    ({"data.isolate_documents": True}, "data.isolate_documents has no effect"),
    ({"data.source": "parallel:x.{a,b}", "data.source_column": "a"}, "data.source_column has no effect"),
    ({"data.source_column": "target"}, "are both 'target'"),
    ({"data.source": "parallel:x.{a,b}", "data.held_out": "split:test"}, "must be of the same kind as data.source=parallel"),
    ({"data.source": "tsv:x", "data.held_out": "tsv:y", "data.validation_fraction": 0.3}, "data.validation_fraction=0.3 has no effect"),
    ({"data.held_out": "stdlib"}, "has its own held-out part"), ({"data.label_column": "x", "data.source": "tsv:x"}, "without labels"),
    ({"training.translate_every": 300}, "must be a multiple of training.eval_every=125"),
    ({"training.translate_every": 250, "training.eval_every": 0}, "must be a multiple"),
])  # fmt: skip
def test_fields_that_do_not_apply_to_pairs_are_refused(make_config, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        make_config(
            {"model.architecture": "encoder_decoder", "objective.kind": "translation", "data.source": "stdlib"}
            | changes
        )
