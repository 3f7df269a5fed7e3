"""One dry run reports all problems of a comparison, whichever stage of the planning finds them."""

from pathlib import Path

BASE = """from zoo import config


def get_config():
    return config.override(config.default(), {{
        "model.architecture": "encoder", "objective.kind": "classification", "data.source": "csv:a.csv",
        "data.sequence_length": 16, "data.batch_size": 4, "training.steps": 20, {more}
    }})
"""


def dry_run(command_line, more, *arguments):
    Path("base.py").write_text(BASE.format(more=more))
    code, out, err = command_line("run", "--config=base.py", *arguments, "--seeds=2", "--dry-run")
    assert (code, out) == (2, "")
    return err.splitlines()


def test_fields_differences_runs_and_data_are_refused_together(command_line):
    Path("a.csv").write_text("a moving film,1\nso dull a film,0\n" * 40)
    arms = ("--arm=a=training.eval_batches=1", "--arm=b=schedule.warmup_steps=99", "--arm=c=data.sequence_length=8",
            "--arm=d=model.position.max_length=4")  # fmt: skip
    lines = dry_run(command_line, "", *arms, "--metric=eval/next_accuracy")
    for words in (
        "schedule.warmup_steps=99 is longer than training.steps=20",
        "model.position.max_length=4 is shorter than",
        "no metric eval/next_accuracy",
        "set data.header=false",
        "by up to 100.0%",
    ):
        assert sum(words in line for line in lines) >= 1, (words, lines)
    assert sum("set data.header=false" in line for line in lines) == 1


def test_a_run_to_start_from_and_the_data_are_refused_together(command_line):
    Path("a.csv").write_text("a moving film,1\nso dull a film,0\n" * 40)
    lines = dry_run(command_line, '"training.start_from": "gone"', "--vary=optimizer.learning_rate=1e-3,1e-2")
    assert any("training.start_from=gone is not a run" in line for line in lines)
    assert any("set data.header=false" in line for line in lines)
