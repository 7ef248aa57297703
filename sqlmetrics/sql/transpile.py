"""The part of SQL that means the same on every engine, and its text in each dialect.

sqlglot is no safety net: what it does not know it passes on. So a list says which parts of
SQL may leave the compiler, each of which was executed on the engines; anything else is
refused, also where it would happen to be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from textwrap import indent
from typing import Any

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from sqlmetrics.errors import SpecError
from sqlmetrics.sql.dialect import Dialect
from sqlmetrics.sql.dialects import KEPT
from sqlmetrics.sql.layout import broken
from sqlmetrics.sql.template import (
    EXACT_SUM,
    FUNCTION_SCHEMA,
    LINE,
    MARK,
    finished,
    free_name,
    verbatim,
)

EXPRESSIONS = frozenset(
    {
        *(exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Paren, exp.Distinct),
        *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.In, exp.Between),
        *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.And, exp.Or, exp.Not, exp.Is),
        *(exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Cast, exp.DataType),
        *(exp.Sum, exp.Min, exp.Max, exp.Avg, exp.Count),
        *(exp.Ln, exp.Exp, exp.Pow, exp.Floor, exp.Abs, exp.Sqrt),
    }
)
"""The parts of an expression over the columns of one table, likewise."""

ALLOWED = EXPRESSIONS | {
    *(exp.With, exp.CTE, exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having),
    *(exp.Union, exp.Subquery, exp.Exists, exp.Table, exp.TableAlias, exp.Alias, exp.Star),
    *(exp.Window, exp.WindowSpec, exp.Order, exp.Ordered, exp.Limit, exp.Offset),
    *(exp.RowNumber, exp.Rank, exp.DenseRank, exp.Boolean, exp.Collate, exp.Concat),
}
"""The parts of SQL that were executed on the engines and mean the same on all of them."""

TEXTS = (exp.DataType.Type.VARCHAR, exp.DataType.Type.TEXT)
FLOAT32 = exp.DataType.Type.FLOAT
TYPES = frozenset(
    {exp.DataType.Type.DOUBLE, exp.DataType.Type.BIGINT, exp.DataType.Type.DATE, FLOAT32, *TEXTS}
)
"""The types that a cast may name."""

NEVER_NULL = frozenset(
    {
        *("rnk", "given_rank", "item_id", "query_id", "system", "metric_date"),
        *("cluster_hash", "difference_size"),
    }
)
"""Columns of ours whose order need not say where NULLs stand."""

FLOATS = frozenset({"score", "grade"})
"""Columns of ours that hold numbers of the user's, of which -0.0 may be one."""

Tree = Any
"""A node of sqlglot's, whose base class has had two names."""

SMALLEST = "7.006492321624085e-46"
"""Half of the smallest 32-bit number above 0."""

LARGEST = "1.7976931348623157e308"
APART = exp.Literal.number("-1")
"""The limit of a stage that is to stay apart: none."""

INDENT, SHORT = 4, 40
WIDTHS = (84, 68, 56, 44, 32, 24, 16)
"""At how many columns an expression is broken: sqlglot counts neither the indent nor what follows,
so the first is taken by which all lines are short."""


def translated(text: str, dialect: Dialect, about: Mapping[str, str]) -> str:
    """A query of DuckDB's in another dialect.

    Args:
        text: The query.
        dialect: The other dialect.
        about: Stage -> the comment that stands above it.

    Raises:
        SpecError: If the dialect has not got what the query needs.
    """
    tree: Tree = sqlglot.parse_one(text, read="duckdb")
    _read_numbers(tree, dialect)
    _refuse(tree, dialect)
    original_by_name = _apart(tree)
    for change in CHANGES:
        change(tree, dialect)
    ctes = [_cte(cte, about.get(original_by_name[cte.alias], ""), dialect) for cte in tree.ctes]
    head = "with\n\n" + ",\n\n".join(ctes) + "\n\n" if ctes else ""
    tree.set("with_", None)
    body = "\n".join(filter(None, (_printed(tree, dialect), dialect.settings)))
    return finished(f"{head}{body}\n")


def _cte(stage: Tree, comment: str, dialect: Dialect) -> str:
    """A stage, printed for itself so that its comment stays above it."""
    select = _printed(stage.this, dialect, LINE - INDENT)
    hint = "not materialized " if stage.args.get("materialized") is False else ""
    limit = stage.this.args.get("limit")
    if limit is not None and limit.expression == APART:
        comment += "-- the limit keeps it apart from the join that reads it, which is faster\n"
    return f"{comment}{stage.alias} as {hint}(\n{indent(select, ' ' * INDENT)}\n)"


def is_query(text: str, dialect: Dialect) -> bool:
    """Whether a text is one query by the dialect's grammar."""
    return _one_query(text, dialect) is not None


def is_condition(text: str, dialect: Dialect) -> bool:
    """Whether a text is one condition: nothing of it leaves the parentheses around it."""
    tree = _one_query(f"select 1 where ({text}\n)", dialect)
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    return where is not None and isinstance(where.this, exp.Paren)


def tables_of(text: str, dialect: Dialect) -> list[str] | None:
    """The tables that a query reads, as it writes them; None if it is none of the dialect's."""
    tree = _one_query(text, dialect)
    if tree is None:
        return None
    try:
        sources = [source for scope in traverse_scope(tree) for source in scope.sources.values()]
    except SqlglotError:  # two tables of one alias
        return None
    tables = (
        ".".join(part.sql(dialect=dialect.grammar) for part in source.parts)
        for source in sources
        if isinstance(source, exp.Table) and source.name
    )
    return sorted({*tables})


def columns_named(condition: str, dialect: Dialect) -> list[str]:
    """The columns that a condition names without a table."""
    tree = _one_query(f"select 1 where ({condition}\n)", dialect)
    columns = tree.find_all(exp.Column) if tree else ()
    return list(dict.fromkeys(column.name for column in columns if not column.table))


def _one_query(text: str, dialect: Dialect) -> Tree | None:
    try:
        trees = sqlglot.parse(text, read=dialect.grammar)
    except (SqlglotError, RecursionError):
        return None
    return trees[0] if len(trees) == 1 and isinstance(trees[0], exp.Query) else None


def _refuse(tree: Tree, dialect: Dialect) -> None:
    """Raise SpecError for what may not leave the compiler, or what the dialect has not."""
    foreign_names = {name for node in tree.walk() if (name := _foreign(node, dialect))}
    if foreign_names:
        names = ", ".join(sorted(foreign_names))
        raise SpecError(f"{dialect.title} has no exact equivalent of: {names}")


def _foreign(node: Tree, dialect: Dialect) -> str:
    """What a node has that may not leave the compiler; empty if it may."""
    if is_own_call(node) or is_own_call(node.parent):
        return ""
    if type(node) not in ALLOWED:
        return node.sql("duckdb") if isinstance(node, exp.Func) else node.key
    looks = LOOKS.get(type(node))
    return looks(node, dialect) if looks else ""


def is_own_call(node: Tree) -> bool:
    """Whether it is the call of a function of the database's own, by `FUNCTION_SCHEMA`."""
    is_call = isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous)
    return is_call and node.this.name == FUNCTION_SCHEMA


def _of_join(node: Tree, _: Dialect) -> str:
    return "" if node.kind in ("", "INNER", "CROSS") else f"{node.kind.lower()} join"


def _of_frame(node: Tree, _: Dialect) -> str:
    of_rows = node.args["kind"].upper() == "ROWS" and not node.args.get("exclude")
    return "" if of_rows else "a window but of rows"


def _of_star(node: Tree, _: Dialect) -> str:
    return "a star without some columns" if any(node.args.values()) else ""


def _of_type(node: Tree, dialect: Dialect) -> str:
    if node.this not in TYPES:
        return f"the type {node.sql('duckdb')}"
    lacks = node.this == FLOAT32 and not dialect.has_float32
    return "32-bit numbers (score_precision=float32)" if lacks else ""


def _of_cast(node: Tree, dialect: Dialect) -> str:
    is_nan = node.this.is_string and node.this.name.casefold() == "nan"
    return "NaN (no_relevant=nan, unjudged=nan)" if is_nan and not dialect.has_nan else ""


LOOKS: Mapping[type, Callable[[Tree, Dialect], str]] = {
    exp.Join: _of_join,
    exp.WindowSpec: _of_frame,
    exp.Star: _of_star,
    exp.DataType: _of_type,
    exp.Cast: _of_cast,
    exp.Offset: lambda _, dialect: "" if dialect.row_hash else "offset",
}
"""Parts that are allowed in some forms only."""


# -- what a grammar alone would not bring along -----------------------------------------


def _apart(tree: Tree) -> dict[str, str]:
    """Stages by names that no table of the user's has: new name -> the name that it had.

    What a stage reads is another stage if that stands before it, else the user's table. SQLite
    takes it for a stage wherever that stands, and others do where it differs in case alone.
    """
    stages = [stage.alias for stage in tree.ctes]
    places = [(stage, stages[:number]) for number, stage in enumerate(tree.ctes)]
    before = {id(table): names for stage, names in places for table in stage.find_all(exp.Table)}
    stage_tables, user_tables = [], set()
    for table in [table for table in tree.find_all(exp.Table) if not table.db]:
        if table.name in before.get(id(table), stages):
            stage_tables.append(table)
        else:
            user_tables.add(table.name.casefold())
    used_names = user_tables.union(stages)
    names = {
        name: free_name(name, used_names.__contains__) if name in user_tables else name
        for name in stages
    }
    for table in stage_tables:
        if names[table.name] != table.name:
            table.set("alias", table.args.get("alias") or exp.TableAlias(this=table.this.copy()))
            table.set("this", exp.to_identifier(names[table.name]))
    for stage in tree.ctes:
        stage.args["alias"].set("this", exp.to_identifier(names[stage.alias]))
    return {new: old for old, new in names.items()}


def _quote(tree: Tree, dialect: Dialect) -> None:
    """The user's names as they are, unless an unquoted one is taken for another."""
    if dialect.folds == "upper":
        fold(tree)
        return
    stage_names = {stage.alias for stage in tree.find_all(exp.CTE)}
    for select in tree.find_all(exp.Select):
        tables = list(select.find_all(exp.Table))
        is_own = any(table.name in stage_names and not table.db for table in tables)
        for name in select.find_all(exp.Identifier) if tables and not is_own else ():
            if isinstance(name.parent, exp.Column | exp.Table):
                name.set("quoted", True)


def fold(tree: Tree) -> None:
    """Plain words that are quoted, since DuckDB needs it, as the unquoted ones are taken."""
    for name in tree.find_all(exp.Identifier):
        if name.quoted and re.fullmatch(r"[a-z_][a-z0-9_]*", name.name):
            name.set("this", name.name.upper())


def _divide(tree: Tree, _: Dialect) -> None:
    """Divisions as they stand: all our numbers are DOUBLE, and 0 is made NULL below the line."""
    for node in tree.find_all(exp.Div):
        node.set("typed", True)
        node.set("safe", False)


def _order(tree: Tree, dialect: Dialect) -> None:
    """Where NULLs stand is said of scores and grades alone."""
    nulls = sqlglot.Dialect.get_or_raise(dialect.grammar).NULL_ORDERING
    for node in tree.find_all(exp.Ordered):
        if node.this.name in NEVER_NULL:
            small_first = (nulls == "nulls_are_small") != bool(node.args.get("desc"))
            node.set("nulls_first", nulls != "nulls_are_last" and small_first)


def _read_numbers(tree: Tree, dialect: Dialect) -> None:
    """The checks' own functions: a cast that fails is told by the engine itself."""
    for node in list(tree.find_all(exp.TryCast)):
        cast = exp.Cast(this=node.this.copy(), to=node.to.copy())
        is_guessed = dialect.casts_texts and node.to.this == exp.DataType.Type.DOUBLE
        node.replace(_if_number(cast) if is_guessed else cast)
    for node in list(tree.find_all(exp.IsInf, exp.Anonymous)):
        if isinstance(node, exp.IsInf) or node.name.casefold() == "isfinite":
            node.replace(_compared(node))


def _if_number(cast: Tree) -> Tree:
    """A cast, NULL for what is no number: that does not equal itself plus 0."""
    value = exp.Add(this=cast.this.copy(), expression=exp.Literal.number("0"))
    is_number = exp.EQ(this=cast.this.copy(), expression=value)
    return exp.Case(ifs=[exp.If(this=is_number, true=cast)])


def _compared(node: Tree) -> Tree:
    """`isfinite(x)` or `isinf(x)`: no engine calls NaN between two numbers."""
    value = (node.expressions or [node.this])[0].sql("duckdb")
    between = f"({value} >= -{LARGEST} and {value} <= {LARGEST})"
    # NaN is beyond all numbers on some engines, but 1 / NaN is nowhere 0
    beyond = f"({value} > {LARGEST} or {value} < -{LARGEST})"
    beyond = f"({beyond} and 1e0 / nullif({value}, 0e0) = 0e0)"
    return sqlglot.parse_one(beyond if isinstance(node, exp.IsInf) else between, read="duckdb")


def _as_bytes(tree: Tree, dialect: Dialect) -> None:
    """Texts of any length, compared as bytes."""
    text_type = exp.DataType.build(dialect.text, dialect=dialect.grammar)
    name = exp.to_identifier(dialect.collation.strip('"'), quoted='"' in dialect.collation)
    for node in [node for node in tree.find_all(exp.Cast) if node.to.this in TEXTS]:
        node.set("to", text_type.copy())
        if dialect.collation:
            node.replace(exp.Collate(this=node.copy(), expression=name.copy()))


def _underflow(tree: Tree, dialect: Dialect) -> None:
    """0 for what is too small for 32 bits, as other engines make of it."""
    for node in list(tree.find_all(exp.Cast)) if dialect.fails_at_underflow else ():
        if node.to.this == FLOAT32:
            value = node.this.sql("duckdb")
            text = f"case when abs({value}) <= {SMALLEST} then 0e0 else {value} end"
            node.set("this", sqlglot.parse_one(text, read="duckdb"))


def _partition(tree: Tree, dialect: Dialect) -> None:
    """Equal numbers by their texts, where a window cannot be partitioned by them."""
    for window in tree.find_all(exp.Window) if not dialect.partitions_floats else ():
        for column in window.args.get("partition_by") or ():
            if column.name in FLOATS:
                text = exp.DataType.build(dialect.text, dialect=dialect.grammar)
                column.replace(exp.Cast(this=column.copy(), to=text))


def _unsign_zeros(tree: Tree, dialect: Dialect) -> None:
    """One zero, where -0.0 would be another score than 0.0."""
    for node in tree.find_all(exp.Alias) if dialect.signed_zero else ():
        if node.alias in FLOATS and isinstance(node.this, exp.Cast):
            zero = exp.Literal.number("0e0")
            node.set("this", exp.Add(this=node.this.copy(), expression=zero))
    stages = {stage.alias for stage in tree.ctes}
    for stage in tree.ctes if dialect.signed_zero else ():
        if stages.isdisjoint(table.name for table in stage.this.find_all(exp.Table)):
            _unsign_columns(stage.this)


def _unsign_columns(select: Tree) -> None:
    """The same for scores of any type, that are read as they are: a sum could round them."""
    for node in [
        expression for expression in select.expressions if expression.alias_or_name in FLOATS
    ]:
        if isinstance(node.unalias(), exp.Column):
            value = node.unalias().sql("duckdb")
            text = f"case when {value} = 0 then 0 else {value} end"
            node.replace(exp.alias_(sqlglot.parse_one(text, read="duckdb"), node.alias_or_name))


def _name_columns(tree: Tree, dialect: Dialect) -> None:
    """Every column of a select by its own name."""
    for select in tree.find_all(exp.Select) if dialect.names_columns else ():
        for column in [
            expression for expression in select.expressions if isinstance(expression, exp.Column)
        ]:
            if column.table and not column.is_star:
                column.replace(exp.alias_(column.copy(), column.name))


def _distribute(tree: Tree, dialect: Dialect) -> None:
    """What is joined by query, distributed by it before: the two tables, and all lists.

    The lists come from a join with the systems, and Spark would keep them in one task a system.
    """
    ctes = tree.ctes if dialect.distributes else ()
    tables = [(cte.alias, table) for cte in ctes for table in cte.find_all(exp.Table)]
    for table in (
        candidate
        for stage, candidate in tables
        if stage == "ranked" or candidate.name == "query_systems"
    ):
        rows = exp.select("*").from_(table.copy())
        query = exp.Ordered(this=exp.column("query_id"), nulls_first=True)
        rows.set("distribute", exp.Distribute(expressions=[query]))
        table.replace(rows.subquery(table.alias_or_name))


def _unfold(tree: Tree, dialect: Dialect) -> None:
    """Subqueries for the stages that follow from what was kept."""
    stages = {cte.alias: cte.this for cte in tree.ctes} if dialect.hides_kept else {}
    first = next(iter(stages.values()), None)
    if first is None or not any(table.name.startswith(KEPT) for table in first.find_all(exp.Table)):
        return
    tree.set("with_", None)
    while stage_tables := [table for table in tree.find_all(exp.Table) if table.name in stages]:
        for table in stage_tables:
            table.replace(stages[table.name].copy().subquery(table.alias_or_name))


def _type_numbers(tree: Tree, dialect: Dialect) -> None:
    """DOUBLEs where `1e0` alone would make decimals of what is computed with it.

    Beside a number of another type, or within a function of two, that type decides already.
    """
    for node in list(tree.find_all(exp.Literal)) if dialect.exact_literals else ():
        if not node.is_string and "e" in node.name and _decides(node):
            node.set("this", f"{node.name.removesuffix('e0')}::float8")


def _decides(number: Tree) -> bool:
    """Whether a number's type is that of an operation, or of the first value of a case."""
    above = number.parent
    if isinstance(above, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return True
    if isinstance(above, exp.Pow):  # of an integer, by which it would be a decimal
        return above.this is number and isinstance(above.expression, exp.Add | exp.Sub)
    case = above.parent if isinstance(above, exp.If) and above.args.get("true") is number else None
    if not isinstance(case, exp.Case):
        return False
    values = [branch.args["true"] for branch in case.args["ifs"]] + [case.args.get("default")]
    plain = all(value is None or isinstance(value, exp.Literal | exp.Null) for value in values)
    return plain and values[0] is number


_ROUNDING = exp.Literal.number("402653184e0")
"""2^28 + 2^27, whose neighbours among DOUBLEs are 2^-24 away: what it is added to is rounded so."""


def _add_in_parts(tree: Tree, dialect: Dialect) -> None:
    """Sums of floats that hardly depend on the order of the rows.

    The multiples of 2^-24 next to the values add up exactly, below 2^29; what is left of each value
    is so small that its sum rounds below the last bit of both together.
    """
    for call in list(tree.find_all(exp.Dot)) if dialect.adds_in_parts else ():
        if is_own_call(call) and call.expression.name == EXACT_SUM:
            (value,) = call.expression.expressions
            value = exp.paren(value) if isinstance(value, exp.Binary) else value
            rounded = exp.Sub(
                this=exp.Add(this=value.copy(), expression=_ROUNDING.copy()),
                expression=_ROUNDING.copy(),
            )
            rest = exp.Sub(this=value.copy(), expression=exp.paren(rounded))
            parts = exp.Add(this=exp.Sum(this=rounded), expression=exp.Sum(this=rest))
            is_whole = isinstance(call.parent, exp.Alias | exp.Func)
            call.replace(parts if is_whole else exp.paren(parts))


def _keep_whole(tree: Tree, dialect: Dialect) -> None:
    """Stages that one join alone reads, made once, where the database reads them for each row.

    SQLite puts the select of such a stage into the join, finds no index for its expressions, and
    reads the whole table for each row of the other. A limit keeps the stage apart, in all versions
    of SQLite, and it gets an index of its own.
    """
    if not dialect.inlines_joined:
        return
    readers = _readers(tree)
    for stage in tree.ctes:
        parents = readers.get(stage.alias, [])
        is_plain = isinstance(stage.this, exp.Select) and not any(
            stage.this.args.get(part) for part in ("group", "distinct", "limit")
        )
        if is_plain and len(parents) == 1 and isinstance(parents[0], exp.Join):
            stage.this.set("limit", exp.Limit(expression=APART.copy()))


def _readers(tree: Tree) -> dict[str, list[Tree]]:
    """Table or stage -> the parts of a query that read it, of stages that are read themselves."""
    body = tree.copy()
    body.set("with_", None)
    select_by_stage = {stage.alias: stage.this for stage in tree.ctes}
    readers: dict[str, list[Tree]] = {}
    selects = [body]
    while selects:
        for table in selects.pop().find_all(exp.Table):
            if table.name in select_by_stage and table.name not in readers:
                selects.append(select_by_stage[table.name])
            readers.setdefault(table.name, []).append(table.parent)
    return readers


CHANGES = (
    *(_quote, _divide, _order, _as_bytes, _underflow, _partition, _unsign_zeros, _name_columns),
    _type_numbers,
    _distribute,
    _unfold,
    _add_in_parts,
    _keep_whole,
)


# -- text -------------------------------------------------------------------------------


def printed(tree: Tree, dialect: Dialect) -> str:
    """A tree as text: indented, its words in lower case."""
    return finished(_printed(tree, dialect))


def _printed(tree: Tree, dialect: Dialect, room: int = LINE) -> str:
    """The same, with the user's own line breaks safe from what is indented around it."""
    best, longest = "", 0
    for width in WIDTHS:
        text = _of_width(tree, dialect, width, room)
        length = max(map(len, text.split("\n")))
        if not best or length < longest:
            best, longest = text, length
        if longest <= room:
            break
    return best


def _of_width(tree: Tree, dialect: Dialect, width: int, room: int) -> str:
    text = tree.sql(
        dialect.grammar,
        pretty=True,
        indent=INDENT,
        pad=INDENT,
        max_text_width=width,
        normalize_functions="lower",
        comments=False,
    )
    return _closed("".join(_lower(text, dialect)), room)


_OPENED = re.compile(r"^(.*\()\n +(.*)\n *(\).*)$", re.MULTILINE)
_ALONE = re.compile(
    r"^( *)(select|select distinct|where|having)\n\1    (.*)$(?!\n\1 )", re.MULTILINE
)
_TEXT = re.compile(r"'(?:[^'\\]|\\.|'')*'")
_WORD = re.compile(r"(\"|`)\w+\1")
_PARTS = re.compile(r"( *(?:\)+ )?)(.*?)( over \(|,|)$")
"""What a line has besides an expression: what was opened above it, and what goes on below."""
_KEYS = re.compile(r"^( *(?:group|order) by)((?:\n +.*,)*\n +.*)$", re.MULTILINE)


def _closed(text: str, room: int) -> str:
    """The text with what stands in parentheses, and with keys, on one line where they fit."""

    def opened(match: re.Match[str]) -> str:
        line = "".join(match.groups())
        fits = len(line) <= room or len(match[2]) <= SHORT
        return line if fits and MARK not in line else match[0]

    def keys(match: re.Match[str]) -> str:
        line = " ".join([match[1], *(key.strip() for key in match[2].strip().split("\n"))])
        is_balanced = line.count("(") == line.count(")")
        return line if is_balanced and len(line) <= room else match[0]

    before = ""
    while text != before:
        before, text = text, _OPENED.sub(opened, text)
    text = _ALONE.sub(r"\1\2 \3", _KEYS.sub(keys, text))
    return "\n".join(_broken(line, room) for line in text.split("\n"))


def _broken(line: str, room: int) -> str:
    """A long line on several, but for one with texts of the user's that may be broken by that."""
    plain = _WORD.sub(_hidden, _TEXT.sub(_hidden, line))
    if len(line) <= room or re.search("['\"`\\\\]", plain):
        return line
    before, body, after = _PARTS.findall(line)[0]
    lines = broken(body, room - len(before) - len(after))
    indentation = " " * (len(line) - len(line.lstrip()))
    return f"{before}{indent(lines, indentation).lstrip()}{after}"


def _hidden(match: re.Match[str]) -> str:
    return "x" * len(match[0])


def _lower(text: str, dialect: Dialect) -> Iterator[str]:
    """The text with its words in lower case, as all our SQL is; names and texts stay.

    A function of `FUNCTION_SCHEMA` stands by its name alone, which some take by its letters' case.
    """
    position = 0
    tokens = sqlglot.Dialect.get_or_raise(dialect.grammar).tokenize(text)
    schemas = [
        number
        for number, pieces in enumerate(zip(tokens, tokens[1:], tokens[3:], strict=False))
        if [piece.text for piece in pieces] == [FUNCTION_SCHEMA, ".", "("]
    ]
    left_out = {*schemas, *(number + 1 for number in schemas)}
    for number, token in enumerate(tokens):
        word = text[token.start : token.end + 1] if number not in left_out else ""
        is_ours = token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        lowered = word.lower() if word.isupper() else word
        yield text[position : token.start] + (lowered if is_ours else verbatim(word))
        position = token.end + 1
    yield text[position:]
