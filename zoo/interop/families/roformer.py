"""RoFormer (Su et al. 2021) of Hugging Face's transformers: BERT with interleaved RoPE.

The class stores sines and cosines as a fixed table, which it counts among its parameters.
"""

from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families.bert import BERT, encoder, encoder_rules, masked_head_rules
from zoo.interop.settings.importer import ACTIVATIONS, Importer, SettingsReader
from zoo.interop.weights.mapping import IgnoredTensors, Rules

ROFORMER = {name: value for name, value in BERT.items() if name != "position_embedding_type"} | {
    "vocab_size": 50000,
    "embedding_size": None,
    "max_position_embeddings": 1536,
    "rotary_value": False,
}


def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for RoFormerForMaskedLM."""
    settings = SettingsReader(hf, ROFORMER, "roformer")
    fields = (
        encoder(settings)
        | settings.choose("hidden_act", ACTIVATIONS)
        | {
            "model.position.kind": "rope",
            "model.position.layout": "interleaved",
            "model.position.theta": 10000.0,
            # The table's rows.
            "data.sequence_length": settings["max_position_embeddings"],
        }
    )
    settings.expect(
        None,
        settings["hidden_size"],
        embedding_size="expected hidden_size: embeddings of another width are not supported",
    )
    settings.expect(False, rotary_value="values are not rotated here")
    settings.finish()
    return fields


def rules(config: ResolvedConfig) -> Rules:
    """Returns the rules of RoFormerForMaskedLM."""
    return [
        *encoder_rules(config, "roformer"),
        *masked_head_rules(config, "roformer"),
        IgnoredTensors(r"roformer\.encoder\.embed_positions\.weight"),
    ]


CLASSES = {"RoFormerForMaskedLM": Importer(read_config, rules, ROFORMER, model_type="roformer", prefix="roformer")}
