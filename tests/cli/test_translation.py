"""Commands on a translation run: zoo data show, eval.py, zoo generate, zoo average."""

import json
import shutil

import jax
import numpy as np
import pytest

from tests.support.small_runs import OBJECTIVES, lines, small
from zoo import config as configs
from zoo.cli import evaluate
from zoo.cli.main import main
from zoo.files import read_json, write_json
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

pytest.importorskip("sacrebleu")
# tests/training/test_translations.py covers translation without the commands.
pytestmark = pytest.mark.promise(reason="a whole run is trained and translates")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for name, numbers in (("train", range(60)), ("val", range(60, 70)), ("test", range(80, 83))):
        for side, text in (("en", "ab" * 3), ("de", "ba")):
            (folder / f"{name}.{side}").write_text("".join(f"{text * (number % 3)}{number}\n" for number in numbers))
    return folder


@pytest.fixture(scope="module")
def trained(files):
    config = small(
        **OBJECTIVES["translation"]
        | {
            "data__source": f"parallel:{files}/train.{{en,de}}",
            "data__held_out": f"parallel:{files}/val.{{en,de}}",
            "model__num_layers": 1,
            "training__checkpoint_every": 2,
            "training__keep_checkpoints": 3,
            "training__eval_every": 0,
            "training__steps": 8,
        }
    )
    run(config, files / "run", lambda line: None)
    return files / "run"


def output_of(capsys, command, *arguments):
    assert (
        main([command, *map(str, arguments)]) if command != "eval.py" else evaluate.main([*map(str, arguments)])
    ) == 0
    return capsys.readouterr().out


def test_eval_reproduces_the_scores_of_the_run(trained, capsys):
    found = json.loads(output_of(capsys, "eval.py", trained, "--translate", "--json"))
    last = lines(trained)[-1]
    assert found["lengths"]["24"]["loss"] == pytest.approx(last["eval/loss"], rel=1e-6)
    assert {f"eval/{name}": found["translations"][name] for name in ("bleu", "chrf", "exact_match")} == {
        name: last[name] for name in ("eval/bleu", "eval/chrf", "eval/exact_match")
    }
    text = output_of(capsys, "eval.py", trained, "--translate")
    assert f"10 translations: BLEU {last['eval/bleu']:.2f}" in text
    assert "beams 2" in text


def test_eval_scores_other_pairs_with_the_tokenizer_of_the_run(trained, files, capsys):
    found = json.loads(
        output_of(capsys, "eval.py", trained, "--translate", "--json", "--pairs", f"parallel:{files}/test.{{en,de}}")
    )
    assert found["translations"]["pairs"] == 3
    assert found["lengths"]["24"]["loss"] > 0


@pytest.mark.parametrize(("arguments", "problem"), [
    (["--pairs", "parallel:none.{en,de}"], "--pairs: no such file"), (["--text", __file__], "scored on pairs of texts, --pairs SOURCE"),
    (["--pairs", "text:x"], "has no pairs of texts"), (["--pairs", "split:test"], "has no splits; name a source"),
])  # fmt: skip
def test_eval_refuses_unsuitable_data(trained, arguments, problem, capsys):
    assert evaluate.main([str(trained), *arguments]) == 2
    assert problem in capsys.readouterr().err


def test_generate_translates_and_shows_no_prompt(trained, capsys):
    (first, *_) = (json.loads(line) for line in (trained / "translations.jsonl").read_text().splitlines())
    text = output_of(capsys, "generate", trained, "--prompt", first["source"], "--beams", 2, "--max-new-tokens", 24)
    assert text.strip() == first["translation"]


def test_data_show_prints_batch_shapes_and_padding(trained, capsys):
    found = json.loads(output_of(capsys, "data", "show", trained, "--json", "--rows", 2))
    assert [(shape["width"], shape["rows"]) for shape in found["shapes"]] == [(12, 16), (24, 8)]
    # Some of the 60 pairs do not fill a batch and are left out.
    assert sum(shape["rows"] * shape["batches"] for shape in found["shapes"]) in range(53, 61)
    assert 0 < found["padding"] < 1
    assert len(found["rows"]) == 2
    text = output_of(capsys, "data", "show", trained, "--held-out", "--rows", "1")
    assert "10 pairs" in text
    assert "batches of     8 pairs of up to 24 tokens per side" in text
    assert text.count("reads:") == text.count("writes:") == 1


def test_average_is_the_mean_of_the_last_checkpoints(trained, tmp_path, capsys):
    text = output_of(capsys, "average", trained, "--last", 3, "--out", tmp_path / "mean")
    assert "at steps 4, 6, 8" in text
    each = [load_trained(trained, str(step)).params for step in (4, 6, 8)]
    mean = load_trained(tmp_path / "mean")
    assert mean.step == 8
    for one, *parts in zip(*(jax.tree.leaves(params) for params in (mean.params, *each)), strict=True):
        np.testing.assert_allclose(one, np.mean(np.asarray(parts, np.float64), axis=0), rtol=1e-6)
        assert one.dtype == parts[0].dtype
    assert any(
        (np.asarray(one) != np.asarray(other)).any() for one, other in zip(*map(jax.tree.leaves, each[1:]), strict=True)
    )
    assert read_json(tmp_path / "mean" / "meta.json")["averaged"]["steps"] == [4, 6, 8]
    assert json.loads(output_of(capsys, "eval.py", tmp_path / "mean", "--json"))["step"] == 8


def test_impossible_averages_are_refused(trained, tmp_path, capsys):
    assert main(["average", str(trained), "--last", "9", "--out", str(tmp_path / "mean")]) == 2
    error = capsys.readouterr().err
    assert "--last 9" in error
    assert "training.keep_checkpoints=9" in error
    assert not (tmp_path / "mean").exists()
    # Of the three checkpoints the first is then one that is kept because it is the best.
    shutil.copytree(trained, tmp_path / "fewer")
    config = read_json(tmp_path / "fewer" / "config.json")
    config["training"]["keep_checkpoints"] = 2
    write_json(tmp_path / "fewer" / "config.json", config)
    assert main(["average", str(tmp_path / "fewer"), "--last", "3", "--out", str(tmp_path / "mean")]) == 2
    assert "has kept 2 of its newest checkpoints, of the steps 6, 8" in capsys.readouterr().err
    assert main(["average", str(trained), "--last", "0", "--out", str(tmp_path / "mean")]) == 2
    assert "--last 0 must be at least 1" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    write_json(tmp_path / "full" / "x.json", {})
    assert main(["average", str(trained), "--last", "2", "--out", str(tmp_path / "full")]) == 2
    assert "not an empty folder" in capsys.readouterr().err


def test_presets_need_no_files():
    for preset in ("tiny", "smoke"):
        config = configs.resolve(configs.load(f"configs/translation.py:{preset}"))
        assert config.data.source == "stdlib"
        assert config.data.held_out == ""
        assert config.objective.kind == "translation"
