"""The dashboard: where each chart stands, and its filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlmetrics.jobs.exports.slices import ALL, slices
from sqlmetrics.jobs.exports.superset.charts import FULL, Chart
from sqlmetrics.jobs.exports.superset.datasets import title_of
from sqlmetrics.jobs.exports.target import Target
from sqlmetrics.jobs.spec_views import own_name

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
        "slug": f"ranking-quality-{own_name(title).replace('_', '-')}",
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
        "id": f"NATIVE_FILTER-{own_name(name)}",
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
