"""Views beside the fact table: wide, latest, daily change, all days, days so far, the baseline."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sqlmetrics.catalog.measure import parse
from sqlmetrics.catalog.metric import at_cutoff
from sqlmetrics.catalog.online import is_online, online
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import EngineError, SpecError, SqlmetricsError
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.meanings import VIEWS, said
from sqlmetrics.jobs.pooled_days import comparison, rollup, running
from sqlmetrics.jobs.tables import BASELINE, has_baseline, targets
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.stage import Column, print_template
from sqlmetrics.sql.template import finished, literal, relation
from sqlmetrics.sql.translation import Translation

NAMES = ("wide", "latest", "daily_change", "rollup", "running", "comparison")
"""Of these the last one is there with a baseline alone."""

_OF_DAYS = {"rollup": rollup, "running": running, "comparison": comparison}
KEYS = 5
"""As many columns of the wide view stand before its metrics."""

PARTS = {"numerator": "sum", "denominator": "sum", "ci_low": "max", "ci_high": "max"}
"""What the wide view has of a metric beside its value, and how rows are put together."""

LONGEST = 30
"""As many letters of a spec's name go into the name of its own view."""


@dataclass(frozen=True)
class Metric:
    """A metric as the fact table has it.

    Attributes:
        metric: Its text, without the cutoff.
        k: The cutoff, 0 for none.
    """

    metric: str
    k: int

    @property
    def column(self) -> str:
        """The name of its column in the wide view."""
        text = at_cutoff(self.metric, self.k)
        return online(text).column if is_online(text) else parse(text).column

    @property
    def columns(self) -> Iterator[Column]:
        """Its columns in the wide view: the value, and what it is made of."""
        where = f"metric = {literal(self.metric)} and k = {self.k}"
        yield Column(f"max(case when {where} then value end)", self.column)
        for part, total in PARTS.items():
            yield Column(f"{total}(case when {where} then {part} end)", f"{self.column}_{part}")


def metrics_of(spec: Spec) -> list[Metric]:
    """Those that a spec asks for."""
    return [Metric(metric, k) for metric, k, _ in hashes(spec)]


@dataclass(frozen=True)
class Wide:
    """What a wide view is made of.

    Attributes:
        columns: Of the view that is there, behind the keys; none if there is none.
        metrics: Those that the fact table holds.
    """

    columns: Sequence[str] = ()
    metrics: Sequence[Metric] = ()


def wide(spec: Spec, engine: Database) -> Wide:
    """What there is of a spec's wide view.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are; outside of a transaction, which a look at a view that
            is not there would end.
    """
    view = spec.output.named("wide") if spec.output else ""
    is_there = view and engine.find(view) is not None
    columns = list(engine.columns(relation(view)))[KEYS:] if is_there else []
    found = engine.rows(f"select distinct metric, k from {relation(targets(spec)['facts'])}")
    metrics = [Metric(metric, int(k)) for metric, k in found]
    return Wide(columns, sorted(filter(_is_known, metrics), key=lambda one: one.column))


def view_statements(spec: Spec, engine: Database, source: Wide | None = None) -> list[str]:
    """What makes the views of a fact table, with a column for each metric that it holds.

    The wide view only ever gains columns, at its end: what was granted on it, and what others
    built upon it, stays.

    Args:
        spec: What is asked, with its `output`.
        engine: Where its tables are; see `wide`.
        source: What the table gets beside what it has.
    """
    if spec.output is None or not spec.output.views:
        return []
    there, more = wide(spec, engine), source or Wide()
    metrics = (*metrics_of(spec), *there.metrics, *more.metrics)
    known = {column.name: column for metric in metrics for column in metric.columns}
    names = dict.fromkeys((*there.columns, *more.columns, *known))
    columns = [known.get(name, Column("cast(null as double)", name)) for name in names]
    at = engine.translation
    has = {name.casefold() for name in engine.columns(relation(targets(spec)["facts"]))}
    selects = _selects(spec, at, columns, is_paired={*BASELINE} <= has)
    return list(_statements(spec, at, selects))


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
    own = f"wide_{own_name(spec.title)}"
    if at.dialect.writing.grows_views:
        del selects["wide"]
        return [*_statements(spec, at, selects), _growing(spec, at, own)]
    return list(_statements(spec, at, {own: selects.pop("wide")} | selects))


def own_name(title: str) -> str:
    """A spec's name as part of a view's: one word, and no other spec has the same.

    >>> own_name("shop"), own_name("Shop (DE)")
    ('shop', 'shop_de_555224')
    """
    word = re.sub(r"[^a-z0-9]+", "_", title.casefold()).strip("_")
    if word == title and len(word) <= LONGEST:
        return word
    return f"{word[:LONGEST]}_{hashlib.sha256(title.encode()).hexdigest()[:6]}"


def _selects(
    spec: Spec,
    at: Translation,
    columns: Sequence[Column],
    only: str | None = None,
    *,
    is_paired: bool,
) -> dict[str, str]:
    """View -> its query in the dialect."""
    facts = targets(spec)["facts"]
    view = {"facts": facts, "columns": columns, "spec": only}
    made = {name: _OF_DAYS[name](facts) for name in NAMES if name in _OF_DAYS}
    if not is_paired:
        del made["comparison"]
    made |= {name: print_template(f"jobs/{name}", view) for name in NAMES if name not in _OF_DAYS}
    texts = {name: finished(made[name]) for name in NAMES if name in made}
    return {name: at.text(text).rstrip() for name, text in texts.items()}


def _statements(spec: Spec, at: Translation, selects: dict[str, str]) -> Iterator[str]:
    for name, select in selects.items():
        own = at.name(spec.output.named(name)) if spec.output else ""
        text = said(at, VIEWS["wide" if name.startswith("wide_") else name])
        for statement in at.dialect.view:
            yield statement.format(name=own, select=select, text=text)
        if at.dialect.comments.statement:
            yield at.dialect.comments.statement.format(kind="view", name=own, text=text)


def _growing(spec: Spec, at: Translation, name: str) -> str:
    """PostgreSQL's own statement for a wide view that keeps the columns that it has."""
    view = {
        "facts": at.name(targets(spec)["facts"]),
        "view": at.name(spec.output.named(name)) if spec.output else "",
        "spec": spec.title,
        "metrics": metrics_of(spec),
        "parts": PARTS,
    }
    body = finished(print_template("jobs/grown", view))
    tag = "$wide$"
    while tag in body:  # a spec may be called anything
        tag = tag.replace("e", "ee")
    return f"do {tag}\n{body}\n{tag}"


def _is_known(one: Metric) -> bool:
    """Whether a metric's text can be read: another version may have written it."""
    try:
        return bool(one.column)
    except SpecError:
        return False
