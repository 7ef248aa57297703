"""One CTE of a query, and one line of its select list."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.template import environment, finished


@dataclass(frozen=True)
class Column:
    """One line of a select list: an expression and what it is called."""

    sql: str
    name: str

    def __str__(self) -> str:
        if self.sql.rsplit(".", 1)[-1] == self.name:
            return self.sql
        last = self.sql.rsplit("\n", 1)[-1]
        fits = len(last) + len(self.name) <= 72
        return f"{self.sql} as {self.name}" if fits else f"{self.sql}\n    as {self.name}"


@dataclass(frozen=True)
class Stage:
    """One CTE: its name, the template that prints it, and what the template prints.

    Attributes:
        name: Its name.
        template: The file under `templates/plan`.
        view: What the template prints.
        hint: `materialized`, `not materialized` or nothing, behind `as`; it is printed where the
            stage is read more than once, since else it says nothing.
    """

    name: str
    template: str
    view: Mapping[str, Any]
    hint: str = ""


def with_columns(name: str, source: str, about: str, columns: Iterable[Column]) -> Stage:
    """The rows of a table or another stage, with more columns."""
    view = {"about": about, "columns": [f"{source}.*", *columns], "from": source, "where": ""}
    return Stage(name, "columns", view)


def equal(left_table: str, right: str, keys: tuple[str, ...]) -> list[str]:
    """The conditions of a join on keys."""
    return [f"{left_table}.{key} = {right}.{key}" for key in keys]


@dataclass(frozen=True)
class Window:
    """What stands behind `over`; a frame starts at its first word and ends at `until`."""

    partition: Sequence[str]
    order: Sequence[str] = ()
    frame: str = ""
    until: str = "current row"

    def __str__(self) -> str:
        parts = [
            *([f"partition by{_keys(self.partition)}"] if self.partition else []),
            *([f"order by{_keys(self.order)}"] if self.order else []),
            *([f"rows between {self.frame} and {self.until}"] if self.frame else []),
        ]
        line = f"({' '.join(parts)})"
        return line if len(line) <= 52 else "(\n    " + "\n    ".join(parts) + "\n)"


def _keys(keys: Sequence[str]) -> str:
    """What a window goes by: on one line, or one a line where it is long."""
    line = ", ".join(keys)
    return f" {line}" if len(line) <= 60 else "\n" + indent(",\n".join(map(_key, keys)), " " * 8)


def _key(key: str) -> str:
    """A key, over several lines where it is long itself; its direction stays behind it."""
    expression, space, way = key.rpartition(" ")
    return folded(expression, 60) + space + way if way in ("asc", "desc") else folded(key, 60)


def with_stages(stages: Iterable[Stage], last: str) -> str:
    """`with` all stages, if there are any, and a last select."""
    stages = list(stages)
    bodies = [_body(stage) for stage in stages]
    text = "\n".join([*bodies, last])
    pairs = zip(stages, bodies, strict=True)
    ctes = ",\n\n".join(_cte(stage, body, text) for stage, body in pairs)
    return finished(f"with\n\n{ctes}\n\n{last}" if ctes else last)


def select_of(stages: Sequence[Stage]) -> str:
    """The last stage as a select, the others before it, below its comment."""
    *before, last = stages
    comment, select = commented(_body(last))
    return comment + with_stages(before, select)


def commented(text: str) -> tuple[str, str]:
    """The comment lines above a select, and the select."""
    comment = re.match(r"(?:--.*\n)*", text)
    above = comment[0] if comment else ""
    return above, text[len(above) :]


def _cte(stage: Stage, body: str, text: str) -> str:
    """A stage, of whose hint the whole text decides."""
    comment, select = commented(body)
    is_shared = stage.hint and len(re.findall(rf"\b(?:from|join) {stage.name}\b", text)) > 1
    hint = f"{stage.hint} " if is_shared else ""
    return f"{comment}{stage.name} as {hint}(\n{indent(select, ' ' * 4)}\n)"


def _body(stage: Stage) -> str:
    folder = "" if "/" in stage.template else "plan/"
    return print_template(f"{folder}{stage.template}", stage.view)


def print_template(name: str, view: Mapping[str, Any]) -> str:
    """The text of one template."""
    return environment().get_template(f"{name}.sql.jinja").render(view).strip("\n")
