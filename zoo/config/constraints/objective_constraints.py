"""Checks the objective: whether it fits the model and the rows, and whether its numbers add up."""

from collections.abc import Iterator
from typing import Any

from zoo.config.constraints.translation_constraints import check_translation
from zoo.config.fields import OBJECTIVES_OF
from zoo.config.kinds import ACTIVATIONS, OBJECTIVE_KINDS, activation_of, unit_field
from zoo.config.kinds.side_lengths import SpanLengths, side_lengths

# Tokens of the shortest rows of sentences and pairs.
SHORTEST_ROW = 8


def check_objective(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of the objective."""
    architecture, objective = flat["model.architecture"], flat["objective.kind"]
    if objective not in OBJECTIVES_OF[architecture]:
        fits = [name for name, objectives in OBJECTIVES_OF.items() if objective in objectives]
        yield (
            f"objective.kind={objective} trains model.architecture={' or '.join(fits)}; {architecture} is trained by "
            f"objective.kind={' or '.join(OBJECTIVES_OF[architecture])}"
        )
        return
    fractions = flat["objective.mask_token_fraction"] + flat["objective.random_token_fraction"]
    if objective in OBJECTIVE_KINDS.having("fixed_share") and fractions > 1 + 1e-9:
        yield (
            f"objective.mask_token_fraction={flat['objective.mask_token_fraction']:g} and "
            f"objective.random_token_fraction={flat['objective.random_token_fraction']:g} add up to more than 1"
        )
    if flat["objective.rare_token_exponent"] and flat["objective.whole_words"]:
        yield (
            f"objective.rare_token_exponent={flat['objective.rare_token_exponent']:g} weighs single tokens; it cannot "
            "be combined with objective.whole_words=true"
        )
    # Objectives without pairs refuse the field themselves.
    scores_pairs = flat["objective.next_sentence"] and objective not in OBJECTIVE_KINDS.having("replaced")
    if scores_pairs and not flat["model.head.next_sentence"]:
        yield (
            "objective.next_sentence=true is scored by model.head.next_sentence; set that, and model.head.pooler, "
            "to true"
        )
    path, kind = unit_field(flat)
    if flat["model.head.transform"] and activation_of(kind) is None:
        yield (
            f"model.head.transform=true applies the activation of {path}, which for {kind} is not one of "
            f"{', '.join(ACTIVATIONS)}; leave it at False"
        )
    width, mapped = flat["model.embedding.dim"], flat["model.embedding.projection"] == "tokens"
    tied = flat["model.tie_embeddings"] and not flat["model.head.transform"] and not mapped
    if mapped and not width:
        yield (
            "model.embedding.projection=tokens has no effect: model.embedding.dim=0, so tokens are as wide as the "
            "model; set the width of their embeddings"
        )
    if mapped and objective in OBJECTIVE_KINDS.having("replaced"):
        yield (
            "model.embedding.projection=tokens cannot be combined with objective.kind=replaced_tokens, whose generator "
            "reads the sum of the embeddings; use sum"
        )
    # A generator's head maps to that width in any case.
    reads = objective in OBJECTIVE_KINDS.having("tokens") and objective not in OBJECTIVE_KINDS.having("replaced")
    if width not in (0, flat["model.dim"]) and reads and tied:
        yield (
            f"model.embedding.dim={width}: the hidden states that model.tie_embeddings=true multiplies with the "
            f"embedding are model.dim={flat['model.dim']} wide; set model.head.transform=true, which maps them to "
            f"{width}, or model.tie_embeddings=false"
        )
    yield from _check_sentence_rows(flat)
    if objective == "translation":
        yield from check_translation(flat)
    yield from _check_sides(flat, scopes)
    yield from OBJECTIVE_KINDS.problems(flat, architecture)


def _check_sides(flat: dict[str, Any], scopes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yields the problems of rows that a model does not read as they are: what becomes too short or
    too long.
    """
    architecture, objective, length = flat["model.architecture"], flat["objective.kind"], flat["data.sequence_length"]
    cut = objective in OBJECTIVE_KINDS.having("spans")
    if objective in OBJECTIVE_KINDS.having("prefix") and flat["objective.prefix_length"] >= length:
        yield (
            f"objective.prefix_length={flat['objective.prefix_length']} leaves nothing of "
            f"data.sequence_length={length} to predict"
        )
    if cut and length < 2:
        yield f"data.sequence_length={length} leaves nothing to cut out; objective.kind={objective} needs at least 2"
        return
    parts = {name.removeprefix("objective."): value for name, value in flat.items() if name.startswith("objective.")}
    spans = SpanLengths.of(length, parts["noise_density"], parts["mean_span_length"]).spans if cut else 0
    if spans > parts["sentinels"]:
        yield f"objective.sentinels={parts['sentinels']} are fewer than the {spans} spans of a row"
    if architecture == "encoder_decoder":
        for side, tokens in zip(("encoder", "decoder"), side_lengths(parts, length), strict=True):
            merged = flat | scopes.get(f"model.{side}", {})
            if merged["model.position.kind"] == "learned" and merged["model.position.max_length"] < tokens:
                yield (
                    f"model.position.max_length={merged['model.position.max_length']} is shorter than the {tokens} "
                    f"tokens of the {side}: learned positions cannot go past their table"
                )
    as_one_text = objective in OBJECTIVE_KINDS.having("text") and objective not in OBJECTIVE_KINDS.having("whole_rows")
    if flat["data.isolate_documents"] and as_one_text:
        yield (
            f"objective.kind={objective} reads a row as one text; it cannot be combined with "
            "data.isolate_documents=true"
        )


def _check_sentence_rows(flat: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of rows of sentences and pairs."""
    rows, length, segments = flat["data.row_format"], flat["data.sequence_length"], flat["model.embedding.segments"]
    pairs, scored = rows.endswith("pairs"), flat["objective.kind"] not in OBJECTIVE_KINDS.having("replaced")
    if flat["objective.next_sentence"] and scored and not pairs:
        yield (
            f"objective.next_sentence=true needs pairs, and data.row_format is {rows}; set data.row_format to "
            "segment_pairs, sentence_pairs or swapped_pairs"
        )
    if rows != "packed" and length < SHORTEST_ROW:
        yield (
            f"data.sequence_length={length} is too short for data.row_format={rows}, where up to three tokens are "
            f"[CLS] and [SEP]; at least {SHORTEST_ROW}"
        )
    elif rows != "packed" and (short := [one for one in flat["training.eval_lengths"] if one < SHORTEST_ROW]):
        yield (
            f"training.eval_lengths has {short[0]}, too short for data.row_format={rows}, where up to three tokens "
            f"are [CLS] and [SEP]; at least {SHORTEST_ROW}"
        )
    if rows != "packed" and flat["data.isolate_documents"]:
        yield (
            f"data.isolate_documents=true is for packed rows, and data.row_format is {rows}; rows of doc_sentences "
            "hold one document"
        )
    if pairs and flat["model.architecture"] == "encoder" and segments == 1:
        yield (
            f"model.embedding.segments=1: data.row_format={rows} has two segments; set it to 2, or to 0 to "
            "distinguish them by [SEP] alone"
        )
