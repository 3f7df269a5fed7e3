"""An attention plug-in with a cache, a loss term, a statistic and a parameter group works in every way
that a built-in one does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fields.every_field import resolve as resolve_with_data
from tests.plugins.plugin_files import unloading
from tests.support.building import call, close, random_statistics, random_values, tiny, with_values
from tests.support.config_fingerprint import differ
from tests.support.small_runs import curves, lines, small, stop_requested_at
from zoo import config as configs
from zoo.checks import PROPERTIES, Subject, cached_decoding
from zoo.cli.main import main
from zoo.config import plugins
from zoo.config.kinds import ATTENTION_KINDS
from zoo.errors import ConfigError, Preempted
from zoo.files import read_json
from zoo.layers.attention import make_attention
from zoo.layers.context import Context
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.parameter_groups import group_sizes
from zoo.training.trainer import run

FILE = Path(__file__).with_name("retention.py")
KIND = {"model.attention.kind": "retention"}
RUN = {
    "model__attention__kind": "retention",
    "model__attention__retained_weight": 0.3,
    "model__num_layers": 2,
    "model__position__kind": "rope",
    "optimizer__groups": ("decays",),
    "optimizer__group__decays__select": "path:*/decay",
    "optimizer__group__decays__rate_factor": 0.1,
    "training__steps": 6,
}


@pytest.fixture(autouse=True, scope="module")
def retention(tmp_path_factory):
    """Loads the plug-in for all tests of this module."""
    with pytest.MonkeyPatch.context() as patch, unloading():
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        plugins.load_plugin(FILE)
        yield


def quiet(line):
    del line


def test_retention_matches_its_recurrence():
    layer = make_attention(tiny(KIND | {"model.position.kind": "none"}).model)
    values, x = random_values(layer, 1), np.random.default_rng(2).standard_normal((2, 7, 16)).astype(np.float32)
    positions = np.array([[0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, -1, -1, -1]])
    stats = random_statistics(layer, 3)
    out = call(lambda x: with_values(layer, values, stats)(x, Context(positions, in_order=True)), x)
    projected = {
        name: np.float64(x) @ np.float64(values[name]["kernel"]) + np.float64(values[name]["bias"])
        for name in ("query", "key", "value")
    }
    q, k, v = (projected[name].reshape(2, 7, 4, 4) for name in ("query", "key", "value"))
    decay = 1 / (1 + np.exp(-np.float64(values["decay"])))
    for row in range(2):
        state = np.zeros((4, 4, 4))
        for t in np.flatnonzero(positions[row] >= 0):
            state = decay[:, None, None] * state + np.einsum("hk,hv->hkv", k[row, t], v[row, t])
            y = np.einsum("hk,hkv->hv", q[row, t], state) / np.sqrt(stats["variance"])[:, None]
            close(
                out[row, t],
                y.reshape(-1) / 2 @ np.float64(values["output"]["kernel"]) + np.float64(values["output"]["bias"]),
            )


@pytest.mark.parametrize("scanned", [False, True])
def test_decoding_with_the_retention_cache(scanned):
    subject = Subject.of(
        ATTENTION_KINDS.by_name["retention"], {"model.position.kind": "rope", "model.scan_layers": scanned}
    )
    assert "prompts of 3, 9, 1 tokens" in cached_decoding.cache(subject)
    assert "continued as by a beam search" in cached_decoding.beams(subject)


def test_parameter_counts_and_group_of_retention():
    resolved = configs.resolve(small(**RUN, model__vocab_size=257))
    softmax = configs.resolve(small(model__num_layers=2, model__position__kind="rope", model__vocab_size=257))
    heads = resolved.model.attention.num_heads
    assert cost.summary(resolved).parameters["total"] == cost.summary(softmax).parameters["total"] + 2 * heads
    assert group_sizes(resolved)["decays"] == 2 * heads


@pytest.mark.parametrize(
    ("path", "value"), [("model.attention.retained_weight", 0.5), ("model.attention.mean_kept", 0.5)]
)
def test_retention_fields_have_an_effect_or_are_rejected(path, value):
    one, other = (
        resolve_with_data(KIND | {"model.position.kind": "rope", path: value}) for value in (value, value / 2)
    )
    zero = resolve_with_data(KIND | {"model.position.kind": "rope", path: 0.0})
    assert differ(one, zero)
    assert configs.is_traced(path) or differ(one, other)
    with pytest.raises(
        ConfigError, match=f"{path}=.* has no effect: it is read only when model.attention.kind is reten"
    ):
        configs.resolve(small(**{path.replace(".", "__"): value}))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model__architecture": "encoder", "objective__kind": "masked"}, "it needs model.architecture=decoder"),
        ({"data__isolate_documents": True}, "set data.isolate_documents=false"),
        ({"model__attention__num_kv_heads": 2}, "leave out model.attention.num_kv_heads"),
        ({"model__attention__window": 4}, r"model.attention.window=4"),
        ({"model__attention__sinks": True}, r"model.attention.sinks=True"),
        ({"model__attention__dropout": 0.1}, r"model.attention.dropout=0.1"),
    ],
)
def test_incompatible_settings_are_rejected_with_retention(changes, line):
    with pytest.raises(ConfigError, match=line):
        configs.resolve(small(**{"model__attention__kind": "retention", **changes}))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the folder of a run with the settings `RUN`."""
    folder = tmp_path_factory.mktemp("retention") / "run"
    run(small(**RUN), folder, quiet)
    return folder


def test_the_loss_term_of_retention_is_logged_separately(trained):
    for prefix in ("train", "eval"):
        results = [line for line in lines(trained) if f"{prefix}/retained" in line]
        assert results
        assert all(line[f"{prefix}/retained"] > 0 for line in results)
    assert (trained / "plugins" / "retention.py").read_text() == FILE.read_text()


def test_training_updates_the_statistic_and_scales_the_rate_of_the_group(trained):
    from zoo.training.trained_run import load_trained, trained_and_initial

    after, before = (
        {kind: tree["stack"]["layers"]["attention"] for kind, tree in zip(("params", "stats"), both, strict=True)}
        for both in trained_and_initial(load_trained(trained)).values()
    )
    assert np.abs(after["stats"]["variance"] - before["stats"]["variance"]).max() > 0.01
    change = np.abs(after["params"]["decay"] - before["params"]["decay"]).max()
    # Adam changes a parameter by about its learning rate per step: 6 steps at a tenth of the rate.
    assert 0 < change < 6 * 0.1 * 3e-3 * 1.5


def assert_same_curves(folder, other):
    """Asserts that losses and loss terms are equal up to rounding."""
    for one, same in zip(lines(folder), lines(other), strict=True):
        names = [name for name in one if name.endswith(("loss", "retained"))]
        assert [one[name] for name in names] == pytest.approx([same[name] for name in names], rel=1e-4)


def test_scanned_layers_give_the_same_curves(trained, tmp_path):
    run(small(**RUN, model__scan_layers=True), tmp_path / "scanned", quiet)
    assert_same_curves(tmp_path / "scanned", trained)


def test_preempted_retention_run_resumes_bit_identically(trained, tmp_path, monkeypatch):
    with pytest.raises(Preempted), stop_requested_at(3, monkeypatch):
        run(small(**RUN), tmp_path / "run", quiet)
    run(small(**RUN), tmp_path / "run", quiet)
    assert curves(tmp_path / "run") == curves(trained)
    one, other = (read_json(folder / "status.json")["parameters_sha256"] for folder in (trained, tmp_path / "run"))
    assert one == other


def test_describe_and_generate_with_retention(trained, tmp_path, capsys):
    assert main(["describe", "retention"]) == 0
    out = capsys.readouterr().out
    assert "Sun et al. 2023, eq. 5" in out
    assert "It adds `layers/attention/decay` [H]" in out
    assert main(["generate", str(trained), "--prompt", "a", "--max-new-tokens", "4"]) == 0


SCRIPT = """
import json, sys
from zoo.config import plugins
plugins.load_plugin(sys.argv[1])
from zoo.checks import check_kind
from zoo.config.kinds import ATTENTION_KINDS
streams = {"model.norm.placement": "hyper_static", "model.norm.streams": 2, "model.position.kind": "rope"}
outcomes = check_kind(ATTENTION_KINDS.by_name["retention"], streams)
print(json.dumps({outcome.property: [outcome.state, outcome.reason] for outcome in outcomes}))
"""


@pytest.mark.slow(reason="tests/project/test_your_own_variant.py runs `zoo check` on such a kind, without streams")
def test_retention_has_every_property_also_with_several_residual_streams():
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    command = [sys.executable, "-c", SCRIPT, str(FILE)]
    completed = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert completed.returncode == 0, completed.stderr[-2000:]
    found = json.loads(completed.stdout.splitlines()[-1])
    assert list(found) == list(PROPERTIES)
    reasons = {
        "packed documents": "cannot be combined with data.isolate_documents=True",
        "accumulation": "the model has statistics, which an update passes from part to part",
        "reference": "the kind gives no function",
    }
    # In training its statistic is that of the batch, later tokens and other rows included.
    for name in ("causality", "padding"):
        state, reason = found.pop(name)
        assert (state, "in training the output changes with it" in reason) == ("FAIL", True)
    for name, (state, reason) in found.items():
        assert state == ("not applicable" if name in reasons else "pass"), (name, reason)
        assert reasons.get(name, "") in reason


def test_models_use_the_registered_class():
    model = make_model(configs.resolve(small(**RUN, model__vocab_size=257)))
    assert type(model.stack.layers.attention).__name__ == "Retention"
