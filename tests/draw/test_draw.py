"""Figures: their numbers against numpy, files that are not blank, and errors of bad arguments."""

import numpy as np
import pytest
from matplotlib.image import imread

from tests.support.small_runs import OBJECTIVES, small
from tests.support.untrained import untrained
from zoo.analysis import position_similarity
from zoo.analysis.activations import StackActivations
from zoo.cli.main import main
from zoo.config import override, resolve
from zoo.draw import compare, position_biases, residual, rope_pictures, run_activations, sinusoids
from zoo.errors import ConfigError
from zoo.files import write_json
from zoo.layers.position.rope import Rope
from zoo.training.trained_run import TRAINED

TINY = {"model__dim": 16, "model__num_layers": 2, "model__attention__num_heads": 4, "data__sequence_length": 96}


def resolved(**changes):
    return resolve(small(**TINY, **changes))


def untrained_run(folder, kind="causal", **changes):
    return untrained(folder / "run", small(**OBJECTIVES[kind], **TINY, **changes))


def draw_files(folder, *arguments):
    """Draws figures into a folder, asserts that PNGs are not blank, and returns all file names."""
    assert main(["draw", *map(str, arguments), "--out", str(folder / "out")]) == 0
    for path in (folder / "out").glob("*.png"):
        assert imread(path)[..., :3].std() > 0.01, path
    return sorted(path.name for path in (folder / "out").iterdir())


def test_sinusoids():
    positions, pairs = np.arange(6)[:, None], np.arange(4)
    angles = positions / 10000.0 ** (2 * pairs / 8)
    expected = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(6, 8)
    np.testing.assert_allclose(sinusoids.sinusoid_table(6, 8), expected, atol=1e-6)


@pytest.mark.parametrize(
    "changes", [{}, {"model__position__layout": "interleaved"}, {"model__position__fraction": 0.5}]
)
def test_rope(changes):
    model = resolved(
        model__position__kind="rope", model__position__theta=100.0, model__attention__head_dim=8, **changes
    ).model
    rotated = round(8 * model.position.fraction)
    angles = np.arange(7)[:, None] * 100.0 ** (-np.arange(0, rotated, 2) / rotated)
    np.testing.assert_allclose(rope_pictures.pair_rotations(model, 7), np.exp(1j * angles), atol=1e-6)
    partial = [np.exp(1j * angles)[:, :count].sum(axis=1) for count in range(1, rotated // 2 + 1)]
    np.testing.assert_allclose(rope_pictures.score_bound(model, 7), np.abs(partial).mean(axis=0), atol=1e-6)
    assert rope_pictures.score_bound(model, 1) == pytest.approx((rotated / 2 + 1) / 2)
    neighbours = model.position.layout == "interleaved"
    pairs = [(2 * i, 2 * i + 1) if neighbours else (i, i + rotated // 2) for i in range(rotated // 2)]
    assert rope_pictures.rotated_pairs(model) == pairs
    first = rope_pictures.angles_by_pair(model)
    # Beyond half a turn too, where the rotated vector alone does not tell.
    np.testing.assert_allclose(first[:7], angles, atol=1e-5)
    page = rope_pictures.angles_page(model, 9)
    curves = {line.get_label(): line.get_ydata() for line in page.axes[2].lines}
    assert list(curves) == [str(position) for position in range(1, 8)]
    np.testing.assert_array_equal(curves["7"], first[7])
    figure = rope_pictures.pairs_page({"a name": model})
    assert [text.get_text() for text in figure.axes[0].texts] == [str(i) for i in range(rotated // 2) for _ in range(2)]


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_scores_of_contents_are_those_of_the_layer_and_stay_under_the_bound(layout):
    model = resolved(model__position__kind="rope", model__position__layout=layout, model__attention__head_dim=32).model
    length, examples = 60, rope_pictures.example_scores(model, 60)
    # A query and a key of one random pair of contents, rotated by the layer.
    q, k = np.random.default_rng(1).normal(size=(2, 16, 2)) @ [1, 1j]
    (found,) = rope_pictures.ContentScores.of(model, q[None], k[None], length).scores
    places = np.array(rope_pictures.rotated_pairs(model)).T
    vectors = np.zeros((2, 1, length, 1, 32), np.float32)
    vectors[:, 0, :, 0, places[0]], vectors[:, 0, :, 0, places[1]] = (
        part.T[:, :, None] for part in (np.array([q, k]).real, np.array([q, k]).imag)
    )
    positions = np.arange(length)[None]
    rotated = Rope(model).rotate(*map(np.asarray, vectors), positions, np.zeros_like(positions))
    np.testing.assert_allclose(found, np.einsum("bthk,bthk->t", *rotated), atol=1e-3)

    bound = rope_pictures.score_bound(model, length)
    for each in examples.values():
        assert (each.under_the_bound <= bound * (1 + 1e-9)).all()
    assert examples["equal"].cosines[0] == pytest.approx(rope_pictures.pair_rotations(model, length).real.mean(axis=1))
    assert examples["far"].cosines[0].argmax() == 45
    assert examples["far"].cosines[0].max() == pytest.approx(1)
    sizes = np.sqrt(np.square(examples["random"].cosines).mean(axis=0))
    np.testing.assert_allclose(sizes, 32**-0.5, rtol=0.1)
    panels = rope_pictures.bound_page(model, length).axes
    assert [line.get_label() for line in panels[0].lines] == [
        "bound", "q = k: sum of cosines", "q that peaks far away", "1,000 random q, k: largest",
        "1,000 random q, k: rms",
    ]  # fmt: skip


def test_biases(tmp_path):
    distances, added = position_biases.bias_by_distance(position_biases.make_alibi(8), 3, causal=True)
    np.testing.assert_array_equal(distances, [-3, -2, -1, 0])
    np.testing.assert_allclose(added, 2.0 ** -np.arange(1, 9)[:, None] * distances)
    folder = untrained_run(
        tmp_path, model__position__kind="relative_bias", model__position__buckets=8, model__position__max_distance=16
    )
    (pair,) = position_biases.load_biases(folder, 3).values()
    from zoo.training.trained_run import load_trained

    table = np.asarray(load_trained(folder).params["position"]["table"])
    # Each of the smallest distances has its own bucket.
    np.testing.assert_allclose(pair["trained"][1], table[[3, 2, 1, 0]].T)
    assert np.abs(pair["trained"][1] - pair["at initial values"][1]).max() > 0.1
    assert draw_files(tmp_path, "biases", folder, "--format", "png") == ["biases.png"]


def test_residual_rms_and_position_similarity():
    states = np.random.default_rng(0).standard_normal((3, 1, 4, 5))
    np.testing.assert_allclose(residual.rms_by_layer(states)[1], np.sqrt((states[1] ** 2).sum() / 20))
    table = np.random.default_rng(1).standard_normal((4, 6))
    similar = position_similarity.cosine_matrix(table)
    np.testing.assert_allclose(similar[1, 3], table[1] @ table[3] / np.linalg.norm(table[1]) / np.linalg.norm(table[3]))
    np.testing.assert_allclose(position_similarity.mean_by_distance(similar)[2], (similar[0, 2] + similar[1, 3]) / 2)


def test_compare_marks_differences():
    one = resolved()
    other = resolve(
        override(small(**TINY), {"model.position.kind": "rope", "model.norm.placement": "post", "model.dim": 32})
    )
    found = compare.lines(one, other)
    assert [(line.text, line.differs) for line in found["positions"][1][:1]] == [("kind = rope", True)]
    assert [(column[0].text, column[0].differs) for column in found["layers"]] == [
        ("Pre-norm: x = x + f(Norm(x))", True),
        ("Post-norm: x = Norm(x + f(x))", True),
    ]
    assert [line.differs for line in found["feed-forward"][0] if line.text.startswith("kind")] == [False]
    # Rows that pad the vocabulary are no parameters.
    padded = compare.lines(one, resolve(override(small(**TINY), {"model.vocab_multiple": 128})))["model"]
    assert padded[0][-1] == padded[1][-1]
    assert not any(
        line.differs for columns in compare.lines(one, one).values() for column in columns for line in column
    )


@pytest.mark.promise(reason="figures of a run are drawn and written as files")
def test_figures_of_a_decoder(tmp_path):
    folder = untrained_run(tmp_path, model__position__kind="rope")
    assert draw_files(tmp_path, "attention", folder, "--text", "abc", "--layers", "1", "--heads", "0,2") == [
        "attention-layer1.png",
        "attention-layer1.svg",
    ]
    assert "rope-bound.png" in draw_files(tmp_path, "rope-bound", folder, "--length", "12")


def test_texts_have_the_special_tokens_that_an_import_recorded(tmp_path):
    folder = untrained(tmp_path / "run", small(**TINY | {"data__sequence_length": 16}))
    assert run_activations.read_text(folder, "cat").labels == {"": ["[begin]", "c", "a", "t"]}
    write_json(folder / "meta.json", {"imported": {"text_frame": {"before": [], "after": [98, 99]}}})
    assert run_activations.read_text(folder, "cat").labels == {"": ["c", "a", "t", "[end]", "[end]"]}


def test_default_text_fits_and_long_texts_are_rejected_early(tmp_path, monkeypatch):
    folder = untrained(tmp_path / "run", small(**TINY | {"data__sequence_length": 16}))
    activations = run_activations.read_text(folder)
    # The text consists of whole words, and fits into the row with its special tokens.
    text = activations.source.partition("“")[2].rstrip("”")
    assert run_activations.default_text().startswith(f"{text} ")
    assert 8 < len(text) <= 14
    assert "".join(activations.labels[""][1:]) == text.replace(" ", "␣")

    def no_checkpoint(*_):
        raise AssertionError("the checkpoint was read")

    monkeypatch.setattr(run_activations, "load_trained", no_checkpoint)
    with pytest.raises(ConfigError, match=r"--text has 31 tokens, too many for .*positions end at 16; give a shorter"):
        run_activations.read_text(folder, "x" * 30)


def test_layers_without_scores_are_nan():
    maps = (None, -np.ones((1, 2, 3, 3)))
    activations = run_activations.RunActivations(
        None, {"": ["a", "b", "c"]}, {TRAINED: {"": StackActivations(None, {"attention": maps}, {})}}
    )
    np.testing.assert_array_equal(rope_pictures.scores_by_distance(activations, "", TRAINED), [[np.nan] * 3, [1] * 3])
    activations.stacks[TRAINED][""].scores.clear()
    with pytest.raises(ConfigError, match="no layer of this run computes attention scores"):
        rope_pictures.scores_by_distance(activations, "", TRAINED)


@pytest.mark.slow(reason="the same figures are drawn of a decoder")
def test_figures_of_an_encoder_decoder(tmp_path):
    folder = untrained_run(tmp_path, "span")
    assert draw_files(
        tmp_path, "attention", folder, "--text", "abc", "--target", "de", "--layers", "0", "--format", "png"
    ) == ["attention-decoder-cross-layer0.png", "attention-decoder-layer0.png", "attention-encoder-layer0.png"]
    assert "residual.png" in draw_files(tmp_path, "residual", folder, "--text", "abc")
    assert "learned-positions.png" in draw_files(tmp_path, "learned-positions", folder, "--format", "png")


@pytest.mark.promise(reason="figures are drawn and written as files")
def test_figures_that_need_no_run(tmp_path):
    draw_files(tmp_path, "sinusoids", "--length", "20", "--dim", "16", "--layout", "half")
    draw_files(tmp_path, "rope", "configs/llama.py:tiny", "--length", "20")
    draw_files(tmp_path, "biases", "--heads", "6", "--length", "20")
    names = draw_files(tmp_path, "compare", "configs/gpt2.py:tiny", "configs/llama.py:tiny")
    assert names == sorted(
        f"{name}.{kind}" for name in ("sinusoids", "rope", "biases", "compare") for kind in ("png", "svg")
    )


@pytest.mark.parametrize(("arguments", "line"), [
    (["sinusoids", "--dim", "7"], "even number"),
    (["sinusoids", "--length", "0"], "--length 0 must be at least 1"),
    (["sinusoids", "--format", "pngs"], 'did you mean "png"?'),
    (["sinusoids", "--out", "README.md"], "is a file, not a folder"),
    (["sinusoidal"], "invalid choice: 'sinusoidal'"),
    (["rope", "configs/gpt2.py:tiny"], "model.position.kind=learned rotates nothing"),
    (["rope-bound", "configs/llama.py:tiny", "--text", "x"], "not a trained run"),
    (["rope-bound", "configs/llama.py:tiny", "--step", "4"], "--step: no effect, as configs/llama.py:tiny is not a trained"),
    (["biases", "--step", "4"], "--step 4 has no effect without a run"),
    (["attention", "nowhere"], "nowhere is not a run"),
    (["compare", "configs/gpt2.py:tiny"], "required: CONFIG"),
], ids=lambda value: value[0] if isinstance(value, list) else "")  # fmt: skip
def test_bad_arguments_of_draw(tmp_path, capsys, arguments, line):
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "out")]
    assert main(["draw", *arguments, *out]) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert line in error
    assert not (tmp_path / "out").exists()


def test_arguments_that_do_not_fit_the_run(tmp_path, capsys):
    folder = untrained_run(tmp_path)
    for arguments, line in (
        (["attention", folder, "--layers", "2"], "--layers 2: expected numbers from 0 to 1"),
        (["attention", folder, "--heads", "a"], "--heads a: expected numbers from 0 to 3"),
        (["attention", folder, "--target", "x"], "is not an encoder-decoder"),
        (["attention", folder, "--text", "x" * 200], "learned positions end at 96"),
        (["biases", folder], "adds nothing to scores by distance"),
        (["biases", folder, "--heads", "3"], "--heads has no effect"),
    ):  # fmt: skip
        assert main(["draw", *map(str, arguments), "--out", str(tmp_path / "out")]) == 2
        (error,) = capsys.readouterr().err.splitlines()
        assert line in error
