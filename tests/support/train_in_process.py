"""Lets a sweep train its runs in the process of the test, in place of processes that start, import and
compile for each sweep anew.
"""

import contextlib
import os

import pytest

from zoo.cli import train
from zoo.lab.launch import process_pool


class InProcess:
    """Has the interface of `zoo.lab.launch.warm_process.WarmProcess`, and trains in this process with
    the programs of earlier runs.
    """

    programs = None

    def __init__(self, environment, inherited, log):
        self.environment, self.plugins, self.returncode, self.pid = dict(environment), None, None, os.getpid()

    def train(self, folder, plugins):
        self.plugins = plugins
        with open(folder / "log.txt", "a") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
            self.returncode = train.main([f"--config={folder / 'config.json'}", f"--workdir={folder}"], self.programs)
        return True

    def poll(self):
        return self.returncode

    @property
    def usable(self):
        return self.returncode == 0

    def terminate(self):
        pass

    def wait(self):
        pass


@contextlib.contextmanager
def train_in_process():
    """Makes `zoo run` train in this process inside the context."""
    from zoo.training.program_cache import ProgramCache

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InProcess, "programs", ProgramCache())
        patch.setattr(process_pool, "WarmProcess", InProcess)
        patch.setattr(process_pool, "POLL_SECONDS", 0.01)
        yield
