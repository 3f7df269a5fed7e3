"""A checkpoint on its way through zoo: import, inspection, evaluation, fine-tuning, export, and
generation in the other library.
"""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.parity.harness import relative_difference
from tests.support.building import with_values
from tests.support.checkpoints_of_others import zoo
from zoo.data import Batching, encode_text_file
from zoo.decoding.generator import Generator
from zoo.decoding.stop_strings import stop_table
from zoo.layers.context import Context
from zoo.training.trained_run import load_trained

pytestmark = [pytest.mark.parity, pytest.mark.slow(reason="trains in both libraries")]

LINES = [f"Line {i} tells of {i * i} sheep and {i % 7} wolves that never met." for i in range(400)]
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
KINDS = {
    "gpt2": lambda size: transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=size, n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0)),
    "llama": lambda size: transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=size, num_key_value_heads=2, max_position_embeddings=64, bos_token_id=0, eos_token_id=0, **SIZES)),
}  # fmt: skip


def write_checkpoint(folder, kind):
    """Writes a checkpoint with transformers: byte-level BPE trained on the text, and a model with
    random weights.
    """
    model = Tokenizer(models.BPE())
    model.pre_tokenizer, model.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    model.train_from_iterator(LINES, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, bos_token="<|endoftext|>", eos_token="<|endoftext|>"
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    KINDS[kind](len(tokenizer)).save_pretrained(folder)


def reference_loss(model, trained, text):
    """Returns the loss of a text by the other library's model, in nats per token."""
    stream, total, count = encode_text_file(text, trained.tokenizer, trained.config), 0.0, 0
    for batch in Batching(trained.config, trained.tokenizer).evaluation([stream], 32, limit_batches=0):
        rows = torch.tensor(batch["tokens"], dtype=torch.long)
        with torch.no_grad():
            logits = model(rows[:, :-1].clamp(min=0)).logits
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=-1, reduction="sum"
        )
        total, count = total + losses.item(), count + (rows[:, 1:] >= 0).sum().item()
    return total / count


@pytest.mark.parametrize("kind", KINDS)
def test_import_evaluate_fine_tune_export_and_generate(kind, tmp_path):
    write_checkpoint(tmp_path / "published", kind)
    run, fine_tuned, exported, text = (tmp_path / name for name in ("run", "tuned", "written", "text.txt"))
    text.write_text("\n".join(LINES))

    def loss_of(folder):
        code, out, errors = zoo("eval", folder, "--text", text, "--lengths", "32", "--json")
        assert (code, errors) == (0, [])
        return json.loads(out)["lengths"]["32"]

    assert zoo("import", f"hf:{tmp_path / 'published'}", "--out", run)[0] == 0
    code, out, _ = zoo("config", "show", run)
    assert code == 0
    assert "model.vocab_size" in out
    before = loss_of(run)
    # The loss of the untrained model is close to that of a uniform guess.
    assert 0.9 < before["loss"] / np.log(400) < 1.3
    assert np.isfinite(before["bits_per_byte"])
    code, out, errors = zoo(
        "train",
        f"--config={run / 'config.json'}",
        f"--workdir={fine_tuned}",
        f"--config.training.start_from={run}",
        f"--config.data.source=text:{text}",
        "--config.training.steps=20",
        "--config.data.sequence_length=32",
        "--config.data.batch_size=8",
        "--config.optimizer.learning_rate=0.01",
        "--config.training.eval_batches=2",
    )
    assert (code, errors) == (0, []), errors
    after = loss_of(fine_tuned)["loss"]
    assert after < 0.7 * before["loss"]
    assert zoo("export", fine_tuned, "--out", exported)[0] == 0

    model = transformers.AutoModelForCausalLM.from_pretrained(exported).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    trained = load_trained(fine_tuned)
    np.testing.assert_allclose(reference_loss(model, trained, text), after, rtol=1e-5)
    prompts = ["Line 12 tells of", "wolves"]
    ids = [tokenizer(prompt, add_special_tokens=False)["input_ids"] for prompt in prompts]
    assert ids == [trained.tokenizer.encode(prompt).tolist() for prompt in prompts]
    generator = Generator(trained.model, trained.params, trained.stats)
    ours = generator.generate(ids, 24, stop=stop_table(trained.tokenizer.vocab_size, [trained.tokenizer.bos_id]))
    for row, (prompt, length, tokens) in enumerate(zip(ids, ours.lengths, ours.tokens, strict=True)):
        with torch.no_grad():
            theirs = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[
                0, len(prompt) :
            ].tolist()
            logits = model(torch.tensor([prompt])).logits[0].numpy()
        assert tokens[:length].tolist() == theirs, row
        assert tokenizer.decode(theirs) == trained.tokenizer.decode(theirs, "<|endoftext|>")
        module = with_values(trained.model, trained.params, trained.stats)
        full_pass = module.logits(module(np.array([prompt]), Context(np.arange(len(prompt))[None])))
        assert relative_difference(np.asarray(full_pass[0]), logits) < 1e-5
