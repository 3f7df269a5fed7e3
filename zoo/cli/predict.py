"""`zoo predict`: what a trained model says of texts."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zoo.arguments import at_least
from zoo.errors import ConfigError

DESCRIPTION = """Applies a trained run to texts. What it prints depends on what the run was trained for: the label of
a text or of a pair with its probability, a number, the tag of each word, the answer to a question, the tokens that
fill [MASK], the next tokens, or a translation."""
EXAMPLES = """examples:
  zoo predict runs/sst2 --text "a moving film" --text "two dull hours"
  zoo predict runs/mnli --text "A man sleeps." --second "Somebody is awake."
  zoo predict runs/squad --text "The cat sat on the mat." --second "Where did the cat sit?"
  zoo predict runs/bert --text "this [MASK] bear is so cute" --top 5
  zoo predict runs/gpt2 --text "def main(" --top 5
  zoo predict runs/bert --similarity --file sentences.txt"""
TOP = 5


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="apply a run to texts: labels, tags, answers, hidden or next tokens",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="the run's folder")
    add("--text", action="append", default=[], metavar="TEXT", help="a text; may be repeated")
    add("--second", action="append", default=[], metavar="TEXT", help="the second text of a pair, or the question")
    add(
        "--file", type=Path, metavar="FILE", help="a file with a text in each line; a tab separates the texts of a pair"
    )
    add(
        "--top",
        type=at_least(1, int),
        metavar="N",
        help=f"candidates of each token, or labels of each text, that are printed (default: {TOP})",
    )
    add("--embed", action="store_true", help="print a vector for each text, the mean over its tokens")
    add("--similarity", action="store_true", help="print the cosine of the vectors of each pair of texts")
    add("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")
    add("--json", action="store_true", help="print one JSON object for each text")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Predicts and prints; returns the exit code."""
    examples = _examples(args)
    if args.embed and args.similarity:
        raise ConfigError("give either --embed or --similarity")
    if args.top is not None and (args.embed or args.similarity):
        raise ConfigError(f"--top has no effect with {'--embed' if args.embed else '--similarity'}")
    from zoo.inference.loaded_model import load

    model = load(args.run, args.step)
    if args.top is not None and not _ranks(model, args.json):
        as_json = " with --json, which has all labels" if args.json and _ranks(model, as_json=False) else ""
        kind = model.config.objective.kind
        raise ConfigError(f"--top has no effect on predictions of objective.kind={kind}{as_json}")
    args.top = TOP if args.top is None else args.top
    if args.similarity:
        _print_similarity(model, examples, args.json)
        return 0
    for example, (lines, record) in zip(examples, _predictions(model, examples, args), strict=True):
        text, second = example if isinstance(example, tuple) else (example, None)
        if args.json:
            print(json.dumps({"text": text} | ({} if second is None else {"second": second}) | record))
        else:
            print(f"{text}{'' if second is None else f' | {second}'}")
            print("\n".join(f"  {line}" for line in lines))
    return 0


def _ranks(model: Any, as_json: bool) -> bool:
    """Returns whether only the most probable tokens or labels of a prediction are printed."""
    from zoo.config.fields import TASKS
    from zoo.config.kinds import OBJECTIVE_KINDS

    kind = model.config.objective.kind
    if kind in TASKS:
        return kind == "classification" and not as_json
    return kind in OBJECTIVE_KINDS.having("masked") or model.config.model.architecture == "decoder"


def _examples(args: argparse.Namespace) -> list[str | tuple[str, str]]:
    """Returns the texts and pairs of the flags, then those of the file."""
    if args.second and len(args.second) != len(args.text):
        raise ConfigError(f"{len(args.text)} --text and {len(args.second)} --second: pairs need as many of each")
    examples: list[Any] = list(zip(args.text, args.second, strict=True)) if args.second else list(args.text)
    if args.file is not None:
        from zoo.data.sources.text_files import read_lines

        lines = read_lines(args.file, "--file")
        examples += [tuple(line.split("\t", 1)) if "\t" in line else line for line in lines if line.strip()]
    if not examples:
        raise ConfigError("there is no text: give --text TEXT or --file FILE")
    return examples


def _predictions(model: Any, examples: list[Any], args: argparse.Namespace) -> Iterator[tuple[list[str], dict]]:
    """Yields (lines to print, content of the JSON object) of each example."""
    from zoo.config.fields import TASKS
    from zoo.config.kinds import OBJECTIVE_KINDS

    kind, architecture = model.config.objective.kind, model.config.model.architecture
    if args.embed:
        for vector in model.embed(_single(examples, "--embed")):
            yield [" ".join(f"{value:.4g}" for value in vector)], {"vector": vector.tolist()}
    elif kind in TASKS:
        for prediction in model.predict(examples):
            yield _shown(prediction, args.top), _record(prediction, kind)
    elif kind in OBJECTIVE_KINDS.having("masked"):
        for text in _single(examples, f"objective.kind={kind}"):
            found = model.fill_mask(text, args.top)
            yield [_candidates(tokens) for tokens in found], {"masks": [[list(each) for each in one] for one in found]}
    elif architecture == "decoder":
        for text in _without_masks(model, _single(examples, f"objective.kind={kind}")):
            found = model.next_tokens(text, args.top)
            yield [_candidates(found)], {"next": [list(each) for each in found]}
    else:
        texts = _without_masks(model, _single(examples, f"objective.kind={kind}"))
        for answer in model.generate(texts):
            yield [answer.text], {"output": answer.text}


def _without_masks(model: Any, texts: list[str]) -> list[str]:
    """Returns the texts of a model that continues or answers them.

    Raises:
        ConfigError: a text hides a token, and the model has no mask.
    """
    from zoo.inference.loaded_model import MASK

    if model.reads_masks or not (hiding := next((text for text in texts if MASK in text), None)):
        return texts
    decoder = model.config.model.architecture == "decoder"
    instead = "next tokens after a text" if decoder else "a text for the one that its encoder reads"
    blanks = f'; in a text, "<0>" to "<{model.blanks - 1}>" are its blanks' if model.blanks else ""
    raise ConfigError(
        f"{hiding!r:.60}: objective.kind={model.config.objective.kind} has no {MASK}; the model gives {instead}{blanks}"
    )


def _single(examples: list[Any], what: str) -> list[str]:
    if any(isinstance(example, tuple) for example in examples):
        raise ConfigError(f"{what} takes single texts, not pairs")
    return examples


def _shown(prediction: Any, top: int) -> list[str]:
    if prediction.probabilities:
        ranked = sorted(prediction.probabilities.items(), key=lambda item: -item[1])[:top]
        return [f"{probability:6.1%}  {label}" for label, probability in ranked]
    if isinstance(prediction.value, list):
        return [" ".join(f"{word}/{tag}" for word, tag in prediction.value)]
    return [f"{prediction.value:.4g}" if isinstance(prediction.value, float) else repr(prediction.value)]


def _record(prediction: Any, kind: str) -> dict[str, Any]:
    record = {"prediction": prediction.value}
    if prediction.probabilities:
        record["probabilities"] = prediction.probabilities
    if kind == "extraction":
        record |= {"start": prediction.start, "end": prediction.end}
    return record


def _candidates(tokens: list[Any]) -> str:
    return ", ".join(f"{token.token!r} {token.probability:.1%}" for token in tokens)


def _print_similarity(model: Any, examples: list[Any], as_json: bool) -> None:
    texts = _single(examples, "--similarity")
    cosines = model.similarity(texts)
    for row, (text, values) in enumerate(zip(texts, cosines, strict=True)):
        if as_json:
            print(json.dumps({"text": text, "cosines": values.tolist()}))
        else:
            print(f"{row + 1:3d}  {'  '.join(f'{value:6.3f}' for value in values)}  {text}")
