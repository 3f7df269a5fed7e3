"""Planned arms and runs: resolved configs with their cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zoo import config
from zoo.data.pipeline.batch_stages import sum_before
from zoo.lab.declarations import arm_text


@dataclass(frozen=True)
class PlannedArm:
    """One arm with its cost.

    Also describes a prerequisite run, which has no levels and no overrides.

    Attributes:
        levels: factor -> level.
        overrides: changes to the base config, flat.
        config: the resolved config, with the first seed.
        parameters: counts by part; "total" is all of them.
        inherited_tokens: tokens that the run which it starts from has seen; 0 if that is not known.
    """

    name: str
    levels: dict[str, str]
    overrides: dict[str, Any]
    config: config.ResolvedConfig
    parameters: dict[str, int]
    flops_per_token: float
    inherited_tokens: int = 0

    @property
    def tokens_per_step(self) -> int:
        return self.config.data.batch_size * self.config.data.sequence_length

    @property
    def steps(self) -> int:
        return self.config.training.steps

    @property
    def tokens(self) -> int:
        """Tokens of the whole training, with fewer rows during `data.batch_stages`, and those that its
        initial parameters have seen.
        """
        data = self.config.data
        return sum_before(data.batch_stages, self.steps, data.batch_size) * data.sequence_length + self.inherited_tokens


@dataclass(frozen=True)
class PlannedRun:
    """One arm with one seed.

    Attributes:
        folder: name of its folder inside the sweep's.
        config: the resolved config; references to prerequisite runs name their folders
            (`zoo.lab.planning.prerequisites`).
        needs: the prerequisite runs that it starts from.
        former_folder: the name that earlier versions gave its folder, with commas.
    """

    folder: str
    arm: PlannedArm
    seed: int
    identity: str
    config: config.ResolvedConfig
    needs: tuple["PlannedRun", ...] = ()
    former_folder: str = ""

    @property
    def name(self) -> str:
        return f"{arm_text(self.arm.name)} seed {self.seed}"


# Arms whose sizes differ by no more count as equally large.
SIZE_TOLERANCE = 0.01
# The sizes that a field can be adjusted for (`zoo.lab.declarations.MATCHED_SIZES`).
SIZE_OF: Mapping[str, Callable[[PlannedArm], float]] = {
    "parameters": lambda arm: arm.parameters["total"],
    "flops": lambda arm: arm.flops_per_token,
}
