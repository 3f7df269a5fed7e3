"""Sources whose documents are one column of records in files: lines of JSON and Parquet."""

import gzip
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zoo import config as configs
from zoo.data.sources.source import read_documents
from zoo.data.sources.text_files import BLOCK_BYTES
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
    "a missing column": ({"txt": "x"}, r'line 2: no column "text" \(did you mean "txt"\?\); data.column could be txt'),
    "no column at all": ({}, r'line 2: no column "text"; it has none at all'),
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
    problem = (
        r'data.column: ".*a.parquet": no column "bdy" \(did you mean "body"\?\); data.column could be body, n, kind'
    )
    with pytest.raises(ConfigError, match=problem):
        open_documents(source, column="bdy").index  # noqa: B018
    with pytest.raises(ConfigError, match=r'data.column: .*"n" holds int64, not text; columns of text: body, kind'):
        open_documents(source, column="n").index  # noqa: B018


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
