"""Each value of a published recipe, and its source: `docs/published_recipes.csv`. Configs are only
resolved, so JAX is not needed.
"""

import pytest

from publication.published_recipes import COMMAND, ITEMS, PAGE, STANDINGS, page, presets, problems, read


def test_every_item_of_every_published_preset_is_pinned_and_true():
    assert not list(problems(read(), presets()))


def test_the_committed_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), f"run: {COMMAND}"


# One preset and a change of its config for each item.
CHANGES = {
    "optimizer": ("llama:7b", {"optimizer.kind": "adopt"}),
    "rate": ("llama:7b", {"optimizer.learning_rate": 3.1e-4}),
    "betas": ("llama:7b", {"optimizer.beta2": 0.999}),
    "epsilon": ("llama:v2-70b", {"optimizer.epsilon": 1e-8}),
    "decay": ("modernbert:base", {"optimizer.weight_decay_form": "decoupled"}),
    "clipping": ("roberta:base", {"optimizer.clip_norm": 1.0}),
    "groups": ("modded:small", {"optimizer.group.head.rate_factor": 0.2}),
    "schedule": ("longformer:base", {"schedule.power": 2.0}),
    "end": ("smollm3:3b", {"schedule.decay_fraction": 0.2}),
    "warm-up": ("bert:large", {"schedule.warmup_steps": 0}),
    "batch": ("t5:small", {"data.sequence_length": 567}),
    "steps": ("gpt1:base", {"training.steps": 999_999}),
    "tokens": ("gpt1:base", {"training.steps": 1_100_000}),
    "dropout": ("albert:xxlarge", {"model.attention.dropout": 0.1}),
    "initial values": ("bloom:560m", {"model.init.std": 0.02}),
    "loss": ("olmo2:7b", {"objective.z_loss": 1e-4}),
}


@pytest.mark.parametrize("item", ITEMS)
def test_a_changed_value_is_found(item):
    name, change = CHANGES[item]
    flat = presets()[name]
    assert change.keys() <= flat.keys()
    assert f"{name}, {item}: pinned is" in "\n".join(problems(read(), {name: flat | change}))


def test_missing_wrong_and_superfluous_rows_are_found():
    pins, flats = read(), presets()
    pin = next(pin for pin in pins if (pin.presets, pin.item) == ("mistral", "epsilon"))
    others = [other for other in pins if other != pin]
    assert list(problems(others, flats)) == ["mistral:7b, epsilon: 0 rows, and there must be one"]
    assert list(problems([*pins, pin._replace(presets="mistral:7b")], flats)) == [
        "mistral:7b, epsilon: 2 rows, and there must be one"
    ]
    assert list(problems([*others, pin._replace(standing="guessed", source="")], flats)) == [
        f"mistral, epsilon: 'guessed' is not one of {', '.join(STANDINGS)}",
        "mistral, epsilon: no source",
    ]
    assert list(problems([*pins, pin._replace(presets="mistral:8b")], flats)) == [
        "mistral:8b, epsilon: there is no published preset mistral:8b"
    ]
    assert "t5:small, betas: its config has no such item" in problems(
        [*pins, pin._replace(presets="t5", item="betas")], flats
    )
    assert next(problems([pin._replace(item="momentum")], {})).startswith("mistral, momentum: there is no such item")
