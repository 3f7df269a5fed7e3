"""Reads the JSON records of a run that is to be trained, where damage must not go unnoticed."""

from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json


def read_record(path: Path, **expected: type) -> dict[str, Any]:
    """Reads a JSON object; a file that is missing, or empty after a crash, reads as {}.

    Args:
        path: the file.
        expected: types of entries that may be missing.

    Raises:
        ConfigError: the file holds something else; in one line, with the way out.
    """
    try:
        if not path.stat().st_size and path.is_file():
            return {}
        content = read_json(path)
        if not isinstance(content, dict):
            raise ValueError(f"a JSON object is expected, found {type(content).__name__}")
        for name, kind in expected.items():
            if content.get(name) is not None and not isinstance(content[name], kind):
                raise ValueError(f'"{name}" is of type {type(content[name]).__name__}, not {kind.__name__}')
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        line = f"{path} is damaged ({why}); restore it from a copy, or remove it if there is none"
        raise ConfigError(line) from error
    return content


def read_meta(workdir: Path) -> dict[str, Any]:
    """Reads the meta.json of a run; the same holds as for `read_record`."""
    return read_record(
        workdir / "meta.json", data=dict, started_from=dict, teacher=dict, device=dict, resumed=list, extensions=list
    )
