"""The page of systems is what its file and the code give, and a wrong statement is refused."""

import pytest

from publication import __main__ as commands
from publication import systems
from tests.published.test_configs import COUNTS

SYSTEMS = systems.read()
BY_NAME = {system.name: system for system in SYSTEMS}


def test_the_page_is_up_to_date():
    assert list(systems.problems(SYSTEMS)) == []
    assert systems.PAGE.read_text(encoding="utf-8") == systems.page(SYSTEMS)
    assert len(BY_NAME) == len(SYSTEMS)


def test_counts_are_those_of_the_reference_implementations():
    counted = {system.size: systems.parameters(system) for system in SYSTEMS}
    assert {size: count for size, count in counted.items() if size in COUNTS} == {
        size: COUNTS[size] for size in counted if size in COUNTS
    }
    # As BertForSequenceClassification with two labels.
    assert counted[f"finetune/classification:from={systems.RUN}"] == 109_483_778
    assert counted.keys() - COUNTS.keys() == {
        f"{name}:from={systems.RUN}" for name in ("finetune/classification", "distill")
    }
    # A student of BERT has BERT's two segments of width 768, which DistilBERT leaves out.
    assert counted[f"distill:from={systems.RUN}"] == COUNTS["distilbert:base"] + 2 * 768


WRONG = (
    (
        {"smallest": "mistral:smoke,model.attention.num_kv_heads=3"},
        "is not divisible by model.attention.num_kv_heads=3",
    ),
    ({"size": "mistral:8b"}, "size '8b' is not one of 7b"),
    ({"parity": "mistrall"}, "docs/parity.md has no line mistrall"),
    ({"text": "parity/models/test_none.py::test_x"}, "there is no test tests/parity/models/test_none.py::test_x"),
    ({"text": BY_NAME["Mistral 7B"].text.replace("[mistral]", "[mixtral]")}, "[mixtral]"),
    ({"text": BY_NAME["Mistral 7B"].text.replace("greedy", "eager")}, "there is no test"),
    ({"picture": "gradients"}, "zoo draw gradients draws no config"),
    ({"page": "variants.md#windows"}, "there is no docs/variants.md#windows"),
    ({"page": "window.md"}, "there is no docs/window.md"),
)


@pytest.mark.parametrize(("change", "line"), WRONG, ids=lambda value: str(value)[:50])
def test_a_wrong_statement_is_a_line(change, line):
    (problem,) = systems.problems([BY_NAME["Mistral 7B"]._replace(**change)])
    assert problem.startswith("Mistral 7B: ")
    assert line in problem


def test_another_count_than_the_library_s_is_a_line(monkeypatch):
    found = systems.parity()
    found["mistral"] = found["mistral"]._replace(counts={"mistral:7b": 7_241_732_097})
    monkeypatch.setattr(systems, "parity", lambda: found)
    (problem,) = systems.problems([BY_NAME["Mistral 7B"]])
    assert problem == "Mistral 7B: mistral:7b has 7,241,732,096 parameters, and 7,241,732,097 in docs/parity.md"


def test_the_command_writes_the_page_unless_a_statement_is_wrong(monkeypatch, tmp_path, capsys):
    page, right = tmp_path / "systems.md", BY_NAME["ELMo"]
    monkeypatch.setattr(systems, "PAGE", page)
    monkeypatch.setattr(systems, "read", lambda: [right._replace(page="elmo.md")])
    assert commands.main(["systems"]) == 2
    assert "ELMo: there is no docs/elmo.md" in capsys.readouterr().err
    assert not page.exists()
    monkeypatch.setattr(systems, "read", lambda: [right])
    assert commands.main(["systems"]) == 0
    assert "`--config=elmo:smoke --workdir=runs/elmo`" in page.read_text(encoding="utf-8")
