"""The tables that a job writes: their columns, and how each dialect makes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError, SqlmetricsError
from sqlmetrics.jobs.meanings import TABLES, comments, meanings, said
from sqlmetrics.plan.moments import COUNTS, OWN, PAIRED
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts, relation
from sqlmetrics.sql.translation import Translation

FACTS: Mapping[str, str] = {
    "spec": "varchar not null",
    "metric_date": "date not null",
    "system": "varchar not null",
    "segment_name": "varchar not null",
    "segment_value": "varchar not null",
    "metric": "varchar not null",
    "k": "integer not null",
    "value": "double",
    "numerator": "double",
    "denominator": "double",
    "n_queries": "bigint not null",
    "n_skipped": "bigint not null",
    "n_missing": "bigint not null",
    "sum_sq": "double",
    "ci_low": "double",
    "ci_high": "double",
    "definition_hash": "varchar not null",
    "run_id": "varchar not null",
    "computed_at": "timestamp not null",
    "ci_method": "varchar",
    **{name: "bigint" if name in COUNTS else "double" for name in OWN},
}
"""The fact table: one row per spec, day, system, segment, metric and cutoff."""

BASELINE: Mapping[str, str] = {
    "baseline": "varchar",
    **{name: "bigint" if name in COUNTS else "double" for name in PAIRED},
    **dict.fromkeys(("difference", "difference_low", "difference_high"), "double"),
}
"""What it has besides where a spec names a baseline."""

PER_QUERY: Mapping[str, str] = {
    "spec": "varchar not null",
    "metric_date": "date not null",
    "system": "varchar not null",
    "query_id": "varchar not null",
}
"""The per-query table, before its metrics: one row per spec, day, system and query."""

RUNS: Mapping[str, str] = {
    "run_id": "varchar not null",
    "spec": "varchar not null",
    "started_at": "timestamp not null",
    "seconds": "double",
    "range_start": "date",
    "range_end": "date",
    "facts": "bigint",
    "per_query": "bigint",
    "engine": "varchar",
    "version": "varchar",
    "outcome": "varchar not null",
    "message": "varchar",
}
"""The run log: one row per run, also of those that failed."""

METRICS: Mapping[str, str] = {
    "metric": "varchar not null",
    "k": "integer not null",
    "name": "varchar not null",
    "column_name": "varchar not null",
    "label": "varchar not null",
    "meaning": "varchar not null",
    "range_low": "double",
    "range_high": "double",
    "direction": "varchar not null",
    "additive": "integer not null",
    "roll_up": "varchar not null",
    "unit": "varchar",
}
"""The table of metrics: one row per metric and cutoff."""

DEFINITIONS: Mapping[str, str] = {
    "definition_hash": "varchar not null",
    "metric": "varchar not null",
    "k": "integer not null",
    "conventions": "text not null",
    "first_seen": "timestamp not null",
}
"""The table of definitions: one row per definition of a metric."""

KEPT = {
    "facts": FACTS,
    "per_query": PER_QUERY,
    "runs": RUNS,
    "metrics": METRICS,
    "definitions": DEFINITIONS,
}
"""Table -> the columns that it has in any case."""

FIRST = {"per_query": PER_QUERY, "facts": [*FACTS][: [*FACTS].index("ci_method")]}
"""Table -> the columns with which it began; a table that is there may lack the others."""

KEYS = {
    "facts": "relation",
    "per_query": "per_query",
    "runs": "runs",
    "metrics": "relation",
    "definitions": "relation",
}
"""Table -> its key in the `output` of a spec; the last two are named after the fact table."""

COUNTED = ("facts", "per_query")
"""The tables whose rows are of days."""

UNIQUE: Mapping[str, Sequence[str]] = {
    "facts": [*FACTS][: [*FACTS].index("value")],
    "per_query": [*PER_QUERY],
    "runs": ["spec", "run_id", "started_at", "outcome"],
    "metrics": ["metric", "k"],
    "definitions": ["definition_hash", "metric", "k"],
}
"""Table -> the columns of which no two rows have the same. A run whose views fail after its rows
are written is in the log twice, with two outcomes."""

LONG = ("query_id",)
"""Columns of them that hold texts of any length."""


def targets(spec: Spec) -> dict[str, str]:
    """What a spec writes to: `facts`, `runs`, `metrics`, `definitions`; `per_query` if asked for.

    Raises:
        SpecError: If the spec has no output, its name cannot be a key, or two tables have one
            name.
    """
    if not spec.title.isprintable():
        raise SpecError(f"a job's name is one line of printable characters, given {spec.title!r}")
    output = spec.output
    if output is None:
        raise SpecError("the spec has no output; add: output: {relation: ranking_metrics}")
    per_query = {"per_query": output.per_query} if output.per_query and spec.metrics else {}
    named = {"facts": output.relation, **per_query, "runs": output.runs or output.named("runs")}
    named |= {table: output.named(table) for table in ("metrics", "definitions")}
    if len({name.casefold() for name in named.values()}) < len(named):
        given = ", ".join(f"{KEYS[table]}: {name}" for table, name in named.items())
        raise SpecError(f"each table of the output needs a name of its own; given {given}")
    return named


def check_own(spec: Spec, engine: Database) -> None:
    """Whether the tables that are there are those of runs, and others can be made.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.

    Raises:
        SpecError: If one is somebody else's: a run would add columns and rows to it; or if there
            is no schema for it.
    """
    problems: list[str] = []
    for table, name in targets(spec).items():
        if engine.find(name) is None:
            problems += _without_schema(table, name, engine)
            continue
        there = {column.casefold() for column in engine.columns(relation(name))}
        keys = (column for column, kind in KEPT[table].items() if kind.endswith(" not null"))
        if lacks := [column for column in keys if column not in there]:
            problems.append(
                f"output.{KEYS[table]}: {name!r} is there already and was not made by a run: it "
                f"has no column {lacks[0]}; give another name"
            )
    if problems:
        raise SpecError(problems)


def _without_schema(table: str, name: str, engine: Database) -> Iterator[str]:
    """A table whose schema is not there, where the database lists them."""
    *schema, _ = parts(name)
    if not schema:
        return
    with suppress(SqlmetricsError):
        rows = engine.rows("select catalog_name, schema_name from information_schema.schemata")
        known = {str(one).casefold() for row in rows for one in row}
        if schema[-1].casefold() not in known:
            yield (
                f"output.{KEYS[table]}: there is no schema {schema[-1]!r} for {name!r}; create "
                "it, or leave it out"
            )


def columns(spec: Spec) -> dict[str, Mapping[str, str]]:
    """Table -> its columns with their types, in DuckDB's words."""
    metrics = {one.column: "double" for one in spec.measures if not one.metric.pooled}
    paired = BASELINE if has_baseline(spec) else {}
    return {**KEPT, "facts": {**FACTS, **paired}, "per_query": {**PER_QUERY, **metrics}}


def has_baseline(spec: Spec) -> bool:
    """Whether rows stand beside a baseline's; a request of a click log has one system alone."""
    return spec.baseline is not None and spec.clicks is None


def create(
    at: Translation,
    table: str,
    name: str,
    columns: Mapping[str, str],
    meanings: Mapping[str, str] | None = None,
) -> str:
    """The statement that makes a table, unless it is there.

    Args:
        at: The dialect.
        table: Which table.
        name: What it is called.
        columns: Its columns with their types, in DuckDB's words.
        meanings: Column -> what it holds, where the dialect says it as the table is made.
    """
    own, told = at.dialect.comments, meanings or {}
    storage = at.dialect.by_day if "metric_date" in columns else at.dialect.storage
    about = own.behind.format(text=said(at, TABLES[table])) if own.behind else ""
    lines = [_typed(at, column, kind, told.get(column, "")) for column, kind in columns.items()]
    if at.dialect.key.inline:
        lines.append(at.dialect.key.inline.format(columns=", ".join(_key(at, table))))
    body = ",\n".join(f"    {line}" for line in lines)
    end = "".join(f"\n{one}" for one in (storage, about) if one)
    return f"create table if not exists {at.name(name)} (\n{body}\n){end}"


def _typed(at: Translation, column: str, kind: str, meaning: str) -> str:
    inline = at.dialect.comments.inline
    told = inline.format(text=said(at, meaning)) if inline and meaning else ""
    return f"{at.column(column)} {at.type(kind)}{told}"


def _key(at: Translation, table: str) -> Iterator[str]:
    """The columns of a table's key, as they stand in it."""
    for column in UNIQUE[table]:
        kind, own = KEPT[table][column], at.dialect.key
        of_text = own.long if column in LONG else own.text
        template = of_text if kind.startswith("varchar") else "{column}"
        yield template.format(column=at.column(column))


def key(at: Translation, table: str, name: str) -> str:
    """The statement that keeps a table to one row per key; empty where there is none."""
    *_, own = parts(name)
    index = f"{own}_key" if len(own) <= LONGEST else f"{own[:LONGEST]}_{_hash(own)}_key"
    columns = ", ".join(_key(at, table))
    told = {"index": at.column(index), "table": at.name(name), "columns": columns}
    return at.dialect.key.statement.format(**told)


LONGEST = 50
"""As many letters of a table's name go into that of its index: PostgreSQL has 63."""


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:6]


def added(
    at: Translation, name: str, column: tuple[str, str], meaning: str = "", unless: str = ""
) -> str:
    """The statement that gives a table a column more, with its type, which old rows have not."""
    typed = _typed(at, column[0], column[1].removesuffix(" not null"), meaning)
    return at.dialect.writing.add_column.format(table=at.name(name), unless=unless, column=typed)


@dataclass(frozen=True)
class Changes:
    """What a spec's tables lack, as statements.

    Attributes:
        needed: Without them no row can be written: tables and columns.
        keys: What keeps tables to one row per key; a run does without them.
        comments: Likewise.
    """

    needed: Sequence[str]
    keys: Sequence[str]
    comments: Sequence[str]

    def carry_out(self, engine: Database) -> list[str]:
        """Execute them.

        Returns:
            A sentence for each key that cannot be made, and for comments: of an old table that
            holds rows twice, say, or is somebody else's.

        Raises:
            EngineError: If a table or column cannot be made.
        """
        for statement in self.needed:
            engine.execute(statement)
        notes = [_tried(engine, [statement], "without the key") for statement in self.keys]
        if self.comments:
            notes.append(_tried(engine, self.comments, "without comments"))
        return list(filter(None, notes))


def _tried(engine: Database, statements: Sequence[str], else_: str) -> str:
    """Execute statements, all or none; a sentence if they fail, which a run survives."""
    try:
        with engine.transaction():
            for statement in statements:
                engine.execute(statement)
    except SqlmetricsError as error:
        return f"the tables do {else_}, because `{statement}` fails: {error}"
    return ""


def changes(
    spec: Spec, engine: Database, more: Mapping[str, Mapping[str, str]] | None = None
) -> Changes:
    """The tables and columns that a spec lacks, their keys and comments.

    Comments are made with what they are of. Tables of a version that made none get them all.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.
        more: Table -> columns that it shall have beside those of the spec.
    """
    at, named = engine.translation, targets(spec)
    needed, keys, told = list[str](), list[str](), list[str]()
    is_first = engine.find(named["metrics"]) is None
    for table, own in columns(spec).items():
        if table not in named:
            continue
        name, wanted = named[table], {**own, **(more or {}).get(table, {})}
        meant = {column: meanings(spec, table).get(column, "") for column in wanted}
        there: set[str] = set()
        if engine.find(name) is None:
            needed.append(create(at, table, name, wanted, meant))
        else:
            there = {column.casefold() for column in engine.columns(relation(name))}
        lacks = {column: kind for column, kind in wanted.items() if column.casefold() not in there}
        if there:
            needed += [added(at, name, one, meant[one[0]]) for one in lacks.items()]
        if is_first or lacks:
            of = meant if is_first else {column: meant[column] for column in lacks}
            told += comments(at, table, name, of)
        if at.dialect.key.statement:
            keys.append(key(at, table, name))
    return Changes(needed, keys, told)
