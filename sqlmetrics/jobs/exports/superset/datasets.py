"""Virtual data sets, each of one spec and segment, with its metrics saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmetrics.catalog.dimension import RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import ALL, Slice, facts, query, rows, slices
from sqlmetrics.jobs.exports.sums import columns_of, describe_metric, over_columns
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import Block
from sqlmetrics.jobs.schema import RUNS
from sqlmetrics.jobs.tables import has_baseline, targets
from sqlmetrics.sql.template import literal, parts
from sqlmetrics.sql.translation import Translation

SCHEMAS = {"duckdb": "main", "postgres": "public"}
"""Dialect -> the schema of a table whose name says none."""

QUERIES, RUN_COUNT = "n_queries", "runs"
INTERVAL = ("value", "ci_low", "ci_high")
DIFFERENCE = ("difference", "difference_low", "difference_high")
"""Saved metrics that are no metric of the spec."""

INTERVALS = "intervals"
"""The key of the data set that has them."""

TYPES = {"double": "DOUBLE PRECISION", "varchar": "TEXT", "bigint": "BIGINT", "date": "DATE"}
"""DuckDB's word -> what Superset shows; it looks for itself once it is connected."""


@dataclass(frozen=True)
class Saved:
    """A metric that is saved in a data set."""

    name: str
    label: str
    expression: str
    about: str = ""
    shape: str = ".4f"

    def content(self) -> dict[str, Any]:
        """What its file says of it."""
        return {
            "metric_name": self.name,
            "verbose_name": self.label,
            "metric_type": "expression",
            "expression": self.expression,
            "description": self.about,
            "d3format": self.shape,
            "extra": {},
            "warning_text": None,
        }


@dataclass(frozen=True)
class Dataset:
    """A query with columns and saved metrics.

    Attributes:
        key: What it is called within the bundle: `all`, `by_country`.
        title: What people see.
        about: Its description.
        sql: Its query.
        schema: The schema of its table; without one `superset import-directory` takes that of
            the database in which Superset has its examples.
        columns: Name -> type, in DuckDB's words.
        metrics: Those that are saved.
        time: The column of the time.
        labels: Column -> what people read.
    """

    key: str
    title: str
    about: str
    sql: str
    schema: str
    columns: Mapping[str, str]
    metrics: Sequence[Saved]
    time: str = "metric_date"
    labels: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """What its file says."""
        labels = {"metric_date": "Day", "system": "System", **self.labels}
        return {
            "table_name": self.title,
            "main_dttm_col": self.time,
            "description": self.about,
            "schema": self.schema,
            "catalog": None,
            "sql": Block(self.sql),
            "filter_select_enabled": True,
            "normalize_columns": False,
            "always_filter_main_dttm": False,
            "metrics": [metric.content() for metric in self.metrics],
            "columns": [
                {
                    "column_name": name,
                    "verbose_name": labels.get(name),
                    "is_dttm": kind in ("date", "timestamp"),
                    "is_active": True,
                    "type": TYPES.get(kind, kind.upper()),
                    "groupby": kind != "double",
                    "filterable": True,
                    "expression": None,
                    "description": None,
                    "extra": {},
                }
                for name, kind in self.columns.items()
            ],
        }


DATABASE = "sqlmetrics"
"""What the connection is called, unless somebody names it."""


def title_of(target: Target) -> str:
    """What data sets and dashboard are named by; Superset takes no name twice.

    So the same spec in another database, whose connection has another name, has that in it.
    """
    name = target.options.get("database-name", DATABASE)
    return target.spec.title + (f" ({name})" if name != DATABASE else "")


def datasets(target: Target) -> list[Dataset]:
    """All queries, a segment each, metrics with their intervals, and the runs."""
    dataset_list = [_of_slice(target, metric_slice) for metric_slice in slices(target)]
    return [*dataset_list, _intervals(target), _runs(target)]


def saved(metric_row: MetricRow) -> Saved:
    """A metric of the spec, saved."""
    shape = ".4f" if metric_row.roll_up == RATIO else ",.4~f"
    return Saved(
        metric_row.name,
        metric_row.name,
        over_columns(metric_row),
        f"{metric_row.label}: {describe_metric(metric_row)}",
        shape,
    )


def _of_slice(target: Target, metric_slice: Slice) -> Dataset:
    columns = {"metric_date": "date", "system": "varchar"}
    columns |= {metric_slice.column: "varchar"} if metric_slice.column else {}
    columns |= {"n_queries": "bigint"}
    columns |= {
        name: "double" for metric_row in rows(target) for name in columns_of(metric_row).values()
    }
    slice_title = f"by {metric_slice.segment}" if metric_slice.column else "all queries"
    counted = Saved(QUERIES, QUERIES, "sum(n_queries)", "Queries that count, summed.", ",d")
    return Dataset(
        key=metric_slice.key,
        title=f"{title_of(target)}: {slice_title}",
        about=f"Ranking metrics of {target.spec.title}, {slice_title}: one row a day and system.",
        sql=query(target, metric_slice),
        schema=_schema(target),
        columns=columns,
        metrics=[*(saved(metric_row) for metric_row in rows(target)), counted],
        labels={metric_slice.column: metric_slice.segment} if metric_slice.column else {},
    )


def _intervals(target: Target) -> Dataset:
    spec = target.spec
    ends = INTERVAL[1:] + (DIFFERENCE if has_baseline(spec) else ())
    columns = [
        "metric_date",
        "system",
        "metric",
        "k",
        *("value", "numerator", "denominator"),
        *ends,
    ]
    listed = ",\n    ".join(columns)
    where = f"spec = {literal(spec.title)} and segment_name = {literal(ALL)}"
    value = (
        "case when count(numerator) > 0 then sum(numerator) / nullif(sum(denominator), 0) "
        "when count(*) = 1 then max(value) end"
    )
    alone = "Of a single day, system and metric; empty over several."
    single = [
        Saved(column, column, f"case when count(*) = 1 then max({column}) end", alone)
        for column in ends
    ]
    return Dataset(
        key=INTERVALS,
        title=f"{title_of(target)}: intervals",
        about=f"Metrics of {spec.title} one below the other, with intervals: filter by metric, k.",
        schema=_schema(target),
        sql=f"select\n    {listed}\nfrom {facts(target)}\nwhere {where}",
        columns=dict.fromkeys(columns, "double")
        | {"metric_date": "date", "system": "varchar", "metric": "varchar", "k": "bigint"},
        metrics=[Saved("value", "value", value, "Of one metric: filter by metric and k."), *single],
    )


def _runs(target: Target) -> Dataset:
    spec, translation = target.spec, Translation(target.dialect)
    table = translation.name(targets(spec)["runs"])
    names = ",\n    ".join(RUNS)
    return Dataset(
        key="runs",
        title=f"{title_of(target)}: runs",
        about="One row a run, also of those that failed.",
        schema=_schema(target),
        sql=f"select\n    {names}\nfrom {table}\nwhere spec = {literal(spec.title)}",
        columns={name: column.type for name, column in RUNS.items()},
        metrics=[Saved(RUN_COUNT, "Runs", "count(*)", "Runs, also those that failed.", ",d")],
        time="started_at",
    )


def _schema(target: Target) -> str:
    *schema, _ = parts(targets(target.spec)["facts"])
    return schema[-1] if schema else SCHEMAS[target.dialect.name]
