"""Usage errors are reported in one line, whatever the subcommand of `zoo`."""

import pytest

from tests.cli.test_random_lines import parsers
from zoo.cli.main import SUBCOMMANDS, WHOLE_COMMANDS, main


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["ruh"], "unknown command 'ruh' (did you mean \"run\"?); zoo --help lists them"),
        (["status"], "the following arguments are required: DIR; see zoo status --help"),
        (["status", "a", "--jsn"], 'unknown argument --jsn (did you mean "--json"?); see zoo status --help'),
        (["status", "a", "b"], "unknown argument b; see zoo status --help"),
        (
            ["run", "--seeds", "x"],
            "argument --seeds: 'x' is neither a number of seeds nor a list like 0,1,5; see zoo run --help",
        ),
        (
            ["watch", "a", "--port", "1", "--terminal"],
            "argument --terminal: not allowed with argument --port; see zoo watch --help",
        ),
        (["results", "a", "--output"], "argument --output: expected one argument; see zoo results --help"),
        (["config", "sho"], '(did you mean "show"?); see zoo config --help'),
        (["draw", "atention", "x"], '(did you mean "attention"?); see zoo draw --help'),
        (
            ["draw", "attention", "x", "--layer", "0", "--out", "o"],
            'unknown argument --layer (did you mean "--layers"?); see zoo draw --help',
        ),
        (["report", "x" * 300], "File name too long"),
        (["train", "--config=configs/gpt2.py:smoke"], "arguments are required: --workdir; see train.py --help"),
        (["eval", "run", "--step=--"], "argument --step: -- is not a value; see eval.py --help"),
        (
            ["average", "a", "--out", "b", "--last", "9" * 5000],
            "is not a whole number of at most 10^12; see zoo average --help",
        ),
        (
            ["generate", "a", "--temperature=inf"],
            "argument --temperature: 'inf' is not a finite number; see zoo generate --help",
        ),
        (
            ["average", "a", "--out="],
            "argument --out: an empty path; the working directory is .; see zoo average --help",
        ),
        (["eval", "run", "--lengths", "0"], "'0' is not a list of lengths, e.g. 128,256; see eval.py --help"),
    ],
)
def test_usage_errors_are_reported_in_one_line(arguments, line, capsys):
    assert main(arguments) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert error.endswith(line)


@pytest.mark.parametrize("name", [name for name in SUBCOMMANDS if name not in WHOLE_COMMANDS])
def test_every_subcommand_has_help(name, capsys):
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert f"usage: zoo {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_no_command_reads_abbreviated_flags(name):
    for _, parser in parsers(name):
        for action in parser._actions:
            action.required = False
            if not action.option_strings:
                action.nargs, action.choices = "*", None
        # Every command has a --plugin or a --help, and none has these.
        assert parser.parse_known_args(["--hel", "--trust-plug"])[1] == ["--hel", "--trust-plug"]
