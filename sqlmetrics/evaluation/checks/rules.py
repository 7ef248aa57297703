"""What the input checks look for: one row per problem, with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmetrics.catalog.metric import AGE, is_column_role
from sqlmetrics.catalog.option import GainTable
from sqlmetrics.evaluation.checks.scores import TO_NUMBERS
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.shape import IS_NO, IS_YES, grade_case, segment
from sqlmetrics.sql.stage import equal
from sqlmetrics.sql.template import identifier, number

LARGEST = 1.7976931348623157e308
LARGEST_FLOAT32 = 3.4028234e38


@dataclass(frozen=True)
class RowCheck:
    """A condition that no row of a table may meet.

    Attributes:
        role: The column it is about.
        condition: SQL over {column}, and {number} for the column read as a number.
        problem: What is wrong with the rows that meet it.
        remedy: What to do.
        wanted: What no column can break that has this type already: `number`, `date`.
        number: How a {value} is read as a number.
    """

    role: str
    condition: str
    problem: str
    remedy: str
    wanted: str = ""
    number: str = "try_cast({value} as double)"

    def text(self, name: str, read: str = "{column}") -> str:
        """The condition for a column; `read` is how it is read before it is a number."""
        column = identifier(name)
        value = read.format(column=column)
        return self.condition.format(
            column=column,
            number=self.number.format(value=value),
            date=f"try_cast({value} as date)",
            text=f"cast({column} as varchar)",
        )


@dataclass(frozen=True)
class GroupCheck:
    """A query that must return nothing; its first column is how many rows it has in all.

    Attributes:
        table: The table it is about.
        template: The file under `templates/checks`.
        names: The columns that it returns after the count.
        problem: What is wrong; the count stands behind it.
        remedy: What to do.
        view: What the template prints.
        ranked: Whether it reads the stage `ranked`, beside those of the tables.
        clue: What of a `Screen` counts its suspects: where there is none, this finds nothing.
        innocent: A template of a query that costs little, and returns a row only if this one
            would return none; empty without one.
    """

    table: str
    template: str
    names: tuple[str, ...]
    problem: str
    remedy: str
    view: Mapping[str, Any]
    ranked: bool = False
    clue: str = ""
    innocent: str = ""

    @property
    def is_of_queries(self) -> bool:
        """Whether what it finds in all queries is what it finds in each part of them."""
        return "query_id" in self.names

    @property
    def is_of_labels(self) -> bool:
        """Whether it finds labels that stand more than once."""
        return (self.table, self.template) == ("labels", "repeated")


def _null(role: str) -> RowCheck:
    return RowCheck(role, "{column} is null", "is NULL", "leave these rows out or fill them in")


def _unreadable(role: str, kind: str = "number") -> RowCheck:
    condition = f"{{column}} is not null and {{{kind}}} is null"
    return RowCheck(role, condition, f"is not a {kind}", f"make it a {kind}", kind)


UNREADABLE_DAY = _unreadable("date", "date")

_FAR_DAY = RowCheck(
    "date",
    "{date} is not null\n    and {date} not between "
    "cast('0001-01-01' as date) and cast('9999-12-30' as date)",
    "is not a day from 0001-01-01 to 9999-12-30",
    "fix these rows or leave them out",
)
"""In place of days beyond, and of infinite ones, Python and other engines show others: an
infinite one is 9999-12-31 to some."""


def _outside(role: str, condition: str, problem: str, remedy: str) -> RowCheck:
    return RowCheck(role, "{number} is not null\n    and " + condition, problem, remedy)


_NAN = "not isfinite({number})\n    and not isinf({number})"
_FINITE = "not isfinite({number})"  # no range test: Parquet's statistics leave NaN out

_TREC = "no known suffix: read as TREC"
_NOT_WHOLE = "not ({number} between -9e15 and 9e15 and {number} = floor({number}))"

_UNEQUAL = RowCheck("lists", "{column} > 0", "is above 0", "make the lists of a row equally long")
HUGE = "1e100"
"""Numbers beyond it, squared and summed, leave what a DOUBLE holds."""


def _huge(role: str) -> RowCheck:
    beyond = f"abs({{number}}) > {HUGE} and abs({{number}}) <= {LARGEST!r}"
    return _outside(role, beyond, f"is beyond {HUGE}", "give it in another unit")


_WEIGHTS = (
    _huge("weight"),
    _outside(
        "weight",
        f"({_FINITE} or {{number}} < 0)",
        "is negative or not finite",
        "weights must be 0 or more",
    ),
)
_GRADES = (
    _unreadable("grade"),
    _outside("grade", _FINITE, "is NaN or infinite", "give it a finite grade"),
)
_TOO_LARGE = _huge("grade")
UNMAPPED = RowCheck(
    "grade",
    "{column} is not null and {number} is null",
    "has no number in grades",
    "add it to grades",
)
_NEGATIVE = _outside(
    "grade",
    f"{{number}} < 0 and {{number}} >= {-LARGEST!r}",
    "is negative",
    "set negative_grades=unjudged or negative_grades=zero, or fix these rows",
)

_VECTOR = "try_cast({column} as double[])"
_LARGEST_SIZE = f"list_max(list_transform({_VECTOR}, lambda one: abs(one)))"

OWN_ROLES = ("run line", "qrels line", "lists")
"""Roles of columns that no table has: they are made when it is read, for a check of its rows."""

ROW_CHECKS: Mapping[str, tuple[RowCheck, ...]] = {
    "rankings": (
        RowCheck(
            "run line", "{column} < 6", "is below 6", f"{_TREC}: query Q0 item rank score run"
        ),
        _UNEQUAL,
        _null("query"),
        _null("item"),
        _null("system"),
        _null("date"),
        UNREADABLE_DAY,
        _FAR_DAY,
        _null("score"),
        _unreadable("score"),
        _outside("score", _NAN, "is NaN", "score these rows or leave them out"),
        _null("rank"),
        _unreadable("rank"),
        _outside("rank", _NOT_WHOLE, "is not a whole number", "rank the items 1, 2, 3, ..."),
        _outside("rank", "{number} < 1", "is below 1", "rank the items 1, 2, 3, ..."),
        _null("weight"),
        _unreadable("weight"),
        *_WEIGHTS,
    ),
    "labels": (
        RowCheck(
            "qrels line", "{column} < 4", "is below 4", f"{_TREC}: query iteration item grade"
        ),
        _UNEQUAL,
        _null("query"),
        _null("item"),
        _null("group"),
        _null("date"),
        UNREADABLE_DAY,
        _FAR_DAY,
        _null("grade"),
    ),
    "queries": (
        _null("query"),
        _null("date"),
        UNREADABLE_DAY,
        _FAR_DAY,
        _null("weight"),
        _unreadable("weight"),
        *_WEIGHTS,
    ),
    "items": (
        _null("item"),
        _null("category"),
        _null("popularity"),
        _unreadable("popularity"),
        _outside(
            "popularity",
            f"({_FINITE} or {{number}} < 0)",
            "is negative or not finite",
            "popularity must be a count, 0 or more",
        ),
        _huge("popularity"),
        _null("users"),
        _unreadable("users"),
        _outside(
            "users",
            f"({_FINITE} or {{number}} < 1)",
            "is below 1 or not finite",
            "users must be the number of all users, the same for each item",
        ),
        _huge("users"),
        _null("vector"),
        RowCheck(
            "vector", f"{_VECTOR} is null", "is not a list of numbers", "give a list of numbers"
        ),
        RowCheck(
            "vector",
            f"list_count({_VECTOR}) < len({_VECTOR}) or not isfinite(list_sum({_VECTOR}))",
            "holds NULL, NaN or infinite numbers",
            "give the item a finite vector",
        ),
        RowCheck(
            "vector",
            f"len({_VECTOR}) = 0 or list_min({_VECTOR}) = 0 and list_max({_VECTOR}) = 0",
            "has the length 0, so it has no direction",
            "leave such items out, or give them a vector",
        ),
        RowCheck(
            "vector",
            f"{_LARGEST_SIZE} > {HUGE}\n    or {_LARGEST_SIZE} > 0e0 and {_LARGEST_SIZE} < 1e-100",
            f"has numbers beyond {HUGE}, or none above 1e-100",
            "scale them; only the direction counts",
        ),
    ),
}


def row_checks(plan: Plan, table: str) -> list[RowCheck]:
    """The conditions for the columns that a table has."""
    columns = _column_checks(plan, table)
    rows = [*ROW_CHECKS[table], *columns, *_grouped_digits(plan, table), *_SPECIAL[table](plan)]
    return [row for row in rows if row.role in plan.shape.columns[table]]


def _column_checks(plan: Plan, table: str) -> Iterator[RowCheck]:
    """What is asked of the columns that metrics name themselves; NULL is allowed."""
    metrics = [measure.metric for measure in plan.spec.components]
    worths = {metric.operand for metric in metrics if metric.operand_table == "labels"}
    for role in filter(is_column_role, plan.shape.columns[table]):
        if role.startswith("text_"):
            continue
        if role.startswith(f"{AGE}_"):
            yield replace(_unreadable(role, "date"), problem="is not a day or a time")
            yield replace(_FAR_DAY, role=role)
            continue
        if role.startswith("flag_"):
            unknown_flag = f"{{column}} is not null and not ({IS_YES} or {IS_NO})"
            remedy = "give a column of true and false, yes and no, or 1 and 0"
            yield RowCheck(role, unknown_flag, "is neither yes nor no", remedy)
            continue
        hint = " (share() takes yes and no)" * (table == "items")
        yield replace(_unreadable(role), problem=f"is not a number{hint}")
        yield _outside(role, _FINITE, "is NaN or infinite", "leave it NULL where it is not known")
        yield _huge(role)
        if table == "labels" and role in worths:
            yield _outside(role, "{number} < 0", "is below 0", "a label is worth 0 or more")


def _grouped_digits(plan: Plan, table: str) -> Iterator[RowCheck]:
    """Texts like `1_000`, which DuckDB alone takes for a number."""
    if plan.translation.changes:
        return
    mapped = {"grade"} if plan.spec.truth.grades else set()
    numbers = [row.role for row in ROW_CHECKS[table] if row.wanted == "number"]
    for role in [*numbers, *(["grade"] if table == "labels" else [])]:
        if role not in mapped:
            grouped = "typeof({column}) = 'VARCHAR' and contains({text}, '_')"
            yield RowCheck(role, grouped, "has a _ in it", "write only digits", "number")


def _score_checks(plan: Plan) -> Iterator[RowCheck]:
    is_exact = plan.spec.options["score_precision"] == "exact"
    if is_exact and not plan.translation.changes:  # elsewhere no row tells its type
        is_text = "typeof({column}) = 'VARCHAR'"
        yield RowCheck("score", is_text, "is a text, which is not compared as a number", TO_NUMBERS)
    if plan.spec.options["score_precision"] == "float32":
        too_wide = f"abs({{number}}) between {LARGEST_FLOAT32!r} and {LARGEST!r}"
        remedy = "use score_precision=double"
        yield _outside("score", too_wide, "does not fit 32 bits", remedy)


def _grade_checks(plan: Plan) -> Iterator[RowCheck]:
    """What is asked of grades: of the numbers that texts stand for as of others."""
    grades = plan.spec.truth.grades
    if not grades:
        yield from (*_GRADES, *_grades_outside(plan))
        return
    value = grade_case("cast({value} as varchar)", grades, braces=True)
    for row in (UNMAPPED, *_grades_outside(plan)):
        yield replace(row, number=value)


def _grades_outside(plan: Plan) -> Iterator[RowCheck]:
    if plan.spec.options["negative_grades"] == "error":
        yield _NEGATIVE
    yield _TOO_LARGE
    yield from _gain_checks(plan)
    for most in _max_grades(plan):
        yield _outside("grade", f"{{number}} > {number(most)}", *_above(most))


def _max_grades(plan: Plan) -> Iterator[float]:
    """The grades above which a metric makes no sense."""
    components = plan.spec.components
    limited = [measure for measure in components if "max_grade" in measure.metric.parameters]
    yield from dict.fromkeys(
        plan.spec.settings(measure).parameter("max_grade") for measure in limited
    )


def _above(most: float) -> tuple[str, str]:
    remedy = "give the highest grade of the labels, like err(max_grade=4)@10"
    return f"is above max_grade={number(most)}", remedy


def _gain_checks(plan: Plan) -> Iterator[RowCheck]:
    measures = [measure for measure in plan.spec.components if "gain" in measure.metric.options]
    gains = dict.fromkeys(plan.spec.settings(measure)["gain"] for measure in measures)
    if "exp" in gains:
        too_large = f"{{number}} > 1000 and {{number}} <= {HUGE}"
        yield _outside("grade", too_large, "is too large for gain=exp", "use gain=linear")
    for gain in (gain for gain in gains if isinstance(gain, GainTable)):
        grades = ", ".join(number(grade) for grade in (0, *gain))
        outside = f"{{number}} >= 0 and {{number}} not in ({grades})"
        yield _outside("grade", outside, f"has no gain in the table {gain}", "add it to the table")


def _no_checks(_: Plan) -> Iterator[RowCheck]:
    return iter(())


_SPECIAL: Mapping[str, Callable[[Plan], Iterator[RowCheck]]] = {
    "rankings": _score_checks,
    "labels": _grade_checks,
    "queries": _no_checks,
    "items": _no_checks,
}


def group_checks(plan: Plan) -> Iterator[GroupCheck]:
    """The groups of rows that the spec does not allow."""
    for checks in (_repeats, _orders, _unjudged, _varying, _undescribed, _common, _unknown):
        yield from checks(plan)


def _repeats(plan: Plan) -> Iterator[GroupCheck]:
    options, names = plan.spec.options, plan.shape.names
    if options["duplicate_rankings"] == "error":
        keys = (*plan.shape.keys, "item_id")
        yield _repeated(plan, "rankings", keys, "duplicate_rankings=best_score")
    if options["duplicate_labels"] == "error":
        yield _repeated(plan, "labels", plan.shape.labelled_keys, "duplicate_labels=max_grade")
    if "queries" in names:
        yield GroupCheck(
            "queries",
            "repeated",
            (*plan.shape.keys_of_queries, "rows"),
            "queries that appear more than once in the queries table",
            "keep one row per query",
            {"table": names["queries"], "keys": plan.shape.keys_of_queries, "with_ids": []},
        )
    if "items" in names:
        yield GroupCheck(
            "items",
            "repeated",
            ("item_id", "rows"),
            "items that appear more than once in the items table",
            "keep one row per item",
            {"table": names["items"], "keys": ("item_id",), "with_ids": []},
        )


def _orders(plan: Plan) -> Iterator[GroupCheck]:
    options, keys = plan.spec.options, plan.shape.keys
    order = plan.shape.sorters[0]
    merges = options["duplicate_rankings"] == "best_score"
    if order == "given_rank" and not merges:
        yield GroupCheck(
            "rankings",
            "ranks",
            (*keys, "lowest", "highest", "rows"),
            "lists that are not ranked 1, 2, ... n without a gap",
            "give a score instead, or renumber the ranks",
            {"keys": keys, **plan.shape.names},
            clue="gaps",
        )
    if options["ties"] == "error":
        best = "max" if order == "score" else "min"
        yield GroupCheck(
            "rankings",
            "ties",
            (*keys, order, "rows"),
            "equal scores in one list" if order == "score" else "equal ranks in one list",
            "choose an order for them: ties=id_asc, id_desc or input_order",
            {"keys": keys, "order": order, "best": best, "merges": merges, **plan.shape.names},
        )


def _unjudged(plan: Plan) -> Iterator[GroupCheck]:
    if plan.spec.options["unjudged"] != "error":
        return
    names, label_keys = plan.shape.names, plan.shape.label_keys
    yield GroupCheck(
        "rankings",
        "unjudged",
        (*plan.shape.keys, "item_id"),
        "ranked items without a label, in labelled queries",
        "set unjudged=nonrelevant or unjudged=condensed, or label them",
        {
            "keys": plan.shape.keys,
            "label_keys": label_keys,
            "query": equal("labelled", names["rankings"], label_keys),
            "item": equal(names["labels"], names["rankings"], (*label_keys, "item_id")),
            **names,
        },
    )


def _varying(plan: Plan) -> Iterator[GroupCheck]:
    of_log = plan.spec.clicks is not None
    for name, column in _facts(plan):
        where = f"clicks.impressions.where: {name} is not null, if some rows lack it" * of_log
        yield GroupCheck(
            "rankings",
            "varying",
            (*plan.shape.query_keys, "one value", "another"),
            f"queries whose rows differ in {name}",
            f"a query must have one value: fix these rows, or leave some out ({where or 'where'})",
            {"keys": plan.shape.query_keys, "column": column, **plan.shape.names},
        )


def _undescribed(plan: Plan) -> Iterator[GroupCheck]:
    """Shown items of which metrics need to know more, and vectors that do not compare."""
    described = next(
        (stage.view for stage in plan.per_query if stage.name == "item_features"), None
    )
    if described is None:
        return
    rule_by_problem = {"are not in the items table": ("", "add them to the items table")}
    if "popularity" in described["roles"]:
        remedy = "add them to the items table, or add 1 to the popularity of every item"
        rule_by_problem = {
            "have no popularity in the items table, or 0": ("items.popularity > 0e0", remedy)
        }
    if "users" in described["roles"]:
        message = "have no popularity in the items table, or 0, or more than there are users"
        among = "items.popularity > 0e0 and items.popularity <= items.users"
        rule_by_problem = {
            message: (among, "add them to the items table; here popularity counts users, 1 or more")
        }
    for problem, (condition, remedy) in rule_by_problem.items():
        yield GroupCheck(
            "rankings",
            "undescribed",
            (*plan.shape.keys, "item_id"),
            f"ranked items that {problem}",
            remedy,
            {**described, "condition": condition.replace("items", described["items"])},
            ranked=True,
        )
    if "vector" in described["roles"]:
        yield GroupCheck(
            "items",
            "dimensions",
            ("dimensions", "items", "like"),
            "vectors of different lengths",
            "give vectors of one length, from one model",
            described,
        )


def _common(plan: Plan) -> Iterator[GroupCheck]:
    names = plan.shape.names
    yield GroupCheck(
        "both tables",
        "common",
        ("query_id in rankings", "query_id in labels"),
        "queries with a ranking and a label",
        "compare the ids: type, case, spaces, leading zeros",
        {
            "on": equal(names["labels"], names["rankings"], plan.shape.label_keys),
            "first": equal("first_labels", names["rankings"], plan.shape.label_keys),
            "keys": plan.shape.label_keys,
            **names,
        },
        innocent="in_common",
    )


def _unknown(plan: Plan) -> Iterator[GroupCheck]:
    if any(measure.metric.over == "pooled_items" for measure in plan.measures):
        yield GroupCheck(
            "rankings",
            "unknown",
            ("item_id",),
            "ranked items that are not in the items table",
            "add them to the items table, or rank only items of the catalogue (where)",
            {**plan.shape.names},
        )


def _repeated(plan: Plan, table: str, keys: Sequence[str], policy: str) -> GroupCheck:
    translation = plan.translation
    dialect = translation.dialect
    item = translation.user_text(
        translation.over_column(dialect.quick_hash or "{column}", "item_id")
    )
    list_keys = [key for key in keys if key != "item_id"]
    innocent = "all_differ" if dialect.row_hash else "unrepeated" if dialect.quick_hash else ""
    row_hash = translation.user_text(dialect.row_hash.format(columns=", ".join(keys)))
    return GroupCheck(
        table,
        "repeated",
        (*keys, "rows"),
        f"items that appear more than once for the same {_within(keys)}",
        f"remove the repeated rows, or choose {policy}",
        {
            "table": plan.shape.names[table],
            "keys": keys,
            "list_keys": list(map(_text, _of_list(keys))),
            "within": list_keys,
            "item": item,
            "row_hash": row_hash,
            "with_ids": [],
        },
        clue="alike",
        innocent=innocent,
    )


def _within(keys: Sequence[str]) -> str:
    return "query and group" if "group_id" in keys else "query"


def _of_list(keys: Sequence[str]) -> list[str]:
    return [key for key in keys if key not in ("item_id", "group_id")]


def _text(key: str) -> str:
    return f"cast({key} as varchar)" if key == "metric_date" else key


def _facts(plan: Plan) -> Iterator[tuple[str, str]]:
    """The facts that stand in the rankings: what users call them, and their columns."""
    for name in plan.shape.segments["rankings"]:
        yield name, segment(name)
    if plan.shape.weighted == "rankings":
        yield plan.shape.columns["rankings"]["weight"], "weight"
