"""Who contributed: items that one team alone has in the pool, and its systems without them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sqlmetrics.annotation import pool
from sqlmetrics.comparison.leaderboard.scores import Scores, ranks
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import SpecError
from sqlmetrics.evaluation.execution import USUALLY
from sqlmetrics.evaluation.run import executing
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.stage import Column, Stage, equal, print_template, with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.tables.table import many, metric_value, printable
from sqlmetrics.tables.tabular import Kinds, Row

RELEVANT = 1
"""Items of this grade or a higher one are relevant."""

ITEM_KINDS: Kinds = {
    **dict.fromkeys(("topic", "item", "team"), "string"),
    "grade": "double",
}

CONTRIBUTION_KINDS: Kinds = {
    **dict.fromkeys(("metric", "system", "team"), "string"),
    **dict.fromkeys(("value", "value_without", "difference"), "double"),
    **dict.fromkeys(("rank", "rank_without", "n_relevant", "n_labelled", "n_topics"), "int64"),
}


def team_by_system(systems: Sequence[str], pattern: str | None) -> Mapping[str, str]:
    """The team of each system: what the pattern's first group matches in its name, or all of it.

    Args:
        systems: The names of the systems.
        pattern: A regular expression; None if each system is a team of its own.

    Raises:
        SpecError: If it is no regular expression, or a name does not match it.

    >>> team_by_system(["uic-1", "uic-2"], "[^-]+")
    {'uic-1': 'uic', 'uic-2': 'uic'}
    """
    if pattern is None:
        return {name: name for name in systems}
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SpecError(f"team: {pattern!r} is no regular expression: {error}") from None
    teams = {}
    for name in systems:
        match = compiled.search(name)
        team = match and match[1 if compiled.groups else 0]
        if not team:
            raise SpecError(
                f"team: {pattern!r} finds no team in the system {name!r}; give a pattern that "
                "matches each name, such as '^[a-z]+'"
            )
        teams[name] = team
    return teams


@dataclass(frozen=True)
class _WithoutContributions(Plan):
    """An evaluation of each system's lists by the labels that its team did not add alone.

    Only queries are evaluated in which a team loses a label. A query stands for a system and one of
    its queries.

    Attributes:
        teams: System -> its team.
        depth: How deep the pool is.
    """

    teams: Mapping[str, str] = ()  # type: ignore[assignment]
    depth: int = 1

    @property
    def contributed(self) -> list[Stage]:
        """The items that one team alone contributed."""
        rows = [
            [
                Column(str(number), "number"),
                Column(literal(name), "system"),
                Column(literal(team), "team"),
            ]
            for number, (name, team) in enumerate(self.teams.items())
        ]
        view = {"about": "one row per system: its team", "rows": rows}
        columns = [
            *(Column(f"ranked.{name}", name) for name in ("query_id", "item_id")),
            Column("min(teams.team)", "team"),
            Column("max(ranked.grade)", "grade"),
        ]
        select = {"columns": columns, "depth": self.depth}
        stages = pool.stages(Plan(self.shape, self.needs), with_grades=True)
        last = print_template("comparison/contributed", select)
        about, _, last = last.partition("\n")
        text = f"{about}\n{with_stages(stages, last)}"
        return [
            Stage("teams", "comparison/constants", view),
            Stage("contributed", "text", {"text": text}, "materialized"),
        ]

    @cached_property
    def inputs(self) -> tuple[Stage, ...]:
        names = self.shape.names
        rankings, labels = names["rankings"], names["labels"]
        whole = {rankings: f"all_{rankings}", labels: f"all_{labels}"}
        stages = {stage.name: stage for stage in super().inputs}
        key = "concat(cast(left_out.number as varchar), concat(':', left_out.query_id))"
        lists = {
            "about": "their lists, each under a query of its own",
            "columns": self._columns(stages[rankings], whole[rankings], key),
            "from": "left_out",
            "to": whole[rankings],
            "on": equal(whole[rankings], "left_out", ("system", "query_id")),
        }
        judged = {
            "labels": whole[labels],
            "columns": self._columns(stages[labels], whole[labels], key),
        }
        return (
            *(replace(stage, name=whole.get(name, name)) for name, stage in stages.items()),
            *self.contributed,
            Stage("left_out", "comparison/left_out", {}),
            Stage(rankings, "comparison/join", lists),
            Stage(labels, "comparison/left_out_labels", judged),
        )

    @staticmethod
    def _columns(stage: Stage, source: str, key: str) -> list[str]:
        """The columns of a table, with the query that stands for a system and its query."""
        texts = {"system": literal(""), "query_id": key}
        names = [column.name for column in stage.view["columns"]]
        return [
            f"{texts[name]} as {name}" if name in texts else f"{source}.{name}" for name in names
        ]


@dataclass(frozen=True)
class Contributions:
    """What teams contributed alone, and how their systems do without.

    Attributes:
        items: One row per labelled item that one team alone has in the pool.
        rows: One row per metric and system.
        depth: How deep the pool is.
        executed_sql: The statements that ran.
    """

    items: tuple[Row, ...] = ()
    rows: tuple[Row, ...] = ()
    depth: int = 0
    executed_sql: str = ""

    def notes(self, metric: str) -> Iterator[str]:
        """What the labels are worth for systems that did not contribute.

        Args:
            metric: The metric that the note is of.
        """
        if not self.depth:
            return
        rows = [
            row
            for row in self.rows
            if row["metric"] == metric and None not in (row["difference"], row["rank_without"])
        ]
        n_relevant = sum(row["grade"] >= RELEVANT for row in self.items)
        text = (
            f"at pool depth {self.depth} one team alone contributed "
            f"{many(n_relevant, 'relevant item')}"
        )
        if rows:
            most = max(rows, key=lambda row: abs(row["difference"]))
            moves = [abs(row["rank_without"] - row["rank"]) for row in rows]
            text += (
                f"; without its team's, a system changes by {metric} by at most "
                f"{metric_value(abs(most['difference']))} ({printable(most['system'])}) and by "
                f"{many(max(moves), 'rank')}, {sum(map(bool, moves)):,} of {len(rows):,} change "
                "their rank"
            )
        yield text


def contributions(
    plan: Plan, engine: Database, found_scores: Sequence[Scores], depth: int, team: str | None
) -> Contributions:
    """Who contributed which items alone, and each system without those of its team.

    Its rank then is that of its new value among the values of the others as they are.

    Args:
        plan: The evaluation.
        engine: Where the tables are.
        found_scores: The values of each metric.
        depth: How deep the pool is, 1 or more.
        team: A regular expression of teams in the names of systems; None for each its own.

    Raises:
        SpecError: If it does not fit the names.
    """
    teams = team_by_system(found_scores[0].systems, team)
    without = _WithoutContributions(shape=plan.shape, needs=plan.needs, teams=teams, depth=depth)
    order = "select team, query_id, item_id, grade from contributed order by 1 asc, 2 asc, 3 asc"
    statement = with_stages(without.contributed, order)
    items = tuple(
        {"topic": topic, "item": item, "team": name, "grade": grade}
        for name, topic, item, grade in engine.rows(statement)
    )
    executed = f"\n{engine.translation.text(statement)};\n\n"
    values: dict[str, Mapping[str, Any]] = {}
    if items:
        with executing(without, engine, check=False, per_query=True, execution=USUALLY) as script:
            table = engine.table(script.per_query)
            executed += script.text(engine.translation.text)
        values = {row["query_id"]: row for row in table.to_pylist()}
    by_team: dict[str, list[Row]] = defaultdict(list)
    for item in items:
        by_team[item["team"]].append(item)
    rows = tuple(row for scores in found_scores for row in _rows(scores, teams, by_team, values))
    return Contributions(items, rows, depth, executed)


def _rows(
    scores: Scores,
    teams: Mapping[str, str],
    by_team: Mapping[str, Sequence[Row]],
    values: Mapping[str, Mapping[str, Any]],
) -> Iterator[Row]:
    """A row per system, in the order of the leaderboard."""
    import numpy as np

    column, changed = scores.measure.column, scores.values.copy()
    numbers = {topic: number for number, topic in enumerate(scores.topics)}
    for i, team in enumerate(teams.values()):
        for topic in {item["topic"] for item in by_team.get(team, ())} & numbers.keys():
            value = values.get(f"{i}:{topic}", {}).get(column)
            changed[i, numbers[topic]] = np.nan if value is None else value
    means, others = scores.means, replace(scores, values=changed).means
    first, _ = ranks(means[None, :], scores.sign or 1)
    order = sorted(range(len(means)), key=lambda i: (first[0][i], scores.systems[i]))
    for i in order:
        beside = means.copy()
        beside[i] = others[i]
        rank_without = ranks(beside[None, :], scores.sign or 1)[0][0][i]
        items = by_team.get(teams[scores.systems[i]], ())
        has_value, has_other = not np.isnan(means[i]), not np.isnan(others[i])
        yield {
            "metric": str(scores.measure),
            "system": scores.systems[i],
            "team": teams[scores.systems[i]],
            "value": float(means[i]) if has_value else None,
            "value_without": float(others[i]) if has_other else None,
            "difference": float(others[i] - means[i]) + 0.0 if has_value and has_other else None,
            "rank": int(first[0][i]) if has_value else None,
            "rank_without": int(rank_without) if has_other else None,
            "n_relevant": sum(item["grade"] >= RELEVANT for item in items),
            "n_labelled": len(items),
            "n_topics": len({item["topic"] for item in items}),
        }
