"""`data.held_out` for language models: the training text varies, and the score does not."""

import pytest

import zoo.data
from tests.support import sample_data
from tests.support.small_runs import curves, small
from zoo import config as configs
from zoo.cli.main import main
from zoo.data.pipeline.evaluation_fingerprint import evaluation_fingerprint
from zoo.errors import ConfigError, DataError
from zoo.lab.experiment import Experiment
from zoo.lab.planning.plan import make_plan
from zoo.training.trainer import run


@pytest.fixture
def files(tmp_path):
    """Returns a source of each text: two to train on, one to score."""
    for number, name in enumerate(("one", "two", "dev")):
        lines = (f"Line {line} of {name} tells of {line * 7919 + number} sheep.\n" for line in range(200))
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    return {name: f"text:{tmp_path}/{name}.txt" for name in ("one", "two", "dev")}


def test_the_named_text_is_scored_and_the_whole_source_trained_on(make_config, files, tmp_path):
    loaded = [
        zoo.data.load(make_config({"data.source": files[name], "data.held_out": files["dev"]}))
        for name in ("one", "two")
    ]
    for name, dataset in zip(("one", "two"), loaded, strict=True):
        texts = [part.train_stream for part in dataset.parts], [text.stream for text in dataset.held_out_texts]
        for (stream,), read in zip(texts, (name, "dev"), strict=True):
            assert bytes(stream.tokens[1:].astype("uint8")) == (tmp_path / f"{read}.txt").read_bytes()
        assert dataset.validation_tokens == len(texts[1][0])
    batches = [next(dataset.evaluation_batches())["tokens"].tolist() for dataset in loaded]
    assert batches[0] == batches[1]
    records = [dataset.summary() for dataset in loaded]
    assert records[0]["held_out"] == records[1]["held_out"]
    assert records[0]["fingerprint"] != records[1]["fingerprint"]
    assert "held out" in records[0]["description"]


def test_the_fingerprint_of_the_data_covers_the_held_out_text(make_config, files, tmp_path):
    config = make_config({"data.source": files["one"], "data.held_out": files["dev"]})
    before = zoo.data.load(config).summary()
    assert zoo.data.source_fingerprint(config) == before["fingerprint"]
    (tmp_path / "dev.txt").write_text("Another text, " * 100)
    after = zoo.data.load(config).summary()
    assert after["held_out"]["fingerprint"] != before["held_out"]["fingerprint"]
    assert after["fingerprint"] != before["fingerprint"]


def test_tokenizers_are_fitted_on_the_training_text_alone(make_config, files, tmp_path):
    words = {"data.tokenizer.kind": "words", "data.source": files["one"]}
    with pytest.raises(DataError, match=r"data\.held_out=text:.*dev\.txt: the word 'dev'"):
        zoo.data.load(make_config(words | {"data.held_out": files["dev"]}))
    trained = {"data.tokenizer.kind": "bpe", "data.tokenizer.vocab_size": 270, "data.source": files["one"]}
    fingerprints = set()
    for name in ("dev", "two"):
        dataset = zoo.data.load(make_config(trained | {"data.held_out": files[name]}))
        fingerprints.add(dataset.tokenizer.fingerprint)
    assert len(fingerprints) == 1


def test_a_mixture_is_scored_on_one_text(make_config, files):
    mixture = {"data.source": "mixture", "data.mixture": (f"0.5*{files['one']}", f"0.5*{files['two']}")}
    dataset = zoo.data.load(make_config(mixture | {"data.held_out": files["dev"]}))
    assert len(dataset.parts) == 2
    assert len(dataset.held_out_texts) == 1
    assert dataset.summary()["held_out"]["validation_bytes"] == dataset.held_out_texts[0].documents.bytes


def test_records_may_be_held_out_of_a_text(make_config, files, tmp_path):
    (tmp_path / "dev.jsonl").write_text("\n".join(f'{{"story": "number {number}"}}' for number in range(30)))
    config = make_config(
        {"data.source": files["one"], "data.held_out": f"jsonl:{tmp_path}/dev.jsonl", "data.column": "story"}
    )
    assert zoo.data.load(config).held_out_texts[0].documents.count == 30


def test_another_split_of_the_same_data_set_may_be_held_out(make_config):
    given = {"data.source": sample_data.hub(), "data.hub.subset": "one", "data.hub.streaming": True}
    dataset = zoo.data.load(make_config(given | {"data.held_out": "split:test"}))
    there = zoo.data.load(make_config(given | {"data.hub.split": "test"}))
    assert dataset.held_out_texts[0].documents.fingerprint == there.parts[0].source.fingerprint
    assert dataset.parts[0].source.fingerprint != there.parts[0].source.fingerprint
    with pytest.raises(ConfigError, match=r"data\.held_out=split:train is the training text too"):
        make_config(given | {"data.held_out": "split:train"})


REFUSED = {
    "missing": ({"data.held_out": "text:FOLDER/dew.txt"}, ConfigError, r"data\.held_out: no such file.*did you mean"),
    "empty": ({"data.held_out": "text:FOLDER/empty.txt"}, DataError, r'empty\.txt": the text is empty'),
    "the same": ({"data.held_out": "text:FOLDER/one.txt"}, ConfigError, r"data\.held_out=.* is the training text too"),
    "a copy": ({"data.held_out": "text:FOLDER/copy.txt"}, DataError, r"data\.held_out=.*: all of it is also training"),
    "one of the files": (
        {"data.source": "text:FOLDER/*.txt", "data.held_out": "text:FOLDER/dev.txt"},
        DataError,
        r"data\.held_out=.*: all of it is also training text",
    ),
    "unknown": ({"data.held_out": "dev.txt"}, ConfigError, r'data\.held_out: unknown source "dev\.txt"'),
    "examples": ({"data.held_out": "csv:dev.csv"}, ConfigError, r"data\.held_out=csv:dev\.csv holds examples"),
    "a mixture": ({"data.held_out": "mixture"}, ConfigError, r"data\.held_out=mixture must be one source"),
    "a split": ({"data.held_out": "split:dev"}, ConfigError, r"data\.held_out=split:dev is a split of an hf or tfds"),
    "a share too": (
        {"data.held_out": "text:FOLDER/dev.txt", "data.validation_fraction": 0.2},
        ConfigError,
        r"data\.validation_fraction=0\.2 has no effect: the held-out text is given",
    ),
    "a split of a share": (
        {"data.held_out": "text:FOLDER/dev.txt", "data.split": "clustered"},
        ConfigError,
        r"data\.split='clustered' has no effect: the held-out text is given",
    ),
}


@pytest.mark.parametrize(("changes", "error", "line"), REFUSED.values(), ids=REFUSED)
def test_held_out_texts_that_cannot_be_scored_are_refused_in_one_line(
    make_config, files, tmp_path, changes, error, line
):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "copy.txt").write_text((tmp_path / "one.txt").read_text())
    changes = {
        path: value.replace("FOLDER", str(tmp_path)) if isinstance(value, str) else value
        for path, value in changes.items()
    }
    with pytest.raises(error, match=line) as refused:
        zoo.data.load(make_config({"data.source": files["one"]} | changes))
    assert len(refused.value.problems) == 1


def test_the_command_ends_with_2(files, tmp_path, capsys):
    flags = [f"--config.data.source={files['one']}", f"--config.data.held_out=text:{tmp_path}/none.txt"]
    assert main(["train", "--config=gpt2:smoke", f"--workdir={tmp_path}/run", *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "data.held_out: no such file or folder" in line


def test_arms_with_other_training_texts_are_compared_on_one_held_out_text(make_config, files):
    def differences(changes, other):
        prints = [evaluation_fingerprint(make_config(given)) for given in (changes, other)]
        return set(prints[0].differences(prints[1], per_token=True))

    one, two = ({"data.source": files[name], "data.held_out": files["dev"]} for name in ("one", "two"))
    assert not differences(one, two)
    assert differences(one, one | {"data.held_out": files["two"]}) == {"text"}
    assert differences(*({"data.source": files[name]} for name in ("one", "two"))) == {"text"}
    # A vocabulary of another text makes other tokens.
    trained = {"data.tokenizer.kind": "bpe", "data.tokenizer.vocab_size": 270}
    assert "tokenizer" in differences(one | trained, two | trained)
    records = {"data.held_out": "jsonl:dev.jsonl", "data.column": "story"}
    assert differences(one | records, one | records | {"data.column": "text"}) == {"text"}
    lines = evaluation_fingerprint(make_config(one | {"data.document_separator": "\n\n"}))
    assert lines.description.endswith(r"held out; data.document_separator=\n\n")
    base = configs.override(configs.default(), {"data.sequence_length": 8, "data.held_out": files["dev"]})
    factor = {name: {"data.source": files[name]} for name in ("one", "two")}
    assert not [line for line in make_plan(Experiment("texts", "?", base, {"text": factor})).warnings if "text" in line]


def test_a_run_is_scored_on_the_named_text_and_resumed_only_with_it(files, tmp_path):
    config = small(data__source=files["one"], data__held_out=files["dev"], training__steps=4, training__eval_every=2)
    run(config, tmp_path / "a", lambda line: None)
    other = small(data__source=files["one"], data__held_out=files["two"], training__steps=4, training__eval_every=2)
    run(other, tmp_path / "b", lambda line: None)
    assert curves(tmp_path / "a") != curves(tmp_path / "b")
    (tmp_path / "dev.txt").write_text((tmp_path / "two.txt").read_text())
    (tmp_path / "a" / "status.json").unlink()
    with pytest.raises(ConfigError, match=r"the text of data\.held_out has changed since the run"):
        run(config, tmp_path / "a", lambda line: None)
