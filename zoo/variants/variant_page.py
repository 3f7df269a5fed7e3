"""The page about a variant: equation, papers, code, config, claims, cost, exclusions and tests."""

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import zoo
from zoo import config as configs
from zoo.config.fields_of_sizes import resolved_fields
from zoo.errors import ConfigError
from zoo.variants.comparisons import comparisons_of
from zoo.variants.computed import computed
from zoo.variants.docstrings import docstring, module_and_name
from zoo.variants.notation import legend
from zoo.variants.papers import cited
from zoo.variants.table import VARIANTS
from zoo.variants.variant import BASELINES, SIZE, Variant, is_architecture

# "Su et al. 2021, eq. 34" in parentheses; a reference contains a year.
REFERENCE = re.compile(r"\(([^()]*?[A-Z][^()]*?\b(?:19|20)\d\d\b[^()]*)\)")
NAMED = re.compile(
    r"[A-Z][\w'-]+(?: et al\.| & [A-Z][\w'-]+)? (?:19|20)\d\d(?:, (?:section|eq\.|figure|table) \d(?:[\d.]*\d)?)?"
)
HTTPS = "https://"
# The error for a field without effect; the group is the reason.
UNREAD = re.compile(r".* has no effect: (.*?)( does not read it)?; leave it .*")


def computes(variant: Variant) -> str:
    """Returns the equation and its explanation: the table's own, or the docstring of the source."""
    if variant.equation:
        return variant.equation
    described = docstring(variant.source).split("\n\nArgs:")[0].split("\n\nAttributes:")[0]
    return "\n\n".join(
        " ".join(paragraph.split()) if "\n    " not in paragraph else paragraph for paragraph in described.split("\n\n")
    )


def chosen_by(variant: Variant) -> list[str]:
    """Returns a line for each field that makes the variant, including those of the baseline."""
    changes = {**BASELINES[variant.baseline], **variant.changes, **dict(variant.chosen)}
    lines = []
    for path, value in changes.items():
        field = configs.field_at(path)
        default = "the default" if value == field.default else f"default {_text(field.default) or 'none'}"
        lines.append(f"`{path}={_text(value)}` ({default}): {_meaning(path, value)}")
    return lines


def setting(variant: Variant) -> str:
    """Returns the fields that choose it, and those that it needs: "model.norm.kind=rmsnorm"."""
    fields = {**BASELINES[variant.baseline], **variant.needs, **variant.chosen}
    return " ".join(f"{path}={_text(value)}" for path, value in fields.items())


def _meaning(path: str, value: Any) -> str:
    field = configs.field_at(path)
    return (field.choices or {}).get(value, field.meaning) if isinstance(value, str) else field.meaning


def references(variant: Variant) -> list[str]:
    """Returns the references: its own, or those in its docstring and its choice, but not those of the
    fields that it only needs.
    """
    if variant.paper:
        return [variant.paper]
    text = " ".join([*(_meaning(*choice) for choice in variant.chosen.items()), computes(variant)])
    found = list(dict.fromkeys(REFERENCE.findall(text) or NAMED.findall(text)))
    named = {paper: NAMED.findall(paper) for paper in found}
    return [
        paper
        for paper in found
        if not any(
            _says_more(named[other], named[paper])
            and (set(named[other]) != set(named[paper]) or len(other) > len(paper))
            for other in found
        )
    ]


def papers(variant: Variant) -> list[str]:
    """Returns the references, each with the titles and links of its papers."""
    lines = []
    for reference in references(variant):
        found = [
            f"{paper.title}{f', [{paper.link.removeprefix(HTTPS)}]({paper.address})' * bool(paper.link)}"
            for paper in cited(reference, variant.sources)
        ]
        lines.append(": ".join(filter(None, (reference, "; ".join(found)))))
    return lines


def _says_more(references: list[str], others: list[str]) -> bool:
    """Returns whether the references contain all the others, perhaps with a section."""
    return bool(others) and all(any(reference.startswith(other) for reference in references) for other in others)


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
        resolved_fields(dict(changes), SIZE)
    except ConfigError as error:
        return error.problems[0]
    return ""


def _own(variant: Variant) -> dict[str, Any]:
    """Returns the fields that a variant sets itself, or leaves at the baseline's choice."""
    return {**variant.chosen, **variant.changes}


def alternatives(variant: Variant) -> list[str]:
    """Returns the names of variants that are other choices of the same field.

    An objective counts only where it is the choice itself: many variants set it because they need it.
    """
    mine = _own(variant)
    return [
        other.name
        for other in VARIANTS
        if other is not variant
        and any(
            path in mine and mine[path] != value and (path != OBJECTIVE or path in variant.chosen.keys() & other.chosen)
            for path, value in _own(other).items()
        )
    ]


def _with_objective_of(variant: Variant, other: Variant) -> dict[str, Any] | None:
    """Returns the changes of both with the objective that one chooses; None if they differ in more."""
    chosen = [each.chosen[OBJECTIVE] for each in (variant, other) if OBJECTIVE in each.chosen]
    if len(chosen) != 1:
        return combined_changes(variant, other)
    ours, theirs = ({**BASELINES[each.baseline], **each.changes, OBJECTIVE: chosen[0]} for each in (variant, other))
    return None if any(ours[path] != value for path, value in theirs.items() if path in ours) else ours | theirs


def exclusions(variant: Variant) -> Iterator[tuple[list[str], str]]:
    """Yields (names of variants, why configs with them and this one are rejected)."""
    reasons: dict[str, list[str]] = {}
    for other in VARIANTS:
        if other is variant or (changes := _with_objective_of(variant, other)) is None:
            continue
        # Sorted, because each pair is looked up from both sides.
        if reason := _refusal(tuple(sorted(changes.items()))):
            unread = UNREAD.fullmatch(reason)
            reason = (
                reason
                if unread is None
                else f"no effect: {unread[1]}{' does not read what they set' if unread[2] else ''}"
            )
            reasons.setdefault(reason, []).append(other.name)
    yield from ((names, reason) for reason, names in reasons.items())


OBJECTIVE = "objective.kind"
# Modules that read the fields of variants that are no class of their own, by the path of a field.
READERS = {
    "model.norm.placement": "zoo.layers.block",
    "model.init.zero_outputs": "zoo.layers.parameter",
    "model.attention.input_norm": "zoo.layers.block",
    "model.attention.exclusive": "zoo.layers.attention.head_options",
    "model.attention.gate": "zoo.layers.attention.head_options",
    "model.attention.value_mix_learned": "zoo.layers.attention.value_mixing",
    "model.position.kind": "zoo.layers.position.base",
    "model.position.offset": "zoo.layers.position.absolute",
    "model.position.endpoint": "zoo.layers.position.absolute",
    "model.position.fraction": "zoo.layers.position.rope",
    "model.position.kept_frequencies": "zoo.layers.position.rope",
    "model.norm": "zoo.layers.norm",
    "model.residual": "zoo.layers.block",
    "model.parallel": "zoo.layers.block",
    "model.position": "zoo.layers.position",
    "model.attention": "zoo.layers.attention.softmax_attention",
    "model.ffn": "zoo.layers.feedforward",
    "model.layers": "zoo.models.stack",
    "model.embedding": "zoo.models.language_model",
    "model.tie_embeddings": "zoo.models.head",
    "model.head": "zoo.models.head",
    "model.generator": "zoo.models.discriminator",
    "model.architecture": "zoo.models.architectures",
    "objective": "zoo.objectives.cross_entropy",
}


def code_of(variant: Variant) -> str:
    """Returns the class or function that computes the variant, or the module that reads its fields,
    as a link from docs/variants.
    """
    if variant.source is not None:
        module, name = module_and_name(variant.source)
        name = f"`{name}` in "
    else:
        paths = [*dict(variant.chosen), *reversed(variant.changes)]
        module, name = next((READERS[key] for key in READERS if paths[0].startswith(key)), "zoo.models"), ""
    package = Path(zoo.__file__).parents[1] / module.replace(".", "/")
    file = f"{module.replace('.', '/')}/__init__.py" if package.is_dir() else f"{module.replace('.', '/')}.py"
    return f"{name}[{file}](../../{file})" if module.startswith("zoo.") else f"{name}{module}"


SECTIONS = (
    *("What it computes", "Paper", "Code", "Config", "Used by", "Shapes", "Cost", "Inference"),
    *("Cannot be combined with", "Checked against"),
)
# Sections that a page has if there is something to say.
OPTIONAL = ("Claims and experiments", "What papers report")
# Sections that are text; the others are lists.
TEXTS = ("What it computes", "Code", "Used by", "Shapes", "Cost", "Inference")


def sections(variant: Variant, claims: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Returns the lines of every section of the page, without sections that are empty.

    Args:
        variant: the variant.
        claims: lines about its claims and experiments (default: `experiments_on`).
    """
    instead = alternatives(variant)
    excluded = [f"{', '.join(names)}: {reason}" for names, reason in exclusions(variant)]
    if instead:
        excluded.insert(0, f"{', '.join(instead)}: other choices of the same field")
    lines, equation = computed(variant), [computes(variant), *variant.details]
    if letters := legend(" ".join([*equation, *lines.shapes])):
        equation.append(f"{letters}.")
    users = ", ".join(f"[{name}](../../configs/{name}.py)" for name in lines.configs)
    size = f"(At D = {SIZE['model.dim']}, {SIZE['model.num_layers']} layers, T = {SIZE['data.sequence_length']}.)"
    found = {
        "What it computes": equation,
        "Paper": papers(variant),
        "Claims and experiments": list(lines.experiments if claims is None else claims),
        "What papers report": list(variant.published),
        "Code": [f"{code_of(variant)}."],
        "Config": chosen_by(variant) or ["Nothing to set: every model of this architecture has it."],
        "Used by": [f"The configs {users}." if users else "No published config uses it in its default size."],
        "Shapes": lines.shapes,
        "Cost": [f"{lines.cost} {size}"],
        "Inference": lines.inference,
        "Cannot be combined with": excluded or ["No other variant is refused with it."],
        "Checked against": comparisons_of(variant),
    }
    return {title: lines for title, lines in found.items() if lines}


def render(variant: Variant, claims: Sequence[str] | None = None, picture: str = "") -> str:
    """Returns the page in Markdown.

    Args:
        variant: the variant.
        claims: as for `sections`.
        picture: path of its picture from the page.
    """
    layers = "pre-norm, LayerNorm, learned positions, multi-head attention, GELU"
    baseline = {
        "decoder": f"a GPT: decoder, {layers}",
        "encoder": "an encoder with the layers of GPT-2, trained by masked language modelling: " + layers,
        "encoder_decoder": "an encoder-decoder with the layers of GPT-2, trained by prefix language modelling: "
        + layers,
        "elmo": "ELMo, with the default's width and depth",
    }["decoder" if is_architecture(variant) else variant.baseline]
    text = [f"# {variant.name}", f"A choice of {variant.part}. The baseline is {baseline}."]
    for title, lines in sections(variant, claims).items():
        text += [f"## {title}", "\n\n".join(lines) if title in TEXTS else "\n".join(f"- {line}" for line in lines)]
        if title == "What it computes" and picture:
            text.append(f"![{variant.name}, drawn from its config]({picture})")
    return "\n\n".join(text) + "\n"


def summary_line(variant: Variant) -> str:
    """Returns a variant in one line: its equation, its choice's meaning, or its docstring."""
    words = [
        configs.field_at(path).choices[value]
        for path, value in variant.chosen.items()
        if configs.field_at(path).choices
    ]
    return variant.equation or (words or computes(variant).split("\n\n"))[0]
