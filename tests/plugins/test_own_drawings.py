"""Figures of `zoo draw` that a user registers."""

import json

import pytest
from matplotlib.image import imread

from zoo.cli.main import main
from zoo.config import plugins
from zoo.draw.drawing import short_name
from zoo.errors import ConfigError

SQUARES = """
from matplotlib.figure import Figure

from zoo import plugin


def add_options(parser):
    parser.add_argument("name", metavar="NAME", help="its title")
    parser.add_argument("--side", type=int, default=3, help="of the square")


def draw(args):
    page = Figure()
    page.subplots().plot(range(args.side), [n**2 for n in range(args.side)])
    page.suptitle(args.name)
    return RETURNED


plugin.register_drawing("squares", plugin.Drawing("square numbers", draw, add_options))
"""


@pytest.fixture
def draw(tmp_path):
    """Draws the figure of a plug-in; returns the exit code."""

    def run(*arguments, returned="page", text=SQUARES):
        (tmp_path / "mine.py").write_text(text.replace("RETURNED", returned))
        return main(["draw", "squares", *arguments, "--plugin", str(tmp_path / "mine.py")])

    return run


def test_a_figure_has_its_own_options_and_those_of_all_figures(draw, tmp_path, capsys):
    out = tmp_path / "out"
    assert draw("a title", "--side", "9", "--out", str(out), "--format", "png,svg", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [str(out / f"squares.{kind}") for kind in ("png", "svg")]
    assert imread(out / "squares.png")[..., :3].std() > 0.01
    assert "a title" in (out / "squares.svg").read_text()


def test_help_shows_its_options(draw, capsys):
    with pytest.raises(SystemExit):
        draw("--help")
    out = capsys.readouterr().out
    assert "Draws square numbers." in out
    assert all(option in out for option in ("NAME", "--side", "--out", "--plugin"))


def test_several_figures_have_names_of_their_own(draw, tmp_path, capsys):
    assert draw("x", "--out", str(tmp_path), "--format", "png", returned='{"a": page, "b": page}') == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / f"squares-{name}.png") for name in "ab"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "the following arguments are required: NAME; see zoo draw squares --help"),
        (("x", "--sides", "3"), 'unknown argument --sides (did you mean "--side"?); see zoo draw --help'),
        (("x", "--format", "gif"), "--format gif: figures are written as png, svg or pdf"),
    ],
)
def test_bad_arguments_are_reported_in_one_line(draw, capsys, arguments, line):
    assert draw(*arguments) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert line in error


@pytest.mark.parametrize("returned", ["None", "{'a': 3}", "page.axes"])
def test_a_drawing_that_returns_no_figure_is_reported(draw, tmp_path, capsys, returned):
    assert draw("x", "--out", str(tmp_path / "out"), returned=returned) == 2
    assert "drawing squares returned" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"squares"', '"Squares"', "drawing Squares: a name consists of lower-case letters, digits and _"),
        ('"squares"', '"attention"', "drawing attention exists already; choose another name"),
        ('"squares"', '"shift"', "drawing shift exists already; choose another name"),
        ('"square numbers"', '""', "drawing squares: its meaning is empty"),
        ('plugin.Drawing("square numbers", draw, add_options)', "draw", "drawing squares: expected a Drawing, got"),
        ("draw, add_options)", "3, add_options)", "drawing squares: draw is not a function but 3"),
        ('"--side"', '"--out"', "drawing squares: its options cannot be added: argument --out: conflicting option"),
    ],
)
def test_invalid_drawings_are_rejected(tmp_path, old, new, line):
    assert old in SQUARES
    (tmp_path / "mine.py").write_text(SQUARES.replace(old, new))
    with pytest.raises(ConfigError, match=line):
        plugins.load_plugin(tmp_path / "mine.py")
    assert plugins.loaded() == ()


def test_help_lists_figures_without_loading_them(capsys):
    with pytest.raises(SystemExit):
        main(["draw", "--help"])
    out = " ".join(capsys.readouterr().out.split())
    assert "neighbours the nearest tokens in the input table of a run" in out
    assert plugins.loaded() == ()
    with pytest.raises(SystemExit):
        main(["draw", "neighbours", "--help"])
    assert "--count" in capsys.readouterr().out
    assert [plugin.name for plugin in plugins.loaded()] == ["neighbours.py"]


def test_a_misspelt_figure_is_suggested(capsys):
    assert main(["draw", "neigbours", "x"]) == 2
    assert '(did you mean "neighbours"?)' in capsys.readouterr().err


def test_short_names_of_configs_are_parts_of_file_names():
    assert short_name("configs/llama.py:7b") == "llama-7b"
    assert short_name("runs/a run/config.json") == "a-run"
