"""Changes of each field of the config: another value, and the other fields that it requires."""

import functools
import tempfile
from pathlib import Path

from tests.support.sample_data import (
    bad_text,
    held_out,
    hub,
    mixture,
    pairs,
    questions,
    records,
    stored_tokens,
    table,
    tagged,
    text,
    versions,
    vocabulary,
)
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.data import resolve_with_data

# Small enough to trace quickly; some fields need more than one layer.
BASE = {
    "model.dim": 16,
    "model.num_layers": 1,
    "data.sequence_length": 16,
    "data.batch_size": 4,
    "training.steps": 20,
    "data.document_separator": "\n\n",
}
ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
REPLACED = ENCODER | {"objective.kind": "replaced_tokens"}
ENCODER_DECODER = {"model.architecture": "encoder_decoder", "objective.kind": "prefix"}
ELMO = {"model.architecture": "elmo", "objective.kind": "bidirectional", "model.num_layers": 2}
TRANSLATION = {"model.architecture": "encoder_decoder", "objective.kind": "translation", "data.document_separator": "",
               "data.source": lambda: pairs()}  # fmt: skip
SPANS = {"model.architecture": "encoder_decoder", "objective.kind": "span", "model.position.max_length": 32}
BASES = {"decoder": {}, "encoder": ENCODER, "encoder_decoder": ENCODER_DECODER, "elmo": ELMO}

ROPE = {"model.position.kind": "rope"}
# Wide enough heads for a ramp over their pairs.
YARN = ROPE | {
    "model.position.scaling.kind": "yarn",
    "model.position.scaling.factor": 4.0,
    "model.attention.head_dim": 32,
}
LONGROPE = ROPE | {
    "model.position.scaling.kind": "longrope",
    "model.position.scaling.factor": 4.0,
    "model.position.scaling.original_length": 8,
    "model.position.scaling.short_factors": (1.0, 1.5),
    "model.position.scaling.long_factors": (1.0, 4.0),
}
BUCKETS, SHAW = {"model.position.kind": "relative_bias"}, {"model.position.kind": "shaw"}
PERFORMER = {"model.attention.kind": "performer"}
CANON = {"model.convolution.kind": "canon"}
GATED = {"model.attention.gate": "elementwise"}
PAIRS = ENCODER | {"data.row_format": "segment_pairs", "model.head.pooler": True, "model.head.next_sentence": True}
DISTILLED = {"objective.distillation.teacher": lambda: teacher()}
DISTILLED_MASKED = ENCODER | {"objective.distillation.teacher": lambda: masked_teacher()}
# For fields that only labelled tasks read: heads, labels and examples.
TASK = {
    "model.architecture": "encoder",
    "objective.kind": "classification",
    "data.source": lambda: table("train"),
    "data.document_separator": "",
}
WORDS = TASK | {"objective.kind": "tagging", "data.source": lambda: tagged()}
EXTRACTION = TASK | {"objective.kind": "extraction", "data.source": lambda: questions()}
MUP = {"model.parametrization": "mup", "model.base_dim": 8}
MOE = {"model.ffn.kind": "moe"}
LOOPED = {"model.num_layers": 4, "model.layers.distinct": 2, "model.layers.sharing": "cycle"}
LONGFORMER = ENCODER | {"model.attention.window": 3, "model.attention.global_tokens": 1}


@functools.cache
def teacher():
    """Writes a run of the base's shape as a teacher, and returns its folder."""
    return str(untrained(Path(tempfile.mkdtemp(dir=text().parent)) / "teacher", resolve({})))


@functools.cache
def masked_teacher():
    """Writes a masked run of the base's shape as a teacher, and returns its folder."""
    return str(untrained(Path(tempfile.mkdtemp(dir=text().parent)) / "teacher", resolve(ENCODER)))


MASKING = tuple(
    f"objective.{name}"
    for name in (
        "select_fraction",
        "mask_token_fraction",
        "random_token_fraction",
        "mask_copies",
        "whole_words",
        "rare_token_exponent",
    )
)
# Values to compare with where the default is unsuitable. Functions are called on demand.
COMPARED_VALUES = {
    "data.tokenizer.vocab_size": 270,
    "data.tokenizer.ids": 310,
    "data.tokenizer.document_id": 12,
    "data.tokenizer.path": vocabulary,
    "data.bad_text": "replace",
    "data.hub.subset": "one",
    "data.mixture": lambda: mixture(1, 9),
}
# Streamed, so that nothing is kept in the library's own cache.
# Ids that may be read in pairs of bytes or in fours.
STORED = {"data.source": stored_tokens, "data.tokenizer.kind": "unknown", "data.document_separator": ""}
HUB = {"data.source": hub, "data.document_separator": "", "data.hub.streaming": True}
# Other fields that must be set for a field to be read.
NEEDS = {
    "model.layers.pattern": {"model.num_layers": 2},
    "model.layers.distinct": {"model.num_layers": 2},
    "model.attention.keys_from": {
        "model.num_layers": 2,
        "model.layers.pattern": ("own", "reader"),
        "model.layers.kinds.own.attention.keys_from": "",
        "model.layers.kinds.reader.residual": True,
    },
    "model.layers.sharing": {"model.num_layers": 4, "model.layers.distinct": 2},
    **{f"model.layers.{name}": LOOPED for name in ("prelude", "coda", "reinjection", "loop_draws", "eval_loops")},
    "model.embedding.dim": {"model.tie_embeddings": False},
    "model.embedding.projection": {"model.embedding.dim": 8, "model.tie_embeddings": False},
    "training.dropout_generator": {"model.dropout": 0.1},
    "model.base_dim": MUP,
    "model.base_head_dim": MUP,
    "model.base_num_layers": MUP | {"model.parametrization": "completep", "model.base_num_layers": 1},
    "model.embedding.segments": ENCODER,
    "model.embedding.shared": ENCODER_DECODER,
    "model.norm.momentum": {"model.norm.kind": "batchnorm"},
    "model.norm.gate_rank": {"model.norm.kind": "gated_rmsnorm"},
    "model.norm.alpha_start": {"model.norm.kind": "dyt"},
    "model.norm.attention_alpha_start": {"model.norm.kind": "dyt"},
    "model.norm.layerscale_start": {"model.norm.placement": "layerscale"},
    "model.norm.step_start": {"model.norm.placement": "interpolated"},
    "model.norm.streams": {"model.norm.placement": "hyper_static"},
    "model.position.theta": ROPE,
    "model.position.fraction": ROPE,
    "model.position.kept_frequencies": ROPE,
    "model.position.layout": ROPE,
    "model.position.endpoint": {"model.position.kind": "sinusoidal"},
    "model.position.scaling.kind": ROPE,
    "model.position.scaling.factor": ROPE | {"model.position.scaling.kind": "dynamic"},
    "model.position.scaling.original_length": YARN,
    "model.position.scaling.low": YARN,
    "model.position.scaling.high": YARN,
    "model.position.scaling.short_factors": LONGROPE | {"model.position.scaling.original_length": 64},
    "model.position.scaling.long_factors": LONGROPE,
    "model.position.scaled": {"model.position.kind": "alibi"},
    "model.position.scaling.truncate": YARN,
    "model.position.scaling.sharpening": YARN,
    "model.position.buckets": BUCKETS,
    "model.position.max_distance": BUCKETS,
    "model.position.shared": BUCKETS,
    "model.position.clip": SHAW,
    "model.position.relative_values": SHAW,
    "model.attention.global_tokens": ENCODER | {"model.attention.window": 3},
    "model.attention.global_projections": LONGFORMER,
    "model.attention.cross_kv_heads": ENCODER_DECODER,
    "model.attention.dilations": {"model.attention.window": 3},
    "model.attention.gate_input": GATED,
    "model.attention.sigmoid_bias": {"model.attention.kind": "sigmoid"},
    "model.attention.forget_bias": {"model.attention.kind": "forgetting"},
    "model.attention.lambda_init": {"model.attention.kind": "differential"},
    "model.attention.latent_dim": {"model.attention.kind": "latent"},
    "model.attention.rotary_dim": {"model.attention.kind": "latent", "model.position.kind": "rope"},
    "model.attention.query_latent_dim": {"model.attention.kind": "latent"},
    "model.attention.value_dim": {"model.attention.kind": "gated_delta"},
    "model.attention.key_heads": {"model.attention.kind": "gated_delta"},
    "model.attention.convolution_width": {"model.attention.kind": "gated_convolution"},
    "model.attention.decay_rank": {"model.attention.kind": "gated_linear"},
    "model.attention.negative_eigenvalues": {"model.attention.kind": "delta"},
    "model.attention.qk_norm_scale": {"model.attention.qk_norm": "head"},
    "model.attention.gate_bias": {"model.attention.kind": "kimi_delta"},
    "model.attention.norm_epsilon": {"model.attention.kind": "latent"},
    "model.attention.rate_rank": {"model.attention.kind": "rwkv7"},
    "model.attention.value_rank": {"model.attention.kind": "rwkv7", "model.num_layers": 2},
    "model.attention.gate_rank": {"model.attention.kind": "rwkv7"},
    "model.attention.chunk_tokens": {"model.attention.kind": "gated_delta"},
    **{
        f"model.attention.{name}": {"model.attention.kind": "parallel_heads"}
        for name in ("state_kind", "state_heads", "state_dim", "mixing")
    },
    "model.attention.features": PERFORMER,
    "model.attention.redraw_every": PERFORMER,
    "model.convolution.width": CANON,
    "model.convolution.places": CANON,
    "model.ffn.match_parameters": {"model.ffn.kind": "swiglu"},
    **{field.path: MOE for field in configs.FIELDS if field.path.startswith("model.ffn.experts.")},
    "model.ffn.experts.choice": MOE | ENCODER | {"model.ffn.experts.renormalise": False},
    "model.ffn.experts.chosen_groups": MOE | {"model.ffn.experts.groups": 4},
    "model.ffn.experts.group_score": MOE | {"model.ffn.experts.groups": 2},
    "model.ffn.experts.shared_gate": MOE | {"model.ffn.experts.shared_dim": 8},
    "data.short_row_fraction": PAIRS | {"data.sequence_length": 160},
    "data.tokenizer.split_digits": {"data.tokenizer.kind": "bpe", "data.tokenizer.vocab_size": 300},
    "model.attention.value_mix": {"model.attention.kind": "value_residual", "model.num_layers": 2},
    "model.attention.value_mix_learned": {"model.attention.kind": "value_residual", "model.num_layers": 2},
    "model.attention.value_gate_channels": {"model.attention.kind": "value_embedding"},
    "model.ffn.negative_slope": {"model.ffn.kind": "leaky_relu_squared"},
    "model.ffn.clamp": {"model.ffn.kind": "swiglu_clamped"},
    "model.head.transform_bias": {"model.head.transform": True},
    "model.head.pooler": ENCODER,
    "model.head.next_sentence": ENCODER | {"model.head.pooler": True},
    "model.head.pooler_activation": TASK | ENCODER | {"objective.kind": "classification", "model.head.pooler": True},
    **{field.path: ELMO for field in configs.FIELDS if field.path.startswith("model.elmo.")},
    "model.elmo.layer_norm": TASK | ELMO | {"objective.kind": "classification"},
    **dict.fromkeys(MASKING, ENCODER),
    "objective.sampled_softmax": ELMO,
    "objective.future_tokens": {"objective.kind": "multi_token"},
    "objective.future_decay": {"objective.kind": "multi_token"},
    "model.generator.num_layers": REPLACED,
    "model.generator.width_fraction": REPLACED,
    "objective.discriminator_weight": REPLACED,
    "objective.next_sentence": PAIRS,
    "data.row_format": ENCODER | {"data.sequence_length": 160},
    "objective.prefix_length": ENCODER_DECODER,
    "training.eval_masks": ENCODER,
    **{f"objective.{name}": SPANS for name in ("noise_density", "mean_span_length", "sentinels")},
    **{f"objective.distillation.{name}": DISTILLED for name in ("kl", "temperature", "cosine", "hard")},
    "objective.distillation.kl_tokens": DISTILLED_MASKED,
    "model.head.classes": TASK,
    "model.head.pooling": TASK,
    "data.second_column": TASK,
    "data.label_column": TASK,
    "data.labels": TASK,
    "data.header": TASK | {"data.source": lambda: table("numbered"), "data.column": "0", "data.label_column": "3"},
    "training.trained_layers": TASK,
    "data.examples": TASK,
    "data.conll.words": WORDS,
    "data.conll.tags": WORDS,
    "data.stride": EXTRACTION,
    "objective.longest_answer": EXTRACTION,
    **{f"data.{name}": TRANSLATION for name in ("source_column", "target_column", "buckets")},
    "data.mixture": {"data.source": "mixture"},
    "data.mixture_exponent": {"data.source": "mixture", "data.mixture": lambda: mixture(1, 1)},
    "data.bad_text": {"data.source": bad_text},
    "data.split": {"data.source": versions},
    "data.column": {"data.source": records, "data.document_separator": ""},
    "data.hub.split": HUB | {"data.hub.subset": "one"},
    "data.hub.subset": HUB,
    "data.tokenizer.path": {"data.tokenizer.kind": "file"},
    "data.tokenizer.ids": STORED,
    "data.tokenizer.document_id": STORED | {"data.isolate_documents": True, "data.tokenizer.ids": 300},
    "data.token_dtype": STORED | {"data.tokenizer.ids": 66_000},
    "data.tokenizer.lowercase": {"data.tokenizer.kind": "wordpiece", "data.tokenizer.vocab_size": 300},
    "data.tokenizer.vocab_size": {"data.tokenizer.kind": "bpe"},
    "schedule.final_fraction": {"schedule.kind": "cosine"},
    "schedule.decay_fraction": {"schedule.kind": "wsd"},
    "schedule.decay_shape": {"schedule.kind": "wsd"},
    "schedule.power": {"schedule.kind": "polynomial"},
    "schedule.hold": {"schedule.kind": "inverse_sqrt", "schedule.warmup_steps": 2},
    **{
        f"optimizer.{name}": {"optimizer.kind": name.partition("_")[0]}
        for name in (
            *(
                "muon_momentum",
                "muon_scale",
                "muon_heads",
                "normuon_beta2",
                "soap_beta",
                "soap_refresh",
                "soap_max_dim",
            ),
            *("sgd_momentum", "sgd_nesterov", "lion_beta1", "lion_beta2"),
            *("adagrad_initial", "ademamix_beta3", "ademamix_alpha", "ademamix_warmup"),
            *("adafactor_decay", "adafactor_clip", "adafactor_scaled", "adafactor_min_factored"),
        )
    },
    "optimizer.momentum_start": {"optimizer.momentum_warmup": 4},
    "optimizer.weight_decay_form": {"optimizer.weight_decay": 0.1},
    "optimizer.weight_decay_schedule": {"optimizer.weight_decay": 0.1, "schedule.kind": "linear"},
}
OTHER_VALUES = {
    # Kinds of layers may have it, unlike the last choice.
    "model.norm.placement": "reordered",
    # The last kind without limits on the architecture.
    "model.attention.kind": "performer",
    "model.attention.latent_dim": 5,
    "model.attention.rotary_dim": 6,
    "model.attention.value_dim": 5,
    "model.attention.key_heads": 2,
    "model.attention.convolution_width": 5,
    "model.attention.decay_rank": 3,
    "model.attention.rate_rank": 3,
    "model.attention.value_rank": 3,
    "model.attention.gate_rank": 3,
    "model.attention.chunk_tokens": 4,
    "model.attention.state_heads": 2,
    "model.attention.state_dim": 3,
    "training.eval_every": 3,
    "model.num_layers": 3,
    "model.parametrization": "mup",
    "model.base_dim": 4,
    "model.base_head_dim": 2,
    "model.base_num_layers": 2,
    "model.vocab_size": 300,
    "model.vocab_multiple": 64,
    "model.layers.pattern": ("a",),
    "model.position.max_length": 32,
    "model.position.fraction": 0.5,
    "model.position.kept_frequencies": 0.5,
    "model.position.scaling.low": 2.0,
    "model.position.scaling.short_factors": (1.0, 2.0),
    "model.position.scaling.long_factors": (2.0, 2.0),
    "model.position.scaling.high": 16.0,
    "model.position.buckets": 16,
    "model.attention.num_kv_heads": 2,
    "model.attention.keys_from": "own",
    "model.attention.head_dim": 8,
    "model.attention.scale": 0.7,
    "model.attention.num_query_heads": 2,
    "model.attention.cross_kv_heads": 2,
    "model.attention.dilations": (1, 2),
    "data.position_offsets": (0, 8),
    "data.length_stages": (8, 10),
    "data.batch_stages": (2, 10),
    "model.attention.window": 3,
    "model.attention.sigmoid_bias": -1.0,
    "model.attention.lambda_init": 0.5,
    "model.attention.features": 7,
    "model.attention.implementation": "xla",
    "model.convolution.width": 2,
    "model.convolution.places": "AC",
    "model.attention.value_gate_channels": 5,
    "model.ffn.hidden_dim": 40,
    "model.ffn.experts.kind": "geglu",
    "model.ffn.experts.per_token": 3,
    "model.ffn.experts.groups": 2,
    "model.ffn.multiple_of": 48,
    "data.short_row_fraction": 1.0,
    "model.init.embedding_std": 0.5,
    "model.generator.num_layers": 2,
    "model.elmo.filters": (1, 8, 2, 8),
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "objective.distillation.teacher": lambda: teacher(),
    "objective.prefix_length": 5,
    "objective.mean_span_length": 1.0,
    "objective.mask_copies": 1,
    "model.head.classes": 5,
    "model.head.pooling": "mean",
    "data.second_column": "second",
    "data.label_column": "other",
    "data.labels": ("c", "b", "a"),
    "data.held_out": held_out,
    "data.document_separator": "e",
    "training.trained_layers": 0,
    "training.start_layers": (0,),
    "data.examples": 20,
    "training.eval_lengths": (8,),
    "data.conll.words": 1,
    "data.stride": 2,
    "data.column": "reversed",
    "data.mixture": lambda: mixture(9, 1),
    "data.mixture_exponent": 1.0,
    "data.source_column": "third",
    "data.target_column": "third",
    "data.buckets": 1,
    "data.hub.split": "test",
    "data.hub.subset": "other",
    "data.hub.revision": "0" * 40,
    "data.hub.folder": "x",
    "data.validation_fraction": 0.3,
    "data.tokenizer.kind": "characters",
    "data.tokenizer.vocab_size": 280,
    "data.tokenizer.ids": 300,
    "data.tokenizer.document_id": 3,
    "data.tokenizer.path": lambda: vocabulary("sheep", "wolves"),
    "data.sequence_length": 8,
    "optimizer.clip_norm": 1e-3,
    "optimizer.adafactor_min_factored": 2,
    "optimizer.ademamix_warmup": 3,
    "optimizer.soap_max_dim": 4,
    "optimizer.ema_steps": 5,
    "optimizer.tail_average": 0.5,
    "model.norm.attention_alpha_start": 2.0,
    "model.layers.distinct": 1,
    "model.layers.prelude": 1,
    "model.layers.coda": 1,
    "model.embedding.dim": 8,
    "optimizer.groups": ("a",),
    "schedule.warmup_steps": 5,
    "objective.chunk_tokens": 4,
    "training.accumulation_steps": 2,
    "training.microbatch_size": 1,
    "training.eval_batches": 1,
}
# Other fields that a choice requires.
NEEDED_BY_CHOICE = {
    ("data.tokenizer.kind", name): {"data.tokenizer.vocab_size": 300} for name in ("bpe", "wordpiece", "unigram")
}
NEEDED_BY_CHOICE["data.tokenizer.kind", "unknown"] = STORED | {"data.tokenizer.ids": 300}
NEEDED_BY_CHOICE["data.tokenizer.kind", "file"] = {"data.tokenizer.path": vocabulary}
NEEDED_BY_CHOICE["objective.kind", "span"] = SPANS
NEEDED_BY_CHOICE["model.norm.placement", "unet"] = {"model.num_layers": 2}
NEEDED_BY_CHOICE |= {
    ("model.parametrization", "mup"): MUP,
    ("model.parametrization", "completep"): MUP | {"model.base_num_layers": 2},
    ("objective.kind", "classification"): TASK,
    ("objective.kind", "tagging"): WORDS,
    ("objective.kind", "extraction"): EXTRACTION,
    ("objective.kind", "regression"): TASK | {"data.label_column": "number"},
}
NEEDED_BY_CHOICE["objective.kind", "translation"] = TRANSLATION
NEEDED_BY_CHOICE["objective.kind", "denoising"] = {"model.architecture": "encoder_decoder"}
NEEDED_BY_CHOICE["objective.kind", "replaced_tokens"] = ENCODER
NEEDED_BY_CHOICE["objective.kind", "masked_diffusion"] = ENCODER
for name in configs.BY_PATH["model.position.scaling.kind"].choices:
    # With the default factor of 1 most kinds of scaling change nothing.
    NEEDED_BY_CHOICE["model.position.scaling.kind", name] = {
        "model.position.scaling.factor": 4.0 if name != "none" else 1.0
    }
# Other fields that the value in `OTHER_VALUES` requires.
NEEDED_BY_VALUE = {
    "model.layers.pattern": {"model.layers.kinds.a.attention.window": 3},
    "optimizer.groups": {"optimizer.group.a.select": "role:embedding", "optimizer.group.a.rate_factor": 0.25},
    "model.architecture": {"objective.kind": "masked"},
    "model.parametrization": {"model.base_dim": 8},
    "objective.kind": {"model.architecture": "encoder"},
}


def other_value(field):
    """Returns a valid value other than the default."""
    if field.path in OTHER_VALUES:
        return OTHER_VALUES[field.path]
    if field.choices:
        return next(name for name in reversed(list(field.choices)) if name != field.default)
    if field.kind is bool:
        return not field.default
    if field.kind is int:
        return BASE.get(field.path, field.default) * 2 or 3
    return field.default * (2.0 if field.default == field.minimum else 0.5) or 0.25


def needed_with(field):
    """Returns the fields that a field's other value requires."""
    return NEEDED_BY_VALUE.get(field.path) or NEEDED_BY_CHOICE.get((field.path, other_value(field)), {})


def resolve(changes):
    """Returns the resolved config of `BASE` and these changes.

    Raises:
        ConfigError: the changes are refused.
    """
    changes = {"data.source": f"text:{text()}"} | BASE | changes
    return _resolve(tuple((path, value() if callable(value) else value) for path, value in sorted(changes.items())))


@functools.lru_cache(maxsize=256)
def _resolve(changes):
    return resolve_with_data(configs.override(configs.default(), dict(changes)))
