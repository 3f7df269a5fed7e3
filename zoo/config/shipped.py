"""The config and experiment files that come with zoo, found by name from any folder: `llama:tiny`,
`finetune/classification`, `norm_placement:quick`; and the plug-ins next to the experiments, with one
measure or one drawing each, which has the name of its file.
"""

import re
from pathlib import Path

import zoo
from zoo.errors import ConfigError, did_you_mean, shown, user_path

CONFIGS, EXPERIMENTS = "configs", "experiments"
MEASURES, DRAWINGS = "experiments/measures", "experiments/drawings"
WHAT = {CONFIGS: "config", EXPERIMENTS: "experiment"}
NAME = re.compile(r"\w+(/\w+)*")


def split_spec(spec: str) -> tuple[Path, str | None]:
    """Splits "configs/llama.py:tiny" into its path and its argument."""
    if user_path(spec).exists():
        return user_path(spec), None
    path, colon, argument = spec.partition(":")
    return user_path(path), argument if colon else None


def shipped_folder(kind: str) -> Path:
    """Returns the folder of the files that come with zoo.

    Args:
        kind: `CONFIGS`, `EXPERIMENTS`, `MEASURES` or `DRAWINGS`. In a checkout it is beside the
            package; an installed wheel has it inside, as these must not become packages of their own.
    """
    package = Path(zoo.__file__).parent
    inside = package / "shipped" / kind
    return inside if inside.is_dir() else package.parent / kind


def shipped_names(kind: str) -> list[str]:
    """Returns the names of the files that come with zoo, sorted: "llama", "finetune/tagging", ..."""
    folder = shipped_folder(kind)
    # Only configs have subfolders; those of the experiments hold plug-ins.
    found = folder.rglob("*.py") if kind == CONFIGS else folder.glob("*.py")
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in found)


def shipped_plugin(kind: str, name: str) -> Path | None:
    """Returns the file of the measure or drawing of this name, `kind` being `MEASURES` or `DRAWINGS`;
    None if none comes with zoo.
    """
    path = shipped_folder(kind) / f"{name}.py"
    return path if re.fullmatch(r"\w+", name) and path.is_file() else None


def locate(spec: str, kind: str) -> tuple[Path, str | None]:
    """Splits `FILE.py[:ARGUMENT]` or `NAME[:ARGUMENT]` into the path of its file and its argument.

    A file or folder of this name in the current directory comes first.

    Raises:
        ConfigError: a name without ".py" that is neither that of a file nor of a folder, nor comes
            with zoo; a path such as "configs/llama.py" or "llama.py" where there is no such file.
    """
    path, argument = split_spec(spec)
    if path.exists():
        return path, argument
    name = path.as_posix()
    if NAME.fullmatch(name):
        found = shipped_folder(kind) / f"{name}.py"
        if not found.is_file():
            other = EXPERIMENTS if kind == CONFIGS else CONFIGS
            near = did_you_mean(name, shipped_names(kind))
            if name in shipped_names(other):
                near = f" ({name} is the name of a{'n' * (other == EXPERIMENTS)} {WHAT[other]})"
            raise ConfigError(
                f"{WHAT[kind]} {shown(name)} is neither a file or folder here nor comes with zoo{near}; "
                f"`zoo {kind}` lists those that do"
            )
        return found, argument
    here = path.with_suffix("").as_posix().removeprefix(f"{kind}/")
    if path.suffix == ".py" and here in shipped_names(kind):
        raise ConfigError(f"{WHAT[kind]} file {path} does not exist here; the one that comes with zoo is called {here}")
    return path, argument
