"""Stages of one kind: rows that are chosen, joined or summed."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

from sqlmetrics.plan.segments import Segment
from sqlmetrics.sql.stage import Column, Stage, equal
from sqlmetrics.sql.template import case


def chosen_if(condition: str, then: str, otherwise: str = "") -> str:
    """A `case` as a column, on several lines where it is long; NULL if nothing stands else."""
    return dedent(case(condition, then, otherwise)).strip()


def columns_stage(
    name: str, about: str, columns: Sequence[object], source: str, where: str = ""
) -> Stage:
    """Columns of the rows of another stage."""
    view = {"about": about, "columns": columns, "from": source, "where": where}
    return Stage(name, "columns", view)


def sums_stage(
    name: str, about: str, keys: Sequence[str], columns: Sequence[Column], source: str
) -> Stage:
    """Sums over the rows of another stage, one row for its keys."""
    view = {"about": about, "keys": keys, "columns": columns, "from": source}
    return Stage(name, "sums", {**view, "joins": {}, "where": ""})


def segments_stage(
    name: str,
    about: str,
    keys: tuple[list[str], list[str]],
    sums: Sequence[Column],
    source: str,
    *,
    segments: list[Segment],
) -> Stage:
    """The same for every segment; the segments stand between the two parts of the keys."""
    groups, last_keys = keys
    view = {"about": about, "groups": groups, "keys": last_keys, "sums": sums}
    return Stage(name, "segments", {**view, "from": source, "segments": segments})


def join_stage(
    name: str, about: str, columns: Sequence[object], source: str, *, to: str, on: tuple[str, ...]
) -> Stage:
    """Columns of the rows of two stages that agree in some."""
    view = {"about": about, "columns": columns, "from": source, "to": to}
    return Stage(name, "comparison/join", {**view, "on": equal(to, source, on)})
