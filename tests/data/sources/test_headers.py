"""A file without a header is suspected where its first line names no column that is looked for."""

from types import SimpleNamespace

import pytest

from zoo.data.sources.tables import delimited
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError


def records(folder, content, header=True):
    (folder / "a.csv").write_text(content)
    data = SimpleNamespace(header=header, column="text", second_column="", label_column="label")
    return [record for _, record in delimited(str(folder / "a.csv"), data, "csv").records(BadTextPolicy("error"))]


@pytest.mark.parametrize("content", ["0,bad\n1,good\n", "a moving film,good\nso dull a film,bad\n", "good,\nbad,x\n"])
def test_a_first_line_of_data_is_named(content, tmp_path):
    with pytest.raises(ConfigError) as caught:
        records(tmp_path, content)
    (line,) = caught.value.problems
    first = content.partition("\n")[0].split(",")
    assert line == (
        f'"{tmp_path / "a.csv"}": the first line names no column "text"; there are {", ".join(first)}; if it is no '
        "header, set data.header=false, which calls the columns 0, 1, 2 ..."
    )
    assert list(records(tmp_path, content, header=False)[0].values()) == first


@pytest.mark.parametrize("content", ["text,2019\na,b\n", "sentence,target\na,b\n", "1,label\na,b\n"])
def test_a_header_with_a_wanted_column_or_with_names_is_read(content, tmp_path):
    (record,) = records(tmp_path, content)
    assert list(record.values()) == ["a", "b"]
