"""Presets shrink a config: they change its size and keep the choices that make it a variant."""

import functools
from pathlib import Path

import pytest

from zoo import config as configs
from zoo.config.presets import PRESETS
from zoo.config.scopes import split_path
from zoo.nested import flatten

ROOT = Path(__file__).parents[2]
SPECS = [
    f"{path}:{size}"
    for path in sorted((ROOT / "configs").glob("*.py"))
    for size in configs.import_file(path, "config file").SIZES
]
# The fields that a preset may change, in scopes too.
SIZE_FIELDS = {
    "model.ffn.experts.number",
    "model.ffn.experts.per_token",
    "model.ffn.experts.groups",
    "model.ffn.experts.chosen_groups",
    "model.ffn.experts.shared_dim",
    "model.attention.latent_dim",
    "model.attention.rotary_dim",
    "model.attention.query_latent_dim",
    "model.attention.decay_rank",
    "model.dim",
    "model.num_layers",
    "mesh.fsdp",
    "mesh.expert",
    # Counts updates of the budget.
    "optimizer.ademamix_warmup",
    "model.vocab_size",
    "model.vocab_multiple",
    "model.layers.pattern",
    "model.layers.distinct",
    "model.layers.prelude",
    "model.layers.coda",
    "model.layers.eval_loops",
    "model.embedding.dim",
    "model.generator.num_layers",
    "model.position.max_length",
    "model.position.clip",
    # Changes so that a whole number of pairs of a head is rotated.
    "model.position.fraction",
    "model.attention.num_heads",
    "model.attention.num_kv_heads",
    "model.attention.num_query_heads",
    "model.attention.cross_kv_heads",
    "model.attention.dilations",
    "model.attention.head_dim",
    "model.attention.value_dim",
    "model.attention.key_heads",
    "model.attention.state_heads",
    "model.attention.state_dim",
    "model.attention.scale",
    "model.attention.window",
    "model.attention.features",
    "model.attention.redraw_every",
    "model.ffn.hidden_dim",
    "model.ffn.multiple_of",
    "model.init.embedding_std",
    "model.dtype",
    "model.scan_layers",
    "model.remat",
    "model.elmo.characters",
    "model.elmo.character_dim",
    "model.elmo.filters",
    "model.elmo.cell_dim",
    "objective.prefix_length",
    "objective.chunk_tokens",
    "objective.sampled_softmax",
    "optimizer.adafactor_min_factored",
    "optimizer.learning_rate",
    "schedule.hold",
    "schedule.warmup_steps",
}
ENCODER_DECODER = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}


@functools.cache
def loaded(spec):
    """Returns a shipped config, as it is written and resolved."""
    config = configs.load(spec)
    return config, configs.resolve(config, vocab_size=90)


def hidden_width(config):
    return configs.kinds.hidden_width(**{name: config.model.ffn[name] for name in configs.kinds.WIDTH_FIELDS})


def shrink(changes, preset="tiny", base=None):
    """Resolves the default config, or `base`, with `changes` at the size of `preset`."""
    return configs.resolve(configs.shrink(configs.override(base or configs.default(), changes), preset))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: Path(spec).name)
def test_presets_change_only_size_fields_of_a_shipped_config(spec, preset):
    config, full = loaded(spec)
    small = configs.resolve(configs.shrink(config, preset))
    changed = {parts[1] if (parts := split_path(path)) else path for path in configs.difference(full, small)}
    assert {path for path in changed if not path.startswith(("data.", "training."))} <= SIZE_FIELDS
    assert set(flatten(full)) - set(flatten(small)) <= {path for path in flatten(full) if split_path(path)}
    assert set(small.model.layers.pattern) == set(full.model.layers.pattern)
    assert small.model.dim == PRESETS[preset]["dim"]
    assert small.training.steps == PRESETS[preset]["steps"]
    # A resolved config, such as a run's config.json, shrinks to the same.
    assert configs.resolve(configs.shrink(full, preset)) == small


def test_the_slow_average_of_ademamix_rises_over_the_small_budget():
    slow = {"optimizer.kind": "ademamix", "optimizer.ademamix_warmup": 100_000, "training.steps": 3_000_000}
    assert shrink(slow).optimizer.ademamix_warmup == 200


def test_bidirectional_windows_stay_odd():
    assert shrink({"model.attention.window": 512}).model.attention.window == 16
    assert shrink({"model.attention.window": 512}, "smoke").model.attention.window == 4
    for preset, window in (("tiny", 17), ("smoke", 5)):
        small = shrink(ENCODER | {"model.attention.window": 513, "model.attention.global_tokens": 9}, preset).model
        assert small.attention.window == window
        assert small.attention.global_tokens == {"tiny": 4, "smoke": 1}[preset]
    sides = shrink(ENCODER_DECODER | {"model.encoder.attention.window": 65, "model.decoder.attention.window": 65}).model
    assert (sides.encoder.attention.window, sides.decoder.attention.window) == (17, 16)


@pytest.mark.parametrize("preset", PRESETS)
def test_windows_keep_their_order(preset):
    kinds = {
        f"model.layers.kinds.{name}.attention.window": window
        for name, window in (("a", 512), ("b", 32), ("c", 0), ("d", 512))
    }
    small = shrink({"model.layers.pattern": tuple("abcd"), **kinds}, preset).model
    a, b, c, d = (small.layers.kinds[name].attention.window for name in "abcd")
    assert a == d > b > c == 0


def test_a_loop_over_layers_stays_a_loop():
    loop = {
        "model.num_layers": 2 + 8 * 4 + 2,
        "model.layers.distinct": 8,
        "model.layers.sharing": "cycle",
        "model.layers.prelude": 2,
        "model.layers.coda": 2,
        "model.layers.loop_draws": "poisson",
    }
    for evaluated, small_number in ((0, 0), (8, 2), (32, 3), (1, 1)):
        small = shrink(loop | {"model.layers.eval_loops": evaluated}).model
        assert (small.num_layers, small.layers.distinct) == (4, 3)
        assert (small.layers.prelude, small.layers.coda, small.layers.eval_loops) == (1, 1, small_number)
    assert (
        shrink({"model.num_layers": 6, "model.layers.distinct": 3, "model.layers.sharing": "cycle"}).model.num_layers
        == 2
    )


def test_every_kind_of_layers_keeps_a_layer():
    kinds = {f"model.layers.kinds.{name}.residual": True for name in "xyz"}
    small = shrink({"model.num_layers": 40, "model.layers.pattern": ("x", "x", "y", "x", "z"), **kinds}).model
    assert small.layers.pattern == ("x", "y", "z")
    assert small.num_layers == 3
    two = shrink(
        {"model.num_layers": 40, "model.layers.pattern": ("x", "x", "y"), **{path: True for path in list(kinds)[:2]}}
    ).model
    assert (two.layers.pattern, two.num_layers) == (("x", "y"), 2)


def test_the_deeper_side_stays_deeper():
    assert (
        shrink(ENCODER_DECODER | {"model.num_layers": 36, "model.decoder.num_layers": 12}).model.decoder.num_layers == 1
    )
    assert (
        shrink(ENCODER_DECODER | {"model.num_layers": 6, "model.encoder.num_layers": 18}).model.encoder.num_layers == 6
    )
    assert (
        shrink(ENCODER_DECODER | {"model.num_layers": 36, "model.decoder.num_layers": 36}).model.decoder.num_layers == 2
    )


def test_attention_scale_of_one_is_kept_and_others_follow_the_head_width():
    assert shrink({"model.attention.scale": 1.0}).model.attention.scale == 1.0
    assert shrink({"model.attention.scale": 0.0833}).model.attention.scale == 0.25
    sides = shrink(
        ENCODER_DECODER | {"model.encoder.attention.scale": 1.0, "model.decoder.attention.scale": 0.0833}
    ).model
    assert (sides.encoder.attention.scale, sides.decoder.attention.scale) == (1.0, 0.25)


def test_shared_heads_and_dilations_are_kept():
    heads = "model.attention.num_heads"
    assert shrink({heads: 1}).model.attention.num_heads == 1
    assert shrink({heads: 1}).model.attention.head_dim == 64
    assert shrink({heads: 32, "model.attention.num_kv_heads": 32}).model.attention.num_kv_heads == 4
    assert shrink({heads: 32, "model.attention.num_kv_heads": 8}).model.attention.num_kv_heads == 2
    assert shrink({heads: 32, "model.attention.num_kv_heads": 1}).model.attention.num_kv_heads == 1
    assert shrink({heads: 32, "model.attention.num_query_heads": 8}).model.attention.num_query_heads == 2
    assert (
        shrink(ENCODER_DECODER | {heads: 32, "model.attention.cross_kv_heads": 1}).model.attention.cross_kv_heads == 1
    )
    dilated = {heads: 32, "model.attention.window": 64}
    assert shrink(dilated | {"model.attention.dilations": (1, 2)}).model.attention.dilations == (1, 2)
    assert shrink(dilated | {"model.attention.dilations": (1,) * 7 + (3,)}).model.attention.dilations == (1, 3)
    sides = shrink(
        ENCODER_DECODER | {heads: 8, "model.decoder.attention.num_heads": 4, "model.encoder.attention.num_kv_heads": 1}
    ).model
    assert (configs.side(sides, "encoder").attention.num_heads, sides.decoder.attention.num_heads) == (4, 2)
    assert (sides.encoder.attention.num_kv_heads, configs.side(sides, "decoder").attention.num_kv_heads) == (1, 2)
    assert sides.decoder.attention.head_dim == 32


def test_wider_heads_of_a_kind_of_layers_stay_wider():
    kinds = {
        "model.layers.pattern": ("a", "b"),
        "model.layers.kinds.a.residual": True,
        "model.layers.kinds.b.attention.head_dim": 512,
    }
    small = shrink(kinds | {"model.attention.head_dim": 256}).model
    assert configs.layer_kind(small, "a").attention.head_dim == 16
    assert configs.layer_kind(small, "b").attention.head_dim == 32


def test_hidden_widths_keep_their_proportion_on_each_side():
    small = shrink(ENCODER_DECODER | {"model.ffn.hidden_dim": 512, "model.decoder.ffn.hidden_dim": 1024}).model
    assert (small.ffn.hidden_dim, small.decoder.ffn.hidden_dim) == (128, 256)


def test_a_multiple_of_the_hidden_width_keeps_its_proportion():
    matched = {"model.dim": 4096, "model.attention.num_heads": 32, "model.ffn.kind": "swiglu"}
    matched |= {"model.ffn.match_parameters": True, "model.ffn.multiple_of": 256}
    small = shrink(matched)
    # 11008 / 4096 x 64, where two thirds of 4 x 64 are 170.
    assert (small.model.ffn.multiple_of, hidden_width(small)) == (4, 172)
    full = configs.resolve(configs.override(configs.default(), matched))
    assert shrink({}, base=full) == small
    given = shrink(matched | {"model.ffn.hidden_dim": 10_000})
    assert (given.model.ffn.multiple_of, given.model.ffn.hidden_dim) == (1, 168)


def test_learned_position_tables_fit_the_sequence():
    table = {"model.position.max_length": 4096, "model.position.offset": 2, "data.sequence_length": 4096}
    small = shrink(ENCODER | table)
    assert (small.model.position.max_length, small.model.position.offset) == (64, 2)
    one = shrink(
        ENCODER_DECODER
        | {
            "model.position.kind": "alibi",
            "model.decoder.position.kind": "learned",
            "model.decoder.position.max_length": 512,
        }
    )
    assert one.model.decoder.position.max_length == 64


@pytest.mark.parametrize("preset", PRESETS)
def test_rope_scaling_factor_is_kept(preset):
    length = PRESETS[preset]["length"]
    stretch = {"model.position.kind": "rope", "model.position.scaling.factor": 8.0, "data.sequence_length": 32768}
    for kind in ("dynamic", "yarn", "llama3"):
        scaling = {"model.position.scaling.kind": kind, "model.position.scaling.original_length": 4096}
        small = shrink(stretch | scaling, preset).model.position.scaling
        assert (small.factor, small.original_length) == (8.0, length // 8)
    assert (
        shrink(stretch | {"model.position.scaling.kind": "linear"}, preset).model.position.scaling.original_length
        == 2048
    )
    only = {
        "model.layers.pattern": ("g",),
        "model.layers.kinds.g.position.scaling.kind": "llama3",
        "model.layers.kinds.g.position.scaling.original_length": 8192,
        "model.layers.kinds.g.position.scaling.factor": 4.0,
    }
    small = shrink(only | {"model.position.kind": "rope", "data.sequence_length": 32768}, preset).model
    assert small.layers.kinds.g.position.scaling.original_length == length // 4


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.4, 0.25, 0.01])
def test_rotated_dimensions_form_whole_pairs(fraction, preset):
    given = {
        "model.position.kind": "rope",
        "model.position.fraction": fraction,
        "model.dim": 2560,
        "model.attention.num_heads": 4,
    }
    small = shrink(given, preset).model
    assert small.position.fraction * small.attention.head_dim % 2 == 0
    assert small.position.fraction == pytest.approx(
        max(fraction, 2 / small.attention.head_dim), abs=1 / small.attention.head_dim
    )


def test_clip_distance_and_random_features_shrink():
    shaw = {"model.position.kind": "shaw", "model.position.clip": 16}
    assert [shrink(shaw, preset).model.position.clip for preset in PRESETS] == [16, 4]
    assert shrink(shaw | {"model.position.clip": 0}).model.position.clip == 0
    performer = {"model.attention.kind": "performer", "model.attention.features": 266}
    small = shrink(performer).model.attention
    assert (small.features, small.redraw_every) == (44, 50)
    assert shrink(performer | {"model.attention.redraw_every": 0}).model.attention.redraw_every == 0
    mixed = {
        "model.layers.pattern": ("a",),
        "model.layers.kinds.a.attention.kind": "performer",
        "model.layers.kinds.a.attention.features": 266,
    }
    assert shrink(mixed).model.layers.kinds.a.attention.features == 44


def test_device_settings_return_to_their_defaults():
    kernel = {
        "model.layers.pattern": ("a",),
        "model.layers.kinds.a.attention.implementation": "cudnn",
        "model.dtype": "bfloat16",
        "mesh.tensor": 2,
        "mesh.fsdp": 4,
        "objective.chunk_tokens": 16,
    }
    small = shrink(kernel)
    assert configs.layer_kind(small.model, "a").attention.implementation == "auto"
    assert (small.mesh.data, small.mesh.fsdp, small.mesh.tensor) == (-1, 1, 1)
    assert small.objective.chunk_tokens == "auto"


def test_presets_replace_data_and_tokenizer():
    small = shrink(
        ENCODER | {"model.vocab_size": 30522, "data.tokenizer.kind": "bpe", "data.tokenizer.vocab_size": 30521}
    )
    assert (small.data.source, small.data.tokenizer.kind, small.model.vocab_size) == ("stdlib", "bytes", 258)
    assert shrink(ENCODER_DECODER | {"objective.prefix_length": 100}, "smoke").objective.prefix_length == 8
