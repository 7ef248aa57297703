"""The stages from an interleaved log to the credit that each of two systems has of a request.

shown_places ─┬─> merged_requests ─┬─> depths ─┐
merges ───────┴────────────────────┴───────────┴─> credits ─> user_credits ─> sums
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.propensity.curve import PropensityCurve, propensities
from sqlmetrics.clicks.segment import Rows
from sqlmetrics.spec.click_columns import SourceColumns
from sqlmetrics.sql.relation import Relation
from sqlmetrics.sql.stage import Column, Stage, print_template, with_stages
from sqlmetrics.sql.template import double, identifier, literal

LOOKS = {
    "of_system": "system_rank",
    "of_baseline": "baseline_rank",
    "if_system_first": "system_first",
    "if_baseline_first": "baseline_first",
}
"""How likely an item is looked at -> where it stands then."""


@dataclass(frozen=True)
class Merge:
    """How the lists of two systems became one.

    Attributes:
        system: The one that is looked at.
        baseline: The one that it is compared to.
        source: The stage `source_items`, their lists; None for team draft.
        direction: `asc` if these are ordered by rank, else `desc`.
        curve: The propensities, for debiased balanced interleaving; else None.
    """

    system: str
    baseline: str
    source: Stage | None = None
    direction: str = "desc"
    curve: PropensityCurve | None = None


def credit_sums(tables: ClickTables, merge: Merge, rows: Rows) -> str:
    """What the report is made of, as a `select` of one row.

    Args:
        tables: The log.
        merge: How it was interleaved.
        rows: Whose impressions.
    """
    stages = [
        *rows.stages(tables, "answers"),
        *_credits(tables, merge, rows),
        _stage("user_credits", cluster=_cluster(tables)),
    ]
    return with_stages(stages, print_template("clicks/interleaving/credit_sums", {}))


def _credits(tables: ClickTables, merge: Merge, rows: Rows) -> Iterator[Stage]:
    names = {"system": literal(merge.system), "baseline": literal(merge.baseline)}
    source, curve = merge.source, merge.curve
    has_teams = source is None
    yield _stage("shown_places", of=rows.of(tables), shown=rows.name, has_teams=has_teams)
    if source is None:
        yield Stage("credits", "clicks/interleaving/team_credits", names)
        return
    yield source
    yield _stage("source_ranks", direction=merge.direction, **names)
    yield _stage("merges")
    yield _stage("merged_requests", is_debiased=curve is not None)
    if curve is None:
        yield Stage("credits", "clicks/interleaving/balanced_credits", {})
        return
    yield _stage("depths")
    yield propensities(curve)
    looks = {name: _look(name, curve) for name in LOOKS}
    view = {
        "looks": LOOKS,
        "looked_at": looks,
        "mean_look": _MEAN_LOOK.format(**looks),
    }
    yield Stage("credits", "clicks/interleaving/debiased_credits", view)


_MEAN_LOOK = """\
(
    (
        {if_system_first}
        + {if_baseline_first}
    ) / 2e0
)"""


def _look(name: str, curve: PropensityCurve) -> str:
    """How likely a position is looked at; below the last one known as there."""
    return f"coalesce({name}.propensity, {double(curve.rows[-1].propensity)})"


def _cluster(tables: ClickTables) -> str:
    """What is taken for independent: users, where the log names them."""
    if "user" not in tables.names.impressions:
        return "request_id"
    return "case when user_id = '' then request_id else user_id end"


def source_items(relation: Relation, columns: SourceColumns, conditions: list[str]) -> Stage:
    """The lists before the merge, one row per item."""
    view = {
        "about": "one row per item of a system's list, before the merge",
        "columns": [
            Column(f"cast({identifier(columns.query)} as varchar)", "request_id"),
            Column(f"cast({identifier(columns.system)} as varchar)", "system"),
            Column(f"cast({identifier(columns.item)} as varchar)", "item_id"),
            Column(f"cast({identifier(columns.order)} as double)", "ordered_by"),
        ],
        "relation": relation,
        "conditions": conditions,
    }
    return Stage("source_items", "clicks/table", view)


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/interleaving/{name}", view)
