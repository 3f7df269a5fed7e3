"""An earlier sweep is moved aside, unless something of it is still trained."""

import pytest

from zoo.errors import ConfigError
from zoo.lab.launch.preparation import archive_sweep
from zoo.training.runtime.folder_lock import lock_run_folder


@pytest.mark.parametrize("place", ["run", "tuning/run", "tuning-beta2/run"])
def test_a_sweep_is_not_moved_under_runs_that_train(tmp_path, place):
    run = tmp_path / "sweep" / place
    run.mkdir(parents=True)
    (run.parent / "experiment.json").write_text("{}")
    with lock_run_folder(run), pytest.raises(ConfigError, match="run still trains; stop it before --fresh"):
        archive_sweep(tmp_path / "sweep")
    assert archive_sweep(tmp_path / "sweep") == tmp_path / "sweep.1"
