"""The files of a Superset bundle, joined by UUIDs that hang on names alone."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.exports.superset.charts import charts
from sqlmetrics.jobs.exports.superset.dashboard import dashboard
from sqlmetrics.jobs.exports.superset.datasets import DATABASE, datasets
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import yaml_text
from sqlmetrics.jobs.spec_views import own_name

MADE = "made by: sqlmetrics export superset"
ROOT = "ranking_metrics"
"""The one folder that a bundle has at its top."""

HIDDEN = "XXXXXXXXXX"
"""What Superset has in the place of a password, and asks for as it imports."""

URIS = {
    "duckdb": "duckdb:////path/to/metrics.duckdb?access_mode=READ_ONLY",
    "postgres": f"postgresql+psycopg2://reader:{HIDDEN}@host:5432/warehouse",
}
"""Dialect -> an address to fill in, as SQLAlchemy writes it."""

VERSION = {"version": "1.0.0"}


def files(target: Target) -> dict[str, str]:
    """The bundle: connection, data sets with saved metrics, charts and the dashboard.

    Raises:
        SpecError: If the spec has no output, or an option cannot be read.
    """
    name = target.options.get("database-name", DATABASE)
    database_uuid = _identity(target.options.get("database-uuid")) or _uuid(name)
    title = target.spec.title
    file = own_name(title)
    tables = {dataset.key: dataset for dataset in datasets(target)}
    of_table = {key: _uuid(name, title, "dataset", key) for key in tables}
    chart_list = charts(target)
    of_chart = {chart.title: _uuid(name, title, "chart", chart.title) for chart in chart_list}
    content_by_path: dict[str, Mapping[str, Any]] = {
        "metadata": VERSION | {"type": "Dashboard", "timestamp": "2026-01-01T00:00:00+00:00"},
        f"databases/{own_name(name)}": _database(target, name) | {"uuid": database_uuid} | VERSION,
    }
    for key, table in tables.items():
        joined = {"uuid": of_table[key], "database_uuid": database_uuid}
        content_by_path[f"datasets/{own_name(name)}/{file}_{key}"] = (
            table.content() | joined | VERSION
        )
    for number, chart in enumerate(chart_list, 1):
        joined = {"uuid": of_chart[chart.title], "dataset_uuid": of_table[chart.dataset]}
        content_by_path[f"charts/{file}_{number:02}"] = chart.content() | joined | VERSION
    board = dashboard(target, chart_list, of_chart, of_table) | {
        "uuid": _uuid(name, title, "dashboard")
    }
    content_by_path[f"dashboards/{file}"] = board | VERSION
    return {
        f"{ROOT}/{path}.yaml": yaml_text(content, MADE) for path, content in content_by_path.items()
    }


def _uuid(*parts: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(("sqlmetrics", *parts))))


def _identity(database_uuid: str | None) -> str | None:
    """The UUID of a connection that Superset has already."""
    try:
        return str(uuid.UUID(database_uuid)) if database_uuid else None
    except ValueError:
        raise SpecError(
            f"--database-uuid: {database_uuid!r} is not a UUID; it is in databases/*.yaml of an "
            "export from Superset"
        ) from None


def _database(target: Target, name: str) -> dict[str, Any]:
    uri = target.options.get("database-uri") or URIS[target.dialect.name]
    if "://" not in uri:
        raise SpecError(
            f"--database-uri: {uri!r} is not a SQLAlchemy URL such as {URIS[target.dialect.name]}"
        )
    return {
        "database_name": name,
        "sqlalchemy_uri": without_password(uri),
        "cache_timeout": None,
        "expose_in_sqllab": True,
        "allow_run_async": False,
        "allow_ctas": False,
        "allow_cvas": False,
        "allow_dml": False,
        "allow_file_upload": False,
        "extra": {"metadata_params": {}, "engine_params": {}, "metadata_cache_timeout": {}},
    }


def without_password(uri: str) -> str:
    """An address with what Superset has in the place of a password.

    >>> without_password("postgresql://ann:s3c@ret/x@host/shop?sslmode=require")
    'postgresql://ann:XXXXXXXXXX@host/shop?sslmode=require'
    >>> without_password("postgresql://ann:@/shop?host=/run&password=s3cret")
    'postgresql://ann:@/shop?host=/run&password=XXXXXXXXXX'
    """
    address, mark, query = uri.partition("?")
    address = re.sub(r"(://[^:/@]*):.+@", rf"\1:{HIDDEN}@", address)
    return address + mark + re.sub(r"(?i)(password=)[^&]*", rf"\1{HIDDEN}", query)
