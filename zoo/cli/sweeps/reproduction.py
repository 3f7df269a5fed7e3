"""The `zoo run` command that reproduces the results of a sweep."""

import argparse

# Attribute -> flag of the options that can change a result; not of those that choose where runs are
# trained and stored.
FLAGS = {
    "vary": "--vary",
    "arms": "--arm",
    "leave_one_out": "--leave-one-out",
    "add_one_in": "--add-one-in",
    "base": "--base",
    "groups": "--groups",
    "pairs": "--pairs",
    "name": "--name",
    "seeds": "--seeds",
    "metric": "--metric",
    "measures": "--measure",
    "allow": "--allow",
    "match": "--match",
    "tune": "--tune",
    "tune_seeds": "--tune-seeds",
    "tuned_as": "--tuned-as",
    "noise_from": "--noise-from",
    "until_decided": "--until-decided",
    "max_seeds": "--max-seeds",
    "population": "--population",
    "corpus": "--corpus",
    "executor": "--executor",
    "changes": "--set",
}


def reproduction_command(args: argparse.Namespace) -> list[str]:
    """Returns the words of the command, e.g. ["zoo", "run", "experiments/x.py", "--seeds", "5"]."""
    words = [
        "zoo",
        "run",
        *([args.experiment] if args.experiment else [f"--config={args.config}"] if args.config else []),
    ]
    words += [word for path in args.plugin for word in ("--plugin", str(path))]
    for attribute, flag in FLAGS.items():
        value = getattr(args, attribute)
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [word for one in value for word in (flag, str(one))]
        elif value:
            words += [flag, _numbers(value) if isinstance(value, tuple) else str(value)]
    return words + args.overrides


def _numbers(seeds: tuple[int, ...]) -> str:
    """Formats seeds as `--seeds` reads them: "3" for 0, 1, 2, and "5," for seed 5 alone."""
    if seeds == tuple(range(len(seeds))):
        return str(len(seeds))
    return ",".join(map(str, seeds)) + ("," if len(seeds) == 1 else "")
