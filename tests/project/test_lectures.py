"""The pages from lectures to commands: what they have one type runs, and what they link to exists."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.pages import anchors
from zoo import config as configs
from zoo.cli.main import main

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "lectures"
ERRORS = ROOT / "docs" / "errors_of_the_sources.md"
# By page, its document as errors_of_the_sources.md names it.
DOCUMENTS = {
    "llama_part_1": r"the walk-through of LLaMA(?!, part 2)",
    "llama_part_2": r"the walk-through of LLaMA(?!, part 1)",
    "course_slides": r"the course's slides",
    "rotary_post": r"the post on rotary embeddings",
    "transformer_models": r"the lecture",
}
TEXTS = {name: (FOLDER / f"{name}.md").read_text(encoding="utf-8") for name in DOCUMENTS}


def commands(text):
    return [tuple(shlex.split(line)) for line in re.findall(r"^    zoo (.+)$", text, re.MULTILINE)]


# A run that several pages make is made once.
COMMANDS = list(dict.fromkeys(command for text in TEXTS.values() for command in commands(text)))
LESS = ("training.steps=4", "training.eval_every=0", "training.checkpoint_every=2", "schedule.warmup_steps=2")
SHALLOW = ("model.dim=16", "model.attention.head_dim=4", "model.num_layers=1")


def is_light(command):
    """Whether a command reads no run, and makes neither a model nor a tokenizer nor rows."""
    reads_text = command[:2] == ("data", "show") and command[2].endswith(":tiny") and "--text" in command
    return reads_text or command[0] in ("describe", "config")


def shortened(command):
    """A command as the test runs it: with four updates of small models, and figures as SVG alone."""
    if command[0] == "draw":
        return [*command, "--format", "svg"]
    if command[0] != "train":
        return list(command)
    # BERT is a teacher, whose student has half of its layers; what starts from it has its widths.
    smaller = () if "from=" in command[1] else SHALLOW[:2] if "bert" in command[1] else SHALLOW
    # A task is scored on every example.
    scored = () if "classification" in command[1] else ("training.eval_batches=1",)
    return [*command, *(f"--config.{change}" for change in (*LESS, *scored, *smaller))]


def test_every_page_has_commands_and_is_in_the_index():
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert {path.stem for path in FOLDER.glob("*.md")} == {"README", *DOCUMENTS}
    for name, text in TEXTS.items():
        assert f"({name}.md)" in index
        assert len(commands(text)) > 10
        for section in text.split("\n## ")[1:]:
            assert commands(section), section


@pytest.mark.parametrize("name", TEXTS)
def test_a_page_makes_its_runs_before_it_uses_them(name):
    made = set()
    for command in commands(TEXTS[name]):
        used = {word for word in re.findall(r"runs/\w+", " ".join(command)) if f"--workdir={word}" not in command}
        assert used <= made, command
        made |= {word.partition("=")[2] for word in command if word.startswith("--workdir=")}


@pytest.mark.parametrize("name", ["README", *TEXTS])
def test_links_lead_to_pages_and_anchors_that_exist(name):
    page = FOLDER / f"{name}.md"
    links = re.findall(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        assert (target := FOLDER / path).is_file(), link
        assert not anchor or anchor in anchors(target), link


def test_every_error_of_a_document_is_on_its_page():
    entries = re.findall(r'^<a id="(.+)"></a>\n(\*\*(?:.+\n)+)', ERRORS.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(entries) == ERRORS.read_text(encoding="utf-8").count("*Said in*:")
    for anchor, entry in entries:
        said = re.search(r"\*Said in\*: (.+?)\. \*Shown by\*", " ".join(entry.split()))[1]
        linked = {name for name, text in TEXTS.items() if f"errors_of_the_sources.md#{anchor})" in text}
        assert linked, anchor
        assert {name for name, document in DOCUMENTS.items() if re.search(document, said)} <= linked, anchor


def test_light_commands_run(capsys):
    light = [command for command in COMMANDS if is_light(command)]
    assert len(light) > 20
    for command in light:
        assert main(command) == 0, command
        assert len(capsys.readouterr().out) > 40, command


def test_configs_of_the_other_commands_load():
    """The heavy commands themselves run below, in the group of tests that train."""
    for command in COMMANDS:
        for word in command:
            name = word.removeprefix("--config=")
            if re.match(r"[a-z0-9]+:[a-z0-9_.=,-]+$", name) and command[0] in ("train", "draw"):
                configs.resolve(configs.load(name))


@pytest.mark.promise(reason="the commands of pages train runs and draw figures")
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("small_library")
def test_heavy_commands_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    for command in COMMANDS:
        if is_light(command):
            continue
        assert main(shortened(command)) == 0, command
        out = capsys.readouterr().out
        # A model that has learned nothing may write spaces.
        assert out, command
        if command[0] == "draw":
            assert all((tmp_path / line).stat().st_size > 1000 for line in out.split()), command
        if "--dry-run" in command:
            assert "runs would be trained" in out, command
    assert (tmp_path / "runs" / "student" / "status.json").exists()
