"""What there is: the catalogue, the options, the presets and the dialects, as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.metric import Metric, listed
from sqlmetrics.catalog.online import ONLINE, OnlineMetric
from sqlmetrics.catalog.presets import PRESETS
from sqlmetrics.jobs.exports.formats import FORMATS
from sqlmetrics.sql.conformance import trust
from sqlmetrics.sql.dialects import DIALECTS
from sqlmetrics.tables.table import Table

Record = dict[str, object]


def records(kind: str) -> list[Record]:
    """What there is of a kind, for programs: one dict each.

    Args:
        kind: `metrics`, `online`, `presets`, `options`, `dialects` or `exports`.
    """
    return _RECORDS[kind]()


def table(kind: str) -> Table:
    """The same for people; of an option, what it is about stands once, at the house default."""
    rows, before = [], None
    for record in records(kind):
        option = record.get("option")
        is_first = option is None or option != before
        before = option
        rows.append(record if is_first else {**record, "option": "", "about": ""})
    return Table(list(rows[0]), [list(map(_cell, row.values())) for row in rows])


def _metrics() -> list[Record]:
    return [
        {
            "metric": _spelled(metric),
            "title": metric.title,
            "range": metric.range,
            "better": metric.better,
            "unit": metric.unit,
            "aliases": list(metric.aliases),
            "formula": metric.formula,
        }
        for metric in listed()
    ]


def _online() -> list[Record]:
    return [
        {
            "online metric": _online_spelled(metric),
            "better": metric.better,
            "unit": metric.unit,
            "what it says": metric.title,
        }
        for metric in ONLINE.values()
    ]


def _online_spelled(metric: OnlineMetric) -> str:
    if metric.setting == "action":
        return f"{metric.name}(ACTION)"
    if metric.setting:
        return f"{metric.name}, {metric.name}({metric.setting}=N)"
    return f"{metric.name}, {metric.name}@k" if metric.cut else metric.name


def _options() -> list[Record]:
    return [
        {
            "option": option.name,
            "value": choice.name,
            "meaning": choice.meaning,
            "about": option.meaning,
        }
        for option in OPTIONS.values()
        for choice in option.choices
    ]


def _presets() -> list[Record]:
    return [
        {
            "preset": name,
            "differs from house in": list(preset.departures) or None,
            "reproduces": preset.note,
        }
        for name, preset in PRESETS.items()
    ]


def _dialects() -> list[Record]:
    rows: list[Record] = []
    for dialect in DIALECTS.values():
        trusted = trust(dialect)
        run = trusted.run
        rows.append(
            {
                "dialect": dialect.name,
                "of": dialect.title,
                "trust": trusted.how,
                "engine": str(run) if run else None,
                "numbers compared": run.compared if run else None,
                "largest difference": run.largest if run else None,
                "last run": f"{run.day} {run.commit}".strip() or None if run else None,
            }
        )
    return rows


def _exports() -> list[Record]:
    return [
        {
            "export": target.name,
            "tool": target.title,
            "dialects": list(target.dialects),
            "run in tests": target.executed,
            "what it gets": target.about,
        }
        for target in FORMATS.values()
    ]


_RECORDS: Mapping[str, Callable[[], list[Record]]] = {
    "metrics": _metrics,
    "online": _online,
    "presets": _presets,
    "options": _options,
    "dialects": _dialects,
    "exports": _exports,
}


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.0e}"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _spelled(metric: Metric) -> str:
    return {
        "required": f"{metric.name}@k",
        "optional": f"{metric.name}, {metric.name}@k",
        "none": metric.name,
    }[metric.cutoff]
