"""Recipes of published systems: each pinned value of a preset with the source of the published one,
`docs/published_recipes.csv`, and the page that is made of them, `docs/published_recipes.md`.

A row of the file is about one item of some presets:

* `presets`: "llama:v2-7b llama:v2-13b", or "llama" for all sizes of `configs/llama.py`;
* `item`: one of `ITEMS`;
* `value`: the item as `rendered` writes it for these presets; of `tokens` the published number;
* `standing`: one of `STANDINGS`;
* `source`: where the value is stated, or what stands in its place.
"""

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from zoo import config as configs
from zoo.config.kinds import OPTIMIZER_KINDS, SCHEDULE_KINDS
from zoo.config.scopes import is_group, scopes_in
from zoo.nested import flatten

COMMAND = "python -m publication recipes"
ROOT = Path(__file__).resolve().parents[1]
DATA, PAGE = ROOT / "docs" / "published_recipes.csv", ROOT / "docs" / "published_recipes.md"
COLUMNS = ("presets", "item", "value", "standing", "source")
STANDINGS = {
    "stated": "the paper or report states it",
    "code": "the authors' code, configuration files, model card or post have it, and the paper is silent",
    "not stated": "neither states it; the source says what stands in its place",
    "differs": "the published value is another one, which the source gives",
    "not checked": "no source was found that can be cited for it",
}
# Sizes whose recipe nobody published.
UNPUBLISHED = ("controls", "translation:multi30k-short", "translation:dates")
# Step counts are rounded, and batches differ a little from the published ones.
TOKENS_TOLERANCE = 0.05


class Pin(NamedTuple):
    """One row of the file; its attributes are the columns."""

    presets: str
    item: str
    value: str
    standing: str
    source: str


def _own_fields(flat: Mapping[str, Any], kind: str, table: Any) -> str:
    own = [
        f"{field.path.partition('.')[2]}={_number(flat[field.path])}" for field in table.fields if field.is_read(flat)
    ]
    return ", ".join([flat[kind], *own])


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _groups(flat: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    scopes = scopes_in(flat)
    return {
        scope.rpartition(".")[2]: {path.rpartition(".")[2]: value for path, value in fields.items()}
        for scope, fields in scopes.items()
        if is_group(scope)
    }


def _has(trait: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda flat: flat["optimizer.kind"] in OPTIMIZER_KINDS.having(trait)


def _always(flat: Mapping[str, Any]) -> bool:
    del flat
    return True


def _optimizer(flat: Mapping[str, Any]) -> str:
    warmup = flat["optimizer.momentum_warmup"]
    return _own_fields(flat, "optimizer.kind", OPTIMIZER_KINDS) + (f", momentum_warmup={warmup}" if warmup else "")


def _decay(flat: Mapping[str, Any]) -> str:
    form, schedule = flat["optimizer.weight_decay_form"], flat["optimizer.weight_decay_schedule"]
    parts = [
        _number(flat["optimizer.weight_decay"]),
        *([] if form == "decoupled" else [form]),
        *([] if schedule == "constant" else [f"falls: {schedule}"]),
        *(f"{name} {_number(own['weight_decay'])}" for name, own in _groups(flat).items() if _only_decay(own)),
    ]
    return ", ".join(parts)


def _only_decay(own: Mapping[str, Any]) -> bool:
    """Returns whether a group of parameters differs in its decay alone."""
    return own.keys() <= {"select", "weight_decay"}


def _dropout(flat: Mapping[str, Any]) -> str:
    return f"{_number(flat['model.dropout'])}, attention {_number(flat['model.attention.dropout'])}"


def _initial_values(flat: Mapping[str, Any]) -> str:
    kernel = flat["model.init.kernel"]
    sublayers = "" if flat["model.ffn.kind"] == "none" else "2 "
    parts = [
        f"{kernel} {_number(flat['model.init.std'])}" if kernel == "normal" else kernel,
        f"embeddings {_number(flat['model.init.embedding_std'])}",
        *([f"outputs over sqrt({sublayers}L)"] if flat["model.init.scale_residual"] else []),
        *(["outputs 0"] if flat["model.init.zero_outputs"] else []),
    ]
    return ", ".join(parts)


def _loss(flat: Mapping[str, Any]) -> str:
    smoothing, z_loss = flat["objective.label_smoothing"], flat["objective.z_loss"]
    return ", ".join(
        f"{name} {_number(value)}" for name, value in (("label smoothing", smoothing), ("z-loss", z_loss)) if value
    )


def _group_settings(flat: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{name}: " + ", ".join(f"{field}={_number(value)}" for field, value in own.items() if field != "select")
        for name, own in _groups(flat).items()
    )


def _tokens(flat: Mapping[str, Any]) -> float:
    return float(flat["training.steps"]) * flat["data.batch_size"] * flat["data.sequence_length"]


class Item(NamedTuple):
    """One part of a recipe.

    Attributes:
        text: writes it for a flat config.
        applies: whether a flat config has it.
    """

    text: Callable[[Mapping[str, Any]], str]
    applies: Callable[[Mapping[str, Any]], bool] = _always


ITEMS = {
    "optimizer": Item(_optimizer),
    "rate": Item(lambda flat: _number(flat["optimizer.learning_rate"])),
    "betas": Item(
        lambda flat: f"{_number(flat['optimizer.beta1'])}, {_number(flat['optimizer.beta2'])}", _has("moments")
    ),
    "epsilon": Item(lambda flat: _number(flat["optimizer.epsilon"]), _has("epsilon")),
    "decay": Item(_decay),
    "clipping": Item(lambda flat: _number(flat["optimizer.clip_norm"])),
    "groups": Item(_group_settings, lambda flat: not all(map(_only_decay, _groups(flat).values()))),
    "schedule": Item(lambda flat: _own_fields(flat, "schedule.kind", SCHEDULE_KINDS)),
    "end": Item(
        lambda flat: (
            _number(flat["schedule.final_fraction"])
            + (
                f", over the last {_number(flat['schedule.decay_fraction'])}"
                if flat["schedule.kind"] in SCHEDULE_KINDS.having("decay_fraction")
                else ""
            )
        ),
        lambda flat: flat["schedule.kind"] in SCHEDULE_KINDS.having("final_fraction"),
    ),
    "warm-up": Item(lambda flat: str(flat["schedule.warmup_steps"])),
    "batch": Item(lambda flat: f"{flat['data.batch_size']} rows of {flat['data.sequence_length']}"),
    "steps": Item(lambda flat: str(flat["training.steps"])),
    "tokens": Item(lambda flat: f"{_tokens(flat):.3g}"),
    "dropout": Item(_dropout),
    "initial values": Item(_initial_values),
    "loss": Item(_loss, lambda flat: bool(_loss(flat))),
}


@cache
def published_configs() -> dict[str, configs.ResolvedConfig]:
    """Returns the resolved config of each size that was published, by "llama:7b"."""
    found = {}
    for file in sorted((ROOT / "configs").glob("*.py")):
        for size in configs.import_file(file, "config file").SIZES:
            name = f"{file.stem}:{size}"
            if file.stem not in UNPUBLISHED and name not in UNPUBLISHED:
                # The vocabulary of a tokenizer that is trained on the text is not known yet.
                vocabulary = 66 if file.stem == "shakespeare_char" else None
                found[name] = configs.resolve(configs.load(f"{file}:{size}"), vocab_size=vocabulary)
    return found


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Returns the config of each size that was published, resolved and flat, by "llama:7b"."""
    return {name: flatten(config) for name, config in published_configs().items()}


def read() -> list[Pin]:
    """Returns the rows of the file."""
    with open(DATA, encoding="utf-8", newline="") as file:
        return [Pin(**row) for row in csv.DictReader(file)]


def named(pin: Pin, names: Iterable[str]) -> list[str]:
    """Returns those of `names` ("llama:7b") that a row is about."""
    given = pin.presets.split()
    return [name for name in names if name in given or name.partition(":")[0] in given]


def problems(pins: Iterable[Pin], flats: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yields a line for each row that is not true of a config, and each item without exactly one row.

    Args:
        pins: rows of the file.
        flats: flat resolved configs by preset.
    """
    rows: Counter[tuple[str, str]] = Counter()
    known = {*flats, *(name.partition(":")[0] for name in flats)}
    for pin in pins:
        where = f"{pin.presets}, {pin.item}"
        if pin.item not in ITEMS:
            yield f"{where}: there is no such item; known are {', '.join(ITEMS)}"
            continue
        if pin.standing not in STANDINGS:
            yield f"{where}: {pin.standing!r} is not one of {', '.join(STANDINGS)}"
        if not pin.source:
            yield f"{where}: no source"
        if unknown := [name for name in pin.presets.split() if name not in known]:
            yield f"{where}: there is no published preset {unknown[0]}"
        for name in named(pin, flats):
            rows[name, pin.item] += 1
            if not ITEMS[pin.item].applies(flats[name]):
                yield f"{name}, {pin.item}: its config has no such item"
            elif not _agrees(pin, flats[name]):
                found = ITEMS[pin.item].text(flats[name])
                yield f"{name}, {pin.item}: pinned is {pin.value}, and the config has {found}"
    for name, flat in flats.items():
        for item, about in ITEMS.items():
            if about.applies(flat) and rows[name, item] != 1:
                yield f"{name}, {item}: {rows[name, item]} rows, and there must be one"


def _agrees(pin: Pin, flat: Mapping[str, Any]) -> bool:
    if pin.item == "tokens":
        return abs(_tokens(flat) / float(pin.value) - 1) <= TOKENS_TOLERANCE
    return pin.value == ITEMS[pin.item].text(flat)


def page() -> str:
    """Returns the page in Markdown."""
    pins = read()
    systems: dict[str, list[Pin]] = {}
    for pin in pins:
        systems.setdefault(pin.presets.partition(":")[0].partition(" ")[0], []).append(pin)
    counts = Counter(pin.standing for pin in pins)
    text = [
        "# Published recipes",
        "The recipe of every preset, with the source of each value: optimizer, rate, decay of the moments, epsilon, "
        "weight decay, clipping, schedule and its end, warm-up, batch, steps, tokens, dropout and initial values. "
        "`tests/published/test_recipes.py` compares each value with what the preset resolves to. The page is written "
        f"by `{COMMAND}` from [published_recipes.csv](published_recipes.csv); shapes are in the docstrings of "
        "`configs/`.",
        "\n".join(f"- **{name}** ({counts[name]} rows): {meaning}" for name, meaning in STANDINGS.items()),
        "`rate` is the peak; `end` is the last rate as a share of it; `clipping` is the largest norm of the gradient, "
        "0 for none; `batch` counts rows and the tokens of one; `dropout` is that of embedding and sublayers, and that "
        "of attention's weights; `initial values` are standard deviations, L the number of layers. Epsilon is 1e-8, "
        "the betas 0.9 and 0.999 and dropout 0 where nothing else is known.",
        ", ".join(f"[{name}](#{name})" for name in systems),
    ]
    for name, rows in systems.items():
        text += [f"## {name}", "\n".join(_table(name, rows))]
    return "\n\n".join(text) + "\n"


def _table(system: str, pins: Iterable[Pin]) -> Iterator[str]:
    """Yields the rows about a system; items of the same sizes with the same source share one."""
    yield "| sizes | recipe | standing | source |"
    yield "| --- | --- | --- | --- |"
    together: dict[tuple[str, str, str], list[str]] = {}
    for pin in sorted(pins, key=lambda pin: list(ITEMS).index(pin.item)):
        together.setdefault((pin.presets, pin.standing, pin.source), []).append(f"{pin.item} {pin.value}")
    for (names, standing, source), parts in together.items():
        sizes = "all" if names == system else names.replace(f"{system}:", "").replace(" ", ", ")
        yield f"| {sizes} | {'; '.join(parts)} | {standing} | {source} |"


def write() -> Path:
    """Writes the page and returns its path."""
    PAGE.write_text(page(), encoding="utf-8")
    return PAGE
