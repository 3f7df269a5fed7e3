"""The kind of attention whose heads are of two kinds, side by side."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind
from zoo.config.kinds.state_kinds import KIND, STATE_KINDS

AT = "model.attention."
# A mixer that reads what the first layer publishes would need it of that part of the layer.
PARTS = {kind.name: kind for kind in STATE_KINDS if "state" in kind.traits and "reads_first" not in kind.traits}


def with_state(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a flat config as the mixer with a state sees it."""
    part = {KIND: flat[f"{AT}state_kind"], f"{AT}num_heads": flat[f"{AT}state_heads"]}
    return {**flat, **part, f"{AT}head_dim": flat[f"{AT}state_dim"]}


def _derive(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    heads, head_dim = flat[f"{AT}num_heads"], flat[f"{AT}head_dim"]
    sizes = {f"{AT}state_heads": heads, f"{AT}state_dim": head_dim}
    found = {path: value if flat[path] == AUTO else flat[path] for path, value in sizes.items()}
    values, states = f"{AT}value_dim", found[f"{AT}state_heads"]
    if flat[f"{AT}mixing"] == "normed" and head_dim != AUTO and flat[values] == AUTO:
        found[values] = max(1, heads * head_dim // states)
    part = with_state({**flat, **found})
    derived = PARTS[part[KIND]].derive(part) if part[KIND] in PARTS else {}
    return {**derived, **{path: value for path, value in found.items() if value != AUTO}}


def _problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    part = with_state(flat)
    if AUTO in (flat[f"{AT}head_dim"], part[f"{AT}head_dim"]):
        return  # Heads that do not divide the width are a problem of attention.
    for line in PARTS[part[KIND]].problems(part, architecture):
        named = line.replace(f"{AT}num_heads", f"{AT}state_heads").replace(f"{KIND}=", f"{AT}state_kind=")
        yield f"{KIND}=parallel_heads: {named}"
    heads, width, states, values = (
        flat[f"{AT}{name}"] for name in ("num_heads", "head_dim", "state_heads", "value_dim")
    )
    if flat[f"{AT}mixing"] == "normed" and heads * width != states * values:
        yield (
            f"{AT}mixing=normed adds what the heads of both parts give: {AT}num_heads * head_dim = {heads * width}, "
            f"and {AT}state_heads * value_dim = {states * values}; make them equal, or use {AT}mixing=sum"
        )


PARALLEL_HEADS = Kind(
    KIND,
    "parallel_heads",
    "heads of softmax attention beside heads with a state, which read the same input (Hymba, Dong et al. 2024)",
    frozenset({"heads", "positions", "window", "documents", "scores", "kernels", "distribution"}),
    (
        Field(
            f"{AT}state_kind",
            "mamba2",
            str,
            "mixer with a state that is beside softmax attention",
            {name: kind.meaning for name, kind in PARTS.items()},
            added=True,
        ),
        Field(
            f"{AT}state_heads",
            AUTO,
            int,
            "number of states beside the heads of softmax attention",
            minimum=1,
            auto="num_heads",
            added=True,
        ),
        Field(
            f"{AT}state_dim",
            AUTO,
            int,
            "width of the queries and keys of these states",
            minimum=1,
            auto="head_dim",
            added=True,
        ),
        Field(
            f"{AT}mixing",
            "normed",
            str,
            "how what both parts give becomes one vector",
            {
                "normed": "each is normed and times a learned vector, and the sum has one output projection (Hymba)",
                "sum": "each has an output projection of its own, and the results are added (Falcon-H1)",
            },
            added=True,
        ),
    ),
    derive=_derive,
    problems=_problems,
    code="zoo.layers.attention.parallel_heads:ParallelHeads",
    description=Description(
        needs={"model.attention.mixing": "normed"},
        details=(
            "A cache holds 2 G K numbers of each token for softmax attention, and the states of one size. With "
            "`model.attention.mixing=normed` the values of the states are by default as wide as those of attention.",
            "Hymba has states of Mamba-1, tokens of its own before each text, windows in most layers, and keys and "
            "values that two neighbouring layers share.",
        ),
        synonyms=("hymba", "hybrid-heads"),
    ),
)
