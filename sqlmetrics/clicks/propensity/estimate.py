"""How often positions of a log are looked at: whether it can tell, what it tells, how surely."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from math import exp, inf, log
from typing import Any

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.log_rows import ITEM_POSITIONS
from sqlmetrics.clicks.propensity import em
from sqlmetrics.clicks.propensity.curve import Propensity, PropensityCurve, curve_table
from sqlmetrics.clicks.propensity.em import LeastSquares, interval, samples
from sqlmetrics.clicks.propensity.moves import (
    Correction,
    Ends,
    Link,
    Links,
    Moves,
    Standing,
    Sums,
    buckets,
    correction,
    links,
    moved_items,
    moves,
    stage,
    standings,
    view,
)
from sqlmetrics.engines.database import Database
from sqlmetrics.engines.temporary import Step, keeping
from sqlmetrics.errors import InputError, SpecError
from sqlmetrics.spec.click_columns import CLICK
from sqlmetrics.sql.stage import select_of, with_stages
from sqlmetrics.tables.table import Table, printable, wrapped
from sqlmetrics.tables.tabular import ArrowTables, Block, Tabular

# Intervention harvesting: items that stood at several positions tell how these are looked at.
#
# After Agarwal et al., Estimating Position Bias without Intrusive Interventions (WSDM 2019). What
# stood at two positions is as attractive at both, so its clicks differ by how often these are
# looked at. Each two positions give one ratio, over all pairs of a query and an item: that of
# Mantel and Haenszel, which needs no pair to have many clicks. Least squares of its logarithm,
# weighted by the inverse of its variance, put at most k (k - 1) / 2 ratios of k positions together.


def harvested(positions: Sequence[int], strong: Sequence[Link]) -> dict[int, float]:
    """Position -> propensity, against the first position.

    Args:
        positions: The positions of a group; the first is the reference.
        strong: The links that are used; they join all positions.
    """
    fit = _fit(positions, strong)
    logarithms = fit.solved({(link.above, link.below): log(link.ratio) for link in strong})
    return {position: exp(value) for position, value in logarithms.items()}


def resampled_harvest(
    links: Links, positions: Sequence[int], strong: Sequence[Link], count: int
) -> list[dict[int, float]]:
    """The same of so many samples of the queries; those in which a link has no click are left out.

    The weights stay those of the whole log.
    """
    fit, curves = _fit(positions, strong), []
    for sample in samples(links.sums, count):
        sums = _added(links.sums, sample, fit.weights)
        if all(above > 0 and below > 0 for above, below in sums.values()):
            logs = {ends: log(below / above) for ends, (above, below) in sums.items()}
            solved = fit.solved(logs)
            curves.append({position: exp(value) for position, value in solved.items()})
    return curves


def _fit(positions: Sequence[int], strong: Sequence[Link]) -> LeastSquares:
    return LeastSquares(positions, {(link.above, link.below): link.precision for link in strong})


def _added(
    sums: Mapping[float, Mapping[Ends, Sums]],
    sample: Mapping[float, int],
    used: Mapping[Ends, float],
) -> dict[Ends, tuple[float, float]]:
    added = dict.fromkeys(used, (0.0, 0.0))
    for group, times in sample.items():
        for ends, (above, below) in sums[group].items():
            if ends in added:
                so_far = added[ends]
                added[ends] = so_far[0] + times * above, so_far[1] + times * below
    return added


# Propensities from impressions in random order: click rates by position, and nothing else.

Counts = Mapping[int, tuple[float, float]]
"""Position -> impressions and clicks."""


def random_counts(tables: ClickTables, engine: Database) -> dict[str | None, dict[float, Counts]]:
    """Group -> group of queries -> impressions and clicks by position, of what was shuffled.

    Where the log has no queries, groups of items take their place.
    """
    has_query = "query" in tables.names.impressions
    column, unit = ("query_text", "query") if has_query else ("item_id", "item")
    shared = view(tables) | {"column": column, "unit": unit}
    stages = [buckets(tables, column, unit)] if shared["buckets"] else []
    stages.append(stage("random_buckets", shared))
    counts_by_group: dict[str | None, dict[float, dict[int, tuple[float, float]]]] = {}
    for bucket, layout, position, n, c in engine.rows(
        with_stages(stages, "select *\nfrom random_buckets")
    ):
        group = None if tables.clicks.propensity.by is None else str(layout)
        bucket_counts = counts_by_group.setdefault(group, {}).setdefault(
            -1.0 if bucket is None else float(bucket), {}
        )
        bucket_counts[int(position)] = float(n), float(c)
    return {group: dict(counts_by_bucket) for group, counts_by_bucket in counts_by_group.items()}


def random_added(groups: Iterable[tuple[Counts, int]]) -> dict[int, tuple[float, float]]:
    """Position -> impressions and clicks, of groups that each stand there so many times."""
    sums: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for random_counts, times in groups:
        for position, (n, c) in random_counts.items():
            sums[position] = sums[position][0] + times * n, sums[position][1] + times * c
    return dict(sorted(sums.items()))


def relative_rates(sums: Counts, positions: Sequence[int]) -> dict[int, float]:
    """Position -> its click rate over that of the first one."""
    rates = {position: sums[position][1] / sums[position][0] for position in positions}
    return {position: rate / rates[positions[0]] for position, rate in rates.items()}


def resampled_rates(
    groups: Mapping[float, Counts], positions: Sequence[int], count: int
) -> list[dict[int, float]]:
    """The same of so many samples; those in which a position has no click are left out."""
    curves = []
    for sample in samples(groups, count):
        sums = random_added((groups[group], times) for group, times in sample.items())
        if all(sums.get(position, (0.0, 0.0))[1] > 0 for position in positions):
            curves.append(relative_rates(sums, positions))
    return curves


# Can the log answer: do its items move between positions, and are enough of them clicked?
#
# Two positions are linked by the pairs of a query and an item that stood at both and were clicked.
# A link holds as many clicks as those pairs have at that of the two which has fewer. A chain of
# links holds what its weakest one does; a position hangs on the strongest chain to position 1.


@dataclass(frozen=True)
class Reach(Standing):
    """How well a position is tied to position 1.

    Attributes:
        link_clicks: The clicks of the weakest link of its strongest chain to position 1; 0 if
            there is none, infinite at position 1 itself.
    """

    link_clicks: float

    def to_dict(self) -> dict[str, Any]:
        """It, for JSON: without the end of what has none."""
        return vars(self) | {"link_clicks": None if self.link_clicks == inf else self.link_clicks}


@dataclass(frozen=True)
class Identifiability:
    """What a log can tell of a group of positions.

    Attributes:
        positions: Each position with its tie to position 1.
        components: The positions, those together between which a chain of links stands.
        links: All links.
        min_clicks: As many clicks a link needs.
    """

    positions: tuple[Reach, ...]
    components: tuple[tuple[int, ...], ...]
    links: tuple[Link, ...]
    min_clicks: int

    @property
    def strong(self) -> tuple[Link, ...]:
        """The links that hold enough clicks."""
        return tuple(link for link in self.links if link.clicks >= self.min_clicks)

    @property
    def weakest(self) -> float:
        """The clicks on which the worst tied position hangs; infinite if there is one alone."""
        return min(reach.link_clicks for reach in self.positions)

    def problems(self) -> Iterator[str]:
        """Why the propensities of this group cannot be told; nothing if they can."""
        group = self.positions[0].group
        prefix = f"of {printable(group)}: " if group is not None else ""
        if self.positions[0].position != 1:
            yield f"{prefix}no item was shown at position 1, which propensities are relative to"
            return
        first, *other_components = self.components
        if other_components:
            groups = " | ".join(map(spans, self.components))
            yield (
                f"{prefix}positions {groups} are not connected: no clicked item was shown in "
                "several of these groups for the same query"
            )
        tied = (reach for reach in self.positions if reach.position in first)
        weak = [reach for reach in tied if reach.link_clicks < self.min_clicks]
        if weak:
            examples = ", ".join(f"{reach.position} on {reach.link_clicks:,.0f}" for reach in weak)
            yield (
                f"{prefix}positions depend on too few clicks (min_clicks: {self.min_clicks}): "
                f"{examples}"
            )

    def last_known_position(self) -> int:
        """Down to which position the log can answer."""
        last = 0
        for reach in self.positions:
            if reach.link_clicks < self.min_clicks:
                break
            last = reach.position
        return last


def identifiability(
    standings: Sequence[Standing], links: Iterable[Link], min_clicks: int
) -> Identifiability:
    """What a log can tell of a group of positions.

    Args:
        standings: The positions that are to be told, sorted, with what stood there.
        links: Between them.
        min_clicks: As many clicks a link needs.
    """
    positions = {standing.position for standing in standings}
    used = tuple(
        link for link in links if {link.above, link.below} <= positions and link.clicks > 0
    )
    ties = strongest_chains(sorted(positions), used)
    reaches = tuple(
        Reach(
            standing.group,
            standing.position,
            standing.n_impressions,
            standing.n_clicks,
            ties[standing.position],
        )
        for standing in standings
    )
    return Identifiability(reaches, components(sorted(positions), used), used, min_clicks)


def strongest_chains(positions: Sequence[int], links: Iterable[Link]) -> dict[int, float]:
    """Position -> the clicks of the weakest link of its strongest chain to the first position.

    0 where there is no chain; infinite at the first position.
    """
    ties = dict.fromkeys(positions, 0.0) | {positions[0]: inf}
    near: dict[int, list[tuple[int, float]]] = {position: [] for position in positions}
    for link in links:
        near[link.above].append((link.below, link.clicks))
        near[link.below].append((link.above, link.clicks))
    unvisited = set(positions)
    while unvisited:
        best = max(unvisited, key=lambda position: (ties[position], -position))
        unvisited.remove(best)
        for neighbour, clicks in near[best]:
            if neighbour in unvisited:
                ties[neighbour] = max(ties[neighbour], min(ties[best], clicks))
    return ties


def components(positions: Sequence[int], links: Iterable[Link]) -> tuple[tuple[int, ...], ...]:
    """The positions, those together between which a chain of links stands; sorted."""
    home = {position: position for position in positions}
    for link in links:
        old, new = home[link.below], home[link.above]
        home = {
            position: new if component == old else component for position, component in home.items()
        }
    groups = (
        tuple(k for k in positions if home[k] == component)
        for component in dict.fromkeys(home.values())
    )
    return tuple(sorted(groups))


def spans(positions: Sequence[int]) -> str:
    """Positions in few words.

    >>> spans([1, 2, 3, 7, 9, 10])
    '1-3, 7, 9-10'
    """
    runs = groupby(enumerate(sorted(positions)), key=lambda numbered: numbered[1] - numbered[0])
    ends = ([position for _, position in run] for _, run in runs)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ends)


def refusal(identifiability_by_group: Mapping[str | None, Identifiability], method: str) -> str:
    """Why a log cannot tell its propensities, and what to do; empty if it can."""
    problems = [
        problem
        for identified in identifiability_by_group.values()
        for problem in identified.problems()
    ]
    if not problems:
        return ""
    last_position = min(
        identified.last_known_position() for identified in identifiability_by_group.values()
    )
    less = [f"propensity.positions: {last_position}"] if last_position > 1 else []
    ways = [
        *less,
        "more days in the window",
        "traffic in random order (method: randomised)",
        "propensities that you know (method: given)",
    ]
    return (
        f"{method} cannot tell how often users look at each position: {'; '.join(problems)}; use "
        + (", ".join(ways[:-1]) + " or " + ways[-1])
    )


SPARSE = 100
"""With fewer impressions a pair, expectation maximisation is off by 5 % and more: benchmarks."""

MUCH = 0.1
"""A larger share of impressions below the last position, or of weight cut off, is doubtful."""

Samples = Sequence[Mapping[int, float]]

OnRound = Callable[[em.Round], None]
"""Is told each round of expectation maximisation."""


@dataclass(frozen=True, repr=False)
class PropensityEstimate(Tabular):
    """How often positions are looked at, and how surely that is known; it prints as a table.

    Attributes:
        curve: The propensities, with intervals.
        identifiability: Group -> what the log can tell of it; none of given propensities.
        correction: What they do to click rates; None if nothing was clicked.
        moves: The items that tell them, where they are told by items that moved.
        rounds: Of expectation maximisation.
        below: The share of impressions that stood below the last position, 0 to 1.
        tolerance: The change at which expectation maximisation was to end.
    """

    curve: PropensityCurve
    identifiability: Mapping[str | None, Identifiability]
    correction: Correction | None
    moves: Moves | None = None
    rounds: tuple[em.Round, ...] = ()
    below: float = 0.0
    tolerance: float = 1.0

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict a position, for JSON."""
        return self.curve.to_dicts()

    def notes(self) -> tuple[str, ...]:
        """What a reader of corrected numbers must know."""
        summary = f"propensities ({self.curve.method}): {format_curve(self.curve)}"
        return (summary, *self.warnings())

    def warnings(self) -> Iterator[str]:
        """What is doubtful about them, and about rates that are corrected by them."""
        if self.rounds and self.moves and self.moves.impressions_per_pair < SPARSE:
            yield (
                f"em learns {self.moves.n_pairs:,.0f} attractions from "
                f"{self.moves.impressions_per_pair:,.1f} impressions each, which is few: it "
                "overestimates how often users look at lower positions; use method: harvest"
            )
        for last_round in self._last_rounds:
            if last_round.change > self.tolerance:
                suffix = "" if last_round.group is None else f" of {printable(last_round.group)}"
                yield f"em{suffix} did not converge in {last_round.number} rounds (max_rounds)"
        if self.below > MUCH:
            advice = "give" if self.curve.method == "given" else "raise propensity.positions for"
            yield f"{self._note_below}; {advice} the propensities of more positions"
        if self.correction is None:
            yield (
                "none of the impressions with a known propensity was clicked: corrected rates are 0"
            )
            return
        if self.correction.clipped > MUCH:
            yield (
                f"max_weight cuts off {self.correction.clipped:.0%} of the weight of clicks, so "
                "lower positions are under-corrected by that much"
            )
        if warning := self.correction.warning():
            yield warning

    @property
    def _note_below(self) -> str:
        last = max(row.position for row in self.curve.rows)
        return (
            f"{self.below:.1%} of the impressions were below position {last} and do not count in "
            "corrected rates"
        )

    @property
    def _last_rounds(self) -> Iterable[em.Round]:
        """The last round of each group."""
        return {iteration.group: iteration for iteration in self.rounds}.values()

    def _arrow_tables(self) -> ArrowTables:
        return {"positions": self.curve.to_arrow}

    def _blocks(self) -> Iterator[Block]:
        return _curve_blocks(self.curve, self.identifiability, self._lines())

    def _lines(self) -> Iterator[str]:
        if self.moves:
            yield str(self.moves)
        yield from map(str, self._last_rounds)
        if 0 < self.below <= MUCH:
            yield self._note_below
        if self.correction:
            yield str(self.correction)
        yield from (f"note: {warning}" for warning in self.warnings())


@dataclass(frozen=True)
class _GroupEstimate:
    """What an estimator says of a group."""

    propensities: Mapping[int, float]
    samples: Samples


def estimate(
    tables: ClickTables, engine: Database, progress: OnRound | None = None
) -> PropensityEstimate:
    """The propensities of a log that is cleaned; of given ones, what they do to it.

    They are learned from the requests of `labels.window`; without one of those that are not
    evaluated, or of all.

    Args:
        tables: The stages of the log, of which those that clean it are there.
        engine: Where they are.
        progress: Is told each round of expectation maximisation.

    Raises:
        SpecError: If no method is said.
        InputError: If the log cannot tell them, with the numbers that say so.
    """
    propensity_settings = tables.clicks.propensity
    if not propensity_settings.is_known:
        raise SpecError("clicks.propensity has method none; set harvest, em, randomised or given")
    position_tables = replace(tables, keeps_positions=True)
    step = Step(ITEM_POSITIONS, select_of(position_tables.stages_of("item_positions")))
    with nullcontext() if tables.keeps_positions else step.created_in(engine):
        propensity_estimate = _estimated(position_tables, engine, progress)
        corrected_tables = replace(position_tables, propensities=propensity_estimate.curve)
        return replace(propensity_estimate, correction=correction(corrected_tables, engine))


def _estimated(
    tables: ClickTables, engine: Database, progress: OnRound | None
) -> PropensityEstimate:
    """All but what the correction does."""
    propensity_settings = tables.clicks.propensity
    given_curve = PropensityCurve.of(propensity_settings)
    stood = standings(tables, engine)
    last = (
        propensity_settings.positions
        if given_curve is None
        else max(row.position for row in given_curve.rows)
    )
    below = sum(standing.n_impressions for standing in stood if standing.position > last)
    share = below / max(sum(standing.n_impressions for standing in stood), 1.0)
    if given_curve is not None:
        return PropensityEstimate(given_curve, {}, None, below=share)
    if not any(standing.n_clicks for standing in stood if standing.position <= last):
        raise InputError(_nothing(tables, stood))
    groups: dict[str | None, list[Standing]] = defaultdict(list)
    for standing in stood:
        if 1 <= standing.position <= last:
            groups[standing.group].append(standing)
    moved: Moves | None = None
    rounds: tuple[em.Round, ...] = ()
    if propensity_settings.method == "randomised":
        can, answers = _of_random_traffic(tables, engine, groups)
    else:
        with keeping(engine, [moved_items(tables)]):
            moved = moves(engine)
            can, answers, rounds = _of_moves(tables, engine, groups, progress)
    curve = PropensityCurve(
        propensity_settings.method, tuple(_rows(answers, propensity_settings.confidence))
    )
    return PropensityEstimate(curve, can, None, moved, rounds, share, propensity_settings.tolerance)


Groups = Mapping[str | None, Sequence[Standing]]
Can = dict[str | None, Identifiability]
Answers = dict[str | None, _GroupEstimate]


def _of_moves(
    tables: ClickTables, engine: Database, groups: Groups, progress: OnRound | None
) -> tuple[Can, Answers, tuple[em.Round, ...]]:
    """By harvesting, and expectation maximisation from there."""
    propensity_settings = tables.clicks.propensity
    linked, none = links(tables, engine), Links({}, {})
    links_by_group = {group: linked.get(group, none) for group in groups}
    can = {
        group: identifiability(
            stood, links_by_group[group].all.values(), propensity_settings.min_clicks
        )
        for group, stood in groups.items()
    }
    _check(can, propensity_settings.method)
    curve_by_group, positions = {}, {}
    for group, identified in can.items():
        positions[group] = [reach.position for reach in identified.positions]
        curve_by_group[group] = harvested(positions[group], identified.strong)
    if propensity_settings.method == "harvest":
        samples_by_group = {
            group: resampled_harvest(
                links_by_group[group],
                positions[group],
                identified.strong,
                propensity_settings.replicates,
            )
            for group, identified in can.items()
        }
        return (
            can,
            {
                group: _GroupEstimate(curve_by_group[group], samples_by_group[group])
                for group in can
            },
            (),
        )

    limits = em.Limits(
        propensity_settings.tolerance,
        propensity_settings.max_rounds,
        propensity_settings.replicates,
        progress,
    )
    fits = em.fitted(engine, curve_by_group, limits)
    answers = {group: _GroupEstimate(fit.curve, fit.samples) for group, fit in fits.items()}
    return can, answers, tuple(iteration for fit in fits.values() for iteration in fit.rounds)


def _of_random_traffic(
    tables: ClickTables, engine: Database, groups: Groups
) -> tuple[Can, Answers]:
    propensity_settings = tables.clicks.propensity
    counted = random_counts(tables, engine)
    can: Can = {}
    answers: Answers = {}
    for group in groups:
        parts = counted.get(group, {})
        sums = random_added((counts, 1) for counts in parts.values())
        top = sums.get(1, (0.0, 0.0))[1]
        reaches = tuple(
            Reach(group, k, n, c, inf if k == 1 else min(c, top)) for k, (n, c) in sums.items()
        )
        if not reaches:
            raise InputError(
                f"no impression{f' of {group}' if group else ''} meets propensity.randomised: "
                f"{propensity_settings.randomised}, so propensities cannot be estimated"
            )
        can[group] = Identifiability(reaches, (tuple(sums),), (), propensity_settings.min_clicks)
    _check(can, propensity_settings.method)
    for group, identified in can.items():
        positions = [reach.position for reach in identified.positions]
        parts = counted[group]
        sums = random_added((counts, 1) for counts in parts.values())
        curve_samples = resampled_rates(parts, positions, propensity_settings.replicates)
        answers[group] = _GroupEstimate(relative_rates(sums, positions), curve_samples)
    return can, answers


def _check(can: Mapping[str | None, Identifiability], method: str) -> None:
    if problem := refusal(can, method):
        raise InputError(problem)


def _rows(answers: Mapping[str | None, _GroupEstimate], confidence: float) -> Iterator[Propensity]:
    for group, answer in answers.items():
        first = min(answer.propensities)
        for position, propensity in answer.propensities.items():
            values = (sample.get(position) for sample in answer.samples)
            low, high = (None, None) if position == first else interval(values, confidence)
            yield Propensity(position, propensity, low, high, group)


def _nothing(tables: ClickTables, stood: Sequence[Standing]) -> str:
    """Why there is nothing to learn from."""
    days = f" of requests ({tables.learned[0]})" if tables.learned else ""
    n_shown = sum(standing.n_impressions for standing in stood)
    named = f"; a click is an event with the action {CLICK!r}, as it is written in the events"
    return (
        f"propensities cannot be estimated: none of {n_shown:,.0f} impressions{days} at positions "
        f"1 to {tables.clicks.propensity.positions} was clicked"
        f"{named if tables.clicks.log is None else ''}"
    )


def _curve_blocks(
    curve: PropensityCurve,
    can: Mapping[str | None, Identifiability],
    extra_lines: Iterable[str],
) -> Iterator[Block]:
    """Propensities as a table, and below it what they mean.

    Args:
        curve: The propensities.
        can: Group -> what the log can tell of it; none of given propensities.
        extra_lines: More lines.
    """
    table = curve_table(curve)
    ties = {
        (reach.group, reach.position): reach
        for identified in can.values()
        for reach in identified.positions
    }
    if ties:
        rows = zip(table.rows, curve.rows, strict=True)
        cells = [
            [*row, *_tie(ties[propensity.group, propensity.position])] for row, propensity in rows
        ]
        names = [*table.columns, "shown", "clicked", "weakest link"]
        table = Table(names, cells, table.n_labels)
    yield table
    weakest = (_weakest(group, identified) for group, identified in can.items())
    method = f"method: {curve.method}; relative to position 1"
    lines = wrapped([method, *weakest, *extra_lines], break_on_hyphens=False)
    yield f"{lines}\ngiven: {format_curve(curve)}"


def _tie(reach: Reach) -> list[str]:
    link = "-" if reach.link_clicks == inf else f"{reach.link_clicks:,.0f}"
    return [f"{reach.n_impressions:,.0f}", f"{reach.n_clicks:,.0f}", link]


def _weakest(group: str | None, identified: Identifiability) -> str:
    prefix = f"{printable(group)}: " if group is not None else ""
    linked = (
        f"{len(identified.strong)} links of {identified.min_clicks} clicks or more; "
        if identified.links
        else ""
    )
    return f"{prefix}{linked}the worst tied position depends on {identified.weakest:,.0f} clicks"


def format_curve(curve: PropensityCurve) -> str:
    """The curve as the spec's `propensity.given` takes it."""
    curves: dict[str | None, list[str]] = {}
    for row in curve.rows:
        curves.setdefault(row.group, []).append(f"{row.position}: {row.propensity:.6g}")
    text_by_group = {group: "{" + ", ".join(entries) + "}" for group, entries in curves.items()}
    if None in text_by_group:
        return text_by_group[None]
    return (
        "{"
        + ", ".join(f"{group}: {group_text}" for group, group_text in text_by_group.items())
        + "}"
    )
