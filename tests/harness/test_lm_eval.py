"""Runs on tasks of lm-evaluation-harness, and its own numbers for published classes."""

import json
import random

import numpy as np
import pytest

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance
from lm_eval.api.registry import is_higher_better

from tests.harness.local_tasks import write_tasks
from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo.analysis.run_measures import measure_run
from zoo.cli.main import main
from zoo.files import read_json
from zoo.harness.evaluation import Harness, evaluate
from zoo.harness.lm_eval_model import ZooLM, highest
from zoo.harness.task_names import LOWER_IS_BETTER
from zoo.harness.text_requests import TextRequests
from zoo.lab.measures import read_measured
from zoo.training.trained_run import load_trained

pytestmark = pytest.mark.parity


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    """The folder of three tasks, beside which the test works."""
    monkeypatch.chdir(tmp_path)
    return write_tasks(tmp_path / "tasks").parent


def test_a_constant_model_has_half_of_the_pairs(tasks, monkeypatch):
    run = load_trained(untrained(tasks.parent / "run", small()))
    monkeypatch.setattr(
        TextRequests, "loglikelihood", lambda self, pairs: [(-2.5 * len(text), False) for _, text in pairs]
    )
    entry = evaluate(Harness(["tasks/pairs.yaml"]), run, ["tasks/pairs.yaml"])["pairs"]
    assert (entry["metrics"]["acc"], entry["metrics"]["acc_norm"], entry["questions"]) == (0.5, 0.5, 4)


def test_ties_are_those_of_float32():
    assert highest(np.array([-3.0, -3.0000001, -4.0])) == [0, 1]
    assert highest(np.array([-3.0, -3.0001])) == [0]
    assert highest(np.zeros(2)) == [0, 1]


def test_tasks_from_the_command_line_and_as_measures(tasks, capsys):
    folder = untrained(tasks.parent / "run", small(data__sequence_length=32))
    assert (
        main(["harness", str(folder), "--tasks", "tasks/pairs.yaml,lines,answers", "--include-path", "tasks", "--json"])
        == 0
    )
    pairs, lines, answers = map(json.loads, capsys.readouterr().out.splitlines())
    assert pairs["versions"]["lm_eval"]
    assert pairs["results"]["pairs"]["version"] == 2.0
    assert answers["results"]["answers"]["metrics"]["exact_match"] == 0.0
    texts = [json.loads(line) for line in (tasks / "pairs.jsonl").read_text().splitlines()]
    requests = TextRequests(load_trained(folder))
    good = requests.loglikelihood([("", text["good"]) for text in texts])
    bad = requests.loglikelihood([("", text["bad"]) for text in texts])
    right = [one > other for (one, _), (other, _) in zip(good, bad, strict=True)]
    assert pairs["results"]["pairs"]["metrics"]["acc"] == np.mean(right)
    bits = -sum(one for one, _ in good) / np.log(2) / sum(len(text["good"]) for text in texts)
    np.testing.assert_allclose(lines["results"]["lines"]["metrics"]["bits_per_byte"], bits, rtol=1e-5)
    # The stored record is taken as it is.
    stored = folder / "harness" / "pairs.json"
    record = read_json(stored)
    record["results"]["pairs"]["metrics"]["acc"] = 0.125
    stored.write_text(json.dumps(record))
    name = "harness:tasks/pairs.yaml"
    assert measure_run(folder, [name]) == {f"measured/{name}": 0.125}
    assert read_measured(folder, read_json(folder / "status.json")) == {f"measured/{name}": 0.125}
    beside = tasks / "pairs.jsonl"
    beside.write_text("\n".join(beside.read_text().splitlines()[:2]) + "\n")
    assert measure_run(folder, [name]) == {f"measured/{name}": np.mean(right[:2])}
    assert main(["harness", str(folder), "--tasks", "tasks/none.yaml"]) == 2
    assert "there is no file tasks/none.yaml" in capsys.readouterr().err


def test_a_task_that_is_defined_without_examples_gets_none(tasks, capsys):
    folder = untrained(tasks.parent / "run", small(data__sequence_length=32))
    with open(tasks / "pairs.yaml", "a") as file:
        file.write("num_fewshot: 0\n")
    assert main(["harness", str(folder), "--tasks", "tasks/pairs.yaml", "--shots", "2"]) == 0
    assert "note: --shots 2 has no effect on pairs: defined without examples" in capsys.readouterr().err


@pytest.mark.slow(reason="trains a sweep, and measures it in a process of its own")
def test_a_task_is_the_metric_of_a_comparison(tasks, capsys):
    settings = {"model.dim": 16, "model.num_layers": 1, "training.steps": 2, "schedule.warmup_steps": 1}
    settings |= {"data.sequence_length": 16, "data.source": "stdlib:docstrings", "data.tokenizer.kind": "bytes"}
    arguments = ["--vary", "model.norm.kind=layernorm,rmsnorm", "--seeds", "2", "--output", "sweep"]
    arguments += [f"--config.{path}={value}" for path, value in settings.items()]
    metric = "measured/harness:tasks/pairs.yaml"
    measure = ["--metric", metric, "--measure", "harness:tasks/lines.yaml:bits_per_byte"]
    assert main(["run", "--config=gpt2:tiny", *arguments, *measure]) == 0
    assert main(["report", "sweep", "--json"]) == 0
    out = capsys.readouterr().out
    report = json.loads(out[out.index("\n{") if not out.startswith("{") else 0 :])
    assert metric in json.dumps(report)
    assert "lines.yaml" in (tasks.parent / "sweep" / "report.html").read_text()


def test_directions_are_those_of_the_harness():
    import lm_eval.api.metrics

    del lm_eval
    for name in ("acc", "acc_norm", "exact_match", "f1", "mcc", *LOWER_IS_BETTER):
        assert is_higher_better(name) == (name not in LOWER_IS_BETTER), name


LINES = [f"Line {i} tells of {i * i} sheep and {i % 7} wolves that never met." for i in range(400)]
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


def write_checkpoint(folder, kind):
    """Writes a checkpoint of transformers with random weights; LLaMA has <s> before a text."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    model = Tokenizer(models.BPE())
    model.pre_tokenizer, model.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    names = {"gpt2": ("<|endoftext|>",) * 2, "llama": ("<s>", "</s>")}[kind]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    model.train_from_iterator(
        LINES,
        trainers.BpeTrainer(
            vocab_size=400, show_progress=False, special_tokens=[*dict.fromkeys(names)], initial_alphabet=alphabet
        ),
    )
    if kind == "llama":
        model.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=model, bos_token=names[0], eos_token=names[1])
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": len(set(names)) - 1, "initializer_range": 0.3}
    made = {
        "gpt2": lambda size: transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=size, n_positions=64, n_embd=32, n_layer=2, n_head=4, **ends)
        ),
        "llama": lambda size: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=size, num_key_value_heads=2, max_position_embeddings=64, **SIZES, **ends
            )
        ),
    }
    made[kind](len(tokenizer)).save_pretrained(folder)


def requests(kind, pairs):
    return [Instance(kind, {}, arguments, number) for number, arguments in enumerate(pairs)]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_an_imported_checkpoint_has_the_numbers_of_the_harness(kind, tmp_path):
    write_checkpoint(tmp_path / "published", kind)
    from lm_eval.models.huggingface import HFLM

    assert main(["import", f"hf:{tmp_path / 'published'}", "--out", str(tmp_path / "run")]) == 0
    theirs = HFLM(pretrained=str(tmp_path / "published"), device="cpu", batch_size=8)
    ours = ZooLM(TextRequests(load_trained(tmp_path / "run")))
    draw = random.Random(0)
    # No context, a context of one line, and one beyond the table of positions, with four choices each.
    contexts = ["", *draw.sample(LINES, 14), *(" ".join(draw.sample(LINES, 5)) for _ in range(15))]
    ends = [" never met.", " wolves", " 9 sheep and", "s", f" {draw.randrange(999)}", " that"]
    pairs = [(context, end) for context in contexts for end in ends]
    scored = ours.loglikelihood(requests("loglikelihood", pairs))
    expected = theirs.loglikelihood(requests("loglikelihood", pairs), disable_tqdm=True)
    np.testing.assert_allclose([one for one, _ in scored], [one for one, _ in expected], atol=1e-4, rtol=0)
    assert [greedy for _, greedy in scored] == [greedy for _, greedy in expected]
    texts = [(" ".join(draw.sample(LINES, count)),) for count in (1, 8) * 5]
    found = ours.loglikelihood_rolling(requests("loglikelihood_rolling", texts))
    whole = theirs.loglikelihood_rolling(requests("loglikelihood_rolling", texts), disable_tqdm=True)
    np.testing.assert_allclose(found, whole, rtol=1e-5)
    arguments = {"until": [" sh", "\n"], "max_gen_toks": 8, "do_sample": False}
    prompts = [(context, arguments) for context in [*contexts[1:6], *contexts[-5:]]]
    written = ours.generate_until(requests("generate_until", prompts))
    assert written == theirs.generate_until(requests("generate_until", prompts), disable_tqdm=True)
