"""Several processes that train one run together: how they find each other, who writes, and how they
agree on where to stop.

JAX's own runtime does the work. Under SLURM it is told what the step of `srun` says; by hand it is
told by flags.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import numpy as np
from jax.experimental import multihost_utils

from zoo.errors import ConfigError

# Below the ports that systems give to outgoing connections, which start at 32768 on Linux.
FIRST_PORT, PORTS = 20000, 12000


@dataclass(frozen=True)
class Group:
    """Which of how many processes this one is.

    Attributes:
        coordinator: HOST:PORT of process 0; None where JAX reads the host from SLURM.
        port: of the coordinator, where only that is known.
        all_devices: this process takes all devices of its machine; otherwise, on GPUs, the one of
            its own number there.
    """

    process: int
    processes: int
    coordinator: str | None = None
    port: int | None = None
    all_devices: bool = True


def from_flags(coordinator: str | None, processes: int | None, process: int | None) -> Group | None:
    """The group that the flags of `train.py` describe; None if there are none.

    Raises:
        ConfigError: flags that are missing, or numbers that cannot be.
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
    return Group(process, processes, coordinator)


def from_slurm(environment: Mapping[str, str] = os.environ) -> Group | None:
    """The group that a step of `srun` with several tasks describes; None outside of one.

    JAX would take the same port for all steps of a job, so that two of them at once fail; here each
    step has its own.
    """
    try:
        processes, process = int(environment["SLURM_STEP_NUM_TASKS"]), int(environment["SLURM_PROCID"])
        job, step = int(environment["SLURM_JOB_ID"]), int(environment["SLURM_STEP_ID"])
    except (KeyError, ValueError):
        return None
    if processes < 2:
        return None
    alone = environment.get("SLURM_STEP_TASKS_PER_NODE", "").partition("(")[0] == "1"
    return Group(process, processes, port=FIRST_PORT + (31 * job + step) % PORTS, all_devices=alone)


def join(group: Group | None) -> None:
    """Starts JAX's runtime for several processes; call before the first array is made. Nothing
    happens for None or a single process.

    Raises:
        ConfigError: the processes did not find each other.
    """
    if group is None or group.processes == 1:
        return
    try:
        if group.coordinator is None:
            os.environ.setdefault("JAX_COORDINATOR_PORT", str(group.port))
            ours = list(range(_visible_gpus())) if group.all_devices else None
            jax.distributed.initialize(local_device_ids=ours or None, cluster_detection_method="slurm")
        else:
            jax.distributed.initialize(
                group.coordinator, group.processes, group.process, cluster_detection_method="deactivate"
            )
    except (RuntimeError, ValueError) as error:
        where = group.coordinator or f"port {os.environ['JAX_COORDINATOR_PORT']} of the first node"
        raise ConfigError(
            f"process {group.process} of {group.processes} did not find the others at {where}: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error


def _visible_gpus() -> int:
    """How many GPUs SLURM gave to this process, without touching them: 0 if it gave none, or did
    not say.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES") or ""
    return len([name for name in named.split(",") if name.strip() not in ("", "-1", "NoDevFiles")])


def is_first() -> bool:
    """Whether this process writes the run's files: there is only one that does."""
    # A process alone is asked before there are devices.
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def first_says(value: int) -> int:
    """The value that the first process has; a process alone has its own. Every process has to call
    it.
    """
    return value if jax.process_count() == 1 else int(multihost_utils.broadcast_one_to_all(np.int32(value)))


class Agreement:
    """Whether one of several processes was told to stop, with the same answer in all of them.

    JAX passes a SIGTERM that any process gets on to all of them, and chooses a question that none
    has asked yet from which on the answer is yes. Every process has to ask the same number of
    times; asking costs no communication.
    """

    def __init__(self):
        self._asked, self._stop = 0, False

    def ask(self) -> bool:
        """Asks once more."""
        if not self._stop:
            self._asked += 1
            self._stop = multihost_utils.reached_preemption_sync_point(self._asked)
        return self._stop
