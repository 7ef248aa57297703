"""What a spec's tables lack, as statements: tables, columns, keys and comments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import indent

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.jobs.schema import (
    FOR_NONE,
    LONG,
    TABLES,
    Columns,
    TableColumn,
    columns_for,
    columns_of,
    targets,
)
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import literal, parts
from sqlmetrics.sql.translation import Translation

LONGEST = 50
"""As many letters of a table's name go into that of its index: PostgreSQL has 63."""


def create(
    translation: Translation,
    table: str,
    name: str,
    columns: Collection[TableColumn],
    meaning: str = "",
    *,
    stored: Callable[[str], str] = str,
) -> str:
    """The statement that makes a table, unless it is there.

    Args:
        translation: The dialect.
        table: Which table.
        name: What it is called.
        columns: Its columns.
        meaning: What the table itself holds, if it is one beside that.
        stored: Gives the connection's own words on storage for those of the dialect.
    """
    syntax = translation.dialect.comments
    has_days = any(column.name == "metric_date" for column in columns)
    storage = stored(translation.dialect.by_day if has_days else translation.dialect.storage)
    about = (
        syntax.behind.format(text=quote_text(translation, meaning or TABLES[table].meaning))
        if syntax.behind
        else ""
    )
    lines = [_noted(translation, column) for column in columns]
    if translation.dialect.key.inline:
        lines.append(translation.dialect.key.inline.format(columns=_keys(translation, table)))
    body = indent(",\n".join(lines), "    ")
    end = "".join(f"\n{clause}" for clause in (storage, about) if clause)
    return f"create table if not exists {translation.name(name)} (\n{body}\n){end}"


def _noted(translation: Translation, column: TableColumn) -> str:
    """A column of a statement; a line before it says what stands for none."""
    line = _typed(translation, column)
    says_it = translation.dialect.comments.inline or column.name not in FOR_NONE
    return line if says_it else f"-- {FOR_NONE[column.name]}\n{line}"


def _typed(translation: Translation, column: TableColumn) -> str:
    inline = translation.dialect.comments.inline if column.meaning else ""
    comment = inline.format(text=quote_text(translation, column.meaning)) if inline else ""
    return f"{translation.column(column.name)} {translation.type(column.kind)}{comment}"


def _key(translation: Translation, table: str) -> Iterator[str]:
    """The columns of a table's key, as they stand in it."""
    key_syntax = translation.dialect.key
    for column in TABLES[table].key:
        of_text = key_syntax.long if column in LONG else key_syntax.text
        is_text = TABLES[table].columns[column].type == "varchar"
        template = of_text if is_text else "{column}"
        yield template.format(column=translation.column(column))


def _keys(translation: Translation, table: str) -> str:
    """The same behind commas: on one line where it fits."""
    columns = [*_key(translation, table)]
    line = ", ".join(columns)
    return line if len(line) <= 60 else "\n    " + ",\n    ".join(columns) + "\n"


def key(translation: Translation, table: str, name: str) -> str:
    """The statement that keeps a table to one row per key; empty where there is none."""
    *_, table_name = parts(name)
    index = (
        f"{table_name}_key"
        if len(table_name) <= LONGEST
        else f"{table_name[:LONGEST]}_{_hash(table_name)}_key"
    )
    placeholders = {
        "index": translation.column(index),
        "table": translation.name(name),
        "columns": _keys(translation, table),
    }
    return translation.dialect.key.statement.format(**placeholders)


def _hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:6]


def added(translation: Translation, name: str, column: TableColumn, unless: str = "") -> str:
    """The statement that gives a table a column more, with its type, which old rows have not."""
    typed = _typed(translation, replace(column, kind=column.type))
    return translation.dialect.writing.add_column.format(
        table=translation.name(name), unless=unless, column=typed
    )


def comments(
    translation: Translation,
    table: str,
    name: str,
    columns: Iterable[TableColumn],
    about: str = "",
) -> Iterator[str]:
    """The statements that say in the database what a table and its columns are.

    Args:
        translation: The dialect; one that says it as a table is made, or not at all, has none.
        table: Which table.
        name: What it is called.
        columns: Its columns.
        about: What the table itself holds, if it is one beside that.
    """
    syntax = translation.dialect.comments
    if syntax.statement:
        table_comment = quote_text(translation, about or TABLES[table].meaning)
        yield syntax.statement.format(kind="table", name=translation.name(name), text=table_comment)
    for column in columns:
        if syntax.column and column.meaning:
            fields = {"name": translation.name(name), "column": translation.column(column.name)}
            yield syntax.column.format(**fields, text=quote_text(translation, column.meaning))


def quote_text(translation: Translation, text: str) -> str:
    """A text as the dialect writes it."""
    return translation.value(literal(text))


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
            holds rows twice, say, or is somebody else's. Without keys each is tried by itself.

        Raises:
            EngineError: If a table or column cannot be made.
        """
        notes = self.make(engine)
        if _tried(engine, self.keys, "without keys"):
            notes += [_tried(engine, [statement], "without the key") for statement in self.keys]
        return [*filter(None, notes)]

    def make(self, engine: Database) -> list[str]:
        """Make what is needed with its comments, which a later look does not find lacking.

        Keys are left to a run's end, which tries them each time.

        Returns:
            A sentence if the comments cannot be made.

        Raises:
            EngineError: If a table or column cannot be made.
        """
        engine.execute_all(self.needed)
        note = _tried(engine, self.comments, "without comments")
        return [note] if note else []


def _tried(engine: Database, statements: Sequence[str], else_: str) -> str:
    """Execute statements, all or none; a sentence if they fail, which a run survives."""
    if not statements:
        return ""
    try:
        if len(statements) > 1:
            engine.execute_together(statements)
        else:
            engine.execute_all(statements)
    except SqlmetricsError as error:
        if len(statements) > 1:
            return f"the tables are {else_}: {error}"
        return f"the tables are {else_}, because `{statements[0]}` fails: {error}"
    return ""


def changes(
    spec: Spec, engine: Database, extra_columns: Mapping[str, Columns] | None = None
) -> Changes:
    """The tables and columns that a spec lacks, their keys and comments.

    Comments are made with what they are of.

    Args:
        spec: What is asked, with its `output`.
        engine: Where the tables are.
        extra_columns: Table -> columns that it shall have beside those of the spec.
    """
    translation, name_by_table = engine.translation, targets(spec)
    required, keys, comment_statements = list[str](), list[str](), list[str]()
    engine.look_up(name_by_table.values())
    for table, spec_columns in columns_for(spec).items():
        if table not in name_by_table:
            continue
        name = name_by_table[table]
        wanted = {**spec_columns, **(extra_columns or {}).get(table, {})}
        existing = {column.casefold() for column in columns_of(name, engine)}
        lacks = [column for column in wanted.values() if column.name.casefold() not in existing]
        if not existing:
            required.append(
                create(translation, table, name, wanted.values(), stored=engine.driver.stored)
            )
        else:
            required += [added(translation, name, column) for column in lacks]
        if lacks:
            comment_statements += comments(translation, table, name, lacks)
        if translation.dialect.key.statement:
            keys.append(key(translation, table, name))
    return Changes(required, keys, comment_statements)
