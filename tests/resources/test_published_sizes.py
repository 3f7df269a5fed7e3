"""Published configs fit on the devices that their docstrings name, with their own settings."""

import pytest

from publication.planned_sizes import COMMAND, Statement, chosen, plan, problems, read, row, statements
from zoo.errors import ConfigError
from zoo.resources.target_devices import why_not_compiled

# A dense decoder, an encoder, heads of more than 128, and experts; the command plans the others.
SAMPLE = ("llama:7b", "roberta:base", "gemma:2b", "olmoe:1b-7b")


def test_sizes_in_the_table_are_those_of_docstrings_and_fit():
    rows = read()
    planned = {each["config"] for each in rows}
    assert planned
    assert list(problems(rows, [each for each in statements() if each.name in planned])) == [], f"run: {COMMAND}"


def test_rows_that_differ_from_docstrings_and_sizes_that_do_not_fit_are_found():
    first, other = Statement("a:1", 8, "h100"), Statement("b:2", 1, "v5e")
    found = {
        "parameters": 1000, "memory": 2**30, "limit": 2**31, "parts": 2,
        "attention": ["mamba2 (kind state), not fused: x", "splash (kind full; kind near)", "splash (cross-attention)"],
        "stages": [{"measured": {"kernels": {"splash_mha_fwd": 3, "ragged-dot-none": 5}}}],
    }  # fmt: skip
    rows = [row(first, found, 1.6)]
    assert tuple(rows[0].values()) == ("a:1", "1,000", "8 h100", "1.00", "2.00", "2", "mamba2, splash: 3 calls", "2")
    assert list(problems(rows, [first])) == []
    assert list(problems(rows, [first, other])) == ["b:2: no row"]
    assert list(problems(rows, [])) == ["a:1: its docstring names no devices"]
    assert list(problems(rows, [first._replace(devices=4)])) == [
        "a:1: planned on 8 h100, and its docstring names 4 h100"
    ]
    larger = row(first, found | {"memory": 2**32}, 1)
    assert list(problems([larger], [first])) == ["a:1: 4.00 GiB do not fit in 2.00 GiB"]
    assert chosen(["b"], [first, other]) == chosen(["b:2"], [first, other]) == [other]
    with pytest.raises(ConfigError, match=r"^c: no docstring"):
        chosen(["c"], [first, other])


@pytest.mark.aot(reason="published sizes are compiled for accelerators")
@pytest.mark.parametrize("name", SAMPLE)
def test_published_sizes_fit_as_they_stand(name):
    (statement,) = chosen([name], statements())
    if why := why_not_compiled(statement.kind, statement.devices):
        pytest.skip(why)
    found, _ = plan(statement)
    assert found["fits"], found["memory"] / 2**30
