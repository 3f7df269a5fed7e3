"""The models by `model.architecture`."""

from flax import nnx

from zoo.config import ResolvedConfig
from zoo.models.elmo import ELMo
from zoo.models.encoder_decoder import EncoderDecoder
from zoo.models.language_model import LanguageModel

ARCHITECTURES = {"decoder": LanguageModel, "encoder": LanguageModel, "encoder_decoder": EncoderDecoder, "elmo": ELMo}


def make_model(config: ResolvedConfig) -> nnx.Module:
    """Builds the abstract model of a resolved config: shapes and initializers, no memory."""
    return ARCHITECTURES[config.model.architecture](config.model)
