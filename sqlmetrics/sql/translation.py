"""What the compiler prints, in the dialect of a database."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlmetrics.errors import SpecError
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.dialects import DUCKDB
from sqlmetrics.sql.layout import folded
from sqlmetrics.sql.template import (
    EXACT_SUM,
    FUNCTION_SCHEMA,
    LINE,
    MARK,
    identifier,
    parts,
)
from sqlmetrics.sql.user_sql import duckdb_query, is_comparison


class Translation:
    """DuckDB's text in a dialect, with the user's own SQL as it is.

    Args:
        dialect: The dialect.
        executes: Whether the text is run by a session that was given the dialect's `exact_sum`,
            and may add in parts.
    """

    def __init__(self, dialect: Dialect = DUCKDB, *, executes: bool = False) -> None:
        self.dialect = dialect
        self.executes = executes
        self._hidden: dict[str, str] = {}

    @property
    def printed(self) -> Translation:
        """The same for a text that is read, or runs anywhere else."""
        translation = Translation(self.dialect)
        translation._hidden = self._hidden
        return translation

    def keeping(self, keep: str) -> Translation:
        """The same, with a statement that keeps rows beginning so."""
        translation = Translation(replace(self.dialect, keep=keep), executes=self.executes)
        translation._hidden = self._hidden
        return translation

    @property
    def _adds_exactly(self) -> bool:
        return self.executes and bool(self.dialect.exact_sum or self.dialect.adds_in_parts)

    @property
    def sum(self) -> str:
        """The function that adds floats: where it runs, to the same bits in any order of rows.

        What becomes two sums stands behind a schema until the text is translated.
        """
        if not self._adds_exactly:
            return "sum"
        return EXACT_SUM if self.dialect.exact_sum else f"{FUNCTION_SCHEMA}.{EXACT_SUM}"

    def total(self, expression: str) -> str:
        """The sum of an expression of floats.

        >>> Translation().total("x"), Translation(executes=True).total("x")
        ('sum(x)', 'sqlmetrics_sum(x)')
        """
        text = f"{self.sum}({expression})"
        return folded(text) if self._adds_exactly else text

    def exact(self, text: str) -> str:
        """The text of an aggregate over floats, each of its sums likewise; counts stay."""
        if not self._adds_exactly or _COUNT.fullmatch(text):
            return text
        return folded(re.sub(r"\bsum\(", f"{self.sum}(", text))

    def mean(self, expression: str) -> str:
        """The mean of an expression of floats, likewise."""
        if not self._adds_exactly:
            return f"avg({expression})"
        return folded(f"{self.sum}({expression}) / count({expression})")

    def self_contained(self, script: str) -> str:
        """A script of statements that ran, with the functions that they need before it."""
        if f"{EXACT_SUM}(" not in script:
            return script
        return f"{self.dialect.exact_sum.format(name=EXACT_SUM)};\n\n{script}"

    @property
    def changes(self) -> bool:
        """Whether there is anything to translate."""
        return self.dialect.name != DUCKDB.name

    def condition(self, text: str) -> str:
        """What stands for a condition of the user's, which is of the dialect already.

        Raises:
            SpecError: If it is something else by the dialect's grammar.
        """
        if not text or (not self.changes and is_comparison(text)):
            return text
        from sqlmetrics.sql.transpile import is_condition

        if not is_condition(text, self.dialect):
            raise SpecError(f"{self.dialect.title} cannot read this as one condition: {text}")
        return f"{self._hide(text)} = 1" if self.changes else text

    def query(self, text: str) -> str:
        """The same for a query."""
        if not self.changes:
            return duckdb_query(text)
        from sqlmetrics.sql.transpile import is_query

        if not is_query(text, self.dialect):
            raise SpecError(f"{self.dialect.title} cannot read this as one query: {text}")
        return f"select * from {self._hide(text)}"

    def user_text(self, text: str) -> str:
        """What stands for a text of the dialect, until all around it is translated."""
        return self._hide(text) if self.changes else text

    def expression(self, template: str, column: str) -> str:
        """What stands for an expression over a column that is of the dialect already."""
        return self.user_text(self.over_column(template, column))

    def over_column(self, template: str, column: str) -> str:
        """An expression of the dialect over a column, which is told in DuckDB's words."""
        if not self.changes:
            return template.format(column=column)
        from sqlglot import parse_one

        from sqlmetrics.sql.transpile import fold

        tree = parse_one(column, read="duckdb")
        if self.dialect.folds == "upper":
            fold(tree)
        return template.format(column=tree.sql(self.dialect.grammar))

    def name(self, dotted: str) -> str:
        """A table's dotted name, quoted as the dialect does it."""
        return ".".join(map(self.column, parts(dotted)))

    def column(self, name: str) -> str:
        """A column's name, likewise."""
        if not self.changes:
            return identifier(name)
        from sqlglot import exp

        fits = self.dialect.folds != "upper"
        return exp.to_identifier(name, quoted=fits or None).sql(self.dialect.grammar)

    def type(self, kind: str) -> str:
        """A column's type in a table that is made, of DuckDB's word for it."""
        word, *qualifiers = kind.split(" ", 1)
        if not self.changes:
            return kind
        if kind in self.dialect.types:
            return self.dialect.types[kind]
        from sqlglot import exp

        dialect_type = exp.DataType.build(word, dialect="duckdb").sql(self.dialect.grammar).lower()
        return " ".join([self.dialect.types.get(word, dialect_type), *qualifiers])

    def value(self, expression: str) -> str:
        """An expression, as the compiler prints it, in the dialect."""
        if not self.changes:
            return expression
        from sqlglot import parse_one

        from sqlmetrics.sql.transpile import fold, printed

        tree = parse_one(expression, read="duckdb")
        if self.dialect.folds == "upper":
            fold(tree)
        return self._with_user_sql(printed(tree, self.dialect))

    def _hide(self, text: str) -> str:
        mark = f"{MARK}{len(self._hidden)}_"
        self._hidden[mark] = text
        return mark

    def text(self, statement: str) -> str:
        """A statement that the compiler printed, in the dialect.

        Raises:
            SpecError: If the dialect has not got what it needs.
        """
        if not self.changes:
            return statement
        comments, create, body = _parts(statement)
        if not re.match(r"with\b|select\b|\(", body):
            return statement
        from sqlmetrics.sql.transpile import translated

        about = {name: lines for lines, name in _COMMENTED.findall(body)}
        return self._with_user_sql(comments + create + translated(body, self.dialect, about))

    def _with_user_sql(self, text: str) -> str:
        """The text with the user's own SQL in its place."""
        for mark, user_sql in reversed(self._hidden.items()):  # a later one may hold others
            name = rf"""["`\[]?{mark}["`\]]?"""
            for placeholder in re.findall(rf"select\s+\*\s+from\s+{name}|{name} = 1|{name}", text):
                text = _below(text, placeholder, user_sql).replace(placeholder, user_sql)
        return text


def _below(text: str, placeholder: str, user_sql: str) -> str:
    """The text with an expression's name, or a comparison with it, below where lines are long."""

    def broken(match: re.Match[str]) -> str:
        fits = len(match[0]) - len(placeholder) + len(user_sql) <= LINE
        return match[0] if fits else f"{match[1]}{match[2]}\n{match[1]}    {match[3]}"

    mark = re.escape(placeholder)
    text = re.sub(rf"^( +)(.*{mark}.*) (as \w+,?)$", broken, text, flags=re.MULTILINE)
    return re.sub(rf"^( *)(.*) ([<>]=? {mark}[;)]*)$", broken, text, flags=re.MULTILINE)


_COUNT = re.compile(
    r"sum\(\s*(?:case\s+when(?:(?!\bthen\b).)*then\s+1e0\s+else\s+0e0\s+end|1e0)\s*\)", re.DOTALL
)
"""A sum of ones, which is the same in any order."""
_COMMENTED = re.compile(r"^((?:--.*\n)+)(\w+) as (?:not materialized )?\($", re.MULTILINE)
_STATEMENT = re.compile(
    r"((?:--[^\n]*\n)*)"
    r"((?:(?:create(?: temporary)?|cache) (?:table|view) \w+ as|insert into \w+)\n)?(.*)",
    re.DOTALL,
)


def _parts(statement: str) -> tuple[str, str, str]:
    """The comments before a statement, what it makes or fills, and its query."""
    match = _STATEMENT.fullmatch(statement)
    comments, create, body = match.groups() if match else ("", "", statement)
    return comments, create or "", body.strip()
