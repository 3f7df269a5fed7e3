"""A claim that was judged on several texts says on which it holds."""

import random
import string
from dataclasses import replace
from types import SimpleNamespace

from tests.lab import fake_run
from zoo.lab.results.corpora import ClaimOnCorpora, claims_on_corpora
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict


def judged(name="muon", corpus=None, contrasts=(), source="stdlib", **claims):
    run = SimpleNamespace(config={"data": {"source": source}})
    sweep = SweepResults(None, name, "eval/loss", [], [run], [0], list(contrasts), corpus=corpus or {})
    return sweep, Verdict("", [], "", claims)


def on(source):
    return {"experiment": "muon", "source": source}


def test_each_text_is_named_with_its_verdict():
    news = judged("muon-on-news", on("text:news.txt"), V1="undecided", V2="supported")
    plays = judged("muon-on-plays", on("text:plays.txt"), V1="not testable", V2="supported")
    first, second = claims_on_corpora([judged(V1="supported", V2="supported"), news, plays])
    assert first.sentence == "V1 holds on stdlib; is undecided on news; is not testable on plays"
    assert first.overall == "differs between texts"
    assert second.sentence == "V2 holds on stdlib and news and plays"
    assert second.overall == "supported"


def test_only_sweeps_of_one_experiment_are_combined():
    own = judged(V1="supported")
    assert not claims_on_corpora([own, judged("other", V1="supported")])
    assert not claims_on_corpora([own, judged("muon", V1="supported")])
    rule = fake_run.experiment().contrasts[0]
    for changed in (replace(rule, margin=0.5), replace(rule, rule="equivalence"), replace(rule, name="another")):
        assert not claims_on_corpora(
            [
                judged(contrasts=[rule], V1="supported"),
                judged("muon-on-news", on("text:news.txt"), [changed], V1="supported"),
            ]
        )


def test_texts_of_one_name_are_told_apart():
    claims = claims_on_corpora(
        judged(f"muon-on-{place}", on(f"text:{place}/train.txt"), V1="supported") for place in ("a", "b")
    )
    assert [claim.sentence for claim in claims] == ["V1 holds on text:a/train.txt and text:b/train.txt"]
    assert ClaimOnCorpora("muon", "", {"a": "not supported", "b": "not tuned"}).sentence == (
        "muon does not hold on a; is not tuned on b"
    )


def test_a_second_text_is_run_and_reported(command_line, tmp_path):
    # Letters at random: no count of them predicts as well as the losses of the stand-in for a run.
    (tmp_path / "news.txt").write_text("".join(random.Random(0).choices(string.ascii_letters, k=20_000)))
    assert command_line("run", "norms.py")[0] == 0
    code, out, _ = command_line("run", "norms.py", "--corpus", "text:news.txt")
    assert code == 0
    assert "norms-on-news" in out
    code, out, _ = command_line("report", "runs/norms", "runs/norms-on-news")
    assert code == 0
    *pages, sentence = out.splitlines()
    assert pages == ["runs/norms/report.html", "runs/norms-on-news/report.html"]
    assert sentence == "Supported: X1 holds on fake_run and news."
    assert command_line("report", "runs")[0] == 0
    assert "Claims on several texts" in (tmp_path / "runs" / "index.html").read_text()
    code, _, err = command_line("report", "runs/norms", "runs/norms")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "no claim is judged on several texts" in err
    code, _, err = command_line("run", "--config=gpt2:smoke", "--seeds", "2", "--corpus", "text:news.txt")
    assert code == 2
    assert "--corpus needs an experiment file" in err
