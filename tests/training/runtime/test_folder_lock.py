"""Folders in which a run may be trained."""

import pytest

from zoo import config as configs
from zoo.cli import train
from zoo.errors import ConfigError
from zoo.files import write_json
from zoo.training.runtime.folder_lock import check_run_folder, lock_run_folder


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ([], None),
        ([".lock", "status.json", "log.txt", "plugins", "nohup.out", ".config.json.12.tmp"], None),
        (["checkpoints", "metrics.jsonl", "tokenizer.json"], None),
        (["thesis.tex"], "thesis.tex"),
        (["tokenizer.json", "model.safetensors"], "model.safetensors"),
        (["a", "b", "c", "d", ".lock"], "a, b, c and 1 more"),
    ],
)
def test_a_folder_with_something_else_in_it_is_refused(tmp_path, entries, told):
    for name in entries:
        (tmp_path / name).write_text("mine")
    if told is None:
        lock_run_folder(tmp_path).close()
        return
    for call in (check_run_folder, lock_run_folder):
        with pytest.raises(ConfigError) as caught:
            call(tmp_path)
        assert caught.value.problems == [
            f"--workdir {tmp_path} holds files that are not of a run ({told}); name a new or an empty folder"
        ]
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(entries, "mine")


def test_extra_files_in_a_run_folder_are_accepted(tmp_path):
    write_json(tmp_path / "config.json", configs.to_plain(configs.default()))
    (tmp_path / "notes.md").write_text("")
    check_run_folder(tmp_path)
    write_json(tmp_path / "config.json", {"architectures": ["LlamaForCausalLM"]})
    with pytest.raises(ConfigError, match=r"\(config.json, notes.md\)"):
        check_run_folder(tmp_path)


def test_file_as_workdir_is_refused(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("kept")
    assert train.main(["--config=configs/gpt2.py:smoke", f"--workdir={tmp_path / 'text.txt'}"]) == 2
    assert capsys.readouterr().err == f"error: --workdir {tmp_path / 'text.txt'} is a file; name a folder\n"
    below = tmp_path / "text.txt" / "run"
    assert train.main(["--config=configs/gpt2.py:smoke", f"--workdir={below}"]) == 2
    told = f"error: --workdir {below} cannot be a folder: {tmp_path / 'text.txt'} is a file\n"
    assert capsys.readouterr().err == told
    assert (tmp_path / "text.txt").read_text() == "kept"


@pytest.mark.parametrize("workdir", [".", "..", "sub/.."])
def test_current_or_parent_folder_as_workdir_is_refused(workdir, tmp_path, monkeypatch, capsys):
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert train.main(["--config=configs/gpt2.py:smoke", f"--workdir={workdir}"]) == 2
    assert capsys.readouterr().err.startswith("error: --workdir needs a folder of its own, not ")
    assert [path.name for path in tmp_path.rglob("*")] == ["sub"]
