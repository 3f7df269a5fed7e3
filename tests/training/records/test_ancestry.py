"""The tokens and texts of the runs that a run starts from or learns from."""

from types import SimpleNamespace

import pytest

from tests.support.small_runs import small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.files import write_json
from zoo.nested import flatten
from zoo.training.records.ancestry import Texts, inherited_tokens, seen_held_out_text, seen_text, seen_tokens
from zoo.training.records.resume_checks import check_unseen_text


def ancestor(folder, tokens=None, data=None, meta=None, **changes):
    """Writes the records of a run."""
    folder.mkdir()
    write_json(folder / "config.json", configs.to_plain(configs.resolve(small(**changes))))
    write_json(folder / "meta.json", {"data": data or {}} | (meta or {}))
    rows = [] if tokens is None else [f'{{"step": {step}, "tokens": {step * tokens // 2}}}\n' for step in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(rows))
    return folder


def test_tokens_add_up_over_the_runs_that_parameters_come_from(tmp_path):
    first = ancestor(tmp_path / "first", 1000)
    second = ancestor(tmp_path / "second", 200, meta={"started_from": {"folder": str(first), "step": 2}})
    third = ancestor(tmp_path / "third", 30, meta={"started_from": {"folder": "gone", "tokens": 1200}})
    averaged = ancestor(tmp_path / "averaged", meta={"averaged": {"folder": str(third), "steps": [2]}})
    assert [seen_tokens(folder) for folder in (first, second, third, averaged)] == [1000, 1200, 1230, 1230]
    # The checkpoint that is taken tells it, whatever was logged before or after.
    for step, tokens in ((1, 500), (3, 1500)):
        saved = first / "checkpoints" / str(step)
        saved.mkdir(parents=True)
        write_json(saved / "_CHECKPOINT_METADATA", {"custom_metadata": {"tokens": tokens}})
    assert [seen_tokens(first, step) for step in (None, 1, 2, 3)] == [1500, 500, 1000, 1500]
    unknown = ancestor(tmp_path / "imported", 5, meta={"imported": {"class": "X"}})
    after = ancestor(tmp_path / "after", 7, meta={"started_from": {"folder": str(unknown)}})
    assert [seen_tokens(folder) for folder in (unknown, after, tmp_path / "none")] == [None, None, None]
    assert inherited_tokens({"started_from": {"folder": str(second)}}) == 1200
    assert inherited_tokens({"started_from": {"folder": str(unknown)}}) == inherited_tokens({}) == 0


@pytest.mark.parametrize(
    ("texts", "before", "why"),
    [
        (({"a"}, "", 0.1, ()), ({"a"}, "", 0.1, ()), None),
        (({"a"}, "", 0.1, ()), ({"b"}, "", 0.3, ()), None),
        # A smaller share is part of the larger one.
        (({"a"}, "", 0.1, ()), ({"a", "b"}, "", 0.2, ()), None),
        (({"a"}, "", 0.2, ()), ({"a", "b"}, "", 0.1, ()), "held out only data.validation_fraction=0.1"),
        (({"a"}, "", 0.1, ()), ({"a"}, "h", 0.1, ()), "trained on all of data.source"),
        (({"a"}, "", 0.1, ("clustered",)), ({"a"}, "", 0.1, ("documents",)), "another split"),
        (({"a"}, "h", 0.1, ()), ({"h"}, "", 0.1, ()), "data.held_out is its training text"),
        (({"a"}, "h", 0.1, ()), ({"a"}, "h", 0.1, ()), None),
    ],
)
def test_texts_overlap_by_source_share_and_split(texts, before, why):
    made = (Texts(frozenset(sources), *rest) for sources, *rest in (texts, before))
    found = seen_text(*made)
    assert found is None if why is None else why in found


RECORD = {"fingerprint": "f" * 64}


def test_held_out_text_that_a_parent_was_trained_on_is_refused(tmp_path):
    first = ancestor(tmp_path / "first", data=RECORD, data__source="text:a.txt", data__validation_fraction=0.05)
    between = ancestor(tmp_path / "between", data={"fingerprint": "0" * 64}, data__source="text:c.txt")
    write_json(
        between / "config.json",
        configs.to_plain(configs.resolve(small(data__source="text:c.txt", training__start_from=str(first)))),
    )
    for field in ("training__start_from", "objective__distillation__teacher"):
        for folder in (first, between):
            # A copy of the text under another name, with the same content.
            fields = {field: str(folder), "data__source": "text:b.txt"}
            config, dataset = configs.resolve(small(**fields)), SimpleNamespace(summary=lambda: RECORD)
            with pytest.raises(ConfigError) as caught:
                check_unseen_text(config, dataset)
            (line,) = caught.value.problems
            assert f"was training text of {first}: it held out only data.validation_fraction=0.05" in line
            assert line.endswith("or allow it: --allow seen_text")
            check_unseen_text(configs.resolve(small(**fields, training__allow_seen_text=True)), dataset)
            check_unseen_text(config, SimpleNamespace(summary=lambda: {"fingerprint": "1" * 64}))


def test_texts_are_compared_by_name_before_they_are_read(tmp_path):
    first = ancestor(tmp_path / "first", data__source="text:a.txt", data__validation_fraction=0.05)
    same, other = (
        flatten(configs.resolve(small(training__start_from=str(first), data__source=f"text:{name}.txt")))
        for name in "ab"
    )
    assert len(seen_held_out_text(same)) == 1
    assert seen_held_out_text(other) == []
