"""The tie audit: how many scores are equal, and how much that matters for each metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import pyarrow as pa

from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.question import QuestionArguments, question
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import print_template, with_stages
from sqlmetrics.tables.table import Table, metric_value, printable
from sqlmetrics.tables.tabular import ArrowTables, Tabular, arrow_table

RULES = ("worst", "average", "best")

LEGEND = """\
worst, best: the metric if the lower, or the higher, grade comes first
average: its mean over all orders of equal scores (- if unknown)
spread: best - worst"""


@dataclass(frozen=True, repr=False)
class TieAudit(Tabular):
    """How much equal scores change the metrics; it prints as two tables.

    Attributes:
        counts: One row per system: n_lists, n_tied_lists, n_rows, n_tied_rows. A row is tied if
            another row of its list has the same score.
        metrics: One row per metric, day and system, over all queries: worst, average, value
            (by the spec's own rule), best, spread.
    """

    counts: pa.Table
    metrics: pa.Table

    def _arrow_tables(self) -> ArrowTables:
        return {"metrics": lambda: self.metrics, "counts": lambda: self.counts}

    def _blocks(self) -> Iterator[Table]:
        counts = [
            [
                printable(row["system"]),
                f"{row['n_tied_lists']:,} of {row['n_lists']:,}",
                f"{row['n_tied_rows']:,} of {row['n_rows']:,}",
            ]
            for row in self.counts.to_pylist()
        ]
        yield Table(["system", "tied lists", "tied rows"], counts, 1)
        names = [name for name in self.metrics.column_names if name != "metric_date" or self._days]
        rows = [[_cell(row[name]) for name in names] for row in self.metrics.to_pylist()]
        yield Table(names, rows, names.index("metric") + 1, notes=LEGEND.splitlines())

    @property
    def _days(self) -> bool:
        return len(set(map(str, self.metrics["metric_date"].to_pylist()))) > 1


def tie_audit(
    rankings: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    connection: Any = None,
    **keywords: Unpack[QuestionArguments],
) -> TieAudit:
    """Count equal scores, and evaluate with their worst and their best order.

    Args:
        rankings: The rankings, as `evaluate` takes them; or a `Spec`, such as `result.spec`,
            or its path.
        labels: The labels, as `evaluate` takes them; None with a spec.
        metrics: The metrics, as `evaluate` takes them; None with a spec.
        connection: The database that holds the tables; see `evaluate`.
        **keywords: The other arguments of `evaluate`.

    Raises:
        SqlmetricsError: The errors that `evaluate` raises; but ties=error refuses nothing here.

    >>> print(tie_audit([[0.5, 0.5]], [[0, 1]], "mrr").metrics["spread"].to_pylist())
    [0.5]
    """
    rankings = read_if_spec(rankings)
    if isinstance(rankings, Spec) and (labels is not None or metrics or keywords):
        raise SpecError("the spec already says this; leave out labels, metrics and their arguments")
    with connect(connection) as engine:
        if isinstance(rankings, Spec):
            spec, tables = rankings, opened(rankings, engine)
        else:
            spec, tables = question(engine, rankings, labels, metrics, **keywords)
        return _audit(spec, tables, engine)


def _audit(spec: Spec, tables: Tables, engine: Database) -> TieAudit:
    spec_rule = "id_asc" if spec.options["ties"] == "error" else str(spec.options["ties"])
    results = {spec_rule: run(_with(spec, spec_rule), tables, engine)}
    for rule in (rule for rule in RULES if rule != spec_rule):
        fitting = _fitting(spec, rule)
        if fitting:
            fitting_spec = spec.having(metrics=fitting)
            results[rule] = run(_with(fitting_spec, rule), tables, engine, check=False)
    counts = tied_rows(make_plan(_with(spec, "id_asc"), tables), engine)
    return TieAudit(counts, _metrics(results, spec_rule))


def _with(spec: Spec, rule: str) -> Spec:
    return spec.having(conventions=dict(spec.conventions) | {"ties": rule})


def _fitting(spec: Spec, rule: str) -> tuple[str, ...]:
    """The metrics that can be computed with a rule."""

    def fits(text: str) -> bool:
        try:
            spec.having(metrics=[text], conventions=dict(spec.conventions) | {"ties": rule})
        except SpecError:
            return False
        return True

    return tuple(filter(fits, spec.metrics))


def tied_rows(plan: Plan, engine: Database) -> pa.Table:
    """How many rows share their score with another one of their list; see `TieAudit.counts`.

    Args:
        plan: The plan of an evaluation.
        engine: Where its tables are.
    """
    spec, shape = plan.spec, plan.shape
    has_system = "system" in shape.keys
    text = print_template(
        "proof/tied",
        {
            "keys": shape.keys,
            "systems": ["system"] if has_system else [],
            "order": shape.sorters[0],
            "rankings": shape.names["rankings"],
        },
    )
    counts = engine.table(with_stages(plan.rankings, text))
    names = ["n_lists", "n_tied_lists", "n_rows", "n_tied_rows"]
    columns = [counts[name].cast(pa.int64()) for name in names]
    title = pa.array([spec.title] * counts.num_rows, pa.string())
    return pa.table([counts["system"] if has_system else title, *columns], ["system", *names])


def _metrics(results: dict[str, Result], spec_rule: str) -> pa.Table:
    values_by_key: dict[tuple[Any, str, str], dict[str, float | None]] = {}
    for rule, result in results.items():
        for row in result.to_dicts():
            if row["segment_name"] == "all":
                text = at_cutoff(row["metric"], row["k"])
                values_by_key.setdefault((row["metric_date"], row["system"], text), {})[rule] = row[
                    "value"
                ]
    return arrow_table(
        [_row(*key, values, spec_rule) for key, values in values_by_key.items()], _KINDS
    )


def _row(
    day: Any, system: str, metric: str, values: dict[str, float | None], spec_rule: str
) -> dict[str, Any]:
    worst, best = (values.get(rule) for rule in ("worst", "best"))
    value_by_rule = {rule: values.get(rule) for rule in RULES}
    spread = None if worst is None or best is None else abs(best - worst)
    keys = {"metric_date": day, "system": system, "metric": metric}
    return keys | value_by_rule | {"value": values.get(spec_rule), "spread": spread}


_KINDS = {
    "metric_date": "date32",
    "system": "string",
    "metric": "string",
    **dict.fromkeys(("worst", "average", "value", "best", "spread"), "double"),
}


def _cell(value: Any) -> str:
    return metric_value(value) if value is None or isinstance(value, float) else printable(value)
