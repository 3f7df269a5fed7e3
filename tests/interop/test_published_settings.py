"""Published config files are accepted, or rejected for a stated reason; files of another family are
always rejected.
"""

import pytest

from tests.interop.published_settings import EVERYWHERE, FILES, FIVE
from zoo.errors import ConfigError
from zoo.interop import FAMILIES, importer_of, resolve_like
from zoo.interop.class_registry import check_family, named_class, read_settings
from zoo.interop.config_export import choose_class
from zoo.interop.settings.importer import SettingsError, SettingsReader
from zoo.interop.settings.inert_settings import INERT_SETTINGS


def full_settings(name):
    file = FILES[name]
    return EVERYWHERE | {"architectures": [file.class_name], "model_type": file.model_type} | file.settings


@pytest.mark.parametrize("name", FILES)
def test_published_configs_are_accepted_or_rejected_as_stated(name):
    settings = full_settings(name)
    if words := FILES[name].refused:
        with pytest.raises(ConfigError) as refused:
            resolve_like(named_class(settings), settings)
        assert any(words in problem for problem in refused.value.problems), refused.value.problems
        return
    model = resolve_like(named_class(settings), settings, {"data.tokenizer.kind": "characters"}).model
    sizes = {settings.get(setting) for setting in ("hidden_size", "d_model", "n_embd", "n_embed", "dim")} - {None}
    assert sizes <= {model.dim}


def test_every_imported_model_type_has_a_published_config():
    accepted_types = {file.model_type for file in FILES.values() if not file.refused}
    assert {importer.model_type for importer in FAMILIES.values() if importer.model_type} <= accepted_types


# Another family


@pytest.mark.parametrize("class_name", FAMILIES)
def test_configs_of_other_families_are_rejected(class_name):
    for name, file in FILES.items():
        if file.model_type != importer_of(class_name).model_type:
            with pytest.raises(ConfigError, match=rf"model_type='{file.model_type}': {class_name} is of type"):
                read_settings(class_name, full_settings(name))


def test_the_error_names_classes_that_read_the_model_type():
    settings = full_settings("meta-llama/Llama-2-7b-hf")
    with pytest.raises(ConfigError, match=r"model_type='llama': GemmaForCausalLM .* LlamaForCausalLM.* read it"):
        read_settings("GemmaForCausalLM", settings)
    with pytest.raises(ConfigError, match=r"model_type='starcoder2': LlamaForCausalLM .* no class reads that type"):
        read_settings("LlamaForCausalLM", full_settings("bigcode/starcoder2-3b"))


def test_the_class_name_gives_the_family_without_a_model_type():
    check_family("BertForMaskedLM", {"architectures": ["BertForSequenceClassification"]})
    check_family("BertForMaskedLM", {})
    with pytest.raises(
        ConfigError, match=r"architectures='Starcoder2ForCausalLM': LlamaForCausalLM is of another family"
    ):
        read_settings("LlamaForCausalLM", {"architectures": ["Starcoder2ForCausalLM"]})


@pytest.mark.parametrize(("unknown", "model_type", "suggested"), [
    ("GPT2LMHeadModell", "gpt2", "GPT2LMHeadModel"), ("LlamForCausalLM", "llama", "LlamaForCausalLM"),
    ("GemmaForCausalLLM", None, "GemmaForCausalLM"), ("Starcoder2ForCausalLM", "starcoder2", None), ("Starcoder2ForCausalLM", None, None),
    ("Glm4MoeForCausalLM", "glm4_moe", None),
])  # fmt: skip
def test_suggestions_stay_within_the_family(unknown, model_type, suggested):
    with pytest.raises(ConfigError) as refused:
        named_class({"architectures": [unknown], "model_type": model_type})
    (line,) = refused.value.problems
    assert ("did you mean" in line) == (suggested is not None)
    assert suggested is None or f'did you mean "{suggested}' in line


def test_the_error_for_another_mixture_names_every_class_that_has_experts():
    with pytest.raises(ConfigError) as refused:
        named_class(full_settings("zai-org/GLM-4.5-Air"))
    having = {name for name, importer in FAMILIES.items() if "num_experts_per_tok" in importer.defaults}
    assert set(refused.value.problems[0].rpartition("importers for ")[2].split(", ")) == having


# Settings of transformers 5


def test_stretching_that_transformers_5_does_not_write_is_none():
    name = "an Apertus that is not stretched"
    assert "model.position.scaling.kind" not in read_settings("ApertusForCausalLM", full_settings(name))
    assert read_settings("ApertusForCausalLM", {})["model.position.scaling.kind"] == "llama3"


def test_plain_positions_of_a_gpt_oss_are_not_stretched():
    plain = {"rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}}
    assert "model.position.scaling.kind" not in read_settings("GptOssForCausalLM", plain)
    assert read_settings("GptOssForCausalLM", {})["model.position.scaling.kind"] == "yarn"


def test_numbers_that_json_does_not_have_are_read():
    limits = {"time_step_limit": [0.0, {"__float__": "Infinity"}]}
    assert read_settings("Mamba2ForCausalLM", limits) == read_settings("Mamba2ForCausalLM", {})
    with pytest.raises(ConfigError, match="time_step_limit"):
        read_settings("Mamba2ForCausalLM", {"time_step_limit": [0.0, 1.0]})


def test_experts_of_a_qwen3_moe_have_two_names():
    renamed = read_settings("Qwen3MoeForCausalLM", {"num_local_experts": 16})
    assert renamed == read_settings("Qwen3MoeForCausalLM", {"num_experts": 16})
    assert renamed["model.ffn.experts.number"] == 16


@pytest.mark.parametrize(
    ("class_name", "settings", "problem"),
    [
        ("SmolLM3ForCausalLM", {"num_hidden_layers": 0}, "without layers"),
        ("LongformerForMaskedLM", {"num_hidden_layers": 0}, "wrong type or size"),
        ("GPT2LMHeadModel", {"architectures": 5}, "architectures=5: expected a list"),
        ("GPT2LMHeadModel", {"architectures": "GPT2LMHeadModel"}, "expected a list"),
        ("Mamba2ForCausalLM", {"time_step_limit": [0.0, {"__float__": "wide"}]}, "wrong type"),
    ],
)
def test_settings_that_no_model_has_are_one_line(class_name, settings, problem):
    with pytest.raises(ConfigError, match=problem):
        read_settings(class_name, settings)


@pytest.mark.parametrize("name", [name for name in FILES if "transformers 5" in name])
def test_transformers_5_settings_equal_those_of_transformers_4(name):
    five = full_settings(name)
    four = {setting: value for setting, value in five.items() if setting != "rope_parameters"}
    rope = five["rope_parameters"]
    global_rope = rope.get("full_attention", rope)
    names = {"rope_theta": "rotary_emb_base"} if FILES[name].model_type == "gpt_neox" else {}
    four |= {names.get("rope_theta", "rope_theta"): global_rope["rope_theta"]}
    if "sliding_attention" in rope:
        four["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    if global_rope["rope_type"] != "default":
        four["rope_scaling"] = {key: value for key, value in global_rope.items() if key != "rope_theta"}
    class_name = named_class(five)
    assert read_settings(class_name, five) == read_settings(class_name, four)
    changed = {setting: value | {"rope_theta": 123.0} for setting, value in rope.items() if isinstance(value, dict)}
    assert read_settings(
        class_name, five | {"rope_parameters": changed or rope | {"rope_theta": 123.0}}
    ) != read_settings(class_name, four)


def test_layers_of_transformers_5_have_their_own_base():
    full, local = ({"rope_theta": theta, "rope_type": "default"} for theta in (5e5, 1e4))
    both = {"rope_parameters": {"full_attention": full, "sliding_attention": local}}
    olmo = read_settings("Olmo3ForCausalLM", both)
    assert (olmo["model.position.theta"], olmo["model.layers.kinds.local.position.theta"]) == (5e5, 1e4)
    types = ["full_attention", "sliding_attention"] * 11
    bert = read_settings("ModernBertForMaskedLM", both | {"layer_types": types})
    names = ("local", "global")
    assert [bert[f"model.layers.kinds.{name}.position.theta"] for name in names] == [1e4, 5e5]
    assert bert["model.layers.pattern"][:4] == ("first", "local", "global", "local")
    with pytest.raises(ConfigError, match="full_attention first"):
        read_settings("ModernBertForMaskedLM", {"layer_types": types[::-1]})


def test_mt5_of_transformers_5_is_untied_and_not_scaled():
    fields = read_settings(
        "MT5ForConditionalGeneration", {"tie_word_embeddings": True, "transformers_version": "5.1.0"}
    )
    assert not fields["model.tie_embeddings"]
    assert fields["model.head.scale"] == "none"


@pytest.mark.parametrize("tied", [True, False])
def test_t5_head_scale_of_transformers_5(tied):
    before = read_settings("T5ForConditionalGeneration", {"tie_word_embeddings": tied})
    after = {"tie_word_embeddings": True, "scale_decoder_outputs": tied}
    assert read_settings("T5ForConditionalGeneration", after) == before
    assert before["model.head.scale"] == ("rsqrt_dim" if tied else "none")


@pytest.mark.parametrize(("class_name", "settings", "words"), [
    ("LlamaForCausalLM", FIVE | {"rope_theta": 5.0}, "rope_theta': 10000.0, 'rope_type': 'default'}: differs from rope_theta=5.0"),
    ("LlamaForCausalLM", FIVE | {"rope_scaling": {"type": "linear", "factor": 2.0}}, "differs from rope_scaling="),
    ("LlamaForCausalLM", {"rope_parameters": 3}, "rope_parameters=3: expected a dict"),
    ("LlamaForCausalLM", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor=0.5: not known"),
    ("Gemma3ForCausalLM", {"rope_parameters": {"full_attention": {"rope_theta": 1e6, "rope_type": "default"}, "sliding_attention": {
        "rope_theta": 1e4, "rope_type": "linear", "factor": 2.0}}}, "expected no scaling"),
    ("Gemma2ForCausalLM", {"hidden_act": "silu"}, "hidden_act='silu': differs from hidden_activation"),
])  # fmt: skip
def test_contradictory_settings_are_rejected(class_name, settings, words):
    with pytest.raises(ConfigError) as refused:
        read_settings(class_name, settings)
    assert any(words in line for line in refused.value.problems), refused.value.problems


# Inert settings


@pytest.mark.parametrize("entry", INERT_SETTINGS, ids=lambda entry: entry.names[0])
def test_inert_settings_apply_only_to_their_types_and_values(entry):
    assert entry.why
    for model_type in entry.of or ("llama",):
        for name in entry.names:
            for value in entry.values if entry.values is not None else ("anything", 3, None):
                SettingsReader({name: value}, {}, model_type).finish()
            if entry.values is not None:
                with pytest.raises(SettingsError) as refused:
                    SettingsReader({name: "another"}, {}, model_type).finish()
                assert entry.why in str(refused.value)
                assert not refused.value.unknown
    if entry.of:
        with pytest.raises(SettingsError) as refused:
            SettingsReader({entry.names[0]: "anything"}, {}, "another type").finish()
        assert refused.value.unknown <= set(entry.names)


def test_inert_settings_are_listed_once():
    entries = [
        (name, model_type) for entry in INERT_SETTINGS for name in entry.names for model_type in entry.of or ("all",)
    ]
    assert len(entries) == len(set(entries))


@pytest.mark.parametrize("name", [name for name in FILES if "transformers 5" in name])
def test_export_keeps_transformers_5_settings(name):
    settings = full_settings(name)
    class_name = named_class(settings)
    config = resolve_like(class_name, settings, {"data.tokenizer.kind": "characters"})
    written = choose_class(config, None, class_name, settings).settings
    assert written["rope_parameters"] == settings["rope_parameters"]
    again = resolve_like(class_name, dict(written), {"data.tokenizer.kind": "characters"})
    assert again.model.position == config.model.position
