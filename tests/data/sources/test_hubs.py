"""Data sets of Hugging Face and TFDS, written here by those libraries; nothing is downloaded."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

from tests.data.sources.test_records import RECORDS, TEXTS, open_documents, texts, write_lines
from tests.support.building import by_default
from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo.data import load
from zoo.errors import ConfigError, DataError
from zoo.lab.experiment import load_experiment
from zoo.lab.planning.plan import make_plan
from zoo.training.trainer import run

datasets = pytest.importorskip("datasets")
tfds = pytest.importorskip("tensorflow_datasets")
COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise AssertionError("a test reaches for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")
    datasets.disable_progress_bars()


@pytest.fixture
def folder(tmp_path):
    """A folder of data files as uploaded to the hub: two for training and one for testing."""
    (tmp_path / "set").mkdir()
    write_lines(tmp_path / "set" / "train-0.jsonl", RECORDS[:2])
    write_lines(tmp_path / "set" / "train-1.jsonl", RECORDS[2:])
    write_lines(tmp_path / "set" / "test.jsonl", [{"text": "held out", "n": 9}])
    return tmp_path / "set"


@pytest.fixture
def saved(tmp_path):
    made = datasets.Dataset.from_list(RECORDS)
    made.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=made, test=datasets.Dataset.from_list([{"text": "held out", "n": 9}])).save_to_disk(
        tmp_path / "more"
    )
    return tmp_path


@pytest.mark.parametrize("name", ["text", "json"])
def test_a_folder_with_the_name_of_a_reader_is_that_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for other in ("text", "json"):
        (tmp_path / other).mkdir()
        write_lines(tmp_path / other / "train.jsonl", [{"text": f"of the folder {other}"}])
    for path in (name, f"./{name}"):
        assert texts(open_documents(f"hf:{path}")) == [f"of the folder {name}"]


def write_tfds(folder, records=RECORDS, file_format="array_record"):
    """Writes a data set with TFDS and returns its folder."""

    # Not registered, so that zoo has to read the data set from its files alone.
    with tfds.core.registered.skip_registration():

        class TinyText(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.2.0")

            def _info(self):
                features = tfds.features.FeaturesDict(
                    {"text": tfds.features.Text(), "n": tfds.features.Tensor(shape=(), dtype=np.int64)}
                )
                return tfds.core.DatasetInfo(builder=self, features=features)

            def _split_generators(self, manager):
                return {
                    "train": self._generate_examples(records),
                    "test": self._generate_examples([{"text": "held out", "n": 9}]),
                }

            def _generate_examples(self, those):
                yield from enumerate(those)

    builder = TinyText(data_dir=str(folder), file_format=file_format)
    builder.download_and_prepare()
    return builder.data_dir


def fake_hub(monkeypatch, splits):
    """Replaces every data set on the hub by these splits; returns the list of calls."""
    calls = []

    def load_dataset(*arguments, **options):
        calls.append((arguments, options))
        return datasets.Dataset.from_list(splits[options["split"]])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


def test_a_folder_reads_the_same_with_and_without_streaming(folder):
    at_once, streaming = open_documents(f"hf:{folder}"), open_documents(f"hf:{folder}", **{"hub.streaming": True})
    assert texts(at_once) == TEXTS == texts(at_once)
    assert texts(streaming) == TEXTS == texts(streaming)
    assert at_once.fingerprint == streaming.fingerprint == open_documents(f"jsonl:{folder}/train*").fingerprint
    assert texts(open_documents(f"hf:{folder}", **{"hub.split": "test"})) == ["held out"]


def test_folders_of_save_to_disk_are_read(saved):
    assert texts(open_documents(f"hf:{saved}/one")) == TEXTS
    assert texts(open_documents(f"hf:{saved}/more")) == TEXTS
    assert texts(open_documents(f"hf:{saved}/more", **{"hub.split": "test"})) == ["held out"]
    with pytest.raises(
        ConfigError, match=r'data.hub.split: .* has no split "tset" \(did you mean "test"\?\); one of train, test'
    ):
        open_documents(f"hf:{saved}/more", **{"hub.split": "tset"})
    with pytest.raises(ConfigError, match="has no split"):
        open_documents(f"hf:{saved}/one", **{"hub.split": "test"})
    with pytest.raises(ConfigError) as error:
        open_documents(f"hf:{saved}/one", **{"hub.subset": "x", "hub.revision": COMMIT, "hub.streaming": True})
    assert [line.partition(":")[0] for line in error.value.problems] == [
        "data.hub.revision",
        "data.hub.subset",
        "data.hub.streaming",
    ]


def test_hub_names_need_a_commit():
    with pytest.raises(ConfigError, match=r'data.hub.revision: "a/b" on the hub may change; .* 40 hex digits'):
        open_documents("hf:a/b")
    with pytest.raises(ConfigError, match=r'data.hub.revision: "main" may move; name a commit'):
        open_documents("hf:a/b", **{"hub.revision": "main"})
    with pytest.raises(ConfigError, match=r'data.source: "hf:a/b" cannot be opened: .*a/b') as error:
        open_documents("hf:a/b", **{"hub.revision": COMMIT})
    assert "\n" not in str(error.value)


def test_a_hub_name_is_read_at_its_commit(monkeypatch):
    calls = []

    def load(*arguments, **options):
        calls.append((arguments, options))
        return datasets.Dataset.from_list(RECORDS)

    monkeypatch.setattr(datasets, "load_dataset", load)
    documents = open_documents("hf:a/b", **{"hub.revision": COMMIT, "hub.subset": "sub", "hub.split": "test"})
    assert texts(documents) == TEXTS
    assert calls == [(("a/b", "sub"), {"split": "test", "revision": COMMIT, "streaming": False})]
    assert "hf:a/b (sub, split test, commit 0123456789ab)" in documents.description


def test_missing_and_empty_folders_are_refused(tmp_path, folder):
    for name in (f"{tmp_path}/sett", "./sett", "a/b/c", ""):
        with pytest.raises(ConfigError, match=r"data.source: (no such folder|.* needs a name or a folder)"):
            open_documents(f"hf:{name}", **{"hub.revision": COMMIT})
    with pytest.raises(ConfigError, match=r'data.source: no such folder: .*sett" \(did you mean ".*/set"\?\)'):
        open_documents(f"hf:{folder}t")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"cannot be opened: .*empty"):
        open_documents(f"hf:{tmp_path}/empty")
    with pytest.raises(ConfigError, match=r"cannot be opened: .*tset"):
        open_documents(f"hf:{folder}", **{"hub.split": "tset"})
    with pytest.raises(ConfigError, match=r"cannot be opened: .*'sub'"):
        open_documents(f"hf:{folder}", **{"hub.subset": "sub"})
    write_lines(tmp_path / "empty" / "a.jsonl", [{"text": " "}])
    with pytest.raises(DataError, match="the text is empty"):
        open_documents(f"hf:{tmp_path}/empty").index  # noqa: B018


def test_code_of_a_data_set_is_not_run(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ConfigError, match="cannot be opened"):
        open_documents(f"hf:{tmp_path}/code")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("streaming", [False, True])
def test_wrong_columns_and_bad_records_are_reported(folder, streaming):
    how = {"hub.streaming": streaming}
    with pytest.raises(
        ConfigError, match=r'data.column: .*no column "txt" \(did you mean "text"\?\); there are .*text'
    ):
        open_documents(f"hf:{folder}", column="txt", **how).index  # noqa: B018
    with pytest.raises(ConfigError, match=r'data.column: .*"n" holds int64, not text; columns of text: text'):
        open_documents(f"hf:{folder}", column="n", **how).index  # noqa: B018
    write_lines(folder / "train-1.jsonl", [{"text": None, "n": 3}, {"text": "a\0b", "n": 4}])
    with pytest.raises(DataError, match=r'"hf:.*": record 3: what is at "text" is null'):
        open_documents(f"hf:{folder}", **how).index  # noqa: B018
    documents = open_documents(f"hf:{folder}", bad_text="skip", **how)
    assert texts(documents) == TEXTS[:2]
    assert '(bad text: 1 no text at "text", 1 with NUL)' in documents.description


@pytest.mark.parametrize("streaming", [False, True])
def test_unreadable_files_are_reported_in_one_line(folder, streaming):
    (folder / "train-1.jsonl").write_text('{"text": "x"}\n{"text": \n')
    with pytest.raises(DataError, match=r'"hf:.*": JSON parse error') as error:
        open_documents(f"hf:{folder}", **{"hub.streaming": streaming}).index  # noqa: B018
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("file_format", ["array_record", "parquet"])
def test_tfds_is_read_by_folder_and_by_name(tmp_path, file_format):
    folder = write_tfds(tmp_path / "tfds", file_format=file_format)
    by_folder, by_name = (
        open_documents(f"tfds:{folder}"),
        open_documents("tfds:tiny_text:1.2.0", **{"hub.folder": str(tmp_path / "tfds")}),
    )
    # TFDS shuffles what it writes, always in the same way.
    assert sorted(texts(by_folder)) == sorted(TEXTS)
    assert texts(by_folder) == texts(by_name) == texts(by_folder)
    assert "tiny_text/1.2.0" in by_name.description
    assert texts(open_documents(f"tfds:{folder}", **{"hub.split": "test"})) == ["held out"]


def test_labelled_examples_are_read_from_tfds(tmp_path):
    records = [{"text": f"example {number}", "n": number % 2} for number in range(20)]
    folder = write_tfds(tmp_path / "tfds", records)
    changes = {
        "objective.kind": "classification",
        "model.architecture": "encoder",
        "data.source": f"tfds:{folder}",
        "data.column": "text",
        "data.label_column": "n",
        "data.held_out": "split:test",
    }
    config = configs.override(configs.default(), changes)
    examples = load(configs.resolve(configs.override(config, {"data.labels": ("0", "1", "9")}))).examples
    assert sorted((example.text, example.label) for example in examples.train) == sorted(
        (f"example {n}", str(n % 2)) for n in range(20)
    )
    assert [(example.text, example.label) for example in examples.held_out] == [("held out", "9")]
    with pytest.raises(ConfigError, match=r'no column "txt" \(did you mean "text"\?\); there are n, text'):
        load(configs.resolve(configs.override(config, {"data.column": "txt"})))


def test_tfds_errors_are_reported_in_one_line(tmp_path):
    folder = write_tfds(tmp_path / "tfds", [*RECORDS, {"text": "a\0b", "n": 5}])
    for source, data, problem in (
        (
            f"tfds:{folder}",
            {"hub.split": "tset"},
            r'data.hub.split: .*has no split "tset" \(did you mean "test"\?\); one of train, test',
        ),
        (f"tfds:{folder}", {"column": "txt"}, r'data.column: .*no column "txt" \(did you mean "text"\?\)'),
        (f"tfds:{folder}", {"hub.folder": "x"}, "data.hub.folder: .* is a folder itself"),
        (f"tfds:{tmp_path}", {}, 'data.source: "tfds:.*" cannot be opened'),
        ("tfds:tiny_texd", {"hub.folder": str(tmp_path / "tfds")}, "cannot be opened: Dataset tiny_texd not found.$"),
        ("tfds:", {}, "needs a name or a prepared folder"),
    ):
        with pytest.raises(ConfigError, match=problem) as error:
            open_documents(source, **data)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 500
    with pytest.raises(DataError, match='what is at "n" is a number, not text'):
        open_documents(f"tfds:{folder}", column="n").index  # noqa: B018
    with pytest.raises(DataError, match=r"record \d: a NUL character at character 1"):
        open_documents(f"tfds:{folder}").index  # noqa: B018
    assert "(bad text: 1 with NUL)" in open_documents(f"tfds:{folder}", bad_text="skip").description


@pytest.mark.promise(reason="another process reads")
def test_reading_imports_no_tensorflow_nor_torch(tmp_path, folder):
    place = write_tfds(tmp_path / "tfds")
    code = """
import sys
import zoo, zoo.data
heavy = ("tensorflow", "torch", "datasets", "pyarrow", "tensorflow_datasets", "pandas")
assert not set(heavy) & set(sys.modules), set(heavy) & set(sys.modules)
from tests.data.sources.test_records import open_documents, texts
for source in sys.argv[1:]:
    print(len(texts(open_documents(source))))
assert not {"tensorflow", "torch"} & set(sys.modules)
"""
    environment = os.environ | {"HF_HOME": str(tmp_path / "hf")}
    command = [sys.executable, "-c", code, f"tfds:{place}", f"hf:{folder}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "3"]


@pytest.mark.usefixtures("shared_programs")
@pytest.mark.parametrize(
    "kind",
    by_default(
        ["hf"],
        ["jsonl", "parquet", "hf", "hf streaming", "tfds"],
        pytest.mark.promise(reason="a run is trained; each kind of source is read above"),
    ),
)
def test_training_on_every_kind_of_source(kind, tmp_path):
    records = [{"text": f"document {i} tells of {i * i} sheep.", "n": i} for i in range(40)]
    write_lines(tmp_path / "a.jsonl", records)
    datasets.Dataset.from_list(records).to_parquet(tmp_path / "a.parquet")
    source = {"jsonl": f"jsonl:{tmp_path}/a.jsonl", "parquet": f"parquet:{tmp_path}/a.parquet"}.get(kind)
    if kind.startswith("hf"):
        (tmp_path / "set").mkdir()
        write_lines(tmp_path / "set" / "a.jsonl", records)
        source = f"hf:{tmp_path}/set"
    elif kind == "tfds":
        source = f"tfds:{write_tfds(tmp_path / 'tfds', records)}"
    streaming = {"data__hub__streaming": True} if "streaming" in kind else {}
    config = small(data__source=source, training__steps=2, model__num_layers=1, model__dim=16, **streaming)
    run(config, tmp_path / "run", log=lambda line: None)
    assert [line["step"] for line in lines(tmp_path / "run") if "train/loss" in line][-1] == 2
    record = json.loads((tmp_path / "run" / "meta.json").read_text())["data"]
    assert record["documents"] == 40
    assert record["description"].startswith(source)


def test_the_shipped_translation_config_reads_its_pairs_from_the_hub(monkeypatch):
    calls = fake_hub(
        monkeypatch,
        {
            "train": [{"translation": {"en": f"the bear {n}", "de": f"der Baer {n}"}} for n in range(9)],
            "validation": [{"translation": {"en": "a bear", "de": "ein Baer"}}],
        },
    )
    small_vocabulary = {"data.tokenizer.vocab_size": 270, "data.batch_size": 2}
    made = load(configs.resolve(configs.override(configs.load("wmt14:base"), small_vocabulary)))
    with made.training_batches() as batches:
        batch = next(batches)
    assert made.tokenizer.decode([id for id in batch["source"][0].tolist() if id > 0]).startswith("the bear")
    assert {(name, subset, options["split"]) for (name, subset), options in calls} == {
        ("wmt/wmt14", "de-en", "train"),
        ("wmt/wmt14", "de-en", "validation"),
    }
    assert {len(options["revision"]) for _, options in calls} == {40}


@pytest.mark.promise(reason="a run is trained")
def test_the_shipped_experiment_on_wikitext_trains_on_text_of_the_hub(monkeypatch, tmp_path):
    calls = fake_hub(monkeypatch, {"train": [{"text": f"Article {n} is about a number, {n}. " * 9} for n in range(40)]})
    plan = make_plan(load_experiment("feedforward_wikitext"))
    assert plan.experiment.claim.id == "F1"
    assert plan.experiment.contrasts == load_experiment("feedforward").contrasts
    least = {"training.steps": 1, "schedule.warmup_steps": 0, "training.eval_batches": 1, "model.num_layers": 1}
    run(configs.override(plan.arms[0].config, least), tmp_path / "run")
    assert {arguments for arguments, _ in calls} == {("Salesforce/wikitext", "wikitext-2-raw-v1")}


def test_the_shipped_lm1b_config_reads_a_prepared_tfds_data_set(tmp_path):
    sentences = [{"text": f"Sentence {n} of one billion words . " * 9, "n": n} for n in range(40)]
    few = {
        "data.source": f"tfds:{write_tfds(tmp_path, sentences)}",
        "data.tokenizer.kind": "bytes",
        "data.batch_size": 2,
    }
    changes = few | {"model.vocab_size": 300, "data.validation_fraction": 0.3}
    config = configs.override(configs.load("lm1b:base"), changes)
    with load(configs.resolve(config)).training_batches() as batches:
        assert b"one billion words" in bytes(id for id in next(batches)["tokens"][0].tolist() if id < 256)
