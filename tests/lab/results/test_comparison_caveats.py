"""Comparisons of runs picked by hand have a caveat for each difference in their conditions."""

import json
from pathlib import Path

import pytest

from zoo import config
from zoo.lab.declarations import Contrast, Side
from zoo.lab.planning.evaluations import generator_differences
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import judge

ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}


@pytest.fixture
def run(tmp_path):
    """Writes the folder of a finished run: run(name, changes of the config, entries of meta.json)."""

    def write(name, changes, **meta):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        settings = config.to_plain(config.resolve(config.override(config.default(), changes), 300))
        # Stored by a version that lacked a field.
        del settings["training"]["eval_context"]
        (folder / "config.json").write_text(json.dumps(settings))
        (folder / "meta.json").write_text(json.dumps(meta))
        (folder / "status.json").write_text('{"state": "done", "step": 20}')
        (folder / "metrics.jsonl").write_text('{"step": 20, "eval/loss": 2.0}\n')
        return folder

    return write


def caveats(*folders):
    return load_comparison(list(folders)).warnings


def test_differences_in_what_is_scored_are_caveats(run):
    causal, masked = run("a", {}), run("b", ENCODER)
    lines = caveats(causal, masked)
    assert [line.partition(" by eval/loss: ")[0] for line in lines] == [
        "arms are scored on different rows",
        "arms are scored on different targets",
        "arms predict what is scored from different contexts",
        "architecture=encoder+kind=masked differs from architecture=decoder+kind=causal in 2 fields: "
        "model.architecture, objective.kind",
    ]
    post = run("c", {"model.norm.placement": "post"})
    assert caveats(causal, post) == []
    assert judge(load_comparison([causal, masked])).paragraph == (
        "No claim is tested here, and the arms are not ranked by eval/loss: they are scored on different rows and are "
        "scored on different targets and predict what is scored from different contexts."
    )
    assert "all arms end with the same eval/loss in every seed, 2" in judge(load_comparison([causal, post])).paragraph


def test_differences_in_size_and_conditions_are_caveats(run, tmp_path):
    def meta(total, kernel, tokenizer):
        return {
            "parameters": {"total": total},
            "flops_per_token": 6.0 * total,
            "attention_kernels": [{"kernel": kernel}],
            "data": {"tokenizer": {"fingerprint": tokenizer}},
        }

    one = run("a", {}, **meta(1000, "einsum", "x"))
    longer = {"training.steps": 2000, "model.dtype": "bfloat16"}
    other = run("sweep/b", longer, **meta(1100, "cudnn", "y"))
    record = {"tuning": {"field": "optimizer.learning_rate", "chosen": {"b": 0.1}}}
    (tmp_path / "sweep/experiment.json").write_text(json.dumps(record))
    *lines, fields = caveats(one, other)
    assert sorted(fields.partition(" in 2 fields: ")[2].split(", ")) == ["model.dtype", "training.steps"]
    assert [line.split(": ")[0] for line in lines] == [
        f"arms differ in {what}"
        for what in (
            "tokens of training",
            "parameters",
            "FLOPs per token",
            "their tokenizer",
            "precision",
            "attention kernels",
            "tuning",
        )
    ]
    assert "2,048,000 (" in lines[0]
    assert "4,096,000 (" in lines[0]
    fewer_rows = run("staged", {"data.batch_stages": (8, 500)}, **meta(1000, "einsum", "x"))
    (line,) = caveats(one, fewer_rows)
    assert line.startswith("arms differ in tokens of training")
    assert "1,536,000 (" in line
    # A difference of one per cent is no caveat.
    assert caveats(one, run("c", {"model.dim": 320}, **meta(1009, "einsum", "x"))) == []


def test_a_config_that_cannot_be_read_is_reported(run):
    one, other = run("a", {}), run("b", {"seed": 1, "model.dim": 512})
    (other / "config.json").write_text('{"data": {"batch_size": "many"}}')
    assert any("what its evaluation scores cannot be told" in line for line in caveats(one, other))


def test_the_command_prints_the_caveats(run, command_line):
    code, output, _ = command_line("compare", str(run("a", {})), str(run("b", ENCODER)))
    assert code == 0
    assert "caveat: arms are scored on different targets by eval/loss" in output


def test_another_content_of_one_held_out_file_is_a_caveat(run):
    texts = [
        run(name, {"data.held_out": "text:dev.txt"}, data={"held_out": {"fingerprint": content}})
        for name, content in (("a", "0" * 64), ("b", "0" * 64), ("c", "1" * 64))
    ]
    assert caveats(*texts[:2]) == []
    (line,) = caveats(*texts[1:])
    assert line.startswith("arms differ in the content of data.held_out: 000000000000")


def test_other_tokens_of_the_same_text_and_tokenizer_are_a_caveat(run):
    record = {"fingerprint": "f", "tokenizer": {"fingerprint": "t"}, "train_tokens_sha256": "a"}
    one, same = run("one", {}, data=record), run("same", {"optimizer.learning_rate": 0.1}, data=dict(record))
    other = run("other", {"optimizer.learning_rate": 0.2}, data=record | {"train_tokens_sha256": "b"})
    longer = run("longer", {"data.sequence_length": 64}, data=record | {"train_tokens_sha256": "c"})
    unknown = run(
        "unknown", {"optimizer.learning_rate": 0.3}, data={"fingerprint": "f", "tokenizer": {"fingerprint": "t"}}
    )
    words = "the same text and tokenizer gave other tokens"
    assert not [line for line in caveats(one, same, longer, unknown) if words in line]
    (line,) = [line for line in caveats(one, same, other) if words in line]
    assert line == f"{words} in other than in one: they did not read the same, and their losses are of other tokens"


ELECTRA = {"model.architecture": "encoder", "objective.kind": "replaced_tokens"}


def test_generators_that_differ_are_a_caveat_on_metrics_that_depend_on_them(run):
    one, other = run("a", ELECTRA), run("b", ELECTRA | {"optimizer.learning_rate": 1e-4})
    (line,) = caveats(one, other)
    assert line.startswith(
        "arms are scored by eval/loss on tokens that their own generators make, and these differ (by "
    )
    assert "optimizer.learning_rate" in line
    # Draws that no network makes, and a depth that the generator does not have.
    uniform = {"model.generator.num_layers": 0}
    assert caveats(run("c", ELECTRA | uniform), run("d", ELECTRA | uniform | {"optimizer.learning_rate": 1e-4})) == []
    assert not any("their own generators" in line for line in caveats(one, run("e", ELECTRA | {"model.num_layers": 3})))
    pair = {name: config.default() for name in "ab"}
    assert generator_differences(pair | {"b": config.override(config.default(), ELECTRA)}, "eval/macro_f1") is None


def test_fields_in_which_arms_differ_are_counted_and_named(run):
    changes = {"model.dtype": "bfloat16", "optimizer.ema_steps": 10, "model.norm.placement": "post"}
    (line,) = (line for line in caveats(run("a", {}), run("b", changes)) if " differs from " in line)
    named = line.partition(" in 3 fields: ")[2].split(", ")
    assert sorted(named) == sorted(changes)


@pytest.mark.parametrize("matched", [True, False], ids=["by matching", "as it follows"])
def test_a_width_that_matching_chose_is_a_difference_of_a_contrast(matched):
    experts = {"model.ffn.kind": "moe", "model.ffn.experts.balance_weight": 0.01}
    width = {"model.ffn.hidden_dim": 88}
    runs = [
        RunRecord(Path(name), name, 0, config.to_plain(config.resolve(config.override(config.default(), changes), 300)))
        for name, changes in (("dense", {}), ("experts", experts | width))
    ]
    arms = [Arm("dense", "dense", {}), Arm("experts", "experts", {}, experts | (width if matched else {}))]
    contrast = Contrast("c", Side("experts"), Side("dense"), "superiority", 0.0, "")
    lines = sweep_caveats(SweepResults(Path("."), "s", "eval/loss", arms, runs, [0], [contrast]))
    (line,) = (line for line in lines if " differs from " in line)
    named = set(line.partition(" fields: ")[2].split(", "))
    assert named == experts.keys() | (width.keys() if matched else set())


def test_equal_texts_under_other_names_are_no_caveat(run):
    record = {"fingerprint": "f", "tokenizer": {"fingerprint": "t"}}
    one = run("one", {"data.source": "text:data/a.txt"}, data=record)
    for name, source in (("two", "text:./data/a.txt"), ("three", "text:/data/a.txt.gz")):
        assert caveats(one, run(name, {"data.source": source, "seed": 1}, data=record)) == []
    cases = {
        "other content": ({}, record | {"fingerprint": "g"}),
        "another share": ({"data.validation_fraction": 0.2}, record),
        "no record": ({}, {"tokenizer": {"fingerprint": "t"}}),
    }
    for name, (changes, data) in cases.items():
        other = run(name, {"data.source": "text:./data/a.txt", **changes}, data=data)
        assert any("are scored on different texts" in line for line in caveats(one, other))
