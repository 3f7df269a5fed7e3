"""Compressed files are read by their content, and files without text are named as what they are."""

import bz2
import gzip
import io
import json
import lzma
import random
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.data.reading import texts_of
from zoo import config as configs
from zoo.data.labelled.task_files import LABELLED_TABLES
from zoo.data.sources.file_content import BLOCK_BYTES, file_blocks
from zoo.data.sources.source import read_documents
from zoo.data.sources.tables import TABLES
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import DataError


def several_frames(content):
    """A frame to be skipped, and two frames of content, as parallel compressors write them."""
    half = len(content) // 2
    frames = (zstandard.ZstdCompressor().compress(part) for part in (content[:half], content[half:]))
    return b"\x50\x2a\x4d\x18\x04\0\0\0skip" + b"".join(frames)


COMPRESS = {
    "gz": gzip.compress,
    "zst": zstandard.ZstdCompressor(level=3, write_checksum=True).compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst in frames": several_frames,
}


def read(source, **data):
    changes = {"data.source": str(source)} | {f"data.{name}": value for name, value in data.items()}
    return read_documents(configs.override(configs.default(), changes).data)


@pytest.mark.parametrize("name", COMPRESS)
@pytest.mark.parametrize("ending", ["", "right", ".gz"], ids=["no ending", "its ending", "the ending of gzip"])
def test_compressed_text_reads_like_the_plain_file(tmp_path, name, ending):
    text = "\ufeff" + "".join(f"line {number} é\n" for number in range(100))
    ending = f".{name.split()[0]}" if ending == "right" else ending
    (tmp_path / "plain.txt").write_text(text, encoding="utf-8")
    (tmp_path / f"a.txt{ending}").write_bytes(COMPRESS[name](text.encode()))
    plain, packed = read(f"text:{tmp_path}/plain.txt"), read(f"text:{tmp_path}/a.txt{ending}")
    assert texts_of(packed) == (text.removeprefix("\ufeff"),)
    assert packed.fingerprint == plain.fingerprint


@pytest.mark.parametrize("name", ["gz", "zst", "xz", "bz2"])
def test_tables_and_folders_of_them_are_read_compressed(tmp_path, name):
    content = {
        "a.jsonl": b'{"text": "first"}\n{"text": "second"}\n',
        "a.csv": b"text,label\nfirst,x\nsecond,y\n",
        "a.tsv": b"text\tlabel\nfirst\tx\nsecond\ty\n",
        "a.conll": b"first x\n\nsecond y\n",
        "a.json": json.dumps({"data": [{"paragraphs": [{"context": "first", "qas": []}]}]}).encode(),
    }
    for file, lines in content.items():
        kind = file.partition(".")[2].replace("json", "squad") if file == "a.json" else file.partition(".")[2]
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{file}.{name}").write_bytes(COMPRESS[name](lines))
    for kind in ("jsonl", "csv", "tsv"):
        records = TABLES[kind](f"{tmp_path}/{kind}", configs.default().data, kind).records(BadTextPolicy("error"))
        assert [record["text"] for _, record in records] == ["first", "second"]
    records = LABELLED_TABLES["conll"](f"{tmp_path}/conll", configs.default().data, "conll").records
    assert [record["words"] for _, record in records(BadTextPolicy("error"))] == [["first"], ["second"]]
    records = LABELLED_TABLES["squad"](f"{tmp_path}/squad", configs.default().data, "squad").records
    assert list(records(BadTextPolicy("error"))) == []


@pytest.mark.parametrize("name", COMPRESS)
@pytest.mark.parametrize("policy", ["error", "replace", "skip"])
def test_a_compressed_file_that_is_cut_off_is_never_bad_text(tmp_path, name, policy):
    draw = random.Random(0)
    content = COMPRESS[name]("".join(f"{draw.random()}\n" for _ in range(3000)).encode())
    kind = {"gz": "gzip", "zst": "zstd", "xz": "xz", "bz2": "bzip2"}[name.split()[0]]
    for end in (len(content) // 2 + 7, len(content) - 2):
        (tmp_path / "a.txt").write_bytes(content[:end])
        with pytest.raises(DataError, match=f'a.txt": not a complete {kind} file: '):
            read(f"text:{tmp_path}/a.txt", bad_text=policy).index  # noqa: B018


@pytest.mark.parametrize("name", ["gz", "zst", "xz", "bz2"])
def test_a_later_stream_that_is_broken_is_not_taken_for_the_end(tmp_path, name):
    """A file of several streams is what concatenating compressed files makes."""
    parts = [f"{number} ".encode() * 2000 for number in range(5)]
    streams = [COMPRESS[name](part) for part in parts]
    path = tmp_path / f"a.txt.{name}"
    path.write_bytes(b"".join(streams))
    assert b"".join(file_blocks(path)) == b"".join(parts)
    for place in (0, len(streams[1]) // 2):
        broken = bytearray(b"".join(streams))
        broken[len(streams[0]) + place] ^= 0xFF
        path.write_bytes(broken)
        with pytest.raises(DataError, match="not a complete"):
            list(file_blocks(path))


@pytest.mark.parametrize("name", ["xz", "bz2"])
def test_zeros_between_and_after_streams_are_no_content(tmp_path, name):
    path = tmp_path / "a.txt"
    path.write_bytes(b"".join(COMPRESS[name](part) + b"\0" * 8 for part in (b"one ", b"two")))
    assert list(file_blocks(path)) == [b"one two"]


@pytest.mark.parametrize("name", ["gz", "zst", "xz", "bz2"])
def test_memory_is_that_of_a_few_blocks_whatever_the_file_holds(tmp_path, name):
    # Some formats compress a text that repeats itself by a factor above 1,000. bzip2 takes
    # much longer unless lines are runs of one letter.
    lines = (b"a" * 1023 + b"\n") * (10 * BLOCK_BYTES // 1024)
    (tmp_path / "a.txt").write_bytes(COMPRESS[name](lines))
    tracemalloc.start()
    try:
        sizes = [len(block) for block in file_blocks(tmp_path / "a.txt")]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) == len(lines)
    # xz has a dictionary of 8 MB.
    assert peak < 7 * BLOCK_BYTES


def archive(kind):
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as file:
            file.writestr("a.txt", "text")
    elif kind == "tar":
        with tarfile.open(fileobj=buffer, mode="w") as file:
            file.addfile(tarfile.TarInfo("a.txt"))
    elif kind == "parquet":
        pq.write_table(pa.table({"text": ["a"]}), buffer)
    else:
        np.save(buffer, np.arange(99))
    return buffer.getvalue()


TEXT = "Some text that is long enough to tell what it is, or what it was before it was encoded otherwise. é\n" * 3
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 330454481\n"
BINARY = {
    "parquet": (archive("parquet"), "a Parquet file; it is read by parquet:PATH"),
    "zip": (archive("zip"), "a zip archive; unpack it"),
    "tar": (archive("tar"), "a tar archive; unpack it"),
    "tar.gz": (gzip.compress(archive("tar")), "compressed by gzip holds no text: it is a tar archive"),
    "gz.gz": (gzip.compress(gzip.compress(b"text")), "compressed by gzip once more"),
    "lz4": (b"\x04\x22\x4d\x18" + bytes(99), "compressed by lz4"),
    "UTF-16": (TEXT.encode("utf-16"), "UTF-16; convert it to UTF-8"),
    "UTF-16 without a mark": (TEXT.encode("utf-16-le"), "UTF-16 without a byte order mark"),
    "UTF-32": (TEXT.encode("utf-32"), "UTF-32; convert it to UTF-8"),
    "npy": (archive("npy"), "a NumPy array; token ids are read by tokens:PATH"),
    "Git LFS": (LFS_POINTER, "a pointer of Git LFS; get the file itself by git lfs pull"),
    "git-annex": (
        b"/annex/objects/MD5E-s330--0cc175b9.txt\n",
        "a pointer of git-annex; get the file itself by git annex get",
    ),
    "pdf": (b"%PDF-1.7\n" + bytes(range(256)), "a PDF"),
    "tokens": (
        np.random.default_rng(0).geometric(0.001, 4000).astype(np.uint16).tobytes(),
        "binary data: [0-9]+% of its first bytes are control characters; token ids are read by tokens:PATH",
    ),
    "noise": (np.random.default_rng(0).bytes(9999), "binary data: 1[0-9]% of its first bytes"),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("policy", ["error", "replace", "skip"])
def test_binary_content_is_named_and_never_trained_on(tmp_path, name, policy):
    content, problem = BINARY[name]
    for file in ("a.txt", "a.jsonl"):
        (tmp_path / file).write_bytes(content)
        with pytest.raises(DataError, match=rf'{file}".*{problem}') as error:
            read(f"{'jsonl' if 'json' in file else 'text'}:{tmp_path}/{file}", bad_text=policy).index  # noqa: B018
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("source", ["text:a.txt.gz", "parquet:a.parquet", "tokens:a.bin"])
def test_a_pointer_in_place_of_a_file_is_named_by_every_source(tmp_path, source):
    kind, _, name = source.partition(":")
    (tmp_path / name).write_bytes(LFS_POINTER)
    with pytest.raises(DataError, match=f"{name}.*a pointer of Git LFS; get the file itself by git lfs pull"):
        read(f"{kind}:{tmp_path}/{name}").fingerprint  # noqa: B018


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "tokenizer.model", "a.tiktoken"])
def test_a_pointer_is_no_tokenizer(tmp_path, name):
    (tmp_path / name).write_bytes(LFS_POINTER)
    with pytest.raises(DataError, match=f"{name}: not a tokenizer file: it is a pointer of Git LFS"):
        read_pretrained(tmp_path / name)


def test_text_of_other_encodings_and_with_a_few_control_characters_is_text(tmp_path):
    for content in (
        TEXT.encode("latin-1"),
        TEXT.encode() + b"\0\x01",
        "漢字漢字\n".encode() * 2000,
        b"\x1b[31mred\x1b[0m\n" * 9,
    ):
        (tmp_path / "a.txt").write_bytes(content)
        assert b"".join(file_blocks(tmp_path / "a.txt")) == content
    (tmp_path / "a.txt").write_bytes(TEXT.encode("latin-1"))
    assert "\ufffd\n" in texts_of(read(f"text:{tmp_path}/a.txt", bad_text="replace"))[0]
