"""What people do with a spec: `compile`, `run`, `check`, `validate`, `verify`, `explain`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from sqlmetrics.catalog.online import is_online
from sqlmetrics.clicks.compile import header, statements
from sqlmetrics.clicks.evaluate import evaluate_clicks, ready
from sqlmetrics.engines.database import connect
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.inputs.sources import refuse_pipes, tables_of
from sqlmetrics.evaluation.statistics import statistics_of
from sqlmetrics.jobs.checks.verdict import Verdicts, verdicts
from sqlmetrics.jobs.days import days_between, days_looked_at, zone_of_days
from sqlmetrics.jobs.missing_days import parts
from sqlmetrics.jobs.provenance import Provenance
from sqlmetrics.jobs.run import RunReport, write_parts
from sqlmetrics.plan import script
from sqlmetrics.plan.plan import plan as planned
from sqlmetrics.proof.verify import Agreement, sampled
from sqlmetrics.proof.verify import verify as compared
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.dialects import DEFAULT
from sqlmetrics.sql.dialects import dialect as named
from sqlmetrics.sql.translation import Translation

FASTEST = "fastest"
"""For `compile`: the plan that `evaluate` would take."""


def compile(
    spec: Spec,
    dialect: str = DEFAULT,
    *,
    per_query: bool = False,
    plan: str | None = None,
    connection: Any = None,
) -> str:
    """The SQL of a spec as text; no table is opened, unless the fastest plan is asked for.

    Of files that are there it looks at the header line of CSV, and whether a path is a folder.

    Args:
        spec: What is asked. Its sources must be relations, queries or files.
        dialect: A name of `sqlmetrics list dialects`.
        per_query: Whether to give the per-query table instead of the summary.
        plan: A physical plan: `window`, the portable one; `lists` or `counts`, for DuckDB;
            `fastest` looks at the first rows, and says in a comment what was measured.
        connection: For `fastest`: where the tables are; default: a new DuckDB in memory.

    Raises:
        SpecError: If the dialect or the plan is unknown or the spec cannot be compiled.
    """
    refuse_pipes(spec)
    translation = Translation(named(dialect))
    if spec.clicks is not None:
        _refuse_of_clicks(per_query=per_query, plan=plan)
        texts = (statement.rstrip() for statement in statements(spec, translation))
        text = header(spec) + "\n" + "\n\n".join(f"{statement};" for statement in texts) + "\n"
        return script.trusted(text, translation)
    tables = tables_of(spec, translation)
    portable, measured = planned(spec, tables), None
    if plan == FASTEST:
        plan = None
        with connect(connection) as engine:
            measured = statistics_of(portable, engine)
    chosen = portable.by(portable.choose(measured, plan))
    return script.translated(chosen, translation, per_query=per_query)


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
    spec: Spec,
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
    """Evaluate a spec, and replace its days in its output tables: all of them, or nothing.

    Other days and other specs are not touched, so a run can be repeated at any time.

    Args:
        spec: What is asked, with its `output`.
        connection: Where the data are, and the tables to be written; see `connect`.
        start: The first day, also `today`, `yesterday` or an offset like `-3 days`, in the zone of
            the spec's days; default: the first of the data.
        end: The day after the last one; default: that after the last of the data.
        backfill: Whether only days are computed that the data has, and of which the table
            has not all metrics.
        lookback: How many of the last days are computed again, for data that comes late.
        batch_days: How many days a run replaces at most; by default 31 of a backfill, else all.
        full_refresh: Whether all days of the spec are replaced.
        recompute: Whether `backfill` computes all metrics of its days anew, not those alone that
            the table lacks.
        allow_loss: Of so many days `full_refresh` and `recompute` may take numbers away that the
            data has no more; if there are more, nothing is written.
        adopt: Whether rows of the spec's name are its own, whatever wrote them; else those of
            another spec of that name are left alone.
        check: Whether to look for bad input first.
        note: Why it is run, for the run log.

    Returns:
        What was written, one report a range of days; none if no day is missing.

    Raises:
        SpecError: If the spec has no output, the days do not go together, or the table holds
            other days by another definition of a metric, or rows of another spec of that name.
        NoDataError: If the data has no row of these days yet; nothing is written then.
        InputError: If the data would give wrong numbers; likewise.
        EngineError: If the database fails; the tables are as they were.
    """
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
    )
    return list(reports)


def check(
    spec: Spec,
    connection: Any,
    *,
    day: str | date | None = None,
    start: str | date | None = None,
    end: str | date | None = None,
) -> Verdicts:
    """Compare the output table of a spec with its checks.

    Args:
        spec: What is asked, with its `output` and `checks`.
        connection: Where the table is; see `connect`.
        day: Which day is looked at; default: the last one that the table has of the spec.
        start: Instead of it, the first of several days, each of which is looked at; default:
            the first of the table.
        end: The day after the last one; default: that after the last of the table.

    Returns:
        A verdict for each day, check, system and segment; `holds` says whether it is met. Days
        in a row that are not in the table have one, which does not hold. `raise_if()` of them
        raises a `CheckError` if one fails.

    Raises:
        SpecError: If the spec has no checks, or one of a metric that it has not.
        NoDataError: If there is no such table, or it has no rows of the spec.
        EngineError: If the database fails.
    """
    return Verdicts(verdicts(spec, connect(connection), days_looked_at(spec, day, start, end)))


def validate(spec: Spec, connection: Any = None) -> tuple[str, ...]:
    """Raise an error unless a spec fits its tables: relations, columns, types and named values.

    No metric is computed; the database plans the query, and counts the values of columns of
    which the spec names one: a baseline, graded actions, the systems and segments of checks.

    Args:
        spec: What is asked.
        connection: Where its tables are; see `connect`.

    Returns:
        Notes of values that the spec names and no row has, and no number rests on.

    Raises:
        SpecError: If the spec asks for what its sources cannot give.
        InputError: With every column that is missing, what the database says of types, or labels
            whose grade has no number.
        EngineError: If the database fails.
    """
    with connect(connection) as engine, ready(spec, engine, dry=True) as notes:
        if spec.metrics:
            return *notes, *checks.validate(planned(spec, opened(spec, engine)), engine)
        return notes


def verify(spec: Spec, connection: Any = None) -> list[Agreement]:
    """Compare the SQL of a spec with the plain-Python reference, on its own data.

    All queries up to 10,000, else a sample of 10,000 that is always the same.

    Args:
        spec: What is asked.
        connection: Where its tables are; see `connect`.

    Returns:
        One agreement a metric: how many numbers were compared, and the largest difference.

    Raises:
        SqlmetricsError: As `evaluate` does.
    """
    with connect(connection) as engine, ready(spec, engine):
        part, _ = sampled(spec, engine)
        return compared(part, engine)[1]


def explain(name: str, preset: str | None = None, metrics_from: Any = None) -> str:
    """All about a metric, an option or a preset, to read at 80 columns.

    Args:
        name: A metric's text, like `ndcg(gain=linear)@10` or `ctr@5`, or its name alone; or the
            name of an option, like `ties`, or of a preset, like `xgboost`.
        preset: The conventions that hold where the metric's text says nothing else; if it
            is given, a metric of lists is also shown on one data set under every preset.
        metrics_from: Folders of metrics of your own, a file each.

    Returns:
        The text; a notebook shows its lines as they are.

    Raises:
        SpecError: If there is no such metric, option or preset, the metric's text is wrong, or
            the preset is unknown; the nearest name is told.
    """
    # its examples take a third of a second to import, which a job has no use for
    from sqlmetrics.proof.explain.explain import explain as explained
    from sqlmetrics.proof.explain.online import explain_online
    from sqlmetrics.tables.tabular import Text

    if is_online(name):
        return Text(explain_online(name, preset, compile, _online_rows))
    return Text(explained(name, preset, metrics_from))


def _online_rows(spec: Spec) -> list[Mapping[str, Any]]:
    """The online metrics of a log, in the order in which they are asked for."""
    rows: list[Mapping[str, Any]] = evaluate_clicks(spec, check=False).online().to_pylist()
    return rows
