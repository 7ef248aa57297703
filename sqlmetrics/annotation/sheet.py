"""Labelling sheets: which items people should grade, with what they need to see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from math import floor
from typing import Any

from sqlmetrics.annotation import csv_file, pool
from sqlmetrics.annotation.csv_file import fingerprint
from sqlmetrics.annotation.pool import TURN, Queue, check_rankings, facts, texts
from sqlmetrics.annotation.sample import Sample
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.output_files import GRADED
from sqlmetrics.errors import SpecError, shortened
from sqlmetrics.evaluation.arguments import check_count
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, equal, print_template, with_stages
from sqlmetrics.tables.table import many

IDS = ("metric_date", "query_id", "item_id")
TEXTS = ("query_text", "item_title")
PRIORITY_COLUMNS = ("best_rank", "n_lists", "value")
GRADE, KEY = GRADED
ASSESSOR = "assessor"
COLUMNS = (ASSESSOR, *IDS, *TEXTS, *PRIORITY_COLUMNS, TURN, GRADE, KEY)
"""All columns that a sheet can have, in their order."""

ROUNDING = 1e9
"""Values are rounded to 1 / ROUNDING, so that the order of a sum decides no place."""


@dataclass(frozen=True)
class Sheet:
    """Rows to be graded.

    Attributes:
        names: The columns, among COLUMNS.
        rows: One row per query and item (and day, where labels have one).
        executed_sql: The query that found them.
        notes: What people should know of them.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    executed_sql: str
    notes: tuple[str, ...] = ()

    @property
    def n_formulas(self) -> int:
        """How many rows have an id that a spreadsheet would take for a formula."""
        places = [self.names.index(name) for name in IDS[1:]]
        return sum(any(csv_file.is_formula(row[index]) for index in places) for row in self.rows)

    def keyed(self, name: str) -> list[tuple[Any, Any]]:
        """The query (and day) of each row, and its value in a column."""
        places = [self.names.index(key) for key in IDS[:2] if key in self.names]
        column = self.names.index(name)
        return [(tuple(row[index] for index in places), row[column]) for row in self.rows]

    def __str__(self) -> str:
        """The sheet as CSV: ids exactly as they are, an empty grade, and a key of the ids."""
        ids = [name for name in self.names if name in IDS]
        rows = []
        for row in self.rows:
            values = {name: _cell(name, v) for name, v in zip(self.names, row, strict=True)}
            key = csv_file.fingerprint(*(str(values[name]) for name in ids))
            rows.append([*values.values(), None, key])
        return csv_file.csv_text([*self.names, GRADE, KEY], rows)


def unjudged_sheet(
    spec: Spec,
    engine: Database,
    k: int,
    *,
    queue: Queue | None = None,
    labelled_queries: bool = False,
    check: bool | float = True,
    has_labels: bool = True,
) -> Sheet:
    """The items without a label in the top k of any list, the most valuable first or in turns.

    The value of a query's item is the sum, over the lists (systems and days) that show it
    in their top k, of discount(rank) x weight of the query: what the sum of DCG@k over all
    lists would gain if the item were worth a gain of 1. The discount is the spec's. Without
    weights every query weighs 1; a query whose weight is not known weighs 0. Values are
    rounded to 9 decimals; equal ones are ordered by query and item id.

    Args:
        spec: The evaluation.
        engine: Where the tables are.
        k: How many items of each list are looked at, 1 or more.
        queue: How many rows, and in what order; None for all, the most valuable first.
        labelled_queries: Whether to leave out queries that have no label at all, which
            no mean over labelled queries counts.
        check: Whether to look for bad input first.
        has_labels: Whether there are labels yet; else no item has one.

    Raises:
        SpecError: If k is not 1 or more, or the queue is of a number or system that is none.
        InputError: If the data would give wrong numbers.
    """
    check_count("k", k)
    queue = queue or Queue()
    queue.check()
    plan = make_plan(spec, opened(spec, engine))
    if check:
        checks.check_inputs(
            plan, engine, ignored_tables=() if has_labels else ("labels", "both tables")
        )
    queue.check_systems(plan, engine)
    lists = pool.stages(plan, with_labels=has_labels, with_grades=queue.reads_grades)
    pool_stage = _unjudged_stage(plan, k, labelled_queries, queue)
    rows = queue.placed(plan, pool_stage, _rounded("pool_items.value"))
    sheet = _sheet(plan, engine, [*queue.lists(plan, lists), *rows], PRIORITY_COLUMNS, queue)
    return (
        replace(sheet, notes=tuple(queue.notes(sheet.keyed(TURN), k))) if queue.has_turns else sheet
    )


def sheet_of_sample(spec: Spec, engine: Database, k: int, sample: Sample) -> Sheet:
    """All items that any system shows in its top k for the sampled queries, or the sampled pairs.

    Labels are not looked at, and need not be there: a sample is graded afresh. Ranks,
    values and how many systems show an item are left out and the items come in the order
    of their ids, so that nothing hints at a grade.

    Args:
        spec: The evaluation.
        engine: Where the tables are.
        k: How many items of each list are looked at, 1 or more.
        sample: The sampled queries.

    Raises:
        SpecError: If k is not 1 or more, or the sample has days and the spec has none, or
            the other way round.
    """
    check_count("k", k)
    plan = make_plan(spec, opened(spec, engine))
    check_rankings(plan, engine)
    sampled = sample.stage(plan, engine)
    view = {
        "about": f"one row per sampled query and item in the top {k} of a list",
        "keys": _keys(plan, "ranked"),
        "columns": [],
        "joins": {"inner join sample_queries": equal("sample_queries", "ranked", sample.unit_keys)},
        "where": [f"rnk <= {sample.depth if sample.has_items else k}"],
    }
    stages = [*pool.stages(plan, with_labels=False), sampled]
    rows = Stage("pool", "annotation/pool", view)
    return _sheet(plan, engine, [*stages, rows])


def _unjudged_stage(plan: Plan, k: int, labelled_queries: bool, queue: Queue) -> Stage:
    context = facts(plan.shape, "ranked")
    discount = OPTIONS["discount"].choice(plan.spec.options["discount"])
    value_sql = discount.sql.format(rank="rnk")
    if context.weight:
        value_sql = f"{value_sql} * coalesce({context.weight}, 0e0)"
    where = [f"rnk <= {k}", "is_labelled = 0"]
    if labelled_queries:
        labels = plan.shape.names["labels"]
        on = "\n            and ".join(equal(labels, "ranked", plan.shape.label_keys))
        where.append(
            f"exists (\n        select 1\n        from {labels}\n        where {on}\n    )"
        )
    joins = context.joins if context.weight and not context.weight.startswith("ranked.") else {}
    view = {
        "about": f"one row per query and item without a label in the top {k} of a list",
        "keys": _keys(plan, "ranked"),
        "columns": [
            Column("min(rnk)", "best_rank"),
            Column("count(*)", "n_lists"),
            Column(f"sum({value_sql})", "value"),
            *queue.columns,
        ],
        "joins": {f"left join {name}": on for name, on in joins.items()},
        "where": where,
    }
    return Stage("pool", "annotation/pool", view)


def _sheet(
    plan: Plan,
    engine: Database,
    stages: list[Stage],
    value_columns: tuple[str, ...] = (),
    queue: Queue | None = None,
) -> Sheet:
    """The rows of the stage `pool`, with texts."""
    queue = queue or Queue()
    lookups = texts(plan, engine)
    keys = [name for name in IDS if name in (*plan.shape.label_keys, "item_id")]
    stages = [*lookups.values(), *stages]
    columns = [Column(f"pool.{key}", key) for key in keys]
    columns += [
        Column(f"{lookups[name].name}.{name}" if name in lookups else "''", name) for name in TEXTS
    ]
    columns += [
        Column(_rounded(f"pool.{name}") if name == "value" else f"pool.{name}", name)
        for name in (*value_columns, *([TURN] if queue.has_turns else []))
    ]
    by_value = ["value desc"] if value_columns and not queue.has_turns else []
    view = {
        "columns": columns,
        "joins": _text_joins(lookups),
        "where": queue.where,
        "order": [*by_value, *queue.sorters, *(f"pool.{key} asc" for key in keys)],
        "limit": queue.limit,
    }
    sql = with_stages(stages, print_template("annotation/sheet", view))
    rows = tuple(engine.rows(sql))
    return Sheet(tuple(column.name for column in columns), rows, sql)


def _keys(plan: Plan, stage: str) -> list[str]:
    return [f"{stage}.{key}" for key in (*plan.shape.label_keys, "item_id")]


def _rounded(column: str) -> str:
    return f"floor({column} * {ROUNDING:.0e} + 0.5e0) / {ROUNDING:.0e}".replace("e+0", "e")


def _text_joins(lookups: Mapping[str, Stage]) -> dict[str, list[str]]:
    keys = {"query_text": "query_id", "item_title": "item_id"}
    return {stage.name: equal(stage.name, "pool", (keys[n],)) for n, stage in lookups.items()}


def _cell(name: str, value: Any) -> object:
    if name in TEXTS:
        return csv_file.escape_formula(value)
    return value.isoformat() if isinstance(value, date) else value


# Sheets by assessor: a query goes to one person, and a share of the pairs to a second one.
#
# One person grades all items of a query, so that they are graded alike. The largest query goes
# first,
# each to whoever has the fewest rows. Pairs that two people grade are drawn by lot; the second is
# whom the first has the fewest pairs in common with, then whoever has the fewest rows. So each two
# of
# them share some, which `agree` needs.

_NO_FILE = frozenset('/\\:*?"<>|\0\n\r\t')
"""What the name of a file cannot have on some system."""


@dataclass(frozen=True)
class Assessors:
    """Who grades.

    Attributes:
        names: The people, in their order.
        overlap: The share of the pairs that two of them grade, 0 to 1.
    """

    names: tuple[str, ...]
    overlap: float = 0.0

    def check(self) -> None:
        """Raise SpecError for people or a share that cannot be."""
        folded = [name.casefold() for name in self.names]
        for name in self.names:
            if folded.count(name.casefold()) > 1:
                raise SpecError(
                    f"each assessor must be named once, in upper or lower case, given {name!r} and "
                    "again"
                )
            if _NO_FILE & {*name} or name.startswith("."):
                raise SpecError(
                    f"an assessor is the name of a file, too; give another one than "
                    f"{shortened(repr(name))}"
                )
        if not 0 <= self.overlap <= 1:
            raise SpecError(
                f"overlap must be a share from 0 to 1, like 0.1, given {self.overlap:g}"
            )
        if self.overlap and len(self.names) < 2:
            raise SpecError("overlap needs two assessors or more; name them with --assessors")

    def dealt(self, sheet: Sheet) -> Sheet:
        """The rows of a sheet with their assessors, without what hints at a grade."""
        names = [name for name in sheet.names if name in (*IDS, *TEXTS)]
        places = [sheet.names.index(name) for name in names]
        n_ids = sum(name in IDS for name in names)
        rows = sorted(tuple(row[index] for index in places) for row in sheet.rows)
        n_rows = Counter(dict.fromkeys(self.names, 0))
        sizes = Counter(row[names.index("query_id")] for row in rows)
        first = {}
        for query in sorted(sizes, key=lambda query: (-sizes[query], fingerprint(query), query)):
            first[query] = min(self.names, key=n_rows.__getitem__)
            n_rows[first[query]] += sizes[query]
        dealt = [(first[row[names.index("query_id")]], row) for row in rows]
        in_common: Counter[tuple[str, str]] = Counter()
        by_lot = sorted(dealt, key=lambda pair: fingerprint("overlap", *map(str, pair[1][:n_ids])))
        for grader, row in by_lot[: floor(self.overlap * len(rows) + 0.5)]:
            waiting = [
                (in_common[grader, name], n_rows[name], index)
                for index, name in enumerate(self.names)
                if name != grader
            ]
            second = self.names[min(waiting)[-1]]
            in_common.update([(grader, second), (second, grader)])
            n_rows[second] += 1
            dealt.append((second, row))
        dealt.sort(key=lambda pair: (self.names.index(pair[0]), pair[1]))
        parts = ", ".join(f"{name} {n_rows[name]:,}" for name in self.names)
        twice = f"; {many(len(dealt) - len(rows), 'pair')} twice" if self.overlap else ""
        return replace(
            sheet,
            names=(ASSESSOR, *names),
            rows=tuple((name, *row) for name, row in dealt),
            notes=(*sheet.notes, f"rows by assessor: {parts}{twice}"),
        )


def sheet_by_assessor(sheet: Sheet, names: Sequence[str]) -> dict[str, Sheet]:
    """The rows of each assessor; of one who has none an empty sheet."""
    return {
        name: replace(sheet, rows=tuple(row for row in sheet.rows if row[0] == name))
        for name in names
    }
