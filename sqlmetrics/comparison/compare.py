"""`compare`: what its arguments ask; the sums in the warehouse, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import Any, Unpack

from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.clicks.clean_log import cleaned_log
from sqlmetrics.clicks.evaluate import ready
from sqlmetrics.comparison import findings
from sqlmetrics.comparison.all_pairs import check_all_pairs, pair_rows
from sqlmetrics.comparison.breakdown import check_slices, contributions_of, lost_queries, movers_of
from sqlmetrics.comparison.counterfactual import check_fits, compare_estimates, compared_estimates
from sqlmetrics.comparison.design import design, one_system
from sqlmetrics.comparison.online.ratios import (
    NO_AMOUNT,
    OnlineRatios,
    compares_online,
    online_ratios,
    winsorised,
)
from sqlmetrics.comparison.options import FailOn, Movers, Options, check_fail_on
from sqlmetrics.comparison.periods import compared_periods, opened_values, period
from sqlmetrics.comparison.report import Comparison, check_interval, fails, worst_slices
from sqlmetrics.comparison.statements import Statements
from sqlmetrics.comparison.sums import ranks, resampling
from sqlmetrics.comparison.sums.moments import key_of
from sqlmetrics.comparison.sums.pairing import Pairing
from sqlmetrics.comparison.sums.resampling import Resampling
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.checks.absence import check_present, sample_notes
from sqlmetrics.evaluation.execution import USUALLY, executing
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.inputs.runs import SYSTEM
from sqlmetrics.evaluation.question import Inputs, TableArguments, check_arguments, with_texts
from sqlmetrics.jobs.days import days_between, days_of, on_days, zone_of_days
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.script import Script
from sqlmetrics.plan.summary import ALL
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.days import names_day
from sqlmetrics.spec.named_values import named_in
from sqlmetrics.spec.reading import read_if_spec
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import protect_query, source_text
from sqlmetrics.stats import CONFIDENCE


def compare(
    rankings: Any,
    labels: Any = None,
    metrics: str | Sequence[str] = (),
    *,
    systems: Sequence[str] = (),
    baseline: str | None = None,
    test: str = "t",
    level: float = CONFIDENCE,
    margin: float = 0.0,
    by: str | Sequence[str] = (),
    cluster: str | None = None,
    replicates: int | None = None,
    seed: int = 1,
    paired: bool | None = None,
    unpaired: bool | None = None,
    dates: str | Sequence[str | date] = (),
    covariate: str | None = None,
    baseline_values: Any = None,
    contributions: bool = False,
    movers: int | str = 0,
    fail_on: FailOn | None = None,
    all_pairs: bool = False,
    winsorise: float | None = None,
    start: str | date | None = None,
    end: str | date | None = None,
    connection: Any = None,
    check: bool | float = True,
    **arguments: Unpack[TableArguments],
) -> Comparison:
    """Compare systems with a baseline: which are better, by how much, and whether that is real.

    Each query of a system is compared with the same query of the baseline, by id and day. The sums
    are computed in the database, and no query leaves it.

    Args:
        rankings: A table with a column of systems, as `evaluate` takes it; or a dict, system -> its
            table; or a `Spec`, which names the tables itself.
        labels: The labels, as `evaluate` takes them; None with a spec.
        metrics: The metrics, as `evaluate` takes them. Default: those of the spec. With a spec that
            has `clicks.counterfactual` they are estimates for lists that were not shown, such as
            `dcg(estimator=ips)@10`, and `shown` is the system of the log.
        systems: The systems to compare. Default: all.
        baseline: The system that the others are compared with. Default: that of the spec, else the
            first of `systems`, else the first of several tables, else the one with a name like
            baseline, control, prod or old, else the first by name; a note says which.
        test: The significance test: `t` (paired), `randomization` (swaps the two systems at random
            within a query), `bootstrap` (draws queries with replacement, by Poisson weights), or
            `wilcoxon`, which tests whether the differences are symmetric around 0, not whether
            their mean is 0.
        level: The confidence level of the intervals; a difference counts as real if its adjusted
            p-value is below 1 - level.
        margin: The largest difference that does not matter, in the unit of the metrics.
        by: Segments to compare as well, value by value: columns, names of the spec, or names of
            `segments`, as in `evaluate`.
        cluster: The column whose queries are drawn together, such as the user: `query_id`, or a
            column of the rankings or of `queries`. Default: that of the spec, else `query_id` if
            there are days, since queries appear again on other days.
        replicates: The number of replicates of a randomisation or bootstrap test. Default: 1,000,
            and more if many systems and metrics are tested, so that adjusted p-values can be small.
        seed: The random seed of the replicates; the same seed gives the same replicates on every
            database.
        paired: Whether each query is compared with itself, over the queries that both sides have.
            If not, each side keeps its own queries, as in an A/B test (Welch's t-test). Default:
            True, except with `dates` or a covariate.
        unpaired: The opposite of `paired`, as on the command line.
        dates: Two or more days of one system, or periods like `2026-11-01..2026-11-07`, to compare;
            the first is the baseline. `today`, `yesterday` and `-7 days` are days too.
        covariate: Values from before the comparison that reduce the variance (CUPED): days, like
            `2026-10-01..2026-10-31`, or a numeric column of the rankings or of `queries`. Only
            unpaired, with the test `t`.
        baseline_values: The per-query values of an earlier run that serve as the baseline: the
            per-query table of a job or of `evaluate`. `baseline` names one of its systems.
        contributions: Whether to compute how much each slice of the segments adds to the
            difference.
        movers: How many of the queries that moved most to show per metric and system, with both
            lists, losses first; or `lost`, `gained`, or both as in `lost:20`. These queries leave
            the database.
        fail_on: The verdicts that raise an error, for any metric, system and segment: `worse`,
            `unclear` (or worse) or `not-better`. The error names the three queries that lost most,
            which leave the database; its `result` is the comparison.
        all_pairs: Whether to compare every pair of systems instead of each with a baseline.
            P-values are adjusted over all pairs and metrics; the result prints as leaderboards with
            groups of systems that do not differ, and has one row per pair.
        winsorise: Cut what a user paid at this quantile of all who paid, like 0.99, in metrics of
            amounts of a click log. Default: cut nothing.
        start: The first day. Default: the first day of the data.
        end: The day after the last one. Default: all days of the data.
        connection: The database that holds the tables; see `evaluate`.
        check: Whether to check the input before the evaluation.
        **arguments: The other arguments of `evaluate`. `system` is `"system"` by default.

    Returns:
        The comparison; it prints as tables and sentences.

    Raises:
        SpecError: If there are fewer than two systems, or an argument is wrong.
        InputError: If no query has lists of both systems, or the data would give wrong numbers.
        EngineError: If the database fails.
        CheckError: If `fail_on` names a verdict that occurs.

    >>> import pyarrow as pa
    >>> runs = {"old": ("a", "b"), "new": ("b", "a")}
    >>> tables = {
    ...     name: pa.table({"query_id": [1, 1], "item_id": [*items], "score": [2.0, 1.0]})
    ...     for name, items in runs.items()
    ... }
    >>> truth = pa.table({"query_id": [1], "item_id": ["b"], "grade": [1]})
    >>> row = compare(tables, truth, "mrr")["mrr"]
    >>> row["baseline_value"], row["value"], row["verdict"]
    (0.5, 1.0, 'unclear')
    """
    rankings = read_if_spec(rankings)
    check_arguments(compare, arguments)
    check_interval(level, margin)
    findings.check_test(test)
    if fail_on is not None:
        check_fail_on(fail_on)
    if replicates is not None and test in (resampling.BOOTSTRAP, resampling.RANDOMIZATION):
        resampling.check_count(replicates)
    zone = zone_of_days(rankings, arguments.get("time_zone"))
    inputs = Inputs(rankings, labels, arguments)
    segments = inputs.segments(by)
    options = Options(
        systems=tuple(systems),
        baseline=baseline,
        test=test,
        level=level,
        margin=margin,
        by=segments or segments_of(rankings, stored=baseline_values is not None),
        lists_slices=bool(segments),
        cluster=cluster,
        replicates=replicates,
        seed=seed,
        contributions=contributions,
        movers=Movers.parse(movers),
        fail_on=fail_on,
        all_pairs=all_pairs,
        winsorise=winsorise,
        metrics=metric_texts(metrics),
        days=days_between(start, end, zone),
        paired=_is_paired(paired, unpaired),
        **_day_options(dates, covariate, start or end, zone),
    )
    options.check_design(stored=baseline_values is not None)
    if all_pairs:
        check_all_pairs(options, stored=baseline_values is not None)
    untitled = _compared(inputs, options, connection, baseline_values, check=check)
    comparison = replace(
        untitled,
        spec=rankings.title if isinstance(rankings, Spec) else "",
        days=str(options.days or ""),
    )
    if fail_on is not None:
        comparison.raise_if(fail_on)
    return comparison


def _is_paired(paired: bool | None, unpaired: bool | None) -> bool | None:
    """What `paired` and `unpaired` say together; None if nothing."""
    if unpaired is None:
        return paired
    if paired is not None and paired == unpaired:
        raise SpecError(f"paired={paired} and unpaired={unpaired} contradict; give one of them")
    return not unpaired


def _compared(
    inputs: Inputs,
    options: Options,
    connection: Any,
    baseline_values: Any,
    *,
    check: bool | float,
) -> Comparison:
    """The comparison, of lists or of what was not shown."""
    if estimated := compared_estimates(inputs.rankings, options):
        inputs.check_spec_alone()
        check_fits(options, stored=baseline_values is not None)
        with connect(connection) as engine:
            return compare_estimates(inputs.rankings, estimated, options, engine, check=check)
    if compares_online(inputs.rankings, options, stored=baseline_values is not None):
        inputs.check_spec_alone()
        with connect(connection) as engine, engine.reading():
            return _compared_log(inputs.rankings, options, engine, check=check)
    if options.winsorise is not None:
        raise SpecError(NO_AMOUNT)
    if options.contributions:
        check_slices(options.by if options.lists_slices else ())
    with (
        inputs.opened(connection) as engine,
        compared_plan(inputs, options, engine) as (plan, of_runs),
    ):
        if baseline_values is not None:
            stored = opened_values(baseline_values, options.baseline, engine)
            options = replace(of_runs, stored=stored, baseline=stored.name)
        elif not of_runs.dates and "system" not in plan.shape.keys:
            raise SpecError(one_system(plan.spec.title))
        else:
            options = of_runs
        with executing(plan, engine, check=check, per_query=False, execution=USUALLY) as script:
            comparison = comparison_of(plan, options, script, engine)
            return replace(comparison, notes=(*comparison.notes, *sample_notes(check)))


def _compared_log(
    spec: Spec, options: Options, engine: Database, *, check: bool | float
) -> Comparison:
    """The comparison of online metrics of a log, beside metrics of its lists where these are asked.

    Each request has one system, so nothing is paired.
    """
    options = replace(options, paired=False)
    metrics = spec.in_our_words(options.metrics)
    overrides = {"metrics": metrics, "online": ()} if metrics else {}
    cluster = options.cluster_column or spec.cluster
    carrying = spec.having(by=options.carried, cluster=cluster, **overrides)
    spec = on_days(carrying, options.all_days).spec
    if spec.clicks is None:
        raise ValueError("a spec without clicks has no log")
    clicks = spec.clicks
    if options.dates or options.before:
        if not clicks.is_timed:
            raise SpecError(
                "the log has no column of times, so there are no days to compare or to be a "
                "covariate; name it as columns.time of the log"
            )
        clicks = clicks.model_copy(update={"daily": True})
    with (
        cleaned_log(clicks, engine, names=named_in(spec)) as log,
        online_ratios(log, spec, options) as full_ratios,
        winsorised(full_ratios, options.named_systems(spec.baseline), options.winsorise) as (
            online,
            cut,
        ),
    ):
        if not spec.metrics:
            if check:
                log.check_segments(options.by)
            comparison = online.comparison()
            return replace(comparison, notes=(*comparison.notes, *cut))
        with log.views() as shown_lists:
            tables = replace(opened(spec, engine), shown_lists=shown_lists)
            plan = make_plan(spec, tables)
            with executing(plan, engine, check=check, per_query=False, execution=USUALLY) as script:
                comparison = comparison_of(plan, options, script, engine, online)
                notes = (*log.label_notes, *comparison.notes, *cut, *sample_notes(check))
                return replace(comparison, notes=notes)


@contextmanager
def compared_plan(
    inputs: Inputs, options: Options, engine: Database
) -> Iterator[tuple[Plan, Options]]:
    """The plan of the evaluation behind a comparison, and what is asked with its baseline.

    Args:
        inputs: What `compare` is given.
        options: What is asked of the comparison.
        engine: Where the tables are.
    """
    with (
        engine.reading(),
        _tables(inputs, options, engine) as (spec, tables),
    ):
        systems = tables.systems
        yield make_plan(spec, tables), options.of_runs(systems) if systems else options


@contextmanager
def _tables(inputs: Inputs, options: Options, engine: Database) -> Iterator[tuple[Spec, Tables]]:
    """What is asked of an evaluation, and where its tables are."""
    days, rankings = options.all_days, inputs.rankings
    if isinstance(rankings, Spec):
        inputs.check_spec_alone()
        metrics = rankings.in_our_words(options.metrics)
        overrides = {"metrics": metrics, "online": ()} if metrics else {}
        cluster = options.cluster_column or rankings.cluster
        spec = rankings.having(by=options.carried, cluster=cluster, **overrides)
        days_of(spec, days)
        of_days = on_days(spec, days)
        with ready(of_days.spec, engine) as notes:
            tables = opened(of_days.spec, engine).on(options.ends(of_days.ends))
            yield of_days.spec, replace(tables, notes=(*tables.notes, *notes))
        return
    spec, tables = inputs.question(engine, options.metrics, options.carried)
    spec = _with_systems(spec, tables, engine)
    if options.shows_queries:
        spec = with_texts(spec, engine)
    chosen = days or (options.before.days if options.before else None)
    if chosen and spec.rankings.columns.date is None:
        message = f"the rankings have no column of dates, so there are no days {chosen} to choose"
        raise SpecError(f"{message}; name the column of dates (date, --date)")
    yield spec, tables.on(options.ends(on_days(spec, days).ends))


def _with_systems(spec: Spec, tables: Tables, engine: Database) -> Spec:
    """The spec with the column `system`, if its rankings have it and none was named."""
    source = spec.rankings
    existing_columns = engine.columns(
        source_text(protect_query(tables.rankings, engine.translation))
    )
    if source.columns.system or SYSTEM not in map(str.casefold, existing_columns):
        return spec
    columns = source.columns.model_copy(update={"system": SYSTEM})
    return spec.having(rankings=source.model_copy(update={"columns": columns}))


def _day_options(
    dates: str | Sequence[str | date], covariate: str | None, days: object, zone: str | None
) -> dict[str, Any]:
    """What is asked of days beside those that are looked at."""
    compared = compared_periods(dates, zone, days=days)
    if not (covariate and names_day(covariate.partition("..")[0])):
        return {"dates": compared, "covariate": covariate}
    return {"dates": compared, "before": period(covariate, zone)}


def comparison_of(
    plan: Plan,
    options: Options,
    script: Script,
    engine: Database,
    online: OnlineRatios | None = None,
) -> Comparison:
    """The comparison, while the values of the queries are kept.

    Args:
        plan: The plan of the evaluation.
        options: What is asked.
        script: What has the values.
        engine: Where they are.
        online: The online metrics that are compared beside; None for none.

    Raises:
        SpecError: If there are not two systems, or one that is named is not there.
        InputError: If no query has both.
    """
    usual = None if options.systems else plan.spec.baseline
    named_systems = (
        *options.systems,
        None if options.dates or options.stored else options.baseline or usual,
    )
    check_present(filter(None, named_systems), script, plan, engine)
    measures, notes = findings.comparable(plan)
    notes += [] if online else findings.left_out(plan.spec)
    statements = Statements(script, engine)
    pairing, design_notes = design(plan, measures, options, lambda text: statements.rows([], text))
    if options.all_pairs:
        return _all_pairs(plan, options, statements, pairing, (*notes, *design_notes))
    sums = findings.sums(pairing, statements.rows)
    sums = _tested(statements, pairing, options, sums)
    beside = online.rows(pairing.baseline, pairing.systems, pairing.of_system) if online else ()
    rows, row_notes = findings.rows(pairing, options, sums, beside)
    notes += online.notes() if online else ()
    parts, paradoxes = contributions_of(statements, pairing, options, sums)
    movers = movers_of(statements, pairing, options, sums)
    listed = [row for row in rows if options.lists_slices or row["segment_name"] == ALL]
    failed = [row for row in listed if options.fail_on and fails(row, options.fail_on)]
    return Comparison(
        rows=tuple(listed),
        baseline=pairing.baseline,
        level=options.level,
        margin=options.margin,
        test=findings.test_name(pairing, options),
        interval=findings.interval_name(options.test),
        cluster=pairing.cluster,
        notes=(
            *dict.fromkeys((*plan.shape.at.notes, *notes, *design_notes, *row_notes, *paradoxes)),
        ),
        movers=movers,
        lost=lost_queries(statements, pairing, options, sums, failed),
        executed_sql=(online.text() if online else "") + statements.text(),
        contributions=tuple(parts),
        worse_slices=tuple(worst_slices(rows)),
        counted=findings.counted(plan.spec),
        preset=plan.spec.preset,
    )


def _all_pairs(
    plan: Plan, options: Options, statements: Statements, pairing: Pairing, notes: tuple[str, ...]
) -> Comparison:
    """The comparison of every pair of systems."""
    count = len(pairing.systems)
    n_tests = count * (count + 1) // 2 * len(pairing.measures)

    def find(baseline_pairing: Pairing) -> findings.Sums:
        return _tested(
            statements,
            baseline_pairing,
            options,
            findings.sums(baseline_pairing, statements.rows),
            n_tests,
        )

    rows, row_notes = pair_rows(pairing, options, find)
    return Comparison(
        rows=tuple(row for row in rows if options.lists_slices or row["segment_name"] == ALL),
        baseline="",
        level=options.level,
        margin=options.margin,
        test=findings.test_name(pairing, options),
        interval=findings.interval_name(options.test),
        cluster=pairing.cluster,
        notes=(*plan.shape.at.notes, *notes, *row_notes),
        executed_sql=statements.text(),
        counted=findings.counted(plan.spec),
        preset=plan.spec.preset,
        all_pairs=True,
    )


def segments_of(rankings: Any, *, stored: bool) -> tuple[str, ...]:
    """The segments that a spec names, whose worst is told though nobody asks for all of them.

    Args:
        rankings: As `compare` takes them.
        stored: Whether the baseline is an earlier run, which has none.
    """
    return rankings.by if isinstance(rankings, Spec) and not stored else ()


def _tested(
    statements: Statements,
    pairing: Pairing,
    options: Options,
    sums: findings.Sums,
    n_tests: int | None = None,
) -> findings.Sums:
    """With what the test needs beside the moments."""
    if options.test == "wilcoxon":
        if pairing.cluster:
            raise SpecError(
                "wilcoxon treats every query as independent, but they are clustered by "
                f"{pairing.cluster}; use the test t, randomization or bootstrap, or compare one "
                "day"
            )
        rows = statements.rows(*ranks.ranks_query(pairing))
        return replace(sums, ranks={key_of(row): row for row in rows})
    if options.test in (resampling.BOOTSTRAP, resampling.RANDOMIZATION):
        most = max(moments.n_drawn for moments in sums.moments.values())
        is_complete = sums.is_complete(pairing)
        n_tests = n_tests or len(pairing.systems) * len(pairing.measures)
        count = resampling.count_of(n_tests, options.level, options.replicates)
        resampler = Resampling(pairing, options.test, options.seed, count, most, is_complete)
        return replace(sums, replicates=resampler.read(statements.rows(*resampler.query())))
    return sums
