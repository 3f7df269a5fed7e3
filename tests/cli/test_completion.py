"""Scripts of `zoo completion` complete commands, flags, choices and fields in a real shell."""

import shutil
import subprocess
import sys

import pytest

from zoo.cli.main import main

LINES = {
    "zoo tr": ["train"],
    "zoo config s": ["show", "sizes", "schema"],
    "zoo run --see": ["--seeds"],
    "zoo train --config.model.norm.k": ["--config.model.norm.kind"],
    "zoo run --config.model.norm.kind rm": ["rmsnorm"],
    "zoo eval --len": ["--lengths"],
}


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_flags_choices_and_fields(capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    (tmp_path / "zoo.bash").write_text(capsys.readouterr().out)
    calls = [
        f'COMP_WORDS=({line}); COMP_CWORD={len(line.split()) - 1}; COMPREPLY=(); _shtab_zoo; echo "${{COMPREPLY[@]}}"'
        for line in LINES
    ]
    script = "\n".join([f"source {tmp_path / 'zoo.bash'}", *calls])
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert [line.split() for line in done.stdout.splitlines()] == list(LINES.values())


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_get_a_script_with_the_commands(shell, capsys):
    assert main(["completion", shell]) == 0
    assert "population" in (script := capsys.readouterr().out)
    assert "zoo" in script


def test_without_shtab_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("which is missing: pip install shtab")
