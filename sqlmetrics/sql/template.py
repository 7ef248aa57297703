"""The templates: where they lie, how Jinja reads them, and how names and values are quoted."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from itertools import chain, count
from pathlib import Path
from textwrap import indent, wrap

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket, BytecodeCache

from sqlmetrics.errors import SqlmetricsError

# Templates as Jinja compiled them, kept where Python keeps its own modules: in `__pycache__`.


class Bytecode(BytecodeCache):
    """One file a template; Jinja looks by the text's hash whether it is still the one.

    Where nothing may be written (`PYTHONDONTWRITEBYTECODE`, a folder of the system) templates are
    compiled each time, as Python's modules are.

    Args:
        folder: The folder of the templates.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, bucket: Bucket) -> str:
        return cache_from_source(str(self._folder / f"{bucket.key}.py"))

    def load_bytecode(self, bucket: Bucket) -> None:
        """What is kept of a template, if anything is."""
        with (
            suppress(OSError, ValueError, EOFError, TypeError),
            open(self._file(bucket), "rb") as file,
        ):
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep it, seen by others only when it is whole."""
        if sys.dont_write_bytecode:
            return
        cache_file = self._file(bucket)
        part = f"{cache_file}.{os.getpid()}"
        with suppress(OSError):
            os.makedirs(os.path.dirname(cache_file), exist_ok=True)
            with open(part, "wb") as file:
                bucket.write_bytecode(file)
            os.replace(part, cache_file)


def templates_folder() -> Path:
    """The templates: inside the package when installed, beside it in a checkout.

    Raises:
        SqlmetricsError: If they are in neither place, as when the package alone was copied.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "templates", package.parent / "templates"):
        if folder.is_dir():
            return folder
    raise SqlmetricsError(
        f"the templates of sqlmetrics are neither in {package} nor beside it; install it anew "
        "(pip install --force-reinstall sqlmetrics)"
    )


@cache
def environment() -> Environment:
    """Jinja for SQL: names that are not there are errors, and nothing is escaped."""
    jinja = Environment(
        loader=FileSystemLoader(templates_folder()),
        bytecode_cache=Bytecode(templates_folder()),
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    jinja.filters |= {
        "conditions": conditions,
        "grouped": grouped,
        "identifier": identifier,
        "lines": lines,
        "literal": literal,
        "relation": relation,
        "verbatim": verbatim,
    }
    return jinja


@cache
def variant(name: str, *dialects: str) -> str:
    """The name of a stage's template, or of the file beside it for a dialect, or for its kind.

    >>> variant("metric_values", "bigquery", "inlined")
    'metric_values.inlined'
    """
    candidates = (f"{name}.{dialect}" for dialect in dialects)
    directory = templates_folder() / ("" if "/" in name else "plan")
    return next(
        (candidate for candidate in candidates if (directory / f"{candidate}.sql.jinja").is_file()),
        name,
    )


MARK = "sqlmetrics_yours_"
"""What stands for the user's own SQL while a text is translated begins so."""

EXACT_SUM = "sqlmetrics_sum"
"""What a session calls the sum that is the same in any order."""

FUNCTION_SCHEMA = "main"
"""What stands before the name of a database's own function until a text is translated: of one that
a metric file calls and its user agreed to, and of the one that adds."""

LINE = 88
"""As long is a line of SQL at most, where it can be broken."""

NEWLINE = "\0"
"""Stands for a line break inside a user's text until all is indented: SQL has no NUL."""


def verbatim(text: str) -> str:
    """A user's text, safe from indentation until `finished`; once more changes nothing."""
    return text.replace("\n", NEWLINE)


def finished(text: str) -> str:
    """The text with the users' own line breaks put back."""
    return text.replace(NEWLINE, "\n")


VALUES = frozenset(
    (
        *("current_catalog", "current_database", "current_date", "current_path", "current_role"),
        *("current_schema", "current_time", "current_timestamp", "current_user", "localtime"),
        *("localtimestamp", "now", "session_user", "sysdate", "system_user", "user"),
        *("utc_date", "utc_time", "utc_timestamp"),
    )
)
"""Words that some database takes for a value of its own, even where a column is called so."""


def identifier(name: str) -> str:
    """A column's or table's name as SQL, quoted wherever it is not a plain word."""
    is_word = re.fullmatch(r"[a-z_][a-z0-9_]*", name) is not None
    if is_word and name not in VALUES and not _is_keyword(name):
        return name
    return verbatim('"' + name.replace('"', '""') + '"')


def free_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """The name, or the first with a number behind it that is not taken.

    >>> free_name("ranked", {"ranked", "ranked_2"}.__contains__)
    'ranked_3'
    """
    names = chain([name], (f"{name}_{number}" for number in count(2)))
    return next(free for free in names if not is_taken(free))


def relation(name: str) -> str:
    """A table's dotted name as SQL; a part in double quotes may hold dots.

    >>> relation('analytics.My table')
    'analytics."My table"'
    >>> relation('"a.b"')
    '"a.b"'
    """
    return ".".join(map(identifier, parts(name)))


def parts(name: str) -> list[str]:
    """The parts of a dotted name, without their quotes.

    >>> parts('analytics."a.b"')
    ['analytics', 'a.b']
    """
    matches = re.findall(r'"(?:[^"]|"")*"|[^.]+', name)
    return [p[1:-1].replace('""', '"') if p.startswith('"') else p for p in matches]


def literal(value: str) -> str:
    """A text as an SQL string."""
    return verbatim("'" + value.replace("'", "''") + "'")


def number(value: float) -> str:
    """A number as an SQL DOUBLE (a plain integer where it is one, for readers).

    >>> number(2.0), number(0.5)
    ('2', '0.5e0')
    """
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    text = repr(float(value))
    return text if "e" in text else text + "e0"


def lines(*columns: Iterable[object]) -> str:
    """A select list, one column per line, to stand at an indent of 4."""
    return indent(",\n".join(map(str, chain(*columns))), " " * 4).lstrip()


def conditions(terms: Iterable[str]) -> str:
    """Conditions of a join or a where, one a line."""
    return "\n        and ".join(terms)


def commented(text: str) -> str:
    """A sentence, on comment lines that are no longer than others."""
    return "\n".join(wrap(text, LINE, initial_indent="-- ", subsequent_indent="--     ")) + "\n"


def grouped(columns: Iterable[str]) -> str:
    """What stands behind `group by`: on one line where it fits."""
    columns = list(columns)
    line = ", ".join(columns)
    return line if len(line) <= 74 else "\n    " + ",\n    ".join(columns)


def double(value: float) -> str:
    """A number as an SQL DOUBLE, also a whole one.

    >>> double(2.0)
    '2e0'
    """
    text = number(value)
    return text if "e" in text else f"{text}e0"


def case(condition: str, then: str, otherwise: str = "0e0") -> str:
    """`case when ... then ... else ... end`, on one line where it is short.

    Args:
        condition: When.
        then: The value then.
        otherwise: The value else; empty for NULL.
    """
    last = f"else {otherwise} " if otherwise else ""
    line = f"case when {condition} then {then} {last}end"
    if len(line) <= 62:
        return line
    last = f"        {last.rstrip()}\n" if last else ""
    return f"\n    case when {condition}\n        then {then}\n{last}    end\n"


@cache
def _is_keyword(word: str) -> bool:
    """Whether a word cannot stand for a column or a table."""
    import duckdb

    # only of a keyword is its kind asked, for which a database is opened
    kinds = [kind for _, kind in duckdb.tokenize(word)]
    return kinds != [duckdb.token_type.identifier] and word.upper() in _keywords()


@cache
def _keywords() -> frozenset[str]:
    """Words that cannot stand for a column or a table, as DuckDB itself tells them."""
    import duckdb

    query = (
        "select upper(keyword_name) from duckdb_keywords() where keyword_category != 'unreserved'"
    )
    with duckdb.connect() as connection:
        return frozenset(word for (word,) in connection.execute(query).fetchall())
