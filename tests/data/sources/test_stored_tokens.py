"""Tokens that other programs have written: formats, rows, splits, fingerprints, refusals."""

import gzip
import os
import struct
import zipfile

import numpy as np
import pytest

from zoo import config as configs
from zoo.data import load, load_tokenizer, source_fingerprint, vocabulary_size
from zoo.data.sources import stored_tokens
from zoo.data.sources.source import read_documents
from zoo.data.sources.stored_tokens import StoredTokens, TokenArray
from zoo.errors import ConfigError, DataError

V, EOD = 300, 299
# 40 documents of 1 to 40 tokens, each after EOD.
IDS = np.concatenate(
    [np.append(EOD, np.random.default_rng(length).integers(0, EOD, length)) for length in range(1, 41)]
)
STARTS = np.flatnonzero(IDS == EOD)
UNKNOWN = {"data.tokenizer.kind": "unknown", "data.tokenizer.ids": V}


def nanogpt(folder, ids, dtype="<u2"):
    ids.astype(dtype).tofile(folder / "train.bin")
    return folder / "train.bin"


def llmc(folder, ids, magic=20240520, version=1, dtype="<u2", name="shard_000000.bin"):
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(ids)
    (folder / name).write_bytes(header.tobytes() + ids.astype(dtype).tobytes())
    return folder / name


def megatron(folder, ids, starts=STARTS, dtype="<u2", code=8):
    """Two sequences per document, as some preprocessing divides it into sentences."""
    dtype = np.dtype(dtype)
    ids.astype(dtype).tofile(folder / "text_document.bin")
    firsts = np.unique(np.concatenate([starts, np.minimum(starts + 1, len(ids) - 1)]))
    documents = np.append(np.searchsorted(firsts, starts), len(firsts))
    (folder / "text_document.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(firsts), len(documents))
        + np.diff(np.append(firsts, len(ids))).astype("<i4").tobytes()
        + (firsts * dtype.itemsize).astype("<i8").tobytes()
        + documents.astype("<i8").tobytes()
    )  # fmt: skip
    return folder / "text_document.bin"


def npy(folder, ids, dtype="<u2"):
    np.save(folder / "train.npy", ids.astype(dtype))
    return folder / "train.npy"


FORMATS = {
    "nanoGPT": nanogpt,
    "nanoGPT, uint32": lambda folder, ids: nanogpt(folder, ids, "<u4"),
    "llm.c": llmc,
    "llm.c, uint32": lambda folder, ids: llmc(folder, ids, 20240801, 7, "<u4"),
    "Megatron": megatron,
    "NumPy": npy,
    "NumPy, int64": lambda folder, ids: npy(folder, ids, "<i8"),
}


def open_tokens(path, **data):
    changes = {"data.source": f"tokens:{path}"} | {f"data.{name}": value for name, value in data.items()}
    return read_documents(configs.override(configs.default(), changes).data)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_holds_the_same_tokens(tmp_path, name):
    found = open_tokens(FORMATS[name](tmp_path, IDS), token_dtype="uint32" if name == "nanoGPT, uint32" else "uint16")
    assert np.array_equal(found.tokens[:], IDS)
    assert np.array_equal(np.concatenate(list(found.tokens.blocks())), IDS)
    assert len(found.tokens) == len(IDS)
    if name != "Megatron":  # Its documents are part of what it holds.
        (tmp_path / "other").mkdir()
        assert found.fingerprint == open_tokens(nanogpt(tmp_path / "other", IDS)).fingerprint
    assert found.read_by(V, EOD).count == 40


@pytest.mark.parametrize(
    ("code", "dtype"), [(1, "u1"), (2, "i1"), (3, "<i2"), (4, "<i4"), (5, "<i8"), (8, "<u2"), (9, "<u4"), (10, "<u8")]
)
def test_every_type_of_a_megatron_index(tmp_path, code, dtype):
    ids = IDS % 100
    path = megatron(tmp_path, ids, dtype=dtype, code=code)
    for named in (path, path.with_suffix(".idx"), path.with_suffix(""), tmp_path):
        found = open_tokens(named)
        assert np.array_equal(found.tokens[:], ids)
        assert len(found.files) == 1
        assert np.array_equal(found._starts, STARTS)
    assert found.count == 40


def test_several_files_are_one_stream_and_rows_cross_their_borders(tmp_path, make_config):
    for number, part in enumerate(np.array_split(IDS, 3)):
        llmc(tmp_path, part, name=f"fineweb_train_{number:06d}.bin")
    found = open_tokens(f"{tmp_path}/fineweb_train_*.bin")
    assert found.fingerprint == open_tokens(nanogpt(tmp_path, IDS)).fingerprint
    assert np.array_equal(found.tokens[100:700], IDS[100:700])
    places = np.array([[0, len(IDS) // 3], [len(IDS) - 1, len(IDS) + 5]])
    assert np.array_equal(found.tokens.take(places), IDS[np.minimum(places, len(IDS) - 1)])
    assert "3 files" in found.description


def rows(dataset, count=6):
    with dataset.training_batches() as batches:
        return [next(batches)["tokens"] for _ in range(count)]


def test_rows_are_those_of_nanogpt(tmp_path, make_config):
    """nanoGPT's get_batch takes x = data[i : i + T] and y = data[i + 1 : i + 1 + T]."""
    (tmp_path / "held_out").mkdir()
    source, held_out = nanogpt(tmp_path, IDS), nanogpt(tmp_path / "held_out", IDS[::-1])
    config = make_config({"data.source": f"tokens:{source}", "data.held_out": f"tokens:{held_out}", **UNKNOWN})
    length = config.data.sequence_length
    data = np.memmap(source, dtype=np.uint16, mode="r")
    possible = {
        (tuple(data[i : i + length].tolist()), tuple(data[i + 1 : i + 1 + length].tolist()))
        for i in range(0, len(data) - length, length)
    }
    dataset = load(config)
    per_epoch = len(possible) // config.data.batch_size
    found = [(tuple(row[:-1].tolist()), tuple(row[1:].tolist())) for batch in rows(dataset, per_epoch) for row in batch]
    assert len(found) == len(set(found)) == per_epoch * config.data.batch_size
    assert set(found) <= possible
    scored = np.concatenate([batch["tokens"] for batch in dataset.evaluation_batches(limit_batches=0)])
    assert tuple(scored[0].tolist()) == tuple(IDS[::-1][: length + 1].tolist())


def test_batches_depend_on_the_ids_alone_and_resume_at_any_step(tmp_path, make_config):
    found = {}
    for name in ("nanoGPT", "llm.c", "NumPy"):
        folder = tmp_path / name
        folder.mkdir()
        dataset = load(make_config({"data.source": f"tokens:{FORMATS[name](folder, IDS)}", **UNKNOWN}))
        found[name] = rows(dataset)
        with dataset.training_batches(4) as later:
            assert np.array_equal(next(later)["tokens"], found[name][4])
    assert all(np.array_equal(found["nanoGPT"], other) for other in found.values())


def test_the_end_is_held_out_from_the_beginning_of_a_document(tmp_path):
    for path in (nanogpt(tmp_path, IDS), megatron(tmp_path, IDS)):
        source = open_tokens(path).read_by(V, EOD)
        train, validation = source.split(0.1)
        assert validation.start in STARTS
        assert len(validation.tokens) <= 0.1 * len(IDS) < len(validation.tokens) + 41
        assert np.array_equal(np.concatenate([train.tokens[:], validation.tokens[:]]), IDS)
        assert train.count + validation.count == 40
        assert source.subset(0.5).stop in STARTS
        assert source.subset(0.3).stop <= source.subset(0.5).stop
    train, validation = open_tokens(nanogpt(tmp_path, IDS)).read_by(V, None).split(0.1)
    assert len(validation.tokens) == -(-len(IDS) // 10)
    # A document that is longer than what is looked at is divided.
    train, validation = open_tokens(nanogpt(tmp_path, np.arange(200))).read_by(V, EOD).split(0.25)
    assert (len(train.tokens), len(validation.tokens)) == (150, 50)
    with pytest.raises(DataError, match=r"data\.validation_fraction: 0.999999 .*leaves the training part empty"):
        open_tokens(nanogpt(tmp_path, np.arange(200))).split(0.999999)


def test_tokens_and_texts_are_mixed_by_a_known_tokenizer(tmp_path, make_config):
    (tmp_path / "a.txt").write_text("some text of a few words\n" * 40)
    tokens = np.frombuffer(b"stored bytes of another text. " * 40, np.uint8)
    mixture = (f"0.5*text:{tmp_path}/a.txt", f"0.5*tokens:{nanogpt(tmp_path, tokens)}")
    dataset = load(make_config({"data.source": "mixture", "data.mixture": mixture}))
    summary = dataset.summary()
    assert [part["train_bytes"] for part in summary["parts"]] == [900, None]
    texts = {dataset.tokenizer.decode(row) for batch in rows(dataset) for row in batch}
    assert any("stored" in text for text in texts)
    assert any("words" in text for text in texts)


def test_a_fingerprint_is_of_ids_and_documents_and_names_what_it_covers(tmp_path, monkeypatch, make_config):
    one = open_tokens(nanogpt(tmp_path, IDS)).fingerprint
    changed = IDS.copy()
    changed[400] += 1
    assert open_tokens(nanogpt(tmp_path, changed)).fingerprint != one
    assert open_tokens(nanogpt(tmp_path, IDS[:-1])).fingerprint != one
    whole = open_tokens(megatron(tmp_path, IDS)).fingerprint
    assert open_tokens(megatron(tmp_path, IDS, STARTS[:-1])).fingerprint != whole
    config = make_config({"data.source": f"tokens:{nanogpt(tmp_path, IDS)}", **UNKNOWN})
    assert source_fingerprint(config) == load(config).summary()["fingerprint"] == one
    for name, value in {"WHOLE_TOKENS": 500, "_BLOCKS": 8, "_BLOCK_TOKENS": 16}.items():
        monkeypatch.setattr(stored_tokens, name, value)
    sampled = open_tokens(nanogpt(tmp_path, IDS))
    assert "860 tokens, of which 128 are fingerprinted" in sampled.description
    before = sampled.fingerprint
    for place, seen in ((0, True), (15, True), (16, False), (len(IDS) - 1, True)):
        changed = IDS.copy()
        changed[place] -= 1
        assert (open_tokens(nanogpt(tmp_path, changed)).fingerprint != before) == seen


def test_a_huge_file_is_opened_without_reading_it(tmp_path, monkeypatch, make_config):
    path, held_out = tmp_path / "huge.bin", tmp_path / "val"
    held_out.mkdir()
    try:
        with open(path, "wb") as file:
            file.truncate(100 * 10**9)
    except OSError as error:
        pytest.skip(f"no file of 100 GB here: {error}")
    if path.stat().st_blocks * 512 > 10**6:
        pytest.skip("no sparse files here")
    read, check = [], TokenArray._check
    monkeypatch.setattr(
        TokenArray, "_check", lambda self, ids, *place: read.append(ids.size) or check(self, ids, *place)
    )
    config = make_config(
        {"data.source": f"tokens:{path}", "data.held_out": f"tokens:{nanogpt(held_out, IDS)}", **UNKNOWN}
    )
    dataset = load(config)
    assert dataset.train_tokens == 50 * 10**9
    assert dataset.summary()["documents"] is None
    assert sum(read) < 10**7
    assert dataset.training_batches().batch(10**6)["tokens"].max() == 0


def test_ids_that_the_tokenizer_lacks_are_found_at_once_or_when_they_are_read(tmp_path, monkeypatch, make_config):
    path = nanogpt(tmp_path, np.append(IDS, np.full(9, 5000)))
    config = {"data.source": f"tokens:{path}", **UNKNOWN}
    with pytest.raises(DataError, match=r'train.bin": id 5000 at token 860 is not one of the 300 ids'):
        load(make_config(config))
    for name, value in {"WHOLE_TOKENS": 500, "_BLOCKS": 2, "_BLOCK_TOKENS": 4}.items():
        monkeypatch.setattr(stored_tokens, name, value)
    changed = IDS.copy()
    changed[400] = 5000
    nanogpt(tmp_path, changed)
    dataset = load(make_config(config))
    with pytest.raises(DataError, match=r'train.bin": id 5000 at token 400 is not one'):
        rows(dataset, 100)
    with pytest.raises(DataError, match="id -1 at token 860"):
        open_tokens(npy(tmp_path, np.append(IDS, -1), "<i8")).fingerprint  # noqa: B018


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content) and folder / name


def changed_index(place, content):
    def change(folder):
        index = megatron(folder, IDS).with_suffix(".idx")
        old = index.read_bytes()
        index.write_bytes(old[:place] + content + old[place + len(content) :])
        return index

    return change


def without(ending):
    def remove(folder):
        path = megatron(folder, IDS)
        path.with_suffix(ending).unlink()
        return path.with_suffix(".bin" if ending == ".idx" else ".idx")

    return remove


def shortened(function, by):
    def cut(folder):
        path = function(folder, IDS)
        os.truncate(path, path.stat().st_size - by)
        return path

    return cut


def older_index(folder):
    (folder / "text_document.idx").write_bytes(b"TNTIDX\0\0" + bytes(99))
    return nanogpt(folder, IDS).rename(folder / "text_document.bin")


WRONG = {
    "an odd number of bytes": (shortened(nanogpt, 1), r"1,719 bytes of the file are no whole number of uint16 ids"),
    "a shard that is cut off": (shortened(llmc, 2), r"tells of 860 uint16 ids, 1,720 bytes, and 1,718 bytes follow"),
    "ids that are cut off": (shortened(megatron, 2), r"859 ids, and its index tells of 860"),
    "an index that is cut off": (lambda folder: shortened(lambda f, i: megatron(f, i).with_suffix(".idx"), 8)(folder), "the file is not complete"),
    "an index of images": (lambda folder: [p := megatron(folder, IDS).with_suffix(".idx"), p.write_bytes(p.read_bytes() + bytes(80))][0], "an index with modes is one of images"),
    "floats": (changed_index(17, b"\x07"), "ids of type <f4; version 1 with integers is read"),
    "an unknown type": (changed_index(17, b"\x63"), "ids of type 99; version 1"),
    "another version": (changed_index(9, b"\x02"), "version 2; version 1 with"),
    "sequences in another order": (changed_index(34, b"\x09\0\0\0"), "do not follow one another"),
    "the older index": (older_index, 'the older, "lazy" or "cached" format'),
    "no ids": (without(".bin"), "the token ids, .* are missing"),
    "another index": (lambda folder: [nanogpt(folder, IDS), write("train.idx", b"x" * 99)(folder)][0], "not an index of Megatron"),
    "another version of llm.c": (lambda folder: llmc(folder, IDS, version=3), "version 3 of the format of llm.c is not known"),
    "questions of llm.c": (lambda folder: llmc(folder, IDS, 20240522), "questions of llm.c"),
    "a matrix": (lambda folder: npy(folder, IDS.reshape(20, 43)), r"an array of uint16 with shape \(20, 43\)"),
    "numbers that are no ids": (lambda folder: npy(folder, IDS, "<f4"), "an array of float32"),
    "objects": (lambda folder: [np.save(folder / "a.npy", np.array([{}], object), allow_pickle=True), folder / "a.npy"][1], "not a complete .npy file"),
    "an array that is cut off": (shortened(npy, 2), "not a complete .npy file"),
    "uint32 read as uint16": (lambda folder: nanogpt(folder, IDS, "<u4"), "every second uint16 is below 16, so these are ids of uint32; set data.token_dtype=uint32"),
    "uint32 of a small vocabulary read as uint16": (lambda folder: nanogpt(folder, IDS % 5, "<u4"), "so these are ids of uint32; set data.token_dtype=uint32"),
    "int64 read as uint16": (lambda folder: nanogpt(folder, IDS, "<i8"), "so these are ids of int64; write them as uint32, or as .npy"),
    "no tokens": (lambda folder: nanogpt(folder, IDS[:0]), "there are no tokens"),
    "no tokens in an array": (lambda folder: npy(folder, IDS[:0]), "there are no tokens"),
    "text": (write("a.bin", b"Some text that is no token, whatever the name of its file says. " * 4), "holds text, not token ids; text is read by text:PATH"),
    "gzip": (write("a.bin", gzip.compress(IDS.tobytes())), "compressed, and token ids are memory-mapped; decompress it"),
    "an archive": (lambda folder: [np.savez(folder / "a.npz", IDS), folder / "a.npz"][1], "holds no token ids: it is a zip archive"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, name):
    make, problem = WRONG[name]
    with pytest.raises(DataError, match=problem) as error:
        open_tokens(make(tmp_path))
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert zipfile  # The archive of np.savez.


def test_ids_wider_than_uint32_are_named_and_narrow_vocabularies_are_not(tmp_path):
    with pytest.raises(DataError, match="every second uint32 is below 16, so these are ids of int64"):
        open_tokens(nanogpt(tmp_path, IDS, "<i8"), token_dtype="uint32")
    # Only the token between documents has 16 or more here.
    few = np.where(IDS == EOD, 16, IDS % 16)
    few[1::2] %= 16
    assert np.array_equal(open_tokens(nanogpt(tmp_path, few)).tokens[:], few)
    # Every second id but one is 0.
    rare = np.where(np.arange(len(IDS)) % 2, 0, 3)
    rare[-1] = 1
    assert np.array_equal(open_tokens(nanogpt(tmp_path, rare)).tokens[:], rare)


def test_paths_of_tokens_are_found_or_suggested(tmp_path, monkeypatch):
    nanogpt(tmp_path, IDS)
    npy(tmp_path, IDS)
    (tmp_path / "meta.pkl").write_bytes(b"x")
    assert len(open_tokens(tmp_path).files) == 2
    monkeypatch.chdir(tmp_path)
    assert len(open_tokens(".").files) == len(open_tokens("./").files) == 2
    with pytest.raises(ConfigError, match=r'no such file or folder: ".*did you mean ".*train\.bin"'):
        open_tokens(tmp_path / "trian.bin")
    with pytest.raises(ConfigError, match='"tokens" needs a file'):
        open_tokens("")
    with pytest.raises(ConfigError, match=r"data\.token_dtype=uint32: the header of .* says uint16"):
        open_tokens(llmc(tmp_path, IDS), token_dtype="uint32")


def test_held_out_tokens_are_not_training_tokens(tmp_path, make_config):
    train, val = llmc(tmp_path, IDS, name="train.bin"), llmc(tmp_path, IDS[:99], name="val.bin")
    with pytest.raises(DataError, match=r'val.bin" is also a training file'):
        load(make_config({"data.source": f"tokens:{tmp_path}/*.bin", "data.held_out": f"tokens:{val}", **UNKNOWN}))
    copy = llmc(tmp_path, IDS, name="copy.bin")
    with pytest.raises(DataError, match="all of it is also training text"):
        load(make_config({"data.source": f"tokens:{train}", "data.held_out": f"tokens:{copy}", **UNKNOWN}))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"data.tokenizer.kind": "bpe"}, r"data\.tokenizer\.kind=bpe is made of a text, and tokens: has none"),
        ({"data.tokenizer.kind": "unknown"}, r"needs data\.tokenizer\.ids, the number of ids"),
        (UNKNOWN | {"data.source": "stdlib"}, r"data\.tokenizer\.kind=unknown reads stored tokens alone .*, not stdlib"),
        (UNKNOWN | {"data.held_out": "text:a.txt"}, "reads stored tokens alone .*, not text"),
        (UNKNOWN | {"data.isolate_documents": True}, r"data\.isolate_documents=True needs the token between documents"),
        (UNKNOWN | {"data.split": "clustered"}, r"data\.split=clustered compares texts"),
        (UNKNOWN | {"data.document_separator": "x"}, r"data\.document_separator has no effect"),
        ({"data.source": "stdlib", "data.tokenizer.document_id": 3}, r"data\.tokenizer\.document_id=3 has no effect"),
        ({"data.source": "stdlib", "data.token_dtype": "uint32"}, r"data\.token_dtype=uint32 has no effect"),
        (UNKNOWN | {"objective.kind": "span", "model.architecture": "encoder_decoder"}, r"objective\.kind=span needs the token between"),
        (UNKNOWN | {"objective.kind": "masked", "model.architecture": "encoder", "data.row_format": "full_sentences"}, r"data\.row_format=full_sentences divides a text"),
        (UNKNOWN | {"objective.kind": "masked", "model.architecture": "encoder", "objective.whole_words": True}, "does not tell which tokens form a word"),
    ],
)  # fmt: skip
def test_what_stored_tokens_cannot_give_is_refused(make_config, changes, problem):
    with pytest.raises(ConfigError, match=problem):
        make_config({"data.source": "tokens:train.bin"} | changes)


def test_the_token_between_documents_may_be_any_of_a_known_tokenizer(tmp_path, make_config):
    tokens = np.frombuffer(b"one|two|three|" * 40, np.uint8)
    config = {"data.source": f"tokens:{nanogpt(tmp_path, tokens)}", "data.isolate_documents": True}
    with pytest.raises(DataError, match=r"id 256, which should stand between documents, occurs nowhere"):
        load(make_config(config))
    dataset = load(make_config(config | {"data.tokenizer.document_id": ord("|")}))
    assert dataset.tokenizer.bos_id == ord("|")
    assert dataset.summary()["documents"] == 121
    dataset.tokenizer.save(tmp_path / "run")
    again = load_tokenizer(tmp_path / "run")
    assert again.bos_id == ord("|")
    assert again.fingerprint == dataset.tokenizer.fingerprint
    assert again.fingerprint != load(make_config({"data.source": f"tokens:{tmp_path}/train.bin"})).tokenizer.fingerprint
    with pytest.raises(ConfigError, match=r"data\.tokenizer\.document_id=999 is not one of the tokenizer's 257 ids"):
        load(make_config(config | {"data.tokenizer.document_id": 999}))


def test_documents_of_an_index_must_be_divided_by_the_token_to_be_isolated(tmp_path, make_config):
    config = UNKNOWN | {"data.tokenizer.document_id": EOD, "data.isolate_documents": True}
    load(make_config(config | {"data.source": f"tokens:{megatron(tmp_path, IDS)}"}))
    with pytest.raises(DataError, match="1 of 39 documents do not begin with id 299"):
        load(
            make_config(
                config | {"data.source": f"tokens:{megatron(tmp_path, IDS, np.append(STARTS[:-1], STARTS[-1] - 3))}"}
            )
        )


@pytest.mark.parametrize("ends", [False, True], ids=["opens", "ends"])
def test_the_token_between_documents_must_not_divide_one_of_an_index(tmp_path, make_config, ends):
    config = UNKNOWN | {"data.tokenizer.document_id": EOD, "data.isolate_documents": True}
    ids = np.append(IDS[1:], EOD) if ends else IDS.copy()
    starts = STARTS[1:] - 1 if ends else STARTS
    starts = np.append(0, starts) if ends else starts
    load(make_config(config | {"data.source": f"tokens:{megatron(tmp_path, ids, starts)}"}))
    turn = starts[20] + 9
    ids[turn] = EOD
    with pytest.raises(DataError, match=f"id 299 also stands inside documents, as at token {turn},"):
        load(make_config(config | {"data.source": f"tokens:{megatron(tmp_path, ids, starts)}"}))
    load(
        make_config(
            config | {"data.source": f"tokens:{megatron(tmp_path, ids, starts)}", "data.isolate_documents": False}
        )
    )


def test_an_unknown_tokenizer_reads_and_writes_ids(tmp_path, make_config):
    config = make_config({"data.source": f"tokens:{nanogpt(tmp_path, IDS)}", **UNKNOWN})
    assert vocabulary_size(config) == V
    tokenizer = load(config).tokenizer
    assert tokenizer.encode("3 14, 15\n9").tolist() == [3, 14, 15, 9]
    assert tokenizer.decode([3, 14, 15]) == "3 14 15"
    assert tokenizer.opening_ids == []
    assert not tokenizer.token_bytes().any()
    (found,) = tokenizer.encode_with_offsets(["3 14"])
    assert (found.starts.tolist(), found.stops.tolist()) == ([0, 2], [1, 4])
    for text, problem in (
        ("3 x", "a text must be ids between spaces.*got 'x'"),
        ("300", "ids must lie in 0 .. 299"),
        ("-1", "got '-1'"),
        ("9" * 30, "must lie"),
    ):
        with pytest.raises(DataError, match=problem):
            tokenizer.encode(text)
    tokenizer.save(tmp_path / "run")
    assert load_tokenizer(tmp_path / "run").fingerprint == tokenizer.fingerprint
    known = load(
        make_config({"data.source": f"tokens:{tmp_path}/train.bin", **UNKNOWN, "data.tokenizer.document_id": EOD})
    ).tokenizer
    assert (known.opening_ids, known.special_ids) == ([EOD], {EOD})
    assert known.fingerprint != tokenizer.fingerprint


def test_stored_tokens_have_what_a_record_of_data_asks_for(tmp_path, make_config):
    dataset = load(make_config({"data.source": f"tokens:{nanogpt(tmp_path, IDS)}", **UNKNOWN}))
    assert isinstance(dataset.parts[0].source, StoredTokens)
    record = dataset.summary()
    assert record["train_tokens"] + record["validation_tokens"] == len(IDS)
    assert (record["train_bytes"], record["documents"], record["bad_text"]) == (None, None, {})
    assert record["tokenizer"]["kind"] == "unknown"
