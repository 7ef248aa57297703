"""What a click log says: its cleaning, its online metrics, and those of its labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from sqlmetrics.catalog.online import Online, online
from sqlmetrics.clicks.cleaning_report import Step, cleaning_table
from sqlmetrics.clicks.labels import labels_note
from sqlmetrics.evaluation.intervals import estimate_of
from sqlmetrics.evaluation.report import layout
from sqlmetrics.evaluation.report.result import Result, summary_schema
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats.estimate import INTERVAL
from sqlmetrics.tables.table import Table, html_notes, markdown_notes, terminal_width, visible
from sqlmetrics.tables.tabular import ArrowTables, Tabular, arrow_tables, kinds_of

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlmetrics.clicks.propensity.estimate import PropensityEstimate

REQUESTS = {"n_queries": "requests"}
"""The count of an online metric, and its heading."""


@dataclass(frozen=True, repr=False)
class ClickResult(Tabular):
    """The numbers of a click log; it prints as tables.

    Attributes:
        spec: What was asked.
        steps: What the cleaning left out, step by step.
        rows: `impressions` or an action -> how many rows were logged, and how many are left.
        findings: What is odd about the log, and how often.
        offline: The metrics of the lists that were shown, with answers as labels; None if no
            such metric was asked for.
        notes: What was taken for what, where nobody said it.
        propensities: How often positions are looked at, where labels are corrected for that.
        estimates: Rows of the fact table of rankings and policies that were not shown.
    """

    spec: Spec
    steps: tuple[Step, ...]
    rows: Mapping[str, tuple[int, int]]
    findings: Mapping[str, int]
    offline: Result | None
    _online: tuple[dict[str, Any], ...]
    notes: tuple[str, ...] = ()
    propensities: PropensityEstimate | None = None
    estimates: tuple[dict[str, Any], ...] = ()

    _is_drawn: ClassVar[bool] = True

    def online(self) -> pa.Table:
        """One row per online metric, day, system and segment: the fact table's columns.

        value = numerator / denominator, NULL where the denominator is 0; n_queries are the
        requests. There is no sum of squares.
        """
        return self._table(list(self._online))

    def facts(self) -> pa.Table:
        """The rows of the fact table: online metrics, those of the lists, and estimates."""
        return self._table(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        lists = self.offline.to_dicts() if self.offline else []
        return [*self._online, *lists, *self.estimates]

    def _table(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows of the fact table, with the ends of intervals where some were asked for."""
        import pyarrow as pa

        ends = [name for name in INTERVAL if any(name in row for row in self._rows())]
        interval_fields = (pa.field(name, pa.float64()) for name in ends)
        return pa.Table.from_pylist(rows, pa.schema([*summary_schema(), *interval_fields]))

    def cleaning(self) -> str:
        """The report of the cleaning as a table."""
        return cleaning_table(self.steps, self.rows).text()

    def to_dicts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {
            "cleaning": [vars(step) | {"left_out": step.removed} for step in self.steps],
            "rows": {kind: {"logged": n[0], "left": n[1]} for kind, n in self.rows.items()},
            "findings": dict(self.findings),
            "online": list(self._online),
            "offline": self.offline.to_dicts() if self.offline else [],
            **({"counterfactual": list(self.estimates)} if self.estimates else {}),
            **({"propensities": self.propensities.to_dicts()} if self.propensities else {}),
        }

    def markdown(self) -> str:
        """The numbers as tables of Markdown and the notes, without the report of the cleaning."""
        parts = [layout.arranged(facts).markdown() for facts in self._facts()]
        parts += [self.offline.markdown()] if self.offline else []
        return "\n\n".join(filter(None, [*parts, markdown_notes(self.all_notes)]))

    def html(self) -> str:
        """The report of the cleaning and the numbers as tables for a page."""
        parts = [self._steps.html()]
        parts += [layout.arranged(facts).html() for facts in self._facts()]
        parts += [self.offline.html()] if self.offline else []
        return "\n".join(filter(None, [*parts, html_notes(self.all_notes)]))

    def text(self, *, full_width: bool = False, styled: bool = False) -> str:
        """All of it as tables.

        Args:
            full_width: Whether they may be wider than the terminal, for a file.
            styled: Whether the best system's numbers are bold, by marks of terminals.
        """
        parts = [self._steps.text()]
        for facts in self._facts():
            table = layout.arranged(facts, None if full_width else terminal_width())
            parts.append(table.text(full_width=full_width, styled=styled))
        if self.offline:
            parts.append(self.offline.text(full_width=full_width, styled=styled))
        return "\n\n".join(filter(None, [*parts, visible("\n".join(self.all_notes))]))

    def _arrow_tables(self) -> ArrowTables:
        findings = [{"finding": finding, "n": n} for finding, n in self.findings.items()]
        rows = {"cleaning": self.to_dicts()["cleaning"], "findings": findings}
        kinds = {
            "cleaning": kinds_of(Step, left_out="int64"),
            "findings": {"finding": "string", "n": "int64"},
        }
        numbers: dict[str, Callable[[], pa.Table]] = {"facts": self.facts, "online": self.online}
        if self.offline:
            numbers["offline"] = self.offline.summary
        if self.propensities:
            numbers["propensities"] = self.propensities.to_arrow
        return numbers | arrow_tables(rows, kinds)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """The notes, and what is to be known of the labels."""
        corrected = self.propensities.notes() if self.propensities else ()
        return (*self.notes, *corrected, *(self._label_notes if self.offline else ()))

    @property
    def _label_notes(self) -> tuple[str, ...]:
        return labels_note(self.spec.clicks) if self.spec.clicks else ()

    @property
    def _steps(self) -> Table:
        """The report of the cleaning, and what is odd about the log."""
        findings = [f"{finding}: {n:,}" for finding, n in self.findings.items()]
        return replace(cleaning_table(self.steps, self.rows), notes=findings)

    def _facts(self) -> Iterator[layout.Facts]:
        """What is shown of the online metrics, and of estimates."""
        spec = self.spec
        is_daily = spec.clicks is not None and spec.clicks.daily
        if self._online:
            online_measures = [online(text) for text in spec.online]
            rows = sorted(self._online, key=_sort_key)
            yield layout.Facts(rows, online_measures, is_daily, bool(spec.by), REQUESTS)
        if self.estimates:
            yield layout.Facts(self.estimates, spec.estimated, is_daily, bool(spec.by), REQUESTS)


def _sort_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where a row stands in a table, as those of the lists do: by day and segment."""
    name, value = row["segment_name"], row["segment_value"]
    return (row["metric_date"], name != ALL, name, value)


def long(
    rows: Iterable[Mapping[str, Any]],
    online_measures: Sequence[Online],
    spec: Spec,
    confidence: float | None = None,
) -> list[dict[str, Any]]:
    """The sums of online metrics, one row per metric; with intervals if a confidence is given."""
    return [
        {
            "spec": spec.title,
            "metric_date": row["metric_date"],
            "system": row["system"],
            "segment_name": row["segment_name"],
            "segment_value": row["segment_value"],
            "metric": measure.name,
            "k": measure.k or 0,
            "value": _ratio(
                row[f"{measure.column}_numerator"], row[f"{measure.column}_denominator"]
            ),
            "numerator": row[f"{measure.column}_numerator"],
            "denominator": row[f"{measure.column}_denominator"],
            "n_queries": row["n_requests"],
            "n_skipped": 0,
            "n_missing": 0,
            "sum_sq": None,
            "definition_hash": spec.definition_hash(measure, row["segment_name"]),
            **({} if confidence is None else _interval(row, measure.column, confidence)),
        }
        for row in rows
        for measure in online_measures
    ]


def _interval(row: Mapping[str, Any], column: str, confidence: float) -> dict[str, float | None]:
    """The delta method's interval of a ratio over requests, by Student's t."""
    sums = {name: row[f"{column}_{name}"] for name in ("n_clusters", "sum_x2", "sum_xw", "sum_w2")}
    ratio = _ratio(row[f"{column}_numerator"], row[f"{column}_denominator"])
    sums |= {"value": ratio, "denominator": row[f"{column}_denominator"]}
    return estimate_of(sums).ends(confidence)


def interval_note(confidence: float) -> str:
    """What a reader must know of the intervals of online metrics."""
    return (
        f"± (ci_low to ci_high) of online metrics: the {100 * confidence:g} % interval of a ratio "
        "over requests (delta method); many requests of the same users make it too short"
    )


def _ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None
