"""Every field of the config changes what is computed, is refused, or is on the short list of fields
that are read elsewhere.

A field without effect is the worst defect of a laboratory of ablations. The tests compare the traced
program of a training step (its equations, constants and shapes), that of the initial state, and the
batches: everything that a result is computed from.
"""

import re

import jax
import jax.numpy as jnp
import pytest

from tests.fields.every_field import (
    BASE,
    BASES,
    COMPARED_VALUES,
    MASKING,
    NEEDED_BY_CHOICE,
    NEEDED_BY_VALUE,
    NEEDS,
    OTHER_VALUES,
    needed_with,
    other_value,
    resolve,
)
from tests.support.config_fingerprint import differ, equal_ones, fingerprint, live, parts_of
from zoo import config as configs
from zoo.config.fields import IGNORED_BY, has_condition
from zoo.errors import ConfigError, DataError
from zoo.nested import flatten

# Fields that are read elsewhere than in the program and the data, with the test that shows their
# effect.
TESTED_ELSEWHERE = {
    "plugins": "tests/plugins/test_loading.py::test_a_registered_kind_adds_a_choice_and_its_fields",
    "data.hub.revision": "tests/data/sources/test_hubs.py::test_a_hub_name_is_read_at_its_commit",
    "data.hub.streaming": "tests/data/sources/test_hubs.py::test_a_folder_reads_the_same_with_and_without_streaming",
    "data.hub.folder": "tests/data/sources/test_hubs.py::test_tfds_is_read_by_folder_and_by_name",
    "training.log_every": "tests/training/test_run.py::test_reporting_intervals_do_not_change_the_run",
    "training.dynamics_every": "tests/training/test_dynamics.py::test_parameters_are_the_same_bit_for_bit",
    "training.trackers": "tests/training/records/test_trackers.py::test_a_run_is_shown_line_by_line",
    "training.eval_every": "tests/training/test_run.py::test_what_a_run_leaves_behind",
    "training.checkpoint_every": "tests/training/test_run.py::test_what_a_run_leaves_behind",
    "training.keep_checkpoints": "tests/training/checkpoints/test_checkpoint.py::test_newest_and_best_are_kept",
    "objective.longest_answer": "tests/data/labelled/test_spans.py::test_the_best_span_of_all_rows_is_the_answer",
    "objective.beams": "tests/training/test_translations.py::test_beam_search_follows_the_config",
    "objective.length_penalty": "tests/training/test_translations.py::test_beam_search_follows_the_config",
    "training.translate_every": "tests/training/test_translations.py::test_a_run_translates_at_the_configured_steps",
    "training.steps": "tests/training/test_run.py::test_what_a_run_leaves_behind",
    "training.eval_lengths": "tests/training/sharding/test_mesh.py::test_eight_devices_give_the_curve_of_one",
    "training.start_layers": "tests/training/checkpoints/test_start_layers.py::test_layers_are_those_that_are_named_bit_for_bit",
    "training.allow_seen_text": "tests/training/records/test_ancestry.py::test_held_out_text_that_a_parent_was_trained_on_is_refused",
    "training.start_from": "tests/training/checkpoints/test_start.py::test_starts_from_the_parameters_and_statistics_of_another_run",
    "objective.chunk_tokens": "tests/objectives/losses/test_token_chunks.py::test_the_field_sets_the_chunks_of_a_program",
    "mesh.data": "tests/training/sharding/test_mesh.py::test_a_mesh_that_does_not_fit_is_refused_by_name",
    "mesh.fsdp": "tests/training/sharding/test_mesh.py::test_eight_devices_give_the_curve_of_one",
    "mesh.expert": "tests/training/sharding/test_mesh.py::test_eight_devices_give_the_curve_of_one",
    "mesh.tensor": "tests/training/sharding/test_mesh.py::test_eight_devices_give_the_curve_of_one",
}
# Fields with only one choice so far.
SINGLE_CHOICE = {field.path for field in configs.FIELDS if field.choices and len(field.choices) == 1}
TESTED = [field for field in configs.FIELDS if field.path not in {*TESTED_ELSEWHERE, *SINGLE_CHOICE, "data.source"}]
READ_ONLY_WHEN = [field for field in configs.FIELDS if has_condition(field)]


def changed_and_before(field, needs):
    """Returns the config with another value of a field, and the config without it."""
    changed = resolve({**needs, **needed_with(field), field.path: other_value(field)})
    kept = {} if field.path in {**BASE, **needs} else {field.path: COMPARED_VALUES.get(field.path, field.default)}
    return changed, resolve({**needs, **kept})


@pytest.mark.parametrize("field", TESTED, ids=lambda field: field.path)
def test_a_field_changes_the_result(field):
    changed, before = changed_and_before(field, NEEDS.get(field.path, {}))
    assert flatten(changed)[field.path] != flatten(before)[field.path]
    assert differ(changed, before, parts_of(field.path))


def test_updates_are_a_part_of_a_train_step():
    """So fields of the optimizer and the schedule, which change updates, change the step."""
    assert differ(resolve({"optimizer.kind": "sgd"}), resolve({}), ("train step",))


def test_a_forward_pass_and_initial_values_are_parts_of_a_run():
    """So fields of the model, which change either, change the run."""
    changed, before = resolve({"model.ffn.kind": "relu"}), resolve({})
    assert differ(changed, before, ("train step",))
    assert differ(changed, before, ("eval step",))
    assert differ(resolve({"model.init.std": 0.5}), before, ("initial state",))


def test_the_fingerprint_ignores_how_often_a_run_logs():
    one, other = (resolve({"training.log_every": every}) for every in (1, 2))
    assert one != other
    assert fingerprint(one) == fingerprint(other)


def test_the_fingerprint_ignores_unused_computations():
    def program(x, scale, useless):
        if useless:
            jnp.sin(x) @ jnp.full((3, 3), 2.0)
        return x * scale

    texts = [
        live(jax.jit(program, static_argnums=(1, 2)).trace(jnp.ones((2, 3)), *how).jaxpr)[0]
        for how in ((2.0, False), (2.0, True), (3.0, False))
    ]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("field", READ_ONLY_WHEN, ids=lambda field: field.path)
def test_a_field_that_nothing_reads_is_refused(field):
    path, values = field.when
    # The source that all tests here use is not a condition of any field.
    others = [name for name in configs.BY_PATH[path].choices or (False, True) if name not in values]
    elsewhere = {} if path == "data.source" else {path: others[0]}
    with pytest.raises(ConfigError, match=re.escape(field.path) + ".* has no effect"):
        resolve({**elsewhere, field.path: other_value(field)})


def test_the_lists_name_fields_that_exist():
    assert set(TESTED_ELSEWHERE) | set(NEEDS) | set(OTHER_VALUES) | set(NEEDED_BY_VALUE) <= set(configs.BY_PATH)
    assert set(configs.NOT_RESULT_RELEVANT) <= set(TESTED_ELSEWHERE)


# Other architectures than the default one, and other choices

RECURRENT = tuple(field.path for field in configs.FIELDS if field.path.startswith("model.elmo."))
MASKED = (*MASKING, "objective.next_sentence")
SPANS = tuple(f"objective.{name}" for name in ("noise_density", "mean_span_length", "sentinels"))
# Fields of labelled examples, which the bases do not have.
LABELLED = (
    "data.labels",
    "data.conll.words",
    "data.conll.tags",
    "data.header",
    "data.second_column",
    "data.label_column",
    "data.stride",
    "data.examples",
    "model.head.classes",
    "model.head.pooler_activation",
    "model.head.pooling",
    "training.trained_layers",
)
DISTILLED = tuple(
    f"objective.distillation.{name}" for name in ("teacher", "kl", "temperature", "kl_tokens", "cosine", "hard")
)
FUTURE = ("objective.future_tokens", "objective.future_decay")
REPLACED = ("model.generator.num_layers", "model.generator.width_fraction", "objective.discriminator_weight")
STAGES = ("data.length_stages", "data.batch_stages")
# Fields that need rows that one decoder reads from left to right.
ORDERED = (
    *FUTURE,
    *STAGES,
    "model.attention.forget_bias",
    "model.convolution.kind",
    "model.convolution.width",
    "model.convolution.places",
    *(
        f"model.attention.{name}"
        for name in (
            "value_dim",
            "key_heads",
            "convolution_width",
            "decay_rank",
            "rate_rank",
            "value_rank",
            "gate_rank",
            "negative_eigenvalues",
            "gate_bias",
            "chunk_tokens",
            *("state_kind", "state_heads", "state_dim", "mixing"),
        )
    ),
)
# Fields of kinds of attention that cannot read an encoder's output.
WITHOUT_CROSS = tuple(
    f"model.attention.{name}"
    for name in ("sigmoid_bias", "latent_dim", "rotary_dim", "query_latent_dim", "norm_epsilon")
)
# Of token ids without a tokenizer, the rows of these objectives lack the token between documents.
STORED = ("data.token_dtype", "data.tokenizer.ids", "data.tokenizer.document_id")
PAIRED = ("data.source_column", "data.target_column", "data.buckets")
REFUSED_BY = {
    "encoder": (*ORDERED, *REPLACED, *RECURRENT, *SPANS, *LABELLED, *PAIRED, "training.eval_context", "model.embedding.shared", "model.attention.cross_kv_heads",
                "objective.prefix_length", "objective.sampled_softmax"),
    "encoder_decoder": (
        *ORDERED, *REPLACED, *WITHOUT_CROSS, *RECURRENT, "model.layers.loop_draws", "model.layers.eval_loops", *MASKED, *SPANS, "model.ffn.experts.choice", "model.parallel", "model.base_num_layers", "model.layers.pattern", "model.attention.keys_from", "model.embedding.segments", "model.head.pooler",
        "model.head.next_sentence", "model.attention.window", "model.attention.global_tokens", "model.attention.global_projections",
        "model.attention.dilations", "data.position_offsets", "data.isolate_documents", "objective.sampled_softmax", *LABELLED, *PAIRED, *DISTILLED,
        "data.row_format", "data.short_row_fraction", "training.eval_context", "training.eval_masks", *STORED),
    "elmo": (*FUTURE, *REPLACED, *STAGES, *(field.path for field in TESTED if field.path.startswith(IGNORED_BY["elmo"])), "model.elmo.layer_norm", *MASKED, *SPANS,
             "optimizer.muon_heads", "objective.prefix_length", "data.isolate_documents", "data.position_offsets", *LABELLED, *PAIRED, *DISTILLED, "data.row_format",
             "data.short_row_fraction", "training.eval_context", "training.eval_masks", *STORED),
}  # fmt: skip


# Optimizers see arrays and the traits of parameters, whatever model has them; these fields are traced
# for the decoder alone. `muon_heads` reads a trait that not all models have.
OF_ANY_MODEL = re.compile("(optimizer|schedule)[.](?!muon_heads)")


@pytest.mark.promise(reason="every field is traced once more for each architecture")
@pytest.mark.parametrize("architecture", [name for name in BASES if name != "decoder"])
def test_every_architecture_reads_a_field_or_refuses_it(architecture):
    base, refused = BASES[architecture], {}
    for field in TESTED:
        # A teacher is of the default architecture here; see tests/objectives/test_distillation.py
        # for others.
        if field.path in ("model.architecture", "objective.kind", *(DISTILLED if architecture == "encoder" else ())):
            continue
        needs = {path: value for path, value in NEEDS.get(field.path, {}).items() if path not in base} | base
        try:
            changed, before = changed_and_before(field, needs)
        except ConfigError as error:
            refused[field.path] = error.problems
        else:
            assert OF_ANY_MODEL.match(field.path) or differ(changed, before, parts_of(field.path)), field.path
    assert set(refused) == set(REFUSED_BY[architecture])
    if architecture == "elmo":
        # The fields that a field needs are refused too, but each field also has a line of its own,
        # except those of sources without text, and one that such a field makes readable.
        assert all(
            any(path in problem for problem in problems)
            for path, problems in refused.items()
            if path not in (*LABELLED, *STORED, "data.short_row_fraction")
        )


@pytest.mark.promise(reason="every choice is traced; the fields above compare two")
@pytest.mark.parametrize(
    "field", [field for field in TESTED if field.choices and len(field.choices) > 2], ids=lambda field: field.path
)
def test_every_choice_gives_a_different_program(field):
    needs, found = NEEDS.get(field.path, {}), {}
    for choice in field.choices:
        # The former can only be traced on its device; an expert is no mixture, and has hidden units.
        if choice == "cudnn" or (field.path == "model.ffn.experts.kind" and choice in ("moe", "none")):
            continue
        base = next((base for base in BASES.values() if base.get(field.path) == choice), {})
        config = resolve({**needs, **base} | NEEDED_BY_CHOICE.get((field.path, choice), {}) | {field.path: choice})
        if (field.path, choice) == ("data.bad_text", "error"):
            with pytest.raises(DataError, match="bad_text to replace or skip"):
                fingerprint(config)
        else:
            found[choice] = config
    assert not equal_ones(found, parts_of(field.path))
