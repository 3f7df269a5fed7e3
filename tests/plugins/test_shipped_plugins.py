"""Plug-ins that come with zoo: found by name, trusted, and no part of the runs that they read."""

import dataclasses
import runpy
import sys

import pytest

from tests.lab.conftest import SweepWriter
from tests.plugins.plugin_files import MEASURED
from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.analysis.run_measures import measure_run
from zoo.cli.draw import _meanings
from zoo.config import plugins
from zoo.config.shipped import DRAWINGS, EXPERIMENTS, MEASURES, shipped_folder, shipped_names, shipped_plugin
from zoo.draw.drawing import DRAWINGS as LOADED_DRAWINGS
from zoo.errors import ConfigError
from zoo.files import read_json, write_json
from zoo.lab import measures
from zoo.lab.experiment import load_experiment
from zoo.lab.measures import compute_missing_measures, find_measure, known_measures
from zoo.lab.metrics import known_metrics
from zoo.lab.results.sweep_results import load_sweep
from zoo.plugin.drawing_registration import DrawingRegistration
from zoo.plugin.registrations import MetricRegistration


def names():
    return [(kind, name) for kind in (MEASURES, DRAWINGS) for name in shipped_names(kind)]


def test_measures_and_drawings_are_found():
    assert {name for kind, name in names() if kind == MEASURES} == {
        "code_gap",
        "longer_parity",
        "offset_gap",
        "position_locality",
    }
    assert {name for kind, name in names() if kind == DRAWINGS} >= {"contextuality", "neighbours", "shift"}
    # They are no experiments.
    assert not {name for _, name in names()} & set(shipped_names(EXPERIMENTS))
    for name in ("", "../heads", "measures/offset_gap", "nothing"):
        assert shipped_plugin(MEASURES, name) is None


@pytest.mark.parametrize(("kind", "name"), names())
def test_every_file_registers_what_reads_runs_under_its_own_name(kind, name):
    meaning = _meanings().get(name)
    plugins.load_shipped(kind, name)
    (plugin,) = plugins.loaded()
    assert plugin.shipped
    assert [entry.name for entry in plugin.registrations] == [name]
    expected = MetricRegistration if kind == MEASURES else DrawingRegistration
    assert all(isinstance(entry, expected) for entry in plugin.registrations)
    if kind == DRAWINGS:
        # The help says the same before and after it is loaded.
        assert _meanings()[name] == meaning == LOADED_DRAWINGS[name].meaning


def test_configs_and_identities_do_not_depend_on_them():
    before = configs.identity(configs.resolve(small()))
    plugins.load_shipped(MEASURES, "offset_gap")
    plugins.load_shipped(DRAWINGS, "shift")
    assert len(plugins.loaded()) == 2
    assert plugins.references() == ()
    assert configs.default().plugins == configs.load_with_plugins("gpt2:tiny").plugins == ()
    assert configs.identity(configs.resolve(small())) == before


def test_an_experiment_finds_the_measure_that_it_names():
    assert "position_locality" not in measures.MEASURES
    assert "measured/position_locality" in known_metrics()
    experiment = load_experiment("position_vectors:tiny")
    assert [plugin.name for plugin in plugins.loaded()] == ["position_locality.py"]
    assert configs.resolve(experiment.base).plugins == ()


def test_names_are_suggested_before_the_plugin_is_loaded():
    experiment = load_experiment("heads")
    with pytest.raises(ConfigError, match=r'did you mean "measured/offset_gap"'):
        dataclasses.replace(experiment, metric="measured/offset_gapp")
    with pytest.raises(ConfigError, match=r'measures: .offset_gab. is not one of .*did you mean "offset_gap"'):
        dataclasses.replace(experiment, measures=("offset_gab",))
    assert plugins.loaded() == ()
    assert set(known_measures()) >= {"spikes", "offset_gap"}


def sweep_record(metric, name, **more):
    return {
        "name": "x",
        "metric": metric,
        "measures": [name],
        "arms": [{"name": "a"}],
        "runs": [{"folder": "a-seed0", "arm": "a", "seed": 0}],
        "seeds": [0],
        "contrasts": [],
    } | more


def test_sweeps_of_any_age_find_their_measure(tmp_path):
    """A record that names no plug-in, as where the measure was still built in."""
    write_json(tmp_path / "experiment.json", sweep_record("measured/code_gap", "code_gap", runs=[]))
    sweep = load_sweep(tmp_path)
    assert sweep.measures == ["code_gap"]
    assert sweep.unit(sweep.metric) == " nats"


def test_a_measured_run_keeps_the_text_that_measured_it(tmp_path):
    run = untrained(tmp_path / "run", small(model__position__kind="learned", data__sequence_length=16))
    measure_run(run, ["position_locality"])
    (plugin,) = plugins.loaded()
    assert (run / "plugins" / plugin.name).read_text() == plugin.text
    assert read_json(run / "measured.json")["position_locality"]["plugin"] == plugin.reference


def test_the_text_that_a_run_was_trained_with_stays(tmp_path):
    (tmp_path / "mine.py").write_text(MEASURED)
    plugin = plugins.load_plugin(tmp_path / "mine.py")
    trained = {"training": {"start_from": ""}, "plugins": ["mine.py:0123456789abcdef"]}
    run = SweepWriter(tmp_path).run("run", config=trained)
    stored(run, "mine.py", "# another text")
    measure_run(run, ["always_the_same"])
    assert (run / "plugins" / "mine.py").read_text() == "# another text"
    assert read_json(run / "measured.json")["always_the_same"]["plugin"] == plugin.reference


def stored(folder, name, text):
    plugin = plugins.Plugin(name, text, folder / "plugins" / name)
    (folder / "plugins").mkdir(exist_ok=True)
    (folder / "plugins" / name).write_text(text)
    return [plugin.reference]


def test_only_unchanged_texts_are_trusted(tmp_path):
    text = (shipped_folder(MEASURES) / "offset_gap.py").read_text()
    for name, changed in (("offset_gap.py", text + "# changed\n"), ("other.py", text)):
        with pytest.raises(ConfigError, match="read it, then add --trust-plugin"):
            plugins.load_stored(tmp_path, stored(tmp_path, name, changed))
    assert plugins.loaded() == ()
    plugins.load_stored(tmp_path, stored(tmp_path, "offset_gap.py", text))
    assert find_measure("offset_gap").unit == "nats"


def test_a_file_of_the_same_name_replaces_one(tmp_path):
    (tmp_path / "offset_gap.py").write_text(MEASURED.replace("always_the_same", "offset_gap"))
    named = plugins.load_plugin(tmp_path / "offset_gap.py")
    assert find_measure("offset_gap").definition == "2.5"
    # As a plug-in of the user it belongs to the configs of new runs.
    assert plugins.references() == (named.reference,)


def test_names_of_shipped_plugins_cannot_be_taken_by_other_files(tmp_path):
    (tmp_path / "mine.py").write_text(MEASURED.replace("always_the_same", "offset_gap"))
    with pytest.raises(ConfigError, match=r"mine.py: measure offset_gap exists already; choose another name"):
        plugins.load_plugin(tmp_path / "mine.py")
    (tmp_path / "offset_gap.py").write_text(MEASURED)
    plugins.load_plugin(tmp_path / "offset_gap.py")
    with pytest.raises(ConfigError, match=r"has another text than .*offset_gap.py, which is loaded"):
        find_measure("offset_gap")


# The module that is executed has been imported under its own name too.
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_the_process_that_measures_computes_measures_of_plugins(tmp_path, monkeypatch):
    """Whether or not the process that starts it has loaded the plug-in of the sweep."""
    (tmp_path / "mine.py").write_text(MEASURED)
    plugin = plugins.load_plugin(tmp_path / "mine.py")
    sweep = SweepWriter(tmp_path / "sweep").run("a-seed0", config={"training": {"start_from": ""}}).parent
    plugins.store(sweep, [plugin.reference])
    name = "always_the_same"
    write_json(sweep / "experiment.json", sweep_record(f"measured/{name}", name, plugins=[plugin.reference]))
    plugins.unload(plugin)

    def in_this_process(command, **options):
        monkeypatch.setattr(sys, "argv", command[2:])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(command[2], run_name="__main__")
        return type("Finished", (), {"returncode": end.value.code, "stderr": ""})

    monkeypatch.setattr(measures.subprocess, "run", in_this_process)
    said = []
    compute_missing_measures(sweep, said.append)
    assert said == [f"measuring {name} of 1 runs ..."]
    assert load_sweep(sweep).run("a", 0).final(f"measured/{name}") == 2.5
