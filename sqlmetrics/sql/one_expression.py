"""A stranger's SQL as one expression: over columns it was given, the same on every engine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache
from itertools import pairwise
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from sqlmetrics.errors import shortened
from sqlmetrics.sql.template import FUNCTION_SCHEMA
from sqlmetrics.sql.transpile import EXPRESSIONS, is_own_call

Tree = Any

LONGEST = 20_000
"""So many characters an expression has at most."""

FUNCTIONS = (
    *("sum", "avg", "min", "max", "count", "abs", "coalesce", "exp", "floor", "ln", "nullif"),
    *("power", "sqrt", "cast(... as double)", "case"),
)
"""The functions that mean the same on every engine."""

EVERYWHERE = frozenset(text.partition("(")[0] for text in FUNCTIONS)
"""Their names."""

WHOLE_COLUMNS = frozenset({"rnk", "popularity_rank", "n_items"})
"""Columns of ours that hold whole numbers."""

_CONDITIONS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not, exp.Is),
    *(exp.In, exp.Between),
)
_OF_TEXTS = (exp.EQ, exp.NEQ, exp.In, exp.Is, exp.Distinct, exp.Count, exp.Anonymous)
"""What a text may stand in."""
_OF_LITERALS = (exp.EQ, exp.NEQ, exp.In, exp.Anonymous)
_DOUBLES = (exp.Cast, exp.Ln, exp.Exp, exp.Sqrt, exp.Pow, exp.Avg)
_NEVER_ZERO = (exp.Ln, exp.Exp, exp.Sqrt, exp.Pow, exp.Nullif)


@lru_cache(1_000)
def one_expression(
    text: str,
    columns: Set[str],
    renamed: Set[tuple[str, str]] = frozenset(),
    functions: Set[str] = frozenset(),
    *,
    over_rows: bool,
) -> str:
    """The text, if it is one expression that means the same on every engine.

    Args:
        text: SQL in DuckDB's words.
        columns: The columns it may read; in lower case, with their tables where they have one.
        renamed: Columns with names of their own here, and what the SQL calls them.
        functions: Functions beside those that mean the same everywhere, to which the user agreed.
        over_rows: Whether it sums over rows; else it is arithmetic over sums.

    Returns:
        The text with numbers and a value that are DOUBLE on every engine, and such functions as
        `main.name(...)`, by which they are known when the text is translated.

    Raises:
        ValueError: If it is anything else, with what to write.
    """
    if len(text) > LONGEST:
        raise ValueError(f"its SQL has {len(text):,} characters; the most are {LONGEST:,}")
    try:
        text = _marked(text, {name.casefold(): name for name in functions})
        trees = sqlglot.parse(text, read="duckdb")
    except (SqlglotError, RecursionError):
        trees = []
    if not trees or any(tree is None for tree in trees):
        raise ValueError(f"its SQL cannot be read as one expression: {_quoted(text)}")
    if len(trees) > 1:
        raise ValueError("its SQL is several statements; it must be one expression")
    tree = trees[0]
    names = dict(renamed)
    problems = (
        *_problems(tree, columns | names.keys(), functions, over_rows=over_rows),
        *_misread_texts(tree, names),
    )
    problem = next(iter(problems), None)
    if problem:
        raise ValueError(problem)
    for start, end, new in sorted([*_doubles(text), *_renames(tree, names)], reverse=True):
        text = f"{text[:start]}{new}{text[end:]}"
    return text if _is_double(tree) else f"cast({text} as double)"


def _marked(text: str, functions: Mapping[str, str]) -> str:
    """The text with the functions that were agreed to as `main.name`."""
    tokens = sqlglot.tokenize(text, read="duckdb") if functions else []
    for token, following in reversed([*pairwise(tokens)]):
        name = functions.get(token.text.casefold())
        if name and following.token_type is TokenType.L_PAREN:
            text = f"{text[: token.start]}{FUNCTION_SCHEMA}.{name}{text[token.end + 1 :]}"
    return text


def _problems(
    tree: Tree, columns: Set[str], functions: Set[str], *, over_rows: bool
) -> Iterator[str]:
    """What is wrong with an expression; the first tells most."""
    nodes = list(tree.walk())
    own_calls = [node for node in nodes if is_own_call(node) and node.name in functions]
    known_parts = {id(part) for call in own_calls for part in (call, call.expression)}
    foreign_parts = (node for node in nodes if id(node) not in known_parts)
    yield from (problem for node in foreign_parts if (problem := _foreign(node)))
    for node in nodes:
        if isinstance(node, exp.Column):
            yield from _of_column(node, columns, over_rows=over_rows)
        elif isinstance(node, exp.AggFunc) and not over_rows:
            yield f"{_quoted(node)} sums over rows, and there is one row per query here"
        elif isinstance(node, exp.AggFunc) and node.find_ancestor(exp.AggFunc):
            yield f"{_quoted(node)} stands in another sum; a sum is over rows"
        elif isinstance(node, _CONDITIONS) and not _is_tested(node):
            condition = _quoted(node)
            yield f"{condition} is no number; write case when {condition} then 1e0 else 0e0 end"
        elif isinstance(node, exp.Div):
            yield from _of_division(node)


def _misread_texts(tree: Tree, names: Mapping[str, str]) -> Iterator[str]:
    """Columns that are read as texts, where a number is wanted."""
    for column in tree.find_all(exp.Column):
        name = names.get(column.name.casefold(), "")
        is_text = re.match(r"(label_|query_)?text_", name) is not None
        if is_text and not isinstance(column.parent, _OF_TEXTS):
            yield f"the column {column.name!r} is a text; compare it, like {column.name} = 'x'"


def _foreign(node: Tree) -> str:
    """Why a part of an expression may not be in it; empty if it may."""
    if node.comments:
        return "its SQL has a comment; write it above, in the header"
    reads = isinstance(node, exp.Query | exp.Subquery | exp.Table)
    if reads or any(node.args.get(key) for key in ("query", "unnest", "field")):
        return f"{_quoted(node)} reads a table of its own; it may read the columns it was given"
    if type(node) not in EXPRESSIONS:
        return _unknown_part(node)
    looks = _LOOKS.get(type(node))
    return looks(node) if looks else ""


def _unknown_part(node: Tree) -> str:
    if isinstance(node, exp.Window):
        return f"{_quoted(node)} is a window function; sum over rows, or use m.hits_so_far"
    if not isinstance(node, exp.Func):
        return f"{_quoted(node)} is more than one expression, or is not the same everywhere"
    name = node.name if isinstance(node, exp.Anonymous) else node.key
    return (
        f"the function {shortened(name, 60)!r} is not known to mean the same on every engine; "
        f"known: {', '.join(FUNCTIONS)}; a column made in the sql of a table may use any"
    )


def _of_type(node: Tree) -> str:
    is_double = node.this == exp.DataType.Type.DOUBLE
    return "" if is_double else f"cast to double alone; given {_quoted(node)}"


def _of_distinct(node: Tree) -> str:
    return "" if isinstance(node.parent, exp.Count) else "distinct is for count alone"


def _of_literal(node: Tree) -> str:
    if node.is_string and not isinstance(node.parent, _OF_LITERALS):
        return f"the text {_quoted(node)} is no number; compare a column with it by = or in"
    is_plain = not re.search(r"[\x00-\x1f\\]", node.name)
    return "" if is_plain else "a text in it has a backslash or a control character"


_LOOKS: Mapping[type, Callable[[Tree], str]] = {
    exp.DataType: _of_type,
    exp.Distinct: _of_distinct,
    exp.Literal: _of_literal,
}
"""Parts that are allowed in some forms only."""


def _of_column(column: Tree, columns: Set[str], *, over_rows: bool) -> Iterator[str]:
    name = ".".join(part.name for part in column.parts).casefold()
    if name not in columns:
        known_columns = ", ".join(sorted(c for c in columns if "." not in c)) or "none"
        yield (
            f"unknown column {shortened(name, 60)!r}; known here: {known_columns}; name columns of "
            "your tables in the header, under [items], [labels] or [queries]"
        )
    elif over_rows and not column.find_ancestor(exp.AggFunc):
        yield f"the column {name!r} stands outside of a sum; write sum(...) around it"


def _of_division(node: Tree) -> Iterator[str]:
    if not (_is_double(node.this) or _is_double(node.expression)):
        remedy = "which databases round differently; write 1e0 for 1"
        yield f"{_quoted(node)} divides whole numbers, {remedy}"
    if not _is_never_zero(node.expression):
        yield f"{_quoted(node)} may divide by 0; write nullif({_quoted(node.expression)}, 0e0)"


def _is_tested(condition: Tree) -> bool:
    """Whether a condition stands where one is asked for: behind `when`."""
    node = condition
    while isinstance(node.parent, exp.Paren | exp.And | exp.Or | exp.Not):
        node = node.parent
    return isinstance(node.parent, exp.If) and node.arg_key == "this"


def _is_never_zero(divisor: Tree) -> bool:
    divisor = divisor.unnest()
    if isinstance(divisor, exp.Literal):
        return not divisor.is_string and float(divisor.name) != 0
    if isinstance(divisor, exp.Add | exp.Mul):
        return _is_never_zero(divisor.this) and _is_never_zero(divisor.expression)
    if isinstance(divisor, exp.Column):
        return divisor.name.casefold() == "rnk"
    return isinstance(divisor, _NEVER_ZERO)


def _is_double(node: Tree) -> bool:
    """Whether a value is surely a DOUBLE on every engine."""
    if isinstance(node, exp.Literal):
        return not node.is_string and re.search(r"[.eE]", node.name) is not None
    if isinstance(node, exp.Column):
        return node.name.casefold() not in WHOLE_COLUMNS
    if isinstance(node, _DOUBLES):
        return True
    if isinstance(node, exp.Dot):  # nobody knows what it gives
        return False
    parts = list(node.iter_expressions())
    if isinstance(node, exp.Case):
        default = node.args.get("default") or exp.Null()
        parts = [default, *(branch.args["true"] for branch in node.args["ifs"])]
    return not isinstance(node, exp.Count) and any(_is_double(part) for part in parts)


def _doubles(text: str) -> Iterator[tuple[int, int, str]]:
    """Numbers with a point, with the exponent that they lack: some databases take decimals."""
    for token in sqlglot.tokenize(text, read="duckdb"):
        if token.token_type is TokenType.NUMBER and re.fullmatch(r"\d*\.\d*", token.text):
            yield token.start, token.end + 1, f"{token.text}e0"


def _renames(tree: Tree, names: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """Columns of other names."""
    for column in tree.find_all(exp.Column):
        name = column.name.casefold()
        if name in names and not column.table:
            yield column.this.meta["start"], column.this.meta["end"] + 1, names[name]


def _quoted(node: Tree | str) -> str:
    text = node if isinstance(node, str) else node.sql("duckdb", normalize_functions="lower")
    return shortened(" ".join(text.split()), 100)
