"""Expansion of an experiment into a plan, with its errors and warnings."""

import gzip
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.experiment import Contrast, Side, levels
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")


@pytest.fixture(autouse=True)
def fake_cost(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)


def base(**changes):
    return config.override(config.default(), {path.replace("__", "."): value for path, value in changes.items()})


def test_full_product_in_declared_order():
    plan = make_plan(fake.experiment())
    assert [arm.name for arm in plan.arms] == [
        "norm=pre,warm-up=0",
        "norm=pre,warm-up=10",
        "norm=post,warm-up=0",
        "norm=post,warm-up=10",
    ]
    assert [run.folder for run in plan.runs][:5] == [
        "norm=pre+warm-up=0-seed0",
        "norm=pre+warm-up=10-seed0",
        "norm=post+warm-up=0-seed0",
        "norm=post+warm-up=10-seed0",
        "norm=pre+warm-up=0-seed1",
    ]
    assert len({run.identity for run in plan.runs}) == 8
    for run in plan.runs:
        assert run.config.seed == run.seed
        assert run.config.model.norm.placement == run.arm.levels["norm"]
        assert str(run.config.schedule.warmup_steps) == run.arm.levels["warm-up"]
        assert config.identity(run.config) == run.identity


def test_arms_differ_only_in_fields_of_the_factors():
    plan = make_plan(fake.experiment())
    first = plan.arms[0].config
    for arm in plan.arms[1:]:
        assert set(config.difference(first, arm.config)) <= {"model.norm.placement", "schedule.warmup_steps"}


def test_reports_can_read_the_record(tmp_path):
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


def test_overrides_given_as_text_are_recorded_with_their_types():
    record = make_plan(fake.unrestricted({"warm-up": levels("schedule.warmup_steps", "0", "10")})).record()
    assert [arm["overrides"] for arm in record["arms"]] == [{"schedule.warmup_steps": 0}, {"schedule.warmup_steps": 10}]


def test_every_arm_is_checked_and_all_problems_are_reported():
    found = fake.plan_problems(
        fake.unrestricted({"heads": levels("model.attention.num_heads", 3, 5, 4), "dim": levels("model.dim", 256, 12)})
    )
    assert len(found) == 3
    assert "arm heads=3+dim=256: model.dim=256 is not divisible by model.attention.num_heads=3" in found[0]


def test_a_problem_of_all_arms_is_reported_once():
    found = fake.plan_problems(fake.experiment(base=base(model__dim=255)))
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
def test_identical_arms_are_refused_with_the_reason(levels_of, why):
    found = fake.plan_problems(fake.unrestricted({"x": levels_of}))
    assert len(found) == 1
    assert 'arms "x=a" and "x=b" are the same run' in found[0]
    assert why in found[0]


def test_arms_with_equal_names_are_refused():
    found = fake.plan_problems(
        fake.unrestricted(
            {
                "a": {"1,b=2": {"model.dim": 64}, "1": {"model.dim": 32}},
                "b": {"2": {"model.num_layers": 1}, "2,b=2": {"model.num_layers": 2}},
            }
        )
    )
    assert "two arms are called a=1,b=2,b=2" in found[0]


def test_metrics_at_lengths_without_evaluation_are_refused():
    lengths = base(training__eval_lengths=(256, 512))
    positions = {"positions": levels("model.position.kind", "learned", "alibi")}

    def experiment_with(metric, position="alibi"):
        sides = Side({"positions": position}, metric), Side({"positions": "alibi"})
        return fake.experiment(
            base=lengths, factors=positions, contrasts=(Contrast("c", *sides, "superiority", 0.0, ""),)
        )

    assert make_plan(experiment_with("eval/loss@512"))
    assert "no metric eval/loss@1024" in fake.plan_problems(experiment_with("eval/loss@1024"))[0]
    assert "its learned positions end at 128" in fake.plan_problems(experiment_with("eval/loss@512", "learned"))[0]


def test_next_sentence_metrics_need_the_objective():
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
    segments = {"segments": levels("model.embedding.segments", 0, 2)}
    assert make_plan(fake.experiment(base=pairs, factors=segments, **accuracy))
    found = fake.plan_problems(fake.experiment(**accuracy))
    assert 'arm "norm=pre+warm-up=0": no metric eval/next_accuracy without objective.next_sentence=true' in found


def test_metrics_beyond_the_positions_of_a_decoder_are_refused():
    sides = base(
        model__architecture="encoder_decoder",
        objective__kind="prefix",
        objective__prefix_length=64,
        training__eval_lengths=(256,),
        model__position__kind="learned",
    )
    factors = {"decoder": levels("model.decoder.position.kind", "learned", "alibi")}
    refused = fake.plan_problems(fake.experiment(base=sides, factors=factors, contrasts=(), metric="eval/loss@256"))
    assert len(refused) == 1
    assert "decoder=learned" in refused[0]
    assert "learned positions end at 128" in refused[0]


def test_vocabulary_of_characters_is_read_once_per_data_config(monkeypatch):
    from zoo import data

    calls = []
    monkeypatch.setattr(data, "vocabulary_size", lambda resolved: calls.append(resolved.model.vocab_size) or 90)
    plan = make_plan(fake.experiment(base=base(data__tokenizer__kind="characters")))
    assert calls == ["auto"]
    assert {run.config.model.vocab_size for run in plan.runs} == {90}


def test_cost_of_every_arm_with_the_real_count(monkeypatch):
    monkeypatch.undo()
    plan = make_plan(
        fake.unrestricted({"dim": levels("model.dim", 16, 32)}, base=base(model__num_layers=1, data__sequence_length=8))
    )
    small, large = plan.arms
    assert set(small.parameters) == {"total", "embedding", "body", "heads"}
    assert large.parameters["total"] > small.parameters["total"] > 257 * 16
    assert large.flops_per_token > small.flops_per_token > 0


def test_cost_is_counted_on_resolved_configs(monkeypatch):
    counted = []
    same = SimpleNamespace(parameters={"total": 1}, flops_per_token=2)
    monkeypatch.setattr(arm_resolution, "count_cost", lambda resolved: counted.append(resolved) or same)
    make_plan(fake.experiment())
    assert [resolved.model.vocab_size for resolved in counted] == [257] * 4


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
            # Every optimizer reads clip_norm, so it does not belong to the choice of a level.
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
    found = make_plan(fake.unrestricted(factors)).warnings
    assert len(found) == len(texts)
    for warning, text in zip(found, texts):
        assert text in warning


def test_equal_texts_under_other_names_are_one_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "".join(f"line {number} of a text\n" for number in range(200))
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text(text.upper())
    (tmp_path / "copy").write_bytes(gzip.compress(text.encode()))
    same = {"text": levels("data.source", "text:a.txt", "text:./a.txt", f"text:{tmp_path}/copy")}
    assert make_plan(fake.unrestricted(same)).warnings == []
    held_out = levels("data.held_out", "text:b.txt", f"text:{tmp_path}/b.txt")
    assert make_plan(fake.unrestricted({"text": held_out}, base=base(data__source="text:a.txt"))).warnings == []
    assert make_plan(fake.unrestricted(same, base=base(data__tokenizer__kind="characters"))).warnings == []
    other = {"text": levels("data.source", "text:a.txt", "text:b.txt")}
    assert "scored on different texts" in make_plan(fake.unrestricted(other)).warnings[0]


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
def test_differences_that_are_not_allowed_are_refused(factors, named):
    lines = fake.plan_problems(fake.unrestricted(factors, allow=()))
    assert [line.rpartition("--allow ")[2].partition(",")[0] for line in lines] == named
    assert all(("match it" in line) == (name in ("parameters", "flops")) for line, name in zip(lines, named))
    # An allowed difference is still a warning, and each name allows one difference.
    assert len(make_plan(fake.unrestricted(factors, allow=tuple(named))).warnings) == len(named)
    assert len(fake.plan_problems(fake.unrestricted(factors, allow=tuple(named[1:])))) == 1


def test_matched_parameters_give_no_advice_to_match_flops(monkeypatch):
    # A separate embedding adds parameters but no FLOPs; the matched layer has both.
    def cost(resolved):
        body = 64 * resolved.model.ffn.hidden_dim
        return SimpleNamespace(
            parameters={"total": body + 4096 * (not resolved.model.tie_embeddings)}, flops_per_token=body
        )

    monkeypatch.setattr(arm_resolution, "count_cost", cost)
    factors = {"tied": levels("model.tie_embeddings", True, False)}
    (line,) = fake.plan_problems(fake.unrestricted(factors, allow=(), match="parameters:model.ffn.hidden_dim"))
    assert line.startswith('factor "tied" changes FLOPs per token')
    assert "match it" not in line
    assert "; allow it by name: --allow flops" in line


def test_unknown_names_in_allow_are_refused():
    with pytest.raises(ConfigError, match=re.escape("allow: 'paramters' is not one of tokens, parameters")):
        fake.unrestricted({}, allow=("paramters",))


def test_gaps_below_one_per_cent_give_no_warning():
    warnings = make_plan(fake.unrestricted({"batch": levels("data.batch_size", 200, 201)})).warnings
    assert not [line for line in warnings if "budget" in line]


def test_extra_fields_of_a_choice_and_alternative_levels_give_no_warning():
    rope = {"model.position.kind": "rope", "model.position.theta": 500.0}
    positions = {"rope": rope, "alibi": {"model.position.kind": "alibi"}}
    alternatives = {"full": {}, "no bias": {"model.attention.bias": False}, "untied": {"model.tie_embeddings": False}}
    assert make_plan(fake.unrestricted({"positions": positions, "without": alternatives})).warnings == []


PATTERNS = {
    "model.layers.pattern": ("local", "global"),
    "model.layers.kinds.local.attention.window": 4,
    "model.layers.kinds.global.attention.window": 0,
}


def test_a_factor_over_the_pattern_of_layers():
    fields = levels("model.layers.pattern", ("local",), "local,global", ())
    plan = make_plan(
        fake.unrestricted({"layers": fields}, base=config.override(config.default(), PATTERNS), seeds=(0,))
    )
    assert [arm.name for arm in plan.arms] == ["layers=local", "layers=local,global", "layers=none"]
    assert [tuple(arm.config.model.layers.pattern) for arm in plan.arms] == [("local",), ("local", "global"), ()]
    # An arm contains only the kinds that its pattern names.
    assert [set(arm.config.model.layers.get("kinds", {})) for arm in plan.arms] == [
        {"local"},
        {"local", "global"},
        set(),
    ]
    assert [arm["overrides"] for arm in plan.record()["arms"]] == [
        {"model.layers.pattern": ["local"]},
        {"model.layers.pattern": ["local", "global"]},
        {"model.layers.pattern": []},
    ]
    assert not plan.warnings
    for run in plan.runs:
        assert (
            config.identity(run.config) == run.identity == config.identity(config.resolve(config.to_plain(run.config)))
        )


def test_factors_over_fields_of_parts_of_a_model():
    window = levels("model.layers.kinds.local.attention.window", 4, "8")
    plan = make_plan(fake.unrestricted({"window": window}, base=config.override(config.default(), PATTERNS)))
    assert [arm.config.model.layers.kinds.local.attention.window for arm in plan.arms] == [4, 8]
    assert [arm["overrides"] for arm in plan.record()["arms"]] == [
        {path: int(level)} for level in window for path in window[level]
    ]
    sides = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
    plan = make_plan(
        fake.unrestricted(
            {"heads": levels("model.decoder.attention.num_heads", 2, 8)}, base=config.override(config.default(), sides)
        )
    )
    assert [arm.config.model.decoder.attention.num_heads for arm in plan.arms] == [2, 8]
    assert [arm.config.model.decoder.attention.head_dim for arm in plan.arms] == [128, 32]


def test_warnings_about_parts_of_a_model():
    patterns = {"alike": {"model.layers.pattern": ()}, "mixed": PATTERNS}
    sides = {
        "decoder": {"model.architecture": "decoder", "objective.kind": "causal"},
        "both": {"model.architecture": "encoder_decoder", "objective.kind": "prefix", "model.decoder.num_layers": 2},
    }
    assert make_plan(fake.unrestricted({"layers": patterns})).warnings == []
    (warning,) = make_plan(fake.unrestricted({"model": sides})).warnings
    assert "every token (model=decoder) | 62 % of the tokens (model=both)" in warning
    two = config.override(config.default(), sides["both"])
    unequal = {
        "pre": {"model.norm.placement": "pre"},
        "post": {"model.norm.placement": "post", "model.encoder.residual": False},
    }
    (warning,) = make_plan(fake.unrestricted({"norm": unequal}, base=two)).warnings
    assert 'level "post" also sets model.encoder.residual' in warning
    local = {
        "pre": {"model.norm.placement": "pre"},
        "post": {"model.norm.placement": "post", "model.layers.kinds.local.attention.softcap": 5.0},
    }
    (warning,) = make_plan(
        fake.unrestricted({"norm": local}, base=config.override(config.default(), PATTERNS))
    ).warnings
    assert "also sets model.layers.kinds.local.attention.softcap" in warning


def test_a_kind_that_is_not_in_the_pattern_is_reported_with_its_arms():
    factors = {
        "layers": levels("model.layers.pattern", ("local",), ("local", "global")),
        "window": levels("model.layers.kinds.global.attention.window", 0, 8),
    }
    found = fake.plan_problems(fake.unrestricted(factors, base=config.override(config.default(), PATTERNS)))
    assert found == [
        "arm layers=local+window=0 and arm layers=local+window=8: model.layers.kinds.global has no effect: "
        "model.layers.pattern=local does not name it"
    ]


@pytest.mark.parametrize(
    "spec",
    ["norm_placement.py:quick", "norm_placement.py", "positions_extrapolation.py", "positions_extrapolation.py:small"],
)
def test_shipped_experiments_expand(spec):
    from zoo.lab.experiment import load_experiment

    plan = make_plan(load_experiment(str(Path(__file__).parents[3] / "experiments" / spec)))
    assert plan.experiment.contrasts
    assert plan.experiment.claim
    assert not [warning for warning in plan.warnings if "budget" in warning]


def test_pairs_that_differ_in_several_fields_are_listed_with_the_fields():
    plan = make_plan(fake.experiment())
    # The arms of its contrast differ in one field.
    assert plan.differences == []
    assert "differences" not in plan.record()
    together = {"both": {"no": {}, "yes": {"model.norm.placement": "post", "model.dtype": "bfloat16"}}}
    (line,) = make_plan(fake.unrestricted(together)).differences
    assert sorted(line.partition(" in 2 fields: ")[2].split(", ")) == ["model.dtype", "model.norm.placement"]


def test_generators_that_differ_are_a_warning():
    settings = {"model.architecture": "encoder", "objective.kind": "replaced_tokens"}
    factors = {"rate": levels("optimizer.learning_rate", 1e-3, 1e-4)}
    joint = fake.unrestricted(factors, base=config.override(fake.experiment().base, settings))
    (line,) = [one for one in make_plan(joint).warnings if "their own generators" in one]
    assert "by optimizer.learning_rate" in line
    uniform = config.override(joint.base, {"model.generator.num_layers": 0})
    assert not any(
        "their own generators" in one for one in make_plan(fake.unrestricted(factors, base=uniform)).warnings
    )
