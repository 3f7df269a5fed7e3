"""Evaluates a run's checkpoint and samples text from it: the command behind `eval.py`."""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import ml_collections

from zoo.arguments import Parser, at_least, lengths
from zoo.cli import plugin_options
from zoo.errors import ConfigError, reported, why_no_file

DESCRIPTION = """Evaluates a trained run on its held-out text: loss (nats per scored token), perplexity and bits per
byte, at any sequence lengths, and a sample if the model generates text (`zoo generate` has more options). A run of a
task (classification ...) is scored on every held-out example with the metrics of the task.

  python eval.py runs/first
  python eval.py runs/first --lengths 64,128,256 --step best
  python eval.py runs/sst2-seed0 runs/sst2-seed1 runs/sst2-seed2
  python eval.py runs/first --text other.txt --sample 200 --prompt "def "
  python eval.py runs/multi30k --translate --pairs "parallel:test2016.{en,de}"  """
# Flags that say how a sample is drawn, and their defaults.
OF_SAMPLES = {"prompt": "", "temperature": 0.8, "top_k": 0, "seed": 0}


def parser() -> argparse.ArgumentParser:
    """Returns the command line of `eval.py`."""
    made = Parser(prog="eval.py", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("run", type=Path, metavar="RUN", help="the run's folder (its --workdir)")
    made.add_argument(
        "others",
        type=Path,
        metavar="RUN",
        nargs="*",
        help="further runs of the same task, e.g. with other seeds; prints the scores of each and the median",
    )
    made.add_argument("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")
    made.add_argument("--lengths", type=lengths, metavar="T,T,...", help="sequence lengths (default: that of training)")
    made.add_argument(
        "--batches",
        type=at_least(0, int),
        default=0,
        help="maximum number of batches, spread over the text; 0 for all (default: 0)",
    )
    made.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help="score this text instead of the held-out split; of JSON objects, the texts at data.column, unless the "
        "run was trained on text files",
    )
    made.add_argument(
        "--pairs",
        metavar="SOURCE",
        help="score these pairs (a data.source, or split:NAME of the run's own) instead of the held-out ones",
    )
    made.add_argument(
        "--translate",
        action="store_true",
        help="also translate the pairs with beam search, as at the end of training, and score the translations",
    )
    made.add_argument(
        "--sample", type=at_least(0, int), default=0, metavar="N", help="also sample N tokens (not from encoders)"
    )
    made.add_argument("--prompt", help="beginning of the sample")
    made.add_argument(
        "--temperature",
        type=at_least(0, float),
        help=f"0 takes the most probable token (default: {OF_SAMPLES['temperature']})",
    )
    made.add_argument(
        "--top-k", type=at_least(0, int), help="sample from the K most probable tokens; 0 for all (default: 0)"
    )
    made.add_argument("--seed", type=at_least(0, int, 2**32 - 1), help="seed of the sample (default: 0)")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    plugin_options.add_options(made)
    return made


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the flags, evaluates, and returns the exit code."""
    args = parser().parse_args(arguments)
    if args.text is not None and not args.text.is_file():
        raise ConfigError(f"--text {args.text} {why_no_file(args.text)}")
    if not args.sample and (given := [name for name in OF_SAMPLES if getattr(args, name) is not None]):
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigError(f"{flags}: only for a sample, which --sample N asks for")
    for name, default in OF_SAMPLES.items():
        setattr(args, name, default if getattr(args, name) is None else getattr(args, name))
    plugin_options.load(args)
    from zoo.config.fields import TASKS
    from zoo.training.trained_run import load_trained

    trained = load_trained(args.run, args.step)
    config = trained.config
    if config.objective.kind != "translation" and (
        given := [f"--{name}" for name in ("pairs", "translate") if getattr(args, name)]
    ):
        raise ConfigError(
            f"{', '.join(given)}: for runs with objective.kind=translation, and this one has {config.objective.kind}"
        )
    if config.objective.kind in TASKS:
        from zoo.cli.evaluation.task_evaluation import evaluate_tasks

        return evaluate_tasks(trained, args)
    if args.others:
        raise ConfigError("several runs can only be evaluated together on a task; give one")
    pairs = pairs_to_score(trained, args) if config.objective.kind == "translation" else None
    if trained.source_tokenizer is not None:
        print(
            "note: this loss is computed on target-language text split into a source and a target part; it is not a "
            "translation loss (see zoo generate)",
            file=sys.stderr,
        )
    text = str(args.text or args.pairs or "held-out split")
    result = {
        "run": str(args.run),
        "step": trained.step,
        "text": text,
        "lengths": scores_by_length(trained, pairs, args),
    }
    if args.translate:
        result["translations"] = translations(trained, pairs)
    if args.sample and (problem := why_no_sample(trained, args)):
        result["sample"] = None
        print(f"no sample: {problem}", file=sys.stderr)
    elif args.sample:
        result["sample"] = sampled_text(trained, args)
    if args.json:
        print(json.dumps(result, indent=2))
    else:
        _print_text_scores(result, trained)
    return 0


def scores_by_length(trained, pairs, args: argparse.Namespace) -> dict[int, dict[str, float] | None]:
    """Returns the scores at each length; None if the model cannot read rows of that length."""
    from zoo import data
    from zoo.training.evaluation.held_out import evaluate

    config, multiple = trained.config, trained.program.data_parallel_size
    constants = trained.program.constants(config.seed)
    streams = None if pairs else text_streams(trained, args)
    found: dict[int, dict[str, float] | None] = {}
    for length in args.lengths or [config.data.sequence_length]:
        if trained.objective.why_too_long(trained.model, length) is not None:
            found[length] = None
            continue
        if pairs:
            batches = pairs.evaluation_batches(length, multiple, limit_batches=args.batches)
        else:
            batching = data.Batching(config, trained.tokenizer)
            batches = batching.evaluation(streams, length, multiple, limit_batches=args.batches)
        found[length] = evaluate(trained.program, trained.params, trained.stats, batches, constants)
    return found


def _print_text_scores(result: dict, trained) -> None:
    print(f"{result['run']} at step {trained.step}, on the {result['text']}")
    columns = ("loss", "perplexity", "bits_per_byte")
    if scored := next(filter(None, result["lengths"].values()), None):
        columns = columns if "perplexity" in scored else tuple(scored)
    names = [name.replace("bits_per_byte", "bits/byte").replace("_", " ") for name in columns]
    widths = [max(len(name) + 1, 10) for name in names]
    print(f"{'length':>8s}" + "".join(f"{name:>{width}s}" for name, width in zip(names, widths, strict=True)))
    for length, scores in result["lengths"].items():
        if scores is None:
            print(f"{length:8d}  cannot be evaluated: {trained.objective.why_too_long(trained.model, length)}")
        else:
            values = [f"{scores[name]:.4g}" if name == "perplexity" else f"{scores[name]:.4f}" for name in columns]
            print(f"{length:8d}" + "".join(f"{value:>{width}s}" for value, width in zip(values, widths, strict=True)))
    if "translations" in result:
        found, objective = result["translations"], trained.config.objective
        print(
            f"\n{found['pairs']:,} translations: BLEU {found['bleu']:.2f}, chrF {found['chrf']:.2f}, exact "
            f"{found['exact_match']:.1%}"
        )
        print(f"{found['signatures']['bleu']}, beams {objective.beams}, length penalty {objective.length_penalty:g}")
    if result.get("sample") is not None:
        print(f"\n{result['sample']}")


def pairs_to_score(trained, args: argparse.Namespace):
    """Returns the pairs of texts to score, for a run that translates.

    Raises:
        ConfigError: flags that are for text; pairs that cannot be read, or have changed since the
            run.
    """
    from zoo import data
    from zoo.data.sources.tables import held_out_config
    from zoo.data.translation.text_pairs import read_pairs
    from zoo.training.records.resume_checks import check_same_data
    from zoo.training.records.run_folder import RunFolder

    config = trained.config
    if args.text:
        raise ConfigError(f"--text {args.text}: a run that translates is scored on pairs of texts, --pairs SOURCE")
    if args.pairs:
        if args.pairs.startswith("split:") and not config.data.source.startswith(("hf:", "tfds:")):
            raise ConfigError(f"--pairs {args.pairs}: data.source={config.data.source} has no splits; name a source")
        try:
            asked = ml_collections.ConfigDict({**config.data, "held_out": args.pairs})
            found = read_pairs(held_out_config(asked))
        except ConfigError as error:
            named = [re.sub(r"data\.(source|held_out)", "--pairs", problem, count=1) for problem in error.problems]
            raise ConfigError(named) from error
        return data.TranslationDataset(config, trained.tokenizer, found, found)
    pairs = data.load_translation(config, trained.tokenizer)
    check_same_data(RunFolder(args.run), pairs)
    return pairs


def translations(trained, pairs) -> dict:
    """Returns the scores of the translations of all pairs, as computed at the end of training."""
    from zoo.decoding.beam_search import BeamSettings
    from zoo.decoding.translate import score_translations, translate

    how, texts = trained.config.objective, pairs.validation
    made = translate(
        trained.config,
        trained.tokenizer,
        trained.model,
        trained.params,
        trained.stats,
        texts.sources,
        BeamSettings(how.beams, how.length_penalty),
    )
    scores = score_translations(made, texts.targets)
    return {"pairs": len(texts), **scores.values, "signatures": scores.signatures}


def text_streams(trained, args: argparse.Namespace):
    """Returns the tokens to score: of the given file, or of the held-out split if it is unchanged."""
    from zoo import data
    from zoo.training.records.resume_checks import check_same_data
    from zoo.training.records.run_folder import RunFolder

    config = trained.config
    if args.text:
        return [data.encode_text_file(args.text, trained.tokenizer, config)]
    dataset = data.load(config)
    check_same_data(RunFolder(args.run), dataset)
    return [text.stream for text in dataset.held_out_texts]


def why_no_sample(trained, args: argparse.Namespace) -> str:
    """Returns why the run writes no text after the prompt, or an empty string."""
    if (architecture := trained.config.model.architecture) not in ("decoder", "encoder_decoder"):
        return f"model.architecture={architecture} does not generate text"
    if not args.prompt and not trained.tokenizer.opens_documents:
        return "nothing opens a document of stored tokens whose tokenizer is unknown; give ids as --prompt"
    return ""


def sampled_text(trained, args: argparse.Namespace) -> str:
    """Returns a sample. The model never reads more tokens at once than in training."""
    from zoo.decoding import Sampling
    from zoo.decoding.text_generator import PromptReading, TextGenerator

    generator = TextGenerator(
        trained.config, trained.tokenizer, trained.model, trained.params, trained.stats, trained.source_tokenizer,
        PromptReading(trained.trained_length, limited=True, frame=trained.text_frame),
    )  # fmt: skip
    fits = generator.longest_sequence([args.prompt], args.sample) <= generator.trained_length
    cache = fits and generator.generator.why_uncacheable() is None
    (answer,) = generator.sample(
        [args.prompt], args.sample, Sampling(args.temperature, args.top_k), args.seed, cache=cache
    )
    return generator.full_text(args.prompt, answer)


if __name__ == "__main__":
    sys.exit(main())
