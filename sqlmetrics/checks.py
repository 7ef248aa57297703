"""The input checks: never a wrong number in silence.

A check is a row: what is wrong, the SQL that finds it, and what to do. The conditions on
single rows share one scan of each table; a check that needs groups is one query of its
own. All problems are told at once, with counts and example rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlmetrics.conventions import Table
from sqlmetrics.errors import InputError, unknown
from sqlmetrics.inputs import Relation
from sqlmetrics.plan import Plan, segment
from sqlmetrics.sql import print_template, with_stages
from sqlmetrics.template import identifier, number

EXAMPLES = 3
LARGEST = 1.7976931348623157e308


class Engine(Protocol):
    """What the checks need of an engine."""

    def columns(self, source: str) -> dict[str, str]: ...
    def rows(self, sql: str) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class RowCheck:
    """A condition that no row of a table may meet.

    Attributes:
        role: The column it is about.
        condition: SQL over {column}, and {number} for the column read as a number.
        problem: What is wrong with the rows that meet it.
        remedy: What to do.
    """

    role: str
    condition: str
    problem: str
    remedy: str


@dataclass(frozen=True)
class GroupCheck:
    """A query that must return nothing; its first column is how many rows it has in all.

    Attributes:
        table: The table it is about.
        template: The file under `templates/checks`.
        names: The columns that it returns after the count.
        problem: What is wrong; {n} is the count.
        remedy: What to do.
        view: What the template prints.
    """

    table: str
    template: str
    names: tuple[str, ...]
    problem: str
    remedy: str
    view: Mapping[str, Any]


def _null(role: str) -> RowCheck:
    return RowCheck(role, "{column} is null", "is NULL", "leave these rows out or fill them in")


def _unreadable(role: str, kind: str = "number") -> RowCheck:
    condition = "{column} is not null and {%s} is null" % kind
    return RowCheck(role, condition, f"is no {kind}", f"make it a {kind}")


def _outside(role: str, condition: str, problem: str, remedy: str) -> RowCheck:
    return RowCheck(role, "{number} is not null and " + condition, problem, remedy)


_FINITE = f"not ({{number}} between {-LARGEST!r} and {LARGEST!r})"

ROW_CHECKS: Mapping[str, tuple[RowCheck, ...]] = {
    "rankings": (
        _null("query"),
        _null("item"),
        _null("system"),
        _null("date"),
        _unreadable("date", "date"),
        _null("score"),
        _unreadable("score"),
        _outside("score", "isnan({number})", "is NaN", "score these rows or leave them out"),
        _null("rank"),
        _unreadable("rank"),
        _null("weight"),
        _unreadable("weight"),
        _outside(
            "weight",
            f"({_FINITE} or {{number}} < 0)",
            "is negative or not finite",
            "weights are 0 or more",
        ),
    ),
    "labels": (
        _null("query"),
        _null("item"),
        _null("date"),
        _unreadable("date", "date"),
        _null("grade"),
        _unreadable("grade"),
        _outside("grade", _FINITE, "is NaN or infinite", "give it a finite grade"),
        _outside(
            "grade",
            "{number} < 0 and {number} >= " + repr(-LARGEST),
            "is negative",
            "make bad items 0, and leave out rows that mean 'judged, but unknown'",
        ),
    ),
}


def check(plan: Plan, sources: Mapping[str, str], engine: Engine) -> None:
    """Raise InputError if the input would give a wrong number.

    Args:
        plan: The plan of the evaluation.
        sources: `rankings` and `labels` -> the text behind FROM.
        engine: Where they are.

    Raises:
        InputError: With every problem found: first missing columns, then bad rows, then
            bad groups of rows, since each kind can only be looked for without the former.
    """
    for stage in (_missing_columns, _bad_rows, _bad_groups):
        problems = list(stage(plan, sources, engine))
        if problems:
            raise InputError(problems)


def _missing_columns(
    plan: Plan, sources: Mapping[str, str], engine: Engine
) -> Iterator[str]:
    for table, source in sources.items():
        there = engine.columns(source)
        folded = {name.casefold() for name in there}
        wanted = dict(plan.columns[table])
        if table == "rankings":
            wanted |= {f"by {name}": name for name in plan.spec.by}
        for role, name in wanted.items():
            if name.casefold() not in folded:
                yield f"{table}: {unknown('column', name, there)} (wanted as {role})"


def _bad_rows(plan: Plan, sources: Mapping[str, str], engine: Engine) -> Iterator[str]:
    for table, source in sources.items():
        columns = plan.columns[table]
        rows = [(row, _condition(row, columns)) for row in _row_checks(plan, table)]
        counted = [f"sum(case when {sql} then 1 else 0 end)" for _, sql in rows]
        total, *counts = engine.rows(
            f"select {', '.join(['count(*)', *counted])} from {source}"
        )[0]
        if not total:
            yield f"{table}: there is no row in it"
            continue
        for (row, condition), count in zip(rows, counts, strict=True):
            if count:
                yield _bad_row(table, row, columns, source, condition, count, engine)


def _row_checks(plan: Plan, table: str) -> list[RowCheck]:
    rows = [row for row in ROW_CHECKS[table] if row.role in plan.columns[table]]
    gains = {plan.spec.value(m, "gain") for m in plan.measures if "gain" in m.metric.options}
    if table == "labels" and "exp" in gains:
        too_large = "2^grade is too large for gain=exp"
        rows.append(_outside("grade", "{number} > 1000", too_large, "use gain=linear"))
    for gain in gains:
        if table == "labels" and isinstance(gain, Table):
            known = ", ".join(number(grade) for grade in (0, *gain))
            outside = f"has no gain in the table {dict(gain)}"
            rows.append(_outside("grade", f"{{number}} not in ({known})", outside, "add it"))
    return rows


def _condition(row: RowCheck, columns: Mapping[str, str]) -> str:
    column = identifier(columns[row.role])
    return row.condition.format(
        column=column,
        number=f"try_cast({column} as double)",
        date=f"try_cast({column} as date)",
    )


def _bad_row(
    table: str,
    row: RowCheck,
    columns: Mapping[str, str],
    source: str,
    condition: str,
    count: int,
    engine: Engine,
) -> str:
    shown = ", ".join(identifier(name) for name in columns.values())
    sql = f"select {shown} from {source} where {condition} limit {EXAMPLES}"
    name = columns[row.role]
    title = f"{table}: {name} {row.problem} in {_many(count, 'row')}"
    return _told(title, tuple(columns.values()), engine.rows(sql), row.remedy)


def _bad_groups(plan: Plan, _: Mapping[str, str], engine: Engine) -> Iterator[str]:
    for group in _group_checks(plan):
        select = print_template(f"checks/{group.template}", group.view)
        rows = engine.rows(with_stages(plan.inputs, select))
        if rows:
            title = f"{group.table}: {group.problem.format(n=f'{rows[0][0]:,}')}"
            yield _told(title, group.names, [row[1:] for row in rows], group.remedy)


def _group_checks(plan: Plan) -> Iterator[GroupCheck]:
    options = plan.spec.options
    keys, label_keys = plan.keys, plan.label_keys
    if options["duplicate_rankings"] == "error":
        yield _repeated("rankings", keys, "duplicate_rankings=best_score")
    if options["duplicate_labels"] == "error":
        yield _repeated("labels", label_keys, "duplicate_labels=max_grade")
    if "rank" in plan.columns["rankings"] and options["duplicate_rankings"] == "error":
        yield GroupCheck(
            "rankings",
            "ranks",
            (*keys, "lowest", "highest", "rows"),
            "{n} lists are not ranked 1, 2, ... n without a gap",
            "give a score instead, or renumber the ranks",
            {"keys": keys},
        )
    if options["ties"] == "error" and "score" in plan.columns["rankings"]:
        yield GroupCheck(
            "rankings",
            "ties",
            (*keys, "score", "rows"),
            "{n} groups of items of one list have equal scores",
            "choose their order: ties=id_asc, id_desc or input_order",
            {"keys": keys},
        )
    for name, column in _facts(plan):
        yield GroupCheck(
            "rankings",
            "varying",
            (*plan.query_keys, "one value", "another"),
            f"{name} varies within {{n}} queries",
            "it must belong to the query as a whole",
            {"keys": plan.query_keys, "column": column},
        )
    yield GroupCheck(
        "both tables",
        "common",
        ("query_id in rankings", "query_id in labels"),
        "no query of the rankings has a label",
        "compare the ids: type, case, spaces, leading zeros",
        {"keys": label_keys, "on": [f"labels.{k} = rankings.{k}" for k in label_keys]},
    )


def _repeated(table: str, keys: Sequence[str], policy: str) -> GroupCheck:
    return GroupCheck(
        table,
        "repeated",
        (*keys, "item_id", "rows"),
        "{n} items stand more than once under the same query",
        f"remove the repeated rows, or choose {policy}",
        {"table": table, "keys": (*keys, "item_id")},
    )


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    for name in plan.spec.by:
        yield name, segment(name)
    if "weight" in plan.columns["rankings"]:
        yield plan.columns["rankings"]["weight"], "weight"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _told(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]], remedy: str) -> str:
    """A problem as people read it: what, some rows, what to do."""
    cells = [list(names)] + [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(names))]
    table = [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
    return "\n".join([title, *table, f"  -> {remedy}"])


def _cell(value: object) -> str:
    text = "NULL" if value is None else str(value)
    text = repr(text)[1:-1] if not text.isprintable() or text != text.strip() else text
    return text if len(text) <= 24 else text[:23] + "…"


def check_kept(plan: Plan, kept: str, engine: Engine) -> None:
    """Raise InputError for what only shows once queries and labels are put together.

    Args:
        plan: The plan of the evaluation.
        kept: The table that holds `per_query`.
        engine: Where it is.

    Raises:
        InputError: If a query is missing though missing=error, or has no weight.
    """
    unranked = f"from {kept} where is_ranked = 0"
    if plan.spec.options["missing"] == "error":
        _refuse(plan, engine, unranked, "has no ranking", "choose missing=zero or missing=drop")
    if "weight" in plan.columns["rankings"]:
        nowhere = f"{unranked} and weight is null"
        remedy = "its weight is unknown: choose missing=drop, or rank it in some system"
        if plan.spec.options["missing"] != "drop":
            _refuse(plan, engine, nowhere, "is in no ranking", remedy)


def _refuse(plan: Plan, engine: Engine, rows: str, problem: str, remedy: str) -> None:
    keys = ", ".join(plan.keys)
    count = engine.rows(f"select count(*) {rows}")[0][0]
    if count:
        examples = engine.rows(f"select {keys} {rows} order by {keys} limit {EXAMPLES}")
        title = f"labels: a labelled query {problem}, {_many(count, 'time')}"
        raise InputError(_told(title, plan.keys, examples, remedy))


def notes(plan: Plan, kept: str, engine: Engine) -> list[str]:
    """Sentences about the input that are no errors, but that a reader should know."""
    unranked, total = engine.rows(
        f"select coalesce(sum(1 - is_ranked), 0), count(*) from {kept}"
    )[0]
    if unranked * 2 > total:
        return [f"{unranked:,} of {total:,} labelled queries have no ranking"]
    return []
