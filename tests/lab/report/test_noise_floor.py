"""The noise floor: the smallest difference that an archived experiment can find."""

import numpy as np
import pytest

from tests.support.archives import write_archive
from zoo.errors import ConfigError
from zoo.files import read_json, write_json
from zoo.lab.report.archive.noise_floor import noise_floors, paired_noise, without_outlying, write_noise_floor
from zoo.lab.report.archive.results_index import write_index


def test_the_noise_of_a_paired_difference():
    rng = np.random.default_rng(1)
    arms, seeds = np.array([[0.0], [3.0], [1.0]]), rng.normal(size=(1, 5000)) * 7
    sd, low, high = paired_noise(arms + seeds + rng.normal(size=(3, 5000)) * 0.2)
    assert sd == pytest.approx(0.2 * np.sqrt(2), rel=0.03)
    assert low < 0.2 * np.sqrt(2) < high
    # Two arms: the standard deviation of their differences.
    two = rng.normal(size=(2, 6))
    assert paired_noise(two)[0] == pytest.approx((two[0] - two[1]).std(ddof=1))


def test_outlying_arms_do_not_affect_the_noise_floor():
    values = np.random.default_rng(0).normal(size=(4, 6))
    diverged = np.array([[1e3, 5e4, 2e2, 1e6, 10.0, 5.0]])
    assert (without_outlying(np.concatenate([values, diverged])) == values).all()


def test_the_page_of_the_noise_floor(tmp_path):
    output = write_archive(tmp_path / "docs")
    (floor,) = noise_floors(output)
    # The seed that one arm lacks is left out.
    assert (floor.metric, floor.arms, floor.seeds, floor.tokens, floor.parameters) == ("eval/loss", 3, 3, 512, 1000)
    assert 0.003 < floor.sd < 0.04
    assert floor.detectable(3) > floor.detectable(5) > floor.detectable(10)
    text = write_noise_floor(output).read_text()
    assert f"| one | tiny | 1,000 | 512 | stdlib | causal | eval/loss | 3 x 3 | {floor.sd:.2g} (" in text
    assert "[The noise floor](noise_floor.md)" in write_index(output).read_text()
    record = read_json(output / "one/result.json") | {"sources": ["a", "b", "c"], "objectives": ["causal", "masked"]}
    write_json(output / "one/result.json", record)
    assert "| a and 2 others | causal, masked | eval/loss |" in write_noise_floor(output).read_text()
    (output / "one/runs.csv").write_text("arm,seed\n1,2\n")
    with pytest.raises(ConfigError, match=r"one/result\.json: not readable as a result"):
        write_noise_floor(output)
