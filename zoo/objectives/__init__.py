"""Objectives: what is predicted and scored, one file each."""

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.objectives.bidirectional import BidirectionalObjective
from zoo.objectives.causal import CausalObjective
from zoo.objectives.denoising import DenoisingObjective
from zoo.objectives.distillation import DistilledCausalObjective, DistilledMaskedObjective
from zoo.objectives.masked import MaskedDiffusionObjective, MaskedObjective
from zoo.objectives.multi_token import MultiTokenObjective
from zoo.objectives.objective import Objective
from zoo.objectives.prefix import PrefixDecoderObjective, PrefixObjective
from zoo.objectives.replaced_tokens import ReplacedTokensObjective
from zoo.objectives.span_corruption import SpanObjective
from zoo.objectives.tasks.classification import ClassificationObjective, RegressionObjective
from zoo.objectives.tasks.extraction import ExtractionObjective
from zoo.objectives.tasks.tagging import TaggingObjective
from zoo.objectives.translation import TranslationObjective

__all__ = ["OBJECTIVES", "Objective", "make_objective"]

OBJECTIVES: dict[str, type[Objective]] = {
    "causal": CausalObjective,
    "multi_token": MultiTokenObjective,
    "masked": MaskedObjective,
    "masked_diffusion": MaskedDiffusionObjective,
    "replaced_tokens": ReplacedTokensObjective,
    "prefix": PrefixObjective,
    "span": SpanObjective,
    "denoising": DenoisingObjective,
    "bidirectional": BidirectionalObjective,
    "translation": TranslationObjective,
    "classification": ClassificationObjective,
    "regression": RegressionObjective,
    "tagging": TaggingObjective,
    "extraction": ExtractionObjective,
}
DISTILLED: dict[str, type[Objective]] = {"causal": DistilledCausalObjective, "masked": DistilledMaskedObjective}


def make_objective(config: ResolvedConfig, tokenizer: Tokenizer) -> Objective:
    """Builds the objective that `objective.kind` names; a prefix is read by the encoder, or by a
    decoder itself.

    Raises:
        ConfigError: a teacher that is no run or cannot teach this model.
    """
    kinds = OBJECTIVES | ({"prefix": PrefixDecoderObjective} if config.model.architecture == "decoder" else {})
    kinds |= DISTILLED if config.objective.distillation.teacher else {}
    return kinds[config.objective.kind](config, tokenizer)
