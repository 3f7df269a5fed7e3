"""OLMo-hybrid and Kimi Linear: settings in both forms, and the tensors of files that transformers 5
has written, whose names and shapes differ from those of the published ones.
"""

import numpy as np
import pytest

from tests.interop.published_settings import kimi_linear, kimi_linear_five, linear_attention, olmo_hybrid
from tests.parity.harness import resolved
from tests.support.checkpoints_of_others import OF_CLASSES, stored_tensors
from tests.support.stored_outputs import read
from zoo.errors import ConfigError, DataError
from zoo.interop import resolve_like
from zoo.interop.model_weights import import_weights
from zoo.nested import flatten

CHARACTERS = {"data.tokenizer.kind": "characters"}


def model(class_name, settings):
    return resolve_like(class_name, settings, CHARACTERS).model


def test_both_forms_of_the_settings_of_kimi_linear_are_one_model():
    """One counts layers from 1 within a dict, the other lists types."""
    found = [model("KimiLinearForCausalLM", settings) for settings in (kimi_linear(), kimi_linear_five())]
    assert found[0] == found[1]
    kinds = found[0].layers.pattern
    assert (len(kinds), kinds[0], kinds[3], kinds[26]) == (27, "state_dense", "full_sparse", "full_sparse")
    assert sum(name.startswith("full") for name in kinds) == 7
    # Without either, the class has no layer of attention at the end.
    plain = model("KimiLinearForCausalLM", {}).layers.pattern
    assert sum(name.startswith("full") for name in plain) == 6


def test_types_of_layers_precede_those_of_the_inner_dict():
    types = ["full_attention"] + ["linear_attention"] * 26
    found = model("KimiLinearForCausalLM", kimi_linear(layer_types=types)).layers.pattern
    assert found == ("full_dense", *("state_sparse",) * 26)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (kimi_linear(linear_attn_config=linear_attention(kda_layers=[1, 2])), "each of the 27 layers once"),
        (
            kimi_linear(mlp_layer_types=["dense"]),
            "mlp_layer_types=.*expected dense or sparse for each of the 27 layers",
        ),
        (kimi_linear(num_expert_group=0), "n_group=0: expected at least one"),
        (kimi_linear(attention_bias=True), "attention_bias=True: without q_lora_rank"),
        (kimi_linear(hidden_act="gelu"), "hidden_act='gelu': the class applies it to the convolutions"),
    ],
)
def test_what_kimi_linear_cannot_express_is_refused_in_one_line(settings, words):
    with pytest.raises(ConfigError, match=words) as caught:
        model("KimiLinearForCausalLM", settings)
    assert len(caught.value.problems) == 1


def test_positions_of_olmo_hybrid_are_left_out_where_the_base_is_none():
    for given in (
        {"rope_parameters": {"rope_theta": None, "rope_type": "default"}},
        {"rope_parameters": None, "rope_theta": None},
    ):
        found = model("OlmoHybridForCausalLM", olmo_hybrid(**given))
        assert found.layers.kinds.full.to_dict().get("position", {}) == {}
        assert found.position.kind == "none"
    turned = model("OlmoHybridForCausalLM", olmo_hybrid(rope_parameters=None)).layers.kinds.full.position
    assert (turned.kind, turned.theta) == ("rope", 10_000.0)


def written_by_five(name, tensors):
    """Returns the tensors as transformers 5 writes them."""
    found = {}
    for tensor, array in tensors.items():
        if name == "olmo-hybrid" and tensor.endswith("post_attention_layernorm.weight"):
            tensor = tensor.replace("post_attention_layernorm", "feedforward_layer_norm")
        if name == "kimi-linear" and ".mlp." in tensor:
            tensor = tensor.replace(".mlp.", ".block_sparse_moe.")
        found[tensor] = array
    for tensor in [tensor for tensor in found if tensor.endswith("q_conv1d.weight")]:
        names = [tensor.replace("q_conv1d", f"{part}_conv1d") for part in "qkv"]
        # Three equal parts, of as many channels as are left in the last.
        whole = np.concatenate([found[part] for part in names])
        third = -(-len(whole) // 3)
        found |= dict(zip(names, (whole[:third], whole[third : 2 * third], whole[2 * third :]), strict=True))
    return found


@pytest.mark.parametrize("name", ["olmo-hybrid", "kimi-linear"])
def test_files_of_transformers_5_are_read_as_published_ones(name):
    system, tensors = OF_CLASSES[name], stored_tensors(name)
    config = resolved(system, read(name)[0]["config"])
    expected, found = (
        [flatten(tree, "/") for tree in import_weights(system.reference, config, given)]
        for given in (tensors, written_by_five(name, tensors))
    )
    assert tensors.keys() != written_by_five(name, tensors).keys()
    for one, other in zip(expected, found, strict=True):
        assert one.keys() == other.keys()
        for path, array in one.items():
            np.testing.assert_array_equal(array, other[path])


def test_a_file_with_both_names_of_a_norm_is_refused():
    system, tensors = OF_CLASSES["olmo-hybrid"], stored_tensors("olmo-hybrid")
    config = resolved(system, read("olmo-hybrid")[0]["config"])
    more = {"model.layers.1.feedforward_layer_norm.weight": tensors["model.layers.1.post_attention_layernorm.weight"]}
    with pytest.raises(DataError, match=r"are both model\.layers\.1\.post_attention_layernorm\.weight"):
        import_weights(system.reference, config, tensors | more)
