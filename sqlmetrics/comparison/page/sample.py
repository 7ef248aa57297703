"""A sample of the queries, the same each time, as tables that last as long as a block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlmetrics.comparison.statements import Statements, columns_stage, sums_stage
from sqlmetrics.engines.database import Database
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.plan.segments import Segments
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Column
from sqlmetrics.sql.template import identifier, literal

LISTS = 20_000
"""Of about so many lists at the most is what is looked at again and again."""

LEAST = 50
"""So many queries have a part in it at the least."""


@dataclass(frozen=True)
class Sample:
    """Which queries are looked at.

    Attributes:
        n_queries: How many.
        ids: Their ids as texts; none if it is all of them.
    """

    n_queries: int
    ids: tuple[str, ...] = ()


def draw_sample(statements: Statements) -> Sample:
    """All queries, or the first ones by the hash of their ids.

    Args:
        statements: The statements of a comparison, while the values of queries are kept.
    """
    translation = statements.engine.translation
    stages = [*statements.script.stages]
    n_lists = int(statements.apart(stages, "select count(*) as n\nfrom per_query")[0]["n"])
    if n_lists <= LISTS:
        distinct = "select count(distinct query_id) as n\nfrom per_query"
        return Sample(int(statements.apart(stages, distinct)[0]["n"]))
    # one look at the queries: how many there are says how many of them are drawn
    of_query = sums_stage("ids", "one row per query", ["query_id"], [], "per_query")
    total = columns_stage("total", "all queries", [Column("count(*)", "n_queries")], "ids")
    hashed = translation.expression(translation.dialect.hashed, "cast(query_id as varchar)")
    first = (
        "select\n    cast(query_id as varchar) as query_id,\n    n_queries\n"
        f"from ids\ncross join total\norder by {hashed} asc\nlimit {LISTS}"
    )
    rows = statements.apart([*stages, of_query, total], first)
    most = max(LEAST, int(rows[0]["n_queries"]) * LISTS // n_lists)
    ids = tuple(str(row["query_id"]) for row in rows[:most])
    return Sample(len(ids), ids)


@contextmanager
def keep_sample(spec: Spec, sample: Sample, engine: Database) -> Iterator[Spec]:
    """The spec on the sample alone, while its tables are there.

    Args:
        spec: What is asked.
        sample: Which queries.
        engine: Where the tables are.
    """
    if not sample.ids:
        yield spec
        return
    tables = opened(spec, engine)
    with ExitStack() as stack:
        changed: dict[str, Any] = {}
        for table in ("rankings", "labels"):
            if getattr(spec, table) is not None:
                name = engine.free_name(f"sqlmetrics_{table}")
                keep = _part(spec, tables, table, sample.ids, engine)
                dialect = engine.translation.dialect
                stack.enter_context(
                    engine.made(f"{dialect.keep} {name} as\n{keep}", f"{dialect.drop} {name}")
                )
                changed[table] = _moved(getattr(spec, table), name)
        if spec.rankings.fuse:
            names = {*Segments(spec).of("rankings")}
            changed["segments"] = {
                name: f"{segment(name)} = 'true'" if name in names else text
                for name, text in spec.segments.items()
            }
        yield spec.having(**changed)


def _part(spec: Spec, tables: Tables, table: str, ids: Sequence[str], engine: Database) -> str:
    """The rows of some queries of a table."""
    source = getattr(spec, table)
    condition = engine.translation.condition(tables.condition(table, source))
    source_sql = source_text(tables.shown(getattr(tables, table)), condition)
    names = ", ".join(map(literal, ids))
    column = f"cast({identifier(source.columns.query)} as varchar)"
    return f"select *\nfrom {source_sql}\nwhere {column} in ({names})"


def _moved(source: Any, name: str) -> Any:
    """The source, whose rows are now in another table."""
    location = {"relation": name, "file": None, "sql": None, "data": None, "where": None}
    update: dict[str, Any] = {
        key: value for key, value in location.items() if key in type(source).model_fields
    }
    if getattr(source, "fuse", ()):  # whose rows they are already, with days in place of times
        update |= {"fuse": (), "fused_only": False, "time_zone": None}
    return source.model_copy(update=update)


def _named(roles: Sequence[str], columns: Any, relation: Relation) -> str:
    """The columns of some roles, where lists or a format have others by the names of a spec."""
    name_by_role = {role: getattr(columns, role) for role in roles}
    column_by_role = name_by_role | {
        role: name for role, name in relation.columns if role in name_by_role
    }
    return ", ".join(
        identifier(name)
        if name == name_by_role[role]
        else f"{identifier(name)} as {identifier(name_by_role[role])}"
        for role, name in column_by_role.items()
    )


@contextmanager
def all_labelled(spec: Spec, engine: Database) -> Iterator[Spec | None]:
    """The spec with the highest grade for all that has no label, while its table is there.

    Args:
        spec: What is asked.
        engine: Where the tables are.

    Yields:
        The spec; None where labels are texts, hold of some days alone, or no table can be made.
    """
    dialect, source = engine.translation.dialect, spec.labels
    if source is None or not dialect.keep or source.grades or source.columns.date or source.lists:
        yield None
        return
    label_columns, tables = source.columns, opened(spec, engine)
    sql_by_table = {
        table: source_text(
            tables.shown(getattr(tables, table)),
            engine.translation.condition(tables.condition(table, getattr(spec, table))),
        )
        for table in ("rankings", "labels")
    }
    columns = spec.rankings.columns
    ids = _named(("query", "item"), columns, tables.rankings)
    labelled = _named(("query", "item", "grade"), label_columns, tables.labels)
    query, item = (identifier(getattr(columns, role)) for role in ("query", "item"))
    names = [identifier(getattr(label_columns, role)) for role in ("query", "item", "grade")]
    keep = (
        f"with\n\nlabelled as (\n    select {labelled}\n    from {sql_by_table['labels']}\n),\n\n"
        f"shown_items as (\n    select distinct {ids}\n    from {sql_by_table['rankings']}\n)\n\n"
        "select *\nfrom labelled\nunion all\n"
        f"select shown_items.{query}, shown_items.{item}, best.highest\nfrom shown_items\n"
        f"inner join (select distinct {names[0]} from labelled) as queries\n"
        f"    on queries.{names[0]} = shown_items.{query}\n"
        f"cross join (select max({names[2]}) as highest from labelled) as best\n"
        f"left join labelled\n    on labelled.{names[0]} = shown_items.{query}\n"
        f"        and labelled.{names[1]} = shown_items.{item}\n"
        f"where labelled.{names[0]} is null"
    )
    name = engine.free_name("sqlmetrics_all_labelled")
    with engine.made(f"{dialect.keep} {name} as\n{keep}", f"{dialect.drop} {name}"):
        yield spec.having(labels=_moved(source, name))
