"""Settings of a checkpoint that the user ignores, because its importer does not know them."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from zoo.errors import ConfigError
from zoo.interop.settings.importer import SettingsError


def without_ignored(
    read: Callable[[Mapping[str, Any]], Any],
    class_name: str,
    file: str,
    settings: Mapping[str, Any],
    ignored: Collection[str],
    always: Collection[str] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns settings without those that the user ignores, and those.

    Args:
        read: reads settings and raises SettingsError for those that it does not know.
        class_name: of the checkpoint.
        file: that the settings are from.
        settings: all of them.
        ignored: names, those of an inner object after a dot.
        always: names that may be ignored whatever the importer knows.

    Raises:
        ConfigError: a name that is no setting of the file, or one that does not stop the import.
    """
    kept, left_out, problems = dict(settings), {}, []
    if not ignored:
        return kept, left_out
    for name in (name for name in always if name in ignored and name in kept):
        left_out[name] = kept.pop(name)
    unknown: frozenset[str] = frozenset()
    try:
        read(kept)
    except SettingsError as error:
        unknown = error.unknown
    for name in (name for name in ignored if name not in left_out):
        outer, _, inner = ("", "", name) if name in kept else name.partition(".")
        place = kept.get(outer, {}) if outer else kept
        if not isinstance(place, Mapping) or inner not in place:
            problems.append(f"--ignore {name}: {file} has no such setting")
        elif name not in unknown:
            problems.append(
                f"--ignore {name}: {class_name} reads this setting, or it changes nothing; only unknown settings can "
                "be ignored"
            )
        else:
            left_out[name] = place[inner]
            remaining = {key: value for key, value in place.items() if key != inner}
            kept = kept | {outer: remaining} if outer else remaining
    if problems:
        raise ConfigError(problems)
    return kept, left_out
