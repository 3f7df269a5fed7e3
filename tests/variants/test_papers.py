"""Papers of variants: each is in the table, with title and link, and a variant names its own first."""

import re

import pytest

from publication.variants import COMMAND, PAGE, page
from zoo.config.kinds import Description, Paper
from zoo.variants import VARIANTS
from zoo.variants.papers import PAPERS, cited
from zoo.variants.variant import Variant
from zoo.variants.variant_page import NAMED, papers, references

CONTROL = "a control"
BY_NAME = {variant.name: variant for variant in VARIANTS}


def test_every_reference_of_a_variant_is_a_control_or_in_the_table():
    for variant in VARIANTS:
        assert references(variant), variant.name
        for reference in references(variant):
            found, rest = cited(reference), reference
            for paper in found:
                rest = rest.replace(paper.name, "")
            assert not NAMED.search(rest), f"{variant.name} cites {reference}, which zoo/variants/papers.py lacks"
            assert found or reference == CONTROL, f"{variant.name}: {reference} names no paper"


def test_every_paper_has_a_title_and_a_link_and_is_cited_once():
    names = [paper.name for paper in PAPERS]
    assert len(set(names)) == len(names)
    assert all(paper.title for paper in PAPERS)
    assert all(re.fullmatch(r"arXiv:\d{4}\.\d{4,5}|https://\S+", paper.link) for paper in PAPERS)
    used = {paper.name for variant in VARIANTS for reference in references(variant) for paper in cited(reference)}
    assert set(names) == used


@pytest.mark.parametrize(
    ("name", "papers_named"),
    [
        ("latent", ["DeepSeek-AI 2024"]),
        ("rope-dynamic", ["Peng et al. 2023"]),
        ("span-corruption", ["Raffel et al. 2020"]),
        ("rope", ["Su et al. 2021", "Barbero et al. 2024", "Peng et al. 2023"]),
    ],
)
def test_papers_are_those_of_the_variant_and_not_of_what_it_needs(name, papers_named):
    found = [paper.name for reference in references(BY_NAME[name]) for paper in cited(reference)]
    assert found == papers_named


def test_papers_are_shown_with_title_and_link():
    assert papers(BY_NAME["unit-offset"]) == [
        "Gemma Team 2024 (Gemma): Gemma: Open Models Based on Gemini Research and Technology, "
        "[arXiv:2403.08295](https://arxiv.org/abs/2403.08295)"
    ]
    # The name of one paper begins with that of the other.
    assert [paper.link for paper in cited("Gemma Team 2024 (Gemma 2), section 2")] == ["arXiv:2408.00118"]
    assert not cited("Shazeer 20201, XShazeer 2020")
    assert "[github.com/karpathy/nanochat](https://github.com/karpathy/nanochat)" in papers(BY_NAME["x0-shortcut"])[0]


def test_a_description_may_bring_its_own_papers():
    own = Paper("Doe 2026", "A Norm")
    described = Description(paper="Doe 2026, eq. 1; Ba et al. 2016", sources=(own,))
    variant = Variant(**{**vars(described), "name": "mine", "part": "normalisation"})
    (line,) = papers(variant)
    assert line.startswith("Doe 2026, eq. 1; Ba et al. 2016: A Norm; Layer Normalization, [")


def test_the_committed_list_of_variants_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), f"run: {COMMAND}"
