"""DuckDB's text -> the same in another dialect, through sqlglot.

sqlglot is no safety net: what it does not know it passes on. So a list says which parts of
SQL may leave the compiler, each of which was executed on the engines; anything else is
refused, also where it would happen to be right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from textwrap import indent

import sqlglot
from sqlglot import exp
from sqlglot.tokens import TokenType

from sqlmetrics.dialect import Dialect
from sqlmetrics.errors import SpecError

ALLOWED = frozenset(
    {
        *(exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Union),
        *(exp.Subquery, exp.Exists, exp.Table, exp.TableAlias, exp.Column, exp.Identifier),
        *(exp.Alias, exp.Star, exp.Literal, exp.Null, exp.Paren, exp.Distinct, exp.In),
        *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Between, exp.Boolean),
        *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not, exp.Is),
        *(exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Cast, exp.DataType, exp.Collate),
        *(exp.Sum, exp.Min, exp.Max, exp.Avg, exp.Count),
        *(exp.Ln, exp.Exp, exp.Pow, exp.Floor, exp.Abs, exp.Sqrt),
        *(exp.Window, exp.WindowSpec, exp.Order, exp.Ordered, exp.RowNumber, exp.Limit),
    }
)
"""The parts of SQL that were executed on the engines and mean the same on all of them."""

TYPES = frozenset(
    {
        *(exp.DataType.Type.DOUBLE, exp.DataType.Type.BIGINT, exp.DataType.Type.FLOAT),
        *(exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT, exp.DataType.Type.DATE),
    }
)
"""The types that a cast may name; FLOAT is sqlglot's word for 32 bits."""

TEXTS = (exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT)

NEVER_NULL = frozenset({"rnk", "item_id", "query_id", "system", "metric_date"})
"""Columns of ours whose order need not say where NULLs stand."""

WIDTH = 84
_MARK = "sqlmetrics_yours_"


class Translation:
    """DuckDB's text in a dialect, with the user's own SQL as it is.

    Args:
        dialect: The dialect.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._hidden: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """What stands for SQL of the user's, which is of the dialect already."""
        if self.dialect.name == "duckdb":
            return text
        mark = f"{_MARK}{len(self._hidden)}"
        self._hidden[mark] = text
        return mark

    def text(self, statement: str) -> str:
        """A statement that the compiler printed, in the dialect.

        Raises:
            SpecError: If the dialect has not got what it needs.
        """
        if self.dialect.name == "duckdb":
            return statement
        comments, create, body = _parts(statement)
        if not re.match(r"with\b|select\b|\(", body):
            return statement
        return self._shown(comments + create + self._query(body))

    def _query(self, text: str) -> str:
        tree = _read(text)
        _refuse(tree, self.dialect)
        stages = tree.ctes
        own = {stage.alias for stage in stages}
        _adapt(tree, self.dialect, own)
        about = dict(re.findall(r"^((?:--.*\n)+)(\w+) as \($", text, re.MULTILINE))
        about = {name: comment for comment, name in about.items()}
        ctes = [self._cte(stage, about.get(stage.alias, "")) for stage in stages]
        tree.set("with_", None)
        tree.set("with", None)
        last = _printed(tree, self.dialect)
        head = "with\n\n" + ",\n\n".join(ctes) + "\n\n" if ctes else ""
        return head + "\n".join(filter(None, (last, self.dialect.settings))) + "\n"

    def _cte(self, stage: exp.CTE, comment: str) -> str:
        select = indent(_printed(stage.this, self.dialect), " " * 4)
        return f"{comment}{stage.alias} as (\n{select}\n)"

    def _shown(self, text: str) -> str:
        """The text with the user's own SQL in its place."""
        for mark, own in self._hidden.items():
            name = rf"""["`\[]?{mark}["`\]]?(?!\d)"""
            query = rf"select\s+\*\s+from\s+{name}"
            text = re.sub(query, lambda _, own=own: own, text)
            text = re.sub(name, lambda _, own=own: own, text)
        return text


def _parts(statement: str) -> tuple[str, str, str]:
    """The comments before a statement, what it makes, and its query."""
    found = re.fullmatch(
        r"((?:--[^\n]*\n)*)(create temporary table \w+ as\n)?(.*)", statement, re.DOTALL
    )
    return ("", "", statement) if found is None else (found[1], found[2] or "", found[3].strip())


def _read(text: str) -> exp.Query:
    trees = sqlglot.parse(text, read="duckdb")
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise SpecError(f"one query is wanted, given: {text}")
    return trees[0]


def _refuse(tree: exp.Expression, dialect: Dialect) -> None:
    found = sorted({*_foreign(tree, dialect)})
    if found:
        raise SpecError(
            f"{dialect.title} cannot be asked for this as DuckDB is: {', '.join(found)}"
        )


def _foreign(tree: exp.Expression, dialect: Dialect) -> Iterator[str]:
    """What may not leave the compiler, or what the dialect has not."""
    for node in tree.walk():
        if isinstance(node, exp.TryCast | exp.IsInf | exp.With | exp.CTE):
            continue
        if isinstance(node, exp.Anonymous) and node.name.casefold() == "isfinite":
            continue
        if type(node) not in ALLOWED:
            yield f"{node.name or node.key}()" if isinstance(node, exp.Func) else node.key
        elif isinstance(node, exp.DataType) and node.this not in TYPES:
            yield f"type {node.sql('duckdb')}"
        elif isinstance(node, exp.DataType) and node.this == exp.DataType.Type.FLOAT:
            if not dialect.has_float32:
                yield "32-bit numbers (score_precision=float32)"


def _adapt(tree: exp.Expression, dialect: Dialect, own: set[str]) -> None:
    """What the dialect's grammar alone would not bring along."""
    if dialect.folds == "exact":
        for select in tree.find_all(exp.Select):
            tables = {table.name for table in select.find_all(exp.Table)}
            if tables and tables.isdisjoint(own):
                _quote(select)
    nulls = sqlglot.Dialect.get_or_raise(dialect.grammar).NULL_ORDERING
    for node in list(tree.walk()):
        if isinstance(node, exp.Div):
            node.set("typed", True)  # all our numbers are DOUBLE
            node.set("safe", False)  # and 0 is made NULL below the line
        elif isinstance(node, exp.Ordered) and node.this.name in NEVER_NULL:
            desc = bool(node.args.get("desc"))
            small_first = (nulls == "nulls_are_small") != desc
            node.set("nulls_first", False if nulls == "nulls_are_last" else small_first)
        elif isinstance(node, exp.Cast) and node.to.this in TEXTS:
            node.replace(_text(node, dialect))
        elif isinstance(node, exp.Column) and dialect.names_columns and node.arg_key == "expressions" and isinstance(node.parent, exp.Select):
            node.replace(exp.alias_(node.copy(), node.name))
        elif isinstance(node, exp.Alias) and dialect.signed_zero and node.alias == "score" and isinstance(node.this, exp.Cast):
            node.set("this", exp.Add(this=node.this.copy(), expression=exp.Literal.number("0e0")))
        elif isinstance(node, exp.IsInf) or (
            isinstance(node, exp.Anonymous) and node.name.casefold() == "isfinite"
        ):
            node.replace(_finite(node))


def _quote(select: exp.Expression) -> None:
    """The user's names as they are."""
    for name in select.find_all(exp.Identifier):
        if isinstance(name.parent, exp.Column | exp.Table):
            name.set("quoted", True)


def _text(node: exp.Expression, dialect: Dialect) -> exp.Expression:
    """A text of any length, compared as bytes."""
    wanted = exp.DataType.build(dialect.text, dialect=dialect.grammar)
    cast = exp.Cast(this=node.this.copy(), to=wanted)
    if not dialect.collation:
        return cast
    name = dialect.collation.strip('"')
    quoted = name != dialect.collation
    return exp.Collate(this=cast, expression=exp.to_identifier(name, quoted=quoted))


LARGEST = "1.7976931348623157e308"


def _finite(node: exp.Expression) -> exp.Expression:
    """`isfinite(x)`, or `isinf(x)`, by comparisons: no engine calls NaN between two numbers."""
    value = (node.expressions or [node.this])[0]
    text = value.sql("duckdb")
    condition = f"({text} >= -{LARGEST} and {text} <= {LARGEST})"
    if isinstance(node, exp.IsInf):
        condition = f"({text} > {LARGEST} or {text} < -{LARGEST})"
    return sqlglot.parse_one(condition, read="duckdb")


def _printed(tree: exp.Expression, dialect: Dialect) -> str:
    text = tree.sql(
        dialect.grammar,
        pretty=True,
        indent=4,
        pad=4,
        max_text_width=WIDTH,
        normalize_functions="lower",
        comments=False,
    )
    return _lower(text, dialect)


def _lower(text: str, dialect: Dialect) -> str:
    """The text with its words in lower case, as all our SQL is; names and texts stay."""
    kept = (TokenType.STRING, TokenType.IDENTIFIER)
    tokens = sqlglot.Dialect.get_or_raise(dialect.grammar).tokenize(text)
    for token in tokens:
        word = text[token.start : token.end + 1]
        if token.token_type not in kept and word.isupper():
            text = text[: token.start] + word.lower() + text[token.end + 1 :]
    return text
