"""`zoo check`: runs on a kind what the tests of zoo run on its own."""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence

from zoo import config as configs
from zoo.config import check_records, plugins
from zoo.config.kinds import KIND_TABLES, Kind
from zoo.config.plugins import Plugin
from zoo.errors import ConfigError, did_you_mean, shown

DESCRIPTION = """Checks variants in small models with random values, one line for each property: what was compared, what
was found, or why the property does not apply. Without KIND, all kinds that the plug-ins register are checked. The
record is kept with the text of the plug-in, in every run that is trained with it."""
EPILOG = """examples:
  zoo check --plugin my_gate.py
  zoo check --plugin my_variants.py attention=gated --set model.attention.window=4
  zoo check attention=forgetting

exit codes: 0 every property holds or does not apply, 1 one fails, 2 bad plug-in, kind or setting"""
# Words for the fields of kinds, besides the last part but one of their paths.
WORDS = {"feed-forward": "model.ffn.kind"} | {
    path.split(".")[-2]: path for path in KIND_TABLES if path.endswith(".kind")
}
WORDS["placement"] = "model.norm.placement"
DEVICES = "8"
WIDTH = 18


def prepare(arguments: Sequence[str]) -> None:
    """Gives the process eight simulated devices, before JAX is imported."""
    del arguments
    if "jax" not in sys.modules:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        os.environ |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": DEVICES}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "check",
        help="check a variant of your own as the built-in ones are checked",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "kinds", metavar="KIND", nargs="*", help="a kind: NAME, attention=NAME or model.attention.kind=NAME"
    )
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="PATH=VALUE",
        action="append",
        default=[],
        help="a field of the small models, such as a window that the kind needs; repeat for several",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> int:
    """Checks the kinds; returns 1 if a property of one fails."""
    settings = _settings(args.settings)
    chosen = [_kind(text) for text in args.kinds] or [
        kind for one in plugins.loaded() for kind in plugins.kinds_of(one)
    ]
    if not chosen:
        files = " and ".join(plugin.name for plugin in plugins.loaded())
        why = f"{files} registers no kind, so there is nothing to check" if files else "nothing to check"
        raise ConfigError(f"{why}; name a kind, or a plug-in that registers one: zoo check --plugin FILE")
    owners = {check_records.label_of(kind): one for one in plugins.loaded() for kind in plugins.kinds_of(one)}
    found, started = {}, time.monotonic()
    for kind in chosen:
        found[check_records.label_of(kind)] = _checked(
            kind, owners.get(check_records.label_of(kind)), settings, args.json
        )
    if args.json:
        print(json.dumps({"kinds": found, "seconds": round(time.monotonic() - started, 1)}, indent=2))
    failed = any(one["state"] == check_records.FAIL for outcomes in found.values() for one in outcomes)
    return int(failed)


def _checked(kind: Kind, owner: Plugin | None, settings: dict[str, str], quiet: bool) -> list[dict[str, str]]:
    """Checks one kind, prints its lines, and keeps the record if it is a plug-in's."""
    from zoo.checks import Outcome, check_kind
    from zoo.training.runtime.compilation_cache import use_compilation_cache

    title = f"{check_records.label_of(kind)}: {kind.meaning}"

    def show(outcome: Outcome) -> None:
        nonlocal title
        if not quiet:
            print(title, end="\n" * bool(title))
            title = ""
            print(f"  {outcome.property:{WIDTH}s}  {outcome.state:14s}  {outcome.reason}", flush=True)

    use_compilation_cache()
    started = time.monotonic()
    outcomes = check_kind(kind, settings, "" if owner is None else str(owner.origin), show)
    records = [outcome.record() for outcome in outcomes]
    if owner is not None:
        check_records.keep(owner, kind, settings, records)
    if not quiet:
        print(f"{check_records.summary(records)} ({time.monotonic() - started:.0f} s)", flush=True)
    return records


def _kind(text: str) -> Kind:
    """Returns the kind that a word names.

    Raises:
        ConfigError: there is no such kind, or several.
    """
    word, equals, name = text.rpartition("=")
    name = name.replace("-", "_")
    if not equals:
        found = [table.by_name[name] for table in KIND_TABLES.values() if name in table.by_name]
        if len(found) == 1:
            return found[0]
        if found:
            raise ConfigError(
                f"{shown(text)} is a kind of several fields: {', '.join(map(check_records.label_of, found))}"
            )
        names = {known for table in KIND_TABLES.values() for known in table.by_name}
        raise ConfigError(f"there is no kind {shown(text)}{did_you_mean(name, names)}; zoo describe lists them")
    path = WORDS.get(word, word)
    if path not in KIND_TABLES:
        raise ConfigError(
            f"{shown(text)}: {shown(word)} has no kinds{did_you_mean(word, WORDS)}; use {', '.join(WORDS)}"
        )
    if name not in KIND_TABLES[path].by_name:
        raise ConfigError(f"there is no {path}={name}{did_you_mean(name, KIND_TABLES[path].by_name)}")
    return KIND_TABLES[path].by_name[name]


def _settings(texts: Sequence[str]) -> dict[str, str]:
    """Returns the fields of --set, as texts."""
    if wrong := [f"--set {text}: expected PATH=VALUE" for text in texts if "=" not in text]:
        raise ConfigError(wrong)
    return configs.parse_overrides([f"--config.{text}" for text in texts])
