"""How another library's config is read.

Every setting is used, known to be irrelevant, or rejected.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from zoo.config import ResolvedConfig
from zoo.errors import ConfigError
from zoo.interop.settings.equivalents import Setting
from zoo.interop.weights.mapping import Rules


@dataclass(frozen=True)
class Importer:
    """Describes one class of models of Hugging Face's transformers.

    Attributes:
        read_config: from a `config.json` as a dict to flat overrides of `zoo.config.default()`;
            raises ConfigError.
        rules: from the `model` part of the resolved config to the rules of its weights.
        defaults: the class's settings and their default values.
        statistics: as `rules`, for what modules hold besides parameters (running averages, random
            features).
        renamed_suffixes: old and current endings of tensor names.
        model_type: name of the family in `config.json`; empty for a class outside transformers.
        prefix: prefix of all tensors except those of the heads; files may omit it.
        zero_if_missing: tensors that a file may lack and that are 0 then.
        custom_settings: settings that `zoo.interop.settings.equivalents.SETTINGS` lacks or defines
            differently.
    """

    read_config: Callable[[Mapping[str, Any]], dict[str, Any]]
    rules: Callable[[ResolvedConfig], Rules]
    defaults: Mapping[str, Any]
    statistics: Callable[[ResolvedConfig], Rules] = lambda config: ()
    renamed_suffixes: Mapping[str, str] = field(default_factory=dict)
    model_type: str = ""
    prefix: str = ""
    zero_if_missing: tuple[str, ...] = ()
    custom_settings: Mapping[str, Setting] = field(default_factory=dict)


# Settings of any config that do not change what a model computes: names, generation, outputs, the
# data type of a file.
IGNORED_SETTINGS = frozenset({
    "_attn_implementation_autoset", "_name_or_path", "architectures", "bad_words_ids", "begin_suppress_tokens",
    "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype",
    "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty",
    "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label", "label2id", "length_penalty",
    "max_length", "min_length", "model_type", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_past", "output_scores",
    "pad_token_id", "prefix", "problem_type", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature",
    "tf_legacy_loss", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript", "transformers_version",
    "typical_p", "unk_token_id", "use_bfloat16", "use_cache",
})  # fmt: skip
# Settings of any config that change what a model computes, with their neutral value.
NEUTRAL_VALUES = {
    "add_cross_attention": False,
    "cross_attention_hidden_size": None,
    "is_decoder": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
    "tie_encoder_decoder": False,
}

ACTIVATIONS: dict[str, dict[str, str]] = {
    "relu": {"model.ffn.kind": "relu"},
    "gelu": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "none"},
    "gelu_python": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "none"},
    "gelu_new": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "tanh"},
    "gelu_fast": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "tanh"},
    "gelu_pytorch_tanh": {"model.ffn.kind": "gelu", "model.ffn.gelu_approximation": "tanh"},
    "silu": {"model.ffn.kind": "silu"},
    "swish": {"model.ffn.kind": "silu"},
}
GATED = {"relu": "reglu", "gelu": "geglu", "silu": "swiglu"}
GATED_ACTIVATIONS = {
    name: fields | {"model.ffn.kind": GATED[fields["model.ffn.kind"]]} for name, fields in ACTIVATIONS.items()
}


class SettingsReader:
    """The settings of a `config.json`; records which ones were read.

    Args:
        given: the file's content.
        defaults: values of settings that the file lacks.
        inert: further settings, besides `IGNORED_SETTINGS`, that do not change what a model
            computes.
        prefix: prefix of a setting's name in messages, for a config within a config.
    """

    def __init__(
        self, given: Mapping[str, Any], defaults: Mapping[str, Any], inert: Collection[str] = (), prefix: str = ""
    ):
        self.values, self.inert, self.prefix = (
            {**defaults, **given},
            {*inert, *(() if prefix else IGNORED_SETTINGS)},
            prefix,
        )
        self.read: set[str] = set()
        self.problems: list[str] = []

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return self.values[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a setting that the class may not have."""
        self.read.add(name)
        return self.values.get(name, default)

    def reject(self, name: str, why: str) -> None:
        """Records that a setting cannot be expressed."""
        self.problems.append(f"{self.prefix}{name}={self.values.get(name)!r}: {why}")

    def expect(self, *allowed: Any, **names_and_reasons: str) -> None:
        """Rejects each named setting, with its reason, unless its value is one of `allowed`."""
        for name, why in names_and_reasons.items():
            if self.get(name) not in allowed:
                self.reject(name, why)

    def choose(self, name: str, table: Mapping[Any, Any]) -> Any:
        """Looks up a setting's value in a table; an unknown value is rejected."""
        if self[name] not in table:
            self.reject(name, f"expected one of {', '.join(map(str, table))}")
        return table.get(self.values[name], next(iter(table.values())))

    def same(self, *names: str) -> Any:
        """Returns the common value of several settings; different values are rejected."""
        values = [self[name] for name in names]
        if any(value != values[0] for value in values):
            self.problems.append(
                f"{', '.join(f'{self.prefix}{name}={self.values[name]!r}' for name in names)}: must be equal"
            )
        return values[0]

    def close(self) -> list[str]:
        """Rejects settings that were neither read nor are known to be irrelevant.

        Returns:
            everything that was rejected, one line each.
        """
        for name, value in self.values.items():
            if name not in self.read | self.inert and value is not None and value != NEUTRAL_VALUES.get(name):
                self.reject(
                    name, f"expected {NEUTRAL_VALUES[name]}" if name in NEUTRAL_VALUES else "not known to this importer"
                )
        return self.problems

    def finish(self) -> None:
        """Ends the reading.

        Raises:
            ConfigError: with a line for every rejected setting.
        """
        if problems := self.close():
            raise ConfigError(problems)
