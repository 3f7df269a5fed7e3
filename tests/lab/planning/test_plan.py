"""Expansion of an experiment, and what is refused or warned of before anything runs."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.declarations import DIFFERENCES
from zoo.lab.experiment import Contrast, Match, Side, levels
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)


def base(**changes):
    return config.override(config.default(), {path.replace("__", "."): value for path, value in changes.items()})


def plain(factors, **changes):
    """An experiment of some factors that may differ in anything."""
    return fake.experiment(**{"factors": factors, "contrasts": (), "allow": tuple(DIFFERENCES), **changes})


def problems(experiment):
    with pytest.raises(ConfigError) as error:
        make_plan(experiment)
    return error.value.problems


def test_full_product_in_declared_order():
    made = make_plan(fake.experiment())
    assert [arm.name for arm in made.arms] == [
        "norm=pre,warm-up=0",
        "norm=pre,warm-up=10",
        "norm=post,warm-up=0",
        "norm=post,warm-up=10",
    ]
    assert [run.folder for run in made.runs][:5] == [
        "norm=pre,warm-up=0-seed0",
        "norm=pre,warm-up=10-seed0",
        "norm=post,warm-up=0-seed0",
        "norm=post,warm-up=10-seed0",
        "norm=pre,warm-up=0-seed1",
    ]
    assert len({run.identity for run in made.runs}) == 8
    for run in made.runs:
        assert run.config.seed == run.seed
        assert run.config.model.norm.placement == run.arm.levels["norm"]
        assert str(run.config.schedule.warmup_steps) == run.arm.levels["warm-up"]
        assert config.identity(run.config) == run.identity


def test_arms_differ_in_what_the_factors_set_and_nothing_else():
    made = make_plan(fake.experiment())
    first = made.arms[0].config
    for arm in made.arms[1:]:
        assert set(config.difference(first, arm.config)) <= {"model.norm.placement", "schedule.warmup_steps"}


def test_record_is_what_reports_read(tmp_path):
    import json

    from zoo.lab.results.sweep_results import load_sweep

    record = make_plan(fake.experiment()).record()
    (tmp_path / "experiment.json").write_text(json.dumps(record))
    sweep = load_sweep(tmp_path)
    assert [run.state for run in sweep.runs] == ["missing"] * 8
    assert sweep.contrasts[0].a.arm == "norm=pre,warm-up=0"
    assert record["factors"] == {"norm": ["pre", "post"], "warm-up": ["0", "10"]}
    assert record["arms"][3]["overrides"] == {"model.norm.placement": "post", "schedule.warmup_steps": 10}
    assert record["claim"] == {"id": "X1", "statement": "pre is better", "source": "nobody"}
    assert record["contrasts"][0]["b"] == {"arm": "norm=post,warm-up=0", "metric": "eval/loss"}


def test_overrides_typed_as_text_are_recorded_as_what_they_are():
    record = make_plan(plain({"warm-up": levels("schedule.warmup_steps", "0", "10")})).record()
    assert [arm["overrides"] for arm in record["arms"]] == [{"schedule.warmup_steps": 0}, {"schedule.warmup_steps": 10}]


def test_every_arm_is_checked_and_all_problems_are_reported():
    found = problems(
        plain({"heads": levels("model.attention.num_heads", 3, 5, 4), "dim": levels("model.dim", 256, 12)})
    )
    assert len(found) == 3
    assert "arm heads=3,dim=256: model.dim=256 is not divisible by model.attention.num_heads=3" in found[0]


def test_a_problem_of_all_arms_is_reported_once():
    found = problems(fake.experiment(base=base(model__dim=255)))
    assert len(found) == 1
    assert found[0].startswith("every arm: model.dim=255")


@pytest.mark.parametrize(
    ("levels_of", "why"),
    [
        ({"a": {"model.dim": 64}, "b": {"model.dim": 64}}, "both resolve to model.dim=64"),
        ({"a": {}, "b": {"model.dim": 256}}, "the base and model.dim=256 resolve to the same config"),
        ({"a": {"model.attention.num_kv_heads": "auto"}, "b": {"model.attention.num_kv_heads": 4}}, "both resolve to"),
        ({"a": {"training.log_every": 1}, "b": {"training.log_every": 2}}, "they differ only in training.log_every"),
    ],
)
def test_twins_are_refused_with_the_reason(levels_of, why):
    found = problems(plain({"x": levels_of}))
    assert len(found) == 1
    assert 'arms "x=a" and "x=b" are the same run' in found[0]
    assert why in found[0]


def test_arms_of_one_name_are_refused():
    found = problems(
        plain(
            {
                "a": {"1,b=2": {"model.dim": 64}, "1": {"model.dim": 32}},
                "b": {"2": {"model.num_layers": 1}, "2,b=2": {"model.num_layers": 2}},
            }
        )
    )
    assert "two arms are called a=1,b=2,b=2" in found[0]


def test_metrics_beyond_what_is_evaluated():
    lengths = base(training__eval_lengths=(256, 512))
    positions = {"positions": levels("model.position.kind", "learned", "alibi")}

    def asking(metric, position="alibi"):
        sides = Side({"positions": position}, metric), Side({"positions": "alibi"})
        return fake.experiment(
            base=lengths, factors=positions, contrasts=(Contrast("c", *sides, "superiority", 0.0, ""),)
        )

    assert make_plan(asking("eval/loss@512"))
    assert "no metric eval/loss@1024" in problems(asking("eval/loss@1024"))[0]
    assert "its learned positions end at 128" in problems(asking("eval/loss@512", "learned"))[0]


def test_metrics_of_pairs_need_the_task():
    accuracy = {"metric": "eval/next_accuracy", "contrasts": ()}
    pairs = base(
        model__architecture="encoder",
        objective__kind="masked",
        data__row_format="segment_pairs",
        model__head__pooler=True,
        model__head__next_sentence=True,
        objective__next_sentence=True,
        model__vocab_size=300,
    )
    seen = {"segments": levels("model.embedding.segments", 0, 2)}
    assert make_plan(fake.experiment(base=pairs, factors=seen, **accuracy))
    found = problems(fake.experiment(**accuracy))
    assert 'arm "norm=pre,warm-up=0": no metric eval/next_accuracy without objective.next_sentence=true' in found


def test_metrics_beyond_what_a_side_can_read():
    sides = base(
        model__architecture="encoder_decoder",
        objective__kind="prefix",
        objective__prefix_length=64,
        training__eval_lengths=(256,),
        model__position__kind="learned",
    )
    factors = {"decoder": levels("model.decoder.position.kind", "learned", "alibi")}
    refused = problems(fake.experiment(base=sides, factors=factors, contrasts=(), metric="eval/loss@256"))
    assert len(refused) == 1
    assert "decoder=learned" in refused[0]
    assert "learned positions end at 128" in refused[0]


def test_vocabulary_of_characters_is_read_once_per_data_config(monkeypatch):
    from zoo import data

    calls = []
    monkeypatch.setattr(data, "vocabulary_size", lambda resolved: calls.append(resolved.model.vocab_size) or 90)
    made = make_plan(fake.experiment(base=base(data__tokenizer__kind="characters")))
    assert calls == ["auto"]
    assert {run.config.model.vocab_size for run in made.runs} == {90}


def test_cost_of_every_arm_with_the_real_count(monkeypatch):
    monkeypatch.undo()
    made = make_plan(
        plain({"dim": levels("model.dim", 16, 32)}, base=base(model__num_layers=1, data__sequence_length=8))
    )
    small, large = made.arms
    assert set(small.parameters) == {"total", "embedding", "body", "heads"}
    assert large.parameters["total"] > small.parameters["total"] > 257 * 16
    assert large.flops_per_token > small.flops_per_token > 0


def test_cost_is_asked_of_the_resolved_arm(monkeypatch):
    seen = []
    same = SimpleNamespace(parameters={"total": 1}, flops_per_token=2)
    monkeypatch.setattr(arm_resolution, "count_cost", lambda resolved: seen.append(resolved) or same)
    make_plan(fake.experiment())
    assert [resolved.model.vocab_size for resolved in seen] == [257] * 4


@pytest.mark.parametrize(
    ("label", "folder"),
    [
        ("../../etc", "x=..-..-etc-seed0"),
        ("a b/c", "x=a-b-c-seed0"),
        ("<script>", "x=-script--seed0"),
        ("ü", "x=--seed0"),
    ],
)
def test_folder_names_are_portable(label, folder):
    run = make_plan(plain({"x": {label: {"model.dim": 64}}}, seeds=(0,))).runs[0]
    assert run.folder == folder


def test_folder_name_without_a_leading_dot():
    run, *_ = make_plan(plain({".x": {"a": {"model.dim": 64}}})).runs
    assert run.folder == "_x=a-seed0"


def test_folders_that_would_coincide_get_a_hash():
    labels = {"a b": {"model.dim": 64}, "a/b": {"model.dim": 32}, "A-B": {"model.dim": 16}, "c": {}}
    runs = make_plan(plain({"x": labels}, seeds=(0,))).runs
    folders = [run.folder for run in runs]
    assert len({folder.lower() for folder in folders}) == 4
    assert all(re.fullmatch("x=[aA]-[bB]-seed0-[0-9a-f]{8}", folder) for folder in folders[:3])
    assert folders[3] == "x=c-seed0"


def test_long_names_are_cut():
    runs = make_plan(plain({"x": {"y" * 300 + "1": {"model.dim": 64}, "y" * 300 + "2": {"model.dim": 32}}})).runs
    assert len({run.folder for run in runs}) == 4
    assert all(len(run.folder) <= 180 and run.folder.endswith(f"-seed{run.seed}") for run in runs)


def test_equal_arms_have_no_warnings():
    assert make_plan(fake.experiment()).warnings == []


@pytest.mark.parametrize(
    ("factors", "texts"),
    [
        (
            {"dim": levels("model.dim", 64, 128)},
            ["number of parameters by up to 100.0%", "FLOPs per token by up to 100.0%"],
        ),
        (
            {"batch": levels("data.batch_size", 2, 3)},
            [
                "training budget in tokens by up to 50.0%",
                "scored on different rows by eval/loss: packed rows, 80 of them",
            ],
        ),
        ({"text": levels("data.source", "stdlib", "text:x.txt")}, ["each is scored on the held-out part of its own"]),
        (
            {
                "norm": {
                    "pre": {"model.norm.placement": "pre"},
                    "post": {"model.norm.placement": "post", "optimizer.clip_norm": 1.0},
                }
            },
            ['level "post" also sets optimizer.clip_norm, and level pre does not'],
        ),
        (
            # Read by every optimizer there is: no choice of the levels.
            {
                "rate": {
                    "low": {"optimizer.learning_rate": 1e-3},
                    "high": {"optimizer.learning_rate": 1e-2, "optimizer.clip_norm": 0.5},
                }
            },
            ['level "high" also sets optimizer.clip_norm, and level low does not'],
        ),
        ({"tokens": levels("data.tokenizer.kind", "bytes", "bpe")}, ["use eval/bits_per_byte"]),
    ],
)
def test_warnings(factors, texts):
    found = make_plan(plain(factors)).warnings
    assert len(found) == len(texts)
    for warning, text in zip(found, texts):
        assert text in warning


@pytest.mark.parametrize(
    ("factors", "named"),
    [
        ({"dim": levels("model.dim", 64, 128)}, ["parameters", "flops"]),
        ({"batch": levels("data.batch_size", 2, 3)}, ["tokens", "rows"]),
        ({"text": levels("data.source", "stdlib", "text:x.txt")}, ["text"]),
        (
            {
                "norm": {
                    "pre": {"model.norm.placement": "pre"},
                    "post": {"model.norm.placement": "post", "optimizer.clip_norm": 1.0},
                }
            },
            ["levels"],
        ),
        ({"tokens": levels("data.tokenizer.kind", "bytes", "bpe")}, ["tokenizer"]),
    ],
)
def test_what_is_not_allowed_by_name_is_refused(factors, named):
    lines = problems(plain(factors, allow=()))
    assert [line.rpartition("--allow ")[2].partition(",")[0] for line in lines] == named
    assert all(("match it" in line) == (name in ("parameters", "flops")) for line, name in zip(lines, named))
    # What is allowed stays a warning, and each name allows one thing.
    assert len(make_plan(plain(factors, allow=tuple(named))).warnings) == len(named)
    assert len(problems(plain(factors, allow=tuple(named[1:])))) == 1


def test_who_matches_parameters_already_is_not_told_to_match_flops(monkeypatch):
    # An embedding of its own has parameters and no FLOPs, the layer that it narrows has both.
    def cost(resolved):
        body = 64 * resolved.model.ffn.hidden_dim
        return SimpleNamespace(
            parameters={"total": body + 4096 * (not resolved.model.tie_embeddings)}, flops_per_token=body
        )

    monkeypatch.setattr(arm_resolution, "count_cost", cost)
    factors = {"tied": levels("model.tie_embeddings", True, False)}
    (line,) = problems(plain(factors, allow=(), match="parameters:model.ffn.hidden_dim"))
    assert line.startswith('factor "tied" changes FLOPs per token')
    assert "match it" not in line
    assert "; allow it by name: --allow flops" in line


def test_a_name_that_allows_nothing_is_refused():
    with pytest.raises(ConfigError, match=re.escape("allow: 'paramters' is not one of tokens, parameters")):
        plain({}, allow=("paramters",))


GATED = {"ffn": levels("model.ffn.kind", "gelu", "swiglu")}


def test_arms_are_matched_by_a_field(monkeypatch):
    # What each really has, not what the stand-in says.
    monkeypatch.undo()
    base = config.override(config.default(), {"model.ffn.hidden_dim": 512})
    for match, size in (
        (Match("parameters", "model.ffn.hidden_dim"), lambda arm: arm.parameters["total"]),
        (Match("flops", "model.ffn.hidden_dim"), lambda arm: arm.flops_per_token),
    ):
        first, second = make_plan(plain(GATED, base=base, allow=(), match=match)).arms
        assert first.overrides == {"model.ffn.kind": "gelu"}
        # Three matrices where there were two.
        assert second.overrides == {
            "model.ffn.kind": "swiglu",
            "model.ffn.hidden_dim": pytest.approx(512 * 2 / 3, rel=0.02),
        }
        assert second.config.model.ffn.hidden_dim == second.overrides["model.ffn.hidden_dim"]
        assert size(second) == pytest.approx(size(first), rel=0.01)


def test_what_cannot_be_matched_says_what_comes_nearest(monkeypatch):
    monkeypatch.undo()
    base = config.override(config.default(), {"model.num_layers": 2, "model.ffn.hidden_dim": 512})
    line, *_ = problems(plain(GATED, base=base, allow=(), match=Match("parameters", "model.num_layers")))
    assert re.search(
        r"arm ffn=swiglu: match: model.num_layers does not come within 1%: 1 gives -\d+\.\d% and 2 gives \+\d+\.\d%",
        line,
    )


@pytest.mark.parametrize(
    ("match", "text"),
    [
        (Match("params", "model.num_layers"), "match: 'params' is not one of parameters, flops"),
        (
            Match("flops", "model.ffn.hiden_dim"),
            'match: unknown field model.ffn.hiden_dim (did you mean "model.ffn.hidden_dim"?)',
        ),
        (Match("flops", "model.ffn.kind"), "match: model.ffn.kind is not an integer field"),
        (Match("flops", "model.num_layers"), 'match: model.num_layers is varied by the factor "layers"'),
    ],
)
def test_matches_that_cannot_be(match, text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        plain({"layers": levels("model.num_layers", 1, 2)}, match=match)


def test_a_gap_of_less_than_a_hundredth_is_none():
    warnings = make_plan(plain({"batch": levels("data.batch_size", 200, 201)})).warnings
    assert not [line for line in warnings if "budget" in line]


def test_no_warning_where_extra_fields_belong_to_the_choice_or_levels_are_alternatives():
    rope = {"model.position.kind": "rope", "model.position.theta": 500.0}
    positions = {"rope": rope, "alibi": {"model.position.kind": "alibi"}}
    alternatives = {"full": {}, "no bias": {"model.attention.bias": False}, "untied": {"model.tie_embeddings": False}}
    assert make_plan(plain({"positions": positions, "without": alternatives})).warnings == []


PATTERNS = {
    "model.layers.pattern": ("local", "global"),
    "model.layers.kinds.local.attention.window": 4,
    "model.layers.kinds.global.attention.window": 0,
}


def test_a_factor_over_the_pattern_of_layers():
    fields = levels("model.layers.pattern", ("local",), "local,global", ())
    made = make_plan(plain({"layers": fields}, base=config.override(config.default(), PATTERNS), seeds=(0,)))
    assert [arm.name for arm in made.arms] == ["layers=local", "layers=local,global", "layers=none"]
    assert [tuple(arm.config.model.layers.pattern) for arm in made.arms] == [("local",), ("local", "global"), ()]
    # The kinds that an arm's pattern does not name are no part of it.
    assert [set(arm.config.model.layers.get("kinds", {})) for arm in made.arms] == [
        {"local"},
        {"local", "global"},
        set(),
    ]
    assert [arm["overrides"] for arm in made.record()["arms"]] == [
        {"model.layers.pattern": ["local"]},
        {"model.layers.pattern": ["local", "global"]},
        {"model.layers.pattern": []},
    ]
    assert not made.warnings
    for run in made.runs:
        assert (
            config.identity(run.config) == run.identity == config.identity(config.resolve(config.to_plain(run.config)))
        )


def test_factors_over_fields_of_parts_of_a_model():
    window = levels("model.layers.kinds.local.attention.window", 4, "8")
    made = make_plan(plain({"window": window}, base=config.override(config.default(), PATTERNS)))
    assert [arm.config.model.layers.kinds.local.attention.window for arm in made.arms] == [4, 8]
    assert [arm["overrides"] for arm in made.record()["arms"]] == [
        {path: int(level)} for level in window for path in window[level]
    ]
    sides = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
    made = make_plan(
        plain(
            {"heads": levels("model.decoder.attention.num_heads", 2, 8)}, base=config.override(config.default(), sides)
        )
    )
    assert [arm.config.model.decoder.attention.num_heads for arm in made.arms] == [2, 8]
    assert [arm.config.model.decoder.attention.head_dim for arm in made.arms] == [128, 32]


def test_parts_of_a_model_belong_to_the_choice_that_has_them():
    patterns = {"alike": {"model.layers.pattern": ()}, "mixed": PATTERNS}
    sides = {
        "decoder": {"model.architecture": "decoder", "objective.kind": "causal"},
        "both": {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "model.decoder.num_layers": 2},
    }
    assert make_plan(plain({"layers": patterns})).warnings == []
    (warning,) = make_plan(plain({"model": sides})).warnings
    assert "every token (model=decoder) | 62 % of the tokens (model=both)" in warning
    two = config.override(config.default(), sides["both"])
    unequal = {
        "pre": {"model.norm.placement": "pre"},
        "post": {"model.norm.placement": "post", "model.encoder.residual": False},
    }
    (warning,) = make_plan(plain({"norm": unequal}, base=two)).warnings
    assert 'level "post" also sets model.encoder.residual' in warning
    local = {
        "pre": {"model.norm.placement": "pre"},
        "post": {"model.norm.placement": "post", "model.layers.kinds.local.attention.softcap": 5.0},
    }
    (warning,) = make_plan(plain({"norm": local}, base=config.override(config.default(), PATTERNS))).warnings
    assert "also sets model.layers.kinds.local.attention.softcap" in warning


def test_a_kind_that_an_arm_s_pattern_does_not_name_is_reported_with_the_arm():
    factors = {
        "layers": levels("model.layers.pattern", ("local",), ("local", "global")),
        "window": levels("model.layers.kinds.global.attention.window", 0, 8),
    }
    found = problems(plain(factors, base=config.override(config.default(), PATTERNS)))
    assert found == [
        "arm layers=local,window=0 and arm layers=local,window=8: model.layers.kinds.global has no effect: "
        "model.layers.pattern=local does not name it"
    ]


@pytest.mark.parametrize(
    "spec",
    ["norm_placement.py:quick", "norm_placement.py", "positions_extrapolation.py", "positions_extrapolation.py:small"],
)
def test_shipped_experiments_expand(spec):
    from zoo.lab.experiment import load_experiment

    made = make_plan(load_experiment(str(Path(__file__).parents[3] / "experiments" / spec)))
    assert made.experiment.contrasts
    assert made.experiment.claim
    assert not [warning for warning in made.warnings if "budget" in warning]
