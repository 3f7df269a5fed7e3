"""Checkpoints and tokenizers that transformers 5 writes mean the same in zoo.

`make test-transformers5` runs these tests in an environment of its own: the comparisons with classes
need transformers 4.
"""

import json

import numpy as np
import pytest

pytest.importorskip("transformers", minversion="5")

import torch
import transformers

from tests.parity.harness import cotangents, make_batch, output_difference, resolved, run_ours
from tests.parity.references import build
from tests.parity.systems import FIVE, SYSTEMS
from tests.support.building import with_values
from tests.support.checkpoints_of_others import arrays_of, zoo
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import DataError
from zoo.interop.class_registry import ALIASES, named_class
from zoo.layers.context import Context
from zoo.training.trained_run import load_trained

pytestmark = pytest.mark.transformers5

# The first system of every class; the others differ from it in settings that transformers 4 shows.
OF_CLASSES = {system.reference: system for system in reversed(SYSTEMS) if system.library in ("transformers", FIVE)}
# Models unlike any published checkpoint are refused by these words: a new model is tied there, which
# its config.json does not tell from one that was not, an untied ALBERT has another bias, and routed
# experts of a DeepSeek-V2 have no biases since 5.24, whatever `mlp_bias` says.
REFUSED = {
    "UMT5ForConditionalGeneration": "lm_head.weight is missing",
    "MT5ForConditionalGeneration": "lm_head.weight is missing",
    "DeepseekV2ForCausalLM": "gate_proj.bias is missing",
    "AlbertForMaskedLM": "predictions.decoder.bias is not equal to predictions.bias",
}
TOLERANCE = 1e-5
TEXTS = (
    "Wolves, 49 of them, never met the sheep.",
    " two  spaces, a\ttab and\na new line ",
    "Ærøskøbing 雪 \U0001f43a café",
)
LINES = [f"Line {i} tells of {i * i} sheep and {i % 7} wolves that never met." for i in range(400)]


@pytest.mark.parametrize("class_name", OF_CLASSES)
def test_a_written_checkpoint_gives_the_outputs_of_its_class(class_name, tmp_path):
    system = OF_CLASSES[class_name]
    reference = build(system)
    reference.module.save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "config.json").read_text())
    assert settings["transformers_version"].startswith("5.")
    if system.importer is None:
        assert ALIASES.get(named_class(settings), named_class(settings)) == class_name
    config = resolved(system, settings)
    batch = make_batch(system, config, padded=False)
    with torch.no_grad():
        theirs = {name: output.numpy() for name, output in reference.outputs(batch, config).items()}
    weights, tensors = cotangents(theirs, batch), arrays_of(tmp_path)
    if class_name in REFUSED:
        with pytest.raises(DataError, match=REFUSED[class_name]):
            run_ours(system, settings, tensors, batch, weights, "einsum", False, with_gradients=False)
        return
    ours, _ = run_ours(system, settings, tensors, batch, weights, "einsum", False, with_gradients=False)
    assert output_difference(ours, theirs, batch) <= TOLERANCE


def trained(kind, **more):
    """Returns a tokenizer of transformers 5 with a vocabulary of its own."""
    return kind(**more).train_new_from_iterator(LINES, 400)


TOKENIZERS = {
    "byte-level BPE": lambda: trained(transformers.GPT2Tokenizer),
    "BPE with byte fallback": lambda: trained(transformers.LlamaTokenizer),
    "WordPiece": lambda: trained(transformers.BertTokenizer),
    "Unigram": lambda: trained(transformers.T5Tokenizer, extra_ids=4),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_written_tokenizer_gives_the_same_ids(name, tmp_path):
    tokenizer = TOKENIZERS[name]()
    tokenizer.add_tokens(["sheepdog"])
    tokenizer.save_pretrained(tmp_path)
    ours = read_pretrained(tmp_path)
    assert ours.vocab_size == len(tokenizer)
    for text in (*TEXTS, "a sheepdog, sheepdogs"):
        expected = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert ours.encode(text).tolist() == expected, text
    opens = next(
        id for id in (tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id) if id is not None
    )
    assert ours.bos_id == opens


def test_a_checkpoint_with_its_tokenizer_is_imported_and_written_again(tmp_path):
    """From `save_pretrained` to `zoo import`, and from `zoo export` to `from_pretrained`."""
    source, run, out = (tmp_path / name for name in ("source", "run", "out"))
    tokenizer = trained(transformers.GPT2Tokenizer)
    tokenizer.save_pretrained(source)
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(
        transformers.Qwen3Config(
            vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, bos_token_id=0, eos_token_id=0,
            rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4},
        )
    ).eval()  # fmt: skip
    model.save_pretrained(source)
    assert zoo("import", f"hf:{source}", "--out", run)[0] == 0
    loaded = load_trained(run)
    ids = np.asarray([tokenizer(TEXTS[0])["input_ids"]])
    assert loaded.tokenizer.encode(TEXTS[0]).tolist() == ids[0].tolist()
    held = with_values(loaded.model, loaded.params, loaded.stats)
    context = Context(np.arange(ids.shape[1])[None], in_order=True)
    with torch.no_grad():
        expected = model(torch.tensor(ids)).logits
    np.testing.assert_allclose(held.logits(held(ids, context), context), expected.numpy(), atol=1e-5)
    assert zoo("export", run, "--out", out)[0] == 0
    again = transformers.AutoModelForCausalLM.from_pretrained(out, attn_implementation="eager").eval()
    with torch.no_grad():
        torch.testing.assert_close(again(torch.tensor(ids)).logits, expected)
    assert transformers.AutoTokenizer.from_pretrained(out)(TEXTS[0])["input_ids"] == ids[0].tolist()
