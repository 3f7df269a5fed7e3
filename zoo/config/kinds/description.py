"""Descriptions: what the page about a variant tells beyond its code and its fields."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Paper(NamedTuple):
    """A source, e.g. ("Su et al. 2021", "RoFormer: ...", "arXiv:2104.09864").

    Attributes:
        name: authors and year, as texts cite it.
        title: its title.
        link: its number on arXiv or its address; "" where none is known.
    """

    name: str
    title: str
    link: str = ""

    @property
    def address(self) -> str:
        """The address of its page, or ""."""
        return self.link.replace("arXiv:", "https://arxiv.org/abs/")


@dataclass(frozen=True, kw_only=True)
class Description:
    """The page about a variant (`zoo describe`).

    Attributes:
        name: in commands and file names; that of the kind, with hyphens, if empty.
        part: heading under which it is listed; that of the kind's table if empty.
        needs: further fields that it needs, besides those that choose it.
        baseline: which of `zoo.variants.variant.BASELINES` it changes.
        source: class or function whose docstring gives the equation and the paper,
            "zoo.layers.norm:RMSNorm", or the object itself of a plug-in; the kind's code if None.
        equation: needed if no docstring is about this variant alone.
        paper: needed if neither docstring nor field names it: papers of `zoo.variants.papers` with
            sections and remarks, "Su et al. 2021, eq. 34; GPT-J's code".
        sources: papers that the texts cite and `zoo.variants.papers` lacks.
        details: further formulas and facts, a paragraph each: the slopes, the bucket rule, the size
            of the cache; for a field that is switched off, what is then missing.
        published: results that papers and open experiment logs report, in the units of the source:
            comparisons with another variant, with their table or section where it is known. Sources
            that disagree stand together.
        synonyms: other names, in lower case and with hyphens.
        claims: ids of claims about it that no experiment with a run judges: exact and measured ones.
        picture: what a figure of it shows, such as "mask" or "heads"; "" for none.
    """

    name: str = ""
    part: str = ""
    needs: Mapping[str, Any] = field(default_factory=dict)
    baseline: str = "decoder"
    source: str | Callable[..., Any] | None = None
    equation: str = ""
    paper: str = ""
    sources: tuple[Paper, ...] = ()
    details: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()
    picture: str = ""
