"""Text in, batches of tokens out: sources, tokenizers, rows and the input pipeline.

`load(config)` is the entry point. Token arrays are made once and cached (`$ZOO_CACHE` or
`~/.cache/zoo`) under a name that their content determines.
"""

from zoo.data.labelled import LabelledDataset, label_count
from zoo.data.load_data import (
    content_fingerprints,
    encode_text_file,
    load,
    resolve_with_data,
    source_fingerprint,
    vocabulary_size,
    with_num_classes,
)
from zoo.data.pipeline.batching import Batching
from zoo.data.rows.token_streams import Stream
from zoo.data.shared_datasets import SharedDatasets
from zoo.data.text_dataset import TextDataset
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer
from zoo.data.translation.pair_dataset import TranslationDataset, load_translation

__all__ = [
    "Batching",
    "LabelledDataset",
    "SharedDatasets",
    "Stream",
    "TextDataset",
    "Tokenizer",
    "TranslationDataset",
    "content_fingerprints",
    "encode_text_file",
    "label_count",
    "load",
    "load_tokenizer",
    "load_translation",
    "resolve_with_data",
    "source_fingerprint",
    "vocabulary_size",
    "with_num_classes",
]
