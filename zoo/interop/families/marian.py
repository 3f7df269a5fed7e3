"""Marian (Junczys-Dowmunt et al. 2018; OPUS-MT) as Hugging Face's transformers has it: the original
Transformer (Vaswani et al. 2017).

Norms after the sublayers, sinusoids added to one embedding for both languages and the head, times
sqrt(D) with `scale_embedding`. The sines stand in the first half of a position's vector and the
cosines in the second, as in the authors' code; the paper has them in turn.
"""

from collections.abc import Mapping
from typing import Any

from zoo.interop.families.bart import BART, IGNORED_SETTINGS, NAMES, ZERO_IF_MISSING, common, rules
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings

MARIAN = BART | {"vocab_size": 58101, "decoder_vocab_size": None, "share_encoder_decoder_embeddings": True}


def marian_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides for MarianMTModel."""
    # The sinusoids have no end here, so the length of their table does not matter.
    settings = SettingsReader(rename_settings(hf, NAMES), MARIAN, (*IGNORED_SETTINGS, "max_position_embeddings"))
    fields = common(settings, "post", embedding_norm=False, learned=False) | {
        "model.position.kind": "sinusoidal",
        "model.position.layout": "half",
    }
    settings.expect(True, share_encoder_decoder_embeddings="both sides read one vocabulary")
    settings.expect(
        None, settings["vocab_size"], decoder_vocab_size="differs from vocab_size, and both sides read one vocabulary"
    )
    settings.finish()
    return fields


CLASSES = {
    "MarianMTModel": Importer(
        marian_config, rules, MARIAN, model_type="marian", prefix="model", zero_if_missing=ZERO_IF_MISSING
    )
}
