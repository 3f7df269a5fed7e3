"""Sources whose documents are one column of records in files: lines of JSON and Parquet."""

import gzip
import json
import sys
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zoo import config as configs
from zoo.data.sources import file_content
from zoo.data.sources.columns import near_column
from zoo.data.sources.file_content import BLOCK_BYTES
from zoo.data.sources.source import read_documents
from zoo.data.sources.tables import TABLES
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError

RECORDS = [
    {"text": "first é", "n": 1},
    {"n": 2, "text": "second\nline"},
    {"text": " \n", "n": 3},
    {"text": "third", "n": 4},
]
TEXTS = ["first é", "second\nline", "third"]


def open_documents(source, **data):
    changes = {f"data.{name}": value for name, value in data.items()}
    return read_documents(configs.override(configs.default(), {"data.source": source, **changes}).data)


def texts(documents):
    assert all(piece.opens for piece in documents.pieces())
    return [piece.text for piece in documents.pieces()]


def write_lines(path, lines):
    content = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines) + b"\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture
def sources(tmp_path):
    write_lines(tmp_path / "a.jsonl", RECORDS)
    write_lines(tmp_path / "b.jsonl.gz", RECORDS)
    pq.write_table(pa.Table.from_pylist(RECORDS), tmp_path / "c.parquet", row_group_size=2)
    return [f"jsonl:{tmp_path}/a.jsonl", f"jsonl:{tmp_path}/b.jsonl.gz", f"parquet:{tmp_path}/c.parquet"]


def test_every_kind_reads_the_same_texts_at_every_pass(sources):
    found = [open_documents(source) for source in sources]
    for documents in found:
        assert texts(documents) == TEXTS == texts(documents)
    assert len({documents.fingerprint for documents in found}) == 1
    assert "3 documents" in found[0].description


def test_the_text_may_be_in_another_column(tmp_path):
    records = [{"text": "not this", "body": "but this"}]
    write_lines(tmp_path / "a.jsonl", records)
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    for source in (f"jsonl:{tmp_path}/a.jsonl", f"parquet:{tmp_path}/a.parquet"):
        documents = open_documents(source, column="body")
        assert texts(documents) == ["but this"]
        assert "body" in documents.description


def test_only_files_of_the_kind_are_read_from_a_folder(tmp_path):
    for name in ("b.jsonl", "a.json.gz", "c.txt", "README.md"):
        write_lines(tmp_path / name, [{"text": name}])
    pq.write_table(pa.table({"text": ["d"]}), tmp_path / "d.parquet")
    assert texts(open_documents(f"jsonl:{tmp_path}")) == ["a.json.gz", "b.jsonl"]
    assert texts(open_documents(f"parquet:{tmp_path}")) == ["d"]
    assert texts(open_documents(f"jsonl:{tmp_path}/*.txt")) == ["c.txt"]
    (tmp_path / "none").mkdir()
    for kind, ending in (("jsonl", "jsonl"), ("parquet", "parquet")):
        with pytest.raises(ConfigError, match=rf"data.source: no files that end in \.{ending}.* in the folder"):
            open_documents(f"{kind}:{tmp_path}/none")
        with pytest.raises(ConfigError, match=f'"{kind}" needs a file'):
            open_documents(f"{kind}:")


def test_a_line_longer_than_a_block_and_lines_across_blocks(tmp_path):
    long = [
        {"text": "x" * (BLOCK_BYTES + 17)},
        *({"text": f"{i} " * 3000} for i in range(1500)),
        {"text": "y" * (2 * BLOCK_BYTES)},
    ]
    found = texts(open_documents(f"jsonl:{write_lines(tmp_path / 'a.jsonl', long)}"))
    assert found == [record["text"] for record in long]


BAD = {
    "not JSON": (b'{"text": "x"', r"line 2: not JSON: Expecting"),
    "deep JSON": (b"[" * 100_000, r"line 2: not JSON: maximum recursion"),
    "long number": (b'{"text": ' + b"1" * 5000 + b"}", r"line 2: not JSON: Exceeds the limit"),
    "not an object": (["x"], r"line 2: a list instead of an object"),
    "a missing column": (
        {"txt": "x"},
        r'line 2: data.column: no column "text" \(did you mean "txt"\?\); there are txt',
    ),
    "no column at all": ({}, r'line 2: data.column: no column "text"; there are none at all'),
    "a number": ({"text": 3}, r'line 2: what is at "text" is a number, not text'),
    "null": ({"text": None}, r'line 2: what is at "text" is null, not text'),
}
REPLACEABLE = {
    "not UTF-8": (b'{"text": "x\xe9y"}', r"line 2: not UTF-8: byte 0xe9 at byte offset 30", "x\ufffdy"),
    "NUL": ({"text": "x\0y"}, "line 2: a NUL character", "x\ufffdy"),
    "a surrogate": (b'{"text": "x\\ud83dy"}', r"line 2: not UTF-8: lone surrogate U\+D83D", "x\ufffdy"),
}


@pytest.mark.parametrize("content", BAD)
def test_records_without_text_are_refused_or_skipped(tmp_path, content):
    line, problem = BAD[content]
    source = f"jsonl:{write_lines(tmp_path / 'a.jsonl', [{'text': 'before'}, line, {'text': 'after'}])}"
    for policy in ("error", "replace"):
        with pytest.raises(
            DataError, match=problem + ".*; fix it, or skip such records with data.bad_text=skip"
        ) as error:
            open_documents(source, bad_text=policy).index  # noqa: B018
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 500
    documents = open_documents(source, bad_text="skip")
    assert texts(documents) == ["before", "after"]
    assert "(bad text: 1 " in documents.description


@pytest.mark.parametrize("content", REPLACEABLE)
def test_bad_text_is_refused_replaced_or_skipped(tmp_path, content):
    line, problem, replacement = REPLACEABLE[content]
    source = f"jsonl:{write_lines(tmp_path / 'a.jsonl', [{'text': 'before'}, line, {'text': 'after'}])}"
    with pytest.raises(DataError, match=problem):
        open_documents(source).index  # noqa: B018
    replaced = open_documents(source, bad_text="replace")
    assert texts(replaced) == ["before", replacement, "after"]
    skipped = open_documents(source, bad_text="skip")
    assert texts(skipped) == ["before", "after"]
    assert all("(bad text: 1 " in documents.description for documents in (replaced, skipped))


def test_bad_parquet_rows_are_refused_or_skipped(tmp_path):
    content = pa.array([b"before", b"x\xe9y", None, b"z\0", b"after"], pa.binary())
    # Parquet files in the wild claim UTF-8 and hold something else.
    mislabelled = pa.StringArray.from_buffers(len(content), *content.buffers()[1:], content.buffers()[0])
    pq.write_table(pa.table({"text": mislabelled}), tmp_path / "mislabelled.parquet")
    pq.write_table(pa.table({"text": content}), tmp_path / "binary.parquet")
    for name in ("mislabelled", "binary"):
        source = f"parquet:{tmp_path}/{name}.parquet"
        with pytest.raises(DataError, match=r'parquet": row 2: not UTF-8: byte 0xe9 at byte offset 1'):
            open_documents(source).index  # noqa: B018
        with pytest.raises(DataError, match=r'row 3: what is at "text" is null'):
            open_documents(source, bad_text="replace").index  # noqa: B018
        documents = open_documents(source, bad_text="skip")
        assert texts(documents) == ["before", "after"]
        assert '(bad text: 1 no text at "text", 1 not UTF-8, 1 with NUL)' in documents.description


def test_columns_of_parquet(tmp_path):
    table = pa.table({"body": ["a", "b"], "n": [1, 2], "kind": pa.array(["x", "y"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    source = f"parquet:{tmp_path}/a.parquet"
    assert texts(open_documents(source, column="kind")) == ["x", "y"]
    problem = r'data.column: ".*a.parquet": no column "bdy" \(did you mean "body"\?\); there are body, n, kind'
    with pytest.raises(ConfigError, match=problem):
        open_documents(source, column="bdy").index  # noqa: B018
    with pytest.raises(ConfigError, match=r'data.column: .*"n" holds int64, not text; columns of text: body, kind'):
        open_documents(source, column="n").index  # noqa: B018


def test_two_columns_of_one_name_are_refused(tmp_path):
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=r'data\.column: .*a\.parquet": 2 columns have the name "text"'):
        open_documents(f"parquet:{tmp_path}/a.parquet").index  # noqa: B018


def test_truncated_files_are_reported(tmp_path, sources):
    for name in ("b.jsonl.gz", "c.parquet"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r'b.jsonl.gz": not a complete gzip file'):
        open_documents(sources[1]).index  # noqa: B018
    with pytest.raises(DataError, match=r'c.parquet": not a complete Parquet file') as error:
        open_documents(sources[2]).index  # noqa: B018
    assert "\n" not in str(error.value)


def test_files_without_records_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n\n")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "a.parquet")
    for source in (f"jsonl:{tmp_path}/a.jsonl", f"parquet:{tmp_path}/a.parquet"):
        with pytest.raises(DataError, match="the text is empty"):
            open_documents(source).index  # noqa: B018


def test_a_missing_package_is_reported_in_one_line(tmp_path, sources, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r'data.source: "parquet" needs the package pyarrow: pip install pyarrow'):
        open_documents(sources[2])


NESTED = [
    {"id": 1, "meta": {"text": "first", "note": {"body": "x"}}},
    {"id": 2, "meta": {"text": "second", "note": {"body": "y"}}},
]


@pytest.fixture
def nested(tmp_path):
    write_lines(tmp_path / "a.jsonl", NESTED)
    (tmp_path / "a.json").write_text(json.dumps(NESTED))
    pq.write_table(pa.Table.from_pylist(NESTED), tmp_path / "a.parquet")
    (tmp_path / "hub").mkdir()
    write_lines(tmp_path / "hub" / "train.jsonl", NESTED)
    return [
        f"{kind}:{tmp_path}/{name}"
        for kind, name in (("jsonl", "a.jsonl"), ("jsonl", "a.json"), ("parquet", "a.parquet"), ("hf", "hub"))
    ]


def test_a_column_may_lie_within_another_for_every_kind(nested):
    for source in nested:
        assert texts(open_documents(source, column="meta.text")) == ["first", "second"]
        assert texts(open_documents(source, column="meta.note.body")) == ["x", "y"]


def test_a_name_with_a_dot_may_be_that_of_a_column_itself(tmp_path):
    records = [{"meta.text": "dotted", "meta": {"text": "nested"}}]
    assert texts(open_documents(f"jsonl:{write_lines(tmp_path / 'a.jsonl', records)}", column="meta.text")) == [
        "dotted"
    ]


def test_a_missing_parent_leaves_no_text(tmp_path):
    rows = [{"meta": {"text": "first"}}, {"meta": None}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    write_lines(tmp_path / "a.jsonl", rows)
    for source, problem in (
        (f"parquet:{tmp_path}/a.parquet", "is null, not text"),
        (f"jsonl:{tmp_path}/a.jsonl", 'what is at "meta" is null, not an object with "text"'),
    ):
        with pytest.raises(DataError, match=problem):
            open_documents(source, column="meta.text").index  # noqa: B018
        assert texts(open_documents(source, column="meta.text", bad_text="skip")) == ["first"]


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("meta", "an object|struct<.*>"),
        ("id", "a number|int64"),
        ("tokens", "a list|list<.*>"),
        ("meta.id", "a number|int64"),
    ],
)
def test_a_column_that_holds_no_text_is_named_so(tmp_path, column, problem):
    rows = [{"id": 1, "tokens": [1, 2], "meta": {"id": 3, "text": "x"}}]
    write_lines(tmp_path / "a.jsonl", rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for source in (f"jsonl:{tmp_path}/a.jsonl", f"parquet:{tmp_path}/a.parquet"):
        with pytest.raises((ConfigError, DataError), match=f'"{column}" (is|holds) ({problem}), not text'):
            open_documents(source, column=column).index  # noqa: B018


def test_a_part_of_what_has_no_parts_is_named(tmp_path):
    rows = [{"id": 1, "tokens": [1, 2]}]
    source = f"jsonl:{write_lines(tmp_path / 'a.jsonl', rows)}"
    with pytest.raises(DataError, match='what is at "tokens" is a list, not an object with "text"'):
        open_documents(source, column="tokens.text").index  # noqa: B018
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match=r'no column "tokens.text": "tokens" holds list<.*>, which has no fields'):
        open_documents(f"parquet:{tmp_path}/a.parquet", column="tokens.text").index  # noqa: B018


@pytest.mark.parametrize(
    ("column", "columns", "suggested"),
    [
        ("meta.text", ["text", "text_id", "meta.id", "meta"], None),
        ("meta.txt", ["text", "meta.text", "meta.id"], "meta.text"),
        ("mata.text", ["text", "meta.text", "meta.id"], "meta.text"),
        ("text", ["id", "meta", "meta.text"], "meta.text"),
        ("texts", ["text", "meta.text"], "text"),
        ("body", ["id", "meta.text"], None),
    ],
)
def test_a_suggestion_is_a_typo_and_never_another_field(column, columns, suggested):
    assert near_column(column, columns) == (f' (did you mean "{suggested}"?)' if suggested else "")


ARRAYS = {
    "on one line": lambda records: json.dumps(records),
    "on many lines": lambda records: json.dumps(records, indent=2),
    "with CRLF": lambda records: json.dumps(records, indent=2).replace("\n", "\r\n"),
    "with a byte order mark": lambda records: "\ufeff" + json.dumps(records, ensure_ascii=False),
    "an object per line": lambda records: "[" + ",\n".join(map(json.dumps, records)) + "\n]\n",
}


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("block", [None, 7], ids=["at once", "in small blocks"])
def test_an_array_of_objects_reads_like_lines(tmp_path, monkeypatch, name, block):
    if block:
        monkeypatch.setattr(file_content, "BLOCK_BYTES", block)
    (tmp_path / "a.json").write_bytes(ARRAYS[name](RECORDS).encode())
    lines = open_documents(f"jsonl:{write_lines(tmp_path / 'b.jsonl', RECORDS)}")
    array = open_documents(f"jsonl:{tmp_path}/a.json")
    assert texts(array) == TEXTS
    assert array.fingerprint == lines.fingerprint


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('[{"text": "x"}, {"text": "y"]', "element 2: not JSON: Expecting"),
        ('[{"text": "x"} {"text": "y"}]', "element 1: not JSON: '{' after it instead of"),
        ('[{"text": "x"}', "element 1: not JSON: the end of the file after it"),
        ('[{"text": "x"}, {"te', "element 2: not JSON: Unterminated string"),
        ('[{"text": "x"},', "not JSON: the array does not end"),
        ('[{"text": "x"}] x', "not JSON: after the array, 'x' instead of"),
        ('[{"text": "x"}, 3]', "element 2: a number instead of an object"),
        ('[{"txt": "x"}]', r'element 1: data.column: no column "text" \(did you mean "txt"\?\)'),
        ('[{"text": ["x"]}]', 'element 1: what is at "text" is a list, not text'),
        ('[{"text": "x\\ud83d"}]', r"element 1: not UTF-8: lone surrogate U\+D83D"),
        ("[]", "the text is empty"),
        ('{\n  "text": "x"\n}', "line 1: not JSON: .*; a value over several lines must be an array of objects"),
    ],
)
def test_a_wrong_array_is_reported_where_it_is_wrong(tmp_path, content, problem):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=problem) as error:
        open_documents(f"jsonl:{tmp_path}/a.json").index  # noqa: B018
    assert "\n" not in str(error.value)


def test_elements_of_an_array_are_replaced_and_skipped_as_lines_are(tmp_path):
    (tmp_path / "a.json").write_bytes(b'[{"text": "before"}, 3, {"text": "x\xe9y"}, {"text": null}]')
    assert texts(open_documents(f"jsonl:{tmp_path}/a.json", bad_text="skip")) == ["before"]
    (tmp_path / "a.json").write_bytes(b'[{"text": "before"}, {"text": "x\xe9y"}]')
    assert texts(open_documents(f"jsonl:{tmp_path}/a.json", bad_text="replace")) == ["before", "x\ufffdy"]


def test_an_array_is_never_in_memory_as_a_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(file_content, "BLOCK_BYTES", 1 << 12)
    with open(tmp_path / "a.json", "w") as file:
        file.write("[" + ",".join(json.dumps({"text": f"{number} " * 50}) for number in range(20_000)) + "]")
    tracemalloc.start()
    try:
        assert sum(1 for _ in open_documents(f"jsonl:{tmp_path}/a.json").read(BadTextPolicy("error"))) == 20_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (tmp_path / "a.json").stat().st_size / 20


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_byte_order_marks_and_line_ends_of_tables_are_no_content(tmp_path, mark, end):
    (tmp_path / "a.jsonl").write_bytes((mark + end.join(map(json.dumps, RECORDS))).encode())
    assert texts(open_documents(f"jsonl:{tmp_path}/a.jsonl")) == TEXTS
    (tmp_path / "a.csv").write_bytes((mark + end.join(['"text",label', '"first",x', "second,y", ""])).encode())
    records = TABLES["csv"](f"{tmp_path}/a.csv", configs.default().data, "csv").records(BadTextPolicy("error"))
    assert [record for _, record in records] == [{"text": "first", "label": "x"}, {"text": "second", "label": "y"}]
