"""Whose rows a table holds: what the last run of a name read, beside what a spec reads now.

A source that moved, a condition that changed and metrics that come or go are the same spec,
changed. Another table, another column of the same table, a column more or less that decides
numbers, or no metric in common is another spec of the same name, which would take the rows of the
first one away (ADR 27).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.sources import is_file_name
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.schema import columns_of, targets
from sqlmetrics.spec.definition import sources_of
from sqlmetrics.spec.source import REMOTE, Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, parts, relation
from sqlmetrics.sql.user_sql import ADDRESS_SECRETS, names_in, spelled_alike, unnumbered

Origin = Mapping[str, Any]
"""A source as the run log has it: `relation`, `file` or `sql` (what it reads), and `columns`."""

DECIDING: Mapping[str, Sequence[str]] = {
    "rankings": ("rank", "system", "date"),
    "labels": ("date",),
    "queries": ("date",),
    "counterfactual": ("rank", "system", "position"),
    **dict.fromkeys(
        ("impressions", "log", "events"),
        ("request", "query", "system", "user", "session", "time", "dwell", "clicked", "amount"),
    ),
    "requests": ("query", "system", "user", "session", "time", "results"),
}
"""Source -> the roles of columns that decide numbers by being there; what definitions say of them
(weight, group) is not among them."""

_WORDS = {"relation": "the table", "file": "the file", "sql": "a query of"}


CHECKED_INPUT = "checked_input"
"""The column of the run log that says which input passed the checks."""


def log_entries(spec: Spec, folder: Path | None = None) -> dict[str, str]:
    """Columns of the run log -> what a spec reads and asks for, as SQL texts.

    Args:
        spec: What is asked.
        folder: From where its files are named; None leaves their names as they are.
    """
    places = {role: _origin(source, folder) for role, source in sources_of(spec).items()}
    return {
        "sources": literal(json.dumps(places, ensure_ascii=False)),
        "metrics": literal(", ".join(_metrics(spec))),
    }


def run_that_checked(spec: Spec, digest: str, engine: Database) -> str:
    """The run that checked this input and wrote its numbers; empty if none did.

    Args:
        spec: What is asked.
        digest: What `input_hash` says.
        engine: Where the run log is.
    """
    table = targets(spec)["runs"]
    if not digest or CHECKED_INPUT not in columns_of(table, engine):
        return ""
    rows = engine.rows(
        f"select run_id from {relation(table)} where spec = {literal(spec.title)} and outcome = "
        f"'replaced' and {CHECKED_INPUT} = {literal(digest)} order by started_at desc limit 1"
    )
    return str(rows[0][0]) if rows else ""


def check_same_spec(spec: Spec, engine: Database) -> None:
    """Look whether the rows of a spec's name were written by a spec of its own.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are.

    Raises:
        SpecError: If the last run of that name was another spec's: with both, and what differs.
    """
    last = _last_run(spec, engine)
    if last is None:
        return
    started, before, metrics = last
    now = {role: _origin(source, Path()) for role, source in sources_of(spec).items()}
    differences = [
        difference
        for role in now
        if role in before
        for difference in _differences(role, before[role], now[role], engine)
    ]
    if ("requests" in before) != ("requests" in now):
        words = ("a table of requests", "none")
        read, reads = words if "requests" in before else reversed(words)
        differences.append(f"it read {read}, but this one reads {reads}")
    metrics_now = _metrics(spec)
    if metrics and not {*metrics} & {*metrics_now}:
        comparison = ", but this one has ".join(
            ", ".join(names) for names in (metrics, metrics_now)
        )
        differences.append(f"it had {comparison}: no metric is the same")
    if differences:
        raise SpecError(
            f"{targets(spec)['facts']} has rows of another spec called {spec.title}, which this "
            f"run would replace. Its last run was at {started}: {'; '.join(differences)}. Rename "
            "this spec; or, if it is the same spec with changes, use --adopt to keep its rows, "
            "with --full-refresh if its numbers change"
        )


def _last_run(
    spec: Spec, engine: Database
) -> tuple[object, Mapping[str, Origin], list[str]] | None:
    """When it began, what it read and what it asked for; None if it has left no row or no word."""
    name_by_table = targets(spec)
    if not all(columns_of(name_by_table[table], engine) for table in ("runs", "facts")):
        return None
    is_own = f"where spec = {literal(spec.title)}"
    if not engine.rows(
        f"select 1 as row_exists from {relation(name_by_table['facts'])} {is_own} limit 1"
    ):
        return None
    rows = engine.rows(
        f"select started_at, sources, metrics from {relation(name_by_table['runs'])} {is_own} "
        "and outcome = 'replaced' and sources is not null order by started_at desc limit 1"
    )
    for started, sources, metrics in rows:
        return str(started)[:19], json.loads(sources), [*filter(None, metrics.split(", "))]
    return None


def _metrics(spec: Spec) -> list[str]:
    return [at_cutoff(metric, k) for metric, k, _ in hashes(spec)]


def _origin(source: Source, folder: Path | None) -> Origin:
    """Where a source is; of data in memory only its columns are known."""
    columns = source.columns.model_dump()
    column_fields = {
        "columns": {role: name for role, name in columns.items() if isinstance(name, str)}
    }
    column_fields |= {"actions": columns["actions"]} if "actions" in columns else {}
    if source.file is not None:
        return {"file": _file(source.file, folder), **column_fields}
    if source.relation is not None:
        return {"relation": source.relation, **column_fields}
    if source.sql is not None:
        return {
            "sql": names_in(source.sql) or [],
            "text": spelled_alike(source.sql),
            **column_fields,
        }
    return column_fields


def _file(path: str, folder: Path | None) -> str:
    """A file's name without what is secret in the address of one far away."""
    if path.startswith(REMOTE):
        return ADDRESS_SECRETS.sub("", path)
    return path if folder is None else str((folder / path).absolute())


def _differences(role: str, before: Origin, now: Origin, engine: Database) -> Iterator[str]:
    """Why two places are not of one source that may have moved; nothing if they may be."""
    tables, tables_now = _tables(before), _tables(now)
    if tables and tables_now:
        same = [(old, new) for old in tables for new in tables_now if _name(old) == _name(new)]
        if all(_is_left(old, new, engine) for old, new in same):
            yield f"it read {role} from {_in_words(before)}, but this one reads {_in_words(now)}"
    columns, columns_before = now["columns"], before["columns"]
    if "actions" in before and "actions" in now:
        columns, columns_before = (
            origin["columns"]
            | {f"actions.{action}": name for action, name in origin["actions"].items()}
            for origin in (now, before)
        )
    for column in dict.fromkeys((*columns_before, *columns)):
        name, name_now = columns_before.get(column), columns.get(column)
        decides = column in DECIDING.get(role, ()) or column.startswith("actions.")
        if name == name_now or (not decides and not (name and name_now)):
            continue
        had = f"had {column} in the column {name}" if name else f"had no {column}"
        has = f"has it in {name_now}" if name_now else "has none"
        yield f"its {role} {had}, but this one {has}"


def _tables(origin: Origin) -> list[str]:
    tables = origin.get("sql") or [origin.get("relation") or origin.get("file")]
    return [table for table in tables if table]


def _name(table: str) -> str:
    """A table's own name, whatever its schema or folder, its ending and the numbers in it.

    >>> _name("shop.rankings"), _name("/data/2026/Rankings_v2.parquet"), _name("rankings_3")
    ('rankings', 'rankings', 'rankings')
    """
    path = table.strip('"')
    last = _stem(path) if is_file_name(path) else parts(table)[-1]
    return unnumbered(last)


def _stem(path: str) -> str:
    """The name of a file or folder; of files below a folder the folder's."""
    names = [name for name in path.split("/") if name.strip("*")]
    plain_names = [name for name in names if "*." not in name] or names or [path]
    return plain_names[-1].split(".")[0] or plain_names[-1]


def _is_left(before: str, now: str, engine: Database) -> bool:
    """Whether the table of the last run is still where it was, beside the one of now."""
    if is_file_name(before) != is_file_name(now):  # a file that was loaded into a table
        return False
    old, new = _path(before), _path(now)
    n = min(len(old), len(new))
    if old[-n:] == new[-n:]:
        return False
    if is_file_name(before):
        return not before.startswith(REMOTE) and Path(before.strip('"')).exists()
    return bool(columns_of(before, engine))


def _path(table: str) -> Sequence[str]:
    """The parts of a name with its schema or folder, whatever the numbers in it."""
    return [unnumbered(part) for part in re.split(r"[./]", table.replace('"', ""))]


def _in_words(origin: Origin) -> str:
    kind = next(kind for kind in _WORDS if origin.get(kind))
    return f"{_WORDS[kind]} {', '.join(_tables(origin))}"
