"""Checks the fields of a teacher, and of layers that start from another run."""

from collections.abc import Iterator
from typing import Any

from zoo.config.fields import BY_PATH

TEACHER = "objective.distillation.teacher"
_KL, _COSINE = "objective.distillation.kl", "objective.distillation.cosine"
_TEMPERATURE, _KL_TOKENS = "objective.distillation.temperature", "objective.distillation.kl_tokens"
# Fields that have an effect only with a teacher.
TEACHER_FIELDS = (_KL, _TEMPERATURE, _KL_TOKENS, _COSINE, "objective.distillation.hard")


def check_teacher(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of a teacher and of the layers that a model starts from."""
    teacher, kl, cosine = flat[TEACHER], flat[_KL], flat[_COSINE]
    hard = flat["objective.distillation.hard"]
    if not teacher:
        yield from _idle(flat, TEACHER_FIELDS, f"without {TEACHER}")
    elif kl == 0 and cosine == 0:
        yield f"{TEACHER}={teacher} has no effect: {_KL} and {_COSINE} are both 0; leave it empty"
    elif kl == 0:
        yield from _idle(flat, (_TEMPERATURE, _KL_TOKENS), f"with {_KL}=0")
    if teacher and flat["objective.next_sentence"]:
        yield (
            f"objective.next_sentence=true: {TEACHER}={teacher} teaches tokens alone; set objective.next_sentence=false"
        )
    for path in ("objective.label_smoothing", "objective.z_loss"):
        if teacher and hard == 0 and flat[path]:
            yield f"{path}={flat[path]:g} has no effect with objective.distillation.hard=0; leave it at 0"
    layers, start = flat["training.start_layers"], flat["training.start_from"]
    if layers and not start:
        yield (
            f"training.start_layers={','.join(map(str, layers))} has no effect without training.start_from; leave "
            "it empty"
        )
    elif layers and len(layers) != flat["model.num_layers"]:
        yield (
            f"training.start_layers={','.join(map(str, layers))} names {len(layers)} layers, and model.num_layers is "
            f"{flat['model.num_layers']}: one for each"
        )
    if layers and start and (distinct := flat["model.layers.distinct"]):
        yield (
            f"training.start_layers={','.join(map(str, layers))} chooses weights for each layer, and "
            f"model.layers.distinct={distinct} lets layers share them; leave one of them out"
        )


def _idle(flat: dict[str, Any], paths: tuple[str, ...], why: str) -> Iterator[str]:
    """Yields a line for each of some fields that is set although nothing reads it."""
    for path in paths:
        value, default = (f"{x:g}" if isinstance(x, float) else x for x in (flat[path], BY_PATH[path].default))
        if value != default:
            yield f"{path}={value} has no effect {why}; leave it at {default}"
