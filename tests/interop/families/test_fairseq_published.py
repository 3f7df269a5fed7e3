"""States, probabilities and translations of an imported translation model that was trained with
fairseq.
"""

import functools
import itertools
import json
import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.support.checkpoints_of_others import zoo
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, read_pretrained
from zoo.decoding.generator import Generator
from zoo.decoding.stop_strings import stop_table
from zoo.interop.importing import sha256
from zoo.layers.context import Context
from zoo.models.functional import split
from zoo.training.trained_run import load_trained

SHARED = (
    Path(os.environ.get("ZOO_TEST_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "checkpoints"
    / "fairseq_encoder_decoder"
)


def scorer(run):
    """Returns a function (source ids, decoder input ids) -> encoder states [S, D], log-probabilities
    [T, V].
    """
    trained = load_trained(run)
    graph = split(trained.model)[0]

    @jax.jit
    def forward(params, source, places, before, positions):
        model = nnx.merge(graph, params, {})
        memory, context = model.encode(source, Context(places, causal=False)), Context(positions)
        return memory.hidden, jax.nn.log_softmax(model.logits(model.decode(before, memory, context), context))

    def scores(source, before):
        """Pads rows to multiples of 64, so that few programs are compiled."""
        arrays = []
        for ids in (source, before):
            padding = -len(ids) % 64
            arrays += [
                np.r_[ids, np.ones(padding, int)][None],
                np.r_[np.arange(len(ids)), -np.ones(padding, int)][None],
            ]
        hidden, logprobs = forward(trained.params, *map(jnp.asarray, arrays))
        return np.asarray(hidden[0, : len(source)]), np.asarray(logprobs[0, : len(before)])

    return scores


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The published model, imported as a run, and its `scorer`."""
    if not SHARED.is_dir():
        pytest.skip(f"needs {SHARED}; $ZOO_TEST_DATA says where the data is")
    run = tmp_path_factory.mktemp("fairseq") / "run"
    assert zoo("import", f"fairseq:{SHARED}", "--out", run)[0] == 0
    return run, scorer(run)


def differences(scores):
    """The largest differences of encoder states and of log-probabilities from fairseq's."""
    expected, found = np.load(SHARED / "reference_outputs.npz"), {"hidden": [], "logprobs": []}
    for number in range(3):
        source, before, target = (expected[f"{name}_{number}"] for name in ("src", "prev", "tgt"))
        hidden, logprobs = scores(source, before)
        found["hidden"].append(np.abs(hidden - expected[f"enc_{number}"]).max())
        of_targets = np.take_along_axis(logprobs, target[:, None], axis=1)[:, 0]
        found["logprobs"].append(np.abs(of_targets - expected[f"logprob_tgt_{number}"]).max())
    return {name: max(values) for name, values in found.items()}


def measure():
    """Measures the line of `docs/parity.md`: the largest absolute difference, as states and
    log-probabilities are around 1.
    """
    if not SHARED.is_dir():
        return None
    with tempfile.TemporaryDirectory() as temporary:
        zoo("import", f"fairseq:{SHARED}", "--out", Path(temporary) / "run")
        worst = max(differences(scorer(Path(temporary) / "run")).values())
    return float(worst), None, f"model.safetensors of SHA-256 {sha256(SHARED / 'model.safetensors')[:8]}..."


@pytest.mark.slow(reason="needs a published checkpoint")
def test_encoder_states_and_probabilities_match_fairseq(published):
    assert max(differences(published[1]).values()) < 1e-5


@functools.cache
def byte_pairs(word):
    """Splits a word as Sennrich et al. 2016 do: the pairs of `bpe.code` are merged in the order of the
    file, and "@@" marks every piece but the last.
    """
    lines = (SHARED / "bpe.code").read_text(encoding="utf-8").split("\n")[1:]
    order = {tuple(line.split()): rank for rank, line in enumerate(lines) if line}
    parts = [*word[:-1], f"{word[-1]}</w>"]
    while len(parts) > 1:
        pair = min(itertools.pairwise(parts), key=lambda pair: order.get(pair, len(order)))
        if pair not in order:
            break
        merged = []
        while parts:
            both = tuple(parts[:2]) == pair
            merged.append("".join(parts[: 1 + both]))
            parts = parts[1 + both :]
        parts = merged
    return [f"{part}@@" for part in parts[:-1]] + [parts[-1].removesuffix("</w>")]


def segment(line):
    """Segments a line as for training: punctuation is split from words, and words into pieces."""
    line = re.sub(r'([.,!?:;()"\[\]߸،؟«»“”])', r" \1 ", line)
    return " ".join(piece for word in line.split() for piece in byte_pairs(word))


def published_lines(name):
    """The 200 lines of one language."""
    return (SHARED / f"pairs200.{name}").read_text(encoding="utf-8").split("\n")[:200]


def published_pairs(run):
    """The ids of the 200 published pairs, each ending with </s>."""
    source, target = read_pretrained(run / "source_tokenizer.json"), load_tokenizer(run)
    lines = [published_lines(name) for name in ("roman", "nqo")]
    return [
        tuple(np.r_[tokenizer.encode(segment(line)), 2] for tokenizer, line in zip((source, target), pair, strict=True))
        for pair in zip(*lines, strict=True)
    ]


@pytest.fixture(scope="module")
def teacher_forced(published):
    """For every published pair: source, target, which target tokens are predicted correctly, and their
    log-probabilities.
    """
    run, scores = published
    found = []
    for source, target in published_pairs(run):
        logprobs = scores(source, np.r_[2, target[:-1]])[1]
        found.append(
            (
                source,
                target,
                logprobs.argmax(axis=1) == target,
                np.take_along_axis(logprobs, target[:, None], axis=1)[:, 0],
            )
        )
    return found


@pytest.mark.slow(reason="needs a published checkpoint")
def test_teacher_forced_accuracy_on_published_pairs(teacher_forced):
    for source, target, _, _ in teacher_forced:
        assert 3 not in source
        assert 3 not in target
    hits = np.concatenate([right for _, _, right, _ in teacher_forced])
    assert (len(teacher_forced), len(hits)) == (200, 13948)
    # The states are the stricter test: wrong sinusoids hardly lower this accuracy.
    assert hits.mean() > 0.957


def bleu(found, expected):
    """BLEU of Papineni et al. 2002: the geometric mean of the precisions of 1- to 4-grams, times the
    brevity penalty.
    """
    right, total = np.zeros(4), np.zeros(4)
    for ours, theirs in zip(found, expected, strict=True):
        for n in range(4):
            one, other = (Counter(zip(*(words[k:] for k in range(n + 1)), strict=False)) for words in (ours, theirs))
            right[n] += (one & other).total()
            total[n] += one.total()
    lengths = [sum(map(len, words)) for words in (found, expected)]
    return 100 * np.exp(np.log(right / total).mean() + min(0.0, 1 - lengths[1] / lengths[0]))


@pytest.mark.slow(reason="needs a published checkpoint")
def test_published_pairs_are_translated(published, teacher_forced):
    """Beam search starts from </s>, as in fairseq. Every translation must be at least as likely as the
    published one, and token accuracy must reach that of teacher forcing.
    """
    trained = load_trained(published[0])
    pairs = sorted(teacher_forced, key=lambda pair: len(pair[0]))
    generator = Generator(trained.model, trained.params, trained.stats)
    found = []
    for part in (pairs[start : start + 40] for start in range(0, 200, 40)):
        # Targets are longer than their sources by less than a tenth.
        result = generator.beam_search(
            [[2]] * len(part),
            len(part[-1][0]) + 24,
            beams=4,
            stop=stop_table(832, [2]),
            vocab_size=832,
            sources=[source.tolist() for source, *_ in part],
        )
        for row, length, score, pair in zip(
            result.tokens[:, 0], result.lengths[:, 0], result.scores[:, 0], part, strict=True
        ):
            found.append(row[:length])
            assert row[length - 1] == 2
            assert score > pair[3].mean() - 1e-4
    targets = [target for _, target, *_ in pairs]
    right = sum(
        (Counter(row.tolist()) & Counter(target.tolist())).total() for row, target in zip(found, targets, strict=True)
    )
    # Most errors are numbers, which the model writes in N'Ko digits.
    assert right / max(sum(map(len, found)), sum(map(len, targets))) > 0.957

    def words(ids):
        return trained.tokenizer.decode([id for id in ids if id != 2]).replace("@@ ", "").split()

    assert bleu([words(ids) for ids in found], [words(target) for target in targets]) > 95


@pytest.mark.slow(reason="needs a published checkpoint")
def test_generate_translates_segmented_text(published):
    sources = [published_lines("roman")[number] for number in (3, 4)]
    arguments = [part for line in sources for part in ("--prompt", segment(line))]
    code, out, errors = zoo("generate", published[0], *arguments, "--beams", "4", "--json")
    assert (code, errors) == (0, [])
    for answer, number in zip(map(json.loads, out.splitlines()), (3, 4), strict=True):
        # The first word is a number, in which the model errs.
        assert answer["stopped"]
        assert answer["text"].split()[1:] == segment(published_lines("nqo")[number]).split()[1:]
    code, _, errors = zoo("generate", published[0], "--prompt", sources[0])
    assert (code, len(errors)) == (2, 1)
    assert "is not a token of the run's source_tokenizer.json" in errors[0]
