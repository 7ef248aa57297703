"""What a spec's tables lack, as statements: tables, columns, keys and comments."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SqlmetricsError
from sqlmetrics.jobs.meanings import TABLES, comments, meanings, said
from sqlmetrics.jobs.tables import KEPT, LONG, UNIQUE, columns, columns_of, targets
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.template import parts
from sqlmetrics.sql.translation import Translation

LONGEST = 50
"""As many letters of a table's name go into that of its index: PostgreSQL has 63."""


def create(
    at: Translation,
    table: str,
    name: str,
    columns: Mapping[str, str],
    meanings: Mapping[str, str] | None = None,
    *,
    meaning: str = "",
) -> str:
    """The statement that makes a table, unless it is there.

    Args:
        at: The dialect.
        table: Which table.
        name: What it is called.
        columns: Its columns with their types, in DuckDB's words.
        meanings: Column -> what it holds, where the dialect says it as the table is made.
        meaning: What the table itself holds, if it is one beside that.
    """
    own, told = at.dialect.comments, meanings or {}
    storage = at.dialect.by_day if "metric_date" in columns else at.dialect.storage
    about = own.behind.format(text=said(at, meaning or TABLES[table])) if own.behind else ""
    lines = [_typed(at, column, kind, told.get(column, "")) for column, kind in columns.items()]
    if at.dialect.key.inline:
        lines.append(at.dialect.key.inline.format(columns=_keys(at, table)))
    body = indent(",\n".join(lines), "    ")
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


def _keys(at: Translation, table: str) -> str:
    """The same behind commas: on one line where it fits."""
    columns = [*_key(at, table)]
    line = ", ".join(columns)
    return line if len(line) <= 60 else "\n    " + ",\n    ".join(columns) + "\n"


def key(at: Translation, table: str, name: str) -> str:
    """The statement that keeps a table to one row per key; empty where there is none."""
    *_, own = parts(name)
    index = f"{own}_key" if len(own) <= LONGEST else f"{own[:LONGEST]}_{_hash(own)}_key"
    told = {"index": at.column(index), "table": at.name(name), "columns": _keys(at, table)}
    return at.dialect.key.statement.format(**told)


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
        notes = self.make(engine)
        tried = [_tried(engine, [statement], "without the key") for statement in self.keys]
        return [*filter(None, tried), *notes]

    def make(self, engine: Database) -> list[str]:
        """Make what is needed with its comments, which a later look does not find lacking.

        Keys are left to a run's end, which tries them each time.

        Returns:
            A sentence if the comments cannot be made.

        Raises:
            EngineError: If a table or column cannot be made.
        """
        for statement in self.needed:
            engine.execute(statement)
        note = _tried(engine, self.comments, "without comments") if self.comments else ""
        return [note] if note else []


def _tried(engine: Database, statements: Sequence[str], else_: str) -> str:
    """Execute statements, all or none; a sentence if they fail, which a run survives."""
    statement = statements[0]
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
    is_first = not columns_of(named["metrics"], engine)
    for table, own in columns(spec).items():
        if table not in named:
            continue
        name, wanted = named[table], {**own, **(more or {}).get(table, {})}
        meant = {column: meanings(spec, table).get(column, "") for column in wanted}
        there = {column.casefold() for column in columns_of(name, engine)}
        if not there:
            needed.append(create(at, table, name, wanted, meant))
        lacks = {column: kind for column, kind in wanted.items() if column.casefold() not in there}
        if there:
            needed += [added(at, name, one, meant[one[0]]) for one in lacks.items()]
        if is_first or lacks:
            of = meant if is_first else {column: meant[column] for column in lacks}
            told += comments(at, table, name, of)
        if at.dialect.key.statement:
            keys.append(key(at, table, name))
    return Changes(needed, keys, told)
