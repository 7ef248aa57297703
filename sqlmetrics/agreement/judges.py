"""The judges: whose labels stand in which table, and how each is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa

from sqlmetrics.engines.database import Database, with_views
from sqlmetrics.errors import InputError, SpecError, shortened, unknown
from sqlmetrics.evaluation.checks import checks
from sqlmetrics.evaluation.inputs.open import opened
from sqlmetrics.evaluation.inputs.runs import in_memory, runs_in
from sqlmetrics.evaluation.question import question
from sqlmetrics.plan.plan import Plan, make_plan
from sqlmetrics.plan.shape import segment
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.source import RankingColumns, Rankings
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import Relation, protect_query, source_text, unmentioned
from sqlmetrics.sql.stage import Column, Stage
from sqlmetrics.sql.template import identifier, literal

MOST_JUDGES = 20
USUAL_COLUMNS = ("judge", "rater", "annotator", "assessor")
"""What a column of judges is called, where nobody names it."""

METRIC = "precision@10"
"""What the question of labels asks for: a metric for which each finite grade makes sense."""

SAY_WHICH = (
    "name the columns with their grades (judges, --judges human,gpt) or the column that names "
    "the judge (judge, --judge), or give a table for each judge"
)
_LABEL_ROLES = ("query", "item")


@dataclass(frozen=True)
class JudgeLabels:
    """The labels of one judge.

    Attributes:
        name: The judge.
        plan: A plan whose labels they are.
        columns: The columns of their table, as they are spelled there.
    """

    name: str
    plan: Plan
    columns: tuple[str, ...]

    def column(self, name: str) -> str | None:
        """A column of the table; None if it has none of the name."""
        return next((c for c in self.columns if c.casefold() == name.casefold()), None)

    def stage(self, name: str, number: int, by: Sequence[str]) -> Stage:
        """Their rows: the pair, the number of the judge, the grade, and segments."""
        (stage,) = (s for s in self.plan.inputs if s.name == self.plan.shape.names["labels"])
        segments = []
        for segment_name in by:
            column = self.column(segment_name)
            value = f"cast({identifier(column)} as varchar)" if column else "cast(null as varchar)"
            segments.append(Column(value, segment(segment_name)))
        columns = [*stage.view["columns"], Column(str(number), "judge"), *segments]
        view = {**stage.view, "about": f"the labels of {self.name!r}", "columns": columns}
        return replace(stage, name=name, view=view)


@dataclass(frozen=True)
class Panel:
    """Two judges or more, in their order; the first is the one that others are held against."""

    judges: tuple[JudgeLabels, ...]
    notes: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(judge.name for judge in self.judges)

    @property
    def has_days(self) -> bool:
        """Whether a pair is of a day: where the labels of all judges have days."""
        return all("date" in judge.plan.shape.columns["labels"] for judge in self.judges)

    @property
    def pair_keys(self) -> tuple[str, ...]:
        """What a pair is identified by."""
        return (*["metric_date"] * self.has_days, "query_id", "item_id")

    def check_column(self, name: str) -> None:
        """Raise InputError if the table of no judge has a column."""
        if not any(judge.column(name) for judge in self.judges):
            columns = dict.fromkeys(column for judge in self.judges for column in judge.columns)
            raise InputError(f"labels: {unknown('column', shortened(name), columns)}")

    def stages(self, by: Sequence[str], hidden: Sequence[Relation]) -> list[Stage]:
        """The labels of each judge, as stages whose names hide no table, nor any of these."""
        relations = [*(judge.plan.shape.at.labels for judge in self.judges), *hidden]
        return [
            judge.stage(unmentioned(f"labels_{number}", relations, instead="judge"), number, by)
            for number, judge in zip(count(1), self.judges)
        ]


def open_panel(
    labels: Any,
    judges: Sequence[str],
    judge_column: str | None,
    arguments: Mapping[str, Any],
    engine: Database,
    *,
    check: bool | float,
) -> Panel:
    """The judges of the tables that are given, opened and checked.

    Raises:
        SpecError: If it is not clear which judges are meant, or there are not two of them.
        InputError: If the labels cannot be read, or would give wrong numbers.
    """
    labels = in_memory(labels)
    ids = {str(arguments.get(role, f"{role}_id")) for role in _LABEL_ROLES}
    table_by_judge = {} if isinstance(labels, Spec) else runs_in(labels, ids)
    if isinstance(labels, list | tuple) and len(labels) == 1:
        labels, table_by_judge = labels[0], {}
    opening = _Opening(arguments, engine, check)
    if table_by_judge:
        if judge_column:
            raise SpecError(f"judge={judge_column!r} is for one table; each judge has its own here")
        names = _chosen(judges, [*table_by_judge])
        _check_number(names)
        panel = [opening.labels(name, table_by_judge[name], {}) for name in names]
    else:
        panel = opening.of_one_table(labels, judges, judge_column)
    notes = [note for judge in panel for note in judge.plan.shape.at.notes]
    return Panel(tuple(panel), (*dict.fromkeys(notes), *opening.notes))


def _check_number(names: Sequence[str]) -> None:
    """Raise SpecError unless there are as many judges as can be held against each other."""
    if len({*names}) < len(names):
        raise SpecError(f"judges must name each judge once, given {shortened(', '.join(names))}")
    if len(names) < 2:
        named = f"given {shortened(names[0])!r} alone" if names else "given none"
        raise SpecError(f"two judges or more are needed, {named}; {SAY_WHICH}")
    if len(names) > MOST_JUDGES:
        raise SpecError(
            f"{MOST_JUDGES} judges at most, given {len(names):,}; choose some (judges, --judges)"
        )


def _chosen(judges: Sequence[str], known_judges: Sequence[str]) -> Sequence[str]:
    """The judges that are asked for, in their order; all there are by default."""
    for name in judges:
        if name not in known_judges:
            raise InputError(unknown("judge", shortened(name), map(shortened, known_judges)))
    return judges or known_judges


class _Opening:
    """Opens the labels of judges, one by one."""

    def __init__(self, arguments: Mapping[str, Any], engine: Database, check: bool | float) -> None:
        self.engine, self.check = engine, check
        names = {role: arguments[role] for role in _LABEL_ROLES if role in arguments}
        columns = {role: f"{role}_id" for role in _LABEL_ROLES}
        label_columns = {**columns, **names, **(arguments.get("label_columns") or {})}
        kept = ("grade", "grades", "date", "time_zone", "separator", "decimal", "negative_grades")
        self.arguments = {name: arguments[name] for name in kept if arguments.get(name) is not None}
        self.arguments |= {"label_columns": label_columns, "duplicate_labels": "max_grade"}
        if "date" in label_columns:
            self.arguments.setdefault("date", label_columns["date"])
        self.notes: list[str] = []

    def labels(
        self, name: str, table: Any, columns: Mapping[str, str], rows_of: str | None = None
    ) -> JudgeLabels:
        """The labels of a judge.

        Args:
            name: The judge.
            table: Where they are.
            columns: What is known of their columns beside the arguments.
            rows_of: The column that names the judge of a row, where one table has several.
        """
        spec, tables = self._question(table, columns)
        existing = self._columns(tables.labels)
        grade = str(spec.truth.columns.grade)
        column = next((c for c in existing if c.casefold() == grade.casefold()), grade)
        if column not in existing:
            raise InputError(f"labels: {unknown('column', grade, existing)}; {SAY_WHICH}")
        conditions = [f"{identifier(column)} is not null"]
        if rows_of:
            conditions.append(f"cast({identifier(rows_of)} as varchar) = {literal(name)}")
        where = [self.engine.translation.value(text) for text in conditions]
        if spec.labels.where:  # type: ignore[union-attr]
            where.append(f"({spec.labels.where})")  # type: ignore[union-attr]
        update = {"where": " and ".join(where)}
        spec = spec.having(labels=spec.labels.model_copy(update=update))  # type: ignore[union-attr]
        if self.check:
            self._check(name, spec, tables, where)
        return JudgeLabels(name, make_plan(spec, tables), tuple(existing))

    def _check(self, name: str, spec: Spec, tables: Tables, where: Sequence[str]) -> None:
        """Raise InputError for labels that would give wrong numbers; any finite grade is fine."""
        if spec.options["negative_grades"] == "error":
            spec = spec.having(conventions={**spec.conventions, "negative_grades": "unjudged"})
        plan = make_plan(spec, tables)
        try:
            checks.check_inputs(plan, self.engine, ignored_tables=("rankings", "both tables"))
        except InputError:
            source = source_text(protect_query(tables.labels, self.engine.translation))
            is_graded, *conditions = where
            matching = f" where {' and '.join(conditions)}" if conditions else ""
            select = f"select count(*), count(case when {is_graded} then 1 end) from {source}"
            ((n_rows, n_grades),) = self.engine.rows(select + matching)
            if n_rows and not n_grades:
                raise InputError(
                    f"labels: judge {shortened(name)!r} has no grade; leave it out (judges, "
                    "--judges)"
                ) from None
            raise

    def of_one_table(
        self, table: Any, judges: Sequence[str], judge_column: str | None
    ) -> list[JudgeLabels]:
        """The labels of judges that stand in one table: each has a column, or rows of its own."""
        spec, tables = self._question(table, {})
        existing = {column.casefold(): column for column in self._columns(tables.labels)}
        if not judge_column:
            usual = [existing[name] for name in USUAL_COLUMNS if name in existing]
            if judges and (not usual or all(name.casefold() in existing for name in judges)):
                if len({name.casefold() for name in judges}) < len({*judges}):
                    raise SpecError(
                        "judges must name each column once, in upper or lower case, given "
                        f"{shortened(', '.join(judges))}"
                    )
                _check_number(judges)
                return [self.labels(name, table, {"grade": name}) for name in judges]
            if not usual:
                listed = shortened(", ".join(existing.values()))
                raise SpecError(
                    f"labels: no column says who judged: {SAY_WHICH}; columns: {listed}"
                )
            judge_column = usual[0]
            self.notes.append(
                f"labels: using {judge_column} as the judge; override with --judge (judge= in "
                "Python)"
            )
        column = existing.get(judge_column.casefold())
        if column is None:
            raise InputError(f"labels: {unknown('column', judge_column, existing.values())}")
        relation = protect_query(tables.labels, self.engine.translation)
        source = source_text(relation, spec.labels.where or "")  # type: ignore[union-attr]
        value = f"cast({identifier(column)} as varchar)"
        select = (
            f"select {value} as judge, count(*) as n\nfrom {source}\n"
            f"group by {value}\norder by {value} asc"
        )
        counts = {name: int(n) for name, n in self.engine.rows(select)}
        if n_nobody := counts.pop(None, 0):
            self.notes.append(f"labels: {n_nobody:,} rows without a judge are left out")
        names = [*_chosen(judges, sorted(counts))]
        _check_number(names)
        return [self.labels(name, table, {}, rows_of=column) for name in names]

    def _question(self, table: Any, columns: Mapping[str, str]) -> tuple[Spec, Tables]:
        """A question whose labels are a table, and whose rankings are empty."""
        if isinstance(table, Spec):
            if table.labels is None:
                raise SpecError("the spec has no labels apart from the rankings; give the table")
            return self._of_spec(table, columns)
        arguments = {**self.arguments, **columns}
        rankings = _no_rankings(arguments.get("date"))
        table = with_views(table, self.engine)
        return question(self.engine, rankings, table, METRIC, **arguments)

    def _of_spec(self, spec: Spec, columns: Mapping[str, str]) -> tuple[Spec, Tables]:
        """The same of a spec's labels."""
        day = spec.labels.columns.date  # type: ignore[union-attr]
        named = spec.labels.columns.model_copy(update=dict(columns))  # type: ignore[union-attr]
        rankings = Rankings(data=_no_rankings(day), columns=RankingColumns(score="score", date=day))
        spec = Spec(
            rankings=rankings,
            labels=spec.labels.model_copy(update={"columns": named}),  # type: ignore[union-attr]
            metrics=(METRIC,),
            conventions={"duplicate_labels": "max_grade"},
        )
        return spec, opened(spec, self.engine)

    def _columns(self, relation: Relation) -> list[str]:
        source = source_text(protect_query(relation, self.engine.translation))
        return [*self.engine.columns(source)]


def _no_rankings(day: str | None) -> pa.Table:
    """Rankings without a row, for a question that is of labels alone."""
    kinds = {"query_id": pa.string(), "item_id": pa.string(), "score": pa.float64()}
    return pa.schema([*kinds.items(), *([(day, pa.date32())] if day else [])]).empty_table()
