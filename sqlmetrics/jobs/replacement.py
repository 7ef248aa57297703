"""The statements that put a spec's numbers in place of those of the same days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.online import online
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.tables import FACTS, PER_QUERY, targets
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import print_template, with_stages
from sqlmetrics.sql.template import finished, identifier, literal
from sqlmetrics.sql.translation import Translation

NEW_FACTS, NEW_ONLINE = "sqlmetrics_new_facts", "sqlmetrics_new_online"
"""What is computed before the tables are locked: the summary, and sums of online metrics."""

ALL_DAYS = Ends(None, None)


@dataclass(frozen=True)
class TableRows:
    """New rows of a table.

    Attributes:
        columns: The table's columns, in the query's order.
        select: The query.
    """

    columns: Sequence[str]
    select: str


@dataclass(frozen=True)
class Replacement:
    """The rows of a spec and some days, replaced.

    Attributes:
        spec: What was asked.
        at: The dialect.
        run_id: An SQL text that names the run.
        now: An SQL time: when it was.
        ends: Of the days; none for all that the spec has.
        day: An SQL date for rows that have none; empty if they have.
        key: Part of the name of what the run makes for itself.
        plan: What computes the new rows, where no table can keep them for a while.
    """

    spec: Spec
    at: Translation
    run_id: str
    now: str
    ends: Ends = ALL_DAYS
    day: str = ""
    key: str = "new"
    plan: Plan | None = None

    def rows(self, per_query: str) -> dict[str, TableRows]:
        """Table -> its new rows, as a query in DuckDB's words.

        Args:
            per_query: The query of the per-query table; empty if there is none.
        """
        facts = [self._facts()] * bool(self.spec.metrics)
        facts += [self._online()] * bool(self.spec.online)
        rows = {"facts": TableRows(tuple(FACTS), "\nunion all\n".join(facts))}
        if per_query and "per_query" in targets(self.spec):
            rows["per_query"] = TableRows(self._per_query_columns, self._rows(per_query))
        return rows

    def statements(self, per_query: str) -> Iterator[str]:
        """Delete and insert, table by table; they belong into one transaction."""
        names = targets(self.spec)
        for table, rows in self.rows(per_query).items():
            yield self._delete(names[table])
            yield self._insert(names[table], rows.columns, rows.select)

    def overwritten(self, per_query: str) -> Iterator[str]:
        """For Spark: each day that has rows is written anew, as a partition."""
        names = targets(self.spec)
        for table, rows in self.rows(per_query).items():
            into = f"insert overwrite table {self.at.name(names[table])} by name"
            yield f"{into}\n{self.at.text(finished(rows.select)).rstrip()}"

    def logged(self, values: Mapping[str, str]) -> str:
        """The statement that adds a row to the run log, of SQL values."""
        told = {"run_id": self.run_id, "spec": literal(self.spec.title), "started_at": self.now}
        told |= dict(values)
        select = "select\n    " + ",\n    ".join(told.values())
        return self._insert(targets(self.spec)["runs"], tuple(told), select)

    def of(self, day: str) -> list[str]:
        """What rows meet that are replaced."""
        return [f"spec = {literal(self.spec.title)}", *self.ends.of(day)]

    def _delete(self, table: str) -> str:
        where = "\n    and ".join(map(self.at.value, self.of("metric_date")))
        return finished(f"delete from {self.at.name(table)}\nwhere\n    {where}")

    def _insert(self, table: str, columns: Sequence[str], select: str) -> str:
        names = ",\n    ".join(map(self.at.column, columns))
        head = f"insert into {self.at.name(table)} (\n    {names}\n)\n"
        return head + self.at.text(finished(select)).rstrip()

    def _facts(self) -> str:
        """The summary, with what a job adds."""
        if self.plan is None:
            return print_template("jobs/facts", self._view | {"table": NEW_FACTS})
        facts = print_template("jobs/facts", self._view | {"table": "summary"})
        return with_stages((*self.plan.inputs, *self.plan.per_query, *self.plan.summary), facts)

    def _online(self) -> str:
        """The sums of online metrics, one row per metric."""
        asked = {"metrics": [online(text) for text in self.spec.online]}
        return print_template("jobs/online", self._view | asked | {"table": NEW_ONLINE})

    @property
    def _view(self) -> dict[str, object]:
        return {
            "spec": self.spec.title,
            "hashes": {(metric, k): text for metric, k, text in hashes(self.spec)},
            "metric_date": self.day or "metric_date",
            "run_id": self.run_id,
            "now": self.now,
        }

    @property
    def _per_query_columns(self) -> tuple[str, ...]:
        metrics = (one.column for one in self.spec.measures if not one.metric.pooled)
        return (*PER_QUERY, *metrics)

    def _rows(self, per_query: str) -> str:
        told = {"spec": literal(self.spec.title), "metric_date": self.day or "metric_date"}
        view = {
            "columns": [self._named(name, told) for name in self._per_query_columns],
            "rows": per_query,
        }
        rows = print_template("jobs/per_query", view)
        if self.plan is None:
            return rows
        return with_stages((*self.plan.inputs, *self.plan.per_query), rows)

    @staticmethod
    def _named(name: str, told: Mapping[str, str]) -> str:
        own = identifier(name)
        return f"{told[name]} as {own}" if told.get(name, own) != own else own
