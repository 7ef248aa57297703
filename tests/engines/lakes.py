"""Tables of Delta and Iceberg on Spark: the jars that Maven brings, and what a session is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from engines.server import REQUIRED, MissingError

ARTIFACTS = {
    "delta": ("io.delta", "delta-spark_4.1_2.13", "4.4.0"),
    "iceberg": ("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"),
}
"""Format -> group, artifact and version; both are for Spark 4.1."""

SPARK = "4.1."

GET = "pip install 'pyspark==4.1.*', Java 17; Maven, which brings the jars if REQUIRE_ENGINES=1"

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>lakes</groupId><artifactId>lakes</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies>
</project>
"""

_DEPENDENCY = """
<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
<exclusions><exclusion><groupId>org.apache.spark</groupId><artifactId>*</artifactId></exclusion>
</exclusions></dependency>
"""

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"

CATALOGS = {"delta": "spark_catalog", "iceberg": "lake"}
"""Format -> the catalog that has its tables."""

_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # small tables go through 50 tasks of its log else
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.catalog.lake": ICEBERG,
    "spark.sql.catalog.lake.default-namespace": "default",
    # one that has no views
    "spark.sql.catalog.files": ICEBERG,
    "spark.sql.catalog.files.type": "hadoop",
}

MEMORY = {"catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog"}
"""A catalog of Iceberg that ends with its session."""


def settings(folder: Path, tables: str = "", of_lake: Mapping[str, str] = MEMORY) -> dict[str, str]:
    """What a Spark is told that has tables of both formats.

    Args:
        folder: Where files are.
        tables: The format of which it makes tables by itself.
        of_lake: What Iceberg's catalog is told.

    Raises:
        MissingError: If the jars or their Spark are not here.
    """
    options = _SETTINGS | {
        "spark.jars": ",".join(map(str, jars())),
        "spark.sql.catalog.files.warehouse": str(folder / "files"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options |= {f"spark.sql.catalog.lake.{name}": text for name, text in of_lake.items()}
    if tables:
        options["spark.sql.sources.default"] = tables
        options["spark.sql.defaultCatalog"] = CATALOGS[tables]
    return options


@cache
def jars() -> list[Path]:
    """Those of both formats, without the libraries that Spark has itself."""
    import pyspark

    if not pyspark.__version__.startswith(SPARK):
        raise MissingError(f"pyspark {pyspark.__version__}, not {SPARK}*")
    versions = "-".join(version for *_, version in ARTIFACTS.values())
    cached = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    folder = cached / "sqlmetrics" / f"lakes-{versions}"
    if not folder.is_dir():
        _get(folder)
    return sorted(jar for kind in ARTIFACTS for jar in folder.glob(f"{kind}-*.jar"))


def _get(folder: Path) -> None:
    if not REQUIRED:
        raise MissingError(f"no {folder}")
    if not shutil.which("mvn"):
        raise MissingError("no mvn")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lakes_", dir=folder.parent) as project:
        dependencies = "".join(_DEPENDENCY.format(*artifact) for artifact in ARTIFACTS.values())
        (Path(project) / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        copy = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
        subprocess.run([*copy, "-DincludeScope=runtime"], check=True, cwd=project)
        (Path(project) / "jars").rename(folder)
