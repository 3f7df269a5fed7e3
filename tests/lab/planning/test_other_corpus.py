"""An experiment on another text has the same arms and rules, and its own name."""

import pytest

from tests.lab import fake_run
from zoo import config
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.errors import ConfigError
from zoo.lab.experiment import Prerequisite, load_experiment
from zoo.lab.planning.other_corpus import corpus_label, on_corpus
from zoo.lab.planning.plan import make_plan
from zoo.lab.sizes import decoder
from zoo.nested import flatten


@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("text:corpora/tiny shakespeare.txt.gz", "tiny-shakespeare"),
        ("text:corpora/news/*.txt", "news"),
        ("hf:Salesforce/wikitext", "wikitext"),
        ("synthetic:recall,length=8", "recall"),
        ("stdlib", "stdlib"),
        ("text:***", "text"),
    ],
)
def test_labels_are_short_and_fit_into_names(source, label):
    assert corpus_label(source) == label


def test_only_the_text_and_the_name_change(monkeypatch):
    from zoo.lab.planning import arm_resolution

    monkeypatch.setattr(arm_resolution, "count_cost", fake_run.cost)
    first = fake_run.experiment()
    other = on_corpus(first, "jsonl:corpora/news.jsonl", {"data.column": "story"})
    assert other.name == "norms-on-news"
    changed = config.difference(first.base, other.base)
    assert {path: values[1] for path, values in changed.items()} == {
        "data.source": "jsonl:corpora/news.jsonl",
        "data.column": "story",
    }
    assert (other.factors, other.contrasts, other.claim) == (first.factors, first.contrasts, first.claim)
    record = make_plan(other).record()
    assert record["corpus"] == {"experiment": "norms", "source": "jsonl:corpora/news.jsonl"}
    assert "corpus" not in make_plan(first).record()


def test_fields_of_the_first_text_are_left_out():
    own = {"data.source": "hf:a/b", "data.hub.revision": "0" * 40, "data.column": "story", "data.held_out": "text:dev"}
    base = config.override(fake_run.experiment().base, own)
    for source in ("text:news.txt", "hf:c/d"):
        flat = flatten(on_corpus(fake_run.experiment(base=base), source).base)
        assert (flat["data.hub.revision"], flat["data.column"], flat["data.held_out"]) == ("", "text", "")


def changed(**fields):
    base = fake_run.experiment().base
    return fake_run.experiment(base=config.override(base, {name.replace("__", "."): it for name, it in fields.items()}))


REFUSED = {
    "its own": (fake_run.experiment, f"text:{fake_run.__file__}", "that is the text of norms already"),
    "a task": (lambda: changed(objective__kind="classification"), "text:a.txt", "which reads no running text"),
    "a rule": (lambda: changed(data__source="synthetic:copy"), "text:a.txt", "is about a text made by rule"),
    "varied": (
        lambda: fake_run.experiment(factors={"text": {"a": {"data.source": "text:a"}}}, contrasts=()),
        "text:b.txt",
        r"varies its text itself \(data\.source\)",
    ),
    "prerequisites": (
        lambda: fake_run.experiment(prerequisites={"body": Prerequisite(config.default())}),
        "text:b.txt",
        r"starts from runs that are trained on their own text \(body\)",
    ),
}


@pytest.mark.parametrize(("make", "source", "line"), REFUSED.values(), ids=REFUSED)
def test_experiments_that_cannot_read_another_text_are_refused(make, source, line):
    with pytest.raises(ConfigError, match=f"--corpus {source}: .*{line}"):
        on_corpus(make(), source)


def test_the_wikitext_experiment_is_the_feedforward_one_on_another_text():
    experiment = load_experiment("feedforward_wikitext:tiny")
    assert experiment.name == "feedforward_wikitext"
    assert experiment.corpus == {"experiment": "feedforward", "source": "hf:Salesforce/wikitext"}
    assert config.resolve(experiment.base).data.hub.subset == "wikitext-2-raw-v1"
    with pytest.raises(ConfigError, match=r"above a 6-gram model of WikiText-2.*the smallest rung for it is rung2"):
        load_experiment("feedforward_wikitext:rung1")


def test_the_split_of_the_shared_decoder_is_an_argument():
    old, clustered = (config.resolve(decoder("tiny", **given)) for given in ({}, {"split": "clustered"}))
    assert (old.data.split, clustered.data.split) == ("documents", "clustered")
    assert config.identity(old) != config.identity(clustered)
    # Archived runs of the shared decoder are found by this identity.
    without = {path: value for path, value in flatten(old).items() if path != "data.split"}
    assert config.identity(old) == config.identity(without)
    assert "text" in OBJECTIVE_KINDS.by_name[old.objective.kind].traits
