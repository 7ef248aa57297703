"""New rows of a job's tables: the numbers of a spec, with what the tables say beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import sqlmetrics
from sqlmetrics.catalog.online import online
from sqlmetrics.evaluation.intervals import (
    BY_REQUEST,
    OWN,
    PAIRED,
    interval_stages,
    method_of,
    student_reach,
)
from sqlmetrics.jobs.definitions import hashes, segment_hashes, these
from sqlmetrics.jobs.dictionary import dictionary
from sqlmetrics.jobs.exchange import Exchange, TableRows, insert
from sqlmetrics.jobs.log_metrics import log_metrics
from sqlmetrics.jobs.schema import FACTS, PER_QUERY, RUNS, columns_for, has_baseline, targets
from sqlmetrics.jobs.sources import log_entries
from sqlmetrics.plan.moments import MOMENTS
from sqlmetrics.plan.plan import Plan
from sqlmetrics.spec.days import Ends
from sqlmetrics.spec.definition import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, equal, print_template, with_columns, with_stages
from sqlmetrics.sql.template import finished, identifier, lines, literal
from sqlmetrics.sql.translation import Translation
from sqlmetrics.stats import NOISE

# A click log's rows beside a baseline's: each request has one system, so there are no pairs.
#
# Both means are of their own requests, and their variances add up. They are written as sums that
# days add up as they do those of pairs: each day weighs as the system's own denominator does, and
# the squares are those that give the variance of the difference. So whatever reads the columns of
# pairs reads these: the views of comparison, and checks of all days so far.

_SQUARES = "(sum_x2 - 2e0 * value * sum_xw + value * value * sum_w2)"

_VARIANCE = f"""case
    when n_clusters < 2 then null
    when {_SQUARES} <= {NOISE:g} * sum_x2 then 0e0
    else {_SQUARES} * n_clusters
        / (n_clusters - 1) / (denominator * denominator)
end"""

_SUMS = {
    "n_pairs": "cast(null as bigint)",
    "pair_clusters": "case when baseline_value is not null then n_least end",
    "pair_w": "case when baseline_value is not null then denominator end",
    "pair_w2": "case when baseline_value is not null then 0e0 end",
    "sum_y": "denominator * baseline_value",
    "sum_y2": "cast(null as double)",
    "sum_xy": "cast(null as double)",
    "sum_d": "denominator * (value - baseline_value)",
    "sum_d2": "denominator * denominator * variance_of_both\n* (n_least - 1) / nullif(n_least, 0)",
    "sum_dw": "case when baseline_value is not null then 0e0 end",
}


def add_baseline_columns(spec: Spec, source: str, *, by_day: bool) -> tuple[Stage, ...]:
    """The stages that add the columns beside a baseline; the last one is `sums_apart`.

    Args:
        spec: A spec of a click log with systems and a baseline.
        source: The stage of the rows of all systems, with the sums of intervals.
        by_day: Whether each row has a day.
    """
    day = ("metric_date",) if by_day else ()
    same = equal("baseline", "variances", (*day, "segment_name", "segment_value", "metric", "k"))
    name = literal(str(spec.baseline))
    systems = [f"baseline.system = {name}", f"variances.system <> {name}"]
    about = "the variance of each mean (delta method)"
    sums = (Column(sql, column) for column, sql in _SUMS.items())
    return (
        with_columns("variances", source, about, [Column(_VARIANCE, "variance")]),
        Stage("beside_baseline", "jobs/beside_baseline", {"on": [*same, *systems]}),
        with_columns(
            "sums_apart", "beside_baseline", "the difference, as sums that days add up", sums
        ),
    )


NEW_FACTS = "sqlmetrics_new_facts"
"""The summary, which is computed before the tables are locked."""


SUMMARY = tuple(FACTS)[: tuple(FACTS).index("ci_low")] + tuple(MOMENTS)
"""The columns of the summary that are read, without those beside a baseline."""

LINE = "\n       "
"""Behind a condition of a case whose value stands on a line of its own."""


@dataclass(frozen=True)
class NewRows:
    """The rows that a run adds, as queries in DuckDB's words.

    Attributes:
        spec: What was asked.
        at: The dialect.
        run_id: An SQL text that names the run.
        now: An SQL time: when it was.
        day: An SQL date for rows that have none; empty if they have.
        plan: What computes the new rows, where no table can keep them for a while.
        folder: From where files are named in the run log; None for a text, which is the same
            wherever it is printed.
        metrics: Those of which rows are replaced, by text and cutoff; old rows of others stay.
            None for a text, which replaces those that the spec asks for; it knows no columns but
            these, so rows of the per-query table go whole.
    """

    spec: Spec
    at: Translation
    run_id: str
    now: str
    day: str = ""
    plan: Plan | None = None
    folder: Path | None = None
    metrics: Collection[tuple[str, int]] | None = None

    def exchange(
        self,
        per_query: str,
        ends: Ends,
        key: str = "new",
        allowed_loss: int | None = None,
        option: str = "--full-refresh",
    ) -> Exchange:
        """These rows in the place of those of some days.

        Args:
            per_query: The query of the per-query table; empty if there is none.
            ends: Of the days; none for all that the spec has.
            key: Part of the name of what the run makes for itself.
            allowed_loss: Of so many days numbers may go that nothing replaces; None if nobody
                looks.
            option: What was asked for, like `--full-refresh`.
        """
        names = tuple(columns_for(self.spec)["facts"])
        rows = {"facts": TableRows(names, self._own_facts(names), replaces=self._replaces)}
        has_own = self.metrics is None or len(self._per_query_columns) > len(PER_QUERY)
        if per_query and "per_query" in targets(self.spec) and has_own:
            replaces = self._replaces if self.metrics is not None else ""
            rows["per_query"] = TableRows(
                self._per_query_columns, self._rows(per_query), replaces=replaces
            )
        rows |= dictionary(self.spec, self.now)
        return Exchange(
            self.spec,
            self.at,
            rows,
            ends,
            key,
            allowed_loss=allowed_loss,
            option=option,
            run=(self.run_id, self.now),
            forgets=True,
        )

    @property
    def _replaces(self) -> str:
        """What old rows meet that new ones take the place of."""
        metrics = self.metrics or self._spec_metrics
        segments = ", ".join(map(literal, (ALL, *self.spec.by)))
        return f"segment_name in ({segments})\n    and ({these(sorted(metrics))})"

    def _own_facts(self, names: Sequence[str]) -> str:
        """The rows of the fact table, of those metrics alone that are asked for."""
        rows = self._facts()
        if self.metrics is None or self._has_all_metrics:
            return rows
        view = {
            "columns": [identifier(name) for name in names],
            "rows": finished(rows),
            "where": these(sorted(self.metrics)),
        }
        return print_template("jobs/some_facts", view)

    def log(self, ends: Ends, **values: str) -> str:
        """The statement that adds a row to the run log.

        Args:
            ends: Of the days that were replaced.
            values: Column of the log -> an SQL value; the others are NULL.
        """
        entries = {
            "run_id": self.run_id,
            "spec": literal(self.spec.title),
            "started_at": self.now,
            "range_start": ends.start,
            "range_end": ends.end or ends.last,
            "engine": literal(self.at.dialect.title),
            "version": literal(sqlmetrics.__version__),
            "outcome": "'replaced'",
            **log_entries(self.spec, self.folder),
            **values,
        }
        value_by_column = {
            name: entries.get(name) or f"cast(null as {column.kind})"
            for name, column in RUNS.items()
        }
        select = "select\n    " + ",\n    ".join(value_by_column.values())
        return insert(
            self.at, targets(self.spec)["runs"], TableRows(tuple(value_by_column), select)
        )

    def _facts(self) -> str:
        """The summary and metrics of a log, with what a job adds."""
        stages, source = list[Stage](), NEW_FACTS
        if self.plan is not None:
            stages += [*self.plan.inputs, *self.plan.per_query, *self.plan.summary]
            source = "summary"
        if metrics := log_metrics(self.spec):
            view = {
                "metrics": [
                    (metric.table, metric.columns(self.spec, SUMMARY)) for metric in metrics
                ],
                "lists": source if self.spec.metrics else "",
                "names": SUMMARY,
            }
            stages.append(Stage("numbers", "jobs/online", view))
            source = "numbers"
        columns_of_facts = lines(map(self._fact, columns_for(self.spec)["facts"]))
        select = f"select\n    {columns_of_facts}\nfrom reaches"
        return with_stages([*stages, *self._intervals(source)], select)

    def _fact(self, name: str) -> str:
        """A column of the fact table, as a line of a select list."""
        sql = self._sql_by_column.get(name, name)
        return name if sql == name else f"{sql} as {name}"

    def _intervals(self, source: str) -> tuple[Stage, ...]:
        about = f"{100 * self.spec.confidence:g} % by Student's t"
        ratios, stages = {"": OWN}, list[Stage]()
        baseline_stages: tuple[Stage, ...] = ()
        if has_baseline(self.spec) and self.spec.clicks is not None:
            baseline_stages, source = (
                add_baseline_columns(self.spec, source, by_day=not self.day),
                "sums_apart",
            )
        if has_baseline(self.spec):
            difference = Column("sum_d / nullif(pair_w, 0e0)", "difference")
            meaning = "the mean difference from the baseline"
            stages.append(with_columns("differences", source, meaning, [difference]))
            ratios, source = ratios | {"difference_": PAIRED}, "differences"
        return (
            *baseline_stages,
            *stages,
            *interval_stages(source, ratios, about, student_reach(self.spec.confidence)),
        )

    @cached_property
    def _sql_by_column(self) -> dict[str, str]:
        """Column of the fact table -> what it is; the others are called alike before."""
        hash_by_condition = {
            f"{_is_of(metric, k)} and segment_name = {literal(segment)}{LINE}": text
            for segment, metric, k, text in segment_hashes(self.spec)
        }
        hash_by_condition |= {_is_of(metric, k): text for metric, k, text in hashes(self.spec)}
        method = method_of(self.spec.confidence)
        methods = {
            f"reach is not null and metric in ({', '.join(map(literal, names))}){LINE}": method + by
            for by, names in self._own_methods.items()
        }
        n_beside = "n_pairs" if self.spec.clicks is None else "pair_clusters"
        return {
            "metric_date": self.day or "metric_date",
            "ci_low": "value - reach",
            "ci_high": "value + reach",
            "definition_hash": _case(hash_by_condition),
            "run_id": self.run_id,
            "computed_at": self.now,
            "ci_method": _case({**methods, "reach is not null": method + self._units}),
            "baseline": f"case when {n_beside} > 0 then {literal(self.spec.baseline or '')} end",
            "difference_low": "difference - difference_reach",
            "difference_high": "difference + difference_reach",
        }

    @property
    def _units(self) -> str:
        """What intervals take for independent, behind the method; empty of queries."""
        if self.spec.cluster:
            return f", by {self.spec.cluster}"
        return "" if self.spec.clicks is None else BY_REQUEST

    @property
    def _own_methods(self) -> dict[str, list[str]]:
        """What a metric's interval takes for independent -> the metrics that differ in it.

        Online metrics take requests where others take clusters; estimates take users, and
        requests without one.
        """
        by_request = list[str]()
        if self.spec.cluster:
            by_request = list(dict.fromkeys(online(text).name for text in self.spec.online))
        by_user = list(dict.fromkeys(metric.name for metric in self.spec.estimated))
        metrics_by_unit = {BY_REQUEST: by_request, self._users: by_user}
        return {by: names for by, names in metrics_by_unit.items() if names}

    @property
    def _users(self) -> str:
        columns = self.spec.clicks.columns if self.spec.clicks else None
        return ", by user" if columns is None or columns.user else BY_REQUEST

    @property
    def _per_query_columns(self) -> tuple[str, ...]:
        metrics = (
            measure.column
            for measure in self.spec.measures
            if not measure.metric.pooled
            and (self.metrics is None or (measure.name, measure.k or 0) in self.metrics)
        )
        return (*PER_QUERY, *metrics, *self._request_columns)

    @property
    def _request_columns(self) -> list[str]:
        """What rows tell of a request; rows that get some metrics alone keep what they have."""
        if self.spec.clicks is None or not self._has_all_metrics:
            return []
        from sqlmetrics.clicks.log_rows import request_columns

        return request_columns(self.spec, PER_QUERY)

    @property
    def _requests(self) -> str:
        """Where these columns are from, as SQL; empty without them."""
        if not self._request_columns:
            return ""
        from sqlmetrics.clicks.log_rows import of_requests

        return of_requests(self._request_columns, "logged_id")

    @property
    def _has_all_metrics(self) -> bool:
        return self.metrics is None or self._spec_metrics <= {*self.metrics}

    @property
    def _spec_metrics(self) -> set[tuple[str, int]]:
        return {(metric, k) for metric, k, _ in hashes(self.spec)}

    def _rows(self, per_query: str) -> str:
        sql_by_column = {"spec": literal(self.spec.title), "metric_date": self.day or "metric_date"}
        view = {
            "columns": [self._named(name, sql_by_column) for name in self._per_query_columns],
            "rows": per_query,
            "requests": self._requests,
        }
        rows = print_template("jobs/per_query", view)
        if self.plan is None:
            return rows
        return with_stages((*self.plan.inputs, *self.plan.per_query), rows)

    @staticmethod
    def _named(name: str, sql_by_column: Mapping[str, str]) -> str:
        column = identifier(name)
        return (
            f"{sql_by_column[name]} as {column}"
            if sql_by_column.get(name, column) != column
            else column
        )


def _is_of(metric: str, k: int) -> str:
    return f"metric = {literal(metric)} and k = {k}"


def _case(value_by_condition: Mapping[str, str]) -> str:
    """The text of the first condition that holds, as SQL."""
    branches = (
        f"    when {condition} then {literal(value)}"
        for condition, value in value_by_condition.items()
    )
    return "\n".join(["case", *branches, "end"])
