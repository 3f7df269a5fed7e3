"""Training one run with several processes: how they find each other, who writes, when all stop.

JAX's own runtime does the work. Under SLURM it is configured from the environment of the `srun`
step, otherwise from flags.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import jax
import numpy as np
from jax._src import distributed
from jax.experimental import multihost_utils

from zoo.errors import ConfigError, Preempted, ZooError, is_disk_full, one_line, shown
from zoo.training.runtime import partner_watch

# Seconds in which all processes have to come, and of silence after which one is lost.
JOIN_VARIABLE, JOIN_SECONDS = "ZOO_JOIN_SECONDS", 120.0
PARTNER_VARIABLE, PARTNER_SECONDS = "ZOO_PARTNER_SECONDS", 30.0
# Below the ports that systems give to outgoing connections, which start at 32768 on Linux.
FIRST_PORT, NUM_PORTS = 20000, 12000

_watch: partner_watch.PartnerWatch | None = None


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train together, and which of them this one is.

    Attributes:
        process: number of this process, from 0.
        processes: number of processes.
        coordinator: HOST:PORT of process 0; None where JAX reads the host from SLURM.
        port: port of the coordinator, where only that is known.
        all_devices: this process takes all devices of its machine; otherwise, on GPUs, only the
            device with its own local number.
    """

    process: int
    processes: int
    coordinator: str | None = None
    port: int | None = None
    all_devices: bool = True


def from_flags(coordinator: str | None, processes: int | None, process: int | None) -> ProcessGroup | None:
    """Returns the group that the flags of `train.py` describe, or None if there are none.

    Raises:
        ConfigError: missing flags, or numbers out of range.
    """
    given = {"--coordinator": coordinator, "--processes": processes, "--process": process}
    missing = [flag for flag, value in given.items() if value is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise ConfigError(f"{' and '.join(missing)}: missing; several processes need {', '.join(given)}")
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ConfigError(f"--coordinator {coordinator}: expected HOST:PORT of process 0")
    if processes < 1 or not 0 <= process < processes:
        raise ConfigError(f"--process {process}: processes are counted from 0 to --processes - 1 = {processes - 1}")
    return ProcessGroup(process, processes, coordinator)


def from_slurm(environment: Mapping[str, str] = os.environ) -> ProcessGroup | None:
    """Returns the group of an `srun` step with several tasks, or None outside of one.

    JAX would use the same port for all steps of a job, so two concurrent steps would fail; here
    each step has its own port.
    """
    try:
        processes, process = int(environment["SLURM_STEP_NUM_TASKS"]), int(environment["SLURM_PROCID"])
        job, step = int(environment["SLURM_JOB_ID"]), int(environment["SLURM_STEP_ID"])
    except (KeyError, ValueError):
        return None
    if processes < 2:
        return None
    one_per_node = environment.get("SLURM_STEP_TASKS_PER_NODE", "").partition("(")[0] == "1"
    return ProcessGroup(process, processes, port=FIRST_PORT + (31 * job + step) % NUM_PORTS, all_devices=one_per_node)


def join(group: ProcessGroup | None) -> None:
    """Starts JAX's runtime for several processes; does nothing for None or a single process.

    Must be called before the first array is made.

    Raises:
        ConfigError: the processes did not find each other.
    """
    if group is None or group.processes == 1:
        return
    join_seconds = _seconds(JOIN_VARIABLE, JOIN_SECONDS)
    partner_seconds = _seconds(PARTNER_VARIABLE, PARTNER_SECONDS)
    if group.coordinator is None:
        os.environ.setdefault("JAX_COORDINATOR_PORT", str(group.port))
    if group.process:
        partner_watch.filter_native_errors(f"error: {partner_watch.lost_line(0, group.processes)}")
    address = group.coordinator or f"port {os.environ['JAX_COORDINATOR_PORT']} of the first node"
    last = group.processes - 1
    others = "process 0" if group.process else "process 1" if last == 1 else f"processes 1 to {last}"
    line = (
        f"process {group.process} of {group.processes} has waited {join_seconds:g} s for {others} at {address}; start "
        f"all of them, with the same address, within that time, or set {JOIN_VARIABLE}"
    )
    # JAX itself would wait longer and abort.
    waiting = partner_watch.end_after(join_seconds, line, ConfigError.exit_code)
    timeouts = {
        "initialization_timeout": int(join_seconds) + 60,
        "heartbeat_timeout_seconds": int(2 * partner_seconds) + 10,
    }
    try:
        if group.coordinator is None:
            device_ids = list(range(_assigned_gpus())) if group.all_devices else None
            jax.distributed.initialize(
                local_device_ids=device_ids or None, cluster_detection_method="slurm", **timeouts
            )
        else:
            jax.distributed.initialize(
                group.coordinator, group.processes, group.process, cluster_detection_method="deactivate", **timeouts
            )
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"process {group.process} of {group.processes} did not find the others at {address}: {one_line(error)}"
        ) from error
    finally:
        waiting.cancel()
    global _watch
    # JAX has no public access to the store of its coordination service.
    client = distributed.global_state.client
    _watch = partner_watch.PartnerWatch(client, group.process, group.processes, partner_seconds)
    _watch.start()


def _seconds(variable: str, default: float) -> float:
    """Returns a number of seconds of the environment.

    Raises:
        ConfigError: no number of at least 1.
    """
    text = os.environ.get(variable) or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds < 1e6:
        raise ConfigError(f"{variable}={shown(text)}: expected a number of seconds, at least 1")
    return seconds


def await_lost_partner(error: Exception) -> None:
    """Ends this process, with a line that says so, if an error may follow from the end of another
    process and one has ended.
    """
    if _watch is not None and not isinstance(error, ZooError) and not is_disk_full(error):
        _watch.explain()


@contextmanager
def watched_by_partners() -> Iterator[None]:
    """Tells the other processes if what runs in it fails."""
    try:
        yield
    except Preempted:
        raise  # All stop together.
    except BaseException as error:
        if _watch is not None:
            _watch.fail(getattr(error, "exit_code", 1))
        raise


def _assigned_gpus() -> int:
    """Returns the number of GPUs that SLURM assigned to this process; 0 if none or unknown.

    Reads the environment only: no device is initialised.
    """
    listed = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES") or ""
    return len([name for name in listed.split(",") if name.strip() not in ("", "-1", "NoDevFiles")])


def is_main_process() -> bool:
    """Returns whether this is process 0, the only one that writes the run's files."""
    # A single process may ask before devices are initialised.
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def broadcast_from_main(value: int) -> int:
    """Returns the `value` of process 0. Collective: every process must call it."""
    return value if jax.process_count() == 1 else int(multihost_utils.broadcast_one_to_all(np.int32(value)))


class PreemptionSync:
    """Tells all processes at the same sync point that one of them received SIGTERM.

    JAX forwards a SIGTERM that any process receives to all of them and picks a future sync point
    from which on every process is told to stop. Every process must reach equally many sync points;
    reaching one costs no communication.
    """

    def __init__(self):
        self._sync_points, self._stop = 0, False

    def reached(self) -> bool:
        """Passes the next sync point; returns whether to stop."""
        if not self._stop:
            self._sync_points += 1
            self._stop = multihost_utils.reached_preemption_sync_point(self._sync_points)
        return self._stop
