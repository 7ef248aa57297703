"""The numbers that hand-written SQL's mistakes give, where no option does the same on purpose.

ranked ─> list_dcg ───┐
ideal ──> label_dcg ──┴> handwritten ─> one row per day, segment and kind of query

One statement beside the first, with the stages of an evaluation up to `per_query`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.database import Database
from sqlmetrics.plan.plan import Plan, plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile.mistakes import AVERAGED, MISTAKES, Dcg, Mistake, MistakenValue
from sqlmetrics.proof.reconcile.space import DEFAULTS
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, equal, print_template, with_stages
from sqlmetrics.sql.template import case, conditions, double

GAINS = ("exp", "linear", "binary")
ORDERS = ("id_asc", "id_desc", "input_order")

_ALL, _RANKED, _ZERO = "all", "ranked", "zero"
_OVER: Mapping[str, str] = {
    _ALL: "",
    _RANKED: "labelled queries without a ranking fall out",
    _ZERO: "a query without a value counts 0",
}
"""The queries that a mean runs over, in words: of the labelled ones."""


@dataclass(frozen=True)
class _Value:
    """A value of queries: its column, and what it is."""

    column: str
    sql: str
    metric: Measure
    mistake: Mistake | None


@dataclass(frozen=True)
class Handwritten:
    """What a query with a mistake would give.

    Attributes:
        spec: What is given, with the segments.
        tables: Where they are.
        gains: The gains that are tried, empty for a metric without.
    """

    spec: Spec
    tables: Tables
    gains: tuple[str, ...]

    def values(self, engine: Database) -> tuple[list[MistakenValue], list[float]]:
        """The mistakes with their values, and the right values."""
        rows = engine.table(self.text).to_pylist()
        right = [
            self._mean(rows, value_column, over)
            for value_column in self._right
            for over in (_ALL, _ZERO)
        ]
        mistaken = [
            MistakenValue(value_column.mistake, mean, str(value_column.metric), beside=words)
            for value_column in self._wrong
            for over, words in _OVER.items()
            if value_column.mistake and (mean := self._mean(rows, value_column, over)) is not None
        ]
        mistaken += self._averages(rows)
        return mistaken, [value for value in right if value is not None]

    @cached_property
    def text(self) -> str:
        """The statement."""
        stages = [*self._plan.inputs, *self._plan.per_query]
        if self._wrong:
            stages += self._dcg_stages()
        keys = [*self._groups.values(), "is_ranked"]
        counted = [
            column
            for value_column in self._columns
            for column in (
                Column(f"sum({value_column.sql})", f"{value_column.column}_total"),
                Column(f"count({value_column.sql})", f"{value_column.column}_queries"),
            )
        ]
        view = {
            "about": "sums over the queries, right and with each mistake",
            "keys": keys,
            "columns": [*counted, Column("count(*)", "queries")],
            "from": "handwritten" if self._wrong else "per_query",
        }
        return with_stages(stages, print_template("proof/dcg_sums", view))

    @cached_property
    def _plan(self) -> Plan:
        ties = self.spec.options["ties"]
        given_conventions = {
            n: v for n, v in self.spec.conventions.items() if n not in ("missing", "average")
        }
        conventions = {**given_conventions, "ties": ties if ties in ORDERS else "id_asc"}
        metrics = [str(measure) for measure in self._bases]
        return plan(self.spec.having(metrics=metrics, conventions=conventions), self.tables)

    @cached_property
    def _bases(self) -> list[Measure]:
        """The metric itself, with each gain."""
        measure = self.spec.measures[0]
        measures = (measure.having("gain", gain) for gain in self.gains)
        return [base.without(DEFAULTS) for base in measures] or [measure]

    @cached_property
    def _groups(self) -> dict[str, str]:
        """What means may be averaged over: in words -> the column."""
        days = {"day": "metric_date"} if "metric_date" in self._plan.shape.keys else {}
        return days | {name: segment(name) for name in self.spec.by}

    # -- values of queries --------------------------------------------------------------

    @property
    def _columns(self) -> list[_Value]:
        return [*self._right, *self._wrong]

    @cached_property
    def _right(self) -> list[_Value]:
        spec = self._plan.spec
        columns = [spec.measure(str(measure)).column for measure in self._bases]
        return [
            _Value(column, column, measure, None)
            for column, measure in zip(columns, self._bases, strict=True)
        ]

    @cached_property
    def _wrong(self) -> list[_Value]:
        """The ways to write DCG that no option has."""
        value_columns = []
        for mistake in MISTAKES:
            if mistake.dcg is None or not mistake.is_of(self.spec.measures[0]):
                continue
            for gain in self.gains:
                if gain == mistake.options.get("gain", gain):
                    name = f"{mistake.name}_{gain}"
                    base = self._bases[self.gains.index(gain)]
                    value_columns.append(_Value(name, self._ratio(name), base, mistake))
        return value_columns

    def _ratio(self, name: str) -> str:
        top = f"coalesce({name}_dcg, 0e0)"
        return f"{top} / nullif({name}_idcg, 0e0)" if self._divides else top

    @property
    def _divides(self) -> bool:
        return self.spec.measures[0].metric.name == "ndcg"

    def _dcg_stages(self) -> Iterator[Stage]:
        shape = self._plan.shape
        tops, bottoms = list(self._sums("dcg")), list(self._sums("idcg"))
        yield self._sums_stage("list_dcg", "ranked", shape.keys, tops)
        if self._divides:
            yield self._sums_stage("label_dcg", "ideal", shape.label_keys, bottoms)
        on_lists = conditions(equal("list_dcg", "per_query", shape.keys))
        on_labels = conditions(equal("label_dcg", "per_query", shape.label_keys))
        names = [column.name for column in (*tops, *bottoms)] if self._divides else []
        names = list(dict.fromkeys([*names, *(column.name for column in tops)]))
        text = "-- one row per query: its sums by each mistake\nselect\n    per_query.*,\n    "
        text += ",\n    ".join(names) + "\nfrom per_query\n"
        text += f"left join list_dcg\n    on {on_lists}"
        text += f"\nleft join label_dcg\n    on {on_labels}" if self._divides else ""
        yield Stage("handwritten", "text", {"text": text})

    def _sums_stage(
        self, name: str, source: str, keys: Sequence[str], columns: list[Column]
    ) -> Stage:
        view = {"about": "sums by each mistake", "keys": keys, "columns": columns, "from": source}
        return Stage(name, "proof/dcg_sums", view)

    def _sums(self, part: str) -> Iterator[Column]:
        """DCG over `ranked`, or IDCG over `ideal`; IDCG of the hits is one over `ranked` too."""
        for value_column in self._wrong:
            dcg = value_column.mistake.dcg if value_column.mistake else None
            if dcg is None:
                continue
            gain = str(value_column.metric.setting("gain") or DEFAULTS["gain"])
            if part == "dcg":
                yield Column(self._sum(dcg, gain, None), f"{value_column.column}_dcg")
                if dcg.of_hits:
                    yield Column(self._of_hits(dcg.deepest or 0), f"{value_column.column}_idcg")
            elif not dcg.of_hits:
                ideal = self._sum(dcg, dcg.ideal_gain or gain, dcg.deepest)
                yield Column(ideal, f"{value_column.column}_idcg")

    def _sum(self, dcg: Dcg, gain: str, deepest: int | None) -> str:
        grade = dcg.grade.format(grade="grade")
        gain_sql = OPTIONS["gain"].choice(gain).sql.format(grade=grade, relevant=self._relevant)
        term = f"{gain_sql} * {dcg.discount.format(rank='rnk')}"
        k = min(filter(None, (deepest, self.spec.measures[0].k)), default=None)
        return f"sum({case(f'rnk <= {k}', term) if k else term})"

    def _of_hits(self, most: int) -> str:
        """The sum of the discounts of as many ranks as there are hits, from a table of a few."""
        cutoff = f" and rnk <= {k}" if (k := self.spec.measures[0].k) else ""
        hits = f"sum(case when {self._relevant}{cutoff} then 1 else 0 end)"
        terms = (case(f"{hits} >= {n}", double(1 / math.log2(n + 1))) for n in range(1, most + 1))
        return "\n    + ".join(term.strip() for term in terms)

    @property
    def _relevant(self) -> str:
        return f"grade >= {double(float(self.spec.measures[0].setting('rel') or 1))}"  # type: ignore[arg-type]

    # -- means ----------------------------------------------------------------------------

    def _averages(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """The means of the means of days or segments."""
        for grouping, column in self._groups.items():
            groups: dict[Any, list[Mapping[str, Any]]] = {}
            for row in rows:
                groups.setdefault(row[column], []).append(row)
            for value_column in self._right:
                for over, words in _OVER.items():
                    means = [self._mean(group, value_column, over) for group in groups.values()]
                    defined_means = [mean for mean in means if mean is not None]
                    if defined_means:
                        mean = sum(defined_means) / len(defined_means)
                        yield MistakenValue(
                            AVERAGED, mean, str(value_column.metric), grouping, words
                        )

    def _mean(
        self, rows: Sequence[Mapping[str, Any]], value_column: _Value, over: str
    ) -> float | None:
        selected_rows = [row for row in rows if over != _RANKED or row["is_ranked"]]
        total = sum(row[f"{value_column.column}_total"] or 0.0 for row in selected_rows)
        column = "queries" if over == _ZERO else f"{value_column.column}_queries"
        queries = sum(row[column] for row in selected_rows)
        return total / queries if queries else None
