"""What people do with a spec: `compile`, `run`, `check`, `validate`, `verify`, `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from sqlmetrics.catalog.online import is_online
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.inputs.sources import refuse_pipes, tables_of
from sqlmetrics.evaluation.statistics import statistics_of
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.plan.script import translated, trusted
from sqlmetrics.spec.reading import AnySpec, spec_of
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import DEFAULT, dialect_named
from sqlmetrics.sql.translation import Translation

if TYPE_CHECKING:
    from sqlmetrics.jobs.checks.verdict import Verdicts
    from sqlmetrics.jobs.experiment import Looks
    from sqlmetrics.jobs.run import RunReport
    from sqlmetrics.proof.verify import Agreement

FASTEST = "fastest"
"""For `compile`: the plan that `evaluate` would take."""


def compile(
    spec: AnySpec,
    dialect: str = DEFAULT,
    *,
    per_query: bool = False,
    plan: str | None = None,
    connection: Any = None,
) -> str:
    """The SQL of a spec as text; no table is opened, except with `plan="fastest"`.

    The only thing read from files is the header line of a CSV, and whether a path is a folder.

    Args:
        spec: The spec: its path, a `Spec` or a dict of its keys. Its sources must be relations,
            queries or files.
        dialect: A name of `sqlmetrics list dialects`.
        per_query: Whether to give the SQL of the per-query table instead of the summary.
        plan: The ranking plan: `window`, the portable one; `lists` or `counts`, for DuckDB; or
            `fastest`, which looks at the first rows and writes its measurements into a comment.
        connection: For `fastest`: the database that holds the tables. Default: a new DuckDB in
            memory.

    Raises:
        SpecError: If the dialect or the plan is unknown or the spec cannot be compiled.
    """
    spec = spec_of(spec)
    refuse_pipes(spec)
    translation = Translation(dialect_named(dialect))
    if spec.clicks is not None:
        from sqlmetrics.clicks.steps import header, statements

        _refuse_of_clicks(per_query=per_query, plan=plan)
        texts = (statement.rstrip() for statement in statements(spec, translation))
        text = header(spec) + "\n" + "\n\n".join(f"{statement};" for statement in texts) + "\n"
        return trusted(text, translation)
    tables = tables_of(spec, translation)
    portable, measured = make_plan(spec, tables), None
    if plan == FASTEST:
        plan = None
        with connect(connection) as engine:
            measured = statistics_of(portable, engine)
    chosen = portable.by(portable.choose(measured, plan))
    return translated(chosen, translation, per_query=per_query)


def _refuse_of_clicks(*, per_query: bool, plan: str | None) -> None:
    """Raise SpecError for what the text of a click log cannot have."""
    is_given_by_option = {
        "--per-query, per_query=True": per_query,
        f"--plan, plan={plan!r}": plan is not None,
    }
    for option, is_given in is_given_by_option.items():
        if is_given:
            raise SpecError(
                f"a spec with clicks compiles to several statements without {option}; leave "
                f"{option} out, or use run or evaluate_clicks, which write a table with one row "
                "per request"
            )


def run(
    spec: AnySpec,
    connection: Any,
    *,
    start: str | date | None = None,
    end: str | date | None = None,
    backfill: bool = False,
    lookback: int = 0,
    batch_days: int = 0,
    full_refresh: bool = False,
    recompute: bool = False,
    allow_loss: int = 0,
    adopt: bool = False,
    check: bool | float = True,
    note: str = "",
) -> list[RunReport]:
    """Evaluate a spec and replace its days in its output tables: all of them, or nothing.

    Other days and other specs are not touched, so a run can be repeated at any time.

    Args:
        spec: The spec, with its `output`: its path, a `Spec` or a dict of its keys.
        connection: The database that holds the data and the output tables; see `connect`.
        start: The first day: a date, `today`, `yesterday` or an offset like `-3 days`, in the time
            zone of the spec. Default: the first day of the data.
        end: The day after the last one. Default: the day after the last day of the data.
        backfill: Whether to compute only the days of the data for which the table lacks metrics.
        lookback: The number of last days to compute again, for data that arrives late.
        batch_days: The largest number of days that one run replaces. Default: 31 with `backfill`,
            else all.
        full_refresh: Whether to replace all days of the spec.
        recompute: Whether `backfill` computes all metrics of its days, not only those that the
            table lacks.
        allow_loss: The number of days whose numbers `full_refresh` and `recompute` may delete
            because the data no longer has them; if there are more, nothing is written.
        adopt: Whether all rows with the spec's name belong to it, whichever spec wrote them. By
            default a run refuses to replace the rows of another spec.
        check: Whether to check the input before the evaluation.
        note: The reason for the run, kept in the run log.

    Returns:
        One report per range of days; none if no day is missing.

    Raises:
        SpecError: If the spec has no output, the choices of days contradict each other, or the
            table holds other days by another definition of a metric, or rows of another spec of
            that name.
        NoDataError: If the data has no rows of these days yet; nothing is written.
        InputError: If the data would give wrong numbers; nothing is written.
        EngineError: If the database fails; the tables are unchanged.
    """
    spec = spec_of(spec)
    from sqlmetrics.jobs.days import days_between, zone_of_days
    from sqlmetrics.jobs.missing_days import parts
    from sqlmetrics.jobs.provenance import Provenance
    from sqlmetrics.jobs.run import write_parts

    days = days_between(start, end, zone_of_days(spec))
    engine = connect(connection)
    if full_refresh and batch_days:
        raise SpecError("full_refresh replaces all days at once; leave out batch_days")
    todo = parts(
        spec,
        engine,
        days,
        backfill=backfill,
        lookback=lookback,
        batch_days=batch_days,
        recompute=recompute,
    )
    reports = write_parts(
        spec,
        engine,
        todo,
        full_refresh=full_refresh,
        recompute=recompute,
        allow_loss=allow_loss,
        adopt=adopt,
        check=check,
        provenance=Provenance(note),
        looks=looks_of(spec),
    )
    return list(reports)


def looks_of(spec: Spec) -> Looks | None:
    """What a run looks at an experiment with; None for a spec without one."""
    from sqlmetrics.jobs.schema import has_experiment

    if not has_experiment(spec):
        return None
    from sqlmetrics.comparison.online.experiment import looks

    return looks


def check(
    spec: AnySpec,
    connection: Any,
    *,
    day: str | date | None = None,
    start: str | date | None = None,
    end: str | date | None = None,
) -> Verdicts:
    """Check the numbers in the output table of a spec against the spec's checks.

    Args:
        spec: The spec, with its `output` and `checks`: its path, a `Spec` or a dict of its keys.
        connection: The database that holds the table; see `connect`.
        day: The day to check. Default: the last day of the spec in the table.
        start: The first of several days to check, instead of `day`. Default: the first day of the
            table.
        end: The day after the last day to check. Default: the day after the last day of the table.

    Returns:
        One verdict per day, check, system and segment; `holds` says whether the check is met. A day
        between others that the table lacks has a verdict that does not hold. `raise_if()` raises a
        `CheckError` if a check fails.

    Raises:
        SpecError: If the spec has no checks, or a check of a metric that the spec does not have.
        NoDataError: If there is no such table, or it has no rows of the spec.
        EngineError: If the database fails.
    """
    spec = spec_of(spec)
    from sqlmetrics.jobs.checks.verdict import Verdicts, verdicts
    from sqlmetrics.jobs.days import days_looked_at

    return Verdicts(verdicts(spec, connect(connection), days_looked_at(spec, day, start, end)))


def validate(spec: AnySpec, connection: Any = None) -> tuple[str, ...]:
    """Raise an error unless a spec fits its tables: relations, columns, types and named values.

    No metric is computed. The database plans the query, and counts the values that the spec names:
    a baseline, graded actions, the systems and segments of checks.

    Args:
        spec: The spec: its path, a `Spec` or a dict of its keys.
        connection: The database that holds its tables; see `connect`.

    Returns:
        Notes on values that the spec names but no row has, if no number depends on them.

    Raises:
        SpecError: If the spec asks for what its sources cannot give.
        InputError: If columns are missing or have the wrong type, or labels have grades without a
            number; all problems are in one message.
        EngineError: If the database fails.
    """
    spec = spec_of(spec)
    from sqlmetrics.clicks.evaluate import ready
    from sqlmetrics.evaluation.checks import checks
    from sqlmetrics.evaluation.inputs.open import opened

    with connect(connection) as engine, ready(spec, engine, dry=True) as notes:
        if spec.metrics:
            return *notes, *checks.validate(make_plan(spec, opened(spec, engine)), engine)
        return notes


def verify(spec: AnySpec, connection: Any = None) -> list[Agreement]:
    """Compare the SQL of a spec with the plain-Python reference, on its own data.

    All queries are compared, or a fixed sample of 10,000 if there are more.

    Args:
        spec: The spec: its path, a `Spec` or a dict of its keys.
        connection: The database that holds its tables; see `connect`.

    Returns:
        One agreement per metric: how many numbers were compared, and the largest difference.

    Raises:
        SqlmetricsError: The errors that `evaluate` raises.
    """
    spec = spec_of(spec)
    from sqlmetrics.clicks.evaluate import ready
    from sqlmetrics.proof.verify import sampled, verify_spec

    with connect(connection) as engine, ready(spec, engine):
        part, _ = sampled(spec, engine)
        return verify_spec(part, engine)[1]


def explain(name: str, preset: str | None = None, metrics_from: Any = None) -> str:
    """Explain a metric, an option or a preset, as text with at most 80 columns.

    Args:
        name: The text of a metric, such as `ndcg(gain=linear)@10` or `ctr@5`, or its name alone; or
            the name of an option, such as `ties`, or of a preset, such as `xgboost`.
        preset: The conventions that apply unless the metric's text overrides them. If given, a
            metric of lists is also shown on one data set under each preset.
        metrics_from: Folders of your own metrics, one file each.

    Returns:
        The text; a notebook shows it line by line.

    Raises:
        SpecError: If there is no such metric, option or preset, or the metric's text is wrong; the
            nearest name is given.
    """
    # its examples take a third of a second to import, which a job has no use for
    from sqlmetrics.proof.explain.explain import explain_name
    from sqlmetrics.proof.explain.online import explain_online
    from sqlmetrics.tables.tabular import Text

    if is_online(name):
        return Text(explain_online(name, preset, compile, _online_rows))
    return Text(explain_name(name, preset, metrics_from))


def _online_rows(spec: Spec) -> list[Mapping[str, Any]]:
    """The online metrics of a log, in the order in which they are asked for."""
    from sqlmetrics.clicks.evaluate import evaluate_clicks

    rows: list[Mapping[str, Any]] = evaluate_clicks(spec, check=False).online().to_pylist()
    return rows
