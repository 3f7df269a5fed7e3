"""Where a variant is used, and what was found about it: configs, experiments, claims, verdicts."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from zoo import config as configs
from zoo.config.scopes import scopes_in
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.declarations import claim_ids
from zoo.lab.experiment import Claim, Experiment, load_experiment
from zoo.lab.planning.arm_resolution import arm_overrides
from zoo.lab.report.archive.claims_table import claim_verdict, read_claims, read_measured
from zoo.lab.report.archive.experiment_page import read_contrasts
from zoo.lab.report.archive.results_index import claim_order, exact_tests
from zoo.nested import flatten
from zoo.variants.variant import BASELINES, Variant

# Levels of a factor that set more fields than this compare whole systems, not one variant.
MAX_FIELDS = 3


def has_variant(flat: Mapping[str, Any], variant: Variant) -> bool:
    """Returns whether a config, or one of its sides or kinds of layers, has the variant.

    Numbers need not be those of the page: any window is a window.

    Args:
        flat: {path: value} of a config, resolved or not.
        variant: the variant.
    """
    wanted = {**variant.changes, **dict(variant.chosen)} or BASELINES[variant.baseline]
    whole = {path: value for path, value in flat.items() if path in configs.BY_PATH}
    # A window looks back in a decoder and to both sides in an encoder: two variants of one field.
    if "model.attention.window" in wanted and whole["model.architecture"] != _architecture(variant):
        return False
    parts = [whole, *(whole | scope for scope in scopes_in(dict(flat)).values())]
    # A variant of one kind of layers is present if any part of the model has it.
    plain = {path: value for path, value in wanted.items() if path in configs.BY_PATH}
    return any(all(_same(part, path, value) for path, value in plain.items()) for part in parts)


def _architecture(variant: Variant) -> str:
    return BASELINES[variant.baseline].get("model.architecture", "decoder")


def _same(part: Mapping[str, Any], path: str, value: Any) -> bool:
    found, default = part[path], configs.BY_PATH[path].default
    if path == "model.layers.pattern":
        return len(set(found)) > 1
    if path.endswith(("num_kv_heads", "num_query_heads", "cross_kv_heads")):
        heads = part["model.attention.num_heads"]
        return isinstance(found, int) and (found == 1 if value == 1 else 1 < found < heads)
    if path == "model.head.classes":
        return True  # The data set decides their number.
    if path in ("model.attention.num_heads", "model.attention.scale") or isinstance(value, bool | str):
        return found == value
    if isinstance(value, tuple):
        return bool(found)
    return found != default


@functools.cache
def shipped_configs() -> dict[str, Mapping[str, Any]]:
    """Returns {name: {path: value}} of the configs that come with zoo and need no trained run, in
    their default sizes.
    """
    found = {}
    for name in configs.shipped_names(configs.CONFIGS):
        try:
            found[name] = flatten(configs.resolve(configs.load(name)))
        except ConfigError:
            continue
    return found


def used_by(variant: Variant) -> list[str]:
    """Returns the names of the configs that have the variant."""
    return [name for name, flat in shipped_configs().items() if has_variant(flat, variant)]


@functools.cache
def shipped_experiments() -> dict[str, tuple[Experiment, tuple[Mapping[str, Any], ...]]]:
    """Returns {name: (experiment, its arms as {path: value})} of the experiments that come with zoo
    and need no trained run.
    """
    found = {}
    for name in configs.shipped_names(configs.EXPERIMENTS):
        try:
            experiment = load_experiment(name)
        except ConfigError:
            continue
        base = flatten(experiment.base)
        found[name] = experiment, tuple(base | overrides for _, overrides in arm_overrides(experiment))
    return found


def compared_by(variant: Variant) -> Iterator[tuple[str, Claim | None, list[str]]]:
    """Yields (name, claim, ids) of the experiments in which some arms have the variant, others do
    not, and a factor sets the fields that choose it and few others. `ids` are the claims of which a
    contrast reads an arm with the variant; all, if contrasts do not name theirs.

    An architecture or an objective differs from another one in more than a field; its entry names its
    claims.
    """
    if variant.part in ("architecture", "objective"):
        return
    chosen = {**variant.changes, **dict(variant.chosen)}
    for name, (experiment, arms) in shipped_experiments().items():
        levels = [level for factor in experiment.factors.values() for level in factor.values()]
        if max(map(len, levels), default=0) > MAX_FIELDS or not any(set(level) & set(chosen) for level in levels):
            continue
        if 0 < sum(has_variant(arm, variant) for arm in arms) < len(arms):
            yield name, experiment.claim, _claims_about(variant, experiment)


def _claims_about(variant: Variant, experiment: Experiment) -> list[str]:
    if experiment.claim is None:
        return []
    base, found = flatten(experiment.base), []
    for contrast in experiment.contrasts:
        sides = [
            {
                path: value
                for factor, level in side.arm.items()
                for path, value in experiment.factors[factor][level].items()
            }
            for side in (contrast.a, contrast.b)
        ]
        if not contrast.claim or any(has_variant(base | side, variant) for side in sides):
            found += claim_ids(contrast.claim) if contrast.claim else experiment.claim.ids
    return list(dict.fromkeys(found))


class ClaimVerdict(NamedTuple):
    """What was found about a claim: the verdict, and where it is explained within the results."""

    verdict: str
    target: str


class Findings(NamedTuple):
    """The claims and verdicts of a folder of results, by the claims' ids.

    Attributes:
        claims: {id: row of claims.csv}.
        verdicts: {id: verdicts}.
        link: how a page of a variant reaches the folder.
    """

    claims: Mapping[str, Mapping[str, str]]
    verdicts: Mapping[str, list[ClaimVerdict]]
    link: str


def read_findings(results: Path, tests: Path, link: str) -> Findings:
    """Returns what a folder that `zoo results` wrote says about each claim.

    Args:
        results: the folder.
        tests: the folder of the tests of exact claims.
        link: path from a page to the folder.
    """
    verdicts: dict[str, list[ClaimVerdict]] = {}
    for path in sorted(results.glob("*/result.json")):
        result, name = read_json(path), path.parent.name
        contrasts, seeds = read_contrasts(path.parent), f"{result['size']}, {len(result['seeds'])} seeds"
        for claim in claim_ids((result.get("claim") or {}).get("id", "")):
            verdict = f"{claim_verdict(result, contrasts, claim)} ({seeds})"
            verdicts.setdefault(claim, []).append(ClaimVerdict(verdict, f"{name}/README.md"))
    for claim, records in read_measured(results).items():
        found = [ClaimVerdict(f"{record['verdict']} (measured)", record["page"]) for record in records]
        verdicts.setdefault(claim, []).extend(found)
    for claim in exact_tests(results, tests):
        verdicts.setdefault(claim, []).append(ClaimVerdict("exact, by a test", "README.md#exact-claims"))
    return Findings({claim["id"]: claim for claim in read_claims(results).claims}, verdicts, link)


def judged_by(variant: Variant, findings: Findings | None) -> list[str]:
    """Returns a line for each claim about the variant: what it says, who says it, the verdict and
    the experiments; and a line for each experiment without a claim.

    Args:
        variant: the variant.
        findings: the verdicts; None to name the claims and experiments alone.
    """
    experiments: dict[str, list[str]] = {claim: [] for claim in variant.claims}
    statements: dict[str, str] = {}
    lines = []
    for name, claim, ids in compared_by(variant):
        if claim is None:
            lines.append(f"{_experiment(name, findings)}, an open question")
            continue
        for id in ids:
            experiments.setdefault(id, []).append(name)
            statements.setdefault(id, f"{claim.statement} ({claim.source})")
    # Without the list of claims, an id alone says nothing.
    named = [id for id in experiments if findings or id in statements]
    ordered = sorted(named, key=claim_order)
    return [_claim_line(id, experiments[id], statements, findings) for id in ordered] + lines


def _claim_line(id: str, names: list[str], statements: Mapping[str, str], findings: Findings | None) -> str:
    listed = findings.claims.get(id) if findings else None
    statement = f"{listed['statement']} ({listed['source']})" if listed else statements.get(id, "")
    line = f"{id}: {statement}" if statement else id
    if findings:
        found = findings.verdicts.get(id, [])
        line += ": " + (
            "; ".join(f"[{verdict}]({findings.link}/{target})" for verdict, target in found) or "not judged yet"
        )
    return line + (f". Experiment: {', '.join(_experiment(name, findings) for name in names)}" if names else "")


def _experiment(name: str, findings: Findings | None) -> str:
    return f"[{name}](../../experiments/{name}.py)" if findings else f"experiments/{name}.py"
