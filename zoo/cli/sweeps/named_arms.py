"""The command with `--arm` in place of factors of which one has no effect in some arms."""

import argparse
import itertools
import re

from zoo import config
from zoo.cli.sweeps.reproduction import reproduction_command
from zoo.errors import ConfigError
from zoo.nested import flatten
from zoo.terminal import shell_line

UNREAD = re.compile(r"(\S+)=\S* has no effect")


def with_named_arms(error: ConfigError, args: argparse.Namespace) -> ConfigError:
    """Returns the error of a sweep; where an arm does not read a field of one of several `--vary`,
    with the command that names the arms that there are.

    Args:
        error: of the plan.
        args: the flags of the sweep.
    """
    varied = {path: values.split(",") for path, _, values in (text.partition("=") for text in args.vary)}
    unread = {found[1] for line in error.problems for found in UNREAD.finditer(line)}
    if len(varied) < 2 or args.arms or not unread & varied.keys():
        return error
    arms: dict[str, dict[str, str]] = {}
    for values in itertools.product(*varied.values()):
        changes = _read(args.config, dict(zip(varied, values, strict=True)))
        if changes is None:
            return error
        arms["-".join(re.sub(r"[^\w.+-]+", "-", value) for value in changes.values())] = changes
    named = [
        f"{name}={','.join(f'{path}={value}' for path, value in changes.items())}" for name, changes in arms.items()
    ]
    words = reproduction_command(argparse.Namespace(**vars(args) | {"vary": [], "arms": named}))
    hint = f"; or name the arms that there are: {shell_line(words)}"
    place = next(number for number, line in enumerate(error.problems) if UNREAD.search(line))
    return ConfigError([line + hint * (number == place) for number, line in enumerate(error.problems)])


def _read(spec: str, changes: dict[str, str]) -> dict[str, str] | None:
    """Returns the changes without those that nothing reads beside the others; None if they are refused
    for another reason.
    """
    base = config.load_with_plugins(spec)
    while True:
        try:
            flat = flatten(config.resolve(config.override(base, changes)))
            unread = {path for path in changes if not config.field_at(path).is_read(flat)}
        except ConfigError as error:
            unread = {found[1] for line in error.problems if (found := UNREAD.match(line))} & changes.keys()
            if not unread:
                return None
        if not unread:
            return changes
        changes = {path: value for path, value in changes.items() if path not in unread}
