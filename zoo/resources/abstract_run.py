"""The train step of a config, lowered for any number of devices without data, memory or an
accelerator.
"""

import jax
import numpy as np

from zoo.config import ResolvedConfig
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.config.kinds.side_lengths import side_lengths
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.step import Program, make_program


class PlaceholderTokenizer:
    """A tokenizer of a vocabulary of which only the size is known.

    Attributes:
        vocab_size: number of ids.
        bos_id, start_id: id that opens documents, and that a decoder begins with.
    """

    bos_id = start_id = 0

    def __init__(self, vocab_size: int):
        self.vocab_size = vocab_size

    def token_bytes(self) -> np.ndarray:
        """Returns one byte for every id, [V]."""
        return np.ones(self.vocab_size, np.int32)

    def token_characters(self, width: int) -> np.ndarray:
        """Returns no characters for every id, [V, width]."""
        return np.zeros((self.vocab_size, width), np.int32)


def abstract_batch(config: ResolvedConfig) -> dict[str, jax.ShapeDtypeStruct]:
    """Returns shapes and types of a training batch; of translation, whose batches have several shapes
    with as many tokens, those of the widest.

    Raises:
        ConfigError: an objective whose batches depend on the data (tasks).
    """
    objective, B, T = config.objective, config.data.batch_size, config.data.sequence_length
    kind = objective.kind
    if kind not in OBJECTIVE_KINDS.having("text") and kind != "translation":
        raise ConfigError(
            f"objective.kind={kind} cannot be planned: the shape of its batches depends on the data; "
            "objectives that predict tokens of running text can, and translation"
        )

    def ids(*shape: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, np.int32)

    if kind in OBJECTIVE_KINDS.having("masked"):
        share = kind in OBJECTIVE_KINDS.having("fixed_share")
        predicted = max(1, int(objective.select_fraction * T + 0.5)) if share else T
        batch = {"tokens": ids(B, T), "masked_positions": ids(B, predicted), "targets": ids(B, predicted)}
        batch |= {} if share else {"candidates": ids(B)}
        return batch | ({"segments": ids(B, T), "next": ids(B)} if objective.next_sentence else {})
    if kind == "translation":
        return {"source": ids(B, T), "targets": ids(B, T)}
    if kind in (*OBJECTIVE_KINDS.having("spans"), *OBJECTIVE_KINDS.having("denoising")):
        source, targets = side_lengths(objective, T)
        return {"source": ids(B, source), "targets": ids(B, targets)}
    return {"tokens": ids(B, T + 1)}


def abstract_program(config: ResolvedConfig, devices: list[jax.Device] | None = None) -> Program:
    """Returns the program of a config; no array is made.

    Args:
        config: the resolved config, with a known vocabulary.
        devices: by default all devices.

    Raises:
        ConfigError: the devices do not fit the config.
    """
    spans = config.objective.kind in OBJECTIVE_KINDS.having("spans")
    ids = config.model.vocab_size - (config.objective.sentinels if spans else 0)
    objective = make_objective(config, PlaceholderTokenizer(ids))
    return make_program(config, make_model(config), objective, make_mesh(config, devices))


def lowered_step(config: ResolvedConfig, program: Program) -> jax.stages.Lowered:
    """Lowers the train step of a program for a batch of its config.

    Raises:
        ConfigError: see `abstract_batch`.
    """
    return program.train_step.lower(program.abstract_state, abstract_batch(config), program.constants.abstract())
