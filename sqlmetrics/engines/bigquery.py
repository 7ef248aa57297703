"""BigQuery, through google-cloud-bigquery. Tested for the shape of its calls, not executed."""

from __future__ import annotations

import io
import re
from contextlib import suppress
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from google.api_core.exceptions import GoogleAPIError
from google.cloud import bigquery

from sqlmetrics.engines.driver import APPLICATION, Driver
from sqlmetrics.engines.failure import ABSENT, DENIED, LOST, TYPE, first_line
from sqlmetrics.engines.types import decimal
from sqlmetrics.engines.url import ConnectionURL
from sqlmetrics.engines.waiting import STOP_TIMEOUT

_KINDS = {
    "BOOL": "BOOLEAN",
    "BOOLEAN": "BOOLEAN",
    "BYTES": "BLOB",
    "DATETIME": "TIMESTAMP",
    "FLOAT": "DOUBLE",
    "FLOAT64": "DOUBLE",
    "INT64": "BIGINT",
    "INTEGER": "BIGINT",
    "RECORD": "STRUCT",
    "STRING": "VARCHAR",
    "TIMESTAMP": "TIMESTAMP WITH TIME ZONE",
}
_REASONS = {
    "NotFound": ABSENT,
    "Forbidden": DENIED,
    "Unauthorized": DENIED,
    "ServiceUnavailable": LOST,
    "RetryError": LOST,
}
_TYPES = re.compile(r"No matching signature|Bad \w+ value|Invalid cast|Could not cast|has type")


class BigQuery(Driver):
    """A client. Registered data becomes a table of the default dataset, dropped at the end."""

    dialect = "bigquery"
    name = "BigQuery"
    transactional = False
    errors = (GoogleAPIError, ConnectionError)
    TEMPORARY = ""
    TYPES: ClassVar = {
        "BIGINT": "int64",
        "BOOLEAN": "bool",
        "DATE": "date",
        "DOUBLE": "float64",
        "TIMESTAMP": "datetime",
        "VARCHAR": "string",
    }

    @classmethod
    def open(cls, url: ConnectionURL) -> BigQuery:
        """`bigquery://project/dataset`, with the environment's default credentials."""
        dataset = url.path.replace("/", ".")
        config = bigquery.QueryJobConfig()
        if dataset:
            config.default_dataset = f"{url.host}.{dataset}"
        with url.opening():
            client = bigquery.Client(
                project=url.host or None, default_query_job_config=config, **url.options
            )
        return cls(client, is_owned=True)

    @property
    def version(self) -> str:
        """The service tells none."""
        return "as a service"

    def _run(self, sql: str) -> None:
        self._answer(sql)

    def _arrow(self, sql: str) -> pa.Table:
        return self._answer(sql).to_arrow(create_bqstorage_client=False)

    def _answer(self, sql: str) -> Any:
        """The rows of a job, which is cancelled if nobody waits for it any more."""
        job = self._connection.query(sql)
        try:
            return job.result()
        except KeyboardInterrupt:
            with suppress(Exception):
                job.cancel(timeout=STOP_TIMEOUT)
            raise

    def estimate(self, sql: str) -> str:
        """The bytes that the service would bill for a query."""
        with self._failing(sql):
            return f"{self._dry(sql).total_bytes_processed / 1e6:,.1f} MB"

    def _tag(self, text: str) -> None:
        """As a label of each job: small letters, digits, dashes and underscores, 63 at most."""
        config = self._connection.default_query_job_config
        label = re.sub(r"[^\w-]+", "_", text.removeprefix(APPLICATION).strip().lower())[:63]
        if config is not None:  # of a user's client
            self._undo.callback(setattr, config, "labels", config.labels)
            config.labels = {APPLICATION: label, **config.labels}

    def _dry(self, sql: str) -> Any:
        """The job of a query that is planned and not run, which costs nothing."""
        config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False)
        return self._connection.query(sql, job_config=config)

    def _kinds(self, source: str) -> dict[str, str]:
        job = self._dry(f"select * from {source}")
        return {field.name: _kind(field) for field in job.schema}

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, ConnectionError):
            return LOST
        return _REASONS.get(type(error).__name__, TYPE if _TYPES.search(str(error)) else "")

    def _brief(self, error: BaseException) -> str:
        return first_line(getattr(error, "message", None) or error)

    def _fill(self, target: str, table: pa.Table) -> None:
        block = io.BytesIO()
        pq.write_table(table, block)
        block.seek(0)
        config = bigquery.LoadJobConfig(
            source_format="PARQUET", write_disposition="WRITE_APPEND", autodetect=False
        )
        destination = self._destination(target)
        self._connection.load_table_from_file(block, destination, job_config=config).result()

    def _destination(self, target: str) -> str:
        """The table with the dataset and project, which a load job wants."""
        name = target.replace("`", "")
        config = self._connection.default_query_job_config
        dataset = getattr(config, "default_dataset", None)
        home = f"{dataset.project}.{dataset.dataset_id}" if dataset else ""
        return name if "." in name or not home else f"{home}.{name}"


def _kind(field: Any) -> str:
    numeric = field.field_type in ("NUMERIC", "BIGNUMERIC")
    kind = (
        decimal(getattr(field, "precision", None), getattr(field, "scale", None) or 0)
        if numeric
        else _KINDS.get(field.field_type, field.field_type)
    )
    return f"{kind}[]" if field.mode == "REPEATED" else kind
