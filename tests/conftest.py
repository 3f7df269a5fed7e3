"""Fixtures and hooks of all tests: one shared cache, property tests with fixed examples, and the
command line with fake training runs.

The groups of tests, by marker:

* No marker (`make test`): every field, kind, layer, kernel, objective, decoder, command and refusal at
  least once, in the smallest program that shows it.
* `promise` (`.ci/run`): the same statements in other combinations and other models, and whole runs,
  processes and training steps that guard a statement of the README.
* `parity` (`.ci/run`): comparisons with other libraries.
* `transformers5` (`make test-transformers5`): files of transformers 5 and the classes that only it
  has, in an environment of its own.
* `slow` (`make test-all`): cases that add numbers to a statement that a faster test makes, such as
  thousands of random configs, and long trainings.
* `gpu`, `faults`: an accelerator; kills, signals and full disks (`make test-faults`).

The markers `promise` and `slow` have a reason: why this case is not a default test.
"""

import functools
import gc
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.support.comparisons import Comparisons

# Shared machines are slow at times, so an example has no deadline.
settings.register_profile("zoo", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zoo")


def pytest_addoption(parser):
    parser.addoption(
        "--record-comparisons",
        action="store_true",
        help="write what the tests that run compare with references to zoo/variants/comparisons.json",
    )


def pytest_ignore_collect(collection_path, config):
    """Leaves out comparisons with other libraries where none is run: importing those takes long."""
    here, asked = Path(__file__).parent, config.option.markexpr
    if collection_path == here / "parity" and "not parity" in asked:
        return True
    if collection_path == here / "transformers5" and asked != "transformers5":
        return True
    return None


def pytest_configure(config):
    # Worker processes inherit the cache of the main process, so nothing is compiled or tokenised
    # twice.
    config.zoo_cache, config.zoo_started = None, time.monotonic()
    if not hasattr(config, "workerinput"):
        config.zoo_cache = os.environ["ZOO_CACHE"] = tempfile.mkdtemp(prefix="zoo-tests-")
        os.environ["HF_DATASETS_CACHE"] = os.path.join(config.zoo_cache, "hf")
        # One compilation cache for all tests, even those that change ZOO_CACHE: JAX includes the
        # folder's name in the key of a program. It has to be set before jax is imported.
        os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(config.zoo_cache, "compiled")
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
        # Programs are lowered faster without the lines of Python that each operation comes from.
        os.environ["JAX_TRACEBACK_IN_LOCATIONS_LIMIT"] = "0"
        # Matrices are small here, and idle threads of OpenBLAS wait without sleeping.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        # A worker runs many programs and would otherwise keep the memory of the largest of them.
        os.environ["ZOO_KEEP_FREED_MEMORY"] = "0"
        make_compilation_faster("not slow" in config.option.markexpr)
    recording = config.getoption("record_comparisons")
    if recording and (config.getoption("numprocesses", None) or hasattr(config, "workerinput")):
        raise pytest.UsageError("--record-comparisons writes one file; run it without -n")
    config.pluginmanager.register(Comparisons(recording=recording), "comparisons")
    make_configs_faster()
    # Tests create few reference cycles, and collecting garbage on JAX's large heap is slow.
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(items):
    """Refuses tests that are left out of the default group for no reason."""
    unexplained = [
        f"{item.nodeid} is marked {marker.name} without a reason; write pytest.mark.{marker.name}(reason=...)"
        for item in items
        for marker in item.iter_markers()
        if marker.name in ("promise", "slow") and not marker.kwargs.get("reason")
    ]
    if unexplained:
        raise pytest.UsageError("\n".join(unexplained))


def pytest_collection_finish(session):
    gc.freeze()


def make_compilation_faster(few_optimisations):
    """Makes XLA compile faster, in this process and its child processes: tests spend most of their
    time in compilation.

    Each program is compiled by one thread, which is cheaper than splitting it up. With
    `few_optimisations` compilation takes half the time and the program is slower. Continuous
    integration compiles this way; `make test-all` runs the slow tests with the optimisations that
    users get.
    """
    flags = ["--xla_cpu_parallel_codegen_split_count=1"]
    if few_optimisations:
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        flags.append("--xla_cpu_use_fusion_emitters=false")
    given = os.environ.get("XLA_FLAGS", "").split()
    if set(flags) <= set(given):
        return
    flags = " ".join([*given, *flags])
    # XLA ends the process at a flag that it does not know, so a child process tries the flags
    # first. Tests that start pytest hand down flags that have been tried.
    program = [sys.executable, "-c", "import jax; jax.jit(lambda x: x + 1)(1.0)"]
    if subprocess.run(program, env=os.environ | {"XLA_FLAGS": flags}, capture_output=True).returncode == 0:
        os.environ["XLA_FLAGS"] = flags


def make_configs_faster():
    """Lets ConfigDict look its reserved names up in a set, where it lists them for every value that it
    sets: a tenth of the time of tests that resolve many configs.
    """
    import ml_collections

    reserved = frozenset(dir(super(ml_collections.ConfigDict, ml_collections.ConfigDict())))

    def ensure_mutability(self, attribute):
        if attribute in reserved:
            raise KeyError(f"{attribute} cannot be overridden.")

    ml_collections.ConfigDict._ensure_mutability = ensure_mutability


def pytest_terminal_summary(terminalreporter, config):
    """Prints the CPU time of the tests, including that of workers and subprocesses that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(usage.ru_utime + usage.ru_stime for usage in used)
    tests = sum(len(terminalreporter.getreports(outcome)) for outcome in ("passed", "failed", "skipped", "xfailed"))
    wall = time.monotonic() - config.zoo_started
    terminalreporter.line(f"{tests} tests in {wall / 60:.1f} minutes, {cpu / 60:.1f} CPU-minutes")


def pytest_unconfigure(config):
    if config.zoo_cache:
        shutil.rmtree(config.zoo_cache, ignore_errors=True)


@pytest.fixture
def fast_compilation(monkeypatch):
    """Compiles several times faster, to slower programs, for slow tests that do not compare results
    bit for bit.
    """
    import jax

    from tests.support.building import quick_compilation

    monkeypatch.setattr(jax, "jit", functools.partial(jax.jit, compiler_options=quick_compilation()))


@pytest.fixture(scope="module")
def shared_programs():
    """Lets runs with equal configs share compiled programs; a module requests it by `usefixtures`."""
    from tests.support.shared_programs import share_programs

    with share_programs():
        yield


@pytest.fixture
def runs_in_this_process():
    """Trains the runs of a sweep in this process, one after another, where its processes are not
    tested: starting one takes longer than training a few steps.
    """
    from tests.support.train_in_process import train_in_process

    with train_in_process():
        yield


@pytest.fixture
def small_library(tmp_path_factory):
    """Data of Python's standard library is that of a part of it, in this process."""
    from tests.support.small_library import small_standard_library

    with small_standard_library(tmp_path_factory.mktemp("library")):
        yield


@pytest.fixture(scope="module")
def einsum_kernel():
    """Layers with `model.attention.implementation=auto` have `einsum`, which compiles faster than the
    loop over rows that a CPU gets; tests/layers/attention compares the two.
    """
    from zoo.layers.attention import softmax_attention

    choose = softmax_attention.choose_kernel

    def choose_einsum(*arguments, **options):
        choice = choose(*arguments, **options)
        return choice._replace(kernel="einsum") if arguments[0] == "auto" and choice.kernel == "rows" else choice

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(softmax_attention, "choose_kernel", choose_einsum)
        yield


@pytest.fixture
def command_line(tmp_path, monkeypatch, capsys):
    """Calls `zoo` in a folder that holds only the experiment norms.py: call(words ...) returns
    (exit code, stdout, stderr).

    Training is faked by lab/fake_run.py: `behaviours` and `losses` give the outcome of each run's
    folder, `curves` the losses over the learning rate. Reports are written as pages, and their
    figures only with `figures`.
    """
    from zoo import config
    from zoo.lab.launch import cpu_processes, process_pool
    from zoo.lab.planning import arm_resolution, tuning_search
    from zoo.lab.report import build

    draw = build.write_figures
    fake = config.import_file(Path(__file__).parent / "lab" / "fake_run.py", "helper")
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    # Losses that do not depend on the tuned value are not searched for long.
    monkeypatch.setattr(tuning_search, "MOST_VALUES", 5)
    monkeypatch.setattr(process_pool, "train_command", fake.command)
    # Without --jobs runs end in their order, whatever the machine.
    monkeypatch.setattr(cpu_processes, "available_cores", lambda: 1)
    monkeypatch.setattr(process_pool, "REUSE_PROCESSES", False)
    monkeypatch.setattr(process_pool, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(process_pool, "subprocess", SimpleNamespace(**vars(subprocess) | {"Popen": fake.Popen}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "norms.py").write_text(fake.EXPERIMENT_FILE)

    def call(*words, behaviours=None, losses=None, curves=None, figures=False):
        monkeypatch.setattr(build, "write_figures", draw if figures else lambda sweep, folder: [])
        monkeypatch.setenv("FAKE_RUNS", json.dumps(behaviours or {}))
        if losses is not None:
            monkeypatch.setenv("FAKE_LOSSES", json.dumps(losses))
        if curves is not None:
            monkeypatch.setenv("FAKE_CURVES", json.dumps(curves))
        try:
            code = fake.zoo(list(words))
        except SystemExit as error:
            code = error.code
        return code, *capsys.readouterr()

    return call
