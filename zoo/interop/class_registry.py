"""The importers of all classes, by class name."""

import re
from collections.abc import Mapping
from typing import Any

from zoo.config import ResolvedConfig, default, override, resolve
from zoo.config.field_values import TYPE_NAMES
from zoo.errors import ConfigError, did_you_mean, shown
from zoo.interop.families import (
    bart,
    bloom,
    bodies,
    gemma,
    gpt,
    llama,
    mpt,
    neox,
    performer_pytorch,
    phi,
    t5,
    task_heads,
)
from zoo.interop.families.decoders import (
    apertus,
    cohere,
    deepseek,
    exaone,
    falcon,
    glm,
    gpt_oss,
    granite,
    helium,
    kimi_linear,
    lfm2,
    mamba2,
    mixtures,
    nanochat,
    nemotron,
    olmo,
    olmo_hybrid,
    opt,
    phi3,
    qwen3_next,
    stablelm,
)
from zoo.interop.families.decoders import task_heads as decoder_task_heads
from zoo.interop.families.encoders import albert, bert, distilbert, electra, modernbert, roberta
from zoo.interop.settings.importer import Importer

_FAMILIES = (bart, bert, albert, bloom, distilbert, electra, gpt, llama, gemma, roberta, modernbert, mpt, neox, phi,
             apertus, cohere, deepseek, exaone, falcon, glm, gpt_oss, granite, helium, kimi_linear, lfm2, mamba2,
             mixtures, nanochat, nemotron, olmo, olmo_hybrid, opt, phi3, qwen3_next, stablelm, performer_pytorch, t5,
             bodies, task_heads, decoder_task_heads)  # fmt: skip
FAMILIES: dict[str, Importer] = {name: importer for family in _FAMILIES for name, importer in family.CLASSES.items()}


# Other names of the same class: of the authors' code, of old files, and of files without a head that
# is the embedding and so is no part of any file.
ALIASES = {
    "LLaMAForCausalLM": "LlamaForCausalLM",
    "MPTForCausalLM": "MptForCausalLM",
    "T5WithLMHeadModel": "T5ForConditionalGeneration",
    "BartModel": "BartForConditionalGeneration",
    "MBartModel": "MBartForConditionalGeneration",
    "GPT2Model": "GPT2LMHeadModel",
    "OpenAIGPTModel": "OpenAIGPTLMHeadModel",
    "BloomModel": "BloomForCausalLM",
    "MptModel": "MptForCausalLM",
    "OPTModel": "OPTForCausalLM",
    "FalconModel": "FalconForCausalLM",
    "RWForCausalLM": "FalconForCausalLM",
    "CohereModel": "CohereForCausalLM",
    "GemmaModel": "GemmaForCausalLM",
    "Gemma2Model": "Gemma2ForCausalLM",
    "Gemma3TextModel": "Gemma3ForCausalLM",
}
# The end of a class's name, after the name of its family.
PART = re.compile(r"For[A-Z]\w*|(With)?LMHead\w*|DoubleHeads\w*|(MT|Encoder|Text|Pre)?(Model|Trained)\w*|LM$")


def family_of(class_name: str) -> str:
    """Returns the name of a class's family in small letters: "gpt2" for "GPT2LMHeadModel"."""
    return PART.split(class_name)[0].lower()


def similar_class(class_name: str, model_type: str | None = None) -> str:
    """Returns ' (did you mean "X"?)' for a similar class of the same family, or an empty string.

    Args:
        class_name: an unknown class.
        model_type: of the checkpoint, if known: then the classes of that type are the family.
    """
    family = [
        name
        for name, importer in FAMILIES.items()
        if (importer.model_type == model_type if model_type else family_of(name) == family_of(class_name))
    ]
    return did_you_mean(class_name, family)


_WITH_EXPERTS = (*mixtures.CLASSES, *qwen3_next.CLASSES, *gpt_oss.CLASSES, *deepseek.CLASSES, *kimi_linear.CLASSES)


def _experts(settings: Mapping[str, Any]) -> str:
    """Returns "32 experts (num_local_experts)" of a model that has several, else an empty string."""
    names = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
    counts = {name: settings.get(name) for name in names}
    return next((f"{n} experts ({name})" for name, n in counts.items() if isinstance(n, int) and n > 1), "")


def named_class(settings: Mapping[str, Any], where: str = "config.json") -> str:
    """Returns the class that the content of a `config.json` names.

    Args:
        settings: the content.
        where: the file, for errors.

    Raises:
        ConfigError: it names none, several, or one without an importer.
    """
    names, model_type = settings.get("architectures") or [], settings.get("model_type")
    own = sorted(other for other, importer in FAMILIES.items() if model_type and importer.model_type == model_type)
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise ConfigError(
            f"{where} names no class under architectures; --class NAME says which it is: "
            f"{', '.join(own or sorted(FAMILIES))}"
        )
    name = ALIASES.get(names[0], names[0])
    if name not in FAMILIES and (experts := _experts(settings)):
        raise ConfigError(
            f"{where}: {name} has feed-forward layers that choose among {experts}; of such models there are "
            f"importers for {', '.join(_WITH_EXPERTS)}"
        )
    if name not in FAMILIES:
        own = own or sorted(other for other in FAMILIES if not model_type and family_of(other) == family_of(name))
        reads = f"--class NAME reads it as one of {', '.join(own)}" if own else "no class of its family is supported"
        raise ConfigError(f"{where}: no importer for {name}{similar_class(name, model_type)}; {reads}")
    return name


def importer_of(class_name: str | Importer) -> Importer:
    """Returns the importer of a class, e.g. "GPT2LMHeadModel"; an importer is returned as it is.

    Raises:
        ConfigError: there is none.
    """
    if isinstance(class_name, Importer):
        return class_name
    if class_name not in FAMILIES:
        raise ConfigError(
            f"no importer for {class_name}{similar_class(class_name)}; there are {', '.join(sorted(FAMILIES))}"
        )
    return FAMILIES[class_name]


def check_family(class_name: str, hf: Mapping[str, Any]) -> None:
    """Checks that a `config.json` describes a model of a class's family.

    Other families give the same names of settings and tensors another meaning, such as another
    pairing in RoPE, which no setting tells.

    Raises:
        ConfigError: `model_type`, or else the class under `architectures`, is of another family.
    """
    importer, model_type = importer_of(class_name), hf.get("model_type")
    if model_type and model_type != importer.model_type:
        own = sorted(name for name, other in FAMILIES.items() if other.model_type == model_type)
        others = f"{', '.join(own)} read it" if own else "no class reads that type"
        raise ConfigError(
            f"model_type={model_type!r}: {class_name} is of type {importer.model_type or 'none'!r}, where the same "
            f"settings and tensors may mean something else; {others}"
        )
    names = hf.get("architectures") or ()
    if not isinstance(names, list | tuple):
        raise ConfigError(f"architectures={shown(names)}: expected a list of names of classes")
    for name in names:
        if isinstance(name, str) and family_of(name) != family_of(class_name):
            raise ConfigError(
                f"architectures={name!r}: {class_name} is of another family, where the same settings and tensors may "
                "mean something else"
            )


def read_settings(class_name: str | Importer, hf: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of the model that a `config.json` describes, as flat overrides.

    Raises:
        ConfigError: settings of another family, or that cannot be expressed.
    """
    if isinstance(class_name, str):
        check_family(class_name, hf)
    try:
        return importer_of(class_name).read_config(_without_tags(hf))
    except (TypeError, ValueError, LookupError, AttributeError, ZeroDivisionError) as error:
        name = class_name if isinstance(class_name, str) else "this class"
        raise ConfigError(
            _wrong_types(importer_of(class_name).defaults, hf)
            or f"the config of {name} has a value of a wrong type or size: {type(error).__name__}: {error}"
        ) from error


def _without_tags(value: Any) -> Any:
    """Returns settings with numbers for {"__float__": "Infinity"}: transformers 5 writes so what JSON
    does not have.
    """
    if isinstance(value, Mapping):
        if value.keys() == {"__float__"}:
            return float(value["__float__"])
        return {name: _without_tags(item) for name, item in value.items()}
    return [_without_tags(item) for item in value] if isinstance(value, list) else value


def _wrong_types(defaults: Mapping[str, Any], hf: Mapping[str, Any]) -> list[str]:
    """Returns a line for each setting whose value is of another type than its default value."""
    problems = []
    for name, value in hf.items():
        kind = type(defaults.get(name))
        fits = isinstance(value, int | float if kind is float else kind)
        # Python's bool is an int.
        if kind in TYPE_NAMES and (not fits or isinstance(value, bool) != (kind is bool)):
            problems.append(f"{name}={shown(value)}: expected {TYPE_NAMES[kind]}")
    return problems


def resolve_like(
    class_name: str | Importer, hf: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> ResolvedConfig:
    """Returns the resolved config of the model that a `config.json` describes.

    Args:
        class_name: the class that it describes.
        hf: its content.
        overrides: flat fields that take precedence, e.g. those of the data.

    Raises:
        ConfigError: settings that cannot be expressed, or fields that do not fit together.
    """
    return resolve(override(default(), read_settings(class_name, hf) | dict(overrides or {})))
