"""Every variant has a complete page whose statements are true."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from publication.variants import computed_text
from zoo import config as configs
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, unstack_layers
from zoo.errors import ConfigError
from zoo.layers.attention.key_values import KeyValues
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, split
from zoo.variants import VARIANTS
from zoo.variants.computed import FILE, compute, stored
from zoo.variants.notation import legend
from zoo.variants.usage import shipped_configs, used_by
from zoo.variants.variant import BASELINES, has_variant
from zoo.variants.variant_cost import inference, resolved
from zoo.variants.variant_page import OPTIONAL, SECTIONS, UNREAD, combined_changes, sections

ROOT = Path(__file__).parents[2]
# Choices of execution and initialization, which change no equation.
NO_VARIANTS = {
    "model.dtype",
    "model.remat",
    "model.scan_layers",
    "model.attention.implementation",
    "model.init.kernel",
    "model.init.scale_residual",
    # An expert is a feed-forward layer, and its kinds are variants of model.ffn.kind.
    "model.ffn.experts.kind",
    # Likewise, states beside softmax attention are of a kind that is a variant of its own.
    "model.attention.state_kind",
    # It concerns the optimizer as much as the model; see docs/optimizers.md.
    "model.parametrization",
}
# Fields whose choice "none" is a variant, because other models have that part.
NONE_IS_A_VARIANT = {"model.norm.kind", "model.position.kind"}
BY_NAME = {variant.name: variant for variant in VARIANTS}


# `make docs` renders all pages.
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(
            variant,
            id=variant.name,
            marks=()
            if variant.name in ("rmsnorm", "latent", "local-global", "elmo")
            else pytest.mark.slow(reason="`make docs` renders all pages"),
        )
        for variant in VARIANTS
    ],
)
def test_pages_have_every_section(variant):
    found = sections(variant)
    assert tuple(title for title in found if title not in OPTIONAL) == SECTIONS
    for title, lines in found.items():
        assert lines, title
        assert all(line.strip() for line in lines), title
    assert "__init__.py" not in found["Code"][0]


def test_every_model_choice_and_switch_is_a_variant():
    covered = {
        (path, value)
        for variant in VARIANTS
        for changes in (BASELINES[variant.baseline], variant.changes, variant.chosen)
        for path, value in changes.items()
    }
    for field in configs.FIELDS:
        if not field.path.startswith(("model.", "objective.kind")) or field.path in NO_VARIANTS:
            continue
        # The choice "none" usually is the baseline, and only sometimes a variant.
        names = {name for name in field.choices or () if name != "none" or field.path in NONE_IS_A_VARIANT}
        switched = {not field.default} if field.kind is bool else set()
        assert {(field.path, value) for value in names | switched} <= covered, field.path


def test_listed_conflicts_match_config_resolution():
    assert any(
        "alibi" in line
        for line in sections(next(v for v in VARIANTS if v.name == "performer"))["Cannot be combined with"]
    )
    for one, other, refused in (
        ("performer", "sinks", True),
        ("rope", "qk-norm", False),
        ("deepnorm", "no-residual", True),
        ("parallel", "post", True),
        ("window", "alibi", False),
        ("global-tokens", "shaw", True),
    ):
        changes = combined_changes(BY_NAME[one], BY_NAME[other])
        named = any(
            other in line.split(":")[0].split(", ") for line in sections(BY_NAME[one])["Cannot be combined with"]
        )
        assert named == refused
        config = configs.override(configs.default(), changes | {"model.vocab_size": 300})
        if refused:
            with pytest.raises(ConfigError):
                configs.resolve(config)
        else:
            configs.resolve(config)


def test_baseline_choices_list_their_conflicts():
    for name, other in (("gelu", "swiglu"), ("swiglu", "gelu"), ("multi-token", "encoder"), ("causal-lm", "encoder")):
        lines = sections(BY_NAME[name])["Cannot be combined with"]
        assert any(other in line.split(":")[0].split(", ") for line in lines), (name, other)


def test_no_effect_errors_are_recognised():
    with pytest.raises(ConfigError) as refused:
        configs.resolve(configs.override(configs.default(), {"model.position.theta": 5.0}))
    assert UNREAD.fullmatch(refused.value.problems[0])


def test_has_variant_and_used_by():
    llama = shipped_configs()["llama"]
    assert {name for name, variant in BY_NAME.items() if has_variant(llama, variant)} >= {"rope", "rmsnorm", "swiglu"}
    assert not any(has_variant(llama, BY_NAME[name]) for name in ("gelu", "grouped-query", "window", "post", "encoder"))
    # One field gives two variants: causal and symmetric windows.
    assert used_by(BY_NAME["symmetric-window"]) == ["longformer", "modernbert"]
    assert "mistral" in used_by(BY_NAME["window"])
    assert "longformer" not in used_by(BY_NAME["window"])


def test_legend_explains_symbols_that_the_text_does_not_define():
    assert legend("[D, G K] of x^T, in Tokens") == (
        "D: width of the model; G: heads with keys and values of their own; K: width of a head"
    )
    assert legend("x W_q") == "W_q: learned weights; x: a token's vector at this point in the model"
    assert not legend("a DK of T5, Canon-B, B = `batch` and K(x)")
    assert legend("the attention weight p_s = softmax(scale * q . k)").startswith("K: width of a head; scale: 1 / sqrt")


@pytest.mark.parametrize("name", ["multi-head", "grouped-query", "local-global"])
def test_cached_numbers_match_the_cache_arrays(name):
    sizes = {"model.dim": 16, "model.num_layers": 2, "model.attention.num_heads": 8, "model.vocab_size": 300}
    changes = {path: 4 if "window" in path and value else value for path, value in BY_NAME[name].changes.items()}
    config = resolved({**changes, "model.dtype": "bfloat16"}, {**sizes, "data.sequence_length": 12})
    module = make_model(config)
    decoder = IncrementalDecoder(split(module)[0], False, config.model.num_layers, 12, config.model.vocab_size, True)

    def cache():
        weights = unstack_layers(initialise(module, 0), {}, "bfloat16")
        return decoder.prefill(weights, PaddedTokens(jnp.zeros((1, 12), int), jnp.array([12])))[0].layers

    cache_entries = [
        entry for layer in jax.eval_shape(cache) for entry in layer.values() if isinstance(entry, KeyValues)
    ]
    assert cost.cached_numbers(config.model, 12) == sum(leaf.size for leaf in jax.tree.leaves(cache_entries))
    assert cache_entries


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("multi-token", r"per token [\d,]+\. The cache .* 2 G K L numbers per token\.$"),
        ("canon", "per token, and the last 3 vectors that every convolution read"),
        ("token-shift", "per token, and the last vector that every convolution read"),
        ("forgetting", "and 12 sums of log gates in float32 for each token and layer"),
    ],
)
def test_inference_cost_counts_the_whole_cache(name, pattern):
    assert re.search(pattern, " ".join(inference(BY_NAME[name])))


def test_computed_lines_are_kept_for_every_variant():
    assert list(stored()) == [variant.name for variant in VARIANTS], "run: python -m publication variants"


@pytest.mark.parametrize("name", ["rmsnorm", "latent", "local-global", "elmo"])
def test_kept_lines_are_those_that_are_computed(name):
    assert stored()[name] == compute(BY_NAME[name]), "run: python -m publication variants"


@pytest.mark.promise(reason="the cost of every variant is computed")
def test_the_file_of_computed_lines_is_up_to_date():
    """It depends on the layers, the configs and the experiments."""
    assert FILE.read_text(encoding="utf-8") == computed_text(), "run: python -m publication variants"
