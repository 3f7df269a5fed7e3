"""Reproduces published results on real text."""

import os
from pathlib import Path

import pytest

from zoo import config as configs
from zoo.files import read_json
from zoo.lab.results.run_records import load_run
from zoo.training.trainer import run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tinyshakespeare():
    path = Path(os.environ.get("ZOO_TEST_DATA", ROOT.parent / "shared" / "data")) / "text" / "tinyshakespeare.txt"
    if not path.is_file():
        pytest.skip(f"no {path}; set ZOO_TEST_DATA to a folder that holds text/tinyshakespeare.txt")
    return path


@pytest.mark.slow(reason="a published result is trained again")
@pytest.mark.timeout(1800)
def test_character_model_reaches_nanogpt_loss_on_shakespeare(tinyshakespeare, tmp_path):
    # nanoGPT's README: 1.88 on random crops after 2000 steps of this setting; the whole split is a
    # little harder. Measured: 1.911, 1.914 and 1.903 with seeds 0 to 2.
    config = configs.override(
        configs.load(str(ROOT / "configs" / "shakespeare_char.py")), {"data.source": f"text:{tinyshakespeare}"}
    )
    run(config, tmp_path, lambda line: None)
    assert read_json(tmp_path / "meta.json")["data"]["train_bytes"] == 1_003_854
    assert 1.80 < load_run(tmp_path).final("eval/loss") <= 1.92
