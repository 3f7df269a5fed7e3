"""`zoo generate`, as a user types it."""

import functools
import json
from argparse import Namespace

import pytest

from tests.support.small_runs import OBJECTIVES, small
from tests.support.untrained import untrained
from zoo.cli import main
from zoo.cli.generate import _prompts
from zoo.cli.predict import _examples
from zoo.decoding.text_generator import TextGenerator
from zoo.terminal import escape
from zoo.training import trained_run

SHORT = {"model__num_layers": 1, "model__dim": 16}


def untrained_run(folder, **overrides):
    return str(untrained(folder, small(**SHORT | overrides)))


@pytest.fixture(autouse=True, scope="module")
def runs_are_loaded_once():
    """Commands on the same run share its model, and with it the compiled programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trained_run, "load_trained", functools.cache(trained_run.load_trained))
        yield


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    return untrained_run(tmp_path_factory.mktemp("runs") / "decoder", model__position__kind="rope")


def generate(capsys, *arguments, code=0):
    """Standard output and standard error of the command."""
    assert main.main(["generate", *arguments]) == code
    return capsys.readouterr()


def answers(capsys, *arguments):
    """The JSON objects of the command's lines."""
    return [json.loads(line) for line in generate(capsys, *arguments, "--json").out.splitlines()]


def test_generated_text_follows_its_prompt(decoder, capsys):
    (answer,) = answers(capsys, decoder, "--prompt", "def ", "--max-new-tokens", "8")
    assert set(answer) == {"prompt", "text", "tokens", "stopped"}
    assert (answer["prompt"], answer["tokens"], answer["stopped"]) == ("def ", 8, False)
    printed = generate(capsys, decoder, "--prompt", "def ", "--max-new-tokens", "8")
    # Control characters are escaped.
    assert printed.out == f"def {escape(answer['text'])}\n"
    assert not printed.err


def test_sampled_text_depends_on_the_seed_and_greedy_text_does_not(decoder, capsys):
    # Samples of an untrained model differ only at a high temperature.
    sampling = ("--prompt", "def ", "--max-new-tokens", "8", "--temperature", "50")
    one, again, other = (generate(capsys, decoder, *sampling, "--seed", seed).out for seed in "112")
    assert one == again != other
    greedy = [
        generate(capsys, decoder, "--prompt", "def ", "--max-new-tokens", "8", "--temperature", "0", "--seed", seed).out
        for seed in "12"
    ]
    assert greedy[0] == greedy[1]


def test_prompts_from_a_file(decoder, tmp_path, capsys):
    file = tmp_path / "prompts.txt"
    file.write_text("def f\n\nimport é\n")
    found = answers(capsys, decoder, "--prompt", "x = ", "--prompts", str(file), "--max-new-tokens", "8")
    assert [answer["prompt"] for answer in found] == ["x = ", "def f", "", "import é"]
    text = generate(capsys, decoder, "--prompt", "x = ", "--prompts", str(file), "--max-new-tokens", "8").out
    assert text.count("---\n") == 3
    (alone,) = answers(capsys, decoder, "--prompt", "x = ", "--max-new-tokens", "8")
    assert alone == found[0]


def test_text_ends_before_a_stop_string(decoder, capsys):
    # At this temperature bytes are almost uniform, so a letter comes soon.
    sampling = (decoder, "--prompt", "def ", "--max-new-tokens", "8", "--temperature", "50")
    (unstopped,) = answers(capsys, *sampling)
    letter = next(letter for letter in unstopped["text"][2:] if letter.isascii() and letter != "\0")
    (stopped,) = answers(capsys, *sampling, "--stop", letter, "--stop", "not in the text at all")
    assert stopped["text"] == unstopped["text"][: unstopped["text"].index(letter)]
    assert stopped["stopped"]
    assert stopped["tokens"] <= 8


def test_beam_search_scores(decoder, capsys):
    (found,) = answers(
        capsys, decoder, "--prompt", "x", "--max-new-tokens", "6", "--beams", "3", "--length-penalty", "0"
    )
    (greedy,) = answers(
        capsys, decoder, "--prompt", "x", "--max-new-tokens", "6", "--beams", "1", "--length-penalty", "0"
    )
    assert 0 > found["score"] >= greedy["score"] - 1e-6
    (penalised,) = answers(
        capsys, decoder, "--prompt", "x", "--max-new-tokens", "6", "--beams", "1", "--length-penalty", "1"
    )
    assert penalised["score"] == pytest.approx(greedy["score"] / penalised["tokens"], rel=1e-5)


def test_texts_longer_than_in_training(decoder, capsys, monkeypatch):
    caches, original = [], TextGenerator.sample
    monkeypatch.setattr(
        TextGenerator, "sample", lambda self, **how: caches.append(how["cache"]) or original(self, **how)
    )
    printed = generate(capsys, decoder, "--prompt", "x", "--max-new-tokens", "40", "--temperature", "0")
    assert printed.err == "note: a text may have 41 tokens; the model was trained with 16\n"
    uncached = generate(capsys, decoder, "--prompt", "x", "--max-new-tokens", "40", "--temperature", "0", "--no-cache")
    assert uncached == printed
    assert caches == [True, False]


def test_texts_beyond_the_learned_positions(tmp_path, capsys):
    learned = untrained_run(tmp_path / "learned")
    printed = generate(capsys, learned, "--prompt", "x", "--max-new-tokens", "40", "--no-cache")
    assert printed.err == (
        "note: a text may have 41 tokens; learned positions end at 16, and without a cache the oldest tokens are dropped\n"
    )


@pytest.mark.parametrize(("kind", "new"), [("causal", 14), ("masked_diffusion", 13)])
def test_by_default_as_many_tokens_are_written_as_fit(kind, new, tmp_path, capsys):
    folder = untrained_run(tmp_path / "run", **OBJECTIVES[kind])
    texts = ("--prompt", "x", "--prompt", "xy", "--temperature", "0")
    printed = generate(capsys, folder, *texts)
    assert printed.err == f"note: learned positions end at 16, so a text has at most {new} new tokens\n"
    assert printed.out == generate(capsys, folder, *texts, "--max-new-tokens", str(new)).out
    assert (
        f"{new} new" in generate(capsys, folder, *texts, "--max-new-tokens", str(new + 1), code=2).err
        or kind != "causal"
    )
    too_long = generate(capsys, folder, "--prompt", "x" * 40, code=2).err
    assert len(too_long.splitlines()) == 1
    assert "learned positions end at 16" in too_long


def test_special_tokens_need_a_tokenizer_that_has_some(decoder, capsys):
    printed = generate(capsys, decoder, "--prompt", "x", "--special-tokens", code=2)
    assert "special tokens are read by tokenizers of a tokenizer.json" in printed.err


@pytest.mark.parametrize(("arguments", "words"), [
    (["nowhere", "--prompt=x"], "nowhere is not a run"),
    (["RUN"], "there is no prompt"),
    (["RUN", "--prompts=missing.txt"], "--prompts missing.txt does not exist"),
    (["RUN", "--prompts=RUN"], "is a folder, not a file"),
    (["RUN", "--prompt=x", "--max-new-tokens=2000000000"], "max_new_tokens=2000000000 must be at most 16777216"),
    (["RUN", "--prompt=x", "--step=99"], "--step 99"),
    (["RUN", "--prompt=x", "--max-new-tokens=0"], "max_new_tokens=0"),
    (["RUN", "--prompt=x", "--temperature=-1"], "temperature=-1"),
    (["RUN", "--prompt=x", "--top-p=1.5"], "top_p=1.5"),
    (["RUN", "--prompt=x", "--top-k=-2"], "top_k=-2"),
    (["RUN", "--prompt=x", "--beams=0"], "beams=0"),
    (["RUN", "--prompt=x", "--seed=-1"], "--seed -1"),
    (["RUN", "--prompt=x", "--stop="], "an empty stop string"),
    (["RUN", "--prompt=x", "--beams=2", "--temperature=1"], "--temperature has no effect with --beams"),
    (["RUN", "--prompt=x", "--length-penalty=1"], "--length-penalty has no effect without --beams"),
    (["RUN", "--prompt=x", "--wrong=1"], "unknown argument --wrong=1"),
    (["RUN", "--prompt=x", "--beams=2", "--length=3"], 'unknown argument --length=3 (did you mean "--length-penalty"?)'),
    (["RUN", "--prompt=--"], "argument --prompt: -- is not a value"),
])  # fmt: skip
def test_bad_input_is_one_line(decoder, arguments, words, capsys):
    printed = generate(capsys, *[argument.replace("RUN", decoder) for argument in arguments], code=2)
    assert len(printed.err.splitlines()) == 1
    assert words in printed.err
    assert not printed.out


def test_a_prompts_file_that_is_not_utf8(decoder, tmp_path, capsys):
    file = tmp_path / "prompts.txt"
    file.write_bytes(b"\xff\xfe\xff")
    assert "it is UTF-16; convert it to UTF-8" in generate(capsys, decoder, "--prompts", str(file), code=3).err


@pytest.mark.parametrize("kind", ["masked", "bidirectional"])
def test_models_that_do_not_generate_are_refused(kind, tmp_path, capsys):
    folder = untrained_run(tmp_path / "run", **OBJECTIVES[kind])
    printed = generate(capsys, folder, "--prompt", "x", code=2)
    assert "does not continue a text token by token" in printed.err
    assert len(printed.err.splitlines()) == 1


def test_prompts_and_texts_are_the_lines_of_their_files(tmp_path):
    """A line ends at a line feed, as for `wc -l`, and at no form feed or U+2028."""
    file = tmp_path / "lines.txt"
    file.write_bytes("\ufeffone\u2028one\r\ntwo\x0ctwo\n\nfour\tsecond\n".encode())
    prompts = _prompts(Namespace(prompt=["zero"], prompts=file))
    assert prompts == ["zero", "one\u2028one", "two\x0ctwo", "", "four\tsecond"]
    examples = _examples(Namespace(text=[], second=[], file=file))
    assert examples == ["one\u2028one", "two\x0ctwo", ("four", "second")]
