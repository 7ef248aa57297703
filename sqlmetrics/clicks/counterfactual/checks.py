"""Whether new lists, policies and propensities are such that something can be estimated of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual.lists import layout_of, matching
from sqlmetrics.clicks.counterfactual.policy import POLICY_ROWS, actions
from sqlmetrics.clicks.counterfactual.terms import SHOWN
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem, refusal
from sqlmetrics.evaluation.inputs.condition import wrong_condition
from sqlmetrics.evaluation.inputs.missing import absent, unreadable
from sqlmetrics.evaluation.report.table import many
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.counterfactual import Counterfactual, Policy
from sqlmetrics.spec.source import Source
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Stage, with_stages
from sqlmetrics.sql.template import literal

LISTS, POLICY = "clicks.counterfactual.rankings", "clicks.counterfactual.policy"
NEAR = 1e-6
"""Probabilities add up to 1 but for this."""


def whole(clicks: Clicks) -> None:
    """Raise SpecError if the cleaning leaves out what was not looked at."""
    if clicks.cleaning.unseen is not None:
        raise SpecError(
            "what was not shown is estimated from whole lists: leave out cleaning.unseen, which "
            "takes away what stands below the last click"
        )


def columns(source: Source, relation: Relation, place: str, engine: Database) -> None:
    """Raise InputError if a table cannot be read, or lacks a column that is wanted of it."""
    try:
        there = engine.columns(source_text(relation))
    except InputError as error:
        what = absent(source, engine) or unreadable(source, relation, error, engine)
        raise InputError(f"{place}: {what}") from None
    folded = {name.casefold() for name in there}
    named = source.columns.model_dump(exclude_none=True)
    if order := getattr(source.columns, "order", None):
        named |= {"score": order} if "rank" not in named else {}
    found = [
        Problem(place, f"{unknown('column', name, there)} (wanted as {role})", 1)
        for role, name in named.items()
        if name.casefold() not in folded
    ]
    if wrong := wrong_condition(source.where, relation, engine):
        found.append(Problem(place, f"where {source.where!r}: {wrong}", 1))
    if found:
        raise InputError(found)


def lists(items: Stage, engine: Database, *, shown: bool = False) -> None:
    """Raise InputError if rows of new lists have no id or order, or repeat an item.

    Args:
        items: The rows.
        engine: Where they are.
        shown: Whether what was shown stands beside them, whose name no system of them may have.
    """
    empty = "item_id is null or list_id is null or ordered_by is null or system is null"
    found = [
        *_rows(engine, items, empty, "{n} without a query, an item, or a score or rank"),
        *_repeated(engine, items, ["system", "list_id", "item_id"], "an item of a list"),
    ]
    if shown:
        told = "a system is called shown, as what the log showed is: name it otherwise ({n})"
        found += _rows(engine, items, f"system = {literal(SHOWN)}", told)
    if found:
        raise refusal(found)


def matched(
    tables: ClickTables,
    asked: Counterfactual,
    items: Stage,
    engine: Database,
    *,
    some: bool = True,
) -> int:
    """How many requests have no new list.

    Raises:
        InputError: If none has one, and `some` must.
    """
    stages = [*matching(tables, asked, items)]
    n_matched = "select count(distinct request_id) from matched_requests"
    shown = tables.of[tables.evaluates]
    n_all = f"select count(distinct request_id) from {shown}"
    last = f"select ({n_matched}) as n_matched, ({n_all}) as n_all"
    ((n_matched_requests, n_requests),) = engine.rows(with_stages(stages, last))
    if some and not n_matched_requests:
        other = "query" if asked.match == "request" else "request"
        raise InputError(
            f"{LISTS}: no list is of a {asked.match} of the log ({many(n_requests, 'request')}); "
            f"lists by {'the text of the query' if other == 'query' else 'request'} take "
            f"match: {other}"
        )
    return int(n_requests) - int(n_matched_requests)


def positions(
    tables: ClickTables, curve: PropensityCurve, engine: Database, last: int
) -> tuple[str, ...]:
    """Look at the positions of the log, and at the places down to the last of `clicks`.

    Returns:
        What a reader must know of those without a propensity.

    Raises:
        SpecError: If the propensities differ by a layout that is not known, or one of the places,
            or all positions of the log, have none.
    """
    if curve.groups != (None,) and not layout_of(tables, curve):
        raise SpecError(
            f"the propensities differ by layout ({', '.join(map(str, curve.groups))}); name the "
            "column that tells it: clicks: {propensity: {by: device}}"
        )
    for group in curve.groups:
        places = range(1, last + 1)
        if beyond := [place for place in places if curve.at(place, group) is None]:
            of = f" of {group}" if group is not None else ""
            raise SpecError(
                f"clicks@{last} needs a propensity of each place down to {last}; none is known of "
                f"{_places(beyond)}{of}"
            )
    shown = tables.evaluates
    view = {"of": tables.of, "shown": shown, "system": f"coalesce({shown}.system, '')"}
    stages = [
        *tables.stages(shown, "answers"),
        Stage("by_position", "clicks/by_position", view),
    ]
    rows = engine.rows(with_stages(stages, "select position, n_shown, n_clicked from by_position"))
    lacking = [one for one in rows if any(curve.at(int(one[0]), g) is None for g in curve.groups)]
    lacks = {int(position) for position, *_ in lacking}
    if rows and len(lacking) == len(rows):
        raise SpecError(f"no propensity is known of {_places(lacks)}, all that the log has")
    if not lacks:
        return ()
    n_shown, n_clicked = (sum(int(one[at]) for one in lacking) for at in (1, 2))
    return (
        f"no propensity is known of {_places(lacks)}: what stood there counts as not shown, "
        f"{many(n_shown, 'impression')} with {many(n_clicked, 'click')}",
    )


def logged(tables: ClickTables, engine: Database) -> int:
    """How many items the log has.

    Raises:
        InputError: If a logged probability is none.
    """
    wrong = "propensity_score is null or propensity_score <= 0 or propensity_score > 1"
    summed = f"sum(case when {wrong} then 1 else 0 end)"
    last = f"select {summed} as n_wrong, count(distinct item_id) as n_items from actions"
    ((n_wrong, n_items),) = engine.rows(with_stages(actions(tables), last))
    if n_wrong:
        raise InputError(
            f"propensity_score is no probability in {many(int(n_wrong), 'impression')}: the "
            "logging policy chose what it showed with a chance above 0 and up to 1"
        )
    return int(n_items)


def logged_lists(tables: ClickTables, engine: Database) -> None:
    """Raise InputError if the logged probability of a list is none, or differs by its rows."""
    shown, score = tables.evaluates, "list_propensity_score"
    wrong = f"{score} is null or {score} <= 0 or {score} > 1"
    each = (
        f"select max(case when {wrong} then 1 else 0 end) as is_wrong, "
        f"case when min({score}) < max({score}) then 1 else 0 end as differs "
        f"from {tables.of[shown]} group by request_id"
    )
    last = f"select sum(is_wrong), sum(differs) from ({each}) as lists"
    ((n_wrong, n_differ),) = engine.rows(with_stages(tables.stages(shown), last))
    if n_wrong:
        raise InputError(
            f"{score} is no probability in {many(int(n_wrong), 'request')}: the logging policy "
            "showed the list with a chance above 0 and up to 1"
        )
    if n_differ:
        raise InputError(
            f"{score} differs within {many(int(n_differ), 'request')}: it is that of the whole "
            "list, in all its rows"
        )


def uniform(asked: int | None, n_items: int) -> int:
    """How many items the uniform policy chooses from.

    Raises:
        SpecError: If the log has more than it was said.
    """
    if asked is not None and asked < n_items:
        raise SpecError(
            f"clicks.counterfactual.actions: the log has {n_items} items, given {asked}"
        )
    return asked or n_items


def policy(source: Policy, rows: Stage, tables: ClickTables, engine: Database) -> None:
    """Raise InputError if a table is no policy: one probability an item and position, 1 in all.

    It has to say something of every position of the log.
    """
    by_position = source.columns.position is not None
    keys = ["item_id", *["position"] * by_position]
    wrong = "item_id is null or probability is null or probability < 0 or probability > 1"
    wrong += " or position is null" * by_position
    found = [
        *_rows(engine, rows, wrong, "{n} without an item and a probability from 0 to 1"),
        *_repeated(
            engine,
            rows,
            keys,
            "a choice",
            "a policy has one probability for each; where they change over time or by user, the "
            "log of another policy does not tell what this one would have chosen, and its value "
            "is not defined",
        ),
    ]
    if found:
        raise refusal(found)
    place = "position" if by_position else "0"
    group = " group by position" if by_position else ""
    summed = f"select {place} as place, sum(probability) as whole from {rows.name}{group}"
    wholes = dict(engine.rows(with_stages([rows], summed)))
    off = [
        f"{whole:.6g}" + f" at position {at}" * by_position
        for at, whole in sorted(wholes.items())
        if abs(whole - 1) > NEAR
    ]
    if off:
        raise InputError(
            f"{POLICY}: the probabilities add up to {', '.join(off[:EXAMPLES])}, and to 1 in a "
            "policy; give those of all items that it can choose"
        )
    if by_position:
        logged_at = "select distinct position from actions"
        there = {int(at) for (at,) in engine.rows(with_stages(actions(tables), logged_at))}
        if lacks := there - {int(at) for at in wholes}:
            raise InputError(f"{POLICY}: nothing is said of {_places(lacks)}, which the log has")


def _rows(engine: Database, rows: Stage, wrong: str, what: str) -> Iterator[Problem]:
    counted = f"select count(*) from {rows.name} where {wrong}"
    ((n,),) = engine.rows(with_stages([rows], counted))
    if n:
        yield Problem(_place(rows), what.format(n=many(int(n), "row")), int(n))


def _repeated(
    engine: Database, rows: Stage, keys: list[str], what: str, remedy: str = ""
) -> Iterator[Problem]:
    names = ", ".join(keys)
    found = f"select {names}, count(*) as n from {rows.name} group by {names} having count(*) > 1"
    ((n,),) = engine.rows(with_stages([rows], f"select count(*) from ({found}) as repeated"))
    if n:
        examples = engine.rows(with_stages([rows], f"{found} order by {names} limit {EXAMPLES}"))
        told = f"{what} stands there more than once, {many(int(n), 'time')}"
        yield Problem(
            _place(rows), told, int(n), (*keys, "rows"), examples, remedy or "keep one row of each"
        )


def _place(rows: Stage) -> str:
    return POLICY if rows.name == POLICY_ROWS else LISTS


def _places(given: Iterable[int]) -> str:
    """Positions, as few words as they take."""
    there = sorted(given)
    if len(there) > 3 and there[-1] - there[0] == len(there) - 1:
        return f"positions {there[0]} to {there[-1]}"
    more = f" and {len(there) - 3} more" if len(there) > 3 else ""
    noun = "position" if len(there) == 1 else "positions"
    return f"{noun} {', '.join(map(str, there[:3]))}{more}"
