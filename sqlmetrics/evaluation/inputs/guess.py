"""Columns that go by another usual name: taken for their roles where the usual one is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.inputs.lists import holds_hits, listed
from sqlmetrics.evaluation.inputs.names import NAMES, USUAL, plain
from sqlmetrics.evaluation.inputs.open import readable
from sqlmetrics.plan.shape import GROUPS
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.source import LabelColumns, Labels, RankedLists, RankingColumns
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, protect_query, source_text, typed
from sqlmetrics.sql.template import identifier

Table = TypeVar("Table", RankedLists, Labels)


def guess(spec: Spec, tables: Tables, engine: Database) -> tuple[Spec, Tables]:
    """The spec with columns by the names that its tables have, where one alone can be meant.

    A role is guessed only if its usual name was asked for and is not there. What was taken for
    what stands in the notes of `tables`.

    Args:
        spec: What is asked.
        tables: Its tables.
        engine: Where they are.
    """
    for table in ("rankings", "labels"):
        source = getattr(spec, table)
        if source is None:
            continue
        source, relation, note = guessed(table, source, getattr(tables, table), engine)
        relation, id_note = with_whole_ids(table, source, relation, engine)
        relation, graded = _with_grade(source, relation, engine)
        if note or id_note or graded:
            spec = spec.having(**{table: source})
            tables = replace(tables, notes=(*tables.notes, *filter(None, (note, id_note, graded))))
            is_first = table == "rankings"
            tables = (
                replace(tables, rankings=relation) if is_first else replace(tables, labels=relation)
            )
    return _with_groups(spec, tables, engine)


def _with_grade(
    source: RankedLists | Labels, relation: Relation, engine: Database
) -> tuple[Relation, str]:
    """Labels of ids alone, as sets of relevant items are kept, with grade 1; and the note.

    Another column may be the grade by a name that nobody knows: then nothing is added.
    """
    if not isinstance(source, Labels) or relation.columns or relation.lists:
        return relation, ""
    columns = source.columns
    if columns.grade != USUAL["grade"] or source.grades:
        return relation, ""
    try:
        existing = engine.columns(source_text(protect_query(typed(relation), engine.translation)))
    except InputError:  # which the checks tell
        return relation, ""
    ids = {columns.query, columns.item, columns.group, columns.date} - {None}
    if not {name.casefold() for name in existing} <= {str(name).casefold() for name in ids}:
        return relation, ""
    note = "labels: they have no column of grades, so each counts as grade 1"
    return replace(relation, added=(*relation.added, ("1", identifier(columns.grade)))), note


def _with_groups(spec: Spec, tables: Tables, engine: Database) -> tuple[Spec, Tables]:
    """The spec with the labels' column of groups, where a metric needs one and it is not named."""
    labels = spec.labels
    if labels is None or labels.columns.group is not None or GROUPS not in spec.needed:
        return spec, tables
    if (field := dict(tables.labels.columns).get("group")) is not None:
        note = f"labels: using the {field} of the qrels, their second field, as the group"
        return spec, replace(tables, notes=(*tables.notes, note))
    fits = group_columns(labels, tables.labels, engine)
    if len(fits) != 1:
        return spec, tables
    columns = labels.columns.model_copy(update={"group": fits[0]})
    note = f"labels: using {fits[0]} as the group; override with --group (group= in Python)"
    spec = spec.having(labels=labels.model_copy(update={"columns": columns}))
    return spec, replace(tables, notes=(*tables.notes, note))


def group_columns(labels: Labels, relation: Relation, engine: Database) -> list[str]:
    """The columns of labels that may be their group, where none was named; the usual one first.

    Args:
        labels: Their columns as they were asked for.
        relation: How they are read.
        engine: Where they are.
    """
    if (field := dict(relation.columns).get("group")) is not None:
        return [field]
    try:
        existing = engine.columns(source_text(protect_query(typed(relation), engine.translation)))
    except InputError:  # which the checks tell
        return []
    used_names = {str(name).casefold() for _, name in labels.columns if name}
    return _of("group", {plain(name): name for name in existing}, used_names)


def guess_files(spec: Spec, engine: Database) -> tuple[Spec, tuple[str, ...]]:
    """The same of files that another database gets a copy of; the spec, and what was taken."""
    notes = []
    for table in ("rankings", "labels"):
        if (source := getattr(spec, table)) is not None:
            source, note = guessed_file(table, source, engine)
            spec = spec.having(**{table: source}) if note else spec
            notes += [note] if note else []
    return spec, tuple(notes)


def guessed(
    table: str, source: Table, relation: Relation, engine: Database
) -> tuple[Table, Relation, str]:
    """The same of one table: where it is, how it is read, and the note; empty if none was guessed.

    Args:
        table: `rankings` or `labels`.
        source: Where it is, and its columns as they were asked for.
        relation: How it is read.
        engine: Where it is.
    """
    if relation.columns and not relation.lists:  # a format's own names
        return source, relation, ""
    try:
        existing = engine.columns(source_text(protect_query(typed(relation), engine.translation)))
    except InputError:  # which the checks tell
        return source, relation, ""
    column_by_role = dict(_alternative_columns(source.columns, existing))
    if relation.lists or existing.get(column_by_role.get("item", ""), "").endswith(
        "[]"
    ):  # in an order
        column_by_role = {
            role: name for role, name in column_by_role.items() if role in ("query", "item")
        }
    if not column_by_role:
        return source, relation, ""
    unranked = {"score": None} if "rank" in column_by_role else {}
    columns = source.columns.model_copy(update=column_by_role | unranked)
    if not relation.lists:
        relation = listed(relation, columns, existing, engine.translation)
    choices = " and ".join(f"{name} as the {role}" for role, name in column_by_role.items())
    options = ", ".join(f"--{role}" for role in column_by_role)
    arguments = ", ".join(f"{role}=" for role in column_by_role)
    note = f"{table}: using {choices}; override with {options} ({arguments} in Python)"
    return source.model_copy(update={"columns": columns}), relation, note


def guessed_file(table: str, source: Table, engine: Database) -> tuple[Table, str]:
    """The same of a file that another database than DuckDB gets a copy of: before it is made.

    Args:
        table: `rankings` or `labels`.
        source: Where it is, and its columns as they were asked for.
        engine: The database.
    """
    note = ""
    if engine.translation.changes and source.file is not None:
        with suppress(InputError), connect() as reader:
            relation = readable(source, table, reader)
            source, _, note = guessed(table, source, relation, reader)
    return source, note


def with_whole_ids(
    table: str, source: RankedLists | Labels, relation: Relation, engine: Database
) -> tuple[Relation, str]:
    """The table with ids like 12.0 as 12, as pandas keeps them beside a NaN; and the note.

    Only in DuckDB, and only where every id of a column is whole; others are refused later.

    Args:
        table: `rankings` or `labels`.
        source: Its columns.
        relation: Where it is.
        engine: Where that is.
    """
    if engine.translation.changes or relation.texts or relation.columns or relation.lists:
        return relation, ""
    text = source_text(relation)
    try:
        kinds = {name.casefold(): kind for name, kind in engine.columns(text).items()}
    except InputError:  # which the checks tell
        return relation, ""
    ids = [
        name
        for name in (source.columns.query, source.columns.item)
        if kinds.get(name.casefold()) in ("DOUBLE", "FLOAT")
    ]
    if not ids:
        return relation, ""
    broken = " or ".join(
        f"{name} <> floor({name}) or abs({name}) >= 9007199254740992"
        for name in map(identifier, ids)
    )
    if engine.rows(f"select 1 as row_exists\nfrom {text}\nwhere {broken}\nlimit 1"):
        return relation, ""
    has, is_read = ("have", "are") if len(ids) > 1 else ("has", "is")
    message = f"{' and '.join(ids)} {has} only whole numbers as floats"
    note = f"{table}: {message}, which {is_read} read as whole numbers"
    return replace(relation, whole_numbers=tuple(ids)), note


def _alternative_columns(
    columns: RankingColumns | LabelColumns, existing: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Role -> the one column that goes by one of its other names."""
    column_by_name = {plain(name): name for name in existing}
    folded = {name.casefold() for name in existing}
    used_names = {str(name).casefold() for _, name in columns if name}
    for role, usual in USUAL.items():
        if getattr(columns, role, None) != usual or usual in folded:
            continue
        for candidate in (role, "rank") if role == "score" else (role,):
            fits = _of(candidate, column_by_name, used_names)
            if len(fits) == 1:
                used_names.add(fits[0].casefold())  # no column has two roles
                yield candidate, fits[0]
            if fits:
                break
        if role == "item" and not fits:
            hits = [
                name for name, kind in existing.items() if holds_hits(kind) or kind.endswith("[]")
            ]
            yield from (("item", name) for name in hits if len(hits) == 1)


def _of(role: str, column_by_name: Mapping[str, str], used_names: set[str]) -> list[str]:
    names = [column_by_name[name] for name in NAMES[role].split() if name in column_by_name]
    free = [name for name in names if name.casefold() not in used_names]
    return free[:1] if role == "grade" else free
