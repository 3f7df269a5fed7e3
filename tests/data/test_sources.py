import gzip
import os
import shutil
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.data.sources import Documents, read_documents, read_text_file, split
from zoo.errors import ConfigError, DataError


def read(source, separator=""):
    return read_documents(SimpleNamespace(source=str(source), document_separator=separator))


def documents(*texts):
    return Documents(tuple(texts), "test")


def test_stdlib_is_the_library_in_path_order():
    source = read("stdlib")
    root = Path(sysconfig.get_path("stdlib"))
    places = [source.texts.index((root / path).read_bytes().decode()) for path in ("abc.py", "json/decoder.py", "typing.py")]
    assert places == sorted(places)
    assert 5_000_000 < source.characters < 40_000_000
    assert f"{len(source.texts):,} documents" in source.description
    assert source.fingerprint == read("stdlib").fingerprint


def test_stdlib_leaves_out_packages_tests_and_files_of_the_build(tmp_path, monkeypatch):
    kept = {"b.py": "b = 1\n", "a/z.py": "z = 1\n", "tester.py": "t = 1\n"}
    left_out = ["site-packages/p.py", "dist-packages/p.py", "test/t.py", "a/tests/t.py", "idlelib/i.py", "lib2to3/l.py",
                "__pycache__/c.py", "_sysconfigdata_x.py", "config-3.11-x86/python-config.py", "a/notes.txt"]
    for name, text in kept.items() | {(name, "unwanted = 1\n") for name in left_out} | {("empty.py", "\n")}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "latin1.py").write_bytes(b"name = '\xe9'\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    source = read("stdlib")
    assert source.texts == ("z = 1\n", "b = 1\n", "t = 1\n")
    assert "(1 files not UTF-8 left out)" in source.description


def test_stdlib_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "python311.zip"))
    with pytest.raises(ConfigError, match=r"python311\.zip"):
        read("stdlib")


def test_file_keeps_its_newlines_and_loses_its_byte_order_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\r\u2028three\n".encode())
    assert read(f"text:{tmp_path}/a.txt").texts == ("one\r\ntwo\r\u2028three\n",)


def test_gzip_reads_like_the_plain_file(tmp_path):
    (tmp_path / "a.txt").write_text("some text\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"some text\n"))
    plain, packed = read(f"text:{tmp_path}/a.txt"), read(f"text:{tmp_path}/b.txt.gz")
    assert plain.texts == packed.texts
    assert plain.fingerprint == packed.fingerprint


def test_folder_and_pattern_are_sorted_by_name(tmp_path):
    for name in ("c.txt", "a.txt", "b.md", "sub/d.txt", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert read(f"text:{tmp_path}").texts == ("a.txt", "b.md", "c.txt")
    assert read(f"text:{tmp_path}/*.txt").texts == ("a.txt", "c.txt")
    assert read(f"text:{tmp_path}/**/*.txt").texts == ("a.txt", "c.txt", "sub/d.txt")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "part[1].txt").write_text("bracketed")
    (tmp_path / "part1.txt").write_text("other")
    assert read(f"text:{tmp_path}/part[1].txt").texts == ("bracketed",)


def test_separator_divides_each_file_and_blank_pieces_go(tmp_path):
    (tmp_path / "a.txt").write_text("<end>one<end><end> \n<end>two\n")
    (tmp_path / "b.txt").write_text("three")
    assert read(f"text:{tmp_path}", "<end>").texts == ("one", "two\n", "three")
    assert read(f"text:{tmp_path}").texts[1] == "three"


def test_fingerprint_is_of_content_and_of_document_borders(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("ab|c")
        os.utime(tmp_path / name / f"{name}.txt", (0, len(name)))
    assert read(f"text:{tmp_path}/x").fingerprint == read(f"text:{tmp_path}/y/y.txt").fingerprint
    assert documents("ab", "c").fingerprint != documents("a", "bc").fingerprint
    assert documents("ab", "c").fingerprint != documents("abc").fingerprint
    assert documents("ab", "c").fingerprint != documents("c", "ab").fingerprint


@pytest.mark.parametrize(("source", "message"), [
    ("stdlb", r'data\.source: unknown source "stdlb" \(did you mean "stdlib"\?\); one of "stdlib", "text:PATH"'),
    ("stdlib:x", "takes no argument"),
    ("text:", "needs a file"),
    ("text", "needs a file"),
    ("", "unknown source"),
])
def test_bad_source_names(source, message):
    with pytest.raises(ConfigError, match=message):
        read(source)


def test_missing_paths_name_the_field_and_suggest(tmp_path):
    (tmp_path / "corpus").mkdir()
    for name in ("shakespeare.txt", "notes.txt"):
        (tmp_path / "corpus" / name).write_text("x")
    with pytest.raises(ConfigError, match=r'data\.source: no such file.*shakespare\.txt".*did you mean ".*shakespeare\.txt"'):
        read(f"text:{tmp_path}/corpus/shakespare.txt")
    with pytest.raises(ConfigError, match=r'did you mean ".*/corpus"'):
        read(f"text:{tmp_path}/corpsu/shakespeare.txt")
    with pytest.raises(ConfigError) as error:
        read(f"text:{tmp_path}/corpus/zzz.txt")
    assert "did you mean" not in str(error.value)
    with pytest.raises(ConfigError, match="no file matches"):
        read(f"text:{tmp_path}/*.csv")
    shutil.rmtree(tmp_path / "corpus")
    with pytest.raises(ConfigError, match="no files in the folder"):
        read(f"text:{tmp_path}")
    with pytest.raises(ConfigError, match="no such file"):
        read_text_file(tmp_path / "gone.txt")


def test_invalid_utf8_names_file_and_byte(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"abc\xff")
    with pytest.raises(DataError, match=r"a\.txt.*0xff at byte offset 3"):
        read(f"text:{tmp_path}/a.txt")
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfabc\xff")
    with pytest.raises(DataError, match="0xff at byte offset 6"):
        read(f"text:{tmp_path}/a.txt")


@pytest.mark.parametrize("content", [
    b"plain text", gzip.compress(b"some text" * 50, mtime=0)[:-12], b"", gzip.compress(b"x", mtime=0)[:-2],
], ids=["plain", "cut", "empty", "cut at the end"])  # fmt: skip
def test_broken_gzip(tmp_path, content):
    (tmp_path / "a.txt.gz").write_bytes(content)
    with pytest.raises(DataError):
        read(f"text:{tmp_path}/a.txt.gz")


@pytest.mark.parametrize("content", ["", "\n \t\n", "\ufeff"])
def test_empty_text(tmp_path, content):
    (tmp_path / "a.txt").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="the text is empty"):
        read(f"text:{tmp_path}/a.txt")


@pytest.mark.parametrize("fraction", [0, 0.0, 1, -0.1, 1.5, float("nan")])
def test_fraction_out_of_range(fraction):
    with pytest.raises(ConfigError, match=r"data\.validation_fraction"):
        split(documents("some text"), fraction)


def test_a_side_that_would_be_empty():
    with pytest.raises(DataError, match="leaves the training part empty"):
        split(documents("a"), 0.5)


@given(st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=19), st.floats(0.05, 0.95))
def test_few_documents_are_cut_at_the_end(texts, fraction):
    source = documents(*texts)
    try:
        train, validation = split(source, fraction)
    except DataError:
        assert source.characters - 1 < source.characters * fraction
        return
    assert "".join(train.texts) + "".join(validation.texts) == "".join(texts)
    assert source.characters * fraction <= validation.characters < source.characters * fraction + 1


@given(st.lists(st.text(min_size=1, max_size=60), min_size=20, max_size=60), st.floats(0.05, 0.95), st.randoms())
def test_many_documents_are_divided_whole_by_content_alone(texts, fraction, random):
    train, validation = split(documents(*texts), fraction)
    if "".join(train.texts) + "".join(validation.texts) != "".join(texts):  # not the cut
        assert sorted(train.texts + validation.texts) == sorted(texts)
        assert not set(train.texts) & set(validation.texts)
        shuffled = random.sample(texts, len(texts))
        again = split(documents(*shuffled), fraction)
        assert sorted(again[1].texts) == sorted(validation.texts)
        assert list(again[0].texts) == [text for text in shuffled if text in set(train.texts)]


@pytest.mark.parametrize("word", ["giant ", "huge ", "vast ", "immense ", "enormous ", "great ", "gross ", "grand "])
def test_whole_documents_come_near_the_fraction_even_beside_a_giant(word):
    texts = [f"document {number} " + "x" * (7 * number % 50) for number in range(200)] + [word * 5000]
    source = documents(*texts)
    train, validation = split(source, 0.1)
    assert abs(validation.characters - 0.1 * source.characters) < 60
    assert word * 5000 in train.texts
    assert split(documents(*texts[::-1]), 0.1)[1].texts == validation.texts[::-1]


def test_adding_a_document_moves_few_others():
    texts = [f"document number {number}" for number in range(400)]
    before = set(split(documents(*texts), 0.1)[1].texts)
    after = set(split(documents(*texts, "one more document"), 0.1)[1].texts)
    assert len(before ^ after) <= 3


def test_shakespeare_is_cut_where_nanogpt_cuts_it(real_text):
    source = read(f"text:{real_text('tinyshakespeare.txt')}")
    train, validation = split(source, 0.1)
    assert (train.characters, validation.characters) == (1_003_854, 111_540)


def test_tinystories_are_divided_into_whole_stories(real_text):
    path = real_text("tinystories.txt")
    source = read(f"text:{path}", "<|endoftext|>")
    train, validation = split(source, 0.05)
    assert len(source.texts) == path.read_text(encoding="utf-8").count("<|endoftext|>") + 1
    assert len(source.texts) == len(train.texts) + len(validation.texts)
    assert abs(validation.characters / source.characters - 0.05) < 0.001


def test_wikitext_reads_from_gzip(real_text):
    path = real_text("wiki.valid.raw.gz")
    assert read(f"text:{path}").texts == (gzip.decompress(path.read_bytes()).decode(),)
