"""Propensities for people: a table, and in words how surely they are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from textwrap import wrap

from sqlmetrics.clicks.propensity.curve import PropensityCurve, curve_table
from sqlmetrics.clicks.propensity.identifiability import Identifiability, Reach
from sqlmetrics.tables.cells import printable
from sqlmetrics.tables.table import Table, terminal_width
from sqlmetrics.tables.tabular import Block

WIDE = 100
"""Sentences are so wide where no terminal says how wide it is."""


def blocks(
    curve: PropensityCurve,
    can: Mapping[str | None, Identifiability],
    extra_lines: Iterable[str],
) -> Iterator[Block]:
    """Propensities as a table, and below it what they mean.

    Args:
        curve: The propensities.
        can: Group -> what the log can tell of it; none of given propensities.
        extra_lines: More lines.
    """
    table = curve_table(curve)
    ties = {
        (reach.group, reach.position): reach
        for identified in can.values()
        for reach in identified.positions
    }
    if ties:
        rows = zip(table.rows, curve.rows, strict=True)
        cells = [
            [*row, *_tie(ties[propensity.group, propensity.position])] for row, propensity in rows
        ]
        names = [*table.columns, "shown", "clicked", "weakest link"]
        table = Table(names, cells, table.n_labels)
    yield table
    weakest = (_weakest(group, identified) for group, identified in can.items())
    method = f"method: {curve.method}; against position 1"
    width = terminal_width() or WIDE
    lines = [
        line
        for sentence in (method, *weakest, *extra_lines)
        for line in wrap(sentence, width, break_on_hyphens=False)
    ]
    yield "\n".join([*lines, f"given: {format_curve(curve)}"])


def _tie(reach: Reach) -> list[str]:
    link = "-" if reach.link_clicks == inf else f"{reach.link_clicks:,.0f}"
    return [f"{reach.n_impressions:,.0f}", f"{reach.n_clicks:,.0f}", link]


def _weakest(group: str | None, identified: Identifiability) -> str:
    prefix = f"{printable(group)}: " if group is not None else ""
    linked = (
        f"{len(identified.strong)} links of {identified.min_clicks} clicks or more; "
        if identified.links
        else ""
    )
    return f"{prefix}{linked}the worst tied position hangs on {identified.weakest:,.0f} clicks"


def format_curve(curve: PropensityCurve) -> str:
    """The curve as the spec's `propensity.given` takes it."""
    curves: dict[str | None, list[str]] = {}
    for row in curve.rows:
        curves.setdefault(row.group, []).append(f"{row.position}: {row.propensity:.6g}")
    text_by_group = {group: "{" + ", ".join(entries) + "}" for group, entries in curves.items()}
    if None in text_by_group:
        return text_by_group[None]
    return (
        "{"
        + ", ".join(f"{group}: {group_text}" for group, group_text in text_by_group.items())
        + "}"
    )
