"""The sources of a spec -> tables that a database can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem, remedy_for
from sqlmetrics.evaluation.checks.scores import problems_of_scores, text_scores
from sqlmetrics.evaluation.inputs.formats import read_on_days
from sqlmetrics.evaluation.inputs.lists import listed
from sqlmetrics.evaluation.inputs.paths import absent
from sqlmetrics.evaluation.inputs.run_names import check_tags, files_by_title
from sqlmetrics.evaluation.inputs.sources import relation_in, source_of
from sqlmetrics.plan.plan import with_fused
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.source import Labels, Queries, RankedLists, RankingColumns, Source
from sqlmetrics.spec.spec import Spec
from sqlmetrics.spec.zones import Zones, zone_of
from sqlmetrics.sql.relation import Relation, protect_query, source_text, typed
from sqlmetrics.sql.template import identifier, literal
from sqlmetrics.tables.table import many

READ_AS = {
    "score": "double",
    "rank": "double",
    "weight": "double",
    "grade": "double",
    "popularity": "double",
    "users": "double",
    "date": "date",
}
"""Role -> what DuckDB reads its values as, for a database that would take any text for 0."""

TOLD_APART = ("double", "exact")
"""The values of `score_precision` by which scores that differ are not equal on purpose."""

IN_THE_DATABASE = (
    "put the table into the database itself, or subtract what the scores have in common"
)
"""What helps scores that are loaded into a database as doubles, since it has no such type."""


def opened(spec: Spec, engine: Database, ends: Ends | None = None) -> Tables:
    """The tables of a spec, readable by the engine, of some days alone; None for all."""
    precision = str(spec.options["score_precision"])
    rankings = readable(spec.rankings, "rankings", engine, precision)
    trace_queries = _trace_queries(spec, rankings, engine)
    queries = spec.queries or trace_queries
    tables = Tables(
        rankings,
        _relation(spec.labels, "labels", engine) if spec.labels else rankings,
        _relation(queries, "queries", engine) if queries else None,
        _relation(spec.items, "items", engine) if spec.items and spec.needs_items else None,
        engine.translation,
        ends,
        trace_queries=trace_queries,
    )
    read = dict.fromkeys(
        relation.note for relation in (tables.rankings, tables.labels) if relation.note
    )
    left_out = rankings.note if spec.rankings.skip_bad else ""
    tables = read_on_days(replace(tables, notes=tuple(read), left_out=left_out), spec, engine)
    kinds = day_kinds(spec, tables, engine)
    _check_days(spec, tables, kinds, engine)
    as_read = {name: kind for name, kind in kinds.items() if not getattr(tables, name).loses_types}
    tables = replace(tables, zones=_zones(spec, tables, kinds), day_kinds=as_read)
    return with_fused(spec, tables)


def _trace_queries(spec: Spec, rankings: Relation, engine: Database) -> Queries | None:
    """What traces say of their queries, where it is asked for and the spec names no such table."""
    reads_queries = any(need.startswith("queries.") for need in spec.needed)
    is_asked = bool(spec.query_columns or spec.rankings.columns.weight or reads_queries)
    if spec.queries or not is_asked or not rankings.note:
        return None
    from sqlmetrics.evaluation.inputs.traces import queries_in_traces

    segments = [name for name in spec.query_columns if name not in spec.segments]
    return queries_in_traces(spec.rankings, segments, engine)


NUMBER_TYPES = (
    *("BIGINT", "BOOLEAN", "DECIMAL", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "REAL", "SMALLINT"),
    *("TINYINT", "UBIGINT", "UHUGEINT", "UINTEGER", "USMALLINT", "UTINYINT"),
)
"""DuckDB's words for the types of numbers."""


def zones_of(spec: Spec, tables: Tables, engine: Database) -> Zones:
    """Table -> the zone whose days its times have; told by the types of the columns of days.

    Raises:
        SpecError: If a zone was asked for a column whose values have none.
    """
    return _zones(spec, tables, day_kinds(spec, tables, engine))


def day_kinds(spec: Spec, tables: Tables, engine: Database) -> dict[str, str]:
    """Table -> the type of its column of days; empty if that cannot be told."""
    kinds: dict[str, str] = {}
    for table, source in _dated(spec, tables).items():
        relation: Relation | None = getattr(tables, table)
        column = getattr(source.columns, "date", None) if source else None
        if source and relation and column and not _is_loaded(source, engine):
            kind_by_column = {
                name.casefold(): kind for name, kind in _types(relation, engine).items()
            }
            kinds[table] = kind_by_column.get(column.casefold(), "")
    return kinds


def _check_days(spec: Spec, tables: Tables, kinds: Mapping[str, str], engine: Database) -> None:
    """Raise InputError for days that are numbers, like 20260131, which databases read otherwise."""
    if engine.translation.dialect.casts_texts:  # types do not bind values, so rows are looked at
        return
    sources = _dated(spec, tables)
    problems = [
        Problem(
            table,
            f"{sources[table].columns.date} is used as date, but has the type {kind}",
            1,
            remedy="make it a date, or a text like 2026-01-31, as in the sql of the source",
        )
        for table, kind in kinds.items()
        if kind.startswith(NUMBER_TYPES)
    ]
    if problems:
        raise InputError(problems)


def _zones(spec: Spec, tables: Tables, kinds: Mapping[str, str]) -> Zones:
    sources = _dated(spec, tables)
    zones = {
        table: _zone(table, str(source.columns.date), kind, source)
        for table, kind in kinds.items()
        if (source := sources[table])
    }
    return {table: zone for table, zone in zones.items() if zone}


def _dated(spec: Spec, tables: Tables) -> dict[str, Any]:
    queries = spec.queries or tables.trace_queries
    return {"rankings": spec.rankings, "labels": spec.truth, "queries": queries}


def _relation(source: Source, role: str, engine: Database, precision: str = "") -> Relation:
    if _is_loaded(source, engine):
        return _loaded(source, role, engine, precision)
    relation = relation_in(source, role, engine)
    if isinstance(source, RankedLists) and source.skip_bad and source.data is None:
        from sqlmetrics.evaluation.inputs.bad_files import sound_files

        relation = sound_files(source, relation, _opened_file)
    types = _types(relation, engine)
    if isinstance(source, RankedLists | Labels) and _may_be_traces(source, relation, types):
        relation, types = _part_of_traces(source, role, relation, types, engine)
    return listed(relation, source.columns, types, engine.translation)


def _may_be_traces(
    source: RankedLists | Labels, relation: Relation, types: Mapping[str, str]
) -> bool:
    """Whether a table lacks the column of items and that of queries, or the former is a key."""
    item = source.columns.item
    if relation.columns or not types or item.casefold() in map(str.casefold, types):
        return False
    from sqlmetrics.evaluation.inputs.traces import may_be_traces

    return may_be_traces(types) or item.partition(".")[0] in types


def _part_of_traces(
    source: RankedLists | Labels,
    role: str,
    relation: Relation,
    types: Mapping[str, str],
    engine: Database,
) -> tuple[Relation, Mapping[str, str]]:
    """What traces have of a role, and its columns; the table itself where it is no traces.

    Raises:
        InputError: If labels are wanted of traces that have no references.
    """
    from sqlmetrics.evaluation.inputs.traces import may_be_traces, trace_part

    part = trace_part(source, role, engine)
    if part is None and role == "labels" and may_be_traces(types):
        name = source.file or source.relation
        raise InputError(
            f"labels: {f'{name!r} holds' if name else 'these are'} traces without references; "
            "give the labels as the last table, or name the column of the references: "
            "label_columns={'item': ...} (--label-column item=...)"
        )
    if part is None:
        return relation, types
    name = engine.register(f"sqlmetrics_{role}_of_traces", part[0])
    read = Relation("table", name, ordered=True, note=part[1])
    return read, _types(read, engine)


def readable(
    source: RankedLists | Labels, role: str, engine: Database, precision: str = ""
) -> Relation:
    """One table, readable by the engine.

    Args:
        source: Where it is.
        role: `rankings` or `labels`.
        engine: The database.
        precision: What becomes of scores: the value of `score_precision`.

    Raises:
        InputError: If scores differ that are loaded as one number, and should not be.
    """
    relation = _relation(source, role, engine, precision)
    if isinstance(source, RankedLists):
        _check_tags(source, relation, engine)
    if isinstance(source, RankedLists) and precision in TOLD_APART and _is_loaded(source, engine):
        _check_scores(source, precision)
    return relation


def _check_tags(source: RankedLists, relation: Relation, engine: Database) -> None:
    """See that each of the files of a glob of runs is a system of its own."""
    columns = dict(relation.columns)
    if relation.folder is None or "run file" not in columns:
        return
    files = files_by_title(relation)
    if columns["system"] == columns["run file"]:
        check_tags(files)
        return
    text = source_text(protect_query(relation, engine.translation))
    try:
        rows = engine.rows(f"select distinct system, file from {text} order by system, file")
    except InputError as error:
        raise InputError(_with_file(source, relation, error)) from None
    files_of_tag: dict[str, list[str]] = {}
    for tag, title in rows:
        files_of_tag.setdefault(tag, []).extend(files.get(title, [title]))
    check_tags(files_of_tag)


def _with_file(source: RankedLists, relation: Relation, error: InputError) -> str:
    """What is wrong with a glob of runs, and in which file."""
    from sqlmetrics.evaluation.inputs.bad_files import file_at_fault

    fault = file_at_fault(source, relation, _opened_file)
    return f"rankings: {fault or f'{relation.location!r} {error}'}"


def _opened_file(source: RankedLists, reader: Database) -> tuple[RankedLists, Relation]:
    return source, _relation(source, "rankings", reader)


def _is_loaded(source: Source, engine: Database) -> bool:
    """Whether it is read by DuckDB for another database; its days are days there."""
    return bool(engine.translation.changes) and source.relation is None and source.sql is None


def _check_scores(source: RankedLists, precision: str) -> None:
    """Raise InputError if scores differ that are loaded as one number."""
    with connect() as reader:
        relation = _relation(source, "rankings", reader)
        column_by_role = source.columns.model_dump(exclude_none=True)
        columns = column_by_role | {"score": source.columns.order} | dict(relation.columns)
        if source.columns.rank is None and "rank" not in columns:
            text = source_text(relation, source.where or "")
            try:
                kinds = reader.columns(text)
            except InputError:  # a condition in the words of the other database
                text = source_text(relation)
                kinds = reader.columns(text)
            values = _types(relation, reader) if relation.loses_types else kinds
            day = _day(source, columns.get("date", ""), values)
            kind_by_column = {name.casefold(): kind for name, kind in kinds.items()}
            if precision == "exact" and kind_by_column.get(columns["score"].casefold()) == "BIGINT":
                return  # every database has these
            remedy = IN_THE_DATABASE if precision == "exact" else ""
            if score_problems := list(problems_of_scores(columns, reader, text, day, remedy)):
                raise InputError(score_problems)


def _day(source: RankedLists, column: str, kinds: Mapping[str, str]) -> str:
    """The day of a row that DuckDB reads; empty without a column of days."""
    if not column:
        return ""
    kind = {name.casefold(): kind for name, kind in kinds.items()}[column.casefold()]
    return f"try_cast({_cell('rankings', column, 'date', kind, source)} as date)"


def source_relation(source: Source, role: str, engine: Database) -> Relation:
    """The relation of a source of a click log, readable by the engine."""
    if source.data is not None:
        return Relation("table", engine.register(f"sqlmetrics_{role}", source.data), ordered=True)
    if not _is_loaded(source, engine):
        return protect_query(relation_in(source, role, engine), engine.translation)
    with connect() as reader:
        _check_exists(source, role.removeprefix("clicks_"), reader)
        relation = relation_in(source, role, reader)
        data = reader.table(f"select * from {source_text(relation)}")
    return Relation("table", engine.register(f"sqlmetrics_{role}", data), columns=relation.columns)


def opened_table(table: object, role: str, engine: Database) -> tuple[str, dict[str, str]]:
    """What stands behind FROM for a table of any columns, and these by their names in lower case.

    Args:
        table: A file, a table or data in memory, as `evaluate` takes tables.
        role: What it is called in messages.
        engine: Where it is read.

    Raises:
        InputError: If it cannot be read.
    """
    source = Queries.model_validate(source_of(table, role, engine.find))
    if source.data is None and (problem := absent(source, engine)):
        raise InputError(f"{role}: {problem}")
    text = source_text(source_relation(source, role, engine))
    return text, {name.casefold(): name for name in engine.columns(text)}


def _check_exists(source: Source, role: str, reader: Database) -> None:
    if source.data is None and (message := absent(source, reader)):
        raise InputError(f"{role}: {message}")


def _loaded(source: Source, role: str, engine: Database, precision: str) -> Relation:
    """A file, or data in memory, as DuckDB reads it: a temporary table of another database."""
    with connect() as reader:
        _check_exists(source, role, reader)
        relation = _relation(source, role, reader)
        if isinstance(source, RankedLists):
            _check_tags(source, relation, reader)
        text = source_text(relation)
        columns = _columns(relation, role, text, reader)
        types = {name.casefold(): kind for name, kind in columns.items()}
        kinds = dict(_read_as(source, relation, types, exact=precision == "exact"))
        day = (getattr(source.columns, "date", None) or "").casefold()
        if day in types and relation.loses_types:
            of_values = {name.casefold(): k for name, k in _types(relation, reader).items()}
            types[day] = of_values[day]
        cells = {n: _cell(role, n, k, types[n.casefold()], source) for n, k in kinds.items()}
        read = [f"cast({cells[n]} as {k}) as {identifier(n)}" for n, k in kinds.items()]
        replaced = f" replace ({', '.join(read)})" if read else ""
        try:
            data = reader.table(f"select *{replaced} from {text}")
        except InputError as error:
            raise InputError(
                _unreadable(relation, role, kinds, cells, reader) or error.problems
            ) from None
    name = engine.register(f"sqlmetrics_{role}", data)
    return Relation("table", name, columns=relation.columns, note=relation.note)


def _columns(relation: Relation, role: str, text: str, reader: Database) -> Mapping[str, str]:
    """The columns of a file; which file it is stands in the message if it cannot be read."""
    try:
        return reader.columns(text)
    except InputError as error:
        raise InputError(f"{role}: {relation.location!r} {error}") from None


def _unreadable(
    relation: Relation,
    role: str,
    kinds: Mapping[str, str],
    cells: Mapping[str, str],
    reader: Database,
) -> list[Problem]:
    """The columns with values that are not what they are wanted as."""
    problems, text = [], source_text(relation)
    for name, kind in kinds.items():
        column = identifier(name)
        is_wrong = f"{column} is not null and try_cast({cells[name]} as {kind}) is null"
        wrong = f"from {text} where {is_wrong}"
        count = reader.rows(f"select count(*) {wrong}")[0][0]
        if count:
            expected_kind = "date" if kind == "date" else "number"
            message = f"{name} is not a {expected_kind} in {many(count, 'row')}"
            rows = reader.rows(f"select {column} {wrong} limit {EXAMPLES}")
            texts = [row[0] for row in rows]
            remedy = remedy_for(expected_kind, texts, of_file=bool(relation.separator))
            problems.append(Problem(role, message, count, (name,), rows, remedy))
    return problems


def _cell(role: str, name: str, kind: str, column_kind: str, source: Source) -> str:
    """What is cast: a number without the _ that DuckDB overlooks, a time as its zone has it."""
    column = identifier(name)
    zone = _zone(role, name, column_kind, source) if kind == "date" else ""
    if zone:
        return f"timezone({literal(zone)}, cast({column} as timestamptz))"
    if column_kind == "VARCHAR":
        is_odd = f"contains({column}, '_')"
        return f"case when {is_odd} then {column} || ' is not a number' else {column} end"
    return column


def _zone(role: str, column: str, kind: str, source: Source) -> str:
    try:
        return zone_of(role, column, kind, getattr(source, "time_zone", None))
    except ValueError as error:
        raise SpecError(str(error)) from None


def _read_as(
    source: Source, relation: Relation, types: Mapping[str, str], *, exact: bool
) -> Iterator[tuple[str, str]]:
    """The columns that must not be texts, and what they are read as.

    Raises:
        InputError: If scores shall be exact, and are texts.
    """
    columns, fixed = source.columns, dict(relation.columns)
    column_by_role = {role: getattr(columns, role, None) for role in READ_AS}
    if isinstance(columns, RankingColumns):
        column_by_role["rank" if columns.rank else "score"] = columns.order
    if getattr(source, "grades", {}):
        del column_by_role["grade"]
    for role, name in column_by_role.items():
        column = fixed.get(role, name)
        if not column or column.casefold() not in types:
            continue
        if not (exact and role == "score"):
            yield column, READ_AS[role]
        elif of_text := list(text_scores(column, types[column.casefold()])):
            raise InputError(of_text)


def _types(relation: Relation, engine: Database) -> Mapping[str, str]:
    """The types of a table's columns; none if it cannot be read, which the checks tell."""
    try:
        return engine.columns(source_text(protect_query(typed(relation), engine.translation)))
    except InputError:
        return {}
