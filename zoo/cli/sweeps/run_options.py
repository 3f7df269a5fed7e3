"""Flags of `zoo run`: the experiment, the comparison, the execution."""

import argparse
from pathlib import Path

from zoo.arguments import LARGEST_INTEGER
from zoo.errors import LONGEST_QUOTE, shortened
from zoo.training.runtime.device_peaks import DEVICES


def add_experiment_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that name an experiment, or make one up."""
    group = parser.add_argument_group("experiment")
    group.add_argument(
        "experiment", metavar="FILE[:SIZE]", nargs="?", help="experiment file (executed as Python: it must be trusted)"
    )
    group.add_argument(
        "--config", metavar="FILE[:ARGUMENT]", help="config file to vary, in place of an experiment file"
    )
    group.add_argument(
        "--vary",
        metavar="PATH=A,B,...",
        action="append",
        default=[],
        help="with --config: a field and its values; repeat for further fields",
    )
    group.add_argument(
        "--arm",
        metavar="NAME=CONFIG|NAME=PATH=VALUE,...",
        dest="arms",
        action="append",
        default=[],
        help="one arm, as a config, or with --config as the fields that it sets (NAME= sets none); repeat for further "
        "arms",
    )
    group.add_argument(
        "--leave-one-out",
        metavar="CONFIG",
        help="with --base: one arm without each feature by which a config differs from the base, and arms without "
        "two; the report says what each gains",
    )
    group.add_argument(
        "--add-one-in",
        metavar="CONFIG",
        help="with --base: the opposite, the base with each feature of a config alone, and with two of them",
    )
    group.add_argument("--base", metavar="CONFIG", help="what --leave-one-out or --add-one-in compares with")
    group.add_argument(
        "--groups",
        metavar="FILE",
        type=Path,
        help='with --base: TOML file that names groups of fields as features, e.g. muon = ["optimizer.*"]',
    )
    group.add_argument(
        "--pairs",
        metavar="all|none|A+B,...",
        help="with --base: pairs of features that have arms (default: all, of up to four features)",
    )
    group.add_argument(
        "--name", help="with --config or --arm: name of the sweep (default: from the config file and the fields)"
    )
    group.add_argument(
        "--corpus",
        metavar="SOURCE",
        help="run an experiment file on another text, e.g. text:corpus.txt, as a sweep NAME-on-TEXT with the same "
        "rules; zoo report DIR DIR says on which texts a claim holds",
    )
    group.add_argument(
        "--set",
        metavar="PATH=VALUE",
        dest="changes",
        action="append",
        default=[],
        help="set a field of the base config, for all arms but not for prerequisite runs; "
        "--config.PATH=VALUE does the same",
    )


def add_comparison_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say how arms are compared: seeds, metric, what may differ, tuning."""
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--seeds", metavar="N|A,B,...", type=seeds, help='number of seeds (0 to N-1), or a list ("7,": seed 7)'
    )
    _add_metrics(group)
    group.add_argument(
        "--until-decided",
        action="store_true",
        help="add one seed at a time until the contrasts are decided; intervals are widened so that the error rate "
        "over all looks is at most 5 %%",
    )
    group.add_argument(
        "--max-seeds", metavar="N", type=positive, help="with --until-decided: maximum number of seeds (default: 10)"
    )
    group.add_argument(
        "--allow",
        metavar="WHAT,...",
        default="",
        help="differences between arms to allow besides the factors: tokens, parameters, flops, levels; or in what is "
        "scored: text, tokenizer, rows, targets, context; or held-out text that was trained on before: seen_text",
    )
    group.add_argument(
        "--match",
        metavar="WHAT:FIELD",
        help="make all arms as large as the first by adjusting a field, e.g. parameters:model.ffn.hidden_dim or "
        "flops:model.num_layers; parameters are all of them, and flops those of the experts that a token is sent to "
        "(also called total_parameters and active_flops)",
    )
    _add_tuning_options(group)
    group.add_argument(
        "--noise-from",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder of an earlier sweep of such models (repeat for more): the noise of its runs tells what this one "
        "can find, and keeps intervals of few seeds from being too narrow (default: the record of the size)",
    )


def _add_metrics(group: argparse._ArgumentGroup) -> None:
    """Adds the flags that say by which numbers the arms are compared, and with which arm."""
    group.add_argument(
        "--metric",
        metavar="NAME",
        help="with --config or --arm: what the arms are compared by, e.g. eval/accuracy (default: eval/loss)",
    )
    group.add_argument(
        "--measure",
        metavar="NAME",
        dest="measures",
        action="append",
        default=[],
        help="also measure the trained runs: a measure such as spikes, or harness:TASK[:METRIC], a task of "
        "lm-evaluation-harness or its YAML file; repeat for more. --metric measured/NAME compares the arms by it",
    )
    group.add_argument(
        "--baseline", metavar="ARM", help="arm that the others are compared with in the results (default: the first)"
    )


def _add_tuning_options(group: argparse._ArgumentGroup) -> None:
    """Adds the flags that say how the settings of each arm are found."""
    group.add_argument(
        "--tune",
        metavar="FIELD=A,B,...",
        action="append",
        help="first find each arm's best value, with seeds of its own: tries these values, then four a factor of 1.5 "
        "apart around the best one, and takes the minimum of a fitted curve, e.g. "
        "optimizer.learning_rate=1e-3,3e-3,1e-2; repeat for further fields, which are tuned one after another",
    )
    group.add_argument(
        "--tune-seeds",
        metavar="N|A,B,...",
        type=seeds,
        help="with --tune: number of seeds, starting at seed 1000, or a list (default: 3)",
    )
    group.add_argument(
        "--tuned-as",
        metavar="DIR",
        type=Path,
        help="tune nothing: every arm has the value at the same place in the bracket as its best one in DIR, a sweep "
        "of the same experiment at another size or its archived result; the arms count as not tuned, unless DIR is "
        "an archived result of the same arms at these values, whose fitted curves are taken over",
    )


def add_execution_options(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say where and how runs are trained."""
    group = parser.add_argument_group("execution")
    group.add_argument(
        "--dry-run", action="store_true", help="check everything and show what would be trained; write nothing"
    )
    group.add_argument("--json", action="store_true", help="with --dry-run: print one JSON object for each sweep")
    group.add_argument(
        "--devices", metavar="N", type=positive, help="with --dry-run: plan memory and communication of every arm on N"
    )
    group.add_argument("--device", choices=DEVICES, help="with --devices: their kind, to estimate times (see zoo plan)")
    group.add_argument(
        "--jobs",
        metavar="N",
        type=positive,
        help="runs at a time (default: on a CPU one for each core if no model has more than 2 million parameters, "
        "else 1; with --slurm unlimited). On a CPU such small models compute with one thread each, so that results "
        "do not depend on the number of cores or of jobs",
    )
    group.add_argument("--output", metavar="DIR", type=Path, help="folder of the sweep (default: runs/NAME)")
    group.add_argument(
        "--runs-from",
        metavar="DIR",
        type=Path,
        action="append",
        default=[],
        help="folder of another sweep (repeat for more): its finished runs, those of tuning included, are copied where "
        "a run of the same config and seed is to be trained; reports say so",
    )
    group.add_argument("--fresh", action="store_true", help="archive an earlier sweep in that folder and start anew")


def positive(text: str) -> int:
    """Reads a whole number of at least 1."""
    if not _is_count(text) or not 1 <= int(text) <= LARGEST_INTEGER:
        raise argparse.ArgumentTypeError(f"{shortened(repr(text))} is not a positive integer")
    return int(text)


def seeds(text: str) -> tuple[int, ...]:
    """Reads "3" as seeds 0, 1, 2 and "0,5" or "5," as a list."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and parts[-1] == "":
        parts.pop()
    if not all(map(_is_count, parts)):
        raise argparse.ArgumentTypeError(f"{shortened(repr(text))} is neither a number of seeds nor a list like 0,1,5")
    if "," in text:
        return tuple(int(part) for part in parts)
    from zoo.lab.declarations import MAX_SEEDS

    if int(text) > MAX_SEEDS:
        raise argparse.ArgumentTypeError(f"{text} seeds are more than {MAX_SEEDS}")
    return tuple(range(positive(text)))


def _is_count(text: str) -> bool:
    """Returns whether a text is a whole number of at least 0 that a message can quote."""
    return text.isdecimal() and len(text) <= LONGEST_QUOTE
