"""A report's content from rankings and labels: an evaluation, a comparison, and their pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.direction import SIGNS
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.breakdown import contributions as slices
from sqlmetrics.comparison.breakdown.mover_lists import movers_of
from sqlmetrics.comparison.compare import asked_plan
from sqlmetrics.comparison.design import design
from sqlmetrics.comparison.options import Movers, Options
from sqlmetrics.comparison.page.content import ALL, Content
from sqlmetrics.comparison.page.profile import profile
from sqlmetrics.comparison.page.sample import draw_sample
from sqlmetrics.comparison.page.sums import Pairs
from sqlmetrics.comparison.statements import Statements
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError
from sqlmetrics.evaluation.execution import USUALLY
from sqlmetrics.evaluation.question import Inputs
from sqlmetrics.evaluation.report.result import Result
from sqlmetrics.evaluation.run import executing, result_of
from sqlmetrics.plan.plan import Plan
from sqlmetrics.plan.script import Script
from sqlmetrics.spec.spec import Spec
from sqlmetrics.stats import CONFIDENCE
from sqlmetrics.tables.tabular import Row

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
    with asked_plan(inputs, options, engine) as (plan, run_options):
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
    return [f"{table}: {relation.place}" for table, relation in plan.shape.tables.items()]


@dataclass(frozen=True)
class _Comparing:
    """Systems beside a baseline, while the values of the queries are kept."""

    plan: Plan
    asks: Options
    script: Script
    engine: Database

    def content(self, content: Content) -> Content:
        """With what there is of a comparison; where there is none, the reason is a note."""
        statements = Statements(self.script, self.engine)
        measures, notes = findings.comparable(self.plan)
        options = replace(self.asks, baseline=self._baseline)
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
        options = replace(self.asks, baseline=self._baseline, contributions=bool(self.asks.by))
        try:
            sums = findings.sums(pairing, statements.rows)
        except InputError as error:
            return replace(content, notes=(*content.notes, str(error)))
        rows, row_notes = findings.rows(pairing, options, sums)
        parts, paradoxes = slices.contributions_of(statements, pairing, options, sums)
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
        return self.asks.baseline or (None if self.asks.systems else self.plan.spec.baseline)

    def _pictured(
        self, content: Content, statements: Statements, pairing: Pairing, sums: findings.Sums
    ) -> Content:
        """With what the pictures of queries are made of."""
        pairs = Pairs.of(pairing, content.main, content.first)
        repeats = any(moments.n_clusters < moments.n for moments in sums.moments.values())
        width, cells, deltas = pairs.bins(statements)
        main_pairing = replace(pairing, measures=pairs.pairing.measures, systems=(content.main,))
        movers = movers_of(
            statements, main_pairing, replace(self.asks, movers=Movers(MOVERS)), sums
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
