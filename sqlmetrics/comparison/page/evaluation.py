"""A report's content from rankings and labels: an evaluation, a comparison, and their pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.dimension import SIGNS
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.breakdown import contributions_of, movers_of
from sqlmetrics.comparison.compare import compared_plan
from sqlmetrics.comparison.design import design
from sqlmetrics.comparison.options import Movers, Options
from sqlmetrics.comparison.page.content import ALL, Content
from sqlmetrics.comparison.page.profile import draw_sample, profile
from sqlmetrics.comparison.statements import Statements, columns_stage, sums_stage
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.execution import USUALLY, executing, result_of
from sqlmetrics.evaluation.question import Inputs
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import double
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.stats.estimate import Estimate, mean_of_repeats, ratio_of_sums
from sqlmetrics.tables.tabular import Row

# What pictures of queries are made of: counts in bins and sums by day, made in the database.

BINS = 20
"""As many bins has the range of values; differences have five times as many to each side."""

FINER = 5

DAY = "metric_date"


@dataclass(frozen=True)
class Pairs:
    """The queries of two systems side by side, of one metric.

    Attributes:
        pairing: What is compared: one system, one metric.
    """

    pairing: Pairing

    @classmethod
    def of(cls, pairing: Pairing, system: str, metric: str) -> Pairs:
        """Those of one system and metric; each day of a query by itself.

        Args:
            pairing: What is compared.
            system: The system.
            metric: The metric's text.
        """
        measures = tuple(measure for measure in pairing.measures if str(measure) == metric)
        return cls(replace(pairing, systems=(system,), measures=measures, cluster=None, by=()))

    @property
    def _column(self) -> str:
        return self.pairing.measures[0].column

    def bins(self, statements: Statements) -> tuple[float, list[Row], list[Row]]:
        """How wide bins are, queries by both values, and queries by their difference.

        Args:
            statements: The statements of the comparison.
        """
        name = self._column
        ends = [
            f"{way}({column})" for way in ("min", "max") for column in (name, f"{name}_baseline")
        ]
        columns = ",\n    ".join(
            f"{expression} as end_{position}" for position, expression in enumerate(ends)
        )
        select = f"select\n    {columns}\nfrom pairs\nwhere {name}_difference is not null"
        extremes = statements.rows([*self.pairing.stages()], select)[0]
        if None in extremes.values():
            return 0.0, [], []
        low, high = min(map(float, extremes.values())), max(map(float, extremes.values()))
        width = bin_width(low, high)
        rows = statements.rows(*self._bins_query(width))
        cells = Counter[tuple[int, int]]()
        deltas = Counter[int]()
        last = math.ceil(high / width - 1e-6) - 1
        for row in rows:
            n = int(row["n"])
            cells[min(last, int(row["baseline_bin"])), min(last, int(row["value_bin"]))] += n
            deltas[int(row["difference_bin"])] += n
        return width, list(_cells(cells, width)), list(_deltas(deltas, width / FINER))

    def _bins_query(self, width: float) -> tuple[list[Stage], str]:
        name, fine = self._column, width / FINER
        columns = [
            Column(f"floor({name}_baseline / {double(width)} + 1e-9)", "baseline_bin"),
            Column(f"floor({name} / {double(width)} + 1e-9)", "value_bin"),
            Column(f"floor({name}_difference / {double(fine)} + 0.5e0)", "difference_bin"),
        ]
        about = "one row per query: the bins of both values and of their difference"
        where = f"{name}_difference is not null"
        binned = columns_stage("binned", about, columns, "pairs", where)
        keys = ["baseline_bin", "value_bin", "difference_bin"]
        counted = sums_stage(
            "bins", "the number of queries in each bin", keys, [Column("count(*)", "n")], "binned"
        )
        order = f"order by {', '.join(keys)}"
        return [*self.pairing.stages(), binned, counted], f"select *\nfrom bins\n{order}"

    def by_day(self, statements: Statements, confidence: float, *, repeats: bool) -> list[Row]:
        """The difference of each day, and of all days so far, with their intervals.

        Args:
            statements: The statements of the comparison.
            confidence: The coverage.
            repeats: Whether queries come again on other days.
        """
        if DAY not in self.pairing.plan.shape.query_keys:
            return []
        rows = statements.rows(*self._days_query())
        return with_running(rows, confidence, repeats=repeats)

    def _days_query(self) -> tuple[list[Stage], str]:
        name, weight = f"{self._column}_difference", self.pairing.weight
        weighted = "" if weight == "1e0" else f" * {weight}"
        columns = [DAY, Column(f"{name}{weighted}", "d"), Column(weight, "w")]
        about, where = "one row per query: its difference and weight", f"{name} is not null"
        day_pairs = columns_stage("day_pairs", about, columns, "pairs", where)
        sums = {
            "n": "count(*)",
            "sum_d": "sum(d)",
            "sum_w": "sum(w)",
            "sum_d2": "sum(d * d)",
            "sum_dw": "sum(d * w)",
            "sum_w2": "sum(w * w)",
        }
        exact = self.pairing.plan.translation.exact
        summed = [Column(exact(text), column) for column, text in sums.items()]
        about = "one row per day: the sums behind the difference"
        days = sums_stage("days", about, [DAY], summed, "day_pairs")
        return [*self.pairing.stages(), day_pairs, days], f"select *\nfrom days\norder by {DAY}"


_SUMS = ("n", "sum_d", "sum_w", "sum_d2", "sum_dw", "sum_w2")


def with_running(rows: Sequence[Row], confidence: float, *, repeats: bool = False) -> list[Row]:
    """Differences by day, and of all days so far with an always-valid interval.

    Args:
        rows: A row a day, in order, with the sums of differences and of weights.
        confidence: The coverage.
        repeats: Whether queries may come again on other days.

    >>> sums = {"n": 4, "sum_d": 2.0, "sum_w": 4.0, "sum_d2": 2.0, "sum_dw": 2.0, "sum_w2": 4.0}
    >>> (day,) = with_running([{"metric_date": "2026-11-01", **sums}], 0.95)
    >>> day["difference"], round(day["ci_low"], 3), day["running"]
    (0.5, -0.419, 0.5)
    """
    lines: list[Row] = []
    days: list[Mapping[str, float]] = []
    for row in rows:
        if not row["n"]:
            continue
        days.append({name: float(row[name]) for name in _SUMS})
        today, so_far = together(days[-1:]), together(days, repeats=repeats)
        running_low, running_high = so_far.interval(confidence, always=True)
        lines.append(
            {
                DAY: row[DAY],
                "n": int(row["n"]),
                "difference": today.value,
                **today.ends(confidence),
                "running": so_far.value,
                "running_low": running_low,
                "running_high": running_high,
            }
        )
    return lines


def together(days: Sequence[Mapping[str, float]], *, repeats: bool = False) -> Estimate:
    """The mean difference of several days.

    Args:
        days: The sums of each, of differences and weights; one at least.
        repeats: Whether queries may come again on other days.

    >>> night = {"n": 4, "sum_d": 2.0, "sum_w": 4.0, "sum_d2": 2.0, "sum_dw": 2.0, "sum_w2": 4.0}
    >>> once, twenty = together([night]), together([night] * 20, repeats=True)
    >>> round(once.p_value(), 6) == round(twenty.p_value(), 6)
    True
    """
    total = _difference({name: math.fsum(day[name] for day in days) for name in _SUMS})
    if not repeats or len(days) == 1:
        return total
    return mean_of_repeats(total.value, [(_difference(day), day["sum_w"]) for day in days])


def _difference(sums: Mapping[str, float]) -> Estimate:
    """The mean difference with its error."""
    n, d, w, d2, dw, w2 = (sums[name] for name in _SUMS)
    return ratio_of_sums(d / w if w else 0.0, n, w=w, x2=d2, xw=dw, w2=w2)


def bin_width(low: float, high: float) -> float:
    """A round number, so that about BINS of them make the range of values.

    >>> bin_width(0, 1), bin_width(0, 0.8), bin_width(1, 300), bin_width(2, 2)
    (0.05, 0.05, 20.0, 0.05)
    """
    span = high - low
    if span <= 0 or (low >= 0 and high <= 1 and span > 0.5):
        return 1 / BINS
    size = 10.0 ** math.floor(math.log10(span / BINS))
    return next(step * size for step in (1, 2, 5, 10) if step * size * BINS >= span * 0.999)


def _cells(counts: Mapping[tuple[int, int], int], width: float) -> Iterator[Row]:
    for (before, after), n in sorted(counts.items()):
        yield {"baseline_value": before * width, "value": after * width, "n": n}


def _deltas(counts: Mapping[int, int], width: float) -> Iterator[Row]:
    """The differences with how many queries have them, the largest first."""
    for bin_number, n in sorted(counts.items(), reverse=True):
        yield {"difference": bin_number * width, "n": n}


MOVERS = 24
"""Of so many queries that moved most the report shows losses first."""


def evaluated(
    inputs: Inputs, options: Options, engine: Database, *, check: bool | float = True
) -> Content:
    """The content of a report of rankings and labels, or of a spec.

    Args:
        inputs: What `compare` is given; one system will do.
        options: What is asked of the comparison.
        engine: Where the tables are.
        check: Whether to look for bad input first.

    Raises:
        SqlmetricsError: As `compare` does.
    """
    with compared_plan(inputs, options, engine) as (plan, run_options):
        moments_plan = replace(plan, moments=True)
        comparison_options = replace(run_options, by=plan.spec.by or run_options.by)
        with executing(
            moments_plan, engine, check=check, per_query=False, execution=USUALLY
        ) as script:
            result = result_of(moments_plan, script, engine, check=check, confidence=options.level)
            content = of_result(result, options.level)
            if len(content.systems) > 1:
                content = _Comparing(plan, comparison_options, script, engine).content(content)
            sample = draw_sample(Statements(script, engine))
        return replace(
            content,
            profile=profile(plan, content, sample, engine),
            sources=tuple(_sources(plan)),
            margin=options.margin,
        )


def of_result(result: Result, level: float = CONFIDENCE) -> Content:
    """The content of a result by itself: means, by day and segment.

    Args:
        result: Of an evaluation.
        level: The coverage of its intervals.
    """
    spec = result.spec
    rows = result.to_dicts()
    systems = tuple(dict.fromkeys(str(row["system"]) for row in rows))
    return Content(
        title=spec.title,
        metrics=tuple(map(str, result.measures)),
        level=level,
        systems=systems,
        main=systems[0] if systems else "",
        values=rows,
        executed_sql=result.executed_sql,
        notes=result.notes,
        hashes={str(measure): spec.definition_hash(measure) for measure in result.measures},
        conventions=conventions_of(spec),
        preset=spec.preset,
        directions={str(measure): SIGNS[measure.metric.better] for measure in result.measures},
    )


def conventions_of(spec: Spec) -> dict[str, object]:
    """The options that some metric of the spec looks at."""
    used = {name for measure in spec.components for name in measure.metric.settings}
    used |= {name for name, option in OPTIONS.items() if option.scope == "spec"}
    return {name: value for name, value in spec.options.items() if name in used}


def _sources(plan: Plan) -> Sequence[str]:
    """Table -> what was read, in words."""
    return [f"{table}: {relation.location}" for table, relation in plan.shape.tables.items()]


@dataclass(frozen=True)
class _Comparing:
    """Systems beside a baseline, while the values of the queries are kept."""

    plan: Plan
    options: Options
    script: Script
    engine: Database

    def content(self, content: Content) -> Content:
        """With what there is of a comparison; where there is none, the reason is a note."""
        statements = Statements(self.script, self.engine)
        measures, notes = findings.comparable(self.plan)
        options = replace(self.options, baseline=self._baseline)
        pairing, design_notes = design(
            self.plan, measures, options, lambda text: statements.rows([], text)
        )
        with statements.kept(pairing.to_keep()) as table:
            content = self._compared(content, statements, replace(pairing, kept=table))
        return replace(
            content, notes=(*content.notes, *notes, *design_notes), executed_sql=statements.text()
        )

    def _compared(self, content: Content, statements: Statements, pairing: Pairing) -> Content:
        """With differences and pictures of a pairing."""
        options = replace(
            self.options, baseline=self._baseline, contributions=bool(self.options.by)
        )
        try:
            sums = findings.sums(pairing, statements.rows)
        except InputError as error:
            return replace(content, notes=(*content.notes, str(error)))
        rows, row_notes = findings.rows(pairing, options, sums)
        parts, paradoxes = contributions_of(statements, pairing, options, sums)
        first = str(pairing.measures[0])
        content = replace(
            content,
            metrics=(first, *(metric for metric in content.metrics if metric != first)),
            systems=(pairing.baseline, *pairing.systems),
            baseline=pairing.baseline,
            main=leading(rows, first),
            rows=rows,
            contributions=parts,
            notes=(*content.notes, *row_notes, *paradoxes),
        )
        return self._pictured(content, statements, pairing, sums)

    @property
    def _baseline(self) -> str | None:
        return self.options.baseline or (None if self.options.systems else self.plan.spec.baseline)

    def _pictured(
        self, content: Content, statements: Statements, pairing: Pairing, sums: findings.Sums
    ) -> Content:
        """With what the pictures of queries are made of."""
        pairs = Pairs.of(pairing, content.main, content.first)
        repeats = any(moments.n_clusters < moments.n for moments in sums.moments.values())
        width, cells, deltas = pairs.bins(statements)
        main_pairing = replace(pairing, measures=pairs.pairing.measures, systems=(content.main,))
        movers = movers_of(
            statements, main_pairing, replace(self.options, movers=Movers(MOVERS)), sums
        )
        return replace(
            content,
            bin_width=width,
            cells=cells,
            deltas=deltas,
            days=pairs.by_day(statements, content.level, repeats=repeats),
            movers=movers,
        )


def leading(rows: Sequence[Row], metric: str) -> str:
    """The system that a report is about: the best that is better; else the worst; else the first.

    Args:
        rows: The differences.
        metric: The metric.
    """
    overall = [row for row in rows if row["metric"] == metric and row["segment_name"] == ALL]

    def gain(row: Row) -> float:
        return (row["difference"] or 0.0) * (row["direction"] or 1)

    better = [row for row in overall if row["verdict"] == "better"]
    worse = [row for row in overall if row["verdict"] == "worse"]
    if better or not worse:
        return str(max(better or overall or rows, key=gain)["system"])
    return str(min(worse, key=gain)["system"])
