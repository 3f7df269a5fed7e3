"""Config files, their arguments, command-line overrides, and the shipped configs."""

import os
from pathlib import Path

import pytest

from zoo import config as configs
from zoo.arguments import Parser
from zoo.errors import ConfigError
from zoo.nested import flatten

ROOT = Path(__file__).parents[2]
# configs/distill.py needs the run of a teacher.
SHIPPED = sorted(path for path in (ROOT / "configs").glob("*.py") if path.stem != "distill")


def test_command_line_overrides_are_parsed():
    assert configs.parse_overrides(["--config.a.b=1", "--config.c", "2", "--noconfig.d"]) == {
        "a.b": "1",
        "c": "2",
        "d": "false",
    }
    with pytest.raises(ConfigError) as caught:
        configs.parse_overrides(["--confg.model.dim=1", "stray", "--config.x"])
    assert [line.split()[0] for line in caught.value.problems] == ["unknown", "unknown", "--config.x"]
    assert "model.dim" in caught.value.problems[0]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", ["", ":tiny", ":smoke", ":tiny,model.dropout=0.1,seed=3"])
def test_every_shipped_config_resolves(path, size):
    resolved = configs.resolve(configs.load(f"{path}{size}"))
    assert resolved.seed == (3 if "seed" in size else 0)
    assert path.read_text().startswith('"""')


def test_missing_and_broken_files_are_refused_in_one_line(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("def get_config(:\n")
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    typo = tmp_path / "typo.py"
    typo.write_text(
        "from zoo.config import default\ndef get_config():\n    c = default()\n    c.model.dimm = 3\n    return c\n"
    )
    exits = tmp_path / "exits.py"
    exits.write_text("import sys\ndef get_config():\n    sys.exit(3)\n")
    exits_on_import = tmp_path / "exits_on_import.py"
    exits_on_import.write_text("import sys\nsys.exit(3)\n")
    not_json = tmp_path / "config.json"
    not_json.write_text("{")
    unknown = tmp_path / "unknown.json"
    unknown.write_text('{"model": {"nrm": {"kind": [[1]]}}}')
    (tmp_path / "folder.py").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "link.py").symlink_to("nothing")
    for spec, words in [
        (tmp_path / "brokn.py", ["does not exist", 'did you mean "broken.py"']),
        (tmp_path / "folder.py", ["folder.py is a folder, not a file"]),
        (tmp_path / "pipe.json", ["pipe.json is not a regular file"]),
        (tmp_path / "link.py", ["link.py is a link to a file that does not exist"]),
        (broken, ["fails on import", "SyntaxError"]),
        (empty, ["no function get_config"]),
        (typo, ["dimm", '"dim"']),
        (f"{typo}:tiny", ["takes no argument"]),
        (exits, ["exits.py", "line 3", "fails: SystemExit: 3"]),
        (exits_on_import, ["fails on import: SystemExit: 3"]),
        (not_json, ["is not a config"]),
        (unknown, ["unknown field model.nrm.kind", "model.norm.kind"]),
        (ROOT / "README.md", ["README.md is not a Python (.py) file"]),
        (ROOT / "configs" / "llama.py:8b", ["'8b'", "7b"]),
        (ROOT / "configs" / "llama.py:tiny,dim", ["'dim' is not field=value"]),
        (ROOT / "configs" / "llama.py:tiny,model.dimm=3", ["model.dimm", "model.dim"]),
    ]:
        with pytest.raises(ConfigError) as caught:
            configs.load(str(spec))
        assert len(caught.value.problems) == 1
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_config_that_sets_a_few_fields_has_the_defaults_of_the_others(tmp_path):
    path = tmp_path / "few.py"
    text = (
        "from ml_collections import ConfigDict\ndef get_config():\n    c = ConfigDict()\n    c.model = ConfigDict()\n"
        "    c.model.FIELD = 64\n    return c\n"
    )
    path.write_text(text.replace("FIELD", "dim"))
    expected = configs.override(configs.default(), {"model.dim": 64})
    assert configs.load_with_plugins(str(path)).to_dict() == expected.to_dict()
    path.write_text(text.replace("FIELD", "dimm"))
    with pytest.raises(ConfigError, match=r"unknown field model\.dimm"):
        configs.load(str(path))


def test_paths_of_fields_may_begin_at_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    changes = {"data.tokenizer.kind": "file", "data.tokenizer.path": "~/tok", "training.start_from": "~/runs/a/"}
    found = configs.resolve(configs.override(configs.default(), changes))
    assert (found.data.tokenizer.path, found.training.start_from) == (f"{tmp_path}/tok", f"{tmp_path}/runs/a")
    with pytest.raises(ConfigError, match=r'^training\.start_from="~nobody-here/a": there is no home folder'):
        configs.resolve(configs.override(configs.default(), {"training.start_from": "~nobody-here/a"}))
    (tmp_path / "mine.py").write_text(
        "from zoo.config import default\ndef get_config(size=None):\n    return default()\n"
    )
    for spec in ("~/mine.py", "~/mine.py:tiny"):
        assert configs.load(spec).to_dict() == configs.default().to_dict()
    # What a shell leaves as it is.
    options = Parser()
    options.add_argument("--workdir", type=Path)
    assert options.parse_args(["--workdir=~/zz"]).workdir == tmp_path / "zz"


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("(en, de)", ("en", "de")),
        ("[en,de]", ("en", "de")),
        ("en,de (old)", ("en", "de (old)")),
        ("(a),(b)", ("(a)", "(b)")),
        ("a,part[01]", ("a", "part[01]")),
    ],
)
def test_brackets_around_a_list_are_no_part_of_its_items(text, items):
    assert configs.parse_value(configs.field_at("data.labels"), text) == items


def test_a_run_folder_is_a_config(tmp_path):
    resolved = configs.resolve(configs.load(str(ROOT / "configs" / "llama.py:tiny")))
    from zoo.files import write_json

    write_json(tmp_path / "config.json", configs.to_plain(resolved))
    assert configs.resolve(configs.load(str(tmp_path))) == resolved
    assert configs.resolve(configs.load(str(tmp_path / "config.json"))) == resolved


def test_shrinking_keeps_the_choices_of_a_variant():
    tiny = configs.resolve(configs.load(str(ROOT / "configs" / "llama.py:tiny")))
    full = configs.resolve(configs.load(str(ROOT / "configs" / "llama.py:v2-70b")))
    for path, field in configs.BY_PATH.items():
        if field.choices and path.startswith("model.") and path not in ("model.dtype", "model.remat"):
            assert flatten(tiny)[path] == flatten(full)[path], path
    shrunk = configs.resolve(configs.shrink(configs.load(str(ROOT / "configs" / "llama.py:v2-70b")), "tiny"))
    assert (shrunk.model.attention.num_heads, shrunk.model.attention.num_kv_heads) == (4, 2)
