"""Random command lines, made from the flags of every command and from mistyped or hostile values."""

import contextlib
import importlib
import io
import random
import re
import socket
import sys
from collections.abc import Iterator

import pytest

from zoo.arguments import Parser
from zoo.cli import doctor
from zoo.cli.main import SUBCOMMANDS, WHOLE_COMMANDS, main
from zoo.errors import shortened
from zoo.lab.launch.workflow import SweepWorkflow
from zoo.lab.report import server

VALUES = (
    "--", "", "-", "-1", "0", "1", "2", "3.5", "1e999", "-1e999", "inf", "nan", "9" * 30, "9" * 5000, "é", "\udc80",
    "a" * 300, "{}", "[", "a,b", ",", "=", "x=1", "..", ".", "missing", "folder", "text.txt", "run", "sweep", "a/b",
    "text.txt/a", "1,2", "latest", "best", "\u2028", "a\nb", "~", "hf:missing", "elmo:folder", "fairseq:missing",
    "text:missing", "copy,length=9", "gpt2:tiny", "gpt2:tiny,model.dim=1e999", "gpt2:none", "llama:", ":", "svg", "rope",
    "model.dim=64", "model.norm.kind=layernorm,rmsnorm", "--config.model.dim=inf", "--config.seed=" + "9" * 5000,
    "--config.optimizer.learning_rate=nan", "--config.", "--noconfig.model.bias", "--config.model.dim", "--help=", "--plugin",
)  # fmt: skip
# Values that are a config, which these commands would load data of, compile or draw for seconds.
CONFIGS, SLOW = ("gpt2:tiny", "rope"), ("data", "draw", "plan")


def parsers(name: str) -> list[tuple[list[str], Parser]]:
    """The words of a command, or of each of its subcommands, and the parser of what follows."""
    module = importlib.import_module(SUBCOMMANDS[name][0])
    if name in WHOLE_COMMANDS:
        return [([name], module.parser())]
    parser = Parser(prog="zoo")
    module.add_parser(parser.add_subparsers())
    return [(words, each) for each in parser.commands() if (words := each.prog.split()[1:])[0] == name]


def random_line(random: random.Random, words: list[str], parser: Parser) -> list[str]:
    """A line with some of the parser's arguments, in any order, whose values are right by chance."""
    values = [value for value in VALUES if words[0] not in SLOW or value not in CONFIGS]
    flags = [action for action in parser._actions if action.option_strings and action.dest != "help"]
    line = [random.choice(values) for action in parser._actions if not action.option_strings and random.random() < 0.8]
    for action in random.sample(flags, min(len(flags), random.randint(0, 3))):
        flag = action.option_strings[-1]
        flag = flag[: random.randint(3, len(flag))] if random.random() < 0.1 else flag
        value = random.choice([*values, *(map(str, action.choices or ()))])
        added = [[flag, value], [f"{flag}={value}"], [flag]][
            random.choices((0, 1, 2), (4, 4, 1 + 20 * (action.nargs == 0)))[0]
        ]
        at = random.randint(0, len(line))
        line[at:at] = added
    return [*words, *line]


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    """A folder with broken records, without a network, and nothing trains, serves or measures."""

    def refuse(*arguments, **options):
        raise OSError(101, "Network is unreachable")

    for name in ("run", "sweep", "folder"):
        (tmp_path / name).mkdir()
    for name in ("config.json", "meta.json", "status.json"):
        (tmp_path / "run" / name).write_text('{"state": 1e999, "step": -1e999, "identity": [' + "9" * 400 + "]}")
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1e999}\n{"step": 3, "eval/loss": ' + "9" * 400 + "}\n")
    (tmp_path / "sweep" / "experiment.json").write_text('{"name": 1e999, "runs": [' + "9" * 400 + "]}")
    (tmp_path / "text.txt").write_text("a\nb\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(SweepWorkflow, "run", lambda *arguments: 0)
    monkeypatch.setattr(server.Server, "serve_forever", lambda server: None)
    monkeypatch.setattr(doctor, "_product_speed", lambda: 1.0)
    monkeypatch.setattr(
        doctor,
        "_step_speed",
        lambda: dict.fromkeys(("step_milliseconds", "tokens_per_second", "step_gflops", "page_faults"), 1.0),
    )
    monkeypatch.setitem(sys.modules, "zoo.training.trainer", type("Trainer", (), {"run": staticmethod(lambda *_: {})}))


def outcomes(lines: Iterator[list[str]]) -> Iterator[str]:
    """What is wrong with how each line ends."""
    for line in lines:
        output, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
            try:
                code = main(line)
            except SystemExit as end:
                code = end.code
            except BaseException as raised:
                yield f"{[shortened(word) for word in line]}: {type(raised).__name__}: {raised}"
                continue
        found = error.getvalue().splitlines()
        wrong = [
            each for each in found if not re.match(r"error: |note: |warning: |no sample", each) or len(each) > 4000
        ]
        if code not in (0, 2) or wrong or (code == 2 and not found and not output.getvalue()):
            yield f"{[shortened(word) for word in line]}: exit code {code}, {wrong or found}"


def lines_of(count: int, seed: int) -> Iterator[list[str]]:
    made, chance = [parsers(name) for name in SUBCOMMANDS], random.Random(seed)
    return (random_line(chance, *chance.choice(made[number % len(made)])) for number in range(count))


def check(count: int, seed: int) -> None:
    wrong = list(outcomes(lines_of(count, seed)))
    assert not wrong, f"{len(wrong)} lines:\n" + "\n".join(each[:600] for each in wrong[:20])


def test_a_command_line_ends_with_0_or_2_and_one_line_for_each_problem(sandbox):
    check(100, seed=0)


@pytest.mark.slow(reason="as above, with 5,000 lines")
def test_5000_command_lines(sandbox):
    check(5000, seed=1)
