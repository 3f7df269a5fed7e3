import gzip
import os
import shutil
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.data.reading import texts_of
from zoo.data.sources import file_content, text_files
from zoo.data.sources.documents import Documents
from zoo.data.sources.source import read_documents, read_text_file
from zoo.data.sources.text_files import file_pieces, read_lines
from zoo.errors import ConfigError, DataError


def read(source, separator=""):
    documents = read_documents(SimpleNamespace(source=str(source), document_separator=separator, bad_text="error"))
    assert documents.index.digests
    return documents


def documents(*texts):
    return Documents.of(texts, "test")


def test_stdlib_is_the_library_in_path_order():
    source = read("stdlib")
    root = Path(sysconfig.get_path("stdlib"))
    places = [
        texts_of(source).index((root / path).read_bytes().decode())
        for path in ("abc.py", "json/decoder.py", "typing.py")
    ]
    assert places == sorted(places)
    assert 5_000_000 < source.characters < 40_000_000
    assert f"{source.count:,} documents" in source.description
    assert source.fingerprint == read("stdlib").fingerprint


def test_stdlib_leaves_out_packages_tests_and_files_of_the_build(tmp_path, monkeypatch):
    kept = {"b.py": "b = 1\n", "a/z.py": "z = 1\n", "tester.py": "t = 1\n"}
    left_out = [
        "site-packages/p.py",
        "dist-packages/p.py",
        "test/t.py",
        "a/tests/t.py",
        "idlelib/i.py",
        "lib2to3/l.py",
        "__pycache__/c.py",
        "_sysconfigdata_x.py",
        "config-3.11-x86/python-config.py",
        "a/notes.txt",
    ]
    for name, text in kept.items() | {(name, "unwanted = 1\n") for name in left_out} | {("empty.py", "\n")}:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "latin1.py").write_bytes(b"name = '\xe9'\n")
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    source = read("stdlib")
    assert texts_of(source) == ("z = 1\n", "b = 1\n", "t = 1\n")
    assert "bad text: 1 files not UTF-8" in source.description


def test_a_missing_standard_library_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "python311.zip"))
    with pytest.raises(ConfigError, match=r"python311\.zip"):
        read("stdlib")


def test_file_keeps_its_newlines_and_loses_its_byte_order_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\r\u2028three\n".encode())
    assert texts_of(read(f"text:{tmp_path}/a.txt")) == ("one\r\ntwo\r\u2028three\n",)


def test_gzip_reads_like_the_plain_file(tmp_path):
    (tmp_path / "a.txt").write_text("some text\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"some text\n"))
    plain, packed = read(f"text:{tmp_path}/a.txt"), read(f"text:{tmp_path}/b.txt.gz")
    assert texts_of(plain) == texts_of(packed)
    assert plain.fingerprint == packed.fingerprint


def test_folder_and_pattern_are_sorted_by_name(tmp_path):
    for name in ("c.txt", "a.txt", "b.md", "sub/d.txt", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert texts_of(read(f"text:{tmp_path}")) == ("a.txt", "b.md", "c.txt")
    assert texts_of(read(f"text:{tmp_path}/*.txt")) == ("a.txt", "c.txt")
    assert texts_of(read(f"text:{tmp_path}/**/*.txt")) == ("a.txt", "c.txt", "sub/d.txt")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "part[1].txt").write_text("bracketed")
    (tmp_path / "part1.txt").write_text("other")
    assert texts_of(read(f"text:{tmp_path}/part[1].txt")) == ("bracketed",)


def test_separator_divides_each_file_and_blank_documents_are_dropped(tmp_path):
    (tmp_path / "a.txt").write_text("<end>one<end><end> \n<end>two\n")
    (tmp_path / "b.txt").write_text("three")
    assert texts_of(read(f"text:{tmp_path}", "<end>")) == ("one", "two\n", "three")
    assert texts_of(read(f"text:{tmp_path}"))[1] == "three"


def test_a_separator_of_a_literal_backslash_and_n_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    with pytest.raises(ConfigError, match=r"data\.document_separator='.*' does not occur in text:.*; for a newline"):
        texts_of(read(f"text:{tmp_path}", r"\n\n"))
    (tmp_path / "b.txt").write_text(r"one\n\ntwo")
    assert len(texts_of(read(f"text:{tmp_path}", r"\n\n"))) == 3


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("written", ["\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("small", [False, True])
def test_a_separator_matches_whatever_the_line_ends_are(tmp_path, monkeypatch, end, written, small):
    if small:
        in_small_blocks(monkeypatch)
    paragraphs = [f"paragraph {number}{end}of two lines" for number in range(60)]
    (tmp_path / "a.txt").write_bytes((end * 2).join(paragraphs).encode())
    found = read(f"text:{tmp_path}/a.txt", written)
    assert texts_of(found) == tuple(paragraphs)
    assert not found.warnings


def test_a_separator_without_newlines_leaves_carriage_returns_alone(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\r\n\rb<end>c\rd")
    assert texts_of(read(f"text:{tmp_path}/a.txt", "<end>")) == ("a\r\n\rb", "c\rd")
    assert texts_of(read(f"text:{tmp_path}/a.txt", "\r")) == ("a", "b<end>c", "d")
    # One line end is not two, and a lone carriage return is none beside line feeds.
    assert len(texts_of(read(f"text:{tmp_path}/a.txt", "\n\n"))) == 1


def test_a_separator_that_occurs_nowhere_is_warned_of(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo")
    (tmp_path / "b.txt").write_text("three<end>four\n\nfive")
    (tmp_path / "c.txt").write_text("one paragraph\nof two lines\n\n")
    found = read(f"text:{tmp_path}", "<end>")
    assert found.count == 4
    (warning,) = found.warnings
    assert (
        "data.document_separator occurs nowhere in a.txt, which has several paragraphs; it is one document" in warning
    )
    assert not read(f"text:{tmp_path}").warnings
    (tmp_path / "d.txt").write_text("six\n \nseven")
    assert "nowhere in a.txt, d.txt, which have several" in read(f"text:{tmp_path}", "<end>").warnings[0]


def test_fingerprint_depends_on_content_and_document_boundaries(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text("ab|c")
        os.utime(tmp_path / name / f"{name}.txt", (0, len(name)))
    assert read(f"text:{tmp_path}/x").fingerprint == read(f"text:{tmp_path}/y/y.txt").fingerprint
    assert documents("ab", "c").fingerprint != documents("a", "bc").fingerprint
    assert documents("ab", "c").fingerprint != documents("abc").fingerprint
    assert documents("ab", "c").fingerprint != documents("c", "ab").fingerprint


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("stdlb", r'data\.source: unknown source "stdlb" \(did you mean "stdlib"\?\); one of "stdlib",'),
        ("stdlib:x", "takes no argument"),
        ("text:", "needs a file"),
        ("text", "needs a file"),
        ("", "unknown source"),
    ],
)
def test_bad_source_names(source, message):
    with pytest.raises(ConfigError, match=message):
        read(source)


def test_missing_paths_name_the_field_and_suggest(tmp_path):
    (tmp_path / "corpus").mkdir()
    for name in ("shakespeare.txt", "notes.txt"):
        (tmp_path / "corpus" / name).write_text("x")
    with pytest.raises(
        ConfigError, match=r'data\.source: no such file.*shakespare\.txt".*did you mean ".*shakespeare\.txt"'
    ):
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
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match=r'"[^"]*/pipe" is not a regular file$'):
        read(f"text:{tmp_path}/pipe")
    with pytest.raises(ConfigError, match="no such file"):
        read_text_file(tmp_path / "gone.txt")
    with pytest.raises(ConfigError, match='there is no home folder of "~nobody-here"'):
        read("text:~nobody-here/a.txt")


def test_links_to_files_that_are_gone_are_not_left_out_silently(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").symlink_to(tmp_path / ".git" / "annex" / "objects" / "b")
    for source in (tmp_path, tmp_path / "*.txt"):
        with pytest.raises(ConfigError, match=r'links to files that do not exist: "[^"]*/b\.txt"$'):
            read(f"text:{source}")
    (tmp_path / "b.txt").unlink()
    (tmp_path / "b.txt").symlink_to(tmp_path / "a.txt")
    assert texts_of(read(f"text:{tmp_path}")) == ("a", "a")


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
        documents("some text").split(fraction)


def test_a_split_with_an_empty_part_is_refused():
    with pytest.raises(DataError, match="leaves the training part empty"):
        documents("a").split(0.5)


@given(st.lists(st.text(min_size=1, max_size=9).filter(str.strip), min_size=1, max_size=19), st.floats(0.05, 0.95))
def test_few_documents_are_cut_at_the_end(texts, fraction):
    source = documents(*texts)
    try:
        train, validation = source.split(fraction)
    except DataError:
        assert source.characters - 1 < source.characters * fraction
        return
    assert "".join(texts_of(train)) + "".join(texts_of(validation)) == "".join(texts)
    assert source.characters * fraction <= validation.characters < source.characters * fraction + 1


@given(
    st.lists(st.text(min_size=1, max_size=60).filter(str.strip), min_size=20, max_size=60),
    st.floats(0.05, 0.95),
    st.randoms(),
)
def test_many_documents_are_split_whole_by_content_alone(texts, fraction, random):
    train, validation = documents(*texts).split(fraction)
    if "".join(texts_of(train)) + "".join(texts_of(validation)) != "".join(texts):  # not split within a document
        assert sorted(texts_of(train) + texts_of(validation)) == sorted(texts)
        assert not set(texts_of(train)) & set(texts_of(validation))
        shuffled = random.sample(texts, len(texts))
        again = documents(*shuffled).split(fraction)
        assert sorted(texts_of(again[1])) == sorted(texts_of(validation))
        assert list(texts_of(again[0])) == [text for text in shuffled if text in set(texts_of(train))]


@pytest.mark.parametrize("word", ["giant ", "huge ", "vast ", "immense ", "enormous ", "great ", "gross ", "grand "])
def test_split_is_near_the_fraction_even_with_a_giant_document(word):
    texts = [f"document {number} " + "x" * (7 * number % 50) for number in range(200)] + [word * 5000]
    source = documents(*texts)
    train, validation = source.split(0.1)
    assert abs(validation.characters - 0.1 * source.characters) < 60
    assert word * 5000 in texts_of(train)
    assert texts_of(documents(*texts[::-1]).split(0.1)[1]) == texts_of(validation)[::-1]


def test_adding_a_document_moves_few_others():
    texts = [f"document number {number}" for number in range(400)]
    before = set(texts_of(documents(*texts).split(0.1)[1]))
    after = set(texts_of(documents(*texts, "one more document").split(0.1)[1]))
    assert len(before ^ after) <= 3


def test_shakespeare_is_cut_where_nanogpt_cuts_it(real_text):
    source = read(f"text:{real_text('tinyshakespeare.txt')}")
    train, validation = source.split(0.1)
    assert (train.characters, validation.characters) == (1_003_854, 111_540)


def test_tinystories_are_divided_into_whole_stories(real_text):
    path = real_text("tinystories.txt")
    source = read(f"text:{path}", "<|endoftext|>")
    train, validation = source.split(0.05)
    assert source.count == path.read_text(encoding="utf-8").count("<|endoftext|>") + 1
    assert source.count == train.count + validation.count
    assert abs(validation.characters / source.characters - 0.05) < 0.001


def test_wikitext_reads_from_gzip(real_text):
    path = real_text("wiki.valid.raw.gz")
    assert texts_of(read(f"text:{path}")) == (gzip.decompress(path.read_bytes()).decode(),)


BLOCK = 64


def in_small_blocks(monkeypatch):
    for module in (file_content, text_files):
        monkeypatch.setattr(module, "BLOCK_BYTES", BLOCK)


def pieces(path, separator, policy="error"):
    """The documents that blocks of a few bytes give, and the number of pieces."""
    documents = Documents(lambda told: file_pieces(path, separator, told), "test", policy)
    return texts_of(documents), len(list(documents.pieces()))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(
        st.sampled_from(["héros", "a", "<end>", "<e", "nd>", "\n", " ", "\n\n", "漢字漢字", "x" * 90]), max_size=60
    ),
    separator=st.sampled_from(["", "<end>", "\n"]),
)
def test_a_file_read_in_blocks_is_the_file(tmp_path, monkeypatch, words, separator):
    in_small_blocks(monkeypatch)
    text = "".join(words)
    (tmp_path / "a.txt").write_bytes(text.encode())
    expected = [part for part in (text.split(separator) if separator else [text]) if part.strip()]
    found, _ = pieces(tmp_path / "a.txt", separator)
    assert list(found) == expected


def test_a_long_document_comes_in_pieces_that_no_token_spans(tmp_path, monkeypatch):
    in_small_blocks(monkeypatch)
    text = "".join(f"line {number} of a long text\n" for number in range(200))
    (tmp_path / "a.txt").write_text(text)
    found, count = pieces(tmp_path / "a.txt", "<end>")
    assert found == (text,)
    assert count > 20
    *before, _ = Documents(lambda policy: file_pieces(tmp_path / "a.txt", "", policy), "test").pieces()
    assert not any(piece.text[-1].isspace() for piece in before)
    (tmp_path / "b.txt").write_text("x" * 10_000)
    assert pieces(tmp_path / "b.txt", "") == (("x" * 10_000,), 1)


@pytest.mark.parametrize(
    ("policy", "expected", "counted"),
    [
        ("replace", "good\nb\ufffdd\nN\ufffdL\nlast", {"not UTF-8": 1, "with NUL": 1}),
        ("skip", "good\nlast", {"not UTF-8": 1, "with NUL": 1}),
    ],
)
def test_bad_text_is_replaced_or_its_line_left_out_and_counted(tmp_path, policy, expected, counted):
    (tmp_path / "a.txt").write_bytes(b"good\nb\xffd\nN\0L\nlast")
    data = SimpleNamespace(source=f"text:{tmp_path}/a.txt", document_separator="", bad_text=policy)
    documents = read_documents(data)
    assert texts_of(documents) == (expected,)
    assert documents.index.left_out == counted
    assert "bad text: 1 not UTF-8, 1 with NUL" in documents.description
    assert documents.split(0.5)[0].bad_text == policy


def test_bad_text_is_reported_with_its_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good\nN\0L\n")
    with pytest.raises(
        DataError, match=r"a\.txt\": line 2: a NUL character at character 1 of it; .* data\.bad_text to replace or skip"
    ):
        read(f"text:{tmp_path}/a.txt")
    (tmp_path / "a.txt").write_bytes(b"good\nfine\nb\xffd\n")
    with pytest.raises(DataError, match=r"line 3: not UTF-8: byte 0xff at byte offset 11"):
        read(f"text:{tmp_path}/a.txt")


def test_lines_end_at_line_feeds_alone(tmp_path):
    lines = ["one\u2028still one\x0c\x85", "", "two\rstill two", "three\r"]
    for name, content in (
        ("plain", "\n".join(lines)),
        ("ended", "".join(f"{line}\n" for line in lines)),
        ("crlf", "\ufeff" + "".join(f"{line}\r\n" for line in lines)),
    ):
        (tmp_path / name).write_bytes(content.encode())
        expected = [*lines[:3], "three\r" if name == "crlf" else "three"]
        assert read_lines(tmp_path / name, "--prompts") == expected
    (tmp_path / "packed.txt").write_bytes(gzip.compress("é\nb".encode()))
    assert read_lines(tmp_path / "packed.txt", "--prompts") == ["é", "b"]
    with pytest.raises(ConfigError, match=r"--prompts .*gone does not exist"):
        read_lines(tmp_path / "gone", "--prompts")
    (tmp_path / "latin").write_bytes(b"a\n\xe9\n")
    with pytest.raises(DataError, match=r"--prompts .*latin is not UTF-8: line 2"):
        read_lines(tmp_path / "latin", "--prompts")


def test_copies_among_few_documents_are_named(tmp_path):
    for name in ("a.txt", "a.txt~", "b.txt"):
        (tmp_path / name).write_text("a text " * 20 if name[0] == "a" else "another " * 20)
    (line,) = read(f"text:{tmp_path}").copies
    assert "2 of the 3 documents are different; the end of the text is held out" in line
    (tmp_path / "a.txt~").unlink()
    assert not read(f"text:{tmp_path}").copies


def test_documents_that_are_mostly_copies_are_named():
    # There are ten swaps of two of five places, and ten million of eight of them.
    (line,) = read("synthetic:permutations,length=1,documents=100,symbols=5").copies
    assert "of the 100 documents 10 are different, and equal ones are held out together" in line
    assert not read("synthetic:permutations,length=8,documents=100,symbols=5").copies
