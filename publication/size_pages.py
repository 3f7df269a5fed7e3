"""The page of the site with the published sizes of all families, which `docs/.site/hooks.py` adds."""

from collections.abc import Mapping
from dataclasses import asdict

from publication.published_recipes import published_configs
from zoo.cli.size_table import COLUMNS, LEGEND, cells
from zoo.config import ResolvedConfig
from zoo.models.model_sizes import model_sizes


def page(configs: Mapping[str, ResolvedConfig] | None = None) -> str:
    """Returns the page in Markdown: a table for each family.

    Args:
        configs: resolved configs by "llama:7b"; by default all that were published.
    """
    families: dict[str, list[list[str]]] = {}
    for name, config in (published_configs() if configs is None else configs).items():
        family, _, size = name.partition(":")
        families.setdefault(family, []).append([size, *cells(asdict(model_sizes(config))).values()])
    links = ", ".join(f"[{family}](#{family})" for family in families)
    parts = ["# Published sizes", f"`zoo config sizes llama mistral` prints these tables. {LEGEND}", links]
    for family, rows in families.items():
        table = [["size", *COLUMNS], ["---", *["---:"] * len(COLUMNS)], *rows]
        parts += [f"## {family}", "\n".join(f"| {' | '.join(row)} |" for row in table)]
    return "\n\n".join(parts) + "\n"
