"""Caveats about runs whose tokens differ although their text and their tokenizer are the same."""

import json
from collections.abc import Iterable

from zoo.errors import listed
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import as_dict
from zoo.nested import flatten
from zoo.training.records.recorded_tokens import differing_tokens


def token_caveats(runs: Iterable[RunRecord]) -> list[str]:
    """Returns a line for each set of runs that agree in the settings of the data, its text and its
    tokenizer by their records, and not in their tokens.
    """
    first: dict[str, RunRecord] = {}
    differing: dict[str, list[RunRecord]] = {}
    for run in runs:
        data = as_dict(run.meta.get("data"))
        settings = {
            path: value
            for path, value in flatten(run.config).items()
            if path == "objective.kind" or (path.startswith("data.") and path != "data.tokenizer.path")
        }
        agreed = settings, data.get("fingerprint"), as_dict(data.get("tokenizer")).get("fingerprint")
        key = json.dumps(agreed, sort_keys=True, default=list)
        before = first.setdefault(key, run)
        if any(differing_tokens(before.meta.get("data"), data)):
            differing.setdefault(key, [before]).append(run)
    return [
        f"the same text and tokenizer gave other tokens in {listed([run.folder.name for run in others], 6)} than in "
        f"{before.folder.name}: they did not read the same, and their losses are of other tokens"
        for before, *others in differing.values()
    ]
