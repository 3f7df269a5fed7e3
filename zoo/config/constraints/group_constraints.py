"""Checks optimizer and schedule, and groups of parameters as far as that needs no model."""

import re
from collections.abc import Iterator
from typing import Any

from zoo.config.field import as_given
from zoo.config.fields import BY_PATH, group_fields
from zoo.config.kinds import OPTIMIZER_KINDS, SCHEDULE_KINDS
from zoo.config.kinds.optimizer_kinds import MOMENTUM
from zoo.config.parameter_selection import REST, select_problems
from zoo.config.scopes import GROUPS, scoped
from zoo.errors import shown

SELECT, FACTOR = "optimizer.select", "optimizer.rate_factor"
KIND = "optimizer.kind"
DECAY, FORM = "optimizer.weight_decay", "optimizer.weight_decay_form"
DECAY_SCHEDULE = "optimizer.weight_decay_schedule"
SCHEDULE_FREE = "schedule_free"
CONSTRAINT = "optimizer.constraint"
MOMENTUM_START = "optimizer.momentum_start"
MOMENTUM_SCHEDULE = ("optimizer.momentum_warmup", "optimizer.momentum_cooldown")


def check_groups(flat: dict[str, Any], groups: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of `optimizer.groups` and of the fields of each group.

    Args:
        flat: every field, without the scopes.
        groups: overrides by scope, "optimizer.group.NAME".
    """
    names = flat["optimizer.groups"]
    for name in dict.fromkeys(names):
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            yield f"optimizer.groups: {shown(name)} is no name of a group; use letters, digits, _ and -"
        elif name == REST:
            yield f"optimizer.groups: {REST!r} stands for the parameters that no group selects; take another name"
        elif not groups.get(f"{GROUPS}.{name}", {}).get(SELECT):
            yield (
                f"optimizer.groups names {shown(name)}, but {GROUPS}.{name}.select is not set "
                f"(e.g. {GROUPS}.{name}.select=role:embedding)"
            )
        if names.count(name) > 1:
            yield f"optimizer.groups names {shown(name)} twice"
    for scope, changes in groups.items():
        if scope.removeprefix(f"{GROUPS}.") not in names:
            yield f"{scope} has no effect: optimizer.groups={','.join(names) or 'empty'} does not name it"
            continue
        if changes.get(SELECT):
            yield from (f"{scope}.select: {problem}" for problem in select_problems(changes[SELECT]))
        own = [path for path in changes if path != SELECT]
        if not own:
            kind = OPTIMIZER_KINDS.by_name[flat[KIND]]
            foreign = {field.path for field in OPTIMIZER_KINDS.fields} - {field.path for field in kind.fields}
            fields = [name for name in group_fields() if name != "select" and f"optimizer.{name}" not in foreign]
            yield f"{scope} changes nothing: it sets none of {', '.join(fields)}"
        elif changes.get(FACTOR) == 0:
            yield from (
                f"{scoped(scope, path)}={as_given(changes[path])} has no effect with {scope}.rate_factor=0; leave "
                "it out"
                for path in own
                if path != FACTOR
            )


def check_kinds(flat: dict[str, Any], groups: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of the kinds of schedule and of optimizer, that of each group included.

    Args:
        flat: every field, without the scopes.
        groups: as in `check_groups`.
    """
    architecture = flat["model.architecture"]
    yield from SCHEDULE_KINDS.problems(flat, architecture)
    if not any({DECAY: flat[DECAY], **own}[DECAY] for own in ({}, *groups.values())):
        for path in (FORM, DECAY_SCHEDULE):
            if flat[path] != BY_PATH[path].default:
                yield f"{path}={flat[path]} has no effect with {DECAY}=0"
    elif flat[DECAY_SCHEDULE] == "rate" and flat["schedule.kind"] == "constant" and not flat["schedule.warmup_steps"]:
        yield f"{DECAY_SCHEDULE}=rate has no effect: the learning rate is constant"
    if flat[CONSTRAINT] != "none" and flat[KIND] == SCHEDULE_FREE:
        yield (
            f"{CONSTRAINT}={flat[CONSTRAINT]} cannot be combined with {KIND}={SCHEDULE_FREE}: the parameters are an "
            "average, which is on no sphere; use another kind"
        )
    everywhere = [*OPTIMIZER_KINDS.problems(flat, architecture), *_check_momentum(flat)]
    yield from everywhere
    for scope, changes in groups.items():
        yield from _check_schedule_free(flat[KIND], scope, changes)
        if FORM in changes and not {DECAY: flat[DECAY], **changes}[DECAY]:
            yield f"{scoped(scope, FORM)}={changes[FORM]} has no effect with {DECAY}=0; leave it out"
        lines = list(OPTIMIZER_KINDS.problems(flat | changes, architecture))
        if changes.keys() & {MOMENTUM_START, *MOMENTUM_SCHEDULE}:
            lines += _check_momentum(flat | changes)
        yield from (f"{scope}: {line}" for line in lines if line not in everywhere)


def _check_momentum(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problem of a schedule of the first moment's decay, as a group sees the fields."""
    kind, start = flat[KIND], flat[MOMENTUM_START]
    if kind not in OPTIMIZER_KINDS.having("momentum"):
        return
    own = MOMENTUM.get(kind, "optimizer.beta1")
    if not any(flat[path] for path in MOMENTUM_SCHEDULE):
        if start != BY_PATH[MOMENTUM_START].default:
            zero = " and ".join(f"{path}=0" for path in MOMENTUM_SCHEDULE)
            yield f"{MOMENTUM_START}={start} has no effect with {zero}"
    elif start == flat[own]:
        yield f"{MOMENTUM_START}={start} is {own} itself, so the decay of the first moment does not change"


def _check_schedule_free(kind: str, scope: str, changes: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of parameter groups with an average that is kept for all parameters."""
    own = changes.get(KIND, kind)
    if (own == SCHEDULE_FREE) != (kind == SCHEDULE_FREE):
        yield (
            f"{scope}.kind={own} cannot be combined with {KIND}={kind}: {SCHEDULE_FREE} takes the gradient of all "
            "parameters at another point"
        )
    elif kind == SCHEDULE_FREE and "optimizer.beta1" in changes:
        yield f"{scope}.beta1 has no effect: the average of {SCHEDULE_FREE} is one for all parameters; leave it out"
