"""Translation runs: which texts they score, when and how, and that they resume bit for bit."""

import itertools
import json
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from tests.support.building import random_values
from tests.support.small_runs import OBJECTIVES, curves, lines, small
from zoo import data
from zoo.config import resolve
from zoo.decoding.beam_search import BeamSettings
from zoo.decoding.generator import Generator
from zoo.decoding.text_generator import TextGenerator
from zoo.decoding.translate import score_translations, translate
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.models.architectures import make_model
from zoo.training.checkpoints import checkpoint as checkpoint_module
from zoo.training.evaluation.translation_evaluation import TranslationEvaluator
from zoo.training.trainer import run

sacrebleu = pytest.importorskip("sacrebleu")


def quiet(line):
    del line


def pair(number):
    return {"source": "ab" * (number % 5 + 1) + str(number), "target": str(number) + "b" * (number % 7)}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    """Makes configs of small runs on pairs of two files; one held-out pair is too long."""
    folder = tmp_path_factory.mktemp("pairs")
    held_out = [pair(number) for number in range(100, 110)] + [{"source": "a" * 60, "target": "b"}]
    for name, records in (("train", [pair(number) for number in range(60)]), ("val", held_out)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, records)))

    def make(**changes):
        base = OBJECTIVES["translation"] | {
            "data__source": f"jsonl:{folder}/train.jsonl",
            "data__held_out": f"jsonl:{folder}/val.jsonl",
            "model__num_layers": 1,
            "data__buckets": 1,
            "model__dropout": 0.1,
            "objective__label_smoothing": 0.1,
            "training__steps": 8,
            "training__checkpoint_every": 3,
        }
        return small(**base | changes)

    return make


@pytest.fixture(scope="module")
def straight(config, tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "run"
    run(config(training__translate_every=4), folder, quiet)
    return folder


@pytest.mark.promise(reason="whole runs are trained and translate")
def test_a_run_translates_at_the_configured_steps(straight, config, tmp_path):
    scores = [(line["step"], "eval/bleu" in line) for line in lines(straight) if "eval/loss" in line]
    assert scores == [(0, False), (4, True), (8, True)]
    run(config(), tmp_path / "run", quiet)
    assert [(line["step"], "eval/bleu" in line) for line in lines(tmp_path / "run") if "eval/loss" in line] == [
        (0, False),
        (4, False),
        (8, True),
    ]
    # The interval of scoring does not change training.
    before, after = (
        [{name: value for name, value in curve if name.startswith("train/")} for curve in curves(folder)]
        for folder in (straight, tmp_path / "run")
    )
    assert before == after


@pytest.mark.promise(reason="whole runs are trained and translate")
def test_held_out_sources_are_translated_once_and_scored_like_sacrebleu(straight, config):
    dataset = data.load(resolve(config()))
    texts = [json.loads(line) for line in (straight / "translations.jsonl").read_text().splitlines()]
    assert [text["source"] for text in texts] == dataset.validation.sources
    assert len(texts) == 11
    assert max(len(text["source"]) for text in texts) > 24
    by_hand = sacrebleu.corpus_bleu([text["translation"] for text in texts], [[text["target"] for text in texts]])
    record, last = read_json(straight / "translations.json"), lines(straight)[-1]
    assert record["bleu"] == last["eval/bleu"] == by_hand.score
    assert (
        last["eval/chrf"]
        == sacrebleu.corpus_chrf([text["translation"] for text in texts], [[text["target"] for text in texts]]).score
    )
    assert last["eval/exact_match"] == np.mean([text["target"] == text["translation"] for text in texts])
    assert (record["step"], record["pairs"]) == (8, 11)
    assert f"version:{sacrebleu.__version__}" in record["signatures"]["bleu"]


def test_scores_of_correct_and_wrong_texts():
    right = ["the cat sat on the mat", "a dog ran far away"]
    assert score_translations(right, right).values == {
        "bleu": pytest.approx(100),
        "chrf": pytest.approx(100),
        "exact_match": 1.0,
    }
    assert score_translations(["the cat sat on the mat", "no"], right).exact_match == 0.5


@pytest.fixture(scope="module")
def random_model(config):
    resolved = resolve(config())
    dataset = data.load(resolved)
    model = make_model(resolved)
    # Spread logits, so that texts end and different searches give different texts.
    values = jax.tree.map(lambda leaf: 3 * leaf, random_values(model, 3))
    return resolved, dataset, model, values


def test_texts_translated_in_a_batch_equal_those_translated_alone(random_model):
    resolved, dataset, model, values = random_model
    sources = dataset.validation.sources[:4]
    alone = TextGenerator(resolved, dataset.tokenizer, model, values, {})
    # Every text of a batch may have as many tokens as the longest one.
    assert 2 * max(map(len, sources)) + 12 >= 24
    texts = translate(resolved, dataset.tokenizer, model, values, {}, sources, BeamSettings(3, 0.5))
    for source, text in zip(sources, texts, strict=True):
        (answer,) = alone.beam_search([source], 24, 3, 0.5)
        assert answer.text.strip() == text
    assert len(set(texts)) == 4


def test_beam_search_follows_the_config(random_model, config, tmp_path, monkeypatch):
    _, dataset, model, values = random_model
    resolved = resolve(config(objective__beams=3, objective__length_penalty=0.25))
    searches, original = [], Generator.beam_search

    def beam_search(self, prompts, max_new_tokens, beams, length_penalty, *rest):
        searches.append((beams, length_penalty))
        return original(self, prompts, max_new_tokens, beams, length_penalty, *rest)

    monkeypatch.setattr(Generator, "beam_search", beam_search)
    translations = TranslationEvaluator(resolved, dataset, model, tmp_path)
    assert set(translations(8, {"params": values, "stats": {}}, lambda: False)) == {
        "eval/bleu",
        "eval/chrf",
        "eval/exact_match",
    }
    # Eleven texts, eight at a time.
    assert searches == [(3, 0.25)] * 2
    record = read_json(tmp_path / "translations.json")
    assert (record["beams"], record["length_penalty"]) == (3, 0.25)


def test_translations_have_at_most_twice_the_tokens_of_a_batch_and_ten(config, monkeypatch):
    resolved = resolve(config(data__sequence_length=40, data__batch_size=2))
    dataset, model, asked = data.load(resolved), make_model(resolved), []

    def beam_search(self, prompts, max_new_tokens, *rest):
        asked.append(max_new_tokens)
        return SimpleNamespace(tokens=np.zeros((2, 1, 1), np.int32), lengths=np.zeros((2, 1), np.int32))

    monkeypatch.setattr(Generator, "beam_search", beam_search)
    texts = ["abc", "a" * 30, "a" * 5, "a"]
    translate(resolved, dataset.tokenizer, model, random_values(model), {}, texts, BeamSettings(1, 1.0))
    # With their ends the texts have 2, 4, 6 and 31 tokens; no text is longer than a row.
    assert asked == [2 * 4 + 10, 40]


def test_stopped_search_returns_nothing(random_model):
    resolved, dataset, model, values = random_model
    asked = itertools.count(1)
    assert (
        translate(
            resolved,
            dataset.tokenizer,
            model,
            values,
            {},
            dataset.validation.sources,
            BeamSettings(1, 1.0),
            lambda: next(asked) == 2,
        )
        is None
    )
    assert next(asked) == 3


@pytest.mark.promise(reason="whole runs are trained and translate")
def test_translation_run_resumes_bit_for_bit(straight, config, tmp_path, monkeypatch):
    polls, original = itertools.count(1), checkpoint_module.Checkpoints.poll

    def poll(self):
        original(self)
        if next(polls) == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.Checkpoints, "poll", poll)
        with pytest.raises(KeyboardInterrupt):
            run(config(training__translate_every=4), tmp_path / "run", quiet)
    said = []
    run(config(training__translate_every=4), tmp_path / "run", said.append)
    assert any("continuing from step 3 of 8" in line for line in said)
    assert curves(tmp_path / "run") == curves(straight)
    assert read_json(tmp_path / "run" / "status.json") == read_json(straight / "status.json")


@pytest.mark.promise(reason="whole runs are trained and translate")
def test_accumulation_equals_the_full_batch_for_all_shapes(straight, config, tmp_path):
    # Without dropout, whose masks depend on the part of the batch.
    for parts in (1, 4):
        run(
            config(training__accumulation_steps=parts, model__dropout=0.0, training__steps=4),
            tmp_path / str(parts),
            quiet,
        )
    one, other = (
        [line["train/loss"] for line in lines(tmp_path / str(parts)) if "train/loss" in line] for parts in (1, 4)
    )
    assert len(one) == 4
    np.testing.assert_allclose(other, one, rtol=1e-4)


def test_missing_sacrebleu_is_refused_before_training(config, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(ConfigError, match="sacrebleu, which is missing: pip install sacrebleu"):
        run(config(), tmp_path / "run", quiet)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.promise(reason="whole runs are trained and translate")
def test_meta_describes_the_data(straight):
    record = read_json(straight / "meta.json")["data"]
    assert (record["train_pairs"], record["validation_pairs"]) == (60, 11)
    assert record["too_long"] == {"train": 0, "validation": 1}
    assert "1 held-out pairs of more than 24 tokens a side left out" in record["description"]
    assert record["train_tokens"] == sum(len(text) for number in range(60) for text in pair(number).values())
