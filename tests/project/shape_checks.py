"""Traces training, evaluation and decoding with every annotation of types and shapes checked.

    python -m tests.project.shape_checks [CASE ...]

This is a program of its own because annotations are only checked in modules that are imported under
the hook. Nothing is compiled: shapes suffice. `ALL` are the cases; `tests/project/test_shapes.py`
runs it.
"""

# ruff: noqa: E402
import sys

from jaxtyping import AnnotationError, TypeCheckError, install_import_hook

CHECKED = ("zoo.layers", "zoo.models", "zoo.objectives", "zoo.decoding", "zoo.training.step", "zoo.training.update")

with install_import_hook(CHECKED, "beartype.beartype"):
    import zoo.decoding.text_generator
    import zoo.objectives
    import zoo.training.step  # noqa: F401

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from tests.fields.every_field import (
    BUCKETS,
    DISTILLED,
    DISTILLED_MASKED,
    ELMO,
    ENCODER,
    ENCODER_DECODER,
    EXTRACTION,
    LONGFORMER,
    PAIRS,
    PERFORMER,
    ROPE,
    SHAW,
    SPANS,
    TASK,
    TRANSLATION,
    WORDS,
    YARN,
    resolve,
)
from tests.support.config_fingerprint import computation
from zoo.config import AUTO, side
from zoo.decoding.beam_search import search
from zoo.decoding.decode_loop import sample
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, unstack_layers
from zoo.decoding.sampling import Sampling
from zoo.decoding.stop_strings import StoppingCriteria
from zoo.models.functional import split
from zoo.training.update import UpdateStep

DROPOUT = {"model.dropout": 0.1, "model.attention.dropout": 0.1}
LLAMA = ROPE | {
    "model.norm.kind": "rmsnorm",
    "model.ffn.kind": "swiglu",
    "model.attention.num_kv_heads": 2,
    "model.attention.qk_norm": "head",
    "model.tie_embeddings": False,
}
KINDS = {
    "model.layers.pattern": ("local", "wide"),
    "model.num_layers": 3,
    "model.layers.kinds.local.attention.window": 4,
    "model.layers.kinds.wide.position.kind": "none",
}
ALL = {
    "gpt": DROPOUT | {"objective.z_loss": 1e-4, "objective.label_smoothing": 0.1, "objective.chunk_tokens": 7},
    "llama": LLAMA,
    "dtype, remat": LLAMA | {"model.dtype": "bfloat16", "model.remat": "full"},
    "yarn, cap, sinks": YARN | {"model.attention.softcap": 3.0, "model.attention.sinks": True},
    "dynamic": ROPE | {"model.position.scaling.kind": "dynamic", "model.position.scaling.factor": 2.0},
    "alibi, parallel": {"model.position.kind": "alibi", "model.parallel": "shared_norm"},
    "buckets, deepnorm": BUCKETS | {"model.norm.placement": "deepnorm"},
    "buckets per layer": BUCKETS | {"model.position.shared": False, "model.norm.placement": "sandwich"},
    "shaw, post-norm": SHAW | {"model.norm.placement": "post"},
    "sinusoids, kinds": {"model.position.kind": "rope"} | KINDS | DROPOUT,
    "kinds, scanned": ROPE | KINDS | {"model.num_layers": 4, "model.scan_layers": True},
    "batchnorm, scanned": {"model.norm.kind": "batchnorm", "model.scan_layers": True, "model.num_layers": 2},
    "centering": {"model.norm.kind": "centering", "model.position.kind": "sinusoidal"},
    "documents": ROPE | {"data.isolate_documents": True, "model.attention.window": 3},
    "offsets": {"data.position_offsets": (0, 3)},
    "band": ROPE | {"model.attention.window": 5, "data.sequence_length": 256},
    "band, buckets": BUCKETS | {"model.attention.window": 5, "data.sequence_length": 256},
    "xla": {"model.attention.implementation": "xla"},
    "performer": PERFORMER,
    "performer, encoder": PERFORMER | ENCODER,
    "prefix decoder": {"objective.kind": "prefix"},
    "teacher": DISTILLED | {"objective.distillation.cosine": 1.0},
    "teacher, all tokens": DISTILLED_MASKED | {"objective.distillation.kl_tokens": "all"},
    "bert": ENCODER | DROPOUT,
    "pairs": PAIRS | {"objective.next_sentence": True, "model.embedding.segments": 2, "data.sequence_length": 32},
    "head": ENCODER | {"model.head.transform": True, "model.head.bias": True, "model.embedding.norm": True},
    "longformer": LONGFORMER | {"model.attention.global_projections": True, "data.sequence_length": 256},
    "dilations": ENCODER | {"model.attention.window": 3, "model.attention.dilations": (1, 2)},
    "prefix": ENCODER_DECODER | DROPOUT | {"model.decoder.num_layers": 2},
    "spans": SPANS,
    "denoising": {"model.architecture": "encoder_decoder", "objective.kind": "denoising"} | BUCKETS,
    "translation": TRANSLATION | {"model.embedding.shared": False},
    "performer, both sides": ENCODER_DECODER | PERFORMER,
    "elmo": ELMO | {"model.dropout": 0.1},
    "sampled softmax": ELMO | {"objective.sampled_softmax": 20},
    "classification": TASK | {"model.head.pooler": True},
    "classification, elmo": TASK | ELMO | {"objective.kind": "classification", "model.elmo.layer_norm": True},
    "regression, decoder": TASK
    | {"model.architecture": "decoder", "objective.kind": "regression", "data.label_column": "number"},
    "tagging": WORDS,
    "extraction": EXTRACTION,
    "frozen": TASK | {"training.trained_layers": 0},
    "accumulation": DROPOUT | {"training.accumulation_steps": 2},
}


def check(name):
    """Traces an update, statistics of one, an evaluation, and decoding where the model can do it."""
    config = resolve(ALL[name])
    objective, program, batches, constants = computation(config).inputs
    state, batch = program.abstract_state, batches[0]
    step = UpdateStep(config, program.model, objective)
    jax.eval_shape(step.update, state, batch, constants)
    jax.eval_shape(step.dynamics, state, batch, constants)
    jax.eval_shape(program.eval_step, state["params"], state["stats"], batch, constants)
    if config.model.head.classes == AUTO and config.model.architecture in ("decoder", "encoder_decoder"):
        decode(config, program)


def decode(config, program):
    """Traces sampling and beam search after a prompt, with a cache and without."""
    has_encoder = config.model.architecture == "encoder_decoder"
    depth = (side(config.model, "decoder") if has_encoder else config.model).num_layers
    state = program.abstract_state
    weights = jax.eval_shape(lambda *trees: unstack_layers(*trees, config.model.dtype), state["params"], state["stats"])
    rows = PaddedTokens(jax.ShapeDtypeStruct((2, 4), np.int32), jax.ShapeDtypeStruct((2,), np.int32))
    criteria = StoppingCriteria(np.zeros((config.model.vocab_size, 2), np.int32), np.int32(3))
    sampling = Sampling(np.float32(1), np.int32(3), np.float32(0.9))

    def run(decoder, weights, rows, key):
        read, logits = decoder.prefill(weights, rows, rows if has_encoder else None)
        tokens, lengths, _ = sample(decoder, weights, read, logits, criteria, sampling, key, 4)
        return tokens, lengths, search(decoder, weights, read, logits, criteria, jnp.float32(1), 2, 4)

    for cached in (True, False):
        if cached and config.model.position.scaling.kind == "dynamic":
            continue
        decoder = IncrementalDecoder(split(program.model)[0], has_encoder, depth, 12, config.model.vocab_size, cached)
        jax.eval_shape(partial(run, decoder), weights, rows, jax.eval_shape(jax.random.key, 0))


def main(names):
    """Runs the cases, all by default, and ends with 1 if an annotation is wrong."""
    wrong = 0
    for name in names or ALL:
        try:
            check(name)
        except (AnnotationError, TypeCheckError) as error:
            wrong += 1
            # The rest of the message are the arguments, with the whole config.
            print(f"{name}: {str(error).partition('Called with parameters')[0].strip()}", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
