"""Measures that come with zoo as plug-ins of single claims: their values against plain computations,
and the runs that lack them.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.measures.shipped import measure
from tests.support.building import with_values
from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo import config, data
from zoo.analysis.run_measures import measure_run
from zoo.errors import ConfigError
from zoo.lab.measures import is_measure, why_unavailable
from zoo.lab.results.run_records import load_run
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.nested import flatten
from zoo.training.evaluation.held_out import evaluate
from zoo.training.trained_run import load_trained


def test_position_locality(tmp_path):
    run = untrained(tmp_path / "run", small(model__position__kind="learned", data__sequence_length=16))
    found = measure_run(run, ["position_locality"])
    table = np.asarray(load_trained(run).params["position"]["table"], np.float64)[:16]

    def cosine(i, j):
        return table[i] @ table[j] / np.linalg.norm(table[i]) / np.linalg.norm(table[j])

    near = np.mean([np.mean([cosine(i, i + d) for i in range(16 - d)]) for d in range(1, 5)])
    far = np.mean([cosine(i, j) for i in range(16) for j in range(i + 8, 16)])
    assert found["measured/position_locality"] == pytest.approx(near - far)
    assert found["measured/position_locality@initial"] != pytest.approx(near - far)
    again = load_run(run)
    assert {metric: again.final(metric) for metric in found} == found


def test_midpoints_lie_between_distinct_offsets():
    assert measure("offset_gap").midpoints((0, 64, 64, 128, 65)) == (32, 96)


def test_offset_gap(tmp_path):
    """The gap is 0 without positions; with random vectors it is the difference of two evaluations."""
    losses = {}
    changes = {
        "data__position_offsets": (0, 16),
        "training__eval_batches": 1,
        "data__sequence_length": 16,
        "data__batch_size": 4,
    }
    for kind in ("none", "learned"):
        folder = untrained(tmp_path / kind, small(model__position__kind=kind, **changes))
        losses[kind] = measure_run(folder, ["offset_gap"])["measured/offset_gap"]
    assert losses["none"] == pytest.approx(0, abs=1e-5)
    run = load_trained(tmp_path / "learned")
    # A row of 16 positions that begins at 8 equals a row that begins at 0 of the table cut at 8.
    table = run.params["position"]["table"]
    rows = np.asarray(next(data.load(run.config).evaluation_batches(limit_batches=1))["tokens"])

    def loss(starts):
        total = 0.0
        for row, start in zip(rows, starts, strict=True):
            params = run.params | {"position": {"table": table[start : start + 16]}}
            plain = config.resolve(
                config.override(run.config, {"data.position_offsets": (), "model.position.max_length": 16})
            )
            model = make_model(plain)
            scores = decoder_logits(model, params, run.stats, row[None, :-1])
            scores = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
            total -= scores[0, np.arange(16), row[1:]].mean()
        return total / len(rows)

    assert losses["learned"] == pytest.approx(loss([8] * 4) - loss([0, 16, 0, 16]), rel=1e-3, abs=1e-5)
    with pytest.raises(ConfigError, match="no positions between its entries"):
        measure_run(untrained(tmp_path / "plain", small()), ["offset_gap"])


def test_code_gap_of_a_run_trained_on_prose(tmp_path):
    changes = {"training__eval_batches": 1, "data__sequence_length": 16, "data__batch_size": 4}
    folder = untrained(tmp_path / "prose", small(data__source="stdlib:docstrings", **changes))
    run = load_trained(folder)
    losses = {}
    for source in ("stdlib", "stdlib:docstrings"):
        other = config.resolve(config.override(run.config, {"data.source": source}))
        batches, constants = data.load(other).evaluation_batches(), run.program.constants(run.config.seed)
        losses[source] = evaluate(run.program, run.params, run.stats, batches, constants)["loss"]
    assert abs(losses["stdlib"] - losses["stdlib:docstrings"]) > 1e-4
    found = measure_run(folder, ["code_gap"])["measured/code_gap"]
    assert found == pytest.approx(losses["stdlib"] - losses["stdlib:docstrings"], abs=1e-6)


def test_longer_parity(tmp_path):
    """Bits of 1.25, 1.5 and 2 times the longest length, answered by the token of the highest score."""
    mixture = ("0.5*synthetic:parity;length=2", "0.3*synthetic:parity;length=5", "0.2*synthetic:copy;length=6")
    changes = {"data__source": "mixture", "data__mixture": mixture, "data__sequence_length": 16}
    folder = untrained(tmp_path / "run", small(**changes))
    run, shares = load_trained(folder), []
    for length in (7, 8, 10):
        (task,) = (one for one in measure("longer_parity").longer("mixture", mixture) if one.length == length)
        texts = list(task.texts(1024, "probe parity"))
        assert all(int(text[-2]) == text[:-2].count("1") % 2 for text in texts)
        rows = np.array([[run.tokenizer.bos_id, *run.tokenizer.encode(text[:-2])] for text in texts])
        scores = decoder_logits(run.model, run.params, run.stats, rows)[:, -1, : run.tokenizer.vocab_size]
        said = [run.tokenizer.decode([token]) for token in scores.argmax(axis=-1)]
        shares.append(np.mean([one == text[-2] for one, text in zip(said, texts, strict=True)]))
    assert measure_run(folder, ["longer_parity"])["measured/longer_parity"] == pytest.approx(np.mean(shares))


def decoder_logits(model, params, stats, rows):
    """Returns the logits [B, T, V] of a decoder whose rows begin at position 0."""
    bound = with_values(model, params, stats)
    return np.asarray(bound.logits(bound(jnp.asarray(rows), Context(jnp.arange(rows.shape[1])[None]))), np.float64)


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("offset_gap", {"data.position_offsets": (3,)}, "it needs at least two data.position_offsets"),
        ("code_gap", {"data.source": "stdlib"}, "code is what this run learns from"),
        (
            "code_gap",
            {"data.source": "mixture", "data.mixture": ("0.5*stdlib:docstrings", "0.5*stdlib")},
            "code is what this run learns from",
        ),
        ("longer_parity", {"data.source": "synthetic:recall"}, "data.source=synthetic:recall has none"),
        (
            "longer_parity",
            {"data.source": "synthetic:parity,length=8", "data.sequence_length": 16},
            "documents of 16 bits have 19 tokens, and data.sequence_length=16",
        ),
        ("position_locality", {"model.position.kind": "rope"}, "it needs model.position.kind=learned"),
    ],
)
def test_runs_that_lack_a_measure_say_why(name, changes, reason):
    metric = f"measured/{name}"
    assert is_measure(metric)
    assert reason in why_unavailable(metric, flatten(config.resolve(config.override(small(), changes))))


def test_runs_that_have_a_measure_are_accepted():
    has = {"data.position_offsets": (0, 16), "data.source": "stdlib:docstrings", "model.position.kind": "learned"}
    flat = flatten(config.resolve(config.override(small(), has)))
    for name in ("offset_gap", "code_gap", "position_locality"):
        assert is_measure(f"measured/{name}")
        assert why_unavailable(f"measured/{name}", flat) == ""
    bits = {"data.source": "synthetic:parity,length=4", "data.sequence_length": 16}
    assert why_unavailable("measured/longer_parity", flatten(config.resolve(config.override(small(), bits)))) == ""
