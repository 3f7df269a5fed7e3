"""The top-level Python API: it imports no heavy libraries, and works like the commands."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import zoo
from tests.support.edited_config import begun_with
from tests.support.small_runs import SMALL
from tests.support.untrained import untrained
from zoo.cli.main import main
from zoo.errors import ConfigError


def test_importing_zoo_loads_nothing_heavy():
    program = (
        "import sys, zoo; zoo.__version__; dir(zoo); "
        "assert not {'jax', 'flax', 'numpy', 'pandas', 'datasets', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert {"load", "load_config", "train", "compare"} <= set(dir(zoo))
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        zoo.lode  # noqa: B018


@pytest.mark.promise(reason="a run is trained")
def test_train_continue_and_compare(tmp_path, capsys):
    Path(tmp_path / "base.py").write_text("from zoo import config\n\ndef get_config():\n    return config.default()\n")
    changes = SMALL | {"model.attention.implementation": "einsum", "training.steps": 4, "training.eval_every": 2}
    config = zoo.load_config(tmp_path / "base.py", changes)
    model = zoo.train(config, tmp_path / "a", verbose=False)
    assert capsys.readouterr().out == ""
    assert model.run.step == 4
    assert zoo.train(config, tmp_path / "a", verbose=False).run.step == 4
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    settings = json.loads((tmp_path / "b/config.json").read_text())
    settings["optimizer"]["learning_rate"] = 0.01
    begun_with(tmp_path / "b", settings)
    frame = zoo.compare([tmp_path / "a", tmp_path / "b"])
    assert frame["arm"].tolist() == ["learning_rate=0.003", "learning_rate=0.01"]
    assert frame["step"].tolist() == [4, 4]
    last = [json.loads(line) for line in (tmp_path / "a/metrics.jsonl").read_text().splitlines()][-1]
    assert frame["eval/loss"][0] == pytest.approx(last["eval/loss"])
    assert frame.attrs["caveats"] == ["all arms end with the same eval/loss in every seed, to the last digit"]
    curves = zoo.compare(tmp_path / "a", curves=True)
    # Evaluations are before the first step, in the middle, and at the end.
    assert curves["eval/loss"].notna().sum() == 3
    assert curves["train/loss"].notna().sum() == 4
    with pytest.raises(ConfigError, match="there is no such folder"):
        zoo.compare(tmp_path / "nowhere")


@pytest.mark.promise(reason="examples of the documentation are run")
def test_examples_of_the_python_page_run(tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs/python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    monkeypatch.chdir(tmp_path)
    config = zoo.load_config(write_base(tmp_path), SMALL | {"model.position.kind": "rope", "training.eval_batches": 1})
    untrained(Path("runs/first"), config)
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    output = capsys.readouterr().out
    assert "<decoder of 20,992 parameters, runs/first at step 2>" in output
    assert names["curves"]["step"].max() == 2
    assert names["frame"]["arm"].nunique() == 2


def test_a_sweep_becomes_a_data_frame(tmp_path, command_line):
    assert command_line("run", "norms.py")[0] == 0
    frame = zoo.compare("runs/norms")
    assert len(frame) == 8
    assert set(frame["state"]) == {"done"}
    assert frame.groupby("arm")["eval/loss"].mean().idxmin().startswith("norm=pre")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("run"), zoo.load_config(write_base(tmp_path_factory.mktemp("c")), SMALL))


def write_base(folder):
    path = folder / "base.py"
    path.write_text("from zoo import config\n\ndef get_config():\n    return config.default()\n")
    return path


def test_predict_command(decoder, tmp_path, capsys):
    assert main(["predict", str(decoder), "--text", "ab", "--top", "2", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["text"] == "ab"
    assert [token for token, _ in found["next"]] == [each.token for each in zoo.load(decoder).next_tokens("ab", 2)]
    (tmp_path / "texts").write_text("one\n\ntwo\n")
    assert main(["predict", str(decoder), "--file", str(tmp_path / "texts"), "--similarity"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["one", "two"]
    assert main(["predict", str(decoder), "--text", "a", "--embed", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["vector"]) == 32
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"zoo {zoo.__version__}\n"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "there is no text"),
        (["--text", "a", "--second", "b", "--second", "c"], "pairs need as many of each"),
        (["--file", "nowhere.txt"], "does not exist"),
        (["--text", "a", "--embed", "--similarity"], "either --embed or --similarity"),
        (["--text", "a", "--second", "b"], "takes single texts"),
        (["--text", "a", "--top", "0"], "--top"),
        (["--text", "a", "--top", "3", "--embed"], "--top has no effect with --embed"),
        (["--text", "a [MASK] b"], "objective.kind=causal has no [MASK]; the model gives next tokens after a text"),
    ],
)
def test_bad_flags_of_predict(decoder, capsys, flags, message):
    assert main(["predict", str(decoder), *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_of_the_home_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path / "run"))):
        zoo.load("~/run")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=re.escape(f"{tmp_path}/file is a file")):
        zoo.train(zoo.load_config("gpt2:smoke"), "~/file")
