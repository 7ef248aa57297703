"""Views beside the fact table: wide, latest, daily change, all days together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlmetrics.clicks.online import is_online, online
from sqlmetrics.engines.translated import Database
from sqlmetrics.errors import EngineError, SpecError, SqlmetricsError
from sqlmetrics.jobs.definitions import hashes
from sqlmetrics.jobs.tables import targets
from sqlmetrics.measure import parse
from sqlmetrics.spec import Spec
from sqlmetrics.sql import print_template
from sqlmetrics.template import finished, relation
from sqlmetrics.translation import Translation

NAMES = ("wide", "latest", "daily_change", "rollup")
DROPS = ("postgres", "redshift", "sqlite", "tsql")
"""Dialects that cannot replace a view by one with other columns."""


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
        text = f"{self.metric}@{self.k}" if self.k else self.metric
        return online(text).column if is_online(text) else parse(text).column


def metrics_of(spec: Spec) -> list[Metric]:
    """Those that a spec asks for."""
    return [Metric(metric, k) for metric, k, _ in hashes(spec)]


def selects(spec: Spec, at: Translation, metrics: Iterable[Metric]) -> dict[str, str]:
    """View -> its query in the dialect.

    Args:
        spec: What is asked, with its `output`.
        at: The dialect.
        metrics: The columns of the wide view.
    """
    day_before = at.expression(at.dialect.times.day_before, "today.metric_date")
    view = {
        "facts": targets(spec)["facts"],
        "metrics": list(metrics),
        "day_before": day_before,
    }
    texts = {name: finished(print_template(f"views/{name}", view)) for name in NAMES}
    return {name: at.text(text).rstrip() for name, text in texts.items()}


def statements(
    spec: Spec, at: Translation, metrics: Iterable[Metric], there: Mapping[str, bool] | None = None
) -> Iterator[str]:
    """What makes the views, or makes them anew.

    Args:
        spec: What is asked, with its `output`.
        at: The dialect.
        metrics: The columns of the wide view.
        there: View -> whether it is there and has no other columns than the new one's first
            ones, so that it need not be dropped.
    """
    if spec.output is None or not spec.output.views:
        return
    for name, select in selects(spec, at, metrics).items():
        own = at.name(spec.output.named(name))
        if at.dialect.name not in DROPS or (there or {}).get(name):
            yield f"create or replace view {own} as\n{select}"
        else:
            yield f"drop view if exists {own}"
            yield f"create view {own} as\n{select}"


def make_views(spec: Spec, engine: Database) -> None:
    """Make the views of a spec's fact table, with a column for each metric that it holds.

    A view is dropped only where it would lose a column, so that what others built upon it
    stays.

    Raises:
        EngineError: If one cannot be made; the tables are whole then.
    """
    if spec.output is None or not spec.output.views:
        return
    metrics = _in_table(spec, engine)
    at = engine.translation
    wide = _columns(spec.output.named("wide"), engine)
    metrics.sort(key=lambda one: wide.index(one.column) if one.column in wide else len(wide))
    fits = _prefix(wide, [name for one in metrics for name in _names(one)])
    there = {name: fits if name == "wide" else True for name in NAMES} if _is_postgres(at) else {}
    try:
        with engine.transaction():
            for statement in statements(spec, at, metrics, there):
                engine.execute(statement)
    except SqlmetricsError as error:
        raise EngineError(
            f"the rows are written, but a view beside {targets(spec)['facts']} cannot be made "
            f"(output.views: false leaves them out): {error}"
        ) from error


def _is_postgres(at: Translation) -> bool:
    return at.dialect.name == "postgres"


def _names(one: Metric) -> tuple[str, ...]:
    return (one.column, f"{one.column}_numerator", f"{one.column}_denominator")


def _prefix(there: list[str], wanted: list[str]) -> bool:
    return there == wanted[: len(there)]


def _columns(view: str, engine: Database) -> list[str]:
    """The columns of a wide view that is there, without its keys."""
    if engine.find(view) is None:
        return []
    return list(engine.columns(relation(view)))[5:]


def _in_table(spec: Spec, engine: Database) -> list[Metric]:
    """All metrics that the fact table holds, the spec's own first."""
    own = metrics_of(spec)
    found = engine.rows(f"select distinct metric, k from {relation(targets(spec)['facts'])}")
    others = {Metric(metric, int(k)) for metric, k in found} - set(own)
    return own + sorted((one for one in others if _is_known(one)), key=lambda one: one.column)


def _is_known(one: Metric) -> bool:
    """Whether a metric's text can be read: another version may have written it."""
    try:
        return bool(one.column)
    except SpecError:
        return False
