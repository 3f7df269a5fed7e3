"""Combinations of objectives, teachers, heads, shared layers and training that are refused."""

import pytest

from tests.fields.refused_configs import (
    DISTILLED,
    DISTINCT_LAYERS,
    ELMO,
    EMBEDDING_DIM,
    ENCODER,
    ENCODER_DECODER,
    ISOLATED,
    case_id,
    check_refused,
    kind,
)
from zoo import config as configs
from zoo.config.fields import BY_PATH
from zoo.config.generators import OF_GENERATORS
from zoo.errors import ConfigError

LOOP = {DISTINCT_LAYERS: 2, "model.layers.sharing": "cycle"}
DRAWN = LOOP | {"model.layers.loop_draws": "uniform"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        # Objectives
        (
            {"objective.kind": "masked"},
            ["masked trains model.architecture=encoder", "decoder is trained by objective.kind=causal"],
        ),
        (
            {"model.architecture": "encoder"},
            ["causal trains model.architecture=decoder", "encoder is trained by objective.kind=masked"],
        ),
        (
            ELMO | {"objective.kind": "replaced_tokens"},
            ["replaced_tokens trains model.architecture=encoder", "elmo is trained by objective.kind=bidirectional"],
        ),
        (
            ENCODER | {"objective.mask_token_fraction": 0.9, "objective.random_token_fraction": 0.2},
            ["mask_token_fraction=0.9", "random_token_fraction=0.2", "than 1"],
        ),
        ({"objective.select_fraction": 0.3}, ["select_fraction=0.3 has no effect", "masked"]),
        (
            ENCODER_DECODER | {"objective.prefix_length": 128},
            ["prefix_length=128", "leaves nothing", "sequence_length=128"],
        ),
        (
            ENCODER_DECODER | {"model.position.max_length": 99, "objective.prefix_length": 100},
            ["max_length=99", "100 tokens of the encoder"],
        ),
        (
            ENCODER_DECODER | {"model.position.max_length": 64, "objective.prefix_length": 30},
            ["max_length=64", "99 tokens of the decoder"],
        ),
        (ENCODER_DECODER | {"model.decoder.position.max_length": 64}, ["max_length=64", "65 tokens of the decoder"]),
        (ENCODER_DECODER | ISOLATED, ["objective.kind=prefix", "isolate_documents"]),
        (ELMO | ISOLATED, ["objective.kind=bidirectional", "isolate_documents"]),
        # The masked objective needs one id more than the tokenizer has.
        (ENCODER | {"model.vocab_size": 257}, ["model.vocab_size=257", "258 ids, [MASK] included"]),
        # Teachers, and layers of another run
        (
            {"objective.distillation.cosine": 1.0},
            ["cosine=1 has no effect without objective.distillation.teacher", "at 0"],
        ),
        (DISTILLED | {"objective.distillation.kl": 0.0}, ["teacher=run has no effect", "both 0", "leave it empty"]),
        (
            DISTILLED
            | {
                "objective.distillation.kl": 0.0,
                "objective.distillation.cosine": 1.0,
                "objective.distillation.temperature": 4.0,
            },
            ["temperature=4 has no effect", "kl=0", "at 2"],
        ),
        (
            ENCODER | {"objective.distillation.kl_tokens": "all"},
            ["kl_tokens=all has no effect without objective.distillation.teacher", "at predicted"],
        ),
        (
            DISTILLED | {"objective.distillation.kl_tokens": "all"},
            ["kl_tokens=all has no effect", "objective.kind is masked"],
        ),
        (
            DISTILLED
            | ENCODER
            | {
                "objective.distillation.kl": 0.0,
                "objective.distillation.cosine": 1.0,
                "objective.distillation.kl_tokens": "all",
            },
            ["kl_tokens=all has no effect with objective.distillation.kl=0", "at predicted"],
        ),
        (
            ENCODER | {"objective.rare_token_exponent": 0.7, "objective.whole_words": True},
            ["rare_token_exponent=0.7 weighs single tokens", "objective.whole_words=true"],
        ),
        ({"objective.rare_token_exponent": 0.7}, ["rare_token_exponent=0.7 has no effect", "objective.kind is"]),
        (
            DISTILLED | {"objective.distillation.hard": 0.0, "objective.z_loss": 1e-4},
            ["z_loss=0.0001 has no effect", "hard=0"],
        ),
        (
            DISTILLED | {"objective.distillation.hard": 0.0, "objective.label_smoothing": 0.1},
            ["label_smoothing=0.1 has no effect", "hard=0"],
        ),
        (
            DISTILLED
            | ENCODER
            | {
                "data.row_format": "segment_pairs",
                "data.sequence_length": 32,
                "objective.next_sentence": True,
                "model.head.pooler": True,
                "model.head.next_sentence": True,
            },
            ["next_sentence=true", "tokens alone"],
        ),
        ({"training.start_layers": (0, 2)}, ["start_layers=0,2 has no effect without training.start_from"]),
        (
            {"training.start_layers": (0, 2), "training.start_from": "run"},
            ["start_layers=0,2 names 2 layers", "model.num_layers is 4"],
        ),
        # ELMo
        (ELMO | {"model.elmo.filters": (1, 8, 2)}, ["model.elmo.filters=(1, 8, 2)", "pairs"]),
        (ELMO | {"model.elmo.filters": ()}, ["model.elmo.filters is empty"]),
        (
            ELMO | {"model.elmo.filters": (9, 8), "model.elmo.characters": 8},
            ["(9, 8)", "above model.elmo.characters=8"],
        ),
        (ELMO | {"model.norm.kind": "rmsnorm"}, ["model.norm.kind=rmsnorm has no effect", "model.architecture=elmo"]),
        ({"model.elmo.highways": 1}, ["model.elmo.highways=1 has no effect", "elmo"]),
        # Embeddings of another width
        ({EMBEDDING_DIM: 8}, ["model.embedding.dim=8", "model.tie_embeddings=true", "model.head.transform=true"]),
        ({EMBEDDING_DIM: 256 // 2} | ENCODER_DECODER, ["model.embedding.dim=128", "model.tie_embeddings=false"]),
        (
            {EMBEDDING_DIM: 7, "model.tie_embeddings": False, "model.position.kind": "sinusoidal"},
            ["model.embedding.dim=7 must be even"],
        ),
        # Layers that share their weights
        ({DISTINCT_LAYERS: 3}, ["model.layers.distinct=3 does not divide model.num_layers=4"]),
        (
            ENCODER_DECODER | {DISTINCT_LAYERS: 4, "model.decoder.num_layers": 6},
            [f"{DISTINCT_LAYERS}=4 does not divide model.num_layers=6"],
        ),
        ({DISTINCT_LAYERS: 1, "model.norm.kind": "batchnorm"}, [f"{DISTINCT_LAYERS}=1", "model.norm.kind=batchnorm"]),
        (
            ENCODER_DECODER | {DISTINCT_LAYERS: 1, "model.encoder.norm.kind": "batchnorm"},
            [f"{DISTINCT_LAYERS}=1", "model.norm.kind=batchnorm"],
        ),
        (
            {DISTINCT_LAYERS: 1, "model.layers.pattern": ("a",)} | kind("a", attention__window=4),
            [f"{DISTINCT_LAYERS}=1", "model.layers.pattern=a"],
        ),
        (
            {DISTINCT_LAYERS: 2, "training.start_from": "run", "training.start_layers": (0, 1, 2, 3)},
            [f"{DISTINCT_LAYERS}=2", "training.start_layers=0,1,2,3"],
        ),
        # Loops over layers
        ({"model.layers.sharing": "cycle"}, ["model.layers.sharing=cycle has no effect", f"set {DISTINCT_LAYERS}"]),
        (
            LOOP | {"model.layers.prelude": 1, "model.layers.coda": 1},
            [f"{DISTINCT_LAYERS}=2", "model.layers.prelude=1", "model.layers.coda=1", "at least 3"],
        ),
        (LOOP | {DISTINCT_LAYERS: 3}, ["model.num_layers=4 is no number of loops over 3 layers", "use 3, 6, 9"]),
        (
            LOOP | {DISTINCT_LAYERS: 3, "model.layers.coda": 1, "model.num_layers": 6},
            ["model.num_layers=6", "beside 1 that are applied once", "use 3, 5, 7"],
        ),
        (LOOP | {"model.num_layers": 1}, ["model.num_layers=1"]),
        (
            LOOP | {"model.layers.reinjection": True, "model.norm.placement": "resi_dual"},
            ["model.layers.reinjection=true", "model.norm.placement=resi_dual"],
        ),
        (DRAWN | {"model.num_layers": 2}, ["model.layers.loop_draws=uniform", "model.num_layers=2 is one loop"]),
        (DRAWN | {"training.dynamics_every": 5}, ["training.dynamics_every=5", "model.layers.loop_draws=uniform"]),
        (DRAWN | ENCODER_DECODER, ["model.layers.loop_draws=uniform", "encoder_decoder"]),
        (
            LOOP | {"model.layers.eval_loops": 3, "model.norm.placement": "denseformer"},
            ["model.layers.eval_loops=3", "model.norm.placement=denseformer"],
        ),
        (
            DRAWN | ENCODER | {"objective.kind": "replaced_tokens", "model.generator.num_layers": 2},
            ["model.layers.loop_draws=uniform", "model.generator.num_layers=2"],
        ),
        # Training
        ({"model.norm.kind": "batchnorm", "training.accumulation_steps": 2}, ["accumulation_steps=2", "batchnorm"]),
        (
            ENCODER_DECODER | {"model.encoder.norm.kind": "batchnorm", "training.accumulation_steps": 2},
            ["accumulation_steps=2", "batchnorm"],
        ),
        (
            ENCODER_DECODER | {"mesh.tensor": 4, "model.decoder.attention.num_heads": 2},
            ["model.decoder.attention.num_heads=2", "mesh.tensor=4"],
        ),
        (
            {"model.layers.pattern": ("a",), "mesh.tensor": 2} | kind("a", attention__num_kv_heads=1),
            ["kinds.a.attention.num_kv_heads=1"],
        ),
    ],
    ids=case_id,
)
def test_impossible_combinations_are_refused_in_one_line(changes, words):
    check_refused(changes, words)


def test_all_fields_of_a_head_of_tokens_belong_to_the_generator_where_there_is_one():
    """Without it, a model of replaced tokens has no such head, and they would change nothing."""
    read_by_heads = {
        path
        for path, field in BY_PATH.items()
        if path.startswith("model.head.") and field.when == BY_PATH["model.head.bias"].when
    }
    assert "model.head.logit_scale" in read_by_heads
    assert read_by_heads <= set(OF_GENERATORS)
    alone = {"objective.kind": "replaced_tokens", "model.generator.num_layers": 0, "model.head.logit_scale": True}
    with pytest.raises(ConfigError, match=r"model\.head\.logit_scale"):
        configs.resolve(configs.override(configs.default(), ENCODER | alone), 258)
