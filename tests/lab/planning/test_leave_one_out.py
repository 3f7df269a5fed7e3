"""Ablations of a recipe: which fields are one feature, and which arms there are."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo import config
from zoo.cli.main import main
from zoo.errors import ConfigError
from zoo.lab.planning.leave_one_out import ablation, features, named_groups
from zoo.lab.results import noise as noise_module
from zoo.lab.results.feature_gains import feature_gains, gain_lines
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.noise import Noise
from zoo.nested import flatten

ROOT = Path(__file__).parents[3]
ROPE = {"model.position.kind": "rope", "model.position.theta": 500.0}
RECIPE = {
    **ROPE,
    "model.norm.kind": "rmsnorm",
    "model.ffn.kind": "swiglu",
    "model.ffn.hidden_dim": 96,
    "model.layers.pattern": ("local", "global"),
    "model.layers.kinds.local.attention.window": 8,
    "optimizer.groups": ("tables",),
    "optimizer.group.tables.select": "role:embedding",
    "optimizer.group.tables.rate_factor": 0.3,
    "seed": 3,
}


def with_changes(changes):
    return config.override(config.default(), changes)


def test_fields_that_make_sense_only_together_are_one_feature():
    found = features(config.default(), with_changes(RECIPE), {})
    assert {name: set(fields) for name, fields in found.items()} == {
        "position.kind": set(ROPE),
        "norm.kind": {"model.norm.kind"},
        "ffn.kind": {"model.ffn.kind"},
        "hidden_dim": {"model.ffn.hidden_dim"},
        "pattern": {"model.layers.pattern", "model.layers.kinds.local.attention.window"},
        "groups": {path for path in RECIPE if path.startswith("optimizer")},
    }
    assert all(found[name][path] == RECIPE[path] for name in found for path in found[name])
    # Both kinds of norms have a placement, which is not part of changing the kind.
    placed = {"model.norm.kind": "rmsnorm", "model.norm.placement": "post"}
    assert list(features(config.default(), with_changes(placed), {})) == ["norm.kind", "placement"]
    # A field that only a kind reads is a feature of its own where the kind is the same in both.
    later = {"model.position.theta": 100.0}
    assert list(features(with_changes(ROPE), with_changes(ROPE | later), {})) == ["theta"]


def test_shared_layers_and_the_way_they_are_shared_are_one_feature():
    loops = {"model.layers.distinct": 2, "model.layers.sharing": "cycle", "model.layers.reinjection": True}
    found = features(config.default(), with_changes(loops | {"model.norm.kind": "rmsnorm"}), {})
    assert {name: set(fields) for name, fields in found.items()} == {
        "distinct": set(loops),
        "norm.kind": {"model.norm.kind"},
    }
    # Where both share as many, the way is the feature.
    one = with_changes({"model.layers.distinct": 2})
    assert list(features(one, with_changes(loops), {})) == ["sharing"]


def test_how_a_model_is_computed_and_reported_is_no_feature():
    ways = {
        "model.scan_layers": not config.default().model.scan_layers,
        "model.remat": "full",
        "training.eval_every": 7,
        "training.log_every": 3,
        "objective.chunk_tokens": 64,
    }
    found = features(config.default(), with_changes({"model.norm.kind": "rmsnorm", **ways}), {})
    assert list(found) == ["norm.kind"]


def test_a_file_names_groups(tmp_path):
    file = tmp_path / "groups.toml"
    file.write_text('feed_forward = ["model.ffn.*"]\ntables = ["optimizer.*"]\n')
    found = features(config.default(), with_changes(RECIPE), named_groups(file))
    assert set(found) == {"feed_forward", "tables", "position.kind", "norm.kind", "pattern"}
    assert set(found["feed_forward"]) == {"model.ffn.kind", "model.ffn.hidden_dim"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = [", "groups.toml"),
        ("a = 3", "a: expected a list of paths of fields, got 3"),
        ('a = ["model.fnn.*"]', "'model.fnn.*' is no field in which the configs differ"),
        ('a = ["model.ffn.*"]\nb = ["model.ffn.kind"]', "model.ffn.kind is in group a and in group b"),
        ('"a+b" = ["model.ffn.*"]', "cannot be a group's name"),
    ],
)
def test_a_broken_file_is_refused(tmp_path, text, line):
    file = tmp_path / "groups.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=line.replace("*", r"\*").replace("+", r"\+")):
        features(config.default(), with_changes(RECIPE), named_groups(file))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.toml: No such file"):
        named_groups(tmp_path / "no.toml")


def configs(tmp_path, **recipes):
    """Returns the paths of config files with these changes."""
    for name, changes in recipes.items():
        lines = "\n".join(f"    changes[{path!r}] = {value!r}" for path, value in changes.items())
        (tmp_path / f"{name}.py").write_text(
            f"from zoo import config\n\ndef get_config():\n    changes = {{}}\n{lines}\n"
            "    return config.override(config.default(), changes)\n"
        )
    return [str(tmp_path / f"{name}.py") for name in recipes]


THREE = {"model.norm.kind": "rmsnorm", "model.ffn.kind": "swiglu", **ROPE}
NAMES = ["norm.kind", "ffn.kind", "position.kind"]


@pytest.mark.parametrize("adds", [False, True])
def test_arms_leave_out_or_add_each_feature_and_each_pair(tmp_path, adds):
    base, recipe = configs(tmp_path, base={"model.dim": 32}, recipe={"model.dim": 32, **THREE})
    found = ablation(recipe, base, adds)
    (levels,) = found.factors.values()
    pairs = ["ffn.kind+norm.kind", "norm.kind+position.kind", "ffn.kind+position.kind"]
    assert set(levels) == {"nothing", "everything", *NAMES, *pairs}
    assert next(iter(levels)) == "nothing"
    whole, empty = ("everything", "nothing") if adds else ("nothing", "everything")
    assert (levels[whole], levels[empty]) == (THREE, {})
    alone, rest = {"model.ffn.kind": "swiglu"}, {"model.norm.kind": "rmsnorm", **ROPE}
    assert levels["ffn.kind"] == (alone if adds else rest)
    assert levels["norm.kind+position.kind"] == (rest if adds else alone)


@pytest.mark.parametrize(("pairs", "found"), [("none", []), ("position.kind+norm.kind", ["norm.kind+position.kind"])])
def test_pairs_can_be_chosen(tmp_path, pairs, found):
    base, recipe = configs(tmp_path, base={}, recipe=THREE)
    (levels,) = ablation(recipe, base, pairs=pairs).factors.values()
    assert [level for level in levels if "+" in level] == found


def test_a_field_that_a_recipe_only_writes_out_is_no_feature(tmp_path):
    written = {"model.attention.num_kv_heads": config.resolve(config.default()).model.attention.num_kv_heads}
    base, recipe = configs(tmp_path, base={}, recipe={**THREE, **written})
    (levels,) = ablation(recipe, base).factors.values()
    assert not [level for level in levels if "kv" in level]
    # It is set in every arm, so that the first one is the recipe.
    assert ablation(recipe, base).base.model.attention.num_kv_heads == written["model.attention.num_kv_heads"]


@pytest.mark.parametrize("adds", [False, True])
def test_an_arm_has_no_group_of_parameters_that_it_lacks(tmp_path, adds):
    tables, head = RECIPE["optimizer.group.tables.select"], {"select": "role:head", "rate_factor": 0.1}
    groups = config.parameter_groups(tables={"select": tables, "rate_factor": 0.3}, head=head)
    recipe = {"model.norm.kind": "rmsnorm", "model.tie_embeddings": False, **groups}
    base, recipe = configs(tmp_path, base={"model.tie_embeddings": True}, recipe=recipe)
    found = ablation(recipe, base, adds, pairs="tie_embeddings+groups")
    (levels,) = found.factors.values()
    tied = {"optimizer.groups": ("tables",)} | {path: groups[path] for path in groups if ".tables." in path}

    def grouped(level):
        return {path: value for path, value in levels[level].items() if path.startswith("optimizer")}

    assert grouped("everything" if adds else "nothing") == groups
    # With the groups alone the head is tied; without the untied head too.
    assert grouped("groups" if adds else "tie_embeddings") == tied
    assert grouped("tie_embeddings+groups") == (groups if adds else {})
    assert grouped("norm.kind") == ({} if adds else groups)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--base", "gpt2:tiny"], "give one of --leave-one-out CONFIG and --add-one-in CONFIG"),
        (["--leave-one-out", "llama:tiny"], "with --base CONFIG"),
        (["--leave-one-out", "llama:tiny", "--base", "gpt2:tiny", "--config", "gpt2:tiny"], "makes its own arms"),
        (["--leave-one-out", "llama:tiny", "--base", "gpt2:tiny", "--corpus", "stdlib"], "--corpus needs"),
    ],
)
def test_flags_that_do_not_fit_are_refused(words, line, capsys):
    assert main(["run", *words, "--dry-run"]) == 2
    assert line in capsys.readouterr().err


@pytest.mark.parametrize("name", ["modded", "nanochat", "olmo3", "qwen3_next"])
@pytest.mark.parametrize("flag", ["--leave-one-out", "--add-one-in"])
@pytest.mark.promise(reason="every arm of four recipes is planned, ten models each")
def test_shipped_groups_make_arms_that_can_be_trained(name, flag, capsys):
    groups = ROOT / "experiments" / "features" / f"{name}.toml"
    assert main(["run", flag, f"{name}:tiny", "--base", "gpt2:tiny", "--groups", str(groups), "--dry-run"]) == 0
    arms = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "new" in line]
    assert arms == ["nothing", *named_groups(groups), "everything"]


def test_two_features_have_no_arm_besides_everything(tmp_path):
    base, recipe = configs(tmp_path, base={}, recipe={"model.norm.kind": "rmsnorm", "model.ffn.kind": "swiglu"})
    (levels,) = ablation(recipe, base).factors.values()
    assert list(levels) == ["nothing", "ffn.kind", "norm.kind", "everything"]


def test_what_cannot_be_ablated_is_refused(tmp_path):
    base, one, recipe = configs(tmp_path, base={}, one={"model.norm.kind": "rmsnorm"}, recipe=THREE)
    with pytest.raises(ConfigError, match=r"differs from .* in one feature"):
        ablation(one, base)
    with pytest.raises(ConfigError, match=r"differs from .* in nothing"):
        ablation(base, base)
    with pytest.raises(ConfigError, match=r"expected two of .*did you mean"):
        ablation(recipe, base, pairs="norm.kind+ffn.kid")
    layers = {path: RECIPE[path] for path in RECIPE if "layers" in path}
    layers["model.layers.kinds.global.attention.window"] = 0
    more = layers | {"model.layers.kinds.local.ffn.kind": "swiglu"}
    layered, wider = configs(tmp_path, layered=more, wider=THREE | layers)
    with pytest.raises(ConfigError, match=r"the recipe lacks model\.layers\.kinds\."):
        ablation(wider, layered)


def test_kinds_and_groups_of_the_base_alone_leave_with_their_names(tmp_path):
    own = {path: value for path, value in RECIPE.items() if "layers" in path or "optimizer" in path}
    own["model.layers.kinds.global.attention.window"] = 0
    base, recipe = configs(tmp_path, base=own, recipe={"model.norm.kind": "rmsnorm"})
    found = ablation(recipe, base, adds=True, pairs="none")
    (levels,) = found.factors.values()
    assert set(levels) == {"nothing", "groups", "pattern", "norm.kind", "everything"}
    flat = {level: flatten(config.override(found.base, changes)) for level, changes in levels.items()}
    for level, (grouped, layered) in {
        "nothing": (True, True), "groups": (False, True), "pattern": (True, False), "everything": (False, False),
    }.items():  # fmt: skip
        assert ("optimizer.group.tables.select" in flat[level], bool(flat[level]["optimizer.groups"])) == (grouped,) * 2
        kinds = any(path.startswith("model.layers.kinds.") for path in flat[level])
        assert (kinds, bool(flat[level]["model.layers.pattern"])) == (layered,) * 2


def finished(losses):
    """Returns a sweep whose runs end with these losses, {factor: {level: [one for each seed]}}."""
    ((factor, levels),) = losses.items()
    arms = [Arm(f"{factor}={level}", level, {factor: level}) for level in levels]
    runs = [
        RunRecord(Path(f"{arm.name}-{seed}"), arm.name, seed, {}, {}, {"state": "done", "step": 9}, rows)
        for arm in arms
        for seed, loss in enumerate(levels[arm.label])
        for rows in [[{"step": 9.0, "tokens": 9.0, "eval/loss": loss}]]
    ]
    return SweepResults(Path("."), "sweep", "eval/loss", arms, runs, [0, 1, 2])


# What a recipe of three features loses without some of them: a and b replace each other.
LOST = {"nothing": 0, "a": 0.01, "b": 0.02, "c": 0.05, "a+b": 0.2, "a+c": 0.06, "b+c": 0.07, "everything": 0.25}
NOISE = {"nothing": (0, 0.001, -0.001), "a": (0.001, 0, 0), "a+b": (0, -0.001, 0.001)}


def test_gains_add_up_but_for_what_two_features_share():
    losses = {level: [2 + lost + noise for noise in NOISE.get(level, (0, 0, 0))] for level, lost in LOST.items()}
    found = feature_gains(finished({"leave_out": losses}))
    assert {name: round(one.mean, 6) for name, one in found.each.items()} == {"a": 0.010333, "b": 0.02, "c": 0.05}
    assert found.together.mean == pytest.approx(0.25)
    assert found.remainder.mean == pytest.approx(0.25 - 0.08 - 0.001 / 3)
    assert found.pairs["a", "b"].mean == pytest.approx(0.17 - 0.001 / 3)
    assert found.pairs["b", "c"].mean == pytest.approx(0)
    # Noise of one arm in three differences at once.
    assert found.remainder.differences[1] == pytest.approx(0.25 - 0.08 + 2 * 0.001)


def test_gains_of_added_features_have_the_same_sign():
    losses = {level: [2 - lost + noise for noise in NOISE.get(level, (0, 0, 0))] for level, lost in LOST.items()}
    sweep = finished({"add": losses})
    found = feature_gains(sweep)
    assert found.together.mean == pytest.approx(0.25)
    assert found.pairs["a", "b"].mean == pytest.approx(0.17, abs=1e-3)
    first, second, third = gain_lines(sweep)
    assert first.startswith("gain in eval/loss of each feature, added to the base (95 % intervals; ")
    assert "b 0.02" in first
    assert second.startswith("all features together gain 0.25")
    assert third.startswith("what does not add up, of 3 pairs with arms of their own: a+b 0.17")
    assert "b+c" not in third


def test_noise_of_gains_is_that_of_the_tuning_runs_of_all_their_arms(monkeypatch):
    """A pair of features is a sum of four arms, two of which are noisier than the others."""
    sds = {"nothing": 0.001, "a": 0.05, "b": 0.05, "a+b": 0.001}
    finished_sweep = finished({"leave_out": {level: [2.0 + lost] * 3 for level, lost in LOST.items()}})
    names = {arm.name: arm.factors["leave_out"] for arm in finished_sweep.arms}

    effects = {1000: 0.0, 1001: 0.0}

    def curves(tuning, arm):
        own = {"sd": sds.get(names[arm], 0.001), "df": 5, "effects": effects, "effects_error": 0.0}
        return [SimpleNamespace(problem="", mean_regret=0.0, **own)]

    monkeypatch.setattr(noise_module, "tuning_curves", curves)
    gain = feature_gains(finished_sweep).pairs["a", "b"]
    ((error, df), *_) = gain.errors
    assert error**2 == pytest.approx(sum(sd**2 for sd in sds.values()) / 3)
    assert df == pytest.approx(10, rel=0.01)
    # Tuning runs of one seed do not show what seeds do to single arms; earlier sweeps do.
    del effects[1001]
    gain = feature_gains(replace(finished_sweep, noise={"eval/loss": Noise(0.03, 40, "earlier")})).pairs["a", "b"]
    assert gain.errors[0] == (pytest.approx((4 / 2 * 0.03**2 / 3) ** 0.5), pytest.approx(40))


def test_intervals_of_gains_have_the_noise_and_the_regret_of_every_arm_in_them(monkeypatch):
    """An arm that counts twice in a sum has four times its variance there."""
    curve = SimpleNamespace(problem="", mean_regret=0.01, sd=0.0, df=5)
    monkeypatch.setattr(noise_module, "tuning_curves", lambda tuning, arm: [curve])
    losses = {level: [2 + lost + noise for noise in NOISE.get(level, (0, 0, 0))] for level, lost in LOST.items()}
    sweep = replace(finished({"leave_out": losses}), noise={"eval/loss": Noise(0.03, 40, "earlier sweeps")})
    found = feature_gains(sweep)
    # Squares of the weights: 1 and 1; 1, (n - 1)^2 = 4 and three times 1; four times 1. Regrets of one
    # sign add up: 3 each; 2 (1 + 4) + 9 and 2 (3) + 9; 2 (2) + 4 twice.
    for gain, squares, regrets in ((found.each["a"], 2, 6), (found.remainder, 8, 34), (found.pairs["a", "b"], 4, 16)):
        (_, _), (error, _), *_ = gain.errors
        assert error**2 == pytest.approx(squares / 2 * 0.03**2 / 3 + regrets * 1e-4)
        assert gain.high - gain.low > 2 * 1.9 * error


def test_an_arm_that_diverged_leaves_its_seed_out():
    losses = {level: [2 + lost] * 3 for level, lost in LOST.items()}
    losses["b"] = [2.02, math.inf, 2.03]
    found = feature_gains(finished({"leave_out": losses}))
    assert (found.each["a"].n, found.each["b"].n, found.remainder.n, found.together.n) == (3, 2, 2, 3)
    assert found.each["b"].mean == pytest.approx(0.025)


def test_other_sweeps_have_no_gains():
    sweep = finished({"norm": {"nothing": [1, 2], "a": [1, 2], "everything": [1, 2]}})
    assert feature_gains(sweep) is None
    assert gain_lines(sweep) == []
