"""A click log -> text: the statements that clean it, and those that read its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics import sql
from sqlmetrics.clicks.keeping import made
from sqlmetrics.clicks.labels import POOLED, labels, pooled
from sqlmetrics.clicks.lists import rankings
from sqlmetrics.clicks.log import LABELS, RANKINGS
from sqlmetrics.clicks.online import online
from sqlmetrics.clicks.sums import sums
from sqlmetrics.clicks.tables import ClickTables, tables_of
from sqlmetrics.inputs.relation import shown
from sqlmetrics.inputs.sources import relation_of
from sqlmetrics.plan import plan
from sqlmetrics.plan import tables_of as evaluated_tables
from sqlmetrics.spec import Spec
from sqlmetrics.translation import Translation


def script(spec: Spec, at: Translation) -> Iterator[str]:
    """The statements, in the order in which they run.

    Raises:
        SpecError: If the dialect lacks what the log needs, or no text can name its source.
    """
    if spec.clicks is None:
        return
    relations = {
        name: shown(relation_of(source, f"clicks_{name}"), at)
        for name, source in spec.clicks.sources.items()
    }
    tables = tables_of(spec.clicks, relations, at)
    asked = [online(text) for text in spec.online]
    tables.check(asked)
    for kept in tables.kept():
        yield made(at, kept.name, kept.text)
    if asked:
        yield sums(tables, asked, spec)
    if spec.metrics:
        yield from _evaluation(spec, tables, at)


def _evaluation(spec: Spec, tables: ClickTables, at: Translation) -> Iterator[str]:
    """The metrics of lists, by labels of what was done."""
    pools = tables.clicks.labels.pools
    if pools:
        yield made(at, POOLED, pooled(tables))
    yield made(at, RANKINGS, rankings(tables), is_view=True)
    yield made(at, LABELS, labels(tables, POOLED if pools else ""), is_view=True)
    yield sql.query(plan(spec, evaluated_tables(spec, at)))
