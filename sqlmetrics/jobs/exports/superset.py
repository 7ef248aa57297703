"""`superset`: datasets, charts and a dashboard, as a bundle to import."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmetrics.catalog.dimension import RATIO, MetricRow
from sqlmetrics.errors import SpecError
from sqlmetrics.jobs.exports.slices import (
    ALL,
    Slice,
    columns_of,
    describe_metric,
    facts,
    over_columns,
    query,
    rows,
    slices,
)
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.exports.yaml_text import Block, yaml_text
from sqlmetrics.jobs.schema import RUNS, has_baseline, targets
from sqlmetrics.jobs.spec_views import name_in_views
from sqlmetrics.sql.template import literal, parts
from sqlmetrics.sql.translation import Translation

# Virtual data sets, each of one spec and segment, with its metrics saved.

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


# The charts: lines by day with their intervals, systems, segments, differences and runs.

MOST = 6
"""As many metrics have a line chart; the others are saved metrics, a click away."""

LINES, BARS, TABLE = "echarts_timeseries_line", "echarts_timeseries_bar", "table"
FULL, WIDE, HALF, NARROW = 12, 7, 6, 5
"""Widths, of twelve columns."""


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        title: Above it.
        kind: Superset's name for what it draws.
        dataset: The key of its data set.
        params: What Superset has to know.
        width: Of twelve columns.
        about: Its description.
    """

    title: str
    kind: str
    dataset: str
    params: Mapping[str, Any]
    width: int = HALF
    about: str = ""

    def content(self) -> dict[str, Any]:
        """What its file says."""
        return {
            "slice_name": self.title,
            "description": self.about,
            "viz_type": self.kind,
            "params": {"viz_type": self.kind, **self.params},
            "query_context": None,
            "cache_timeout": None,
        }


def charts(target: Target) -> list[Chart]:
    """The charts, from the top of the dashboard to its end."""
    measures = rows(target)
    first, *remaining = measures[:MOST]
    chart_list = [_trend(first, WIDE), _systems(measures)]
    ratios = [metric_row for metric_row in measures if metric_row.roll_up == RATIO]
    for metric_row in ratios[:1]:
        chart_list.append(_interval(metric_row, f"{metric_row.name} with its interval", INTERVAL))
        if has_baseline(target.spec):
            title = f"{metric_row.name}: difference from {target.spec.baseline}"
            unless_baseline = _is("system", str(target.spec.baseline), "!=", "NOT_EQUALS")
            chart_list.append(_interval(metric_row, title, DIFFERENCE, unless_baseline))
    chart_list += [_trend(metric_row, HALF) for metric_row in remaining]
    for metric_slice in slices(target):
        if metric_slice.column:
            main_metric = (ratios or [first])[0]
            chart_list += [
                _segments(main_metric, metric_slice),
                _segment_days(main_metric, metric_slice),
            ]
    return [*chart_list, _queries(), _run_charts()]


def _is(
    column: str, value: str | int, operator: str = "==", name: str = "EQUALS"
) -> dict[str, Any]:
    return {
        "clause": "WHERE",
        "expressionType": "SIMPLE",
        "subject": column,
        "operator": operator,
        "operatorId": name,
        "comparator": value,
        "filterOptionName": f"filter_{column}",
    }


def _lines(metrics: Sequence[str], *by: str) -> dict[str, Any]:
    return {
        "x_axis": "metric_date",
        "time_grain_sqla": "P1D",
        "metrics": list(metrics),
        "groupby": list(by),
        "adhoc_filters": [],
        "row_limit": 10000,
        "truncate_metric": True,
        "show_legend": True,
        "rich_tooltip": True,
        "markerEnabled": True,
        "y_axis_format": ".3~f",
        "truncateYAxis": True,
        "y_axis_bounds": [None, None],
        "x_axis_time_format": "smart_date",
        "seriesType": "line",
        "sort_series_type": "name",
        "sort_series_ascending": True,
        "x_axis_sort_asc": True,
    }


def _trend(metric_row: MetricRow, width: int) -> Chart:
    params = _lines([metric_row.name], "system")
    return Chart(f"{metric_row.name} by day", LINES, ALL, params, width, about=metric_row.label)


def _interval(
    metric_row: MetricRow, title: str, parts: Sequence[str], *conditions: Mapping[str, Any]
) -> Chart:
    params = _lines(parts, "system") | {
        "adhoc_filters": [_is("metric", metric_row.metric), _is("k", metric_row.k), *conditions],
        "truncate_metric": False,
        "markerEnabled": False,
    }
    about = "Intervals of single days; where one of a difference leaves out 0, the day shows one."
    return Chart(title, LINES, INTERVALS, params, about=about)


def _systems(measures: list[MetricRow]) -> Chart:
    return Chart(
        title="All days by system",
        kind=TABLE,
        dataset=ALL,
        params={
            "query_mode": "aggregate",
            "groupby": ["system"],
            "metrics": [*(metric_row.name for metric_row in measures), QUERIES],
            "adhoc_filters": [],
            "row_limit": 100,
            "order_desc": True,
        },
        width=NARROW,
        about="Sums over sums of all days that the filter leaves.",
    )


def _segments(metric_row: MetricRow, metric_slice: Slice) -> Chart:
    params = _lines([metric_row.name], "system") | {
        "x_axis": metric_slice.column,
        "seriesType": "bar",
        "truncateYAxis": False,
        "show_value": True,
    }
    del params["time_grain_sqla"], params["markerEnabled"]
    return Chart(
        f"{metric_row.name} by {metric_slice.segment}, all days", BARS, metric_slice.key, params
    )


def _segment_days(metric_row: MetricRow, metric_slice: Slice) -> Chart:
    params = _lines([metric_row.name], metric_slice.column, "system") | {"markerEnabled": False}
    return Chart(
        f"{metric_row.name} by {metric_slice.segment} and day", LINES, metric_slice.key, params
    )


def _queries() -> Chart:
    params = _lines([QUERIES], "system") | {"y_axis_format": ",d", "truncateYAxis": False}
    return Chart("Queries by day", LINES, ALL, params, about="Means of few queries move by chance.")


def _run_charts() -> Chart:
    shown_columns = [
        "started_at",
        "range_start",
        "range_end",
        "facts",
        "seconds",
        "outcome",
        "message",
    ]
    return Chart(
        title="Runs",
        kind=TABLE,
        dataset="runs",
        params={
            "query_mode": "raw",
            "all_columns": shown_columns,
            "adhoc_filters": [],
            "row_limit": 20,
            "order_by_cols": ['["started_at", false]'],
            "table_timestamp_format": "smart_date",
        },
    )


# The dashboard: where each chart stands, and its filters.

HEIGHT = 50
TOP = ["ROOT_ID", "GRID_ID"]


def dashboard(
    target: Target,
    charts: Sequence[Chart],
    of_chart: Mapping[str, str],
    of_table: Mapping[str, str],
) -> dict[str, Any]:
    """What its file says.

    Args:
        target: What the export is made for.
        charts: From the top to the end.
        of_chart: Title of a chart -> its UUID.
        of_table: Key of a data set -> its UUID.
    """
    title = title_of(target)
    filters = [
        _filter("Days", "filter_time", {}),
        _filter("System", "filter_select", _column(of_table[ALL], "system")),
    ]
    for metric_slice in slices(target):
        if metric_slice.column:
            column = _column(of_table[metric_slice.key], metric_slice.column)
            filters.append(_filter(metric_slice.segment, "filter_select", column))
    return {
        "dashboard_title": f"Ranking quality: {title}",
        "description": "Metrics over several days are sums over sums; intervals are of one day.",
        "css": "",
        "slug": f"ranking-quality-{name_in_views(title).replace('_', '-')}",
        "published": True,
        "position": _position(title, charts, of_chart),
        "metadata": {
            "timed_refresh_immune_slices": [],
            "expanded_slices": {},
            "refresh_frequency": 0,
            "default_filters": "{}",
            "color_scheme": "",
            "cross_filters_enabled": True,
            "native_filter_configuration": filters,
        },
    }


def _position(title: str, charts: Sequence[Chart], uuids: Mapping[str, str]) -> dict[str, Any]:
    placed: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "children": [], "parents": ["ROOT_ID"]},
        "HEADER_ID": {"type": "HEADER", "id": "HEADER_ID", "meta": {"text": title}},
    }
    for number, row in enumerate(_in_rows(charts)):
        row_id = f"ROW-{number}"
        placed["GRID_ID"]["children"].append(row_id)
        placed[row_id] = {
            "type": "ROW",
            "id": row_id,
            "children": [f"CHART-{number}-{index}" for index in range(len(row))],
            "parents": TOP,
            "meta": {"background": "BACKGROUND_TRANSPARENT"},
        }
        for index, chart in enumerate(row):
            placed[f"CHART-{number}-{index}"] = {
                "type": "CHART",
                "id": f"CHART-{number}-{index}",
                "children": [],
                "parents": [*TOP, row_id],
                "meta": {
                    "chartId": 100 * number + index + 1,
                    "width": chart.width,
                    "height": HEIGHT,
                    "sliceName": chart.title,
                    "uuid": uuids[chart.title],
                },
            }
    return placed


def _in_rows(charts: Sequence[Chart]) -> Iterator[list[Chart]]:
    """Charts side by side, as far as they fit."""
    row: list[Chart] = []
    for chart in charts:
        if sum(placed_chart.width for placed_chart in row) + chart.width > FULL:
            yield row
            row = []
        row.append(chart)
    yield row


def _column(dataset: str, name: str) -> dict[str, Any]:
    return {"datasetUuid": dataset, "column": {"name": name}}


def _filter(name: str, kind: str, column: Mapping[str, Any]) -> dict[str, Any]:
    values = {"multiSelect": True, "enableEmptyFilter": False, "defaultToFirstItem": False}
    values |= {"searchAllOptions": False, "inverseSelection": False}
    return {
        "id": f"NATIVE_FILTER-{name_in_views(name)}",
        "name": name,
        "filterType": kind,
        "targets": [dict(column)],
        "defaultDataMask": {"extraFormData": {}, "filterState": {}, "ownState": {}},
        "cascadeParentIds": [],
        "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
        "controlValues": values if column else {},
        "type": "NATIVE_FILTER",
        "description": "",
    }


# The files of a Superset bundle, joined by UUIDs that hang on names alone.

HEADER = "made by: sqlmetrics export superset"
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
    file = name_in_views(title)
    tables = {dataset.key: dataset for dataset in datasets(target)}
    of_table = {key: _uuid(name, title, "dataset", key) for key in tables}
    chart_list = charts(target)
    of_chart = {chart.title: _uuid(name, title, "chart", chart.title) for chart in chart_list}
    content_by_path: dict[str, Mapping[str, Any]] = {
        "metadata": VERSION | {"type": "Dashboard", "timestamp": "2026-01-01T00:00:00+00:00"},
        f"databases/{name_in_views(name)}": _database(target, name)
        | {"uuid": database_uuid}
        | VERSION,
    }
    for key, table in tables.items():
        joined = {"uuid": of_table[key], "database_uuid": database_uuid}
        content_by_path[f"datasets/{name_in_views(name)}/{file}_{key}"] = (
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
        f"{ROOT}/{path}.yaml": yaml_text(content, HEADER)
        for path, content in content_by_path.items()
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
