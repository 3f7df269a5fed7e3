"""A SLURM cluster of two nodes on this machine, with its own daemons and files. Its processes are
ended by their ids.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
# cred_expire is the time before SLURM restarts a requeued job; the default is two minutes.
CONFIG = """\
ClusterName=zoo
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={state}/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/spool/%n
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.%n.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=20
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
NodeName=n[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 \
RealMemory=1000
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=30 MaxTime=INFINITE State=UP
PartitionName=high Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Returns why no cluster can be started here, or "" if one can."""
    if os.geteuid():
        return "not root"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""


class Cluster:
    """Starts the daemons; clients find them through `environment`."""

    def __init__(self):
        # The path must be short, because that of a socket is limited to 107 characters.
        self.state = Path(tempfile.mkdtemp(prefix="zoo-slurm-"))
        for name in ("ctld", "spool/n1", "spool/n2"):
            (self.state / name).mkdir(parents=True)
        self.state.chmod(0o755)
        config = self.state / "slurm.conf"
        config.write_text(CONFIG.format(host=socket.gethostname(), state=self.state, ports=_free_ports()))
        self.environment = {**os.environ, "SLURM_CONF": str(config), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
        self._hosts = Path("/etc/hosts").read_text()
        if not {"n1", "n2"} <= set(self._hosts.split()):
            # JAX connects to process 0 by the name of its node.
            Path("/etc/hosts").write_text(self._hosts.rstrip("\n") + "\n127.0.0.1 n1 n2\n")
        key = self.state / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self._processes = []
        try:
            files = {
                "key": key.name,
                "socket": "munge.socket",
                "pid": "munged.pid",
                "log": "munged.log",
                "seed": "munge.seed",
            }
            named = (
                f"--{kind}{'' if kind == 'socket' else '-file'}={self.state / name}" for kind, name in files.items()
            )
            self._start("munged", "--foreground", "--force", *named)
            self.until(lambda: (self.state / "munge.socket").exists())
            self._start("slurmctld", "-D", "-c", "-f", str(config))
            for node in ("n1", "n2"):
                self._start("slurmd", "-D", "-f", str(config), "-N", node)
            self.until(
                lambda: (
                    self.call("sinfo", "--noheader", "--format=%T", "--partition=low", check=False).strip() == "idle"
                )
            )
        except BaseException:
            self.close()
            raise

    def _start(self, *command: str) -> None:
        with open(self.state / f"{len(self._processes)}-{command[0]}.out", "wb") as out:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            )

    def call(self, *command: str, check: bool = True, **options) -> str:
        """Runs a command in the environment of this cluster; returns its output."""
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=check, **options
        ).stdout

    def until(self, condition, seconds: float = 280) -> None:
        """Waits until a condition holds.

        Raises:
            AssertionError: the condition does not hold in time; the message has the ends of the logs.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            dead = [process.args[0] for process in self._processes if process.poll() is not None]
            if dead or time.monotonic() > deadline:
                logs = "\n".join(
                    f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
                    for path in sorted([*self.state.glob("*.log"), *self.state.glob("*.out")])
                )
                raise AssertionError(f"{'ended: ' + ', '.join(dead) if dead else 'too slow'}\n{logs}")
            time.sleep(0.1)

    @contextlib.contextmanager
    def lost(self, node: str):
        """A node that the controller has lost: its daemon is stopped, and its processes go on."""
        daemon = next(one for one in self._processes if one.args[0] == "slurmd" and one.args[-1] == node)
        daemon.send_signal(signal.SIGSTOP)
        try:
            self.call("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")
            yield
        finally:
            daemon.send_signal(signal.SIGCONT)
            self.call("scontrol", "update", f"nodename={node}", "state=resume", check=False)

    def close(self) -> None:
        """Cancels all jobs and ends the daemons."""
        if len(self._processes) > 1 and self._processes[1].poll() is None:
            self.call("scancel", "--signal=KILL", "--full", "--user=root", check=False, timeout=20)
            self.call("scancel", "--user=root", check=False, timeout=20)
            deadline = time.monotonic() + 20
            while self.call("squeue", "--noheader", check=False, timeout=20).strip() and time.monotonic() < deadline:
                time.sleep(0.2)
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if Path("/etc/hosts").read_text() != self._hosts:
            Path("/etc/hosts").write_text(self._hosts)
        shutil.rmtree(self.state, ignore_errors=True)


def _free_ports() -> list[int]:
    """Returns three free ports. The last two are consecutive."""
    for _ in range(100):
        sockets = [socket.socket() for _ in range(3)]
        try:
            sockets[0].bind(("127.0.0.1", 0))
            sockets[1].bind(("127.0.0.1", 0))
            try:
                sockets[2].bind(("127.0.0.1", sockets[1].getsockname()[1] + 1))
            except (OSError, OverflowError):
                continue
            return [one.getsockname()[1] for one in sockets]
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no free ports")
