"""Every deliberate fault can be applied, and tests catch a sample of them."""

from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant
from tests.mutants.runner import copy_sources, failing_without_fault, is_caught

ROOT = Path(__file__).parents[2]
# The sample covers several parts with fast tests; `python -m tests.mutants` runs all faults.
SAMPLE = [
    mutant
    for mutant in MUTANTS
    if mutant.name
    in (
        "Holm: Bonferroni's factor for all",
        "masking: one token too few",
        "feed-forward: the gate is not activated",
        "AdamW: vectors decay",
    )
]


def test_every_fault_can_be_applied():
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert not [problem for mutant in MUTANTS if (problem := mutant.problem(ROOT))]


@pytest.mark.promise(reason="tests run in processes of their own")
def test_the_runner_detects_caught_and_missed_faults(tmp_path):
    (tmp_path / "answer.py").write_text("def answer():\n    return 42  # of everything\n")
    (tmp_path / "test_answer.py").write_text(
        "from answer import answer\n\ndef test_answer():\n    assert answer() == 42\n"
    )
    fault = Mutant("a wrong answer", "answer.py", "42", "41", ("test_answer.py",))
    harmless = Mutant("another comment", "answer.py", "everything", "nothing", ("test_answer.py",))
    assert fault.problem(tmp_path) is None
    assert is_caught(fault, tmp_path)
    assert not is_caught(harmless, tmp_path)
    assert failing_without_fault([fault, harmless], tmp_path) == []
    with fault.applied(tmp_path):
        assert failing_without_fault([fault, harmless], tmp_path) == ["test_answer.py"]
    assert "return 42" in (tmp_path / "answer.py").read_text()
    assert "occurs 0 times" in Mutant("gone", "answer.py", "43", "41", ("test_answer.py",)).problem(tmp_path)


@pytest.mark.promise(reason="tests run in processes of their own, with and without a fault")
def test_a_sample_of_the_faults_is_caught(tmp_path):
    assert len(SAMPLE) == 4
    copy = copy_sources(ROOT, tmp_path)
    assert failing_without_fault(SAMPLE, copy) == []
    assert not [mutant.name for mutant in SAMPLE if not is_caught(mutant, copy)]
