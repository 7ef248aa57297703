"""A standalone cluster of Spark: a master and two workers, by the classes that pyspark brings."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from engines.server import MissingError, wait
from engines.starting import SMALL, _answers

WORKERS = 2

SETTINGS = SMALL | {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL["spark.driver.extraJavaOptions"],
    "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
}
"""What a driver of the cluster is told; an executor is started again when it was killed."""


@dataclass(frozen=True)
class Cluster:
    """One that runs.

    Attributes:
        url: Of the master.
        workers: Their processes.
    """

    url: str
    workers: Sequence[int]

    def executors(self) -> list[int]:
        """The processes of executors, which are children of the workers."""
        processes = list[int]()
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                parent = int(stat.read_text("utf-8").rpartition(")")[2].split()[1])
                command = (stat.parent / "cmdline").read_bytes()
                if parent in self.workers and b"CoarseGrainedExecutorBackend" in command:
                    processes.append(int(stat.parent.name))
        return processes


@contextmanager
def cluster(folder: Path, memory: str = "600m") -> Iterator[Cluster]:
    """A master and its workers, until the block ends."""
    try:
        import pyspark
    except ImportError as missing:
        raise MissingError("no pyspark") from missing
    if not shutil.which("java"):
        raise MissingError("no java")
    home = Path(pyspark.__file__).parent
    port, *_ = ports = [_free_port() for _ in range(2 + 2 * WORKERS)]
    url = f"spark://127.0.0.1:{port}"
    environment = {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
    }
    named = "org.apache.spark.deploy"
    at = ["--host", "127.0.0.1", "--port"]
    commands = [[f"{named}.master.Master", *at, str(port), "--webui-port", str(ports[1])]]
    for number in range(WORKERS):
        mine, page = ports[2 + 2 * number : 4 + 2 * number]
        resources = [
            "--cores",
            "1",
            "--memory",
            memory,
            "--work-dir",
            str(folder / f"work{number}"),
        ]
        worker = f"{named}.worker.Worker"
        commands.append([worker, *at, str(mine), "--webui-port", str(page), *resources, url])
    quiet = subprocess.DEVNULL
    processes = list[int]()
    with ExitStack() as started:
        for command, answering in zip(commands, (port, *ports[2::2]), strict=True):
            server = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *command],
                cwd=folder,
                env=os.environ | environment,
                stdout=quiet,
                stderr=quiet,
                start_new_session=True,
            )
            started.callback(server.wait, 30)
            started.callback(os.killpg, server.pid, signal.SIGKILL)
            wait(partial(_answers, answering), server, seconds=90)
            processes.append(server.pid)
        yield Cluster(url, processes[1:])


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
