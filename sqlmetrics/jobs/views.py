"""Views beside the fact table: wide, of one spec, of single days and of several, of what lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import EngineError, SpecError, SqlmetricsError
from sqlmetrics.jobs.changes import quote_text
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.pooled_days import ROLLUP, comparison, rollup, running
from sqlmetrics.jobs.schema import BASELINE, VIEWS, columns_of, has_baseline, targets
from sqlmetrics.jobs.spec_views import OWN_PARTS, PARTS, Metric, SpecView, bounded, name_in_views
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, Stage, print_template, with_columns, with_stages
from sqlmetrics.sql.template import finished, literal, relation, variant
from sqlmetrics.sql.translation import Translation

# Views that say what is missing: each spec's calendar, and how it stands.
#
# Rows of all queries are enough for that: whatever has rows of a segment has them too.


def days(translation: Translation, name_by_table: Mapping[str, str]) -> str:
    """One row per spec and calendar day from its first to its last, with those that are missing.

    Args:
        translation: The dialect.
        name_by_table: Table -> what it is called.
    """
    facts = name_by_table["facts"]
    later = translation.dialect.times.later.format(day="spans.first_date", days="numbers.number")
    counted = {"n_systems": "count(distinct system)", "n_values": "count(*)"}
    stages = [
        _of_each("done_days", facts, "the days with rows", ["metric_date"], counted),
        _spans(facts),
        Stage("digits", "jobs/digits", {}),
        Stage("numbers", "jobs/numbers", {}),
        Stage("calendar", "jobs/calendar", {"later": translation.user_text(later)}),
    ]
    return with_stages(stages, print_template("jobs/days", {}))


def status(translation: Translation, name_by_table: Mapping[str, str]) -> str:
    """One row per spec: how old it is, its last run, what has holes, and rows of unknown runs.

    The arguments are those of `days`.
    """
    facts = name_by_table["facts"]
    ages = {
        f"{end}_age": translation.expression(translation.dialect.times.age, f"spans.{end}_date")
        for end in ("first", "last")
    }
    aged = [Column(sql, name) for name, sql in ages.items()]
    stages = [
        *_metric_spans(translation, name_by_table),
        _of_each("system_days", facts, "the days of each system", ["system"], _LASTING),
        Stage("metrics_by_spec", "jobs/metrics_by_spec", {}),
        Stage("systems_by_spec", "jobs/systems_by_spec", {}),
        with_columns("aged_spans", "spans", "the days since the first and the last day", aged),
        Stage("last_runs", "jobs/last_runs", name_by_table),
        Stage("unlogged", "jobs/unlogged", name_by_table),
        Stage("specs", "jobs/specs", {}),
    ]
    return with_stages(stages, print_template("jobs/status", {}))


def retired(translation: Translation, name_by_table: Mapping[str, str]) -> str:
    """One row per spec and metric that it asks for no more, with its days.

    The arguments are those of `days`.
    """
    spec_days = _of_each(
        "spec_days", name_by_table["facts"], "the days of each spec", ["metric_date"], {}
    )
    return with_stages(
        [*_metric_spans(translation, name_by_table), spec_days], print_template("jobs/retired", {})
    )


_LASTING = {"last_date": "max(metric_date)", "n_days": "count(distinct metric_date)"}


def _metric_spans(translation: Translation, name_by_table: Mapping[str, str]) -> list[Stage]:
    """The days of each metric beside those of its spec, and what is retired."""
    span_columns = {"first_date": "min(metric_date)"} | _LASTING
    span_columns |= {"n_definitions": "count(distinct definition_hash)"}
    is_listed = translation.dialect.is_listed.format(
        names="last_metrics.metrics", name="metrics.name"
    )
    return [
        _spans(name_by_table["facts"]),
        _of_each(
            "metric_days",
            name_by_table["facts"],
            "the days of each metric",
            ["metric", "k"],
            span_columns,
        ),
        Stage("last_metrics", "jobs/last_metrics", name_by_table),
        Stage(
            "metric_spans",
            "jobs/metric_spans",
            {**name_by_table, "is_listed": translation.user_text(is_listed)},
        ),
    ]


def _spans(facts: str) -> Stage:
    ends = {
        "first_date": "min(metric_date)",
        "last_date": "max(metric_date)",
        "n_days": "count(distinct metric_date)",
    }
    return _of_each("spans", facts, "from the first to the last day of each spec", [], ends)


def _of_each(
    name: str, facts: str, about: str, keys: Sequence[str], columns: Mapping[str, str]
) -> Stage:
    view = {
        "about": about,
        "keys": ["spec", *keys],
        "columns": [Column(sql, column) for column, sql in columns.items()],
        "from": relation(facts),
        "joins": {},
        "where": f"segment_name = {literal(ALL)}",
    }
    return Stage(name, "sums", view)


NAMES = (
    *("wide", "latest", "daily_change", "rollup", "running", "days", "status", "retired"),
    "comparison",
)
"""Of these the last one is there with a baseline alone."""

_OF_DAYS = {"running": running, "comparison": comparison}
_OF_CALENDAR = {"days": days, "status": status, "retired": retired}
KEYS = 5
"""As many columns of the wide view stand before its metrics."""


def metrics_of(spec: Spec) -> list[Metric]:
    """Those that a spec asks for."""
    return [Metric(metric, k) for metric, k, _ in hashes(spec)]


Cell = tuple[str, str, Metric]
"""A spec, a segment's name and a metric that the fact table has together."""


@dataclass(frozen=True)
class Wide:
    """What views are made of.

    Attributes:
        columns: Of the wide view that is there, behind the keys; none if there is none.
        cells: What the fact table holds.
    """

    columns: Sequence[str] = ()
    cells: Sequence[Cell] = ()

    @property
    def metrics(self) -> list[Metric]:
        """The metrics of all specs, by their columns."""
        return sorted({metric for *_, metric in self.cells}, key=lambda metric: metric.column)

    def cuts(self, spec: Spec, titles: Iterable[str]) -> Iterator[SpecView]:
        """The views of specs: of all queries, and by each segment that there is."""
        for title in titles:
            spec_cells = [
                (segment, metric) for name, segment, metric in self.cells if name == title
            ]
            own_metrics = metrics_of(spec) if title == spec.title else []
            other_metrics = sorted(
                {metric for _, metric in spec_cells} - {*own_metrics},
                key=lambda metric: metric.column,
            )
            by = (ALL, *spec.by) if title == spec.title else ()
            for segment in dict.fromkeys((*by, *sorted({segment for segment, _ in spec_cells}))):
                yield SpecView(title, segment, (*own_metrics, *other_metrics))


def wide(spec: Spec, engine: Database) -> Wide:
    """What there is of a spec's views.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are; outside of a transaction, which a look at a view that
            is not there would end.
    """
    view = spec.output.named("wide") if spec.output else ""
    existing_columns = columns_of(view, engine)[KEYS:] if view else []
    facts = relation(targets(spec)["facts"])
    rows = engine.rows(f"select distinct spec, segment_name, metric, k from {facts}")
    cells = [(title, segment, Metric(metric, int(k))) for title, segment, metric, k in rows]
    return Wide(existing_columns, [cell for cell in cells if _is_known(cell[2])])


def view_statements(
    spec: Spec, engine: Database, source: Wide | None = None, *, every: bool = False
) -> list[str]:
    """What makes the views of a fact table, with a column for each metric that it holds.

    Wide views only ever gain columns, at their end: what was granted on them, and what others
    built upon them, stays.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are; see `wide`.
        source: What the table gets beside what it has.
        every: Whether other specs of the table get views of their own too; else they have them.
    """
    if spec.output is None or not spec.output.views:
        return []
    existing, additions = wide(spec, engine), source or Wide()
    metrics = (*metrics_of(spec), *existing.metrics, *additions.metrics)
    column_by_name = {column.name: column for metric in metrics for column in metric.columns}
    names = dict.fromkeys((*existing.columns, *additions.columns, *column_by_name))
    columns = [column_by_name.get(name, Column("cast(null as double)", name)) for name in names]
    translation, facts = engine.translation, targets(spec)["facts"]
    has = {name.casefold() for name in engine.columns(relation(facts))}
    selects = _selects(spec, translation, columns, is_paired={*BASELINE} <= has)
    cells = Wide(cells=list({*existing.cells, *additions.cells}))
    titles = {spec.title, *(title for title, *_ in cells.cells)} if every else {spec.title}
    cuts = list(cells.cuts(spec, sorted(titles)))
    for spec_view in cuts:
        name = bounded(spec.output.named(spec_view.suffix))
        grown = replace(spec_view, existing_columns=columns_of(name, engine)[spec_view.n_keys :])
        selects[spec_view.suffix] = translation.text(finished(grown.select(facts))).rstrip()
    return [*_statements(spec, translation, selects, cuts), *_functions(spec, translation)]


def view_names(spec: Spec) -> list[str]:
    """The wide views that `view_statements` asks for: of all specs, and of this one."""
    if spec.output is None or not spec.output.views:
        return []
    suffixes = [cut.suffix for cut in Wide().cuts(spec, [spec.title])]
    return [spec.output.named("wide"), *(bounded(spec.output.named(end)) for end in suffixes)]


def make_views(spec: Spec, engine: Database, statements: Iterable[str]) -> None:
    """Execute these statements; within the transaction of the rows, where that can be.

    Raises:
        EngineError: If one cannot be made; it says whether the rows are written.
    """
    try:
        engine.execute_all(statements)
    except SqlmetricsError as error:
        is_undone = engine.translation.dialect.undoes_views
        raise EngineError(
            f"a view beside {targets(spec)['facts']} cannot be created; "
            f"{'nothing is written' if is_undone else 'the rows are written nevertheless'} "
            f"(output.views: false leaves the views out): {error}",
            getattr(error, "sql", ""),
        ) from error


def compiled_views(spec: Spec, translation: Translation) -> list[str]:
    """The statements that make a spec's views, for whoever cannot look at the table first.

    A text knows the metrics of its own spec alone. So its wide view is of this spec, and has
    its name: another job of the same table does not touch it.

    Args:
        spec: What is asked, with its `output`.
        translation: The dialect.
    """
    if spec.output is None or not spec.output.views:
        return []
    columns = [column for metric in metrics_of(spec) for column in metric.columns]
    selects = _selects(spec, translation, columns, spec.title, is_paired=has_baseline(spec))
    wide_name, facts = f"wide_{name_in_views(spec.title)}", targets(spec)["facts"]
    cuts = list(Wide().cuts(spec, [spec.title]))
    functions = list(_functions(spec, translation))
    if translation.dialect.writing.grows_views:
        del selects["wide"]
        grown = (_growing(spec, translation, spec_view.suffix, spec_view) for spec_view in cuts)
        return [
            *_statements(spec, translation, selects),
            _growing(spec, translation, wide_name),
            *grown,
            *functions,
        ]
    selects = {wide_name: selects.pop("wide")} | selects
    selects |= {
        spec_view.suffix: translation.text(finished(spec_view.select(facts))).rstrip()
        for spec_view in cuts
    }
    return [*_statements(spec, translation, selects, cuts), *functions]


def _selects(
    spec: Spec,
    translation: Translation,
    columns: Sequence[Column],
    only: str | None = None,
    *,
    is_paired: bool,
) -> dict[str, str]:
    """View -> its query in the dialect, from a file of its own where it plans ours badly."""
    facts = targets(spec)["facts"]
    view = {"facts": facts, "columns": columns, "spec": only}
    text_by_view = {name: _OF_DAYS[name](facts) for name in NAMES if name in _OF_DAYS}
    text_by_view["rollup"] = rollup(facts, targets(spec)["metrics"])
    text_by_view |= {
        name: make_select(translation, targets(spec)) for name, make_select in _OF_CALENDAR.items()
    }
    text_by_view |= {
        name: print_template(f"jobs/{name}", view) for name in NAMES if name not in text_by_view
    }
    if not is_paired:
        del text_by_view["comparison"]
    texts = {name: finished(text_by_view[name]) for name in NAMES if name in text_by_view}
    select_by_view = {name: translation.text(text).rstrip() for name, text in texts.items()}
    return select_by_view | {
        name: print_template(file, {"facts": translation.name(facts)}).rstrip()
        for name in select_by_view
        if (file := variant(f"jobs/{name}", translation.dialect.name)) != f"jobs/{name}"
    }


def _statements(
    spec: Spec, translation: Translation, selects: Mapping[str, str], cuts: Iterable[SpecView] = ()
) -> Iterator[str]:
    meanings = {**VIEWS, **{spec_view.suffix: spec_view.meaning for spec_view in cuts}}
    for name, select in selects.items():
        view_name = translation.name(bounded(spec.output.named(name))) if spec.output else ""
        yield from create_view(translation, view_name, select, meanings.get(name, VIEWS["wide"]))


def create_view(translation: Translation, name: str, select: str, meaning: str) -> Iterator[str]:
    """The statements that make a view, or make it anew, and say what it is.

    Args:
        translation: The dialect.
        name: Its name, quoted.
        select: Its query in the dialect.
        meaning: What the database says of it.
    """
    text = quote_text(translation, meaning)
    for statement in translation.dialect.view:
        yield statement.format(name=name, select=select, text=text)
    if translation.dialect.comments.statement:
        yield translation.dialect.comments.statement.format(kind="view", name=name, text=text)


def _growing(
    spec: Spec, translation: Translation, name: str, spec_view: SpecView | None = None
) -> str:
    """PostgreSQL's own statement for a wide view that keeps the columns that it has.

    Args:
        spec: What is asked.
        translation: PostgreSQL.
        name: What stands behind the fact table's name.
        spec_view: What the view is of; None for the wide view of a spec, with all segments.
    """
    keys = "spec, metric_date, system, segment_name, segment_value"
    parts = OWN_PARTS if spec_view else PARTS
    view = {
        "facts": translation.name(targets(spec)["facts"]),
        "view": translation.name(bounded(spec.output.named(name))) if spec.output else "",
        "keys": spec_view.keys if spec_view else keys,
        "groups": spec_view.groups if spec_view else keys,
        "n_keys": spec_view.n_keys if spec_view else KEYS,
        "where": spec_view.where if spec_view else f"spec = {literal(spec.title)}",
        "metrics": metrics_of(spec),
        "parts": parts,
        "about": VIEWS["of_spec" if spec_view else "wide"],
    }
    body = finished(print_template("jobs/grown", view))
    tag = "$wide$"
    while tag in body:  # a spec may be called anything
        tag = tag.replace("e", "ee")
    return f"do {tag}\n{body}\n{tag}"


def _functions(spec: Spec, translation: Translation) -> Iterator[str]:
    """The statement that makes the roll-up of some days, where the dialect has such functions."""
    if spec.output is None or not translation.dialect.function:
        return
    first, end = (
        translation.user_text(translation.dialect.argument.format(name=name))
        for name in ("start_date", "end_date")
    )
    where = f"metric_date >= cast({first} as date)\n    and metric_date < cast({end} as date)"
    tables = targets(spec)
    text = translation.text(finished(rollup(tables["facts"], tables["metrics"], where))).rstrip()
    typed = (
        f"    {translation.column(name)} {translation.type(kind)}" for name, kind in ROLLUP.items()
    )
    name = translation.name(bounded(spec.output.named("between")))
    yield translation.dialect.function.format(name=name, select=text, columns=",\n".join(typed))


def _is_known(metric: Metric) -> bool:
    """Whether a metric's text can be read: another version may have written it."""
    try:
        return bool(metric.column)
    except SpecError:
        return False
