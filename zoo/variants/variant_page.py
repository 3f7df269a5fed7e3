"""The page about a variant: equation, paper, config, shapes, cost, exclusions and tests."""

import functools
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from flax import nnx

from zoo import config as configs
from zoo.config.fields import IGNORED_BY
from zoo.config.kinds import ATTENTION_KINDS
from zoo.errors import ConfigError
from zoo.layers.parameter import Statistic
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.variants.table import VARIANTS
from zoo.variants.variant import BASELINES, PARITY, SHAPES, SIZE, TOLERANCE, Variant

# "Su et al. 2021, eq. 34" in parentheses; a reference contains a year.
REFERENCE = re.compile(r"\(([^()]*?[A-Z][^()]*?\b(?:19|20)\d\d\b[^()]*)\)")
NAMED = re.compile(
    r"[A-Z][\w'-]+(?: et al\.| & [A-Z][\w'-]+)? (?:19|20)\d\d(?:, (?:section|eq\.|figure|table) \d(?:[\d.]*\d)?)?"
)
# The error for a field without effect; the group is the reason.
UNREAD = re.compile(r".* has no effect: (.*?)(?: does not read it)?; leave it at .*")


def _resolved_fields(changes: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, Any]:
    unread = IGNORED_BY.get(changes.get("model.architecture", ""), ())
    defaults = {field.path: field.default for field in configs.FIELDS}
    read = {
        path: value
        for path, value in sizes.items()
        if not path.startswith(unread) and configs.field_at(path).is_read(defaults | changes)
    }
    return configs.resolve_fields(configs.override_fields(defaults, {**read, **changes}))


def _resolved(changes: Mapping[str, Any], sizes: Mapping[str, Any]) -> configs.ResolvedConfig:
    return configs.resolve(configs.from_flat(_resolved_fields(changes, sizes)))


def computes(variant: Variant) -> str:
    """Returns the equation and its explanation: the table's own, or the docstring of the source."""
    if variant.equation:
        return variant.equation
    described = inspect.getdoc(variant.source).split("\n\nArgs:")[0].split("\n\nAttributes:")[0]
    return "\n\n".join(
        " ".join(paragraph.split()) if "\n    " not in paragraph else paragraph for paragraph in described.split("\n\n")
    )


def chosen_by(variant: Variant) -> list[str]:
    """Returns a line for each field that makes the variant, including those of the baseline."""
    changes = {**BASELINES[variant.baseline], **variant.changes, **dict(variant.chosen)}
    lines = []
    for path, value in changes.items():
        field = configs.field_at(path)
        about = (field.choices or {}).get(value, field.meaning) if isinstance(value, str) else field.meaning
        lines.append(f"`{path}={_text(value)}`: {about}")
    return lines


def papers(variant: Variant) -> list[str]:
    """Returns the references: the table's own, or those in the docstring and the field's choice."""
    if variant.paper:
        return [variant.paper]
    text = " ".join([*chosen_by(variant), computes(variant)])
    found = list(dict.fromkeys(REFERENCE.findall(text) or NAMED.findall(text)))
    return [paper for paper in found if not any(other != paper and other.startswith(paper) for other in found)]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        ",".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _letters(config: configs.ResolvedConfig) -> dict[int | str, str]:
    """Returns {size: letter of the dimension} of the small model."""
    model, attention = config.model, config.model.attention
    if model.architecture == "elmo":
        return {model.vocab_size: "V", 4 * model.elmo.cell_dim: "4 M", model.elmo.cell_dim: "M", model.dim: "D"}
    letters = {config.data.sequence_length: "T", model.ffn.hidden_dim: "F", model.vocab_size: "V", model.dim: "D"}
    if attention.kind not in ATTENTION_KINDS.having("heads"):
        return letters
    H, G, K = attention.num_heads, attention.num_kv_heads, attention.head_dim
    # The number of features of kinds that have features, else `auto`.
    return letters | {K: "K", H: "H", G * K: "G K", H * K: "H K", attention.features: "M"}


def _variables(config: configs.ResolvedConfig) -> dict[str, str]:
    """Returns {path within a layer: shape in letters} of all parameters, and marks statistics."""
    letters, found = _letters(config), {}
    for path, variable in nnx.state(make_model(config), (nnx.Param, Statistic)).flat_state():
        shape, parts = variable.get_value().shape, [str(part) for part in path]
        if variable.get_metadata("axes")[:1] == ("layers",):
            shape = shape[1:]
            place = parts.index("layers")
            kind = variable.get_metadata("layer_kind")
            parts = [
                *parts[:place],
                "layers",
                *([] if kind is None else [kind]),
                *parts[place + (1 if kind is None else 2) :],
            ]
        mark = ", a statistic" if isinstance(variable, Statistic) else ""
        found["/".join(parts).replace("stack/layers", "layers")] = (
            f"[{', '.join(letters.get(size, str(size)) for size in shape)}]{mark}"
        )
    return found


def shapes(variant: Variant) -> list[str]:
    """Returns what the model holds in addition to its baseline, or lacks, or holds in other shapes.

    A choice of the baseline itself lists everything that the model holds.
    """
    base = dict(BASELINES[variant.baseline])
    after = _variables(_resolved({**base, **variant.changes}, SHAPES))
    if not variant.changes:
        named = [f"`{path}` {shape}" for path, shape in after.items()]
        return [f"This is the baseline. It holds {'; '.join(named)}."]
    before = _variables(_resolved(BASELINES["decoder"] if _is_architecture(variant) else base, SHAPES))
    lines = []
    for title, one, other in (("adds", after, before), ("removes", before, after)):
        named = [f"`{path}` {shape}" for path, shape in one.items() if path not in other]
        if named:
            lines.append(f"It {title} {'; '.join(named)}.")
    changed = [
        f"`{path}` is {after[path]}, not {before[path]}"
        for path in after
        if path in before and after[path] != before[path]
    ]
    if changed:
        lines.append(f"{'; '.join(changed)}.")
    return lines or ["It holds the same parameters as the baseline: x [B, T, D] goes in, and [B, T, D] comes out."]


def _is_architecture(variant: Variant) -> bool:
    return "model.architecture" in variant.changes


@functools.cache
def _cost(changes: tuple[tuple[str, Any], ...]) -> tuple[int, float]:
    counted = cost.summary(_resolved(dict(changes), SIZE))
    return counted.parameters["total"], counted.flops_per_token


def costs(variant: Variant) -> str:
    """Returns parameters and training FLOPs compared with the baseline, at GPT-2 small's size."""
    base = {} if _is_architecture(variant) else BASELINES[variant.baseline]
    before, after = (_cost(tuple(changes.items())) for changes in (base, {**base, **variant.changes}))

    def against(old: float, new: float) -> str:
        return f"{new:,.0f}" if new == old else f"{new:,.0f} ({new - old:+,.0f}, {100 * (new / old - 1):+.3g} %)"

    return f"Parameters {against(before[0], after[0])}; training FLOPs per token {against(before[1], after[1])}."


def combined_changes(one: Variant, other: Variant) -> dict[str, Any] | None:
    """Returns the changes of both variants, or None if they set one field to different values."""
    changes = {**BASELINES[one.baseline], **one.changes}
    further = {**BASELINES[other.baseline], **other.changes}
    if any(changes[path] != value for path, value in further.items() if path in changes):
        return None
    return changes | further


@functools.cache
def _refusal(changes: tuple[tuple[str, Any], ...]) -> str:
    try:
        _resolved_fields(dict(changes), SIZE)
    except ConfigError as error:
        return error.problems[0]
    return ""


def alternatives(variant: Variant) -> list[str]:
    """Returns the names of variants that are other choices of the same field."""
    mine = variant.changes or {}
    return [
        other.name
        for other in VARIANTS
        if other is not variant
        and any(
            path in mine and mine[path] != value and path != "objective.kind" for path, value in other.changes.items()
        )
    ]


def exclusions(variant: Variant) -> Iterator[tuple[list[str], str]]:
    """Yields (names of variants, why configs with them and this one are rejected)."""
    reasons: dict[str, list[str]] = {}
    for other in VARIANTS:
        if other is variant or (changes := combined_changes(variant, other)) is None:
            continue
        # Sorted, because each pair is looked up from both sides.
        if reason := _refusal(tuple(sorted(changes.items()))):
            unread = UNREAD.fullmatch(reason)
            reason = (
                reason
                if unread is None
                else f"no effect: {unread[1]}"
                + ("" if unread[1].startswith("it is read") else " does not read what they set")
            )
            reasons.setdefault(reason, []).append(other.name)
    yield from ((names, reason) for reason, names in reasons.items())


def checks(variant: Variant) -> list[str]:
    """Returns what the variant is compared with, and the tolerance."""
    lines = [
        f"`{PARITY[system]}` of transformers, row `{system}` of docs/parity.md: outputs and gradients within "
        f"{TOLERANCE:g}"
        for system in variant.systems
    ]
    lines += [f"{test.reference}, `{test.where}`: within {test.tolerance:g}" for test in variant.tests]
    return lines or ["Nothing that zoo knows of: it comes from a plug-in, which its author tests."]


SECTIONS = ("What it computes", "Paper", "Config", "Shapes", "Cost", "Cannot be combined with", "Checked against")


def sections(variant: Variant) -> dict[str, list[str]]:
    """Returns the lines of every section of the page."""
    instead = alternatives(variant)
    excluded = [f"{', '.join(names)}: {reason}" for names, reason in exclusions(variant)]
    if instead:
        excluded.insert(0, f"{', '.join(instead)}: other choices of the same field")
    return dict(
        zip(
            SECTIONS,
            (
                [computes(variant)],
                papers(variant),
                chosen_by(variant) or ["Nothing to set: every model of this architecture has it."],
                shapes(variant),
                [costs(variant)],
                excluded or ["It can be combined with all other variants."],
                checks(variant),
            ),
            strict=True,
        )
    )


def render(variant: Variant) -> str:
    """Returns the page in Markdown."""
    baseline = {
        "decoder": "a GPT: decoder, pre-norm, LayerNorm, learned positions, multi-head attention, GELU",
        "encoder": "the same as an encoder, trained by masked language modelling",
        "encoder_decoder": "the same as an encoder-decoder, trained by prefix language modelling",
        "elmo": "ELMo, with the default's width and depth",
    }["decoder" if _is_architecture(variant) else variant.baseline]
    text = [f"# {variant.name}", f"A choice of {variant.part}. The baseline is {baseline}."]
    for title, lines in sections(variant).items():
        listed = title not in ("What it computes", "Shapes", "Cost") and len(lines) > 0
        text += [f"## {title}", "\n".join(f"- {line}" for line in lines) if listed else "\n\n".join(lines)]
        if title == "Cost":
            text[-1] += (
                f" (At D = {SIZE['model.dim']}, {SIZE['model.num_layers']} layers, T = {SIZE['data.sequence_length']}.)"
            )
    return "\n\n".join(text) + "\n"


def index() -> str:
    """Returns the list of all pages in Markdown."""
    text = [
        "# Variants",
        "One page for each variant, generated by `python -m zoo.variants docs/variants`; do not edit them by hand. "
        "`zoo describe NAME` prints a page.",
    ]
    for part in dict.fromkeys(variant.part for variant in VARIANTS):
        text.append(f"## {part.capitalize()}")
        text.append(
            "\n".join(
                f"- [{variant.name}]({variant.name}.md): {summary_line(variant)}"
                for variant in VARIANTS
                if variant.part == part
            )
        )
    return "\n\n".join(text) + "\n"


def summary_line(variant: Variant) -> str:
    """Returns a variant in one line: its equation, its choice's meaning, or its docstring."""
    words = [
        configs.field_at(path).choices[value]
        for path, value in variant.chosen.items()
        if configs.field_at(path).choices
    ]
    return variant.equation or (words or computes(variant).split("\n\n"))[0]
