"""Configs that have a variant, and experiments that compare arms with it and without it."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from zoo import config as configs
from zoo.errors import ConfigError
from zoo.lab.declarations import claim_ids, claim_order
from zoo.lab.experiment import Claim, Experiment, load_experiment
from zoo.lab.planning.arm_resolution import arm_overrides
from zoo.nested import flatten
from zoo.variants.variant import Variant, has_variant

# Levels of a factor that set more fields than this compare whole systems, not one variant.
MAX_FIELDS = 3


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
            for side in contrast.sides
        ]
        if not contrast.claim or any(has_variant(base | side, variant) for side in sides):
            found += claim_ids(contrast.claim) if contrast.claim else experiment.claim.ids
    return list(dict.fromkeys(found))


class Questions(NamedTuple):
    """The claims about a variant, and the experiments on it.

    Attributes:
        claims: {id: names of the experiments that judge it}, in the order of the ids.
        statements: {id: statement and source} of the claims that an experiment file states.
        open: names of the experiments without a claim.
    """

    claims: dict[str, list[str]]
    statements: dict[str, str]
    open: list[str]


def questions_about(variant: Variant) -> Questions:
    """Returns the claims that the variant's entry names or an experiment with it judges."""
    claims: dict[str, list[str]] = {claim: [] for claim in variant.claims}
    statements: dict[str, str] = {}
    open_questions = []
    for name, claim, ids in compared_by(variant):
        if claim is None:
            open_questions.append(name)
            continue
        for id in ids:
            claims.setdefault(id, []).append(name)
            statements.setdefault(id, f"{claim.statement} ({claim.source})")
    return Questions({id: claims[id] for id in sorted(claims, key=claim_order)}, statements, open_questions)


def experiments_on(variant: Variant) -> list[str]:
    """Returns a line for each claim about the variant that an experiment file states, and a line for
    each experiment without a claim.
    """
    asked = questions_about(variant)
    files = {id: ", ".join(f"experiments/{name}.py" for name in names) for id, names in asked.claims.items()}
    return [
        *(f"{id}: {asked.statements[id]}. Experiment: {files[id]}" for id in asked.claims if id in asked.statements),
        *(f"experiments/{name}.py, an open question" for name in asked.open),
    ]
