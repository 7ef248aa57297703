"""What the arguments of `evaluate` ask for, and where the tables are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Unpack, cast

from pydantic import ValidationError

from sqlmetrics.catalog.conventions import OPTIONS
from sqlmetrics.catalog.keywords import Conventions
from sqlmetrics.catalog.measure import metric_texts
from sqlmetrics.catalog.metric import is_column_role
from sqlmetrics.catalog.metric_files import MetricFiles
from sqlmetrics.engines.database import Database, connect, session_of, with_views
from sqlmetrics.errors import InputError, SpecError, nearest, unknown
from sqlmetrics.evaluation.arguments import listed
from sqlmetrics.evaluation.inputs.bad_files import problem_of, without_bad_files
from sqlmetrics.evaluation.inputs.formats import LINE_LENGTH
from sqlmetrics.evaluation.inputs.guess import guess, guess_files
from sqlmetrics.evaluation.inputs.names import QUERY_TEXTS, USUAL, are_swapped, in_order
from sqlmetrics.evaluation.inputs.open import opened, source_relation, zones_of
from sqlmetrics.evaluation.inputs.runs import (
    STAGE,
    SYSTEM,
    StageRuns,
    Together,
    opened_run,
    runs_in,
    together,
)
from sqlmetrics.evaluation.inputs.sources import source_of
from sqlmetrics.evaluation.inputs.trace_systems import References, is_flat, resolved, several_traces
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.segments import QUERY_LENGTH
from sqlmetrics.spec.source import RankedLists, is_query, is_separated
from sqlmetrics.spec.spec import Spec, sentences
from sqlmetrics.spec.zones import Zones
from sqlmetrics.sql.relation import Relation, protect_query, source_text

if TYPE_CHECKING:
    from sqlmetrics.evaluation.inputs.traces import Traces


class TableArguments(Conventions, total=False):
    """What `compare`, `diagnose`, `report` and `funnel` take as `evaluate` does, and options."""

    preset: str | None
    segments: str | Sequence[str] | Mapping[str, str]
    query: str
    item: str
    score: str
    rank: str | None
    grade: str
    group: str | None
    system: str | None
    date: str | None
    time_zone: str | None
    weight: str | None
    queries: Any
    items: Any
    where: str | None
    grades: Mapping[str, float] | None
    label_columns: Mapping[str, str] | None
    separator: str | None
    decimal: str | None
    mask: Any
    skip_bad: bool
    metrics_from: Any


class QuestionArguments(TableArguments, total=False):
    """What `question` takes by name: columns and tables, as `evaluate` does, and options."""

    by: str | Sequence[str]
    baseline: str | None


NAMED = QuestionArguments.__annotations__.keys() - Conventions.__annotations__.keys()
"""The arguments that are no options."""


def named_arguments(values: Mapping[str, Any]) -> QuestionArguments:
    """What `question` takes by name, of the arguments of `evaluate` as its local names."""
    return cast(QuestionArguments, {name: values[name] for name in NAMED} | values["conventions"])


OTHER_ARGUMENTS = (
    *("rankings", "labels", "metrics", "connection", "check", "per_query", "confidence", "plan"),
    *("memory", "checkpoint", "profile", "progress", "overwrite"),
)
"""What `evaluate` takes besides."""


def question(
    engine: Database,
    rankings: Any,
    labels: Any,
    metrics: str | Sequence[str],
    **keywords: Unpack[QuestionArguments],
) -> tuple[Spec, Tables]:
    """What the arguments of `evaluate` ask for, and where its tables are.

    Raises:
        SpecError: If one is wrong, or there is none of the name.
        InputError: If a table cannot be read.
    """
    rankings, labels = with_views(rankings, engine), with_views(labels, engine)
    for name in ("queries", "items"):
        if keywords.get(name) is not None:
            keywords[name] = with_views(keywords[name], engine)
    arguments = _Arguments(engine, metrics, keywords)
    _check_names(arguments.conventions)
    rankings, left_out = arguments.sound(rankings)
    rankings, labels = resolved(rankings, labels, engine, keywords)
    rankings, labels, note = in_order(rankings, labels)
    rankings, labels, shape_notes = arguments.shaped(rankings, labels)
    spec, tables = arguments.read(rankings, labels)
    if are_swapped(spec, tables, engine):
        spec, tables = arguments.spec(labels, rankings)
        note = (
            "the first table has grades and the second has scores, so they are used as "
            "labels and rankings"
        )
    tables = replace(
        tables,
        notes=(*filter(None, [left_out, note]), *shape_notes, *tables.notes),
        left_out=left_out or tables.left_out,
    )
    spec, tables = guess(spec, tables, engine)
    spec = _described(_dated(spec, tables, engine), tables, engine)
    spec = _with_query_columns(spec, tables, keywords.get("weight"), engine)
    zones = zones_of(spec, tables, engine)
    spec = _zoned(spec, zones, keywords.get("time_zone"))
    return spec, replace(tables, zones=zones_of(spec, tables, engine))


@dataclass(frozen=True)
class Inputs:
    """What `compare`, `diagnose`, `report` and `funnel` are given, as `evaluate` takes it.

    Attributes:
        rankings: The rankings; or a spec, which says all that stands in it.
        labels: The labels; None with a spec.
        arguments: The other arguments of `evaluate`.
    """

    rankings: Any
    labels: Any
    arguments: Mapping[str, Any]

    def segments(self, by: str | Sequence[str]) -> tuple[str, ...]:
        """All that is segmented by."""
        return segmented(by, self.arguments.get("segments", ()))

    def opened(self, connection: Any) -> Database:
        """Where the tables are."""
        return connect(session_of(connection, self.rankings, self.labels))

    def resolved(self, engine: Database) -> Inputs:
        """The same once it is known which table is which."""
        rankings, labels = resolved(self.rankings, self.labels, engine, self.arguments)
        return replace(self, rankings=rankings, labels=labels)

    def question(
        self, engine: Database, metrics: str | Sequence[str], by: Sequence[str]
    ) -> tuple[Spec, Tables]:
        """What is asked of the evaluation; see `question`."""
        arguments = {"by": by, **self.arguments}
        return question(engine, self.rankings, self.labels, metrics, **arguments)

    def check_spec_alone(self) -> None:
        """Raise SpecError for what a spec says itself."""
        if self.arguments or self.labels is not None:
            extras = ", ".join(self.arguments) or "labels"
            raise SpecError(
                f"a spec says all of this itself; write {extras} in the spec, or leave it out here"
            )


@dataclass(frozen=True)
class _Arguments:
    """Arguments of `evaluate`, as they were given."""

    engine: Database
    metrics: str | Sequence[str]
    keywords: Mapping[str, Any]

    @property
    def conventions(self) -> dict[str, Any]:
        """The options among them."""
        return {name: value for name, value in self.keywords.items() if name not in NAMED}

    def sound(self, rankings: Any) -> tuple[Any, str]:
        """Several runs without files that cannot be used, if that is asked for, and the note."""
        runs = self._runs(rankings) if self.keywords.get("skip_bad") else {}
        problems = {
            name: f"{str(run)!r} {problem}"
            for name, run in runs.items()
            if isinstance(run, str | PurePath) and (problem := self._problem_of(str(run)))
        }
        if not problems:
            return rankings, ""
        sound, note = without_bad_files(runs, problems)
        return StageRuns(sound) if isinstance(rankings, StageRuns) else sound, note

    def _problem_of(self, run: str) -> str:
        """Why the file of a run cannot be used; empty if it can, or is no file."""
        if self.engine.find(run) or is_query(run):
            return ""
        try:
            source_fields = source_of(run, "rankings", lambda _: None)
        except InputError as error:
            return str(error).removeprefix("rankings: ").removeprefix(f"the file {run!r} ")
        columns = self._columns(has_labels=True)
        return problem_of(_rankings(source_fields | {"columns": columns}), opened_run)

    def shaped(self, rankings: Any, labels: Any) -> tuple[Any, Any, tuple[str, ...]]:
        """Rankings and labels with tables in the place of matrices, and notes of what they hold."""
        runs = self._runs(rankings)
        inputs = (labels, *(runs.values() if runs else (rankings,)))
        are_paths = all(table is None or isinstance(table, str | PurePath) for table in inputs)
        if are_paths and self.keywords.get("mask") is None:
            return rankings, labels, ()
        from sqlmetrics.evaluation.inputs.matrices import Shapes

        label_columns = dict(self.keywords.get("label_columns") or {})
        label_names = [
            label_columns.get(role, self._column(role)) for role in ("query", "item", "grade")
        ]
        value = self.keywords.get("rank") or self._column("score")
        columns = (str(self._column("query")), str(self._column("item")), str(value))
        shapes = Shapes(runs or {"": rankings}, labels, self.keywords.get("mask"))
        tables, labels, notes = shapes.tables(
            columns, (str(label_names[0]), str(label_names[1]), str(label_names[2]))
        )
        if not runs:
            return tables[""], labels, notes
        return StageRuns(tables) if isinstance(rankings, StageRuns) else tables, labels, notes

    def read(self, rankings: Any, labels: Any) -> tuple[Spec, Tables]:
        """The spec as far as the arguments alone say it, and its tables, which may be traces."""
        traces, runs = None, self._runs(rankings)
        has_labels = not (labels is None or isinstance(labels, References))
        if runs and (labels is not None) and self._are_traces(runs, has_labels=has_labels):
            read = {name: self._traces(run, has_labels=has_labels) for name, run in runs.items()}
            traces = several_traces(
                {name: system_traces for name, system_traces in read.items() if system_traces},
                self.keywords,
            )
            if isinstance(rankings, StageRuns):
                traces = replace(traces, rankings=StageRuns(traces.rankings))
        elif not runs and (not has_labels or self._may_be_traces(rankings)):
            traces = self._traces(rankings, has_labels=has_labels)
        if traces is None:
            return self.spec(rankings, labels)
        overrides: dict[str, Any] = {} if traces.queries is None else {"queries": traces.queries}
        if traces.labels is None and "." in str(self._column("item")):  # a key is no column
            label_columns = self.keywords.get("label_columns") or {}
            overrides["label_columns"] = {"item": USUAL["item"], **label_columns}
        arguments = replace(self, keywords={**self.keywords, **overrides, "where": None})
        spec, tables = arguments.spec(
            traces.rankings, labels if traces.labels is None else traces.labels
        )
        return spec, replace(tables, notes=(*traces.notes, *tables.notes))

    def _are_traces(self, runs: Mapping[str, Any], *, has_labels: bool) -> bool:
        """Whether all of several runs are traces; those with references were looked at before."""
        return not has_labels or all(map(self._may_be_traces, runs.values()))

    def _may_be_traces(self, rankings: Any) -> bool:
        """Whether rankings beside labels might be traces; few are, so few wait for a look."""
        item = str(self._column("item"))
        if is_flat(rankings, item):
            return False
        from sqlmetrics.evaluation.inputs.traces import may_be_traces_beside_labels

        return may_be_traces_beside_labels(rankings, self.engine, item)

    def _traces(self, rankings: Any, *, has_labels: bool) -> Traces | None:
        """The tables in traces, if that is what the rankings are."""
        from sqlmetrics.evaluation.inputs.traces import READS_QUERIES, traces_in

        arguments = {**self.keywords, READS_QUERIES: self._reads_queries}
        return traces_in(rankings, self.engine, arguments, has_labels=has_labels)

    @property
    def _reads_queries(self) -> bool:
        """Whether a metric file reads a column of the queries."""
        files = MetricFiles.read(self.keywords.get("metrics_from") or ())
        needs = (need for metric in files.metrics.values() for need in metric.needs)
        return any(need.startswith("queries.") for need in needs)

    def _runs(self, rankings: Any) -> dict[str, Any]:
        """Name -> run, if several are given."""
        return runs_in(rankings, {str(self._column("query")), str(self._column("item"))})

    def spec(self, rankings: Any, labels: Any) -> tuple[Spec, Tables]:
        """The spec as far as the arguments alone say it, and its tables."""
        keywords, grades = self.keywords, self.keywords.get("grades") or {}
        source_fields, runs = self._one_table(
            rankings, self._columns(has_labels=labels is not None)
        )
        source_fields |= {"where": keywords.get("where"), "time_zone": keywords.get("time_zone")}
        source_fields["grades"] = grades if labels is None else {}
        by, segments = keywords.get("by", ()), keywords.get("segments", ())
        spec = Spec(
            rankings=source_fields,
            labels=self._table("labels", labels, "query", "item", "grade", grades=grades),
            queries=self._table("queries", keywords.get("queries"), "query"),
            items=self._table("items", keywords.get("items"), "item"),
            metrics=metric_texts(self.metrics),
            metrics_from=keywords.get("metrics_from"),
            preset=keywords.get("preset") or "house",
            by=segmented(by, segments),
            segments=segments,
            conventions=self.conventions,
            baseline=keywords.get("baseline"),
        )
        spec, notes = guess_files(spec, self.engine)
        tables = opened(spec, self.engine)
        tables = replace(tables, notes=(*tables.notes, *notes))
        if runs:
            relation = runs.read(tables.rankings, self.engine)
            systems = () if isinstance(rankings, StageRuns) else tuple(self._runs(rankings))
            notes = (*runs.notes, *notes)
            tables = replace(
                tables,
                rankings=relation,
                notes=notes,
                systems=systems,
                system_column=runs.system_column,
            )
        return spec, tables

    def _column(self, role: str) -> Any:
        usual = f"{role}_id" if role in ("query", "item") else role
        return self.keywords.get(role, usual)

    def _columns(self, *, has_labels: bool) -> dict[str, str | None]:
        """Role -> column of the rankings."""
        keywords, rank = self.keywords, self.keywords.get("rank")
        return {
            "query": self._column("query"),
            "item": self._column("item"),
            "rank" if rank else "score": rank or self._column("score"),
            "system": keywords.get("system"),
            "date": keywords.get("date"),
            "weight": keywords.get("weight") if keywords.get("queries") is None else None,
            "grade": None if has_labels else self._column("grade"),
        }

    def _table(
        self, table: str, input_table: Any, *roles: str, **extra_fields: object
    ) -> dict[str, Any] | None:
        """A table beside the rankings, with its columns; None if it is not given."""
        if input_table is None:
            return None
        columns = {role: self._column(role) for role in roles}
        if table == "labels":
            columns |= {"group": self.keywords["group"]} if self.keywords.get("group") else {}
            columns |= dict(self.keywords.get("label_columns") or {})
        return self._placed(input_table, table) | extra_fields | {"columns": columns}

    def _placed(self, input_table: Any, table: str) -> dict[str, Any]:
        """Where a table is, and how its lines are written if it is a file that has them."""
        source_fields = source_of(input_table, table, self.engine.find)
        file_settings = {name: self.keywords.get(name) for name in ("separator", "decimal")}
        return source_fields | (file_settings if is_separated(source_fields.get("file")) else {})

    def _one_table(
        self, rankings: Any, columns: Mapping[str, str | None]
    ) -> tuple[dict[str, Any], Together | None]:
        """Where the rankings are, and their columns; several runs are put together."""
        runs = self._runs(rankings)
        if not runs:
            skip_bad = bool(self.keywords.get("skip_bad"))
            source_fields = self._placed(rankings, "rankings")
            return source_fields | {"columns": columns, "skip_bad": skip_bad}, None
        sources = {
            name: _rankings(self._placed(run, "rankings") | {"columns": columns})
            for name, run in runs.items()
        }
        precision = str(self.conventions.get("score_precision", "double"))
        run_column = STAGE if isinstance(rankings, StageRuns) else SYSTEM
        combined = together(sources, self.engine, precision=precision, run_column=run_column)
        return {"sql": combined.sql, "columns": dict(combined.columns)}, combined


def _rankings(fields: Mapping[str, Any]) -> RankedLists:
    """One of several runs.

    Raises:
        SpecError: If what is said of it is wrong.
    """
    try:
        return RankedLists.model_validate(fields)
    except ValidationError as error:
        raise SpecError(sentences(error, "rankings")) from None


def check_arguments(function: Callable[..., Any], keywords: Mapping[str, Any]) -> None:
    """See that what a function hands on to an evaluation are arguments that this takes.

    Args:
        function: What was called.
        keywords: What it does not take by name itself.

    Raises:
        SpecError: If there is no argument and no option of a name.
    """
    parameters = signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind != parameter.VAR_KEYWORD]
    _check_names(
        {name: value for name, value in keywords.items() if name not in NAMED},
        f"{function.__name__}: ",
        {*names, *NAMED},
    )


def _check_names(
    conventions: Mapping[str, Any],
    where: str = "",
    arguments: Collection[str] = (*NAMED, *OTHER_ARGUMENTS),
) -> None:
    """Raise SpecError for what is no option, and looks like an argument."""
    if isinstance(conventions.get("conventions"), Mapping):
        suggestion = ", ".join(
            f"{name}={value!r}" for name, value in conventions["conventions"].items()
        )
        raise SpecError(f"conventions are arguments by themselves; give {suggestion}")
    for name in conventions.keys() - OPTIONS.keys():
        names = [*arguments, *OPTIONS]
        near = nearest(name, names)
        if near is None or near in arguments:
            raise SpecError(where + unknown("argument or option", name, names))


def _dated(spec: Spec, tables: Tables, engine: Database) -> Spec:
    """With a date for the rankings, the labels' own date column if they have one."""
    date = spec.rankings.columns.date
    if date is None or spec.labels is None or spec.labels.columns.date is not None:
        return spec
    if not _has(tables.labels, date, engine):
        return spec
    return _with(spec, "labels", date=date)


def _zoned(spec: Spec, zones: Zones, zone: str | None) -> Spec:
    """With a zone for the other tables whose days are of times with one."""
    table_names = [table for table in ("labels", "queries") if zone and table in zones]
    changed = {table: getattr(spec, table) for table in table_names if getattr(spec, table)}
    return spec.having(
        **{
            table: source.model_copy(update={"time_zone": zone})
            for table, source in changed.items()
        }
    )


def segmented(
    by: str | Sequence[str], segments: str | Sequence[str] | Mapping[str, str]
) -> tuple[str, ...]:
    """All that is segmented by: columns, then those that are declared beside them."""
    columns, declared = listed(by), listed(segments)
    return (*columns, *(name for name in declared if name not in columns))


def _with_query_columns(spec: Spec, tables: Tables, weight: str | None, engine: Database) -> Spec:
    """With a queries table, the columns that it has and the rankings have not.

    Raises:
        InputError: If neither of the two has a segment.
    """
    if spec.queries is None or tables.queries is None:
        return spec
    columns = [name for name in spec.query_columns if name not in spec.segments]
    segments = [name for name in columns if not _has(tables.rankings, name, engine)]
    if missing := [name for name in segments if not _has(tables.queries, name, engine)]:
        existing_columns = {
            column
            for relation in (tables.rankings, tables.queries)
            for column in _columns(relation, engine)
            if column != LINE_LENGTH
        }
        raise InputError(
            [
                f"rankings and queries: {unknown('column', name, existing_columns)} "
                f"(used as segment {name})"
                for name in missing
            ]
        )
    query_fields: dict[str, object] = {"segments": tuple(segments)}
    if QUERY_LENGTH in spec.segments.values():
        texts = (name for name in QUERY_TEXTS if _has(tables.queries, name, engine))
        query_fields["text"] = next(texts, None)
    date = spec.rankings.columns.date
    if date is not None and _has(tables.queries, date, engine):
        query_fields["date"] = date
    if weight is not None and _has(tables.rankings, weight, engine):
        spec = _with(spec, "rankings", weight=weight)
    elif weight is not None:
        query_fields["weight"] = weight
    return _with(spec, "queries", **query_fields)


def _described(spec: Spec, tables: Tables, engine: Database) -> Spec:
    """With the columns of the items table that metrics need, by the names of their roles."""
    if tables.items is None:
        return spec
    needs = [need.partition(".")[2] for need in spec.needed if need.startswith("items.")]
    roles = [role for role in needs if not is_column_role(role)]
    return _with(spec, "items", **{r: r for r in roles if _has(tables.items, r, engine)})


def with_texts(spec: Spec, engine: Database) -> Spec:
    """The spec with the columns of titles and texts, where tables have them by usual names."""
    for table, role, names in (("items", "title", ("title",)), ("queries", "text", QUERY_TEXTS)):
        source = getattr(spec, table)
        if source is None or getattr(source.columns, role) is not None:
            continue
        existing = engine.columns(source_text(source_relation(source, table, engine)))
        column = next((name for name in names if name in existing), None)
        columns = source.columns.model_copy(update={role: column})
        spec = spec.having(**{table: source.model_copy(update={"columns": columns})})
    return spec


def _columns(relation: Relation, engine: Database) -> Iterable[str]:
    return engine.columns(source_text(protect_query(relation, engine.translation)))


def _has(relation: Relation, column: str, engine: Database) -> bool:
    return column.casefold() in map(str.casefold, _columns(relation, engine))


def _with(spec: Spec, table: str, **columns: object) -> Spec:
    """The spec with other columns for one of its tables."""
    source = getattr(spec, table)
    changed = source.columns.model_copy(update=columns)
    return spec.having(**{table: source.model_copy(update={"columns": changed})})
