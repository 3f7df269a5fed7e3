"""Classes of Hugging Face's transformers with a head for a task over a decoder.

...ForSequenceClassification   the classes, or a number, from the last token; no bias
...ForTokenClassification      the classes of every token
...ForQuestionAnswering        beginning and end of the answer, from every token; all other
                               tensors have the prefix "transformer"
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zoo.config import ResolvedConfig
from zoo.interop.families import llama
from zoo.interop.families.task_heads import OF_TOKENS, task_fields, task_settings
from zoo.interop.settings.importer import Importer
from zoo.interop.weights.mapping import IgnoredTensors, Rule, Rules, TiedTensor, ZeroParameters, linear

NAMES = ("Llama", "Qwen2", "Qwen3", "SmolLM3")
# The task, the name of the matrix over hidden states, whether it has a bias, and the others' prefix.
HEADS = {
    "SequenceClassification": ("classification", "score", False, "model"),
    "TokenClassification": ("tagging", "score", True, "model"),
    "QuestionAnswering": ("extraction", "qa_outputs", True, "transformer"),
}


def with_task(whole: Importer, task: str, head: str, bias: bool, prefix: str) -> Importer:
    """Returns the importer of a class with a task's head.

    Args:
        whole: importer of the class with a head for tokens, of the same decoder.
        task: as in `task_fields`.
        head: the class's name of the matrix over hidden states.
        bias: that has a bias; if not, the bias that the model has there is 0.
        prefix: of all other tensors.
    """

    def read_config(hf: Mapping[str, Any]) -> dict[str, Any]:
        fields = {path: value for path, value in whole.read_config(hf).items() if path not in OF_TOKENS}
        fields |= task_fields(task, hf)
        # The vector of the last token is read as it is.
        return {path: value for path, value in fields.items() if path != "model.head.pooler"}

    def placed(rule: Any) -> Any:
        if isinstance(rule, IgnoredTensors):
            return IgnoredTensors(rule.pattern.replace("model", prefix, 1))
        name = f"{prefix}{rule.name.removeprefix(whole.prefix)}" if isinstance(rule, Rule) else ""
        return replace(rule, name=name) if name else rule

    def rules(config: ResolvedConfig) -> Rules:
        below = [
            placed(rule)
            for rule in whole.rules(config)
            if not isinstance(rule, TiedTensor) and not (isinstance(rule, Rule) and rule.paths[0].startswith("head/"))
        ]
        return [*below, *linear("classifier", head, bias), *([] if bias else [ZeroParameters(("classifier/bias",))])]

    return replace(
        whole,
        read_config=read_config,
        rules=rules,
        prefix=prefix,
        custom_settings={**whole.custom_settings, **task_settings()},
    )


CLASSES = {
    f"{name}For{ending}": with_task(llama.CLASSES[f"{name}ForCausalLM"], *head)
    for name in NAMES
    for ending, head in HEADS.items()
}
