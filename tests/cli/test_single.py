"""train.py, eval.py, zoo config and zoo describe, as a user types them."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_runs import OBJECTIVES, small
from zoo import config as configs
from zoo.cli import evaluate, main, train
from zoo.training.trainer import run

ROOT = Path(__file__).parents[2]
SMOKE = str(ROOT / "configs" / "gpt2.py:smoke")


@pytest.fixture(scope="module")
def printed_by_training(tmp_path_factory):
    """(the folder of a run, standard output of its command)."""
    folder, printed = tmp_path_factory.mktemp("runs") / "gpt2", io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert train.main([f"--config={SMOKE}", f"--workdir={folder}"]) == 0
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def trained(printed_by_training):
    return printed_by_training[0]


def test_the_first_config_trains_at_smoke_size(printed_by_training):
    assert "parameters total" in printed_by_training[1]
    assert "done: 4 steps" in printed_by_training[1]


@pytest.mark.promise(reason="models of other configs than gpt2.py:smoke are compiled")
@pytest.mark.parametrize("spec", ["llama.py:smoke", "shakespeare_char.py:smoke"])
def test_every_shipped_config_trains_at_smoke_size(spec, tmp_path, capsys):
    assert train.main([f"--config={ROOT / 'configs' / spec}", f"--workdir={tmp_path / 'run'}"]) == 0
    out = capsys.readouterr().out
    assert "parameters total" in out
    assert "done: 4 steps" in out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--config=nothing.py", "--workdir=x"], 2, ["nothing.py does not exist"]),
        (
            [f"--config={SMOKE}", "--workdir=x", "--config.model.dimm=3", "--config.model.nrm.kind=x"],
            2,
            ["model.dimm", "model.dim", "model.nrm.kind"],
        ),
        (
            [f"--config={SMOKE}", "--workdir=x", "--config.model.dim=-3", "--config.model.norm.kind=rms"],
            2,
            ["at least 1", "rmsnorm"],
        ),
        ([f"--config={SMOKE}", "--workdir=x", "--worker=3"], 2, ["unknown argument --worker=3"]),
        ([f"--config={SMOKE}", "--workdir="], 2, ["--workdir: an empty path"]),
        ([f"--config={SMOKE}", "--workdir=x", "--config.data.source=text:none.txt"], 2, ["data.source", "none.txt"]),
        ([f"--config={SMOKE}", "--workdir=x", "--config.data.source=hubb:x"], 2, ["data.source"]),
        (
            [f"--config={SMOKE}", "--workdir=x", "--config.mesh.data=2", "--config.data.batch_size=4"],
            2,
            ["there are 1 devices"],
        ),
    ],
)
def test_bad_flags_are_plain_lines_and_write_nothing(arguments, code, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert train.main(arguments) == code
    errors = capsys.readouterr().err
    assert all(word in errors for word in words), errors
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob("config.json"))


def test_unreadable_data_gives_exit_code_3(tmp_path, capsys):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine \xff\xfe not")
    assert train.main([f"--config={SMOKE}", f"--workdir={tmp_path / 'run'}", f"--config.data.source=text:{bad}"]) == 3
    assert "bad.txt" in capsys.readouterr().err
    bad.write_text("")
    assert train.main([f"--config={SMOKE}", f"--workdir={tmp_path / 'run'}", f"--config.data.source=text:{bad}"]) == 3


def test_train_prints_status_and_scores_as_json(trained, capsys):
    # The run is finished, so this prints its status without training.
    assert train.main([f"--config={SMOKE}", f"--workdir={trained}", "--json"]) == 0
    printed = capsys.readouterr()
    assert "is done already" in printed.err
    found = json.loads(printed.out)
    assert (found["state"], found["step"], found["workdir"]) == ("done", 4, str(trained))
    last = json.loads((trained / "metrics.jsonl").read_text().splitlines()[-1])
    assert found["scores"]["eval/loss"] == last["eval/loss"]
    assert found["tokens"] == last["tokens"]


def test_evaluation_matches_what_the_run_logged(trained, capsys):
    assert evaluate.main([str(trained), "--batches=10", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    logged = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()][-1]
    assert result["lengths"]["16"]["loss"] == pytest.approx(logged["eval/loss"], rel=1e-6)
    assert result["step"] == 4


def test_evaluation_at_lengths_on_a_text_with_a_sample(trained, tmp_path, capsys):
    text = tmp_path / "other.txt"
    text.write_text("def f(x):\n    return x\n" * 40)
    arguments = [str(trained), "--lengths=8,16,32", f"--text={text}", "--sample=20", "--prompt=def ", "--json"]
    assert evaluate.main(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["lengths"]["32"] is None
    assert result["lengths"]["8"]["loss"] > 0
    assert result["sample"].startswith("def ")
    assert evaluate.main(arguments) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert evaluate.main([str(trained), "--lengths=32"]) == 0
    assert "learned positions end at 16" in capsys.readouterr().out


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(OBJECTIVES["masked"] | {"model__norm__kind": "batchnorm"}, id="masked"),
        pytest.param(OBJECTIVES["prefix"], id="prefix"),
        pytest.param(OBJECTIVES["bidirectional"], id="bidirectional"),
    ],
)
@pytest.mark.promise(reason="models of other kinds are trained")
def test_every_objective_is_evaluated_and_sampled_if_it_generates(kind, tmp_path, capsys):
    folder, text = tmp_path / "run", tmp_path / "other.txt"
    text.write_text("def f(x):\n    return x\n" * 40)
    run(small(**kind, model__num_layers=1, training__steps=2), folder, lambda line: None)
    arguments = [str(folder), "--batches=3", "--lengths=16,6", "--sample=5", "--json"]
    assert evaluate.main(arguments) == 0
    printed = capsys.readouterr()
    result = json.loads(printed.out)
    logged = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert result["lengths"]["16"]["loss"] == pytest.approx(logged["eval/loss"], rel=1e-6)
    assert result["lengths"]["16"]["bits_per_byte"] == pytest.approx(logged["eval/bits_per_byte"], rel=1e-6)
    assert (result["lengths"]["6"] is None) == (kind is OBJECTIVES["prefix"])
    if kind["model__architecture"] == "encoder_decoder":
        assert isinstance(result["sample"], str)
        assert not printed.err
    else:
        assert result["sample"] is None
        assert printed.err == f"no sample: model.architecture={kind['model__architecture']} does not generate text\n"
    assert evaluate.main([str(folder), f"--text={text}", "--lengths=6"]) == 0
    assert ("prefix_length=6 leaves nothing" in capsys.readouterr().out) == (kind is OBJECTIVES["prefix"])


@pytest.mark.promise(reason="models of other kinds are trained")
def test_a_decoder_with_running_statistics_is_sampled(tmp_path, capsys):
    run(
        small(model__norm__kind="batchnorm", model__head__transform=True, model__num_layers=1, training__steps=2),
        tmp_path / "run",
        lambda line: None,
    )
    assert evaluate.main([str(tmp_path / "run"), "--batches=1", "--sample=5", "--prompt=def ", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sample"].startswith("def ")


@pytest.mark.promise(reason="models of other kinds are trained")
def test_greedy_samples_do_not_depend_on_the_seed(trained, capsys):
    texts = []
    for seed in ("0", "1"):
        assert (
            evaluate.main([str(trained), "--batches=1", "--sample=12", "--temperature=0", f"--seed={seed}", "--json"])
            == 0
        )
        texts.append(json.loads(capsys.readouterr().out)["sample"])
    assert texts[0] == texts[1]


def test_eval_uses_the_tokenizer_of_the_run_and_refuses_a_changed_source(tmp_path, capsys):
    source, other, folder = tmp_path / "source.txt", tmp_path / "other.txt", tmp_path / "run"
    source.write_text("the quick brown fox jumps over the lazy dog " * 60)
    other.write_text("the lazy fox " * 30)
    flags = [
        f"--config={SMOKE}",
        f"--workdir={folder}",
        f"--config.data.source=text:{source}",
        "--config.data.tokenizer.kind=characters",
        "--config.model.num_layers=1",
    ]
    assert train.main(flags) == 0
    capsys.readouterr()
    assert evaluate.main([str(folder), f"--text={other}", "--json"]) == 0
    before = capsys.readouterr().out
    source.write_text("THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG " * 60)
    assert evaluate.main([str(folder)]) == 2
    assert "the text of data.source has changed" in capsys.readouterr().err
    source.unlink()
    assert evaluate.main([str(folder), f"--text={other}", "--json"]) == 0
    assert capsys.readouterr().out == before
    assert evaluate.main([str(folder), f"--text={other}", "--sample=3", "--prompt=ZZ"]) == 2
    assert "--prompt 'ZZ'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere is not a run"),
        (["RUN", "--step=5"], "--step 5"),
        (["RUN", "--text=missing.txt"], "--text missing.txt does not exist"),
        (["RUN", "--prompt=def ", "--top-k=0"], "--prompt, --top-k: only for a sample, which --sample N asks for"),
    ],
)
def test_bad_evaluations(trained, arguments, words, capsys):
    assert evaluate.main([argument.replace("RUN", str(trained)) for argument in arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_damaged_checkpoint_is_refused_and_kept(trained, tmp_path, capsys):
    import shutil

    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    data = max(
        (copy / "checkpoints" / "4" / "state").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0
    )
    data.write_bytes(data.read_bytes()[:-1] + b"\0\1")
    assert evaluate.main([str(copy)]) == 3
    assert "damaged" in capsys.readouterr().err
    assert (copy / "checkpoints" / "4").is_dir()


def test_config_show(capsys):
    assert main.main(["config", "show", str(ROOT / "configs" / "llama.py:7b"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["parameters"] == {"total": 6738415616, "embedding": 131072000, "body": 6476271616, "heads": 131072000}
    assert configs.resolve(shown["config"]) == configs.resolve(configs.load(str(ROOT / "configs" / "llama.py:7b")))
    assert main.main(["config", "show", SMOKE, "--config.model.norm.kind=rmsnorm"]) == 0
    out = capsys.readouterr().out
    assert "* model.norm.kind" in out
    assert "  model.norm.placement" in out
    assert "= model.vocab_size" in out


@pytest.mark.parametrize(
    "overrides",
    [
        ["gpt2.py:tiny", "--config.model.position.kind=alibi"],
        ["gpt2.py:tiny", "--config.model.ffn.kind=swiglu"],
        ["llama.py:tiny", "--config.model.norm.kind=none"],
        ["llama.py:v2-70b", "--config.model.position.kind=learned"],
    ],
)
def test_the_obvious_ablations_of_the_shipped_configs_are_valid(overrides, capsys):
    assert main.main(["config", "validate", str(ROOT / "configs" / overrides[0]), overrides[1]]) == 0


def test_config_diff_and_validate(capsys):
    assert main.main(["config", "diff", SMOKE, f"{SMOKE},model.norm.kind=rmsnorm"]) == 0
    assert capsys.readouterr().out.split() == ["model.norm.kind", "layernorm", "->", "rmsnorm"]
    assert main.main(["config", "validate", SMOKE, f"{SMOKE},model.dim=33", f"{SMOKE},seed=-1"]) == 2
    printed = capsys.readouterr()
    assert printed.out.strip() == f"{SMOKE}: valid"
    assert len(printed.err.splitlines()) == 2
    assert main.main(["config", "validate", "--json", SMOKE, f"{SMOKE},model.dim=33"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert found[SMOKE] == []
    assert "model.dim" in found[f"{SMOKE},model.dim=33"][0]


def test_describe(capsys):
    assert main.main(["describe"]) == 0
    everything = capsys.readouterr().out
    for field in configs.FIELDS:
        assert all(name in everything for name in field.choices or ())
    assert main.main(["describe", "norm"]) == 0
    assert "rmsnorm" in capsys.readouterr().out
    assert main.main(["describe", "model.norm"]) == 0
    assert capsys.readouterr().out.startswith("model.norm.kind (layernorm)\n")
    assert main.main(["describe", "alibi"]) == 0
    assert "Press et al. 2021" in capsys.readouterr().out
    assert main.main(["describe", "alibbi"]) == 2
    assert "alibi" in capsys.readouterr().err


def test_help_imports_no_accelerator_library():
    program = f"""
import sys
from zoo.cli.main import main
for name in {["", *main.SUBCOMMANDS]!r}:
    try:
        code = main([*filter(None, [name]), "--help"])
    except SystemExit as end:
        code = end.code
    assert code == 0, (name, code)
    heavy = {{"jax", "flax", "torch", "tensorflow", "wandb"}} & set(sys.modules)
    assert not heavy, (name, heavy)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: ") >= len(main.SUBCOMMANDS) + 1


def test_describing_variants_imports_no_accelerator_library():
    program = (
        "import sys\n"
        "from zoo.cli.main import main\n"
        "assert [main(['describe', *names]) for names in ((), ('rope',), ('latent',))] == [0, 0, 0]\n"
        "assert not {'jax', 'flax', 'numpy', 'rich'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    assert "# rope\n" in done.stdout
    assert "# latent\n" in done.stdout


def test_importing_zoo_loads_no_heavy_libraries():
    program = (
        "import sys, zoo, zoo.config, zoo.data, zoo.lab; "
        "print({'jax', 'flax', 'torch', 'tensorflow', 'grain', 'sklearn', 'seqeval'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.stdout.strip() == "set()", done.stderr


def test_unknown_commands(capsys):
    assert main.main(["rn"]) == 2
    assert 'did you mean "run"' in capsys.readouterr().err
    assert main.main([]) == 2
