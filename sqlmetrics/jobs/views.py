"""Views beside the fact table: wide, of one spec, of single days and of several, of what lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import EngineError, SpecError, SqlmetricsError
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.meanings import VIEWS, said
from sqlmetrics.jobs.pooled_days import ROLLUP, comparison, rollup, running
from sqlmetrics.jobs.spec_views import OWN_PARTS, PARTS, Metric, SpecView, bounded, own_name
from sqlmetrics.jobs.status import days, retired, status
from sqlmetrics.jobs.tables import BASELINE, columns_of, has_baseline, targets
from sqlmetrics.plan.summary import ALL
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import finished, literal, relation, variant
from sqlmetrics.sql.translation import Translation

NAMES = (
    *("wide", "latest", "daily_change", "rollup", "running", "days", "status", "retired"),
    "comparison",
)
"""Of these the last one is there with a baseline alone."""

_OF_DAYS = {"rollup": rollup, "running": running, "comparison": comparison}
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
        return sorted({one for *_, one in self.cells}, key=lambda one: one.column)

    def cuts(self, spec: Spec, titles: Iterable[str]) -> Iterator[SpecView]:
        """The views of specs: of all queries, and by each segment that there is."""
        for title in titles:
            mine = [(segment, one) for name, segment, one in self.cells if name == title]
            own = metrics_of(spec) if title == spec.title else []
            others = sorted({one for _, one in mine} - {*own}, key=lambda one: one.column)
            by = (ALL, *spec.by) if title == spec.title else ()
            for segment in dict.fromkeys((*by, *sorted({segment for segment, _ in mine}))):
                yield SpecView(title, segment, (*own, *others))


def wide(spec: Spec, engine: Database) -> Wide:
    """What there is of a spec's views.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are; outside of a transaction, which a look at a view that
            is not there would end.
    """
    view = spec.output.named("wide") if spec.output else ""
    there = columns_of(view, engine)[KEYS:] if view else []
    facts = relation(targets(spec)["facts"])
    found = engine.rows(f"select distinct spec, segment_name, metric, k from {facts}")
    cells = [(title, segment, Metric(metric, int(k))) for title, segment, metric, k in found]
    return Wide(there, [one for one in cells if _is_known(one[2])])


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
    there, more = wide(spec, engine), source or Wide()
    metrics = (*metrics_of(spec), *there.metrics, *more.metrics)
    known = {column.name: column for metric in metrics for column in metric.columns}
    names = dict.fromkeys((*there.columns, *more.columns, *known))
    columns = [known.get(name, Column("cast(null as double)", name)) for name in names]
    at, facts = engine.translation, targets(spec)["facts"]
    has = {name.casefold() for name in engine.columns(relation(facts))}
    selects = _selects(spec, at, columns, is_paired={*BASELINE} <= has)
    cells = Wide(cells=list({*there.cells, *more.cells}))
    titles = {spec.title, *(title for title, *_ in cells.cells)} if every else {spec.title}
    cuts = list(cells.cuts(spec, sorted(titles)))
    for one in cuts:
        name = bounded(spec.output.named(one.suffix))
        grown = replace(one, there=columns_of(name, engine)[one.n_keys :])
        selects[one.suffix] = at.text(finished(grown.select(facts))).rstrip()
    return [*_statements(spec, at, selects, cuts), *_functions(spec, at)]


def make_views(spec: Spec, engine: Database, statements: Iterable[str]) -> None:
    """Execute these statements; within the transaction of the rows, where that can be.

    Raises:
        EngineError: If one cannot be made; it says whether the rows are written.
    """
    try:
        for statement in statements:
            engine.execute(statement)
    except SqlmetricsError as error:
        is_undone = engine.translation.dialect.undoes_views
        raise EngineError(
            f"a view beside {targets(spec)['facts']} cannot be made; "
            f"{'nothing is written' if is_undone else 'the rows are written nevertheless'} "
            f"(output.views: false leaves the views out): {error}",
            getattr(error, "sql", ""),
        ) from error


def compiled_views(spec: Spec, at: Translation) -> list[str]:
    """The statements that make a spec's views, for whoever cannot look at the table first.

    A text knows the metrics of its own spec alone. So its wide view is of this spec, and has
    its name: another job of the same table does not touch it.

    Args:
        spec: What is asked, with its `output`.
        at: The dialect.
    """
    if spec.output is None or not spec.output.views:
        return []
    columns = [column for one in metrics_of(spec) for column in one.columns]
    selects = _selects(spec, at, columns, spec.title, is_paired=has_baseline(spec))
    own, facts = f"wide_{own_name(spec.title)}", targets(spec)["facts"]
    cuts = list(Wide().cuts(spec, [spec.title]))
    functions = list(_functions(spec, at))
    if at.dialect.writing.grows_views:
        del selects["wide"]
        grown = (_growing(spec, at, one.suffix, one) for one in cuts)
        return [*_statements(spec, at, selects), _growing(spec, at, own), *grown, *functions]
    selects = {own: selects.pop("wide")} | selects
    selects |= {one.suffix: at.text(finished(one.select(facts))).rstrip() for one in cuts}
    return [*_statements(spec, at, selects, cuts), *functions]


def _selects(
    spec: Spec,
    at: Translation,
    columns: Sequence[Column],
    only: str | None = None,
    *,
    is_paired: bool,
) -> dict[str, str]:
    """View -> its query in the dialect, from a file of its own where it plans ours badly."""
    facts = targets(spec)["facts"]
    view = {"facts": facts, "columns": columns, "spec": only}
    made = {name: _OF_DAYS[name](facts) for name in NAMES if name in _OF_DAYS}
    made |= {name: of(at, targets(spec)) for name, of in _OF_CALENDAR.items()}
    made |= {name: print_template(f"jobs/{name}", view) for name in NAMES if name not in made}
    if not is_paired:
        del made["comparison"]
    texts = {name: finished(made[name]) for name in NAMES if name in made}
    told = {name: at.text(text).rstrip() for name, text in texts.items()}
    return told | {
        name: print_template(file, {"facts": at.name(facts)}).rstrip()
        for name in told
        if (file := variant(f"jobs/{name}", at.dialect.name)) != f"jobs/{name}"
    }


def _statements(
    spec: Spec, at: Translation, selects: Mapping[str, str], cuts: Iterable[SpecView] = ()
) -> Iterator[str]:
    meanings = {**VIEWS, **{one.suffix: one.meaning for one in cuts}}
    for name, select in selects.items():
        own = at.name(bounded(spec.output.named(name))) if spec.output else ""
        text = said(at, meanings.get(name, VIEWS["wide"]))
        for statement in at.dialect.view:
            yield statement.format(name=own, select=select, text=text)
        if at.dialect.comments.statement:
            yield at.dialect.comments.statement.format(kind="view", name=own, text=text)


def _growing(spec: Spec, at: Translation, name: str, own: SpecView | None = None) -> str:
    """PostgreSQL's own statement for a wide view that keeps the columns that it has.

    Args:
        spec: What is asked.
        at: PostgreSQL.
        name: What stands behind the fact table's name.
        own: What the view is of; None for the wide view of a spec, with all segments.
    """
    keys = "spec, metric_date, system, segment_name, segment_value"
    parts = OWN_PARTS if own else PARTS
    view = {
        "facts": at.name(targets(spec)["facts"]),
        "view": at.name(bounded(spec.output.named(name))) if spec.output else "",
        "keys": own.keys if own else keys,
        "groups": own.groups if own else keys,
        "n_keys": own.n_keys if own else KEYS,
        "where": own.where if own else f"spec = {literal(spec.title)}",
        "metrics": metrics_of(spec),
        "parts": parts,
        "about": VIEWS["of_spec" if own else "wide"],
    }
    body = finished(print_template("jobs/grown", view))
    tag = "$wide$"
    while tag in body:  # a spec may be called anything
        tag = tag.replace("e", "ee")
    return f"do {tag}\n{body}\n{tag}"


def _functions(spec: Spec, at: Translation) -> Iterator[str]:
    """The statement that makes the roll-up of some days, where the dialect has such functions."""
    if spec.output is None or not at.dialect.function:
        return
    first, end = (
        at.own_text(at.dialect.argument.format(name=name)) for name in ("start_date", "end_date")
    )
    where = f"metric_date >= cast({first} as date)\n    and metric_date < cast({end} as date)"
    text = at.text(finished(rollup(targets(spec)["facts"], where))).rstrip()
    typed = (f"    {at.column(name)} {at.type(kind)}" for name, kind in ROLLUP.items())
    name = at.name(bounded(spec.output.named("between")))
    yield at.dialect.function.format(name=name, select=text, columns=",\n".join(typed))


def _is_known(one: Metric) -> bool:
    """Whether a metric's text can be read: another version may have written it."""
    try:
        return bool(one.column)
    except SpecError:
        return False
