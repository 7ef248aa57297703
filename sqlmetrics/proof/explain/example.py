"""The example that metrics are worked out on: a list, labels, a baseline's list, a catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from textwrap import wrap
from typing import Any

import pyarrow as pa

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import AGE
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.proof.reference import Value
from sqlmetrics.proof.reference_columns import Item
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats import NOISE

Grades = Mapping[str, Value]

LIST: Grades = {"a": None, "b": 2, "c": 0, "d": 3, "e": None, "f": 1}
"""The ranked items, best first, with their grades; None for an item without a label."""

NOT_RETRIEVED: Grades = {"g": 2}
"""A relevant item that the list does not hold."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "b": ("x",),
    "c": ("x",),
    "d": ("x", "y"),
    "f": ("y",),
    "g": ("z",),
}
"""The groups that labelled items are graded for, with the same grade in each."""

BASELINE = ("b", "a", "g", "d")
"""The baseline's list, best first."""


class _Columns(dict[str, Any]):
    """The columns of an item by their roles: any number is its price, any day that it came out."""

    def __missing__(self, role: str) -> Any:
        return self[role.partition("_")[0]]


DAY = date(2026, 11, 1)
"""The day of the list, where a metric looks at days."""


def _item_columns(category: str, price: Value, in_stock: Value) -> Mapping[str, Any]:
    published = None if price is None else DAY - timedelta(days=int(price))
    return _Columns(text=category, number=price, flag=in_stock, age=published)


CATALOGUE: Mapping[str, Item] = {
    "a": Item("red", 40, 64, (1, 0), _item_columns("red", 10, 1)),
    "b": Item("red", 20, 64, (3, 4), _item_columns("red", 30, 0)),
    "c": Item("blue", 10, 64, (0, 1), _item_columns("blue", None, None)),
    "d": Item("red", 10, 64, (4, 3), _item_columns("red", 20, 1)),
    "e": Item("blue", 5, 64, (0, 2), _item_columns("blue", 5, 0)),
    "f": Item("green", 5, 64, (1, 1), _item_columns("green", 15, 1)),
    "g": Item("blue", 10, 64, (1, 0), _item_columns("blue", 40, 1)),
}
"""What is known of the items."""

SYSTEM = "new"
"""Whose list it is, where there are systems."""


def needed_fields(measure: Measure, preset: str = "house") -> Mapping[str, Any]:
    """The keys of a spec for what a metric needs beside rankings and labels.

    Its tables are `my_items`, `my_queries` and, with a column `system`, `my_rankings`.
    """
    roles = {name: name for name in ("category", "popularity", "users", "vector")}
    items = {"relation": "my_items", "columns": roles}
    plain = Spec(
        rankings={"relation": "my_rankings"},
        labels={"relation": "my_labels"},
        metrics=[measure.text],
        metrics_from=MetricFiles.of(measure),
        preset=preset,
    )
    columns = {"system": "system"} if "baseline" in plain.needed else {}
    if any(need.startswith((f"items.{AGE}_", "day.")) for need in plain.needed):
        columns |= {"date": "day"}
    compares: dict[str, Any] = {"baseline": "prod"} if "baseline" in plain.needed else {}
    if columns:
        compares["rankings"] = {"relation": "my_rankings", "columns": columns}
    if any(need.startswith("queries.") for need in plain.needed):
        compares["queries"] = {"relation": "my_queries"}
    groups = {"labels": {"relation": "my_labels", "columns": {"group": "group_id"}}}
    needed_groups = groups if "labels.group" in plain.needed else {}
    return compares | needed_groups | ({"items": items} if plain.needs_items else {})


def label_rows(grades: Grades, roles: Iterable[str] = (), *, groups: bool) -> pa.Table:
    """The labels; with groups one row for each that an item is graded for.

    Args:
        grades: Item -> grade.
        roles: Columns that a metric reads by their own names: as of the item itself.
        groups: Whether they have groups.
    """
    rows = [
        {
            **{role.partition("_")[2]: CATALOGUE[item].columns[role] for role in roles},
            "query_id": "q",
            "item_id": item,
            "grade": float(grade or 0),
            "group_id": group,
        }
        for item, grade in grades.items()
        for group in (GROUPS[item] if groups else ("",))
    ]
    table = pa.Table.from_pylist(rows)
    return table if groups else table.drop_columns("group_id")


def grouped(grades: Grades) -> dict[str, dict[str, Value]]:
    """The labels by group."""
    grades_by_group: dict[str, dict[str, Value]] = {}
    for item, grade in grades.items():
        for group in GROUPS[item]:
            grades_by_group.setdefault(group, {})[item] = grade
    return grades_by_group


def rankings(*, systems: bool, days: bool = False) -> pa.Table:
    """The list; with a column of systems the baseline's too, with one of days its day."""
    lists = {SYSTEM: tuple(LIST)} | ({"prod": BASELINE} if systems else {})
    rows = [
        {"query_id": "q", "item_id": item, "score": float(-position), "system": system}
        for system, items in lists.items()
        for position, item in enumerate(items)
    ]
    rows = [row | {"day": DAY} for row in rows] if days else rows
    table = pa.Table.from_pylist(rows)
    return table if systems else table.drop_columns("system")


def items(roles: Iterable[str] = ("number_price", "flag_in_stock")) -> pa.Table:
    """The catalogue.

    Args:
        roles: Its columns that a metric reads by their own names, like `number_price`.
    """
    return pa.Table.from_pylist(
        [
            {
                "item_id": name,
                "category": item.category,
                "popularity": item.popularity,
                "users": item.users,
                "vector": [float(number) for number in item.vector],
                **{role.partition("_")[2]: item.columns[role] for role in roles},
            }
            for name, item in CATALOGUE.items()
        ]
    )


# Lines of an explanation, 80 columns wide.

WIDTH = 80


def hung(label: str, text: str, indent: int = 12) -> str:
    """A label, and beside it a text that is wrapped under itself."""
    head = label.ljust(indent - 1) + " "
    lines = wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines or [head])


def paragraph(head: str, words: Sequence[str], tail: str = "") -> str:
    """Words behind commas, wrapped."""
    text = head + ", ".join(words) + tail
    return "\n".join(wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False))


def compared(value: Value, sql_value: Value, difference: float) -> str:
    """The two values, and whether they are the same."""
    verdict = (
        f"the same to {NOISE:g}" if difference <= NOISE else f"NOT the same: {difference:g} apart"
    )
    reference_line = f"reference         {_exact(value)}"
    return f"{reference_line}\nSQL on DuckDB     {_exact(sql_value)}, {verdict}"


def _exact(value: Value) -> str:
    return "left out of the mean" if value is None else f"{value:.12g}"
