"""An added objective with the traits and class of a built-in one is treated like it everywhere."""

import contextlib

import numpy as np
import pytest

from tests.support.small_runs import OBJECTIVES as OVERRIDES
from tests.support.small_runs import curves, small
from zoo import config as configs
from zoo import data
from zoo.config.kinds import OBJECTIVE_KINDS, Kind
from zoo.decoding.sampling import Sampling
from zoo.decoding.text_generator import Completion, TextGenerator
from zoo.errors import ConfigError
from zoo.interop.config_export import export_config
from zoo.lab.metrics import written_metrics
from zoo.models.architectures import make_model
from zoo.models.cost import summary
from zoo.nested import flatten
from zoo.objectives.prefix import PrefixDecoderObjective
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

TEXT = ("causal", "masked", "prefix", "prefix decoder", "span", "denoising", "bidirectional")
PROMPTS = {"span": "a <0> c", "denoising": "a <0> c"}
SHORT = {"training__steps": 1, "training__eval_batches": 1}
LEARNED = {"model__position__kind": "learned", "model__position__max_length": 4}


def quiet(line):
    del line


def overrides_of(case):
    """The overrides of a small run with a built-in objective."""
    return {"objective__kind": "causal"} | OVERRIDES[case]


@contextlib.contextmanager
def copied(case):
    """Registers the objective of a case under the name `copied`; yields its overrides."""
    overrides = overrides_of(case)
    kind, architecture = overrides["objective__kind"], overrides.get("model__architecture", "decoder")
    traits = OBJECTIVE_KINDS.by_name[kind].traits - {"decoder", "encoder_decoder"} | {architecture}
    made = PrefixDecoderObjective if case == "prefix decoder" else OBJECTIVE_KINDS.code_of(kind)
    OBJECTIVE_KINDS.add(Kind("objective.kind", "copied", f"{kind}, again", traits, code=made))
    try:
        yield overrides | {"objective__kind": "copied"}
    finally:
        OBJECTIVE_KINDS.remove("copied")


def answers(folder, case):
    """Returns the texts that a run generates and their numbers of tokens."""
    trained = load_trained(folder)
    generator = TextGenerator(trained.config, trained.tokenizer, trained.model, trained.params, trained.stats)
    return generator.sample([PROMPTS.get(case, "ab")], 4, Sampling(temperature=0.0), 0)


@pytest.mark.parametrize("case", TEXT)
def test_config_rows_and_costs_equal_those_of_the_built_in_one(case):
    def described(overrides):
        config = configs.resolve(small(**SHORT | overrides))
        dataset = data.load(config)
        with dataset.training_batches(0) as batches:
            batch = next(batches)
        ids = dataset.tokenizer.model_vocab_size(config.objective, config.data.row_format)
        flat = flatten(config)
        by_itself = configs.resolve(small(**overrides | {"objective__prefix_length": "auto"})).objective.prefix_length
        exported = export_config("GPT2LMHeadModel", config).problems if case == "prefix decoder" else ()
        more = (
            summary(config),
            written_metrics(flat),
            [line.replace("copied", "prefix") for line in exported],
            ids,
            by_itself,
        )
        return {**flat, "objective.kind": None}, batch, more

    flat, batch, more = described(overrides_of(case))
    with copied(case) as overrides:
        again, batch_again, more_again = described(overrides)
    assert again == flat
    assert more_again == more
    assert batch_again.keys() == batch.keys()
    for name in batch:
        np.testing.assert_array_equal(batch_again[name], batch[name])


@pytest.mark.parametrize("case", ["prefix", "prefix decoder", "span", "denoising"])
def test_prompts_are_read_like_those_of_the_built_in_one(case):
    def read(overrides):
        config = configs.resolve(small(**overrides))
        dataset = data.load(config)
        config = configs.resolve(config, dataset.tokenizer.model_vocab_size(config.objective, config.data.row_format))
        text = TextGenerator(config, dataset.tokenizer, make_model(config), {}, {})
        request = text._request([PROMPTS.get(case, "ab"), "ab"], 4, ())
        stop = request.pop("stop").tolist()
        shown = text.full_text("ab", Completion("c", 1, True))
        return request, stop, shown, text.trained_length, text.generator.bidirectional_prompt

    built_in = read(overrides_of(case))
    with copied(case) as overrides:
        assert read(overrides) == built_in


@pytest.mark.promise(reason="a step of every objective is compiled")
@pytest.mark.parametrize("case", ["masked", "prefix decoder", "span"])
def test_training_evaluation_and_decoding_equal_the_built_in_one(case, tmp_path):
    decodes = case != "masked"
    run(small(**overrides_of(case) | SHORT), tmp_path / "built in", quiet)
    expected = answers(tmp_path / "built in", case) if decodes else None
    with copied(case) as overrides:
        run(small(**overrides | SHORT), tmp_path / "copied", quiet)
        assert curves(tmp_path / "copied") == curves(tmp_path / "built in")
        if decodes:
            assert answers(tmp_path / "copied", case) == expected


@pytest.mark.parametrize(
    ("case", "changes"),
    [
        *((case, {"data__isolate_documents": True}) for case in TEXT if case not in ("causal", "masked")),
        *((case, LEARNED) for case in ("prefix", "span", "denoising")),
        ("prefix", {"objective__prefix_length": 99}),
        ("prefix decoder", {"model__attention__window": 4}),
        ("prefix decoder", {"model__position__kind": "relative_bias"}),
        ("prefix decoder", {"model__attention__kind": "performer"}),
        ("prefix decoder", {"model__attention__implementation": "cudnn"}),
        ("span", {"objective__sentinels": 1, "data__sequence_length": 128}),
        ("span", {"data__sequence_length": 1}),
        ("denoising", {"objective__mask_token_fraction": 0.95}),
        ("causal", {"data__source": "csv:a.csv"}),
        ("masked", {"training__eval_context": 4}),
        ("causal", {"objective__prefix_length": 4}),
        ("masked", {"objective__sentinels": 4}),
        ("causal", {"objective__select_fraction": 0.3}),
    ],
)
def test_refused_combinations_equal_those_of_the_built_in_one(case, changes):
    def problems(overrides):
        with pytest.raises(ConfigError) as refused:
            configs.resolve(small(**overrides | changes))
        return refused.value.problems

    with copied(case) as overrides:
        found = problems(overrides)
        built_in = problems(overrides_of(case))
    kind = overrides_of(case)["objective__kind"]
    # The second replacement covers "it is read only when objective.kind is ...".
    named = {
        "objective.kind=copied": f"objective.kind={kind}",
        "and objective.kind is copied": f"and objective.kind is {kind}",
    }
    for theirs, ours in named.items():
        found = [line.replace(theirs, ours) for line in found]
    assert found == built_in
