"""The result of `combine`: the labels, and what they change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlmetrics.agreement.agreement import SCHEMAS as OF_AGREEMENT
from sqlmetrics.agreement.agreement import system_tables
from sqlmetrics.agreement.calibration import EVERY
from sqlmetrics.catalog.option import plain
from sqlmetrics.tables.table import Table, many, metric_value, printable
from sqlmetrics.tables.tabular import ArrowTables, Block, Kinds, Row, Tabular, arrow_tables

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMAS: dict[str, Kinds] = {
    "changes": {
        **dict.fromkeys(("method", "judge"), "string"),
        **dict.fromkeys(("n_labels", "n_changed"), "int64"),
        "share_changed": "double",
        "n_added": "int64",
        **dict.fromkeys(("mean_grade", "combined_mean", "accuracy"), "double"),
    },
    "chances": {"judge": "string", **dict.fromkeys(("true_grade", "grade", "chance"), "double")},
    "calibration": {
        **dict.fromkeys(("judge", "systems"), "string"),
        "grade": "double",
        "n_pairs": "int64",
        **dict.fromkeys(("mean_grade", "calibrated"), "double"),
    },
    **{name: OF_AGREEMENT[name] for name in ("systems", "orders")},
}
"""Table -> its columns, but for the labels."""


@dataclass(frozen=True, repr=False)
class Combination(Tabular):
    """One label of several judges'; it prints as tables of what changes.

    Attributes:
        table: The labels; no row of those that were written to a table.
        methods: How labels became one.
        judges: The judges in their order.
        changes: One row per method and judge: labels, those that the one label differs from
            (`n_changed`) and their share, pairs that have a label now (`n_added`), and the mean
            of the judge's grades beside that of the one label of the same pairs; of dawid_skene
            also how often the judge is expected to give the true grade (`accuracy`).
        chances: Of dawid_skene, one row per judge, true grade and grade: the chance that the
            judge gives it.
        calibration: Of calibrated, one row per judge but the first and grade, and per group of
            systems that show a pair (`systems`; `all` where that makes no difference): pairs that
            the first judge graded too, the mean of its grades, and what the grade is worth.
        systems: With metrics, one row per metric and system by the labels of the first judge and
            of a method; see `Agreement`.
        orders: With metrics, one row per metric: how alike the systems are ordered.
        notes: What a reader should know.
        sql: The query of the labels, in the words of the database; or the statements that write
            them.
        into: The table that they were written to; empty if `table` has the rows.
        n_rows: How many rows were written.
    """

    table: pa.Table
    methods: tuple[str, ...]
    judges: tuple[str, ...]
    changes: tuple[Row, ...]
    chances: tuple[Row, ...]
    notes: tuple[str, ...]
    sql: str
    calibration: tuple[Row, ...] = ()
    systems: tuple[Row, ...] = ()
    orders: tuple[Row, ...] = ()
    into: str = ""
    n_rows: int = 0

    def __len__(self) -> int:
        return self.n_rows or int(self.table.num_rows)

    def _arrow_tables(self) -> ArrowTables:
        rows = {name: getattr(self, name) for name in SCHEMAS}
        return {"labels": lambda: self.table, **arrow_tables(rows, SCHEMAS)}

    def _blocks(self) -> Iterator[Block]:
        means = ["mean_grade", "combined_mean"]
        means += ["accuracy"] if self.chances else []
        rows = [
            [
                *(row["method"], printable(row["judge"])),
                *(f"{row[name]:,}" for name in ("n_labels", "n_changed", "n_added")),
                *(metric_value(row[name]) for name in means),
            ]
            for row in self.changes
        ]
        names = ["method", "judge", "graded pairs", "changed", "added", "mean grade", "new mean"]
        yield Table([*names, *means[2:]], rows, 2)
        if self.calibration:
            has_groups = any(row["systems"] != EVERY for row in self.calibration)
            cells = [
                [
                    printable(row["judge"]),
                    *([printable(row["systems"])] if has_groups else []),
                    *(plain(row["grade"]), f"{row['n_pairs']:,}"),
                    *(metric_value(row[name]) for name in ("mean_grade", "calibrated")),
                ]
                for row in self.calibration
            ]
            title = f"what grades are worth, by those of {printable(self.judges[0])}"
            groups = ["shown by"] if has_groups else []
            names = ["judge", *groups, "grade", "graded pairs", "mean grade", "calibrated"]
            yield Table(names, cells, 1 + has_groups, title=title)
        for method in self.methods:
            of_method = [
                [row for row in table if row["other_judge"] == method]
                for table in (self.systems, self.orders)
            ]
            if of_method[0]:
                yield from system_tables(self.judges[0], method, *of_method)
        where = f"{printable(self.into)}: " if self.into else ""
        counted = f"{where}{many(len(self), 'label')}" if len(self) else "no label was written"
        yield "\n".join([counted, *(f"note: {note}" for note in self.notes)])
