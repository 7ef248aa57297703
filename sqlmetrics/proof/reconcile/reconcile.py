"""Data and a number seen elsewhere -> the conventions that give it, the simplest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.database import Database, connect
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.question import QuestionArguments, check_arguments, question
from sqlmetrics.plan.needs import Needs
from sqlmetrics.plan.plan import make_plan
from sqlmetrics.plan.shape import GROUPS, Shape
from sqlmetrics.plan.tables import Tables
from sqlmetrics.proof.reconcile import known
from sqlmetrics.proof.reconcile.known import (
    KnownMistakes,
    NextDoor,
    by_options,
    gains,
    right,
    with_lines,
    wrong,
)
from sqlmetrics.proof.reconcile.matching import GivenValues, MeanMatch, ValuesMatch, read_values
from sqlmetrics.proof.reconcile.mistakes import Handwritten
from sqlmetrics.proof.reconcile.result import Reconciliation, Target, checked, read
from sqlmetrics.proof.reconcile.statement import GivenTable, Statement, Tally
from sqlmetrics.proof.reconcile.worlds import ORDER, WORST_FIRST, Point, space, worlds_of
from sqlmetrics.spec.days import Days
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import with_stages
from sqlmetrics.sql.template import identifier, literal

DEPARTURES = 2
MOST = 3
"""More departures make more combinations than digits can tell apart."""

MANY_GRADES = 6

HIGHEST = 10
"""A metric with a mistake in it can be more than 1, but hardly more than this."""


def reconcile(
    rankings: Any,
    labels: Any,
    metric: str,
    value: float | str | None = None,
    *,
    values: Any = None,
    column: str | None = None,
    departures: int = DEPARTURES,
    connection: Any = None,
    check: bool | float = True,
    **keywords: Unpack[QuestionArguments],
) -> Reconciliation:
    """Find the conventions that give a number seen elsewhere.

    Args:
        rankings: The ranked items of one system, as `evaluate` takes them.
        labels: The labels, as `evaluate` takes them.
        metric: A text like `ndcg@10`. Options in it, as in `ndcg(gain=linear)@10`, are not varied.
        value: The number with all its digits: "0.3506", ".0919", "35.06%". A text keeps its
            trailing zeros, which a float has lost.
        values: Per-query values instead of `value`: {query: value}, or a file, table or frame.
        column: The column of the values in that table. Default: the metric's, or `value`.
        departures: The largest number of options that differ from a preset.
        connection: The DuckDB that holds the tables, as `evaluate` takes it.
        check: Whether to check the input before the evaluation.
        **keywords: Columns and tables as in `evaluate` (`query="qid"`, `weight=`, `where=` ...),
            and known conventions, which are not varied. Means per day (`date=`) and per segment
            (`by=`) are tried as averaged averages.

    Returns:
        The candidates, fewest departures first, with the number of matches to expect by chance.

    Raises:
        SpecError: If a name or the number is wrong.
        InputError: If the data would give wrong numbers, or has several systems.
        EngineError: If DuckDB fails.
    """
    check_arguments(reconcile, keywords)
    _refuse(value, values, departures, keywords)
    with _default(connection) as engine:
        spec, tables = question(engine, rankings, labels, metric, **keywords)
        measure = _one_measure(spec)
        _check_metric(spec, tables)
        readings: list[Target] | list[GivenValues]
        unfit = None
        if values is None:
            readings, unfit = _readings(value, measure)
        else:
            query = keywords.get("query", "query_id")
            readings = [read_values(values, column, query, measure, engine)]
        is_given = known.OPTION in keywords
        reconciliation = _matches(
            spec, tables, readings, departures, engine, check=check, is_given=is_given
        )
        id_notes = () if "identical_ids" in keywords else _own_ids(spec, tables, engine)
        notes = (*tables.notes, *_days(spec, tables, engine), *id_notes)
    if unfit and not reconciliation.candidates:
        raise unfit
    return replace(reconciliation, notes=(*_as_percent(reconciliation, value), *notes))


def reconcile_spec(
    spec: Spec,
    connection: Any,
    metric: str,
    value: float | str,
    *,
    system: str | None = None,
    days: Days | None = None,
    departures: int = DEPARTURES,
) -> Reconciliation:
    """Say which conventions give a number that was seen elsewhere, on the tables of a spec.

    Its tables alone are taken: all conventions are tried, whatever the spec says of them.

    Args:
        spec: Says where the tables are; one with labels of its own.
        connection: The DuckDB that holds them.
        metric: A text like `ndcg@10`.
        value: The number with its digits, as `reconcile` takes it.
        system: Whose lists; needed if there are several.
        days: The days of the rankings; default: all.
        departures: In how many options at most a combination departs from a preset.

    Raises:
        SpecError: If a name or the number is wrong, or the labels are made of clicks.
        InputError: If the data would give wrong numbers, or is of several systems.
        EngineError: If DuckDB fails.
    """
    _refuse(value, None, departures, {})
    if spec.clicks is not None:
        raise SpecError(
            "the labels of a click log are computed anew; reconcile needs a table of labels"
        )
    column = spec.rankings.columns.system
    if system is not None and column is None:
        raise SpecError(
            f"rankings.columns.system is not set, so there is no system {system!r}; set it, "
            "or leave the system out"
        )
    source = spec.rankings
    fused = tuple(mixture for mixture in source.fuse if mixture.name == system)
    if fused:
        source = source.model_copy(update={"fuse": fused, "fused_only": True})
    elif system is not None:
        source = source.unfused
        of_system = f"{identifier(str(column))} = {literal(system)}"
        where = of_system if source.where is None else f"({source.where}) and {of_system}"
        one_list = source.columns.model_copy(update={"system": None})
        source = source.model_copy(update={"where": where, "columns": one_list})
    names = {name: getattr(spec, name) for name in ("labels", "queries", "items", "metrics_from")}
    if days and source.columns.date is None:
        raise SpecError(
            f"rankings.columns.date is not set, so there are no days {days} to choose; set "
            "it, or leave the days out"
        )
    tables_alone = Spec(name=spec.title, rankings=source, metrics=metric, **names)
    with _default(connection) as engine:
        tables = opened(tables_alone, engine).on(days.ends if days else None)
        measure = _one_measure(tables_alone)
        _check_metric(tables_alone, tables)
        readings, unfit = _readings(value, measure)
        reconciliation = _matches(
            tables_alone, tables, readings, departures, engine, check=True, is_given=False
        )
        notes = (
            *_as_percent(reconciliation, value),
            *tables.notes,
            *_days(tables_alone, tables, engine),
        )
    if unfit and not reconciliation.candidates:
        raise unfit
    return replace(reconciliation, notes=notes)


def _matches(
    spec: Spec,
    tables: Tables,
    readings: Sequence[Target] | Sequence[GivenValues],
    departures: int,
    engine: Database,
    *,
    check: bool | float,
    is_given: bool,
) -> Reconciliation:
    """What gives the number, however repeated items are counted."""
    ways = _checked(spec, tables, engine, is_given=is_given) if check else ()
    if not ways:
        return _reconciled(spec, tables, readings, departures, engine)
    return known.together(
        {
            way: _reconciled(known.having(spec, way), tables, readings, departures, engine)
            for way in ways
        }
    )


def _checked(spec: Spec, tables: Tables, engine: Database, *, is_given: bool) -> tuple[str, ...]:
    """Look for bad input; what may become of items that a list holds twice, if there are any."""
    if is_given:
        checks.check_inputs(make_plan(spec, tables), engine)
        return ()
    checks.check_inputs(make_plan(known.having(spec, "best_score"), tables), engine)
    return known.WAYS if known.there_are(spec, tables, engine) else ()


def _reconciled(
    spec: Spec,
    tables: Tables,
    readings: Sequence[Target] | Sequence[GivenValues],
    departures: int,
    engine: Database,
) -> Reconciliation:
    """What gives the number by its first reading that fits, if repeats are what the spec says."""
    tally, points = _counted(spec, tables, readings[0], departures, engine)
    known_mistakes = None
    if isinstance(readings[0], Target):
        known_mistakes = _known_mistakes(spec, tables, tally, engine)
    next_door = NextDoor(spec.having(by=()), tables, _needless(spec, tables, readings[0]), engine)
    for target in readings:
        if isinstance(target, GivenValues):
            return ValuesMatch(tally, points, departures, target).reconciled()
        reconciliation = MeanMatch(tally, points, departures, target).reconciled()
        if known_mistakes:
            reconciliation = known_mistakes.with_mistakes_of(reconciliation, target)
        if all(candidate.distance for candidate in reconciliation.candidates):
            lines = next_door.candidates(target)
            reconciliation = with_lines(reconciliation, reconciliation.candidates, lines)
        if reconciliation.candidates:
            break
    return reconciliation


def _readings(value: object, measure: Measure) -> tuple[list[Target], SpecError | None]:
    """The number; if it cannot be the metric's, the percentage too that it may be, and why.

    A mistake in SQL can make it, or it is another metric's.
    """
    target = read(value)
    try:
        return [checked(target, measure.metric)], None
    except SpecError as error:
        if target.number <= 1:
            raise
        readings = [target]
        with suppress(SpecError):  # it is no percentage either
            readings.append(checked(read(f"{target.text}%"), measure.metric))
        return sorted(readings, key=lambda reading: reading.number > HIGHEST), error


def _as_percent(reconciliation: Reconciliation, value: object) -> tuple[str, ...]:
    """A note where a number was read as a percentage that does not say that it is one."""
    target = reconciliation.target
    if target is None or target.text == str(value).strip():
        return ()
    return (f"{value} is read as a percentage, {target.text}",)


def _known_mistakes(
    spec: Spec, tables: Tables, tally: Tally, engine: Database
) -> KnownMistakes | None:
    """What mistakes give; None where no mean of queries is taken, or one with weights."""
    if spec.measures[0].metric.count or Shape(spec, tables).weighted:
        return None
    mistaken, correct = by_options(tally)
    more_mistaken, more_correct = Handwritten(spec, tables, gains(tally.space)).values(engine)
    return KnownMistakes(
        str(spec.measures[0]), [*mistaken, *more_mistaken], [*correct, *more_correct]
    )


def _default(connection: Any) -> Database:
    engine = connect(connection)
    if engine.translation.changes:
        raise SpecError(f"reconcile needs DuckDB, given {engine.name}")
    return engine


_REFUSED: Mapping[tuple[str, object], str] = {
    ("preset", ...): "reconcile tries all presets; leave the preset out, and give what you know as "
    "conventions",
    ("missing", "error"): "missing must be zero or drop here",
    ("duplicate_rankings", "first"): (
        "duplicate_rankings=first needs one order of ties, but reconcile tries all; set "
        "best_score or count"
    ),
}
"""An argument and its value, or any value, and why it cannot be."""


def _refuse(value: object, values: object, departures: object, keywords: Mapping[str, Any]) -> None:
    problems = []
    if (value is None) == (values is None):
        problems.append(
            "give either a value or per-query values (value or values, --value or --values)"
        )
    if not isinstance(departures, int) or not 0 <= departures <= MOST:
        problems.append(f"departures must be a whole number from 0 to {MOST}, given {departures!r}")
    problems += [
        message
        for (name, refused), message in _REFUSED.items()
        if keywords.get(name) and refused in (..., keywords[name])
    ]
    if values is not None:
        problems += [
            f"per-query values have no {noun}; choose one with where"
            for name, noun in (("date", "date"), ("by", "segment"))
            if keywords.get(name)
        ]
    if problems:
        raise SpecError(problems)


def _one_measure(spec: Spec) -> Measure:
    if len(spec.measures) != 1:
        metric_names = ", ".join(map(str, spec.measures))
        raise SpecError(
            f"reconcile takes one metric and one value per option, given {metric_names}"
        )
    return spec.measures[0]


def _check_metric(spec: Spec, tables: Tables) -> None:
    """Refuse the metrics whose numbers are not made of values of queries of one list each."""
    measure = spec.measures[0]
    if measure.metric.pooled:
        raise SpecError(
            f"reconcile needs a mean of per-query values, but {measure} is one number for "
            "all lists; evaluate it with each preset that may apply"
        )
    if measure.no_mean:
        raise SpecError(
            f"reconcile needs a mean of per-query values, but {measure} is {measure.no_mean} of "
            "them; leave out average, or evaluate it with each preset that may apply"
        )
    if needed := [need for need in spec.needed if need != GROUPS]:
        need_texts = {
            "baseline": "a second system",
            "labels": "a column of the labels",
            "items": "a table of items",
            "queries": "a column of the queries",
            "day": "the day of a query",
        }
        needed_tables = (need.partition(".")[0] for need in needed)
        needs = " and ".join(dict.fromkeys(need_texts[table] for table in needed_tables))
        raise SpecError(f"reconcile only takes rankings and labels; {measure} needs {needs}")
    compares = Needs(spec).reads_score and not _has_ranks(spec, tables)
    if compares and spec.options["depth"] != "none":
        raise SpecError(
            f"{measure} compares scores, so it cannot have a depth here; cut the lists with where"
        )


def _has_ranks(spec: Spec, tables: Tables) -> bool:
    return "rank" in Shape(spec, tables).columns["rankings"]


def _needless(spec: Spec, tables: Tables, target: Target | GivenValues) -> list[str]:
    """The options that change nothing: for ranks, for pairs of scores, for values of queries."""
    needless = list(ORDER) if _has_ranks(spec, tables) else []
    needless += ["ties"] if Needs(spec).reads_score else []
    return needless + (["average"] if isinstance(target, GivenValues) else [])


def _counted(
    spec: Spec, tables: Tables, target: Target | GivenValues, departures: int, engine: Database
) -> tuple[Tally, dict[Point, int]]:
    """Run the statement, and keep the points that it could compute."""
    _one_system(spec, tables, engine)
    spec = spec.having(by=())  # means of segments are averaged in `Handwritten`
    around = space(
        spec,
        needless=_needless(spec, tables, target),
        ordered=tables.rankings.ordered,
        grades=_grades(spec, tables, engine),
    )
    points = around.points(departures)
    given_table = None
    if isinstance(target, GivenValues):
        given_table = GivenTable(engine.register("sqlmetrics_values", target.table), target.unit)
    tried = dict.fromkeys([*points, *right(around), *(point for _, point in wrong(around))])
    orders = () if isinstance(target, GivenValues) else (WORST_FIRST,)
    worlds = worlds_of(((around, point) for point in tried), spec, orders)
    statement = Statement(spec, tables, worlds, given_table)
    tally = Tally(around, statement, engine.table(statement.text).to_pylist())
    return tally, {point: far for point, far in points.items() if tally.covers(point)}


def _one_system(spec: Spec, tables: Tables, engine: Database) -> None:
    """Refuse several systems: a number is of one."""
    systems = _distinct("system", spec, tables, engine)
    if len(systems) > 1:
        system_names = ", ".join(map(repr, systems))
        raise InputError(
            f"rankings: the number belongs to one system, but there are {system_names}; choose "
            "one with where"
        )


def _distinct(key: str, spec: Spec, tables: Tables, engine: Database) -> list[str]:
    """A few of the systems, or of the days, of the rankings."""
    shape = make_plan(spec, tables).shape
    if key not in shape.keys:
        return []
    name = shape.names["rankings"]
    stages = [stage for stage in shape.stages() if stage.name == name]
    last = f"select distinct {key}\nfrom {name}\norder by {key}\nlimit 4"
    return [str(value) for (value,) in engine.rows(with_stages(stages, last))]


def _days(spec: Spec, tables: Tables, engine: Database) -> tuple[str, ...]:
    """A note where there are several days."""
    if len(_distinct("metric_date", spec, tables, engine)) < 2:
        return ()
    return ("the mean is over the queries of all days; choose one day with a condition: where",)


def _own_ids(spec: Spec, tables: Tables, engine: Database) -> tuple[str, ...]:
    """A note where an item has the id of its query, which some tools leave out."""
    shape = make_plan(spec, tables).shape
    name = shape.names["rankings"]
    stages = [stage for stage in shape.stages() if stage.name == name]
    last = f"select count(*)\nfrom {name}\nwhere item_id = query_id"
    count = engine.rows(with_stages(stages, last))[0][0]
    note = f"{count:,} items have the id of their query; BEIR drops them: identical_ids=drop"
    return (note,) if count else ()


def _grades(spec: Spec, tables: Tables, engine: Database) -> list[float]:
    """The grades from which an item may be relevant, where there are few."""
    if "rel" not in spec.measures[0].metric.parameters:
        return []
    shape = make_plan(spec, tables).shape
    name = shape.names["labels"]
    stages = [stage for stage in shape.stages() if stage.name == name]
    last = f"select distinct grade\nfrom {name}\nwhere grade > 0\nlimit {MANY_GRADES + 1}"
    grades = sorted(grade for (grade,) in engine.rows(with_stages(stages, last)))
    lowest_is_1 = grades[:1] == [1.0]
    are_few = len(grades) <= MANY_GRADES
    return [_as_integer(grade) for grade in grades[lowest_is_1:]] if are_few else []


def _as_integer(grade: float) -> float:
    return int(grade) if grade.is_integer() else grade
