"""Pairs of the scored and labelled items of a list, counted without making any pair.

Of every score it is counted how many items have it that are to be higher, and how many
that are to be lower; running counts then say how many of either stand above them:

    ranked ─> [levels] ─> scores ─> pairs ─> pair_sums

Items are to be higher if they are relevant; or, for every grade of a query in turn, if
they have that grade, and lower if they have a lower one.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlmetrics.plan.needs import SumStage
from sqlmetrics.sql.stage import Column, Stage, Window, equal
from sqlmetrics.sql.template import case


def pair_stages(sums: SumStage, keys: tuple[str, ...], depth: str) -> Iterator[Stage]:
    """The stages from `ranked` to the rows that sums over pairs are taken from.

    Args:
        sums: The sums over the pairs.
        keys: What a list is identified by.
        depth: The condition that a ranked row is looked at, empty without one.
    """
    where = " and ".join(filter(None, ("ranked.judged = 1e0", depth)))
    groups = (*keys, "grade") if not sums.relevant else keys
    if not sums.relevant:
        yield _levels_stage(groups, where)
    yield _scores_stage(sums, keys, where)
    view = {
        "about": "and the number of items of either kind with a higher score",
        "columns": [*groups, "highs", "lows", *running(groups, "highs", "lows")],
        "from": f"scores{sums.suffix}",
    }
    yield Stage(sums.rows, "steps", view)


def running(groups: tuple[str, ...], *names: str) -> Iterator[Column]:
    """How much of each column stands above a row's score."""
    window = Window(groups, ["score desc"], "unbounded preceding")
    for name in names:
        yield Column(f"sum({name}) over {window} - {name}", f"{name}_above")


def _levels_stage(groups: tuple[str, ...], where: str) -> Stage:
    view = {
        "about": "one row per query and grade",
        "keys": groups,
        "from": "ranked",
        "where": where,
    }
    return Stage("levels", "sums", view | {"columns": [], "joins": {}})


def _scores_stage(sums: SumStage, keys: tuple[str, ...], where: str) -> Stage:
    """How many items of a score are to be higher and how many lower."""
    about, groups, joins = "query and score", [f"ranked.{key}" for key in keys], {}
    high = f"ranked.{sums.relevant}"
    if not sums.relevant:
        about, high = "query, grade and score", "ranked.grade = levels.grade"
        groups.append("levels.grade")
        joins = {"levels": [*equal("levels", "ranked", keys), "levels.grade >= ranked.grade"]}
    view = {
        "about": f"one row per {about}: the items that should rank higher, and lower",
        "keys": [*groups, "ranked.score"],
        "columns": [
            Column(f"sum({case(high, '1e0')})", "highs"),
            Column(f"sum({case(high, '0e0', '1e0')})", "lows"),
        ],
        "from": "ranked",
        "joins": joins,
        "where": where,
    }
    return Stage(f"scores{sums.suffix}", "sums", view)
