"""The results of `zoo.load` against those of the model's own functions."""

import json
import shutil
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import zoo
from tests.support.building import call
from tests.support.small_runs import small
from tests.support.small_tokenizers import OPENS, saved
from tests.support.untrained import untrained
from zoo.cli.main import main
from zoo.data.labelled.examples import LabelledText
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.decoding.sampling import Sampling
from zoo.errors import ConfigError
from zoo.files import write_json
from zoo.inference.loaded_model import LoadedModel
from zoo.models.functional import split
from zoo.objectives.objective import EVALUATION

ENCODER = {"model__architecture": "encoder", "objective__kind": "masked", "model__embedding__segments": 2}
CLASSIFIER = ENCODER | {
    "objective__kind": "classification",
    "model__head__classes": 3,
    "data__sequence_length": 24,
    "training__eval_batches": 0,
}
ENCODER_DECODER = {"model__architecture": "encoder_decoder", "objective__kind": "prefix", "objective__prefix_length": 6}
TEXT = "a bear so cute"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a function that gives the folder of an untrained byte-level run for given settings."""
    folders = {}

    def of(settings):
        key = repr(settings)
        if key not in folders:
            data = {"data__source": "stdlib:docstrings"} if "model__head__classes" in settings else {}
            config = small(**data, **settings)
            folders[key] = untrained(tmp_path_factory.mktemp("run"), config)
        return folders[key]

    return of


def test_decoder_outputs(folder):
    model = zoo.load(folder({}))
    assert model.tokens("ab") == ["[BOS]", "a", "b"]
    states, maps = model.hidden_states(TEXT)[""], model.attention(TEXT)["attention"]
    tokens = len(model.tokens(TEXT))
    assert states.shape == (2, tokens, 32)
    assert maps[0].shape == (4, tokens, tokens)
    np.testing.assert_allclose(maps[0].sum(axis=-1), 1.0, rtol=1e-5)
    assert np.triu(maps[0], 1).max() == 0.0
    logits = model.logits(TEXT)
    assert logits.shape == (tokens, model.config.model.vocab_size)
    # The loss from the logits must equal that of the objective on the same row.
    row = np.array([[256, *TEXT.encode()]], np.int32)
    run = model.run
    sums = call(
        lambda params, tokens, constants: run.objective.sums(
            split(run.model)[0], params, run.stats, {"tokens": tokens}, constants, EVALUATION
        ),
        run.params,
        row,
        run.objective.constants,
    )
    loss = -np.mean(jax.nn.log_softmax(logits[:-1])[np.arange(tokens - 1), row[0, 1:]])
    np.testing.assert_allclose(loss, sums[1][0]["loss"] / sums[1][0]["weight"], rtol=1e-5)
    found = model.next_tokens(TEXT, 3)
    assert [token.token for token in found] == [
        model.tokenizer.pieces[int(token)].decode(errors="replace") or "[BOS]" for token in np.argsort(-logits[-1])[:3]
    ]
    np.testing.assert_allclose(found[0].probability, jax.nn.softmax(logits[-1, :257]).max(), rtol=1e-5)
    # Ids are read as they are.
    assert model.ids("ab") == [256, 97, 98]
    np.testing.assert_array_equal(model.logits(model.ids(TEXT)), logits)
    np.testing.assert_array_equal(model.hidden_states(model.ids(TEXT))[""], states)
    assert model.next_tokens(model.ids(TEXT), 3) == found
    for wrong in ([], [-1], [model.config.model.vocab_size], [0.5]):
        with pytest.raises(ConfigError, match="ids: expected at least one whole number from 0 to"):
            model.logits(wrong)
    assert model.generate("ab", max_new_tokens=2)[0].tokens <= 2
    sampled = model.generate("ab", max_new_tokens=8, seed=3, temperature=2.0, top_p=0.9)
    assert sampled == model.generate("ab", max_new_tokens=8, seed=3, sampling=Sampling(temperature=2.0, top_p=0.9))
    assert sampled != model.generate("ab", max_new_tokens=8)
    with pytest.raises(ConfigError, match="temperature=-1"):
        model.generate("ab", temperature=-1)
    with pytest.raises(TypeError, match="either sampling or top_p"):
        model.generate("ab", sampling=Sampling(), top_p=0.5)
    ids = np.array(model.ids("ab"))
    assert model.tokens(ids) == model.tokens("ab")
    for prompts in (ids, jnp.asarray(ids), ids.tolist()):
        assert model.generate(prompts, max_new_tokens=8) == model.generate("ab", max_new_tokens=8)
    assert model.generate(["ab", ids], max_new_tokens=8) == 2 * model.generate("ab", max_new_tokens=8)
    with pytest.raises(ConfigError, match="ids: expected"):
        model.generate([ids, []])
    assert f"{model.num_parameters:,} parameters" in repr(model)
    assert model.num_parameters == sum(leaf.size for leaf in jax.tree.leaves(model.parameters))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("this [MASK] is a file", ["this", None, " is a file"]),
        ("this[MASK] [MASK] is", ["this", None, None, " is"]),
        ("this  [MASK]is", ["this ", None, "is"]),
        ("[MASK]", [None]),
    ],
)
def test_a_mask_hides_the_space_before_a_word_where_tokens_begin_with_it(tmp_path, text, parts):
    tokenizer = read_pretrained(saved(tmp_path, "byte_level", eos_token=OPENS))
    model = SimpleNamespace(tokenizer=tokenizer, run=SimpleNamespace(frame=TextFrame()))
    expected = [
        id for part in parts for id in ([tokenizer.mask_id] if part is None else tokenizer.encode(part).tolist())
    ]
    assert LoadedModel._masked(model, text) == expected
    one_byte_a_token = SimpleNamespace(tokenizer=ByteTokenizer(), run=model.run)
    assert LoadedModel._masked(one_byte_a_token, "a [MASK] [MASK] b") == [97, 32, 257, 32, 257, 32, 98]


def test_a_prefix_decoder_reads_the_whole_text_as_its_prefix(folder):
    """As in generation, which `logits` and `next_tokens` have to agree with."""
    model = zoo.load(folder({"objective__kind": "prefix", "objective__prefix_length": 6}))
    one, other = (model.logits([256, 97, 98, last]) for last in (99, 100))
    assert np.abs(one[0] - other[0]).max() > 1e-6
    assert model.next_tokens([256, 97, 98, 99], 1)[0].token == model.generate([[256, 97, 98, 99]], 1)[0].text


def test_an_encoder_fills_masks(folder):
    model = zoo.load(folder(ENCODER))
    one, two = model.fill_mask("b[MASK]ar so [MASK]", 2)
    assert len(one) == len(two) == 2
    assert one[0].probability >= one[1].probability > 0
    # The model reads the tokens of the text, with the mask token (257) at the hidden ones.
    row = [256, *b"b", 257, *b"ar so ", 257]
    scores = np.asarray(model._logits(np.array([row], np.int32)))[0, 2, :257]
    assert one[0].probability == pytest.approx(float(jax.nn.softmax(jnp.asarray(scores)).max()), rel=1e-5)
    assert model.fill_mask(row, 2) == [one, two]
    with pytest.raises(ConfigError, match="hides no token"):
        model.fill_mask("nothing")
    with pytest.raises(ConfigError, match="predicts no next token"):
        model.next_tokens(TEXT)
    with pytest.raises(ConfigError, match="fills in no hidden tokens"):
        zoo.load(folder({})).fill_mask("[MASK]")


def test_embeddings_and_similarity(folder):
    model = zoo.load(folder({}))
    vectors = model.embed(["abc", TEXT])
    np.testing.assert_allclose(vectors[0], model.hidden_states("abc")[""][-1, 1:].mean(axis=0), rtol=1e-6)
    # Of ids all are the text's own.
    np.testing.assert_array_equal(
        model.embed([model.ids("abc")[1:]])[0], model.hidden_states([*b"abc"])[""][-1].mean(axis=0)
    )
    cosines = model.similarity(["abc", TEXT, "abc"])
    np.testing.assert_allclose(np.diag(cosines), 1.0, rtol=1e-5)
    assert cosines[0, 2] == pytest.approx(1.0)
    assert cosines[0, 1] < 0.9999


@pytest.mark.promise(reason="a model of another objective is compiled")
def test_encoder_decoder_states_and_attention(folder):
    model = zoo.load(folder(ENCODER_DECODER))
    states = model.hidden_states("source", "target")
    assert states["encoder"].shape[1] == 7
    assert states["decoder"].shape[1] == 7
    maps = model.attention("source", "tar")
    assert maps["decoder cross_attention"][0].shape[1:] == (4, 7)
    with pytest.raises(ConfigError, match="generate for encoder-decoders"):
        model.logits("x")
    ids = [256, *b"source"]
    assert model.generate(ids, max_new_tokens=4) == model.generate("source", max_new_tokens=4)


@pytest.mark.parametrize(("kind", "blanks"), [("prefix", ""), ("span", '; in a text, "<0>" to "<4>" are its blanks')])
def test_a_mask_is_refused_by_a_model_that_has_none(kind, blanks, folder, capsys):
    more = {"objective__sentinels": 5} if kind == "span" else {"objective__prefix_length": 6}
    run = folder({"model__architecture": "encoder_decoder", "objective__kind": kind, **more})
    assert main(["predict", str(run), "--text", "a [MASK] b"]) == 2
    line = f"has no [MASK]; the model gives a text for the one that its encoder reads{blanks}"
    assert capsys.readouterr().err.rstrip("\n").endswith(line)


@pytest.mark.promise(reason="a model of another objective is compiled")
def test_classifier_predictions(folder):
    run_folder = folder(CLASSIFIER)
    write_json(run_folder / "meta.json", {"data": {"labels": ["bad", "good", "so so"]}})
    model = zoo.load(run_folder)
    assert model.labels == ("bad", "good", "so so")
    first = model.predict(["abc", "another text"])[0]
    assert sum(first.probabilities.values()) == pytest.approx(1.0)
    assert first.value == max(first.probabilities, key=first.probabilities.get)
    # A prediction does not depend on the other texts of the batch.
    assert model.predict(["abc"])[0].probabilities == pytest.approx(first.probabilities, rel=1e-4)
    run = model.run
    batch = {"tokens": np.array([[256, *b"abc", model.tokenizer.separator_id]], np.int32)}
    model_of_run = zoo_model(run)
    scores = run.objective.scores(model_of_run, batch, run.objective.constants, EVALUATION)
    np.testing.assert_allclose(list(first.probabilities.values()), jax.nn.softmax(scores[0]), rtol=1e-4)
    assert model.predict([("a", "b")])[0].value in model.labels
    with pytest.raises(ConfigError, match="some examples are pairs"):
        model.predict(["a", ("b", "c")])
    with pytest.raises(ConfigError, match="predict is for tasks"):
        model.logits("abc")
    with pytest.raises(ConfigError, match="no head for a task"):
        zoo.load(folder({})).predict(["abc"])


@pytest.mark.promise(reason="a model of another objective is compiled")
@pytest.mark.parametrize(("settings", "flags"), [
    ({}, []), ({}, ["--embed"]), ({}, ["--similarity"]), (ENCODER, []), (ENCODER_DECODER, []),
])  # fmt: skip
def test_a_text_longer_than_the_positions_is_one_line(settings, flags, folder, capsys):
    text = "a long text " * 9 + ("[MASK]" if settings is ENCODER else "at its end")
    assert main(["predict", str(folder(settings)), "--text", text, *flags]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "positions end at " in line
    assert "too long" in line


@pytest.mark.parametrize("settings", [{}, ENCODER_DECODER])
def test_generated_text_ends_with_the_positions(settings, folder):
    model = zoo.load(folder(settings))
    (answer,) = model.generate("abc")
    (same,) = model.generate("abc", max_new_tokens=answer.tokens)
    assert answer.text == same.text
    with pytest.raises(ConfigError, match=f"at most {answer.tokens} new ones fit"):
        model.generate("abc", max_new_tokens=answer.tokens + 1)


def test_long_texts_are_classified_in_windows(folder):
    short = zoo.load(folder(CLASSIFIER | {"data__sequence_length": 8}))
    model = zoo.load(folder(CLASSIFIER | {"data__sequence_length": 8, "data__stride": 4}))
    windows = [list(found.probabilities.values()) for found in short.predict(["abcdef", "efghij", "ijk"])]
    # Averaging scores equals averaging log-probabilities, up to a constant per window.
    expected = jax.nn.softmax(np.log(windows).mean(axis=0))
    long, _ = model.predict(["abcdefghijk", "abc"])
    np.testing.assert_allclose(list(long.probabilities.values()), expected, rtol=1e-4)
    assert model.predict(["abc"]) == short.predict(["abc"])
    assert long.value == max(long.probabilities, key=long.probabilities.get)


def zoo_model(run):
    from flax import nnx

    return nnx.merge(split(run.model)[0], run.params, run.stats)


@pytest.mark.parametrize(
    ("before", "after", "between", "pair"),
    [
        ([256], [0], [0, 0], [256, 97, 0, 0, 98, 0]),
        ([256], [0], [0], [256, 97, 0, 98, 0]),
        ([256], [], [256], [256, 97, 256, 98]),
        ([], [], [], None),
    ],
)
@pytest.mark.promise(reason="a model of another objective is compiled")
def test_an_imported_head_reads_what_its_tokenizer_puts_around_texts(folder, tmp_path, before, after, between, pair):
    run_folder = shutil.copytree(folder(CLASSIFIER | {"model__position__kind": "rope"}), tmp_path / "run")
    imported = {"text_frame": {"before": before, "after": after, "between": between}, "trained_length": 40}
    write_json(run_folder / "meta.json", {"data": {"labels": ["a", "b", "c"]}, "imported": imported})
    model = zoo.load(run_folder)

    def read(second, text="a"):
        _, encoded = model._task_predictions.scores([LabelledText(text, second, "a")])
        rows = encoded.arrays["tokens"]
        return [row[row >= 0].tolist() for row in rows]

    assert read(None) == [[*before, 97, *after]]
    # Up to the length of the published model's rows, and not of those of its training here.
    assert max(map(len, read(None, 60 * "a"))) == 40
    if pair:
        assert read("b") == [pair]
    else:
        with pytest.raises(ConfigError, match="recorded no tokens between the texts of a pair"):
            model.predict([("a", "b")])


@pytest.mark.parametrize("kind", ["tagging", "regression", "extraction"])
@pytest.mark.promise(reason="a model of another objective is compiled")
def test_tagging_regression_and_extraction(folder, kind, capsys):
    classes = {"tagging": 3, "regression": 1, "extraction": 2}[kind]
    run_folder = folder(CLASSIFIER | {"objective__kind": kind, "model__head__classes": classes})
    write_json(run_folder / "meta.json", {"data": {"labels": ["O", "B-x", "I-x"] if kind == "tagging" else []}})
    model = zoo.load(run_folder)
    if kind == "tagging":
        (found,) = model.predict(["three small words"])
        assert [word for word, _ in found.value] == ["three", "small", "words"]
        assert {tag for _, tag in found.value} <= {"O", "B-x", "I-x"}
        with pytest.raises(ConfigError, match="reads single texts"):
            model.predict([("a", "b")])
    elif kind == "regression":
        assert isinstance(model.predict(["abc"])[0].value, float)
    else:
        context = "The cat sat on the mat."
        (found,) = model.predict([(context, "Where?")])
        assert found.value == context[found.start : found.end]
        # With unanswerable questions in the data, an answer may be empty, as in the evaluation.
        assert not model._task_predictions.task.unanswerable
        write_json(run_folder / "meta.json", {"data": {"labels": [], "unanswerable": True}})
        assert zoo.load(run_folder)._task_predictions.task.unanswerable
        assert main(["predict", str(run_folder), "--text", context, "--second", "Where?", "--json"]) == 0
        record = json.loads(capsys.readouterr().out)
        assert (record["prediction"], record["start"], record["end"]) == found[:1] + found[2:]
        with pytest.raises(ConfigError, match=r"pairs \(context, question\)"):
            model.predict(["abc"])
