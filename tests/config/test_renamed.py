"""The old name of a renamed field is refused with the new one in every source of configs."""

import json

import pytest

from zoo import config as configs
from zoo.config.fields.renamed import RENAMED
from zoo.errors import ConfigError
from zoo.lab.experiment import Experiment
from zoo.nested import flatten, unflatten

RENAMED_IN_SCOPES = [*RENAMED.items()] + [
    (f"{scope}{old.removeprefix('model')}", f"{scope}{new.removeprefix('model')}")
    for old, new in RENAMED.items()
    if "position" in old or "attention" in old
    for scope in ("model.decoder", "model.layers.kinds.local")
]


@pytest.mark.parametrize(("old", "new"), RENAMED_IN_SCOPES)
def test_an_old_name_is_refused_with_the_new_one(old, new, tmp_path):
    line = f"unknown field {old}: it is now called {new}"
    folder = tmp_path / "run"
    folder.mkdir()
    stored = flatten(configs.to_plain(configs.resolve(configs.default()))) | {old: "x"}
    (folder / "config.json").write_text(json.dumps(unflatten(stored)))
    experiment = {"name": "x", "question": "?", "base": configs.default(), "factors": {"a": {"b": {old: 1}}}}
    for call in (
        lambda: configs.override(configs.default(), configs.parse_overrides([f"--config.{old}=1"])),
        lambda: configs.resolve(unflatten({old: 1})),
        lambda: configs.load(str(folder)),
        lambda: Experiment(**experiment),
    ):
        with pytest.raises(ConfigError) as caught:
            call()
        assert any(problem.endswith(line) for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_name_in_a_config_file_is_refused_with_the_new_one(old, new, tmp_path):
    parent, _, name = old.rpartition(".")
    file = tmp_path / "old.py"
    for line in (f"c.{parent}.{name} = 1", f"c.{parent}['{name}'] = 1", f"c.{parent}['{name}']"):
        file.write_text(
            f"from zoo.config import default\ndef get_config():\n    c = default()\n    {line}\n    return c\n"
        )
        with pytest.raises(ConfigError, match=f"{old} is now called {new}"):
            configs.load(str(file))


def test_a_renamed_field_stored_at_its_default_is_ignored(tmp_path):
    plain = flatten(configs.to_plain(configs.resolve(configs.default())))
    for value in (0, 4):
        (tmp_path / "config.json").write_text(json.dumps(unflatten(plain | {"optimizer.muon_warmup": value})))
        if value:
            with pytest.raises(ConfigError, match=r"it is now called optimizer\.momentum_warmup"):
                configs.load(str(tmp_path))
        else:
            assert configs.resolve(configs.load(str(tmp_path))) == configs.resolve(configs.default())


def test_only_the_new_names_are_fields():
    assert set(RENAMED.values()) <= set(configs.BY_PATH)
    assert not set(RENAMED) & set(configs.BY_PATH)
