"""Small random worlds: rankings, labels, options and metrics that any user could bring.

Everything that the input checks would refuse is left out where a world is made, so a
refusal is a failure. The number of examples is `SQLMETRICS_EXAMPLES`, 12 if not set.
"""

from __future__ import annotations

import math
import os
import random
import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import sqlmetrics as sm
from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.catalog.metric import Metric, catalog
from sqlmetrics.engines.database import connect
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.proof.reference_evaluation import Evaluation
from sqlmetrics.proof.verify import evaluated_by_reference

EXAMPLES = int(os.environ.get("SQLMETRICS_EXAMPLES", "12"))

settings.register_profile(
    "sqlmetrics",
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sqlmetrics")
FEWER = settings(max_examples=max(10, EXAMPLES // 5))

IDS = ("a", "A", "a ", "á", "a\u0301", "10", "9", "", "😀", "\ufffd", "o'x", 'we"ird', "x" * 300)
QUERIES = ("q", "Q", "q ", "é", "10", "9", "", "😀", "o'q", 'q"q')
SYSTEMS = ("new", "New", "o'ld")
DAYS = ("2024-02-29", "2024-03-01")
GROUPS = ("1", "01", "a", "A", "a ", "", "o'x", 'we"ird')
SCORES = (3.0, 1.0, 0.0, -0.0, 1e-320, 0.1, 0.1 + 1e-11, 2.0**24, 2.0**24 + 1, math.inf, -math.inf)
DIGITS = ("1", "1.000000000000000001", "9007199254740993", "9007199254740992", "-0", "-1e-18")
"""Decimals that doubles do not hold, or not apart."""

GRADES = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 4.0)
GAINS = (0, 0.5, 1, 3, 4.5, 9)
RELS = (0.1, 0.5, 1, 2, 3)
NUMBERS: Mapping[str, Sequence[float]] = {
    "rel": RELS,
    "p": (0.1, 0.5, 0.8, 0.95),
    "p_break": (0.01, 0.15, 0.9),
    "recall": (0, 0.1, 0.25, 0.3, 0.7, 1),
    "alpha": (0, 0.3, 0.5, 0.9, 1),
    "beta": (0.5, 1, 2, 3.3),
    "nrbp.beta": (0.1, 0.5, 0.95),
    "group_rbp.beta": (0.1, 0.5, 0.95),
    "max_grade": (4, 4.5, 10),
    "t": (0.3, 0.5, 1, 2, 3.7),
    **{
        f"{name}.t": (0.5, 0.6, 1, 3.7)
        for name in ("inst", "inst_gained", "inst_looks", "inst_log_of_rest", "inst_start")
    },
    "inst_end.t": (0.5, 0.6, 1, 3.7),
    "insq.t": (0.5, 0.6, 1, 3.7),
    "equal": (0, 0.3, 1),
    "min_grade": (0, 0.5, 1, 2),
    "max_fpr": (0.05, 0.1, 0.3, 0.5, 0.8, 1),
}
"""Parameters -> values of which none makes a world that is refused; of one metric with its name."""
CUTOFFS = (1, 2, 3, 5, 100)
CATEGORIES = ("a", "A", "a ", "", "o'x")
PRICES = (None, -2.5, 0.0, 3.0, 1e6)
POPULARITIES = (1.0, 2.5, 3.0, 1000.0)
USERS = (1000.0, 1e6)
VECTORS = ([1.0, 0.0], [0.0, 2.0], [3.0, 4.0], [1e-3, 1e-3], [5e5, 1.0])
WEIGHTS = (0.0, 0.5, 1.0, 3.0)
REVENUES = (None, 0.0, 0.5, 3.0, 1e6)
SEGMENTS: Mapping[str, Sequence[str | None]] = {
    "country": ("de", "DE", "(unknown)", "", None),
    'we"ird name': ("o'x", "all", None),
}

Row = dict[str, Any]
Options = Mapping[str, Any]
GroupKey = tuple[str, str, str, str]
"""Day and system, empty if there is none; then `query` and its id, or segment and value."""
Figure = tuple[float | None, tuple[int, int, int] | None]
"""A value and, for a mean, how many queries were counted, skipped and missing."""
Numbers = Mapping[tuple[GroupKey, Measure], Figure]


@dataclass(frozen=True)
class World:
    """An evaluation, with all that `sm.evaluate` is given."""

    rankings: Sequence[Row]
    labels: Sequence[Row]
    metrics: Sequence[str]
    options: Options
    items: Sequence[Row] = ()

    def evaluated(self, connection: duckdb.DuckDBPyConnection) -> sm.Result:
        """The world by SQL."""
        rankings, labels = (_table(rows) for rows in (self.rankings, self.labels))
        options = {"connection": connection, **self.options}
        if self.items:
            options["items"] = _table(self.items)
        return sm.evaluate(rankings, labels, self.metrics, **options)

    def having(self, **options: object) -> World:
        """The same with more of what `sm.evaluate` is given."""
        return replace(self, options={**self.options, **options})

    def relevant(self, query: str, date: object, rel: float) -> int:
        """R: how many items are relevant for a query on a day."""
        mine = [row for row in self.labels if row["query_id"] == query]
        today = [row for row in mine if row.get("date", str(date)) == str(date)]
        return len({row["item_id"] for row in today if row["grade"] >= rel})


def _table(rows: Sequence[Row]) -> pa.Table:
    names = ["query_id", "item_id", "group", "system", "date", "category", "in_stock", "seller"]
    types = {name: pa.string() for name in (*names, *SEGMENTS)} | {"vector": pa.list_(pa.float64())}
    types["rank"] = pa.int64()
    if isinstance(rows[0].get("score"), Decimal):
        types["score"] = pa.decimal128(38, 18)
    fields = [pa.field(name, types.get(name, pa.float64())) for name in rows[0]]
    return pa.Table.from_pylist(list(rows), pa.schema(fields))


def proof_of(result: sm.Result, connection: duckdb.DuckDBPyConnection | None = None) -> Evaluation:
    """What the reference makes of the spec and the data of a result."""
    with connect(connection) as engine:
        return evaluated_by_reference(make_plan(result.spec, opened(result.spec, engine)), engine)


def by_sql(result: sm.Result) -> Numbers:
    """Every number of a result, by its group and metric."""
    figures: dict[tuple[GroupKey, Measure], Figure] = {}
    for row in result.per_query().to_pylist():
        group = (*_run(row, result), "query", row["query_id"])
        figures |= {
            (group, measure): (row[measure.column], None)
            for measure in result.measures
            if not measure.metric.pooled
        }
    measures = {(measure.name, measure.k or 0): measure for measure in result.measures}
    for row in result.to_dicts():
        group = (*_run(row, result), row["segment_name"], row["segment_value"])
        counts = row["n_queries"], row["n_skipped"], row["n_missing"]
        figures[group, measures[row["metric"], row["k"]]] = row["value"], counts
    return figures


def by_reference(result: sm.Result, proof: Evaluation) -> Numbers:
    """Every number that a result must have, likewise."""
    figures: dict[tuple[GroupKey, Measure], Figure] = {}
    ranked, drops = _ranked(result.spec), result.spec.options["missing"] == "drop"
    for (date, system, query), values in proof.per_query.items():
        group = (str(date or ""), system, "query", query)
        if group in ranked or not drops:
            pairs = zip(result.measures, values, strict=True)
            figures |= {
                (group, measure): (value, None)
                for measure, value in pairs
                if not measure.metric.pooled
            }
    for (date, *rest), means in proof.summary.items():
        for measure, mean in zip(result.measures, means, strict=True):
            counts = mean.n_queries, mean.n_skipped, mean.n_missing
            if any(counts):
                figures[(str(date or ""), *rest), measure] = mean.value, counts
    return figures


def _run(row: Row, result: sm.Result) -> tuple[str, str]:
    """Day and system, empty where the input has none."""
    date = str(row["metric_date"]) if "metric_date" in result.list_keys else ""
    return date, row["system"] if "system" in result.list_keys else ""


def _ranked(spec: sm.Spec) -> set[GroupKey]:
    """The groups of the queries that have a ranking, read from the data itself."""
    columns = spec.rankings.columns
    rows = spec.rankings.data.to_pylist()
    return {
        (row.get(columns.date, ""), row.get(columns.system, ""), "query", row[columns.query])
        for row in rows
    }


def differences(numbers: Numbers, wanted: Numbers) -> list[str]:
    """What is not the same, or on one side only, one line each."""
    return [
        f"{measure} at {group}: {numbers.get((group, measure))}, not {wanted.get((group, measure))}"
        for group, measure in dict.fromkeys([*numbers, *wanted])
        if not _agree(numbers.get((group, measure)), wanted.get((group, measure)))
    ]


def _agree(got: Figure | None, wanted: Figure | None) -> bool:
    if got is None or wanted is None:
        return False
    return same(got[0], wanted[0]) and got[1] == wanted[1]


def same(got: float | None, wanted: float | None) -> bool:
    """Equal at 1e-12, relative; NULL equals NULL alone, NaN equals NaN alone."""
    if got is None or wanted is None:
        return got is wanted
    if math.isnan(got) or math.isnan(wanted):
        return math.isnan(got) and math.isnan(wanted)
    return math.isclose(got, wanted, rel_tol=1e-12, abs_tol=0)


def added(rows: Sequence[Row], segment: str) -> dict[tuple[str, ...], float]:
    """The sums of what each mean is made of, over the values of a segment."""
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for row in (row for row in rows if row["segment_name"] == segment):
        group = tuple(str(row[key]) for key in ("metric_date", "system", "metric", "k"))
        for name in ("numerator", "denominator", "n_queries", "n_skipped", "n_missing"):
            sums[*group, name] += row[name] or 0
    return dict(sums)


# -- metrics and options ----------------------------------------------------------------


def tables() -> st.SearchStrategy[dict[float, float]]:
    """Gain tables that have every grade; most do not grow with it."""
    return st.fixed_dictionaries({grade: st.sampled_from(GAINS) for grade in GRADES if grade})


@st.composite
def metric_texts(
    draw: st.DrawFn,
    table: Mapping[float, float] | None = None,
    *,
    compares: bool = True,
    weighted: bool = False,
    grouped: bool = True,
) -> str:
    """Any metric with any settings that it has.

    Args:
        draw: Hypothesis' own.
        table: A gain table that it may have.
        compares: Whether there are systems to compare.
        weighted: Whether queries have weights.
        grouped: Whether labels have groups.
    """
    lacks = {*["baseline"] * (not compares), *["labels.group"] * (not grouped)}
    metrics = [
        candidate
        for candidate in catalog().values()
        if lacks.isdisjoint(candidate.needs) and not (weighted and candidate.pooled)
    ]
    metric = draw(st.sampled_from(metrics))
    names = draw(st.lists(st.sampled_from(metric.settings), unique=True, max_size=3))
    names += [name for name in ("max_grade",) if name in metric.parameters and name not in names]
    arguments = {name: draw(_setting(name, table, metric.name)) for name in names}
    if weighted and arguments.get("average") not in (None, "macro", "micro"):
        del arguments["average"]
    if "ties" in arguments:  # the only rules that a metric can have for itself
        arguments["ties"] = draw(st.sampled_from(["average", *["include"] * metric.of_set]))
    if "discount" in metric.options and arguments.get("discount") != "geometric":
        arguments.pop("p", None)
    if "gain" in metric.options and not _uses_rel(arguments):
        arguments.pop("rel", None)
    column = [f"column='{metric.operand.partition('_')[2]}'"] if metric.operand else []
    inside = ", ".join([*column, *(f"{name}={value}" for name, value in arguments.items())])
    return f"{metric.name}({inside})" + draw(_cutoff(metric))


def _setting(
    name: str, table: Mapping[float, float] | None, metric: str = ""
) -> st.SearchStrategy[Any]:
    if name not in OPTIONS:
        return st.sampled_from(NUMBERS.get(f"{metric}.{name}") or NUMBERS[name])
    if name == "min_score":
        return st.sampled_from(["none", -0.5, 0, 0.1, 1, 2**24 + 1])
    if name == "depth":
        return st.sampled_from(["none", 1, 2, 5])
    # unjudged=error refuses most worlds; test_cases and test_bad_input have it
    names = [c.name for c in OPTIONS[name].choices if c.name != "table"]
    choices = st.sampled_from(
        [choice for choice in names if (name, choice) != ("unjudged", "error")]
    )
    return choices | (st.just(table) if table else tables()) if name == "gain" else choices


def _uses_rel(options: Options) -> bool:
    of_relevant = ("relevant", "common_relevant", "hits", "relevant_shown")
    return options.get("gain") == "binary" or options.get("average_over") in of_relevant


def _cutoff(metric: Metric) -> st.SearchStrategy[str]:
    cutoffs = st.sampled_from([f"@{k}" for k in CUTOFFS if k <= (metric.deepest or k)])
    if metric.cutoff == "required":
        return cutoffs
    return st.just("") if metric.cutoff == "none" else st.just("") | cutoffs


def conventions(table: Mapping[float, float]) -> st.SearchStrategy[dict[str, Any]]:
    """Any values of any options; a micro average is for the metrics that have one."""
    values = {name: _setting(name, table) for name in OPTIONS if name != "average"}
    return st.fixed_dictionaries({}, optional=values)


# -- tables -----------------------------------------------------------------------------


@st.composite
def worlds(draw: st.DrawFn, **fixed: Any) -> World:
    """Rankings of up to two systems on up to two days, and labels for some of the queries.

    Args:
        draw: Hypothesis' own.
        **fixed: Options that the world must have.
    """
    table = draw(tables())
    options = draw(conventions(table)) | fixed
    if options.get("duplicate_rankings") == "first" and options.get("ties") == "average":
        options["duplicate_rankings"] = "count"  # which one of two is first is open then
    shape = draw(_shapes(options))
    by = draw(st.lists(st.sampled_from(list(SEGMENTS)), unique=True))
    weight = {"weight": "weight"} if shape.weighted else {}
    order = {"rank": "rank"} if shape.by_rank else {}
    system = {"system": "system"} if shape.systems != (None,) else {}
    baseline = {"baseline": shape.systems[0]} if system else {}
    texts = metric_texts(
        table, compares=bool(system), weighted=shape.weighted, grouped=shape.grouped
    )
    group = {"group": "group"} if shape.grouped else {}
    date = {"date": "date"} if shape.days != (None,) else {}
    return World(
        draw(_rankings(shape)),
        draw(_labels(shape)),
        _with_formula(_fitting(draw(st.lists(texts, min_size=3, max_size=8)), options), options),
        {"by": by, **weight, **order, **system, **baseline, **date, **group, **options},
        draw(_items()),
    )


def _fitting(texts: Sequence[str], options: Options) -> list[str]:
    """The metrics that fit the options, with one that always does."""

    def fits(text: str) -> bool:
        try:
            return bool(sm.Spec(**_NOWHERE, metrics=[text], conventions=options))
        except sm.SpecError as error:
            needs = (" needs ", "is not known", "does not change the gains", *_AVERAGES)
            if any(not any(need in problem for need in needs) for problem in error.problems):
                raise
            return False

    return [*filter(fits, texts), "num_rel_ret(average_over=labels)"]


def _with_formula(texts: list[str], options: Options) -> list[str]:
    """The metrics, and a number made of the first ones where they can be parts of one."""
    parts = [text for text in texts if _fitting([f"formula = {text}"], options)[1:]][:3]
    places = zip(parts, ("{} * 0.5", " - ({}", " / {})"), strict=False)
    formula = "".join(pattern.format(text) for text, pattern in places)
    return [*texts, f"formula = {formula}{')' * (len(parts) == 2)}"] if parts else texts


_AVERAGES = (
    *(" has no micro average", "only a mean can weigh queries", "have no geometric mean"),
    *("a formula needs a plain mean", "has no value for a single query"),
)
"""What refuses the average of one metric."""

_NOWHERE: Any = {"rankings": {"relation": "rankings"}, "labels": {"relation": "labels"}}


@dataclass(frozen=True)
class _Shape:
    """What the tables of a world have; the first query is ranked and labelled."""

    options: Options
    systems: Sequence[str | None]
    days: Sequence[str | None]
    queries: Sequence[str]
    labelled: Sequence[str]
    labels_dated: bool
    weighted: bool
    by_rank: bool
    grouped: bool
    decimals: bool

    def option(self, name: str) -> object:
        return self.options.get(name, OPTIONS[name].choices[0].name)

    def must_rank(self, day: str | None, system: str | None, query: str) -> bool:
        """Whether the list may not be empty: the checks would refuse the world."""
        if query not in self.labelled:
            return False
        if (day, system, query) == (self.days[0], self.systems[0], self.queries[0]):
            return True
        is_first = system == self.systems[0]
        return self.option("missing") == "error" or (self.needs_a_list and is_first)

    @property
    def needs_a_list(self) -> bool:
        """Whether a labelled query must be ranked by some system."""
        if self.days != (None,):
            return False  # on days on which no system has it, it is not asked for
        missing = self.option("missing")
        return missing == "error" or (self.weighted and missing != "drop")


@st.composite
def _shapes(draw: st.DrawFn, options: Options) -> _Shape:
    systems = draw(
        st.just([None]) | st.lists(st.sampled_from(SYSTEMS), min_size=1, max_size=2, unique=True)
    )
    days = draw(st.sampled_from([(None,), (None,), DAYS[:1], DAYS]))
    queries = draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=4, unique=True))
    extra_queries = draw(st.lists(st.sampled_from(queries), unique=True))
    return _Shape(
        options,
        tuple(systems),
        days,
        queries,
        list(dict.fromkeys([queries[0], *extra_queries])),
        labels_dated=days != (None,) and draw(st.booleans()),
        weighted=draw(st.booleans()),
        by_rank=draw(st.booleans()) and options.get("min_score", "none") == "none",
        grouped=draw(st.booleans()),
        decimals=options.get("score_precision") == "exact" and draw(st.booleans()),
    )


@st.composite
def _rankings(draw: st.DrawFn, shape: _Shape) -> list[Row]:
    rows = []
    for day in shape.days:
        for query in shape.queries:
            facts = {name: draw(st.sampled_from(values)) for name, values in SEGMENTS.items()}
            weight = draw(st.sampled_from(WEIGHTS)) if shape.weighted else None
            for system in shape.systems:
                least = 1 if shape.must_rank(day, system, query) else 0
                keys = {"date": day, "system": system, "query_id": query, "weight": weight}
                present_keys = {key: value for key, value in keys.items() if value is not None}
                rows += [{**present_keys, **facts, **row} for row in draw(_list(shape, least))]
    random.Random(draw(st.integers(0, 9))).shuffle(rows)
    return rows


@st.composite
def _list(draw: st.DrawFn, shape: _Shape, least: int) -> list[Row]:
    """One ranked list, in no order."""
    repeats = shape.option("duplicate_rankings")
    twice = repeats in ("best_score", "first", "count")
    unique_by: Any = [] if twice else [lambda pair: pair[0]]
    if shape.option("ties") == "error" and not shape.by_rank:
        alike = float if shape.decimals else _float32
        unique_by.append(lambda pair: alike(pair[1]))
    scores: Sequence[Any] = [*map(Decimal, DIGITS)] if shape.decimals else SCORES
    pairs = draw(
        st.lists(
            st.tuples(st.sampled_from(IDS), st.sampled_from(scores)),
            min_size=least,
            max_size=8,
            unique_by=tuple(unique_by) or None,
        )
    )
    if not shape.by_rank:
        return [{"item_id": item, "score": score} for item, score in pairs]
    tied = repeats == "best_score" and shape.option("ties") != "error"
    ranks = [1 + index // 2 for index in range(len(pairs))] if tied else range(1, len(pairs) + 1)
    return [{"item_id": item, "rank": rank} for (item, _), rank in zip(pairs, ranks, strict=True)]


@st.composite
def _items(draw: st.DrawFn) -> list[Row]:
    """The catalogue: every id, and some that nobody shows."""
    users = draw(st.sampled_from(USERS))
    return [
        {
            "item_id": item,
            "category": draw(st.sampled_from(CATEGORIES)),
            "popularity": draw(st.sampled_from(POPULARITIES)),
            "users": users,
            "vector": draw(st.sampled_from(VECTORS)),
            "price": draw(st.sampled_from(PRICES)),
            "seller": draw(st.sampled_from((None, *CATEGORIES))),
            "in_stock": draw(st.sampled_from((None, "true", "No", "1"))),
        }
        for item in (*IDS, "never shown")
    ]


def _float32(score: float) -> float:
    return float(struct.unpack("f", struct.pack("f", score))[0])


@st.composite
def _labels(draw: st.DrawFn, shape: _Shape) -> list[Row]:
    twice = shape.option("duplicate_labels") == "max_grade"
    bad = () if shape.option("negative_grades") == "error" else (-1.0, -0.5)
    groups = st.sampled_from(GROUPS) if shape.grouped else st.none()
    grades, revenues = st.sampled_from(GRADES + bad), st.sampled_from(REVENUES)
    graded = st.tuples(st.sampled_from(IDS), groups, grades, revenues)
    rows: list[Row] = []
    for day in shape.days if shape.labels_dated else (None,):
        date = {"date": day} if day else {}
        unranked = [] if shape.needs_a_list else draw(st.sampled_from([[], ["only labelled"]]))
        for query in [*shape.labelled, *unranked]:
            unique_by = None if twice else lambda label: label[:2]
            labels = draw(st.lists(graded, min_size=1, max_size=6, unique_by=unique_by))
            for item, name, grade, revenue in labels:
                group = {} if name is None else {"group": name}
                ids = {"query_id": query, "item_id": item, **group}
                rows.append({**date, **ids, "grade": grade, "revenue": revenue})
    return rows
