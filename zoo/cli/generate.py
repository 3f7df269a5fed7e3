"""`zoo generate`: generates text with a trained run."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.inference.new_tokens import NEW_TOKENS

DESCRIPTION = """Generates text with a trained run. A decoder continues the prompt; so does an encoder trained by
masked_diffusion, with --max-new-tokens tokens in random order. An encoder-decoder reads the prompt; by
objective.kind it
  prefix       continues it
  span         fills its blanks <0>, <1>, ... (or one at its end, if it has none)
  denoising    rewrites it with the blanks filled
  translation  translates it; models imported from fairseq read tokens of the source dictionary, between spaces
A text ends at the token that separates documents, at a --stop, or after --max-new-tokens."""
EXAMPLES = """examples:
  zoo generate runs/first --prompt "def "
  zoo generate runs/first --prompts questions.txt --temperature 0.7 --top-p 0.9 --stop "?"
  zoo generate runs/t5 --prompt "import <0> as np" --beams 4 --json"""
# Options of sampling alone, and of beam search alone, with their defaults.
SAMPLING = {"temperature": 0.8, "top_k": 0, "top_p": 1.0, "seed": 0}
BEAMS = {"length_penalty": 1.0}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "generate",
        help="generate text with a run: sampling or beam search",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="the run's folder (its --workdir)")
    add("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")
    add("--prompt", action="append", default=[], metavar="TEXT", help="prompt; may be repeated")
    add("--prompts", type=Path, metavar="FILE", help="file of prompts, one per line")
    add(
        "--max-new-tokens",
        type=int,
        metavar="N",
        help=f"maximum number of generated tokens per prompt (default: {NEW_TOKENS}, or as many as fit the learned "
        "positions after the longest prompt)",
    )
    add("--temperature", type=float, help=f"0 takes the most probable token (default: {SAMPLING['temperature']})")
    add("--top-k", type=int, metavar="K", help="sample from the K most probable tokens; 0 for all")
    add("--top-p", type=float, metavar="P", help="sample from the most probable tokens with a total probability of P")
    add("--seed", type=int, help=f"seed of sampling (default: {SAMPLING['seed']})")
    add("--beams", type=int, metavar="W", help="beam search with W hypotheses instead of sampling")
    add(
        "--length-penalty",
        type=float,
        metavar="A",
        help="score of a text with --beams: log p / length^A; above 0 favours long texts (default: "
        f"{BEAMS['length_penalty']:g})",
    )
    add("--stop", action="append", default=[], metavar="TEXT", help="end before this text; may be repeated")
    add(
        "--no-cache",
        action="store_true",
        help="recompute all tokens for every new one: slow, but not limited by learned positions, past which the "
        "oldest tokens are dropped",
    )
    add(
        "--special-tokens",
        action="store_true",
        help="read special tokens of a pretrained tokenizer, such as <|im_start|>, where prompts spell them "
        "(default: as text)",
    )
    add("--json", action="store_true", help="print one JSON object per line and prompt")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Generates the texts and prints them."""
    prompts, how = _prompts(args), _choices(args)
    from zoo.decoding import Sampling
    from zoo.decoding.text_generator import PromptReading, TextGenerator
    from zoo.training.trained_run import load_trained

    trained = load_trained(args.run, args.step)
    generator = TextGenerator(
        trained.config, trained.tokenizer, trained.model, trained.params, trained.stats, trained.source_tokenizer,
        PromptReading(trained.trained_length, special_tokens=args.special_tokens, frame=trained.text_frame),
    )  # fmt: skip
    new_tokens = args.max_new_tokens
    if new_tokens is None:
        new_tokens = generator.fitting_tokens(prompts, NEW_TOKENS, cache=not args.no_cache)
    common = {"prompts": prompts, "max_new_tokens": new_tokens, "stop": args.stop, "cache": not args.no_cache}
    if args.beams is not None:
        answers = generator.beam_search(beams=args.beams, length_penalty=how["length_penalty"], **common)
    else:
        sampling = Sampling(how["temperature"], how["top_k"], how["top_p"])
        answers = generator.sample(sampling=sampling, seed=how["seed"], **common)
    longest = generator.longest_sequence(prompts, new_tokens)
    table = generator.generator.max_positions
    if args.no_cache and table is not None and longest > table:
        print(
            f"note: a text may have {longest} tokens; learned positions end at {table}, and without a cache the oldest "
            "tokens are dropped",
            file=sys.stderr,
        )
    elif args.max_new_tokens is None and new_tokens < NEW_TOKENS:
        print(f"note: learned positions end at {table}, so a text has at most {new_tokens} new tokens", file=sys.stderr)
    elif longest > generator.trained_length:
        print(
            f"note: a text may have {longest} tokens; the model was trained with {generator.trained_length}",
            file=sys.stderr,
        )
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        if args.json:
            print(json.dumps({"prompt": prompt, "text": answer.text, "tokens": answer.tokens, "stopped": answer.stopped,
                              **({} if answer.score is None else {"score": answer.score})}))  # fmt: skip
        else:
            print("---\n" * (number > 0) + generator.full_text(prompt, answer))
    return 0


def _prompts(args: argparse.Namespace) -> list[str]:
    """Returns the prompts of the flags, then those of the file."""
    prompts = list(args.prompt)
    if args.prompts is not None:
        from zoo.data.sources.text_files import read_lines

        prompts += read_lines(args.prompts, "--prompts")
    if not prompts:
        raise ConfigError("there is no prompt: give --prompt TEXT or --prompts FILE")
    return prompts


def _choices(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of sampling and beam search, with their defaults."""
    idle, why = (BEAMS, "without --beams") if args.beams is None else (SAMPLING, "with --beams, which does not sample")
    for name in idle:
        if getattr(args, name) is not None:
            raise ConfigError(f"--{name.replace('_', '-')} has no effect {why}")
    given = {
        name: default if getattr(args, name) is None else getattr(args, name)
        for name, default in (SAMPLING | BEAMS).items()
    }
    if not 0 <= given["seed"] < 2**32:
        raise ConfigError(f"--seed {given['seed']} must be from 0 to {2**32 - 1}")
    return given
