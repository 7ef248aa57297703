"""A Hive metastore of its own, from the jars that pyspark brings: what several Sparks share."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from engines.lakes import settings
from engines.server import MissingError, wait
from engines.starting import SMALL, _answers

SITE = """<configuration>
<property><name>javax.jdo.option.ConnectionURL</name>
<value>jdbc:derby:;databaseName={folder}/metastore_db;create=true</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>file:{folder}/warehouse</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
</configuration>
"""


@contextmanager
def metastore(folder: Path, tables: str = "") -> Iterator[str]:
    """The URL of a Spark that has the metastore's tables, for a process of its own.

    Args:
        folder: Where files are.
        tables: Of which format the tables are that it makes: Parquet, or `delta` or `iceberg`.
    """
    try:
        import pyspark
    except ImportError as missing:
        raise MissingError("no pyspark") from missing
    if not shutil.which("java"):
        raise MissingError("no java")
    (folder / "conf").mkdir()
    (folder / "conf" / "hive-site.xml").write_text(SITE.format(folder=folder))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jars = Path(pyspark.__file__).parent / "jars"
    command = ["java", "-Xmx300m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += [f"-Dderby.stream.error.file={folder}/derby.log"]
    command += ["-cp", f"{folder}/conf:{jars}/*"]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, stdout=quiet, stderr=quiet) as server:
        try:
            wait(lambda: _answers(port), server)
            uri = f"thrift://127.0.0.1:{port}"
            spark_settings = SMALL | {
                "spark.sql.catalogImplementation": "hive",
                "spark.hadoop.hive.metastore.uris": uri,
                "spark.sql.warehouse.dir": f"{folder}/warehouse",
                # it compares what stands there before it changes a table (HIVE-26882)
                "spark.hadoop.iceberg.engine.hive.lock-enabled": "false",
            }
            if tables:
                spark_settings |= settings(
                    folder, tables, {"type": "hive", "uri": uri, "cache-enabled": "false"}
                )
            options = "&".join(
                f"{name}={quote(text, safe='')}" for name, text in spark_settings.items()
            )
            yield f"spark://local[1]?{options}"
        finally:
            server.terminate()
