"""The charts: lines by day with their intervals, systems, segments, differences and runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmetrics.catalog.dimension import RATIO, MetricRow
from sqlmetrics.jobs.exports.slices import ALL, Slice, rows, slices
from sqlmetrics.jobs.exports.superset.datasets import DIFFERENCE, INTERVAL, INTERVALS, QUERIES
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.tables import has_baseline

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
    return [*chart_list, _queries(), _runs()]


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


def _runs() -> Chart:
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
