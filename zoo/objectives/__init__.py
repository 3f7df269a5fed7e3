"""Objectives: what is predicted and scored, one file each."""

from zoo.config import ResolvedConfig
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.objectives.distillation import DistilledCausalObjective, DistilledMaskedObjective
from zoo.objectives.objective import Objective
from zoo.objectives.prefix import PrefixDecoderObjective

__all__ = ["Objective", "make_objective"]

DISTILLED: dict[str, type[Objective]] = {"causal": DistilledCausalObjective, "masked": DistilledMaskedObjective}


def make_objective(config: ResolvedConfig, tokenizer: Tokenizer) -> Objective:
    """Builds the objective that `objective.kind` names; a prefix is read by the encoder, or by a
    decoder itself.

    Raises:
        ConfigError: a teacher that is no run or cannot teach this model.
    """
    kind = config.objective.kind
    if config.objective.distillation.teacher and kind in DISTILLED:
        return DISTILLED[kind](config, tokenizer)
    if kind == "prefix" and config.model.architecture == "decoder":
        return PrefixDecoderObjective(config, tokenizer)
    return OBJECTIVE_KINDS.code_of(kind)(config, tokenizer)
