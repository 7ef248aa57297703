"""What an evaluation gives: the numbers, with what was asked and what was executed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.errors import SpecError, unknown
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import translated
from sqlmetrics.spec.days import day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats.estimate import INTERVAL
from sqlmetrics.tables.table import Table, terminal_width
from sqlmetrics.tables.tabular import ArrowTables, Row, Tabular, json_lines

if TYPE_CHECKING:
    import pyarrow as pa

KEYS = ("metric_date", "system", "query_id")

PLACES = ("metric_date", "segment_name", "segment_value", "system")
"""What tells rows of one metric apart."""

COLUMNS: Mapping[str, str] = {
    "spec": "VARCHAR",
    "metric_date": "DATE",
    **dict.fromkeys(("system", "segment_name", "segment_value", "metric"), "VARCHAR"),
    "k": "BIGINT",
    **dict.fromkeys(("value", "numerator", "denominator"), "DOUBLE"),
    **dict.fromkeys(("n_queries", "n_skipped", "n_missing"), "BIGINT"),
    "sum_sq": "DOUBLE",
    "definition_hash": "VARCHAR",
}
"""The columns of the fact table, and their types in DuckDB's words."""

NAMES = ("metric", "column")
"""What the metrics of a dict may be called by."""


@dataclass(frozen=True, repr=False)
class Result(Tabular):
    """The numbers of an evaluation.

    It prints as a table, also in a notebook. `result["ndcg@10"]` is a float if there is one system,
    no segment and no date, else the result of that metric alone; `dict(result)` has all metrics by
    name.

    Attributes:
        spec: The spec of the evaluation.
        measures: The metrics.
        executed_sql: The statements that ran, input checks included, as one script.
        notes: Sentences about the input that a reader should know.
        list_keys: The columns that identify a ranked list in the input.
    """

    spec: Spec
    measures: tuple[Measure, ...]
    executed_sql: str
    notes: tuple[str, ...]
    list_keys: tuple[str, ...]
    _rows: tuple[Row, ...]
    _per_query: pa.Table | None
    _plan: Plan
    _lazy: Mapping[bool, Callable[[], Any]] = field(default_factory=dict, compare=False)

    _is_drawn: ClassVar[bool] = True

    @property
    def sql(self) -> str:
        """The query of the summary, as `compile` prints it for this database.

        It is the portable plan, without input checks; `executed_sql` is what ran.
        """
        shape = self._plan.shape
        tables = replace(shape.at, translation=shape.translation.printed)
        plan = replace(self._plan, moments=False, shape=replace(shape, at=tables))
        return translated(plan, tables.translation)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_lazy": {}}  # a session stays where it is

    def __hash__(self) -> int:
        return hash((self.executed_sql, self.measures))

    def __getitem__(self, text: str) -> float | Result:
        """One metric, in any spelling.

        Returns:
            Its value if it has one row (NaN if no query counted), else a `Result`.

        Raises:
            KeyError: If it is not among the result's metrics.
            SpecError: If the text is no metric.
        """
        measure = self.spec.measure(text)
        if measure not in self.measures:
            names = ", ".join(str(computed) for computed in self.measures)
            raise KeyError(f"{measure} was not computed; the result has {names}")
        key = (measure.name, measure.k or 0)
        rows = tuple(row for row in self._rows if (row["metric"], row["k"]) == key)
        if self._is_one:
            return _number(rows[0]["value"] if rows else None)
        other_columns = [
            candidate.column
            for candidate in self.measures
            if candidate != measure and not candidate.metric.pooled
        ]
        return replace(
            self,
            measures=(measure,),
            _rows=rows,
            _per_query=None
            if self._per_query is None
            else self._per_query.drop_columns(other_columns),
        )

    def __contains__(self, text: object) -> bool:
        """Whether a metric, in any spelling, is among them."""
        try:
            return self.spec.measure(str(text)) in self.measures
        except SpecError:
            return False

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.measures)

    def keys(self) -> list[str]:
        """The names of the metrics."""
        return [str(measure) for measure in self.measures]

    @property
    def _is_one(self) -> bool:
        """Whether there is one system, one day and no segment, so that a value says it all."""
        distinct = ({row[key] for row in self._rows} for key in ("system", "metric_date"))
        return not self.spec.by and all(len(values) <= 1 for values in distinct)

    def to_spark(self, *, per_query: bool = False) -> Any:
        """A lazy Spark DataFrame of the same numbers, computed where the tables are.

        It runs the query that `compile` prints: nothing of this result is sent to the cluster, and
        the tables are read again when the DataFrame is.

        Args:
            per_query: Whether to give one row per query instead of the summary.

        Raises:
            SpecError: If the result is not from Spark, or from tables that were only sent there for
                the evaluation, such as files and pandas DataFrames.
        """
        if not self._lazy:
            raise SpecError(
                "to_spark needs tables, views or DataFrames of a Spark session; for other results "
                "use createDataFrame(result.to_pandas())"
            )
        return self._lazy[per_query]()

    def summary(self) -> pa.Table:
        """One row per metric, day, system and segment: the fact table's columns.

        value = numerator / denominator; both are NULL for counts, whose value is a total, and for
        metrics over all lists together, like auc, which cannot be added up. n_queries counts the
        queries that count; n_skipped those left out because the metric is undefined for them (or,
        averaged over hits, has none), or because they add no row to a metric over all lists;
        n_missing those with a label but without a ranking (with missing=zero they count as empty
        lists).
        """
        import pyarrow as pa

        schema = summary_schema()
        for name in INTERVAL:
            if any(name in row for row in self._rows):
                schema = schema.append(pa.field(name, pa.float64()))
        return pa.Table.from_pylist(list(self._rows), schema)

    def per_query(self) -> pa.Table:
        """One row per query: [metric_date,] system, query_id, one column per metric.

        NULL if the metric's mean leaves the query out. A metric over all lists together has no
        column. The rows are sorted by these keys.

        Raises:
            SpecError: If the evaluation did not fetch the table (`per_query=False`).
        """
        if self._per_query is None:
            raise SpecError("the per-query table was not kept; evaluate with per_query=True")
        keys = [key for key in KEYS if key in self._per_query.column_names]
        return self._per_query.sort_by([(key, "ascending") for key in keys])

    def wide(self) -> pa.Table:
        """One row per system, day and segment, one column per metric: `ndcg@10`.

        With intervals, each metric has two more columns, `ndcg@10_ci_low` and `ndcg@10_ci_high`,
        NULL if the metric has no interval. The columns `metric_date`, `segment_name` and
        `segment_value` exist if the evaluation has days or segments. A value is NULL if no query
        counts.
        """
        import pyarrow as pa

        from sqlmetrics.engines.types import arrow_type

        keys = {"system": "VARCHAR"}
        if self.spec.by:
            keys = {name: COLUMNS[name] for name in ("segment_name", "segment_value")} | keys
        if "metric_date" in self.list_keys:
            keys = {"metric_date": "DATE"} | keys
        ends = [name for name in INTERVAL if any(name in row for row in self._rows)]
        row_by_key: dict[tuple[Any, ...], Row] = {}
        for row in self._rows:
            wide_row = row_by_key.setdefault(
                tuple(row[key] for key in PLACES), {k: row[k] for k in keys}
            )
            name = at_cutoff(row["metric"], row["k"])
            wide_row |= {name: row["value"]} | {f"{name}_{end}": row.get(end) for end in ends}
        names = [
            f"{metric}{end}" for metric in self.keys() for end in ("", *(f"_{e}" for e in ends))
        ]
        types = keys | dict.fromkeys(names, "DOUBLE")
        schema = pa.schema([(name, arrow_type(kind)) for name, kind in types.items()])
        return pa.Table.from_pylist(list(row_by_key.values()), schema)

    def to_dict(self, *, names: Literal["metric", "column"] = "metric") -> dict[str, float]:
        """Metric -> its value over all queries, for loggers; with several systems `bm25/mrr`.

        Args:
            names: The form of the names: `metric`, as in `ndcg@10`, or `column`, as in
                `ndcg_at_10`, which MLflow accepts too.

        Returns:
            Numbers; NaN if no query counts.

        Raises:
            SpecError: If there are several days, each with a value of its own.
        """
        rows = [row for row in self._rows if row["segment_name"] == "all"]
        days, systems = ({row[key] for row in rows} for key in ("metric_date", "system"))
        if len(days) > 1:
            raise SpecError(f"to_dict: the result has {len(days)} days; use to_dicts or summary")
        name_by_metric = name_metrics(self.measures, names)
        return {
            f"{row['system']}/{name}" if len(systems) > 1 else name: _number(row["value"])
            for row in rows
            for name in [name_by_metric[at_cutoff(row["metric"], row["k"])]]
        }

    def to_dicts(self) -> list[Row]:
        """The summary as a list of dicts, whose days are `date`s; `to_json` writes JSON."""
        return [dict(row) for row in self._rows]

    def to_json(self) -> str:
        """The summary as JSON: a list of objects, null where no query counted.

        The key `metric_date` is there if the rankings have days.
        """
        rows = self.summary()
        return json_lines(
            rows if "metric_date" in self.list_keys else rows.drop_columns(["metric_date"])
        )

    def _arrow_tables(self) -> ArrowTables:
        return {"summary": self.summary, "per_query": self.per_query, "wide": self.wide}

    def to_pandas(self, table: str | None = None, *, wide: bool = False) -> Any:
        """The summary as a pandas DataFrame.

        Args:
            table: `summary`, `per_query` or `wide`.
            wide: The same as `wide`: one row per system, one column per metric.
        """
        return super().to_pandas(table or ("wide" if wide else None))

    df = to_pandas

    def to_polars(self, table: str | None = None, *, wide: bool = False) -> Any:
        """The summary as a polars DataFrame, with the arguments of `to_pandas`."""
        return super().to_polars(table or ("wide" if wide else None))

    def text(
        self, *, per_query: bool = False, full_width: bool = False, styled: bool = False
    ) -> str:
        """The table, and notes below it.

        Args:
            per_query: Whether to print one row per query instead of the means.
            full_width: Whether it may be wider than the terminal, for a file.
            styled: Whether to print the numbers of the best system in bold, by terminal codes.
        """
        from sqlmetrics.evaluation.report.layout import noted

        width = None if full_width else terminal_width()
        table = noted(self, per_query=per_query, width=width)
        return table.text(full_width=full_width, styled=styled)

    def _blocks(self) -> Iterator[Table]:
        from sqlmetrics.evaluation.report.layout import noted

        yield noted(self)


def name_metrics(measures: Sequence[Measure], names: str) -> dict[str, str]:
    """The text of each metric -> what it is called.

    Args:
        measures: The metrics.
        names: `metric`, for the text itself, or `column`.

    Raises:
        SpecError: If `names` is neither.
    """
    if names not in NAMES:
        raise SpecError(unknown("value for names", names, NAMES))
    return {
        str(measure): measure.column if names == "column" else str(measure) for measure in measures
    }


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def summary_rows(
    rows: Sequence[Row],
    measures: Sequence[Measure],
    definition_hash: Callable[[Measure, str], str],
) -> tuple[Row, ...]:
    """The summary by day, segment (`all` first), metric and system, as it is read.

    Args:
        rows: What the database gave.
        measures: The metrics, in order.
        definition_hash: Measure and segment -> the hash of what they mean.
    """
    places = {(measure.name, measure.k or 0): i for i, measure in enumerate(measures)}

    def key(row: Row) -> tuple[Any, ...]:
        segment = (row["segment_name"] != "all", row["segment_name"], row["segment_value"])
        return row["metric_date"], *segment, places[row["metric"], row["k"]], row["system"]

    segments = dict.fromkeys(row["segment_name"] for row in rows)
    hashes = {
        (measure.name, measure.k or 0, segment): definition_hash(measure, segment)
        for measure in measures
        for segment in segments
    }
    defined = (
        dated(row) | {"definition_hash": hashes[row["metric"], row["k"], row["segment_name"]]}
        for row in rows
    )
    return tuple(sorted(defined, key=key))


def dated(row: Row) -> Row:
    """A row with its day as a date, which some databases have as a text or a time."""
    day = row["metric_date"]
    return row | {"metric_date": day if type(day) is date else day_of(day)}


def summary_schema() -> pa.Schema:
    """The Arrow schema of the fact table."""
    import pyarrow as pa

    from sqlmetrics.engines.types import arrow_type

    return pa.schema([(name, arrow_type(kind)) for name, kind in COLUMNS.items()])


def with_dates(table: pa.Table, columns: Iterable[str] = ("metric_date",)) -> pa.Table:
    """The table with days as dates, where the database has them as texts."""
    import pyarrow as pa

    for column in {*columns} & {*table.column_names}:
        index = table.column_names.index(column)
        table = table.set_column(index, column, table[column].cast(pa.date32()))
    return table
