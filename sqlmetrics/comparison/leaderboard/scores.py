"""The values of a metric as a matrix of systems and topics, and the ranks that they give."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlmetrics.annotation import pool
from sqlmetrics.catalog.measure import Measure
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.evaluation.execution import USUALLY, executing
from sqlmetrics.plan.plan import Plan
from sqlmetrics.sql.stage import Column, Stage, equal, print_template, with_stages
from sqlmetrics.sql.template import literal
from sqlmetrics.stats import TIED
from sqlmetrics.stats.student import f_quantile
from sqlmetrics.tables.table import many, metric_value, printable
from sqlmetrics.tables.tabular import Kinds, Row

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, np.dtype[np.float64]]

_LARGEST_CHUNK = 4_000_000
"""As many numbers are looked at in one step."""


@dataclass(frozen=True)
class Scores:
    """The values of one metric.

    Attributes:
        measure: The metric.
        systems: The names of the rows.
        topics: The ids of the columns.
        values: NaN where a topic has no value.
    """

    measure: Measure
    systems: tuple[str, ...]
    topics: tuple[str, ...]
    values: Array

    @property
    def sign(self) -> int:
        """-1 if lower is better, 1 if higher is, 0 if neither."""
        return {"lower": -1, "higher": 1}.get(self.measure.metric.better, 0)

    @property
    def complete(self) -> Array:
        """The topics of which each system has a value."""
        import numpy as np

        complete: Array = self.values[:, ~np.isnan(self.values).any(axis=0)]
        return complete

    @property
    def means(self) -> Array:
        """Of each system over its topics; NaN without one."""
        import numpy as np

        counts = (~np.isnan(self.values)).sum(axis=1)
        totals = np.array([math.fsum(row[~np.isnan(row)]) for row in self.values])
        means: Array = np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)
        return means

    def replicates(self, counts: Array) -> Array:
        """The means of each replicate (row) by system (column).

        Args:
            counts: How often each topic (column) is drawn in each replicate (row).
        """
        import numpy as np

        has_value = ~np.isnan(self.values)
        totals = counts @ np.where(has_value, self.values, 0.0).T
        weights = counts @ has_value.T.astype(float)
        means: Array = np.divide(
            totals, weights, out=np.full(totals.shape, np.nan), where=weights > 0
        )
        return means


def scores_of(table: pa.Table, measures: Sequence[Measure], systems: Sequence[str]) -> list[Scores]:
    """The values of each metric.

    Args:
        table: One row per system and query, as an evaluation gives it.
        measures: The metrics, each a column of it.
        systems: The systems that count, in order.

    Raises:
        InputError: If the table has several days.
    """
    import numpy as np

    if "metric_date" in table.column_names:
        days = sorted(set(table["metric_date"].to_pylist()) - {None}, key=str)
        if len(days) > 1:
            raise InputError(
                f"a leaderboard is of one day, but the rankings have {len(days)}, from {days[0]} "
                f"to {days[-1]}; choose one with start and end, or compare days with compare"
            )
    queries = table["query_id"].cast("string").dictionary_encode().combine_chunks()
    runs = table["system"].cast("string").dictionary_encode().combine_chunks()
    topics = tuple(queries.dictionary.to_pylist())
    number_by_system = {name: number for number, name in enumerate(systems)}
    rows = np.array([number_by_system.get(name, -1) for name in runs.dictionary.to_pylist()])
    row_numbers = rows[np.asarray(runs.indices)]
    is_kept = row_numbers >= 0
    places = row_numbers[is_kept], np.asarray(queries.indices)[is_kept]
    found_scores = []
    for measure in measures:
        values = np.full((len(systems), len(topics)), np.nan)
        column = table[measure.column].cast("double").to_numpy(zero_copy_only=False)
        values[places] = column[is_kept]
        found_scores.append(Scores(measure, tuple(systems), topics, values))
    return found_scores


def ranks(means: Array, sign: int) -> tuple[Array, Array]:
    """The best and the worst rank of each column, from 1; they differ where means are tied.

    Args:
        means: Rows of means; what is NaN comes last.
        sign: -1 if lower is better, else 1.
    """
    import numpy as np

    values = np.where(np.isnan(means), -np.inf, means * (sign or 1))
    n_rows, n_systems = values.shape
    first, last = np.empty(values.shape), np.empty(values.shape)
    size = max(1, _LARGEST_CHUNK // max(1, n_systems**2))
    for start in range(0, n_rows, size):
        part = values[start : start + size]
        low, high = part - TIED, part + TIED
        first[start : start + size] = 1 + (part[:, None, :] > high[:, :, None]).sum(axis=2)
        last[start : start + size] = n_systems - (part[:, None, :] < low[:, :, None]).sum(axis=2)
    return first, last


def rank_intervals(first: Array, last: Array, confidence: float) -> Mapping[str, Sequence[int]]:
    """The percentiles of ranks over replicates: no narrower than these, in whole ranks.

    Args:
        first: The best rank of each replicate (row) and system (column).
        last: The worst.
        confidence: The coverage, above 0 and below 1.
    """
    import numpy as np

    error = (1 - confidence) / 2
    low = np.quantile(first, error, axis=0, method="lower")
    high = np.quantile(last, 1 - error, axis=0, method="higher")
    return {"rank_low": [int(rank) for rank in low], "rank_high": [int(rank) for rank in high]}


# Who contributed: items that one team alone has in the pool, and its systems without them.

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
        name_of_all = {rankings: f"all_{rankings}", labels: f"all_{labels}"}
        stages = {stage.name: stage for stage in super().inputs}
        key = "concat(cast(left_out.number as varchar), concat(':', left_out.query_id))"
        lists = {
            "about": "their lists, each under a query of its own",
            "columns": self._columns(stages[rankings], name_of_all[rankings], key),
            "from": "left_out",
            "to": name_of_all[rankings],
            "on": equal(name_of_all[rankings], "left_out", ("system", "query_id")),
        }
        judged = {
            "labels": name_of_all[labels],
            "columns": self._columns(stages[labels], name_of_all[labels], key),
        }
        return (
            *(replace(stage, name=name_of_all.get(name, name)) for name, stage in stages.items()),
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
    means, changed_means = scores.means, replace(scores, values=changed).means
    first, _ = ranks(means[None, :], scores.sign or 1)
    order = sorted(range(len(means)), key=lambda i: (first[0][i], scores.systems[i]))
    for i in order:
        beside = means.copy()
        beside[i] = changed_means[i]
        rank_without = ranks(beside[None, :], scores.sign or 1)[0][0][i]
        items = by_team.get(teams[scores.systems[i]], ())
        has_value, has_other = not np.isnan(means[i]), not np.isnan(changed_means[i])
        yield {
            "metric": str(scores.measure),
            "system": scores.systems[i],
            "team": teams[scores.systems[i]],
            "value": float(means[i]) if has_value else None,
            "value_without": float(changed_means[i]) if has_other else None,
            "difference": float(changed_means[i] - means[i]) + 0.0
            if has_value and has_other
            else None,
            "rank": int(first[0][i]) if has_value else None,
            "rank_without": int(rank_without) if has_other else None,
            "n_relevant": sum(item["grade"] >= RELEVANT for item in items),
            "n_labelled": len(items),
            "n_topics": len({item["topic"] for item in items}),
        }


# What topics do: which are hard, which divide the systems, and how many of them it takes.

RELIABLE = 0.95
"""The reliability that `n_topics_needed` is for."""

TOPIC_KINDS = {
    **dict.fromkeys(("metric", "topic"), "string"),
    **dict.fromkeys(("mean", "sd", "lowest"), "double"),
    "lowest_system": "string",
    "highest": "double",
    "highest_system": "string",
    "n_systems": "int64",
}

VARIANCE_KINDS = {
    "metric": "string",
    **dict.fromkeys(("system_variance", "topic_variance", "residual_variance"), "double"),
    **dict.fromkeys(("reliability", "reliability_low", "reliability_high"), "double"),
    "n_topics": "int64",
    **dict.fromkeys(("n_topics_needed", "n_topics_low", "n_topics_high"), "int64"),
}


def topic_rows(scores: Scores) -> Iterator[Row]:
    """A row per topic, hardest first: its values over systems, and who has the ends.

    Of tied systems the first is named. The standard deviation is that of a sample, NULL of one
    system.
    """
    sign, rows = scores.sign or 1, []
    for topic, values in zip(scores.topics, scores.values.T.tolist(), strict=True):
        pairs = [
            (value, system)
            for value, system in zip(values, scores.systems, strict=True)
            if not math.isnan(value)
        ]
        if not pairs:
            continue
        mean = math.fsum(value for value, _ in pairs) / len(pairs)
        squares = math.fsum((value - mean) ** 2 for value, _ in pairs)
        lowest, highest = min(pairs), max(pairs, key=lambda pair: pair[0])
        rows.append(
            {
                "metric": str(scores.measure),
                "topic": topic,
                "mean": mean,
                "sd": math.sqrt(squares / (len(pairs) - 1)) if len(pairs) > 1 else None,
                "lowest": lowest[0],
                "lowest_system": lowest[1],
                "highest": highest[0],
                "highest_system": highest[1],
                "n_systems": len(pairs),
            }
        )
    yield from sorted(rows, key=lambda row: (sign * row["mean"], row["topic"]))


def variance_rows(scores: Scores, level: float) -> Iterator[Row]:
    """The variance by system, topic and what neither explains, and the topics that it takes.

    Source: Bodoff and Li, Test theory for assessing IR test collections, SIGIR 2007. With mean
    squares MS of the two-way analysis of variance of S systems and T topics: residual = MS_res,
    system = (MS_sys - MS_res) / T, topic = (MS_top - MS_res) / S, none below 0; the reliability of
    n topics is system / (system + residual / n), which of the topics that there are is 1 - MS_res /
    MS_sys: Cronbach's alpha. Its interval is that of Feldt, The approximate sampling distribution
    of Kuder-Richardson reliability coefficient twenty, Psychometrika 30, 1965: (1 - reliability)
    MS_sys / MS_res has an F distribution; none of its ends is below 0. The interval of the topics
    that it takes has no upper end where that of the reliability begins at 0.

    Args:
        scores: The values of one metric; topics count that have one of each system.
        level: The confidence level of the intervals.
    """
    values = scores.complete
    n_systems, n_topics = values.shape
    if n_systems < 2 or n_topics < 2:
        return
    means, topic_means, mean = values.mean(axis=1), values.mean(axis=0), values.mean()
    residuals = values - means[:, None] - topic_means + mean
    residual = float((residuals**2).sum()) / ((n_systems - 1) * (n_topics - 1))
    of_systems = n_topics * float(((means - mean) ** 2).sum()) / (n_systems - 1)
    of_topics = n_systems * float(((topic_means - mean) ** 2).sum()) / (n_topics - 1)
    system = max(0.0, (of_systems - residual) / n_topics)
    reliability = system / (system + residual / n_topics) if system > 0 else 0.0
    df = n_systems - 1, (n_systems - 1) * (n_topics - 1)
    ratio = residual / of_systems if of_systems else 1.0
    low, high = (max(0.0, 1 - ratio * f_quantile((1 + side * level) / 2, *df)) for side in (1, -1))
    yield {
        "metric": str(scores.measure),
        "system_variance": system,
        "topic_variance": max(0.0, (of_topics - residual) / n_systems),
        "residual_variance": residual,
        "reliability": reliability,
        "reliability_low": low,
        "reliability_high": high,
        "n_topics": n_topics,
        "n_topics_needed": _n_topics_needed(reliability, n_topics),
        "n_topics_low": _n_topics_needed(high, n_topics),
        "n_topics_high": _n_topics_needed(low, n_topics),
    }


def _n_topics_needed(reliability: float, n_topics: int) -> int | None:
    """How many topics it takes to be RELIABLE, by how reliable some are (Spearman and Brown)."""
    if not reliability:
        return None
    needed = n_topics * RELIABLE / (1 - RELIABLE) * (1 - reliability) / reliability
    return max(1, math.ceil(needed - 1e-9))
