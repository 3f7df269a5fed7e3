"""Examples from files: their columns and labels, training and held-out parts, refused files, and the
rows that examples become.
"""

import json

import numpy as np
import pytest

from tests.support.sample_data import questions, tagged
from zoo import config as configs
from zoo import data
from zoo.data.labelled.example_rows import longest_first_lengths
from zoo.data.labelled.examples import read_examples
from zoo.data.sources.tables import label_text
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError

SENTENCES = [(f"the sheep number {i} is {'good' if i % 3 else 'bad'}", str(int(i % 3 > 0))) for i in range(40)]


def config(source, kind="classification", **fields):
    given = {
        "model.architecture": "encoder",
        "model.dim": 16,
        "model.num_layers": 1,
        "objective.kind": kind,
        "data.source": source,
        "data.sequence_length": 32,
        "data.batch_size": 4,
    } | {name.replace("__", "."): value for name, value in fields.items()}
    return data.with_num_classes(configs.resolve(configs.override(configs.default(), given)))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in SENTENCES))
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f'"{text}, ""so""\nit is",{label}\n' for text, label in SENTENCES)
    )
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({"text": text, "label": int(label)}) for text, label in SENTENCES)
    )
    return tmp_path


HEADLESS = {"data__header": False, "data__column": "0", "data__label_column": "1"}


@pytest.mark.parametrize(
    ("name", "fields", "first"),
    [
        ("tsv", HEADLESS, SENTENCES[0][0]),
        ("csv", {}, SENTENCES[0][0] + ', "so"\nit is'),
        ("jsonl", {}, SENTENCES[0][0]),
    ],
)
def test_files_are_read_and_split(files, name, fields, first):
    resolved = config(f"{name}:{files / 'a'}.{name}", **fields)
    assert resolved.model.head.classes == 2
    examples = read_examples(resolved)
    both = sorted([*examples.train, *examples.held_out], key=lambda example: int(example.text.split()[3]))
    assert both[0].text == first
    assert [example.label for example in both] == [label for _, label in SENTENCES]
    assert 0 < len(examples.held_out) < 12
    assert data.load(resolved).labels == ("0", "1")


def test_columns_may_be_nested(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        "\n".join(json.dumps({"in": {"text": text, "more": {"label": label}}}) for text, label in SENTENCES)
    )
    inside = {"data__column": "in.text", "data__label_column": "in.more.label"}
    examples = read_examples(config(f"jsonl:{tmp_path / 'a.jsonl'}", **inside))
    assert {(example.text, example.label) for part in (examples.train, examples.held_out) for example in part} == set(
        SENTENCES
    )
    with pytest.raises(
        ConfigError, match=r'no column "in.txt" .*"in.text"\?\); there are in, in.text, in.more, in.more.label'
    ):
        read_examples(config(f"jsonl:{tmp_path / 'a.jsonl'}", **inside | {"data__column": "in.txt"}))


def test_damaged_parquet_files_are_reported_in_one_line(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    # Arrow does not check that text is UTF-8.
    texts = pyarrow.array([b"good", b"b\xffd"], pyarrow.binary()).view(pyarrow.string())
    pyarrow.parquet.write_table(pyarrow.table({"text": texts, "label": ["a", "b"]}), path)
    with pytest.raises(DataError, match=r'a.parquet": a text in it is not UTF-8: .*0xff'):
        read_examples(config(f"parquet:{path}", model__head__classes=2))
    good = pyarrow.table({"text": ["a", "b", "c", "d"], "label": ["a", "b", "a", "b"]})
    with pyarrow.parquet.ParquetWriter(path, good.schema) as file:
        file.write(good)
        file.write(pyarrow.table({"text": texts, "label": ["a", "b"]}))
    examples = read_examples(config(f"parquet:{path}", model__head__classes=2, data__bad_text="skip"))
    assert (len(examples.train) + len(examples.held_out), dict(examples.left_out)) == (5, {"not UTF-8": 1})
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r'a.parquet": not a complete Parquet file'):
        read_examples(config(f"parquet:{path}", model__head__classes=2))


def test_class_names_come_from_hugging_face_but_not_from_parquet(tmp_path):
    import datasets

    text, names = datasets.Value("string"), datasets.ClassLabel(names=["no", "a"])
    columns = (
        [text for text, _ in SENTENCES],
        [text[::-1] for text, _ in SENTENCES],
        [int(label) for _, label in SENTENCES],
    )
    features = datasets.Features({"a": text, "b": text, "label": names})
    rows = dict(zip(("a", "b", "label"), columns, strict=True))
    table = datasets.Dataset.from_dict(rows, features=features)
    datasets.DatasetDict({"train": table, "dev": table.select(range(5))}).save_to_disk(str(tmp_path / "saved"))
    table.to_parquet(str(tmp_path / "a.parquet"))
    columns = {"data__column": "a", "data__second_column": "b"}
    dataset = data.load(config(f"hf:{tmp_path / 'saved'}", data__held_out="split:dev", **columns))
    # In the order of the data set, not sorted.
    assert dataset.labels == ("no", "a")
    assert [example.label for example in dataset.examples.held_out] == ["no", "a", "a", "no", "a"]
    assert dataset.examples.held_out[1].second == SENTENCES[1][0][::-1]
    assert data.load(config(f"parquet:{tmp_path / 'a.parquet'}", **columns)).labels == ("0", "1")


@pytest.mark.parametrize(
    ("content", "fields", "error", "message"),
    [
        (
            "text,label\na b,0\n",
            {"data__label_column": "lable"},
            ConfigError,
            r'no column "lable" \(did you mean "label"\?\); there are text, label',
        ),
        ("text,label\na b,0\nc d,0\n", {}, DataError, r'have the label "0": there is nothing to tell apart'),
        ("text,label\na b,0\nc d\n", {}, DataError, r"line 3: 1 fields, and the first line has 2"),
        ("text,label\na b,0\nc d,\n", {}, DataError, r'line 3: no label at "label"'),
        ("text,label\na b,0\n ,1\n", {}, DataError, r'line 3: the text at "text" is empty'),
        ('text,label\n"a b,0\n', {}, DataError, r"line 2: the quote that opens here is not closed"),
        ('text,label\n"a\nb",0\n"c ""d\ne,1\nf,0\n', {}, DataError, r"line 4: the quote that opens here is not closed"),
        ('text,label\na b,0\n"c d,1\ne "f" g,0\n', {}, DataError, r"line 3: .* in line 4; the quote opens here"),
        ("text,label\nab,0\n" + "c" * 200_000 + ",\n", {}, DataError, r'line 3: no label at "label"'),
        ("text,text\na b,0\n", {}, ConfigError, r"set data.header=false"),
        (
            "text,label\ra b,0\rc d,1\r",
            {},
            DataError,
            "line 1: a carriage return outside quotes; lines end at LF or CRLF",
        ),
        ("text,label\na b,0\nc d,1\n", {}, DataError, r'1 held-out example has the label "2".* are 0, 1'),
        (
            "text,label\na b,0\nc d,1\n",
            {"data__labels": ("0", "3")},
            DataError,
            r'1 training example has the label "1".* are 0, 3',
        ),
        (
            "text,label\na b,0\nc d,1\n",
            {"data__held_out": "", "data__validation_fraction": 1e-9},
            DataError,
            r"there are no held-out examples",
        ),
        (
            "text,label\na b,0\nc d,x\n",
            {"objective__kind": "regression"},
            DataError,
            r"line 3: what is at \"label\" is 'x', not a number",
        ),
    ],
)
def test_bad_examples_are_reported_in_one_line(tmp_path, content, fields, error, message):
    (tmp_path / "a.csv").write_text(content)
    (tmp_path / "other.csv").write_text("text,label\na b,2\n")
    fields = {"data__held_out": "csv:{folder}/other.csv"} | fields
    fields = {
        name: value.format(folder=tmp_path) if isinstance(value, str) else value for name, value in fields.items()
    }
    with pytest.raises(error, match=message):
        data.load(config(f"csv:{tmp_path / 'a.csv'}", **fields))


def test_held_out_examples_that_are_trained_on_are_counted(tmp_path):
    for name, count in (("a", 20), ("b", 3)):
        rows = (f"text {number},{['even', 'odd'][number % 2]}\n" for number in range(count))
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(rows) + f"only in {name},odd\n")
    summary = data.load(config(f"csv:{tmp_path}/a.csv", data__held_out=f"csv:{tmp_path}/b.csv")).summary()
    assert summary["warnings"] == ["3 of 4 held-out examples are also training examples, and are scored from memory"]
    assert "warnings" not in data.load(config(f"csv:{tmp_path}/a.csv", data__validation_fraction=0.5)).summary()


def test_bad_records_can_be_left_out_and_are_counted(tmp_path):
    lines = [f"{text}\t{label}" for text, label in SENTENCES]
    (tmp_path / "a.tsv").write_text("\n".join([*lines, "only one field", "no label\t "]))
    dataset = data.load(config(f"tsv:{tmp_path / 'a.tsv'}", data__bad_text="skip", **HEADLESS))
    assert dataset.summary()["left_out"] == {"other number of fields": 1, "without a label": 1}
    assert dataset.summary()["train_examples"] + dataset.summary()["validation_examples"] == 40


GOOD = {
    "classification": {"text": "a sheep", "label": "good"},
    "regression": {"text": "a sheep", "label": 0.5},
    "tagging": {"text": ["a", "sheep"], "label": ["O", "N"]},
    "extraction": {
        "text": "a sheep is good",
        "second": "what is good?",
        "label": {"text": ["sheep"], "answer_start": [2]},
    },
}
NO_ANSWER = "no answers"
BAD = {
    "classification": [
        ({"text": "x"}, 'without "label"'),
        ({"label": "good"}, 'without "text"'),
        ({"text": "x", "label": None}, "without a label"),
        ({"text": "x", "label": ["good"]}, "without a label"),
        ({"text": "x", "label": float("nan")}, "without a label"),
        ({"text": 7, "label": None}, 'no text at "text"'),
    ],
    "regression": [
        ({"text": "x"}, 'without "label"'),
        ({"text": "x", "label": "much"}, "without a number"),
        ({"text": "x", "label": 10**400}, "without a number"),
        ({"text": "x", "label": [1]}, "without a number"),
    ],
    "tagging": [
        ({"text": ["x"]}, 'without "label"'),
        ({"text": "x", "label": ["O"]}, "no lists"),
        ({"text": {"x": 1}, "label": ["O"]}, "no lists"),
        ({"text": ["x", None], "label": ["O", "N"]}, 'no text at "text"'),
        ({"text": ["x", "y"], "label": [None, None]}, "without a label"),
    ],
    "extraction": [
        ({"text": "x", "second": "y?"}, 'without "label"'),
        ({"text": "x", "second": "y?", "label": {"text": "x", "answer_start": [0]}}, NO_ANSWER),
        ({"text": "x", "second": "y?", "label": {"text": ["x"], "answer_start": None}}, NO_ANSWER),
        ({"text": "x", "second": "y?", "label": {"text": ["x"], "answer_start": []}}, "not as many starts as answers"),
        ({"text": "x", "second": "y?", "label": {"text": [None], "answer_start": [0]}}, 'no text at "label"'),
        (
            {"text": "x", "second": "y?", "label": {"text": ["x"], "answer_start": ["0a"]}},
            "an answer without its start",
        ),
        ({"text": "x", "second": "y?", "label": {"text": ["x"], "answer_start": [-1]}}, "answer not in its place"),
        ({"text": 1, "second": None, "label": 1}, 'no text at "text"'),
    ],
}


@pytest.mark.parametrize(("kind", "record", "reason"), [(kind, *bad) for kind, cases in BAD.items() for bad in cases])
def test_unreadable_records_are_left_out_and_counted_once(tmp_path, kind, record, reason):
    (tmp_path / "good.jsonl").write_text(json.dumps(GOOD[kind]) + "\n")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (record, GOOD[kind], record)))
    fields = {"model__head__classes": 3} if kind == "classification" else {}
    fields |= {"data__second_column": "second"} if kind == "extraction" else {}
    fields |= {"data__held_out": f"jsonl:{tmp_path / 'good.jsonl'}"}
    source = f"jsonl:{tmp_path / 'a.jsonl'}"
    resolved = configs.resolve(
        configs.override(
            configs.default(),
            {"model.architecture": "encoder", "objective.kind": kind, "data.source": source, "data.bad_text": "skip"}
            | {name.replace("__", "."): value for name, value in fields.items()},
        )
    )
    examples = read_examples(resolved)
    assert (len(examples.train), dict(examples.left_out)) == (1, {reason: 2})
    with pytest.raises((ConfigError, DataError), match="line 1: "):
        read_examples(configs.resolve(configs.override(resolved, {"data.bad_text": "error"})))


def test_description_counts_the_records_left_out(tmp_path):
    lines = [json.dumps({"text": text, "label": label}) for text, label in SENTENCES]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"text": "x"}', '{"label": "1"}', "{"]))
    dataset = data.load(config(f"jsonl:{tmp_path / 'a.jsonl'}", data__bad_text="skip"))
    assert dataset.description.endswith(' (bad text: 1 not JSON, 1 without "label", 1 without "text")')


def test_a_column_missing_from_all_records_is_a_config_error(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "x", "label": "1"}\n' * 3)
    fields = {"data__bad_text": "skip", "data__label_column": "lable", "model__head__classes": 2}
    with pytest.raises(
        ConfigError, match=r'line 1: no column "lable" \(did you mean "label"\?\); there are text, label'
    ):
        read_examples(config(f"jsonl:{tmp_path / 'a.jsonl'}", **fields))


def test_records_after_a_wrong_quote_are_read(tmp_path):
    good = "".join(f"{text},{label}\n" for text, label in SENTENCES)
    (tmp_path / "a.csv").write_text(f'text,label\n{good}"open,1\nlast,0\n"two\nlines",1\n"x"y,0\nend,0\n"open\nnext,1')
    dataset = data.load(config(f"csv:{tmp_path / 'a.csv'}", data__bad_text="skip"))
    found = [example.text for part in (dataset.examples.train, dataset.examples.held_out) for example in part]
    assert sorted(found) == sorted([text for text, _ in SENTENCES] + ["last", "two\nlines", "end", "next"])
    assert dataset.summary()["left_out"] == {"wrong quotes": 3}


def test_a_long_field_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f'"{"x" * 300_000}{i}",{i % 2}\n' for i in range(9)))
    examples = read_examples(config(f"csv:{tmp_path / 'a.csv'}"))
    assert len(examples.train) + len(examples.held_out) == 9


def test_malformed_questions_are_left_out_one_by_one(tmp_path):
    good = {"id": "q", "question": "y?", "answers": [{"text": "x", "answer_start": 0}]}
    paragraphs = [
        {"context": "x", "qas": [good, {"id": "r", "question": "y?"}, 7, {**good, "answers": ["x"]}]},
        {"context": "x"},
        {"qas": [good]},
        {"context": "x", "qas": [{**good, "answers": [{"text": "x"}]}]},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}, {}, 3]}))
    fields = {"data__held_out": f"squad:{tmp_path / 'a.json'}", "data__bad_text": "skip"}
    examples = read_examples(config(f"squad:{tmp_path / 'a.json'}", "extraction", **fields))
    assert len(examples.train) == len(examples.held_out) == 1
    assert {reason: count // 2 for reason, count in examples.left_out.items()} == {
        "no answers": 3,
        'no list at "qas"': 1,
        'no list at "paragraphs"': 2,
        'no text at "context"': 1,
        "an answer without its start": 1,
    }


def test_pairs_of_texts_become_rows_of_limited_length(tmp_path):
    (tmp_path / "a.csv").write_text(
        "text,second,label\n" + "abc,de,x\nfg,h,y\n" + "a" * 20 + "," + "b" * 9 + ",y\n" + "c,d,x\n"
    )
    resolved = config(
        f"csv:{tmp_path / 'a.csv'}",
        data__held_out=f"csv:{tmp_path / 'a.csv'}",
        data__second_column="second",
        data__sequence_length=16,
        data__tokenizer__kind="bytes",
    )
    dataset = data.load(resolved)
    encoded = dataset.encoded("train")
    opening = 256  # The byte tokenizer has no separator, so the id that opens documents separates texts.
    assert encoded.arrays["tokens"][0].tolist() == [opening, *b"abc", opening, *b"de", opening] + [-1] * 8
    assert encoded.arrays["segments"][0].tolist() == [0] * 5 + [1] * 3 + [0] * 8
    assert encoded.arrays["tokens"][2].tolist() == [opening, *b"aaaaaaa", opening, *b"bbbbbb", opening]
    assert encoded.cut == {"rows cut to the sequence length": 1}
    assert encoded.arrays["labels"].tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("sizes", [(3, 2, 9), (8, 1, 5), (1, 8, 5), (6, 6, 7), (6, 6, 8), (9, 3, 7)])
def test_the_longer_text_is_cut_token_by_token(sizes):
    first, second, room = sizes
    while first + second > room:
        first, second = (first - 1, second) if first > second else (first, second - 1)
    assert longest_first_lengths(*sizes) == (first, second)


def test_every_example_appears_once_in_evaluation_and_in_each_epoch(files):
    dataset = data.load(config(f"tsv:{files / 'a.tsv'}", data__batch_size=7, **HEADLESS))
    batches = list(dataset.evaluation_batches(multiple_of=4))
    rows = np.concatenate([batch["tokens"] for batch in batches])
    assert {len(batch["labels"]) for batch in batches} == {8}
    real = rows[:, 0] >= 0
    assert (rows[real] == dataset.encoded("validation").arrays["tokens"][dataset.batches("validation").order]).all()
    with dataset.training_batches() as endless:
        rows_seen = np.concatenate([next(endless)["tokens"] for _ in range(3 * -(-len(dataset.examples.train) // 7))])
    _, counts = np.unique(rows_seen[rows_seen[:, 0] >= 0], axis=0, return_counts=True)
    assert counts.tolist() == [3] * len(dataset.examples.train)
    with pytest.raises(ConfigError, match="all of its examples"):
        dataset.evaluation_batches(limit_batches=2)
    with pytest.raises(ValueError, match="were to be scored"):
        dataset.measure({"scores": np.zeros((len(dataset.examples.held_out) + 1, 2))})


def test_numeric_labels_are_in_numeric_order(tmp_path):
    (tmp_path / "a.tsv").write_text("".join(f"text {i}\t{i % 11}\n" for i in range(60)))
    assert data.load(config(f"tsv:{tmp_path / 'a.tsv'}", **HEADLESS)).labels == tuple(map(str, range(11)))


# The first n labelled examples


def training_examples(source, count, **fields):
    """Returns `count` training examples and the whole data set."""
    dataset = data.load(config(source, data__examples=count, **fields))
    return dataset.part("train"), dataset


def test_larger_training_subsets_contain_smaller_ones(files):
    source = f"csv:{files / 'a.csv'}"
    every, whole = training_examples(source, 0)
    before, unchanged = set(), (whole.part("validation"), whole.labels, whole.tokenizer.fingerprint)
    for count in (1, 4, 16, len(every)):
        part, dataset = training_examples(source, count)
        assert (
            len(part) == dataset.summary()["train_examples"] == len(dataset.encoded("train").arrays["tokens"]) == count
        )
        assert before < set(part) <= set(every)
        assert list(part) == [example for example in every if example in set(part)]
        # Labels are kept even if no chosen example has them.
        assert (dataset.part("validation"), dataset.labels, dataset.tokenizer.fingerprint) == unchanged
        before = set(part)
    assert training_examples(source, 4, seed=5)[0] == training_examples(source, 4)[0]


def test_training_subsets_depend_on_content_alone(files):
    rows = [json.dumps({"text": text, "label": label}) for text, label in SENTENCES]
    for name, order in (("one", rows), ("other", rows[::-1])):
        (files / f"{name}.jsonl").write_text("\n".join(order))
    one, other = (training_examples(f"jsonl:{files / name}.jsonl", 7)[0] for name in ("one", "other"))
    assert set(one) == set(other)
    assert one != other
    # The file may be sorted by label, so the subset is not its beginning.
    assert set(one) != set(training_examples(f"jsonl:{files / 'one'}.jsonl", 0)[0][:7])


def test_training_subsets_keep_the_vocabulary_of_all_examples(files):
    sizes = {
        training_examples(f"jsonl:{files / 'a.jsonl'}", count, data__tokenizer__kind="characters")[
            1
        ].tokenizer.vocab_size
        for count in (0, 1)
    }
    assert len(sizes) == 1


@pytest.mark.parametrize(("kind", "source"), [("tagging", tagged), ("extraction", questions)])
def test_tagging_and_extraction_limit_examples_too(kind, source):
    dataset = data.load(config(source(), kind, data__examples=5))
    assert len(dataset.part("train")) == 5
    batches = dataset.training_batches()
    with batches:
        assert next(batches)["tokens"].shape == (4, 32)


def test_more_examples_than_exist_are_refused(files):
    with pytest.raises(
        ConfigError, match=r"data\.examples=4000: csv:.* has 3\d training examples; 0 takes all of them"
    ):
        training_examples(f"csv:{files / 'a.csv'}", 4000)


def test_training_fraction_is_only_for_text_and_examples_only_for_tasks(files):
    with pytest.raises(ConfigError, match=r"data\.training_fraction=0\.5 has no effect"):
        config(f"csv:{files / 'a.csv'}", data__training_fraction=0.5)
    text = {"objective.kind": "causal", "data.examples": 5}
    with pytest.raises(ConfigError, match=r"data\.examples=5 has no effect"):
        configs.resolve(configs.override(configs.default(), text))


def test_whole_numbers_of_a_column_with_gaps_are_those_of_one_without():
    """A table writes integers as floats where a value of the column is missing."""
    policy = BadTextPolicy("error")
    assert [label_text(value, (), "label", "", policy) for value in (1, 1.0, 0.5, True)] == ["1", "1", "0.5", "true"]
