"""Checks data, budget and devices against one another."""

from collections.abc import Iterator
from typing import Any

from zoo.config.fields import AUTO, chosen
from zoo.config.hyperparameters import is_random_rate
from zoo.config.kinds import FEED_FORWARD_KINDS, NORM_KINDS, OBJECTIVE_KINDS
from zoo.config.kinds.schedule_kinds import tail_start
from zoo.config.scopes import layer_scopes


def check_training(flat: dict[str, Any], scopes: dict[str, dict[str, Any]], vocab_size: int | None) -> Iterator[str]:
    """Yields the problems of data, budget and devices."""
    if flat["data.document_separator"] and "text" not in chosen(flat, "data.source"):
        yield (
            f"data.document_separator has no effect with data.source={flat['data.source']}, whose documents are "
            "divided already; leave it empty"
        )
    if vocab_size and flat["model.vocab_size"] < vocab_size:
        more = ", [MASK] included" if flat["objective.kind"] in OBJECTIVE_KINDS.having("masking") else ""
        yield f"model.vocab_size={flat['model.vocab_size']} is smaller than the tokenizer's {vocab_size} ids{more}"
    yield from _check_accumulation(flat, scopes)
    yield from _check_dropout_generator(flat, scopes)
    yield from _check_mesh(flat, scopes)
    if flat["optimizer.ema_steps"] == 1:
        yield "optimizer.ema_steps=1 averages nothing: it is the last parameters; use at least 2, or 0 for none"
    tail = flat["optimizer.tail_average"]
    if tail and (updates := flat["training.steps"] - tail_start(flat)) < 2:
        yield (
            f"optimizer.tail_average={tail} of training.steps={flat['training.steps']} is {updates} "
            f"update{'s' * (updates != 1)}, which averages nothing; use more, or 0 for none"
        )
    for path in ("optimizer.ema_steps", "optimizer.tail_average"):
        if flat[path] and flat["optimizer.constraint"] != "none":
            yield (
                f"{path}={flat[path]} cannot be combined with optimizer.constraint={flat['optimizer.constraint']}: an "
                "average of vectors on a sphere is inside it; leave one of them out"
            )
        if flat[path] and flat["training.trained_layers"] != AUTO:
            yield (
                f"{path}={flat[path]} cannot be combined with training.trained_layers="
                f"{flat['training.trained_layers']}: all averaged parameters have to be trained"
            )
    if flat["training.eval_context"] >= flat["data.sequence_length"]:
        yield (
            f"training.eval_context={flat['training.eval_context']} leaves nothing of data.sequence_length="
            f"{flat['data.sequence_length']} to score"
        )
    if flat["schedule.warmup_steps"] > flat["training.steps"]:
        yield (
            f"schedule.warmup_steps={flat['schedule.warmup_steps']} is longer than "
            f"training.steps={flat['training.steps']}"
        )


def _check_dropout_generator(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    generator = flat["training.dropout_generator"]
    if generator == "threefry":
        return
    values = [*flat.items(), *(item for changes in scopes.values() for item in changes.items())]
    if not any(value for path, value in values if is_random_rate(path)):
        yield (
            f"training.dropout_generator={generator} has no effect: no dropout rate, jitter or noise of the model is "
            "above 0"
        )


def _check_accumulation(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    batch, accumulation = flat["data.batch_size"], flat["training.accumulation_steps"]
    microbatch = flat["training.microbatch_size"]
    setting = f"training.accumulation_steps={accumulation}"
    if accumulation == AUTO:
        setting, accumulation = f"training.microbatch_size={microbatch}", -(-batch // microbatch)
    elif microbatch:
        yield f"{setting} and training.microbatch_size={microbatch} both cut the batch; set one of them"
    elif batch % accumulation:
        yield f"data.batch_size={batch} is not divisible by training.accumulation_steps={accumulation}"
    kinds = {flat["model.norm.kind"], *(changes.get("model.norm.kind") for changes in scopes.values())}
    for kind in sorted(kinds & set(NORM_KINDS.having("batch"))) if accumulation > 1 else ():
        yield (f"{setting} would change what model.norm.kind={kind} normalises over; use one part, or another norm")


def _check_expert_axis(flat: dict[str, Any], scopes: dict[str, dict[str, Any]], devices: int) -> Iterator[str]:
    found = False
    for scope, merged in layer_scopes(flat, scopes).items():
        if merged["model.ffn.kind"] not in FEED_FORWARD_KINDS.having("experts"):
            continue
        found, number = True, merged["model.ffn.experts.number"]
        if number % devices:
            yield (
                f"{scope}.ffn.experts.number={number} is not divisible by mesh.expert={devices}: each device has as "
                f"many experts; use {-(-number // devices) * devices} experts or another number of devices"
            )
    if not found:
        yield f"mesh.expert={devices} divides experts, and there are none; set model.ffn.kind=moe, or use mesh.data"


def _check_mesh(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    batch, accumulation = flat["data.batch_size"], flat["training.accumulation_steps"]
    data, fsdp, expert, tensor = (flat[f"mesh.{axis}"] for axis in ("data", "fsdp", "expert", "tensor"))
    for name, size in (("data", data), ("fsdp", fsdp)):
        if size == 0:
            yield f"mesh.{name}=0 must be -1 (all remaining devices) or at least 1"
    rows, parts = max(fsdp, 1) * max(data, 1) * expert, 1 if accumulation == AUTO else accumulation
    if batch % parts == 0 and (batch // parts) % rows:
        in_parts = "" if accumulation == AUTO else f" in training.accumulation_steps={accumulation} parts"
        axes = "mesh.data x mesh.fsdp" + " x mesh.expert" * (expert > 1)
        yield f"data.batch_size={batch}{in_parts} is not divisible by the {rows} devices of {axes}"
    if expert > 1:
        yield from _check_expert_axis(flat, scopes, expert)
    for scope, changes in {"model": {}, **scopes}.items() if flat["model.architecture"] != "elmo" else ():
        merged = flat | changes
        for name in ("num_heads", "num_kv_heads", "num_query_heads", "cross_kv_heads"):
            heads = merged[f"model.attention.{name}"]
            if heads != AUTO and heads % tensor:
                yield f"{scope}.attention.{name}={heads} is not divisible by mesh.tensor={tensor}"
                break
