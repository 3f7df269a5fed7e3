"""Combinations of valid values that cannot be built, each refused in one line that says why and
what would do.
"""

from collections.abc import Iterator
from typing import Any

from zoo.config.constraints.teacher_constraints import impossible_teaching
from zoo.config.constraints.translation_constraints import impossible_pairs
from zoo.config.fields import ATTENTION_KERNELS, AUTO, BY_PATH, EMBEDDED_POSITIONS, OBJECTIVES_OF, TASKS, choices_made
from zoo.config.parts import KINDS, SIDES, scoped
from zoo.config.side_lengths import SpanLengths, side_lengths

# Which objectives the examples of a source are for.
_ALL, _FIELDS = (*TASKS, "translation", "text"), ("classification", "regression", "translation")
EXAMPLES_OF = {
    "stdlib": _ALL,
    "csv": _FIELDS,
    "tsv": _FIELDS,
    "conll": ("tagging",),
    "squad": ("extraction",),
    "jsonl": _ALL,
    "parquet": _ALL,
    "hf": _ALL,
    "tfds": _ALL,
    "parallel": ("translation",),
}


def impossible(flat: dict[str, Any], scopes: dict[str, dict[str, Any]], vocab_size: int | None) -> Iterator[str]:
    """Checks a derived flat config as a whole.

    Args:
        flat: every field, without the scopes.
        scopes: overrides by scope.
        vocab_size: ids that the data need, or None where only the data know.
    """
    architecture = flat["model.architecture"]
    yield from _scopes(flat, scopes)
    if architecture == "elmo":
        yield from _elmo(flat)
    else:
        yield from _table(flat)
        everywhere = list(_layers(flat, architecture))
        yield from everywhere
        for scope, changes in scopes.items():
            if scope in SIDES and architecture != "encoder_decoder":
                continue
            lines = _layers(flat | changes, scope.removeprefix("model.") if scope in SIDES else architecture)
            yield from (f"{scope}: {line}" for line in lines if line not in everywhere)
    yield from _objective(flat, scopes)
    yield from impossible_teaching(flat)
    yield from _examples(flat)
    yield from _task(flat)
    yield from _offsets(flat)
    yield from _training(flat, scopes, vocab_size)


def _scopes(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Sides without an encoder-decoder; kinds of layers that the pattern and the definitions do not
    share.
    """
    architecture, pattern = flat["model.architecture"], flat["model.layers.pattern"]
    defined = {scope.removeprefix(KINDS + ".") for scope in scopes if scope.startswith(KINDS)}
    for scope in SIDES:
        if scope in scopes and architecture != "encoder_decoder":
            yield (
                f"{scope} is read only when model.architecture is encoder_decoder, and it is {architecture}; "
                "set the fields of model itself"
            )
    if pattern and architecture == "encoder_decoder":
        yield (
            "model.layers.pattern is not for model.architecture=encoder_decoder; give each side its own fields under model.encoder "
            "and model.decoder"
        )
    for name in sorted(set(pattern) - defined):
        yield f"model.layers.pattern names {name!r}, which no field of {KINDS}.{name} describes (e.g. {KINDS}.{name}.attention.window=0)"
    for name in sorted(defined - set(pattern)):
        yield f"{KINDS}.{name} has no effect: model.layers.pattern={','.join(pattern) or 'empty'} does not name it"
    for name in sorted(defined):
        yield from _positions_of_kind(flat, f"{KINDS}.{name}", scopes[f"{KINDS}.{name}"])


def _positions_of_kind(flat: dict[str, Any], scope: str, changes: dict[str, Any]) -> Iterator[str]:
    """A kind of layers that sets what is the whole model's: positions in the embedding, a table
    that all layers share.
    """
    shared = flat["model.position.kind"] == "relative_bias" and flat["model.position.shared"]
    kind = changes.get("model.position.kind")
    if kind in EMBEDDED_POSITIONS:
        yield f"{scope}.position.kind={kind} is added to the embedding, before any layer; set model.position.kind"
    elif shared and kind is not None:
        yield f"{scope}.position.kind={kind}: all layers share one table; set model.position.shared=false"
    elif (kind or flat["model.position.kind"]) in EMBEDDED_POSITIONS:
        for path in sorted(
            {f"model.position.{name}" for name in ("max_length", "offset", "layout", "endpoint")} & changes.keys()
        ):
            yield (
                f"{scoped(scope, path)}={changes[path]!r} has no effect: {flat['model.position.kind']} positions are added to the "
                f"embedding, before any layer; set {path}"
            )
    elif shared:
        for path in ("model.position.buckets", "model.position.max_distance", "model.position.shared"):
            if path in changes and changes[path] != flat[path]:
                yield f"{scoped(scope, path)}={changes[path]!r} has no effect: all layers share one table; set {path} itself"
        if (heads := changes.get("model.attention.num_heads", flat["model.attention.num_heads"])) != flat[
            "model.attention.num_heads"
        ]:
            yield (
                f"{scope}.attention.num_heads={heads}: all layers share one table, of {flat['model.attention.num_heads']} heads; "
                "set model.position.shared=false"
            )
    elif (kind or flat["model.position.kind"]) == "relative_bias" and changes.get(
        "model.position.shared", flat["model.position.shared"]
    ):
        yield f"{scope}.position.kind=relative_bias: a kind of layers has tables of its own; set {scope}.position.shared=false"


def _table(flat: dict[str, Any]) -> Iterator[str]:
    """Learned positions that are too few."""
    length = flat["data.sequence_length"]
    if flat["model.architecture"] == "encoder_decoder" or flat["model.position.kind"] != "learned":
        return
    last = max(flat["data.offsets"], default=0)
    if flat["model.position.max_length"] < length + last:
        yield (
            f"model.position.max_length={flat['model.position.max_length']} is shorter than data.sequence_length={length}"
            f"{f' from data.offsets={last} on' if last else ''}: learned positions cannot go past their table"
        )


def _elmo(flat: dict[str, Any]) -> Iterator[str]:
    """Character convolutions that cannot be."""
    filters = flat["model.elmo.filters"]
    if flat["model.elmo.normalise_layers"] and flat["objective.kind"] not in TASKS:
        yield (
            f"model.elmo.normalise_layers=True has no effect: objective.kind={flat['objective.kind']} reads the last layer alone; "
            "leave it at False"
        )
    if flat["model.head.pooling"] in ("first", "last"):
        yield (
            f"model.head.pooling={flat['model.head.pooling']} is a token that one direction of an ELMo reads before all others; "
            "set mean"
        )
    if len(filters) % 2:
        yield f"model.elmo.filters={filters} must be pairs: width, number, width, number, ..."
    if not filters:
        yield "model.elmo.filters is empty; one pair is the least: width, number"
    if any(width > flat["model.elmo.characters"] for width in filters[::2]):
        yield f"model.elmo.filters={filters} has a width above model.elmo.characters={flat['model.elmo.characters']}"


def _layers(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """What concerns layers: of the whole model, of one side, or of one kind.

    Args:
        flat: the fields as these layers see them.
        architecture: "decoder" where they are causal, "encoder" where not, "encoder_decoder" for
            both.
    """
    heads, kv_heads, dim = flat["model.attention.num_heads"], flat["model.attention.num_kv_heads"], flat["model.dim"]
    head_dim, position, placement = (
        flat["model.attention.head_dim"],
        flat["model.position.kind"],
        flat["model.norm.placement"],
    )
    window, global_tokens, kind = (
        flat["model.attention.window"],
        flat["model.attention.global_tokens"],
        flat["model.attention.kind"],
    )
    bidirectional = architecture != "decoder"
    if head_dim == AUTO:
        yield f"model.dim={dim} does not divide by model.attention.num_heads={heads}; change one, or set model.attention.head_dim"
    if position == "sinusoidal" and dim % 2:
        yield f"sinusoidal positions pair sines with cosines: model.dim={dim} must be even"
    if position == "sinusoidal" and flat["model.position.endpoint"] and dim < 4:
        yield f"model.position.endpoint=true lies between the first wavelength and the last: model.dim={dim} must be at least 4"
    if heads % kv_heads:
        yield f"model.attention.num_heads={heads} does not divide by model.attention.num_kv_heads={kv_heads}"
    if heads % (queries := flat["model.attention.num_query_heads"]):
        yield f"model.attention.num_heads={heads} does not divide by model.attention.num_query_heads={queries}"
    cross = flat["model.attention.cross_kv_heads"]
    if cross not in (AUTO, kv_heads) and architecture != "encoder" and heads % cross:
        yield f"model.attention.num_heads={heads} does not divide by model.attention.cross_kv_heads={cross}"
    yield from _dilated(flat, architecture)
    if position == "rope" and head_dim != AUTO:
        rotated = head_dim * flat["model.position.fraction"]
        if abs(rotated - round(rotated)) > 1e-6 or round(rotated) % 2 or round(rotated) == 0:
            yield (
                f"RoPE rotates pairs: model.attention.head_dim={head_dim} times model.position.fraction="
                f"{flat['model.position.fraction']:g} is {rotated:g}, not an even number"
            )
        if flat["model.position.scaling.kind"] == "dynamic" and round(rotated) <= 2:
            yield f"model.position.scaling.kind=dynamic needs more than two rotated dimensions of a head, got {round(rotated)}"
        if (
            flat["model.position.scaling.kind"] in ("linear", "yarn", "llama3")
            and flat["model.position.scaling.factor"] == 1
        ):
            yield (
                f"model.position.scaling.kind={flat['model.position.scaling.kind']} has no effect with model.position.scaling.factor=1; "
                "set the factor"
            )
        if flat["model.position.scaling.kind"] in ("yarn", "llama3"):
            low, high = flat["model.position.scaling.low"], flat["model.position.scaling.high"]
            if low >= high:
                yield f"model.position.scaling.low={low:g} must be below model.position.scaling.high={high:g}"
            if flat["model.position.scaling.kind"] == "yarn" and flat["model.position.theta"] <= 1:
                yield f"model.position.scaling.kind=yarn needs model.position.theta above 1, got {flat['model.position.theta']:g}"
    if position == "relative_bias":
        # Where one side is a decoder, it is that side's limit that is the narrower.
        buckets = flat["model.position.buckets"] // (2 if architecture == "encoder" else 1)
        if flat["model.position.buckets"] % 4:
            yield f"model.position.buckets={flat['model.position.buckets']} must divide by 4: two directions, near and far"
        if flat["model.position.max_distance"] <= buckets // 2:
            yield (
                f"model.position.max_distance={flat['model.position.max_distance']} must be above {buckets // 2}, the distances that "
                f"have a bucket each of model.position.buckets={flat['model.position.buckets']}"
            )
    if flat["model.parallel"] != "none":
        if placement != "pre" or flat["model.norm.kind"] == "none":
            yield f"model.parallel={flat['model.parallel']} is defined for pre-norm; model.norm is {flat['model.norm.kind']}, {placement}"
        if flat["model.architecture"] == "encoder_decoder" and architecture != "encoder":
            yield "model.parallel has no place for cross-attention; the decoder of an encoder-decoder needs model.parallel=none"
    if placement == "deepnorm" and not flat["model.residual"]:
        yield "model.norm.placement=deepnorm weighs the residual connection; it needs model.residual=true"
    if placement == "deepnorm" and flat["model.init.scale_residual"]:
        yield "model.norm.placement=deepnorm has initial values of its own; set model.init.scale_residual=false"
    if bidirectional and window and window % 2 == 0 and architecture != "encoder_decoder":
        yield f"model.attention.window={window} must be odd in an encoder: the token itself and as many on both sides"
    if architecture == "encoder_decoder" and (window or global_tokens):
        yield (
            "model.attention.window and global_tokens mean different things on the two sides; "
            "set them under model.encoder or model.decoder"
        )
    if flat["model.attention.global_projections"] and not global_tokens:
        yield "model.attention.global_projections=true needs model.attention.global_tokens of at least 1"
    if global_tokens:
        if architecture == "decoder":
            yield (
                f"model.attention.global_tokens={global_tokens} would let early tokens see later ones; "
                "it needs model.architecture=encoder"
            )
        if not window:
            yield f"model.attention.global_tokens={global_tokens} has no effect without model.attention.window"
        if flat["data.isolate_documents"]:
            yield f"model.attention.global_tokens={global_tokens} counts from a row's start; it cannot do data.isolate_documents=true"
        if position == "shaw":
            yield "model.attention.global_tokens cannot do model.position.kind=shaw"
    of_prefix = (
        architecture == "decoder" and flat["model.architecture"] == "decoder" and flat["objective.kind"] == "prefix"
    )
    if of_prefix and window:
        yield (
            f"objective.kind=prefix lets the first tokens of a row be seen by all that follow; a decoder cannot do that with "
            f"model.attention.window={window}"
        )
    if of_prefix and position == "relative_bias":
        yield (
            "objective.kind=prefix lets early tokens of a row see later ones, for which model.position.kind=relative_bias has no "
            "buckets in a decoder; use another, or model.architecture=encoder_decoder"
        )
    if kind == "performer":
        refused = {
            "model.attention.window": window > 0,
            "model.attention.softcap": flat["model.attention.softcap"] > 0,
            "model.attention.sinks": flat["model.attention.sinks"],
            "model.attention.dropout": flat["model.attention.dropout"] > 0,
            "model.position.kind": position in ("alibi", "relative_bias", "shaw"),
            "data.isolate_documents": flat["data.isolate_documents"],
            "objective.kind": of_prefix,
        }
        for path, wanted in refused.items():
            if wanted:
                yield f"model.attention.kind=performer never forms the scores that {path}={flat[path]} acts on; leave it out or use softmax"
    else:
        yield from _kernel(flat)


def _dilated(flat: dict[str, Any], architecture: str) -> Iterator[str]:
    """Dilations that no window has, or that do not come out even over the heads."""
    dilations, heads = flat["model.attention.dilations"], flat["model.attention.num_heads"]
    if not dilations:
        return
    shown = f"model.attention.dilations={','.join(map(str, dilations))}"
    if architecture == "encoder_decoder":
        yield f"{shown} are those of windows; set them under model.encoder or model.decoder"
    elif not flat["model.attention.window"]:
        yield f"{shown} has no effect without model.attention.window"
    if max(dilations) == 1:
        yield f"{shown} has no effect: 1 is no dilation; leave it empty"
    if heads % len(dilations):
        yield f"{shown} has {len(dilations)} entries, by which model.attention.num_heads={heads} does not divide"


def _kernel(flat: dict[str, Any]) -> Iterator[str]:
    """What the chosen implementation of attention cannot honour."""
    kernel, head_dim, position = (
        flat["model.attention.kernel"],
        flat["model.attention.head_dim"],
        flat["model.position.kind"],
    )
    if kernel == AUTO:
        return
    can = ATTENTION_KERNELS[kernel]
    wants = {
        "score": (position in ("alibi", "relative_bias", "shaw"), f"model.position.kind={position}"),
        "value": (
            position == "shaw" and flat["model.position.values"],
            "model.position.values=true of Shaw's positions",
        ),
        "documents": (flat["data.isolate_documents"], "data.isolate_documents=true"),
        "dropout": (
            flat["model.attention.dropout"] > 0,
            f"model.attention.dropout={flat['model.attention.dropout']:g}",
        ),
        "softcap": (
            flat["model.attention.softcap"] > 0,
            f"model.attention.softcap={flat['model.attention.softcap']:g}",
        ),
        "dilations": (
            bool(flat["model.attention.dilations"]),
            f"model.attention.dilations={','.join(map(str, flat['model.attention.dilations']))}",
        ),
        "sinks": (flat["model.attention.sinks"], "model.attention.sinks=true"),
        "prefix": (
            flat["model.architecture"] == "decoder" and flat["objective.kind"] == "prefix",
            "objective.kind=prefix of a decoder",
        ),
        "padding": (flat["model.architecture"] != "decoder", f"model.architecture={flat['model.architecture']}"),
    }
    for feature, (wanted, name) in wants.items():
        if wanted and not can[feature]:
            yield f"model.attention.kernel={kernel} cannot do {name}; use einsum"
    if flat["model.dtype"] not in can["dtypes"]:
        yield f"model.attention.kernel={kernel} needs model.dtype={' or '.join(can['dtypes'])}, got {flat['model.dtype']}"
    if head_dim != AUTO and head_dim not in can["head_dims"]:
        widths = can["head_dims"]
        yield (
            f"model.attention.kernel={kernel} needs model.attention.head_dim to be a multiple of {widths.step} up to {widths[-1]}, "
            f"got {head_dim}"
        )


def _offsets(flat: dict[str, Any]) -> Iterator[str]:
    """Rows that are to begin elsewhere and cannot."""
    offsets = flat["data.offsets"]
    if not offsets:
        return
    shown = f"data.offsets={','.join(map(str, offsets))}"
    if max(offsets) == 0:
        yield f"{shown} has no effect: rows begin at 0 anyway; leave it empty"
    if flat["data.isolate_documents"]:
        yield f"{shown} is where rows begin, and with data.isolate_documents=true every document counts from 0; leave out one of them"
    if flat["model.attention.global_tokens"]:
        yield f"{shown} would leave rows without their first tokens, which model.attention.global_tokens are"
    if flat["objective.distillation.teacher"]:
        yield f"{shown} moves what a teacher reads too; it cannot do objective.distillation.teacher"


def _objective(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Objectives that do not fit the model, or whose numbers do not add up."""
    architecture, objective, length = flat["model.architecture"], flat["objective.kind"], flat["data.sequence_length"]
    if objective not in OBJECTIVES_OF[architecture]:
        fits = [name for name, objectives in OBJECTIVES_OF.items() if objective in objectives]
        yield (
            f"objective.kind={objective} trains model.architecture={' or '.join(fits)}; {architecture} is trained by objective.kind="
            f"{' or '.join(OBJECTIVES_OF[architecture])}"
        )
        return
    if (
        objective in ("masked", "denoising")
        and flat["objective.mask_fraction"] + flat["objective.random_fraction"] > 1 + 1e-9
    ):
        yield (
            f"objective.mask_fraction={flat['objective.mask_fraction']:g} and objective.random_fraction="
            f"{flat['objective.random_fraction']:g} add up to more than 1"
        )
    if flat["objective.next_sentence"] and not flat["model.head.next_sentence"]:
        yield "objective.next_sentence=true is scored by model.head.next_sentence; set that, and model.head.pooler, to true"
    yield from _rows(flat)
    if objective == "translation":
        yield from impossible_pairs(flat)
    if objective == "prefix" and flat["objective.prefix_length"] >= length:
        yield f"objective.prefix_length={flat['objective.prefix_length']} leaves nothing of data.sequence_length={length} to predict"
    if objective == "span" and length < 2:
        yield f"data.sequence_length={length} leaves nothing to cut out; objective.kind=span needs at least 2"
    elif objective in ("prefix", "span", "denoising", "translation"):
        parts = {
            name.removeprefix("objective."): value for name, value in flat.items() if name.startswith("objective.")
        }
        spans = SpanLengths.of(length, parts["noise_density"], parts["mean_span_length"]).spans
        if objective == "span" and spans > parts["sentinels"]:
            yield f"objective.sentinels={parts['sentinels']} are fewer than the {spans} spans of a row"
        sides = (
            zip(("encoder", "decoder"), side_lengths(parts, length), strict=True)
            if architecture == "encoder_decoder"
            else ()
        )
        for side, tokens in sides:
            merged = flat | scopes.get(f"model.{side}", {})
            if merged["model.position.kind"] == "learned" and merged["model.position.max_length"] < tokens:
                yield (
                    f"model.position.max_length={merged['model.position.max_length']} is shorter than the {tokens} tokens of the "
                    f"{side}: learned positions cannot go past their table"
                )
        if flat["data.isolate_documents"] and objective != "translation":
            yield f"objective.kind={objective} reads a row as one text; it cannot do data.isolate_documents=true"
    if (sampled := flat["objective.sampled_softmax"]) and flat["objective.z_loss"]:
        yield "objective.z_loss weighs the normaliser of the whole softmax, which objective.sampled_softmax never has; set one of them to 0"
    if sampled and flat["objective.label_smoothing"]:
        yield "objective.label_smoothing spreads over all ids, which objective.sampled_softmax never scores; set one of them to 0"
    if flat["model.vocab_size"] != AUTO and sampled > flat["model.vocab_size"]:
        yield f"objective.sampled_softmax={sampled} is more than there are ids: model.vocab_size={flat['model.vocab_size']}"
    if objective == "bidirectional" and flat["data.isolate_documents"]:
        yield "objective.kind=bidirectional reads a row from end to end; it cannot do data.isolate_documents=true"


def _examples(flat: dict[str, Any]) -> Iterator[str]:
    """Sources of labelled examples and of pairs of texts, and what is held out of them."""
    objective, source = flat["objective.kind"], flat["data.source"].partition(":")[0]
    if objective not in TASKS:
        for path in ("data.second_column", "data.label_column"):
            if flat[path] != BY_PATH[path].default:
                yield f"{path}={flat[path]!r} has no effect: objective.kind={objective} reads text without labels; leave it out"
    if objective not in (*TASKS, "translation"):
        if source in EXAMPLES_OF and "text" not in EXAMPLES_OF[source]:
            yield (
                f"data.source={flat['data.source']} holds examples, not running text, for objective.kind="
                f"{' or '.join(EXAMPLES_OF[source])}"
            )
        return
    if objective not in EXAMPLES_OF.get(source, ()):
        able = [name for name, objectives in EXAMPLES_OF.items() if objective in objectives]
        needed = "pairs of texts" if objective == "translation" else "labelled examples"
        yield f"objective.kind={objective} needs {needed}, and data.source is {flat['data.source']}; one of {', '.join(able)}"
    held_out = flat["data.held_out"].partition(":")[0]
    if held_out and held_out != source and not (held_out == "split" and source in ("hf", "tfds")):
        yield (
            f"data.held_out={flat['data.held_out']} must be of the same kind as data.source={flat['data.source']}"
            + (", or split:NAME" if source in ("hf", "tfds") else "")
        )
    if held_out and source == "stdlib":
        yield f"data.held_out={flat['data.held_out']} has no effect: data.source={flat['data.source']} has a held-out part of its own"
    default = BY_PATH["data.validation_fraction"].default
    if flat["data.validation_fraction"] != default and (held_out or source == "stdlib"):
        yield (
            f"data.validation_fraction={flat['data.validation_fraction']:g} has no effect: the held-out examples are given; leave it at "
            f"{default:g}"
        )


def _task(flat: dict[str, Any]) -> Iterator[str]:
    """Heads of tasks, and what only they read."""
    objective, source, architecture = (
        flat["objective.kind"],
        flat["data.source"].partition(":")[0],
        flat["model.architecture"],
    )
    if objective not in TASKS:
        return
    if flat["training.eval_batches"] != 0:
        yield f"training.eval_batches={flat['training.eval_batches']} must be 0: objective.kind={objective} is scored on every example once"
    if flat["data.sequence_length"] < 8:
        yield f"data.sequence_length={flat['data.sequence_length']} is too short for objective.kind={objective}; at least 8"
    outputs = {"regression": 1, "extraction": 2}.get(objective)
    if outputs and flat["model.head.classes"] != outputs:
        yield f"model.head.classes={flat['model.head.classes']} must be {outputs} for objective.kind={objective}; leave it at auto"
    if flat["model.head.next_sentence"]:
        yield f"model.head.next_sentence=True has no effect: objective.kind={objective} has a head of its own; leave it at False"
    if objective in ("tagging", "extraction") and flat["model.head.pooler"]:
        yield f"model.head.pooler=True has no effect: objective.kind={objective} reads no single vector of a row; leave it at False"
    if objective == "extraction" and source in ("jsonl", "parquet", "hf", "tfds") and not flat["data.second_column"]:
        yield (
            "data.second_column must name the question of objective.kind=extraction, data.column its context and data.label_column its "
            "answers"
        )
    if objective == "tagging" and flat["data.second_column"]:
        yield f"data.second_column={flat['data.second_column']!r} has no effect: objective.kind=tagging reads single texts; leave it out"
    if objective == "extraction" and flat["data.stride"] > flat["data.sequence_length"]:
        yield (
            f"data.stride={flat['data.stride']} leaves out tokens between rows of data.sequence_length="
            f"{flat['data.sequence_length']}; at most that"
        )
    if flat["data.conll.words"] == flat["data.conll.tags"]:
        yield f"data.conll.words={flat['data.conll.words']} is the column of the tags; take another"
    if flat["training.trained_layers"] != AUTO and flat["training.trained_layers"] > flat["model.num_layers"]:
        yield (
            f"training.trained_layers={flat['training.trained_layers']}: there are {flat['model.num_layers']} layers; auto trains "
            "everything"
        )
    if architecture == "decoder" and flat["model.head.pooling"] == "first":
        yield "model.head.pooling=first is the token that sees no other in a decoder; set last or mean"
    if flat["model.embedding.segments"] == 1 and flat["data.second_column"]:
        yield "model.embedding.segments=1: pairs have two segments; set it to 2, or to 0 to tell them apart by [SEP] alone"


def _rows(flat: dict[str, Any]) -> Iterator[str]:
    """Rows of sentences and pairs that are too short, or that are asked for what only packed rows,
    or only pairs, have.
    """
    rows, length, segments = flat["data.rows"], flat["data.sequence_length"], flat["model.embedding.segments"]
    pairs = rows in ("segment_pairs", "sentence_pairs")
    if flat["objective.next_sentence"] and not pairs:
        yield f"objective.next_sentence=true needs pairs, and data.rows is {rows}; set data.rows to segment_pairs or sentence_pairs"
    if rows != "packed" and length < 8:
        yield f"data.sequence_length={length} is too short for data.rows={rows}, where up to three tokens are [CLS] and [SEP]; at least 8"
    if rows != "packed" and flat["data.isolate_documents"]:
        yield f"data.isolate_documents=true is for packed rows, and data.rows is {rows}; those of doc_sentences hold one document"
    if pairs and flat["model.architecture"] == "encoder" and segments == 1:
        yield f"model.embedding.segments=1: data.rows={rows} has two segments; set it to 2, or to 0 to tell them apart by [SEP] alone"


def _training(flat: dict[str, Any], scopes: dict[str, dict[str, Any]], vocab_size: int | None) -> Iterator[str]:
    """Data, budget and devices."""
    batch, accumulation = flat["data.batch_size"], flat["training.accumulation_steps"]
    if flat["data.document_separator"] and "text" not in choices_made(flat, "data.source"):
        yield (
            f"data.document_separator has no effect with data.source={flat['data.source']}, whose documents are divided already; "
            "leave it empty"
        )
    if vocab_size and flat["model.vocab_size"] < vocab_size:
        more = ", [MASK] included" if flat["objective.kind"] in ("masked", "denoising") else ""
        yield f"model.vocab_size={flat['model.vocab_size']} is smaller than the tokenizer's {vocab_size} ids{more}"
    if batch % accumulation:
        yield f"data.batch_size={batch} does not divide by training.accumulation_steps={accumulation}"
    norms = {flat["model.norm.kind"], *(changes.get("model.norm.kind") for changes in scopes.values())}
    if accumulation > 1 and "batchnorm" in norms:
        yield (
            f"training.accumulation_steps={accumulation} would change what model.norm.kind=batchnorm normalises over; "
            "use one part, or another norm"
        )
    data, fsdp, tensor = flat["mesh.data"], flat["mesh.fsdp"], flat["mesh.tensor"]
    if data == 0:
        yield "mesh.data=0 must be -1 (all devices that are left) or at least 1"
    rows = fsdp * max(data, 1)
    if batch % accumulation == 0 and (batch // accumulation) % rows:
        yield (
            f"data.batch_size={batch} in training.accumulation_steps={accumulation} parts does not divide by the {rows} devices "
            f"of mesh.data x mesh.fsdp"
        )
    for scope, changes in {"model": {}, **scopes}.items() if flat["model.architecture"] != "elmo" else ():
        merged = flat | changes
        for name in ("num_heads", "num_kv_heads", "num_query_heads", "cross_kv_heads"):
            if merged[f"model.attention.{name}"] != AUTO and merged[f"model.attention.{name}"] % tensor:
                yield f"{scope}.attention.{name}={merged[f'model.attention.{name}']} does not divide by mesh.tensor={tensor}"
                break
    if flat["training.eval_context"] >= flat["data.sequence_length"]:
        yield (
            f"training.eval_context={flat['training.eval_context']} leaves nothing of data.sequence_length="
            f"{flat['data.sequence_length']} to score"
        )
    if flat["schedule.warmup_steps"] > flat["training.steps"]:
        yield f"schedule.warmup_steps={flat['schedule.warmup_steps']} is longer than training.steps={flat['training.steps']}"
