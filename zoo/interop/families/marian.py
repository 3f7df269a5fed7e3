"""Marian (Junczys-Dowmunt et al. 2018; OPUS-MT) of Hugging Face's transformers.

It is the original Transformer (Vaswani et al. 2017): post-norm, sinusoids, and one embedding for
both languages and the head, times sqrt(D) with `scale_embedding`. Sines are the first half of a
position's vector and cosines the second, as in the authors' code; in the paper they alternate.
"""

from collections.abc import Mapping
from typing import Any

from zoo.interop.families.bart import BART, NAMES, ZERO_IF_MISSING, common, rules
from zoo.interop.settings.importer import Importer, SettingsReader
from zoo.interop.settings.shared_settings import rename_settings

MARIAN = BART | {"vocab_size": 58101, "decoder_vocab_size": None, "share_encoder_decoder_embeddings": True}


def marian_config(hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns overrides for MarianMTModel."""
    settings = SettingsReader(rename_settings(hf, NAMES), MARIAN, "marian")
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
