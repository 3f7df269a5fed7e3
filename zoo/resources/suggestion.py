"""The smallest change that makes a run fit the memory of its devices."""

from collections.abc import Callable, Iterator
from typing import Any

from zoo import config as configs
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.resources.resource_plan import ResourcePlan

Change = dict[str, Any]


def candidates(config: ResolvedConfig, plan: ResourcePlan) -> Iterator[Change]:
    """Yields changes of a config, from those that cost least to those that cost most.

    Smaller parts of a batch cost nothing but small products, recomputation a third of the compute,
    and more devices along fsdp the gathering of weights.
    """
    rows = config.data.batch_size // (plan.mesh["data"] * plan.mesh["fsdp"] * plan.parts)
    smaller = [size for size in (rows // 2, rows // 4, rows // 8, 1) if size >= 1]
    parts: list[Change] = [
        {"training.accumulation_steps": configs.AUTO, "training.microbatch_size": size}
        for size in dict.fromkeys(smaller)
        if size < rows
    ]
    remat: list[Change] = [{"model.remat": "full"}] if config.model.remat != "full" else []
    spread: list[Change] = []
    data, fsdp = plan.mesh["data"], plan.mesh["fsdp"]
    while data % 2 == 0:
        data, fsdp = data // 2, fsdp * 2
        spread.append({"mesh.data": -1, "mesh.fsdp": fsdp})
    least = parts[-1:] or [{}]
    yield from parts
    yield from remat
    yield from spread
    for change in spread or [{}]:
        for more in remat or [{}]:
            yield change | more | least[0]


def suggest(
    config: ResolvedConfig, plan: ResourcePlan, make: Callable[[ResolvedConfig], ResourcePlan]
) -> tuple[Change, ResourcePlan] | None:
    """Returns the first change with which a run fits, and its plan; None if none does.

    Args:
        config: the resolved config.
        plan: its plan, which does not fit.
        make: resolved config -> plan.
    """
    tried: list[Change] = []
    for change in candidates(config, plan):
        if not change or change in tried:
            continue
        tried.append(change)
        try:
            changed = make(configs.resolve(configs.override(config, change)))
        except ConfigError:
            continue
        if changed.fits:
            return change, changed
    return None
