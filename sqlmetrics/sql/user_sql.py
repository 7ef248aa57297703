"""The user's own SQL: one query or one condition, in the grammar of the database that runs it.

A spec may be read before anybody knows the database. What any grammar reads as one query or one
condition is taken then; `Translation` asks the grammar of the database itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from sqlmetrics.errors import SpecError
from sqlmetrics.sql.dialects import DIALECTS, DUCKDB
from sqlmetrics.sql.template import identifier, parts

logging.getLogger("sqlglot").addHandler(logging.NullHandler())
"""What it warns of is asked of each database anyway; without a handler it would go to stderr."""

_ALIAS = re.compile(r"""\s+AS\s+("(?:[^"]|"")*"|\w+)$""", re.IGNORECASE)
_COMPARISON = re.compile(
    r"\s*([a-z_]\w*) *(?:[<>!]?=|<>|<|>) *(?:-?\d+(?:\.\d+)?|'[^'\\]*')\s*", re.ASCII
)

ADDRESS_SECRETS = re.compile(r"(?<=://)[^/@'\"]*@|[?#][^'\"]*")
"""What may be secret in an address: a password, and the signature behind it."""
_QUOTED = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")""")
_WORDS = re.compile(
    rf"{_QUOTED.pattern}|(?P<gap>(?:\s|--[^\n]*|/\*.*?\*/)+)|[^'\"\s/-]+|.", re.DOTALL
)


def duckdb_query(text: str) -> str:
    """A text, if DuckDB reads it as one query and nothing else.

    Raises:
        SpecError: If it does not.
    """
    import duckdb

    try:
        kinds = [statement.type for statement in duckdb.extract_statements(text)]
    except duckdb.Error as error:
        raise SpecError(f"a source's sql cannot be read: {str(error).strip()}") from None
    if kinds != [duckdb.StatementType.SELECT]:
        raise SpecError("a source's sql must be one select statement, and nothing else")
    return text.strip().rstrip(";")


def names_in(text: str) -> list[str] | None:
    """What a query reads by name, tables and files; None if no database reads it.

    Names of its own (of `with`, of a subquery, an alias) and functions are none.

    >>> names_in("with a as (from shop.b) select * from a, 'c.parquet' as c")
    ['"c.parquet"', 'shop.b']
    >>> names_in("select * from runs as r cross join lateral jsonb_array_elements(r.items)")
    ['runs']
    """
    import duckdb

    with duckdb.connect() as connection, suppress(duckdb.Error):  # which takes no time to import
        names = connection.get_table_names(text, qualified=True)
        return sorted({_ALIAS.sub("", name) for name in names})
    from sqlmetrics.sql.transpile import tables_of

    readings = (tables_of(text, dialect) for dialect in DIALECTS.values())
    return next((tables for tables in readings if tables is not None), None)


@cache
def spelled_alike(text: str) -> str:
    r"""A query without what does not decide its rows.

    That is spaces, comments, the case of letters outside of quotes, and where its tables are:
    their names are as `unnumbered` has them. What is secret in an address is left out too.

    >>> spelled_alike("SELECT *  from shop.Runs_v2 -- all\nwhere x <> 'A  b'")
    "select * from runs where x <> 'A  b'"
    """
    names = dict[str, str]()
    for name in names_in(text) or ():
        *_, last_part = parts(name)
        names |= dict.fromkeys((name.casefold(), last_part.casefold()), unnumbered(last_part))
    table = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    moved = re.compile(rf"(?<![\w.])(?:{table or '(?!)'})(?!\w)")

    def plain(match: re.Match[str]) -> str:
        word = match[0]
        if word.startswith(("'", '"')):
            return ADDRESS_SECRETS.sub("", word) if "://" in word else word
        return " " if match["gap"] else word.casefold()

    words = _WORDS.sub(plain, text)
    outside = _QUOTED.split(words)  # every second one is quoted
    outside[::2] = [moved.sub(lambda match: names[match[0]], piece) for piece in outside[::2]]
    return "".join(outside).strip()


def unnumbered(name: str) -> str:
    """A name without versions and dates.

    >>> unnumbered("Labels_v2"), unnumbered("runs-2026-11-02"), unnumbered("2026")
    ('labels', 'runs', '0')
    """
    return re.sub(r"[_-]*v?\d+", "", name.casefold()) or "0"


def columns_in(text: str, column: str) -> list[tuple[str, str]]:
    """The columns of tables that a query's column is made of; none where it cannot be followed."""
    from sqlglot.errors import SqlglotError
    from sqlglot.lineage import lineage

    for grammar in dict.fromkeys(
        [DUCKDB.grammar, *(dialect.grammar for dialect in DIALECTS.values())]
    ):
        try:
            root = lineage(column, text, schema={}, dialect=grammar)
        except (SqlglotError, ValueError, KeyError, AttributeError):
            continue
        return sorted({leaf for node in root.walk() if not node.downstream for leaf in _of(node)})
    return []


def _of(node: Any) -> Iterator[tuple[str, str]]:
    """The table and the column of a leaf; nothing of what is no table."""
    from sqlglot import exp

    if isinstance(node.source, exp.Table) and isinstance(node.source.this, exp.Identifier):
        name = node.name.rpartition(".")[2].strip('"`')
        if name != "*":
            yield ".".join(part.name for part in node.source.parts), name


def query(text: str) -> str:
    """A text, if some database reads it as one query and nothing else.

    Raises:
        SpecError: If none does, with what DuckDB says of it.
    """
    try:
        return duckdb_query(text)
    except SpecError:
        from sqlmetrics.sql.transpile import is_query

        if not any(is_query(text, dialect) for dialect in DIALECTS.values()):
            raise
    return text.strip().rstrip(";")


def condition(text: str) -> str:
    """A text, if some database reads it as one condition on the table's own columns.

    Raises:
        ValueError: If it is anything else: several statements, a query, a comment.
    """
    if is_comparison(text):
        return text.strip()
    from sqlglot import exp

    try:
        tree = _condition(text)
    except RecursionError:
        raise ValueError("is nested too deeply; use fewer parentheses") from None
    if tree is None:
        raise ValueError("must be one condition, like: is_bot = 0")
    has_comment = any(node.comments for node in tree.walk())  # it would hide what stands behind
    if has_comment or tree.find(exp.Query, exp.Subquery, exp.DDL, exp.DML, exp.Command):
        raise ValueError(
            "must be a condition on the columns of the table, without a subquery or a comment"
        )
    return text.strip()


def condition_columns(text: str | None) -> list[str]:
    """The columns that a condition looks at, each once; none of no condition.

    >>> condition_columns("day >= '2026-01-31'"), condition_columns("a = 1 or lower(b) in ('x')")
    (['day'], ['a', 'b'])
    """
    if not text:
        return []
    if is_comparison(text) and (match := _COMPARISON.fullmatch(text)):
        return [match[1]]
    from sqlglot import exp

    tree = _condition(text)
    columns = tree.find_all(exp.Column, bfs=False) if tree is not None else ()
    return list(dict.fromkeys(column.name for column in columns))


def is_comparison(text: str) -> bool:
    """Whether a text is what most conditions are: a column beside a number or a text.

    That needs no grammar, which takes a tenth of a second to import.

    >>> is_comparison("is_test = 1"), is_comparison("day >= '2026-01-31'"), is_comparison("a = b")
    (True, True, False)
    """
    match = _COMPARISON.fullmatch(text)
    return match is not None and identifier(match[1]) == match[1]


def _condition(text: str) -> Any:
    """Its tree by the first grammar that reads it, DuckDB's before others; None if none does."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    other_grammars = {dialect.grammar for dialect in DIALECTS.values()} - {DUCKDB.grammar}
    for grammar in (DUCKDB.grammar, *sorted(other_grammars)):
        try:
            return parse_one(text, read=grammar, into=exp.Condition)
        except SqlglotError:
            continue
    return None
