"""Declarations of an experiment; all of its problems are reported together."""

from pathlib import Path

import pytest

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.experiment import Claim, Contrast, Match, Premises, Side, levels, load_experiment
from zoo.lab.planning.adhoc import experiment_from_flags

fake = config.import_file(Path(__file__).with_name("fake_run.py"), "helper")
PRE, POST = {"norm": "pre", "warm-up": "0"}, {"norm": "post", "warm-up": "0"}


def problems_of(**changes):
    with pytest.raises(ConfigError) as error:
        fake.experiment(**changes)
    return error.value.problems


def contrast(a=None, b=None, rule="superiority", margin=0.1, name="c"):
    return Contrast(name, a or Side(PRE), b or Side(POST), rule, margin, "")


def test_levels_are_named_by_their_values():
    assert levels("schedule.warmup_steps", 0, 100) == {
        "0": {"schedule.warmup_steps": 0},
        "100": {"schedule.warmup_steps": 100},
    }
    assert list(levels("model.attention.bias", True, False)) == ["true", "false"]


def test_levels_of_a_pattern_are_named_by_its_kinds():
    assert list(levels("model.layers.pattern", ("local", "global"), ["local"], ())) == ["local,global", "local", "none"]


def test_a_level_given_twice_is_refused():
    with pytest.raises(ConfigError, match="level pre is given more than once"):
        levels("model.norm.placement", "pre", "pre")


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "a b", "x" * 101])
def test_names_that_are_no_folder_names_are_refused(name):
    assert "folder name" in problems_of(name=name)[0]


@pytest.mark.parametrize(
    ("seeds", "text"),
    [
        ((), "at least one"),
        ((0, 0), "more than once"),
        ((-1,), "not a non-negative integer"),
        ((1.5,), "not a non-negative integer"),
        ((True,), "not a non-negative integer"),
    ],
)
def test_seeds(seeds, text):
    assert any(text in problem for problem in problems_of(seeds=seeds))


def test_metric_with_a_typo():
    assert 'did you mean "eval/loss"' in problems_of(metric="eval/los")[0]


def test_factors_that_set_the_same_field_are_refused():
    both = {"norm": levels("model.norm.placement", "pre", "post"), "other": {"x": {"model.norm.placement": "pre"}}}
    assert 'factors "norm" and "other" both set model.norm.placement' in problems_of(factors=both, contrasts=())[0]


def test_a_factor_cannot_be_the_seed():
    assert "the seed cannot be a factor" in problems_of(factors={"seed": levels("seed", 1, 2)}, contrasts=())[0]


def test_unknown_field_of_a_level():
    (problem,) = problems_of(factors={"norm": levels("model.norm.placment", "pre")}, contrasts=())
    assert (
        problem
        == 'factor "norm", level "pre": unknown field model.norm.placment (did you mean "model.norm.placement"?)'
    )


def test_factors_can_set_fields_of_parts_of_a_model():
    depth = levels("model.decoder.num_layers", 1, 2)
    window = levels("model.layers.kinds.local.attention.window", 4, 8)
    assert fake.experiment(factors={"depth": depth, "window": window}, contrasts=())
    (problem,) = problems_of(factors={"depth": levels("model.decoder.num_layer", 1)}, contrasts=())
    assert problem.endswith('unknown field model.decoder.num_layer (did you mean "model.decoder.num_layers"?)')
    (problem,) = problems_of(factors={"window": levels("model.layers.kinds.local.window", 1)}, contrasts=())
    assert problem.endswith('(did you mean "model.layers.kinds.local.attention.window"?)')


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (contrast(a=Side({"nrom": "pre", "warm-up": "0"})), 'unknown factor "nrom" (did you mean "norm"?)'),
        (contrast(a=Side({"norm": "prr", "warm-up": "0"})), 'has no level "prr" (did you mean "pre"?)'),
        (contrast(a=Side({"norm": "pre"})), "add a level of warm-up"),
        (contrast(a=Side(PRE, "eval/lss")), "unknown metric 'eval/lss' (did you mean \"eval/loss\"?)"),
        (contrast(rule="superior"), 'did you mean "superiority"?'),
        (contrast(margin=-1), "margin -1 is not a number of at least 0"),
        (contrast(margin=float("nan")), "margin nan"),
        (contrast(rule="equivalence", margin=0.0), "equivalence needs a margin above 0"),
        (contrast(rule="non_inferiority", margin=0.0), "non_inferiority needs a margin above 0"),
        (
            contrast(a=Side(PRE, "steps_to/a"), b=Side(POST, "steps_to/a"), rule="non_inferiority", margin=50),
            "steps_to/a is for superiority",
        ),
        (contrast(b=Side(PRE)), "both sides are the same"),
        (
            contrast(b=Side(POST, "eval/next_accuracy")),
            "eval/loss and eval/next_accuracy are different metrics and cannot be subtracted",
        ),
    ],
)
def test_bad_contrasts_are_refused(wrong, text):
    assert any(text in problem for problem in problems_of(contrasts=(wrong,)))


def test_all_problems_are_reported_at_once():
    wrong = contrast(a=Side({"nrom": "pre"}), rule="better")
    assert len(problems_of(name="a/b", seeds=(), contrasts=(wrong, wrong))) >= 7


def test_a_file_receives_the_argument_after_the_colon(tmp_path):
    file = tmp_path / "norms.py"
    file.write_text(fake.EXPERIMENT_FILE)
    assert load_experiment(str(file)).size == "tiny"
    assert load_experiment(f"{file}:full").size == "full"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("x = 1", "no function get_experiment"),
        ("def get_config(): pass", "use --config=FILE with --vary"),
        ("def get_experiment(): return 3", "returned int, expected an Experiment"),
        ("def get_experiment(): 1 / 0", "ZeroDivisionError"),
        ("import nothing_like_this", "fails on import"),
    ],
)
def test_broken_files(tmp_path, content, text):
    file = tmp_path / "broken.py"
    file.write_text(content)
    with pytest.raises(ConfigError, match=text):
        load_experiment(str(file))


def test_missing_file():
    with pytest.raises(ConfigError, match="does not exist"):
        load_experiment("experiments/nothing.py")


def config_file(tmp_path):
    file = tmp_path / "small.py"
    file.write_text("from zoo import config\ndef get_config(argument='tiny'):\n    return config.default()\n")
    return str(file)


def test_experiment_from_flags(tmp_path):
    file = config_file(tmp_path)
    experiment = experiment_from_flags(file, ["model.norm.kind=rmsnorm,layernorm", "schedule.warmup_steps=0,10"])
    assert experiment.name == "small-norm.kind-warmup_steps"
    assert experiment.factors["norm.kind"]["rmsnorm"] == {"model.norm.kind": "rmsnorm"}
    assert list(experiment.factors["warmup_steps"]) == ["0", "10"]
    assert experiment.metric == "eval/loss"
    assert not experiment.contrasts
    assert experiment_from_flags(file, ["model.dim=32,64"], name="widths").name == "widths"


def test_arms_given_as_configs_resolve_to_those_configs():
    experiment = experiment_from_flags(
        None, [], arms=["bert=bert:tiny", "t5=t5:tiny", "gemma=gemma3:smoke,model.dim=32"]
    )
    assert experiment.name == "bert-t5-gemma"
    for name, spec in (("bert", "bert:tiny"), ("t5", "t5:tiny"), ("gemma", "gemma3:smoke,model.dim=32")):
        arm = config.override(experiment.base, experiment.factors["arm"][name])
        assert config.identity(config.resolve(arm, vocab_size=300)) == config.identity(
            config.resolve(config.load(spec), vocab_size=300)
        )
    # Fields that all arms set alike are not part of the levels, so that --set can change them.
    arms = list(experiment.factors["arm"].values())
    assert all(any(arm.get(path) != arms[0].get(path) for arm in arms) for path in {**arms[0], **arms[1], **arms[2]})


def test_arms_that_set_several_fields(tmp_path):
    arms = ["plain=", "llama=model.norm.kind=rmsnorm,model.ffn.kind=swiglu"]
    experiment = experiment_from_flags(config_file(tmp_path), ["model.dim=32,64"], arms=arms)
    assert experiment.name == "small-plain-llama-dim"
    assert experiment.factors["arm"] == {
        "plain": {}, "llama": {"model.norm.kind": "rmsnorm", "model.ffn.kind": "swiglu"}
    }  # fmt: skip
    assert list(experiment.factors) == ["arm", "dim"]
    fresh = experiment_from_flags(
        config_file(tmp_path), [], arms=["a=training.start_from=runs/a", "b=training.start_from="]
    )
    assert [level["training.start_from"] for level in fresh.factors["arm"].values()] == ["runs/a", ""]


@pytest.mark.parametrize(
    ("spec", "arms", "message"),
    [
        (None, ["a=llama:tiny"], "one arm has nothing to be compared with"),
        (None, ["a=llama:tiny", "a=bert:tiny"], "--arm a is given twice"),
        (None, ["a=model.dim=3", "b=bert:tiny"], "needs --config=FILE"),
        (None, ["a=", "b=bert:tiny"], "expected NAME=CONFIG"),
        ("gpt2:tiny", ["a=llama:tiny", "b="], "leave --config out if every arm is a config"),
        ("gpt2:tiny", ["a=model.dmi=3", "b="], 'did you mean "model.dim"'),
        ("gpt2:tiny", ["a=model.dim=3,oops", "b="], "'oops' is not PATH=VALUE"),
        ("gpt2:tiny", ["a=model.dim=8,model.dim=16", "b="], "model.dim is given twice"),
        ("gpt2:tiny", ["a=model.dim=", "b="], "'model.dim=' is not PATH=VALUE; only texts can be empty"),
        ("gpt2:tiny", ["a=model.layers.pattern=x", "b="], "write an experiment file"),
        (None, ["a=lama:tiny", "b=bert:tiny"], 'did you mean "llama"'),
    ],
)
def test_bad_arms_are_refused(spec, arms, message):
    with pytest.raises(ConfigError, match=message):
        experiment_from_flags(spec, [], arms=arms)


def test_factors_over_parts_of_a_model_are_named_by_the_part(tmp_path):
    file = config_file(tmp_path)
    experiment = experiment_from_flags(
        file,
        [
            "model.decoder.num_layers=1,2",
            "model.encoder.num_layers=1,2",
            "model.num_layers=3,4",
            "model.layers.kinds.local.attention.window=4,8",
        ],
    )
    assert list(experiment.factors) == ["decoder.num_layers", "encoder.num_layers", "num_layers", "local.window"]
    assert experiment.factors["local.window"]["4"] == {"model.layers.kinds.local.attention.window": "4"}
    # A kind may have the name of a side.
    experiment = experiment_from_flags(
        file, ["model.decoder.attention.window=1,2", "model.layers.kinds.decoder.attention.window=1,2"]
    )
    assert list(experiment.factors) == ["model.decoder.attention.window", "model.layers.kinds.decoder.attention.window"]
    with pytest.raises(ConfigError) as error:
        experiment_from_flags(file, ["model.decoder.num_layer=1,2", "model.layers.pattern=a,b"])
    unknown, commas = error.value.problems
    assert 'did you mean "model.decoder.num_layers"' in unknown
    assert "commas" in commas


def test_all_problems_of_flags_are_reported(tmp_path):
    with pytest.raises(ConfigError) as error:
        experiment_from_flags(
            config_file(tmp_path),
            ["model.dmi=1", "model.dim", "model.dim=", "model.num_layers=1,", "training.eval_lengths=1,2"],
        )
    assert len(error.value.problems) == 5
    assert 'did you mean "model.dim"' in error.value.problems[0]


BAD = """
from zoo.lab.experiment import Experiment, levels
from zoo.lab.sizes import decoder
def get_experiment(size="tiny"):
    fields = dict(name="x", question="?", base=decoder(size), factors={"norm": levels("model.norm.kind", "layernorm", "rmsnorm")})
    return Experiment(**fields | dict(CHANGE))
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seeds=3", "line 6: seeds: expected a sequence of whole numbers, got 3 (int)"),
        ("base=None", "line 6: base: expected a config, got None (NoneType)"),
        ("contrasts=('a',)", "line 6: contrasts: expected a sequence of Contrast, got 'a' (str)"),
        ("tune={'a': 1}", "line 6: tune: expected a Tune"),
        ("claim='N1'", "line 6: claim: expected a Claim, got 'N1' (str)"),
        ("match='parameters'", "line 6: match: 'parameters': expected WHAT:FIELD"),
        ("allow='tokens'", "line 6: allow: expected a sequence of names, got 'tokens' (str)"),
        ("name=nothing", "line 6, fails: NameError"),
    ],
)
def test_errors_of_type_name_the_line_and_the_field(tmp_path, change, message):
    file = tmp_path / "mine.py"
    file.write_text(BAD.replace("CHANGE", change))
    with pytest.raises(ConfigError) as error:
        load_experiment(str(file))
    (line,) = error.value.problems
    assert message in line


def test_a_match_may_be_a_string(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(BAD.replace("CHANGE", "match='parameters:model.ffn.hidden_dim'"))
    assert load_experiment(str(file)).match == Match("parameters", "model.ffn.hidden_dim")


def test_premises_of_claims_are_checked():
    def claim(**premises):
        return problems_of(claim=Claim("X1, X2", "", "", **premises), contrasts=())

    assert claim(floor="trigram") == [
        "claim: floor 'trigram' is not one of n-gram, bigram, unigram, none (did you mean \"bigram\"?)"
    ]
    assert claim(floor="unigram") == [
        'claim: floor "unigram" is lower than "n-gram"; floor_reason must say why it will do'
    ]
    assert claim(hardware="gpus") == ["claim: hardware 'gpus' is not one of GPU, TPU, accelerator"]
    assert claim(control={"norms": "pre"}) == ['claim: control has the unknown factor "norms" (did you mean "norm"?)']
    assert claim(control={"norm": "none"}) == [
        'claim: control: factor "norm" has no level "none"; its levels are pre, post'
    ]
    assert claim(control="none") == ["claim: control 'none' is not a mapping of factors to levels"]
    assert claim(premises_of={"X3": Premises(floor="none")}) == [
        'claim: premises_of names "X3", which is not one of X1, X2',
        'claim X3: floor "none" is lower than "n-gram"; floor_reason must say why it will do',
    ]
    fake.experiment(
        claim=Claim("X1", "", "", floor="unigram", floor_reason="why", hardware="GPU", control={"norm": "pre"})
    )
