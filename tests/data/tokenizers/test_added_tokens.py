"""Added tokens and roles of special tokens, in files of every layout, old and new."""

import json

import pytest

from tests.support.small_tokenizers import CORPUS, OPENS, byte_level, saved, sentencepiece_content
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, read_pretrained
from zoo.decoding.special_tokens import read_special_tokens
from zoo.errors import ConfigError, DataError

TEXTS = (
    "the cat <|im_start|>user\nsat<tool> on the mat<|im_end|>",
    "<tool>  <tool> the<tool>",
    "plain text",
    "<|new|> x",
)
ADDED = ("<|im_start|>", "<|im_end|>", "<tool>")
CLASSES = {
    "json": "PreTrainedTokenizerFast",
    "merges": "GPT2Tokenizer",
    "wordpiece": "BertTokenizer",
    "model": "LlamaTokenizer",
}


def layout(folder, kind):
    """Writes a vocabulary, without the files that describe its special tokens.

    Returns:
        (folder, number of ids).
    """
    folder.mkdir()
    if kind == "json":
        model = byte_level()
        model.save(str(folder / "tokenizer.json"))
        return folder, model.get_vocab_size()
    if kind == "merges":
        state = json.loads(byte_level().to_str())["model"]
        (folder / "vocab.json").write_text(json.dumps(state["vocab"]))
        pairs = (pair if isinstance(pair, str) else " ".join(pair) for pair in state["merges"])
        (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{pair}\n" for pair in pairs))
        return folder, len(state["vocab"])
    if kind == "wordpiece":
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({*" ".join(CORPUS).split()}), "<", ">", "|"]
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
        return folder, len(tokens)
    (folder / "tokenizer.model").write_bytes(sentencepiece_content())
    return folder, read_pretrained(folder).vocab_size


def beside(folder, kind, size, new, **roles):
    """Writes the files beside a layout: in today's form (`new`), or in the older one."""
    specials = [*ADDED[:2], *([ADDED[2]] if kind == "model" else [])]
    settings = {"tokenizer_class": CLASSES[kind], **roles}
    if new:
        settings["added_tokens_decoder"] = {
            str(size + place): {"content": token, "special": token in specials, "lstrip": False, "rstrip": False,
                                "single_word": False, "normalized": False}
            for place, token in enumerate(ADDED)
        }  # fmt: skip
    else:
        settings = {"tokenizer_class": CLASSES[kind]}
        (folder / "special_tokens_map.json").write_text(json.dumps({**roles, "additional_special_tokens": specials}))
        (folder / "added_tokens.json").write_text(
            json.dumps({token: size + place for place, token in enumerate(ADDED)})
        )
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
@pytest.mark.parametrize("kind", CLASSES)
def test_added_tokens_have_their_ids_and_special_ones_are_no_text(tmp_path, kind, new):
    folder, size = layout(tmp_path / kind, kind)
    plain = read_pretrained(folder)
    beside(folder, kind, size, new, bos_token="<|im_start|>")
    tokenizer = read_pretrained(folder)
    assert (plain.vocab_size, tokenizer.vocab_size) == (size, size + 3)
    assert (tokenizer.bos_id, {size, size + 1} <= tokenizer.special_ids) == (size, True)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert not {size, size + 1} & {*ids.tolist()}
        assert (ids == size + 2).sum() == (0 if kind == "model" else text.count("<tool>"))
        if kind != "model":
            read = read_special_tokens(tokenizer)(text).tolist()
            assert read.count(size) == text.count("<|im_start|>")
    tokenizer.save(tmp_path / "run")
    again = load_tokenizer(tmp_path / "run")
    assert (again.fingerprint, again.bos_id, again.vocab_size) == (tokenizer.fingerprint, size, size + 3)


@pytest.mark.parity
@pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
@pytest.mark.parametrize("kind", CLASSES)
def test_ids_and_roles_are_those_of_transformers(tmp_path, kind, new):
    transformers = pytest.importorskip("transformers")
    folder, size = layout(tmp_path / kind, kind)
    roles = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|new|>"}
    beside(folder, kind, size, new, **roles)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), read_pretrained(folder)
    assert ours.vocab_size == len(theirs)
    assert ours.bos_id == theirs.bos_token_id
    named = {theirs.convert_tokens_to_ids(token) for token in (*roles.values(), *ADDED[:2])}
    assert named == {size, size + 1, size + 3}
    assert named <= ours.special_ids
    if kind == "wordpiece":
        assert (ours.mask_id, ours.separator_id) == (theirs.mask_token_id, theirs.sep_token_id)
    if kind != "model":
        for text in TEXTS:
            assert read_special_tokens(ours)(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"], text
    else:
        assert ours.encode("the cat sat").tolist() == theirs("the cat sat", add_special_tokens=False)["input_ids"]


@pytest.mark.parity
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("wordpiece", {"tokenizer_class": "BertTokenizer", "do_lower_case": False}),
        ("wordpiece", {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "strip_accents": False}),
        ("byte_level", {"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": True}),
        ("byte_level", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": False, "mask_token": "<m>"}),
    ],
)
def test_settings_beside_a_library_file_are_followed_as_by_transformers(tmp_path, kind, settings):
    transformers = pytest.importorskip("transformers")
    folder = saved(tmp_path / kind, kind, **settings)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), read_pretrained(folder)
    assert ours.vocab_size == len(theirs)
    for text in ("The Cat, café", "the data", "Caf\u00e9"):
        assert ours.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"], text
    if "mask_token" in settings:
        assert ours.mask_id == theirs.mask_token_id == ours.vocab_size - 1


def of_a_model(folder, kind, model_type, before=True, lower=True, **settings):
    """Writes a tokenizer whose file says whether it lowers case or puts a space before a text, beside
    the config of a kind of model.
    """
    saved(folder, kind, **settings)
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    content = json.loads((folder / "tokenizer.json").read_text())
    content["normalizer"] = content["normalizer"] and content["normalizer"] | {"lowercase": lower}
    if kind == "byte_level":
        content["pre_tokenizer"]["add_prefix_space"] = before
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder


OF_MODELS = {
    "settings without a class": ("wordpiece", "bert", {"do_lower_case": False}),
    "a class without settings": ("wordpiece", "bert", {"tokenizer_class": "BertTokenizer"}),
    "accents without a class": ("wordpiece", "distilbert", {"strip_accents": False}),
    "neither": ("wordpiece", "electra", {}),
    "a space that the class does not put": ("byte_level", "gpt2", {"tokenizer_class": "GPT2Tokenizer"}),
    "a space that no class is named for": ("byte_level", "roberta", {}),
    "a space that is asked for": ("byte_level", "gpt_neox", {"add_prefix_space": True}),
}


@pytest.mark.parity
@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("name", OF_MODELS)
def test_settings_that_are_missing_are_those_of_the_class_in_transformers(tmp_path, name, says):
    transformers = pytest.importorskip("transformers")
    kind, model_type, settings = OF_MODELS[name]
    folder = of_a_model(tmp_path / kind, kind, model_type, says, says, **settings)
    theirs, ours = transformers.AutoTokenizer.from_pretrained(folder), read_pretrained(folder)
    for text in ("The Cat, café", "the data", " the Cat"):
        assert ours.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"], text


def test_settings_that_are_missing_are_those_of_the_class(tmp_path):
    cased = of_a_model(tmp_path / "cased", "wordpiece", "bert", do_lower_case=False)
    lowered = of_a_model(tmp_path / "lowered", "wordpiece", "bert", lower=False, tokenizer_class="BertTokenizer")
    the = [read_pretrained(folder).encode("THE").tolist() for folder in (cased, lowered)]
    assert the[1] == read_pretrained(cased).encode("the").tolist() != the[0]
    other = read_pretrained(of_a_model(tmp_path / "other", "wordpiece", "gpt2", lower=False))
    assert other.encode("THE").tolist() == the[0]
    for name in ("gpt2", "mamba"):
        folder = of_a_model(tmp_path / name, "byte_level", name)
        spaced = read_pretrained(folder).encode("the").tolist() == read_pretrained(folder).encode(" the").tolist()
        assert spaced is (name == "mamba")


def test_settings_beside_a_library_file_are_followed(tmp_path):
    plain, cased = (read_pretrained(saved(tmp_path / name, "wordpiece", **settings)) for name, settings in (
        ("plain", {}), ("cased", {"tokenizer_class": "BertTokenizer", "do_lower_case": False})))  # fmt: skip
    assert plain.encode("THE").tolist() == plain.encode("the").tolist() == cased.encode("the").tolist()
    assert cased.encode("THE").tolist() != cased.encode("the").tolist()
    spaced = read_pretrained(saved(tmp_path / "spaced", "byte_level", add_prefix_space=True))
    assert spaced.encode("the").tolist() == spaced.encode(" the").tolist()
    assert not spaced.lossless


def test_the_token_that_a_file_names_comes_before_the_guesses(tmp_path):
    folder = saved(tmp_path / "a", "byte_level", bos_token={"content": "the", "special": True}, mask_token="<m>")
    tokenizer = read_pretrained(folder)
    guessed = read_pretrained(saved(tmp_path / "b", "byte_level"))
    assert tokenizer.pieces[guessed.encode("the")[0]] == b""
    assert (tokenizer.bos_id, tokenizer.mask_id) == (guessed.encode("the")[0], guessed.vocab_size)
    same = read_pretrained(saved(tmp_path / "c", "byte_level", bos_token=OPENS, eos_token=OPENS))
    # What changes nothing is not part of the definition, so runs that have it already are resumed.
    assert same.fingerprint == guessed.fingerprint
    assert read_pretrained(saved(tmp_path / "d", "sentencepiece", bos_token="<s>")).fingerprint == (
        read_pretrained(saved(tmp_path / "e", "sentencepiece")).fingerprint
    )


def test_a_token_that_opens_documents_is_needed(tmp_path):
    model = byte_level()
    state = json.loads(model.to_str())
    state["added_tokens"][0]["content"] = "<|own|>"
    state["model"]["vocab"]["<|own|>"] = state["model"]["vocab"].pop(OPENS)
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(DataError, match=r"no token that could open a document; .*bos_token of tokenizer_config.json"):
        read_pretrained(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|own|>"}))
    tokenizer = read_pretrained(tmp_path)
    assert (tokenizer.bos_id, tokenizer.lossless) == (0, True)


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        ("tokenizer_config.json", "[]", "tokenizer_config.json holds no JSON object"),
        ("tokenizer_config.json", "{", "tokenizer_config.json cannot be read"),
        ("tokenizer_config.json", {"added_tokens_decoder": []}, "added_tokens_decoder must be an object"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": "y"}}, "'x' is no id of a token"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"330": {"special": True}}}, r"added_tokens_decoder\[330\] is"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"330": {"content": "a", "lstrip": 1}}}, "has lstrip=1"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"400": {"content": "<a>"}}}, "'<a>' has the id 400, and by the vocabulary"),
        ("tokenizer_config.json", {"bos_token": 3}, "bos_token is 3"),
        ("added_tokens.json", {"<a>": -1}, "-1 is no id of a token"),
        ("added_tokens.json", {"<a>": 7}, "'<a>' has the id 7"),
        ("special_tokens_map.json", "7", "special_tokens_map.json holds no JSON object"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_by_name(tmp_path, file, content, problem):
    folder = saved(tmp_path / "t", "byte_level")
    (folder / file).write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigError, match=problem) as caught:
        read_pretrained(folder)
    assert len(caught.value.problems) == 1


def test_added_tokens_that_are_text_are_refused_beside_a_sentencepiece_model(tmp_path):
    folder, size = layout(tmp_path / "t", "model")
    (folder / "added_tokens.json").write_text(json.dumps({"<tool>": size}))
    with pytest.raises(ConfigError, match="the added token '<tool>' is found in text"):
        read_pretrained(folder)
    sentinels = {
        "added_tokens_decoder": {"9000": {"content": "<extra_id_0>", "special": True}, "0": {"content": "<unk>"}}
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(sentinels))
    assert read_pretrained(folder).vocab_size == size


def test_an_added_token_that_the_library_would_number_otherwise_is_refused(tmp_path):
    folder, size = layout(tmp_path / "json", "json")
    state = json.loads((folder / "tokenizer.json").read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for id, problem in (
        (size, None),
        (size + 7, f"'<tool>' has the id {size + 7}, and the vocabulary leads to {size}"),
    ):
        tokens = [*state["added_tokens"], {"id": id, "content": "<tool>", "special": True, **flags}]
        (folder / "tokenizer.json").write_text(json.dumps(state | {"added_tokens": tokens}))
        if problem is None:
            assert read_pretrained(folder).id_of("<tool>") == size
        else:
            with pytest.raises(ConfigError, match=problem):
                read_pretrained(folder)
