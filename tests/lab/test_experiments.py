"""The shipped experiments: every size gives a valid plan, arms differ only in declared fields, and
every arm trains.
"""

import dataclasses
import functools
import itertools
import json
import math
import re
import shutil
from pathlib import Path

import pytest

from tests.support.small_library import small_standard_library
from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.analysis.run_measures import measure_run
from zoo.config.fields import IGNORED_BY, TASKS
from zoo.config.scopes import overridable, scoped, split_path
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.experiment import load_experiment, required_measures
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.prerequisites import resolve_references
from zoo.lab.results.run_records import load_run
from zoo.lab.sizes import LADDER, SIZES
from zoo.nested import flatten
from zoo.training.trainer import run

ROOT = Path(__file__).parents[2]
# Experiments that need a trained run; see test_students_need_a_teacher.
NEEDING_A_RUN = ("distillation.py",)
# Experiments on public data sets; see tests/data/sources/test_hubs.py.
NEEDING_A_HUB = ("feedforward_wikitext.py",)
FILES = sorted(
    path.name for path in (ROOT / "experiments").glob("*.py") if path.name not in NEEDING_A_RUN + NEEDING_A_HUB
)


def sizes_of(name):
    """Returns the sizes of the file itself, or those that most files share."""
    own = configs.import_file(ROOT / "experiments" / name, "experiment file")
    return getattr(own, "SIZES", SIZES)


# Experiments that claim S1 compares along the ladder of sizes.
ALONG_THE_LADDER = ("heads.py", "positions_extrapolation.py", "shared_heads.py")
# Sizes of the ladder differ from tiny only in numbers: all are loaded, but only some are planned by
# default.
LARGER_SIZES = [size for size in LADDER if size != "tiny"]
SPECS = [
    f"{name}:{size}"
    for name in FILES
    for size in sizes_of(name)
    if size not in LARGER_SIZES or name in ALONG_THE_LADDER
]


def marks_of(name, size):
    """Returns the group of a size: one for larger machines stands for the others, which differ from it
    in numbers.
    """
    if size in ("tiny", "quick"):
        return ()
    if name in ALONG_THE_LADDER or size == ("rung1" if "rung1" in sizes_of(name) else "small"):
        return pytest.mark.promise(reason="sizes for larger machines take long to plan")
    return pytest.mark.slow(reason="sizes differ in numbers, and one for larger machines is planned for each file")


MARKED_SPECS = [pytest.param(spec, marks=marks_of(*spec.split(":"))) for spec in SPECS]
# Experiments whose docstring promises equal FLOPs.
EQUAL_FLOPS = (
    "bytes_or_subwords.py",
    "decoder_or_both.py",
    "depth_connections.py",
    "full_layer.py",
    "gated_delta.py",
    "kimi_delta.py",
    "objective_and_architecture.py",
    "streams.py",
)
# Experiments whose question is about the shares of kinds of layers.
PATTERNED = ("full_layer.py", "gated_delta.py", "kimi_delta.py", "local_layers.py", "state_recall.py")
EQUAL_PREREQUISITE_FLOPS = ("span_corruption.py",)


@pytest.fixture(autouse=True, scope="module")
def library(tmp_path_factory):
    with small_standard_library(tmp_path_factory.mktemp("library")):
        yield


@functools.cache
def plan_of(spec):
    return make_plan(load_experiment(str(ROOT / "experiments" / spec)))


def smallest(config):
    """Returns the run with minimal cost, but on the experiment's own data."""
    # Every example of a task is scored; large batches need the fewest calls.
    size = (
        {"data.batch_size": 64}
        if config.objective.kind in TASKS
        else {"data.batch_size": 2, "training.eval_batches": 1}
    )
    return configs.override(
        config,
        {"training.steps": 1, "schedule.warmup_steps": 0, "training.log_every": 1, "training.eval_lengths": (), **size},
    )


def test_experiment_files_are_found():
    assert len(FILES) >= 25


# Claims that need trained models; P6 is a picture (`zoo draw rope`).
TRAINED_CLAIMS = [
    *(f"N{number}" for number in range(1, 11)),
    "P1",
    "P2",
    "P3",
    "P7",
    "P10",
    "P11",
    "P13",
    "A1",
    "A5",
    "A6",
    "A8",
    "A9",
    "A10",
    "A11",
    "A12",
    "A13",
    "A14",
    "A15",
    "F1",
]


@functools.cache
def claims_of(name):
    return re.split(r", *", load_experiment(str(ROOT / "experiments" / name)).claim.id)


def test_every_trained_claim_has_an_experiment():
    """`python -m tests.lint` checks that the documentation lists it."""
    assert set(TRAINED_CLAIMS) <= {claim for name in FILES for claim in claims_of(name)}


@pytest.mark.parametrize("spec", MARKED_SPECS)
def test_every_size_gives_a_valid_plan(spec):
    plan = plan_of(spec)
    name, size = spec.split(".py:")
    assert plan.experiment.name == (name if size == "tiny" else f"{name}-{size}")
    assert len(plan.experiment.seeds) >= 3
    assert plan.experiment.claim
    assert plan.experiment.contrasts
    # Data that need no network: Python's standard library, or synthetic documents.
    data = plan.arms[0].config.data
    sources = [entry.partition("*")[2] for entry in data.mixture] or [data.source]
    assert {source.partition(":")[0] for source in sources} <= {"stdlib", "synthetic"}


@pytest.mark.promise(reason="hundreds of experiments are loaded")
def test_every_size_loads():
    for spec in SPECS:
        experiment = load_experiment(str(ROOT / "experiments" / spec))
        assert experiment.size == spec.partition(":")[2]


def test_files_with_shared_sizes_have_the_ladder_sizes():
    for name in FILES:
        if sizes_of(name) is SIZES:
            for size in LARGER_SIZES:
                experiment = load_experiment(f"{ROOT / 'experiments' / name}:{size}")
                assert (experiment.name, experiment.size) == (f"{name.removesuffix('.py')}-{size}", size)


def test_ladder_quadruples_parameters_and_tokens_at_each_size():
    arms = [plan_of(f"heads.py:{size}").arms[0] for size in LADDER]
    layers = [arm.parameters["body"] for arm in arms]
    assert all(3.9 < larger / smaller < 4.1 for smaller, larger in itertools.pairwise(layers))
    assert all(larger.tokens == 4 * smaller.tokens for smaller, larger in itertools.pairwise(arms))


@functools.cache
def docstring_of(name):
    return configs.import_file(ROOT / "experiments" / f"{name}.py", "experiment file").__doc__


def read_by_choice(declared):
    """Returns the fields that are derived, and those that a declared choice reads or ignores."""
    unread = (
        tuple(start for starts in IGNORED_BY.values() for start in starts) if "model.architecture" in declared else ()
    )
    following = {
        field.path
        for field in configs.FIELDS
        if field.auto or (field.when and field.when[0] in declared) or field.path.startswith(unread)
    }
    scopes = {found[0] for path in declared if (found := split_path(path))}
    return following | {scoped(scope, path) for scope in scopes for path in following & set(overridable(scope))}


@pytest.mark.parametrize("spec", MARKED_SPECS)
def test_arms_differ_only_in_declared_fields(spec):
    plan = plan_of(spec)
    declared = {path for factor in plan.experiment.factors.values() for changes in factor.values() for path in changes}
    declared |= {plan.experiment.match.field} if plan.experiment.match else set()
    following = read_by_choice(declared)
    first = plan.arms[0].config
    for arm in plan.arms[1:]:
        assert set(configs.difference(first, arm.config)) <= declared | following


@pytest.mark.parametrize("spec", MARKED_SPECS)
def test_prerequisites_differ_only_in_listed_fields(spec):
    """Arms that start from different runs differ in the fields in which those runs differ."""
    plan = plan_of(spec)
    first, *others = (
        {run.arm.name: run.arm.config for run in plan.prerequisites}.values() if plan.prerequisites else [None]
    )
    allowed = {
        "families.py": {"model.architecture", "objective.kind", "model.num_layers"},
        "casing.py": {"data.tokenizer.lowercase"},
        "span_corruption.py": {
            "objective.kind",
            "objective.sentinels",
            "objective.prefix_length",
            "training.steps",
            "training.eval_every",
            "training.checkpoint_every",
        },
        "masking_recipe.py": {"objective.mask_token_fraction", "objective.random_token_fraction"},
        "pretraining_objective.py": {
            "objective.kind",
            "objective.mask_token_fraction",
            "objective.random_token_fraction",
        },
        "next_sentence.py": {
            "data.row_format",
            "objective.next_sentence",
            "model.head.next_sentence",
            "model.head.pooler",
        },
    }
    for other in others:
        named = allowed[spec.partition(":")[0]]
        assert set(configs.difference(first, other)) <= named | read_by_choice(named)


@pytest.mark.parametrize(
    "spec", [spec for spec in SPECS if spec.partition(":")[0] in EQUAL_FLOPS + EQUAL_PREREQUISITE_FLOPS]
)
def test_arms_with_promised_equal_flops_have_equal_flops(spec):
    plan = plan_of(spec)
    prerequisites = [run.arm for run in plan.prerequisites]
    totals = [arm.flops_per_token * arm.tokens for arm in prerequisites or plan.arms]
    assert max(totals) < 1.01 * min(totals)


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.startswith("loops.py:")])
def test_a_looped_model_has_the_operations_of_one_arm_and_the_parameters_of_another(spec):
    layers, looped, few = plan_of(spec).arms
    assert looped.flops_per_token == layers.flops_per_token
    assert looped.parameters == few.parameters


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec.partition(":")[0] in PATTERNED])
def test_each_kind_of_layer_has_its_share_at_every_size(spec):
    experiment = load_experiment(str(ROOT / "experiments" / spec))
    for levels in experiment.factors.values():
        for changes in levels.values():
            model = configs.override(experiment.base, changes).model
            assert model.num_layers % max(1, len(model.layers.pattern)) == 0


@pytest.mark.slow(reason="every arm of every experiment is trained")
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("fast_compilation")
@pytest.mark.parametrize("name", FILES)
def test_every_arm_trains(name, tmp_path):
    plan = plan_of(f"{name}:tiny")
    sides = [side for contrast in plan.experiment.contrasts for side in contrast.sides]
    metrics = {plan.experiment.metric, *(side.metric for side in sides if side.metric and "@" not in side.metric)}
    seed, programs = plan.experiment.seeds[0], set()
    for one in [one for one in plan.in_order if one.seed == seed]:
        program = configs.program_key(flatten(one.config))
        if one in plan.runs and program in programs:  # It differs only in numbers.
            continue
        programs.add(program)
        folder = tmp_path / one.folder
        run(smallest(resolve_references(one.config, lambda name: str(tmp_path / name))), folder, lambda line: None)
        assert read_json(folder / "status.json")["state"] == "done"
        if one in plan.runs:
            measure_run(folder, required_measures(plan.experiment))
            assert all(math.isfinite(load_run(folder).final(metric)) for metric in metrics)


def test_casing_experiment_runs_on_files(tmp_path):
    """A folder provides the text for pre-training and both tasks; tags are scored by entities."""
    for name, text in {
        "text/a.train.txt": "Ada met Bob in Paris. " * 60 + "\n = B = \n" + "Then they went home. " * 60,
        **{
            f"tagging/a.{part}.conll": f"{name} B-person\nmet O\n\nhe O\n"
            for part, name in (("train", "Ada"), ("dev", "Bob"))
        },
        **{f"classification/a.{part}.tsv": f"good {part}\t1\nbad {part}\t0\n" for part in ("train", "dev")},
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    experiment = load_experiment(f"{ROOT / 'experiments' / 'casing.py'}:data={tmp_path}")
    smaller = {
        name: dataclasses.replace(one, config=configs.override(one.config, {"data.tokenizer.vocab_size": 270}))
        for name, one in experiment.prerequisites.items()
    }
    plan = make_plan(dataclasses.replace(experiment, prerequisites=smaller))
    assert plan.experiment.name == "casing-files"
    assert {run.arm.config.data.source for run in plan.prerequisites} == {f"text:{tmp_path}/text/*.train.*"}
    assert {arm.config.data.held_out for arm in plan.arms} == {
        f"conll:{tmp_path}/tagging/*.dev.conll",
        f"tsv:{tmp_path}/classification/*.dev.tsv",
    }
    tags = experiment.contrasts[0]
    assert (tags.a.metric, tags.b.metric, tags.margin) == ("eval/entity_f1", "eval/entity_f1", 0.01)


DISTILLATION = ROOT / "experiments" / "distillation.py"


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    return untrained(tmp_path_factory.mktemp("teacher") / "run", small(model__num_layers=4, model__dim=16))


@pytest.mark.parametrize("size", ["tiny", "full"])
def test_students_differ_only_in_their_training_signal(teacher, size):
    plan = make_plan(load_experiment(f"{DISTILLATION}:{size},teacher={teacher}"))
    assert plan.experiment.name == ("distillation" if size == "tiny" else "distillation-full")
    assert [arm.config.objective.distillation.teacher for arm in plan.arms] == ["", str(teacher), str(teacher)]
    assert all(
        path.startswith("objective.distillation.")
        for arm in plan.arms[1:]
        for path in configs.difference(plan.arms[0].config, arm.config)
    )
    assert {tuple(arm.config.training.start_layers) for arm in plan.arms} == {(0, 2)}
    # The cost of an arm includes the teacher's forward pass.
    assert plan.arms[1].flops_per_token > plan.arms[0].flops_per_token
    assert all(f"{contrast.margin:g}" in docstring_of("distillation") for contrast in plan.experiment.contrasts)


def test_student_margin_follows_from_the_teacher_loss(teacher, tmp_path):
    """3 % of the gain over a uniform guess; without a loss or a gain there is no rule."""
    names = {}
    for loss in (None, 2.5, 9.0):
        run = shutil.copytree(teacher, tmp_path / str(loss))
        if loss:
            (run / "metrics.jsonl").write_text(json.dumps({"step": 2, "eval/loss": loss}) + "\n")
        plan = make_plan(load_experiment(f"{DISTILLATION}:teacher={run}"))
        names[loss] = [contrast.name for contrast in plan.experiment.contrasts]
        if loss == 2.5:
            kept = plan.experiment.contrasts[1]
            assert (kept.a.arm, kept.b.metric, kept.rule) == (
                kept.b.arm,
                "measured/pretraining_loss",
                "non_inferiority",
            )
            vocabulary = plan.arms[0].config.model.vocab_size
            assert kept.margin == pytest.approx(0.03 * (math.log(vocabulary) - 2.5))
            assert required_measures(plan.experiment) == ["pretraining_loss"]
    assert "it keeps most of the teacher" in names[2.5]
    assert names[None] == names[9.0] == [name for name in names[2.5] if "teacher" not in name or "helps" in name]


@pytest.mark.parametrize("argument", ["", ":tiny", ":teacher="])
def test_students_need_a_teacher(argument):
    with pytest.raises(ConfigError, match=r"zoo run experiments/distillation\.py:teacher=RUN"):
        load_experiment(f"{DISTILLATION}{argument}")


@pytest.mark.promise(reason="sizes for larger machines take long to plan")
@pytest.mark.usefixtures("fast_compilation")
def test_every_student_trains(teacher, tmp_path):
    plan = make_plan(load_experiment(f"{DISTILLATION}:teacher={teacher}"))
    for number, arm in enumerate(plan.arms):
        run(smallest(arm.config), tmp_path / str(number), lambda line: None)
        assert load_run(tmp_path / str(number)).final("eval/loss") >= 0
