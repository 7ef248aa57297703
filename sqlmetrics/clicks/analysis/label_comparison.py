"""The same log judged by other labels: without its own clicks, without the correction, later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any, ClassVar

from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.labels import can_leave_own_out
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.execution import run
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.days import Days, day_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.tables.table import Table, printable
from sqlmetrics.tables.tabular import Block, Kinds, Row, Tabular

AS_SAID = "as the spec says"
HELD_OUT = "learned from the other requests"
CORRECTED = "corrected for positions ({rate})"
UNCORRECTED = "not corrected for positions ({rate})"
EARLIER = "learned from {first} to {last}"
ALL_DAYS = "learned from all requests"

PLAIN = {"ips": "ctr", "coee": "coec"}
"""A rate that is corrected for positions -> the one that is not."""

MOST = 10
"""So many items are listed that moved."""


@dataclass(frozen=True, repr=False)
class LabelComparison(Tabular):
    """A click log's metrics by several labels, side by side.

    Attributes:
        rows: One per labels, system and metric: labels, first_day, last_day, system, metric,
            value, n_queries. Rows of the same days can be compared; days are None for all.
        moved: The items that the correction of positions moves most within their query: query_text,
            item_id, n_impressions, rank, corrected_rank, rate, corrected_rate.
        notes: By how much labels that judge themselves lift a metric, and what cannot be told.
    """

    rows: tuple[Row, ...]
    moved: tuple[Row, ...] = ()
    notes: tuple[str, ...] = field(default=())

    _schemas: ClassVar[Mapping[str, Kinds]] = {
        "labels": {
            **dict.fromkeys(("labels", "first_day", "last_day", "system", "metric"), "string"),
            "value": "double",
            "n_queries": "int64",
        },
        "moved": {
            **dict.fromkeys(("query_text", "item_id"), "string"),
            **dict.fromkeys(("n_impressions", "rank", "corrected_rank"), "int64"),
            **dict.fromkeys(("rate", "corrected_rate"), "double"),
        },
    }

    def to_dicts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return {"labels": [*self.rows], "moved": [*self.moved], "notes": [*self.notes]}

    def _blocks(self) -> Iterator[Block]:
        yield _side_by_side(self.rows)
        if self.moved:
            yield _moved_table(self.moved)
        yield "\n".join(f"note: {note}" for note in self.notes)


def compare_labels(spec: Spec, engine: Database) -> LabelComparison:
    """Judge the same lists by other labels.

    By those of the spec; by what all other requests did, each request's own clicks left out; with
    the correction of positions, or without it; and by what was learned on earlier days, beside
    the same later days judged by labels of all.

    Args:
        spec: A spec with a click log whose labels are pooled, and metrics of lists.
        engine: Where the log is.

    Raises:
        SpecError: If its labels are not pooled, or it has no metric of lists.
        InputError: If the log cannot be evaluated as the spec says.
    """
    clicks = spec.clicks
    if clicks is None:
        raise SpecError("the spec has no clicks; use evaluate for rankings and labels")
    if not clicks.labels.pools:
        raise SpecError(
            "labels of pool impression are what users did in the request itself, so no other "
            "labels can replace them; write below clicks, in place of labels.grades: labels: "
            "{pool: query_item, rate: ctr}"
        )
    if not spec.metrics:
        raise SpecError("labels are compared by list metrics; add -m ndcg@10")
    return _Comparing(spec, clicks, engine).compared()


@dataclass(frozen=True)
class _Judged:
    """The rows of the metrics by day, and the judgments."""

    rows: Sequence[Mapping[str, Any]]
    judgments: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class _Comparing:
    spec: Spec
    clicks: Clicks
    engine: Database

    def compared(self) -> LabelComparison:
        rows: list[Row] = []
        notes: list[str] = []
        original = self._judged({})
        days = _days(original.rows) if self.clicks.is_timed else []
        rows += _rows(AS_SAID, original.rows)
        if can_leave_own_out(self.clicks.labels):
            judged_by_others = self._judged({}, leaves_own_out=True)
            rows += _rows(HELD_OUT, judged_by_others.rows)
            notes += _lifts(rows)
        moved = self._corrected(original, rows, notes)
        self._apart(original, days, rows, notes)
        return LabelComparison(tuple(rows), tuple(moved), tuple(notes))

    def _judged(self, changed: Mapping[str, Any], *, leaves_own_out: bool = False) -> _Judged:
        settings = {name: getattr(self.clicks, name) for name in Clicks.model_fields}
        daily = {"daily": True} if self.clicks.is_timed else {}
        clicks = Clicks(**{**settings, **daily, **changed})
        spec = self.spec.having(clicks=clicks, rankings=None, labels=None)
        with cleaned_log(clicks, self.engine) as clean:
            log = clean
            if leaves_own_out:
                log = replace(clean, tables=replace(clean.tables, leaves_own_out=True))
            with log.views() as shown_lists:
                tables = replace(opened(spec, self.engine), shown_lists=shown_lists)
                result = run(spec, tables, self.engine, per_query=False)
            judgments = [] if leaves_own_out else log.judgments().to_pylist()
        rows = [row for row in result.to_dicts() if row["segment_name"] == "all"]
        return _Judged(rows, judgments)

    def _with_labels(self, **changed: Any) -> Row:
        return {"labels": self.clicks.labels.model_copy(update=changed)}

    def _corrected(self, original: _Judged, rows: list[Row], notes: list[str]) -> list[Row]:
        """With the correction of positions where the spec has none, and the other way round."""
        rate = self.clicks.labels.rate
        to_corrected = {plain: corrected for corrected, plain in PLAIN.items()}
        other_rate = PLAIN.get(rate) or to_corrected.get(rate)
        if other_rate is None:
            return []
        changed = self._with_labels(rate=other_rate)
        if other_rate in PLAIN and not self.clicks.propensity.is_known:
            harvest = self.clicks.propensity.model_copy(update={"method": "harvest"})
            changed["propensity"] = harvest
        name = (CORRECTED if other_rate in PLAIN else UNCORRECTED).format(rate=other_rate)
        try:
            judged = self._judged(changed)
        except InputError as error:
            notes.append(f"{name}: {error}")
            return []
        rows += _rows(name, judged.rows)
        plain, corrected = (original, judged) if other_rate in PLAIN else (judged, original)
        return _moved(plain.judgments, corrected.judgments)

    def _apart(
        self, original: _Judged, days: Sequence[date], rows: list[Row], notes: list[str]
    ) -> None:
        """Learned on earlier days, beside the same later days judged by what all requests did."""
        window = self.clicks.labels.window
        if window is not None:
            all_days = {**self._with_labels(window=None), "evaluation": None}
            judged = self._judged(all_days)
            later = [row for row in judged.rows if day_of(row["metric_date"]) in {*days}]
            rows += _rows(ALL_DAYS, later)
            return
        if len(days) < 2:
            notes.append(
                "labels of earlier days: the log needs two days, one to learn from and one "
                "to evaluate"
            )
            return
        learned, later_days = days[: len(days) // 2], days[len(days) // 2 :]
        first = Days(start=learned[0], end=later_days[0])
        second = Days(start=later_days[0], end=later_days[-1] + timedelta(1))
        judged = self._judged({**self._with_labels(window=first), "evaluation": second})
        same = [row for row in original.rows if day_of(row["metric_date"]) in {*later_days}]
        rows += _rows(AS_SAID, same, later_days)
        name = EARLIER.format(first=learned[0], last=learned[-1])
        rows += _rows(name, judged.rows, later_days)


def _days(rows: Sequence[Mapping[str, Any]]) -> list[date]:
    return sorted({day_of(row["metric_date"]) for row in rows})


def _rows(
    labels: str, rows: Sequence[Mapping[str, Any]], days: Sequence[date] = ()
) -> Iterator[Row]:
    """The means over the days, one row a system and metric."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    for row in rows:
        metric = row["metric"] + (f"@{row['k']}" if row["k"] else "")
        total = sums[str(row["system"]), metric]
        total[0] += row["numerator"] or 0.0
        total[1] += row["denominator"] or 0.0
        total[2] += row["n_queries"]
    for (system, metric), (top, bottom, n_queries) in sums.items():
        yield {
            "labels": labels,
            "first_day": str(days[0]) if days else None,
            "last_day": str(days[-1]) if days else None,
            "system": system,
            "metric": metric,
            "value": top / bottom if bottom else None,
            "n_queries": int(n_queries),
        }


def _lifts(rows: Sequence[Row]) -> Iterator[str]:
    """By how much labels that judge themselves lift each metric, of each system."""
    value = {(row["labels"], row["system"], row["metric"]): row["value"] for row in rows}
    for (labels, system, metric), own_value in value.items():
        other_value = value.get((HELD_OUT, system, metric))
        if labels == AS_SAID and own_value is not None and other_value is not None:
            yield (
                f"{metric} of {printable(system)} is {own_value:.4f}, but {other_value:.4f} where "
                "each request is judged only by the other requests: judging by itself adds "
                f"{own_value - other_value:+.4f}"
            )


def _moved(plain: Sequence[Mapping[str, Any]], corrected: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The items whose rank within their query changes most, those shown most often first."""
    before, after = _ranks(plain), _ranks(corrected)
    rows = [
        {
            "query_text": query,
            "item_id": item,
            "n_impressions": row["n_impressions"],
            "rank": rank,
            "corrected_rank": after[query, item][0],
            "rate": row["rate"],
            "corrected_rate": after[query, item][1]["rate"],
        }
        for (query, item), (rank, row) in before.items()
        if (query, item) in after and after[query, item][0] != rank
    ]
    rows.sort(
        key=lambda row: (
            -abs(row["rank"] - row["corrected_rank"]),
            -row["n_impressions"],
            row["query_text"],
            row["item_id"],
        )
    )
    return rows[:MOST]


def _ranks(
    judgments: Sequence[Mapping[str, Any]],
) -> dict[tuple[str, str], tuple[int, Mapping[str, Any]]]:
    """(Query, item) -> its rank by the rate within the query, equal rates by the item, and it."""
    by_query: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in judgments:
        by_query[row["query_text"]].append(row)
    return {
        (query, row["item_id"]): (rank, row)
        for query, rows in by_query.items()
        for rank, row in enumerate(
            sorted(rows, key=lambda row: (-row["rate"], row["item_id"])), start=1
        )
    }


def _side_by_side(rows: Sequence[Row]) -> Table:
    """One line per labels and system, a column a metric."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    lines: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        days = f"{row['first_day']} to {row['last_day']}" if row["first_day"] else "all"
        lines[days, row["labels"], row["system"]][row["metric"]] = row
    table = [
        [
            *(labels, days, printable(system)),
            *(
                _number(by_metric[metric]["value"]) if metric in by_metric else ""
                for metric in metrics
            ),
            f"{max(row['n_queries'] for row in by_metric.values()):,}",
        ]
        for (days, labels, system), by_metric in lines.items()
    ]
    return Table(["labels", "days", "system", *metrics, "queries"], table, 3)


def _moved_table(rows: Sequence[Row]) -> Table:
    names = ["query", "item", "impressions", "rank", "corrected rank", "rate", "corrected rate"]
    cells = [
        [
            *(printable(row["query_text"]), printable(row["item_id"])),
            f"{row['n_impressions']:,}",
            *(str(row["rank"]), str(row["corrected_rank"])),
            *(_number(row["rate"]), _number(row["corrected_rate"])),
        ]
        for row in rows
    ]
    return Table(names, cells, 2)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
