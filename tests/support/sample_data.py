"""Small files for every kind of data source, written on first use."""

import functools
import json
import string
import tempfile
from pathlib import Path

import numpy as np

from zoo.files import cache_directory


@functools.cache
def text():
    """Returns a file of short documents with many words, in the cache of the tests."""
    path = Path(tempfile.mkdtemp(dir=cache_directory())) / "text.txt"
    names = [
        "".join(("Bar", "kel", "lom", "mit", "nus")[int(digit) % 5] for digit in str(i * i * 7)) for i in range(60)
    ]
    path.write_text(
        "\n\n".join(
            f"Line {i} tells of {i * i} sheep and {i % 7} wolves of {names[i]}. They never met." for i in range(60)
        )
    )
    return path


@functools.cache
def held_out():
    """Returns a source of other documents of the same characters."""
    path = text().with_name("held_out.txt")
    path.write_text("\n\n".join(line[::-1] for line in text().read_text().split("\n\n")))
    return f"text:{path}"


@functools.cache
def versions():
    """Returns a source of the same documents in four versions each, with other first words."""
    path = text().with_name("versions.txt")
    lines = text().read_text().split("\n\n")
    path.write_text("\n\n".join(line.replace("Line", word) for line in lines for word in ("Line", "Row", "No", "Part")))
    return f"text:{path}"


@functools.cache
def vocabulary(*words):
    """Writes BERT's vocab.txt with letters, digits and these words, and returns its path."""
    path = Path(tempfile.mkdtemp(dir=text().parent)) / "vocab.txt"
    characters = string.ascii_lowercase + string.digits + string.punctuation
    path.write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{c}" for c in characters), *words])
    )
    return str(path)


@functools.cache
def bad_text():
    """Returns a source with the same text, but with invalid UTF-8 in some lines."""
    path = text().with_name("bad.txt")
    path.write_bytes(text().read_bytes().replace(b"sheep", b"sh\xe9\xe9p", 5))
    return f"text:{path}"


@functools.cache
def records():
    """Returns a source with the same text as records with two columns."""
    path = text().with_name("records.jsonl")
    words = text().read_text().split("\n\n")
    path.write_text("\n".join(json.dumps({"text": line, "reversed": line[::-1]}) for line in words))
    return f"jsonl:{path}"


@functools.cache
def stored_tokens():
    """Returns a source of token ids 4 to 15, of four bytes each, with the id 3 between documents, and
    with one id above 65,535.

    Ids as small as these can also be read as twice as many of two bytes, if not every second one of
    those is 0.
    """
    path = text().with_name("tokens.bin")
    letters = np.frombuffer(b"\3".join(text().read_bytes().split(b"\n\n")), np.uint8)
    ids = np.where(letters == 3, 3, 4 + letters % 12).astype("<u4")
    ids[5] += 1 << 16
    ids.tofile(path)
    return f"tokens:{path}"


@functools.cache
def table(name):
    """Returns a source of labelled rows, with two texts, two labels and a number each."""
    path = text().with_name(f"{name}.csv")
    rows = [
        f"{line.split('.')[0]},{line[::-1].split('.')[1]},{'abc'[i % 3]},{'abc'[i % 2]},{i}"
        for i, line in enumerate(text().read_text().split("\n\n"))
    ]
    names = "0,1,2,3,4" if name == "numbered" else "text,second,label,other,number"
    path.write_text("\n".join([names, *(rows[::-2] if name == "dev" else rows)]))
    return f"csv:{path}"


@functools.cache
def tagged():
    """Returns a source of words in lines, with three further columns."""
    path = text().with_name("words.conll")
    lines = [
        " ".join([word, word[::-1], "BI"[i % 2] + "-x", "O" if i % 3 else "B-y"])
        for i, word in enumerate(text().read_text().split())
    ]
    path.write_text("\n\n".join("\n".join(lines[i : i + 4]) for i in range(0, len(lines), 4)))
    return f"conll:{path}"


@functools.cache
def questions():
    """Returns a source of questions in SQuAD's format, whose contexts are longer than a row."""
    path = text().with_name("asked.json")
    contexts = text().read_text().split("\n\n")
    path.write_text(
        json.dumps(
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": context,
                                "qas": [
                                    {"id": str(i), "question": "how?", "answers": [{"text": str(i), "answer_start": 5}]}
                                ],
                            }
                            for i, context in enumerate(contexts)
                        ]
                    }
                ]
            }
        )
    )
    return f"squad:{path}"


@functools.cache
def pairs():
    """Returns a source of pairs of texts, with a third column."""
    path = text().with_name("pairs.jsonl")
    rows = ({"source": f"{i}+{i % 7}", "target": f"{i + i % 7}" * (1 + i % 4), "third": f"{i * i}"} for i in range(90))
    path.write_text("\n".join(map(json.dumps, rows)))
    return f"jsonl:{path}"


@functools.cache
def hub():
    """Returns a source with two subsets, `one` and `other`, of two splits each."""
    folder = Path(tempfile.mkdtemp(dir=text().parent))
    words = text().read_text().split("\n\n")
    for number, name in enumerate(("one", "other")):
        for part, place in (("train", number), ("test", number + 2)):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / f"{part}.jsonl").write_text(
                "\n".join(json.dumps({"text": line[place:]}) for line in words)
            )
    listed = "".join(f"- config_name: {name}\n  data_dir: {name}\n" for name in ("one", "other"))
    (folder / "README.md").write_text(f"---\nconfigs:\n{listed}---\n")
    return f"hf:{folder}"


def mixture(*weights):
    """Returns a value of `data.mixture` with these weights."""
    return tuple(
        f"{weight}*{source}" for weight, source in zip(weights, (records(), f"text:{vocabulary()}"), strict=True)
    )
