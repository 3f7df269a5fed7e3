"""Variants, and the models that they change."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo import config as configs
from zoo.config.fields import IGNORED_BY
from zoo.config.kinds import KIND_TABLES, Description, Kind

# Largest accepted difference from a reference library, relative to the largest output or gradient
# (docs/parity.md).
TOLERANCE = 1e-4

# The models that variants change: a GPT, and the same modules in the other architectures.
BASELINES: dict[str, dict[str, Any]] = {
    "decoder": {},
    "encoder": {"model.architecture": "encoder", "objective.kind": "masked"},
    "encoder_decoder": {"model.architecture": "encoder_decoder", "objective.kind": "prefix"},
    "elmo": {"model.architecture": "elmo", "objective.kind": "bidirectional"},
}
# The size at which costs are counted, that of GPT-2 small.
SIZE = {
    "model.dim": 768,
    "model.num_layers": 12,
    "model.attention.num_heads": 12,
    "model.vocab_size": 50257,
    "data.sequence_length": 1024,
}
# The size at which shapes are read. No two dimensions are equal, so that a number has one letter.
SHAPES = {
    "model.dim": 40,
    "model.num_layers": 4,
    "model.attention.num_heads": 12,
    "model.attention.head_dim": 8,
    "model.attention.value_gate_channels": 10,
    "model.ffn.hidden_dim": 160,
    "model.vocab_size": 500,
    "data.sequence_length": 28,
}

# The systems of docs/parity.md, and the class of the library that each is compared with.
PARITY: dict[str, str] = {
    "gpt1": "OpenAIGPTLMHeadModel",
    "gpt2": "GPT2LMHeadModel",
    "gpt2-unscaled-relu": "GPT2LMHeadModel",
    "gpt-neox": "GPTNeoXForCausalLM",
    "gpt-j": "GPTJForCausalLM",
    "phi": "PhiForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama-grouped": "LlamaForCausalLM",
    "llama-multi-query": "LlamaForCausalLM",
    "llama-linear": "LlamaForCausalLM",
    "llama-dynamic": "LlamaForCausalLM",
    "llama-yarn": "LlamaForCausalLM",
    "llama-3.1": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmo3": "Olmo3ForCausalLM",
    "diffllama": "DiffLlamaForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM",
    "bert": "BertForPreTraining",
    "bert-untied": "BertForMaskedLM",
    "albert": "AlbertForPreTraining",
    "electra": "ElectraForPreTraining",
    "electra-generator": "ElectraForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "shaw-keys": "BertForMaskedLM",
    "distilbert-sinusoidal": "DistilBertForMaskedLM",
    "roformer": "RoFormerForMaskedLM",
    "modernbert": "ModernBertForMaskedLM",
    "longformer": "LongformerForMaskedLM",
    "longformer-local": "LongformerForMaskedLM",
    "bloom": "BloomForCausalLM",
    "mpt-6-heads": "MptForCausalLM",
    "transformer": "MarianMTModel",
    "marian-uneven": "MarianMTModel",
    "t5": "T5ForConditionalGeneration",
    "t5-1.1": "T5ForConditionalGeneration",
    "umt5": "UMT5ForConditionalGeneration",
}


@dataclass(frozen=True)
class ReferenceTest:
    """A comparison with a reference in the test suite.

    Attributes:
        reference: what the code is compared with.
        where: the test, "tests/layers/test_norm.py::test_norm_matches_its_equation".
        tolerance: largest accepted difference, relative; 0 for exact equality.
    """

    __test__ = False  # pytest must not collect it.

    reference: str
    where: str
    tolerance: float


@dataclass(frozen=True)
class Variant(Description):
    """One way to build a part of a model: a kind, or a setting of other fields.

    Attributes:
        name: in commands and file names.
        part: heading under which it is listed.
        chosen: the fields that choose it, also where that is the baseline's choice; empty for what
            every model of its baseline has.
    """

    name: str
    part: str
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def changes(self) -> Mapping[str, Any]:
        """The fields that turn its baseline into it; empty for a choice of the baseline itself."""
        baseline = BASELINES[self.baseline]
        defaults = {path: one.default for path, one in configs.BY_PATH.items() if path in self.chosen}
        return {
            **self.needs,
            **{
                path: value
                for path, value in self.chosen.items()
                if path not in defaults or value != baseline.get(path, defaults[path])
            },
        }


def has_page(kind: Kind) -> bool:
    """Returns whether a kind is a variant of a model's part, with a page."""
    return bool(KIND_TABLES[kind.path].part) and kind.description is not None


def of_kind(kind: Kind) -> Variant:
    """Returns the variant that a kind with a page is."""
    described = kind.description
    named = {
        "name": described.name or str(kind.name).replace("_", "-"),
        "part": described.part or KIND_TABLES[kind.path].part,
        "source": described.source or kind.code,
    }
    return Variant(chosen={kind.path: kind.name}, **{**vars(described), **named})


def is_architecture(variant: Variant) -> bool:
    """Returns whether a variant is an architecture, whose baseline is the decoder."""
    return "model.architecture" in variant.changes


def resolved_fields(changes: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the flat resolved config of the default with changes and the sizes that it reads."""
    unread = IGNORED_BY.get(changes.get("model.architecture", ""), ())
    defaults = {field.path: field.default for field in configs.FIELDS}
    read = {
        path: value
        for path, value in sizes.items()
        if not path.startswith(unread) and configs.field_at(path).is_read(defaults | changes)
    }
    return configs.resolve_fields(configs.override_fields(defaults, {**read, **changes}))
