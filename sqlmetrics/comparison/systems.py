"""Several tables of rankings, one a system, as one query with a column of systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.evaluate import question
from sqlmetrics.plan.tables import Tables
from sqlmetrics.spec.spec import Spec
from sqlmetrics.sql.relation import shown, source_text
from sqlmetrics.sql.template import identifier, literal

SYSTEM = "system"


def side_by_side(
    engine: Database, runs: Mapping[str, Any], labels: Any, metrics: Any, asked: Mapping[str, Any]
) -> tuple[Spec, Tables]:
    """What is asked of several systems, each in a table of its own.

    Args:
        engine: Where the tables are.
        runs: System -> its rankings, as `evaluate` takes them.
        labels: As `evaluate` takes them.
        metrics: Likewise.
        asked: The other arguments of `evaluate`.

    Raises:
        SpecError: If it is one system alone, or some have scores and others ranks.
    """
    if len(runs) < 2:
        raise SpecError(f"compare needs two systems, given {', '.join(runs) or 'none'}")
    own = {name: value for name, value in asked.items() if name != "system"}
    texts, roles, notes = [], [], list[str]()
    for name, given in runs.items():
        spec, tables = question(engine, given, labels, metrics, **own)
        text, order = _select(name, spec, tables, own, engine)
        texts.append(text)
        notes += [f"{name}: {note}" for note in tables.notes]
        roles.append(order)
    if len({*roles}) > 1:
        raise SpecError(
            "some systems have scores, and others ranks: name one column by score= or rank="
        )
    union = engine.translation.text("\nunion all\n".join(texts))
    named = {name: value for name, value in own.items() if name not in ("where", "score", "rank")}
    asks = named | {roles[0]: roles[0], "system": SYSTEM}
    spec, tables = question(engine, union.strip(), labels, metrics, **asks)
    return spec, replace(tables, notes=(*notes, *tables.notes))


def _select(
    name: str, spec: Spec, tables: Tables, asked: Mapping[str, Any], engine: Database
) -> tuple[str, str]:
    """The rows of a system by the names that were asked for, and what orders them."""
    there = spec.rankings.columns.model_dump() | dict(tables.rankings.columns)
    order = "rank" if there.get("rank") else "score"
    roles = {
        "query": asked.get("query", "query_id"),
        "item": asked.get("item", "item_id"),
        order: order,
        "date": asked.get("date"),
        "weight": asked.get("weight"),
    }
    columns = [f"{literal(name)} as {SYSTEM}"]
    for role, as_named in roles.items():
        column = there.get(role)
        if column is None or as_named is None:
            continue
        own = identifier(column)
        text = f"cast({own} as varchar)" if role in ("query", "item") else own
        columns.append(f"{text} as {identifier(as_named)}")
    known = spec.queries.columns.segments if spec.queries else ()
    columns += [identifier(segment) for segment in spec.by if segment not in known]
    where = asked.get("where") or ""
    source = source_text(shown(tables.rankings, engine.translation), where)
    return f"select {', '.join(columns)} from {source}", order
