"""The numbers that hand-written SQL's mistakes give, where no option does the same on purpose.

ranked ─> list_dcg ───┐
ideal ──> label_dcg ──┴> handwritten ─> one row per day, segment and kind of query

One statement beside the first, with the stages of an evaluation up to `per_query`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import catalog
from sqlmetrics.engines.database import Database
from sqlmetrics.plan.plan import Plan, plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile.mistakes import AVERAGED, MISTAKES, Dcg, Mistake, MistakenValue
from sqlmetrics.proof.reconcile.space import DEFAULTS
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, Window, equal, print_template, with_stages
from sqlmetrics.sql.template import case, conditions, double

GAINS = ("exp", "linear", "binary")
ORDERS = ("id_asc", "id_desc", "input_order")

_ALL, _RANKED, _ZERO = "all", "ranked", "zero"
_OVER: Mapping[str, str] = {
    _ALL: "",
    _RANKED: "labelled queries without a ranking are left out",
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
        mistaken += [*self._averages(rows), *self._multiples(rows), *self._of_means(rows)]
        mistaken += self._of_values(rows)
        return mistaken, [value for value in right if value is not None]

    @cached_property
    def text(self) -> str:
        """The statement."""
        stages = [*self._plan.inputs, *self._plan.per_query]
        if self._wrong:
            stages += self._wrong_stages()
        keys = [*self._groups.values(), "is_ranked"]
        counted = [
            column
            for value_column in self._columns
            for column in (
                Column(f"sum({value_column.sql})", f"{value_column.column}_total"),
                Column(f"count({value_column.sql})", f"{value_column.column}_queries"),
            )
        ]
        source = "handwritten" if self._wrong else "per_query"
        view = {
            "about": "sums over the queries, correct and with each mistake",
            "keys": keys,
            "columns": [*counted, Column("count(*)", "queries"), *self._medians(source)],
            "from": source,
        }
        return with_stages(stages, print_template("proof/dcg_sums", view))

    def _medians(self, source: str) -> Iterator[Column]:
        """The medians of the right values over all queries, beside every row."""
        for value_column in self._right:
            name = value_column.column
            for over, (value, where) in {
                _ALL: (name, ""),
                _RANKED: (name, " where is_ranked = 1"),
                _ZERO: (f"coalesce({name}, 0e0)", ""),
            }.items():
                text = f"(select median({value}) from {source}{where})"
                yield Column(text, f"{name}_median_{over}")

    @cached_property
    def _plan(self) -> Plan:
        ties = self.spec.options["ties"]
        given_conventions = {
            n: v for n, v in self.spec.conventions.items() if n not in ("missing", "average")
        }
        conventions = {**given_conventions, "ties": ties if ties in ORDERS else "id_asc"}
        metrics = [str(measure) for measure in self._bases]
        metrics += map(str, self._parts.values())
        if self.spec.measures[0].metric.name in ("ndcg", "dcg"):
            metrics += ["hit(ties=include)@1"]  # its rows have the ranks that equal scores share
        return plan(self.spec.having(metrics=metrics, conventions=conventions), self.tables)

    @cached_property
    def _parts(self) -> dict[str, Measure]:
        """What mistakes are made of beside the metric, at its cutoff or at the rank above."""
        names = {
            "recall": ("num_rel_ret",),
            "f1": ("precision", "recall"),
            "mrr": ("mrr", "first_rank"),
            "ap": ("ap",),
            "precision": ("num_rel_ret",),
        }
        measure = self.spec.measures[0]
        parts = {name: measure.part(catalog()[name]) for name in names.get(measure.metric.name, ())}
        if measure.metric.name == "precision":
            last = max(1, (measure.k or 1) - 1)
            return {name: replace(part, k=last) for name, part in parts.items()}
        return parts

    def _column(self, part: str) -> str:
        return self._plan.spec.measure(str(self._parts[part])).column

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
        return [*self._right, *self._wrong, *map(self._part_value, self._parts)]

    def _part_value(self, part: str) -> _Value:
        return _Value(self._column(part), self._column(part), self._parts[part], None)

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
        """The ways to write DCG that no option has, and what else is wrong in a query."""
        value_columns = []
        for mistake in MISTAKES:
            if not mistake.is_of(self.spec.measures[0]):
                continue
            if mistake.sql:
                columns = {part: self._column(part) for part in self._parts}
                k = self.spec.measures[0].k
                sql = mistake.sql.format(**columns, k=double(k) if k else "n_ranked")
                value_columns.append(_Value(mistake.name, sql, self._bases[0], mistake))
            if mistake.dcg is None:
                continue
            if mistake.dcg.rank != "rnk" and not self._has_scores:
                continue
            for gain in self.gains:
                if gain == mistake.options.get("gain", gain):
                    name = f"{mistake.name}_{gain}"
                    base = self._bases[self.gains.index(gain)]
                    value_columns.append(_Value(name, self._ratio(name), base, mistake))
        return value_columns

    @property
    def _has_scores(self) -> bool:
        return "score" in self._plan.shape.columns["rankings"]

    def _ratio(self, name: str) -> str:
        top = f"coalesce({name}_dcg, 0e0)"
        return f"{top} / nullif({name}_idcg, 0e0)" if self._divides else top

    @property
    def _divides(self) -> bool:
        return self.spec.measures[0].metric.name == "ndcg"

    def _wrong_stages(self) -> Iterator[Stage]:
        """One row per query with what each mistake needs."""
        names, joins = [], []
        shape = self._plan.shape
        if any(value_column.mistake and value_column.mistake.dcg for value_column in self._wrong):
            tops, bottoms = list(self._sums("dcg")), list(self._sums("idcg"))
            yield self._ranks_stage()
            yield self._sums_stage("list_dcg", "list_ranks", shape.keys, tops)
            joins.append(("list_dcg", shape.keys))
            if bottoms:
                yield self._sums_stage("label_dcg", "ideal", shape.label_keys, bottoms)
                joins.append(("label_dcg", shape.label_keys))
            names += [column.name for column in (*tops, *bottoms)]
        else:
            labels = shape.names["labels"]
            counts = [Column("count(*)", "n_labels")]
            yield self._sums_stage("label_counts", labels, shape.label_keys, counts)
            joins.append(("label_counts", shape.label_keys))
            names.append("n_labels")
            if self.spec.measures[0].metric.name in ("mrr", "ap"):
                yield self._facts_stage()
                joins.append(("list_facts", shape.keys))
                names += ["last_hit", "mean_hit", "precisions", "n_ranked"]
        text = "-- one row per query: its sums with each mistake\nselect\n    per_query.*,\n    "
        text += ",\n    ".join(names) + "\nfrom per_query"
        for stage, keys in joins:
            text += f"\nleft join {stage}\n    on {conditions(equal(stage, 'per_query', keys))}"
        yield Stage("handwritten", "text", {"text": text})

    def _facts_stage(self) -> Stage:
        """What else people make of the ranks of hits: the last, the mean, and all precisions."""
        keys, k = self._plan.shape.keys, self.spec.measures[0].k
        hit_rank = case(f"{self._relevant} and rnk <= {k}" if k else self._relevant, "rnk", "")
        precision = case(f"rnk <= {k}", "n_hits / rnk", "") if k else "n_hits / rnk"
        down = Window(keys, ["rnk asc"], "unbounded preceding")
        view = {
            "about": "the ranks of hits, and the precisions at all ranks",
            "keys": keys,
            "columns": [
                Column(f"max({hit_rank})", "last_hit"),
                Column(f"avg({hit_rank})", "mean_hit"),
                Column(f"sum({precision})", "precisions"),
                Column("count(*)", "n_ranked"),
            ],
            "from": f"(\n    select *, sum({case(self._relevant, '1e0')}) over {down} as n_hits\n"
            "    from ranked\n) as hits",
        }
        return Stage("list_facts", "proof/dcg_sums", view)

    def _ranks_stage(self) -> Stage:
        """What else is taken for a rank: by `dense_rank()`, and by the grades of the top k."""
        keys = self._plan.shape.keys
        columns = [Column("*", "*")]
        if self._has_scores:
            window = Window(keys, ["tied_rnk asc"])
            columns.append(Column(f"dense_rank() over {window}", "dense_rnk"))
        is_top = case(f"rnk <= {self.spec.measures[0].k}", "1") if self.spec.measures[0].k else "1"
        columns.append(
            Column(f"row_number() over {Window([*keys, is_top], ['grade desc'])}", "best_rnk")
        )
        lines = ",\n    ".join("*" if column.name == "*" else str(column) for column in columns)
        about = "-- other ranks that hand-written SQL uses"
        return Stage("list_ranks", "text", {"text": f"{about}\nselect\n    {lines}\nfrom ranked"})

    def _sums_stage(
        self, name: str, source: str, keys: Sequence[str], columns: list[Column]
    ) -> Stage:
        view = {"about": "sums with each mistake", "keys": keys, "columns": columns, "from": source}
        return Stage(name, "proof/dcg_sums", view)

    def _sums(self, part: str) -> Iterator[Column]:
        """DCG over the list, or IDCG over `ideal`; that of the list itself is beside its DCG."""
        for value_column in self._wrong:
            dcg = value_column.mistake.dcg if value_column.mistake else None
            if dcg is None:
                continue
            gain = str(value_column.metric.setting("gain") or DEFAULTS["gain"])
            if part == "dcg":
                yield Column(self._sum(dcg, gain), f"{value_column.column}_dcg")
            if self._divides and (part == "dcg") == (dcg.of_hits or dcg.of_top):
                yield Column(self._ideal(dcg, gain), f"{value_column.column}_idcg")

    def _ideal(self, dcg: Dcg, gain: str) -> str:
        """The sum of the list that is taken for the ideal one."""
        if dcg.of_hits:
            return self._of_hits(dcg.deepest or 0)
        ideal_dcg = replace(dcg, discount=dcg.ideal_discount or dcg.discount, rank="rnk")
        if dcg.of_top:
            return self._sum(
                replace(ideal_dcg, discount=dcg.discount.format(rank="best_rnk")), gain
            )
        return self._sum(ideal_dcg, dcg.ideal_gain or gain, deepest=dcg.deepest)

    def _sum(self, dcg: Dcg, gain: str, *, deepest: int | None = None) -> str:
        grade = dcg.grade.format(grade="grade")
        gain_sql = OPTIONS["gain"].choice(gain).sql.format(grade=grade, relevant=self._relevant)
        term = f"{gain_sql} * {dcg.discount.format(rank=dcg.rank)}"
        k = min(filter(None, (deepest, self.spec.measures[0].k)), default=None)
        return f"sum({case(f'{dcg.rank} <= {k}', term) if k else term})"

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

    def _of_means(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """The harmonic mean of means, or 1 / a mean."""
        for mistake in MISTAKES:
            if not mistake.of_means or not mistake.is_of(self.spec.measures[0]):
                continue
            for over, words in _OVER.items():
                parts = [*self._parts] if mistake.of_means == "harmonic" else ["first_rank"]
                means = [self._mean(rows, self._part_value(part), over) for part in parts]
                if all(means):
                    harmonic = len(means) / sum(1 / mean for mean in means if mean)
                    value = harmonic if mistake.of_means == "harmonic" else 1 / harmonic
                    yield MistakenValue(mistake, value, str(self._bases[0]), beside=words)

    def _of_values(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """What is no mean: medians, sums, and 1 - the mean of what is at most 1."""
        measure = self.spec.measures[0]
        is_share = measure.metric.range in ("0 to 1", "0 or 1")
        for mistake, value_column, over in product(MISTAKES, self._right, _OVER):
            if not mistake.of_values or (mistake.of_values == "complement" and not is_share):
                continue
            mean = self._mean(rows, value_column, over)
            if mean is None:
                continue
            total = sum(row[f"{value_column.column}_total"] or 0.0 for row in rows)
            value = {
                "median": rows[0][f"{value_column.column}_median_{over}"],
                "sum": total,
                "complement": 1 - mean,
            }[mistake.of_values]
            if value is not None:
                metric = str(value_column.metric)
                yield MistakenValue(mistake, value, metric, str(measure), _OVER[over])

    def _multiples(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[MistakenValue]:
        """The means that are too large by a factor."""
        for mistake in MISTAKES:
            if mistake.factor == 1.0 or not mistake.is_of(self.spec.measures[0]):
                continue
            for value_column in self._right:
                mean = self._mean(rows, value_column, _ALL)
                if mean is not None:
                    yield MistakenValue(mistake, mistake.factor * mean, str(value_column.metric))

    def _mean(
        self, rows: Sequence[Mapping[str, Any]], value_column: _Value, over: str
    ) -> float | None:
        selected_rows = [row for row in rows if over != _RANKED or row["is_ranked"]]
        total = sum(row[f"{value_column.column}_total"] or 0.0 for row in selected_rows)
        column = "queries" if over == _ZERO else f"{value_column.column}_queries"
        queries = sum(row[column] for row in selected_rows)
        return total / queries if queries else None
