"""Published config files are read as they are, or refused for a stated reason; files of another
family are never read.
"""

import pytest

from tests.interop.published_settings import EVERYWHERE, FILES, FIVE
from zoo.errors import ConfigError
from zoo.interop import FAMILIES, importer_of, resolve_like
from zoo.interop.class_registry import check_family, named_class, read_settings
from zoo.interop.config_export import choose_class
from zoo.interop.settings.importer import SettingsError, SettingsReader
from zoo.interop.settings.inert_settings import INERT_SETTINGS


def content(name):
    file = FILES[name]
    return EVERYWHERE | {"architectures": [file.class_name], "model_type": file.model_type} | file.settings


@pytest.mark.parametrize("name", FILES)
def test_a_published_file_is_accepted_or_refused_for_the_stated_reason(name):
    settings = content(name)
    if words := FILES[name].refused:
        with pytest.raises(ConfigError) as refused:
            resolve_like(named_class(settings), settings)
        assert any(words in problem for problem in refused.value.problems), refused.value.problems
        return
    model = resolve_like(named_class(settings), settings, {"data.tokenizer.kind": "characters"}).model
    sizes = {settings.get(setting) for setting in ("hidden_size", "d_model", "n_embd", "n_embed", "dim")} - {None}
    assert sizes <= {model.dim}


def test_every_type_that_is_imported_has_a_published_file():
    there = {file.model_type for file in FILES.values() if not file.refused}
    assert {importer.model_type for importer in FAMILIES.values() if importer.model_type} <= there


# Another family


@pytest.mark.parametrize("class_name", FAMILIES)
def test_no_class_reads_a_file_of_another_family(class_name):
    for name, file in FILES.items():
        if file.model_type != importer_of(class_name).model_type:
            with pytest.raises(ConfigError, match=rf"model_type='{file.model_type}': {class_name} is of type"):
                read_settings(class_name, content(name))


def test_the_classes_that_read_a_type_are_named():
    settings = content("meta-llama/Llama-2-7b-hf")
    with pytest.raises(ConfigError, match=r"model_type='llama': GemmaForCausalLM .* LlamaForCausalLM.* read it"):
        read_settings("GemmaForCausalLM", settings)
    with pytest.raises(ConfigError, match=r"model_type='helium': LlamaForCausalLM .* no class reads that type"):
        read_settings("LlamaForCausalLM", content("kyutai/helium-1-preview-2b"))


def test_without_a_type_the_class_tells_the_family():
    check_family("BertForMaskedLM", {"architectures": ["BertForSequenceClassification"]})
    check_family("BertForMaskedLM", {})
    with pytest.raises(ConfigError, match=r"architectures='HeliumForCausalLM': LlamaForCausalLM is of another family"):
        read_settings("LlamaForCausalLM", {"architectures": ["HeliumForCausalLM"]})


@pytest.mark.parametrize(("unknown", "model_type", "suggested"), [
    ("GPT2LMHeadModell", "gpt2", "GPT2LMHeadModel"), ("LlamForCausalLM", "llama", "LlamaForCausalLM"),
    ("GemmaForCausalLLM", None, "GemmaForCausalLM"), ("HeliumForCausalLM", "helium", None), ("HeliumForCausalLM", None, None),
    ("Qwen2MoeForCausalLM", "qwen2_moe", None),
])  # fmt: skip
def test_another_family_is_never_suggested(unknown, model_type, suggested):
    with pytest.raises(ConfigError) as refused:
        named_class({"architectures": [unknown], "model_type": model_type})
    (line,) = refused.value.problems
    assert ("did you mean" in line) == (suggested is not None)
    assert suggested is None or f'did you mean "{suggested}' in line


# Settings of transformers 5


@pytest.mark.parametrize("name", [name for name in FILES if "transformers 5" in name])
def test_the_settings_of_transformers_5_mean_those_of_transformers_4(name):
    five = content(name)
    four = {setting: value for setting, value in five.items() if setting != "rope_parameters"}
    rope = five["rope_parameters"]
    both = rope.get("full_attention", rope)
    names = {"rope_theta": "rotary_emb_base"} if FILES[name].model_type == "gpt_neox" else {}
    four |= {names.get("rope_theta", "rope_theta"): both["rope_theta"]}
    if "sliding_attention" in rope:
        four["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    if both["rope_type"] != "default":
        four["rope_scaling"] = {key: value for key, value in both.items() if key != "rope_theta"}
    class_name = named_class(five)
    assert read_settings(class_name, five) == read_settings(class_name, four)
    changed = {setting: value | {"rope_theta": 123.0} for setting, value in rope.items() if isinstance(value, dict)}
    assert read_settings(
        class_name, five | {"rope_parameters": changed or rope | {"rope_theta": 123.0}}
    ) != read_settings(class_name, four)


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_5_writes_the_head_of_t5_by_its_scale(tied):
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
def test_settings_that_contradict_each_other_are_refused(class_name, settings, words):
    with pytest.raises(ConfigError) as refused:
        read_settings(class_name, settings)
    assert any(words in line for line in refused.value.problems), refused.value.problems


# Inert settings


@pytest.mark.parametrize("entry", INERT_SETTINGS, ids=lambda entry: entry.names[0])
def test_an_inert_setting_is_one_for_its_types_and_values_alone(entry):
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


def test_no_setting_is_inert_twice_for_a_type():
    seen = [
        (name, model_type) for entry in INERT_SETTINGS for name in entry.names for model_type in entry.of or ("all",)
    ]
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("name", [name for name in FILES if "transformers 5" in name])
def test_an_export_keeps_the_settings_of_transformers_5(name):
    settings = content(name)
    class_name = named_class(settings)
    config = resolve_like(class_name, settings, {"data.tokenizer.kind": "characters"})
    written = choose_class(config, None, class_name, settings).settings
    assert written["rope_parameters"] == settings["rope_parameters"]
    again = resolve_like(class_name, dict(written), {"data.tokenizer.kind": "characters"})
    assert again.model.position == config.model.position
