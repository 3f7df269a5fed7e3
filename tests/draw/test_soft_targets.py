"""The figure of soft targets: its numbers against numpy and against the predictions of both runs."""

import numpy as np
import pytest

import zoo
from tests.draw.test_draw import draw_files
from tests.support.small_runs import OBJECTIVES, small
from tests.support.untrained import untrained
from zoo.cli.main import main
from zoo.draw import soft_targets
from zoo.errors import ConfigError

SIZES = {"model__dim": 16, "model__num_layers": 1, "data__sequence_length": 32}


def pair(folder, kind):
    """Writes an untrained teacher and a student of it; returns their folders."""
    its = untrained(folder / "teacher", small(**OBJECTIVES[kind], **SIZES | {"model__num_layers": 2}))
    distillation = {"objective__distillation__teacher": str(its), "objective__distillation__temperature": 3.0}
    return its, untrained(folder / "student", small(**OBJECTIVES[kind], **SIZES, **distillation), seed=1)


def test_columns_are_softmaxes_of_the_teachers_best_tokens():
    generator = np.random.default_rng(0)
    teacher, student = generator.standard_normal((2, 9)) * 3
    order = np.argsort(-teacher)
    label = int(order[-1])
    found = soft_targets.compare("a [b] c", teacher, student, label, 2.0, 3, "abcdefghi")
    assert found.names == ["abcdefghi"[id] for id in (*order[:3], label)]
    assert found.label == 3
    p, q, soft_p, soft_q = (
        np.exp(scores / T) / np.exp(scores / T).sum()
        for scores, T in ((teacher, 1), (student, 1), (teacher, 2), (student, 2))
    )
    columns = {
        "label": np.eye(9)[label],
        "teacher": p,
        "student": q,
        "teacher, T = 2": soft_p,
        "student, T = 2": soft_q,
    }
    assert list(found.probabilities) == list(columns)
    for name, values in columns.items():
        kept = values[[*order[:3], label]]
        np.testing.assert_allclose(found.probabilities[name], [*kept, 1 - kept.sum()], atol=1e-12)
    assert found.losses == {
        "teacher": f"cross-entropy {-np.log(p[label]):.2f}",
        "student": f"cross-entropy {-np.log(q[label]):.2f}",
        "student, T = 2": f"T² KL {4 * (soft_p * np.log(soft_p / soft_q)).sum():.2f}",
    }
    # A label that the teacher predicts is not shown twice; at T = 1 there is one column of each model.
    one = soft_targets.compare("", teacher, student, int(order[1]), 1.0, 3, "abcdefghi")
    assert (len(one.names), one.label, list(one.probabilities)) == (3, 1, ["label", "teacher", "student"])
    assert one.losses["student"].endswith(f"T² KL {(p * np.log(p / q)).sum():.2f}")
    # Probabilities of 0 to the last digit: the divergence is that of scores 20 and 0.
    low = soft_targets.compare("", np.array([20.0, 0.0]), np.array([0.0, 20.0]), 0, 0.02, 1, "ab")
    assert low.losses["student, T = 0.02"] == "T² KL 0.40"


@pytest.mark.parametrize(
    "kind", ["masked", pytest.param("causal", marks=pytest.mark.promise(reason="another objective"))]
)
def test_runs_predict_the_token_as_zoo_predict_does(tmp_path, kind):
    its, folder = pair(tmp_path, kind)
    (found,) = soft_targets.read_soft_targets(folder, text="the old law", tokens=["w"], count=30)
    assert found.text == "the old la[w]"
    assert found.names[found.label] == "w"
    assert list(found.probabilities)[3:] == ["teacher, T = 3", "student, T = 3"]
    for name, run in (("teacher", its), ("student", folder)):
        model = zoo.load(run)
        best = model.fill_mask("the old la[MASK]", 300)[0] if kind == "masked" else model.next_tokens("the old la", 300)
        expected = {token: probability for token, probability in best if token.isascii() and token.isprintable()}
        # `zoo predict` leaves out the mask, which has a score too.
        shown = {text: p for text, p in zip(found.names, found.probabilities[name], strict=False) if text in expected}
        assert len(shown) > 4
        ratios = np.array([p / expected[token] for token, p in shown.items()])
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-4)


def test_a_figure_of_two_tokens_and_bad_arguments(tmp_path, capsys):
    its, folder = pair(tmp_path, "masked")
    written = draw_files(
        tmp_path, "soft-targets", folder, "--text", "the old law", "--token", "old", "w", "--count", "3"
    )
    assert written == ["soft-targets.png", "soft-targets.svg"]
    capsys.readouterr()
    causal = pair(tmp_path / "causal", "causal")[1]
    for arguments, line in (
        ([folder, "--count", "0"], "--count 0 must be at least 1"),
        ([folder, "--temperature", "0"], "--temperature 0 must be above 0"),
        ([folder, "--text", "law", "--token", "laws"], "--token 'laws': the text has no such token"),
        ([its], "learnt from no teacher; name a run to compare it with by --teacher RUN"),
        ([folder, "--teacher", causal], "they need the same"),
        ([tmp_path / "x"], "is not a run"),
    ):
        assert main(["draw", "soft-targets", *map(str, arguments), "--out", str(tmp_path / "none")]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert line in error
    its.rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match="is not there; name its folder by --teacher RUN"):
        soft_targets.read_soft_targets(folder)
    assert len(soft_targets.read_soft_targets(folder, tmp_path / "moved")) == 1
