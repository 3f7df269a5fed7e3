"""Generation against Hugging Face's `generate` with its cache: the same tokens, and for beam search
the same hypotheses and scores.
"""

import functools

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from tests.parity.harness import FIRST_TOKEN, resolved
from tests.parity.references import build
from tests.parity.systems import SYSTEMS
from zoo.decoding import Generator, stop_table
from zoo.interop.model_weights import import_weights
from zoo.models.architectures import make_model

pytestmark = pytest.mark.parity
SYSTEMS_BY_NAME = {system.name: system for system in SYSTEMS}
DECODERS = ("gpt2", "llama-grouped", "mistral", "gemma3", "bloom", "qwen3-moe")
ENCODER_DECODERS = ("transformer", "bart", "t5", "umt5")
NEW, START = 15, 2
# The texts are several times as long as the windows of 5.
LENGTHS = (3, 9)


@functools.cache
def reference_and_generator(name):
    """Returns (the reference, zoo's generator) with the same random weights."""
    system = SYSTEMS_BY_NAME[name]
    reference = build(system)
    config = resolved(system, reference.hf)
    values, stats = import_weights(system.reference, config, reference.tensors())
    # Plain greedy decoding has no forced tokens.
    reference.module.generation_config.forced_eos_token_id = None
    reference.module.generation_config.forced_bos_token_id = None
    reference.module.generation_config.decoder_start_token_id = START
    return reference, Generator(make_model(config), values, stats)


def prompts(vocab_size=99):
    generator = np.random.default_rng(11)
    return [generator.integers(FIRST_TOKEN, vocab_size, length).tolist() for length in LENGTHS]


def theirs(name, prompt, **options):
    """Generates from one prompt with the reference: (new tokens of every hypothesis, their scores or
    None).
    """
    reference, generator = reference_and_generator(name)
    with torch.no_grad():
        out = reference.module.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=NEW,
            do_sample=False,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_scores=True,
            use_cache=True,
            **options,
        )
    skip = 1 if generator.has_encoder else len(prompt)
    return out.sequences[:, skip:].tolist(), getattr(out, "sequences_scores", None)


def ours(name, **options):
    """Generates from all prompts in one batch with zoo."""
    _, generator = reference_and_generator(name)
    request = {"prompts": prompts()}
    if generator.has_encoder:
        request = {"sources": prompts(), "prompts": [[START]] * len(LENGTHS)}
    return (generator.beam_search if "beams" in options else generator.generate)(
        max_new_tokens=NEW, **request, **options
    )


@pytest.mark.parametrize("name", DECODERS + ENCODER_DECODERS)
def test_greedy_decoding(name):
    found = ours(name)
    for row, prompt in enumerate(prompts()):
        (expected,), _ = theirs(name, prompt, eos_token_id=None)
        assert found.tokens[row].tolist() == expected


SEARCHED = ("gpt2", "gemma3", "qwen3-moe", *ENCODER_DECODERS)
OTHER_PENALTIES = pytest.mark.slow(reason="the length penalty is one formula for every model")


@pytest.mark.parametrize(
    ("name", "alpha"),
    [
        *((name, 1.0) for name in SEARCHED),
        ("gpt2", 0.0),
        ("t5", 0.0),
        *(pytest.param(name, 0.0, marks=OTHER_PENALTIES) for name in SEARCHED if name not in ("gpt2", "t5")),
        *(pytest.param(name, 2.0, marks=OTHER_PENALTIES) for name in SEARCHED),
    ],
)
def test_beam_search(name, alpha):
    # A token of the greedy text ends hypotheses early, too.
    free = ours(name)
    end = int(free.tokens[0, 4])
    found = ours(name, beams=4, length_penalty=alpha, stop=stop_table(99, [end]))
    assert alpha > 0 or any(length < NEW for length in found.lengths.ravel())
    for row, prompt in enumerate(prompts()):
        expected, scores = theirs(name, prompt, num_beams=4, num_return_sequences=4, length_penalty=alpha, early_stopping="never",
                                  eos_token_id=end)  # fmt: skip
        for beam, text in enumerate(expected):
            length = text.index(end) + 1 if end in text else NEW
            assert found.tokens[row, beam, : found.lengths[row, beam]].tolist() == text[:length]
        np.testing.assert_allclose(found.scores[row], scores.numpy(), rtol=1e-4, atol=1e-5)


def test_scores_are_at_least_those_of_heuristic_early_stopping():
    """`early_stopping=False` stops by a heuristic; zoo continues until no better text is possible."""
    for name in ("t5", "bart"):
        end = int(ours(name).tokens[0, 4])
        found = ours(name, beams=4, length_penalty=2.0, stop=stop_table(99, [end]))
        for row, prompt in enumerate(prompts()):
            _, scores = theirs(name, prompt, num_beams=4, length_penalty=2.0, early_stopping=False, eos_token_id=end)
            assert found.scores[row, 0] >= float(scores[0]) - 1e-4
