"""The shipped configs: every published size has exactly the published number of parameters; models
are built abstractly, without memory.
"""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from zoo import config as configs
from zoo.interop.model_weights import without_padding
from zoo.layers.parameter import vocabulary_rows
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten

ROOT = Path(__file__).parents[2]

# Counted from the reference implementations (transformers 4.57.6, without weights), unless a
# comment says otherwise. Shared matrices count once.
PUBLISHED = {
    # Heads for masked tokens and the order of segments, and the pooler.
    "albert:base": 11_813_810,
    "albert:large": 17_847_474,
    "albert:xlarge": 59_021_490,
    "albert:xxlarge": 223_158_450,
    # Includes the bias of the logits, which the reference does not count as a parameter.
    "bart:base": 139_420_416 + 50_265,
    "bart:large": 406_291_456 + 50_265,
    # Heads for masked tokens and the next sentence, and the pooler.
    "bert:base": 110_106_428,
    "bert:large": 336_226_108,
    "bert:base-cased": 108_932_934,
    "bert:base-phase1": 110_106_428,
    "bert:base-phase2": 110_106_428,
    "bloom:560m": 559_214_592,
    "bloom:1b1": 1_065_314_304,
    "bloom:1b7": 1_722_408_960,
    "bloom:3b": 3_002_557_440,
    "bloom:7b1": 7_069_016_064,
    "bloom:176b": 176_247_271_424,
    "byt5:small": 299_637_760,
    "byt5:base": 581_653_248,
    "byt5:large": 1_228_183_552,
    "byt5:xl": 3_737_801_728,
    "byt5:xxl": 12_906_899_328,
    # With the generators, which have 647,162, 9,903,418 and 19,512,378; without them these are the
    # counts of ElectraForPreTraining.
    "electra:small": 14_196_219,
    "electra:base": 119_386_427,
    "electra:large": 354_655_291,
    "distilbert:base": 66_985_530,
    # 93,600,848 for the language model (Peters et al. 2018: 93.6 million) and 512 * 793,471 +
    # 793,471 for the softmax.
    "elmo:original": 93_600_848 + 407_050_623,
    "gemma:2b": 2_506_172_416,
    "apertus:8b": 8_053_338_176,
    "apertus:70b": 70_599_864_480,
    "exaone4:32b": 32_003_216_384,
    "exaone4:1.2b": 1_279_391_488,
    "glm4:9b": 9_400_279_040,
    "glm4:32b": 32_566_081_536,
    "helium:preview-2b": 2_172_643_840,
    "ministral:8b": 8_019_808_256,
    "gemma:7b": 8_537_680_896,
    "gemma2:2b": 2_614_341_888,
    "gemma2:9b": 9_241_705_984,
    "gemma2:27b": 27_227_128_320,
    "gemma3:270m": 268_098_176,
    "gemma3:1b": 999_885_952,
    # Counted from the classes of transformers, without allocating them.
    "phi3:mini": 3_821_079_552,
    "phi3:medium": 13_960_238_080,
    "phi3:phi-4": 14_659_507_200,
    "phi3:phi-4-mini": 3_836_021_760,
    "opt:125m": 125_239_296,
    "opt:350m": 331_196_416,
    "opt:1.3b": 1_315_758_080,
    "opt:2.7b": 2_651_596_800,
    "opt:6.7b": 6_658_473_984,
    "opt:13b": 12_853_473_280,
    "opt:30b": 29_974_540_288,
    "opt:66b": 65_719_701_504,
    "opt:175b": 174_604_468_224,
    "falcon:7b": 6_921_720_704,
    "falcon:40b": 41_303_293_952,
    "falcon:180b": 178_557_088_768,
    "falcon:rw-1b": 1_311_625_216,
    "falcon:rw-7b": 7_516_020_736,
    "granite:2b": 2_533_531_648,
    "granite:8b": 8_170_848_256,
    "cohere:aya-8b": 8_028_033_024,
    "cohere:command-r": 34_980_831_232,
    "cohere:command-r-plus": 103_810_674_688,
    "stablelm:3b": 2_795_443_200,
    "stablelm:2-1.6b": 1_644_515_328,
    "stablelm:2-12b": 12_143_185_920,
    "nemotron:15b": 15_628_775_424,
    "nemotron:340b": 341_029_195_776,
    "nemotron:minitron-4b": 4_190_509_056,
    "olmo:1b": 1_176_764_416,
    "olmo:7b": 6_888_095_744,
    "olmo:7b-0424": 6_888_095_744,
    "gpt1:base": 116_534_784,
    "gpt_j:6b": 6_050_882_784,
    "gpt2:small": 124_439_808,
    "gpt2:medium": 354_823_168,
    "gpt2:large": 774_030_080,
    "gpt2:xl": 1_557_611_200,
    "llama:7b": 6_738_415_616,
    "llama:13b": 13_015_864_320,
    "llama:33b": 32_528_943_616,
    "llama:65b": 65_285_660_672,
    "llama:v2-7b": 6_738_415_616,
    "llama:v2-13b": 13_015_864_320,
    "llama:v2-34b": 33_743_970_304,
    "llama:v2-70b": 68_976_648_192,
    "longformer:base": 148_711_257,
    "longformer:large": 434_653_273,
    "mistral:7b": 7_241_732_096,
    "modernbert:base": 149_655_232,
    "modernbert:large": 395_881_664,
    # OPUS-MT, English to German, with the bias of the logits and without the sinusoids.
    "marian:opus-mt": 73_886_208 + 58_101,
    "mpt:7b": 6_649_286_656,
    "mt5:small": 300_176_768,
    "mt5:base": 582_401_280,
    "mt5:large": 1_229_581_312,
    "mt5:xl": 3_742_619_648,
    "mt5:xxl": 12_921_057_280,
    # A table of 50,257 x 768 for every other layer, the embedding and the head, beside the blocks.
    "modded:small": 393_714_120,
    "modded:medium": 1_022_475_440,
    "nanochat:d20": 560_988_160,
    "nanochat:d26": 1_081_999_360,
    "nanochat:d32": 1_879_048_192,
    "olmo2:1b": 1_484_916_736,
    "olmo2:7b": 7_298_617_344,
    "olmo2:13b": 13_716_198_400,
    "olmo2:32b": 32_234_279_936,
    "olmo3:7b": 7_298_011_136,
    "olmo3:32b": 32_233_522_176,
    "phi:1": 1_418_270_720,
    "phi:1.5": 1_418_270_720,
    "phi:2": 2_779_683_840,
    "pythia:14m": 14_067_712,
    "pythia:70m": 70_426_624,
    "pythia:160m": 162_322_944,
    "pythia:410m": 405_334_016,
    "pythia:1b": 1_011_781_632,
    "pythia:1.4b": 1_414_647_808,
    "pythia:2.8b": 2_775_208_960,
    "pythia:6.9b": 6_857_302_016,
    "pythia:12b": 11_846_072_320,
    "qwen3:0.6b": 596_049_920,
    "qwen3:1.7b": 1_720_574_976,
    "qwen3:4b": 4_022_468_096,
    "qwen3:8b": 8_190_735_360,
    "qwen3:14b": 14_768_307_200,
    "qwen3:32b": 32_762_123_264,
    "mixtral:8x7b": 46_702_792_704,
    "mixtral:8x22b": 140_620_634_112,
    "olmoe:1b-7b": 6_919_161_856,
    "qwen3_next:80b-a3b": 79_674_391_296,
    "olmo_hybrid:7b": 7_430_870_688,
    "kimi_linear:48b-a3b": 49_122_675_072,
    "mamba2:130m": 128_989_632,
    "mamba2:370m": 368_346_624,
    "mamba2:780m": 780_161_280,
    "mamba2:1.3b": 1_343_757_312,
    "mamba2:2.7b": 2_702_599_680,
    "lfm2:350m": 354_483_968,
    "lfm2:700m": 742_489_344,
    "lfm2:1.2b": 1_170_340_608,
    "lfm2:2.6b": 2_569_272_320,
    "qwen3_moe:30b-a3b": 30_532_122_624,
    "qwen3_moe:235b-a22b": 235_093_634_560,
    "gpt_oss:20b": 20_914_757_184,
    "gpt_oss:120b": 116_829_156_672,
    "deepseek_v3:671b": 671_026_404_352,
    "roberta:base": 124_697_433,
    "roberta:large": 355_412_057,
    # The reference counts its fixed table of sines as parameters: 1536 positions of 64.
    "roformer:base": 124_197_968 - 1536 * 64,
    "smollm3:3b": 3_075_098_624,
    "t5:small": 60_506_624,
    "t5:base": 222_903_552,
    "t5:large": 737_668_096,
    "t5:3b": 2_851_598_336,
    "t5:11b": 11_307_321_344,
    "t5:v1_1-small": 76_961_152,
    "t5:v1_1-base": 247_577_856,
    "t5:v1_1-large": 783_150_080,
    "t5:v1_1-xl": 2_849_757_184,
    "t5:v1_1-xxl": 11_135_332_352,
    # By hand from the equations of the paper, which prints 65 and 213 million: 37,000 tokens,
    # biases everywhere.
    "transformer:base": 63_082_496,
    "transformer:big": 214_245_376,
}


def attention(dim):
    return 4 * (dim * dim + dim)


def feed_forward(dim, hidden):
    return 2 * dim * hidden + hidden + dim


def shaw(dim, hidden, clip, vocabulary):
    """Counts six layers on either side; each self-attention has 2 clip + 1 vectors of width 64 for
    keys and for values.
    """
    self_attention = attention(dim) + 2 * (2 * clip + 1) * 64
    encoder = self_attention + feed_forward(dim, hidden) + 2 * 2 * dim
    decoder = self_attention + attention(dim) + feed_forward(dim, hidden) + 3 * 2 * dim
    return vocabulary * dim + 6 * (encoder + decoder)


LAYER = attention(256) + feed_forward(256, 1024)
CONTROL = 257 * 256 + 256 * 256 + 4 * (LAYER + 4 * 256) + 2 * 256
PERFORMER = 2 * 257 * 768 + 257 + 12 * (attention(768) + feed_forward(768, 3072) + 4 * 768) + 2 * 768
# Counts that were never published, computed by hand from the shapes in a paper.
BY_HAND = {
    "controls:baseline": CONTROL,
    "controls:batchnorm": CONTROL,
    "controls:no_residual": CONTROL,
    "controls:single_head": CONTROL,
    "controls:no_norm": CONTROL - 9 * 2 * 256,
    "controls:nope": CONTROL - 256 * 256,
    "performer:enwik8": PERFORMER + 1024 * 768,
    "performer:enwik8-rope": PERFORMER,
    "shaw:base": shaw(512, 1024, 16, 32768),
    "shaw:big": shaw(1024, 4096, 8, 32768),
    # 66 characters.
    "shakespeare_char:cpu": 66 * 128 + 64 * 128 + 4 * (12 * 128 * 128 + 2 * 128) + 128,
    **{
        f"translation:{size}": 10_000 * 128 + 4 * (3 * attention(128) + 2 * feed_forward(128, 256) + 5 * 2 * 128)
        for size in ("multi30k", "multi30k-short")
    },
    "wmt14:base": PUBLISHED["transformer:base"],
    "wmt14:big": PUBLISHED["transformer:big"],
    # Attention without biases, and an untied head with a bias.
    "lm1b:base": 2 * 30_000 * 512 + 30_000 + 6 * (4 * 512 * 512 + feed_forward(512, 2048) + 4 * 512) + 2 * 512,
    "translation:dates": 500 * 128 + 4 * (3 * attention(128) + 2 * feed_forward(128, 256) + 5 * 2 * 128),
}
COUNTS = PUBLISHED | BY_HAND


def resolved(spec):
    name, _, size = spec.partition(":")
    return configs.resolve(
        configs.load(f"{ROOT / 'configs' / name}.py:{size}"), vocab_size=66 if name == "shakespeare_char" else None
    )


def parameters(model):
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(split(model)[1]))


def test_every_size_has_an_expected_count():
    files = sorted((ROOT / "configs").glob("*.py"))
    assert set(COUNTS) == {
        f"{path.stem}:{size}" for path in files for size in configs.import_file(path, "config file").SIZES
    }


@pytest.mark.parametrize("spec", [spec for spec, count in COUNTS.items() if count > 3e9])
def test_state_and_batch_of_a_large_size_are_divided(spec):
    config = resolved(spec)
    assert config.mesh.fsdp == -1
    assert 0 < config.training.microbatch_size < config.data.batch_size


@pytest.mark.parametrize("spec", COUNTS)
def test_parameter_count_is_the_published_one(spec):
    assert parameters(make_model(without_padding(resolved(spec)))) == COUNTS[spec]


def test_gpt2_pads_its_vocabulary_only_on_gpus():
    assert vocabulary_rows(resolved("gpt2:small").model) == 50304
    assert resolved("gpt2:tiny").model.vocab_multiple == resolved("gpt2:smoke").model.vocab_multiple == 1


@pytest.mark.parametrize(
    "spec", ["bloom:176b", "llama:65b", "t5:11b", "mt5:xxl", "gemma2:27b", "longformer:large", "performer:enwik8"]
)
def test_largest_models_are_built_abstractly(spec):
    before = len(jax.live_arrays())
    model = make_model(resolved(spec))
    state = [variable.get_value() for _, variable in nnx.state(model).flat_state()]
    assert len(jax.live_arrays()) == before
    assert all(isinstance(leaf, jax.ShapeDtypeStruct) and leaf.dtype == jnp.float32 for leaf in state)


@pytest.mark.parametrize(
    "preset", ["tiny", pytest.param("smoke", marks=pytest.mark.promise(reason="differs from tiny in numbers alone"))]
)
@pytest.mark.parametrize("spec", COUNTS)
def test_every_size_can_be_shrunk(spec, preset):
    small = configs.resolve(configs.shrink(configs.load(f"{ROOT / 'configs'}/{spec.replace(':', '.py:')}"), preset))
    # The hidden layer of T5-11b is 64 times as wide as the model, and stays so.
    assert 0 < parameters(make_model(small)) < (2_500_000 if spec in ("t5:3b", "t5:11b") else 400_000)


# Without pre-training heads, as published for fine-tuning.
@pytest.mark.parametrize(
    ("spec", "count"), [("bert:base", 109_482_240), ("bert:large", 335_141_888), ("bert:base-cased", 108_310_272)]
)
def test_parameter_count_of_encoder_and_pooler(spec, count):
    shapes = split(make_model(resolved(spec)))[1]
    assert (
        sum(
            math.prod(leaf.shape)
            for name, part in shapes.items()
            if name not in ("head", "next_sentence")
            for leaf in jax.tree.leaves(part)
        )
        == count
    )


# The distinguishing features of each system according to its paper; each of them could be missing
# in the config file.
@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            "transformer:base",
            {
                "optimizer.learning_rate": 512**-0.5 * 4000**-0.5,
                "optimizer.beta2": 0.98,
                "optimizer.epsilon": 1e-9,
                "schedule.kind": "inverse_sqrt",
                "model.embedding.scale": "sqrt_dim",
                "model.norm.placement": "post",
                "model.position.layout": "interleaved",
                "model.dropout": 0.1,
            },
        ),
        (
            "transformer:big",
            {"optimizer.learning_rate": 1024**-0.5 * 4000**-0.5, "model.dropout": 0.3, "training.steps": 300_000},
        ),
        (
            "gpt1:base",
            {"model.norm.placement": "post", "model.ffn.gelu_approximation": "tanh", "model.position.max_length": 512},
        ),
        ("bert:base", {"model.norm.epsilon": 1e-12, "model.ffn.gelu_approximation": "none", "model.vocab_size": 30522}),
        (
            "roberta:base",
            {
                "model.position.offset": 2,
                "model.embedding.segments": 1,
                "model.head.pooler": False,
                "model.vocab_size": 50265,
            },
        ),
        ("distilbert:base", {"model.embedding.segments": 0, "model.num_layers": 6}),
        (
            "roformer:base",
            {"model.position.layout": "interleaved", "model.embedding.segments": 2, "model.vocab_size": 50000},
        ),
        (
            "longformer:base",
            {
                "model.attention.window": 513,
                "model.attention.global_tokens": 1,
                "model.attention.global_projections": True,
            },
        ),
        (
            "t5:small",
            {
                "model.attention.scale": 1.0,
                "model.head.scale": "rsqrt_dim",
                "model.ffn.kind": "relu",
                "model.tie_embeddings": True,
                "model.norm.epsilon": 1e-6,
                "model.attention.bias": False,
            },
        ),
        (
            "t5:v1_1-xl",
            {
                "model.head.scale": "none",
                "model.ffn.kind": "geglu",
                "model.ffn.gelu_approximation": "tanh",
                "model.tie_embeddings": False,
                "model.attention.scale": 1.0,
                "model.dropout": 0.0,
            },
        ),
        ("t5:11b", {"model.attention.head_dim": 128}),
        (
            "electra:base",
            {
                "model.generator.num_layers": 12,
                "model.generator.width_fraction": 1 / 3,
                "objective.mask_token_fraction": 1.0,
                "objective.discriminator_weight": 50.0,
                "model.vocab_size": 30522,
            },
        ),
        (
            "albert:base",
            {
                "model.layers.distinct": 1,
                "model.embedding.dim": 128,
                "model.ffn.gelu_approximation": "tanh",
                "model.vocab_size": 30000,
                "data.row_format": "swapped_pairs",
            },
        ),
        ("byt5:base", {"model.num_layers": 18, "model.decoder.num_layers": 6, "model.vocab_size": 384}),
        ("mistral:7b", {"model.attention.window": 4096, "model.attention.num_kv_heads": 8}),
        (
            "gemma2:27b",
            {
                "model.attention.scale": 1 / 12,
                "model.attention.softcap": 50.0,
                "model.head.softcap": 30.0,
                "model.norm.unit_offset": True,
                "model.layers.pattern": ("local", "global"),
            },
        ),
        ("gemma2:2b", {"model.attention.scale": 1 / 16, "model.layers.kinds.local.attention.window": 4096}),
        (
            "gemma3:1b",
            {
                "model.attention.qk_norm": "head",
                "model.attention.softcap": 0.0,
                "model.layers.kinds.local.attention.window": 512,
                "model.position.theta": 1e4,
                "model.layers.kinds.global.position.theta": 1e6,
            },
        ),
        ("bloom:560m", {"model.embedding.norm": True, "model.position.kind": "alibi", "schedule.warmup_steps": 715}),
        (
            "mpt:7b",
            {
                "model.norm.bias": False,
                "model.ffn.bias": False,
                "model.attention.bias": False,
                "model.position.kind": "alibi",
            },
        ),
        (
            "modernbert:base",
            {
                "model.layers.kinds.local.attention.window": 2 * 64 + 1,
                "model.layers.kinds.local.position.theta": 1e4,
                "model.layers.kinds.first.attention.input_norm": False,
                "model.attention.input_norm": True,
                "model.position.theta": 1.6e5,
                "model.embedding.norm": True,
                "model.norm.bias": False,
                "model.head.transform_bias": False,
                "model.head.bias": True,
                "model.vocab_size": 50368,
            },
        ),
        (
            "bart:base",
            {
                "model.position.offset": 2,
                "model.embedding.norm": True,
                "model.embedding.scale": "none",
                "model.head.bias": True,
                "model.vocab_size": 50265,
            },
        ),
        (
            "marian:opus-mt",
            {
                "model.position.layout": "half",
                "model.embedding.scale": "sqrt_dim",
                "model.embedding.norm": False,
                "model.ffn.kind": "silu",
                "model.head.bias": True,
            },
        ),
        (
            "glm4:9b",
            {
                "model.attention.bias": True,
                "model.attention.output_bias": False,
                "model.position.fraction": 0.5,
                "model.position.layout": "interleaved",
                "model.norm.placement": "sandwich",
            },
        ),
        (
            "exaone4:32b",
            {
                "model.layers.kinds.global.position.kind": "none",
                "model.layers.kinds.local.attention.window": 4096,
                "model.norm.placement": "reordered",
                "model.attention.qk_norm": "head",
            },
        ),
        ("exaone4:1.2b", {"model.layers.pattern": (), "model.position.kind": "rope", "model.tie_embeddings": True}),
        ("apertus:8b", {"model.ffn.kind": "xielu", "model.attention.qk_norm": "head", "optimizer.kind": "ademamix"}),
        ("phi:2", {"model.position.fraction": 32 / 80, "model.head.bias": True, "model.tie_embeddings": False}),
        ("shaw:big", {"model.position.clip": 8, "model.position.relative_values": True}),
        ("performer:enwik8-rope", {"model.attention.features": 266, "model.position.kind": "rope"}),
    ],
)
def test_config_has_the_distinguishing_features_of_its_system(spec, expected):
    flat = flatten(resolved(spec))
    assert {path: flat[path] for path in expected} == {
        path: pytest.approx(value) if isinstance(value, float) else value for path, value in expected.items()
    }
