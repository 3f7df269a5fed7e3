"""Names of the harness's tasks as measures: `harness:TASK[:METRIC]`."""

import hashlib
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

PREFIX, USUAL_METRIC = "harness:", "acc"
# Metrics of the harness that are better when they are lower; all others are scores.
LOWER_IS_BETTER = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "brier_score", "ter")
TASK_FILES = (".yaml", ".yml")
LIBRARY = "lm_eval"
WHY_MISSING = f"the tasks of the harness need the package {LIBRARY}: pip install {LIBRARY}"


class TaskMetric(NamedTuple):
    """A metric of a task.

    Attributes:
        task: name of a task or a group of the harness, or the path of a task's YAML file.
        metric: the harness's name, such as acc, acc_norm, exact_match, perplexity.
    """

    task: str
    metric: str = USUAL_METRIC

    @classmethod
    def parse(cls, name: str) -> "TaskMetric | None":
        """Returns the metric of a name `harness:TASK[:METRIC]`; None if the name is another."""
        task, _, metric = name.removeprefix(PREFIX).partition(":")
        words = name.startswith(PREFIX) and task and not {*task, *metric} & set("@, \t\n")
        return cls(task, metric or USUAL_METRIC) if words and ":" not in metric else None

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher value is the better one."""
        return self.metric not in LOWER_IS_BETTER

    @property
    def is_file(self) -> bool:
        """Whether the task is a file of the user's."""
        return self.task.endswith(TASK_FILES)

    def why_not_here(self) -> str:
        """Returns why the task cannot be evaluated on this machine, or an empty string."""
        if importlib.util.find_spec(LIBRARY) is None:
            return WHY_MISSING
        return f"there is no file {self.task}" if self.is_file and not Path(self.task).is_file() else ""

    def contents_sha256(self) -> str | None:
        """Returns a digest of a task's file and of those beside it that it names; None for a task of
        the harness, or if the file is not here.
        """
        path = Path(self.task)
        return _digest(*_stamps(path)) if self.is_file and path.is_file() else None


def _stamps(path: Path) -> tuple[tuple[str, int, int], ...]:
    words = dict.fromkeys(re.findall(r"[\w./-]+", path.read_text(encoding="utf-8", errors="replace")))
    # `utils.score` is a function of utils.py.
    candidates = (path.parent / name for word in words for name in (word, f"{word.partition('.')[0]}.py"))
    files = dict.fromkeys([path, *(file for file in candidates if file.is_file())])
    found = ((file, file.stat()) for file in files)
    return tuple((str(file), about.st_size, about.st_mtime_ns) for file, about in found)


@cache
def _digest(*files: tuple[str, int, int]) -> str:
    found = hashlib.sha256()
    for path, *_ in files:
        found.update(Path(path).read_bytes())
    return found.hexdigest()
