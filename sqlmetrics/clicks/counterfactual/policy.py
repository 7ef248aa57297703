"""A policy that did not choose, weighed by the logged probabilities of the one that did.

Over the n impressions, each an action a at a position p with its click c, w = pi_e(a | p) / pi_0,
where pi_0 is the logged `propensity_score`:

- ips = 1/n sum w c. Horvitz and Thompson 1952; Strehl et al. 2010.
- clipped_ips: min(w, clip) in place of w. Swaminathan and Joachims 2015a.
- snips = sum w c / sum w. Swaminathan and Joachims 2015b.
- dr = 1/n sum (sum_a pi_e(a | p) q(a, p) + min(w, clip) (c - q(a, p))), with the reward model
  q = (clicks + prior mean) / (impressions + prior) of the item at the position; what was never
  logged there has the mean. Dudik, Langford and Li 2011; Saito, Aihara, Matsutani and Narita 2021.
- naive = 1/n sum c, what the logging policy got.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlmetrics.catalog.counterfactual import EstimatedMetric
from sqlmetrics.clicks.cleaning import ClickTables
from sqlmetrics.clicks.counterfactual.lists import layout_of, matching
from sqlmetrics.clicks.counterfactual.terms import (
    SHOWN_SYSTEM,
    Question,
    Term,
    clipped,
    of_logged,
    segment_value,
    segments_of,
)
from sqlmetrics.clicks.propensity.curve import PropensityCurve
from sqlmetrics.engines.database import Database
from sqlmetrics.errors import InputError, SpecError, unknown
from sqlmetrics.evaluation.checks.problem import EXAMPLES, Problem, refusal
from sqlmetrics.evaluation.inputs.paths import absent, unreadable
from sqlmetrics.evaluation.inputs.sources import wrong_condition
from sqlmetrics.plan.shape import segment
from sqlmetrics.spec.click_log import Clicks
from sqlmetrics.spec.counterfactual import Counterfactual, Policy
from sqlmetrics.spec.source import Source
from sqlmetrics.sql.relation import Relation, source_text
from sqlmetrics.sql.stage import Column, Stage, with_stages
from sqlmetrics.sql.template import double, identifier, literal, verbatim
from sqlmetrics.tables.table import many

POLICY_ROWS = "policy_rows"
"""The stage of a policy that is a table; the table itself may be called `policy`."""


def actions(tables: ClickTables, day: Column | None = None, by: Sequence[str] = ()) -> list[Stage]:
    """The stages to one row per impression."""
    stage_name = tables.evaluates
    values = [
        Column(segment_value(f"{stage_name}.{column}"), segment(name))
        for name, column in segments_of(tables, by).items()
    ]
    log = {"of": tables.of, "impressions": stage_name, "day": day, "segments": values}
    return [*tables.stages(stage_name, "answers"), _stage("actions", **log)]


def policy_rows(source: Policy, relation: Relation) -> Stage:
    """The rows of a policy, under the names of the stages."""
    columns = source.columns
    position = f"cast({identifier(columns.position)} as bigint)" if columns.position else ""
    view = {
        "about": "one row per item and position: the probability that the policy chooses it",
        "columns": [
            Column(f"cast({identifier(columns.item)} as varchar)", "item_id"),
            *([Column(position, "position")] if position else []),
            Column(f"cast({identifier(columns.probability)} as double)", "probability"),
        ],
        "relation": relation,
        "conditions": [verbatim(source.where)] if source.where else [],
    }
    return Stage(POLICY_ROWS, "clicks/table", view)


def question(
    tables: ClickTables,
    counterfactual: Counterfactual,
    rows: Stage | None,
    n_items: int,
    day: Column | None = None,
    *,
    by: Sequence[str] = (),
    has_shown: bool = False,
) -> Question:
    """The sums of the estimates of a policy.

    Args:
        tables: The stages of the log.
        counterfactual: What is asked, of `policy`.
        rows: The stage of the policy's rows; None for the uniform one.
        n_items: How many items the uniform one chooses from.
        day: The day of a row of the log, if each is estimated by itself.
        by: The segments of the log that are estimated too.
        has_shown: Whether the policy that chose stands beside it, as a system
            `SHOWN_SYSTEM`: its weights are 1.
    """
    source = counterfactual.policy
    is_table = isinstance(source, Policy)
    by_position = isinstance(source, Policy) and source.columns.position is not None
    view = {
        "policy": is_table,
        "by_position": by_position,
        "n_items": double(n_items),
        "prior": double(counterfactual.prior),
        "probability": "coalesce(policy.probability, 0e0)" if is_table else _share(n_items),
        "clipped": [clipped("weight", counterfactual.clip)],
        "system": literal(counterfactual.title),
        "columns": list(_added()),
        "day": day,
        "sum": tables.names.at.sum,
        "by": [segment(name) for name in segments_of(tables, by)],
        "shown_lists": {"system": literal(SHOWN_SYSTEM), "columns": list(_of_shown())}
        if has_shown
        else None,
    }
    names = ("action_mean", "action_rates", "expected_rates", "weighed_actions")
    stages = [
        *([rows] if rows else []),
        *actions(tables, day, by),
        *(_stage(name, **view) for name in (*names, "clipped_actions", "action_sums")),
    ]
    counts = ("n_impressions", "ctr_n_clicks")
    estimated = [term(metric) for metric in counterfactual.estimated]
    segments = [*segments_of(tables, by)]
    return Question(stages, estimated, counts, day, segments, tables.names.at)


def term(estimated_metric: EstimatedMetric) -> Term:
    """What an estimate of a policy is made of."""
    return of_logged(estimated_metric, "n_impressions", sample="n_impressions")


def _share(n_items: int) -> str:
    return f"(1e0 / {n_items})"


def _added() -> Iterator[Column]:
    """What an impression adds."""
    stage = "clipped_actions"
    yield Column(f"{stage}.is_clicked", "ctr_naive")
    yield Column(f"{stage}.is_clicked", "ctr_n_clicks")
    yield Column(f"{stage}.is_clicked * {stage}.weight", "ctr_ips")
    yield Column(f"{stage}.is_clicked * {stage}.clipped_weight", "ctr_clipped_ips")
    change = f"{stage}.clipped_weight\n    * ({stage}.is_clicked - action_rates.rate)"
    yield Column(f"expected_rates.expected_rate + {change}", "ctr_dr")
    for name, weight in (
        ("squares", f"{stage}.weight"),
        ("clipped_squares", f"{stage}.clipped_weight"),
    ):
        yield Column(f"{weight} * {weight}", name)
    yield Column(f"{stage}.weight", "weight")
    yield Column(f"{stage}.clipped_weight", "clipped_weight")
    yield Column("expected_rates.unknown", "unknown")


def _of_shown() -> Iterator[Column]:
    """What an impression adds to what the policy got that chose it."""
    clicked = "clipped_actions.is_clicked"
    counts = {"ctr_naive": clicked, "ctr_n_clicks": clicked, "unknown": "0e0"}
    for name in (column.name for column in _added()):
        estimate = f"1e0 * {clicked}" if name.startswith("ctr") else "1e0"
        yield Column(counts.get(name, estimate), name)


def _stage(name: str, **view: object) -> Stage:
    return Stage(name, f"clicks/counterfactual/{name}", view)


# Whether new lists, policies and propensities are such that something can be estimated of them.

LISTS, POLICY = "clicks.counterfactual.rankings", "clicks.counterfactual.policy"
NEAR = 1e-6
"""Probabilities add up to 1 but for this."""


def check_cleaning(clicks: Clicks) -> None:
    """Raise SpecError if the cleaning leaves out what was not looked at."""
    if clicks.cleaning.unseen is not None:
        raise SpecError(
            "lists that were not shown are estimated from whole lists; leave out "
            "cleaning.unseen, which removes the items below the last click"
        )


def columns(source: Source, relation: Relation, spec_key: str, engine: Database) -> None:
    """Raise InputError if a table cannot be read, or lacks a column that is wanted of it."""
    try:
        existing_columns = engine.columns(source_text(relation))
    except InputError as error:
        message = absent(source, engine) or unreadable(source, relation, error, engine)
        raise InputError(f"{spec_key}: {message}") from None
    folded = {name.casefold() for name in existing_columns}
    column_by_role = source.columns.model_dump(exclude_none=True)
    if order := getattr(source.columns, "order", None):
        column_by_role |= {"score": order} if "rank" not in column_by_role else {}
    problems = [
        Problem(spec_key, f"{unknown('column', name, existing_columns)} (used as {role})", 1)
        for role, name in column_by_role.items()
        if name.casefold() not in folded
    ]
    if wrong := wrong_condition(source.where, relation, engine):
        problems.append(Problem(spec_key, f"where {source.where!r}: {wrong}", 1))
    if problems:
        raise InputError(problems)


def lists(items: Stage, engine: Database, *, has_shown: bool = False) -> None:
    """Raise InputError if rows of new lists have no id or order, or repeat an item.

    Args:
        items: The rows.
        engine: Where they are.
        has_shown: Whether what was shown stands beside them, whose name no system of them may have.
    """
    empty = "item_id is null or list_id is null or ordered_by is null or system is null"
    problems = [
        *_rows(engine, items, empty, "{n} without a query, an item, or a score or rank"),
        *_repeated(engine, items, ["system", "list_id", "item_id"], "an item of a list"),
    ]
    if has_shown:
        message = "a system is called shown, the name of the logged lists; rename it ({n})"
        problems += _rows(engine, items, f"system = {literal(SHOWN_SYSTEM)}", message)
    if problems:
        raise refusal(problems)


def matched(
    tables: ClickTables,
    counterfactual: Counterfactual,
    items: Stage,
    engine: Database,
    *,
    required: bool = True,
) -> int:
    """How many requests have no new list.

    Raises:
        InputError: If none has one, and `required` must.
    """
    stages = [*matching(tables, counterfactual, items)]
    n_matched = "select count(distinct request_id) from matched_requests"
    impressions = tables.of[tables.evaluates]
    n_all = f"select count(distinct request_id) from {impressions}"
    last = f"select ({n_matched}) as n_matched, ({n_all}) as n_all"
    ((n_matched_requests, n_requests),) = engine.rows(with_stages(stages, last))
    if required and not n_matched_requests:
        other_match = "query" if counterfactual.match == "request" else "request"
        raise InputError(
            f"{LISTS}: no list matches a {counterfactual.match} of the log "
            f"({many(n_requests, 'request')}); for lists by "
            f"{'the text of the query' if other_match == 'query' else 'request'} set match: "
            f"{other_match}"
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
            "column of the layout: clicks: {propensity: {by: device}}"
        )
    for group in curve.groups:
        places = range(1, last + 1)
        if beyond := [position for position in places if curve.at(position, group) is None]:
            suffix = f" of {group}" if group is not None else ""
            raise SpecError(
                f"clicks@{last} needs the propensity of each position down to {last}; it is "
                f"unknown for {_places(beyond)}{suffix}"
            )
    stage_name = tables.evaluates
    view = {
        "of": tables.of,
        "impressions": stage_name,
        "system": f"coalesce({stage_name}.system, '')",
    }
    stages = [
        *tables.stages(stage_name, "answers"),
        Stage("by_position", "clicks/by_position", view),
    ]
    rows = engine.rows(with_stages(stages, "select position, n_shown, n_clicked from by_position"))
    lacking = [row for row in rows if any(curve.at(int(row[0]), g) is None for g in curve.groups)]
    lacks = {int(position) for position, *_ in lacking}
    if rows and len(lacking) == len(rows):
        raise SpecError(
            f"no propensity is known for {_places(lacks)}, and the log has no other positions"
        )
    if not lacks:
        return ()
    n_shown, n_clicked = (sum(int(row[index]) for row in lacking) for index in (1, 2))
    return (
        f"no propensity is known for {_places(lacks)}, so what was shown there counts as not "
        f"shown: {many(n_shown, 'impression')} with {many(n_clicked, 'click')}",
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
            f"propensity_score is not a probability in {many(int(n_wrong), 'impression')}: it "
            "must be above 0 and at most 1, the chance that the logging policy showed the item"
        )
    return int(n_items)


def logged_lists(tables: ClickTables, engine: Database) -> None:
    """Raise InputError if the logged probability of a list is none, or differs by its rows."""
    stage_name, score = tables.evaluates, "list_propensity_score"
    wrong = f"{score} is null or {score} <= 0 or {score} > 1"
    per_list = (
        f"select max(case when {wrong} then 1 else 0 end) as is_wrong, "
        f"case when min({score}) < max({score}) then 1 else 0 end as differs "
        f"from {tables.of[stage_name]} group by request_id"
    )
    last = f"select sum(is_wrong), sum(differs) from ({per_list}) as lists"
    ((n_wrong, n_differ),) = engine.rows(with_stages(tables.stages(stage_name), last))
    if n_wrong:
        raise InputError(
            f"{score} is not a probability in {many(int(n_wrong), 'request')}: it must be above 0 "
            "and at most 1, the chance that the logging policy showed the list"
        )
    if n_differ:
        raise InputError(
            f"{score} differs within {many(int(n_differ), 'request')}: it belongs to the whole "
            "list, so all rows of a request must have the same value"
        )


def uniform(n_actions: int | None, n_items: int) -> int:
    """How many items the uniform policy chooses from.

    Raises:
        SpecError: If the log has more than it was said.
    """
    if n_actions is not None and n_actions < n_items:
        raise SpecError(
            f"clicks.counterfactual.actions: the log has {n_items} items, but actions is "
            f"{n_actions}; give {n_items} or more"
        )
    return n_actions or n_items


def policy(source: Policy, rows: Stage, tables: ClickTables, engine: Database) -> None:
    """Raise InputError if a table is no policy: one probability an item and position, 1 in all.

    It has to say something of every position of the log.
    """
    by_position = source.columns.position is not None
    keys = ["item_id", *["position"] * by_position]
    wrong = "item_id is null or probability is null or probability < 0 or probability > 1"
    wrong += " or position is null" * by_position
    problems = [
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
    if problems:
        raise refusal(problems)
    position_sql = "position" if by_position else "0"
    group = " group by position" if by_position else ""
    summed = f"select {position_sql} as position, sum(probability) as total from {rows.name}{group}"
    wholes = dict(engine.rows(with_stages([rows], summed)))
    off = [
        f"{total:.6g}" + f" at position {position}" * by_position
        for position, total in sorted(wholes.items())
        if abs(total - 1) > NEAR
    ]
    if off:
        raise InputError(
            f"{POLICY}: the probabilities of a policy must add up to 1, and here they add up to "
            f"{', '.join(off[:EXAMPLES])}; give those of all items that it can choose"
        )
    if by_position:
        logged_at = "select distinct position from actions"
        logged_positions = {
            int(position) for (position,) in engine.rows(with_stages(actions(tables), logged_at))
        }
        if lacks := logged_positions - {int(position) for position in wholes}:
            raise InputError(
                f"{POLICY}: the policy has no probabilities for {_places(lacks)}, which the log has"
            )


def _rows(engine: Database, rows: Stage, wrong: str, message: str) -> Iterator[Problem]:
    counted = f"select count(*) from {rows.name} where {wrong}"
    ((n,),) = engine.rows(with_stages([rows], counted))
    if n:
        yield Problem(_source_key(rows), message.format(n=many(int(n), "row")), int(n))


def _repeated(
    engine: Database, rows: Stage, keys: list[str], subject: str, remedy: str = ""
) -> Iterator[Problem]:
    names = ", ".join(keys)
    repeats = f"select {names}, count(*) as n from {rows.name} group by {names} having count(*) > 1"
    ((n,),) = engine.rows(with_stages([rows], f"select count(*) from ({repeats}) as repeated"))
    if n:
        examples = engine.rows(with_stages([rows], f"{repeats} order by {names} limit {EXAMPLES}"))
        message = f"{subject} appears more than once, {many(int(n), 'time')}"
        yield Problem(
            _source_key(rows),
            message,
            int(n),
            (*keys, "rows"),
            examples,
            remedy or "keep one row of each",
        )


def _source_key(rows: Stage) -> str:
    return POLICY if rows.name == POLICY_ROWS else LISTS


def _places(numbers: Iterable[int]) -> str:
    """Positions, as few words as they take."""
    in_order = sorted(numbers)
    if len(in_order) > 3 and in_order[-1] - in_order[0] == len(in_order) - 1:
        return f"positions {in_order[0]} to {in_order[-1]}"
    remainder = f" and {len(in_order) - 3} more" if len(in_order) > 3 else ""
    noun = "position" if len(in_order) == 1 else "positions"
    return f"{noun} {', '.join(map(str, in_order[:3]))}{remainder}"
